"""The simulated Hetzner Cloud beside Hetzner's own description of its API: the same questions, the same answers.

Where they differ, it says why. A difference that is gone is to be struck from the lists.
"""
from fnmatch import fnmatchcase

import pytest

from lib.openapi import Document, differences, document_path, query_differences
from lib.rest import Rest
from sim import tables

pytestmark = pytest.mark.skipif(document_path() is None, reason="no copy of Hetzner's OpenAPI document at hand")

ANSWERS_LACK = "the API gives it in answers whatever was asked; clients leave it out of requests and get the default"

# (method, path, difference), as patterns of fnmatch -> why it is right to differ
KNOWN_REQUESTS = {
    ("GET", "/actions", "[?]*: only here"): "the official clients page and sort this list as all others",
    ("POST", "/networks*", "*gateway: only here"): "older clients send it, empty; what it says counts for nothing",
    ("POST", "/load_balancers*", "*http.timeout_idle: only here"): "newer than the document",
    ("POST", "/load_balancers*", "*proxyprotocol: required there"): ANSWERS_LACK,
    ("POST", "/load_balancers*", "*destination_port: required there"): ANSWERS_LACK,
    ("POST", "/load_balancers*", "*health_check*: required there"): ANSWERS_LACK,
    ("DELETE", "/load_balancers/{id}", "status: 201 here"): "deletion is an action since October 2026 (the API's changelog)",
    ("POST", "/load_balancers", "public_net: only here"): "since October 2026 (the API's changelog)",
    ("POST", "/primary_ips", "assignee_type: *"): "since October 2026 a load balancer may be one, and clients leave it out",
    ("POST", "/primary_ips", "*: only there"): "no address is made for a server here",
    ("POST", "/*", "*: an ID or a name here, string there"): "IDs are taken as numbers too; clients send both",
    ("GET", "/images", "[?]include_deprecated: string here, boolean there"): "in a query all is text",
}
KNOWN_ANSWERS = {
    ("GET", "/actions", "*('meta' was unexpected)"): "it comes with all lists; clients read it where it is",
    ("*", "/servers*", "*'datacenter' is a required property"): "gone since July 2026, see HCloud.datacenter",
    ("*", "/server*", "*('available', 'recommended' were unexpected)"): "newer than the document; clients insist on it",
    ("DELETE", "/load_balancers/{id}", "status 201 is not described"): "deletion is an action since October 2026",
    ("*", "/load_balancers*", "*('timeout_idle' was unexpected)"): "newer than the document",
    ("*", "/load_balancers*", "*('blocked', 'id' were unexpected)"): "newer than the document",
    ("*", "/load_balancers*", "*('detail', 'http_status_code' were unexpected)"): "newer than the document",
    ("*", "/primary_ips*", "*'datacenter' is a required property"): "gone since July 2026",
    ("*", "/load_balancer*", "*('deprecation' was unexpected)"): "newer than the document",
}


@pytest.fixture(scope="module")
def document():
    return Document(document_path())


def unknown(found, known):
    """Those that no pattern of known explains; and the patterns that explain nothing."""
    fits = lambda one, pattern: all(map(fnmatchcase, one, pattern))
    used = set()
    left = []
    for one in found:
        reasons = [pattern for pattern in known if fits(one, pattern)]
        used.update(reasons)
        if not reasons:
            left.append(one)
    return left, set(known) - used


def test_we_ask_and_allow_what_the_document_does(document):
    found = []
    for (method, path), row in tables.ROWS.items():
        operation = document.operation(method, path)
        assert operation, f"{method} {path} is not described"
        lines = [] if str(row.status) in operation["responses"] else [f"status: {row.status} here"]
        lines += query_differences(document, row, operation)
        schema = document.request_schema(method, path)
        assert (schema is None) == (row.body is None), (method, path)
        if schema:
            lines += differences(document, row.body, schema)
        found += [(method, path, line) for line in lines]
    left, unused = unknown(found, KNOWN_REQUESTS)
    assert not left, "\n".join(" ".join(one) for one in left)
    assert not unused, "these are no differences any more"


TCP = {"protocol": "tcp", "listen_port": 80, "destination_port": 30080,
       "health_check": {"protocol": "http", "port": 30080}}
MANAGED = {"type": "managed", "domain_names": ["example.com"]}


