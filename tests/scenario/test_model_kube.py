"""The model of kube-apiserver that the simulation uses answers as kube-apiserver does.

A seed makes a sequence of requests, which goes to both: what ccmd, kubelets and users send, right and wrong, with UIDs and
versions that are old or of another object. All answers and all events of watches have to be equal.
"""
import json
import threading

import pytest
from lib.api import MERGE, NODES, STRATEGIC
from lib.model import Choices, Model, Side, without_managers

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

SPACE = "kube-public"  # where nothing else writes
SERVICES = f"/api/v1/namespaces/{SPACE}/services"
EVENTS = f"/api/v1/namespaces/{SPACE}/events"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
BASES = (NODES, SERVICES, LEASES, EVENTS)
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
TIMES = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z", "2026-01-02T05:04:05+01:00"]
REQUESTS = 2500
DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


class Sequence(Choices):
    """Chooses requests. A request is a dictionary of the arguments of Side.send()."""

    def __init__(self, seed):
        super().__init__(seed)
        self.queued = []
        self.kinds = [self.node] * 5 + [self.service] * 6 + [self.lease] * 3 + [self.event] * 2 + [self.read]

    def next(self):
        return self.queued.pop() if self.queued else self.random.choice(self.kinds)()

    # --- parts of requests -------------------------------------------------------------------------------------------

    def preconditions(self, path):
        """A function that gives metadata with the object's UID, mostly, and its version, sometimes."""
        uid_age, version_age = self.one(0, 0, 0, 0, 4, None), self.one(0, 0, 1, 7, None, None)

        def metadata(side, **more):
            if uid_age is not None:
                more["uid"] = side.past(path, "uid", uid_age)
            if version_age is not None:
                more["resourceVersion"] = side.past(path, "resourceVersion", version_age)
            return more

        return metadata

    def patch(self, path, change, metadata=None, content_type=None, status=False):
        before = self.preconditions(path)
        return {
            "method": "PATCH",
            "path": f"{path}/status" if status else path,
            "body": lambda side: {"metadata": before(side, **(metadata or {})), **change},
            "content_type": content_type or self.one(MERGE, STRATEGIC),
            "partial": self.chance(0.5),
        }

    def put(self, path, changes):
        """A PUT of the last object that was seen, changed."""
        uid_age, version_age = self.one(0, 0, 0, 3, None), self.one(0, 0, 0, 0, 2, None)

        def body(side):
            whole = json.loads(json.dumps(side.last(path)))
            # the real server counts it as a change when these two are missing
            newest = side.shown.get(path, [whole])[-1]["metadata"]
            whole["metadata"].update({key: newest[key] for key in DELETION if key in newest})
            for member, age in (("uid", uid_age), ("resourceVersion", version_age)):
                whole["metadata"].pop(member, None)
                if age is not None:
                    whole["metadata"][member] = side.past(path, member, age)
            for member, change in changes.items():
                whole[member] = {**whole.get(member, {}), **change}
            return whole

        return {"method": "PUT", "path": path, "body": body}

    def delete(self, path):
        before = self.preconditions(path)
        options = lambda side: {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": before(side)}
        body = options if self.chance(0.7) else None
        return {"method": "DELETE", "path": path, "body": body, "partial": self.chance(0.5)}

    def labels(self):
        value = self.one("a", "b", "", None, "not valid") if self.chance(0.2) else self.one("a", "b", "c")
        return {self.one("a", "b.example/c", "d"): value}

    def finalizers(self):
        return self.random.sample(["a.example/x", "b.example/y", FINALIZER], self.random.randrange(4))

    # --- nodes -------------------------------------------------------------------------------------------------------

    def taints(self):
        known = [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"},
            {"key": "x", "effect": "NoExecute", "timeAdded": self.one(*TIMES)},
            {"key": "x", "effect": "NoSchedule"},
        ]
        if self.chance(0.1):
            known = [*known, {"key": "y", "effect": "Other"}, {"key": "no key", "effect": "NoSchedule"}, {"key": "z"}] + known
        # ccmd removes the last one with null; an empty list is the same, but has an owner in managedFields
        return self.random.sample(known, self.random.randrange(4)) or None

    def addresses(self):
        known = [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "n"), ("ExternalIP", "192.0.2.1")]
        chosen = self.random.choices(known, k=self.random.randrange(4)) if self.chance(0.2) else self.random.sample(known, 3)
        return [{"type": kind, "address": address} for kind, address in chosen]

    def condition(self):
        return {
            "type": self.one("Ready", "NetworkUnavailable", "MemoryPressure"),
            "status": self.one("True", "False", "Unknown"),
            "reason": self.one("RouteCreated", "NoRouteCreated"),
            "lastHeartbeatTime": self.one(*TIMES),
            "lastTransitionTime": self.one(*TIMES),
        }

    def new_node(self, name):
        node = {"metadata": {"name": name, "labels": self.labels()}, "spec": {"taints": self.taints()}}
        if self.chance(0.5):
            node["status"] = {"addresses": self.addresses()[:1], "conditions": [self.condition()]}
        if self.chance(0.5):
            node["spec"]["providerID"] = self.one("hcloud://1", "hcloud://2")
        if self.chance(0.05):
            node["metadata"]["name"] = "Not-Valid"
        if self.chance(0.05):
            node["spec"] = self.one({"taints": "x"}, {"unschedulable": "yes"}, {"unknown": 1})
        if self.chance(0.03):
            node["metadata"]["resourceVersion"] = "12"
        return {"method": "POST", "path": NODES, "body": {"kind": "Node", "apiVersion": "v1", **node}}

    def node(self):
        name = self.one("n1", "n2", "n3")
        path = f"{NODES}/{name}"
        provider = self.one("hcloud://1", "hcloud://1", "hcloud://2", None)
        return self.one(
            lambda: self.new_node(name),
            lambda: {"method": "GET", "path": path, "partial": self.chance(0.3)},
            lambda: self.patch(path, {"spec": {"providerID": provider, "taints": self.taints()}}, {"labels": self.labels()}, MERGE),
            lambda: self.patch(path, {"spec": {"taints": self.taints()}}),
            lambda: self.patch(path, {}, {"labels": self.labels(), "annotations": {"a": self.one("b", None)}}),
            lambda: self.patch(path, {"status": {"addresses": self.addresses()}}, None, MERGE, status=True),
            lambda: self.patch(
                path, {"status": {"addresses": [*self.addresses(), {"$patch": "replace"}]}}, None, STRATEGIC, status=True
            ),
            lambda: self.patch(path, {"status": {"conditions": [self.condition()]}}, None, STRATEGIC, status=True),
            lambda: self.patch(
                path,
                {"status": {"conditions": [self.condition(), {"$patch": "delete", "type": "Ready"}]}},
                None,
                STRATEGIC,
                status=True,
            ),
            lambda: self.patch(path, {"status": {"phase": "x"}, "spec": {"unschedulable": True}}, None, status=self.chance(0.5)),
            lambda: self.patch(path, {}, {"finalizers": self.finalizers()}, MERGE),
            lambda: self.patch(path, {}, {"name": "other"}),
            lambda: self.put(path, {"spec": {"taints": self.taints()}}),
            lambda: self.delete(path),
        )()

    # --- Services ----------------------------------------------------------------------------------------------------

    def spec(self):
        spec = {"type": self.one("LoadBalancer", "LoadBalancer", "LoadBalancer", "ClusterIP", "NodePort", "ExternalName")}
        spec["ports"] = self.one(
            [{"port": 80}],
            [{"port": 80, "name": "http"}, {"port": 443, "name": "https", "targetPort": "tls"}],
            [{"port": 53, "protocol": "UDP", "targetPort": 5353}],
            [{"port": 80}, {"port": 81}] if self.chance(0.2) else [{"port": 8080}],
        )
        if spec["type"] == "ExternalName":
            return {"type": "ExternalName", "externalName": "a.example"}
        if spec["type"] == "LoadBalancer" and self.chance(0.3):
            spec["externalTrafficPolicy"] = self.one("Local", "Cluster")
        if spec["type"] == "LoadBalancer" and self.chance(0.2):
            spec["loadBalancerClass"] = self.one("a.example/b", "c")
        if spec["type"] == "LoadBalancer" and self.chance(0.2):
            spec["allocateLoadBalancerNodePorts"] = False
        if spec["type"] == "ClusterIP" and self.chance(0.2):
            spec["clusterIP"] = "None"
        if self.chance(0.2):
            spec["sessionAffinity"] = self.one("ClientIP", "None")
        if self.chance(0.5):
            spec["selector"] = {"app": "web"}
        return spec

    def new_service(self, name):
        body = {"metadata": {"name": name, "annotations": {"a": "b"}}, "spec": self.spec()}
        if self.chance(0.1):
            body["metadata"]["namespace"] = self.one(SPACE, "default")
        if self.chance(0.2):
            body["metadata"]["finalizers"] = self.finalizers()
        path = SERVICES if self.chance(0.95) else "/api/v1/namespaces/missing/services"
        return {"method": "POST", "path": path, "body": body}

    def ingress(self):
        known = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1", "ipMode": "Proxy"}, {"ip": "2001:db8::1", "ipMode": "VIP"}]
        known += [{"hostname": "a.example"}]
        if self.chance(0.1):
            known = [{"ip": "x"}, {"hostname": "A"}, {"hostname": "10.0.0.1"}, {"hostname": "a", "ipMode": "VIP"}]
            known += [{"ip": "10.0.0.1", "ipMode": "x"}]
        return self.random.sample(known, self.random.randrange(3)) or None

    def service_finalizer(self, path):
        """What ccmd writes: the order of all others as it saw them, and its own finalizer."""
        others = [one for one in self.finalizers() if one != FINALIZER]
        if self.chance(0.5):
            change = {"$setElementOrder/finalizers": [*others, FINALIZER], "finalizers": [FINALIZER]}
        else:
            change = {"$setElementOrder/finalizers": others, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
        status = {"status": {"loadBalancer": {"ingress": None}}} if self.chance(0.3) else {}
        return self.patch(path, status, change, STRATEGIC, status=True)

    def service(self):
        name = self.one("s1", "s2", "s3", "s4")
        path = f"{SERVICES}/{name}"
        status = {"status": {"loadBalancer": {"ingress": self.ingress()}}}
        return self.one(
            lambda: self.new_service(name),
            lambda: self.new_service(name),
            lambda: {"method": "GET", "path": path},
            lambda: self.service_finalizer(path),
            lambda: self.service_finalizer(path),
            lambda: self.patch(path, status, None, STRATEGIC, status=True),
            lambda: self.patch(path, status, None, MERGE, status=True),
            lambda: self.patch(path, {}, {"finalizers": self.finalizers()}),
            lambda: self.patch(path, {}, {"finalizers": None}),
            lambda: self.patch(path, {"spec": {"type": self.one("ClusterIP", "NodePort", "LoadBalancer")}}),
            lambda: self.patch(path, {"spec": {"externalTrafficPolicy": self.one("Local", "Cluster")}}),
            lambda: self.patch(path, {"spec": {"loadBalancerClass": self.one("a.example/b", "c", None)}}),
            lambda: self.patch(path, {"spec": {"ports": [{"port": self.one(80, 81), "name": "p"}]}}, None, STRATEGIC),
            lambda: self.patch(path, {}, {"annotations": {"a": self.one("b", "c", None)}}),
            lambda: self.put(path, {"metadata": {"labels": self.labels()}}),
            lambda: self.delete(path),
        )()

    # --- Leases and Events -------------------------------------------------------------------------------------------

    def lease_spec(self):
        spec = {"holderIdentity": self.one("a", "b", ""), "leaseDurationSeconds": 15, "leaseTransitions": self.one(0, 1)}
        spec["renewTime"] = self.one("2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.123456Z")
        if self.chance(0.1):
            spec.update(self.one({"leaseDurationSeconds": 0}, {"leaseTransitions": -1}, {"renewTime": TIMES[0]}))
        return spec

    def lease(self):
        name = self.one("l1", "l2")
        path = f"{LEASES}/{name}"
        spec = self.lease_spec()
        return self.one(
            lambda: {"method": "POST", "path": LEASES, "body": {"metadata": {"name": name}, "spec": spec}},
            lambda: {"method": "GET", "path": path},
            lambda: self.put(path, {"spec": spec}),
            lambda: self.put(path, {"spec": spec}),
            lambda: self.patch(path, {"spec": {"renewTime": spec["renewTime"]}}),
            lambda: self.delete(path),
        )()

    def event(self):
        name = self.one("e1", "e2", "e3")
        path = f"{EVENTS}/{name}"
        involved = {"kind": "Service", "namespace": self.one(SPACE, SPACE, "default"), "name": "s1", "apiVersion": "v1"}
        new = {
            "metadata": {"name": name, "namespace": SPACE},
            "involvedObject": involved,
            "reason": "Reason",
            "message": "text",
            "source": {"component": "service-controller"},
            "firstTimestamp": TIMES[0],
            "lastTimestamp": TIMES[1],
            "count": 1,
            "type": self.one("Normal", "Warning"),
            "eventTime": None,
            "reportingComponent": "service-controller",
            "reportingInstance": "",
        }
        count = {"count": self.random.randrange(5), "lastTimestamp": self.one(*TIMES), "message": self.one("a", "b")}
        return self.one(
            lambda: {"method": "POST", "path": EVENTS, "body": new},
            lambda: {"method": "PATCH", "path": path, "body": count, "content_type": STRATEGIC, "partial": True},
            lambda: self.delete(path),
        )()

    # --- lists -------------------------------------------------------------------------------------------------------

    def read(self):
        """A list of the newest state, of one that is not older than an object, or of an old one."""
        base = self.one(NODES, SERVICES, LEASES)
        named = {NODES: "n1", SERVICES: "s1", LEASES: "l1"}[base]
        age, limit = self.one(0, 3), self.one("", "", "&limit=1", "&limit=2")
        match = self.one(None, "NotOlderThan", "Exact")
        if match is None:
            return {"method": "GET", "path": f"{base}?{limit.removeprefix('&')}"}

        def path(side):
            version = side.past(f"{base}/{named}", "resourceVersion", age)
            # a version that nothing had: the newest state, and not that of an empty database
            if version == "1":
                return base
            return f"{base}?resourceVersion={version}&resourceVersionMatch={match}{limit}"

        # the first makes sure that the watch cache has seen everything: it may answer the second with an older state
        self.queued.append({"method": "GET", "path": path, "partial": self.chance(0.2)})
        return {"method": "GET", "path": base}


# --- watches ---------------------------------------------------------------------------------------------------------


class Watch:
    """A watch of a path, from the version of the object of the name `first` to the object "end"."""

    def __init__(self, side, path, first):
        self.path = path
        self.events = []
        self.arguments = side.api, path, side.past(f"{path}/{first}", "resourceVersion")
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        api, path, version = self.arguments
        for kind, found in api.watch(path, timeout=600, resourceVersion=version, allowWatchBookmarks="true"):
            # the API server repairs what it believes to be wrong about addresses of Services, now and then, and reports it
            is_repair = found.get("reportingComponent", "").endswith("-repair-controller")
            if kind == "BOOKMARK" or is_repair:
                continue
            self.events.append({"type": kind, "object": without_managers(found)})
            if found["metadata"].get("name") == "end":
                return

    def result(self):
        self.thread.join(60)
        assert not self.thread.is_alive(), "the last event of a watch does not come"
        return self.events


def marker(path, name):
    """The request that makes an object of this name, for the end of a watch."""
    body = {"metadata": {"name": name}}
    if path == SERVICES:
        body["spec"] = {"ports": [{"port": 1}]}
    if path == EVENTS:
        body["involvedObject"] = {"namespace": SPACE}
    return {"method": "POST", "path": path, "body": body}


# --- the comparison --------------------------------------------------------------------------------------------------


def clean(api):
    for base in BASES:
        for one in api.list(base):
            path = f"{base}/{one['metadata']['name']}"
            if one["metadata"].get("finalizers"):
                api.patch(path, {"metadata": {"finalizers": None}})
            api.delete(path)


def comparable(answer):
    """Without what the model words differently: texts about values of a wrong type, and long explanations of rules."""
    if answer.get("kind") != "Status" or answer.get("status") != "Failure":
        return answer
    answer = dict(answer)
    details = dict(answer.get("details", {}))
    causes = sorted((one["field"], one["reason"]) for one in details.pop("causes", []) if "field" in one)
    conflict = answer["message"].partition("AdditionalErrorMsg: ")
    if answer["code"] == 409 and conflict[1]:
        answer["message"] = answer["message"].partition("StorageError")[0] + conflict[2]
    if answer["code"] in (400, 422, 500):
        answer["message"] = answer["message"].partition(":")[0] if answer["code"] == 422 else ""
    return {**answer, "details": details, "causes": causes}


@pytest.fixture
def sides(api):
    clean(api)
    with Model("kube") as model:
        yield Side(api, BASES), Side(model, BASES)
    clean(api)


def described(request, model, right, found):
    """A request as it went to the model, and both answers."""
    parts = [one(model) if callable(one) else one for one in (request["path"], request.get("body"))]
    return f"{request['method']} {parts[0]} {json.dumps(parts[1])}\nkube-apiserver: {right}\nmodel: {found}"


def run(sides, seed, count):
    """Sends a sequence, and compares everything that came back. It ends early when the sides take different ways."""
    real, model = sides
    sequence = Sequence(seed)
    sent = []

    def send(request):
        """False: one side accepts it and the other does not."""
        sent.append(request)
        return real.send(**request) == model.send(**request)

    def send_all():
        watches = []
        if not all(send(marker(path, "begin")) for path in BASES):
            return watches
        for number in range(count):
            # the API server forgets versions that are older than about a minute, so a watch begins at most 200 requests ago
            if number % 1000 == 800 and not all(send(marker(path, f"begin-{number}")) for path in BASES):
                return []
            if number % 1000 == 0:
                # they get at first what has happened since then
                first = f"begin-{number - 200}" if number else "begin"
                watches += [(side, Watch(side, path, first)) for side in sides for path in BASES]
            if not send(sequence.next()):
                return []
        assert all(send(marker(path, "end")) for path in BASES)
        return watches

    for side, watch in send_all():
        side.note(watch.path, watch.result())
    for i, (right, found) in enumerate(zip(real.normalised(), model.normalised(), strict=True)):
        if isinstance(right, dict):
            right, found = comparable(right), comparable(found)
        assert found == right, described(sent[i], model, right, found) if i < len(sent) else "a watch"


@pytest.mark.parametrize("seed", [1])
def test_the_model_answers_as_kube_apiserver(sides, seed):
    run(sides, seed, REQUESTS)
