"""ccmd explain: one node, Service or route, as the cluster, the cloud and the running leader see it."""
import datetime
import json
import re
import socket
import time

import pytest

from lib.api import EVENTS, NODES
from lib.ccmd import machine, run_ccmd
from lib.faultproxy import answer
from lib.nodes import is_initialized
from lib.operator import doctor, flags_of, plan
from lib.services import ingress
from lib.serving import Serving
from lib.wait import wait_for
from sim import faults
from sim.brightbox import Brightbox

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Explanation:
    """What `ccmd explain -o json` says."""

    def __init__(self, done):
        assert done.stdout, done.stderr
        self.content = json.loads(done.stdout)
        assert self.content["exitCode"] == done.returncode
        self.exit_code = done.returncode
        self.rows = {one["name"]: one for one in self.content["comparison"]}
        self.problems = {one["code"]: one["message"] for one in self.content["problems"]}
        self.reasons = [one["reason"] for one in self.content["events"]]
        self.gaps = {one["what"]: one["why"] for one in self.content["notKnown"]}
        self.leader = self.content.get("leader")

    def __getitem__(self, name):
        return self.content[name]


@pytest.fixture
def explain(operator, serving, inventory):
    """explain("node", "n1"): by the operator, of the cloud cloudlycke unless flags name another one."""

    def run(kind, name, *flags, kubeconfig=operator, inventory=inventory, env=None, **options):
        options = {**serving, **options}
        return Explanation(run_ccmd("explain", kind, name, "-o", "json",
                                    *flags_of(kubeconfig, inventory, *flags, **options), env=env))

    return run


@pytest.fixture
def at_hetzner(explain, serving, hetzner, cloud):
    """at_hetzner(): starts ccmd with the simulated cloud, and returns explain() for that ccmd; at_hetzner.ccmd is its process."""

    def start(*flags, **env):
        env = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token,
               "HCLOUD_METRICS_ENABLED": "false", **env}
        start.ccmd = hetzner(*flags, env=env, **serving)
        wait_ready(serving)
        return lambda *words, **more: explain(*words, "--cloud-provider=hcloud", "--allow-untagged-cloud", *flags,
                                        inventory=None, env=env, **more)

    return start


def wait_ready(serving):
    def check():
        try:
            return Serving(serving["secure_port"]).get("/readyz").status == 200
        except OSError:
            return False

    wait_for(check, what="the server to be ready")


def wait_said(explain, kind, name, condition, what):
    """What explain says once the condition holds for it."""
    def check():
        said = explain(kind, name)
        return said if condition(said) else None

    return wait_for(check, what=what, seen=lambda: explain(kind, name).content)


def is_idle(said):
    return said.leader["queue"]["state"] == "idle"


def is_guarded(said):
    return (said.leader or {}).get("guard")


# --- nodes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_a_healthy_node(api, inventory, kubelet, ccmd, serving, operator, explain):
    inventory.add(machine("n1", "10.0.0.1", zone="z1", region="r1", type="t1"))
    kubelet("n1", ip="10.0.0.1")
    ccmd(**serving)
    api.wait_node("n1", is_initialized)
    api.wait_event("n1", "Synced")
    said = wait_said(explain, "node", "n1", is_idle, "ccmd to be done with it")
    assert said.exit_code == 0 and said.problems == {} and said.gaps == {}, said.content
    assert said["identity"] == "a node that ccmd keeps in step with its machine"
    assert said["state"].startswith("Ready since 20") and said["waitsFor"] == "nothing"
    assert said.rows["provider ID"]["cluster"] == said.rows["provider ID"]["cloud"] == "cloudlycke://m-n1"
    assert said.rows["zone"] == {"name": "zone", "cluster": "z1", "cloud": "z1", "differs": False}
    assert said.rows["state"]["cloud"].startswith("exists")
    assert "Synced" in said.reasons and said.leader["isKnown"]
    text = run_ccmd("explain", "node", "n1", *flags_of(operator, inventory, **serving)).stdout
    lines = text.splitlines()
    assert lines[0] == "node n1" and lines[1] == "  is             a node that ccmd keeps in step with its machine"
    assert any(line.startswith("  provider ID    cloudlycke://m-n1") for line in lines) and "\x1b" not in text


