"""Nodes in the Hetzner Cloud: they are initialised, watched and deleted, with few requests, and never by mistake.

The periods are shorter than the defaults. Where requests are counted, they are counted for each period, and an hour has as
many periods as with the defaults.
"""
import pytest

from lib.api import NODES
from lib.ccmd import FAST
from lib.nodes import SHUTDOWN, addresses, is_initialized, taint_keys
from lib.wait import holds_for, wait_for
from sim import faults
from sim import robot as robots

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

QUIET_S = 1.5  # many looks, and three times the interval of confirmation


@pytest.fixture
def fleet(cloud, kubelet):
    """fleet("n1", "n2"): servers, and initialised nodes with their provider IDs. Returns the kubelets."""

    def build(*names, **options):
        made = [cloud.add_server(name) for name in names]
        return [kubelet(one.name, ip="10.0.0.1", initialized=True, provider_id=f"hcloud://{one.id}", **options) for one in made]

    return build


def stay(api, *kubelets, seconds=QUIET_S):
    holds_for(lambda: all(api.get_or_none(f"{NODES}/{one.name}") for one in kubelets), seconds, "nodes", poll=0.1)


# --- initialised -----------------------------------------------------------------------------------------------------------


def initialised(api, name, timeout=10):
    return api.wait_node(name, is_initialized, timeout, f"{name} to be initialised")


def test_a_node_gets_what_the_official_controller_gives(api, cloud, kubelet, hetzner):
    server = cloud.add_server("n1", ip="198.18.0.7", ipv6="2001:db8:1234::/64", location="hel1", type="cx32")
    kubelet("n1")
    hetzner()
    node = initialised(api, "n1")
    assert node["spec"]["providerID"] == f"hcloud://{server.id}"
    labels = node["metadata"]["labels"]
    assert {key: labels.get(key) for key in (
        "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
        "instance.hetzner.cloud/provided-by")} == {
        "node.kubernetes.io/instance-type": "cx32", "topology.kubernetes.io/region": "hel1",
        "topology.kubernetes.io/zone": "hel1-dc2", "instance.hetzner.cloud/provided-by": "cloud"}
    assert addresses(node) == [("Hostname", "n1"), ("ExternalIP", "198.18.0.7")]


@pytest.mark.sanitized
def test_addresses_of_both_families_and_the_network(api, cloud, kubelet, hetzner, metadata):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", ip="198.18.0.7", ipv6="2001:db8:1234::/64", networks=[network], private_ip="10.0.0.9")
    kubelet("n1", ip="10.0.0.9")
    hetzner(env={"HCLOUD_NETWORK": "net", "HCLOUD_METADATA_ENDPOINT": metadata(server).url,
                 "HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack"})
    assert addresses(initialised(api, "n1")) == [
        ("Hostname", "n1"), ("ExternalIP", "198.18.0.7"), ("ExternalIP", "2001:db8:1234::1"), ("InternalIP", "10.0.0.9")]


def test_a_node_whose_server_comes_later(api, cloud, kubelet, hetzner):
    kubelet("n1")
    hetzner()
    wait_for(lambda: cloud.calls("GET", "/servers"), 20, "a look at the servers")
    assert not is_initialized(api.node("n1"))
    cloud.add_server("n1")
    initialised(api, "n1", timeout=30)


@pytest.mark.sanitized
def test_a_dedicated_server(api, cloud, robot, kubelet, hetzner):
    robot.add_server(321, "bm1", ip="203.0.113.9", product="AX41-NVMe™ 1", dc="FSN1-DC14")
    kubelet("bm1", ip="192.168.1.2")
    hetzner(env={"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user,
                 "ROBOT_PASSWORD": robot.password})
    node = initialised(api, "bm1")
    labels = node["metadata"]["labels"]
    assert node["spec"]["providerID"] == "hrobot://321"
    assert (labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"],
            labels["instance.hetzner.cloud/provided-by"]) == ("AX41-NVMe-1", "fsn1-dc14", "robot")
    assert addresses(node) == [("Hostname", "bm1"), ("ExternalIP", "203.0.113.9"), ("InternalIP", "192.168.1.2")]


