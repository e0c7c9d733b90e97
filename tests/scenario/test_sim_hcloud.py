"""The simulated Hetzner Cloud itself: that it is as strict, and as honest, as scenarios need."""
import http.client
import re
import signal
import subprocess
import threading
import time

import pytest

from lib.process import REPOSITORY, spawn
from lib.rest import Rest
from lib.wait import wait_for
from sim import faults, routing, selector, tables
from sim.hcloud import HCloud

TYPES = {"load_balancer_type": "lb11", "location": "fsn1"}
TCP = {"protocol": "tcp", "listen_port": 80, "destination_port": 30080,
       "health_check": {"protocol": "tcp", "port": 30080}}


@pytest.fixture
def rest(cloud):
    rest = Rest(cloud, cloud.token)
    yield rest
    rest.close()


def on(balancer, action):
    return f"/load_balancers/{balancer.id}/actions/{action}"


# --- who asks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic {}", "{}", "Bearer"])
def test_every_request_needs_a_token(cloud, authorization):
    answer = Rest(cloud, authorization=authorization and authorization.format(cloud.token))("GET", "/locations")
    assert answer.status == 401
    assert answer.json() == {"error": {"code": "unauthorized", "message": "unable to authenticate", "details": None}}


def test_a_token_of_another_project_sees_that_project(cloud, rest):
    cloud.add_server("n1")
    other, token = cloud.add_project()
    other.add_server("theirs")
    assert [one["name"] for one in Rest(cloud, token).good("GET", "/servers")["servers"]] == ["theirs"]
    answer = Rest(cloud, token)("GET", f"/servers/{cloud.server('n1').id}")
    assert (answer.status, answer.code) == (404, "not_found")


def test_a_token_that_was_rotated_is_refused(cloud, rest):
    rest.good("GET", "/locations")
    token = cloud.rotate_token()
    assert rest("GET", "/locations").status == 401
    Rest(cloud, token).good("GET", "/locations")


def test_a_token_may_be_for_reading_only(cloud):
    rest = Rest(cloud, cloud.add_token(may_write=False))
    rest.good("GET", "/servers")
    assert rest("POST", "/networks", {"name": "n", "ip_range": "10.0.0.0/8"}).code == "forbidden"


# --- what is asked -------------------------------------------------------------------------------------------------------


def test_every_row_of_the_tables_is_served():
    assert set(routing.HANDLERS) == set(tables.ROWS)


@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "/nothing", 404, "not_found"),
    ("GET", "/servers/7", 404, "not_found"),
    ("GET", "/servers/x", 404, "not_found"),
    ("GET", "/servers/7/actions", 404, "not_found"),
    ("PATCH", "/servers", 405, "method_not_allowed"),
    ("PUT", "/servers", 405, "method_not_allowed"),
    ("GET", "/actions", 410, "deprecated_api_endpoint"),
])
def test_paths_and_objects_that_do_not_exist(rest, method, path, status, code):
    answer = rest(method, path)
    assert (answer.status, answer.code) == (status, code)


def test_a_path_outside_of_the_version_is_unknown(cloud):
    rest = Rest(cloud, cloud.token)
    rest.base = ""
    assert rest("GET", "/servers").status == 404


@pytest.mark.parametrize("query", [{"nmae": "x"}, {"page": 0}, {"page": "x"}, {"per_page": -1}, {"sort": "status"},
                                   {"status": "on"}, {"label_selector": "a=b="}, {"sort": ["id", "age"]}])
def test_a_query_that_the_api_does_not_know(rest, query):
    answer = rest("GET", "/servers", **query)
    assert (answer.status, answer.code, answer.fields) == (422, "invalid_input", list(query))


@pytest.mark.parametrize("change, field", [
    ({"name": None}, "name"),
    ({"name": ""}, "name"),
    ({"nmae": "x"}, "nmae"),
    ({"load_balancer_type": True}, "load_balancer_type"),
    ({"load_balancer_type": "lb99"}, "load_balancer_type"),
    ({"network_zone": "eu-central"}, "location"),
    ({"algorithm": {"type": "Round_Robin"}}, "algorithm.type"),
    ({"algorithm": "round_robin"}, "algorithm"),
    ({"labels": {"a b": "c"}}, "labels"),
    ({"labels": {"hetzner.cloud/x": "c"}}, "labels"),
    ({"labels": {"a": 1}}, "labels"),
    ({"public_interface": 1}, "public_interface"),
    ({"services": [{**TCP, "listen_port": 0}]}, "services.0.listen_port"),
    ({"services": [{**TCP, "health_check": {"protocol": "https", "port": 1}}]}, "services.0.health_check.protocol"),
    ({"services": [{**TCP, "health_check": {"protocol": "tcp", "port": 1, "http": {"code": []}}}]},
     "services.0.health_check.http.code"),
    ({"targets": [{"type": "server"}]}, "server"),
    ({"targets": [{"type": "server", "server": {"id": 1}}]}, "server"),
    ({"network": 7}, "network"),
])
def test_a_body_that_is_wrong(cloud, rest, change, field):
    answer = rest("POST", "/load_balancers", {"name": "lb", **TYPES, **change})
    assert (answer.status, answer.code, answer.fields) == (422, "invalid_input", [field])
    assert not cloud.load_balancers


