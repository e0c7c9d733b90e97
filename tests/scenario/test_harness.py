"""The harness itself, against the real API server: what the other scenarios rely on."""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from lib import role
from lib.api import LEASES, NODES, STRATEGIC, Api, ApiError
from lib.ccmd import Inventory, machine
from lib.faultproxy import (
    NODE_PATH, NODES_PATH, answer, cut_body, cut_events, cut_headers, delay, end_events, error_event, insert,
    lose_answer, raw, replace, reset, rewrite, silence, stall, stream, vanish,
)
from lib.nodes import UNINITIALIZED, addresses, create_many, delete_many, node_object, taint_keys
from lib.process import Process
from lib.wait import Timeout, wait_for

# --- the cluster ---------------------------------------------------------------------------------------------------------


def test_the_api_server_is_of_the_version_asked_for(cluster, api):
    assert api.get("/version")["gitVersion"].startswith(f"v{cluster.version}.")


def test_ccmd_may_do_what_its_role_says_and_no_more(cluster, api, kubelet):
    kubelet("n1", ready="False")
    own = cluster.api(cluster.ccmd_pair)
    own.patch(f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    own.patch(f"{NODES}/n1/status", {"status": {"addresses": []}}, STRATEGIC)
    with pytest.raises(ApiError) as refused:
        own.get("/api/v1/namespaces/default/secrets")
    assert refused.value.status == 403
    own.delete(f"{NODES}/n1")


def test_a_refusal_counts_unless_the_role_allows_the_call():
    user = r'is forbidden: User \"system:serviceaccount:kube-system:ccmd\" cannot'
    lease = r'in API group \"coordination.k8s.io\" in the namespace \"kube-system\"'
    allowed = [
        rf'nodes {user} watch resource \"nodes\" in API group \"\" at the cluster scope',
        rf'leases.coordination.k8s.io \"cloud-controller-manager\" {user} update resource \"leases\" {lease}',
        "403 not today",
    ]
    refused = [
        rf'nodes \"n1\" {user} update resource \"nodes\" in API group \"\" at the cluster scope',
        rf'leases.coordination.k8s.io \"another\" {user} update resource \"leases\" {lease}',
        rf'leases.coordination.k8s.io \"n1\" {user} get resource \"leases\" {lease}',
        rf'forbidden: User \"x\" cannot get path \"/metrics\" {user} get path \"/metrics\"',
    ]
    assert [role.missing(line) for line in allowed] == [None, None, None]
    assert [role.missing("first line\n" + line) for line in refused] == refused


def test_kubectl_runs(cluster, api, kubelet):
    kubelet("n1")
    assert "node/n1" in cluster.kubectl("get", "nodes", "-o", "name")


def test_a_restart_keeps_port_and_data(cluster, api, kubelet):
    before = kubelet("n1").node
    cluster.restart_apiserver()
    assert api.node("n1")["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_paused_api_server_is_silent_and_comes_back(cluster, api):
    cluster.apiserver.pause()
    try:
        with Api(cluster.url(), cluster.ca, cluster.admin_pair, timeout=0.3) as impatient, pytest.raises(OSError):
            impatient.get("/version")
    finally:
        cluster.apiserver.resume()
    assert api.get("/version")


def test_two_api_servers_share_one_etcd(cluster, api, kubelet):
    port = cluster.second_apiserver()
    try:
        kubelet("n1")
        with Api(cluster.url(port), cluster.ca, cluster.admin_pair) as second:
            assert second.node("n1")["metadata"]["name"] == "n1"
    finally:
        cluster.stop_others()


def test_children_die_with_a_killed_parent(tmp_path):
    script = "import sys, time; from lib.process import Process; " \
             "p = Process('sleep', ['sleep', '600'], sys.argv[1]).start(); print(p.pid, flush=True); time.sleep(600)"
    folder = os.path.dirname(os.path.abspath(__file__))
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "log")], stdout=subprocess.PIPE, cwd=folder)
    child = int(parent.stdout.readline())
    # setpriv has done its part once it is sleep
    wait_for(lambda: "sleep" in open(f"/proc/{child}/comm").read(), what="the child to be started")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not alive(child), what="the child to die")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between open and read
        return False


def test_memory_and_cpu_of_a_process_are_measured(tmp_path):
    process = Process("sleep", ["sleep", "60"], tmp_path / "log").start()
    wait_for(lambda: "sleep" in (open(f"/proc/{process.pid}/comm").read()), what="setpriv to become sleep")
    wait_for(lambda: process.rss_kib() > 100 and process.fds() == 3, what="its libraries to be loaded")
    assert process.threads() == 1 and process.cpu_seconds() < 1
    assert process.stop() == -signal.SIGTERM


# --- nodes ---------------------------------------------------------------------------------------------------------------


