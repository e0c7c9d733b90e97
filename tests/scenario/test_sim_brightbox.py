"""The simulated Brightbox API is what it says it is: Brightbox's own Go library does its work with it, what the API
refuses is refused in its words, and changes take the time that a test says.
"""
import base64
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from lib.ccmd import REPOSITORY
from sim import faults
from sim.brightbox import APPLICATION, Brightbox, empty_list, refuse

CONFLICT = {"error_name": "resource_conflict", "errors": ["Unable to action the request due to conflicting states"]}
BALANCER = {"name": "web", "listeners": [{"protocol": "tcp", "in": 80, "out": 30080}],
            "healthcheck": {"type": "tcp", "port": 30080}}


@pytest.fixture
def brightbox():
    with Brightbox() as cloud:
        yield cloud


class Client:
    """Requests as they are; each answer is (status, body)."""

    def __init__(self, cloud, token=None):
        self.cloud = cloud
        self.token = token or self.get_token(cloud.client, cloud.secret)["access_token"]

    def get_token(self, client, secret, **form):
        basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        body = urllib.parse.urlencode({"grant_type": "client_credentials", **form}).encode()
        return self._send("POST", "/token/", body, {
            "Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"})[1]

    def __call__(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        return self._send(method, f"/1.0/{path}", data,
                          {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})

    def _send(self, method, path, data, headers):
        request = urllib.request.Request(self.cloud.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                self.headers = answer.headers
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            self.headers = error.headers
            return error.code, json.load(error)


@pytest.fixture
def client(brightbox):
    return Client(brightbox)


# --- the official library ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def go_brightbox():
    tool = REPOSITORY / "tools" / "go-program"
    return subprocess.run([tool, "tests/scenario/go-brightbox"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(params=["API client", "user"])
def official(request, brightbox, go_brightbox):
    """official(argument…): what the official library prints; an error, if it ends with one."""
    environment = brightbox.environment(with_user=request.param == "user")

    def run(*arguments):
        done = subprocess.run([go_brightbox, *arguments], env=environment, text=True, capture_output=True, timeout=60)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run


def test_the_official_library_serves_a_service_and_removes_it(brightbox, official):
    account = brightbox.account
    one, two, three = (account.add_server()["id"] for _ in range(3))
    assert official("make", "web.default.k", one, two) == ""
    lb, = account.named("load_balancers", "web.default.k")
    assert (lb["nodes"], lb["policy"], lb["healthcheck"]["interval"]) == ([one, two], "round-robin", 4000)
    group, = account.named("server_groups", "web.default.k")
    assert group["servers"] == [one, two]
    assert official("change", "web.default.k", two, three) == ""
    assert (lb["nodes"], [each["in"] for each in lb["listeners"]]) == ([two, three], [80, 443])
    assert sorted(group["servers"]) == sorted([two, three])
    rule, = account.rules_of(account.named("firewall_policies", "web.default.k")[0])
    assert (rule["destination_port"], rule["source"]) == ("30081", "10.0.0.0/8")
    assert official("remove", "web.default.k") == ""
    assert lb["status"] == "deleted"
    for collection in ("cloud_ips", "server_groups", "firewall_policies"):
        assert account.named(collection, "web.default.k") == []
    assert account.every("firewall_rules") == []


def test_the_official_library_reads_a_server(brightbox, official):
    server = brightbox.account.add_server(zone="gb1s-b", server_type="2gb.ssd", status="inactive")
    interface = server["interfaces"][0]
    assert official("look", server["id"]).split() == [
        server["id"], "inactive", server["id"], f"{server['id']}.gb1.brightbox.com", "gb1s-b", "2gb.ssd",
        interface["ipv4_address"], interface["ipv6_address"], "0"]
    assert official("look", "srv-aaaaa") == "not found\n"


def test_the_official_library_meets_errors(brightbox, official):
    server = brightbox.account.add_server()["id"]
    brightbox.fault("GET", "/1.0/servers/{id}", refuse(503, "service_error", "try later"))
    assert official("look", server) == "service_error: try later\n"
    brightbox.fault("GET", "/1.0/servers/{id}", faults.plain(502))
    assert "ParseError at" in official("look", server)
    brightbox.lb_delete_leaves_cloud_ips_mapped = True
    brightbox.map_never_completes = True
    assert "Mapping of CloudIP" in official("make", "web", server)


# --- tokens --------------------------------------------------------------------------------------------------------------


def test_credentials(brightbox, client):
    assert client.get_token(brightbox.client, "wrong") == {"error": "invalid_client"}
    assert client.headers["WWW-Authenticate"] == 'Basic realm="api.gb1.brightbox.com"'
    assert client.get_token(*APPLICATION)["error"] == "unauthorized_client"
    assert client.get_token(brightbox.client, brightbox.secret, grant_type="magic") == {"error": "unsupported_grant_type"}
    by_password = {"grant_type": "password", "username": brightbox.user}
    assert client.get_token(*APPLICATION, **by_password, password="wrong") == {"error": "invalid_client"}
    given = client.get_token(*APPLICATION, **by_password, password=brightbox.password)
    assert (given["expires_in"], len(given["access_token"])) == (7200, 40)
    renewed = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"]}
    assert "access_token" in client.get_token(*APPLICATION, **renewed)
    assert client.get_token(*APPLICATION, **renewed) == {"error": "invalid_client"}


def test_tokens_end(brightbox, client):
    assert client("GET", "servers") == (200, [])
    brightbox.advance(7201)
    assert client("GET", "servers") == (401, {
        "error": "expired_token", "error_description": "OAuth token presented has expired and is no longer valid"})
    assert Client(brightbox, "0" * 40)("GET", "servers") == (401, {
        "error": "invalid_token", "error_description": "The OAuth token can not be found"})
    fresh = Client(brightbox)
    assert fresh("GET", "servers")[0] == 200
    brightbox.revoke_tokens()
    assert fresh("GET", "servers")[0] == 401


def test_accounts_see_only_their_own_objects(brightbox, client):
    server = brightbox.account.add_server()
    other = brightbox.add_account()
    assert client("GET", f"servers/{server['id']}")[0] == 200
    brightbox.move_client(other)
    stranger = Client(brightbox)
    assert stranger("GET", f"servers/{server['id']}") == (
        404, {"error_name": "missing_resource", "errors": ["Resource not found"]})
    assert [one["id"] for one in stranger("GET", "accounts")[1]] == [other.id]


# --- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, problem", [
    ({"listeners": [{"protocol": "http+ws", "in": 80, "out": 1}]}, "listeners.0.protocol must be one of tcp, http, https"),
    ({"listeners": [{"protocol": "tcp", "in": 80}]}, "listeners.0.out is required"),
    ({"listeners": BALANCER["listeners"] * 2}, "Listeners have duplicate in ports"),
    ({"listeners": [{"protocol": "tcp", "in": 80, "out": 1, "timeout": 4999}]},
     "listeners.0.timeout must be at least 5000"),
    ({"listeners": [{"protocol": "https", "in": 443, "out": 1}]}, "Listeners with https need domains or a certificate"),
    ({"nodes": [{"node": "srv-aaaaa"}]}, "Node srv-aaaaa is not a server of this account"),
    ({"nodes": [{"node": "n1"}]}, "nodes.0.node has an invalid format"),
    ({"policy": "random"}, "policy must be one of least-connections, round-robin, source-address"),
    ({"colour": "red"}, "colour unknown field"),
])
def test_invalid_balancers_are_refused(brightbox, client, change, problem):
    assert client("POST", "load_balancers", {**BALANCER, **change}) == (
        422, {"error_name": "unprocessable_entity", "errors": [problem]})
    assert brightbox.account.every("load_balancers") == []


def test_other_refusals(brightbox, client):
    policy, = brightbox.account.every("firewall_policies")
    assert client("PUT", f"firewall_policies/{policy['id']}", {"name": "x"}) == (
        422, {"error_name": "unprocessable_entity", "errors": ["default firewall policy can not be renamed"]})
    assert client("DELETE", f"firewall_policies/{policy['id']}") == (409, CONFLICT)
    group, = brightbox.account.every("server_groups")
    assert client("DELETE", f"server_groups/{group['id']}") == (409, CONFLICT)
    assert client("POST", f"server_groups/{group['id']}/add_servers", {"servers": [{"server": "srv-aaaaa"}]})[0] == 422
    ports = ",".join(str(port) for port in range(30000, 30016))
    assert client("POST", "firewall_rules", {"firewall_policy": policy["id"], "destination_port": ports})[0] == 422
    brightbox.limits["cloud_ips"] = 0
    assert client("POST", "cloud_ips", {"name": "a"}) == (403, {
        "error_name": "Forbidden", "errors": ["Account limit reached, please contact support for more information"]})
    assert client("GET", "servers/srv-aaaaa/console")[0] == 404


# --- what takes a while --------------------------------------------------------------------------------------------------


def test_the_life_of_a_balancer(brightbox, client):
    brightbox.lb_build_s = brightbox.lb_destroy_s = brightbox.map_delay_s = 10
    status, lb = client("POST", "load_balancers", BALANCER)
    assert (status, lb["status"], client.headers["Location"]) == (202, "creating", lb["url"])
    _, cip = client("POST", "cloud_ips", {"name": "web"})
    assert client("POST", f"cloud_ips/{cip['id']}/map", {"destination": lb["id"]})[1]["status"] == "unmapped"
    read = lambda path: client("GET", path)[1]
    assert (read(f"load_balancers/{lb['id']}")["status"], read(f"cloud_ips/{cip['id']}")["status"]) == ("creating", "unmapped")
    brightbox.advance(10)
    shown = read(f"load_balancers/{lb['id']}")
    assert (shown["status"], [one["id"] for one in shown["cloud_ips"]]) == ("active", [cip["id"]])
    assert client("DELETE", f"cloud_ips/{cip['id']}") == (409, CONFLICT)
    assert client("DELETE", f"load_balancers/{lb['id']}")[1]["status"] == "deleting"
    assert client("PUT", f"load_balancers/{lb['id']}", {"name": "x"}) == (409, CONFLICT)
    brightbox.advance(10)
    shown = read(f"load_balancers/{lb['id']}")
    assert (shown["status"], shown["cloud_ips"], bool(shown["deleted_at"])) == ("deleted", [], True)
    assert client("DELETE", f"cloud_ips/{cip['id']}")[0] == 200
    brightbox.advance(3600)
    assert client("GET", f"load_balancers/{lb['id']}")[0] == 404


def test_certificates_take_time_or_fail(brightbox, client):
    brightbox.acme_delay_s = 5
    brightbox.acme_status["b.example"] = ("invalid", "no such name")
    body = {**BALANCER, "listeners": [{"protocol": "https", "in": 443, "out": 1}], "domains": ["a.example", "b.example"]}
    _, lb = client("POST", "load_balancers", body)
    assert [one["status"] for one in lb["acme"]["domains"]] == ["pending", "pending"]
    brightbox.advance(5)
    shown = client("GET", f"load_balancers/{lb['id']}")[1]["acme"]["domains"]
    assert [(one["status"], one["last_message"]) for one in shown] == [("valid", None), ("invalid", "no such name")]


def test_a_server_stops_starts_and_goes(brightbox, client):
    brightbox.server_delay_s = 3
    server = brightbox.account.add_server(groups=brightbox.account.every("server_groups"))
    path = f"servers/{server['id']}"
    assert client("POST", f"{path}/stop")[1]["status"] == "active"
    brightbox.advance(3)
    assert client("GET", path)[1]["status"] == "inactive"
    assert client("POST", f"{path}/stop") == (409, CONFLICT)
    assert client("DELETE", path)[1]["status"] == "deleting"
    brightbox.advance(3)
    assert client("GET", path)[1]["status"] == "deleted"
    assert brightbox.account.every("server_groups")[0]["servers"] == []


# --- controls ------------------------------------------------------------------------------------------------------------


def test_controls_over_http(brightbox, client):
    def control(method, path, body=None):
        return client._send(method, f"/_sim/{path}", json.dumps(body).encode() if body is not None else None, {})

    assert control("PUT", "state", {"cloud_ips": [{"id": "cip-abcde", "reverse_dns": None}]})[0] == 200
    shown = client("GET", "cloud_ips")[1]
    assert [(one["id"], one["reverse_dns"], one["status"]) for one in shown] == [("cip-abcde", None, "unmapped")]
    control("POST", "switches", {"lb_build_s": 60})
    assert client("POST", "load_balancers", BALANCER)[1]["status"] == "creating"
    control("POST", "clock", {"advance_s": 60})
    assert client("GET", "load_balancers")[1][0]["status"] == "active"
    assert [(one["method"], one["path"]) for one in control("GET", "log")[1]][-1] == ("GET", "/1.0/load_balancers")
    control("POST", "fault", {"method": "GET", "path": "/1.0/cloud_ips", "status": 418, "body": "{}"})
    assert client("GET", "cloud_ips")[0] == 418
    control("POST", "token/revoke", {})
    assert client("GET", "cloud_ips")[0] == 401
    assert control("POST", "switches", {"nothing": 1})[0] == 422


def test_a_world_file(brightbox, client):
    """Partial objects get their usual members, null stays null; what was dumped can be loaded again."""
    brightbox.load({
        "servers": [{"id": "srv-aaaaa", "zone": "gb1s-b", "server_type": None}],
        "load_balancers": [{"id": "lba-aaaaa", "name": "web", "nodes": ["srv-aaaaa"]}],
        "cloud_ips": [{"id": "cip-aaaaa", "status": "mapped", "load_balancer": "lba-aaaaa", "reverse_dns": None}],
        "switches": {"lb_destroy_s": 9, "fail_delete": ["cip-aaaaa"],
                     "faults": [{"method": "GET", "path": "/1.0/zones*", "status": 503, "body": "{}"}]},
    })
    lb = client("GET", "load_balancers/lba-aaaaa")[1]
    assert [(one["id"], one["reverse_dns"]) for one in lb["cloud_ips"]] == [("cip-aaaaa", None)] and lb["buffer_size"] == 4096
    server = client("GET", "servers/srv-aaaaa")[1]
    assert (server["zone"]["handle"], server["server_type"], server["hostname"]) == ("gb1s-b", None, "srv-aaaaa")
    assert client("GET", f"zones/{server['zone']['id']}")[0] == 503 and brightbox.lb_destroy_s == 9
    assert client("DELETE", "cloud_ips/cip-aaaaa") == (409, CONFLICT)
    before = brightbox.dump()
    brightbox.load(before)
    assert brightbox.dump() == before


@pytest.mark.parametrize("kind, wanted", [("empty_list", (200, [])), ("other_account", (200, []))])
def test_faults_over_http(brightbox, client, kind, wanted):
    brightbox.account.add_server()
    send = lambda method, body=None: client._send(method, "/_sim/fault", json.dumps(body).encode() if body else None, {})
    send("POST", {"method": "GET", "path": "/1.0/*", "kind": kind, "times": None})
    assert client("GET", "servers") == wanted
    send("DELETE")
    assert len(client("GET", "servers")[1]) == 1
    assert send("POST", {"kind": "magic"})[0] == 422


def test_an_answer_that_is_not_json_is_a_fault_over_http(brightbox, client):
    client._send("POST", "/_sim/fault", json.dumps({"path": "/1.0/*", "kind": "bad_json"}).encode(), {})
    with pytest.raises(ValueError):
        client("GET", "servers")


def test_faults(brightbox, client):
    brightbox.account.add_server()
    brightbox.fault("GET", "/1.0/servers", empty_list())
    assert client("GET", "servers") == (200, [])
    assert len(client("GET", "servers")[1]) == 1


def test_names_of_cloud_ips(brightbox):
    cip = brightbox.account.add("cloud_ips")
    assert f"{cip['public_ipv4']} {cip['reverse_dns']}\n" in brightbox.hosts()
    assert f"{cip['public_ipv6']} {cip['fqdn']}\n" in brightbox.hosts()


def test_the_file_of_names_is_replaced_and_never_empty(brightbox, client, tmp_path):
    brightbox.hosts_file = tmp_path / "hosts"
    client("POST", "cloud_ips", {"name": "one"})
    before = brightbox.hosts()
    with brightbox.hosts_file.open() as reader:
        client("POST", "cloud_ips", {"name": "two"})
        assert reader.read() == before and brightbox.hosts_file.read_text() == brightbox.hosts() != before