def test_a_body_that_is_missing_or_no_json(cloud, rest):
    assert rest("POST", "/load_balancers", "{").code == "json_error"
    assert rest("POST", "/load_balancers").code == "json_error"
    assert rest("POST", "/load_balancers", "[]").code == "invalid_input"
    assert rest("POST", "/load_balancers", {"name": "lb"}).fields == ["load_balancer_type"]
    balancer = cloud.add_load_balancer("lb")
    assert rest("POST", on(balancer, "enable_public_interface"), {"x": 1}).fields == ["body"]
    rest.good("POST", on(balancer, "enable_public_interface"))


# --- lists ---------------------------------------------------------------------------------------------------------------


def test_a_list_comes_in_pages(cloud, rest):
    ids = [cloud.add_server(f"n{number}").id for number in range(120)]
    assert len(rest.good("GET", "/servers")["servers"]) == 25
    assert len(rest.good("GET", "/servers", per_page=1000)["servers"]) == 50
    pages = [rest.good("GET", "/servers", per_page=50, page=number) for number in (1, 2, 3, 4)]
    assert [one["id"] for page in pages for one in page["servers"]] == ids
    assert [page["meta"]["pagination"] for page in pages[:3]] == [
        {"page": 1, "per_page": 50, "previous_page": None, "next_page": 2, "last_page": 3, "total_entries": 120},
        {"page": 2, "per_page": 50, "previous_page": 1, "next_page": 3, "last_page": 3, "total_entries": 120},
        {"page": 3, "per_page": 50, "previous_page": 2, "next_page": None, "last_page": 3, "total_entries": 120},
    ]
    assert "page=2" in rest("GET", "/servers", per_page=50).headers["Link"]


def test_an_empty_list_has_one_page(rest):
    assert rest.good("GET", "/servers")["meta"]["pagination"] == {
        "page": 1, "per_page": 25, "previous_page": None, "next_page": None, "last_page": 1, "total_entries": 0}


def test_sorting(cloud, rest):
    for name in ("b", "c", "a"):
        cloud.add_server(name)
    names = lambda **query: "".join(one["name"] for one in rest.good("GET", "/servers", **query)["servers"])
    assert [names(), names(sort="id:desc"), names(sort="name"), names(sort="name:desc")] == ["bca", "acb", "abc", "cba"]


def test_filters(cloud, rest):
    cloud.add_server("n1", labels={"role": "web"})
    cloud.add_server("n2", labels={"role": "db", "hcloud-ccm/service-uid": "x"}, status="off")
    names = lambda **query: [one["name"] for one in rest.good("GET", "/servers", **query)["servers"]]
    assert names(name="n2") == ["n2"] and names(name="N2") == []
    assert names(status="off") == ["n2"] and names(status=["off", "running"]) == ["n1", "n2"]
    assert names(label_selector="hcloud-ccm/service-uid=x") == ["n2"]
    assert names(label_selector="role!=db", name="") == ["n1"]


@pytest.mark.parametrize("text, fits", [
    ("k", True), ("!k", False), ("k=v", True), ("k==v", True), ("k!=v", False), ("k in (a,v)", True), ("k in (a)", False),
    ("k notin (a, b)", True), ("other notin (a)", True), ("other!=x", True), ("k=v,other", False), ("k = v , !other", True),
    ("k=", False), ("e=", True), ("p.q/r-s=1", True), ("", True),
])
def test_selectors(text, fits):
    assert selector.parse(text)({"k": "v", "e": "", "p.q/r-s": "1"}) is fits


@pytest.mark.parametrize("text", ["=v", "k=v=w", "k in a", "k,", ",k", "k v", "!k=v", "k in (a,b c)", "-k", "k=v w"])
def test_selectors_that_cannot_be_read(text):
    with pytest.raises(ValueError):
        selector.parse(text)


# --- requests per hour ---------------------------------------------------------------------------------------------------


def test_the_bucket_empties_and_fills(rest, cloud):
    cloud.clock.stop()
    cloud.rate_limit = 3600
    first = rest("GET", "/locations")
    assert first.headers["RateLimit-Limit"] == "3600" and first.headers["RateLimit-Remaining"] == "3599"
    assert int(first.headers["RateLimit-Reset"]) == int(cloud.clock.now() + 1)
    cloud.project.tokens_left = 1
    rest.good("GET", "/locations")
    refused = rest("GET", "/locations")
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert int(refused.headers["RateLimit-Reset"]) == int(cloud.clock.now() + 3600)
    cloud.advance(60)
    assert rest("GET", "/locations").headers["RateLimit-Remaining"] == "59"


def test_projects_have_a_bucket_each(cloud, rest):
    _, token = cloud.add_project()
    cloud.clock.stop()
    rest.good("GET", "/locations")  # what has been added to the bucket is taken away
    cloud.project.tokens_left = 0
    assert rest("GET", "/locations").status == 429
    Rest(cloud, token).good("GET", "/locations")


# --- actions -------------------------------------------------------------------------------------------------------------


