"""What ccmd doctor and ccmd explain say about the faults of tests/scenario/faults.md, each provoked in a healthy cluster.

The words that are asked for come from the last column of the page, not from what the program happens to print. A verdict that is
worse than the one on the page fails; a better one asks for a change of the page. CCMD_FAULTS=FILE appends what was printed to
that file, as lines of JSON.
"""
import ipaddress
import json
import os
import time
import warnings

import pytest

from lib.api import NODES
from lib.ccmd import FAST
from lib.faultproxy import FaultProxy, delay
from lib.faults import VERDICTS, Fault, World, recorded
from lib.nodes import is_initialized
from lib.replicas import LEASE
from lib.services import FINALIZER, path
from lib.wait import wait_for
from sim import faults as cloud_faults
from sim.catalog import LOCATIONS, find
from sim.certificates import Certificate

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

GONE = r"load-balancer-is-gone=true"
DELETE_NODE = r"kubectl delete node"
LEFT_ALONE = r"(never|not|neither|nothing is)( be)?( changed?s?,? n?or)? delete[sd]?\b|leaves? [^.;]*\balone|\bignores"
CIDR = "10.244.0.0/16"
POD_CIDRS = "10.244.{}.0/24"
FAULTS = []


def fault(number, *says, explain=None, wrong=(DELETE_NODE, GONE), check=None):
    def add(provoke):
        FAULTS.append(Fault(number, provoke, says, wrong, explain, check))
        return provoke

    return add


# --- nodes ---------------------------------------------------------------------------------------------------------------


@fault(1, r"worker-4\.example\.com.*\b(server|machine)\b.*\bworker-4\b(?![\w.-])", r"renam|hostname-override",
       explain="node worker-4.example.com")
def the_node_has_a_domain(world):
    world.be_healthy()
    world.register("worker-4.example.com", world.add_server("worker-4"))


@fault(2, r"\bnode\b.*worker-4.*\bformer\b|\bnode\b.*\bformer\b.*worker-4",
       r"(?=.*worker-4).*delete (the )?node:? former", wrong=(r"delete node worker-4", GONE))
def one_server_with_two_nodes(world):
    server = world.be_healthy().add_server("worker-4")
    world.register("former", server, initialized=True, provider_id=f"hcloud://{server.id}", ready="Unknown")
    world.register("worker-4", server, provider_id=f"hcloud://{server.id}")


@fault(3, r"worker-4-example.*\b(server|machine)\b.*worker-4\.example", r"renam|hostname-override", explain="node worker-4-example")
def dots_instead_of_dashes(world):
    world.be_healthy()
    world.register("worker-4-example", world.add_server("worker-4.example"), ip="10.0.0.4")


@fault(4, r"node worker-4\b.*--cloud-provider=external", explain="node worker-4")
def a_kubelet_without_the_flag(world):
    world.be_healthy()
    world.register("worker-4", world.add_server("worker-4"), initialized=True)


@fault(5, r"worker-4.*k3s", r"--disable-cloud-controller", explain="node worker-4", wrong=(GONE,))
def a_provider_id_of_k3s(world):
    world.be_healthy()
    world.register("worker-4", world.add_server("worker-4"), initialized=True, provider_id="k3s://worker-4")


@fault(6, r"talos('s)?[- ]cloud[- ]controller|cloud controller( manager)? of Talos",
       LEFT_ALONE, explain="node worker-4", wrong=(GONE,))
def a_provider_id_of_talos(world):
    world.be_healthy()
    world.register("worker-4", world.add_server("worker-4"), initialized=True, provider_id="talos://hcloud/10.0.0.78")


@fault(7, r"worker-4.*(scheme|something else|another (program|controller|component)|other than ccmd|no provider ID of)",
       r"delete (it|the node|node|its node)\b.*(regist|start|kubelet)", explain="node worker-4", wrong=(GONE,))
def a_provider_id_without_a_scheme(world):
    server = world.be_healthy().add_server("worker-4")
    world.register("worker-4", server, initialized=True, provider_id=str(server.id))


@fault(8, r"node\.cluster\.x-k8s\.io/uninitialized", r"Cluster API", explain="node worker-4")
def a_taint_of_cluster_api(world):
    world.be_healthy()
    taint = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
    world.add_node("worker-4", taints=[taint])
    world.api.wait_node("worker-4", is_initialized)


