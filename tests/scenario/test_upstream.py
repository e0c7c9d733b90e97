"""What the Go framework shows to its users, compared with ours: flags, metrics, and the configuration of /configz.

tools/upstream asks the framework itself. CONTRIBUTING.md, "A new version of Kubernetes", says how to keep up with it.
"""
import json
import re
import subprocess

import pytest

from lib.ccmd import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.one_version]

REFERENCE = REPOSITORY / "docs" / "reference"

TYPES = {
    "int32": "int", "float32": "float", "stringSlice": "strings", "int32Slice": "strings", "mapStringBool": "strings",
    "namedCertKey": "strings", "pattern=N,...": "string", "quantity": "string", "Level": "int",
}
# docs/migrating.md, "Differences"
AUTOMATIC = {"concurrent-node-syncs", "concurrent-service-syncs", "kube-api-burst", "kube-api-qps", "node-monitor-period"}
WITHOUT_DEFAULT = {"help", "version", "v"}

# of the library for API servers, which the framework only contains, and of the Go runtime
FOREIGN = re.compile(r"(aggregator|apiserver|go|grpc|konnectivity|process)_")
LEFT_OUT = {
    "cardinality_enforcement_unexpected_categorizations_total", "disabled_metrics_total", "hidden_metrics_total",
    "registered_metrics_total",  # of the library for metrics
    "kubernetes_feature_enabled", "version_info",  # ccmd has no feature gates, and emulates no version
    "rest_client_transport_cache_gc_calls_total", "rest_client_transport_cert_rotation_gc_calls_total",  # of client-go's caches
}


@pytest.fixture(scope="module")
def upstream():
    return json.loads(subprocess.run([REPOSITORY / "tools" / "upstream"], check=True, text=True, stdout=subprocess.PIPE).stdout)


def rows(page, columns):
    """The cells of all rows of the tables that have so many columns."""
    lines = [line for line in (REFERENCE / page).read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if len(row) == columns]


def words(cell):
    return [word.strip(" `") for word in cell.split(",") if word.strip(" `")]


def test_flags(upstream):
    ours = {}
    for spelling, kind, default, effect in rows("flags.md", 4):
        ours[words(spelling)[-1].lstrip("-")] = (kind, default.strip("`"), "*Deprecated" in effect)
    theirs = {}
    for name, flag in upstream["flags"].items():
        default = "auto" if name in AUTOMATIC else flag["default"].strip("[]")
        kind = "float" if name == "kube-api-burst" else TYPES.get(flag["type"], flag["type"])
        theirs[name] = (kind, default, "deprecated" in flag)
    for name in WITHOUT_DEFAULT:
        theirs[name] = (theirs[name][0], ours[name][1], False)
    assert {name: ours.get(name) for name in theirs} == theirs


def test_metrics(upstream):
    ours = {words(name)[0]: (kind, words(labels), [float(bound) for bound in words(buckets)])
            for name, kind, labels, _, buckets in rows("metrics.md", 5)}
    theirs = {name: (metric["type"], metric["labels"], metric.get("buckets", []))
              for name, metric in upstream["metrics"].items() if not FOREIGN.match(name) and name not in LEFT_OUT}
    assert len(theirs) > 25
    assert {name: ours.get(name) for name in theirs} == theirs


def leaves(value, path=""):
    """{path: value}, in the order of the text."""
    if not isinstance(value, dict):
        return {path: value}
    return {inner: leaf for key, one in value.items() for inner, leaf in leaves(one, f"{path}/{key}").items()}


def test_configz(upstream, served):
    _, admin, _ = served("--cluster-cidr=10.0.0.0/8")
    ours, theirs = leaves(admin.get("/configz").json), leaves(upstream["configz"])
    assert list(ours) == list(theirs)
    differing = {path.rsplit("/", 1)[-1] for path in theirs if ours[path] != theirs[path]}
    assert differing <= {
        "kubeconfig", "Name", "CloudConfigFile", "leaderElect",  # of the two command lines
        "qps", "burst", "NodeMonitorPeriod", "ConcurrentNodeSyncs", "ConcurrentNodeStatusUpdates", "ConcurrentServiceSyncs",
        "RouteReconciliationPeriod",  # automatic
    }
