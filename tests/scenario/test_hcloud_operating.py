"""The Hetzner provider in operation: proxies, events, provider IDs of other controllers, machines without IPv4, and the steps of
the tutorial."""
import re

import pytest

from lib.api import NODES
from lib.ccmd import FAST
from lib.nodes import UNINITIALIZED, addresses, is_initialized, taint_keys
from lib.services import Services
from lib.wait import holds_for, wait_for

pytestmark = pytest.mark.one_version

COMPONENT = "hcloud-cloud-controller-manager"


@pytest.fixture
def own_events(api):
    """own_events("HetznerRateLimit"): the events about the controller itself with that reason."""
    return lambda reason: api.events("kube-system", reason)


@pytest.fixture
def robot_env(robot):
    return {"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user, "ROBOT_PASSWORD": robot.password}


def component(event):
    return event.get("reportingComponent") or event["source"]["component"]


# --- proxies ---------------------------------------------------------------------------------------------------------------

# 0.0.0.0 is this machine, too, but no loopback address: those never go through a proxy.


def elsewhere(endpoint):
    return endpoint.url.replace("127.0.0.1", "0.0.0.0")


def proxied(endpoint):
    """Whether each request so far came as through a proxy, which is told the whole URL."""
    return {one.target.startswith("http://0.0.0.0:") for one in endpoint.requests()}


def test_the_cloud_and_robot_are_asked_through_the_proxy_and_metadata_is_not(
        api, cloud, robot, robot_env, metadata, kubelet, hetzner):
    """The simulators are the proxy, too."""
    network = cloud.add_network("net")
    here = metadata(cloud.add_server("n1", networks=[network], private_ip="10.0.0.9"))
    robot.add_server(321, "bm1")
    kubelet("n1", ip="10.0.0.9")
    kubelet("bm1", ip="192.168.1.2")
    for one in (cloud, robot):
        hetzner(env={**robot_env, "HCLOUD_ENDPOINT": elsewhere(cloud), "ROBOT_ENDPOINT": elsewhere(robot), "HCLOUD_NETWORK": "net",
                     "HCLOUD_NETWORK_ROUTES_ENABLED": "false", "HCLOUD_METADATA_ENDPOINT": elsewhere(here),
                     "HTTP_PROXY": one.url.removesuffix(one.base), "NO_PROXY": f"0.0.0.0:{(robot if one is cloud else cloud).port}"})
    for name in ("n1", "bm1"):
        api.wait_node(name, is_initialized)
    wait_for(lambda: all(proxied(one) == {True, False} for one in (cloud, robot)), what="requests with and without a proxy")
    assert here.calls() and proxied(here) == {False}


def test_no_proxy_is_honoured(api, cloud, kubelet, hetzner):
    cloud.add_server("n1")
    kubelet("n1")
    hetzner(env={"HCLOUD_ENDPOINT": elsewhere(cloud), "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "example.com,0.0.0.0/32"})
    api.wait_node("n1", is_initialized)
    assert proxied(cloud) == {False}


def test_requests_name_the_program(api, cloud, kubelet, hetzner):
    cloud.add_server("n1")
    kubelet("n1")
    hetzner()
    api.wait_node("n1", is_initialized)
    for one in cloud.requests():
        assert re.fullmatch(r"hcloud-cloud-controller/\S+ ccmd/\S+", one.headers["User-Agent"])
        assert one.headers["Accept"] == "application/json" and "Content-Type" not in one.headers


# --- what is told ------------------------------------------------------------------------------------------------------------


def test_events_have_the_official_source(api, cloud, robot, robot_env, kubelet, hetzner):
    cloud.add_server("n1")
    robot.add_server(321, "n1")
    kubelet("n1")
    hetzner(env=robot_env)
    event = api.wait_event("n1", "InstanceLookupFailed")
    assert component(event) == COMPONENT and event["type"] == "Warning"
    assert event["message"] == ("Node n1 could not be uniquely associated with a Cloud or Robot server, as a server with this name "
                                "exists in both APIs")


def test_a_refused_token_is_reported_about_ccmd_and_about_the_node(api, cloud, kubelet, hetzner, own_events, tmp_path):
    file = tmp_path / "token"
    file.write_text(cloud.token)
    servers = [cloud.add_server(name) for name in ("n1", "n2", "n3")]
    n1, n2 = (kubelet(one.name, initialized=True, provider_id=f"hcloud://{one.id}") for one in servers[:2])
    one = hetzner(env={"HCLOUD_TOKEN": None, "HCLOUD_TOKEN_FILE": str(file)}, **FAST)
    one.wait_log("controller started")
    cloud.rotate_token()
    for each in (n1, n2):
        each.silent()
    event = wait_for(lambda: own_events("HetznerTokenRefused"), what="the event")[0]
    assert component(event) == COMPONENT and event["type"] == "Warning"
    assert event["involvedObject"]["kind"] == "Namespace" and event["involvedObject"]["name"] == "kube-system"
    assert "HCLOUD_TOKEN_FILE" in event["message"] and "unable to authenticate (unauthorized)" in event["message"]
    kubelet("n3")
    assert "unable to authenticate (unauthorized)" in api.wait_event("n3", "FailedToInitializeNode")["message"]
    holds_for(lambda: all(api.get_or_none(f"{NODES}/{each.name}") for each in (n1, n2)), 1, "nodes", poll=0.1)
    assert len(own_events("HetznerTokenRefused")) == 1, "one, however often it is refused"
    assert cloud.token not in one.text
    file.write_text(cloud.token)
    api.wait_node("n3", is_initialized)
    wait_for(lambda: own_events("HetznerAnswers"), what="the good news")


def test_the_reserve_is_a_flag(api, cloud, kubelet, hetzner, own_events):
    """With a reserve of half the limit, background work waits that would run by default; a new node does not wait."""
    server = cloud.add_server("n1")
    n1 = kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    cloud.project.tokens_left = 2500.0
    hetzner(cloud_rate_limit_reserve="50%", **FAST).wait_log("controller started")
    n1.not_ready()
    wait_for(lambda: own_events("HetznerRateLimit"), what="the event")
    asked = cloud.calls("GET", f"/servers/{server.id}")
    cloud.add_server("n2")
    kubelet("n2")
    api.wait_node("n2", is_initialized)
    assert cloud.calls("GET", f"/servers/{server.id}") == asked


# --- IDs and addresses ----------------------------------------------------------------------------------------------------------


def test_provider_ids_of_another_controller(api, cloud, robot, robot_env, kubelet, hetzner):
    """Syself's fork wrote hcloud://bm-N for Robot servers; their nodes are left as they are."""
    ids = {"bm1": "hcloud://bm-321", "bm2": "hrobot://322", "bm3": "hrobot://323"}
    machines = {}
    for name, provider_id in ids.items():
        robot.add_server(int(re.search("[0-9]+$", provider_id)[0]), name, ip="203.0.113.9")
        machines[name] = kubelet(name, ip="192.168.1.2", initialized=True, provider_id=provider_id)
    hetzner(env={**robot_env, "ROBOT_CACHE_TIMEOUT": "100ms"}, node_status_update_frequency="500ms", **FAST)
    wanted = lambda name: [("Hostname", name), ("ExternalIP", "203.0.113.9"), ("InternalIP", "192.168.1.2")]
    for name, provider_id in ids.items():
        node = api.wait_node(name, lambda node: addresses(node) == wanted(node["metadata"]["name"]))
        assert node["spec"]["providerID"] == provider_id
    for name in ("bm1", "bm2"):
        machines[name].silent()
    robot.delete_server(321)
    api.wait_gone("bm1")
    holds_for(lambda: api.get_or_none(f"{NODES}/bm2"), 2, "the node of a server that is there", poll=0.1)


@pytest.mark.parametrize("family, wanted", [
    ("ipv4", []), ("ipv6", [("ExternalIP", "2001:db8:1234::1")]), ("dualstack", [("ExternalIP", "2001:db8:1234::1")])])
def test_a_server_without_ipv4(api, cloud, kubelet, hetzner, metadata, family, wanted):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", ipv6="2001:db8:1234::/64", public_ipv4=False, networks=[network], private_ip="10.0.0.9")
    kubelet("n1", ip="10.0.0.9")
    hetzner(env={"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_ROUTES_ENABLED": "false", "HCLOUD_METADATA_ENDPOINT": metadata(server).url,
                 "HCLOUD_INSTANCES_ADDRESS_FAMILY": family})
    node = api.wait_node("n1", is_initialized)
    assert sorted(addresses(node)) == sorted([("Hostname", "n1"), *wanted, ("InternalIP", "10.0.0.9")])


# --- moving here ------------------------------------------------------------------------------------------------------------------

OFFICIAL_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: official}
rules:
  - {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [events], verbs: [create, patch, update]}
  - {apiGroups: [""], resources: [nodes], verbs: ["*"]}
  - {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
  - {apiGroups: [""], resources: [services], verbs: [list, watch]}
  - {apiGroups: [""], resources: [services/status], verbs: [patch, update]}
  - {apiGroups: [""], resources: [serviceaccounts], verbs: [create]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, list, watch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: official}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: official}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: official}]
