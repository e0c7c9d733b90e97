"""The simulated Robot web service and metadata service themselves."""
import base64

import pytest

from lib.rest import Rest
from sim import robot as robots


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def rest(robot):
    rest = Rest(robot, authorization=basic(robot.user, robot.password))
    yield rest
    rest.close()


def test_robot_wants_a_password(robot):
    for authorization in (None, "Bearer x", basic(robot.user, "wrong"), "Basic x"):
        answer = Rest(robot, authorization=authorization)("GET", "/server")
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED")


def test_robot_lists_and_shows(robot, rest):
    assert rest("GET", "/server").status == 404, "an account without servers"
    robot.add_server(322, "bm2", ip=None)
    robot.add_server(321, "bm1", operating_status="shut off")
    listed = [one["server"] for one in rest.good("GET", "/server")]
    assert [(one["server_number"], one["server_name"], one["server_ip"]) for one in listed] == [
        (321, "bm1", "203.0.113.9"), (322, "bm2", None)]
    assert rest.good("GET", "/server/322")["server"] == listed[1]
    assert rest.good("GET", "/reset/321")["reset"]["operating_status"] == "shut off"
    robot.servers[322].resettable = False
    assert rest("GET", "/reset/322").code == "RESET_NOT_AVAILABLE"
    robot.delete_server(321)
    assert rest("GET", "/server/321").code == "SERVER_NOT_FOUND"
    assert rest("GET", "/boot").status == 404
    assert rest("POST", "/server").status == 404


def test_robot_has_a_limit(robot, rest):
    robot.limit = 2
    robot.add_server(321, "bm1")
    assert [rest("GET", "/server").status for _ in range(3)] == [200, 200, 403]
    answer = rest("GET", "/server")
    assert answer.json()["error"] == {"status": 403, "code": "RATE_LIMIT_EXCEEDED", "message": "rate limit exceeded",
                                      "max_request": 2, "interval": 3600}
    rest.good("GET", "/reset/321")
    robot.clock.advance(3601)
    rest.good("GET", "/server")
    robot.fault("GET", "/server", robots.error(503, "INTERNAL_ERROR"))
    assert rest("GET", "/server").status == 503


def test_metadata(cloud, metadata):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", networks=[network], location="hel1")
    rest = Rest(metadata(server))
    text = lambda name: rest("GET", f"/{name}").body.decode()
    assert [text(one) for one in ("hostname", "instance-id", "public-ipv4", "region", "availability-zone")] == [
        "n1", str(server.id), server.ipv4, "eu-central", "hel1-dc2"]
    lines = text("private-networks").splitlines()
    assert lines[0] == "- ip: 10.0.0.2" and f"  network_id: {network.id}" in lines and lines[-1] == "  gateway: 10.0.0.1"
    assert rest("GET", "/nothing").status == 404
    server.private_net.clear()
    assert text("private-networks") == ""