def test_nodes_look_as_a_kubelet_registers_them(api, kubelet):
    node = kubelet("n1", ip="10.1.2.3", provided_node_ip="10.1.2.3", real_sized=True).node
    assert {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert addresses(node) == [("InternalIP", "10.1.2.3"), ("Hostname", "n1")]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] == "10.1.2.3"
    assert "providerID" not in node["spec"]
    assert len(node["status"]["images"]) == 50
    assert 11_000 < len(json.dumps(node_object("n1", real_sized=True), separators=(",", ":"))) < 14_000


def test_ready_false_unknown_and_heartbeats(api, kubelet):
    one = kubelet("n1", lease=True)
    ready = lambda: next(c for c in one.node["status"]["conditions"] if c["type"] == "Ready")
    assert ready()["status"] == "True"
    one.not_ready()
    assert ready()["status"] == "False"
    beat = ready()["lastHeartbeatTime"]
    one.silent()
    assert ready()["status"] == "Unknown" and ready()["lastHeartbeatTime"] == beat
    one.heartbeat()
    assert ready()["status"] == "Unknown" and ready()["lastHeartbeatTime"] > beat
    before = api.get(f"{LEASES}/n1")["spec"]["renewTime"]
    one.renew_lease()
    assert api.get(f"{LEASES}/n1")["spec"]["renewTime"] > before


def test_many_nodes_in_parallel(api):
    names = create_many(api, 100, real_sized=False)
    assert len(api.list(NODES)) == 100
    delete_many(api, names)
    assert api.list(NODES) == []


# --- the proxy -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def through(cluster, proxy):
    client = Api(proxy.url, cluster.ca, timeout=5)
    yield client
    client.close()


def test_it_passes_requests_on_and_records_them(api, kubelet, proxy, through):
    kubelet("n1")
    assert through.node("n1")["metadata"]["name"] == "n1"
    through.patch(f"{NODES}/n1", {"metadata": {"labels": {"x": "y"}}})
    (write,) = proxy.writes(node="n1")
    assert write.method == "PATCH" and write.json() == {"metadata": {"labels": {"x": "y"}}} and write.status == 200
    assert write.headers["content-type"] == "application/merge-patch+json"
    assert proxy.n_connections == 1, "the connection is kept"


def test_it_passes_a_watch_on_as_it_happens(api, kubelet, proxy, through):
    events = through.watch(NODES, timeout=60)
    registered = threading.Thread(target=lambda: (proxy.wait_watching(), kubelet("n1")))
    registered.start()
    assert next(events)[0] == "ADDED"
    registered.join()
    kubelet("n2")
    assert next(events)[1]["metadata"]["name"] == "n2"
    events.close()


def test_an_answer_in_the_api_servers_place(proxy, through):
    rule = proxy.on("GET", NODES_PATH, answer(429, headers={"Retry-After": "1"}), skip=1, times=2)
    codes = [through.request("GET", NODES).status for _ in range(5)]
    assert codes == [200, 429, 429, 200, 200] and rule.hits == 2


def test_failing_the_nth_request(proxy, through):
    proxy.fail_nth(3, answer(500))
    assert [through.request("GET", "/version").status for _ in range(4)] == [200, 200, 500, 200]


def test_delay(proxy, through):
    proxy.on("GET", "/version", delay(0.3))
    begun = time.monotonic()
    through.get("/version")
    assert time.monotonic() - begun >= 0.3


def test_reset_before_the_request_is_passed_on(api, kubelet, proxy, through):
    kubelet("n1")
    proxy.on("PATCH", NODE_PATH, reset(), times=2)
    with pytest.raises(OSError):
        through.patch(f"{NODES}/n1", {"metadata": {"labels": {"x": "y"}}})
    assert "x" not in api.node("n1")["metadata"]["labels"]


def test_an_answer_lost_after_the_request_was_obeyed(api, kubelet, proxy, through):
    kubelet("n1")
    proxy.on("PATCH", NODE_PATH, lose_answer())
    with pytest.raises(OSError):
        through.patch(f"{NODES}/n1", {"metadata": {"labels": {"x": "y"}}})
    assert api.node("n1")["metadata"]["labels"]["x"] == "y"


def test_cut_in_the_headers(proxy, through):
    proxy.on("GET", NODES_PATH, cut_headers())
    with pytest.raises(OSError):
        through.list(NODES)


def test_cut_in_the_body(proxy, through):
    proxy.on("GET", NODES_PATH, cut_body(10))
    with pytest.raises(OSError):
        through.list(NODES)


@pytest.mark.parametrize("inside", [True, False])
def test_a_watch_cut_inside_an_object_or_between_two(api, proxy, through, inside):
    create_many(api, 5, real_sized=False)
    proxy.on("GET", NODES_PATH, cut_events(3, inside=inside), watch=True)
    seen = []
    with pytest.raises((OSError, http.client.HTTPException)):
        for event in through.watch(NODES, timeout=60):
            seen.append(event)
    assert len(seen) == 3


