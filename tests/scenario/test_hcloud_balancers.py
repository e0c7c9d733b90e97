"""Load balancers in the Hetzner Cloud: each Service gets one, with all that belongs to it, by few requests.

What is in the simulated cloud in the end is compared field by field. The requests that led there are counted.
"""
import re
import urllib.request

import pytest

from lib import official
from lib.api import NODES
from lib.ccmd import FAST
from lib.nodes import is_initialized
from lib.operator import flags_of, plan
from lib.process import free_ports
from lib.services import FINALIZER, finalizers, ingress, ips
from lib.wait import holds_for, wait_for
from sim import faults
from sim.endpoint import Reply

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

PREFIX = "load-balancer.hetzner.cloud/"
LABEL = "hcloud-ccm/service-uid"
CLUSTER = "ccmd.io/cluster"
HERE = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
LISTS = "/load_balancers"
QUIET_S = 1.0
VOLATILE = ("id", "created", "included_traffic", "outgoing_traffic", "ingoing_traffic")


def wish(**annotations):
    """wish(use_private_ip="true"): the provider's annotations, with their prefix."""
    return {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}


@pytest.fixture
def start(hetzner):
    """start(HCLOUD_NETWORK="net"): a ccmd whose balancers are in fsn1."""
    return lambda *flags, **env: hetzner(*flags, env={**HERE, **env})


@pytest.fixture
def fleet(cloud, kubelet):
    """fleet("n1", "n2"): servers, and initialised nodes with their provider IDs. Returns the servers."""

    def build(*names, provider="hcloud", **server):
        made = [cloud.add_server(name, **server) for name in names]
        for one in made:
            kubelet(one.name, ip="10.0.0.1", initialized=True, provider_id=f"{provider}://{one.id}")
        return made

    return build


