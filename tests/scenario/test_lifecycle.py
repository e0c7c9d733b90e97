"""Machines are switched off, come back, and are destroyed; their nodes follow, but only on proof.

tests/controllers/lifecycle/lifecycle.c has every rule of the proof and every time. Here is what needs a real API server: what
it makes of the patches and deletions, and the flags."""
import threading
import time

import pytest

from lib.api import MERGE, NODES
from lib.ccmd import FAST, machine
from lib.faultproxy import NODE_PATH, meanwhile
from lib.nodes import SHUTDOWN, taint_keys
from lib.wait import holds_for, wait_for

pytestmark = pytest.mark.plain

SHUTDOWN_TAINT = {"key": SHUTDOWN, "effect": "NoSchedule"}

QUIET_S = 1.5  # several looks, and three times the interval of confirmation


@pytest.fixture
def fleet(kubelet, inventory, api):
    """fleet("n1", "n2"): machines and initialised nodes, each with its provider ID. Returns the kubelets."""

    def build(*names, **options):
        inventory.add(*(machine(name, f"10.0.1.{number}") for number, name in enumerate(names, 1)))
        node = dict(initialized=True, **options)
        kubelets = []
        for number, name in enumerate(names, 1):
            provider_id = None if node.get("provider_id", "") is None else inventory.provider_id(name)
            kubelets.append(kubelet(name, ip=f"10.0.1.{number}", **{**node, "provider_id": provider_id}))
        return kubelets

    return build


def stays(api, *names, seconds=QUIET_S):
    holds_for(lambda: all(api.get_or_none(f"{NODES}/{name}") for name in names), seconds, f"nodes {names}", poll=0.1)


def exists(api, name):
    return api.get_or_none(f"{NODES}/{name}") is not None


# --- off and on ----------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_a_machine_that_is_off_taints_its_node_until_it_is_ready_again(api, fleet, inventory, ccmd, settled):
    (n1,) = fleet("n1", taints=[{"key": "stays", "value": "x", "effect": "NoExecute", "timeAdded": "2024-01-02T03:04:05Z"}])
    before = n1.node["spec"]["taints"]
    ccmd(**FAST)
    inventory.power("n1", "off")
    settled()
    assert SHUTDOWN not in taint_keys(n1.node), "its kubelet still says that it is ready"
    n1.silent()
    node = api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
    assert node["spec"]["taints"] == before + [SHUTDOWN_TAINT]
    inventory.power("n1", "on")
    settled()
    assert SHUTDOWN in taint_keys(n1.node), "power alone does not make a node ready"
    n1.ready()
    node = api.wait_node("n1", lambda node: SHUTDOWN not in taint_keys(node))
    assert node["spec"]["taints"] == before


