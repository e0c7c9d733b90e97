"""Fixtures of the scenarios: one control plane for all tests of a session, everything else fresh for each test.

    pytest tests/scenario                       on Kubernetes 1.37
    pytest tests/scenario --all                 the slow ones too, on 1.28, 1.33 and 1.36 as well, and with a doctor at each end
    pytest tests/scenario -m slow               only the slow ones
    pytest tests/scenario --previous=v1.0.0 …   upgrades are tested from that build
    pytest tests/scenario --sample              what a build with a sanitizer runs (with --all: more)
    pytest tests/scenario --binary=PATH         on another program than build/ccmd, e.g. dist/ccmd-linux-amd64
    pytest tests/scenario -n 4 --dist loadgroup in parallel; each worker starts a control plane of its own

A sanitizer sees what the units under it do not reach: the wiring of the whole program, the sandbox, child processes,
signals, the HTTPS server, a provider from the flags to the cloud's API. It does not see more when the same path is taken
again with other data, nor when a test waits. So a sample is enough for it:

- of a parametrised test, the first case;
- no test that is marked `plain`, or whose module is, unless the test is marked `sanitized`. Mark `plain` what compares
  times and counts, or takes decisions that a unit test covers;
- no slow test, and none that does not run ccmd.
"""
import os
import sys
from pathlib import Path

import pytest
import yaml

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from lib import findings, traces  # noqa: E402
from lib.api import EVENTS, LEASES, NODES  # noqa: E402
from lib.ccmd import Ccmd, Inventory, binary, machine  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.faultproxy import FaultProxy  # noqa: E402
from lib.nodes import Kubelet, is_initialized  # noqa: E402
from lib.process import REPOSITORY, free_ports  # noqa: E402
from lib.replicas import LEASE  # noqa: E402
from lib.services import Services  # noqa: E402
from lib.serving import Metrics, Serving  # noqa: E402
from lib.wait import wait_for  # noqa: E402
from sim.endpoint import Endpoint  # noqa: E402
from sim.hcloud import HCloud  # noqa: E402
from sim.metadata import Metadata  # noqa: E402
from sim.robot import Robot  # noqa: E402

VERSIONS = ["1.37"]
ALL_VERSIONS = ["1.37", "1.36", "1.33", "1.28"]
SENTINEL = "sentinel"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Endpoint.note = staticmethod(traces.add)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also the slow tests, and all on Kubernetes 1.28, 1.33 and 1.36")
    parser.addoption("--previous", metavar="REVISION", help="the build that upgrades start from; default: see test_upgrade.py")
    parser.addoption("--sample", action="store_true", help="only what a sanitizer has to see; with --all, all that runs ccmd")
    parser.addoption("--binary", help="the program to test (default: $CCMD_BINARY, or build/ccmd)")


def pytest_configure(config):
    if config.getoption("binary"):
        os.environ["CCMD_BINARY"] = str(Path(config.getoption("binary")).absolute())
    config.addinivalue_line("markers", "slow: takes most of a minute, runs with --all")
    config.addinivalue_line("markers", "plain: not with --sample")
    config.addinivalue_line("markers", "sanitized: with --sample, although its module is plain")
    config.addinivalue_line("markers", "xdist_group(name): these run in one worker, since they share a control plane")
    config.addinivalue_line("markers", "needs_binary: runs ccmd, though without the fixture")
    config.addinivalue_line("markers", "one_version: does not depend on the API server, runs on the newest only")


def pytest_generate_tests(metafunc):
    if "cluster" in metafunc.fixturenames:
        everywhere = metafunc.config.getoption("all") and not metafunc.definition.get_closest_marker("one_version")
        metafunc.parametrize("cluster", ALL_VERSIONS if everywhere else VERSIONS, indirect=True, scope="session")


def runs_ccmd(item):
    return "ccmd" in item.fixturenames or item.get_closest_marker("needs_binary") is not None


def sample(items, everything):
    """The tests that a sanitizer has to see."""
    if everything:
        yield from filter(runs_ccmd, items)
        return
    seen = set()
    for item in items:
        is_plain = item.get_closest_marker("plain") and not item.get_closest_marker("sanitized")
        test = (item.path, item.originalname)
        if runs_ccmd(item) and not is_plain and not item.get_closest_marker("slow") and test not in seen:
            seen.add(test)
            yield item