class Journey:
    """Asks for everything in the tables once, and keeps what the document says about the answers."""

    def __init__(self, cloud, document):
        self.rest = Rest(cloud, cloud.token)
        self.document = document
        self.asked = set()
        self.found = []

    def ask(self, method, path, body=None, **ids):
        """path as in the tables; its placeholders are ids."""
        filled = path.format(**ids)
        query = {"id": ids["query"]} if "query" in ids else {}
        answer = self.rest(method, filled, body, **query)
        assert answer.status == tables.ROWS[method, path].status, (method, filled, answer.body)
        decoded = answer.json() if answer.body else None
        self.asked.add((method, path))
        self.found += [(method, path, one) for one in self.document.problems(method, path, answer.status, decoded)]
        return decoded

    def catalog(self):
        for plural in ("locations", "datacenters", "server_types", "load_balancer_types", "images"):
            first = self.ask("GET", f"/{plural}")[plural][0]
            self.ask("GET", f"/{plural}/{{id}}", id=first["id"])
        self.ask("GET", "/ssh_keys")

    def network(self):
        made = self.ask("POST", "/networks", {"name": "net", "ip_range": "10.0.0.0/9", "subnets": [
            {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}]})["network"]["id"]
        do = lambda action, body: self.ask("POST", f"/networks/{{id}}/actions/{action}", body, id=made)
        route = {"destination": "10.100.0.0/24", "gateway": "10.0.0.2"}
        do("add_route", route)
        do("add_subnet", {"type": "cloud", "network_zone": "eu-central"})
        self.read("networks", made)
        do("delete_route", route)
        do("delete_subnet", {"ip_range": "10.0.1.0/24"})
        do("change_ip_range", {"ip_range": "10.0.0.0/8"})
        do("change_protection", {"delete": False})
        return made

    def server(self, network):
        made = self.ask("POST", "/servers", {"name": "n1", "server_type": "cx22", "image": "debian-12",
                                             "labels": {"a": "b"}})["server"]["id"]
        do = lambda action, body=None: self.ask("POST", f"/servers/{{id}}/actions/{action}", body, id=made)
        do("attach_to_network", {"network": network, "alias_ips": ["10.0.0.9"]})
        do("change_alias_ips", {"network": network, "alias_ips": []})
        for action in ("poweroff", "poweron", "reboot", "reset", "shutdown"):
            do(action)
        do("change_protection", {"delete": False})
        self.read("servers", made)
        return made

    def certificate(self):
        made = self.ask("POST", "/certificates", {"name": "c", **MANAGED})["certificate"]["id"]
        self.read("certificates", made)
        return made

    def primary_ip(self):
        made = self.ask("POST", "/primary_ips", {"name": "ip", "type": "ipv4", "location": "fsn1", "assignee_type": "server",
                                                 "auto_delete": False})["primary_ip"]["id"]
        self.ask("POST", "/primary_ips/{id}/actions/change_protection", {"delete": False}, id=made)
        self.read("primary_ips", made)
        return made

    def balancer(self, network, server, primary_ip):
        made = self.ask("POST", "/load_balancers", {
            "name": "lb", "load_balancer_type": "lb11", "location": "fsn1", "services": [TCP], "public_net": {"ipv4": primary_ip},
        })["load_balancer"]
        do = lambda action, body=None: self.ask("POST", f"/load_balancers/{{id}}/actions/{action}", body, id=made["id"])
        do("attach_to_network", {"network": network})
        do("add_service", {**TCP, "protocol": "http", "listen_port": 81, "http": {"sticky_sessions": True}})
        do("update_service", {"listen_port": 81, "http": {"cookie_name": "x"}})
        target = {"type": "server", "server": {"id": server}}
        do("add_target", {**target, "use_private_ip": True})
        do("add_target", {"type": "label_selector", "label_selector": {"selector": "a=b"}, "use_private_ip": True})
        self.read("load_balancers", made["id"])
        do("disable_public_interface")
        do("enable_public_interface")
        do("remove_target", target)
        do("delete_service", {"listen_port": 81})
        do("change_algorithm", {"type": "least_connections"})
        do("change_type", {"load_balancer_type": "lb21"})
        do("change_dns_ptr", {"ip": made["public_net"]["ipv4"]["ip"], "dns_ptr": None})
        do("change_protection", {"delete": False})
        do("detach_from_network", {"network": network})
        return made["id"]

    def read(self, plural, ident):
        self.ask("GET", f"/{plural}")
        self.ask("GET", f"/{plural}/{{id}}", id=ident)
        self.ask("PUT", f"/{plural}/{{id}}", {"labels": {"a": "b"}}, id=ident)
        self.ask("GET", f"/{plural}/actions")
        if actions := self.ask("GET", f"/{plural}/{{id}}/actions", id=ident)["actions"]:
            action = actions[0]["id"]
            self.ask("GET", f"/{plural}/actions/{{id}}", id=action)
            self.ask("GET", f"/{plural}/{{id}}/actions/{{action_id}}", id=ident, action_id=action)
            self.ask("GET", "/actions", query=[action])
            self.ask("GET", "/actions/{id}", id=action)


@pytest.mark.parametrize("datacenter", ["absent", "present"])
def test_we_answer_as_the_document_says(cloud, document, datacenter):
    cloud.datacenter = datacenter
    journey = Journey(cloud, document)
    journey.catalog()
    network = journey.network()
    server = journey.server(network)
    certificate = journey.certificate()
    primary_ip = journey.primary_ip()
    balancer = journey.balancer(network, server, primary_ip)
    journey.ask("POST", "/servers/{id}/actions/detach_from_network", {"network": network}, id=server)
    for plural, ident in (("load_balancers", balancer), ("primary_ips", primary_ip), ("certificates", certificate), ("servers", server),
                          ("networks", network)):
        journey.ask("DELETE", f"/{plural}/{{id}}", id=ident)
    assert journey.asked == set(tables.ROWS)
    left, unused = unknown(set(journey.found), KNOWN_ANSWERS)
    assert not left, "\n".join(" ".join(one) for one in left)
    if datacenter == "absent":
        assert not unused, "these are no differences any more"


def test_errors_are_as_the_document_says(cloud, document):
    rest = Rest(cloud, cloud.token)
    bad = [("POST", "/load_balancers", {"nmae": 1}), ("GET", "/servers/{id}", None), ("DELETE", "/networks/{id}", None),
           ("POST", "/networks", "{")]
    for method, path, body in bad:
        answer = rest(method, path.format(id=7), body)
        assert answer.status in (400, 404, 422)
        assert document.problems(method, path, answer.status, answer.json()) == []
    cloud.project.tokens_left = 0
    answer = rest("GET", "/servers")
    assert document.problems("GET", "/servers", answer.status, answer.json()) == []