def test_a_tainted_node_without_a_machine(kubelet, ccmd, serving, explain):
    kubelet("lost", ip="10.0.0.7")
    ccmd(**serving)
    wait_ready(serving)
    said = wait_said(explain, "node", "lost", lambda said: "the next attempt to initialise it is in" in said["next"],
                     "the node to wait for its next attempt")
    assert said.exit_code == 1 and "CCMD041" in said.problems
    assert said["waitsFor"] == "a machine of this name in the cloud"
    assert "tainted since its creation" in said["state"]
    assert said.rows["state"]["cloud"] == "no such machine" and "provider ID" not in said.rows
    queue = said.leader["queue"]
    assert queue["state"] == "delayed" and queue["failures"] >= 1
    assert f"after {queue['failures']} that failed" in said["next"]


def test_a_held_deletion(api, inventory, kubelet, ccmd, serving, explain):
    """The only node: there is no witness."""
    kubelet("gone", ip="10.0.0.1", provider_id="cloudlycke://m-gone", initialized=True, ready="Unknown")
    ccmd(**serving)
    said = wait_said(explain, "node", "gone", is_guarded, "the first look")
    guard = said.leader["guard"]
    assert guard["verdict"] == "no_witness" and guard["machine"] == "absent" and guard["absentLooks"] == 0
    assert "deletableInSeconds" not in guard
    assert said["waitsFor"] == guard["heldBecause"] and "no other node has a provider ID" in guard["heldBecause"]
    assert f"the next check of its machine is in {guard['nextLookInSeconds']} s" == said["next"].split("; ")[-1]
    assert said.exit_code == 1 and set(said.problems) == {"CCMD031"}, "of which the rest is a consequence"
    wait_said(explain, "node", "gone", lambda said: "NodeDeletionHeld" in said.reasons, "the event")


def test_a_deletion_that_is_to_come(inventory, node, kubelet, ccmd, serving, explain):
    node("witness", "10.0.0.1")
    kubelet("gone", ip="10.0.0.2", provider_id="cloudlycke://m-gone", initialized=True, ready="Unknown")
    ccmd("--node-delete-confirm-interval=10m", **serving)
    said = wait_said(explain, "node", "gone", is_guarded, "the first look")
    guard = said.leader["guard"]
    assert guard["verdict"] == "unconfirmed" and guard["absentLooks"] == 1
    assert 500 < guard["deletableInSeconds"] <= 600
    assert said["waitsFor"] == "a second check that does not find its machine"
    assert f"the node is deleted in {guard['deletableInSeconds']} s at the earliest" in said["next"]


@pytest.fixture
def node(kubelet, inventory):
    """node("n1", "10.0.0.1"): an initialised node and its machine."""

    def add(name, ip):
        inventory.add(machine(name, ip))
        return kubelet(name, ip=ip, provider_id=f"cloudlycke://m-{name}", initialized=True)

    return add


def test_a_machine_that_is_switched_off(inventory, kubelet, ccmd, serving, explain):
    inventory.add(machine("n1", "10.0.0.1", power="off"))
    kubelet("n1", ip="10.0.0.1", provider_id="cloudlycke://m-n1", initialized=True, ready="Unknown")
    ccmd(**serving)
    wait_ready(serving)
    said = explain("node", "n1")
    assert said.exit_code == 1 and "CCMD052" in said.problems
    assert said["waitsFor"] == "its machine, which is switched off"
    inventory.set("n1", power="on")
    said = explain("node", "n1")
    assert said.exit_code == 0 and said["waitsFor"].startswith("its kubelet")


def test_a_node_that_does_not_exist(api, ccmd, serving, explain):
    said = explain("node", "nobody")
    assert said.exit_code == 1 and not said["exists"]
    assert said["identity"] == "the cluster has no node of this name"


# --- failures of the leader ------------------------------------------------------------------------------------------------


def failures(said):
    """What the leader says has failed: {work: error}."""
    return {one["work"]: one for one in said.leader["errors"]}


def wait_failure(explain, name, work):
    """What explain says once the leader has failed at that work on the node."""
    return wait_said(explain, "node", name, lambda said: work in failures(said), f"a failure of {work}")


def wait_success(explain, name):
    wait_said(explain, "node", name, lambda said: failures(said) == {}, "no failure")


