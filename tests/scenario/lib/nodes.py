"""Nodes as kubelets register them, without a kubelet.

node_object() builds one, Kubelet registers and reports for one, create_many() makes thousands.
"""
import copy
import datetime
import queue
import threading

from .api import LEASES, MERGE, NODES, STRATEGIC, ApiError

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
PROVIDED_NODE_IP = "alpha.kubernetes.io/provided-node-ip"

CLOUD_TAINT = {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}
KUBELET_VERSION = "v1.37.2"

# condition, status while well, reason, message
CONDITIONS = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
]
READY_TEXTS = {
    "True": ("KubeletReady", "kubelet is posting ready status"),
    "False": ("KubeletNotReady", "container runtime network not ready"),
    "Unknown": ("NodeStatusUnknown", "Kubelet stopped posting node status."),
}


def timestamp(at=None):
    at = at or datetime.datetime.now(datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def microtime(at=None):
    at = at or datetime.datetime.now(datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def node_object(
    name,
    ip="10.0.0.1",
    provider_id=None,
    provided_node_ip=None,
    labels=None,
    annotations=None,
    taints=None,
    initialized=False,
    addresses=None,
    ready="True",
    real_sized=False,
):
    """A Node with its status. taints come after the cloud taint; initialized leaves that one out.

    addresses is a list of (type, address), by default what a kubelet with an external cloud provider reports.
    """
    all_annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true", "node.alpha.kubernetes.io/ttl": "0"}
    if provided_node_ip is not None:
        all_annotations[PROVIDED_NODE_IP] = provided_node_ip
    all_annotations.update(annotations or {})
    all_labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    all_labels.update(labels or {})
    spec = {}
    all_taints = ([] if initialized else [dict(CLOUD_TAINT)]) + list(taints or [])
    if all_taints:
        spec["taints"] = all_taints
    if provider_id:
        spec["providerID"] = provider_id
    if addresses is None:
        addresses = [("InternalIP", ip), ("Hostname", name)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels, "annotations": all_annotations},
        "spec": spec,
        "status": node_status(addresses, ready, real_sized),
    }


def node_status(addresses, ready="True", real_sized=False):
    resources = {"cpu": "2", "ephemeral-storage": "40470732Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
                 "memory": "4026036Ki", "pods": "110"}
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "allocatable": dict(resources, memory="3923636Ki"),
        "capacity": resources,
        "conditions": conditions(ready),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "7a0e2b32-6a0b-4a2a-8f63-0d2f1d5ad6b5",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.1.0-37-amd64",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": "3f4c9f4f0f7245a1a1ac0f24ed4a6d4d",
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "systemUUID": "3f4c9f4f-0f72-45a1-a1ac-0f24ed4a6d4d",
        },
    }
    if real_sized:
        status["images"] = IMAGES
    return status


def conditions(ready="True", at=None):
    now = timestamp(at)
    rows = CONDITIONS + [("Ready", ready, *READY_TEXTS[ready])]
    return [
        {"type": kind, "status": status, "reason": reason, "message": message,
         "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, status, reason, message in rows
    ]


def _images():
    """The kubelet reports up to 50, by digest and by tag: the larger part of a real Node."""
    images = []
    for number in range(50):
        digest = f"{number:02x}" * 32
        repository = f"registry.example.com/team/service-{number:02d}"
        images.append(
            {"names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.0"],
             "sizeBytes": 250_000_000 - 4_000_000 * number}
        )
    return images


IMAGES = _images()


