"""The hooks that come with ccmd: what they write for HAProxy and nftables, run as ccmd runs them."""
import contextlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading

import pytest

from lib import netns
from lib.haproxy import PROGRAM, Backend, fetch
from lib.process import REPOSITORY

HOOKS = REPOSITORY / "examples" / "cloudlycke" / "hooks"
NFT = shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def balancer(**changes):
    return {
        "action": "ensure", "loadBalancer": "a1b2", "cluster": "kubernetes", "namespace": "default", "name": "web",
        "uid": "a1-b2", "pool": "lab", "addresses": ["192.0.2.1", "2001:db8::1"], "hostname": "", "shareKey": "",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 31000}],
        "nodes": [{"name": "n1", "id": "m1", "addresses": ["10.0.0.1", "fd00::1"]},
                  {"name": "n2", "id": "m2", "addresses": ["10.0.0.2", "fd00::2"]}],
        "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0, "sessionAffinity": "None", "sourceRanges": [],
        "generation": 1, "hook": {"generation": 0, "error": ""}, "deleting": False, **changes,
    }


def run(hook, document, **env):
    return subprocess.run([str(HOOKS / hook)], input=json.dumps(document), text=True, capture_output=True,
                          env={"PATH": os.environ["PATH"], "CLOUDLYCKE_ACTION": document["action"], **env}, timeout=20)


# --- HAProxy -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def haproxy(tmp_path):
    """run(document, broken=…) with a folder and commands of its own; .folder, .reloads()."""
    folder = tmp_path / "ccmd"
    folder.mkdir()
    main = tmp_path / "haproxy.cfg"
    main.write_text("global\ndefaults\n    timeout connect 1s\n    timeout client 1s\n    timeout server 1s\n"
                    "frontend x\n    bind abns@ccmd-test-hook\n")
    count = tmp_path / "reloads"

    def start(document, check=None, reload=None):
        return run("haproxy-fragment", document, CCMD_HAPROXY_FOLDER=str(folder),
                   CCMD_HAPROXY_CHECK=check or f"{PROGRAM} -c -f {main} -f {folder}",
                   CCMD_HAPROXY_RELOAD=reload or f"sh -c 'echo >>{count}'")

    start.folder = folder
    start.reloads = lambda: len(count.read_text().splitlines()) if count.exists() else 0
    return start


@pytest.mark.skipif(PROGRAM is None, reason="no haproxy here")
def test_fragments_come_and_go(haproxy):
    done = haproxy(balancer())
    assert done.returncode == 0, done.stderr
    text = (haproxy.folder / "a1b2.cfg").read_text()
    assert "bind ipv4@192.0.2.1:80 transparent" in text
    assert "bind ipv6@[2001:db8::1]:80 v6only transparent" in text
    assert "server n2 ipv4@10.0.0.2:31000 check" in text
    assert "server n1 ipv6@[fd00::1]:31000 check" in text
    assert haproxy(balancer(generation=2)).returncode == 0
    assert haproxy.reloads() == 1, "the same is not loaded twice"
    local = balancer(externalTrafficPolicy="Local", healthCheckNodePort=32000, sessionAffinity="ClientIP",
                     sourceRanges=["10.0.0.0/8"])
    assert haproxy(local).returncode == 0
    text = (haproxy.folder / "a1b2.cfg").read_text()
    assert "check port 32000" in text and "acl is_allowed src 10.0.0.0/8" in text and "balance source" in text
    assert haproxy(balancer(action="delete")).returncode == 0
    assert not (haproxy.folder / "a1b2.cfg").exists()
    assert haproxy(balancer(action="delete")).returncode == 0
    assert haproxy.reloads() == 3


