"""A node registers; its machine is found in the cloud; what is known of the machine is written, then pods may come."""
import threading

import pytest

from lib.api import MERGE, NODES
from lib.ccmd import machine
from lib.faultproxy import (
    EVENTS_PATH, NODE_PATH, STATUS_PATH, answer, cut_body, cut_headers, lose_answer, meanwhile, reset,
)
from lib.nodes import (
    CLOUD_TAINT, UNINITIALIZED, addresses, create_many, is_initialized, numbered_ip, taint_keys,
)
from lib.wait import PATIENCE_S, holds_for, wait_for

TYPE = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

N1 = dict(type="vbox.vm.1g.2cpu", zone="z1", region="r1")


def initialized(api, name="n1"):
    return api.wait_node(name, is_initialized, what=f"{name} to be initialised")


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


@pytest.mark.parametrize("before_start", [True, False])
def test_nodes_that_were_there_and_nodes_that_come_later(api, kubelet, inventory, ccmd, before_start):
    inventory.add(machine("n1", "10.0.0.1"))
    if before_start:
        kubelet("n1")
    one = ccmd()
    if not before_start:
        one.wait_log(".")
        kubelet("n1")
    initialized(api)


@pytest.mark.parametrize(
    "taints",
    [
        [{"key": UNINITIALIZED, "value": "false", "effect": "NoSchedule"}],
        [{"key": UNINITIALIZED, "effect": "NoExecute"}],
        [{"key": UNINITIALIZED, "value": "x", "effect": "PreferNoSchedule"}],
        [CLOUD_TAINT, {"key": UNINITIALIZED, "effect": "NoExecute"}],
    ],
    ids=["another value", "another effect", "both", "twice"],
)
def test_the_taints_key_alone_decides(api, kubelet, inventory, ccmd, taints):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", initialized=True, taints=taints)
    ccmd()
    initialized(api)


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


