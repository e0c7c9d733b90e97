"""Nodes in the Hetzner Cloud: they are initialised, watched and deleted, with few requests, and never by mistake.

The periods are shorter than the defaults. Where requests are counted, they are counted for each period, and an hour has as
many periods as with the defaults.
"""
import time

import pytest

from lib.api import NODES
from lib.ccmd import FAST
from lib.nodes import SHUTDOWN, addresses, create_many, is_initialized, taint_keys
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


def initialised(api, name):
    return api.wait_node(name, is_initialized, what=f"{name} to be initialised")


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
    wait_for(lambda: cloud.calls("GET", "/servers"), what="a look at the servers")
    assert not is_initialized(api.node("n1"))
    cloud.add_server("n1")
    initialised(api, "n1")


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


# --- off -------------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_off_taints_its_node_until_it_is_ready_again(api, cloud, fleet, hetzner):
    (n1, _) = fleet("n1", "n2")
    hetzner(**FAST)
    cloud.power("n1", "off")
    n1.silent()
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
    cloud.power("n1", "running")
    n1.ready()
    api.wait_node("n1", lambda node: SHUTDOWN not in taint_keys(node))


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


def held(api, kubelet, *texts):
    event = api.wait_event(kubelet.name, "NodeDeletionHeld")
    assert event["type"] == "Warning" and all(text in event["message"] for text in texts), event["message"]


def test_a_token_of_another_project_deletes_nothing(api, cloud, fleet, hetzner):
    kubelets = fleet("n1", "n2", "n3")
    _, token = cloud.add_project()
    hetzner(env={"HCLOUD_TOKEN": token}, **FAST)
    for one in kubelets:
        one.silent()
    for one in kubelets:
        held(api, one, f"kubectl delete node {one.name}")
    stay(api, *kubelets)


def test_a_token_of_another_project_that_has_servers_deletes_nothing(api, cloud, fleet, hetzner):
    """The other project's servers even have the names of the cluster's: a witness is found by its provider ID."""
    kubelets = fleet("n1", "n2", "n3")
    other, token = cloud.add_project()
    for name in ("n1", "n2", "n3", "n4"):
        other.add_server(name)
    hetzner(env={"HCLOUD_TOKEN": token}, **FAST)
    kubelets[0].silent()
    held(api, kubelets[0])
    stay(api, *kubelets)


def test_nothing_is_deleted_when_all_servers_vanish(api, cloud, fleet, hetzner):
    kubelets = fleet("n1", "n2", "n3")
    hetzner(**FAST)
    cloud.servers.clear()
    for one in kubelets:
        one.silent()
    for one in kubelets:
        held(api, one)
    stay(api, *kubelets)


def lists_only(request):
    return "name" not in request.query


@pytest.mark.parametrize("fault", [
    faults.empty_list(), faults.short_page(3), faults.wrong_total(1), faults.bad_json(), faults.cut_body(100),
    faults.plain(502), faults.error("unavailable"), faults.reset(),
], ids=["empty", "short", "wrong total", "bad json", "cut", "502", "503", "reset"])
def test_a_list_that_is_wrong_deletes_nothing(api, cloud, fleet, hetzner, fault):
    """Only the list is wrong: each server is still found by its ID, which is requested before anything is deleted."""
    kubelets = fleet("n1", "n2", "n3", "n4")
    rule = cloud.fault("GET", "/servers", fault, times=None, when=lists_only)
    hetzner(**FAST)
    for one in kubelets[:3]:
        one.silent()
    wait_for(lambda: rule.hits >= 2, what="the list to be asked for")
    stay(api, *kubelets)