"""


def test_the_rights_of_the_official_controller_are_enough(cluster, api, cloud, kubelet, hetzner):
    """An operator who replaces the image has the role of the official chart and no other. It is enough for nodes and Services."""
    cluster.kubectl("apply", "-f", "-", input=OFFICIAL_ROLE)
    servers = [cloud.add_server(name) for name in ("n1", "n2")]
    n1, n2 = (kubelet(one.name) for one in servers)
    services = Services(api)
    services.clear()
    hetzner(env={"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}, leader_elect=True,
            kubeconfig=cluster.kubeconfig("official", pair=cluster.authority.client("official", "official")), **FAST)
    for one in servers:
        assert api.wait_node(one.name, is_initialized)["spec"]["providerID"] == f"hcloud://{one.id}"
    services.create("web")
    services.wait_ips("web")
    services.delete("web")
    services.wait_gone("web")
    n2.ready()
    cloud.delete_server("n1")
    n1.silent()
    api.wait_gone("n1")


# --- the tutorial ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["hcloud-from-scratch", "ccm-from-scratch"])
def test_the_tutorials_own_steps(api, cloud, kubelet, hetzner, provider):
    """A cluster whose kubelets run with --cloud-provider=external; its chart's flags; then no node is tainted, and a Service of
    type LoadBalancer is reached on a public IPv4 address, behind which are all nodes."""
    network = cloud.add_network("ccm-from-scratch")
    names = ("control", "worker-1", "worker-2")
    for number, name in enumerate(names):
        cloud.add_server(name, networks=[network], private_ip=f"10.0.0.{number + 2}")
        kubelet(name, ip=f"10.0.0.{number + 2}")
    assert all(UNINITIALIZED in taint_keys(node) for node in api.list(NODES))
    services = Services(api)
    services.clear()
    services.create("nginx", 80)
    hetzner("--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=false", provider=provider,
            env={"HCLOUD_NETWORK": str(network.id), "HCLOUD_DEBUG": "yes"})
    for name in names:
        node = api.wait_node(name, is_initialized)
        assert UNINITIALIZED not in taint_keys(node)
        assert node["spec"]["providerID"] == f"{provider}://{cloud.server(name).id}"
    services.wait_ips("nginx")
    (balancer,) = cloud.state()["load_balancers"].values()
    web = services.get("nginx")
    assert balancer["public_net"]["ipv4"]["ip"] in [one["ip"] for one in web["status"]["loadBalancer"]["ingress"]]
    assert [(one["listen_port"], one["destination_port"]) for one in balancer["services"]] == [
        (80, web["spec"]["ports"][0]["nodePort"])]
    behind = lambda: {one["server"]["id"] for one in next(iter(cloud.state()["load_balancers"].values()))["targets"]}
    wait_for(lambda: behind() == {cloud.server(name).id for name in names}, what="all nodes behind it")
    services.delete("nginx")
    services.wait_gone("nginx")
    assert not cloud.load_balancers
