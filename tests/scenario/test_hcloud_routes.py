"""Routes in the Hetzner Cloud: the private network gets a route to every node's pods, by few requests.

The network's routes are compared field by field. The requests that led there are counted.
"""
from types import SimpleNamespace

import pytest

from lib.api import NODES, STRATEGIC
from lib.faultproxy import delay
from lib.nodes import has_no_route, is_initialized, is_routed, network_condition, node_object
from lib.services import Services
from lib.wait import PATIENCE_S, holds_for, wait_for
from sim import faults

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

FLAGS = dict(cluster_cidr="10.244.0.0/16", route_reconciliation_period="500ms")
NETWORK = "/networks/{id}"
ADD = "/networks/{id}/actions/add_route"
DELETE = "/networks/{id}/actions/delete_route"
QUIET_S = 1.5  # several runs, if there were any


@pytest.fixture
def network(cloud):
    """One network; .env: the variables of a ccmd that uses it."""
    one = cloud.add_network("net")
    one.env = {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    return one


@pytest.fixture
def start(hetzner, network):
    """start(HCLOUD_…=…, cluster_cidr=…): a ccmd that makes routes."""

    def run(*flags, provider="hcloud", cluster_cidr=FLAGS["cluster_cidr"], **env):
        options = {**FLAGS, "cluster_cidr": cluster_cidr} if cluster_cidr else {}
        return hetzner(*flags, provider=provider, env={**network.env, **env}, **options)

    return run


@pytest.fixture
def node(api, cloud, network, kubelet):
    """node("n1", "10.244.1.0/24"): a server in the network, and its node with these pod CIDRs. Returns the server."""

    def register(name, *cidrs, server=None, provider="hcloud", initialized=True):
        made = cloud.add_server(server or name, networks=[network])
        kubelet(name, ip=made.private_ip(network.id), initialized=initialized,
                provider_id=f"{provider}://{made.id}" if initialized else None)
        if cidrs:
            pods(api, name, *cidrs)
        return made

    return register


def pods(api, name, *cidrs):
    api.patch(f"{NODES}/{name}", {"spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}})


def routes(cloud):
    """{destination: gateway}, of the cloud's only network."""
    (found,) = cloud.state()["networks"].values()
    assert len({one["destination"] for one in found["routes"]}) == len(found["routes"])
    return {one["destination"]: one["gateway"] for one in found["routes"]}


def has_routes(cloud, wanted, timeout=PATIENCE_S):
    wait_for(lambda: routes(cloud) == wanted, timeout, f"the routes {wanted}", seen=lambda: routes(cloud))


def keeps_routes(cloud, wanted, seconds=QUIET_S):
    holds_for(lambda: routes(cloud) == wanted, seconds, f"the routes {wanted}")


def add_route(network, destination, gateway):
    """As by somebody at the console."""
    with network.project.cloud.lock:
        network.routes.append(network.new_route({"destination": destination, "gateway": gateway}))


def wrote(cloud, since=0):
    """[(what, destination, gateway)] of all changes of routes."""
    return [(one.path.rsplit("/", 1)[1], one.json()["destination"], one.json()["gateway"])
            for path in (ADD, DELETE) for one in cloud.requests("POST", path, since)]


# --- made and removed ------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_the_life_of_a_route(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24")
    node("n2")
    start()
    api.wait_node("n1", is_routed)
    first = {"10.244.1.0/24": n1.private_ip(network.id)}
    assert routes(cloud) == first
    assert network_condition(api.node("n2")) is None
    pods(api, "n2", "10.244.2.0/24")
    api.wait_node("n2", is_routed)
    has_routes(cloud, {**first, "10.244.2.0/24": cloud.server("n2").private_ip(network.id)})
    api.delete(f"{NODES}/n2")
    has_routes(cloud, first)
    assert len(wrote(cloud)) == 3


def test_a_node_that_joins_is_routed_without_a_warning(api, cloud, network, node, start):
    """ccmd writes its addresses a moment after its pod CIDR: that is not a failure."""
    start()
    server = node("n1", "10.244.1.0/24", initialized=False)
    api.wait_node("n1", is_routed)
    assert routes(cloud) == {"10.244.1.0/24": server.private_ip(network.id)}
    assert not [one for one in api.events("n1") if one["reason"] == "FailedToCreateRoute"]


def test_our_own_writes_to_nodes_that_join_do_not_conflict(api, cloud, network, start, proxy):
    proxy.on("PATCH", f"^{NODES}/", delay(0.3), times=None)
    start()
    names = [f"n{number}" for number in range(1, 9)]
    for number, name in enumerate(names, 1):
        server = cloud.add_server(name, networks=[network])
        joins = node_object(name, ip=server.private_ip(network.id))
        joins["spec"].update(podCIDR=f"10.244.{number}.0/24", podCIDRs=[f"10.244.{number}.0/24"])
        api.post(NODES, joins)
    for name in names:
        api.wait_node(name, lambda one: is_initialized(one) and is_routed(one))
    patches = proxy.requests("PATCH", f"^{NODES}/")
    assert not [one for one in patches if one.status == 409], patches


@pytest.mark.sanitized
def test_many_nodes_together_cost_few_requests(api, cloud, network, node, start):
    cloud.action_s = 0.1
    wanted = {}
    for number in range(1, 13):
        server = node(f"n{number}", f"10.244.{number}.0/24")
        wanted[f"10.244.{number}.0/24"] = server.private_ip(network.id)
    start()
    has_routes(cloud, wanted)
    for number in range(1, 13):
        api.wait_node(f"n{number}", is_routed)
    assert len(wrote(cloud)) == 12
    assert cloud.calls("GET", NETWORK) <= 4  # addresses that come late make a run more
    assert cloud.calls("GET", "/actions") <= 4 * 12  # one at a time: the network takes no two
    assert not [one for one in cloud.requests() if one.status in (409, 423)]


def test_nothing_is_asked_at_rest_and_little_after_a_restart(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24")
    one = start("--controllers=node-route-controller")
    before = api.wait_node("n1", is_routed)["metadata"]["resourceVersion"]
    mark = cloud.mark()
    holds_for(lambda: cloud.mark() == mark, QUIET_S, "no request")
    one.stop()
    start("--controllers=node-route-controller")
    wait_for(lambda: cloud.calls("GET", "/servers", mark) > 0, what="a look")
    keeps_routes(cloud, {"10.244.1.0/24": n1.private_ip(network.id)})
    assert (cloud.calls("GET", NETWORK, mark), cloud.calls("GET", "/servers", mark)) == (1, 1)
    assert not cloud.writes(mark)
    assert api.node("n1")["metadata"]["resourceVersion"] == before


def test_routes_outside_of_the_cluster_cidr_stay(api, cloud, network, node, start):
    """Routes outside of the pods' network belong to others, whatever their gateway is; routes inside belong to ccmd."""
    n1 = node("n1", "10.244.1.0/24")
    stranger = cloud.add_server("stranger", networks=[network])
    foreign = {"0.0.0.0/0": n1.private_ip(network.id), "192.168.7.0/24": "10.0.9.9",
               "172.20.0.0/16": stranger.private_ip(network.id)}
    for destination, gateway in foreign.items():
        add_route(network, destination, gateway)
    add_route(network, "10.244.8.0/24", "10.0.9.9")
    add_route(network, "10.244.9.0/24", stranger.private_ip(network.id))
    start()
    has_routes(cloud, {**foreign, "10.244.1.0/24": n1.private_ip(network.id)})
    keeps_routes(cloud, {**foreign, "10.244.1.0/24": n1.private_ip(network.id)})


def test_a_server_of_another_name_keeps_its_route(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24", server="pool-a-17")
    start()
    api.wait_node("n1", is_routed)
    mark = cloud.mark()
    node("n2", "10.244.2.0/24")
    api.wait_node("n2", is_routed)
    assert routes(cloud)["10.244.1.0/24"] == n1.private_ip(network.id)
    assert [what for what, destination, _ in wrote(cloud, mark) if destination == "10.244.1.0/24"] == []


@pytest.mark.sanitized
def test_a_stale_gateway_is_replaced(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24")
    add_route(network, "10.244.1.0/24", "10.0.9.9")
    start()
    has_routes(cloud, {"10.244.1.0/24": n1.private_ip(network.id)})
    api.wait_node("n1", is_routed)
    assert sorted(wrote(cloud)) == [
        ("add_route", "10.244.1.0/24", n1.private_ip(network.id)), ("delete_route", "10.244.1.0/24", "10.0.9.9")]


def test_a_server_with_another_address_is_followed(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24")
    start("--node-status-update-frequency=1s")
    api.wait_node("n1", is_routed)
    with cloud.lock:
        n1.leave(network.id)
        n1.join(network, network.ip_for("10.0.0.77", None))
    has_routes(cloud, {"10.244.1.0/24": "10.0.0.77"})
    api.wait_node("n1", is_routed)


# --- what cannot be --------------------------------------------------------------------------------------------------------


def test_ipv6_pod_cidrs_get_no_route(api, cloud, network, node, start):
    n1 = node("n1", "10.244.1.0/24", "fd00:10:1::/64")
    start(cluster_cidr="fd00:10::/32,10.244.0.0/16")
    api.wait_node("n1", is_routed)
    api.wait_event("n1", "PodCIDRNotRouted")
    assert routes(cloud) == {"10.244.1.0/24": n1.private_ip(network.id)}


def test_a_pod_cidr_outside_the_cluster_cidr_is_reported(api, cloud, network, node, start):
    node("n1", "10.250.1.0/24")
    n2 = node("n2", "10.244.2.0/24")
    start()
    event = api.wait_event("n1", "ClusterCIDRMisconfigured")
    assert event["message"] == "route CIDR 10.250.1.0/24 is not contained within cluster CIDR 10.244.0.0/16"
    assert event["source"]["component"] == "route_controller"
    api.wait_node("n2", is_routed)
    assert routes(cloud) == {"10.244.2.0/24": n2.private_ip(network.id)}
    assert network_condition(api.node("n1")) is None


@pytest.fixture
def stolen(cluster, cloud, network):
    """stolen("n3", "0.0.0.0/0"): with that kubelet's certificate, an attacker registers its node with these pod CIDRs, or writes
    them into the node if there is one."""

    def take(name, *cidrs):
        client = cluster.api(pair=cluster.authority.client(name, f"system:node:{name}", ["system:nodes"]))
        spec = {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)} if cidrs else {}
        if client.get_or_none(f"{NODES}/{name}"):
            return client.patch(f"{NODES}/{name}", {"spec": spec})
        server = cloud.add_server(name, networks=[network])
        wanted = node_object(name, ip=server.private_ip(network.id), initialized=True, provider_id=f"hcloud://{server.id}")
        wanted["spec"].update(spec)
        return client.post(NODES, wanted)

    return take


def test_a_stolen_kubelet_gets_no_packets_of_other_nodes(api, cloud, network, node, start, stolen):
    """NodeRestriction lets a kubelet write any pod CIDR into its Node, as long as it has none."""
    stolen("old")  # older than its victims
    n1 = node("n1", "10.244.1.0/24")
    add_route(network, "0.0.0.0/0", "10.0.9.254")  # the network's way out
    start()
    api.wait_node("n1", is_routed)
    before = {"0.0.0.0/0": "10.0.9.254", "10.244.1.0/24": n1.private_ip(network.id)}
    assert routes(cloud) == before
    mark = cloud.mark()
    stolen("old", "10.244.1.0/24")
    stolen("all", "0.0.0.0/0")
    stolen("young", "10.244.1.0/24")
    stolen("wide", "10.244.0.0/16")
    api.wait_event("all", "ClusterCIDRMisconfigured")
    for name in ("old", "young", "wide"):  # why n1 goes first is said, too; who is older in the same second, the UIDs decide
        assert "overlaps with 10.244.1.0/24 of node n1, which " in api.wait_event(name, "PodCIDRNotRouted")["message"]
    keeps_routes(cloud, before)
    assert not wrote(cloud, mark)
    assert is_routed(api.node("n1"))


def test_a_refused_route_is_reported_and_the_others_are_made(api, cloud, network, node, start):
    node("n1", "10.0.128.0/24")  # lies in the network's own subnet
    n2 = node("n2", "10.244.2.0/24")
    start(cluster_cidr="10.0.0.0/8")
    message = api.wait_event("n1", "FailedToCreateRoute")["message"]
    gateway = cloud.server("n1").private_ip(network.id)
    assert f'hcloud/CreateRoute: error upserting route "10.0.128.0/24" via "{gateway}": error adding route: ' in message
    assert "(invalid_input): invalid fields: destination (10.0.128.0/24 overlaps with a subnet)" in message
    api.wait_node("n1", has_no_route)
    api.wait_node("n2", is_routed)
    assert routes(cloud) == {"10.244.2.0/24": n2.private_ip(network.id)}


def test_a_full_network_is_reported_and_rarely_asked(api, cloud, network, node, start):
    for number in range(99):
        add_route(network, f"192.168.{number}.0/24", "10.0.9.9")
    for number in range(1, 6):
        node(f"n{number}", f"10.244.{number}.0/24")
    start()
    wait_for(lambda: len(routes(cloud)) == 100, what="a full network")
    wait_for(lambda: sum(has_no_route(api.node(f"n{number}")) for number in range(1, 6)) == 4, what="four nodes without a route")
    lost = next(number for number in range(1, 6) if has_no_route(api.node(f"n{number}")))
    assert "(resource_limit_exceeded)" in api.wait_event(f"n{lost}", "FailedToCreateRoute")["message"]
    mark = cloud.mark()
    holds_for(lambda: cloud.calls("POST", ADD, mark) <= cloud.calls("GET", NETWORK, mark) + 1, 3, "one attempt a look",
              poll=0.2)
    with cloud.lock:
        network.routes = [one for one in network.routes if str(one[0]).startswith("10.244.")]
    for number in range(1, 6):
        api.wait_node(f"n{number}", is_routed)


def test_a_server_outside_the_network_is_reported(api, cloud, network, kubelet, start):
    server = cloud.add_server("n1")
    kubelet("n1", ip="10.0.0.9", initialized=True, provider_id=f"hcloud://{server.id}")
    pods(api, "n1", "10.244.1.0/24")
    start("--controllers=node-route-controller")
    assert f"server n1 ({server.id}): network with id {network.id} not attached to this server" in \
        api.wait_event("n1", "FailedToCreateRoute")["message"]
    api.wait_node("n1", has_no_route)


@pytest.mark.parametrize("cidr, off", [(None, None), ("fd00:10::/32", None), ("10.244.0.0/16", "false")])
def test_routes_can_be_switched_off(api, cloud, network, node, start, settled, cidr, off):
    node("n1", "10.244.1.0/24")
    start(cluster_cidr=cidr, HCLOUD_NETWORK_ROUTES_ENABLED=off)
    cloud.add_server("sentinel", networks=[network], private_ip="10.0.200.1")
    settled()
    keeps_routes(cloud, {})
    assert network_condition(api.node("n1")) is None


def test_a_bad_cluster_cidr_ends_the_start_where_there_is_a_network(network, hetzner):
    one = hetzner(env=network.env, cluster_cidr="10.244.0.0")
    one.process.child.wait(timeout=30)
    one.kill()  # noted as meant
    assert 'cluster CIDR "10.244.0.0" is not a CIDR, e.g. 10.244.0.0/16' in one.text.replace("\\", "")


# --- trouble ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [faults.empty_list(), faults.short_page(2), faults.wrong_total(), faults.plain(502)])
def test_a_bad_list_of_servers_removes_no_route(api, cloud, network, node, start, trouble):
    for number in (1, 2):
        node(f"n{number}", f"10.244.{number}.0/24")
    start("--controllers=node-route-controller")
    for number in (1, 2):
        api.wait_node(f"n{number}", is_routed)
    before = routes(cloud)
    cloud.fault("GET", "/servers", trouble, times=None)
    mark = cloud.mark()
    n3 = node("n3", "10.244.3.0/24")
    wait_for(lambda: cloud.calls("GET", "/servers", mark) > 0, what="a look")
    holds_for(lambda: before.items() <= routes(cloud).items(), QUIET_S, f"the routes {before}")
    cloud.clear_faults()
    has_routes(cloud, {**before, "10.244.3.0/24": n3.private_ip(network.id)})
    assert cloud.calls("POST", DELETE, mark) == 0


def test_with_the_token_of_another_project_nothing_happens(api, cloud, network, node, start, tmp_path):
    n1 = node("n1", "10.244.1.0/24")
    token = tmp_path / "token"
    token.write_text(cloud.token)
    one = start("--controllers=node-route-controller", HCLOUD_TOKEN=None, HCLOUD_TOKEN_FILE=str(token))
    api.wait_node("n1", is_routed)
    _, other = cloud.add_project()
    token.write_text(other)
    mark = cloud.mark()
    node("n2", "10.244.2.0/24")
    one.wait_log(f"network not found: {network.id}")
    assert not cloud.writes(mark)
    assert routes(cloud) == {"10.244.1.0/24": n1.private_ip(network.id)}
    token.write_text(cloud.token)
    api.wait_node("n2", is_routed)


def test_a_lost_answer_makes_no_second_route_and_no_failure_that_lasts(api, cloud, network, node, start):
    cloud.fault("POST", ADD, faults.lose_answer())
    n1 = node("n1", "10.244.1.0/24")
    start()
    api.wait_node("n1", is_routed)
    assert routes(cloud) == {"10.244.1.0/24": n1.private_ip(network.id)}
    assert cloud.calls("POST", ADD) == 1


def test_a_busy_network_is_waited_for_without_a_warning(api, cloud, network, node, start):
    busy = cloud.fault("POST", ADD, faults.conflict(), times=3)
    n1 = node("n1", "10.244.1.0/24")
    n2 = node("n2", "10.244.2.0/24")
    start()
    has_routes(cloud, {"10.244.1.0/24": n1.private_ip(network.id), "10.244.2.0/24": n2.private_ip(network.id)})
    assert busy.hits == 3
    for name in ("n1", "n2"):
        api.wait_node(name, is_routed)
        assert not [one for one in api.events(name) if one["reason"] == "FailedToCreateRoute"]


def test_a_failed_action_is_reported_and_the_route_is_made(api, cloud, network, node, start):
    cloud.fault("POST", ADD, faults.action_error())
    node("n1", "10.244.1.0/24")
    start()
    assert "Action failed (action_failed, " in api.wait_event("n1", "FailedToCreateRoute")["message"]
    api.wait_node("n1", is_routed)


@pytest.mark.slow
def test_a_change_that_never_ends_holds_up_the_network_and_nothing_else(api, cloud, network, node, start):
    """The network refuses all other changes meanwhile: they are not even tried."""
    cloud.fault("POST", ADD, faults.action_hangs())
    node("n1", "10.244.1.0/24")
    start()
    wait_for(lambda: cloud.calls("POST", ADD) == 1, what="a route that is not made")
    node("n2", "10.244.2.0/24", initialized=False)
    api.wait_node("n2", lambda one: one["spec"].get("providerID"))
    mark = cloud.mark()
    holds_for(lambda: cloud.calls("GET", "/actions", mark) < 20 and cloud.calls("POST", ADD, mark) < 10, 40, "few requests", poll=1)
    cloud.project.release()
    for name in ("n1", "n2"):
        api.wait_node(name, is_routed)


def cni(api, names, seconds):
    """A CNI that writes its own reason whenever there is another one, for so many seconds. Returns how often it did, by node."""
    ours = ("False", "CiliumIsUp")
    written = dict.fromkeys(names, 0)

    def correct():
        for name in names:
            if network_condition(api.node(name)) == ours:
                continue
            written[name] += 1
            api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [
                {"type": "NetworkUnavailable", "status": ours[0], "reason": ours[1], "message": "Cilium is running on this node"}]}},
                STRATEGIC)
        return True

    holds_for(correct, seconds, poll=0.1)
    return written


@pytest.mark.parametrize("seconds", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_a_cni_that_writes_the_condition_costs_few_requests(api, cloud, network, node, hetzner, seconds):
    """n1 and n2 have their routes, n3's cannot be made."""
    for name, cidr in (("n1", "10.1.1.0/24"), ("n2", "10.1.2.0/24"), ("n3", "10.0.128.0/24")):
        node(name, cidr)
    hetzner("--controllers=node-route-controller", env=network.env, cluster_cidr="10.0.0.0/8", route_reconciliation_period="1h")
    for name in ("n1", "n2"):
        api.wait_node(name, is_routed)
    api.wait_node("n3", has_no_route)
    mark = cloud.mark()
    written = cni(api, ("n1", "n2", "n3"), seconds)
    assert cloud.mark() == mark  # nothing was asked
    assert (written["n1"], written["n2"]) == (1, 1)
    assert 2 <= written["n3"] <= 7  # five immediately, then after 10 and 20 s
    if seconds > 10:
        assert "a route of this node is missing" in api.wait_event("n3", "NetworkConditionContested")["message"]


# --- an API that is unavailable ---------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_after_an_outage_everything_is_done_together(api, cloud, network, node, kubelet, start):
    """Few requests are sent meanwhile, although nodes, Services and routes wait."""
    services = Services(api)
    n1 = node("n1", "10.244.1.0/24")
    one = start(HCLOUD_LOAD_BALANCERS_LOCATION="fsn1")
    has_routes(cloud, {"10.244.1.0/24": n1.private_ip(network.id)})
    outage = cloud.fault(None, None, faults.error("unavailable"), times=None)
    n2 = node("n2", "10.244.2.0/24")
    cloud.add_server("n3")
    kubelet("n3")
    services.create("web", 80)
    one.wait_log("a cloud API is unavailable")
    hits = outage.hits
    services.wait_event("web", "SyncLoadBalancerFailed", "has been unavailable since")
    holds_for(lambda: outage.hits <= hits + 3, 4, "probes after 1, 2, 4 s")
    cloud.clear_faults()
    one.wait_log("a cloud API is available again")
    has_routes(cloud, {"10.244.1.0/24": n1.private_ip(network.id), "10.244.2.0/24": n2.private_ip(network.id)}, timeout=10)
    api.wait_node("n3", is_initialized, 10)
    services.wait_ips("web", timeout=10)
    services.clear()


# --- the tutorial's dialect ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["hcloud-from-scratch", "ccm-from-scratch"])
@pytest.mark.sanitized
def test_the_tutorials_dialect(api, cloud, network, node, start, metadata, provider):
    n1 = node("n1", "10.244.1.0/24", provider=provider)
    node("n2", provider=provider)  # without any node nothing is removed
    start(provider=provider, HCLOUD_NETWORK=str(network.id), HCLOUD_METADATA_ENDPOINT=metadata(n1).url)
    api.wait_node("n1", is_routed)
    assert routes(cloud) == {"10.244.1.0/24": n1.private_ip(network.id)}
    api.delete(f"{NODES}/n1")
    has_routes(cloud, {})


# --- two nodes with one provider ID ----------------------------------------------------------------------------------------


@pytest.fixture
def thief(api, cloud, network, node, kubelet, start):
    """Two routed nodes behind a Service, and then n5, with a pod CIDR of its own and the provider ID of n2's server."""
    n1, n2 = node("n1", "10.244.1.0/24"), node("n2", "10.244.2.0/24")
    services = Services(api)
    services.create("web")
    one = start(HCLOUD_LOAD_BALANCERS_LOCATION="fsn1", HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="true")
    services.wait_event("web", "EnsuredLoadBalancer")
    for name in ("n1", "n2"):
        api.wait_node(name, is_routed)
    mark = cloud.mark()
    kubelet("n5", ip="10.0.0.99", provider_id=f"hcloud://{n2.id}")
    pods(api, "n5", "10.244.5.0/24")
    for name in ("n2", "n5"):
        event = api.wait_event(name, "DuplicateProviderID")
        assert f"hcloud://{n2.id}" in event["message"]
    yield SimpleNamespace(n1=n1, n2=n2, mark=mark, ccmd=one,
                          routes={"10.244.1.0/24": n1.private_ip(network.id), "10.244.2.0/24": n2.private_ip(network.id)})
    services.clear()


def test_a_node_with_the_id_of_another_node_changes_nothing(api, cloud, network, node, thief, start):
    before = {name: api.node(name) for name in ("n2", "n5")}
    nothing = lambda: cloud.writes(thief.mark) == []
    holds_for(nothing, QUIET_S, "no change of the cloud")
    thief.ccmd.stop()
    start(HCLOUD_LOAD_BALANCERS_LOCATION="fsn1", HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="true").wait_log("DuplicateProviderID|belongs to node")
    holds_for(nothing, QUIET_S, "no change of the cloud after a restart")
    for name, node_before in before.items():
        now = api.node(name)
        assert (now["spec"], now["status"].get("addresses"), network_condition(now)) == (
            node_before["spec"], node_before["status"].get("addresses"), network_condition(node_before))
        # a second process does not know what the first one has sent
        assert {one["reason"] for one in api.events(name)} == {"DuplicateProviderID"} and len(api.events(name)) <= 2
    # other nodes are served as always
    n3 = node("n3", "10.244.3.0/24")
    api.wait_node("n3", is_routed)
    wait_for(lambda: len(cloud.writes(thief.mark)) == 2, what="a route and a target", seen=lambda: cloud.writes(thief.mark))
    has_routes(cloud, {**thief.routes, "10.244.3.0/24": n3.private_ip(network.id)})
    # and when the wrong one goes, nothing has to be repaired
    api.delete(f"{NODES}/n5")
    holds_for(lambda: len(cloud.writes(thief.mark)) == 2, QUIET_S, "no further change")


def test_the_last_node_with_a_provider_id_gets_the_machine(api, cloud, network, thief):
    api.delete(f"{NODES}/n2")
    api.wait_node("n5", lambda node: is_initialized(node) and is_routed(node))
    has_routes(cloud, {"10.244.1.0/24": thief.n1.private_ip(network.id), "10.244.5.0/24": thief.n2.private_ip(network.id)})
    assert thief.n2.private_ip(network.id) in [one["address"] for one in api.node("n5")["status"]["addresses"]]