def test_an_initialisation_that_fails(inventory, kubelet, proxy, ccmd, serving, explain):
    rule = proxy.on("PATCH", r"^/api/v1/nodes/n1", answer(500, message="not today"), times=None)
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", ip="10.0.0.1")
    ccmd(**serving)
    wait_ready(serving)
    said = wait_failure(explain, "n1", "sync")
    error = failures(said)["sync"]["error"]
    assert "failed to initialize node n1" in error and "not today" in error
    assert said["waitsFor"] == "a retry, because: " + error
    assert "the next attempt to initialise it is in" in said["next"] or "a worker handles it" in said["next"], said["next"]
    rule.times = rule.hits
    wait_success(explain, "n1")
    assert explain("node", "n1")["waitsFor"] == "nothing"


def test_a_machine_that_cannot_be_looked_at(inventory, kubelet, ccmd, serving, explain):
    inventory.add(machine("n1", "10.0.0.1", fault="rack on fire"))
    kubelet("n1", ip="10.0.0.1", provider_id="cloudlycke://m-n1", initialized=True, ready="Unknown")
    ccmd(**serving)
    wait_ready(serving)
    said = wait_failure(explain, "n1", "lifecycle")
    assert "rack on fire" in failures(said)["lifecycle"]["error"]
    assert said["waitsFor"] == "a retry, because: " + failures(said)["lifecycle"]["error"]
    assert "the next check of its machine is in" in said["next"]


def test_addresses_that_cannot_be_compared(api, node, ccmd, serving, explain):
    node("n1", "10.0.0.1")
    ccmd("--node-status-update-frequency=1s", **serving)
    wait_ready(serving)
    assert explain("node", "n1")["waitsFor"] == "nothing"
    annotation = "alpha.kubernetes.io/provided-node-ip"
    api.patch(f"{NODES}/n1", {"metadata": {"annotations": {annotation: "10.0.0.9"}}})
    said = wait_failure(explain, "n1", "addresses")
    assert "10.0.0.9" in said["waitsFor"]
    assert f"its addresses are compared again in {failures(said)['addresses']['nextInSeconds']} s" in said["next"]
    api.patch(f"{NODES}/n1", {"metadata": {"annotations": {annotation: "10.0.0.1"}}})
    wait_success(explain, "n1")


# --- Services ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fleet(cloud, kubelet):
    def build(*names):
        for server in [cloud.add_server(name) for name in names]:
            kubelet(server.name, ip="10.0.0.1", initialized=True, provider_id=f"hcloud://{server.id}")

    return build


def test_a_service_that_is_served(fleet, services, at_hetzner, cloud):
    fleet("n1", "n2")
    explain = at_hetzner()
    services.create("web")
    served = services.wait("web", ingress)
    services.wait_event("web", "EnsuredLoadBalancer")
    said = wait_said(explain, "service", "default/web", is_idle, "ccmd to be done with it")
    balancer = next(iter(cloud.state()["load_balancers"].values()))
    assert said.exit_code == 0, said.content
    assert said.rows["load balancer"]["cloud"] == balancer["name"]
    assert balancer["public_net"]["ipv4"]["ip"] in said.rows["addresses"]["cloud"]
    assert all(one["ip"] in said.rows["addresses"]["cluster"] for one in ingress(served))
    assert said.rows["targets"]["cloud"] == "2"
    assert said["state"].startswith("served at ") and said["waitsFor"] == "nothing"
    assert said.leader["memory"] == {"hasBalancer": True, "error": ""}
    assert said.reasons.index("EnsuringLoadBalancer") < said.reasons.index("EnsuredLoadBalancer")


def test_unhealthy_targets(fleet, services, at_hetzner, cloud):
    fleet("n1", "n2")
    explain = at_hetzner()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    balancer, = cloud.project.load_balancers.values()
    balancer.failing[cloud.server("n2").id] = ("unexpected_http_status", 503)
    said = explain("service", "default/web")
    assert said.exit_code == 0
    assert said.rows["health"]["cloud"] == "healthy: 1, unhealthy: 1; node n2 at port 80: unexpected_http_status (HTTP 503)"
    balancer.failing[cloud.server("n1").id] = ("layer4_timeout", None)
    said = explain("service", "default/web")
    assert "no target of its load balancer is healthy: node n1 at port 80: layer4_timeout; node n2" in said.problems["CCMD068"]
    cloud.be_former()
    said = explain("service", "default/web")
    assert said.rows["health"]["cloud"] == "healthy: 0, unhealthy: 2; node n1 at port 80; node n2 at port 80"


