"""The hooks that come with ccmd: what they tell HAProxy and nftables, run as ccmd runs them."""
import json
import os
import shutil
import subprocess

import pytest

from lib.haproxy import PROGRAM
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


def test_packets_are_led_to_the_nodes(rules):
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


def test_a_table_goes_as_a_whole(rules):
    assert rules(balancer(action="delete")) == "table inet ccmd_a1b2\ndelete table inet ccmd_a1b2\n"


def test_a_failure_is_told(tmp_path):
    done = run("nftables-dnat", balancer(), NFT=str(tmp_path / "missing"))
    assert done.returncode != 0 and "missing" in done.stderr
    done = run("nftables-dnat", {"action": "ensure"})
    assert done.returncode != 0 and "loadBalancer" in done.stderr
