"""Brightbox: nodes and load balancers as the official controller makes them, by fewer requests, and never by mistake.

What is in the simulated account in the end is compared field by field.
"""
import pytest

from lib.api import NODES
from lib.nodes import SHUTDOWN, addresses, is_initialized, taint_keys
from lib.services import FINALIZER, Services, finalizers, ingress
from lib.wait import holds_for, wait_for
from sim import faults
from sim.brightbox import Brightbox, empty_list, refuse

pytestmark = pytest.mark.one_version

PREFIX = "service.beta.kubernetes.io/brightbox-load-balancer-"
FAST = dict(
    node_monitor_period="100ms",
    node_delete_confirm_interval="500ms",
    node_delete_min_age="0s",
    node_delete_breaker_window="10s",
    node_delete_breaker_agree="3s",
)
QUIET_S = 2.5


def annotations(**values):
    return {PREFIX + key.replace("_", "-"): value for key, value in values.items()}


@pytest.fixture
def cloud(tmp_path):
    """A simulated Brightbox; names of its cloud IPs can be resolved."""
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        yield cloud


@pytest.fixture
def services(api):
    one = Services(api)
    one.clear()
    yield one
    one.clear()


@pytest.fixture
def start(ccmd, cloud):
    """start("--flag", with_user=True, env={…}): a ccmd in the simulated account."""

    def run(*flags, with_user=False, env=None, **options):
        environment = {**cloud.environment(with_user), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file), **(env or {})}
        return ccmd("--cloud-provider=brightbox", *flags, inventory=None,
                    env={name: value for name, value in environment.items() if value is not None}, **options)

    return run


@pytest.fixture
def fleet(cloud, kubelet):
    """fleet(2): servers, and initialised nodes with their provider IDs. Returns the servers."""

    def build(count, **options):
        made = [cloud.account.add_server() for _ in range(count)]
        for one in made:
            kubelet(one["id"], initialized=True, provider_id=f"brightbox://{one['id']}", **options)
        return made

    return build


def the(cloud, collection, name):
    found = [one for one in cloud.account.named(collection, name) if one.get("status") not in ("deleting", "deleted")]
    assert len(found) == 1, found
    return found[0]


def hostnames(service):
    return [one.get("hostname") for one in ingress(service)]


def wait_served(services, name="web", timeout=20):
    return services.wait(name, hostnames, timeout, f"service {name} to have names")


# --- instances -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_user", [False, True], ids=["API client", "user"])
def test_a_node_gets_what_the_official_controller_gives(api, cloud, kubelet, start, with_user):
    server = cloud.account.add_server(zone="gb1s-b", server_type="2gb.ssd")
    cip = cloud.account.add("cloud_ips", status="mapped", interface=server["interfaces"][0]["id"])
    interface = server["interfaces"][0]
    kubelet(server["id"])
    start(with_user=with_user)
    node = api.wait_node(server["id"], is_initialized, 10, "the node to be initialised")
    assert node["spec"]["providerID"] == f"brightbox://{server['id']}"
    labels = node["metadata"]["labels"]
    assert [labels[key] for key in ("node.kubernetes.io/instance-type", "topology.kubernetes.io/region",
                                    "topology.kubernetes.io/zone")] == ["2gb.ssd", "gb1s", "gb1s-b"]
    assert addresses(node) == [
        ("Hostname", server["id"]), ("ExternalDNS", server["fqdn"]), ("ExternalIP", interface["ipv4_address"]),
        ("ExternalIP", interface["ipv6_address"]), ("ExternalIP", cip["public_ip"]), ("ExternalDNS", cip["fqdn"])]


def test_a_server_that_is_off_and_one_that_is_gone(api, cloud, fleet, start):
    off, gone, well = fleet(3, ready="Unknown")
    off["status"] = "inactive"
    cloud.account.forget("servers", gone)
    start(**FAST)
    api.wait_node(off["id"], lambda node: SHUTDOWN in taint_keys(node), 10, "the taint of a shut down server")
    wait_for(lambda: not api.get_or_none(f"{NODES}/{gone['id']}"), 20, "the node to be deleted")
    assert api.get_or_none(f"{NODES}/{well['id']}")


@pytest.mark.parametrize("what", ["another account", "empty list", "token refused", "error 503"])
def test_no_node_goes_for_an_answer_that_proves_nothing(api, cloud, fleet, start, what):
    servers = fleet(3, ready="Unknown")
    if what == "another account":
        cloud.move_client(cloud.add_account())
    elif what == "empty list":
        cloud.fault("GET", "/1.0/servers", empty_list(), times=None)
        cloud.fault("GET", "/1.0/servers/{id}", refuse(500), times=None)
    elif what == "token refused":
        cloud.fault("POST", "/token/", refuse(401), times=None)
    else:
        cloud.fault("GET", None, faults.plain(503), times=None)
    start(**FAST, env={"BRIGHTBOX_ACCOUNT": cloud.account.id})
    wait_for(lambda: cloud.calls(), 10, "a request")
    holds_for(lambda: all(api.get_or_none(f"{NODES}/{one['id']}") for one in servers), QUIET_S, "nodes", poll=0.1)


# --- load balancers --------------------------------------------------------------------------------------------------------


