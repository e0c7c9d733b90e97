"""The model of Brightbox's API that the simulation uses answers as the simulated cloud of the other scenarios does.

A seed makes a sequence of requests, right and wrong, which goes to both. All answers have to be equal.
"""
import base64
import json
import re

import pytest
from lib.api import Api
from lib.model import Choices, Model, compare
from sim.brightbox import APPLICATION, Brightbox

pytestmark = pytest.mark.plain

REQUESTS = 1500
CODES = {"servers": "srv", "load_balancers": "lba", "cloud_ips": "cip", "server_groups": "grp", "firewall_policies": "fwp"}
TIMES = {"created_at", "started_at", "deleted_at"}
RANDOM = {"access_token", "refresh_token", "mac_address"}
HEADERS = ("Location", "WWW-Authenticate", "X-OAuth-Scopes")
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class Side:
    """One of the two, and what it has answered. IDs and addresses are named by the order in which they were first seen."""

    def __init__(self, api, client, user):
        self.api = api
        self.client, self.user = client, user
        self.names = {}
        self.rules = []
        api.token = self.token({"grant_type": "client_credentials"}, client)[1]["access_token"]

    def token(self, form, client=None, content_type=FORM):
        """A token request: the answer's status, its body, and the headers."""
        text = "&".join(f"{name}={value}" for name, value in form.items())
        token, self.api.token = self.api.token, None
        headers = {}
        if client:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(client).encode()).decode()
        answer = self.api.request("POST", "/token", text, content_type, headers=headers)
        self.api.token = token
        return answer.status, answer.json(), [answer.headers[name] for name in HEADERS]

    def send(self, method, path, body=None, content_type=JSON):
        answer = self.api.request(method, path, body, content_type)
        shown = json.loads(answer.body or "null")
        if answer.status < 300 and path.startswith("/1.0/firewall_rules") and method == "POST":
            self.rules.append(shown["id"])
        return answer.status, self.normalised(shown), [self.normalised(answer.headers[name]) for name in HEADERS]

    def ids(self, collection):
        if collection == "firewall_rules":
            return self.rules
        return [one["id"] for one in self.api.request("GET", f"/1.0/{collection}").json()]

    def id(self, collection, number):
        """One of the account's objects, or none."""
        ids = self.ids(collection)
        return ids[number] if number < len(ids) else f"{CODES.get(collection, 'fwr')}-zzzzz"

    def interface(self, number):
        return self.api.request("GET", "/1.0/servers").json()[number]["interfaces"][0]["id"]

    def name(self, match):
        return self.names.setdefault(match[0], f"id {len(self.names)}")

    def normalised(self, value, key=None):
        if isinstance(value, dict):
            return {name: self.normalised(value[name], name) for name in sorted(value)}
        if isinstance(value, list):
            return [self.normalised(one, key) for one in value]
        if value is not None and key in TIMES:
            return "a time"
        if value is not None and key in RANDOM:
            return "random"
        if not isinstance(value, str) or value.endswith("-zzzzz"):
            return value
        value = re.sub(r"\b[0-9a-z]{3}-[0-9a-z]{5}\b", self.name, value)
        value = re.sub(r"cip-[\d-]+", "cip-address", value)
        return re.sub(r"\b\d+\.\d+\.\d+\.\d+\b|\b2a02:[0-9a-f:]+", "address", value)


