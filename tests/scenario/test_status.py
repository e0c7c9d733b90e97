"""ccmd status: the Lease, and the health and the metrics of the process on this machine."""
import json
import os
import re
import subprocess
import time

import pytest

from lib.ccmd import binary, environment, machine, run_ccmd
from lib.faultproxy import answer
from lib.nodes import is_initialized
from lib.operator import flags_of
from lib.process import free_ports
from lib.replicas import LEASE
from lib.serving import Serving
from lib.wait import wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]


@pytest.fixture
def leader(cluster, api, inventory, kubelet, ccmd):
    """leader(option=value): a process that leads and has initialised a node; returns the flags that status gets."""

    def start(**options):
        options = dict(options, leader_elect=True, secure_port=free_ports(1)[0], bind_address="127.0.0.1",
                       authentication_kubeconfig=cluster.ccmd_kubeconfig,
                       authorization_kubeconfig=cluster.ccmd_kubeconfig)
        inventory.add(machine("n1", "10.0.0.1"))
        kubelet("n1")
        ccmd(**options)
        api.wait_node("n1", is_initialized)
        wait_for(lambda: Serving(options["secure_port"]).get("/readyz").status == 200, what="it to be ready")
        return options

    return start


@pytest.fixture
def status(cluster, inventory):
    def run(kubeconfig=cluster.ccmd_kubeconfig, **options):
        done = run_ccmd("status", "-o", "json", *flags_of(kubeconfig, inventory, **options))
        content = json.loads(done.stdout)
        assert content["exitCode"] == done.returncode
        return content

    return run


@pytest.mark.sanitized
def test_a_leader(api, cluster, inventory, leader, status):
    options = leader(metrics_bind_address=f"127.0.0.1:{free_ports(1)[0]}")
    content = status(**options)
    assert content["exitCode"] == 0
    lease = api.get(LEASE)["spec"]
    assert content["lease"]["holder"] == lease["holderIdentity"] and content["lease"]["isFresh"]
    assert content["process"]["isHealthy"] and content["process"]["isReady"]
    assert "[+]cloud-node-controller ok" in content["process"]["checks"]
    metrics = content["metrics"]
    assert metrics["error"] == "" and metrics["isLeader"] and metrics["apiServerRequests"] > 0
    assert {"kind": "Node", "value": 1} in metrics["objects"] and {"kind": "Node", "value": 1} in metrics["synced"]
    assert metrics["memoryBytes"] > 1e6

    text = run_ccmd("status", *flags_of(cluster.ccmd_kubeconfig, inventory, **options)).stdout
    lines = text.splitlines()
    assert lines[0].startswith(f"Leader      {lease['holderIdentity']} since ")
    assert lines[1] == "Process     healthy, ready"
    assert lines[2].startswith("            it leads, started ")
    assert any(line.startswith("Objects     Node: 1, in sync for ") for line in lines)
    assert any(re.match(r"Requests    API server: \d+ in 5 min, \d+ failed; \d+ since the start, ", line) for line in lines), text
    assert any(line.startswith("Deletions   no node since the start; held now: 0") for line in lines)
    assert content["metrics"]["heldNodes"] == 0 and content["metrics"]["apiServerRecent"]["requests"] > 0
    assert content["metrics"]["syncedSince"][0]["value"] > time.time() - 300
    assert "\x1b" not in text


def test_metrics_of_the_secure_port(cluster, leader, status, tmp_path):
    options = leader(cert_dir=tmp_path / "certificates")
    assert status(kubeconfig=cluster.admin_kubeconfig, **options)["metrics"]["isLeader"]
    refused = status(**options)["metrics"]
    assert "403" in refused["error"], "the controller's own account has no right to read them"


def test_no_credential_for_a_server_that_is_not_known(cluster, leader, status):
    options = leader()
    content = status(kubeconfig=cluster.admin_kubeconfig, **options)
    assert "only in its memory" in content["metrics"]["error"]
    assert content["process"]["isHealthy"] and content["exitCode"] == 0, "health needs none"
    pair = cluster.server_pair
    content = status(kubeconfig=cluster.admin_kubeconfig, **options, tls_cert_file=pair.certificate,
                     tls_private_key_file=pair.key)
    assert "certificate" in content["metrics"]["error"] and content["process"]["isHealthy"]


def test_nobody_leads(api, status):
    content = status(leader_elect=True, secure_port=0)
    assert content["exitCode"] == 1 and not content["lease"]["isFresh"]