@fault(9, r"\b(wrong|another|other|different) project|project.*is (wrong|not the one)",
       wrong=(DELETE_NODE, GONE, r"machine (is gone|was deleted)", r"load balancer (is gone|was deleted)"))
def the_token_of_another_project(world):
    """That project has servers of the same names."""
    token = world.with_token_file()
    world.be_healthy()
    world.serve()
    project, other = world.cloud.add_project()
    for number in (1, 2, 3):
        project.add_server(f"worker-{number}")
    token.write_text(other)


@fault(10, r"10\.99\.0\.4", r"worker-4.*<ip>", explain="node worker-4")
def a_node_ip_of_wireguard(world):
    server = world.be_healthy().add_server("worker-4")
    world.register("worker-4", server, ip="10.99.0.4", provided_node_ip="10.99.0.4")
    return {"ip": server.ipv4}


@fault(11, r"bm1\b.*10\.1\.0\.5", r"ROBOT_FORWARD_INTERNAL_IPS", explain="node bm1")
def a_node_ip_in_a_vswitch(world):
    world.with_robot().add_server(321, "bm1", ip="203.0.113.9")
    world.env["ROBOT_FORWARD_INTERNAL_IPS"] = "false"
    world.be_healthy()
    world.register("bm1", ip="10.1.0.5", provided_node_ip="10.1.0.5")


@fault(12, r"bm1\b.*(Robot|dedicated)", r"ROBOT_ENABLED", explain="node bm1")
def robot_is_switched_off(world):
    world.be_healthy()
    world.register("bm1", ip="203.0.113.9")


@fault(13, r"bm1\b.*\brack-7\b", r"renam|hostname-override", explain="node bm1")
def another_name_in_robot(world):
    world.with_robot().add_server(321, "rack-7", ip="203.0.113.9")
    world.be_healthy()
    world.register("bm1", ip="203.0.113.9")


@fault(14, r"not start|cannot (be used|start)|exits", r"ROBOT_ENABLED",
       r"HCLOUD_NETWORK_ROUTES_ENABLED|--configure-cloud-routes=false")
def robot_together_with_routes(world):
    world.with_robot()
    world.in_network(cidr=CIDR).add_nodes(POD_CIDRS)


@fault(15, r"ROBOT_PASSWORD")
def robot_without_a_password(world):
    world.with_robot()
    del world.env["ROBOT_PASSWORD"]
    world.add_nodes()


@fault(16, r"(?=.*worker-3)(?=.*(may not|right|forbidden|cannot|refuse)).*delete", r"rbac\.yaml|grant|may not delete nodes",
       explain="node worker-3", wrong=(GONE,))
def the_right_to_delete_nodes(world):
    world.be_healthy(**FAST)
    world.take_right("delete", "nodes", "clusterroles/system:ccmd")
    world.cloud.delete_server("worker-3")
    world.kubelets["worker-3"].silent()
    world.api.wait_event("worker-3", "DeletingNodeFailed")


@fault(17, r"on-premises-1.*another cloud|on-premises-1.*(not|no) (a )?(machine|node|server) of (this|ccmd)",
       LEFT_ALONE, explain="node on-premises-1", wrong=(r"(?<!if its machine is gone: )kubectl delete node", GONE))
def a_machine_of_no_cloud_is_silent(world):
    world.be_healthy(**FAST)
    world.register("on-premises-1", ip="192.168.3.4", initialized=True, provider_id="metal://rack-4/1", ready="Unknown")
    world.api.wait_event("on-premises-1", "ForeignProviderID")


@fault(18, r"worker-4.*(waits|next attempt|tries again|looks again)",
       r"\b(in|for|after|within|every) (up to |about |at most )?\d+ ?(s\b|seconds|min)", explain="node worker-4")
def a_server_that_is_not_listed_yet(world):
    def leave_out(body):
        if "servers" in body:
            body["servers"] = [one for one in body["servers"] if one["name"] != "worker-4"]

    world.kubeconfig = world.get("operator")  # to whom the node is new
    world.be_healthy()
    world.cloud.fault("GET", "/servers", cloud_faults.rewrite(leave_out), times=None)
    world.add_node("worker-4")
    wait_for(lambda: world.explain("node", "worker-4").says("next attempt"), what="a pause between two attempts")