class Sequence(Choices):
    """Chooses requests: functions of a side, since IDs differ."""

    def number(self):
        return self.random.randrange(5)

    def spoiled(self, body):
        """Sometimes with something that is wrong."""
        if not body or self.chance(0.9):
            return body
        key = self.one(*body)
        kind = self.one("drop", "add", "type")
        if kind == "drop":
            return {name: value for name, value in body.items() if name != key}
        return {**body, "wrong": 1} if kind == "add" else {**body, key: self.one(None, 7, "x", [], True)}

    def listener(self):
        listener = {"protocol": self.one("tcp", "http", "https"), "in": self.one(80, 443, 8080), "out": self.one(30080, 0)}
        if self.chance(0.3):
            listener["timeout"] = self.one(5000, 60000, 10)
        if self.chance(0.3):
            listener["proxy_protocol"] = self.one("v1", "v2-ssl", "v9", None)
        return self.spoiled(listener)

    def balancer(self, is_new):
        """The body for a side: nodes are its servers."""
        body = {
            "name": self.one("a", "b", None, "x" * 256 if self.chance(0.1) else "c"),
            "listeners": [self.listener() for _ in range(self.one(0, 1, 1, 2))],
            "healthcheck": self.spoiled({"type": self.one("tcp", "http"), "port": 30080, "interval": self.one(1, 5000)}),
            "policy": self.one("least-connections", "round-robin", "x" if self.chance(0.1) else "source-address"),
            "domains": self.one(None, [], ["a.example.com"], ["a.example.com", "b.example.com"]),
            "https_redirect": self.one(True, False),
            "buffer_size": self.one(1024, 4096, 100 if self.chance(0.1) else 8192),
            "ssl_minimum_version": self.one("TLSv1.2", None),
        }
        for name in list(body):
            if self.chance(0.3 if name not in ("listeners", "healthcheck") else 0.1 if is_new else 0.6):
                del body[name]
        if self.chance(0.05):
            body["certificate_pem"] = "x"
        servers = self.servers("node")
        has_nodes = self.chance(0.6)
        body = self.spoiled(body)
        return lambda side: {**body, "nodes": servers(side)} if has_nodes else body

    def servers(self, member):
        numbers = [self.number() for _ in range(self.one(0, 1, 2, 3))]
        wrong = [self.one("x", "srv-zzzzz", 7)] if self.chance(0.1) else []
        return lambda side: [{member: one} for one in [*(side.id("servers", number) for number in numbers), *wrong]]

    def on(self, method, collection, verb="", body=None, content_type=JSON):
        """A request for one of the objects, or for none."""
        number = self.number()
        path = f"/{verb}" if verb else ""
        return lambda side: (method, f"/1.0/{collection}/{side.id(collection, number)}{path}",
                             body(side) if callable(body) else body, content_type)

    def make(self, collection, body):
        content_type = JSON if self.chance(0.98) else FORM
        return lambda side: ("POST", f"/1.0/{collection}", body(side) if callable(body) else body, content_type)

    def destination(self):
        number, kind = self.number(), self.one("lba", "lba", "int", "grp", "none")
        if kind == "none":
            body = self.one({}, {"destination": "x"}, {"destination": "int-zzzzz"}, {"destination": "dbs-zzzzz"})
            return lambda side: body
        if kind == "int":
            return lambda side: {"destination": side.interface(number % 3)}
        return lambda side: {"destination": side.id("load_balancers" if kind == "lba" else "server_groups", number)}

    def rule(self):
        number, has_policy = self.number(), self.chance(0.9)
        body = {"protocol": self.one("tcp", None), "source": self.one("10.0.0.0/8", None),
                "destination_port": self.one("80", "80,443", "1-2,7", "x", "80,", "1-2-3", None), "description": "d"}
        body = self.spoiled(body)
        return lambda side: {**body, "firewall_policy": side.id("firewall_policies", number)} if has_policy else body

    def policy(self):
        number, has_group = self.number(), self.chance(0.5)
        body = self.spoiled({"name": self.one("a", "b", "default"), "description": self.one("d", None)})
        return lambda side: {**body, "server_group": side.id("server_groups", number)} if has_group else body

    def group_of_policy(self):
        number = self.number()
        return lambda side: {"server_group": side.id("server_groups", number)}

    def cloud_ip(self):
        return self.spoiled({"name": self.one("a", "b", None), "reverse_dns": self.one("a.example.com", None)})

    def next(self):
        collection = self.one(*CODES)
        members, query = self.servers("server"), self.one("", "?account_id=acc-zzzzz", "?x=y")
        return self.one(
            lambda: self.make("load_balancers", self.balancer(is_new=True)),
            lambda: self.make("load_balancers", self.balancer(is_new=True)),
            lambda: self.on("PUT", "load_balancers", "", self.balancer(is_new=False)),
            lambda: self.on("PUT", "load_balancers", "", self.balancer(is_new=False)),
            lambda: self.on("DELETE", "load_balancers"),
            lambda: self.make("cloud_ips", {**self.cloud_ip(), "mode": self.one("nat", "route", "x")}),
            lambda: self.on("PUT", "cloud_ips", "", self.cloud_ip()),
            lambda: self.on("POST", "cloud_ips", "map", self.destination()),
            lambda: self.on("POST", "cloud_ips", "map", self.destination()),
            lambda: self.on("POST", "cloud_ips", "unmap", self.one(None, {}, {"a": 1})),
            lambda: self.on("DELETE", "cloud_ips"),
            lambda: self.make("server_groups", self.spoiled({"name": self.one("a", "b"), "description": "d"})),
            lambda: self.on("POST", "server_groups", self.one("add_servers", "remove_servers"),
                            lambda side: {"servers": members(side)}),
            lambda: self.on("POST", "server_groups", self.one("add_servers", "remove_servers"),
                            lambda side: {"servers": members(side)}),
            lambda: self.on("DELETE", "server_groups"),
            lambda: self.make("firewall_policies", self.policy()),
            lambda: self.on("PUT", "firewall_policies", "", self.spoiled({"name": self.one("a", "default")})),
            lambda: self.on("POST", "firewall_policies", "apply_to", self.group_of_policy()),
            lambda: self.on("DELETE", "firewall_policies"),
            lambda: self.make("firewall_rules", self.rule()),
            lambda: self.on("PUT", "firewall_rules", "", self.rule()),
            lambda: self.on("DELETE", "firewall_rules"),
            lambda: self.on("GET", "firewall_rules"),
            lambda: self.on("GET", collection),
            lambda: self.on("POST", "servers", self.one("start", "stop", "shutdown", "reboot", "reset")),
            lambda: lambda side: ("GET", f"/1.0/{collection}{query}", None, JSON),
            lambda: lambda side: ("GET", "/1.0/accounts", None, JSON),
        )()