def test_a_watch_that_ends_well_after_no_event(proxy, through):
    proxy.on("GET", NODES_PATH, end_events(0), watch=True)
    assert list(through.watch(NODES, timeout=5)) == []


def test_lines_slipped_into_a_watch(api, kubelet, proxy, through):
    kubelet("n1")
    proxy.on("GET", NODES_PATH, insert([error_event(410)], after=1), watch=True)
    events = through.watch(NODES, timeout=60)
    assert next(events)[0] == "ADDED"
    kind, status = next(events)
    assert kind == "ERROR" and status["code"] == 410
    events.close()


def test_bytes_and_objects_changed_on_the_way(api, kubelet, proxy, through):
    kubelet("n1")
    proxy.on("GET", NODE_PATH, replace(b'"n1"', b'"n2"'))
    assert through.node("n1")["metadata"]["name"] == "n2"
    proxy.on("GET", NODE_PATH, rewrite(lambda node: {"kind": node["kind"]}))
    assert through.node("n1") == {"kind": "Node"}


def test_silence_and_stalling(proxy, through):
    through.timeout = 0.3
    proxy.on("GET", "/version", silence())
    with pytest.raises(TimeoutError):
        through.get("/version")
    proxy.on("GET", "/version", stall(length=5))
    with pytest.raises(TimeoutError):
        through.get("/version")


def test_a_vanished_peer_does_not_even_acknowledge(cluster, proxy, through):
    rule = proxy.on("GET", "/version", vanish())
    context = ssl.create_default_context(cafile=str(cluster.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=5, context=context)
    connection.request("GET", "/version")
    rule.wait_hit()
    connection.sock.settimeout(5)
    connection.sock.setsockopt(6, 18, 500)  # TCP_USER_TIMEOUT in ms
    wait_for(lambda: dead_after_send(connection.sock), what="the kernel to give up")
    assert through.get("/version"), "others are served"
    connection.close()


def dead_after_send(sock):
    try:
        sock.send(b"x")
        return False
    except OSError:
        return True  # ETIMEDOUT, which the TLS library may call by another name


def test_everything_present_vanishes(api, kubelet, proxy, through):
    kubelet("n1")
    events = through.watch(NODES, timeout=8)
    assert next(events)[0] == "ADDED"
    proxy.vanish_all()
    kubelet("n2")
    assert list(events) == []
    assert len(through.list(NODES)) == 2, "on a new connection"


def test_a_connection_vanishes_in_its_handshake(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=1) as client:
        wait_for(lambda: [one for one in proxy._present() if one.raw.fileno() < 0], what="the handshake to begin")
        proxy.vanish_all()
        client.sendall(b"no TLS")  # would be answered by an alert
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_raw_and_endless_answers(proxy, through):
    proxy.on("GET", NODES_PATH, raw(b"SSH-2.0-OpenSSH_9.2\r\n"))
    with pytest.raises(OSError):
        through.list(NODES)
    proxy.on("GET", NODES_PATH, stream(lambda: [b'{"items"', b": [7]}"]))
    assert through.list(NODES) == [7]


def test_connections_are_refused(proxy, through):
    through.get("/version")
    proxy.refuse()
    with pytest.raises(OSError):
        through.get("/version")
    proxy.accept_again()
    assert through.get("/version")


def test_every_connection_is_cut(api, proxy, through):
    events = through.watch(NODES, timeout=60)
    cutter = threading.Thread(target=lambda: (proxy.wait_watching(), proxy.cut_all()))
    cutter.start()
    with pytest.raises((OSError, http.client.HTTPException)):
        next(events)
    cutter.join()


# --- waiting, inventories --------------------------------------------------------------------------------------------------


def test_waiting_in_vain_says_for_what_and_what_was_seen(api, kubelet):
    kubelet("n1")
    with pytest.raises(Timeout) as late:
        api.wait_node("n1", lambda node: UNINITIALIZED not in taint_keys(node), 0.1, "n1 to be initialised")
    assert "n1 to be initialised" in str(late.value) and UNINITIALIZED in str(late.value)


def test_an_inventory_is_written_in_all_the_ways_files_change(tmp_path):
    inventory = Inventory(tmp_path / "inventory.yaml", [machine("n1", "10.0.0.1")])
    first = inventory.path.stat().st_ino
    inventory.power("n1", "off")
    assert inventory.path.stat().st_ino != first and "power: 'off'" in inventory.path.read_text()
    second = inventory.path.stat().st_ino
    inventory.write_in_place("a: b\n", pieces=3)
    assert inventory.path.stat().st_ino == second and inventory.path.read_text() == "a: b\n"
    inventory.use_symlinks().remove_quietly("n1")
    inventory.swap_symlink()
    assert inventory.path.is_symlink() and "n1" not in inventory.path.read_text()