def test_the_private_address_of_a_load_balancer(fleet, services, at_hetzner, cloud):
    network = cloud.add_network("net")
    fleet("n1")
    explain = at_hetzner("--configure-cloud-routes=false", HCLOUD_NETWORK="net", HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK="true")
    services.create("web")
    served = services.wait("web", lambda one: len(ingress(one)) == 3)
    said = explain("service", "default/web")
    assert said.rows["addresses"]["cloud"] == said.rows["addresses"]["cluster"], network
    assert ingress(served)[2]["ip"] in said.rows["addresses"]["cloud"]


def test_events_of_an_earlier_service(fleet, services, at_hetzner, cloud):
    fleet("n1")
    explain = at_hetzner()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    services.delete("web")
    services.wait_gone("web")
    cloud.fault("POST", "/load_balancers", faults.error("invalid_input", "no more"), times=None)
    services.create("web")
    said = wait_said(explain, "service", "default/web", lambda said: "SyncLoadBalancerFailed" in said.reasons,
                     "the event of the second Service")
    assert "EnsuredLoadBalancer" not in said.reasons


def test_events_of_an_earlier_node(api, node, kubelet, explain):
    """The kubelet writes the node's name as its UID."""
    def record(reason, uid, seconds):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        api.post("/api/v1/namespaces/default/events", {
            "metadata": {"generateName": "n1."}, "reason": reason, "type": "Normal", "message": "x", "lastTimestamp": at,
            "involvedObject": {"kind": "Node", "name": "n1", "uid": uid}, "source": {"component": "kubelet"}})

    node("n1", "10.0.0.1")
    uid = api.get(f"{NODES}/n1")["metadata"]["uid"]
    record("Before", "n1", -60), record("Other", "5f3c", 1), record("Kubelet", "n1", 1), record("Own", uid, 1)
    assert set(explain("node", "n1").reasons) == {"Kubelet", "Own"}


def test_an_invalid_annotation(fleet, services, at_hetzner):
    fleet("n1")
    explain = at_hetzner()
    services.create("web", annotations={"load-balancer.hetzner.cloud/health-check-retries": "many"})
    services.wait_event("web", "SyncLoadBalancerFailed")
    said = explain("service", "default/web")
    assert said.exit_code == 1 and "CCMD063" in said.problems and "CCMD060" not in said.problems
    assert "many" in said["waitsFor"] and said["waitsFor"] == "a retry, because: " + said.leader["memory"]["error"]
    assert said["state"].startswith("pending since its creation, 20")
    assert said.leader["queue"]["failures"] >= 1 and "the next attempt to set up its load balancer is in" in said["next"]
    assert "SyncLoadBalancerFailed" in said.reasons


def test_no_eligible_node(services, at_hetzner, cloud):
    explain = at_hetzner()
    services.create("web")
    services.wait_event("web", "UnAvailableLoadBalancer")
    said = wait_said(explain, "service", "default/web", is_idle, "ccmd to be done with it")
    assert "CCMD061" in said.problems and said.rows["targets"]["cluster"] == "eligible nodes: 0"
    assert said["waitsFor"] == "a node that may be its target"
    assert "UnAvailableLoadBalancer" in said.reasons


def test_an_error_of_the_cloud_with_back_off(fleet, services, at_hetzner, cloud):
    fleet("n1")
    explain = at_hetzner()
    cloud.fault("POST", "/load_balancers", faults.error("invalid_input", "no more"), times=None)
    services.create("web")
    services.wait_event("web", "SyncLoadBalancerFailed")
    failures = lambda: at_hetzner.ccmd.text.count("will retry service=default/web")  # a change of a node can cause another attempt
    before, said, after = failures(), explain("service", "default/web"), failures()
    memory, queue = said.leader["memory"], said.leader["queue"]
    assert said.exit_code == 1 and "no more" in memory["error"] and said["waitsFor"] == "a retry, because: " + memory["error"]
    assert queue["state"] == "delayed" and 1 <= before <= queue["failures"] <= after
    assert said["next"] == f"the next attempt to set up its load balancer is in {queue['dueInSeconds']} s, after {queue['failures']} that failed"
    assert said.rows["load balancer"]["cloud"] == "none"