def pytest_collection_modifyitems(config, items):
    if config.getoption("sample") or traces.FOLDER:
        chosen = list(sample(items, everything=config.getoption("all") or traces.FOLDER))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
    if not config.getoption("all") and "slow" not in config.option.markexpr:
        slow = pytest.mark.skip(reason="slow, runs with --all")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(slow)
    if not binary().exists():
        missing = pytest.mark.skip(reason=f"{binary()} is not built")
        for item in items:
            if runs_ccmd(item):
                item.add_marker(missing)


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    """The control plane, empty of nodes. Tests may stop and restart its parts, and leave them running."""
    # A folder of an interrupted run that is left over is removed by pytest, three runs later.
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(request.param, folder=folder, audit=bool(os.environ.get("CCMD_TEST_AUDIT")))
    with cluster:
        if request.param != "1.28":  # which has no such API
            cluster.restrict()
        yield cluster


@pytest.fixture
def api(cluster):
    """The administrator's client, of a cluster without nodes, events and leader."""
    if not cluster.apiserver.running:
        cluster.start_apiserver()
    client = cluster.api()
    clean(client)
    yield client
    client.close()


def clean(api):
    for path in (NODES, EVENTS, LEASES):
        if api.get(path, limit=1)["items"]:
            api.delete(path)
    api.delete(LEASE)


@pytest.fixture
def inventory(tmp_path):
    """An inventory, whose file may be written to, of no machine but the sentinel's (see settled)."""
    folder = tmp_path / "cloud"
    folder.mkdir()
    return Inventory(folder / "inventory.yaml", [machine(SENTINEL, "10.255.0.1")])


@pytest.fixture
def cloud():
    """A simulated Hetzner Cloud with one empty project."""
    with HCloud() as cloud:
        yield cloud


@pytest.fixture
def robot():
    """A simulated Robot web service without servers."""
    with Robot() as robot:
        yield robot


@pytest.fixture
def metadata():
    """metadata(server): the metadata service as that server of the simulated cloud sees it."""
    started = []

    def start(server):
        started.append(Metadata(server))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def proxy(cluster):
    """A fault proxy in front of the API server; ccmd uses it if the test asks for both."""
    with FaultProxy(cluster) as proxy:
        yield proxy


@pytest.fixture
def ccmd(request, cluster, api, inventory, tmp_path):
    """Starts ccmds: ccmd("--flag", option=value). They go through the proxy if the test has one.

    The API server has nothing of the test before (api).

    At the end each must still be running, or have been stopped by the test, and end well.
    """
    started = []

    def start(*flags, kubeconfig=None, inventory=inventory, **options):
        if kubeconfig is None and "proxy" in request.fixturenames:
            kubeconfig = cluster.kubeconfig("through-proxy", url=request.getfixturevalue("proxy").url)
        name = f"ccmd-{len(started)}" if started else "ccmd"
        one = Ccmd(tmp_path, kubeconfig or cluster.ccmd_kubeconfig, inventory, *flags, name=name, **options)
        started.append(one)
        return one.start()

    start.started = started
    yield start
    failed = getattr(request.node, "failed", False)
    problems = []
    for one in started:
        try:
            one.finish(check=not failed)
        except AssertionError as problem:
            problems.append(str(problem))
    assert not problems, "\n".join(problems)


@pytest.fixture
def served(cluster, ccmd):
    """served(): ccmd with a server, and clients of it: the administrator's and anonymous."""

    def start(*flags, **options):
        (port,) = free_ports(1)
        one = ccmd(*flags, secure_port=port, bind_address="127.0.0.1", authentication_kubeconfig=cluster.ccmd_kubeconfig,
                   authorization_kubeconfig=cluster.ccmd_kubeconfig, **options)
        one.wait_log("serving")
        return one, Serving(port, cluster.admin_pair), Serving(port)

    return start


