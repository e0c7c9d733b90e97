"""Load balancers with Primary IPs in the Hetzner Cloud: an address that survives its Service, and one clear event for each
reason why a Service cannot have it, with few requests while that lasts.
"""
import threading

import pytest

from lib.official import wish
from lib.operator import doctor, flags_of, plan
from lib.services import ips
from lib.wait import PATIENCE_S, holds_for, wait_for
from sim import faults

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

HERE = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"}
BALANCERS, PRIMARY_IPS = "/load_balancers", "/primary_ips"
WATCHED_S = 8  # attempts follow after 5 s, 10 s, 20 s and so on, at last 5 min


@pytest.fixture
def start(hetzner):
    return lambda *flags, **env: hetzner(*flags, env={**HERE, **env})


@pytest.fixture
def operators(cluster, cloud):
    """The flags and the environment of ccmd's commands for operators."""
    flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud")
    env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false", **HERE}
    return flags, env


def with_ips(v4=None, v6=None, **more):
    """The annotations that ask for them: Primary IPs, or texts."""
    named = {"public_net_ipv4": v4, "public_net_ipv6": v6}
    texts = {key: str(getattr(one, "id", one)) for key, one in named.items() if one is not None}
    return wish(**texts, **more)


def refused(services, name, text):
    """There is one event about the failure, and it has that text."""
    services.wait_event(name, "SyncLoadBalancerFailed", text)
    assert len(services.events(name, "SyncLoadBalancerFailed")) == 1


# --- an address that survives ----------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_the_address_survives_the_service(services, cloud, start):
    cloud.action_s = 0.1
    v4, v6 = cloud.add_primary_ip("v4"), cloud.add_primary_ip("v6", "ipv6")
    start()
    for _ in range(2):
        mark = cloud.mark()
        services.create("web", annotations=with_ips(v4, v6))
        services.wait_ips("web", v4.ip, v6.address)
        assert cloud.calls("GET", f"{PRIMARY_IPS}/{{id}}", since=mark) == 2
        assert [(one.method, one.path) for one in cloud.writes(mark)] == [("POST", BALANCERS)]
        services.wait_event("web", "EnsuredLoadBalancer")
        services.delete("web")
        services.wait_gone("web")
        assert (v4.assignee_id, v6.assignee_id) == (None, None) and not cloud.project.load_balancers
    assert set(cloud.project.primary_ips) == {v4.id, v6.id}


def test_with_auto_delete_the_address_goes_with_its_service(services, cloud, start):
    v4 = cloud.add_primary_ip("v4", auto_delete=True)
    start()
    services.create("web", annotations=with_ips(v4))
    services.wait_ips("web")
    services.delete("web")
    services.wait_gone("web")
    assert not cloud.project.primary_ips


def test_one_family_is_enough_and_the_other_address_is_the_clouds(services, cloud, start):
    v6 = cloud.add_primary_ip("v6", "ipv6")
    start()
    services.create("web", annotations=with_ips(v6=v6))
    assert services.wait_ips("web")[1] == v6.address


