"""Faults of API servers and networks that a watching client meets: no change is lost, and no resource grows."""
import json
import random
import re
import time

import pytest

from lib import role
from lib.api import NODES, STRATEGIC
from lib.ccmd import machine, sanitized
from lib.faultproxy import (
    EVENTS_PATH, NODE_PATH, NODES_PATH, STATUS_PATH, answer, cut_events, cut_headers, delay, end_events, error_event, insert,
    raw, silence, stall, stream,
)
from lib.nodes import CLOUD_TAINT, addresses, create_many, in_parallel, is_initialized, numbered_ip, taint_keys
from lib.wait import holds_for, wait_for

RECOVERY_S = 20  # back-off starts at 0.8 to 1.6 s and doubles


def initialized(api, name="n1", timeout=RECOVERY_S):
    return api.wait_node(name, is_initialized, timeout, f"{name} to be initialised")


@pytest.fixture
def n1(inventory, kubelet):
    """n1() registers it; its machine is there from the start."""
    inventory.add(machine("n1", "10.0.0.1", "fd00::1"), machine("n2", "10.0.0.2"))
    return lambda **options: kubelet("n1", **options)


def lists(proxy, since=0):
    return proxy.requests("GET", NODES_PATH, watch=False, since=since)


def watches(proxy, since=0):
    return proxy.requests("GET", NODES_PATH, watch=True, since=since)


# --- watches that end ----------------------------------------------------------------------------------------------------


def test_a_watch_is_made_as_it_should(n1, proxy, ccmd):
    ccmd()
    first = proxy.wait_watching()
    (listed,) = lists(proxy)
    assert listed.query["resourceVersion"] == "0" and "limit" not in listed.query
    assert first.query["allowWatchBookmarks"] == "true" and 300 <= int(first.query["timeoutSeconds"]) <= 600
    assert int(first.query["resourceVersion"]) > 0
    assert "gzip" not in first.headers.get("accept-encoding", "")


def test_the_user_agent_names_program_and_controller(api, n1, proxy, ccmd):
    """As with the Go programs: the audit log shows which controller sent a request."""
    ccmd()
    n1()
    proxy.wait_watching()
    api.wait_event("n1", "Synced")
    agents = {request.headers["user-agent"] for request in proxy.requests()}
    parts = [re.fullmatch(r"ccmd/[0-9.]+ \(linux/[a-z0-9]+\) kubernetes/([0-9a-f]{7}|unknown)/([a-z-]+)", one) for one in agents]
    assert all(parts), agents
    assert {one[2] for one in parts} == {"cloud-controller-manager", "shared-informers", "node-controller"}
    assert len({one[1] for one in parts}) == 1


@pytest.mark.parametrize("orderly", [False, True], ids=["reset", "closed"])
@pytest.mark.parametrize("inside", [True, False], ids=["inside an object", "between two"])
def test_a_broken_watch_is_resumed_where_it_was(api, n1, kubelet, proxy, ccmd, settled, inside, orderly):
    proxy.on("GET", NODES_PATH, cut_events(3, inside=inside, orderly=orderly), watch=True)
    ccmd()
    proxy.wait_watching()
    n1()  # its registration and the two writes are the three events
    initialized(api)
    kubelet("n2")
    initialized(api, "n2")
    settled()
    assert len(lists(proxy)) == 1, "no second list"
    versions = [int(one.query["resourceVersion"]) for one in watches(proxy)]
    assert len(versions) >= 2 and versions == sorted(versions) and versions[1] > versions[0]
    assert len(proxy.writes(node="n1")) == 2 and len(proxy.writes(node="n2")) == 2, "and nothing was done twice"


def test_a_watch_cut_in_its_headers(api, n1, proxy, ccmd):
    rule = proxy.on("GET", NODES_PATH, cut_headers(), watch=True, times=2)
    ccmd()
    rule.wait_hit()
    n1()
    initialized(api)


@pytest.mark.plain
def test_watches_that_end_immediately_cause_no_storm(api, n1, proxy, ccmd):
    rule = proxy.on("GET", NODES_PATH, end_events(0), watch=True, times=None)
    ccmd()
    rule.wait_hit()
    mark = proxy.mark()
    holds_for(lambda: len(proxy.requests(since=mark)) <= 6, 3, "few requests")
    proxy.clear()
    n1()
    initialized(api)


