"""The model of Hetzner's API that the simulation uses answers as the simulated cloud of the other scenarios does.

A seed makes a sequence of requests for balancers and routes, right and wrong, which goes to both. All answers have to be equal.
"""
import json
import re

import pytest
from lib.api import Api
from lib.model import Choices, Model, compare
from sim.hcloud import HCloud

pytestmark = pytest.mark.plain

REQUESTS = 1000
MACHINES = ["m1", "m2", "m3"]  # as serve_model makes them; the last one is not in the network
RANDOM_TEXTS = {"created", "started", "finished", "dns_ptr", "mac_address"}


def comparable(answer):
    """Errors by code and fields, without texts, in which neither claims to be Hetzner's API."""
    error = answer and answer.get("error")
    if not error or "code" not in error:
        return answer
    fields = (error.get("details") or {}).get("fields", [])
    return {"error": error["code"], "fields": sorted(one["name"] for one in fields)}


class Side:
    """One of the two, and what it has answered. IDs are named by the order in which they were first seen."""

    def __init__(self, api):
        self.api = api
        self.ids = {}
        self.answers = []
        self.machines = {one["name"]: one["id"] for one in self.get("/servers")["servers"]}
        self.network = self.get("/networks")["networks"][0]["id"]
        for one in [*self.machines.values(), self.network]:
            self.name(one)

    def get(self, path):
        return self.api.request("GET", f"/v1{path}").json()

    def send(self, method, path, body=None):
        answer = self.api.request(method, f"/v1{path}", body)
        return answer.status, comparable(self.normalised(json.loads(answer.body or "null")))

    def balancers(self):
        return sorted(one["id"] for one in self.get("/load_balancers")["load_balancers"])

    def name(self, number):
        return self.ids.setdefault(number, f"id {len(self.ids)}")

    def normalised(self, value, key=None):
        if isinstance(value, dict):
            return {name: self.normalised(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.normalised(one, key) for one in value]
        if key in RANDOM_TEXTS and value is not None:
            return "set"
        if isinstance(value, int) and value > 1 << 32:
            return self.name(value)
        if isinstance(value, str):
            value = re.sub(r"\b\d{10,}\b", lambda match: self.name(int(match[0])), value)
            return re.sub(r"\b198\.1[89]\.\d+\.\d+|2001:db8:[0-9a-f:]+", "public", value)
        return value


class Sequence(Choices):
    """Chooses requests: functions of a side, since IDs differ."""

    def service(self, is_new=True):
        port = self.one(80, 443, 8080, 0 if self.chance(0.1) else 80)
        protocol = self.one("tcp", "tcp", "http")
        service = {"listen_port": port, "protocol": protocol, "proxyprotocol": self.one(True, False)}
        service["destination_port"] = self.one(30080, 30081)
        service["health_check"] = {"protocol": "tcp", "port": 30080, "interval": 15, "timeout": 10, "retries": 3}
        if protocol == "http" and self.chance(0.7):
            service["http"] = {"sticky_sessions": self.one(True, False), "cookie_name": "c", "cookie_lifetime": 60}
        if self.chance(0.1 if is_new else 0.5):
            service.pop(self.one("protocol", "destination_port", "health_check", "listen_port"))
        return service

    def target(self, is_new=True):
        machine, private = self.one(*MACHINES), {"use_private_ip": self.one(True, False)} if is_new else {}
        return self.one(
            lambda side: {"type": "server", "server": {"id": side.machines[machine]}, **private},
            lambda side: {"type": "server", "server": {"id": side.machines[machine]}, **private},
            lambda side: {"type": "label_selector", "label_selector": {"selector": "a=b"}},
            lambda side: {"type": "server", "server": {"id": 1}},
            lambda side: {"type": "server"},
        )

    def create(self):
        joins, balancer = self.chance(0.5), {
            "name": self.one("a", "b", "c", "not valid!") if self.chance(0.3) else self.one("a", "b", "c"),
            "load_balancer_type": self.one("lb11", "lb21", "x") if self.chance(0.3) else "lb11",
            "location": self.one("nbg1", "x") if self.chance(0.3) else "fsn1",
            "labels": {"a": "b"},
            "services": [self.service()] if self.chance(0.3) else [],
        }
        targets = [self.target()] if self.chance(0.3) else []

        def request(side):
            joined = {"network": side.network} if joins else {}
            return "POST", "/load_balancers", {**balancer, **joined, "targets": [one(side) for one in targets]}

        return request

    def act(self, verb, body):
        """An action on one of the balancers, or on none."""
        number = self.random.randrange(4)

        def request(side):
            ids = side.balancers()
            balancer = ids[number] if number < len(ids) else 7
            return "POST", f"/load_balancers/{balancer}/actions/{verb}", body(side) if callable(body) else body

        return request

    def on(self, method, path="", body=None):
        number = self.random.randrange(4)

        def request(side):
            ids = side.balancers()
            return method, f"/load_balancers/{ids[number] if number < len(ids) else 7}{path}", body

        return request

    def route(self):
        verb = self.one("add_route", "add_route", "delete_route")
        body = {"destination": self.one("10.244.0.0/24", "10.244.1.0/24", "10.0.0.0/16", "x"), "gateway": self.one("10.0.0.2", "10.0.0.3", "10.0.0.9")}
        return lambda side: ("POST", f"/networks/{side.network}/actions/{verb}", body)

    def next(self):
        algorithm = {"type": self.one("round_robin", "least_connections", "x")}
        joining = {} if self.chance(0.8) else {"ip": self.one("10.0.0.77", "192.168.0.1")}
        return self.one(
            self.create,
            self.create,
            lambda: self.on("GET"),
            lambda: self.on("PUT", "", {"name": self.one("a", "b", "d"), "labels": {"x": self.one("y", "not valid!")}}),
            lambda: self.on("DELETE"),
            lambda: self.act("add_service", self.service()),
            lambda: self.act("add_service", self.service()),
            lambda: self.act("update_service", self.service(is_new=False)),
            lambda: self.act("delete_service", {"listen_port": self.one(80, 443, 8080)}),
            lambda: self.act("add_target", self.target()),
            lambda: self.act("add_target", self.target()),
            lambda: self.act("remove_target", self.target(is_new=self.chance(0.1))),
            lambda: self.act("change_algorithm", algorithm),
            lambda: self.act("change_type", {"load_balancer_type": self.one("lb11", "lb21", "x")}),
            lambda: self.act("attach_to_network", lambda side: {"network": side.network, **joining}),
            lambda: self.act("detach_from_network", lambda side: {"network": side.network}),
            lambda: self.act("enable_public_interface", None),
            lambda: self.act("disable_public_interface", None),
            self.route,
            lambda: lambda side: ("GET", "/load_balancers?sort=id", None),
        )()


# The network is deleted while balancers with private targets are in it.
END = [
    lambda side: ("DELETE", f"/networks/{side.network}", None),
    lambda side: ("GET", "/load_balancers?sort=id", None),
    lambda side: ("GET", "/networks", None),
    lambda side: ("DELETE", f"/networks/{side.network}", None),
    lambda side: ("POST", f"/networks/{side.network}/actions/add_route", {"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}),
]


def run(sides, seed, count):
    sequence = Sequence(seed)
    for choose in [*(sequence.next() for _ in range(count)), *END]:
        compare(sides, choose)


@pytest.mark.parametrize("kind, deletion_acts", [("hetzner", True), ("former-hetzner", False)])
def test_the_model_answers_as_the_simulated_cloud(kind, deletion_acts, seed=1):
    with HCloud(rate_limit=1000000) as cloud, Model(kind) as model:
        cloud.deletion_acts = deletion_acts
        network = cloud.project.add_network()
        for name in MACHINES:
            cloud.project.add_server(name, networks=[network] if name != MACHINES[-1] else [])
        with Api(cloud.url, None, token=cloud.token) as api:
            run((Side(api), Side(model)), seed, REQUESTS)