@pytest.fixture
def planned(cluster, cloud):
    """planned(HCLOUD_NETWORK="net"): the plan of the ccmd that start() would start."""

    def run(**env):
        flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud")
        return plan(*flags, env={"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                                 **HERE, **env})

    return run


@pytest.fixture
def private(cloud, metadata):
    """private(): (a network, the environment of a ccmd that runs on a server in it)."""

    def build(**options):
        network = cloud.add_network("net", **options)
        server = cloud.add_server("control-plane", networks=[network])
        return network, {"HCLOUD_NETWORK": "net", "HCLOUD_METADATA_ENDPOINT": metadata(server).url,
                         "HCLOUD_NETWORK_ROUTES_ENABLED": "false"}

    return build


# --- looking ---------------------------------------------------------------------------------------------------------------


def brief(body):
    """The balancer's fields, without those that change with time."""
    kept = {key: value for key, value in body.items() if key not in VOLATILE}
    kept["location"], kept["load_balancer_type"] = body["location"]["name"], body["load_balancer_type"]["name"]
    kept["targets"] = [{key: value for key, value in one.items() if key != "health_status"} for one in body["targets"]]
    kept["public_net"] = {"enabled": body["public_net"]["enabled"], **{
        family: {key: body["public_net"][family][key] for key in ("ip", "dns_ptr")} for family in ("ipv4", "ipv6")}}
    return kept


def balancers(cloud):
    return [brief(one) for one in cloud.state()["load_balancers"].values()]


def the_balancer(cloud):
    found = balancers(cloud)
    assert len(found) == 1, found
    return found[0]


def server_target(server, private=False):
    return {"type": "server", "server": {"id": server.id}, "use_private_ip": private}


def ip_target(ip):
    return {"type": "ip", "ip": {"ip": ip}}


def tcp_service(port, node_port, **more):
    return {"protocol": "tcp", "listen_port": port, "destination_port": node_port, "proxyprotocol": False,
            "health_check": {"protocol": "tcp", "port": node_port, "interval": 15, "timeout": 10, "retries": 3}, **more}


def node_port(service, port):
    return next(one["nodePort"] for one in service["spec"]["ports"] if one["port"] == port)


def default_name(service):
    return ("a" + service["metadata"]["uid"].replace("-", ""))[:32]


def own_labels(service, cluster="kubernetes"):
    return {LABEL: service["metadata"]["uid"], CLUSTER: cluster}


def targets(cloud):
    """The servers' names, and the addresses, of the only balancer's targets."""
    names = {one.id: one.name for one in cloud.project.servers.values()}
    return [names.get(one["server"]["id"], "gone") if one["type"] == "server" else one["ip"]["ip"]
            for one in the_balancer(cloud)["targets"] if one["type"] != "label_selector"]


def wait_targets(cloud, *wanted):
    wait_for(lambda: sorted(targets(cloud)) == sorted(wanted), what=f"targets {wanted}", seen=lambda: targets(cloud))


def quiet(cloud, mark, seconds=QUIET_S):
    """Nothing is changed for a while."""
    holds_for(lambda: not cloud.writes(mark), seconds, f"a cloud left alone: {cloud.writes(mark)}", poll=0.1)


def poke(services, name, value):
    """Sets an annotation of another component: the Service is reconciled, and nothing differs."""
    services.patch(name, {"metadata": {"annotations": {"example.com/poke": value}}})


# --- made ------------------------------------------------------------------------------------------------------------------


def test_a_service_gets_a_balancer_with_all_that_belongs_to_it(services, cloud, fleet, start):
    cloud.action_s = 0.1
    n1, n2 = fleet("n1", "n2")
    start()
    services.create("web", 80, 443)
    v4, v6 = services.wait_ips("web")
    web = services.get("web")
    assert the_balancer(cloud) == {
        "name": default_name(web), "labels": own_labels(web), "location": "fsn1", "load_balancer_type": "lb11",
        "algorithm": {"type": "round_robin"}, "protection": {"delete": False},
        "public_net": {"enabled": True, "ipv4": {"ip": v4, "dns_ptr": None}, "ipv6": {"ip": v6, "dns_ptr": None}},
        "private_net": [], "services": [tcp_service(80, node_port(web, 80)), tcp_service(443, node_port(web, 443))],
        "targets": [server_target(n1), server_target(n2)]}
    assert [one["ipMode"] for one in ingress(web)] == ["VIP", "VIP"]
    assert FINALIZER in finalizers(web)
    services.wait_event("web", "EnsuredLoadBalancer")
    assert [(one.method, one.path) for one in cloud.writes()] == [("POST", LISTS)]
    assert cloud.calls() <= 10, cloud.tally()


@pytest.mark.sanitized
def test_one_request_creates_the_balancer_with_all_its_parts(services, cloud, fleet, private, start):
    network, env = private()
    n1, = fleet("n1", networks=[network])
    start(**env)
    services.create("web", annotations=wish(
        name="web-lb", location="hel1", type="lb21", algorithm_type="least_connections", use_private_ip="true",
        disable_public_network="true", uses_proxyprotocol="true", health_check_interval="7s", health_check_timeout="3s",
        health_check_retries="5"))
    address, = services.wait_ips("web")
    port = node_port(services.get("web"), 80)
    body = the_balancer(cloud)
    assert (body["name"], body["location"], body["load_balancer_type"]) == ("web-lb", "hel1", "lb21")
    assert body["algorithm"] == {"type": "least_connections"} and not body["public_net"]["enabled"]
    assert body["private_net"] == [{"network": network.id, "ip": address}]
    assert body["targets"] == [server_target(n1, private=True)]
    check = {"protocol": "tcp", "port": port, "interval": 7, "timeout": 3, "retries": 5}
    assert body["services"] == [{**tcp_service(80, port), "proxyprotocol": True, "health_check": check}]
    assert [one["ipMode"] for one in ingress(services.get("web"))] == ["Proxy"]
    assert [one.path for one in cloud.writes()] == [LISTS]


@pytest.mark.sanitized
def test_all_settings_of_http(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web", 80, annotations=wish(
        protocol="http", http_cookie_name="CHOC", http_cookie_lifetime="10m", http_sticky_sessions="true",
        health_check_protocol="http", health_check_port="8080", health_check_http_domain="example.com",
        health_check_http_path="/up", http_status_codes="200,3??", health_check_http_validate_certificate="false"))
    services.wait_ips("web")
    service, = the_balancer(cloud)["services"]
    assert service["protocol"] == "http"
    assert service["http"] == {"cookie_name": "CHOC", "cookie_lifetime": 600, "certificates": [], "redirect_http": False,
                               "sticky_sessions": True, "timeout_idle": 60}
    assert service["health_check"] == {
        "protocol": "http", "port": 8080, "interval": 15, "timeout": 10, "retries": 3,
        "http": {"domain": "example.com", "path": "/up", "response": "", "status_codes": ["200", "3??"], "tls": False}}


def test_a_port_that_is_not_tcp_is_left_out_with_an_event(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("dns", (53, "UDP"), (53, "TCP"))
    services.wait_ips("dns")
    assert [one["listen_port"] for one in the_balancer(cloud)["services"]] == [53]
    services.wait_event("dns", "LoadBalancerFeatureLeftOut", "Load balancers of hcloud do not support ports of protocol UDP")


def test_source_ranges_are_reported_once(services, api, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web", loadBalancerSourceRanges=["192.0.2.0/24"])
    services.wait_ips("web")
    services.wait_event("web", "LoadBalancerFeatureLeftOut", "The load balancer is open to all addresses")
    fleet("n2")
    wait_targets(cloud, "n1", "n2")
    assert [one.get("count", 1) for one in api.events("web", "LoadBalancerFeatureLeftOut")] == [1]


def test_no_nodes_yet(services, cloud, fleet, start):
    start()
    services.create("web")
    services.wait_ips("web")
    assert targets(cloud) == []
    fleet("n1")
    wait_targets(cloud, "n1")


@pytest.mark.parametrize("annotations, text", [
    ({"use-private-ip": "maybe"}, "strconv.ParseBool: parsing \"maybe\": invalid syntax"),
    ({"use-private-ip": ""}, "strconv.ParseBool: parsing \"\": invalid syntax"),
    ({"use-private-ip": "true"}, "use private ip: missing network id"),
    ({"protocol": "quic"}, "invalid: quic"),
    ({"algorithm-type": "random"}, "invalid: random"),
    ({"health-check-interval": "soon"}, "time: invalid duration \"soon\""),
    ({"health-check-retries": "x"}, "strconv.Atoi: parsing \"x\": invalid syntax"),
    ({"node-selector": "a=b=c"}, "unable to parse the node-selector annotation"),
    ({"type": "lb99"}, "load balancer type not found: lb99"),
    ({"location": ""}, "neither load-balancer.hetzner.cloud/location nor load-balancer.hetzner.cloud/network-zone set"),
], ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else "")
@pytest.mark.sanitized
def test_an_invalid_annotation_is_reported_and_nothing_is_changed(services, cloud, fleet, start, annotations, text):
    fleet("n1")
    start()
    services.create("web", annotations=wish(**annotations))
    services.wait_event("web", "SyncLoadBalancerFailed", text)
    assert not cloud.writes() and not balancers(cloud)


def test_an_invalid_annotation_leaves_the_balancer_as_it_is(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_ips("web")
    before, mark = the_balancer(cloud), cloud.mark()
    services.patch("web", {"metadata": {"annotations": wish(type="lb21", uses_proxyprotocol="perhaps")}})
    services.wait_event("web", "SyncLoadBalancerFailed", "perhaps")
    assert the_balancer(cloud) == before and not cloud.writes(mark)
    services.delete("web")
    services.wait_gone("web")
    assert not balancers(cloud), "what cannot be read does not keep a Service from going"


# --- its status ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env, annotations, wanted", [
    ({}, {}, ["v4", "v6", "private"]),
    ({}, {"ipv6-disabled": "true"}, ["v4", "private"]),
    ({"HCLOUD_LOAD_BALANCERS_DISABLE_IPV6": "true"}, {"ipv6-disabled": "false"}, ["v4", "v6", "private"]),
    ({}, {"disable-private-ingress": "true"}, ["v4", "v6"]),
    ({"HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS": "true"}, {}, ["v4", "v6"]),
], ids=["all", "no IPv6", "IPv6 after all", "no private", "no private by default"])
@pytest.mark.sanitized
def test_status(services, cloud, fleet, private, start, env, annotations, wanted):
    network, more = private()
    fleet("n1", networks=[network])
    start(**more, **env)
    services.create("web", annotations=wish(**annotations))
    got = services.wait_ips("web")
    body = the_balancer(cloud)
    all_ips = {"v4": body["public_net"]["ipv4"]["ip"], "v6": body["public_net"]["ipv6"]["ip"],
               "private": body["private_net"][0]["ip"]}
    assert got == [all_ips[one] for one in wanted]


def test_a_hostname_stands_for_all_addresses(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web", annotations=wish(hostname="lb.example.com"))
    one = services.wait("web", ingress)
    assert ingress(one) == [{"hostname": "lb.example.com"}]


# --- nothing to do -----------------------------------------------------------------------------------------------------------


def test_a_settled_service_costs_no_request(services, cloud, fleet, start):
    cloud.action_s = 0.05
    fleet("n1", "n2")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    mark = cloud.mark()
    poke(services, "web", "1")
    wait_for(lambda: len(services.events("web", "EnsuringLoadBalancer")) >= 1, what="the next look")
    quiet(cloud, mark)
    assert cloud.calls(since=mark) <= 1, cloud.tally(since=mark)


def test_a_balancer_that_was_deleted_a_moment_ago_is_noticed_when_the_service_changes(services, cloud, fleet, start):
    """The annotation needs no request, but what was read before the change does not show that."""
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.project.load_balancers.clear()
    services.patch("web", {"metadata": {"annotations": wish(hostname="lb.example.com")}})
    wait_for(lambda: balancers(cloud), what="another balancer")


# --- what others change ------------------------------------------------------------------------------------------------------


DRIFT = "--load-balancer-drift-period=1s"


def test_a_balancer_that_another_client_changed_is_repaired(services, cloud, fleet, start):
    """What the Service names: its existence, ports and targets. What it does not mention stays as it is."""
    fleet("n1")
    one = start(DRIFT)
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    before = the_balancer(cloud)
    (found,) = cloud.project.load_balancers.values()
    with cloud.lock:
        found.algorithm = "least_connections"
        found.services[0]["destination_port"] = 1
        found.targets.clear()
    services.wait_event("web", "LoadBalancerRepaired", "update_service")
    assert the_balancer(cloud) == {**before, "algorithm": {"type": "least_connections"}}
    with cloud.lock:
        cloud.project.load_balancers.clear()
    services.wait_event("web", "LoadBalancerRepaired", "create")
    assert the_balancer(cloud)["services"] == before["services"] and the_balancer(cloud)["targets"] == before["targets"]
    services.wait_ips("web", the_balancer(cloud)["public_net"]["ipv4"]["ip"], the_balancer(cloud)["public_net"]["ipv6"]["ip"])
    assert len(services.events("web", "EnsuringLoadBalancer")) == len(services.events("web", "EnsuredLoadBalancer")) == 1
    assert len(re.findall("load balancer repaired", one.text)) == 2


def test_one_list_serves_the_comparison_of_all_services(services, cloud, fleet, start):
    fleet("n1")
    start(DRIFT).wait_log("objects listed kind=Node")  # a Service that comes before its node is updated later
    names = [f"s{number}" for number in range(20)]
    for name in names:
        services.create(name)
    for name in names:
        services.wait_event(name, "EnsuredLoadBalancer")
    seen = lambda: {name: (services.get(name)["metadata"]["resourceVersion"], services.events(name)) for name in names}
    lists = lambda since: cloud.requests("GET", LISTS, since)
    mark = cloud.mark()
    wait_for(lambda: len(lists(mark)) >= 1, what="a comparison")
    before, mark = seen(), cloud.mark()
    wait_for(lambda: len(lists(mark)) >= 3, what="three further ones", seen=lambda: cloud.tally(since=mark))
    assert cloud.calls(since=mark) <= 4 and not cloud.writes(mark), cloud.tally(since=mark)
    assert seen() == before


def test_repairs_can_be_switched_off(services, cloud, fleet, start):
    fleet("n1")
    start("--load-balancer-drift-period=0s")
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    mark = cloud.mark()
    cloud.project.load_balancers.clear()
    holds_for(lambda: not balancers(cloud) and not cloud.requests("GET", LISTS, mark), 2, "the balancer to stay away")


@pytest.mark.sanitized
def test_an_update_changes_only_what_differs(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web", 80, 81)
    services.wait_ips("web")
    mark = cloud.mark()
    ports = services.get("web")["spec"]["ports"]
    kept = next(one for one in ports if one["port"] == 80)
    services.patch("web", {"spec": {"ports": [kept, {"name": "new", "port": 82, "protocol": "TCP"}]}})
    wait_for(lambda: [one["listen_port"] for one in the_balancer(cloud)["services"]] == [80, 82], what="the ports")
    web = services.get("web")
    assert the_balancer(cloud)["services"] == [tcp_service(80, node_port(web, 80)), tcp_service(82, node_port(web, 82))]
    assert sorted(one.path.rsplit("/")[-1] for one in cloud.writes(mark)) == ["add_service", "delete_service"]
    mark = cloud.mark()
    services.patch("web", {"metadata": {"annotations": wish(health_check_interval="5s")}})
    wait_for(lambda: all(one["health_check"]["interval"] == 5 for one in the_balancer(cloud)["services"]), what="the interval")
    assert [one.path.rsplit("/")[-1] for one in cloud.writes(mark)] == ["update_service"] * 2


# --- changed -------------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_settings_of_the_balancer_follow_the_annotations(services, cloud, fleet, start):
    cloud.action_s = 0.05
    fleet("n1")
    start()
    services.create("web")
    v4, v6 = services.wait_ips("web")
    mark = cloud.mark()
    services.patch("web", {"metadata": {"annotations": wish(
        name="renamed", type="lb21", algorithm_type="least_connections", ipv4_rdns="a.example.com", ipv6_rdns="b.example.com")}})

    def is_done():
        body = the_balancer(cloud)
        return (body["name"], body["load_balancer_type"], body["algorithm"]["type"], body["public_net"]["ipv4"]["dns_ptr"],
                body["public_net"]["ipv6"]["dns_ptr"]) == ("renamed", "lb21", "least_connections", "a.example.com", "b.example.com")

    wait_for(is_done, what="the new shape", seen=lambda: the_balancer(cloud))
    assert the_balancer(cloud)["labels"] == own_labels(services.get("web"))
    assert len(cloud.writes(mark)) == 5, cloud.tally(since=mark)
    services.patch("web", {"metadata": {"annotations": {PREFIX + "type": None, PREFIX + "name": None}}})
    mark = cloud.mark()
    quiet(cloud, mark)
    assert the_balancer(cloud)["load_balancer_type"] == "lb21", "no annotation sets another type"


def test_a_missing_type_is_reported(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "LoadBalancerTypeUnconfigured", "HCLOUD_LOAD_BALANCERS_TYPE")


def test_a_deprecated_type(services, cloud, fleet, start):
    fleet("n1")
    cloud.load_balancer_types[1]["deprecation"] = {"announced": "2025-01-01T00:00:00+00:00",
                                                   "unavailable_after": "2199-03-04T00:00:00+00:00"}
    cloud.load_balancer_types[2]["deprecation"] = {"announced": "2020-01-01T00:00:00+00:00",
                                                   "unavailable_after": "2021-01-01T00:00:00+00:00"}
    start()
    services.create("old", annotations=wish(type="lb21"))
    services.wait_event("old", "LoadBalancerTypeDeprecated",
                        'Load Balancer Type "lb21" is deprecated and will no longer be available for order as of 2199-03-04')
    services.wait_ips("old")
    services.create("gone", annotations=wish(type="lb31"))
    services.wait_event("gone", "SyncLoadBalancerFailed", 'Load Balancer Type "lb31" is unavailable and can no longer be ordered')


# --- private networks ----------------------------------------------------------------------------------------------------------


def test_a_private_address_that_is_asked_for(services, cloud, fleet, private, start):
    network, env = private()
    fleet("n1", networks=[network])
    start(**env)
    services.create("web", annotations=wish(private_ipv4="10.0.7.7"))
    assert "10.0.7.7" in services.wait_ips("web")
    services.patch("web", {"metadata": {"annotations": wish(private_ipv4="10.0.8.8")}})
    services.wait("web", lambda one: "10.0.8.8" in ips(one) and "10.0.7.7" not in ips(one))
    assert the_balancer(cloud)["private_net"] == [{"network": network.id, "ip": "10.0.8.8"}]


def test_an_address_of_the_subnet_that_is_asked_for(services, cloud, fleet, private, start):
    network, env = private(subnet="10.0.0.0/24")
    network.subnets.append(network.new_subnet({"type": "cloud", "ip_range": "10.0.1.0/24", "network_zone": "eu-central"}))
    fleet("n1", networks=[network])
    start(**env, HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE="10.0.1.0/24")
    services.create("web")
    services.wait_ips("web")
    assert the_balancer(cloud)["private_net"][0]["ip"].startswith("10.0.1.")


def test_without_a_network_the_balancer_is_detached(services, cloud, fleet, start):
    fleet("n1")
    one = start()
    services.create("web")
    services.wait_ips("web")
    one.stop()
    network = cloud.add_network("other")
    cloud.load_balancer(default_name(services.get("web"))).private_net.append({"network": network.id, "ip": "10.0.0.9"})
    start()
    wait_for(lambda: not the_balancer(cloud)["private_net"], what="the network to be left")


def test_private_targets_and_no_public_interface_in_one_step(services, cloud, fleet, private, start):
    """The public interface cannot be removed while targets need it: the targets are changed first."""
    cloud.action_s = 0.05
    network, env = private()
    n1, n2 = fleet("n1", "n2", networks=[network])
    start(**env)
    services.create("web")
    services.wait_ips("web")
    mark = cloud.mark()
    services.patch("web", {"metadata": {"annotations": wish(use_private_ip="true", disable_public_network="true")}})
    one = services.wait("web", lambda one: len(ips(one)) == 1)
    done = [one.path.rsplit("/")[-1] for one in cloud.writes(mark) if one.status == 201]
    assert done == ["remove_target", "add_target"] * 2 + ["disable_public_interface"], "one target after the other"
    body = the_balancer(cloud)
    assert not body["public_net"]["enabled"] and ips(one) == [body["private_net"][0]["ip"]]
    assert body["targets"] == [server_target(n1, private=True), server_target(n2, private=True)]
    services.patch("web", {"metadata": {"annotations": wish(use_private_ip="false", disable_public_network="false")}})
    services.wait("web", lambda one: len(ips(one)) == 3)
    assert the_balancer(cloud)["targets"] == [server_target(n1), server_target(n2)]
    assert not services.events("web", "SyncLoadBalancerFailed")


# --- targets -------------------------------------------------------------------------------------------------------------------


def test_targets_follow_the_nodes(api, services, cloud, fleet, start):
    fleet("n1", "n2")
    start()
    services.create("web")
    services.wait_ips("web")
    fleet("n3")
    wait_targets(cloud, "n1", "n2", "n3")
    api.delete(f"{NODES}/n1")
    wait_targets(cloud, "n2", "n3")
    api.patch(f"{NODES}/n2", {"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}})
    wait_targets(cloud, "n3")
    services.wait_event("web", "UpdatedLoadBalancer")


@pytest.mark.sanitized
def test_targets_follow_the_node_selector(api, services, cloud, fleet, start):
    fleet("n1", "n2", "n3")
    label = lambda name, value: api.patch(f"{NODES}/{name}", {"metadata": {"labels": {"pool": value}}})
    label("n1", "edge")
    start()
    services.create("web", annotations=wish(node_selector="pool in (edge, border),!drained"))
    services.wait_ips("web")
    assert targets(cloud) == ["n1"]
    label("n2", "border")
    wait_targets(cloud, "n1", "n2")
    label("n1", "inner")
    wait_targets(cloud, "n2")
    services.patch("web", {"metadata": {"annotations": wish(node_selector="")}})
    wait_targets(cloud, "n1", "n2", "n3")


def test_a_node_without_a_machine_of_ours_is_no_target(services, api, cloud, fleet, kubelet, start):
    fleet("n1")
    kubelet("other", initialized=True, provider_id="aws:///i-1")
    kubelet("odd", initialized=True, provider_id="hcloud://12x")
    kubelet("young")
    start()
    services.create("web")
    services.wait_ips("web")
    event = api.wait_event("other", "UnknownProviderIDPrefix")
    assert "Node could not be added to Load Balancer for service web because the provider ID does not match" in event["message"]
    event = api.wait_event("odd", "InvalidProviderID")
    assert "Node could not be added to Load Balancer for service web: unable to parse server id: hcloud://12x" in event["message"]
    assert targets(cloud) == ["n1"]
    assert not api.events("young", "UnknownProviderIDPrefix"), "it is not initialised yet"


def test_one_broken_target_does_not_stop_the_others(services, api, cloud, fleet, start):
    fleet("n1")
    fleet("n2", public_ipv4=False)
    fleet("n3")
    start("--node-status-update-frequency=1s")
    services.create("web")
    services.wait_ips("web")
    assert sorted(targets(cloud)) == ["n1", "n3"]
    event = api.wait_event("n2", "LoadBalancerTargetRefused")
    assert "Node could not be added to Load Balancer for service web" in event["message"] and "IPv4" in event["message"]
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.server("n2").ipv4 = "198.18.9.9"
    wait_targets(cloud, "n1", "n2", "n3")


def test_a_server_outside_the_network_does_not_stop_the_others(services, api, cloud, fleet, private, start):
    network, env = private()
    fleet("n1", networks=[network])
    fleet("n2")
    start(**env, HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="true")
    services.create("web")
    services.wait_ips("web")
    assert targets(cloud) == ["n1"]
    assert "attached to the network" in api.wait_event("n2", "LoadBalancerTargetRefused")["message"]


def test_a_server_that_is_gone_does_not_stop_the_others(services, api, cloud, fleet, start):
    fleet("n1", "n2")
    start()
    services.create("web")
    services.wait_ips("web")
    cloud.targets_outlive_servers = True
    cloud.delete_server("n1")
    api.delete(f"{NODES}/n1")
    fleet("n3")
    wait_targets(cloud, "gone", "n2", "n3")
    assert not services.events("web", "UpdateLoadBalancerFailed") and not services.events("web", "SyncLoadBalancerFailed")
    cloud.drop_dead_targets()
    assert sorted(targets(cloud)) == ["n2", "n3"]


@pytest.mark.sanitized
def test_more_nodes_than_the_type_has_targets(services, api, cloud, fleet, start):
    cloud.load_balancer_types[0]["max_targets"] = 2
    fleet("n1", "n2", "n3")
    start()
    services.create("web")
    services.wait_ips("web")
    assert targets(cloud) == ["n1", "n2"]
    event = api.wait_event("n3", "MaxTargetsReached")
    assert event["message"] == ("Node could not be added to Load Balancer for service web "
                                "because the max number of targets has been reached")
    assert not services.events("web", "SyncLoadBalancerFailed")
    services.patch("web", {"metadata": {"annotations": wish(type="lb21")}})
    wait_targets(cloud, "n1", "n2", "n3")
    api.delete(f"{NODES}/n1")
    wait_targets(cloud, "n2", "n3")


def test_additions_by_other_clients(services, cloud, fleet, start):
    """Targets by label stay; services that the Service does not name are removed, as by the official controller."""
    n1, = fleet("n1")
    one = start()
    services.create("web")
    services.wait_ips("web")
    one.stop()
    body = cloud.load_balancer(default_name(services.get("web")))
    by_label = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    body.targets.append(body.new_target(by_label, body.targets, [], True))
    body.services.append(body.new_service({"protocol": "tcp", "listen_port": 99, "destination_port": 99}, body.services))
    start()
    wait_for(lambda: [each["listen_port"] for each in the_balancer(cloud)["services"]] == [80], what="the service to go")
    assert [each["type"] for each in the_balancer(cloud)["targets"]] == ["server", "label_selector"]


# --- dedicated servers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def dedicated(cloud, robot, kubelet):
    """dedicated(321, "bm1", "203.0.113.9"): a server at Robot and its initialised node; .env: the variables for Robot."""

    def build(number, name, public_ip, ip="10.1.0.1"):
        robot.add_server(number, name, ip=public_ip)
        cloud.robot_ips.update({public_ip, ip})
        return kubelet(name, initialized=True, provider_id=f"hrobot://{number}", ip=ip)

    build.env = {"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user,
                 "ROBOT_PASSWORD": robot.password}
    return build


@pytest.mark.sanitized
def test_dedicated_servers_are_targets_by_address(services, api, cloud, fleet, dedicated, kubelet, start):
    fleet("n1")
    dedicated(321, "bm1", "203.0.113.9")
    kubelet("bm2", initialized=True, provider_id="hrobot://322")
    start(**dedicated.env)
    services.create("web")
    services.wait_ips("web")
    assert sorted(targets(cloud)) == ["203.0.113.9", "n1"]
    assert api.wait_event("bm2", "ServerNotFound")["message"] == "No server with id 322 was found in Robot"
    api.delete(f"{NODES}/bm1")
    wait_targets(cloud, "n1")


def test_a_robot_that_does_not_answer_takes_no_target_away(services, cloud, robot, fleet, dedicated, start):
    dedicated(321, "bm1", "203.0.113.9")
    one = start(**dedicated.env)
    services.create("web")
    services.wait_ips("web")
    one.stop()
    robot.fault(None, None, faults.error("unavailable"), times=None)
    start(**dedicated.env)
    fleet("n1")
    wait_targets(cloud, "203.0.113.9", "n1")


def test_with_robot_off_no_target_is_an_address(services, cloud, dedicated, start):
    dedicated(321, "bm1", "203.0.113.9")
    one = start(**dedicated.env)
    services.create("web")
    services.wait_ips("web")
    assert targets(cloud) == ["203.0.113.9"]
    one.stop()
    start()
    wait_targets(cloud)


@pytest.mark.parametrize("has_login", [True, False])
def test_dedicated_servers_by_their_private_address(services, cloud, private, dedicated, start, has_login):
    _, env = private()
    dedicated(321, "bm1", "203.0.113.9", ip="10.1.0.2")
    bm2 = dedicated(322, "bm2", "203.0.113.10")
    bm2.set_addresses(("Hostname", "bm2"))
    login = {} if has_login else {"ROBOT_USER": "", "ROBOT_PASSWORD": ""}
    start(**env, **{**dedicated.env, **login}, HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP="true")
    services.create("web")
    services.wait_ips("web")
    assert sorted(targets(cloud)) == (["10.1.0.2", "203.0.113.10"] if has_login else ["10.1.0.2"])
    services.wait_event("web", "InternalIPNotConfigured", "Continuing with ExternalIP" if has_login else
                        "no InternalIP found for Robot node bm2 (id=322), cannot add as LB target without Robot credentials")


# --- gone ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deletion_acts", [True, False], ids=["an action", "204"])
@pytest.mark.sanitized
def test_the_balancer_is_deleted_with_its_service(services, cloud, fleet, start, deletion_acts):
    cloud.action_s = 0.1
    cloud.deletion_acts = deletion_acts
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    mark = cloud.mark()
    services.delete("web")
    services.wait_gone("web")
    assert not balancers(cloud)
    assert cloud.calls(since=mark) <= 4, cloud.tally(since=mark)


@pytest.fixture
def deleting(services, cloud, fleet, start):
    """deleting(fault): the Service "web" is deleted, and its balancer's DELETE gets that fault. Returns the ccmd, which None as
    the fault kills after the DELETE. action_s: how long the deletion takes."""

    def begin(fault, *flags, action_s=0):
        fleet("n1")
        ccmd = start(*flags)
        services.create("web")
        services.wait_event("web", "EnsuredLoadBalancer")
        cloud.fault("DELETE", "/load_balancers/{id}", fault or faults.afterwards(ccmd.kill))
        cloud.action_s = action_s
        services.delete("web")
        wait_for(lambda: cloud.calls("DELETE"), what="the DELETE")
        return ccmd

    return begin


def test_a_deletion_that_fails_keeps_the_finalizer_and_is_repeated(services, cloud, deleting):
    deleting(faults.action_error("server_error", "no luck"))
    services.wait_event("web", "SyncLoadBalancerFailed", "no luck (server_error")
    assert FINALIZER in finalizers(services.get("web")) and balancers(cloud)
    services.wait_gone("web")
    assert not balancers(cloud) and cloud.calls("DELETE") == 2


def test_a_deletion_that_hangs_keeps_the_finalizer_and_delays_no_other_service(services, cloud, deleting):
    deleting(faults.action_hangs(), "--concurrent-service-syncs=1")
    services.create("quick")
    services.wait_ips("quick", timeout=15)
    mark = cloud.mark()
    holds_for(lambda: FINALIZER in finalizers(services.get("web")), 5, "the finalizer")
    assert cloud.calls("DELETE") == 1
    assert set(cloud.tally(since=mark)) == {"GET /actions"} and cloud.calls(since=mark) <= 12, cloud.tally(since=mark)
    cloud.release()
    services.wait_gone("web")
    assert len(balancers(cloud)) == 1 and not services.events("web", "SyncLoadBalancerFailed")


def test_killed_while_a_balancer_is_being_deleted(services, cloud, deleting, start):
    ccmd = deleting(None, action_s=3600)
    wait_for(lambda: not ccmd.running, what="the end")
    assert FINALIZER in finalizers(services.get("web")) and balancers(cloud)
    mark = cloud.mark()
    start()
    wait_for(lambda: cloud.calls(since=mark), what="the next process to ask")
    cloud.advance(3600)
    services.wait_gone("web")
    assert not balancers(cloud) and not services.events("web", "SyncLoadBalancerFailed")


def test_a_balancer_that_disappears_before_its_deletion(services, cloud, deleting):
    deleting(faults.meanwhile(cloud.load_balancers.clear))
    services.wait_gone("web")
    assert cloud.calls("DELETE") == 1 and not services.events("web", "SyncLoadBalancerFailed")


def test_a_deletion_that_is_answered_without_its_action(services, cloud, deleting):
    """The API promises an action. Without one the balancer is looked for again before the finalizer goes."""

    def without_action(request, go):
        go()
        return Reply(201, {})

    deleting(without_action)
    services.wait_gone("web")
    assert not balancers(cloud)


def test_the_balancer_is_deleted_when_the_type_changes(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_ips("web")
    services.patch("web", {"spec": {"type": "ClusterIP"}})
    services.wait("web", lambda one: not ingress(one) and FINALIZER not in finalizers(one))
    assert not balancers(cloud)


def test_a_balancer_that_does_not_exist_any_more(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.load_balancers.clear()
    services.delete("web")
    services.wait_gone("web")


def test_a_protected_balancer_outlives_its_service(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.load_balancer(default_name(services.get("web"))).protection["delete"] = True
    services.delete("web")
    services.wait_gone("web")
    services.wait_event("web", "LoadBalancerProtected", "protected against deletion")
    assert not cloud.calls("DELETE")
    assert the_balancer(cloud)["protection"] == {"delete": True}


def test_another_services_balancer_is_not_deleted(services, cloud, fleet, start):
    """An operator gave it to another Service by its label."""
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.load_balancer(default_name(services.get("web"))).labels[LABEL] = "somebody-elses"
    services.delete("web")
    services.wait_gone("web")
    assert the_balancer(cloud)["labels"][LABEL] == "somebody-elses"


def test_a_balancer_that_was_deleted_by_hand_is_created_again(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    old = services.wait_ips("web")
    cloud.load_balancers.clear()
    fleet("n2")
    services.wait("web", lambda one: ips(one) and ips(one) != old)
    assert sorted(targets(cloud)) == ["n1", "n2"]


# --- adopted -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [{}, {LABEL: "0b7cbd41-0000-0000-0000-000000000000"}, {"team": "a"}],
                         ids=["without label", "of a Service that is no more", "with labels of its own"])
@pytest.mark.sanitized
def test_a_balancer_of_that_name_is_adopted(services, cloud, fleet, start, labels):
    n1, = fleet("n1")
    made = cloud.add_load_balancer("web-lb", labels=labels)
    start()
    services.create("web", annotations=wish(name="web-lb"))
    assert services.wait_ips("web") == [made.ipv4, made.ipv6]
    web = services.get("web")
    assert the_balancer(cloud)["labels"] == {**labels, **own_labels(web)}
    assert the_balancer(cloud)["targets"] == [server_target(n1)]
    services.wait_event("web", "LoadBalancerAdopted", "web-lb")


def test_a_balancer_of_a_live_service_is_refused(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("first", annotations=wish(name="shared"))
    services.wait_event("first", "EnsuredLoadBalancer")
    before, mark = the_balancer(cloud), cloud.mark()
    services.create("second", 81, annotations=wish(name="shared"))
    text = 'the load balancer named "shared"'
    services.wait_event("second", "LoadBalancerNameTaken", text)
    services.wait_event("second", "SyncLoadBalancerFailed", services.get("first")["metadata"]["uid"])
    assert the_balancer(cloud) == before and not cloud.writes(mark)
    services.delete("second")
    services.wait_gone("second")
    assert the_balancer(cloud) == before


def test_a_tenant_gets_no_balancer_that_was_not_released_for_adoption(services, cloud, fleet, start):
    fleet("n1")
    made = cloud.add_load_balancer("kubeapi", labels={"team": "platform"})
    start("--cluster-name=blue", HCLOUD_LOAD_BALANCERS_ADOPTION="labelled")
    services.create("web", annotations=wish(name="kubeapi"))
    services.wait_event("web", "LoadBalancerNameTaken", "ccmd.io/adopt=blue")
    assert not cloud.writes()
    with cloud.lock:
        made.labels["ccmd.io/adopt"] = "blue"
    assert services.wait_ips("web") == [made.ipv4, made.ipv6]
    wanted = {"team": "platform", "ccmd.io/adopt": "blue", **own_labels(services.get("web"), "blue")}
    assert the_balancer(cloud)["labels"] == wanted


def test_a_balancer_without_its_label_is_found_by_its_name(services, cloud, fleet, start):
    fleet("n1")
    one = start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    one.stop()
    name = default_name(services.get("web"))
    cloud.load_balancer(name).labels.clear()
    before = cloud.load_balancer(name).id
    start()
    wait_for(lambda: the_balancer(cloud)["labels"], what="the label")
    assert [each.id for each in cloud.load_balancers.values()] == [before]


def test_targets_are_updated_although_the_name_is_taken(services, cloud, fleet, start):
    fleet("n1")
    cloud.add_load_balancer("taken")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    services.patch("web", {"metadata": {"annotations": wish(name="taken")}})
    services.wait_event("web", "SyncLoadBalancerFailed", "uniqueness_error")
    name = default_name(services.get("web"))
    fleet("n2")
    wait_for(lambda: len(cloud.load_balancer(name).targets) == 2, what="the new target")


# --- certificates ----------------------------------------------------------------------------------------------------------------

SECURE = {"protocol": "https", "health-check-protocol": "tcp"}


def add_certificate(cloud, name):
    from sim.certificates import Certificate

    with cloud.lock:
        one = Certificate(cloud.project, name, "uploaded", ["example.com"])
        cloud.certificates[one.id] = one
        return one


def certificates(cloud):
    return the_balancer(cloud)["services"][0].get("http", {}).get("certificates")


@pytest.mark.sanitized
def test_uploaded_certificates_by_name_and_by_id(services, cloud, fleet, start):
    fleet("n1")
    a, b = add_certificate(cloud, "a"), add_certificate(cloud, "b")
    start()
    services.create("web", 443, annotations=wish(**SECURE, http_certificates=f"a,{b.id}", http_redirect_http="true"))
    services.wait_ips("web")
    assert certificates(cloud) == [a.id, b.id]
    assert [one.path for one in cloud.writes()] == [LISTS]
    services.create("other", 443, annotations=wish(**SECURE, http_certificates="missing"))
    services.wait_event("other", "SyncLoadBalancerFailed", "not found")


@pytest.mark.sanitized
def test_a_managed_certificate_is_ordered_once(services, cloud, fleet, start):
    fleet("n1")
    one = start()
    more = wish(**SECURE, certificate_type="managed", http_managed_certificate_domains="example.com,www.example.com")
    services.create("web", 443, annotations=more)
    services.wait_ips("web")
    uid = services.get("web")["metadata"]["uid"]
    made, = cloud.certificates.values()
    assert (made.name, made.labels, made.domain_names) == (
        f"ccm-managed-certificate-{uid}", {LABEL: uid}, ["example.com", "www.example.com"])
    assert certificates(cloud) == [made.id]
    for value in "12":
        poke(services, "web", value)
    one.stop()
    mark = cloud.mark()
    start()
    wait_for(lambda: cloud.calls("GET", "/certificates", since=mark), what="the look-up")
    quiet(cloud, mark)
    assert cloud.calls("POST", "/certificates") == 1


def test_other_changes_are_made_while_a_certificate_is_issued(services, cloud, fleet, start):
    fleet("n1")
    cloud.fault("POST", "/certificates", faults.action_hangs())
    start()
    services.create("web", 80, 443, annotations=wish(**SECURE, certificate_type="managed",
                                                     http_managed_certificate_domains="example.com"))
    services.wait_ips("web", timeout=15)
    assert targets(cloud) == ["n1"] and not the_balancer(cloud)["services"]
    fleet("n2")
    wait_targets(cloud, "n1", "n2")
    cloud.release()
    wait_for(lambda: len(the_balancer(cloud)["services"]) == 2, what="the services")
    assert cloud.calls("POST", "/certificates") == 1
    assert not services.events("web", "SyncLoadBalancerFailed")


def test_a_refused_certificate_is_reported(services, cloud, fleet, start):
    fleet("n1")
    cloud.fault("POST", "/certificates", faults.error("resource_limit_exceeded", "cannot create more than 20 managed "
                                                      "certificates per hour"), times=None)
    start()
    services.create("web", 443, annotations=wish(**SECURE, certificate_type="managed",
                                                 http_managed_certificate_domains="example.com"))
    services.wait_event("web", "SyncLoadBalancerFailed", "cannot create more than 20 managed certificates per hour")
    assert targets(cloud) == ["n1"]


# --- a cloud that is busy, slow, or fails --------------------------------------------------------------------------------------------


def test_a_locked_balancer_is_waited_for(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    rule = cloud.fault("POST", "/load_balancers/{id}/actions/add_target", faults.locked(), times=3)
    fleet("n2")
    wait_targets(cloud, "n1", "n2")
    assert rule.hits == 3
    assert not services.events("web", "UpdateLoadBalancerFailed") and not services.events("web", "SyncLoadBalancerFailed")


def test_a_locked_balancer_is_waited_for_before_it_is_deleted(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.fault("DELETE", "/load_balancers/{id}", faults.locked(), times=2)
    services.delete("web")
    services.wait_gone("web")
    assert not balancers(cloud) and not services.events("web", "SyncLoadBalancerFailed")


@pytest.mark.parametrize("fault", [faults.conflict(), faults.error("unavailable"), faults.plain(502), faults.reset()],
                         ids=["conflict", "503", "502", "reset"])
def test_a_change_that_fails_is_made_again(services, cloud, fleet, start, fault):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.fault("POST", "/load_balancers/{id}/actions/add_target", fault)
    fleet("n2")
    wait_targets(cloud, "n1", "n2")


@pytest.mark.sanitized
def test_a_failed_action_is_reported_and_repeated(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.fault("POST", "/load_balancers/{id}/actions/change_algorithm", faults.action_error("server_error", "no luck"))
    services.patch("web", {"metadata": {"annotations": wish(algorithm_type="least_connections")}})
    services.wait_event("web", "SyncLoadBalancerFailed", "no luck (server_error")
    wait_for(lambda: the_balancer(cloud)["algorithm"]["type"] == "least_connections", what="the algorithm")


def test_an_action_that_hangs_delays_no_other_service(services, cloud, fleet, start):
    fleet("n1")
    start("--concurrent-service-syncs=1")
    cloud.fault("POST", LISTS, faults.action_hangs())
    services.create("slow")
    wait_for(lambda: balancers(cloud), what="the balancer")
    services.create("quick")
    services.wait_ips("quick", timeout=15)
    assert not ips(services.get("slow"))
    cloud.release()
    services.wait_ips("slow")
    assert len(balancers(cloud)) == 2
    assert not services.events("slow", "SyncLoadBalancerFailed")


@pytest.mark.parametrize("effects", ["start", "end"])
def test_addresses_that_come_late(services, cloud, fleet, start, effects):
    cloud.action_s = 1.5
    cloud.effects = effects
    fleet("n1")
    start()
    services.create("web")
    services.wait_ips("web")
    assert cloud.calls("POST") == 1


def test_a_service_that_the_api_refuses_does_not_stop_the_others(services, cloud, fleet, start):
    fleet("n1")
    refused = lambda request: b'"listen_port":81' in request.body
    cloud.fault("POST", None, faults.error("invalid_input", "no 81 here"), times=None, when=refused)
    start()
    services.create("web", 80, 81, 82)
    services.wait_event("web", "SyncLoadBalancerFailed", "no 81 here (invalid_input")
    assert [one["listen_port"] for one in the_balancer(cloud)["services"]] == [80, 82]
    assert targets(cloud) == ["n1"]


# --- never two -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotations", [{}, {"name": "web-lb"}], ids=["default name", "named"])
@pytest.mark.sanitized
def test_a_lost_answer_makes_no_second_balancer(services, cloud, fleet, start, annotations):
    fleet("n1")
    cloud.fault("POST", LISTS, faults.lose_answer())
    start()
    services.create("web", annotations=wish(**annotations))
    services.wait_ips("web")
    assert the_balancer(cloud)["labels"] == own_labels(services.get("web"))
    assert cloud.calls("POST", LISTS) == 1


def test_a_name_that_changes_after_a_lost_answer_makes_no_second_balancer(services, cloud, fleet, start):
    fleet("n1")
    cloud.fault("POST", LISTS, faults.lose_answer())
    start()
    services.create("web", annotations=wish(name="first"))
    wait_for(lambda: balancers(cloud), what="the balancer")
    services.patch("web", {"metadata": {"annotations": wish(name="second")}})
    services.wait_ips("web")
    wait_for(lambda: the_balancer(cloud)["name"] == "second", what="the name")


def test_two_active_processes_make_no_second_balancer(services, cloud, fleet, start):
    """A rolling update without election."""
    cloud.latency_s = 0.02
    cloud.action_s = 0.1
    fleet("n1", "n2")
    start(), start()
    names = [f"s{number}" for number in range(8)]
    for name in names:
        services.create(name, annotations=wish(name=f"lb-{name}") if name < "s4" else None)
    for name in names:
        services.wait_ips(name)
    owners = sorted(one["labels"][LABEL] for one in balancers(cloud))
    assert owners == sorted(services.get(name)["metadata"]["uid"] for name in names)
    assert all(len(one["targets"]) == 2 and len(one["services"]) == 1 for one in balancers(cloud))
    for name in names:
        services.delete(name)
    for name in names:
        services.wait_gone(name)
    assert not balancers(cloud)


@pytest.mark.parametrize("nth", range(6))
def test_a_kill_at_each_write_leaves_nothing_behind(services, cloud, fleet, private, start, nth):
    """Adoption, a private address, a new port and a target: several requests. The process dies after the nth took effect."""
    network, env = private()
    n1, n2 = fleet("n1", "n2", networks=[network])
    cloud.add_load_balancer("web-lb", targets=[{"type": "server", "server": {"id": n1.id}}])
    one = start(**env)
    cloud.fault(None, None, faults.afterwards(one.kill), skip=nth, when=lambda request: request.is_write)
    more = wish(name="web-lb", private_ipv4="10.0.7.7", use_private_ip="true", algorithm_type="least_connections")
    services.create("web", 80, annotations=more)
    wait_for(lambda: not one.running or ips(services.get("web")), what="the end")
    if one.running:
        assert nth >= 5, "it took fewer requests than that"
        return
    start(**env)
    services.wait_ips("web")
    body, web = the_balancer(cloud), services.get("web")
    assert body["labels"] == own_labels(web) and body["private_net"] == [{"network": network.id, "ip": "10.0.7.7"}]
    assert body["services"] == [tcp_service(80, node_port(web, 80))] and body["algorithm"]["type"] == "least_connections"
    assert body["targets"] == [server_target(n1, private=True), server_target(n2, private=True)]


@pytest.mark.parametrize("method, path", [("POST", LISTS), ("DELETE", "/load_balancers/{id}")])
@pytest.mark.sanitized
def test_a_kill_at_the_first_and_the_last_write(services, cloud, fleet, start, method, path):
    fleet("n1")
    one = start()
    cloud.fault(method, path, faults.afterwards(one.kill))
    services.create("web")
    if method == "DELETE":
        services.wait_event("web", "EnsuredLoadBalancer")
        services.delete("web")
    wait_for(lambda: not one.running, what="the end")
    start()
    if method == "DELETE":
        services.wait_gone("web")
        assert not balancers(cloud)
        return
    services.wait_ips("web")
    assert the_balancer(cloud)["labels"] == own_labels(services.get("web"))


def test_a_token_of_another_project_makes_no_second_balancer_and_releases_no_service(services, cloud, fleet, start, tmp_path):
    other, wrong = cloud.add_project()
    token = tmp_path / "token"
    token.write_text(cloud.token)
    fleet("n1")
    start(HCLOUD_TOKEN_FILE=str(token), HCLOUD_TOKEN=None)
    for name in ("web", "old", "lost"):
        services.create(name)
        services.wait_event(name, "EnsuredLoadBalancer")
    before = balancers(cloud)
    token.write_text(wrong)
    services.patch("web", {"metadata": {"annotations": wish(algorithm_type="least_connections")}})
    services.delete("old")
    services.delete("lost")
    for name in ("web", "old", "lost"):
        services.wait_event(name, "LoadBalancerHeld", "the credentials may be those of another project")
    services.patch("lost", {"metadata": {"annotations": {"ccmd.io/load-balancer-is-gone": "true"}}})
    services.wait_gone("lost")
    assert FINALIZER in finalizers(services.get("old"))
    assert not other.load_balancers and balancers(cloud) == before
    token.write_text(cloud.token)
    services.wait_gone("old")
    wait_for(lambda: sorted(one["algorithm"]["type"] for one in balancers(cloud)) == ["least_connections", "round_robin"],
             what="the changed balancer, and the one that was given up")


# --- how much it asks --------------------------------------------------------------------------------------------------------------


def many(services, count):
    names = [f"s{number}" for number in range(count)]
    for name in names:
        services.create(name)
    for name in names:
        services.wait_event(name, "EnsuredLoadBalancer")
    return names


def test_twenty_services_their_restart_and_one_node_more(services, cloud, fleet, start):
    cloud.latency_s = 0.02
    cloud.action_s = 0.1
    fleet(*(f"n{number:02}" for number in range(10)))
    one = start()
    names = many(services, 20)
    assert cloud.calls() <= 100, cloud.tally()
    one.stop()
    before, mark = balancers(cloud), cloud.mark()
    one = start()
    wait_for(lambda: cloud.calls("GET", LISTS, since=mark), what="the list")
    quiet(cloud, mark, 2)
    assert cloud.calls(since=mark) <= 4, cloud.tally(since=mark)
    assert balancers(cloud) == before
    mark = cloud.mark()
    fleet("n99")
    wait_for(lambda: all(len(each["targets"]) == 11 for each in balancers(cloud)), what="the new target everywhere")
    assert cloud.calls(since=mark) <= 2 * 20 + 3, cloud.tally(since=mark)
    mark = cloud.mark()
    for name in names:
        services.delete(name)
    for name in names:
        services.wait_gone(name)
    assert not balancers(cloud)
    assert cloud.calls(since=mark) <= 2 * 20 + 10, cloud.tally(since=mark)


def test_few_requests_are_sent_past_the_rate_limit(services, cloud, fleet, start):
    fleet("n1")
    start()
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.fault(None, None, faults.too_many(reset_in_s=3600), times=None)
    fleet("n2")
    refused = lambda: [one for one in cloud.requests() if one.status == 429]
    wait_for(refused, what="a refusal")
    mark = cloud.mark()
    holds_for(lambda: cloud.calls(since=mark) <= 2, 2, "a cloud left alone", poll=0.1)
    assert not services.events("web", "UpdateLoadBalancerFailed"), "waiting is no failure"


# --- plans -------------------------------------------------------------------------------------------------------------------------


def noted(found):
    """The requests to the cloud, in order, with * for IDs."""
    return [re.sub(r"/(\d+|{id})(?=/|$)", "/*", change["request"]) for _, change in found.changes() if change["isCloud"]]


def check_planned(cloud, planned, start, **env):
    """A ccmd sends the requests of the plan, in that order, and no others. After it, there is nothing to do."""
    mark = cloud.mark()
    wanted = noted(planned(**env))
    assert wanted and not cloud.writes(mark)
    ccmd = start(**env)
    sent = lambda: [re.sub(r"/\d+(?=/|$)", "/*", f"{one.method} {one.path}") for one in cloud.writes(mark)]
    wait_for(lambda: sent() == wanted, what=f"{wanted}", seen=sent)
    wait_for(lambda: planned(**env).exit_code == 0, what="nothing to do")
    ccmd.stop()
    assert sent() == wanted


@pytest.mark.sanitized
def test_a_plan_is_what_a_controller_then_does(services, cloud, fleet, private, start, planned):
    cloud.action_s = 0.05
    network, env = private()
    fleet("n1", "n2", networks=[network])
    services.create("web", 80, 443, annotations=wish(
        use_private_ip="true", private_ipv4="10.0.0.77", ipv4_rdns="web.example.com", algorithm_type="least_connections"))
    check_planned(cloud, planned, start, **env)
    services.patch("web", {"metadata": {"annotations": wish(
        disable_public_network="true", type="lb21", uses_proxyprotocol="true", private_ipv4="10.0.0.78")}})
    check_planned(cloud, planned, start, **env)
    services.patch("web", {"metadata": {"annotations": wish(use_private_ip="false", disable_public_network="false")}})
    check_planned(cloud, planned, start, **env)
    services.patch("web", {"metadata": {"annotations": wish(use_private_ip="true", disable_public_network="true")}})
    check_planned(cloud, planned, start, **env)
    services.patch("web", {"spec": {"type": "ClusterIP"}})
    check_planned(cloud, planned, start, **env)


def test_a_plan_with_a_managed_certificate(services, cloud, fleet, start, planned):
    cloud.action_s = 0.05
    fleet("n1")
    services.create("web", 443, annotations=wish(protocol="https", certificate_type="managed",
                                                 http_managed_certificate_domains="example.com"))
    check_planned(cloud, planned, start)


def test_a_plan_to_adopt_a_balancer(services, cloud, fleet, start, planned):
    fleet("n1")
    cloud.add_load_balancer("mine", labels={"team": "a"})
    services.create("web", 80, annotations=wish(name="mine"))
    check_planned(cloud, planned, start)


# --- moving over -----------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_moving_over_from_the_official_controller_changes_nothing(services, cloud, fleet, private, start):
    """The state that the official controller leaves: a balancer without any options, and one with a network and http."""
    network, env = private()
    n1, n2 = fleet("n1", "n2", networks=[network])
    left = official.leave_balancers(services, cloud, network, [n1, n2])
    before = balancers(cloud)
    versions = [services.get(name)["metadata"]["resourceVersion"] for name, _ in left]
    mark = cloud.mark()
    start(**env)
    wait_for(lambda: cloud.calls("GET", LISTS, since=mark), what="the list")
    quiet(cloud, mark, 2)
    assert balancers(cloud) == before
    assert [services.get(name)["metadata"]["resourceVersion"] for name, _ in left] == versions
    assert cloud.calls(since=mark) <= 4, cloud.tally(since=mark)


# --- the last machine --------------------------------------------------------------------------------------------------------------

def test_a_balancer_of_ours_stands_in_for_a_witness(api, services, cloud, kubelet, hetzner):
    """The only node of a cluster may go, since the token still sees the cluster's balancer."""
    server = cloud.add_server("n1")
    n1 = kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    hetzner(env=HERE, **FAST)
    services.create("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    cloud.delete_server("n1")
    n1.silent()
    api.wait_gone("n1")


def test_a_balancer_of_another_cluster_is_no_witness(api, services, cloud, kubelet, hetzner):
    server = cloud.add_server("n1")
    n1 = kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    cloud.add_load_balancer("theirs", labels={LABEL: "0b7cbd41-0000-0000-0000-000000000000"})
    hetzner(env=HERE, **FAST)
    cloud.delete_server("n1")
    n1.silent()
    api.wait_event("n1", "NodeDeletionHeld")
    holds_for(lambda: api.get_or_none(f"{NODES}/n1"), 2, "the node", poll=0.1)


# --- the tutorial --------------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_the_tutorials_dialect(services, cloud, fleet, private, hetzner):
    network, env = private()
    n1, = fleet("n1", provider="hcloud-from-scratch", networks=[network])
    env["HCLOUD_NETWORK"] = str(network.id)
    hetzner("--cluster-name=lab", env=env, provider="hcloud-from-scratch")
    services.create("web", 80, annotations=wish(name="not-read", type="lb31"))
    services.wait_ips("web")
    web, body = services.get("web"), the_balancer(cloud)
    assert (body["name"], body["location"], body["load_balancer_type"]) == ("lab-default-web", "fsn1", "lb11")
    assert body["services"] == [tcp_service(80, node_port(web, 80))]
    assert body["targets"] == [server_target(n1, private=True)]
    assert body["private_net"][0]["network"] == network.id
    assert ips(web) == [body["public_net"][family]["ip"] for family in ("ipv4", "ipv6")]
    services.delete("web")
    services.wait_gone("web")
    assert not balancers(cloud)


def test_a_balancer_that_the_tutorial_left(services, cloud, fleet, private, hetzner):
    """The tutorial's controller knows its balancers by name only."""
    network, env = private()
    fleet("n1", provider="hcloud-from-scratch", networks=[network])
    env["HCLOUD_NETWORK"] = str(network.id)
    made = cloud.add_load_balancer("kubernetes-default-web", network=network)
    gone = cloud.add_load_balancer("kubernetes-default-gone", network=network)
    services.create("gone")
    services.patch("gone", {"metadata": {"finalizers": [FINALIZER]}})
    services.delete("gone")
    hetzner(env=env, provider="hcloud-from-scratch")
    services.wait_gone("gone")
    assert gone.id not in cloud.load_balancers
    services.create("web")
    assert services.wait_ips("web") == [made.ipv4, made.ipv6]
    services.delete("web")
    services.wait_gone("web")
    assert not balancers(cloud)


def test_balancers_that_are_switched_off(api, services, cloud, kubelet, start):
    start(HCLOUD_LOAD_BALANCERS_ENABLED="false")
    services.create("web")
    cloud.add_server("n1")
    kubelet("n1")
    api.wait_node("n1", is_initialized)
    quiet(cloud, 0)
    assert not finalizers(services.get("web")) and not cloud.calls("GET", LISTS)


def operations(port):
    """How often each was counted."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    counted = re.findall(r'^cloud_controller_manager_operations_total\{op="(.*)"\} (\d+)$', text, re.M)
    return {name: int(number) for name, number in counted}


@pytest.mark.sanitized
def test_operations_are_counted_under_the_official_names(services, cloud, fleet, start):
    fleet("n1")
    add_certificate(cloud, "site")
    port = free_ports(1)[0]
    one = start(HCLOUD_METRICS_ENABLED="true", HCLOUD_METRICS_ADDRESS=f"127.0.0.1:{port}")
    one.wait_log("objects listed kind=Service")  # the annotations of Services in the first list are read once more
    services.create("web", annotations=wish(protocol="https", http_certificates="site", algorithm_type="round_robin"))
    services.wait_event("web", "EnsuredLoadBalancer")
    counted = operations(port)
    once = {"hcloud/loadBalancers.EnsureLoadBalancer", "hcops/LoadBalancerOps.Create",
            "hcops/hclbServiceOptsBuilder.resolveCertsByNameOrID", "hcops/CertificateOps.GetCertificateByNameOrID",
            "hcops/hclbServiceOptsBuilder.extract", "hcops/hclbServiceOptsBuilder.extractHealthCheck",
            "hcloud/loadBalancers.getLoadBalancerStatusIngress", "annotation/validateAlgorithmType",
            "annotation/Name.LBAlgorithmTypeFromService"}
    assert {name: counted.get(name) for name in once} == dict.fromkeys(once, 1), counted
    several = ("hcops/LoadBalancerOps.GetByK8SServiceUID", "annotation/Name.BoolFromService", "annotation/Name.IntFromService",
               "annotation/Name.DurationFromService", "annotation/Name.LBSvcProtocolFromService")
    assert all(counted[name] > 0 for name in several), counted
    changed = wish(algorithm_type="least_connections", ipv4_rdns="web.example.com", name="web")
    services.patch("web", {"metadata": {"annotations": changed}})
    wait_for(lambda: the_balancer(cloud)["name"] == "web" and the_balancer(cloud)["algorithm"]["type"] == "least_connections",
             what="the balancer to change")
    for name in ("changeHCLBInfo", "changeIPv4RDNS", "changeAlgorithm"):
        assert operations(port)["hcops/LoadBalancerOps." + name] == 1
    services.delete("web")
    services.wait_gone("web")
    counted = operations(port)
    assert counted["hcops/LoadBalancerOps.Delete"] == counted["hcloud/loadBalancers.EnsureLoadBalancerDeleted"] == 1


# --- health ------------------------------------------------------------------------------------------------------------------


def test_the_health_of_targets_is_a_metric_that_costs_no_request(services, cloud, fleet, start):
    """It is that of the last reading, and gone with the Service."""
    n1, _ = fleet("n1", "n2")
    port, = free_ports(1)
    start(f"--metrics-bind-address=127.0.0.1:{port}")
    services.create("web", 80, 443)
    services.wait_event("web", "EnsuredLoadBalancer")

    def scraped():
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        return re.findall(r'^hcloud_load_balancer_(\w+)\{namespace="default",service="web"\} (\d+)$', text, re.M)

    mark = cloud.mark()
    poke(services, "web", "1")
    wait_for(lambda: cloud.requests("GET", "/load_balancers", since=mark), what="the balancer to be read again")
    wait_for(lambda: scraped() == [("healthy_targets", "2"), ("targets", "2")], what="two healthy targets", seen=scraped)
    next(iter(cloud.project.load_balancers.values())).failing[n1.id] = ("layer4_no_connection", None)
    mark = cloud.mark()
    assert scraped() == [("healthy_targets", "2"), ("targets", "2")] and cloud.mark() == mark
    poke(services, "web", "2")
    wait_for(lambda: scraped() == [("healthy_targets", "1"), ("targets", "2")], what="one healthy target", seen=scraped)
    services.delete("web")
    services.wait_gone("web")
    wait_for(lambda: scraped() == [], what="no series", seen=scraped)
