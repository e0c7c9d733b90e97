"""A node registers; its machine is found in the cloud; what is known of the machine is written, then pods may come.

tests/controllers/node/ has which requests are sent, and what they say. Here is what a real API server makes of them."""
import pytest

from lib.api import MERGE, NODES
from lib.ccmd import machine
from lib.faultproxy import NODE_PATH, STATUS_PATH, answer, cut_body, lose_answer, meanwhile
from lib.nodes import UNINITIALIZED, addresses, is_initialized, taint_keys
from lib.wait import holds_for, wait_for

TYPE = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

N1 = dict(type="vbox.vm.1g.2cpu", zone="z1", region="r1")


def initialized(api, name="n1", timeout=10):
    return api.wait_node(name, is_initialized, timeout, f"{name} to be initialised")


# --- what is written -----------------------------------------------------------------------------------------------------


def test_a_node_gets_all_that_is_known_of_its_machine(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1", ("ExternalIP", "198.51.100.1"), id="m-1", labels={"example.com/rack": "r7"}, **N1))
    kubelet("n1", ip="10.0.0.1", real_sized=True)
    ccmd()
    node = initialized(api)
    assert node["spec"]["providerID"] == "cloudlycke://m-1"
    assert addresses(node) == [("InternalIP", "10.0.0.1"), ("ExternalIP", "198.51.100.1"), ("Hostname", "n1")]
    labels = node["metadata"]["labels"]
    assert [labels[key] for key in TYPE + ZONE + REGION] == ["vbox.vm.1g.2cpu"] * 2 + ["z1"] * 2 + ["r1"] * 2
    assert labels["example.com/rack"] == "r7"
    assert labels["kubernetes.io/hostname"] == "n1", "the kubelet's labels stay"
    assert len(node["status"]["images"]) == 50 and len(node["status"]["conditions"]) == 4, "and so does its status"


def test_other_taints_survive_as_they_are(api, kubelet, inventory, ccmd):
    others = [
        {"key": "example.com/a", "effect": "NoExecute", "timeAdded": "2024-01-02T03:04:05Z"},
        {"key": "example.com/b", "value": "v", "effect": "PreferNoSchedule"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized-not", "effect": "NoSchedule"},
    ]
    inventory.add(machine("n1", "10.0.0.1"))
    before = kubelet("n1", taints=others).node["spec"]["taints"]
    ccmd()
    after = initialized(api)["spec"]["taints"]
    assert after == [taint for taint in before if taint["key"] != UNINITIALIZED]
    assert [taint for taint in after if taint["key"].startswith("example.com/")] == others[:2]


def test_a_node_without_the_taint_is_left_alone(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", **N1))
    before = kubelet("n1", initialized=True, labels={ZONE[1]: "kept"}).node
    ccmd()
    settled()
    assert [w for w in proxy.writes(node="n1") if not w.path.endswith("/status")] == []
    after = api.node("n1")
    assert after["metadata"]["labels"] == before["metadata"]["labels"] and "providerID" not in after["spec"]


# --- how it is written ---------------------------------------------------------------------------------------------------


def test_all_writes_pass_strict_validation(api, kubelet, inventory, proxy, ccmd):
    """Sent again as they were, with fieldValidation=Strict, the API server has nothing to say against them."""
    inventory.add(machine("n1", "10.0.0.1", "fd00::1", labels={"a": "b"}, **N1))
    kubelet("n1")
    ccmd()
    initialized(api)
    for write in proxy.writes(node="n1"):
        body = write.json()
        body.get("metadata", {}).pop("resourceVersion", None)
        answer = api.request("PATCH", write.path, body, content_type=write.headers["content-type"],
                             query={"fieldValidation": "Strict", "dryRun": "All"})
        assert answer.status == 200 and "Warning" not in answer.headers, answer.body


def test_a_second_run_changes_nothing(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", "fd00::1", labels={"a": "b"}, **N1))
    kubelet("n1")
    first = ccmd()
    before = initialized(api)
    settled()
    first.stop()
    mark = proxy.mark()
    ccmd()
    settled()
    assert proxy.writes(node="n1", since=mark) == []
    assert api.node("n1")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert len(api.events("n1", "Synced")) == 1


def test_one_event_reports_the_initialisation(api, kubelet, inventory, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"))
    node = kubelet("n1").node
    ccmd()
    event = api.wait_event("n1", "Synced")
    assert (event["type"], event["message"], event["count"]) == ("Normal", "Node synced successfully", 1)
    assert event["metadata"]["namespace"] == "default" and event["metadata"]["name"].startswith("n1.")
    about = event["involvedObject"]
    assert (about["apiVersion"], about["kind"], about["name"], about["uid"]) == ("v1", "Node", "n1", node["metadata"]["uid"])
    assert "namespace" not in about
    assert event["source"]["component"] == "cloud-node-controller" == event["reportingComponent"]
    assert event["firstTimestamp"] == event["lastTimestamp"]
    settled()
    assert len(api.events("n1")) == 1


# --- addresses -----------------------------------------------------------------------------------------------------------

HOSTNAME = ("Hostname", "n1")


def test_an_invalid_node_ip_blocks_with_a_reason(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.1"))
    one = kubelet("n1", provided_node_ip="10.9.9.9")
    ccmd()
    event = api.wait_event("n1", "FailedToInitializeNode")
    why = "failed to get node address from cloud provider that matches ip: 10.9.9.9"
    assert event["type"] == "Warning" and why in event["message"], event["message"]
    assert proxy.writes(node="n1") == [] and not is_initialized(one.node)
    fixed = {"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1"}}}
    api.patch(f"{NODES}/n1", fixed, MERGE)
    initialized(api)


def test_a_node_that_reported_no_address_yet(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1", "fd00::1"))
    kubelet("n1", addresses=[])
    ccmd()
    assert addresses(initialized(api)) == [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1")]


# --- what goes wrong -----------------------------------------------------------------------------------------------------


def test_a_machine_that_comes_later(api, kubelet, inventory, ccmd, settled):
    kubelet("n1")
    ccmd()
    settled()
    assert not is_initialized(api.node("n1"))
    inventory.add(machine("n1", "10.0.0.1"))
    initialized(api)


def test_a_taint_set_between_look_and_write_survives(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.1", ("ExternalIP", "198.51.100.1")))
    one = kubelet("n1")
    added = {"key": "example.com/late", "value": "x", "effect": "NoSchedule"}
    proxy.on("PATCH", NODE_PATH, meanwhile(lambda: one.set_taints(one.node["spec"]["taints"] + [added])))
    ccmd()
    assert added in initialized(api)["spec"]["taints"]
    answers = lambda: [write.status for write in proxy.writes(node="n1") if not write.path.endswith("/status")]
    wait_for(lambda: None not in answers(), what="the answers")  # the watch may be faster
    assert answers() == [409, 200]


@pytest.mark.parametrize("write", [STATUS_PATH, NODE_PATH], ids=["before the addresses", "before the rest"])
def test_a_node_re_created_between_look_and_write(api, kubelet, inventory, proxy, ccmd, settled, write):
    """The new node, of the same name, gets what fits it; the old one's data does not end up on it."""
    inventory.add(machine("n1", "10.0.0.1", "10.0.0.2"), machine("n1-other", "10.9.9.9", id="m-2"))
    old = kubelet("n1", ip="192.0.2.1", provided_node_ip="10.0.0.1")
    before = old.node["metadata"]["uid"]

    def re_create():
        old.delete()
        kubelet("n1", ip="192.0.2.1", provided_node_ip="10.0.0.2")

    proxy.on("PATCH", write, meanwhile(re_create))
    ccmd()
    node = api.wait_node("n1", lambda node: node["metadata"]["uid"] != before and is_initialized(node))
    assert addresses(node) == [("InternalIP", "10.0.0.2"), HOSTNAME]
    wait_for(lambda: api.events("n1", "Synced"), what="the event")
    settled()
    assert [event["involvedObject"]["uid"] for event in api.events("n1", "Synced")] == [node["metadata"]["uid"]]


def test_a_node_deleted_between_look_and_write(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"))
    one = kubelet("n1", ip="192.0.2.1")
    rule = proxy.on("PATCH", STATUS_PATH, meanwhile(one.delete), when=lambda request: "/n1/" in request.path)
    ccmd()
    rule.wait_hit()
    settled()
    assert api.get_or_none(f"{NODES}/n1") is None and api.events("n1") == []


FAULTS = {
    "answer lost": lose_answer, "500": lambda: answer(500), "429": lambda: answer(429, headers={"Retry-After": "1"}),
    "cut in body": lambda: cut_body(30),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_request_fails_the_node_is_initialised(api, kubelet, inventory, proxy, ccmd, fault):
    """Fails the n-th request for every n, each time with a new ccmd and a new node."""
    for n in range(1, 30):
        name = f"n{n}"
        inventory.add(machine(name, "10.0.0.1", "fd00::1", ("ExternalIP", "198.51.100.1"), labels={"a": "b"}, **N1))
        one = kubelet(name, taints=[{"key": "stays", "effect": "NoSchedule"}])
        mark = proxy.mark()
        proxy.clear()
        rule = proxy.fail_nth(n, FAULTS[fault]())
        program = ccmd()
        node = initialized(api, name, timeout=20)
        wait_for(lambda: api.events(name, "Synced") or rule.hits, 20, "the event")
        program.stop()
        assert addresses(node) == [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("ExternalIP", "198.51.100.1"),
                                   ("Hostname", name)]
        assert "stays" in taint_keys(node) and node["metadata"]["labels"]["a"] == "b"
        one.delete()
        if not rule.hits:
            break  # fewer requests than n: every one of them has failed once
        assert all(request.method != "DELETE" for request in proxy.requests(since=mark))
    assert n > 4, "list, watch, two writes and an event at least"


def test_nothing_is_written_at_rest(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", "fd00::1", **N1))
    one = kubelet("n1", lease=True)
    ccmd(node_monitor_period="100ms", node_status_update_frequency="100ms")
    initialized(api)
    settled()
    wait_for(lambda: api.events("sentinel", "Synced"), what="the last event")
    mark = proxy.mark()

    def quiet():
        return proxy.writes(events=True, since=mark) == []

    holds_for(quiet, 1.0, "no write")
    one.ready()
    holds_for(quiet, 0.5, "no write after a heartbeat")