def test_a_service_of_another_kind(services, at_hetzner):
    explain = at_hetzner()
    services.create("inner", kind="ClusterIP")
    said = explain("service", "default/inner")
    assert said.exit_code == 0 and said["waitsFor"] == "nothing" and "ClusterIP" not in said.rows
    assert "not of type LoadBalancer" in said["identity"]


# --- routes ------------------------------------------------------------------------------------------------------------------


def test_a_route(api, cloud, kubelet, at_hetzner):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", networks=[network])
    kubelet("n1", ip=server.private_ip(network.id), initialized=True, provider_id=f"hcloud://{server.id}")
    api.patch(f"{NODES}/n1", {"spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}})
    explain = at_hetzner("--cluster-cidr=10.244.0.0/16", "--route-reconciliation-period=500ms",
                         HCLOUD_NETWORK="net", HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK="true")
    said = wait_said(explain, "route", "10.244.1.0/24", lambda said: said["state"] == "routed" and "lastRun" in said.leader,
                     "the end of the run that made the route")
    assert said.exit_code == 0 and said["identity"] == "the pod CIDR of the node n1"
    assert said.rows["node"] == {"name": "node", "cluster": "n1", "cloud": "n1", "differs": False}
    assert said.leader["lastRun"]["error"] == "" and "compared again in" in said["next"]
    nothing = explain("route", "10.244.9.0/24")
    assert nothing.exit_code == 1 and not nothing["exists"] and not nothing.leader["isKnown"]


# --- another cloud -----------------------------------------------------------------------------------------------------------


def test_a_node_at_brightbox(api, kubelet, ccmd, serving, explain):
    with Brightbox() as cloud:
        server = cloud.account.add_server()
        kubelet(server["id"])
        env = cloud.environment(False)
        ccmd("--cloud-provider=brightbox", inventory=None, env=env, **serving)
        api.wait_node(server["id"], is_initialized)
        said = explain("node", server["id"], "--cloud-provider=brightbox", inventory=None, env=env)
    assert said.exit_code == 0, said.content
    assert said.rows["provider ID"]["cloud"] == f"brightbox://{server['id']}" == said.rows["provider ID"]["cluster"]
    assert said.leader["isKnown"]


def test_a_service_at_brightbox(kubelet, services, ccmd, serving, explain, tmp_path):
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        for _ in range(2):
            server = cloud.account.add_server()
            kubelet(server["id"], initialized=True, provider_id=f"brightbox://{server['id']}")
        env = {**cloud.environment(False), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)}
        flags = ["--cloud-provider=brightbox", "--cluster-name=k"]
        ccmd(*flags, inventory=None, env=env, **serving)
        services.create("web")
        services.wait("web", ingress)
        said = explain("service", "default/web", *flags, inventory=None, env=env)
        balancer, = cloud.account.named("load_balancers", "web.default.k")
        cip, = cloud.account.named("cloud_ips", "web.default.k")
    assert said.exit_code == 0, said.content
    assert said.rows["load balancer"]["cloud"] == balancer["id"]
    assert said.rows["addresses"]["cloud"].split(", ") == [cip["public_ipv4"], cip["public_ipv6"]]
    assert said.rows["targets"] == {"name": "targets", "cluster": "eligible nodes: 2", "cloud": "2", "differs": False}


@pytest.fixture
def balancing(inventory, tmp_path):
    """balancing(hook=…): the inventory with a pool of addresses, a state file, and these load balancers."""

    def configure(**balancers):
        inventory.content["addressPools"] = [{"name": "p", "addresses": ["10.9.0.1-10.9.0.9"]}]
        inventory.content["state"] = {"file": str(tmp_path / "state.json")}
        inventory.content["loadBalancers"] = balancers
        inventory.write()

    return configure


def test_a_service_of_haproxy(api, balancing, node, services, ccmd, serving, explain, tmp_path):
    balancing(haproxy={"file": str(tmp_path / "haproxy.cfg"), "check": ["/bin/true"], "reload": ["/bin/true"]})
    node("n1", "10.0.0.1"), node("n2", "10.0.0.2")
    ccmd(**serving)
    services.create("web")
    address, = services.wait_ips("web")
    wait_for(lambda: "server n2" in (tmp_path / "haproxy.cfg").read_text(), what="both nodes to be targets")
    said = explain("service", "default/web")
    assert said.exit_code == 0, said.content
    assert said.rows["load balancer"]["cloud"].startswith("a") and said.rows["addresses"]["cloud"] == address
    assert said.rows["targets"]["cloud"] == "2"
    (tmp_path / "haproxy.cfg").unlink()
    said = explain("service", "default/web")
    assert said.exit_code == 0 and not said.rows["load balancer"]["differs"]
    assert said.rows["load balancer"]["cloud"] == "none on this machine"


def test_a_service_of_a_hook(balancing, node, services, ccmd, serving, explain):
    balancing(hook="/bin/true")
    node("n1", "10.0.0.1")
    ccmd(**serving)
    services.create("web")
    address, = services.wait_ips("web")
    said = explain("service", "default/web")
    assert said.exit_code == 0, said.content
    assert said.rows["load balancer"]["cloud"].startswith("a") and said.rows["addresses"]["cloud"] == address
    assert said.rows["targets"] == {"name": "targets", "cluster": "eligible nodes: 1", "cloud": "", "differs": False}


# --- without an answer -------------------------------------------------------------------------------------------------------

LEADER = "what the leader waits for, and when it acts"


def test_without_the_leader(node, explain):
    node("n1", "10.0.0.1")
    said = explain("node", "n1")
    assert said.exit_code == 0 and said.leader is None and set(said.gaps) == {LEADER}
    assert "connection refused" in said.gaps[LEADER] and "certificate" not in said.gaps[LEADER]
    assert explain("node", "nobody").gaps == {}, "no leader waits for what does not exist"
    assert said["waitsFor"] == "nothing"


def test_a_standby(cluster, api, node, ccmd, serving, explain):
    node("n1", "10.0.0.1")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() + 3600))
    api.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", {
        "metadata": {"name": "cloud-controller-manager"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}})
    ccmd(**serving, leader_elect=True)
    wait_ready(serving)
    said = explain("node", "n1", leader_elect=True)
    assert said.leader is None and "standby replica" in said.gaps[LEADER]