def the_commands_work(world, doctor):
    for command in doctor.commands():
        world.cluster.kubectl(*command.split()[1:])
    wait_for(lambda: world.doctor().exit_code == 0, what="nothing to be wrong")
    return True


@fault(19, r"worker-3.*zone.*hel1|worker-3.*hel1.*zone", r"run: kubectl label node worker-3", explain="node worker-3",
       check=the_commands_work)
def a_server_in_another_zone(world):
    world.be_healthy()
    world.cloud.server("worker-3").location = find(LOCATIONS, "hel1")


@fault(20, r"worker-4.*<ip>", r"HCLOUD_INSTANCES_ADDRESS_FAMILY", explain="node worker-4")
def an_ipv6_address_first(world):
    server = world.be_healthy().add_server("worker-4")
    ip = str(ipaddress.ip_network(server.ipv6)[1])
    world.register("worker-4", ip=ip, provided_node_ip=ip)
    return {"ip": ip}


@fault(21, r"worker-3.*<id>", r"delete (the )?node|kubectl delete node worker-3", explain="node worker-3", wrong=(GONE,))
def a_server_that_was_created_again(world):
    world.be_healthy()
    world.cloud.delete_server("worker-3")
    return {"id": world.add_server("worker-3").id}


@fault(22, r"tolerat", r"node\.cloudprovider\.kubernetes\.io/uninitialized")
def a_pod_without_the_toleration(world):
    def intolerant(spec):
        spec["tolerations"] = [one for one in spec["tolerations"] if "uninitialized" not in one["key"]]

    world.add_nodes()
    world.deploy_ccmd(intolerant, {"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 node(s) had untolerated taint "
                   "{node.cloudprovider.kubernetes.io/uninitialized: true}."}]})


# --- Services ------------------------------------------------------------------------------------------------------------


def refuse(world, *ports, reason="SyncLoadBalancerFailed", **annotations):
    """The Service web, whose annotations are refused."""
    world.create("web", *ports, annotations={key.replace("_", "-"): value for key, value in annotations.items()})
    world.services.wait_event("web", reason)


@fault(23, r"default/web.*HCLOUD_NETWORK", explain="service default/web")
def private_addresses_without_a_network(world):
    refuse(world.be_healthy(), use_private_ip="true")


@fault(24, r"network.*(is gone|deleted|no network|not found|does not exist)|no network",
       r"default/web.*(network|private)|(network|private).*default/web")
def the_network_is_gone(world):
    world.in_network().be_healthy()
    world.serve(annotations={"use-private-ip": "true"})
    with world.cloud.lock:
        world.network.delete()


@fault(25, r"default/web.*location",
       r"no effect|only (when|for a new)|existing load balancer|new load balancer|cannot be (moved|changed)|stays in|is created",
       explain="service default/web")
def another_location_later(world):
    world.be_healthy()
    world.serve(annotations={"location": "fsn1"})
    world.services.patch("web", {"metadata": {"annotations": {"load-balancer.hetzner.cloud/location": "hel1"}}})


@fault(26, r"default/web.*location",
       r"load-balancer\.hetzner\.cloud/(location|network-zone)|HCLOUD_LOAD_BALANCERS_(LOCATION|NETWORK_ZONE)",
       explain="service default/web")
def neither_location_nor_zone(world):
    del world.env["HCLOUD_LOAD_BALANCERS_LOCATION"]
    refuse(world.be_healthy())


@fault(27, r"worker-1.*(unexpected_http_status|HTTP status)", r"uses-proxyprotocol", explain="service default/web")
def pods_without_the_proxy_protocol(world):
    world.be_healthy()
    lb = world.serve(annotations={"uses-proxyprotocol": "true", "health-check-protocol": "http"})
    world.fail_targets(lb, "unexpected_http_status", status=400)


LOCAL = {"externalTrafficPolicy": "Local"}


@fault(28, r"externalTrafficPolicy(: |=| is | )?Local",
       r"\b(1|one|2|two) of (the )?(3|three)\b|unhealthy: 2",
       r"on purpose|intended|expected|by design|as it should|only nodes with", explain="service default/web")