@pytest.mark.parametrize("fault", [
    faults.unauthorized(), faults.error("forbidden"), faults.error("server_error"),
    faults.error("unavailable"), faults.plain(502), faults.plain(404, "<html>not here</html>"), faults.bad_json("[]"),
    faults.reset(),
], ids=["401", "403", "500", "503", "502", "404 of a proxy", "no object", "reset"])
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
    wait_for(lambda: cloud.calls(since=mark), what="a request")
    one.wait_log("the cloud does not report about nodes that are not ready|a cloud API is unavailable")
    stay(api, *kubelets)
    cloud.clear_faults()
    api.wait_gone("n1")
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
    wait_for(lambda: any(each.status == 401 for each in cloud.requests()), what="a refusal")
    stay(api, n1, n2)
    file.write_text(cloud.token + "\n")
    api.wait_gone("n1")


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
    wait_for(lambda: robot.calls(), what="Robot to be asked")
    stay(api, *machines)


def test_past_the_rate_limit_few_requests_are_sent_and_nothing_is_deleted(api, cloud, fleet, hetzner):
    kubelets = fleet("n1", "n2", "n3")
    one = hetzner(**FAST)
    one.wait_log("controller started")
    cloud.fault(None, None, faults.too_many(reset_in_s=3600), times=None)
    cloud.delete_server("n1")
    for kubelet in kubelets:
        kubelet.silent()
    throttled = lambda: [each for each in api.list("/api/v1/events") if each["reason"] == "HetznerRateLimit"]
    event = wait_for(throttled, what="the event")[0]
    assert event["type"] == "Warning" and "rate limit" in event["message"]
    refused = cloud.mark()
    stay(api, *kubelets)
    assert cloud.calls(since=refused) <= 2, cloud.tally(since=refused)


# --- how often it asks -------------------------------------------------------------------------------------------------------


def test_starting_costs_few_requests(api, cloud, kubelet, hetzner):
    cloud.add_server("n1")
    kubelet("n1")
    hetzner()
    initialised(api, "n1")
    assert cloud.calls() <= 3, cloud.tally()


def test_idle_costs_one_list_a_period(api, cloud, hetzner):
    """At most 15 requests an hour for 50 servers. Addresses are compared every 5 minutes, here every second: 6 periods."""
    for number in range(100):
        cloud.add_server(f"node-{number:05d}")
    create_many(api, 50, real_sized=False)
    hetzner(node_status_update_frequency="1s")
    wait_for(lambda: all(map(is_initialized, api.list(NODES))), what="all nodes to be initialised")
    mark = cloud.mark()
    begun = time.monotonic()
    cloud.pause(6.0)
    periods = time.monotonic() - begun
    pages = 2
    assert periods / 2 <= cloud.calls(since=mark) <= 15 * pages * periods / 12, cloud.tally(since=mark)


def test_a_node_that_is_not_ready_costs_one_request_a_look(api, cloud, fleet, hetzner):
    """At most 60 requests an hour. A node that is not ready is looked at every 65 s, here twice a second: 55 looks an hour."""
    kubelets = fleet(*(f"n{number}" for number in range(10)))
    hetzner(node_monitor_period="500ms", node_status_update_frequency="1h")
    kubelets[0].not_ready()
    wait_for(lambda: cloud.calls("GET", f"/servers/{cloud.server('n0').id}") >= 2, what="the first looks")
    mark = cloud.mark()
    begun = time.monotonic()
    cloud.pause(5.0)
    looks = (time.monotonic() - begun) / 0.5
    assert looks / 2 <= cloud.calls(since=mark) <= looks * 60 / 55 + 1, cloud.tally(since=mark)


def test_five_hundred_nodes_join_with_few_requests(api, cloud, hetzner):
    """ccmd is paused while the nodes are created. On a busy machine that takes longer than one look at the cloud, so ccmd would
    need several looks, and more requests."""
    cloud.latency_s = 0.1
    for number in range(500):
        cloud.add_server(f"node-{number:05d}")
    one = hetzner()
    one.wait_log("objects listed kind=Node")  # before, it waits 10 s at most for the API server, and the pause would count
    one.process.pause()
    create_many(api, 500, real_sized=False)
    one.process.resume()
    wait_for(lambda: all(map(is_initialized, api.list(NODES))), 300, "all nodes to be initialised", poll=0.2)
    assert cloud.calls() <= 30, cloud.tally()