@pytest.mark.skipif(PROGRAM is None, reason="no haproxy here")
def test_a_fragment_that_is_refused_is_taken_back(haproxy):
    assert haproxy(balancer()).returncode == 0
    good = (haproxy.folder / "a1b2.cfg").read_text()
    for how in ({"check": "sh -c 'echo broken; exit 1'"}, {"reload": "sh -c 'echo broken; exit 1'"}):
        done = haproxy(balancer(addresses=["192.0.2.9"]), **how)
        assert done.returncode != 0 and done.stderr.strip().endswith("broken")
        assert (haproxy.folder / "a1b2.cfg").read_text() == good
    done = haproxy(balancer(ports=[{"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 31000}]))
    assert done.stderr.strip() == "haproxy-fragment: port 53/UDP: HAProxy balances TCP only"


# --- nftables ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path):
    """The rule set that a document leads to; the real nft has to take it, where there is one."""
    fake = tmp_path / "nft"
    fake.write_text(f"#!/bin/sh\ncat >{tmp_path}/rules\n")
    fake.chmod(0o755)

    def make(document):
        done = run("nftables-dnat", document, NFT=str(fake))
        assert done.returncode == 0, done.stderr
        if NFT:
            checked = subprocess.run([NFT, "-c", "-f", tmp_path / "rules"], capture_output=True, text=True)
            assert checked.returncode == 0 or "not permitted" in checked.stderr, checked.stderr
        return (tmp_path / "rules").read_text()

    return make


def test_packets_are_forwarded_to_the_nodes(rules):
    text = rules(balancer(ports=[{"name": "", "protocol": "UDP", "port": 53, "nodePort": 31053}]))
    assert text.startswith("table inet ccmd_a1b2\ndelete table inet ccmd_a1b2\ntable inet ccmd_a1b2 {\n")
    assert "ip daddr 192.0.2.1 udp dport 53 dnat ip to numgen inc mod 2 map { 0 : 10.0.0.1, 1 : 10.0.0.2 } : 31053" in text
    assert "ip6 daddr 2001:db8::1 udp dport 53 dnat ip6 to numgen inc mod 2 map" in text
    assert "ct status dnat masquerade" in text


def test_ranges_affinity_and_missing_nodes(rules):
    text = rules(balancer(sourceRanges=["10.0.0.0/8"], sessionAffinity="ClientIP"))
    assert "ip daddr 192.0.2.1 tcp dport 80 ip saddr != { 10.0.0.0/8 } drop" in text
    assert "ip6 daddr 2001:db8::1 tcp dport 80 drop" in text
    assert "jhash ip saddr mod 2" in text
    text = rules(balancer(nodes=[]))
    assert "dnat ip" not in text and "ip daddr 192.0.2.1 tcp dport 80 drop" in text


def test_a_table_is_removed_as_a_whole(rules):
    assert rules(balancer(action="delete")) == "table inet ccmd_a1b2\ndelete table inet ccmd_a1b2\n"


def test_a_failure_is_reported(tmp_path):
    done = run("nftables-dnat", balancer(), NFT=str(tmp_path / "missing"))
    assert done.returncode != 0 and "missing" in done.stderr
    done = run("nftables-dnat", {"action": "ensure"})
    assert done.returncode != 0 and "loadBalancer" in done.stderr


CLIENT, GATE = "192.0.2.200", "192.0.2.1"


@pytest.fixture
def wires():
    """(client, gate, n1, n2): namespaces. The gate, where the hook runs, has the balancer's addresses and forwards."""
    reason = netns.available()
    if reason:
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        client, gate, n1, n2 = (stack.enter_context(netns.Namespace(name)) for name in ("client", "gate", "n1", "n2"))
        gate.connect(client, "outside", "eth0", f"{GATE}/24", "2001:db8::1/64",
                     their_addresses=[f"{CLIENT}/24", "2001:db8::c8/64", "198.51.100.7/32"])
        for number, one in ((1, n1), (2, n2)):
            gate.connect(one, f"inside{number}", "eth0", f"10.0.0.25{number}/32", f"fd00::fe{number}/128",
                         their_addresses=[f"10.0.0.{number}/32", f"fd00::{number}/128"])
            for away, device, address in ((one, "eth0", "25"), (gate, f"inside{number}", "")):
                away.ip("route", "add", f"10.0.0.{address}{number}", "dev", device)
                away.ip("route", "add", f"fd00::{'fe' if address else ''}{number}", "dev", device)
        gate.ip("route", "add", "198.51.100.7", "dev", "outside")
        gate.sysctl("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        yield client, gate, n1, n2


@pytest.fixture
def lead(wires):
    """lead(document): runs the hook on the gate."""

    def run_there(document):
        command = wires[1].command(HOOKS / "nftables-dnat")
        done = subprocess.run(command, input=json.dumps(document), text=True, capture_output=True, env={**os.environ, "NFT": NFT})
        assert done.returncode == 0, done.stderr

    return run_there


@pytest.fixture
def nodes(wires):
    """What is behind node port 31000 of each node, TCP and UDP, by both families: it answers with the node's name."""
    started = []
    for number, one in ((1, wires[2]), (2, wires[3])):
        with one.inside():
            for address in (f"10.0.0.{number}", f"fd00::{number}"):
                started += [Backend(f"n{number}", address, 31000), UdpBackend(f"n{number}", address, 31000)]
    yield started
    for one in started:
        one.stop()


class UdpBackend:
    def __init__(self, name, address, port):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request[1].sendto(name.encode(), self.client_address)

        class Server(socketserver.ThreadingUDPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        self.server = Server((address, port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def ask(client, address, port=80, source=None, udp=False):
    """The name of the node that answers, or None."""
    with client.inside():
        try:
            return ask_udp(address, port) if udp else fetch(address, port, timeout=2, source=source)
        except OSError:
            return None


def ask_udp(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(2)
        one.sendto(b"?", (address, port))
        return one.recv(99).decode()


def who(client, address, count=8, **more):
    return {ask(client, address, **more) for _ in range(count)}


@pytest.mark.skipif(NFT is None, reason="no nft here")
@pytest.mark.parametrize("address", [GATE, "2001:db8::1"], ids=["IPv4", "IPv6"])
def test_real_packets_by_nftables(wires, lead, nodes, address):
    client = wires[0]
    kind = "v6" if ":" in address else "v4"
    targets = [{"name": f"n{number}", "id": f"m{number}", "addresses": [f"10.0.0.{number}", f"fd00::{number}"]}
               for number in (1, 2)]
    ports = [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 31000},
             {"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 31000}]
    wish = dict(addresses=[address], ports=ports)
    assert ask(client, address) is None
    lead(balancer(**wish, nodes=targets))
    assert who(client, address) == {"n1", "n2"}
    assert who(client, address, port=53, udp=True) == {"n1", "n2"}
    assert ask(client, address, port=81) is None
    lead(balancer(**wish, nodes=targets, sessionAffinity="ClientIP"))
    assert len(who(client, address)) == 1, "a client stays with its node"
    lead(balancer(**wish, nodes=targets[1:]))
    assert who(client, address) == {"n2"}
    lead(balancer(**wish, nodes=targets, sourceRanges=["192.0.2.128/25", "2001:db8::c0/124"]))
    assert who(client, address) == {"n1", "n2"}
    if kind == "v4":
        assert ask(client, address, source="198.51.100.7") is None
    lead(balancer(**wish, nodes=targets, sourceRanges=["203.0.113.0/24"]))
    assert ask(client, address) is None
    lead(balancer(**wish, nodes=targets))
    assert who(client, address) == {"n1", "n2"}
    lead(balancer(**wish, nodes=[]))
    assert ask(client, address) is None
    lead(balancer(**wish, action="delete"))
    assert ask(client, address) is None