def local_with_pods_on_one_node(world):
    lb = world.be_healthy().serve(on=["worker-1"], **LOCAL)
    world.fail_targets(lb, "layer4_timeout", "worker-2", "worker-3")


EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


@fault(29, r"default/web.*externalTrafficPolicy(: |=| is | )?Local",
       r"\b(no|none of|not on a|without a)\b[^.;]*\b(target|pod|node)", explain="service default/web")
def local_without_a_pod_on_a_target(world):
    world.be_healthy()
    world.kubelets["worker-3"].set_labels(**{EXCLUDED: ""})
    lb = world.serve(on=["worker-3"], **LOCAL)
    world.fail_targets(lb, "layer4_timeout")


@fault(30, r"default/web.*\b(no|0|without|without any) (ready )?(endpoint|pod)", explain="service default/web")
def a_selector_that_matches_no_pod(world):
    lb = world.be_healthy().serve(on=[])
    world.fail_targets(lb, "layer4_no_connection")


@fault(31, r"default/web.*exclude-from-external-load-balancers|exclude-from-external-load-balancers.*default/web",
       r"\b(3|three|all|every)\b.{0,80}exclude-from|exclude-from.{0,80}\b(3|three|all|every)\b",
       explain="service default/web")
def every_node_is_excluded(world):
    lb = world.be_healthy().serve()
    for one in world.kubelets.values():
        one.set_labels(**{EXCLUDED: ""})
    wait_for(lambda: not lb.targets, what="the targets to be removed")


@fault(32, r"default/web.*UDP.*(not|no |left out|only)|default/web.*(not|no |left out|only).*UDP", explain="service default/web")
def tcp_and_udp(world):
    world.be_healthy().serve("web", (53, "TCP"), (53, "UDP"))


@fault(33, r"default/web.*(loadBalancerSourceRanges|source ranges)",
       r"\bopen\b|every(one| address| client)|all addresses|anyone|the whole internet|any address", explain="service default/web")
def source_ranges(world):
    world.be_healthy().serve(loadBalancerSourceRanges=["192.0.2.0/24"])


def ingress_of(ip):
    return {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}}


ANOTHER_WRITER = r"default/web.*(another (controller|program)|other (controller|program)|also writ)"


@fault(34, rf"{ANOTHER_WRITER}|default/web.*MetalLB", explain="service default/web")
def metallb_serves_it_too(world):
    world.be_healthy().serve()
    world.deploy("Deployment", "controller", "quay.io/metallb/controller:v0.15.2", "metallb-system")
    world.deploy("DaemonSet", "speaker", "quay.io/metallb/speaker:v0.15.2", "metallb-system")
    annotations = {"metallb.io/ip-allocated-from-pool": "first-pool"}
    world.api.patch(path("web"), {"metadata": {"annotations": annotations}}, fieldManager="controller")
    world.fight("web", "controller", ingress_of("192.168.7.10"))


@fault(35, rf"{ANOTHER_WRITER}|default/web.*Cilium", explain="service default/web")
def cilium_serves_it_too(world):
    world.be_healthy().serve()
    world.deploy("Deployment", "cilium-operator", "quay.io/cilium/operator-generic:v1.18.2")
    condition = {"type": "cilium.io/IPAMRequestSatisfied", "status": "True", "reason": "satisfied", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}
    world.fight("web", "cilium-operator-generic", {**ingress_of("192.168.7.10"), "conditions": [condition]})


@fault(36, r"svclb-web", r"--disable=servicelb|disable: *\[?servicelb", explain="service default/web")
def the_service_load_balancer_of_k3s(world):
    world.be_healthy().serve()
    labels = {"svccontroller.k3s.cattle.io/svcname": "web", "svccontroller.k3s.cattle.io/svcnamespace": "default"}
    world.deploy("DaemonSet", "svclb-web-1f0e2d3c", "rancher/klipper-lb:v0.4.13", labels=labels)
    world.fight("web", "k3s", ingress_of("192.168.7.11"))


@fault(37, r"default/web.*finalizer", r"--controllers|service(-lb)?[- ]controller", explain="service default/web")
def deleted_without_a_service_controller(world):
    world.be_healthy().serve()
    world.restart("--controllers=*,-service-lb-controller")
    world.services.delete("web")


