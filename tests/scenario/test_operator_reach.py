"""The commands for operators away from the controller: what they take from the cluster, what they say about their own
credentials and connection, and about clocks and Leases."""
import base64
import datetime
import itertools
import json
import re
import subprocess
import threading
import time

import pytest

from lib.ccmd import binary, environment
from lib.cluster import USER, USER_GROUPS
from lib.faultproxy import delay, meanwhile
from lib.nodes import is_initialized
from lib.operator import Report, doctor, flags_of
from lib.replicas import LEASE
from lib.wait import PATIENCE_S

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

LEASES = LEASE.rsplit("/", 1)[0]
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
DAYS = datetime.timedelta(days=1)


@pytest.fixture
def examine(cluster, inventory):
    def run(*flags, kubeconfig=cluster.ccmd_kubeconfig, **options):
        return doctor(*flags_of(kubeconfig, inventory, *flags, **options))

    return run


@pytest.fixture
def temporary(api):
    """temporary(path, object): creates it for the length of the test."""
    created = []

    def create(path, body, **query):
        one = api.post(path, body, **query)
        created.append(f"{path}/{one['metadata']['name']}")

    yield create
    for path in created:
        api.delete(path)


def deployment(name, args, env=(), image="registry.example/ccmd:1.2.3", **spec):
    labels = {"app.kubernetes.io/name": "ccmd", "app.kubernetes.io/instance": name}
    container = {"name": "ccmd", "image": image, "args": args, "env": list(env)}
    return {"metadata": {"name": name, "labels": labels}, "spec": {
        "selector": {"matchLabels": labels}, **spec,
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}}}


# --- flags and variables from the cluster ------------------------------------------------------------------------------------


@pytest.fixture
def plugin(cluster, tmp_path):
    """plugin("doctor", …): kubectl ccmd …, as an administrator on another machine."""
    (tmp_path / "kubectl-ccmd").symlink_to(binary())

    def run(*words, **env):
        return subprocess.run([str(cluster.programs / "kubectl"), "ccmd", *words], capture_output=True, text=True, timeout=60,
                              env={**environment(), "PATH": f"{tmp_path}:/usr/bin:/bin",
                                   "KUBECONFIG": str(cluster.admin_kubeconfig), **env})

    return run


def test_the_plugin_takes_the_configuration_of_the_cluster(api, cloud, kubelet, hetzner, temporary, plugin, tmp_path):
    """But for the Secret and for what is about the pod."""
    cloud.add_network("net")
    cloud.add_server("n1")
    kubelet("n1")
    hetzner()
    api.wait_node("n1", is_initialized)
    temporary(DEPLOYMENTS, deployment("ccmd", [
        "--cloud-provider=hcloud", "--allow-untagged-cloud", "--leader-elect=false", f"--kubeconfig={tmp_path}/evil",
        "--configure-cloud-routes=false"],
        env=[{"name": "HCLOUD_NETWORK", "value": "net"}, {"name": "HCLOUD_ENDPOINT", "value": "http://127.0.0.1:1"},
             {"name": "HCLOUD_METRICS_ENABLED", "value": "false"},
             {"name": "HCLOUD_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "token"}}}]))
    (tmp_path / "token").write_text(cloud.token)
    (tmp_path / "token").chmod(0o600)
    nowhere = {"HCLOUD_METADATA_ENDPOINT": "http://127.0.0.1:1"}
    done = plugin("doctor", "-o", "json", HCLOUD_TOKEN_FILE=str(tmp_path / "token"), HCLOUD_ENDPOINT=cloud.url, **nowhere)
    report = Report(done)
    assert report.exit_code == 0, {code: report.found(code) for code in report.codes()}
    assert "those of the deployment kube-system/ccmd, image registry.example/ccmd:1.2.3" in done.stderr
    assert "evil" in done.stderr and "the Secret" not in done.stderr
    assert report.checks["CCMD083"]["result"] == "ok" and report.checks["CCMD034"]["result"] == "ok", "HCLOUD_NETWORK was taken"
    done = plugin("doctor", "-o", "json", HCLOUD_ENDPOINT=cloud.url, **nowhere)
    assert "HCLOUD_TOKEN is in the Secret hcloud, key token, which is not read" in done.stderr and done.returncode == 2


def test_the_plugin_without_a_controller_in_the_cluster(api, plugin):
    done = plugin("doctor")
    assert done.returncode == 2 and "the cluster has 0 Deployments and DaemonSets of ccmd" in done.stderr


def test_flags_that_the_command_was_not_given(cluster, api, temporary, examine):
    temporary(DEPLOYMENTS, deployment("ccmd", ["--cloud-provider=cloudlycke", "--cluster-cidr=10.244.0.0/16"]))
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    assert report.exit_code == 0 and report.codes("note") == {"CCMD083"}, report.content
    assert report.found("CCMD083")["deployment kube-system/ccmd"].endswith(": --cluster-cidr=10.244.0.0/16")


def test_outside_of_the_network(cluster, cloud, kubelet):
    """On a machine without a metadata service, and on one that is not attached."""
    server = cloud.add_server("n1", networks=[cloud.add_network("net")])
    kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    report = doctor(*flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud",
                              "--configure-cloud-routes=false"),
                    env={"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_NETWORK": "net",
                         "HCLOUD_METRICS_ENABLED": "false", "HCLOUD_METADATA_ENDPOINT": "http://127.0.0.1:1"})
    assert report.checks["CCMD030"]["result"] == "note" and report.exit_code != 2, report.content
    assert "checking if server is in Network not possible" in report.found("CCMD030")[""]


# --- credentials and the API server ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("since, until, code", [(-300, 7, "CCMD004"), (-300, 20, None), (-1, 1, None)])
def test_a_client_certificate_that_expires(cluster, api, examine, since, until, code):
    pair = cluster.authority.client(f"aged{until}", USER, USER_GROUPS, since=since * DAYS, until=until * DAYS + 0.5 * DAYS)
    report = examine(kubeconfig=cluster.kubeconfig("aged", pair=pair))
    assert report.codes() == ({code} if code else set())
    if code:
        assert report.found(code)[""].startswith("the client certificate expires at ") and "in 7 days" in report.found(code)[""]


def test_a_client_certificate_that_has_expired(cluster, api, examine):
    pair = cluster.authority.client("old", USER, USER_GROUPS, since=-300 * DAYS, until=-1 * DAYS)
    report = examine(kubeconfig=cluster.kubeconfig("old", pair=pair))
    assert report.codes() == {"CCMD001"} and "the client certificate expired at 20" in report.found("CCMD001")[""]


def test_a_token_that_expires(cluster, api, proxy, examine, tmp_path):
    now = int(time.time())
    payload = base64.urlsafe_b64encode(json.dumps({"iat": now - 86400 * 100, "exp": now + 86400 * 3}).encode()).rstrip(b"=").decode()
    path = tmp_path / "kubeconfig"
    text = cluster.admin_kubeconfig.read_text()
    path.write_text(text[:text.index("users:")] + "users:\n- name: test\n  user:\n"
                    f"    token: eyJhbGciOiJSUzI1NiJ9.{payload}.c2ln\ncontexts:" + text.split("contexts:")[1])
    path.chmod(0o600)
    report = examine(f"--master={proxy.url}", kubeconfig=path)
    if "CCMD001" not in report.codes():  # the proxy has its own credentials
        assert "the token expires at" in report.found("CCMD004")[""]


def test_a_slow_api_server(cluster, api, proxy, examine):
    rule = proxy.on("GET", "/version", delay(1.2), times=1)
    slow = cluster.kubeconfig("slow", url=proxy.url)
    assert examine(kubeconfig=slow).codes() == set(), "one slow response says nothing"
    rule = proxy.on("GET", "/version", delay(1.2), times=None)
    report = examine(kubeconfig=slow)
    assert report.codes() == {"CCMD005"} and "took 1." in report.found("CCMD005")[""]
    rule.times = rule.hits


def test_reviews_of_rights_do_not_wait_for_each_other(cluster, proxy, examine):
    """The first one asks for every right, alone. Of those that follow, none is answered before four wait for their answer."""
    four = threading.Barrier(4, timeout=PATIENCE_S)
    rule = proxy.on("POST", "accessreviews", meanwhile(four.wait), skip=1, times=12)
    report = examine(kubeconfig=cluster.kubeconfig("reviews", url=proxy.url))
    assert report.checks["CCMD010"]["result"] == "ok", report.content
    assert rule.hits == 12 and not four.broken


# --- the election ------------------------------------------------------------------------------------------------------------


def lease(name="cloud-controller-manager", ahead_s=0):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() + ahead_s))
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "host_uuid", "leaseDurationSeconds": 15,
                                                 "acquireTime": at, "renewTime": at}}


