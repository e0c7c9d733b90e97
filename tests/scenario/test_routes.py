"""Routes of the cloudlycke provider: what nodes, hooks and the state file say, and packets that take them."""
import json
import os
import re
import shutil
import subprocess
import textwrap

import pytest

from lib.api import NODES
from lib.ccmd import machine, run_ccmd
from lib.nodes import has_no_route, is_routed, network_condition
from lib.process import REPOSITORY
from lib.wait import holds_for, wait_for

pytestmark = pytest.mark.one_version

FLAGS = dict(cluster_cidr="10.244.0.0/16,fd00:10::/32", route_reconciliation_period="500ms")


@pytest.fixture
def lab(inventory, tmp_path):
    """lab(hook=…, static=…): an inventory of n1 and n2 with routes; .state() is the state file's part."""

    def change(**routes):
        inventory.remove_quietly("n1", "n2")
        inventory.add(machine("n1", "10.0.0.1", id="m-1"), machine("n2", "10.0.0.2", id="m-2"))
        inventory.content["state"] = {"file": str(tmp_path / "state.json")}
        inventory.content["routes"] = routes
        return inventory.write()

    def state():
        path = tmp_path / "state.json"
        return json.loads(path.read_text())["routes"].get("kubernetes", []) if path.exists() else []

    change()
    change.state = state
    return change