def test_callers_without_the_right(cluster, node, ccmd, serving, explain):
    node("n1", "10.0.0.1")
    ccmd(**serving)
    wait_ready(serving)
    said = explain("node", "n1", kubeconfig=cluster.ccmd_kubeconfig)
    assert said.exit_code == 0 and said.leader["isKnown"], "commands in its pod have the rights of the controller"
    assert "events" in said.gaps and "forbidden" in said.gaps["events"]
    server = Serving(serving["secure_port"])
    for path in ("nodes/n1", "nodes/none", "services/default/web", "routes/10.0.0.0%2F8", "pods/a", "nodes/..%2f..%2fx"):
        assert server.get(f"/debug/objects/{path}").status == 403, "anonymous"
        assert server.get(f"/debug/objects/{path}", Authorization="Bearer wrong").status == 401
    allowed = Serving(serving["secure_port"], pair=cluster.admin_pair)
    assert allowed.get("/debug/objects/nodes/n1").json["isKnown"]
    assert not allowed.get("/debug/objects/routes/10.0.0.0%2F8").json["isKnown"]
    assert allowed.get("/debug/objects/pods/a").status == 404
    assert allowed.get(f"/debug/objects/nodes/{'a' * 254}").status == 404
    assert allowed.request("DELETE", "/debug/objects/nodes/n1").status == 405


def test_from_another_machine(cluster, node, ccmd, serving, explain):
    node("n1", "10.0.0.1")
    pair = cluster.server_pair
    ccmd(**{**serving, "tls_cert_file": pair.certificate, "tls_private_key_file": pair.key})
    wait_ready(serving)
    url = f"--url=https://127.0.0.1:{serving['secure_port']}"
    ca = f"--ca={cluster.authority.certificate}"
    assert explain("node", "n1", url, ca, secure_port=0).leader["isKnown"]
    unverified = explain("node", "n1", url, secure_port=0)
    assert unverified.leader is None and "certificate" in unverified.gaps[LEADER]
    plain = explain("node", "n1", url.replace("https", "http"), secure_port=0)
    assert "https://" in plain.gaps[LEADER], "a credential goes to no server that is not verified"