def test_a_watch_that_ends_well_is_resumed_immediately(api, n1, kubelet, proxy, ccmd):
    n1()
    proxy.on("GET", NODES_PATH, end_events(2), watch=True)
    ccmd()
    initialized(api)
    kubelet("n2")
    initialized(api, "n2", timeout=15)
    assert len(lists(proxy)) == 1


@pytest.mark.parametrize(
    "gone",
    [lambda: insert([error_event(410)]), lambda: insert([error_event(410, "Gone", "gone")]), lambda: answer(410)],
    ids=["event, Expired", "event, Gone", "HTTP status"],
)
def test_410_leads_to_a_new_list_that_loses_nothing(api, n1, kubelet, proxy, ccmd, gone):
    n1()
    one = kubelet("n2")
    rule = proxy.on("GET", NODES_PATH, gone(), watch=True)
    proxy.on("GET", NODES_PATH, delay(0.3), watch=False, skip=1)
    ccmd()
    rule.wait_hit()
    one.delete()
    kubelet("n2")
    initialized(api)
    initialized(api, "n2")
    assert len(lists(proxy)) >= 2


def test_a_version_too_large_is_asked_for_again(api, n1, proxy, ccmd):
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Timeout", "code": 504,
            "message": "Timeout: Too large resource version: 99, current: 9",
            "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                        "retryAfterSeconds": 1}}
    proxy.on("GET", NODES_PATH, answer(504, body, {"Retry-After": "1"}), watch=False, times=2)
    n1()
    ccmd()
    initialized(api)


def test_a_node_deleted_between_two_watches_is_forgotten(api, n1, kubelet, proxy, ccmd, settled):
    """Deleted and re-created between two watches that a 410 separates: the new one is initialised, the old one not missed."""
    one = ccmd()
    proxy.wait_watching()
    old = n1()
    initialized(api)
    one.wait_log("node initialised")  # without the answer to its last PATCH ccmd would not know that the old one was
    proxy.on("GET", NODES_PATH, answer(410), watch=True)
    proxy.refuse()
    old.delete()
    n1()
    proxy.accept_again()
    initialized(api)
    assert len(api.events("n1", "Synced")) <= 2
    # an event that met the refused connections is sent again after up to 10 s, then every 10 s
    wait_for(lambda: len(api.events("n1", "Synced")) == 2, timeout=40, what="an event for each of the two")


# --- the API server goes away --------------------------------------------------------------------------------------------