def test_a_leader_whose_clock_is_ahead(api, temporary, examine):
    temporary(LEASES, lease(ahead_s=600), fieldManager="ccmd")
    report = examine(leader_elect=True)
    assert report.codes() == {"CCMD027"}, report.content
    found, = report.found("CCMD027").values()
    assert "host_uuid, is 6" in found or "host_uuid, is 59" in found
    assert " s ahead of the API server's" in found


def test_a_leader_whose_clock_is_behind(api, temporary, examine):
    """The times in the Lease lie an hour in the past, and it is renewed nevertheless."""
    temporary(LEASES, lease(ahead_s=-3600), fieldManager="ccmd")
    stop = threading.Event()

    def renew():
        for number in itertools.count():
            at = time.strftime(f"%Y-%m-%dT%H:%M:%S.{number:06}Z", time.gmtime(time.time() - 3600))
            api.patch(LEASE, {"spec": {"renewTime": at}}, fieldManager="ccmd")
            if stop.wait(0.3):
                return

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        report = examine(leader_elect=True)
    finally:
        stop.set()
        thread.join()
    assert report.codes() == {"CCMD027"} and "CCMD021" in report.codes("ok"), report.content
    found, = report.found("CCMD027").values()
    assert re.search(r"host_uuid, is 36\d\d s behind the API server's", found), found


def test_a_ccmd_that_leads_by_another_lease(cluster, api, temporary, examine):
    temporary(LEASES, lease("other"), fieldManager="ccmd")
    temporary(LEASES, lease("kube-scheduler"), fieldManager="kube-scheduler")
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    assert report.exit_code == 0 and set(report.found("CCMD025")) == {"lease kube-system/other"}, report.content
    assert report.checks["CCMD025"]["result"] == "note"


@pytest.mark.parametrize("replicas, args, codes", [(2, ["--leader-elect=false"], {"CCMD028"}), (1, ["--leader-elect=false"], set()),
                                                   (2, [], set())])
def test_replicas_without_an_election(cluster, api, temporary, examine, replicas, args, codes):
    temporary(DEPLOYMENTS, deployment("ccmd", ["--cloud-provider=cloudlycke", *args], replicas=replicas))
    assert examine(kubeconfig=cluster.admin_kubeconfig).codes() == codes