def test_a_service_gets_a_balancer_with_all_that_belongs_to_it(cloud, fleet, services, start):
    one, two = fleet(2)
    start("--cluster-name=k")
    made = services.create("web", 80)
    port = made["spec"]["ports"][0]["nodePort"]
    served = wait_served(services)
    name = "web.default.k"
    lb, cip, group, policy = (the(cloud, kind, name) for kind in
                              ("load_balancers", "cloud_ips", "server_groups", "firewall_policies"))
    assert lb["listeners"] == [{"timeout": 50000, "proxy_protocol": None, "protocol": "http", "in": 80, "out": port}]
    assert sorted(lb["nodes"]) == sorted(group["servers"]) == sorted([one["id"], two["id"]])
    assert (lb["healthcheck"]["type"], lb["healthcheck"]["port"], lb["healthcheck"]["request"]) == ("http", port, "/healthz")
    assert cip["load_balancer"] == lb["id"] and policy["server_group"] == group["id"]
    rule, = cloud.account.rules_of(policy)
    assert [rule[key] for key in ("protocol", "source", "destination_port", "description")] == [
        "tcp", "10.0.0.0/8", str(port), name]
    assert hostnames(served) == [cip["reverse_dns"], cip["fqdn"]]
    assert FINALIZER in finalizers(served)


def test_nodes_and_ports_follow_and_a_restart_changes_nothing(cloud, fleet, services, start, kubelet):
    fleet(2)
    first = start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    lb, group = the(cloud, "load_balancers", "web.default.k"), the(cloud, "server_groups", "web.default.k")
    third, = fleet(1)
    wait_for(lambda: third["id"] in lb["nodes"] and third["id"] in group["servers"], 10, "the third server")
    services.patch("web", {"spec": {"ports": [{"name": "s", "port": 8080, "protocol": "TCP", "targetPort": 1}]}})
    wait_for(lambda: [one["in"] for one in lb["listeners"]] == [8080], 10, "the other port")
    first.finish()
    before = cloud.mark()
    start("--cluster-name=k")
    wait_for(lambda: cloud.calls("GET", "/1.0/load_balancers", since=before), 15, "a look at the balancers")
    holds_for(lambda: not [one for one in cloud.writes(since=before) if not one.path.startswith("/token")], QUIET_S,
              "no change")
    assert cloud.calls("GET", since=before) <= 10


def test_a_service_that_goes_leaves_nothing(cloud, fleet, services, start):
    fleet(1)
    cloud.lb_destroy_s = 1
    kept = cloud.account.add("cloud_ips", name="mine")
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    services.delete("web")
    wait_for(lambda: services.get("web") is None, 20, "the service to go")
    for kind in ("cloud_ips", "server_groups", "firewall_policies"):
        assert cloud.account.named(kind, "web.default.k") == []
    assert [one["status"] for one in cloud.account.named("load_balancers", "web.default.k")] == ["deleted"]
    assert cloud.account.every("cloud_ips") == [kept]


def test_certificates_for_the_names_of_a_balancer(cloud, fleet, services, start):
    fleet(1)
    cloud.acme_delay_s = 1
    start("--cluster-name=k")
    services.create("web", 443)
    wait_served(services)
    lb, cip = the(cloud, "load_balancers", "web.default.k"), the(cloud, "cloud_ips", "web.default.k")
    assert (lb["listeners"][0]["protocol"], lb["https_redirect"]) == ("https", True)
    assert sorted(one["identifier"] for one in lb["acme"]["domains"]) == sorted([cip["fqdn"], cip["reverse_dns"]])


def test_a_domain_that_leads_elsewhere(cloud, fleet, services, start):
    fleet(1)
    start("--cluster-name=k")
    services.create("web", 443, annotations=annotations(ssl_domains="127.0.0.1"))
    services.wait_event("web", "SyncLoadBalancerFailed", 'Failed to resolve "127.0.0.1" to load balancer address (')
    assert cloud.account.named("load_balancers", "web.default.k") == []


def test_a_mistake_in_an_annotation_changes_nothing(cloud, fleet, services, start):
    fleet(1)
    start("--cluster-name=k")
    services.create("web", 80, annotations=annotations(policy="magic"))
    services.wait_event("web", "SyncLoadBalancerFailed",
                        'Invalid Load Balancer Policy "magic": magic is not a valid balancingpolicy.Enum')
    assert [one for one in cloud.writes() if not one.path.startswith("/token")] == []


def test_a_chosen_cloud_ip(cloud, fleet, services, start):
    fleet(1)
    cip = cloud.account.add("cloud_ips", name="mine")
    cloud.hosts_file.write_text(cloud.hosts())
    start("--cluster-name=k")
    services.create("web", 80, annotations=annotations(cloudip_allocations=cip["id"]))
    served = wait_served(services)
    assert hostnames(served) == [cip["reverse_dns"], cip["fqdn"]]
    assert cloud.account.every("cloud_ips") == [cip]


def test_slow_changes_are_waited_for(cloud, fleet, services, start):
    fleet(1)
    cloud.lb_build_s, cloud.map_delay_s = 3, 1
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    assert not services.events("web", "SyncLoadBalancerFailed")


def test_an_expired_token_is_renewed(cloud, fleet, services, start):
    fleet(1)
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    cloud.advance(8000)
    services.create("two", 80)
    wait_served(services, "two")
    assert not services.events("two", "SyncLoadBalancerFailed")


def test_credentials_of_another_account_double_nothing(cloud, fleet, services, start):
    fleet(1)
    first = start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    first.finish()
    other = cloud.add_account()
    cloud.move_client(other)
    start("--cluster-name=k")
    services.wait_event("web", "LoadBalancerHeld")
    assert other.every("load_balancers") == [] and hostnames(services.get("web"))