def test_it_takes_two_writes_addresses_first(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", ("ExternalIP", "198.51.100.1"), **N1))
    kubelet("n1")
    ccmd()
    initialized(api)
    settled()
    first, second = proxy.writes(node="n1")
    assert (first.method, first.path, first.status) == ("PATCH", f"{NODES}/n1/status", 200)
    assert (second.method, second.path, second.status) == ("PATCH", f"{NODES}/n1", 200)
    assert second.json()["metadata"]["resourceVersion"], "so that taints of others are not lost"
    assert [one.method for one in proxy.requests() if one.method == "PUT"] == []


def test_it_takes_one_write_when_the_addresses_are_right(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", ("Hostname", "n1")))
    kubelet("n1", ip="10.0.0.1")
    ccmd()
    initialized(api)
    settled()
    (only,) = proxy.writes(node="n1")
    assert only.path == f"{NODES}/n1"


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


def test_pods_cannot_land_before_addresses_exist(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1", ("ExternalIP", "198.51.100.1")))
    kubelet("n1", addresses=[])
    states = []

    def watch():
        for _, node in api.watch(NODES, timeout=PATIENCE_S):
            states.append((is_initialized(node), bool(addresses(node)), bool(node["spec"].get("providerID"))))
            if is_initialized(node):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    wait_for(lambda: states, what="the watch")
    ccmd()
    watcher.join()
    assert states[-1] == (True, True, True)
    assert (False, True, False) in states, "addresses were there while the taint still was"


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


# --- provider ID ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["cloudlycke://m-1", "m-1"], ids=["whole", "bare"])
def test_a_provider_id_given_by_the_kubelet_stays(api, kubelet, inventory, proxy, ccmd, given):
    inventory.add(machine("other", "10.0.0.1", id="m-1", **N1))
    kubelet("n1", provider_id=given)
    ccmd()
    node = initialized(api)
    assert node["spec"]["providerID"] == given and node["metadata"]["labels"][ZONE[0]] == "z1"
    assert all("providerID" not in write.json().get("spec", {}) for write in proxy.writes(node="n1"))


@pytest.mark.parametrize(
    "found_by", [{"name": "n1"}, {"name": "x", "aliases": ["y", "n1"]}, {"name": "x", "hostname": "n1"}],
    ids=["name", "alias", "Hostname address"],
)
def test_a_machine_is_found_by_name(api, kubelet, inventory, ccmd, found_by):
    hostname = [("Hostname", found_by["hostname"])] if "hostname" in found_by else []
    inventory.add(machine(found_by["name"], "10.0.0.1", *hostname, id="m-1", aliases=found_by.get("aliases")))
    kubelet("n1")
    ccmd()
    assert initialized(api)["spec"]["providerID"] == "cloudlycke://m-1"


def test_names_are_case_sensitive_and_exact(api, kubelet, inventory, ccmd, settled):
    inventory.add(machine("n1.example.com", "10.0.0.1"))
    kubelet("n1")
    ccmd()
    settled()
    assert not is_initialized(api.node("n1"))


def test_several_machines_of_one_name_are_no_answer(api, kubelet, inventory, ccmd, settled):
    inventory.add(machine("x", "10.0.0.1", ("Hostname", "n1")), machine("y", "10.0.0.2", ("Hostname", "n1")))
    kubelet("n1")
    ccmd()
    event = api.wait_event("n1", "FailedToInitializeNode")
    assert event["type"] == "Warning" and "matches several machines" in event["message"]
    assert not is_initialized(api.node("n1"))


def test_a_foreign_provider_id_is_left_alone(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", provider_id="aws:///eu-west-1a/i-0123")
    ccmd()
    settled()
    assert not is_initialized(api.node("n1")) and proxy.writes(node="n1") == []


def test_two_nodes_with_one_provider_id_are_both_unknown(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", id="m-1"))
    kubelet("n1", provider_id="cloudlycke://m-1")
    kubelet("n2", provider_id="cloudlycke://m-1")
    ccmd()
    event = wait_for(lambda: api.events(reason="DuplicateProviderID"), what="an event")[0]
    assert event["type"] == "Warning" and "cloudlycke://m-1" in event["message"]
    settled()
    assert proxy.writes(node="n1") == [] and proxy.writes(node="n2") == []
    assert not is_initialized(api.node("n1")) and not is_initialized(api.node("n2"))


# --- labels --------------------------------------------------------------------------------------------------------------


def test_the_clouds_type_zone_and_region_override(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1", **N1))
    kubelet("n1", labels={TYPE[0]: "old", ZONE[1]: "old", REGION[0]: "old"})
    ccmd()
    labels = initialized(api)["metadata"]["labels"]
    assert [labels[key] for key in TYPE + ZONE + REGION] == ["vbox.vm.1g.2cpu"] * 2 + ["z1"] * 2 + ["r1"] * 2


def test_labels_that_the_cloud_does_not_know_stay(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1", region="r1"))
    kubelet("n1", labels={ZONE[1]: "mine"})
    ccmd()
    labels = initialized(api)["metadata"]["labels"]
    assert labels[ZONE[1]] == "mine" and ZONE[0] not in labels
    assert TYPE[0] not in labels and TYPE[1] not in labels
    assert labels[REGION[0]] == labels[REGION[1]] == "r1"


def test_additional_labels_neither_override_nor_enter_kubernetes_domains(api, kubelet, inventory, ccmd):
    inventory.add(
        machine("n1", "10.0.0.1", labels={
            "example.com/rack": "r1", "taken": "cloud", "same": "both", "app.k8snio/x": "a", "mykubernetes.io/x": "b",
            "topology.k8s.cp/x": "c", "plain": "", "node.kubernetes.io/custom": "refused",
        })
    )
    kubelet("n1", labels={"taken": "user", "same": "both"})
    ccmd()
    labels = initialized(api)["metadata"]["labels"]
    assert labels["taken"] == "user" and labels["same"] == "both"
    assert [labels[key] for key in ("example.com/rack", "app.k8snio/x", "mykubernetes.io/x", "topology.k8s.cp/x", "plain")] == \
        ["r1", "a", "b", "c", ""]
    assert "node.kubernetes.io/custom" not in labels


PAIRS = [ZONE, REGION, TYPE]


@pytest.mark.parametrize("beta,ga", PAIRS, ids=["zone", "region", "type"])
def test_ga_labels_follow_beta_ones(api, kubelet, inventory, proxy, ccmd, beta, ga):
    inventory.add(machine("n1", "10.0.0.1"))
    one = kubelet("n1", initialized=True, labels={beta: "a"})
    ccmd()
    api.wait_node("n1", lambda node: node["metadata"]["labels"].get(ga) == "a")
    one.set_labels(**{beta: "b"})
    api.wait_node("n1", lambda node: node["metadata"]["labels"].get(ga) == "b")
    one.set_labels(**{ga: "c"})
    api.wait_node("n1", lambda node: node["metadata"]["labels"].get(ga) == "b")
    writes = [write.json() for write in proxy.writes(node="n1") if not write.path.endswith("/status")]
    assert [write["metadata"]["labels"] for write in writes] == [{ga: "a"}, {ga: "b"}, {ga: "b"}]


def test_beta_labels_do_not_follow_ga_ones(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"))
    one = kubelet("n1", initialized=True, labels={ga: "a" for _, ga in PAIRS})
    ccmd()
    settled()
    one.set_labels(**{ZONE[1]: "b"})
    settled()
    assert [write for write in proxy.writes(node="n1") if not write.path.endswith("/status")] == []


# --- addresses -----------------------------------------------------------------------------------------------------------

CLOUD = [("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2"), ("InternalIP", "fd00::2"), ("ExternalIP", "198.51.100.1"),
         ("ExternalIP", "2001:db8::1"), ("InternalDNS", "n1.lab.example")]
HOSTNAME = ("Hostname", "n1")
REST = CLOUD[3:] + [HOSTNAME]


@pytest.mark.parametrize(
    "annotation,expected",
    [
        (None, CLOUD + [HOSTNAME]),
        ("10.0.0.2", [("InternalIP", "10.0.0.2")] + REST),
        ("fd00::2", [("InternalIP", "fd00::2")] + REST),
        ("fd00:0:0::0002", [("InternalIP", "fd00::2")] + REST),
        ("::ffff:10.0.0.2", [("InternalIP", "10.0.0.2")] + REST),
        ("010.000.000.002", [("InternalIP", "10.0.0.2")] + REST),
        ("fd00::2,10.0.0.1", [("InternalIP", "fd00::2"), ("InternalIP", "10.0.0.1")] + REST),
        ("10.0.0.1,fd00::2", [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::2")] + REST),
        ("198.51.100.1", [("ExternalIP", "198.51.100.1")] + CLOUD[:3] + CLOUD[5:] + [HOSTNAME]),
        ("10.0.0.2,2001:db8::1", [("InternalIP", "10.0.0.2"), ("ExternalIP", "2001:db8::1")] + CLOUD[5:] + [HOSTNAME]),
    ],
)
def test_the_provided_node_ip_is_enforced(api, kubelet, inventory, ccmd, annotation, expected):
    inventory.add(machine("n1", *CLOUD))
    kubelet("n1", provided_node_ip=annotation)
    ccmd()
    assert addresses(initialized(api)) == expected


@pytest.mark.parametrize(
    "annotation,why",
    [
        ("", 'could not parse ""'),
        ("nonsense", 'could not parse "nonsense"'),
        ("10.0.0.1, fd00::2", 'could not parse " fd00::2"'),
        ("10.0.0.1,10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"),
        ("10.0.0.1,::ffff:10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"),
        ("10.0.0.1,fd00::2,10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"),
        ("0.0.0.0,fd00::2", "dual-stack node IP cannot include '0.0.0.0' or '::'"),
        ("10.9.9.9", "failed to get node address from cloud provider that matches ip: 10.9.9.9"),
        ("::", "failed to get node address from cloud provider that matches ip: ::"),
    ],
)
def test_an_invalid_node_ip_blocks_with_a_reason(api, kubelet, inventory, proxy, ccmd, annotation, why):
    inventory.add(machine("n1", *CLOUD))
    one = kubelet("n1", provided_node_ip=annotation)
    ccmd()
    event = api.wait_event("n1", "FailedToInitializeNode")
    assert event["type"] == "Warning" and why in event["message"], event["message"]
    assert proxy.writes(node="n1") == [] and not is_initialized(one.node)
    fixed = {"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1"}}}
    api.patch(f"{NODES}/n1", fixed, MERGE)
    initialized(api)


def test_with_a_provided_ip_a_machine_without_addresses_blocks(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1"))
    kubelet("n1", provided_node_ip="10.0.0.1")
    ccmd()
    api.wait_event("n1", "FailedToInitializeNode")
    assert not is_initialized(api.node("n1"))


def test_without_a_provided_ip_the_kubelets_addresses_stay(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1"))
    kubelet("n1", ip="10.0.0.1")
    ccmd()
    assert addresses(initialized(api)) == [("InternalIP", "10.0.0.1"), ("Hostname", "n1")]
    settled()
    assert len(proxy.writes(node="n1")) == 1


@pytest.mark.parametrize(
    "cloud", [["fd00::1"], ["10.0.0.1", "fd00::1"], ["fd00::1", "10.0.0.1"], ["10.0.0.1", "10.0.0.2"]],
    ids=["IPv6 only", "dual-stack", "dual-stack, IPv6 first", "two of a kind"],
)
def test_families_and_their_order(api, kubelet, inventory, ccmd, cloud):
    inventory.add(machine("n1", *cloud))
    kubelet("n1", addresses=[("InternalIP", "192.0.2.9"), HOSTNAME])
    ccmd()
    assert addresses(initialized(api)) == [("InternalIP", one) for one in cloud] + [HOSTNAME]


def test_the_clouds_hostname_replaces_the_kubelets(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", ("Hostname", "n1.lab.example"), "10.0.0.1"))
    kubelet("n1")
    ccmd()
    assert addresses(initialized(api)) == [("Hostname", "n1.lab.example"), ("InternalIP", "10.0.0.1")]


def test_a_hostname_of_the_kubelet_is_kept_at_the_end(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", addresses=[("Hostname", "kept.example"), ("InternalIP", "10.0.0.9"), ("ExternalDNS", "stale.example")])
    ccmd()
    assert addresses(initialized(api)) == [("InternalIP", "10.0.0.1"), ("Hostname", "kept.example")]


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


def test_a_machine_that_cannot_be_asked_for_a_while(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1", fault="rack on fire"))
    kubelet("n1")
    one = ccmd()
    one.wait_log("rack on fire")
    settled()
    assert proxy.writes(node="n1") == []
    inventory.fault("n1", None)
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
    proxy.on("PATCH", STATUS_PATH, meanwhile(one.delete), when=lambda request: "/n1/" in request.path)
    ccmd()
    # when it is answered, the node is deleted
    write = proxy.wait_request(lambda request: request.method == "PATCH" and "/n1/" in request.path and request.status)
    assert write.status == 404
    settled()
    assert api.get_or_none(f"{NODES}/n1") is None and api.events("n1") == []


@pytest.mark.plain
def test_many_nodes_together(api, inventory, proxy, ccmd):
    names = create_many(api, 300, prefix="many")
    inventory.add(*(machine(name, numbered_ip(number), ("ExternalIP", f"198.51.{number // 250}.{number % 250}"), **N1)
                    for number, name in enumerate(names)))
    ccmd()
    wait_for(lambda: all(is_initialized(node) for node in api.list(NODES)), 300, "300 nodes to be initialised", poll=0.2)
    writes = proxy.writes()
    assert len(writes) <= 2 * 300 + 10, "two writes a node, and a rare conflict"
    wait_for(lambda: len(api.events(kind="Node")) >= 300, 120, "an event for each", poll=0.2)
    assert {event["reason"] for event in api.events(kind="Node")} == {"Synced"}


FAULTS = {
    "reset": reset, "answer lost": lose_answer, "500": lambda: answer(500), "429": lambda: answer(429, headers={"Retry-After": "1"}),
    "cut in headers": cut_headers, "cut in body": lambda: cut_body(30),
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
        node = initialized(api, name)
        wait_for(lambda: api.events(name, "Synced") or rule.hits, what="the event")
        program.stop()
        assert addresses(node) == [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("ExternalIP", "198.51.100.1"),
                                   ("Hostname", name)]
        assert "stays" in taint_keys(node) and node["metadata"]["labels"]["a"] == "b"
        one.delete()
        if not rule.hits:
            break  # fewer requests than n: every one of them has failed once
        assert all(request.method != "DELETE" for request in proxy.requests(since=mark))
    assert n > 4, "list, watch, two writes and an event at least"


def test_an_event_that_cannot_be_written_holds_nothing_up(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    proxy.on("POST", EVENTS_PATH, answer(403), times=None)
    kubelet("n1")
    ccmd()
    initialized(api)
    kubelet("n2")
    initialized(api, "n2")


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
