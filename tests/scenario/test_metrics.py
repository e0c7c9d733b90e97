"""/metrics, read as Prometheus reads it."""
import math
import re
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from lib.ccmd import machine
from lib.faultproxy import EVENTS_PATH, NODES_PATH, answer, error_event, insert
from lib.nodes import create_many, is_initialized, numbered_ip
from lib.process import REPOSITORY
from lib.serving import Metrics
from lib.wait import wait_for

PAGE = REPOSITORY / "docs" / "reference" / "metrics.md"
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def lint(text):
    """What promtool would say, and a little more."""
    typed, seen, current = {}, set(), None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert current not in typed, f"{current}: two TYPE lines"
            typed[current] = kind
        elif line.startswith("# HELP "):
            assert line.split(" ", 3)[3], f"no help: {line}"
        elif not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name = re.match(r"[a-z_:][a-z0-9_:]*", series)[0]
            base = re.sub(r"_(bucket|sum|count)$", "", name) if typed[current] == "histogram" else name
            assert base == current, f"{series} is not below its TYPE line"
            assert series not in seen, f"twice: {series}"
            seen.add(series)
            float(value)
            if typed[current] == "counter":
                assert name.endswith("_total"), name
    for name, kind in typed.items():
        if kind == "histogram":
            lint_histogram(name, text)


def lint_histogram(name, text):
    buckets = {}
    for labels, value in re.findall(rf"^{name}_bucket\{{(.*)\}} (\S+)$", text, re.M):
        rest, bound = re.match(r'(.*?),?le="([^"]*)"$', labels).groups()
        buckets.setdefault(rest, []).append((float(bound), float(value)))
    counts = {labels: float(value) for labels, value in re.findall(rf"^{name}_count(?:\{{(.*)\}})? (\S+)$", text, re.M)}
    assert buckets and buckets.keys() == counts.keys(), name
    for labels, found in buckets.items():
        assert found == sorted(found) and [value for _, value in found] == sorted(value for _, value in found), name
        assert math.isinf(found[-1][0]) and found[-1][1] == counts[labels], name


def test_prometheus_can_read_them_all(api, inventory, kubelet, scraped):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    _, scrape, server = scraped()
    api.wait_node("n1", is_initialized)
    metrics = scrape()
    lint(metrics.text)
    response = server.get("/metrics", Accept=OPENMETRICS)
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    same = Metrics(response.text, parse_openmetrics)
    assert same.value("workqueue_adds_total", name="Nodes") >= 1
    assert {sample.name for family in same.families.values() for sample in family.samples} >= {
        sample.name for family in metrics.families.values() for sample in family.samples}


def test_nothing_is_compressed_even_for_clients_that_accept_it(api, scraped):
    """As Prometheus asks. docs/dev/optimisation.md says why not."""
    _, _, server = scraped()
    response = server.get("/metrics", **{"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in response.headers and "# TYPE" in response.text


def test_every_family_is_on_the_reference_page(api, inventory, kubelet, scraped):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    _, scrape, _ = scraped()
    api.wait_event("n1", "Synced")
    page = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(), re.M))
    shown = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scrape().text, re.M))
    assert shown.items() <= page.items()


def test_metrics_count_what_was_done(api, inventory, kubelet, scraped):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    one, scrape, _ = scraped()
    api.wait_event("n1", "Synced")
    wait_for(lambda: scrape().value("ccmd_events_written_total") == 1, what="the event to be counted")
    metrics = scrape()
    value = metrics.value
    assert value("rest_client_requests_total", method="PATCH", code="200") >= 1
    assert value("rest_client_requests_total", method="POST", code="201") == 1
    assert value("rest_client_requests_total", method="GET", code="200") >= 2, "the list, and the watch"
    assert value("rest_client_request_duration_seconds_count", verb="PATCH") >= 1
    assert value("rest_client_request_size_bytes_sum", verb="POST") > 100
    assert value("node_controller_initial_node_sync_delay_seconds_count") == 1
    assert value("workqueue_depth", name="Nodes") == 0 and value("workqueue_unfinished_work_seconds", name="Nodes") == 0
    assert value("running_managed_controllers", name="cloud-node", manager="cloud-controller-manager") == 1
    assert value("ccmd_reflector_synced", kind="Node") == 1 and value("ccmd_reflector_objects", kind="Node") == 1
    assert 0 < value("ccmd_reflector_watch_age_seconds", kind="Node") < 60
    assert abs(value("ccmd_reflector_last_event_timestamp_seconds", kind="Node") - time.time()) < 60
    assert value("informer_store_resource_version", resource="nodes", version="v1") > 0
    assert value("ccmd_fence_remaining_seconds", lease="none") == math.inf, "without election"
    assert abs(value("process_resident_memory_bytes") / 1024 - one.rss_kib()) < 4096
    assert abs(value("process_start_time_seconds") - time.time()) < 60
    assert value("process_open_fds") > 5 and value("process_cpu_seconds_total") > 0
    assert value("kubernetes_build_info") == 1 and value("ccmd_build_info") == 1
    assert value("ccmd_client_request_limit") >= 4