@fault(38, r"default/web.*finalizer", r"example\.com/gone",
       r"(not|never|nobody|no controller)[^.;]*remove|remove[^.;]*(by hand|yourself)|another controller|other controller",
       explain="service default/web", wrong=(r"waits for the removal of its load balancer", GONE))
def a_finalizer_of_an_uninstalled_controller(world):
    world.be_healthy()
    world.create(loadBalancerClass="example.com/gone")
    world.services.patch("web", {"metadata": {"finalizers": [FINALIZER]}})
    world.services.delete("web")


@fault(39, r"protect", r"(remove|disable|switch off|lift|without)[^.;]*protection|protection[^.;]*(remove|disable|off)")
def a_protected_load_balancer(world):
    lb = world.be_healthy().serve()
    lb.protection["delete"] = True
    world.services.delete("web")
    world.services.wait_event("web", "LoadBalancerProtected")


@fault(40, r"<name>", r"<name>.*5\.39", r"<name>.*(no Service|Service.*(does not exist|deleted|gone)|left over)|left over.*<name>")
def a_load_balancer_without_a_service(world):
    lb = world.be_healthy().serve()
    world.stop()
    world.services.patch("web", {"metadata": {"finalizers": None}})
    world.services.delete("web")
    world.restart()
    return {"name": lb.name}


@fault(41, r"default/web.*limit", r"limit.*\b(since|ago|for \d+ ?(s|min))\b|\b(since|ago)\b.*limit",
       explain="service default/web")
def no_further_load_balancers(world):
    refusal = cloud_faults.error("resource_limit_exceeded", "load balancer limit exceeded")
    world.be_healthy().cloud.fault("POST", "/load_balancers", refusal, times=None)
    refuse(world)


@fault(42, r"default/web.*10\.0\.9\.9", r"10\.0\.0\.0/24", explain="service default/web")
def a_private_address_outside_of_the_subnets(world):
    refuse(world.in_network("10.0.0.0/16", "10.0.0.0/24").be_healthy(), private_ipv4="10.0.9.9")


@fault(43, r"default/web.*10\.0\.7\.0/24", r"10\.0\.0\.0/24", explain="service default/web")
def a_subnet_that_does_not_exist(world):
    refuse(world.in_network("10.0.0.0/16", "10.0.0.0/24").be_healthy(), private_subnet_ip_range="10.0.7.0/24")


@fault(44, r"default/web.*shop-exmaple-com", r"\bshop-example-com\b", explain="service default/web")
def a_certificate_that_does_not_exist(world):
    project = world.be_healthy().cloud.project
    for name in ("shop-example-com", "blog"):
        one = Certificate(project, name, "uploaded", ["shop.example.com"])
        project.certificates[one.id] = one
    refuse(world, 443, protocol="https", http_certificates="shop-exmaple-com")


@fault(45, r"default/web.*must be a fully qualified domain name", explain="service default/web")
def a_reverse_dns_entry_that_is_refused(world):
    refusal = cloud_faults.error("invalid_input", "dns_ptr must be a fully qualified domain name")
    world.be_healthy().cloud.fault("POST", "/load_balancers/{id}/actions/change_dns_ptr", refusal, times=None)
    refuse(world, ipv4_rdns="shop_1")


@fault(46, r"default/web.*8443",
       r"(remove|undo)[^.;]*(within|hour|\d+ ?(s|min)\b)|(within|hour|in \d+ ?(s|min)\b)[^.;]*(remove|undo)",
       explain="service default/web")
def a_service_that_was_added_in_the_console(world):
    lb = world.be_healthy().serve()
    with world.cloud.lock:
        lb.services.append(lb.new_service({"protocol": "tcp", "listen_port": 8443, "destination_port": 30443}, lb.services))


# --- routes --------------------------------------------------------------------------------------------------------------


@fault(47, r"10\.244\.0\.0/16.*10\.244\.128\.0/24|10\.244\.128\.0/24.*10\.244\.0\.0/16")
def a_cluster_cidr_that_overlaps_with_a_subnet(world):
    world.in_network(cidr=CIDR, extra="10.244.128.0/24").lead(pod_cidrs=POD_CIDRS)