@pytest.fixture
def node(api, kubelet):
    """node(name, cidr, …): one that is initialised and has these pod CIDRs."""

    def register(name, *cidrs):
        kubelet(name, initialized=True, provider_id=f"cloudlycke://m-{name[1:]}")
        if cidrs:
            api.patch(f"{NODES}/{name}", {"spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}})

    return register


def has_routes(lab, *wanted):
    """wanted: (node, cidr), …"""
    wait_for(lambda: sorted((one["targetNode"], one["destinationCIDR"]) for one in lab.state()) == sorted(wanted),
             what=f"the routes {wanted}", seen=lambda: lab.state())


def test_the_life_of_a_route(api, lab, node, ccmd):
    node("n1", "10.244.1.0/24", "fd00:10:1::/64")
    node("n2")
    ccmd(**FLAGS)
    told = api.wait_node("n1", is_routed)
    assert [one["message"] for one in told["status"]["conditions"] if one["type"] == "NetworkUnavailable"] == \
        ["RouteController created a route"]
    has_routes(lab, ("n1", "10.244.1.0/24"), ("n1", "fd00:10:1::/64"))
    assert lab.state()[0]["name"] == f"kubernetes-{told['metadata']['uid']}"
    api.patch(f"{NODES}/n2", {"spec": {"podCIDR": "10.244.2.0/24", "podCIDRs": ["10.244.2.0/24"]}})
    api.wait_node("n2", is_routed)
    api.delete(f"{NODES}/n1")
    has_routes(lab, ("n2", "10.244.2.0/24"))


def test_nodes_without_pod_cidrs_are_left_alone(api, lab, node, ccmd, settled):
    node("n1")
    ccmd(**FLAGS)
    settled()
    holds_for(lambda: network_condition(api.node("n1")) is None, 1.5, "no condition")


def test_nothing_is_written_at_rest_and_after_a_restart(api, lab, node, ccmd):
    node("n1", "10.244.1.0/24")
    one = ccmd(**FLAGS)
    before = api.wait_node("n1", is_routed)["metadata"]["resourceVersion"]
    holds_for(lambda: api.node("n1")["metadata"]["resourceVersion"] == before, 1.5, "no write")
    one.stop()
    other = ccmd(**FLAGS)
    other.wait_log("route_controller|ccmd")
    holds_for(lambda: api.node("n1")["metadata"]["resourceVersion"] == before, 1.5, "no write")
    assert "route created" not in other.text


def test_a_hook_that_fails_is_seen_and_tried_again(api, lab, node, ccmd, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >>{tmp_path}/told\ntest -e {tmp_path}/well || {{ echo no carrier >&2; exit 3; }}\n")
    hook.chmod(0o755)
    lab(hook=str(hook))
    node("n1", "10.244.1.0/24")
    ccmd(**FLAGS)
    event = api.wait_event("n1", "FailedToCreateRoute")
    assert "10.244.1.0/24 for node n1" in event["message"]
    assert event["message"].endswith("route hook failed: no carrier")
    assert event["source"]["component"] == "route_controller"
    api.wait_node("n1", has_no_route)
    wait_for(lambda: lab.state() == [], what="no route between two attempts")
    (tmp_path / "well").touch()
    api.wait_node("n1", is_routed)
    assert json.loads((tmp_path / "told").read_text().splitlines()[-1])["addresses"] == ["10.0.0.1"]


def test_static_routes_stay_and_a_taken_network_is_reported(api, lab, node, ccmd):
    lab(static=[{"name": "core", "targetNode": "n2", "destinationCIDR": "10.244.1.0/24"}])
    node("n1", "10.244.1.0/24")
    ccmd(**FLAGS)
    assert 'destination "10.244.1.0/24" is already routed to "n2"' in api.wait_event("n1", "FailedToCreateRoute")["message"]
    api.wait_node("n1", has_no_route)


def test_a_machine_that_is_gone_has_its_route_removed(api, lab, node, ccmd, inventory):
    node("n1", "10.244.1.0/24")
    node("n2", "10.244.2.0/24")
    ccmd("--controllers=*,-cloud-node-lifecycle-controller", **FLAGS)
    has_routes(lab, ("n1", "10.244.1.0/24"), ("n2", "10.244.2.0/24"))
    inventory.power("n1", "terminated")
    has_routes(lab, ("n2", "10.244.2.0/24"))
    api.wait_node("n1", has_no_route)


def test_a_machine_with_another_address_keeps_its_route(api, lab, node, ccmd, inventory, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >>{tmp_path}/told\n")
    hook.chmod(0o755)
    lab(hook=str(hook))
    node("n1", "10.244.1.0/24")
    ccmd(**{**FLAGS, "route_reconciliation_period": "1h"})
    api.wait_node("n1", is_routed)
    inventory.remove_quietly("n1")
    inventory.add(machine("n1", "10.0.0.9", id="m-1"))
    told = lambda: [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    wait_for(lambda: [(one["action"], one["addresses"]) for one in told()] ==
             [("route-ensure", ["10.0.0.1"]), ("route-ensure", ["10.0.0.9"])], what="the hook to hear of it", seen=told)
    has_routes(lab, ("n1", "10.244.1.0/24"))


def test_a_route_left_half_made_goes_with_its_node(api, lab, node, ccmd, tmp_path):
    """ccmd is killed in the middle of the hook, and the node is deleted before another begins."""
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\necho $CLOUDLYCKE_ACTION >>{tmp_path}/told\ntest -e {tmp_path}/well || kill -9 $PPID\n")
    hook.chmod(0o755)
    lab(hook=str(hook))
    node("n1", "10.244.1.0/24")
    one = ccmd(**FLAGS)
    one.process.child.wait(timeout=30)
    one.kill()  # noted as meant
    assert lab.state()[0]["pending"]
    (tmp_path / "well").touch()
    api.delete(f"{NODES}/n1")
    node("n2", "10.244.1.0/24")
    ccmd(**FLAGS)
    api.wait_node("n2", is_routed)
    has_routes(lab, ("n2", "10.244.1.0/24"))
    assert (tmp_path / "told").read_text().split() == ["route-ensure", "route-delete", "route-ensure"]


def test_routes_are_not_made_where_they_are_not_wanted(api, lab, node, ccmd):
    node("n1", "10.244.1.0/24")
    one = ccmd(configure_cloud_routes="false", route_reconciliation_period="200ms")
    one.wait_log("controller is disabled.*route")
    holds_for(lambda: network_condition(api.node("n1")) is None, 1.5, "no condition")
    assert lab.state() == []


def test_routes_are_skipped_where_the_cloud_has_none(ccmd, settled):
    """docs/spec/framework.md, "Controllers"."""
    one = ccmd()
    settled()
    assert re.search(r"warn .*controller is skipped.*node-route-controller", one.text)


def test_routes_need_to_know_the_networks_of_pods(lab, cluster, inventory):
    done = run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}",
                    "--leader-elect=false", f"--kubeconfig={cluster.ccmd_kubeconfig}", "--secure-port=0")
    assert done.returncode == 1
    assert "--cluster-cidr is empty, but the route controller needs it" in done.stderr


@pytest.mark.parametrize("cidr, said", [
    ("10.244.0.0", 'cluster CIDR "10.244.0.0" is not a CIDR, e.g. 10.244.0.0/16'),
    ("10.244.0.0/16, fd00:10::/32", 'cluster CIDR " fd00:10::/32" is not a CIDR, e.g. 10.244.0.0/16'),
    ("10.244.0.0/16,10.245.0.0/16", 'cluster CIDR "10.244.0.0/16,10.245.0.0/16" has two CIDRs of one IP family')])
def test_a_bad_cluster_cidr_ends_the_start_only_where_routes_run(lab, cluster, inventory, ccmd, settled, cidr, said):
    done = run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}", f"--cluster-cidr={cidr}",
                    "--leader-elect=false", f"--kubeconfig={cluster.ccmd_kubeconfig}", "--secure-port=0")
    assert done.returncode == 1
    assert said in done.stderr.replace("\\", "")
    done = run_ccmd("--cloud-provider=cloudlycke", f"--cluster-cidr={cidr}", "--kubeconfig=/no/such/file")
    assert "--kubeconfig: /no/such/file" in done.stderr and said in done.stderr.replace("\\", ""), "one start shows both"
    one = ccmd(configure_cloud_routes="false", cluster_cidr=cidr)
    settled()
    assert re.search(r"warn .*--cluster-cidr is invalid", one.text)


# --- packets -----------------------------------------------------------------------------------------------------------


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout


@pytest.fixture
def wires():
    """A router and a machine, each a network namespace, and a cable between them. The machine has a pod, 10.244.1.5."""
    if os.geteuid() != 0 or not shutil.which("ip") or subprocess.run(["unshare", "-n", "true"]).returncode != 0:
        pytest.skip("network namespaces need root")
    router, host = f"ccmd-router-{os.getpid()}", f"ccmd-n1-{os.getpid()}"
    try:
        for one in (router, host):
            ip("netns", "add", one)
            ip("-n", one, "link", "set", "lo", "up")
        ip("-n", router, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", host)
        for one, address, address6 in ((router, "10.0.0.254/24", "fd00::fe/64"), (host, "10.0.0.1/24", "fd00::1/64")):
            ip("-n", one, "address", "add", address, "dev", "eth0")
            ip("-n", one, "address", "add", address6, "dev", "eth0", "nodad")
            ip("-n", one, "link", "set", "eth0", "up")
        # the kernel notices a moment later that the cable is plugged in at both ends, and shows it in each route
        wait_for(lambda: all("state UP" in ip("-n", one, "link", "show", "eth0") for one in (router, host)),
                 what="the cable to be up")
        ip("-n", host, "address", "add", "10.244.1.5/32", "dev", "lo")
        ip("-n", host, "address", "add", "fd00:10:1::5/128", "dev", "lo")
        yield router, host
    finally:
        for one in (router, host):
            ip("netns", "delete", one, check=False)


def answers(router, host, address):
    """Does a packet sent by the router to a pod of the machine arrive, and its answer come back?"""
    echo = f"import socket; s = socket.socket(socket.AF_INET{'6' if ':' in address else ''}, socket.SOCK_DGRAM); "
    server = subprocess.Popen(
        ["ip", "netns", "exec", host, "python3", "-c",
         echo + f"s.bind(({address!r}, 7007)); print(flush=True); d, a = s.recvfrom(99); s.sendto(d, a)"],
        stdout=subprocess.PIPE)
    server.stdout.readline()
    client = textwrap.dedent(f"""
        s.settimeout(1)
        try:
            s.sendto(b"ping", ({address!r}, 7007))
            print(s.recv(99) == b"ping")
        except OSError:
            print(False)
    """)
    try:
        done = subprocess.run(["ip", "netns", "exec", router, "python3", "-c", echo.rstrip("; ") + client],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip() == "True"
    finally:
        server.kill()
        server.wait()


def test_packets_find_pods_by_the_sample_hook(api, lab, node, ccmd, wires, tmp_path, inventory, kubelet):
    router, host = wires
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\nIP="ip -n {router}" exec {REPOSITORY}/examples/cloudlycke/hooks/ip-route\n')
    hook.chmod(0o755)
    lab(hook=str(hook))
    inventory.set_addresses("n1", "10.0.0.1", "fd00::1")
    inventory.write()
    assert not answers(router, host, "10.244.1.5")
    node("n1", "10.244.1.0/24", "fd00:10:1::/64")
    ccmd(**FLAGS)
    api.wait_node("n1", is_routed)
    assert answers(router, host, "10.244.1.5")
    assert answers(router, host, "fd00:10:1::5")
    assert "via 10.0.0.1 dev eth0 proto 210" in ip("-n", router, "route")
    kubelet("n2", initialized=True)  # without any node nothing is removed
    api.delete(f"{NODES}/n1")
    wait_for(lambda: "10.244" not in ip("-n", router, "route"), what="the route to be gone")
    has_routes(lab)
    assert not answers(router, host, "10.244.1.5")


def hook(router, action, network):
    """Runs the sample hook as ccmd does. Returns its messages: none if all is well."""
    route = {"action": action, "targetNode": "n1", "destinationCIDR": network, "addresses": ["10.0.0.1", "fd00::1"]}
    done = subprocess.run([f"{REPOSITORY}/examples/cloudlycke/hooks/ip-route"], input=json.dumps(route), text=True,
                          capture_output=True, env={**os.environ, "IP": f"ip -n {router}"})
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


def test_the_sample_hook_leaves_routes_of_others_alone(wires):
    router, _ = wires
    ip("-n", router, "route", "add", "default", "via", "10.0.0.253", "proto", "dhcp")
    ip("-n", router, "route", "add", "10.244.2.0/24", "via", "10.0.0.253", "proto", "static", "metric", "7")
    ip("-n", router, "-6", "route", "add", "default", "via", "fd00::fd")
    before = ip("-n", router, "route"), ip("-n", router, "-6", "route")
    for network in ("0.0.0.0/0", "10.244.2.0/24", "::/0"):
        assert f"the host has a route to {network} that is not proto 210" in hook(router, "route-ensure", network)
        assert not hook(router, "route-delete", network)
    assert (ip("-n", router, "route"), ip("-n", router, "-6", "route")) == before
    for network in ("10.244.1.0/24", "fd00:10:1::/64"):
        assert not hook(router, "route-ensure", network)
        assert not hook(router, "route-ensure", network)  # its own is replaced
        assert f"{network} via" in ip("-n", router, "route") + ip("-n", router, "-6", "route")
        assert not hook(router, "route-delete", network)
    assert (ip("-n", router, "route"), ip("-n", router, "-6", "route")) == before