def test_the_last_taint_can_go(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    n1.set_taints([SHUTDOWN_TAINT])
    ccmd(**FAST)
    api.wait_node("n1", lambda node: not node["spec"].get("taints"))


@pytest.mark.sanitized
def test_a_taint_that_another_client_writes_at_the_same_time_is_kept(api, fleet, inventory, proxy, ccmd):
    (n1,) = fleet("n1")
    added = {"key": "example.com/late", "effect": "NoSchedule"}
    proxy.on("PATCH", NODE_PATH, meanwhile(lambda: n1.set_taints((n1.node["spec"].get("taints") or []) + [added])))
    inventory.power("n1", "off")
    n1.silent()
    ccmd(**FAST)
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
    assert added in n1.node["spec"]["taints"]


# --- deletion ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how,ready", [("removed", "silent"), ("terminated", "not_ready")])
@pytest.mark.sanitized
def test_a_node_whose_machine_is_gone_is_deleted(api, fleet, inventory, proxy, ccmd, how, ready):
    n1, _ = fleet("n1", "n2")
    before = n1.node["metadata"]
    ccmd(**FAST)
    if how == "removed":
        inventory.remove("n1")
    else:
        inventory.power("n1", "terminated")
    getattr(n1, ready)()
    api.wait_gone("n1")
    assert exists(api, "n2")
    event = api.wait_event("n1", "DeletingNode")
    assert (event["type"], event["message"]) == \
        ("Normal", "Deleting node n1 because it does not exist in the cloud provider")
    about = event["involvedObject"]
    assert (about["apiVersion"], about["kind"], about["uid"]) == ("v1", "Node", before["uid"])
    assert event["source"]["component"] == "cloud-node-lifecycle-controller"
    (delete,) = [one for one in proxy.writes() if one.method == "DELETE"]
    assert delete.json()["preconditions"]["uid"] == before["uid"]


@pytest.mark.sanitized
def test_without_a_witness_nothing_is_deleted(api, fleet, inventory, ccmd):
    """A token of another project, or a wrong file, looks the same as a machine that is gone."""
    (n1,) = fleet("n1")
    ccmd(**FAST)
    inventory.remove("n1")
    n1.silent()
    event = api.wait_event("n1", "NodeDeletionHeld")
    assert event["type"] == "Warning" and "kubectl delete node n1" in event["message"]
    stays(api, "n1")
    held = api.events("n1", "NodeDeletionHeld")
    assert len(held) == 1 and held[0]["count"] == 1, "a lasting state is reported once"


def test_without_the_rule_no_witness_is_needed(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    ccmd("--node-delete-require-witness=false", **FAST)
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")


def test_without_the_guard_one_look_is_enough(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    ccmd("--node-delete-guard=false", node_monitor_period="100ms")
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")


def test_a_kubelet_that_renews_its_lease_keeps_the_node(api, fleet, inventory, ccmd):
    n1, _ = fleet("n1", "n2")
    n1.renew_lease()
    ccmd(**dict(FAST, node_delete_confirm_interval="2s"))
    n1.not_ready()
    alive = threading.Event()
    alive.set()

    def speak():
        while alive.is_set():
            n1.renew_lease()
            time.sleep(0.1)

    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        inventory.remove("n1")
        stays(api, "n1", seconds=4)
    finally:
        alive.clear()
        speaker.join()
    api.wait_gone("n1")


def test_a_node_without_provider_id_must_be_absent_for_long(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2", provider_id=None)
    n1.api.patch(f"{NODES}/n2", {"spec": {"providerID": inventory.provider_id("n2")}})
    ccmd(**FAST)
    removed = time.monotonic()
    inventory.remove("n1")
    n1.silent()
    event = api.wait_event("n1", "NodeDeletionHeld")
    assert "provider ID" in event["message"]
    api.wait_gone("n1")
    (delete,) = [one for one in proxy.writes() if one.method == "DELETE"]
    assert delete.at - removed >= 2.0


def test_too_many_deletions_wait_and_are_then_made_together(api, fleet, inventory, proxy, ccmd):
    names = [f"n{number}" for number in range(10)]
    kubelets = fleet(*names)
    gone = names[:4]
    for one in kubelets[:4]:
        one.silent()
    ccmd(**FAST)
    proxy.wait_watching()
    removed = time.monotonic()
    inventory.remove(*gone)  # so that one look finds all four gone: three by themselves would not be too many
    event = api.wait_event("n0", "NodeDeletionHeld")
    assert "kubectl delete node n0" in event["message"]
    for name in gone:
        api.wait_gone(name, timeout=15)
    deletes = [one for one in proxy.writes() if one.method == "DELETE"]
    assert len(deletes) == 4 and min(one.at for one in deletes) - removed >= 3.0
    assert max(one.at for one in deletes) - min(one.at for one in deletes) < 3.0
    assert all(exists(api, name) for name in names[4:])


def test_a_node_that_a_finalizer_holds_is_deleted_once(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    finalizers = lambda *names: api.patch(f"{NODES}/n1", {"metadata": {"finalizers": list(names) or None}}, MERGE)
    finalizers("example.com/hold")
    ccmd(**FAST)
    inventory.remove("n1")
    n1.silent()
    wait_for(lambda: "deletionTimestamp" in api.node("n1")["metadata"], what="the node to be marked")
    api.wait_event("n1", "DeletingNode")
    stays(api, "n1")
    marked = [one for one in proxy.requests("DELETE") if one.status]
    assert len(marked) <= 2, "more than one only if the watch was slower than a look"
    (event,) = api.events("n1", "DeletingNode")
    assert event["count"] == 1
    finalizers()
    api.wait_gone("n1")


@pytest.mark.sanitized
def test_a_node_re_created_before_the_deletion_stays(api, fleet, kubelet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")

    def re_create():
        n1.delete()
        kubelet("n1", initialized=True, provider_id="cloudlycke://m-new")

    inventory.add(machine("n1-new", "10.0.1.9", id="m-new"))
    rule = proxy.on("DELETE", NODE_PATH, meanwhile(re_create))
    ccmd(**FAST)
    inventory.remove("n1")
    n1.silent()
    rule.wait_hit()
    delete = proxy.wait_request(lambda request: request.method == "DELETE" and request.status)
    assert delete.status == 409
    stays(api, "n1")
    assert api.node("n1")["spec"]["providerID"] == "cloudlycke://m-new"


def test_a_restart_does_not_shorten_the_proof(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    inventory.remove("n1")
    n1.silent()
    for _ in range(4):
        one = ccmd(**dict(FAST, node_delete_confirm_interval="3s"))
        proxy.wait_watching(since=proxy.mark())
        stays(api, "n1", seconds=0.5)
        one.stop()
    assert [one for one in proxy.writes() if one.method == "DELETE"] == []