@pytest.mark.parametrize("provider, down", [("hcloud-from-scratch", "stopping"), ("ccm-from-scratch", "off")])
@pytest.mark.sanitized
def test_the_tutorials_dialect(api, cloud, kubelet, hetzner, metadata, provider, down):
    """As in the tutorial's repository, where every status but running is shut down, and as in its text."""
    network = cloud.add_network("net")
    server = cloud.add_server("n1", ip="198.18.0.7", ipv6="2001:db8:1234::/64", networks=[network], private_ip="10.0.0.9")
    n1 = kubelet("n1", ip="10.0.0.9")
    hetzner(provider=provider, env={"HCLOUD_NETWORK": str(network.id), "HCLOUD_METADATA_ENDPOINT": metadata(server).url}, **FAST)
    node = initialised(api, "n1")
    labels = node["metadata"]["labels"]
    assert node["spec"]["providerID"] == f"{provider}://{server.id}"
    assert (labels["topology.kubernetes.io/region"], labels["topology.kubernetes.io/zone"]) == ("eu-central", "fsn1")
    assert "instance.hetzner.cloud/provided-by" not in labels
    assert sorted(addresses(node)) == [
        ("ExternalIP", "198.18.0.7"), ("ExternalIP", "2001:db8:1234::"), ("Hostname", "n1"), ("InternalIP", "10.0.0.9")]
    cloud.power("n1", down)
    n1.silent()
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))


# --- gone ------------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_the_node_of_a_deleted_server_goes_on_proof(api, cloud, fleet, hetzner):
    n1, n2 = fleet("n1", "n2")
    hetzner(**FAST)
    cloud.delete_server("n1")
    n1.silent()
    api.wait_gone("n1")
    assert api.get_or_none(f"{NODES}/n2")
    asked = [one for one in cloud.requests("GET", "/servers/{id}") if one.status == 404]
    assert len(asked) >= 2 and asked[-1].at - asked[0].at >= 0.5, "two answers, some time apart"


def test_the_network_stands_in_for_a_witness(api, cloud, kubelet, hetzner, metadata):
    """The last node of a cluster may be deleted, since the token still sees the network of the cluster."""
    network = cloud.add_network("net")
    server, own = cloud.add_server("n1", networks=[network]), cloud.add_server("control-plane", networks=[network])
    n1 = kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    hetzner(env={"HCLOUD_NETWORK": "net", "HCLOUD_METADATA_ENDPOINT": metadata(own).url}, **FAST)
    cloud.delete_server("n1")
    n1.silent()
    api.wait_gone("n1")


@pytest.mark.parametrize("fault", [faults.plain(404, "<html>not here</html>"), faults.reset()], ids=["404 of a proxy", "reset"])
@pytest.mark.sanitized
def test_a_cloud_that_does_not_answer_deletes_nothing(api, cloud, fleet, hetzner, fault):
    kubelets = fleet("n1", "n2", "n3")
    one = hetzner(**FAST)
    one.wait_log("controller started")
    mark = cloud.mark()
    cloud.fault(None, None, fault, times=None)
    cloud.delete_server("n1")
    for kubelet in kubelets:
        kubelet.silent()
    wait_for(lambda: cloud.calls(since=mark), 10, "a request")
    one.wait_log("the cloud does not report about nodes that are not ready|a cloud API is unavailable")
    stay(api, *kubelets)
    cloud.clear_faults()
    api.wait_gone("n1", timeout=30)
    assert api.get_or_none(f"{NODES}/n2") and api.get_or_none(f"{NODES}/n3")


def test_a_revoked_token_deletes_nothing_until_a_new_file_replaces_it(api, cloud, fleet, hetzner, tmp_path):
    n1, n2 = fleet("n1", "n2")
    file = tmp_path / "token"
    file.write_text(cloud.token + "\n")
    one = hetzner(env={"HCLOUD_TOKEN_FILE": str(file), "HCLOUD_TOKEN": None}, **FAST)
    one.wait_log("controller started")
    cloud.rotate_token()
    cloud.delete_server("n1")
    n1.silent()
    wait_for(lambda: any(each.status == 401 for each in cloud.requests()), 10, "a refusal")
    stay(api, n1, n2)
    file.write_text(cloud.token + "\n")
    api.wait_gone("n1", timeout=30)


@pytest.mark.sanitized
def test_a_robot_that_refuses_deletes_nothing(api, cloud, robot, fleet, kubelet, hetzner):
    fleet("n1")
    robot.add_server(321, "bm1")
    robot.add_server(322, "bm2")
    machines = [kubelet(name, initialized=True, provider_id=f"hrobot://{number}") for number, name in ((321, "bm1"), (322, "bm2"))]
    robot.fault(None, None, robots.too_many(), times=None)
    hetzner(env={"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user,
                 "ROBOT_PASSWORD": robot.password}, **FAST)
    for one in machines:
        one.silent()
    wait_for(lambda: robot.calls(), 10, "Robot to be asked")
    stay(api, *machines)


# --- how often it asks -------------------------------------------------------------------------------------------------------


def test_starting_costs_few_requests(api, cloud, kubelet, hetzner):
    cloud.add_server("n1")
    kubelet("n1")
    hetzner()
    initialised(api, "n1")
    assert cloud.calls() <= 3, cloud.tally()
