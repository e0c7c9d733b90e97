"""With a real scheduler: pods wait until the cloud taint is removed, then they are bound."""
import pytest

from lib.api import MERGE, NODES
from lib.cluster import REPOSITORY
from lib.nodes import UNINITIALIZED, addresses, taint_keys
from lib.wait import wait_for

PODS = "/api/v1/namespaces/default/pods"

# The same machines as in examples/cloudlycke/vagrant.yaml.
VAGRANT = """\
apiVersion: cloudlycke.io/v1alpha1
kind: Inventory
cloud: {region: virtualbox, zone: virtualbox, self: master-c2-1}
machines:
  - name: master-c2-1
    id: m-c2-1
    type: vbox.vm.512mb.1cpu
    addresses:
      - {type: InternalIP, address: 192.168.20.10}
      - {type: ExternalIP, address: 192.168.20.10}
      - {type: Hostname, address: master-c2-1}
  - name: node-c2-1
    id: n-c2-1
    type: vbox.vm.1g.2cpu
    addresses:
      - {type: InternalIP, address: 192.168.20.11}
      - {type: ExternalIP, address: 192.168.20.11}
      - {type: Hostname, address: node-c2-1}
"""


@pytest.fixture
def scheduler(cluster, api):
    scheduler = cluster.start_scheduler()
    yield scheduler
    for pod in api.list(PODS):
        api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds=0)
    cluster.stop_scheduler()


def create_pods(api, count=3):
    for number in range(count):
        api.post(PODS, {
            "metadata": {"name": f"nginx-demo-{number}", "labels": {"app": "nginx-demo"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
        })


def register(kubelet, api, name, ip, id, taints=()):
    """As a kubelet with --cloud-provider=external --provider-id; kube-controller-manager then takes not-ready away."""
    one = kubelet(name, ip=ip, provider_id=f"cloudlycke://{id}", provided_node_ip=ip, taints=taints)
    kept = [taint for taint in one.node["spec"]["taints"] if taint["key"] != "node.kubernetes.io/not-ready"]
    api.patch(f"{NODES}/{name}", {"spec": {"taints": kept}}, MERGE)
    return one


def register_both(kubelet, api):
    master = {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}
    register(kubelet, api, "master-c2-1", "192.168.20.10", "m-c2-1", [master])
    register(kubelet, api, "node-c2-1", "192.168.20.11", "n-c2-1")


def wait_pending(cluster, api):
    """All pods are Pending, and an event says that a taint is why, which can only be the cloud's.

    Schedulers of 1.28 name the taint in the event; newer ones only count the nodes that have one.
    """
    assert taint_keys(api.node("node-c2-1")) == [UNINITIALIZED]
    wait_for(lambda: len(scheduling_failures(api)) == 3, what="three FailedScheduling events",
             seen=lambda: [event.get("message") for event in api.list("/api/v1/namespaces/default/events")])
    for pod in api.list(PODS):
        assert pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]
    for message in scheduling_failures(api).values():
        assert "2 node(s) had untolerated taint" in message or f"untolerated taint {{{UNINITIALIZED}: true}}" in message
        assert UNINITIALIZED in message or cluster.version != "1.28"
    return scheduling_failures(api)


def scheduling_failures(api):
    events = api.list("/api/v1/namespaces/default/events", fieldSelector="reason=FailedScheduling")
    return {event["involvedObject"]["name"]: event["message"] for event in events}


def test_the_cloud_taint_keeps_pods_pending(cluster, api, kubelet, scheduler):
    """Without ccmd the taint stays."""
    register_both(kubelet, api)
    create_pods(api)
    wait_pending(cluster, api)


def test_pending_pods_are_bound_when_the_node_is_initialised(cluster, api, kubelet, scheduler, ccmd, tmp_path):
    example = REPOSITORY / "examples" / "cloudlycke" / "vagrant.yaml"
    inventory = tmp_path / "vagrant.yaml"
    inventory.write_text(example.read_text() if example.exists() else VAGRANT)
    register_both(kubelet, api)
    create_pods(api)
    wait_pending(cluster, api)
    one = ccmd("-v=5", inventory=inventory)

    worker = api.wait_node("node-c2-1", lambda node: UNINITIALIZED not in taint_keys(node))
    labels = worker["metadata"]["labels"]
    assert {key: labels.get(key) for key in WORKER_LABELS} == WORKER_LABELS
    assert addresses(worker) == [("InternalIP", "192.168.20.11"), ("ExternalIP", "192.168.20.11"), ("Hostname", "node-c2-1")]
    assert worker["spec"]["providerID"] == "cloudlycke://n-c2-1"
    wait_for(lambda: all(pod["spec"].get("nodeName") == "node-c2-1" for pod in api.list(PODS)), what="the pods to be bound",
             seen=lambda: scheduling_failures(api))
    one.wait_log("node-c2-1")
    master = api.wait_node("master-c2-1", lambda node: UNINITIALIZED not in taint_keys(node))
    assert taint_keys(master) == ["node-role.kubernetes.io/master"]


WORKER_LABELS = {
    "beta.kubernetes.io/instance-type": "vbox.vm.1g.2cpu",
    "node.kubernetes.io/instance-type": "vbox.vm.1g.2cpu",
    "failure-domain.beta.kubernetes.io/region": "virtualbox",
    "topology.kubernetes.io/region": "virtualbox",
    "failure-domain.beta.kubernetes.io/zone": "virtualbox",
    "topology.kubernetes.io/zone": "virtualbox",
}