def test_an_action_takes_its_time(cloud, rest):
    cloud.action_s = 100
    server = cloud.add_server("n1")
    action = rest.good("POST", f"/servers/{server.id}/actions/poweroff")["action"]
    assert (action["status"], action["progress"], action["finished"], action["error"]) == ("running", 0, None, None)
    assert action["resources"] == [{"id": server.id, "type": "server"}]
    cloud.advance(50)
    (action,) = rest.good("GET", "/actions", id=action["id"])["actions"]
    assert action["status"] == "running" and 45 < action["progress"] < 60
    assert rest.good("GET", f"/servers/{server.id}")["server"]["status"] == "running"
    cloud.advance(51)
    for path in (f"/actions/{action['id']}", f"/servers/actions/{action['id']}",
                 f"/servers/{server.id}/actions/{action['id']}"):
        action = rest.good("GET", path)["action"]
        assert (action["status"], action["progress"]) == ("success", 100) and action["finished"]
    assert rest.good("GET", f"/servers/{server.id}")["server"]["status"] == "off"


def test_effects_may_be_seen_at_the_start(cloud, rest):
    cloud.action_s, cloud.effects = 100, "start"
    server = cloud.add_server("n1")
    rest.good("POST", f"/servers/{server.id}/actions/poweroff")
    assert rest.good("GET", f"/servers/{server.id}")["server"]["status"] == "off"


def test_an_unknown_action_is_left_out_of_a_list(cloud, rest):
    server = cloud.add_server("n1")
    action = rest.good("POST", f"/servers/{server.id}/actions/reboot")["action"]
    found = rest.good("GET", "/actions", id=[7, action["id"], action["id"]], sort=["status", "id"])["actions"]
    assert [one["id"] for one in found] == [action["id"]]


