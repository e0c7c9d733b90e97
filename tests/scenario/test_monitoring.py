"""The alerts and the dashboard that the chart ships: they ask for what ccmd exports, and each alert fires when it should."""
import html
import json
import re
import subprocess

import pytest
import yaml

from lib.ccmd import machine
from lib.helm import CHART, Helm, tool
from lib.process import REPOSITORY
from lib.wait import wait_for

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

ALERTS = CHART / "monitoring" / "alerts.yaml"
DASHBOARD = CHART / "monitoring" / "dashboard.json"
UNIT_TESTS = REPOSITORY / "tests" / "monitoring" / "alerts.yaml"
PICTURE = REPOSITORY / "docs" / "pictures" / "dashboard.svg"  # drawn by tools/dashboard-picture
RUNBOOK = REPOSITORY / "docs" / "runbook.md"
METRICS = REPOSITORY / "docs" / "reference" / "metrics.md"  # generated from the program's table

OF_PROMETHEUS = {"cluster", "instance", "job", "le", "namespace"}
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}


def alerts():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def expressions():
    """(where, expression)"""
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def exported():
    """{metric: its labels}, with the series of histograms."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", METRICS.read_text(), re.M):
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found.update({name + suffix: set(re.findall(r"\w+", labels)) for suffix in suffixes})
    return found


def metrics_of(expression):
    """[(metric, labels that it is selected by)]. What is in brackets, or follows by, on and so on, is no metric."""
    text = re.sub(r"\[[^]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", expression)
    for name, selector in re.findall(r"\b([a-z]\w+)\b(?!\s*\()\s*(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', text)):
        if name not in WORDS:
            yield name, set(re.findall(r"(\w+)\s*[=!]~?", selector))


def grouped_by(expression):
    return {label for found in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression) for label in re.findall(r"\w+", found)}


@pytest.mark.parametrize("where, expression", expressions(), ids=[where for where, _ in expressions()])
def test_expressions_ask_for_what_ccmd_exports(where, expression):
    names = exported()
    found = list(metrics_of(expression))
    assert found, expression
    for metric, labels in found:
        assert metric in names, f"{where}: {metric} is not in {METRICS.name}"
        assert labels <= names[metric] | OF_PROMETHEUS, f"{where}: {metric} has no label {labels - names[metric]}"
    known = OF_PROMETHEUS.union(*(names[metric] for metric, _ in found))
    assert grouped_by(expression) <= known, where


def test_each_alert_has_a_section_of_the_runbook_and_nothing_else_has():
    sections = re.findall(r"^## (Ccmd\w+)$", RUNBOOK.read_text(), re.M)
    assert [rule["alert"] for rule in alerts()] == sections
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_each_alert_is_tested_when_it_fires_and_when_it_does_not():
    cases = [case for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in alerts()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


def test_panels_have_places_of_their_own():
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_picture_has_every_panel():
    drawn = re.findall(r'font-weight="600"[^>]*>([^<]*)<', PICTURE.read_text())
    assert [html.unescape(one) for one in drawn] == [panel["title"] for panel in panels()]


def test_the_chart_ships_the_same_alerts_and_dashboard(request, tmp_path):
    helm = Helm(tool(request.config, "helm"), tmp_path)
    found = helm.render({"monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}})
    assert found["PrometheusRule"][0]["spec"] == yaml.safe_load(ALERTS.read_text())
    (config,) = found["ConfigMap"]
    assert json.loads(config["data"]["ccmd.json"]) == json.loads(DASHBOARD.read_text())
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"


# --- by promtool ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def promtool(request):
    program = tool(request.config, "promtool")

    def run(*arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_prometheus_understands_every_expression(promtool, tmp_path):
    promtool("check", "rules", "--lint-fatal", ALERTS)
    rules = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", tmp_path / "panels.yaml")


def test_alerts_fire_when_they_should_and_only_then(promtool):
    assert "SUCCESS" in promtool("test", "rules", UNIT_TESTS)


# --- by a running ccmd ---------------------------------------------------------------------------------------------------


def test_series_of_the_alerts_exist_at_a_leader(api, inventory, kubelet, scraped):
    """Names of queues, kinds and clients are those of a running program, not only of its table."""
    inventory.content.update(addressPools=[{"name": "lab", "addresses": ["192.0.2.10"]}], loadBalancers={})
    inventory.add(machine("n1", "10.0.0.1"))
    _, scrape, _ = scraped(leader_elect=True)
    kubelet("n1")
    api.wait_event("n1", "Synced")

    series = [r"ccmd_build_info\{", r"ccmd_fence_remaining_seconds\{.*\} 1", "ccmd_stuck_threads 0", "process_start_time_seconds ",
              r'ccmd_workqueue_oldest_due_seconds\{name="service"\}', r'ccmd_reflector_watch_age_seconds\{kind="Node"\} 0*\.?0*[1-9]',
              r'rest_client_requests_total\{code="200",', r'cloudlycke_inventory_reloads_total\{result="rejected"\} 0',
              r'cloudlycke_inventory_reloads_total\{result="refused"\} 0', r'ccmd_doctor_problems\{code="CCMD060"\} 0',
              "ccmd_nodes_uninitialized 0", "ccmd_nodes_uninitialized_oldest_seconds 0", "ccmd_services_failing 0",
              "ccmd_services_failing_longest_seconds 0"]
    wait_for(lambda: all(re.search(f"^{one}", scrape().text, re.M) for one in series), what="the series",
             seen=lambda: scrape().text)
