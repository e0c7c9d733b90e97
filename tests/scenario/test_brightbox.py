"""Brightbox: nodes and load balancers as with the official controller, with fewer requests; mistakes destroy nothing.

What is in the simulated account in the end is compared field by field. Headings in quotation marks are those of
docs/spec/brightbox.md.
"""
import pytest

from lib.api import NODES
from lib.ccmd import FAST, preload, run_ccmd, sanitized
from lib.killed import KilledAtEachWrite
from lib.nodes import SHUTDOWN, Kubelet, addresses, is_initialized, taint_keys
from lib.services import FINALIZER, finalizers, ingress
from lib.wait import PATIENCE_S, holds_for, wait_for
from sim import faults
from sim.brightbox import APPLICATION, Brightbox, empty_list, refuse
from sim.endpoint import Reply

pytestmark = pytest.mark.one_version

PREFIX = "service.beta.kubernetes.io/brightbox-load-balancer-"
QUIET_S = 2.5
HOUR_S, HURRY = 3600, 60


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
    """The only object of that name, after all changes that are due: without requests the simulator makes none."""
    with cloud.lock:
        cloud.account.settle()
    found = [one for one in cloud.account.named(collection, name) if one.get("status") not in ("deleting", "deleted")]
    assert len(found) == 1, found
    return found[0]


def hostnames(service):
    return [one.get("hostname") for one in ingress(service)]


def wait_served(services, name="web", timeout=PATIENCE_S):
    return services.wait(name, hostnames, timeout, f"service {name} to have names")


# --- configuration and credentials -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("env, text", [
    (dict(BRIGHTBOX_CLIENT=None, BRIGHTBOX_CLIENT_SECRET=None), "must specify Account with User Credentials"),
    (dict(BRIGHTBOX_USER_NAME="a@example.com"), "User Credentials not used with API Client"),
    (dict(BRIGHTBOX_CLIENT_SECRET="wrong"), r'oauth2: \"invalid_client\"'),
    (dict(BRIGHTBOX_CLIENT=APPLICATION[0], BRIGHTBOX_CLIENT_SECRET=APPLICATION[1], BRIGHTBOX_ACCOUNT="acc-aaaaa",
          BRIGHTBOX_USER_NAME="a@example.com", BRIGHTBOX_PASSWORD="hunter2"), r'oauth2: \"invalid_client\"'),
], ids=["no account", "two identities", "wrong secret", "wrong password"])
def test_it_does_not_start_without_an_identity(cluster, cloud, env, text):
    environment = {**cloud.environment(), **env}
    done = run_ccmd("--cloud-provider=brightbox", f"--kubeconfig={cluster.ccmd_kubeconfig}", "--leader-elect=false",
                    "--secure-port=0", env={name: value for name, value in environment.items() if value is not None})
    assert done.returncode == 1 and "Cloud provider could not be initialized" in done.stderr and text in done.stderr
    assert cloud.secret not in done.stderr and "hunter2" not in done.stderr


def test_credentials_in_files_are_replaced_while_it_runs(api, cloud, kubelet, start, tmp_path):
    client, secret, config = (tmp_path / name for name in ("client", "secret", "config"))
    client.write_text(f"{cloud.client}\n")
    secret.write_text(f"{cloud.secret}\n")
    config.write_text("this is not read")
    one = start(cloud_config=config, env={
        "BRIGHTBOX_CLIENT": None, "BRIGHTBOX_CLIENT_FILE": str(client), "BRIGHTBOX_CLIENT_SECRET": None,
        "BRIGHTBOX_CLIENT_SECRET_FILE": str(secret)})
    kubelet(cloud.account.add_server()["id"])
    first, second = cloud.account.add_server(), cloud.account.add_server()
    kubelet(first["id"])
    api.wait_node(first["id"], is_initialized)
    assert "supplied config is not read by this version. Using environment" in one.text
    secret.write_text(cloud.change_secret())
    cloud.revoke_tokens()
    kubelet(second["id"])
    api.wait_node(second["id"], is_initialized)
    assert cloud.secret not in one.text