@pytest.mark.plain
def test_the_api_server_is_killed_under_load(cluster, api, inventory, ccmd):
    count = 300
    names = [f"load-{number:05d}" for number in range(count)]
    inventory.add(*(machine(name, numbered_ip(number), ("ExternalIP", f"198.51.100.{number % 250}"))
                    for number, name in enumerate(names)))
    one = ccmd()
    create_many(api, count // 2, prefix="load")
    wait_for(lambda: any(is_initialized(node) for node in api.list(NODES)), what="the work to begin")
    cluster.restart_apiserver(kill=True)
    create_many(api, count - count // 2, prefix="load", first=count // 2)
    wait_for(lambda: all(is_initialized(node) for node in api.list(NODES)), 60, "all to be initialised", poll=0.25)
    nodes = api.list(NODES)
    assert len(nodes) == count
    for node in nodes:
        assert node["spec"]["providerID"] == f"cloudlycke://m-{node['metadata']['name']}"
        assert len(addresses(node)) == 3
    assert one.running


def test_a_node_that_joined_during_an_outage_is_found_after_it(cluster, api, n1, ccmd, settled):
    one = ccmd()
    settled()
    cluster.kill_apiserver()
    one.wait_log("cannot follow the API server")
    cluster.start_apiserver()
    n1()
    initialized(api, timeout=40)
    assert one.running


def test_etcd_is_killed(cluster, api, n1, ccmd, settled):
    ccmd()
    settled()
    cluster.restart_etcd()
    n1()
    initialized(api, timeout=40)


@pytest.mark.plain
def test_connections_are_refused_for_a_while(api, n1, proxy, ccmd, settled):
    one = ccmd()
    settled()
    proxy.refuse()
    n1()
    holds_for(lambda: one.running, 2, "ccmd")
    cpu = one.cpu_seconds()
    holds_for(lambda: one.running, 1, "ccmd")
    assert one.cpu_seconds() - cpu < 0.2, "it waits, and does not spin"
    proxy.accept_again()
    initialized(api)


@pytest.mark.slow
def test_a_peer_that_vanished_is_noticed(api, n1, proxy, ccmd, settled):
    """The peer vanishes from the network without closing its connections: ccmd notices within a minute, on the watch too."""
    one = ccmd()
    settled()
    begun = time.monotonic()
    proxy.vanish_all()
    n1()
    cpu = one.cpu_seconds()
    initialized(api, timeout=65)
    assert one.cpu_seconds() - cpu < 1.0 or sanitized()
    assert time.monotonic() - begun < 65


@pytest.mark.slow
def test_a_request_without_an_answer_delays_no_other(api, n1, kubelet, proxy, ccmd):
    proxy.on("PATCH", STATUS_PATH, silence(), when=lambda request: "/n1/" in request.path)
    n1(ip="192.0.2.1")
    ccmd()
    proxy.wait_request(lambda request: request.path == f"{NODES}/n1/status")
    kubelet("n2", ip="192.0.2.2")
    initialized(api, "n2", timeout=15)
    initialized(api, timeout=45)


def test_a_slow_list_can_be_cancelled(n1, proxy, ccmd):
    rule = proxy.on("GET", NODES_PATH, stall(length=20), watch=False)
    one = ccmd()
    rule.wait_hit()
    one.stop()


# --- what the API server asks for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed_on_writes(api, n1, proxy, ccmd, status):
    proxy.on("PATCH", STATUS_PATH, answer(status, headers={"Retry-After": "2"}), when=lambda request: "/n1/" in request.path)
    n1(ip="192.0.2.1")
    ccmd()
    initialized(api)
    first, second = [one for one in proxy.writes(node="n1") if one.path.endswith("/status")]
    assert 2.0 <= second.at - first.at < 6


@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
@pytest.mark.parametrize("status,after", [(429, "1"), (503, "1"), (429, None), (500, None), (503, "soon")])
def test_busy_servers_are_asked_again_later(api, n1, proxy, ccmd, status, watch, after):
    rule = proxy.on("GET", NODES_PATH, answer(status, headers={"Retry-After": after} if after else {}), watch=watch, times=2)
    ccmd()
    rule.wait_hit(hits=2)
    first, second = proxy.requests("GET", NODES_PATH, watch=watch)[:2]
    assert second.at - first.at >= (1.0 if after == "1" else 0.5)
    n1()
    initialized(api)


@pytest.mark.plain
def test_a_refusal_is_logged_and_not_hammered(api, n1, proxy, ccmd):
    rule = proxy.on("GET", NODES_PATH, answer(403, message="ccmd may not list nodes"), times=None)
    one = ccmd()
    one.wait_log("may not list nodes")
    mark = proxy.mark()
    holds_for(lambda: len(proxy.requests(since=mark)) <= 4, 2, "few requests")
    assert rule.hits < 10
    proxy.clear()
    n1()
    initialized(api)


# --- who we are ----------------------------------------------------------------------------------------------------------


def test_a_token_file_is_read_again_when_the_token_is_refused(cluster, api, n1, kubelet, proxy, ccmd, tmp_path):
    valid = ["first"]
    refused = proxy.on(None, None, answer(401), times=None,
                       when=lambda request: request.headers.get("authorization") != f"Bearer {valid[0]}")
    token = tmp_path / "token"
    token.write_text("first\n")
    one = ccmd(kubeconfig=cluster.kubeconfig("token", url=proxy.url, token_file=token))
    n1()
    initialized(api)
    assert refused.hits == 0, "the newline is no part of the token"
    (tmp_path / "token.new").write_text("second")
    (tmp_path / "token.new").replace(token)
    valid[0] = "second"
    kubelet("n2")
    initialized(api, "n2")
    assert "first" not in one.text and "second" not in one.text.replace("seconds", ""), "tokens are not logged"


@pytest.mark.plain
def test_a_token_that_stays_refused_is_not_hammered(cluster, api, proxy, ccmd, tmp_path):
    token = tmp_path / "token"
    token.write_text("wrong")
    proxy.on("GET", NODES_PATH, answer(401), times=None)
    one = ccmd(kubeconfig=cluster.kubeconfig("token", url=proxy.url, token_file=token))
    proxy.wait_request(lambda request: request.status == 401)
    mark = proxy.mark()
    holds_for(lambda: len(proxy.requests(since=mark)) <= 6 and one.running, 2, "few requests")


@pytest.mark.plain
def test_a_real_service_account_token_is_replaced_and_revoked(cluster, api, n1, kubelet, ccmd, tmp_path):
    """As with projected volumes: the file changes, the old token dies with the Secret that it is bound to."""
    accounts, secrets = "/api/v1/namespaces/kube-system/serviceaccounts", "/api/v1/namespaces/kube-system/secrets"
    unique = f"ccmd-{random.randrange(1 << 32):x}"
    api.post(accounts, {"metadata": {"name": unique}})
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": unique},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role.NAME},
        "subjects": [{"kind": "ServiceAccount", "name": unique, "namespace": "kube-system"}],
    })

    def new_token(secret):
        bound = api.post(secrets, {"metadata": {"name": secret}, "type": "Opaque"})
        reference = {"kind": "Secret", "apiVersion": "v1", "name": secret, "uid": bound["metadata"]["uid"]}
        request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": reference}}
        return api.post(f"{accounts}/{unique}/token", request)["status"]["token"]

    first, second = new_token(f"{unique}-1"), new_token(f"{unique}-2")
    file = tmp_path / "token"
    file.write_text(first)
    ccmd(kubeconfig=cluster.kubeconfig("service-account", token_file=file))
    n1()
    initialized(api)
    (tmp_path / "next").write_text(second)
    (tmp_path / "next").replace(file)
    api.delete(f"{secrets}/{unique}-1")
    revoked = cluster.api(token=first)
    wait_for(lambda: revoked.request("GET", NODES).status == 401, what="the old token to be refused", poll=0.2)
    kubelet("n2")
    initialized(api, "n2")