def test_a_busy_resource_refuses_changes(cloud, rest):
    cloud.action_s = 100
    network, balancer = cloud.add_network(), cloud.add_load_balancer("lb")
    rest.good("POST", on(balancer, "add_service"), TCP)
    assert rest("POST", on(balancer, "change_algorithm"), {"type": "least_connections"}).status == 423
    assert rest("DELETE", f"/load_balancers/{balancer.id}").code == "locked"
    assert rest("PUT", f"/load_balancers/{balancer.id}", {"name": "x"}).code == "conflict"
    route = {"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}
    rest.good("POST", f"/networks/{network.id}/actions/add_route", route)
    answer = rest("POST", f"/networks/{network.id}/actions/delete_route", route)
    assert (answer.status, answer.code) == (409, "conflict")
    cloud.advance(101)
    rest.good("POST", f"/networks/{network.id}/actions/delete_route", route)
    rest.good("POST", on(balancer, "change_algorithm"), {"type": "least_connections"})


def test_an_action_that_fails_changes_nothing(cloud, rest):
    server = cloud.add_server("n1")
    cloud.fault("POST", "/servers/{id}/actions/poweroff", faults.action_error("action_failed", "no power"))
    action = rest.good("POST", f"/servers/{server.id}/actions/poweroff")["action"]
    assert (action["status"], action["error"]) == ("error", {"code": "action_failed", "message": "no power"})
    assert server.status == "running"


def test_an_action_that_hangs_keeps_others_out_until_released(cloud, rest):
    server = cloud.add_server("n1")
    cloud.fault("POST", "/servers/{id}/actions/poweroff", faults.action_hangs())
    rest.good("POST", f"/servers/{server.id}/actions/poweroff")
    cloud.advance(86400)
    assert rest("POST", f"/servers/{server.id}/actions/poweron").code == "locked"
    assert rest.good("GET", f"/servers/{server.id}")["server"]["locked"] is True
    cloud.release()
    assert rest.good("GET", f"/servers/{server.id}")["server"]["status"] == "off"


# --- servers and networks ------------------------------------------------------------------------------------------------


def test_the_life_of_a_server(cloud, rest):
    network = cloud.add_network()
    made = rest.good("POST", "/servers", {"name": "n1", "server_type": "cx22", "image": "debian-12", "location": "hel1",
                                          "networks": [network.id], "labels": {"a": "b"}})
    server = rest.good("GET", f"/servers/{made['server']['id']}")["server"]
    assert made["action"]["command"] == "create_server" and made["server"]["id"] > 1 << 32
    assert (server["status"], server["location"]["name"], server["labels"]) == ("running", "hel1", {"a": "b"})
    assert server["private_net"][0]["ip"] == "10.0.0.2" and "datacenter" not in server
    assert rest.good("GET", f"/networks/{network.id}")["network"]["servers"] == [server["id"]]
    assert rest("POST", "/servers", {"name": "n1", "server_type": "cx22", "image": "debian-12"}).code == "uniqueness_error"
    rest.good("PUT", f"/servers/{server['id']}", {"name": "n2"})
    assert rest("DELETE", f"/servers/{server['id']}").status == 200
    assert rest("GET", f"/servers/{server['id']}").status == 404


@pytest.mark.parametrize("setting, shown", [("absent", "-"), ("null", None), ("present", "fsn1-dc14")])
def test_the_datacenter_of_old(cloud, rest, setting, shown):
    cloud.datacenter = setting
    server = cloud.add_server("n1")
    found = rest.good("GET", f"/servers/{server.id}")["server"].get("datacenter", "-")
    assert (found["name"] if isinstance(found, dict) else found) == shown


@pytest.mark.parametrize("destination, gateway, code", [
    ("10.244.0.0/24", "10.0.0.2", None),
    ("10.244.0.1/24", "10.0.0.2", "invalid_input"),
    ("fd00::/64", "10.0.0.2", "invalid_input"),
    ("8.8.8.0/24", "10.0.0.2", "invalid_input"),
    ("0.0.0.0/0", "10.0.0.2", None),
    ("10.0.0.0/24", "10.0.0.2", "invalid_input"),
    ("10.200.0.0/25", "10.0.0.2", "invalid_input"),
    ("10.200.0.0/24", "10.0.0.3", "invalid_input"),
    ("10.244.0.0/24", "10.0.0.1", "invalid_input"),
    ("10.244.0.0/24", "172.31.1.1", "invalid_input"),
    ("10.244.0.0/24", "<nil>", "invalid_input"),
])
def test_routes_are_checked(cloud, rest, destination, gateway, code):
    network = cloud.add_network()
    path = f"/networks/{network.id}/actions"
    rest.good("POST", f"{path}/add_route", {"destination": "10.200.0.0/24", "gateway": "10.0.0.2"})
    answer = rest("POST", f"{path}/add_route", {"destination": destination, "gateway": gateway})
    assert answer.code == code
    assert len(network.routes) == (1 if code else 2)


def test_a_route_is_deleted_by_both_of_its_halves(cloud, rest):
    network = cloud.add_network()
    path, route = f"/networks/{network.id}/actions", {"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}
    rest.good("POST", f"{path}/add_route", route)
    assert rest("POST", f"{path}/delete_route", {**route, "gateway": "10.0.0.3"}).code == "not_found"
    rest.good("POST", f"{path}/delete_route", route)
    assert not network.routes


def test_a_network_has_a_hundred_routes(cloud, rest):
    network = cloud.add_network()
    path = f"/networks/{network.id}/actions/add_route"
    for number in range(100):
        rest.good("POST", path, {"destination": f"10.244.{number}.0/24", "gateway": "10.0.0.2"})
    assert rest("POST", path, {"destination": "10.244.100.0/24", "gateway": "10.0.0.2"}).code == "resource_limit_exceeded"


# --- load balancers ------------------------------------------------------------------------------------------------------


def test_a_balancer_is_made_whole_by_one_request(cloud, rest):
    network = cloud.add_network()
    server = cloud.add_server("n1", networks=[network])
    made = rest.good("POST", "/load_balancers", {
        "name": "lb", "load_balancer_type": 1, "network_zone": "eu-central", "labels": {"hcloud-ccm/service-uid": "u"},
        "network": network.id, "public_interface": False, "services": [TCP],
        "targets": [{"type": "server", "server": {"id": server.id}, "use_private_ip": True}],
    })
    balancer = rest.good("GET", f"/load_balancers/{made['load_balancer']['id']}")["load_balancer"]
    assert balancer["private_net"] == [{"network": network.id, "ip": "10.0.0.3"}]
    assert balancer["public_net"]["enabled"] is False and balancer["public_net"]["ipv4"]["ip"]
    assert balancer["targets"][0]["health_status"] == [
        {"listen_port": 80, "status": "healthy", "detail": None, "http_status_code": None}]
    assert balancer["services"] == [{
        "protocol": "tcp", "listen_port": 80, "destination_port": 30080, "proxyprotocol": False,
        "health_check": {"protocol": "tcp", "port": 30080, "interval": 15, "timeout": 10, "retries": 3}}]
    assert rest.good("GET", f"/servers/{server.id}")["server"]["load_balancers"] == [balancer["id"]]


def test_addresses_come_with_the_end_of_creation(cloud, rest):
    cloud.action_s = 100
    made = rest.good("POST", "/load_balancers", {"name": "lb", **TYPES})
    assert made["action"]["status"] == "running" and made["load_balancer"]["public_net"]["ipv4"]["ip"] is None
    cloud.advance(101)
    found = rest.good("GET", f"/load_balancers/{made['load_balancer']['id']}")["load_balancer"]["public_net"]
    assert found["ipv4"]["ip"] and found["ipv6"]["ip"].endswith("::1")


def test_two_balancers_of_one_name(cloud, rest):
    rest.good("POST", "/load_balancers", {"name": "lb", **TYPES})
    answer = rest("POST", "/load_balancers", {"name": "lb", **TYPES})
    assert (answer.status, answer.code, answer.fields) == (409, "uniqueness_error", ["name"])


HTTP = {"protocol": "http", "listen_port": 8080, "health_check": {"protocol": "http", "port": 30080}}


def test_defaults_of_an_http_service(cloud, rest):
    balancer = cloud.add_load_balancer("lb")
    rest.good("POST", on(balancer, "add_service"), {**HTTP, "destination_port": 30080, "http": {"cookie_name": "X"}})
    (service,) = balancer.services
    assert service["http"] == {"cookie_name": "X", "cookie_lifetime": 300, "certificates": [], "redirect_http": False,
                               "sticky_sessions": False, "timeout_idle": 60}
    assert service["health_check"]["http"] == {"domain": "", "path": "/", "response": "", "status_codes": ["2??", "3??"],
                                               "tls": False}


@pytest.mark.parametrize("body, code", [
    (TCP, "source_port_already_used"),
    ({**TCP, "listen_port": 81, "protocol": "https"}, "invalid_input"),
    ({**TCP, "listen_port": 81, "protocol": "https", "http": {"certificates": [7]}}, "invalid_input"),
    ({**HTTP, "http": {"redirect_http": True}}, "invalid_input"),
    ({**TCP, "listen_port": 81, "http": {"sticky_sessions": True}}, "invalid_input"),
    ({**TCP, "listen_port": 81, "destination_port": 0}, "invalid_input"),
    ({**HTTP, "http": {"timeout_idle": 4}}, "invalid_input"),
    ({**HTTP, "http": {"sticky_sessions": True}}, None),
])
def test_services_are_checked(cloud, rest, body, code):
    balancer = cloud.add_load_balancer("lb", services=[TCP])
    assert rest("POST", on(balancer, "add_service"), body).code == code


def test_an_update_changes_what_it_names(cloud, rest):
    balancer = cloud.add_load_balancer("lb", services=[{**HTTP, "destination_port": 30080, "http": {"cookie_name": "X"}}])
    rest.good("POST", on(balancer, "update_service"), {"listen_port": 8080, "destination_port": 30081,
                                                       "health_check": {"retries": 5}})
    (service,) = balancer.services
    assert (service["destination_port"], service["http"]["cookie_name"]) == (30081, "X")
    assert (service["health_check"]["retries"], service["health_check"]["port"]) == (5, 30080)
    assert rest("POST", on(balancer, "update_service"), {"listen_port": 1}).code == "invalid_input"
    rest.good("POST", on(balancer, "delete_service"), {"listen_port": 8080})
    assert balancer.services == []


def test_a_type_has_limits(cloud, rest):
    balancer = cloud.add_load_balancer("lb")
    for number in range(25):
        server = cloud.add_server(f"n{number}")
        rest.good("POST", on(balancer, "add_target"), {"type": "server", "server": {"id": server.id}})
    for port in range(5):
        rest.good("POST", on(balancer, "add_service"), {**TCP, "listen_port": 1 + port})
    last = cloud.add_server("last")
    body = {"type": "server", "server": {"id": last.id}}
    assert rest("POST", on(balancer, "add_target"), body).code == "resource_limit_exceeded"
    assert rest("POST", on(balancer, "add_service"), TCP).code == "resource_limit_exceeded"
    rest.good("POST", on(balancer, "change_type"), {"load_balancer_type": "lb21"})
    rest.good("POST", on(balancer, "add_target"), body)
    answer = rest("POST", on(balancer, "change_type"), {"load_balancer_type": 1})
    assert answer.code == "invalid_load_balancer_type"


def server_target(server, private=False):
    return {"type": "server", "server": {"id": server.id}, "use_private_ip": private}


def test_targets_are_checked(cloud, rest):
    network, balancer = cloud.add_network(), cloud.add_load_balancer("lb")
    inside, outside = cloud.add_server("in", networks=[network]), cloud.add_server("out", public_ipv4=False)
    add = lambda body: rest("POST", on(balancer, "add_target"), body).code
    ip = lambda address: {"type": "ip", "ip": {"ip": address}}
    cloud.robot_ips.add("203.0.113.9")
    assert add(server_target(inside, private=True)) == "load_balancer_not_attached_to_network"
    rest.good("POST", on(balancer, "attach_to_network"), {"network": network.id})
    assert add(server_target(outside, private=True)) == "server_not_attached_to_network"
    assert add(server_target(outside)) == "missing_ipv4"
    assert add(server_target(inside)) is None
    assert add(server_target(inside, private=True)) == "target_already_defined"
    assert add(ip("203.0.113.8")) == "ip_not_owned"
    assert add(ip(inside.ipv4)) == "cloud_resource_ip_not_allowed"
    assert add(ip("2001:db8::1")) == "invalid_input"
    assert add(ip("203.0.113.9")) is None
    assert add(ip("203.0.113.9")) == "target_already_defined"
    assert rest("POST", on(balancer, "disable_public_interface")).code == "targets_without_use_private_ip"
    rest.good("POST", on(balancer, "remove_target"), {"type": "server", "server": {"id": inside.id}})
    rest.good("POST", on(balancer, "disable_public_interface"))
    assert add(server_target(inside)) == "load_balancer_public_interface_disabled"
    assert [one["type"] for one in balancer.targets] == ["ip"]


def test_a_target_by_label(cloud, rest):
    balancer, server = cloud.add_load_balancer("lb"), cloud.add_server("n1", labels={"role": "web"})
    rest.good("POST", on(balancer, "add_target"), {"type": "label_selector", "label_selector": {"selector": "role=web"}})
    (target,) = rest.good("GET", f"/load_balancers/{balancer.id}")["load_balancer"]["targets"]
    assert [one["server"]["id"] for one in target["targets"]] == [server.id]


def test_attaching(cloud, rest):
    network, balancer = cloud.add_network(), cloud.add_load_balancer("lb")
    server = cloud.add_server("n1", networks=[network])
    attach = lambda **body: rest("POST", on(balancer, "attach_to_network"), {"network": network.id, **body}).code
    assert attach(ip="10.0.0.2") == "ip_not_available"
    assert attach(ip="10.9.0.2") == "ip_not_available"
    assert attach(ip_range="10.9.0.0/24") == "no_subnet_available"
    assert attach(ip="10.0.0.77") is None
    assert attach() == "load_balancer_already_attached"
    rest.good("POST", on(balancer, "add_target"), server_target(server, private=True))
    rest.good("POST", on(balancer, "detach_from_network"), {"network": network.id})
    assert (balancer.targets, balancer.private_net) == ([], [])
    assert rest("POST", on(balancer, "disable_public_interface")).code == "load_balancer_not_attached_to_network"


def test_a_subnet_of_another_zone_does_not_fit(cloud, rest):
    network, balancer = cloud.add_network(zone="us-east"), cloud.add_load_balancer("lb")
    answer = rest("POST", on(balancer, "attach_to_network"), {"network": network.id})
    assert answer.code == "no_subnet_available"


def test_a_deleted_server_leaves_its_balancers(cloud, rest):
    balancer = cloud.add_load_balancer("lb")
    cloud.add_load_balancer("other")
    for name in ("n1", "n2"):
        rest.good("POST", on(balancer, "add_target"), server_target(cloud.add_server(name)))
    cloud.delete_server("n1")
    assert len(balancer.targets) == 1
    cloud.targets_outlive_servers = True
    gone = cloud.server("n2")
    cloud.delete_server("n2")
    answer = rest("POST", on(balancer, "remove_target"), {"type": "server", "server": {"id": gone.id}})
    assert (answer.code, len(balancer.targets)) == ("invalid_input", 1)
    cloud.drop_dead_targets()
    assert balancer.targets == []


def test_protection_and_names(cloud, rest):
    balancer = cloud.add_load_balancer("lb")
    rest.good("POST", on(balancer, "change_protection"), {"delete": True})
    assert rest("DELETE", f"/load_balancers/{balancer.id}").code == "protected"
    rest.good("POST", on(balancer, "change_protection"), {"delete": False})
    for ip in (balancer.ipv4, balancer.ipv6):
        rest.good("POST", on(balancer, "change_dns_ptr"), {"ip": ip, "dns_ptr": "lb.example.com"})
    assert rest("POST", on(balancer, "change_dns_ptr"), {"ip": "192.0.2.1", "dns_ptr": None}).code == "invalid_input"
    shown = rest.good("PUT", f"/load_balancers/{balancer.id}", {"labels": {"x": "y"}})["load_balancer"]
    assert (shown["public_net"]["ipv4"]["dns_ptr"], shown["labels"]) == ("lb.example.com", {"x": "y"})
    assert rest("DELETE", f"/load_balancers/{balancer.id}").json()["action"]["command"] == "delete_load_balancer"
    assert not cloud.load_balancers


def test_deleting_a_balancer_was_no_action_once(cloud, rest):
    cloud.deletion_acts = False
    balancer = cloud.add_load_balancer("lb")
    answer = rest("DELETE", f"/load_balancers/{balancer.id}")
    assert (answer.status, answer.body) == (204, b"") and not cloud.load_balancers


# --- Primary IPs ---------------------------------------------------------------------------------------------------------


def with_addresses(**ids):
    return {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1", "public_net": ids}


def test_a_balancer_with_primary_ips_gives_them_back(cloud, rest):
    v4, v6 = cloud.add_primary_ip("v4"), cloud.add_primary_ip("v6", "ipv6", auto_delete=True)
    made = rest.good("POST", "/load_balancers", with_addresses(ipv4=v4.id, ipv6=v6.id))["load_balancer"]
    shown = rest.good("GET", f"/load_balancers/{made['id']}")["load_balancer"]["public_net"]
    assert shown["ipv4"] == {"ip": v4.ip, "dns_ptr": None, "id": v4.id, "blocked": False}
    assert (shown["ipv6"]["ip"], shown["ipv6"]["id"]) == (v6.ip.replace("::/64", "::1"), v6.id)
    taken = rest.good("GET", f"/primary_ips/{v4.id}")["primary_ip"]
    assert (taken["assignee_type"], taken["assignee_id"]) == ("load_balancer", made["id"])
    assert rest("DELETE", f"/primary_ips/{v4.id}").code == "must_be_unassigned"
    rest("DELETE", f"/load_balancers/{made['id']}")
    assert rest.good("GET", f"/primary_ips/{v4.id}")["primary_ip"]["assignee_id"] is None
    assert rest("GET", f"/primary_ips/{v6.id}").code == "not_found"


@pytest.mark.parametrize("what, code", [
    ("missing", "invalid_input"), ("zero", "invalid_input"), ("family", "primary_ip_version_mismatch"),
    ("location", "primary_ip_datacenter_mismatch"), ("taken", "primary_ip_assigned"), ("hidden", "invalid_input"),
    ("former", "invalid_input"),
])
def test_primary_ips_that_a_balancer_cannot_have(cloud, rest, what, code):
    good, six = cloud.add_primary_ip("good").id, cloud.add_primary_ip("six", "ipv6").id
    body = with_addresses(ipv4={"missing": 7, "zero": 0, "family": six}.get(what, good))
    if what == "location":
        body["location"] = "nbg1"
    if what == "taken":
        rest.good("POST", "/load_balancers", {**with_addresses(ipv4=good), "name": "first"})
    if what == "hidden":
        body["public_interface"] = False
    if what == "former":
        cloud.be_former()
    n_before = len(cloud.load_balancers)
    assert rest("POST", "/load_balancers", body).code == code
    assert len(cloud.load_balancers) == n_before


def test_a_balancer_says_why_a_target_is_unhealthy(cloud, rest):
    n1, n2 = (cloud.add_server(name) for name in ("n1", "n2"))
    balancer = cloud.add_load_balancer("lb", services=[{"protocol": "tcp", "listen_port": 80, "destination_port": 30080}],
                                       targets=[server_target(n1), server_target(n2)])
    balancer.failing[n2.id] = ("unexpected_http_status", 503)
    look = lambda: [one["health_status"] for one in rest.good("GET", f"/load_balancers/{balancer.id}")["load_balancer"]["targets"]]
    assert look() == [
        [{"listen_port": 80, "status": "healthy", "detail": None, "http_status_code": None}],
        [{"listen_port": 80, "status": "unhealthy", "detail": "unexpected_http_status", "http_status_code": 503}]]
    cloud.be_former()
    assert look()[1] == [{"listen_port": 80, "status": "unhealthy"}]


# --- certificates --------------------------------------------------------------------------------------------------------


def test_managed_certificates(cloud, rest):
    cloud.action_s = 100
    order = lambda name: rest("POST", "/certificates", {"name": name, "type": "managed", "domain_names": ["example.com"]})
    made = order("c").json()
    assert made["certificate"]["status"]["issuance"] == "pending" and made["action"]["status"] == "running"
    cloud.advance(101)
    found = rest.good("GET", f"/certificates/{made['certificate']['id']}")["certificate"]
    assert found["status"]["issuance"] == "completed" and found["not_valid_after"]
    assert order("c").code == "uniqueness_error"
    for number in range(19):
        assert order(f"c{number}").status == 201
    assert order("one too many").code == "resource_limit_exceeded"
    cloud.advance(3601)
    assert order("later").status == 201


def test_uploaded_certificates(cloud, rest, tmp_path):
    from lib.certs import Authority
    pair = Authority(tmp_path).server("web", ["example.com"])
    body = {"name": "c", "certificate": pair.certificate.read_text(), "private_key": pair.key.read_text()}
    assert rest("POST", "/certificates", {**body, "certificate": "x"}).fields == ["certificate"]
    made = rest.good("POST", "/certificates", body)
    assert made["action"] is None and made["certificate"]["domain_names"] == ["example.com"]
    ident = made["certificate"]["id"]
    balancer = cloud.add_load_balancer("lb")
    rest.good("POST", on(balancer, "add_service"), {**HTTP, "protocol": "https", "destination_port": 30080,
                                                    "http": {"certificates": [ident], "redirect_http": True}})
    assert rest("DELETE", f"/certificates/{ident}").code == "resource_in_use"
    cloud.load_balancers.clear()
    assert rest("DELETE", f"/certificates/{ident}").status == 204


# --- on purpose ----------------------------------------------------------------------------------------------------------


def test_a_fault_hits_what_it_names_and_passes(cloud, rest):
    fault = cloud.fault("GET", "/servers", faults.error("unavailable"), times=2, skip=1)
    assert [rest("GET", "/servers").status for _ in range(4)] == [200, 503, 503, 200]
    assert fault.hits == 2 and rest("GET", "/locations").status == 200
    fault = cloud.fault(None, None, faults.unauthorized(), times=None, seconds=60)
    assert rest("GET", "/locations").status == 401
    fault.until = time.monotonic()
    assert rest("GET", "/locations").status == 200
    cloud.fault("GET", "/servers/{id}", faults.locked(), times=None, when=lambda request: request.path.endswith("7"))
    assert [rest("GET", f"/servers/{number}").status for number in (7, 8)] == [423, 404]
    cloud.clear_faults()
    assert rest("GET", "/servers/7").status == 404


def test_answers_of_all_bad_kinds(cloud, rest):
    cloud.add_server("n1")
    cloud.fault("GET", "/servers", faults.too_many(reset_in_s=30, retry_after_s=5))
    answer = rest("GET", "/servers")
    assert (answer.status, answer.headers["RateLimit-Remaining"], answer.headers["Retry-After"]) == (429, "0", "5")
    cloud.fault("GET", "/servers", faults.plain(502))
    answer = rest("GET", "/servers")
    assert (answer.status, answer.headers["Content-Type"]) == (502, "text/html")
    cloud.fault("GET", "/servers", faults.bad_json())
    with pytest.raises(ValueError):
        rest("GET", "/servers").json()
    cloud.fault("GET", "/servers", faults.empty_list())
    empty = rest.good("GET", "/servers")
    assert (empty["servers"], empty["meta"]["pagination"]["total_entries"]) == ([], 0)
    cloud.fault("GET", "/servers", faults.wrong_total(-1))
    assert rest.good("GET", "/servers")["meta"]["pagination"]["total_entries"] == 0
    cloud.fault("GET", "/servers", faults.short_page())
    short = rest.good("GET", "/servers")
    assert (short["servers"], short["meta"]["pagination"]["total_entries"]) == ([], 1)


def test_connections_that_break(cloud, rest):
    cloud.fault("GET", "/servers", faults.reset())
    with pytest.raises(ConnectionResetError):
        rest("GET", "/servers")
    cloud.fault("GET", "/servers", faults.cut_body(20))
    with pytest.raises(http.client.IncompleteRead):
        rest("GET", "/servers")
    cloud.fault("GET", "/servers", faults.cut_body(20, reset=True))
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        rest("GET", "/servers")
    cloud.fault("POST", "/networks", faults.lose_answer())
    with pytest.raises(ConnectionResetError):
        rest("POST", "/networks", {"name": "net", "ip_range": "10.0.0.0/8"})
    assert cloud.named("networks", "net"), "it was made all the same"
    rest.good("GET", "/servers")


def test_an_answer_that_is_late(cloud, rest):
    cloud.fault("GET", "/servers", faults.delay(cloud, 0.3))
    begun = time.monotonic()
    rest.good("GET", "/servers")
    assert time.monotonic() - begun >= 0.3
    cloud.latency_s = 0.1
    rest.good("GET", "/servers")
    assert cloud.requests()[-1].took_s >= 0.1


def test_pages_that_shift(cloud, rest):
    for number in range(60):
        cloud.add_server(f"n{number}")
    cloud.fault("GET", "/servers", faults.meanwhile(lambda: cloud.delete_server("n0")), when=lambda r: r.query["page"] == "2")
    pages = [rest.good("GET", "/servers", page=number, per_page=50) for number in (1, 2)]
    seen = {one["name"] for page in pages for one in page["servers"]}
    assert "n50" not in seen, "it moved to the page that was read already"
    assert [page["meta"]["pagination"]["total_entries"] for page in pages] == [60, 59]


def test_closing_ends_what_is_waiting(cloud):
    with HCloud() as other:
        other.fault("GET", "/servers", faults.delay(other, 600))
        problems = []

        def ask():
            try:
                Rest(other, other.token)("GET", "/servers")
            except (OSError, http.client.HTTPException) as problem:
                problems.append(problem)

        asking = threading.Thread(target=ask)
        asking.start()
        wait_for(lambda: other.calls("GET", "/servers"), what="the request")
    asking.join(5)
    assert not asking.is_alive()


# --- what it remembers ---------------------------------------------------------------------------------------------------


def test_every_request_is_recorded(cloud, rest):
    server = cloud.add_server("n1")
    mark = cloud.mark()
    rest("GET", f"/servers/{server.id}")
    rest("GET", "/servers", label_selector="a=b", sort=["id", "name"])
    rest("POST", "/networks", {"name": "net", "ip_range": "10.0.0.0/8"})
    rest("GET", "/servers/7")
    assert cloud.calls("GET", "/servers/{id}", since=mark) == 2 and cloud.calls("GET", r"/servers.*", since=mark) == 3
    assert [one.status for one in cloud.requests(since=mark)] == [200, 200, 201, 404]
    assert cloud.requests("GET", "/servers")[-1].pairs == [("label_selector", "a=b"), ("sort", "id"), ("sort", "name")]
    (write,) = cloud.writes(since=mark)
    assert write.json() == {"name": "net", "ip_range": "10.0.0.0/8"} and write.took_s >= 0
    assert cloud.tally(since=mark) == {"GET /servers/{id}": 2, "GET /servers": 1, "POST /networks": 1}


def test_state_can_be_compared(cloud, rest):
    cloud.add_load_balancer("lb", services=[TCP])
    before = cloud.state()
    rest("GET", "/load_balancers")
    assert cloud.state() == before and before["load_balancers"]["lb"]["services"][0]["listen_port"] == 80


def test_it_serves_hundreds_of_requests_a_second(cloud):
    for number in range(200):
        cloud.add_server(f"n{number}")

    def ask():
        rest = Rest(cloud, cloud.token)
        for _ in range(50):
            rest.good("GET", "/servers", name="n7")

    begun = time.monotonic()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert cloud.calls("GET", "/servers") == 200
    print(f"{200 / (time.monotonic() - begun):.0f} requests a second")


def test_it_runs_by_hand():
    listens_to_int = ["env", "--default-signal=INT"]  # which a shell takes from its background jobs
    child = spawn([*listens_to_int, REPOSITORY / "tools" / "hcloud-sim", "--servers=2", "--latency=0"],
                  stdout=subprocess.PIPE, text=True)
    try:
        said = re.fullmatch(r"export HCLOUD_ENDPOINT=http://127.0.0.1:(\d+)/v1 HCLOUD_TOKEN=(\w{64}) HCLOUD_NETWORK=net\n",
                            child.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(said[1]), timeout=10)
        connection.request("GET", "/v1/servers?name=n2", headers={"Authorization": f"Bearer {said[2]}"})
        assert connection.getresponse().status == 200
        assert child.stdout.readline() == "200 GET /v1/servers?name=n2 \n"
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 0
    finally:
        child.kill()