# --- instances -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_user", [False, True], ids=["API client", "user"])
def test_a_node_gets_what_the_official_controller_gives(api, cloud, kubelet, start, with_user):
    server = cloud.account.add_server(zone="gb1s-b", server_type="2gb.ssd")
    cip = cloud.account.add("cloud_ips", status="mapped", interface=server["interfaces"][0]["id"])
    interface = server["interfaces"][0]
    kubelet(server["id"])
    start(with_user=with_user)
    node = api.wait_node(server["id"], is_initialized, what="the node to be initialised")
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
    api.wait_node(off["id"], lambda node: SHUTDOWN in taint_keys(node), what="the taint of a shut down server")
    wait_for(lambda: not api.get_or_none(f"{NODES}/{gone['id']}"), what="the node to be deleted")
    assert api.get_or_none(f"{NODES}/{well['id']}")


def test_the_state_of_a_server_decides_about_its_node(api, cloud, fleet, start):
    """"Server states". Also: a node whose provider ID has another prefix is left alone."""
    well, creating, leaving, off, failed, deleted = fleet(6, ready="Unknown")
    foreign = cloud.account.add_server()
    Kubelet(api, "k3s", initialized=True, provider_id=f"k3s://{foreign['id']}", ready="Unknown").register()
    cloud.account.forget("servers", foreign)
    states = {"creating": creating, "deleting": leaving, "unavailable": off, "failed": failed, "deleted": deleted}
    for state, server in states.items():
        server["status"] = state
    start(**FAST)
    api.wait_node(off["id"], lambda node: SHUTDOWN in taint_keys(node), what="the taint of a shut down server")
    for one in failed, deleted:
        api.wait_gone(one["id"])
    nodes = {one["metadata"]["name"]: taint_keys(one) for one in api.list(NODES)}
    assert nodes.keys() == {well["id"], creating["id"], leaving["id"], off["id"], "k3s"}
    assert [name for name, keys in nodes.items() if SHUTDOWN in keys] == [off["id"]]


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


def test_a_balancer_follows_nodes_and_ports_and_a_restart_changes_nothing(cloud, fleet, services, start, kubelet):
    fleet(2)
    first = start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    lb, group = the(cloud, "load_balancers", "web.default.k"), the(cloud, "server_groups", "web.default.k")
    third, = fleet(1)
    wait_for(lambda: third["id"] in lb["nodes"] and third["id"] in group["servers"], what="the third server")
    services.patch("web", {"spec": {"ports": [{"name": "s", "port": 8080, "protocol": "TCP", "targetPort": 1}]}})
    wait_for(lambda: [one["in"] for one in lb["listeners"]] == [8080], what="the other port")
    first.finish()
    before = cloud.mark()
    start("--cluster-name=k")
    wait_for(lambda: cloud.calls("GET", "/1.0/load_balancers", since=before), what="a look at the balancers")
    holds_for(lambda: not [one for one in cloud.writes(since=before) if not one.path.startswith("/token")], QUIET_S,
              "no change")
    assert cloud.calls("GET", since=before) <= 10