def test_the_cloud_is_silent(node, explain, tmp_path):
    node("n1", "10.0.0.1")
    said = explain("node", "n1", "--cloud-config=/nonexistent")
    assert said.exit_code == 2 and "its machine in the cloud" in said.gaps
    assert said["state"].startswith("Ready")


def test_a_wrong_command_line():
    for words in ([], ["node"], ["pod", "a"], ["service", "a/b/c"], ["route", "10.0.0.0"], ["node", "a/b"]):
        done = run_ccmd("explain", *words, "--cloud-provider=cloudlycke")
        assert done.returncode == 2 and "(node NAME|service [NAMESPACE/]NAME|route CIDR)" in done.stderr, words


# --- doctor asks the leader --------------------------------------------------------------------------------------------------


@pytest.fixture
def quota(fleet, services, at_hetzner, cloud, cluster):
    """A Service for which the cloud has no room: what doctor says about it, with the rights of the controller or of others."""
    fleet("n1")
    cloud.fault("POST", "/load_balancers", faults.error("resource_limit_exceeded", "load balancer limit exceeded"), times=None)
    explain = at_hetzner()
    services.create("web")
    wait_said(explain, "service", "default/web", lambda said: said.leader["memory"]["error"], "the leader to fail")
    env = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token,
           "HCLOUD_METRICS_ENABLED": "false"}

    def examine(*flags, kubeconfig=cluster.ccmd_kubeconfig, **options):
        report = doctor(*flags_of(kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", *flags, **options), env=env)
        finding, = report.checks["CCMD060"]["findings"]
        return finding

    return examine


def test_doctor_says_what_the_leader_failed_at(quota, serving, services):
    said = quota(**serving)
    assert "load balancer limit exceeded" in said["message"] and "; the next one is in " in said["message"], said
    assert "failed" in said["message"] and said["fix"].startswith("correct what the message names")


def test_doctor_says_what_the_events_say(quota, api, services, operator):
    """The newest warning of a cloud controller manager counts, although the API server warned about the Service later."""
    services.wait_event("web", "SyncLoadBalancerFailed")
    said = quota(kubeconfig=operator)
    assert "; the event SyncLoadBalancerFailed says, " in said["message"] and "limit exceeded" in said["message"], said
    about = {"kind": "Service", "namespace": "default", "name": "web", "uid": services.get("web")["metadata"]["uid"]}
    for minutes, manager in ((1, "hcloud-cloud-controller-manager"), (2, "kube-apiserver")):
        future = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + minutes * 60))
        api.post(EVENTS, {"metadata": {"name": f"web.{manager}"}, "type": "Warning", "reason": "FromTheFuture", "message": manager,
                          "involvedObject": about, "lastTimestamp": future}, fieldManager=manager)
    said = quota(kubeconfig=operator)
    # without "5s ago", because it is in the future
    assert said["message"].endswith("; the event FromTheFuture says: hcloud-cloud-controller-manager"), said


def test_doctor_says_that_nobody_could_be_asked(quota):
    said = quota()
    assert said["message"] == "its load balancer is not ready" and "in the pod of the leader" in said["fix"], said
    assert "--secure-port=0" in said["fix"] and "cannot list resource \"pods\"" in said["fix"]


def test_doctor_says_what_the_leader_waits_for(inventory, node, kubelet, ccmd, serving, cluster, explain):
    """The leader has just seen the machine disappear, so only it knows when the node goes."""
    node("witness", "10.0.0.1")
    kubelet("gone", ip="10.0.0.2", provider_id="cloudlycke://m-gone", initialized=True, ready="Unknown")
    ccmd("--node-delete-confirm-interval=10m", **serving)
    wait_said(explain, "node", "gone", is_guarded, "the first look")
    found = doctor(*flags_of(cluster.ccmd_kubeconfig, inventory, **serving)).found("CCMD044")["node gone"]
    seconds, = re.findall(r"; the leader deletes it in (\d+) s at the earliest", found)
    assert 500 < int(seconds) <= 600