# --- what comes is large, or nonsense ------------------------------------------------------------------------------------


def big_image(number, size):
    return {"names": [f"registry.example.com/{number:04d}/{'x' * size}"], "sizeBytes": 1}


@pytest.mark.parametrize("by_watch", [True, False], ids=["watch", "list"])
def test_a_node_of_a_megabyte(api, n1, kubelet, proxy, ccmd, by_watch):
    one = ccmd() if by_watch else None
    if by_watch:
        proxy.wait_watching()
    node = n1()
    api.patch(f"{NODES}/n1/status", {"status": {"images": [big_image(number, 20_000) for number in range(50)]}}, STRATEGIC)
    one = one or ccmd()
    after = initialized(api)
    assert len(after["status"]["images"]) == 50 and len(json.dumps(after)) > 1_000_000
    kubelet("n2")
    initialized(api, "n2")
    assert node.name == "n1" and (sanitized() or one.rss_peak_kib() < 40 << 10)


def test_ten_thousand_taints(api, inventory, kubelet, ccmd):
    taints = [{"key": f"example.com/taint-{number:05d}", "value": "v", "effect": "NoSchedule"} for number in range(10_000)]
    inventory.add(machine("n1", "10.0.0.1"))
    before = kubelet("n1", taints=taints).node["spec"]["taints"]
    ccmd()
    after = initialized(api, timeout=60)["spec"]["taints"]
    assert after == [taint for taint in before if taint != CLOUD_TAINT] and len(after) >= 10_000


def test_text_of_all_kinds_survives(api, kubelet, inventory, ccmd):
    odd = "é漢😀\"\\\u2028\n\t</script>\x7f"
    taints = [{"key": "example.com/odd", "value": "ok", "effect": "NoSchedule"}]
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", annotations={"example.com/odd": odd}, taints=taints)
    ccmd()
    node = initialized(api)
    assert node["metadata"]["annotations"]["example.com/odd"] == odd and "example.com/odd" in taint_keys(node)