def test_in_a_network_zone_the_balancer_is_made_where_its_address_is(services, cloud, hetzner):
    v4 = cloud.add_primary_ip("v4", location="hel1")
    hetzner(env={"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE": "eu-central", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"})
    services.create("web", annotations=with_ips(v4))
    services.wait_ips("web")
    balancer, = cloud.project.load_balancers.values()
    assert balancer.location["name"] == "hel1"


def test_a_service_without_the_annotations_costs_no_further_request(services, cloud, start):
    start()
    services.create("web")
    services.wait_ips("web")
    assert cloud.calls("GET", f"{PRIMARY_IPS}/{{id}}") == 0


# --- what cannot be ----------------------------------------------------------------------------------------------------------


NO_IDS = {"zero": "0", "negative": "-7", "a-name": "web-ip", "empty": "", "fraction": "7.5", "huge": "99999999999999999999"}


def test_what_the_annotations_themselves_rule_out_costs_no_request(services, cloud, start):
    address = cloud.add_primary_ip("v4")
    start()
    for name, text in NO_IDS.items():
        services.create(name, annotations=with_ips(v6=text))
    services.create("hidden", annotations=with_ips(address, disable_public_network="true"))
    for name, text in NO_IDS.items():
        refused(services, name, f'public-net-ipv6: "{text}" is not the ID of a Primary IP, which is a positive number')
    refused(services, "hidden", "a load balancer whose public interface is disabled cannot have a Primary IP")
    mark = cloud.mark()
    holds_for(lambda: cloud.mark() == mark, WATCHED_S, "no request", poll=0.5)


REASONS = {
    "missing": "the project of the token has no Primary IP 7",
    "family": "is of type ipv6",
    "location": "is in nbg1, but the load balancer is to be created in fsn1",
    "server": "is in use by server 4711",
    "balancer": "is in use by load balancer",
}


@pytest.fixture
def unusable(cloud):
    """{reason: the ID of a Primary IP that a balancer cannot have}"""
    server, balancer = cloud.add_primary_ip("server"), cloud.add_primary_ip("balancer")
    server.assignee_id = 4711
    balancer.assign(cloud.add_load_balancer("terraform"))
    return {"missing": 7, "family": cloud.add_primary_ip("family", "ipv6").id, "server": server.id, "balancer": balancer.id,
            "location": cloud.add_primary_ip("location", location="nbg1").id}


@pytest.mark.sanitized
def test_what_the_cloud_has_not_is_reported_once_and_asked_for_rarely(services, cloud, start, operators, unusable):
    start()
    for reason, ident in unusable.items():
        services.create(reason, annotations=with_ips(ident))
    for reason, text in REASONS.items():
        refused(services, reason, text)
    mark = cloud.mark()
    holds_for(lambda: not cloud.writes(), WATCHED_S, "nothing is changed", poll=0.5)
    for reason, ident in unusable.items():
        assert cloud.calls("GET", f"{PRIMARY_IPS}/{ident}", since=mark) <= 2, (reason, cloud.tally(since=mark))
        assert len(services.events(reason, "SyncLoadBalancerFailed")) == 1
    # each attempt also looks for the Service's balancer; and for one of its name, if a balancer of an unknown owner has the address
    assert cloud.calls(since=mark) <= 2 * (5 * 2 + 2), cloud.tally(since=mark)
    flags, env = operators
    checks, planned = str(doctor(*flags, env=env).checks), str(plan(*flags, scope="services", env=env).content)
    for text in REASONS.values():
        assert text in checks and text in planned


def test_a_service_is_served_when_its_address_becomes_usable(services, cloud, start):
    start()
    services.create("web", annotations=with_ips(7))
    refused(services, "web", REASONS["missing"])
    address = cloud.add_primary_ip("web")
    services.patch("web", {"metadata": {"annotations": with_ips(address)}})
    services.wait_ips("web")
    assert ips(services.get("web"))[0] == address.ip


@pytest.mark.sanitized
def test_of_two_services_with_one_address_the_second_waits(services, cloud, start):
    address = cloud.add_primary_ip("web")
    start()
    services.create("first", annotations=with_ips(address))
    services.wait_ips("first")
    services.create("second", annotations=with_ips(address))
    refused(services, "second", "is in use by the load balancer of the Service default/first")
    services.delete("first")
    services.wait_gone("first")
    assert services.wait_ips("second")[0] == address.ip


def test_two_services_at_the_same_time(services, cloud, start):
    """Both find the address free; the cloud refuses one of them, which finds the reason at its next attempt."""
    cloud.action_s = 0.5
    address = cloud.add_primary_ip("web")
    both = threading.Barrier(2, timeout=PATIENCE_S)
    cloud.fault("GET", f"{PRIMARY_IPS}/{{id}}", faults.afterwards(both.wait), times=2)
    start()
    for name in ("one", "two"):
        services.create(name, annotations=with_ips(address))
    wait_for(lambda: any(ips(services.get(name)) for name in ("one", "two")), what="one is served")
    winner, loser = sorted(("one", "two"), key=lambda name: not ips(services.get(name)))
    services.wait_event(loser, "SyncLoadBalancerFailed", "primary_ip_assigned")
    services.wait_event(loser, "SyncLoadBalancerFailed", f"is in use by the load balancer of the Service default/{winner}")
    assert len(cloud.project.load_balancers) == 1 and cloud.calls("POST", BALANCERS) == 2
    services.delete(winner)
    services.wait_gone(winner)
    assert services.wait_ips(loser)[0] == address.ip
    assert not [one.path for one in cloud.writes() if "/actions/" in one.path], "the refusal was remembered"


# --- a balancer that exists ---------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_a_later_change_is_not_applied(services, cloud, start, operators):
    first, second = cloud.add_primary_ip("first"), cloud.add_primary_ip("second")
    start()
    services.create("web", annotations=with_ips(first))
    services.wait_ips("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    flags, env = operators
    assert doctor(*flags, env=env).checks["CCMD063"]["result"] == "ok"
    mark = cloud.mark()
    services.patch("web", {"metadata": {"annotations": with_ips(second)}})
    message = services.wait_event("web", "LoadBalancerAddressKept", f"asks for Primary IP {second.id}")
    assert f"has the IPv4 address {first.ip}" in message
    assert "delete the Service default/web and create it again" in message
    holds_for(lambda: not cloud.writes(mark), WATCHED_S, "nothing is changed", poll=0.5)
    assert cloud.calls(since=mark) <= 1, cloud.tally(since=mark)
    assert not services.events("web", "SyncLoadBalancerFailed") and ips(services.get("web"))[0] == first.ip
    assert f"asks for Primary IP {second.id}" in str(doctor(*flags, env=env).found("CCMD063"))
    assert f"asks for Primary IP {second.id}" in str(plan(*flags, scope="services", env=env).content)


def test_a_text_that_is_no_id_keeps_no_node_from_a_balancer_that_exists(services, cloud, kubelet, start):
    address = cloud.add_primary_ip("web")
    start()
    services.create("web", annotations=with_ips(address))
    services.wait_ips("web")
    services.patch("web", {"metadata": {"annotations": with_ips("mine")}})
    services.wait_event("web", "LoadBalancerAddressKept", "asks for Primary IP mine")
    server = cloud.add_server("n1")
    kubelet("n1", ip="10.0.0.1", initialized=True, provider_id=f"hcloud://{server.id}")
    balancer, = cloud.project.load_balancers.values()
    wait_for(lambda: balancer.has_server(server.id), what="the target")


def test_an_adopted_balancer_keeps_its_address(services, cloud, start):
    address, old = cloud.add_primary_ip("web"), cloud.add_load_balancer("old")
    start()
    services.create("web", annotations=with_ips(address, name="old"))
    services.wait_event("web", "LoadBalancerAddressKept", f"asks for Primary IP {address.id}")
    assert services.wait_ips("web")[0] == old.ipv4 and address.assignee_id is None


def test_an_own_balancer_without_its_label_is_found_by_its_name(services, cloud, start):
    """Its Primary IP is in use then, by a balancer of an unknown owner."""
    address = cloud.add_primary_ip("web")
    ccmd = start()
    services.create("web", annotations=with_ips(address))
    before = services.wait_ips("web")
    balancer, = cloud.project.load_balancers.values()
    ccmd.stop()
    balancer.labels = {}
    services.api.patch("/api/v1/namespaces/default/services/web/status", {"status": {"loadBalancer": None}})
    start()
    services.wait_ips("web", *before)
    assert list(cloud.project.load_balancers) == [balancer.id] and balancer.labels


def test_a_blocked_address_is_reported(services, cloud, start, operators):
    address = cloud.add_primary_ip("web")
    start()
    services.create("web", annotations=with_ips(address))
    services.wait_event("web", "EnsuredLoadBalancer")
    address.blocked = True
    services.patch("web", {"metadata": {"annotations": {"example.com/poke": "1"}}})
    services.wait_event("web", "LoadBalancerAddressBlocked", f"Hetzner has blocked the IPv4 address {address.ip}")
    flags, env = operators
    assert address.ip in str(doctor(*flags, env=env).found("CCMD068"))


# --- before it is made, and before the API can do it ----------------------------------------------------------------------------


def test_a_plan_shows_the_addresses(services, cloud, operators):
    address = cloud.add_primary_ip("web")
    services.create("web", annotations=with_ips(address))
    flags, env = operators
    found = plan(*flags, scope="services", env=env).differences()
    new = next(one["new"] for name, one in found.items() if name.startswith("load balancer"))
    assert (f"Primary IP {address.id}", address.ip) in new
    assert not cloud.writes()


def test_the_former_api_refuses_and_says_so(services, cloud, start):
    cloud.be_former()
    address = cloud.add_primary_ip("web")
    start()
    services.create("web", annotations=with_ips(address))
    refused(services, "web", "public_net")
    assert not cloud.project.load_balancers
    mark = cloud.mark()
    holds_for(lambda: not cloud.writes(mark), WATCHED_S, "the refusal is remembered", poll=0.5)


def test_the_former_api_without_the_annotations(services, cloud, start):
    cloud.be_former()
    start()
    services.create("web")
    services.wait_ips("web")
    services.delete("web")
    services.wait_gone("web")
    assert not cloud.project.load_balancers