@fault(48, r"10\.244\.10[1-5]\.0/24.*(other-\d|server \d+)|(other-\d|server \d+).*10\.244\.10[1-5]\.0/24",
       r"(no|not a|not) nodes?\b|another cluster|other cluster", explain="route 10.244.101.0/24",
       wrong=(r"if it stays, delete it in the cloud",))
def two_clusters_in_one_network(world):
    world.in_network(cidr=CIDR)
    for number in range(1, 6):
        gateway = world.add_server(f"other-{number}").private_ip(world.network.id)
        world.network.routes.append(world.network.new_route({"destination": f"10.244.{100 + number}.0/24", "gateway": gateway}))
    world.lead(pod_cidrs=POD_CIDRS)
    wait_for(lambda: len(world.network.routes) == 8, what="the routes of this cluster")


@fault(49, r"10\.244\.1\.0/24[^.;]*\bsubnet|\bsubnet[^;]*10\.244\.1\.0/24", explain="node worker-1")
def a_pod_cidr_that_is_a_subnet(world):
    world.in_network(cidr=CIDR, extra="10.244.1.0/24").lead(pod_cidrs=POD_CIDRS)
    world.api.wait_event("worker-1", "FailedToCreateRoute")


def routes_are_as_said(world, doctor):
    return bool(world.network.routes) != doctor.says("creates no routes")


@fault(50, r"10\.244\.0\.0/16.*10\.0\.0\.0/16|10\.0\.0\.0/16.*10\.244\.0\.0/16",
       r"no (further |more )?request|not (repeat|sent|send|tried|try)|creates? no|sends? no|(in|after) an hour",
       explain="node worker-1", check=routes_are_as_said)
def a_cluster_cidr_outside_of_the_network(world):
    """The cloud accepts such routes."""
    world.in_network("10.0.0.0/16", "10.0.0.0/24", cidr=CIDR).lead(pod_cidrs=POD_CIDRS)
    wait_for(lambda: world.has_tried_routes(), what="routes, or an event that says why there are none")


@fault(51, r"(no|without( a)?) pod CIDR|pod CIDR.*(missing|none)", r"--allocate-node-cidrs", explain="node worker-1")
def nodes_without_a_pod_cidr(world):
    world.in_network(cidr=CIDR).lead()


@fault(52, r"NetworkUnavailable", r"--configure-cloud-routes=false|HCLOUD_NETWORK_ROUTES_ENABLED=false",
       r"\b(plugin|CNI|person|ccmd)\b[^;]*\b(clear|set|remove)s?\b[^;]*NetworkUnavailable", explain="node worker-1")
def routes_that_the_cni_does_not_need(world):
    """Cilium tunnels, and allocates the pods' addresses by itself."""
    world.in_network(cidr=CIDR).lead()
    world.deploy("DaemonSet", "cilium", "quay.io/cilium/cilium:v1.18.2")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for name in world.kubelets:
        condition = {"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated",
                     "message": "Node created without a route", "lastHeartbeatTime": at, "lastTransitionTime": at}
        conditions = [one for one in world.api.node(name)["status"]["conditions"] if one["type"] != condition["type"]]
        world.api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [*conditions, condition]}})


# --- process and API server ----------------------------------------------------------------------------------------------


@fault(53, r"--route-reconcilation-period", r"--route-reconciliation-period")
def an_unknown_flag(world):
    world.add_nodes()
    world.flags.append("--route-reconcilation-period=10s")

    def misspelt(spec):
        spec["containers"][0]["args"].append(world.flags[-1])

    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
    world.deploy_ccmd(misspelt, {"phase": "Running", "containerStatuses": [{
        "name": "ccmd", "image": "ccmd", "imageID": "", "ready": False, "restartCount": 9, "state": state, "lastState": ended}]})


@fault(54, r"API server[^.;]*(took|takes|needs|slow|latency|respond\w* (after|in|late))[^;]*\d|latency[^;]*API server[^;]*\d")
def a_slow_api_server(world):
    """It answers after 2 s, and the leader gives up renewing its Lease after 1.5 s."""
    leader = world.at_end.enter_context(FaultProxy(world.cluster))
    world.lead(leader_elect_lease_duration="3s", leader_elect_renew_deadline="1500ms", leader_elect_retry_period="300ms",
               kubeconfig=world.cluster.kubeconfig("through-proxy", url=leader.url))
    leader.on(None, "/leases", delay(2), times=None)
    world.leader.process.wait(30)
    world.leader.kill()
    operator = world.at_end.enter_context(FaultProxy(world.cluster, pair=world.cluster.admin_pair))
    operator.on(None, None, delay(2), times=None)
    world.kubeconfig = world.cluster.kubeconfig("slow", url=operator.url)


