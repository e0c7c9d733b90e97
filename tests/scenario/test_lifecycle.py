"""Machines are switched off, come back, and are destroyed; their nodes follow, but only on proof."""
import threading
import time
from datetime import datetime

import pytest

from lib.api import MERGE, NODES
from lib.ccmd import FAST, machine
from lib.faultproxy import NODE_PATH, answer, meanwhile
from lib.nodes import SHUTDOWN, UNINITIALIZED, taint_keys
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


def own_taints(node):
    """Without those that the API server sets on its own."""
    return [taint for taint in node["spec"].get("taints", []) if not taint["key"].startswith("node.kubernetes.io/")]


# --- off and on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", ["off", "suspended"])
@pytest.mark.sanitized
def test_a_machine_that_is_off_taints_its_node_until_it_is_ready_again(api, fleet, inventory, ccmd, settled, power):
    (n1,) = fleet("n1", taints=[{"key": "stays", "value": "x", "effect": "NoExecute", "timeAdded": "2024-01-02T03:04:05Z"}])
    before = n1.node["spec"]["taints"]
    ccmd(**FAST)
    inventory.power("n1", power)
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


def test_every_taint_of_that_key_and_effect_goes(api, fleet, ccmd):
    (n1,) = fleet("n1")
    n1.set_taints([dict(SHUTDOWN_TAINT, value="x"), {"key": SHUTDOWN, "effect": "NoExecute"}])
    ccmd(**FAST)
    api.wait_node("n1", lambda node: own_taints(node) == [{"key": SHUTDOWN, "effect": "NoExecute"}]
                  or node["spec"].get("taints") == [{"key": SHUTDOWN, "effect": "NoExecute"}])


def test_an_existing_taint_is_not_written_again(api, fleet, inventory, proxy, ccmd):
    (n1,) = fleet("n1")
    inventory.power("n1", "off")
    n1.silent()
    ccmd(**FAST)
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
    holds_for(lambda: len(proxy.writes()) == 1, QUIET_S, "one write")
    (write,) = proxy.writes()
    assert write.method == "PATCH" and write.json()["metadata"]["resourceVersion"]