def test_a_leader_that_is_silent(api, status):
    old = "2026-01-01T00:00:00.000000Z"
    api.post(LEASE.rsplit("/", 1)[0], {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "cloud-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15, "acquireTime": old, "renewTime": old}})
    content = status(leader_elect=True, secure_port=0)
    assert content["exitCode"] == 1 and content["lease"]["holder"] == "gone" and not content["lease"]["isFresh"]


def test_nothing_can_be_reached(inventory):
    done = run_ccmd("status", "--master=http://127.0.0.1:1", "--cloud-provider=cloudlycke",
                    f"--cloud-config={inventory.path}", f"--secure-port={free_ports(1)[0]}")
    assert done.returncode == 2
    assert "Leader      unknown: " in done.stdout and "Process     unknown: " in done.stdout


def test_watching(api, cluster, inventory):
    command = [binary(), "status", "--watch", *flags_of(cluster.ccmd_kubeconfig, inventory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as child:
        seen = [child.stdout.readline() for _ in range(7)]
        child.terminate()
    assert [line.split()[0] for line in seen].count("Leader") >= 2, seen


def test_replicas_are_shown_to_those_who_may_list_pods(api, cluster, status):
    api.post("/api/v1/namespaces/kube-system/pods", {
        "metadata": {"name": "ccmd-1", "labels": {"app.kubernetes.io/name": "ccmd"}},
        "spec": {"containers": [{"name": "ccmd", "image": "ccmd"}]}})
    try:
        assert "replicas" not in status()
        assert status(kubeconfig=cluster.admin_kubeconfig)["replicas"] == {"pods": 1, "ready": 0}
        api.patch("/api/v1/namespaces/kube-system/pods/ccmd-1/status",
                  {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        assert status(kubeconfig=cluster.admin_kubeconfig)["replicas"] == {"pods": 1, "ready": 1}
    finally:
        api.delete("/api/v1/namespaces/kube-system/pods/ccmd-1?gracePeriodSeconds=0")


def test_held_nodes_are_named(api, cluster, inventory, kubelet, ccmd, status):
    """The controller's own account may list nodes, but no events."""
    kubelet("gone", ip="10.0.0.1", provider_id="cloudlycke://m-gone", initialized=True, ready="Unknown")
    options = {"secure_port": 0, "metrics_bind_address": f"127.0.0.1:{free_ports(1)[0]}"}
    ccmd(**options)
    content = wait_for(lambda: (lambda one: one if one["metrics"].get("heldNodes") else None)(status(**options)),
                       what="the deletion to be held", timeout=20)
    assert content["notReadyNodes"] == "gone"
    text = run_ccmd("status", *flags_of(cluster.ccmd_kubeconfig, inventory, **options)).stdout
    assert "held now: 1, among the nodes that are not Ready: gone (ccmd explain node NAME)" in text, text


UNIT = "/sys/fs/cgroup/system.slice/ccmd.service"


def can_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"], capture_output=True).returncode == 0


def test_the_flags_of_the_systemd_unit(cluster, api, ccmd, leader):
    """Without flags, in a mount namespace with the unit's control group as systemd would make it."""
    if not can_mount():
        pytest.skip("mounting in a namespace needs root")
    leader(metrics_bind_address=f"127.0.0.1:{free_ports(1)[0]}")
    script = f'mount -t tmpfs none /sys/fs/cgroup && mkdir -p {UNIT} && echo "$1" >{UNIT}/cgroup.procs && exec "$2" status -o json'

    def of_process(pid):
        return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(pid), binary()], capture_output=True, text=True,
                              env=environment(), timeout=30)

    done = of_process(ccmd.started[0].pid)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["lease"]["holder"] == api.get(LEASE)["spec"]["holderIdentity"] and content["metrics"]["isLeader"]
    other = of_process(os.getpid())
    assert other.returncode == 2 and "No controller runs here" in other.stderr, "another program in the unit"


def test_failed_requests_are_seen_immediately(api, cluster, proxy, kubelet, inventory, ccmd, status):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    options = {"metrics_bind_address": f"127.0.0.1:{free_ports(1)[0]}"}
    proxy.on("PATCH", "/api/v1/nodes/n1", answer(503, {"message": "overloaded"}), times=2)
    ccmd(kubeconfig=cluster.kubeconfig("proxied", url=proxy.url), **options)
    api.wait_node("n1", is_initialized)
    recent = status(**options)["metrics"]["apiServerRecent"]
    assert recent["failures"] >= 2 and recent["requests"] > recent["failures"]