def test_plan_says_when_the_leader_acts(inventory, node, kubelet, ccmd, serving, cluster, explain):
    node("witness", "10.0.0.1")
    kubelet("gone", ip="10.0.0.2", provider_id="cloudlycke://m-gone", initialized=True, ready="Unknown")
    ccmd("--node-delete-confirm-interval=10m", **serving)
    wait_said(explain, "node", "gone", is_guarded, "the first look")
    now = time.time()
    found = plan(*flags_of(cluster.ccmd_kubeconfig, inventory, "--node-delete-confirm-interval=1h", **serving))
    later = found.objects["node gone"]["later"]
    at = datetime.datetime.fromisoformat(later["notBefore"]).timestamp()
    assert now + 500 < at < now + 620, "by the leader's interval, not by the plan's"


def test_plan_says_what_the_leader_failed_at(quota, serving, cluster, cloud):
    env = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token}
    flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", **serving)
    text = run_ccmd("plan", "services", *flags, env=env).stdout
    assert re.search(r"\+ load balancer \S+ \(may be refused: quota\)\n", text), text
    assert re.search(r"\n    so far, .* failed.*load balancer limit exceeded", text), text


@pytest.fixture
def address():
    """Of this machine, for pods: the API server proxies to no loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has only loopback addresses")
        return one.getsockname()[0]


def test_the_leader_is_asked_through_the_api_server(cluster, api, operator, node, ccmd, serving, inventory, address):
    """By people with the chart's Role, at a ccmd with the flags that the chart sets for it."""
    role = {"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1"}
    name = "proxied"
    api.ensure(f"{RBAC}/namespaces/kube-system/roles", {
        **role, "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                                                      {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]})
    api.ensure(f"{RBAC}/namespaces/kube-system/rolebindings", {
        "metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}})
    api.ensure(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"}})
    pods = "/api/v1/namespaces/kube-system/pods"
    api.post(pods, {"metadata": {"name": "ccmd-1", "labels": {"app.kubernetes.io/name": "ccmd"}},
                    "spec": {"containers": [{"name": "ccmd", "image": "ccmd"}]}})
    api.patch(f"{pods}/ccmd-1/status", {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}})
    node("n1", "10.0.0.1")
    ccmd("--authorization-always-allow-paths=/healthz,/readyz,/livez,/debug/objects/*",
         **{**serving, "bind_address": "0.0.0.0"})
    wait_ready(serving)
    path = cluster.kubeconfig(name, pair=cluster.authority.client(name, name))
    flags = flags_of(path, inventory, secure_port=serving["secure_port"])
    said = wait_for(lambda: (lambda one: one if one.leader else None)(Explanation(run_ccmd("explain", "node", "n1", "-o", "json", *flags))),
                    what="the roles to count")
    api.delete(f"{pods}/ccmd-1?gracePeriodSeconds=0")
    assert said.leader["isKnown"]


# --- the role ----------------------------------------------------------------------------------------------------------------


def test_the_role_of_operators(cluster, api, node, ccmd, inventory, operator, serving, explain):
    node("n1", "10.0.0.1")
    ccmd(**serving, leader_elect=True)
    wait_ready(serving)
    account = "--as-service-account=kube-system/ccmd"
    report = doctor(*flags_of(operator, inventory, account, leader_elect=True, **serving))
    assert report.codes("unknown") == set(), report.content
    skipped = [one["reason"] for one in report.checks.values() if one["result"] == "skipped"]
    assert not [reason for reason in skipped if "not checked" in reason], skipped
    assert report.checks["CCMD010"]["result"] == "ok"
    status = json.loads(run_ccmd("status", "-o", "json", *flags_of(operator, inventory, leader_elect=True, **serving)).stdout)
    assert status["lease"]["isFresh"] and status["metrics"]["error"] == ""
    assert explain("node", "n1", leader_elect=True).gaps == {}
    for verb, what in (("create", "nodes"), ("patch", "nodes"), ("delete", "nodes"), ("patch", "services"), ("create", "events"),
                       ("update", "leases"), ("get", "secrets"), ("create", "pods/exec"), ("patch", "nodes/status")):
        done = cluster.kubectl("auth", "can-i", verb, what, "--as=operator", "--all-namespaces", check=False)
        assert done.strip() == "no", (verb, what)