class Kubelet:
    """Stands in for the kubelet of one node: registers it, reports its Ready condition, renews its Lease."""

    def __init__(self, api, name, **node):
        self.api = api
        self.name = name
        self.wanted = node_object(name, **node)
        self._beats = 0  # the field has whole seconds: each beat must be later than the one before

    def register(self, lease=False):
        """Creates the node. On a create the API server keeps the status, so this is one request."""
        created = self.api.post(NODES, self.wanted, fieldValidation="Strict")
        if lease:
            self.renew_lease()
        return created

    @property
    def node(self):
        return self.api.node(self.name)

    def report(self, ready, at=None):
        """Posts the conditions, as kubelets do: with a heartbeat of now."""
        body = {"status": {"conditions": conditions(ready, at)}}
        return self.api.patch(f"{NODES}/{self.name}/status", body, STRATEGIC)

    def ready(self):
        return self.report("True")

    def not_ready(self):
        return self.report("False")

    def silent(self):
        """Writes what the node lifecycle controller of kube-controller-manager writes when heartbeats stop.

        lastHeartbeatTime stays as it was: this is how a dead machine looks.
        """
        reason, message = READY_TEXTS["Unknown"]
        now = timestamp()
        body = {"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now}
        ]}}
        return self.api.patch(f"{NODES}/{self.name}/status", body, STRATEGIC)

    def heartbeat(self):
        """Moves only the heartbeat of the Ready condition, by a second; its status stays."""
        self._beats += 1
        beat = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self._beats)
        body = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": timestamp(beat)}]}}
        return self.api.patch(f"{NODES}/{self.name}/status", body, STRATEGIC)

    def renew_lease(self):
        """Creates or renews its Lease in kube-node-lease."""
        now = microtime()
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            return self.api.patch(f"{LEASES}/{self.name}", {"spec": spec}, MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
        return self.api.post(LEASES, {"metadata": {"name": self.name}, "spec": spec})

    def set_addresses(self, *pairs):
        addresses = [{"type": kind, "address": address} for kind, address in pairs]
        return self.api.patch(f"{NODES}/{self.name}/status", {"status": {"addresses": addresses}}, MERGE)

    def set_labels(self, **labels):
        return self.api.patch(f"{NODES}/{self.name}", {"metadata": {"labels": labels}}, MERGE)

    def set_taints(self, taints):
        return self.api.patch(f"{NODES}/{self.name}", {"spec": {"taints": taints}}, MERGE)

    def delete(self):
        return self.api.delete(f"{NODES}/{self.name}")


def create_many(api, count, prefix="node", threads=8, real_sized=True, first=0, **node):
    """Registers count nodes named PREFIX-00000 and so on, with several connections at once. Returns the names."""
    template = node_object("template", real_sized=real_sized, **node)
    names = [f"{prefix}-{number:05d}" for number in range(first, first + count)]

    def create(number_and_name):
        number, name = number_and_name
        one = copy.copy(template)
        one["metadata"] = dict(template["metadata"], name=name,
                               labels=dict(template["metadata"]["labels"], **{"kubernetes.io/hostname": name}))
        ip = numbered_ip(number)
        one["status"] = dict(template["status"], addresses=[
            {"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}])
        api.post(NODES, one)

    in_parallel(create, list(enumerate(names, first)), threads)
    return names


def delete_many(api, names, threads=8):
    in_parallel(lambda name: api.delete(f"{NODES}/{name}"), names, threads)


def numbered_ip(number):
    return f"10.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"


def in_parallel(work, items, threads):
    """work(item) for every item; raises the first failure."""
    waiting = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    problems = []

    def worker():
        while not problems:
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                work(item)
            except Exception as problem:  # handed to the caller
                problems.append(problem)

    workers = [threading.Thread(target=worker) for _ in range(min(threads, max(1, len(items))))]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    if problems:
        raise problems[0]


# --- reading a node ------------------------------------------------------------------------------------------------------


def taint_keys(node):
    return [taint["key"] for taint in node["spec"].get("taints", [])]


def addresses(node):
    """[(type, address), …] in order."""
    return [(one["type"], one["address"]) for one in node["status"].get("addresses", [])]


def network_condition(node):
    """(status, reason) of NetworkUnavailable, or None."""
    for one in node["status"].get("conditions", []):
        if one["type"] == "NetworkUnavailable":
            return one["status"], one["reason"]
    return None


def is_routed(node):
    return network_condition(node) == ("False", "RouteCreated")


def has_no_route(node):
    return network_condition(node) == ("True", "NoRouteCreated")


def is_initialized(node):
    return UNINITIALIZED not in taint_keys(node)