WATCH_NONSENSE = {
    "not JSON": b"}{\n",
    "half an object": b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"x"\n',
    "an empty line": b"\n\n\n",
    "a number": b"4711\n",
    "a list": b"[1,2,3]\n",
    "no type": b'{"object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"1"}}}\n',
    "an unknown type": b'{"type":"SURPRISE","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}}\n',
    "no object": b'{"type":"ADDED"}\n',
    "null": b'{"type":"ADDED","object":null}\n',
    "no metadata": b'{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1"}}\n',
    "no name": b'{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}\n',
    "another kind": b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"5"}}}\n',
    "wrong types": b'{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":7,"resourceVersion":true,'
                   b'"labels":[],"annotations":"x"},"spec":[],"status":7}}\n',
    "null lists": b'{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"1",'
                  b'"labels":null},"spec":{"taints":null},"status":{"addresses":null,"conditions":null}}}\n',
    "a bookmark without version": b'{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{}}}\n',
    "an error without code": b'{"type":"ERROR","object":{}}\n',
    "error 500": json.dumps(error_event(500, "InternalError", "boom")).encode() + b"\n",
    "bad UTF-8": b'{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"\xff\xfe\xc0"}}}\n',
    "NUL bytes": b'\x00{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a\\u0000b","resourceVersion":"1"}}}\n',
    "10,000 deep": b'{"type":"ADDED","object":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n",
    "huge numbers": b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"x","generation":1e400,"resourceVersion":'
                    b'"99999999999999999999999999999999"}}}\n',
    "a deletion of nobody": b'{"type":"DELETED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"nobody",'
                            b'"resourceVersion":"5","uid":"u"}}}\n',
}


@pytest.mark.one_version
@pytest.mark.parametrize("nonsense", WATCH_NONSENSE)
def test_nonsense_in_a_watch_ends_nothing(api, n1, kubelet, proxy, ccmd, nonsense):
    kubelet("n2")
    proxy.on("GET", NODES_PATH, insert([WATCH_NONSENSE[nonsense]], after=1), watch=True)
    one = ccmd()
    initialized(api, "n2")
    n1()
    initialized(api)
    assert one.running and proxy.requests("DELETE") == []


LIST = b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
LIST_NONSENSE = {
    "empty": b"", "not JSON": b"<html>Bad gateway</html>", "cut": LIST + b'{"metadata":{"name":"x"', "null": b"null",
    "no items": b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}', "items no list":
        b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":{}}',
    "items of nothing": LIST + b"null,7,[],{},\"x\"]}", "bad UTF-8": LIST + b'{"metadata":{"name":"\xff"}}]}',
    "10,000 deep": LIST + b'{"a":' * 10_000, "no version": b'{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}',
    "a failure inside 200": json.dumps(error_event(500, "InternalError")["object"]).encode(),
}


@pytest.mark.one_version
@pytest.mark.parametrize("nonsense", LIST_NONSENSE)
def test_nonsense_instead_of_a_list_ends_nothing(api, n1, proxy, ccmd, nonsense):
    n1()
    proxy.on("GET", NODES_PATH, answer(200, LIST_NONSENSE[nonsense]), watch=False)
    one = ccmd()
    initialized(api)
    assert one.running and proxy.requests("DELETE") == []


@pytest.mark.one_version
@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000, b"\x00" * 1000,
     b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
     b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"],
    ids=["SSH", "nothing", "endless headers", "NULs", "negative length", "bad chunk", "redirect"],
)
@pytest.mark.parametrize("method,path", [("GET", NODES_PATH), ("PATCH", NODE_PATH)], ids=["list", "write"])
def test_answers_that_are_not_http(api, n1, proxy, ccmd, garbage, method, path):
    n1()
    proxy.on(method, path, raw(garbage))
    one = ccmd()
    initialized(api)
    assert one.running


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"metadata":7}', b'{"kind":"Node"}', b"<html>", b'{"metadata":{"resourceVersion":""}}'],
)
def test_nonsense_as_the_answer_to_a_write(api, n1, proxy, ccmd, body):
    n1(ip="192.0.2.1")
    proxy.on("PATCH", STATUS_PATH, answer(200, body), times=2)
    one = ccmd()
    node = initialized(api)
    assert one.running and addresses(node)[0] == ("InternalIP", "10.0.0.1")