@fault(55, r"\b401\b", r"\b401\b.*\b(since|ago|for \d+ ?(s|min))\b|\b(since|ago)\b.*\b401\b", r"HCLOUD_TOKEN_FILE|<file>")
def a_revoked_token(world):
    token = world.with_token_file()
    world.be_healthy()
    world.cloud.revoke(world.cloud.token)
    world.add_node("worker-4")
    wait_for(lambda: [one for one in world.api.list("/api/v1/events") if one["reason"] == "HetznerTokenRefused"],
             what="the event about the token")
    return {"file": token}


@fault(56, r"certificate", r"certificate.*(/\S*\b(ssl|certs|pki)\b\S*|SSL_CERT_FILE)")
def an_unknown_authority(world):
    """Another server with TLS, such as the API server, has a certificate of an authority that this machine does not know."""
    world.env["HCLOUD_ENDPOINT"] = f"{world.cluster.url()}/v1"
    world.add_nodes()


@fault(57, r"\b(future|ahead)\b", r"\bclock|\btime of\b", r"<day>|\b(2 d|48 ?h|two days|172\d{3} ?s|2 days)")
def a_lease_of_the_day_after_tomorrow(world):
    """Its holder ended before the clock was corrected."""
    then = time.gmtime(time.time() + 2 * 86400)
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", then)
    world.add_nodes()
    world.api.post(LEASE.rsplit("/", 1)[0], {
        "metadata": {"name": "cloud-controller-manager"},
        "spec": {"holderIdentity": "control-1_6a1f", "leaseDurationSeconds": 15, "acquireTime": at, "renewTime": at}},
        fieldManager="ccmd")
    return {"day": time.strftime("%Y-%m-%dT%H:%M", then)}


@fault(58, r"may not get leases|right to get leases", r"rbac\.yaml|grant")
def a_lease_that_may_not_be_read(world):
    world.take_right("get", "leases", "namespaces/kube-system/roles/system:ccmd:leader")
    world.add_nodes()
    one = world.get("ccmd")(*world.flags, inventory=None, env=world.env, **world.options)
    one.may_be_refused = True
    one.wait_log("forbidden")


@fault(59, r"\b\d+ of 3600\b|3600[^.;]*\b\d+ (are )?left",
       r"full again|(recovered|refilled|full|reset)[^.;]*(in|at|within|after) \S*\d")
def a_rate_limit_that_others_use_up(world):
    world.be_healthy()
    with world.cloud.lock:
        world.cloud.project.tokens_left = 100.0


@fault(60, r"(cloud|Hetzner|API)\b[^;]*(took|takes|needs|slow|latency|respond\w* (after|in|late)|no response in \d)[^;]*\d",
       r"\bwait|\bdelay|\blate\b|take as long")
def a_slow_cloud(world):
    world.be_healthy()
    world.cloud.latency_s = 15
    world.create()


# --- the verdicts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def world(request, api):
    world = World(request.getfixturevalue)
    yield world
    world.cloud.latency_s = 0
    world.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_is_said(world, fault):
    values = fault.provoke(world)
    verdict, printed, missing = fault.judge(world, values)
    if file := os.environ.get("CCMD_FAULTS"):
        with open(file, "a") as out:
            out.write(json.dumps({"number": fault.number, "name": fault.name, "verdict": verdict, "missing": missing,
                                  "printed": [one.text for one in printed]}) + "\n")
    expected = recorded()[fault.number]
    text = "\n".join(one.text for one in printed)
    assert VERDICTS.index(verdict) >= VERDICTS.index(expected), f"{verdict} instead of {expected}: {missing}\n{text}"
    if verdict != expected:
        warnings.warn(f"tests/scenario/faults.md: {fault.number} is {verdict}, not {expected}")


def test_the_page_has_every_fault():
    assert [fault.number for fault in FAULTS] == list(recorded())