def test_connections_and_look_ups_are_counted(api, cluster, scraped):
    """Buckets, too, are those of the Go programs."""
    _, scrape, _ = scraped(kubeconfig=cluster.kubeconfig("by-name", url=f"https://localhost:{cluster.port}"))
    wait_for(lambda: scrape().value("ccmd_reflector_synced", kind="Node") == 1, what="the list")
    wait_for(lambda: scrape().value("ccmd_reflector_watch_age_seconds", kind="Node"), what="the watch")
    metrics = scrape()
    name = "rest_client_dns_resolution_duration_seconds"
    assert metrics.value(f"{name}_count", host="localhost") >= 2, "the health check's connection, and the watch's"
    bounds = [float(one.labels["le"]) for one in metrics.samples(f"{name}_bucket")]
    assert bounds == [.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, math.inf]
    assert metrics.value("rest_client_transport_cache_entries") == 1
    assert metrics.value("rest_client_transport_create_calls_total", result="miss") == 1
    assert metrics.value("rest_client_transport_create_calls_total", result="hit") >= 3


def test_without_look_ups_nothing_is_counted(api, kubelet, inventory, scraped):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    _, scrape, _ = scraped()
    api.wait_node("n1", is_initialized)
    assert "rest_client_dns_resolution" not in scrape().text


def test_counters_of_problems_exist_from_the_start(robot, hetzner, scraped):
    """increase() does not see a series that appears with 1."""
    _, scrape, _ = scraped(program=hetzner, env={"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user,
                                               "ROBOT_PASSWORD": robot.password})
    first = scrape()
    for name, labels in [
            ("ccmd_events_dropped_total", {"reason": "failed"}), ("ccmd_node_deletion_decisions_total", {"outcome": "breaker"}),
            *(("rest_client_requests_total", {"code": "403", "method": one}) for one in ("GET", "POST", "PUT", "PATCH", "DELETE")),
            *(("hcloud_api_requests_total", {"code": "401", "api_endpoint": one})
              for one in ("/servers", "/servers/-", "/load_balancers", "/networks/-")),
            ("hcloud_api_throttled_total", {"urgency": "urgent"}),
            ("hrobot_api_requests_total", {"code": "401"}), ("hrobot_api_requests_total", {"code": "403"})]:
        assert first.value(name, **labels) == 0, (name, labels)


def test_problems_show_in_metrics(api, inventory, kubelet, proxy, scraped):
    inventory.add(machine("n1", "10.0.0.1"))
    proxy.on("POST", EVENTS_PATH, answer(403))
    gone = proxy.on("GET", NODES_PATH, insert([error_event(410)]), watch=True)
    one, scrape, _ = scraped()
    one.may_be_refused = True
    gone.wait_hit()
    kubelet("n1")
    api.wait_node("n1", is_initialized)
    wait_for(lambda: scrape().value("ccmd_events_dropped_total", reason="failed") == 1, what="the refused event")
    wait_for(lambda: scrape().value("ccmd_reflector_relists_total", kind="Node", reason="gone") == 1, what="the new list")
    assert scrape().value("rest_client_requests_total", method="POST", code="403") == 1


def test_objects_make_no_series(api, inventory, scraped):
    """As many series with 300 nodes as with none; and a scrape costs little."""
    count = 300
    inventory.add(*(machine(f"node-{n:05}", numbered_ip(n)) for n in range(count)))
    one, scrape, server = scraped()
    create_many(api, count, real_sized=False)
    wait_for(lambda: scrape().value("node_controller_initial_node_sync_delay_seconds_count") == count, what="all nodes")
    text = scrape().text
    assert "node-0" not in text and len(text.splitlines()) < 1500 and len(text) < 100_000
    begun = one.cpu_seconds()
    for _ in range(200):
        server.get("/metrics")
    each_ms = (one.cpu_seconds() - begun) / 200 * 1000
    print(f"a scrape: {len(text)} bytes, {each_ms:.2f} ms of CPU")
    assert each_ms < 20