@pytest.fixture
def scraped(ccmd):
    """scraped(): starts ccmd with metrics on plain HTTP; returns ccmd, a function that scrapes, and the Serving. program: the fixture
    that starts ccmd, e.g. hetzner."""

    def start(program=ccmd, **options):
        (port,) = free_ports(1)
        one = program(metrics_bind_address=f"127.0.0.1:{port}", **options)
        one.wait_log("serving metrics")
        server = Serving(port, is_plain=True)
        return one, lambda: Metrics(server.get("/metrics").text), server

    return start


@pytest.fixture
def serving(cluster, tmp_path):
    """The options of a ccmd whose secure port can be asked, and of the commands that ask it."""
    return {"secure_port": free_ports(1)[0], "bind_address": "127.0.0.1", "cert_dir": tmp_path / "certificates",
            "authentication_kubeconfig": cluster.ccmd_kubeconfig, "authorization_kubeconfig": cluster.ccmd_kubeconfig}


@pytest.fixture(scope="session")
def operator(cluster):
    """The kubeconfig of a user who is bound to the published ClusterRole and to nothing else."""
    api = cluster.api()
    role = next(one for one in yaml.safe_load_all((REPOSITORY / "deploy" / "operator.yaml").read_text())
                if one["kind"] == "ClusterRole")
    role["metadata"]["name"] = "operator"  # tests of the chart install its own name
    api.ensure(f"{RBAC}/clusterroles", role)
    api.ensure(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "operator"}, "subjects": [{"kind": "User", "name": "operator"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}})
    path = cluster.kubeconfig("operator", pair=cluster.authority.client("operator", "operator"))
    wait_for(lambda: "yes" in cluster.kubectl("auth", "can-i", "get", "/debug/objects/x", "--as=operator", check=False),
             what="the role to count")
    return path


@pytest.fixture
def hetzner(ccmd, cloud):
    """Starts ccmds in the simulated Hetzner Cloud: hetzner("--flag", env={"ROBOT_ENABLED": "true"}, option=value).

    A variable that env says is None is not set.
    """

    def start(*flags, env=None, provider="hcloud", **options):
        environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                       **(env or {})}
        return ccmd(f"--cloud-provider={provider}", "--allow-untagged-cloud", *flags, inventory=None,
                    env={name: value for name, value in environment.items() if value is not None}, **options)

    return start


@pytest.fixture
def kubelet(api):
    """Registers nodes: kubelet("n1", ip="10.0.0.1"), see lib.nodes.node_object."""

    def register(name, lease=False, **node):
        one = Kubelet(api, name, **node)
        one.register(lease=lease)
        return one

    return register


@pytest.fixture
def services(api):
    """The Services of a cluster that has none but the API server's own."""
    one = Services(api)
    one.clear()
    yield one
    one.clear()


@pytest.fixture
def settled(api):
    """settled(): returns once ccmd has dealt with all that came before: a new node came in, and was initialised.

    This is how scenarios show that something does not happen, without waiting for long.
    """

    def settle():
        kubelet = Kubelet(api, SENTINEL, ip="10.255.0.1")
        kubelet.register()
        api.wait_node(SENTINEL, is_initialized, what="the sentinel to be initialised")
        kubelet.delete()

    return settle


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    result = yield
    traces.end(item.nodeid, getattr(item, "failed", False))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """The doctor is asked after the test, while what it made is still there."""
    result = yield
    running = [one for one in getattr(item.funcargs.get("ccmd"), "started", ()) if one.running]
    if running and (item.path.name in findings.ALWAYS or item.config.getoption("all")):
        findings.check_no_false_alarm(item.path.name, running[-1])
    return result


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        item.failed = True
        for one in sorted(Path(item.funcargs["tmp_path"]).glob("ccmd*.log")) if "tmp_path" in item.funcargs else []:
            text = one.read_text(errors="replace")
            report.sections.append((f"log of {one.stem}", text[-8000:]))
        if "proxy" in item.funcargs:
            last = "\n".join(map(repr, item.funcargs["proxy"].requests()[-15:]))
            report.sections.append(("last requests through the proxy", last))
        if "cloud" in item.funcargs:
            last = "\n".join(map(repr, item.funcargs["cloud"].requests()[-30:]))
            report.sections.append(("last requests to the cloud", last))
