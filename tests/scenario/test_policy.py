"""The admission policy, deploy/policy.yaml: what the role permits and the policy refuses. Every scenario runs under both."""
import pytest

from lib.api import JSON_PATCH, MERGE, NODES, STRATEGIC, ApiError
from lib.nodes import SHUTDOWN, UNINITIALIZED, conditions
from lib.services import FINALIZER, path
from lib.wait import wait_for

pytestmark = pytest.mark.plain

ZONE = "topology.kubernetes.io/zone"
OTHER_TAINT = {"key": "example.com/dedicated", "effect": "NoSchedule"}


@pytest.fixture(scope="module", autouse=True)
def skip_where_the_api_is_missing(cluster):
    if cluster.version == "1.28":
        pytest.skip("Kubernetes 1.28 has no such API")


@pytest.fixture
def account(cluster, api, kubelet):
    """A client with ccmd's credentials, of a cluster in which the policy is in force."""
    kubelet("probe", initialized=True)
    one = cluster.api(pair=cluster.ccmd_pair)

    def is_in_force():
        try:
            one.patch(f"{NODES}/probe", {"metadata": {"annotations": {"example.com/probe": "1"}}})
        except ApiError as refusal:
            return "ValidatingAdmissionPolicy" in str(refusal)
        api.patch(f"{NODES}/probe", {"metadata": {"annotations": {"example.com/probe": None}}})
        return False

    wait_for(is_in_force, what="the policy to be in force")
    return one


def metadata(**members):
    return {"metadata": members}


# for new nodes and those that are initialised: what ccmd sends
NODE_WRITES = {
    "labels of the cloud": metadata(labels={ZONE: "z2", "beta.kubernetes.io/instance-type": "cx22"}),
    "the shutdown taint": {"spec": {"taints": [{"key": SHUTDOWN, "effect": "NoSchedule"}]}},
    "no taint but the others": {"spec": {"taints": []}},
}
NEW_NODE_WRITES = {
    "a label of the inventory": metadata(labels={"example.com/rack": "r1"}),
    "the provider ID": {"spec": {"providerID": "hcloud://1"}},
}
STATUS_WRITES = {
    "addresses": {"status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}},
    "the condition of routes": {"status": {"conditions": [{
        "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": "m"}]}},
}

NODE_ATTACKS = {
    "a label of a role": metadata(labels={"node-role.kubernetes.io/control-plane": ""}),
    "the name's label": metadata(labels={"kubernetes.io/hostname": "other"}),
    "a label that exists": metadata(labels={"example.com/dedicated": "b"}),
    "no label": metadata(labels={"example.com/dedicated": None}),
    "an annotation": metadata(annotations={"example.com/a": "1"}),
    "a finalizer": metadata(finalizers=["example.com/stays"]),
    "an owner": metadata(ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"}]),
    "unschedulable": {"spec": {"unschedulable": True}},
    "pod CIDRs": {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}},
    "another taint": {"spec": {"taints": [{"key": "example.com/more", "effect": "NoExecute"}]}},
    "no taints": {"spec": {"taints": None}},
    "a taint that evicts": {"spec": {"taints": [{"key": SHUTDOWN, "effect": "NoExecute"}]}},
}
OLD_NODE_ATTACKS = {
    "a new label": metadata(labels={"example.com/rack": "r1"}),
    "a provider ID": {"spec": {"providerID": "hcloud://1"}},
}
STATUS_ATTACKS = {
    "Ready": {"status": {"conditions": conditions("False")[-1:]}},
    "another condition": {"status": {"conditions": [{"type": "Broken", "status": "True"}]}},
    "capacity": {"status": {"capacity": {"cpu": "64"}}},
    "allocatable": {"status": {"allocatable": {"cpu": "64"}}},
    "the kubelet's port": {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}},
    "the kernel": {"status": {"nodeInfo": {"kernelVersion": "9"}}},
    "a label by the status": metadata(labels={"node-role.kubernetes.io/control-plane": ""}),
}


def cases(**tables):
    return [pytest.param(kind, body, id=f"{kind}-{name}") for kind, table in tables.items() for name, body in table.items()]


def write(client, kubelet, kind, body):
    """Patches a node of that kind: new, old (initialised), or the status of an initialised one."""
    one = kubelet("n1", initialized=kind != "new", taints=[OTHER_TAINT], labels={"example.com/dedicated": "a"}, real_sized=True)
    if body.get("spec", {}).get("taints") is not None:  # as ccmd does it: the others stay, also those that the API server adds
        others = [taint for taint in one.node["spec"].get("taints", []) if taint["key"] != UNINITIALIZED]
        body = {"spec": {"taints": others + body["spec"]["taints"]}}
    is_status = kind == "status"
    client.patch(f"{NODES}/{one.name}" + "/status" * is_status, body, STRATEGIC if is_status else MERGE)


@pytest.mark.parametrize("kind, body", cases(
    new={**NODE_WRITES, **NEW_NODE_WRITES}, old=NODE_WRITES, status=STATUS_WRITES))
def test_what_ccmd_changes_of_nodes_is_permitted(account, kubelet, kind, body):
    write(account, kubelet, kind, body)


@pytest.mark.parametrize("kind, body", cases(
    new=NODE_ATTACKS, old={**NODE_ATTACKS, **OLD_NODE_ATTACKS}, status=STATUS_ATTACKS))
def test_all_else_is_refused(account, api, kubelet, kind, body):
    with pytest.raises(ApiError, match="ValidatingAdmissionPolicy 'published-nodes' .* denied request: ccmd may ") as refusal:
        write(account, kubelet, kind, body)
    assert refusal.value.status == 403
    api.delete(f"{NODES}/n1")
    write(api, kubelet, kind, body)  # of anybody else it is accepted
    api.patch(f"{NODES}/n1", metadata(finalizers=None))


def test_a_node_that_is_ready_is_not_deleted(account, api, kubelet):
    one = kubelet("n1", ready="True")
    with pytest.raises(ApiError, match="denied request: ccmd may not delete a node that is Ready"):
        account.delete(f"{NODES}/n1")
    one.report("Unknown")
    account.delete(f"{NODES}/n1")
    assert api.get_or_none(f"{NODES}/n1") is None


def test_of_services_the_status_and_the_finalizer_are_changed(account, services):
    services.create("web", 80)
    web = path("web") + "/status"
    account.patch(web, metadata(finalizers=[FINALIZER]))
    account.patch(web, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    for body in (metadata(labels={"a": "b"}), metadata(annotations={"a": "b"}), metadata(finalizers=[FINALIZER, "example.com/x"]),
                 {"status": {"conditions": [{"type": "A", "status": "True", "reason": "B", "message": "",
                                             "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}):
        with pytest.raises(ApiError, match="ValidatingAdmissionPolicy 'published-services' .* denied request: ccmd may ") as refusal:
            account.patch(web, body, MERGE)
        assert refusal.value.status == 403
    account.patch(web, [{"op": "remove", "path": "/metadata/finalizers"}, {"op": "remove", "path": "/status/loadBalancer/ingress"}],
                  JSON_PATCH)