ENDLESS = {
    "one object": lambda: chunks(LIST + b'{"metadata":{"name":"x","annotations":{"a":"', b"x" * 65536),
    "white space": lambda: chunks(LIST, b" " * 65536),
    "its head": lambda: chunks(b'{"kind":"NodeList","metadata":{"x":"', b"y" * 65536),
    "nesting": lambda: chunks(LIST, b"[" * 65536),
    "objects": lambda: numbered_nodes(LIST),
}
MOST_BYTES = 1_200 << 20


def chunks(first, again):
    yield first
    for _ in range(MOST_BYTES // len(again)):
        yield again


def numbered_nodes(first):
    yield first
    number = 0
    while number * 170 < MOST_BYTES:
        batch = b"".join(
            b'{"metadata":{"name":"endless-%08d","uid":"%032x","resourceVersion":"5","creationTimestamp":"2024-01-01T00:00:00Z"},'
            b'"spec":{},"status":{}},' % (one, one) for one in range(number, number + 500))
        number += 500
        yield batch


@pytest.mark.plain
@pytest.mark.one_version
@pytest.mark.parametrize("endless", ENDLESS)
def test_a_list_that_never_ends_is_given_up(api, n1, proxy, ccmd, endless):
    n1()
    rule = proxy.on("GET", NODES_PATH, stream(ENDLESS[endless]), watch=False)
    one = ccmd()
    rule.wait_hit()
    initialized(api, timeout=300)
    most = (256 << 10) if endless == "objects" else (80 << 10)
    assert sanitized() or one.rss_peak_kib() < most, f"{one.rss_peak_kib()} KiB"
    assert one.running and proxy.requests("DELETE") == []


@pytest.mark.one_version
def test_a_watch_line_that_never_ends_is_given_up(api, n1, kubelet, proxy, ccmd):
    kubelet("n2")
    start = b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"x","annotations":{"a":"'
    rule = proxy.on("GET", NODES_PATH, stream(lambda: chunks(start, b"x" * 65536)), watch=True)
    one = ccmd()
    rule.wait_hit()
    n1()
    initialized(api, timeout=60)
    assert sanitized() or one.rss_peak_kib() < 100 << 10, f"{one.rss_peak_kib()} KiB"


@pytest.mark.plain
def test_many_changes_that_do_not_matter_cost_little(api, n1, kubelet, proxy, ccmd, settled):
    """Kubelets report all the time; only what a controller needs is looked at, and nothing is written."""
    one = n1(real_sized=True)
    program = ccmd()
    initialized(api)
    settled()
    mark, cpu = proxy.mark(), program.cpu_seconds()
    in_parallel(lambda _: one.ready(), list(range(300)), 4)
    settled()
    assert proxy.writes(node="n1", since=mark) == []
    assert sanitized() or program.cpu_seconds() - cpu < 0.5


def test_events_fall_behind_and_nothing_else_does(api, inventory, proxy, ccmd):
    """An API server that takes a second for each event does not delay the nodes, nor the end of the program."""
    names = create_many(api, 40, prefix="node", real_sized=False)
    inventory.add(*(machine(name, numbered_ip(number)) for number, name in enumerate(names)))
    proxy.on("POST", EVENTS_PATH, delay(1.0), times=None)
    one = ccmd()
    wait_for(lambda: all(is_initialized(node) for node in api.list(NODES)), 20, "all to be initialised")
    one.stop()


def test_descriptors_and_threads_stay_the_same(api, n1, kubelet, proxy, ccmd, settled):
    one = ccmd()
    n1()
    initialized(api)
    settled()
    threads, descriptors = one.threads(), one.fds()
    for _ in range(2):
        mark = proxy.mark()
        proxy.cut_all()
        proxy.wait_watching(since=mark, timeout=RECOVERY_S)
    settled()
    assert one.threads() == threads and one.fds() <= descriptors + 4