@pytest.fixture
def sides():
    with Brightbox() as cloud, Model("brightbox") as model:
        for _ in range(3):
            cloud.account.add_server()
        cloud.user, cloud.password = "user@example.com", "token"
        cloud._users = {cloud.user: (cloud.password, [cloud.account])}
        with Api(cloud.url, None) as api:
            yield Side(api, (cloud.client, cloud.secret), (cloud.user, cloud.password)), \
                Side(model, ("token", "token"), ("user@example.com", "token"))


def test_the_model_answers_as_the_simulated_cloud(sides, seed=1):
    sequence = Sequence(seed)
    for _ in range(REQUESTS):
        compare(sides, sequence.next())


def test_servers_leave_their_groups_and_balancers(sides):
    """And a server that was deleted is good for nothing."""
    everything = [lambda side, name=name: ("GET", f"/1.0/{name}", None) for name in CODES]
    first = lambda side: side.id("servers", 0)
    body = {"listeners": [], "healthcheck": {"type": "tcp", "port": 80}}
    for choose in [
        lambda side: ("POST", "/1.0/server_groups", {"name": "g"}),
        lambda side: ("POST", f"/1.0/server_groups/{side.id('server_groups', 1)}/add_servers", {"servers": [{"server": first(side)}]}),
        lambda side: ("DELETE", f"/1.0/server_groups/{side.id('server_groups', 1)}"),
        lambda side: ("POST", "/1.0/load_balancers", {**body, "nodes": [{"node": first(side)}]}),
        *everything,
        lambda side: ("DELETE", f"/1.0/servers/{first(side)}"),
        lambda side: ("DELETE", f"/1.0/servers/{first(side)}"),
        *everything,
        lambda side: ("POST", "/1.0/load_balancers", {**body, "nodes": [{"node": first(side)}]}),
        lambda side: ("POST", f"/1.0/server_groups/{side.id('server_groups', 1)}/add_servers", {"servers": [{"server": first(side)}]}),
    ]:
        compare(sides, choose)


def test_tokens(sides):
    password = [{"grant_type": "password", "username": side.user[0], "password": side.user[1]} for side in sides]
    given = [side.token(form, APPLICATION) for side, form in zip(sides, password)]
    refresh = [{"grant_type": "refresh_token", "refresh_token": one[1]["refresh_token"]} for one in given]
    for form, client in [
        ({"grant_type": "client_credentials"}, lambda side: side.client),
        ({"grant_type": "client_credentials"}, lambda side: (side.client[0], "wrong")),
        ({"grant_type": "client_credentials"}, lambda side: None),
        ({"grant_type": "client_credentials"}, lambda side: APPLICATION),
        ({"grant_type": "other"}, lambda side: side.client),
        ({}, lambda side: side.client),
        (password, lambda side: side.client),
        (password, lambda side: APPLICATION),
        (refresh, lambda side: APPLICATION),
        (refresh, lambda side: APPLICATION),
        ({"grant_type": "password", "username": "user@example.com", "password": "wrong"}, lambda side: APPLICATION),
    ]:
        forms = form if isinstance(form, list) else [form, form]
        right, found = (one.normalised(list(one.token(text, client(one)))) for one, text in zip(sides, forms))
        assert found == right, form
    for token in ("wrong", None):
        for side in sides:
            side.api.token = token
        compare(sides, lambda side: ("GET", "/1.0/servers"))
    for side, one in zip(sides, given):
        side.api.token = one[1]["access_token"]
    account = {side: side.api.request("GET", "/1.0/accounts").json()[0]["id"] for side in sides}
    compare(sides, lambda side: ("GET", f"/1.0/servers?account_id={account[side]}"))
    compare(sides, lambda side: ("GET", "/1.0/servers?account_id=acc-zzzzz"))