def test_a_taint_that_differs_is_replaced(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    n1.set_taints([dict(SHUTDOWN_TAINT, value="wrong"), {"key": "stays", "effect": "NoSchedule"}])
    inventory.power("n1", "off")
    n1.silent()
    ccmd(**FAST)
    api.wait_node("n1", lambda node: SHUTDOWN_TAINT in node["spec"]["taints"])
    assert taint_keys(n1.node).count(SHUTDOWN) == 1 and "stays" in taint_keys(n1.node)


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


def test_a_machine_of_unknown_power_changes_nothing(api, fleet, inventory, proxy, ccmd, settled):
    n1, _ = fleet("n1", "n2")
    inventory.power("n1", "unknown")
    n1.silent()
    ccmd(**FAST)
    settled()
    stays(api, "n1")
    assert proxy.writes(node="n1") == []


def test_nodes_that_are_ready_cost_no_request(api, fleet, proxy, ccmd, settled):
    fleet("n1", "n2")
    ccmd(**FAST)
    settled()
    mark = proxy.mark()
    holds_for(lambda: proxy.requests(since=mark) == [] or all(r.is_event or r.is_watch for r in proxy.requests(since=mark)),
              1.0, "no request")


# --- deletion ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "terminated"])
@pytest.mark.parametrize("ready", ["silent", "not_ready"])
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
    delete = proxy.deletion()
    assert delete.json()["preconditions"]["uid"] == before["uid"]


def test_a_ready_node_is_never_deleted(api, fleet, inventory, ccmd, settled):
    fleet("n1", "n2")
    ccmd(**FAST)
    inventory.remove("n1")
    settled()
    stays(api, "n1")
    assert api.events("n1") == []


def test_it_takes_two_looks_some_time_apart(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    ccmd(**dict(FAST, node_delete_confirm_interval="2s"))
    n1.silent()
    proxy.wait_watching()
    removed = time.monotonic()
    inventory.remove("n1")
    api.wait_gone("n1")
    delete = proxy.deletion()
    assert delete.at - removed >= 2.0


def test_a_machine_that_was_missing_for_a_moment_saves_its_node(api, fleet, inventory, scraped):
    """The count starts again each time that the machine is found."""
    confirm_s = 15  # in which the machine surely comes back
    n1, _ = fleet("n1", "n2")
    entry = dict(inventory.find("n1"))
    _, scrape, _ = scraped(**dict(FAST, node_delete_confirm_interval=f"{confirm_s}s"))

    def wait_check(result):
        def checks():
            calls = "cloud_node_lifecycle_controller_cloud_provider_calls_total"
            return scrape().value(calls, operation="instance_exists", result=result) or 0

        before = checks()
        wait_for(lambda: checks() > before, what=f"a check with the result {result}")

    n1.silent()
    inventory.remove("n1")
    wait_check("instance_not_found")
    missed = time.monotonic()
    while time.monotonic() - missed < confirm_s + QUIET_S:
        inventory.add(entry)
        wait_check("success")
        inventory.remove("n1")
        wait_check("instance_not_found")
        assert exists(api, "n1")


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


def test_an_inventory_emptied_by_mistake_deletes_nothing(api, fleet, inventory, ccmd):
    kubelets = fleet("n1", "n2", "n3")
    ccmd(**FAST)
    inventory.remove("n1", "n2", "n3", "sentinel")
    for one in kubelets:
        one.silent()
    for one in kubelets:
        api.wait_event(one.name, "NodeDeletionHeld")
    stays(api, "n1", "n2", "n3")


def test_without_the_rule_no_witness_is_needed(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    ccmd("--node-delete-require-witness=false", **FAST)
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")


def test_without_the_guard_one_look_is_enough(api, fleet, inventory, ccmd):
    (n1,) = fleet("n1")
    ccmd("--node-delete-guard=false", node_monitor_period="100ms", node_delete_min_age="1h", node_delete_confirm_interval="1h")
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")


@pytest.mark.parametrize("sign", ["renew_lease", "heartbeat"])
def test_heartbeats_keep_the_node(api, fleet, inventory, ccmd, sign):
    n1, _ = fleet("n1", "n2")
    n1.renew_lease()
    ccmd(**dict(FAST, node_delete_confirm_interval="10s"))  # in which the kubelet surely speaks
    n1.not_ready()
    alive = threading.Event()
    alive.set()

    def speak():
        while alive.is_set():
            if sign == "heartbeat":
                n1.heartbeat()
            else:
                n1.renew_lease()
            time.sleep(0.1)

    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        inventory.remove("n1")
        stays(api, "n1", seconds=12)
    finally:
        alive.clear()
        speaker.join()
    api.wait_gone("n1")


def test_a_lease_that_cannot_be_read_says_nothing(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    n1.renew_lease()
    proxy.on("GET", "/leases/", answer(403), times=None)
    ccmd(**FAST)
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")


def test_a_young_node_waits(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    born = datetime.fromisoformat(api.node("n1")["metadata"]["creationTimestamp"]).timestamp()
    ccmd(**dict(FAST, node_delete_min_age="4s"))
    inventory.remove("n1")
    n1.silent()
    api.wait_gone("n1")
    delete = proxy.deletion()
    assert delete.at - time.monotonic() + time.time() - born >= 4


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
    delete = proxy.deletion()
    assert delete.at - removed >= 2.0


def test_nodes_that_were_never_initialised_are_deleted_too(api, kubelet, fleet, inventory, ccmd):
    fleet("n2")
    n1 = kubelet("n1", provider_id="cloudlycke://m-gone")
    ccmd(**FAST)
    n1.silent()
    api.wait_gone("n1")


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
        api.wait_gone(name)
    deletes = [proxy.deletion(name) for name in gone]
    assert min(one.at for one in deletes) - removed >= 3.0
    assert max(one.at for one in deletes) - min(one.at for one in deletes) < 3.0
    assert all(exists(api, name) for name in names[4:])


def test_a_few_deletions_do_not_wait(api, fleet, inventory, proxy, ccmd):
    names = [f"n{number}" for number in range(5)]
    kubelets = fleet(*names)
    ccmd(**dict(FAST, node_delete_breaker_agree="1h"))
    inventory.remove(*names[:3])
    for one in kubelets[:3]:
        one.silent()
    for name in names[:3]:
        api.wait_gone(name)


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_announced_nodes_do_not_wait_for_the_others(api, fleet, inventory, ccmd, key):
    names = [f"n{number}" for number in range(10)]
    kubelets = fleet(*names, taints=[{"key": key, "value": "1", "effect": "NoSchedule"}])
    ccmd(**dict(FAST, node_delete_breaker_agree="1h"))
    inventory.remove(*names[:6])
    for one in kubelets[:6]:
        one.silent()
    for name in names[:6]:
        api.wait_gone(name)


@pytest.mark.parametrize("why", ["fault", "unknownMachines"])
def test_an_unknown_answer_of_the_cloud_deletes_nothing(api, fleet, inventory, proxy, ccmd, why):
    n1, _ = fleet("n1", "n2")
    if why == "fault":
        inventory.fault("n1", "no answer")
    else:
        inventory.content["cloud"] = {"unknownMachines": "error"}
        inventory.remove("n1")
    n1.silent()
    ccmd(**FAST)
    proxy.wait_watching()
    stays(api, "n1")
    assert proxy.writes() == []


@pytest.mark.sanitized
def test_a_foreign_node_is_never_deleted(api, kubelet, fleet, ccmd):
    fleet("n2")
    n1 = kubelet("n1", initialized=True, provider_id="hcloud://4711")
    n1.silent()
    ccmd(**FAST)
    event = api.wait_event("n1", "ForeignProviderID")
    assert event["type"] == "Warning" and "hcloud://4711" in event["message"]
    stays(api, "n1")
    assert len(api.events("n1")) == 1


def test_two_nodes_of_one_machine_are_not_deleted(api, kubelet, fleet, ccmd):
    fleet("n3")
    n1 = kubelet("n1", initialized=True, provider_id="cloudlycke://m-gone")
    n2 = kubelet("n2", initialized=True, provider_id="cloudlycke://m-gone")
    n1.silent()
    n2.silent()
    ccmd(**FAST)
    wait_for(lambda: api.events(reason="DuplicateProviderID"), what="the event")
    stays(api, "n1", "n2")


@pytest.mark.sanitized
def test_a_refused_deletion_is_reported_and_repeated(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    proxy.on("DELETE", NODE_PATH, answer(403, message="not today"), times=1)
    ccmd(**FAST)
    inventory.remove("n1")
    n1.silent()
    event = api.wait_event("n1", "DeletingNodeFailed")
    assert event["type"] == "Warning" and event["message"].startswith("Failed deleting node n1: ")
    assert "not today" in event["message"]
    api.wait_gone("n1")


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
    marked = [one.status for one in proxy.requests("DELETE") if one.status]
    assert len(marked) <= 2, "more than one only if the watch was slower than a look"
    assert marked.count(200) == 1
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


def test_a_node_that_comes_back_to_life_stays(api, fleet, inventory, ccmd):
    n1, _ = fleet("n1", "n2")
    ccmd(**dict(FAST, node_delete_confirm_interval="10s"))
    inventory.remove("n1")
    n1.silent()
    stays(api, "n1", seconds=0.7)
    n1.ready()
    stays(api, "n1", seconds=11)


def test_a_restart_does_not_shorten_the_proof(api, fleet, inventory, proxy, ccmd):
    n1, _ = fleet("n1", "n2")
    inventory.remove("n1")
    n1.silent()
    for _ in range(4):
        mark = proxy.mark()
        one = ccmd(**dict(FAST, node_delete_confirm_interval="3s"))
        proxy.wait_watching(since=mark)
        stays(api, "n1", seconds=0.5)
        one.stop()
    assert [one for one in proxy.writes() if one.method == "DELETE"] == []


def test_the_inventorys_own_guard_refuses_mass_removals(api, fleet, inventory, ccmd, settled):
    kubelets = fleet("n1", "n2", "n3", "n4")
    inventory.content["reload"]["maxRemoval"] = "50%"
    inventory.write()
    one = ccmd(**FAST)
    settled()
    inventory.remove("n1", "n2", "n3")
    one.wait_log(r"would remove 3 of 5 machines")
    for each in kubelets:
        each.silent()
    stays(api, "n1", "n2", "n3", "n4")
    inventory.content["reload"]["maxRemoval"] = "100%"
    inventory.write()
    for name in ("n1", "n2", "n3"):
        api.wait_gone(name)


def test_a_node_with_the_cloud_taint_gets_the_shutdown_taint_too(api, kubelet, fleet, inventory, ccmd):
    fleet("n2")
    inventory.add(machine("n1", "10.0.0.1", id="m-1", power="off", fault=None))
    n1 = kubelet("n1", provider_id="cloudlycke://m-1", provided_node_ip="10.9.9.9")  # which keeps it uninitialised
    n1.silent()
    ccmd(**FAST)
    node = api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
    assert UNINITIALIZED in taint_keys(node)
