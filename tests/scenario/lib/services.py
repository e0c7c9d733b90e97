"""Services of type LoadBalancer, their status and their events."""
import time

from .wait import PATIENCE_S, wait_for

SERVICES = "/api/v1/namespaces/default/services"
ALL_SERVICES = "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
PREFIX = "service.beta.kubernetes.io/cloudlycke-load-balancer-"


def path(name="", namespace="default"):
    return f"/api/v1/namespaces/{namespace}/services" + (f"/{name}" if name else "")


def service(name, *ports, namespace="default", kind="LoadBalancer", annotations=None, **spec):
    """A Service. A port is a number, or (number, protocol); keyword arguments go into spec."""
    pairs = [(one, "TCP") if isinstance(one, int) else one for one in ports or (80,)]
    rows = [{"name": f"p{number}-{protocol.lower()}", "port": number, "protocol": protocol, "targetPort": number}
            for number, protocol in pairs]
    return {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace,
                     "annotations": {PREFIX + key if "/" not in key else key: value
                                     for key, value in (annotations or {}).items()}},
        "spec": {"type": kind, "selector": {"app": name}, "ports": rows, **spec},
    }


def ingress(one):
    return (one.get("status", {}).get("loadBalancer") or {}).get("ingress") or []


def ips(one):
    return [entry["ip"] for entry in ingress(one) if "ip" in entry]


def finalizers(one):
    return one["metadata"].get("finalizers") or []


class Services:
    """The Services of a test, through its API client."""

    def __init__(self, api):
        self.api = api

    def create(self, name, *ports, namespace="default", **more):
        return self.api.post(path(namespace=namespace), service(name, *ports, namespace=namespace, **more))

    def add_endpoints(self, name, nodes):
        """Ready pods on these nodes, as the controllers of kube-controller-manager write them."""
        ready = [{"addresses": [f"10.244.{number}.5"], "nodeName": node, "conditions": {"ready": True}}
                 for number, node in enumerate(nodes, 1)]
        self.api.post(SLICES, {"metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
                               "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": ready})

    def get(self, name, namespace="default"):
        return self.api.get_or_none(path(name, namespace))

    def patch(self, name, body, namespace="default"):
        return self.api.patch(path(name, namespace), body)

    def annotate(self, name, namespace="default", **annotations):
        return self.patch(name, {"metadata": {"annotations": {PREFIX + key: value for key, value in annotations.items()}}},
                          namespace)

    def set_ingress(self, name, ip, manager="ccmd"):
        """Its status, as that controller writes it."""
        body = {"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}}
        return self.api.patch(f"{path(name)}/status", body, fieldManager=manager)

    def delete(self, name, namespace="default"):
        return self.api.delete(path(name, namespace))

    def wait(self, name, predicate, timeout=PATIENCE_S, what=None, namespace="default"):
        def check():
            one = self.get(name, namespace)
            return one if one and predicate(one) else None

        def seen():
            one = self.get(name, namespace)
            return one and (one.get("status"), finalizers(one), self.events(name, namespace=namespace))

        return wait_for(check, timeout, what or f"service {name}", seen=seen)

    def wait_ips(self, name, *wanted, timeout=PATIENCE_S, namespace="default"):
        """Waits until its addresses are those; without any, until it has some. Returns them."""
        one = self.wait(name, lambda one: ips(one) == list(wanted) if wanted else ips(one), timeout,
                        f"service {name} to have {wanted or 'an address'}", namespace)
        return ips(one)

    def wait_gone(self, name, timeout=PATIENCE_S, namespace="default"):
        wait_for(lambda: self.get(name, namespace) is None, timeout, f"service {name} to be deleted")

    def events(self, name, reason=None, namespace="default"):
        found = []
        for event in self.api.list(f"/api/v1/namespaces/{namespace}/events"):
            about = event["involvedObject"]
            if about.get("kind") == "Service" and about.get("name") == name and reason in (None, event["reason"]):
                found.append((event["reason"], event["message"]))
        return found

    def wait_event(self, name, reason, text="", timeout=PATIENCE_S, namespace="default"):
        """The message of an event of that reason that has that text."""
        def check():
            return next((message for _, message in self.events(name, reason, namespace) if text in message), None)

        return wait_for(check, timeout, f"event {reason} about {name}", seen=lambda: self.events(name, None, namespace))

    def clear(self):
        """Removes all Services but the API server's own, and their finalizers."""
        for one in self.api.list(ALL_SERVICES):
            name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
            if name == "kubernetes":
                continue
            if finalizers(one):
                self.patch(name, {"metadata": {"finalizers": None}}, namespace)
            self.delete(name, namespace)
        deadline = time.monotonic() + 10
        while len(self.api.list(ALL_SERVICES)) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