def test_a_deleted_service_leaves_nothing_behind(cloud, fleet, services, start):
    fleet(1)
    cloud.lb_destroy_s = 1
    kept = cloud.account.add("cloud_ips", name="mine")
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    mark = cloud.mark()
    services.delete("web")
    wait_for(lambda: services.get("web") is None, what="the service to go")
    deleted = [one for one in cloud.writes(since=mark) if one.method == "DELETE"]
    assert [one.status // 100 for one in deleted] == [2] * 4, deleted  # and no request before its time
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


def test_a_domain_with_another_address(cloud, fleet, services, start):
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


def test_a_cloud_ip_is_replaced_unless_it_is_mapped_elsewhere(cloud, fleet, services, start):
    """A cloud IP that ccmd allocated is destroyed when it is replaced; a cloud IP of the user is only unmapped."""
    server, = fleet(1)
    mine, next_one = (cloud.account.add("cloud_ips", name=name) for name in ("mine", "next"))
    elsewhere = cloud.account.add("cloud_ips", name="elsewhere", status="mapped", interface=server["interfaces"][0]["id"])
    cloud.hosts_file.write_text(cloud.hosts())
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    lb = the(cloud, "load_balancers", "web.default.k")
    for one in mine, next_one:
        services.patch("web", {"metadata": {"annotations": annotations(cloudip_allocations=one["id"])}})
        services.wait("web", lambda web, one=one: hostnames(web) == [one["reverse_dns"], one["fqdn"]])
        assert one["load_balancer"] == lb["id"] and not cloud.account.named("cloud_ips", "web.default.k")
    assert mine["status"] == "unmapped"
    services.patch("web", {"metadata": {"annotations": annotations(cloudip_allocations=elsewhere["id"])}})
    services.wait_event("web", "CloudIPMappedElsewhere", f'CloudIP "{elsewhere["id"]}" ({elsewhere["public_ip"]}) is mapped')
    assert (elsewhere["interface"], elsewhere["load_balancer"]) == (server["interfaces"][0]["id"], None)
    assert cloud.account.every("cloud_ips") == [mine, next_one, elsewhere]


def test_names_and_ports_of_certificates_and_local_traffic(cloud, fleet, services, start, tmp_path):
    """A name that has no address yet is an error; once it has the cloud IP's address, the balancer gets the name."""
    fleet(1)
    cip = cloud.account.add("cloud_ips", name="mine")
    hosts, cloud.hosts_file = cloud.hosts_file, None
    hosts.write_text(cloud.hosts())
    start("--cluster-name=k", env={"BRIGHTBOX_HOSTS_FILE": str(hosts)})
    made = services.create("web", 443, 8443, 80, externalTrafficPolicy="Local", annotations=annotations(
        ssl_domains="www.example.invalid", ssl_ports="8443", cloudip_allocations=cip["id"]))
    services.wait_event("web", "SyncLoadBalancerFailed", 'Failed to resolve "www.example.invalid" to load balancer address (')
    assert cloud.account.named("load_balancers", "web.default.k") == []
    hosts.write_text(cloud.hosts() + f"{cip['public_ipv6']} www.example.invalid\n")
    services.patch("web", {"metadata": {"annotations": annotations(policy="round-robin")}})  # not to wait for the next try
    wait_served(services)
    lb, policy = (the(cloud, kind, "web.default.k") for kind in ("load_balancers", "firewall_policies"))
    assert [(one["in"], one["protocol"]) for one in lb["listeners"]] == [(443, "https"), (8443, "https"), (80, "http")]
    assert [one["identifier"] for one in lb["acme"]["domains"]] == sorted(
        ["www.example.invalid", cip["fqdn"], cip["reverse_dns"]])
    check = made["spec"]["healthCheckNodePort"]
    assert (lb["healthcheck"]["type"], lb["healthcheck"]["port"], lb["healthcheck"]["request"]) == ("http", check, "/healthz")
    rule, = cloud.account.rules_of(policy)
    ports = [port["nodePort"] for port in made["spec"]["ports"]]
    assert rule["destination_port"] == ",".join(map(str, [*ports, check]))


def test_slow_changes_are_waited_for(cloud, fleet, services, start):
    fleet(1)
    cloud.lb_build_s, cloud.map_delay_s = 3, 1
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    assert not services.events("web", "SyncLoadBalancerFailed")


def test_services_that_wait_for_certificates_delay_no_other_one(cloud, fleet, services, start):
    fleet(1)
    start("--cluster-name=k")
    cloud.acme_delay_s = None  # they are never validated
    names = [f"s{number}" for number in range(30)]
    for name in names:
        services.create(name, 443)
    wait_for(lambda: all(cloud.account.named("load_balancers", f"{name}.default.k") for name in names), what="all balancers")
    wait_for(lambda: all(one["status"] == "mapped" for one in cloud.account.every("cloud_ips")), what="all cloud IPs")
    mark = cloud.mark()
    holds_for(lambda: cloud.calls(since=mark) <= 60, 10, "few requests", poll=0.1)
    mark = cloud.mark()
    services.create("web", 80)
    wait_served(services, timeout=10 if sanitized() else 4)
    assert cloud.calls("GET", "/1.0/load_balancers", since=mark) <= 10, cloud.tally(since=mark)
    assert not any(services.events(name, "SyncLoadBalancerFailed") for name in [*names, "web"])


def test_an_expired_token_is_renewed(cloud, fleet, services, start):
    fleet(1)
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    cloud.advance(8000)
    services.create("two", 80)
    wait_served(services, "two")
    assert not services.events("two", "SyncLoadBalancerFailed")


def test_credentials_of_another_account_create_no_second_balancer(cloud, fleet, services, start):
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
    services.delete("web")
    holds_for(lambda: services.get("web"), 1, "the Service to be held")
    cloud.move_client(cloud.account)
    services.wait_gone("web")
    assert_nothing(cloud)


def test_annotations_reach_the_balancer_when_it_is_made_and_when_they_change(cloud, fleet, services, start):
    """"Annotations". The interval of the health check has two keys: ours, and the one that the official controller reads."""
    fleet(1)
    start("--cluster-name=k")
    services.create("web", 80, annotations={
        "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval": "7000",
        **annotations(listener_protocol="tcp", listener_proxy_protocol="v2-ssl-cn", listener_idle_timeout="100000",
                      policy="source-address", healthcheck_protocol="http", healthcheck_request="/ready",
                      healthcheck_timeout="4000", healthcheck_healthy_threshold="2", healthcheck_unhealthy_threshold="5")})
    wait_served(services)
    lb = the(cloud, "load_balancers", "web.default.k")
    listener, = lb["listeners"]
    assert [listener[key] for key in ("protocol", "proxy_protocol", "timeout")] == ["tcp", "v2-ssl-cn", 100000]
    check = ("type", "request", "interval", "timeout", "threshold_up", "threshold_down")
    assert [lb["healthcheck"][key] for key in check] == ["http", "/ready", 7000, 4000, 2, 5]
    assert (lb["policy"], lb["https_redirect"]) == ("source-address", False)
    services.patch("web", {"metadata": {"annotations": annotations(
        healthcheck_protocol="tcp", healthcheck_interval="9000", policy="round-robin")}})
    wait_for(lambda: lb["policy"] == "round-robin", what="the other policy")
    assert [lb["healthcheck"][key] for key in check[:3]] == ["tcp", "/", 9000]


def test_differences_are_repaired_and_what_others_added_stays(cloud, fleet, services, start):
    """"When is an update needed?", "Finding the load balancer", "Firewall"."""
    server, = fleet(1)
    first = start("--cluster-name=k")
    services.create("web", 80)
    services.create("other", 80)
    wait_served(services)
    wait_served(services, "other")
    first.finish()
    lb, cip, group, policy = (the(cloud, kind, "web.default.k") for kind in
                              ("load_balancers", "cloud_ips", "server_groups", "firewall_policies"))
    rule, = cloud.account.rules_of(policy)
    with cloud.lock:
        added = cloud.account.add("firewall_rules", firewall_policy=policy["id"], protocol="udp", source="192.0.2.0/24")
        wanted, rule["destination_port"] = rule["destination_port"], "1"
        policy["server_group"], group["servers"] = None, []
        lb["nodes"], lb["name"] = [], "web.default.k #type:container"
        gone = the(cloud, "load_balancers", "other.default.k")
        gone["status"] = "failed"
    start("--cluster-name=k")
    wait_for(lambda: lb["nodes"] == group["servers"] == [server["id"]] and lb["name"] == "web.default.k", what="the members")
    assert rule["destination_port"] == wanted and policy["server_group"] == group["id"]
    assert added in cloud.account.rules_of(policy) and cip["load_balancer"] == lb["id"]
    services.wait_event("other", "SyncLoadBalancerFailed", f"Load balancer {gone['id']} has failed at Brightbox")
    assert cloud.account.named("load_balancers", "other.default.k") == [gone]  # and no other one beside it


def test_a_balancer_without_nodes_is_empty_and_sent_once(api, cloud, fleet, services, start):
    server, = fleet(1)
    start("--cluster-name=k")
    services.create("web", 80)
    wait_served(services)
    lb = the(cloud, "load_balancers", "web.default.k")
    assert lb["nodes"] == [server["id"]]
    api.delete(f"{NODES}/{server['id']}")
    wait_for(lambda: lb["nodes"] == [], what="a balancer without nodes")
    mark = cloud.mark()
    services.patch("web", {"metadata": {"annotations": {"example.com/touched": "now"}}})
    services.create("next", 80)
    wait_served(services, "next")
    assert not cloud.calls("PUT", "/1.0/load_balancers/{id}", since=mark)


def test_what_cannot_be_done_is_said_on_the_service(cloud, fleet, services, start):
    """"Validation order and messages", "Choosing the cloud IP"."""
    fleet(1)
    cip = cloud.account.add("cloud_ips", name="mine")
    cloud.hosts_file.write_text(cloud.hosts())
    start("--cluster-name=k")
    bad = "SyncLoadBalancerFailed"
    services.create("affine", 80, sessionAffinity="ClientIP")
    services.create("ports", 80, annotations=annotations(ssl_domains="www.example.com"))
    services.create("both", 80, loadBalancerIP=cip["public_ip"], annotations=annotations(cloudip_allocations=cip["id"]))
    services.create("unknown", 80, loadBalancerIP="203.0.113.77")
    services.create("number", 80, annotations=annotations(healthcheck_timeout="-1"))
    services.wait_event("affine", bad, "unsupported load balancer affinity: ClientIP")
    services.wait_event("ports", bad, "SSL support requires a Port definition for 443")
    services.wait_event("both", bad, "Remove obsolete field: spec.loadBalancerIP")
    services.wait_event("unknown", bad, 'Could not find allocated Cloud IP with address "203.0.113.77"')
    services.wait_event("number", bad, f'"{PREFIX}healthcheck-timeout" needs to be a positive number '
                        '(strconv.ParseUint: parsing "-1": invalid syntax)')
    assert cloud.account.every("load_balancers") == [] and cloud.account.every("cloud_ips") == [cip]
    services.create("chosen", 80, loadBalancerIP=cip["public_ipv6"])
    assert hostnames(wait_served(services, "chosen")) == [cip["reverse_dns"], cip["fqdn"]]


def test_a_certificate_that_is_refused_is_named_and_the_next_attempt_serves(cloud, fleet, services, start):
    """"Completeness errors after Ensure"."""
    fleet(1)
    cip = cloud.account.add("cloud_ips", name="mine")
    cloud.hosts_file.write_text(cloud.hosts())
    cloud.acme_status = {cip["fqdn"]: ("invalid", "too many orders")}
    start("--cluster-name=k")
    services.create("web", 443, annotations=annotations(cloudip_allocations=cip["id"]))
    services.wait_event("web", "SyncLoadBalancerFailed",
                        f'Domain "{cip["fqdn"]}" has not yet been validated for SSL use ("invalid":"too many orders")')
    lb = the(cloud, "load_balancers", "web.default.k")
    with cloud.lock:
        for one in lb["acme"]["domains"]:
            one.update(status="valid", last_message="")
    wait_served(services)


# --- failures ---------------------------------------------------------------------------------------------------------------


def too_many(request, go):
    return Reply(429, {"error_name": "rate_limited", "errors": ["slow down"]}, {"Retry-After": 2})


OUTAGES = {
    "401": refuse(401, "invalid_token"), "403": refuse(403, "Forbidden"),
    "404": refuse(404, "missing_resource", "Resource not found"), "429": too_many, "503": refuse(503),
    "half an answer": faults.cut_body(20),
}


def break_cloud(cloud, outage):
    if outage == "another account":
        cloud.move_client(cloud.add_account())
    elif outage == "empty lists":
        cloud.fault("GET", "/1.0/[a-z_]+", empty_list(), times=None)
        cloud.fault("GET", "/1.0/servers/{id}", refuse(500), times=None)
    elif outage == "no token":
        cloud.revoke_tokens()
        cloud.fault("POST", "/token/", refuse(401, "invalid_client"), times=None)
    else:
        cloud.fault(None, "/1.0/.*", OUTAGES[outage], times=None)


def repair_cloud(cloud, outage):
    cloud.clear_faults()
    if outage == "another account":
        cloud.move_client(cloud.account)


@pytest.fixture
def endure(api, cloud, kubelet, services, start):
    """endure("503", 2.5): an outage of that many seconds while nodes are not ready, a Service changes and another one goes.

    Meanwhile nothing is deleted, doubled or lost, and afterwards all is done without further action. Returns the number of
    requests during the outage.
    """

    def run(outage, seconds, **options):
        servers = [cloud.account.add_server()["id"] for _ in range(3)]
        kubelets = [kubelet(one, initialized=True, provider_id=f"brightbox://{one}") for one in servers]
        start("--cluster-name=k", **options)
        for name in ("web", "old"):
            services.create(name, 80)
        for name in ("web", "old"):
            wait_served(services, name)
        lb, cip = the(cloud, "load_balancers", "web.default.k"), the(cloud, "cloud_ips", "web.default.k")
        before = cloud.dump()
        break_cloud(cloud, outage)
        mark = cloud.mark()
        for one in kubelets:
            one.not_ready()
        services.patch("web", {"spec": {"ports": [{"name": "s", "port": 8080, "protocol": "TCP", "targetPort": 1}]}})
        services.delete("old")
        wait_for(lambda: cloud.calls(since=mark), what="a request")
        holds_for(lambda: all(api.get_or_none(f"{NODES}/{one}") for one in servers) and services.get("old") and
                  cloud.dump() == before and not any(one.every("load_balancers") for one in cloud.accounts[1:]), seconds,
                  "all to be as it was", poll=0.1)
        n_calls = cloud.calls(since=mark)
        repair_cloud(cloud, outage)
        for one in kubelets:
            one.ready()
        services.wait_gone("old")
        wait_for(lambda: [one["in"] for one in lb["listeners"]] == [8080], what="the other port")
        assert the(cloud, "load_balancers", "web.default.k") is lb and lb["status"] == "active"
        assert cloud.account.every("cloud_ips") == [cip] and cip["load_balancer"] == lb["id"]
        assert all(api.get_or_none(f"{NODES}/{one}") for one in servers)
        return n_calls

    return run


IN_SHORT = ("another account", "empty lists", "429", "503")  # without --all
every_outage = pytest.mark.parametrize("outage", ["another account", "empty lists", "no token", *OUTAGES])


@pytest.mark.parametrize("outage", [
    *IN_SHORT, *(pytest.param(one, marks=pytest.mark.slow) for one in ("no token", *OUTAGES) if one not in IN_SHORT)])
def test_an_outage_deletes_no_node_and_doubles_and_loses_nothing(endure, outage):
    endure(outage, QUIET_S, **FAST)


@pytest.mark.slow
@pytest.mark.plain
@every_outage
def test_an_hour_of_an_outage_deletes_no_node_and_doubles_and_loses_nothing(endure, outage, tmp_path):
    """An hour passes in a minute for ccmd, with its usual periods."""
    n_calls = endure(outage, HOUR_S / HURRY, env={**preload(tmp_path, "hurry"), "HURRY": str(HURRY)})
    print(f"{n_calls} requests in an hour of: {outage}")
    assert n_calls <= (HOUR_S / 2 if outage == "429" else 900)  # a 429 permits the next request after 2 s


def assert_whole(cloud, name, servers):
    """There is exactly one object of each kind for the name, and they belong together."""
    lb, cip, group, policy = (the(cloud, kind, name) for kind in
                              ("load_balancers", "cloud_ips", "server_groups", "firewall_policies"))
    assert lb["status"] == "active" and cip["load_balancer"] == lb["id"] and policy["server_group"] == group["id"]
    assert sorted(lb["nodes"]) == sorted(group["servers"]) == sorted(servers) and len(cloud.account.rules_of(policy)) == 1


def assert_nothing(cloud, names=()):
    """Only the objects of those names are left, and the account's own group and policy."""
    kept = {"default", *names}
    for kind in ("load_balancers", "cloud_ips", "server_groups", "firewall_policies"):
        left = [one for one in cloud.account.every(kind) if one["name"] not in kept and one.get("status") != "deleted"]
        assert left == []
    assert len(cloud.account.every("firewall_rules")) == len(names)


class ByCloud:
    """At the n-th change in the cloud: after it is made, and before its answer arrives."""

    environment = None

    def __init__(self, cloud):
        self.cloud = cloud
        self.fault = None

    @property
    def strikes(self):
        return self.fault.hits > 0

    def arm(self, n, one):
        self.fault = self.cloud.fault(None, "/1.0/.*", faults.afterwards(one.kill), skip=n - 1,
                                      when=lambda request: request.is_write)

    def disarm(self):
        self.cloud.clear_faults()


class Killed(KilledAtEachWrite):
    """A Service comes and goes, beside one that stays."""

    def __init__(self, start, services, cloud, servers):
        super().__init__(lambda env: start("--cluster-name=k", env=env), ByCloud(cloud))
        self.services, self.cloud, self.servers = services, cloud, servers
        self.wanted = {"stays"}

    def seen(self):
        return self.wanted, self.cloud.tally(), self.services.events("web")

    def check(self):
        for name in ("stays", "web"):
            one = self.services.get(name)
            assert hostnames(one) if name in self.wanted else one is None
        for name in self.wanted:
            assert_whole(self.cloud, f"{name}.default.k", self.servers)
        assert_nothing(self.cloud, {f"{name}.default.k" for name in self.wanted})

    def create(self):
        self.wanted.add("web")
        self.services.create("web")

    def delete(self):
        self.wanted.remove("web")
        self.services.delete("web")


@pytest.mark.plain
def test_killed_at_each_write(cloud, fleet, services, start):
    servers = [one["id"] for one in fleet(2)]
    scenario = Killed(start, services, cloud, servers)
    services.create("stays")
    scenario.begin()
    scenario.run(scenario.create, scenario.delete)
    assert scenario.n_kills >= 12, f"{scenario.n_kills} kills"


def test_two_processes_make_one_balancer(cloud, fleet, services, start):
    """A rolling update without election."""
    servers = [one["id"] for one in fleet(2)]
    cloud.latency_s, cloud.lb_build_s, cloud.map_delay_s = 0.02, 0.3, 0.1
    start("--cluster-name=k"), start("--cluster-name=k")
    names = [f"s{number}" for number in range(4)]
    for name in names:
        services.create(name, 80)

    def is_whole():
        for name in names:
            lb, cip = the(cloud, "load_balancers", f"{name}.default.k"), the(cloud, "cloud_ips", f"{name}.default.k")
            assert lb["status"] == "active" and cip["load_balancer"] == lb["id"] and sorted(lb["nodes"]) == sorted(servers)
            assert hostnames(services.get(name)) == [cip["reverse_dns"], cip["fqdn"]]
        return True

    wait_for(is_whole, what="one balancer with one cloud IP for each Service", seen=cloud.tally)
    holds_for(is_whole, 1, "one balancer each", poll=0.1)
    for name in names:
        services.delete(name)
    for name in names:
        services.wait_gone(name)
    assert_nothing(cloud)


# --- how much it asks ------------------------------------------------------------------------------------------------------


def test_twenty_services_a_restart_and_one_node_more(cloud, fleet, services, start):
    cloud.latency_s = 0.02
    cloud.lb_destroy_s = 0.1
    servers = [one["id"] for one in fleet(10)]
    one = start("--cluster-name=k")
    names = [f"s{number}" for number in range(20)]
    for name in names:
        services.create(name, 80)
    for name in names:
        wait_served(services, name)
        assert_whole(cloud, f"{name}.default.k", servers)
    assert cloud.calls() <= 300, cloud.tally()
    one.stop()
    mark = cloud.mark()
    start("--cluster-name=k")
    wait_for(lambda: cloud.calls("GET", "/1.0/load_balancers", since=mark), what="a look at the balancers")
    holds_for(lambda: cloud.calls(since=mark) <= 10, QUIET_S, "few requests", poll=0.1)
    mark = cloud.mark()
    servers += [one["id"] for one in fleet(1)]
    wait_for(lambda: [assert_whole(cloud, f"{name}.default.k", servers) for name in names], what="the new server everywhere")
    assert cloud.calls(since=mark) <= 120, cloud.tally(since=mark)
    assert not cloud.calls("GET", "/1.0/load_balancers/{id}", since=mark)  # the lists show that all is done
    mark = cloud.mark()
    for name in names:
        services.delete(name)
    for name in names:
        services.wait_gone(name)
    assert_nothing(cloud)
    assert cloud.calls(since=mark) <= 300, cloud.tally(since=mark)
    assert not [one for one in cloud.requests() if one.status >= 400]
    assert not any(services.events(name, "SyncLoadBalancerFailed") for name in names)
