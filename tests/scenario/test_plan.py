"""ccmd plan: what it prints is what the controller then does, and it changes nothing itself.

In most tests a controller has settled everything and was stopped. One thing changes, and lib/foretold.py compares the plan
with what the next controller does.
"""
import ipaddress
import re
import types

import pytest

from lib import official
from lib.api import NODES
from lib.ccmd import machine, run_ccmd
from lib.faultproxy import answer
from lib.foretold import Foretold
from lib.nodes import SHUTDOWN, addresses, network_condition, taint_keys
from lib.operator import flags_of, plan
from lib.services import ALL_SERVICES, finalizers, ingress
from sim import faults

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

PREFIX = "load-balancer.hetzner.cloud/"
CIDR = dict(cluster_cidr="10.244.0.0/16")


# --- the state of all that the controllers change, in the words of plans -----------------------------------------------------


def node_facts(node):
    found = [(f"label {key}", value) for key, value in node["metadata"]["labels"].items()]
    found += [(f"taint {one['key']}", ":".join(filter(None, (one.get("value"), one["effect"]))))
              for one in node["spec"].get("taints", [])]
    found += [(f"address {kind}", address) for kind, address in addresses(node)]
    if "providerID" in node["spec"]:
        found.append(("provider ID", node["spec"]["providerID"]))
    if network_condition(node):
        status, reason = network_condition(node)
        found.append(("condition NetworkUnavailable", f"{status} ({reason})"))
    return found


def service_facts(service):
    return [*(("finalizer", one) for one in finalizers(service)),
            *(("status ingress", one.get("ip") or one["hostname"]) for one in ingress(service))]


def cluster_facts(api):
    found = {f"node {one['metadata']['name']}": node_facts(one) for one in api.list(NODES)}
    for one in api.list(ALL_SERVICES):
        found[f"service {one['metadata']['namespace']}/{one['metadata']['name']}"] = service_facts(one)
    return found


def members(value, prefix=""):
    """[("health_check.port", "80"), …], as text."""
    for key, one in value.items():
        if isinstance(one, dict):
            yield from members(one, f"{prefix}{key}.")
        else:
            yield prefix + key, str(one).lower() if isinstance(one, bool) else str(one)


# --- Hetzner -----------------------------------------------------------------------------------------------------------------


def balancer_facts(lb):
    found = [("algorithm", lb["algorithm"]["type"]), ("type", lb["load_balancer_type"]["name"]),
             ("location", lb["location"]["name"])]
    found += [(f"label {key}", value) for key, value in lb["labels"].items()]
    found += [("target", f"server {one['server']['id']}") for one in lb["targets"]]
    found += [(f"network {one['network']}", one["ip"]) for one in lb["private_net"]]
    for service in lb["services"]:
        found += [(f"service {service['listen_port']} {name}", value) for name, value in members(service)]
    return found


def set_pod_cidr(api, number):
    cidr = f"10.244.{number}.0/24"
    api.patch(f"{NODES}/n{number}", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})


def new_node(api, cloud, network, kubelet, number):
    server = cloud.add_server(f"n{number}", networks=[network])
    kubelet(server.name, ip=server.private_ip(network.id))
    set_pod_cidr(api, number)


@pytest.fixture
def network(cloud):
    return cloud.add_network("net")


@pytest.fixture
def foretold(api, cluster, cloud, network, services, hetzner, kubelet, proxy):
    """A cluster at Hetzner of n1 and n2, with routes."""
    env = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
           "HCLOUD_LOAD_BALANCERS_ENABLED": "true"}
    for number in (1, 2):
        new_node(api, cloud, network, kubelet, number)
    kubeconfig = cluster.kubeconfig("through-proxy", url=proxy.url)
    flags = flags_of(kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", **CIDR)
    environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false", **env}

    def facts():
        state = cloud.state()
        found = cluster_facts(api)
        found |= {f"load balancer {one['name']}": balancer_facts(one) for one in state["load_balancers"].values()}
        (net,) = state["networks"].values()
        nodes = {one.private_ip(network.id): one.name for one in cloud.servers.values()}
        return found | {f"route {one['destination']}": [("target", nodes.get(one["gateway"], one["gateway"]))]
                        for one in net["routes"]}

    one = Foretold(proxy, cloud, lambda **more: plan(*flags, env=environment, **more), lambda: hetzner(env=env, **CIDR), facts)
    one.flags, one.environment = flags, environment
    return one


def cut_off(cloud, network, destination):
    with cloud.lock:
        network.routes[:] = [one for one in network.routes if destination not in map(str, one)]


def set_algorithm(cloud, algorithm):
    (lb,) = cloud.load_balancers.values()
    lb.algorithm = algorithm


# what changes: (the words by which the plan must name it, the change)
CHANGES = {
    "a new node": ("node n3", lambda t: new_node(t.api, t.cloud, t.network, t.kubelet, 3)),
    "a new Service": ("service default/other", lambda t: t.services.create("other", 81)),
    "another address": ("node n1", lambda t: t.api.patch(f"{NODES}/n1/status", {"status": {"addresses": [
        {"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.1"}]}})),
    "another label": ("node n1", lambda t: t.api.patch(f"{NODES}/n1", {"metadata": {"labels": {
        "topology.kubernetes.io/zone": "elsewhere"}}})),
    "annotated": ("service default/web", lambda t: t.services.patch("web", {"metadata": {"annotations": {
        f"{PREFIX}algorithm-type": "least_connections"}}})),
    "another port": ("service default/web", lambda t: t.services.patch("web", {"spec": {"ports": [
        {"name": "b", "port": 8080, "protocol": "TCP", "targetPort": 80}]}})),
    "deleted": ("service default/web", lambda t: t.services.delete("web")),
    "no balancer any more": ("service default/web", lambda t: t.services.patch("web", {"spec": {"type": "ClusterIP"}})),
    "another algorithm, by hand": ("service default/web", lambda t: set_algorithm(t.cloud, "least_connections")),
    "a route is missing": ("route 10.244.1.0/24", lambda t: cut_off(t.cloud, t.network, "10.244.1.0/24")),
    "a deleted node": ("route 10.244.2.0/24", lambda t: t.api.delete(f"{NODES}/n2")),
}
SLOW = {"another label", "no balancer any more", "annotated", "another port", "deleted"}


@pytest.fixture
def everything(api, cloud, network, services, kubelet):
    return types.SimpleNamespace(api=api, cloud=cloud, network=network, services=services, kubelet=kubelet)


@pytest.mark.parametrize("change", [pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in CHANGES])
def test_one_change_at_hetzner(foretold, services, everything, change):
    services.create("web", 80, annotations={f"{PREFIX}algorithm-type": "round_robin"})
    foretold.settle()
    named, make = CHANGES[change]
    make(everything)
    found = foretold.check()
    assert found.exit_code == 1 and named in found.objects, found.content
    assert foretold.plan().exit_code == 0


def test_a_resized_machine_changes_nothing(foretold, cloud):
    """The label of the type is written only when a node is initialised."""
    foretold.settle()
    cloud.server("n1").server_type = cloud.server_types[1]
    assert foretold.check().exit_code == 0


def test_what_the_official_controller_left_behind(foretold, services, cloud, network):
    servers = [cloud.server(name) for name in ("n1", "n2")]
    foretold.settle()  # the nodes and routes, as they are after the official controller, too
    official.leave_balancers(services, cloud, network, servers)
    found = foretold.check()
    assert found.exit_code == 0, found.content


def test_removals_of_routes_that_are_held(foretold, api, cloud, network):
    """A controller that starts now holds them, too: neither sends a request to remove one."""
    foretold.settle()
    with cloud.lock:
        gateway = network.routes[0][1]
        network.routes += [(ipaddress.ip_network(f"10.244.{number}.0/24"), gateway) for number in range(50, 60)]
    found = foretold.plan(scope="routes")
    held = {name: one["later"] for name, one in found.objects.items()}
    assert held.keys() == {f"route 10.244.{number}.0/24" for number in range(50, 60)}, found.content
    later = held["route 10.244.50.0/24"]
    assert (later["action"], later["verdict"], later["condition"]) == ("delete", "too_many", "it still leads to no node")
    assert later["notBefore"] and found.exit_code == 1 and found.requests() == ([], [])
    for name in ("n1", "n2"):
        api.delete(f"{NODES}/{name}")
    found = foretold.plan(scope="routes")
    later = found.objects["route 10.244.1.0/24"]["later"]
    assert (later["verdict"], later["notBefore"]) == ("no_nodes", "") and "no nodes at all" in later["condition"]
    assert found.exit_code == 1 and found.requests() == ([], [])


def test_the_first_argument_limits_what_is_computed(foretold, services, cloud):
    services.create("web", 80)
    kinds = lambda found: {one["kind"] for one in found.content["objects"]}
    mark = cloud.mark()
    assert kinds(foretold.plan(scope="nodes")) == {"node"}
    assert not cloud.calls("GET", "/load_balancers", since=mark) and not cloud.calls("GET", "/networks/{id}", since=mark)
    assert kinds(foretold.plan(scope="services")) == {"service"}
    mark = cloud.mark()
    assert kinds(foretold.plan(scope="routes")) == {"route"}, "the condition of a new node follows its initialisation"
    assert not cloud.calls("GET", "/load_balancers", since=mark)
    assert kinds(foretold.plan()) == {"node", "service", "route"}
    done = run_ccmd("plan", "pods", *foretold.flags)
    assert done.returncode == 2 and "usage: ccmd plan [nodes|services|routes|all]" in done.stderr


def test_the_api_server_fails_at_any_request(foretold, services, proxy):
    services.create("web", 80)
    foretold.settle()
    mark = proxy.mark()
    foretold.plan()
    for path in sorted({one.path for one in proxy.requests(since=mark)}):
        rule = proxy.on(None, f"^{path}$", answer(500), times=99)
        found = foretold.plan()
        proxy.clear()
        assert rule.hits and found.exit_code == 2 and found.errors, f"{path}: {found.content}"


def test_the_cloud_fails_at_any_request(foretold, services, cloud):
    services.create("web", 80)
    foretold.settle()
    services.patch("web", {"metadata": {"annotations": {f"{PREFIX}algorithm-type": "least_connections"}}})
    mark = cloud.mark()
    foretold.plan()
    for row in cloud.tally(since=mark):
        method, path = row.split()
        fault = cloud.fault(method, path, faults.error("server_error"), times=None)
        found = foretold.plan()
        cloud.clear_faults()
        assert fault.hits and found.exit_code == 2 and found.errors, f"{row}: {found.content}"


# --- machines in a file ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(inventory, kubelet):
    """Initialised nodes n1 and n2; n2 is not ready."""
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    for name, ready in (("n1", "True"), ("n2", "Unknown")):
        kubelet(name, ip=f"10.0.0.{name[1]}", initialized=True, provider_id=f"cloudlycke://m-{name}", ready=ready)
    return inventory


def test_a_deletion_that_has_to_wait(api, cluster, lab, ccmd):
    flags = flags_of(cluster.ccmd_kubeconfig, lab)
    assert plan(*flags).exit_code == 0
    lab.remove("n2")
    found = plan(*flags)
    assert found.exit_code == 1 and found.requests() == ([], []), found.content
    assert found.objects.keys() == {"node n2"}
    later = found.objects["node n2"]["later"]
    assert (later["action"], later["verdict"]) == ("delete", "unconfirmed") and later["notBefore"]
    done = run_ccmd("plan", *flags)
    assert re.fullmatch(r"- node n2: not before \d\d:\d\d:\d\d UTC \(in .*s\), if its machine is absent at the next check, too "
                        r"\(unconfirmed\)\n(  .* are left out: .*\n)*\n1 deletion has to wait\.\n", done.stdout), done.stdout
    assert done.stderr == ""


def test_a_deletion_without_a_witness(cluster, lab):
    lab.remove("n1", "n2")
    found = plan(*flags_of(cluster.ccmd_kubeconfig, lab))
    later = found.objects["node n2"]["later"]
    assert (later["verdict"], later["notBefore"]) == ("no_witness", "") and "wrong token" in later["condition"]


def test_a_deletion_at_once(api, cluster, lab, ccmd):
    """As without the guard."""
    lab.remove("n2")
    found = plan(*flags_of(cluster.ccmd_kubeconfig, lab, "--node-delete-guard=false"))
    assert found.requests() == (["DELETE /api/v1/nodes/n2"], []) and "later" not in found.objects["node n2"]
    ccmd("--node-delete-guard=false")
    api.wait_gone("n2")


def test_a_machine_that_is_off(api, cluster, lab, ccmd):
    lab.power("n2", "off")
    found = plan(*flags_of(cluster.ccmd_kubeconfig, lab))
    assert found.differences() == {"node n2": {"action": "change", "old": [], "new": [(f"taint {SHUTDOWN}", "NoSchedule")]}}
    ccmd()
    api.wait_node("n2", lambda node: SHUTDOWN in taint_keys(node))


def test_a_node_without_a_machine(cluster, lab, kubelet):
    kubelet("n3")
    found = plan(*flags_of(cluster.ccmd_kubeconfig, lab))
    assert found.exit_code == 0 and not found.errors and found.requests() == ([], []), found.content
    assert "no machine" in found.objects["node n3"]["staysBecause"]
    text = run_ccmd("plan", *flags_of(cluster.ccmd_kubeconfig, lab)).stdout
    assert "! node n3: stays as it is: " in text and "1 stays as it is until somebody corrects something." in text


def test_what_the_cloud_would_refuse(foretold, api, services, cloud, network, kubelet):
    """No route is planned for any node, and no target for n2: n2 is detached from the network, the server of n3 is gone, n4 is a
    dedicated server, no server has the name of n5, and the pod CIDR of n1 overlaps with a subnet."""
    services.create("web", 80, annotations={f"{PREFIX}use-private-ip": "true"})
    foretold.settle()
    with cloud.lock:
        cloud.server("n2").private_net.clear()
        network.subnets.append((ipaddress.ip_network("10.244.1.0/24"), "cloud", "eu-central", None))
    for number, provider_id in (3, "hcloud://987654"), (4, "hrobot://321"), (5, None):
        kubelet(f"n{number}", ip=f"10.0.0.{number}9", initialized=True, provider_id=provider_id, ready="Unknown")
        set_pod_cidr(api, number)
    for number in (1, 2):
        cut_off(cloud, network, f"10.244.{number}.0/24")
    found = foretold.plan()
    assert not found.errors, found.content
    for number, why in enumerate(("overlaps with the subnet 10.244.1.0/24", "not attached", "no server of its provider ID",
                                  "n4 is not a cloud server", "no server of its name"), 1):
        assert why in found.objects[f"route 10.244.{number}.0/24"]["staysBecause"], found.content
    assert not any("add_route" in one or one == "create route" for one in found.requests()[1]), found.content
    for name in ("n1", "n2", "n3", "n4", "n5"):
        assert found.differences()[f"node {name}"]["new"] == [("condition NetworkUnavailable", "True (NoRouteCreated)")]
    services.create("new", 81, annotations={f"{PREFIX}use-private-ip": "true"})
    found = foretold.plan()
    assert re.search("does not exist|is not attached", found.objects["service default/new"]["staysBecause"]), found.content
    assert "target node n2" not in str(found.differences())


def test_more_ports_than_the_type_has_services(foretold, services):
    """The ports are named for a new load balancer and for an existing one."""
    foretold.settle()
    services.create("web", *range(80, 86))
    for found in foretold.check(), foretold.plan():
        assert "at most 5 services: these ports are not served: 85" in found.objects["service default/web"]["staysBecause"]
    assert found.exit_code == 0 and found.requests() == ([], [])


def test_targets_of_a_balancer_without_public_interface(foretold, services):
    services.create("web", 80, annotations={f"{PREFIX}disable-public-network": "true", f"{PREFIX}use-private-ip": "false"})
    found = foretold.plan()
    assert "set the annotation load-balancer.hetzner.cloud/use-private-ip" in found.objects["service default/web"]["staysBecause"]
    assert "target node" not in str(found.differences()), found.content


def test_no_api_server(lab):
    found = plan("--master=http://127.0.0.1:1", "--cloud-provider=cloudlycke", f"--cloud-config={lab.path}")
    assert found.exit_code == 2 and set(found.errors) == {"node", "service", "route"}
