"""Hetzner's own clients do their everyday work against the simulated cloud: it is what it says it is.

The Python client is one of the tests' requirements; the Go library, which the official controller uses, is built from the
Go module proxy. The command-line client is Debian's hcloud-cli, which tools/setup installs where there is such a package.
"""
import json
import shutil
import subprocess
import threading

import hcloud as client_library
import pytest
from hcloud.images import Image
from hcloud.load_balancer_types import LoadBalancerType
from hcloud.load_balancers import (
    LoadBalancerAlgorithm, LoadBalancerCreatePublicNetwork, LoadBalancerHealthCheck, LoadBalancerService, LoadBalancerTarget,
    LoadBalancerTargetLabelSelector,
)
from hcloud.locations import Location
from hcloud.networks import NetworkRoute, NetworkSubnet
from hcloud.server_types import ServerType

from lib.ccmd import REPOSITORY
from lib.wait import wait_for
from sim import faults

COMMAND = shutil.which("hcloud")
needs_command = pytest.mark.skipif(not COMMAND, reason="no hcloud command: apt-get install hcloud-cli")


# --- the Python client ---------------------------------------------------------------------------------------------------


@pytest.fixture
def client(cloud):
    cloud.action_s = 0.2
    return client_library.Client(cloud.token, api_endpoint=cloud.url, poll_interval=0.05, timeout=10)


def make_network(client):
    return client.networks.create(
        name="net", ip_range="10.0.0.0/8", subnets=[NetworkSubnet("10.0.0.0/24", "cloud", "eu-central")])


def make_server(client, name, **options):
    made = client.servers.create(name, ServerType("cx22"), Image(name="debian-12"), location=Location("fsn1"), **options)
    assert made.root_password and made.action.status == "running"
    made.action.wait_until_finished()
    return client.servers.get_by_id(made.server.id)


def test_python_servers(client):
    server = make_server(client, "n1", labels={"role": "web"})
    assert (server.status, server.server_type.name, server.location.name) == ("running", "cx22", "fsn1")
    assert server.public_net.ipv4.ip and server.public_net.ipv6.network
    server.update(name="web1", labels={"role": "web", "team": "a"})
    assert client.servers.get_by_name("web1").id == server.id
    assert [one.name for one in client.servers.get_all(label_selector="team=a,role in (web)")] == ["web1"]
    server.power_off().wait_until_finished()
    server.reload()
    assert server.status == "off"
    assert [one.name for one in client.servers.get_all(status=["off"])] == ["web1"]
    assert [one.command for one in server.get_actions(sort=["id"])] == ["create_server", "stop_server"]
    server.delete().wait_until_finished()
    assert client.servers.get_by_name("web1") is None


def test_python_networks(client):
    network, server = make_network(client), make_server(client, "n1")
    server.attach_to_network(network, ip="10.0.0.7").wait_until_finished()
    server.reload()
    assert (server.private_net[0].ip, server.private_net[0].network.id) == ("10.0.0.7", network.id)
    network.add_subnet(NetworkSubnet("10.0.1.0/24", "cloud", "eu-central")).wait_until_finished()
    route = NetworkRoute("10.244.0.0/24", "10.0.0.7")
    network.add_route(route).wait_until_finished()
    network.reload()
    assert [one.destination for one in network.routes] == ["10.244.0.0/24"]
    assert ([one.ip_range for one in network.subnets], [one.id for one in network.servers]) == (
        ["10.0.0.0/24", "10.0.1.0/24"], [server.id])
    network.delete_route(route).wait_until_finished()
    network.delete_subnet(NetworkSubnet("10.0.1.0/24", "cloud", "eu-central")).wait_until_finished()
    server.detach_from_network(network).wait_until_finished()
    assert network.delete() and client.networks.get_by_name("net") is None


def test_python_balancers(client):
    network = make_network(client)
    servers = [make_server(client, f"n{number}", networks=[network], labels={"role": "web"}) for number in (1, 2)]
    made = client.load_balancers.create("lb", LoadBalancerType(name="lb11"), location=Location("fsn1"),
                                        algorithm=LoadBalancerAlgorithm("round_robin"), labels={"a": "b"})
    made.action.wait_until_finished()
    balancer = client.load_balancers.get_by_name("lb")
    assert balancer.public_net.ipv4.ip and balancer.load_balancer_type.max_targets == 25
    balancer.attach_to_network(network).wait_until_finished()
    check = LoadBalancerHealthCheck("tcp", 30080, 15, 10, 3)
    service = LoadBalancerService("tcp", 80, 30080, False, check)
    balancer.add_service(service).wait_until_finished()
    by_label = LoadBalancerTarget("label_selector", label_selector=LoadBalancerTargetLabelSelector("role=web"),
                                  use_private_ip=True)
    for target in (LoadBalancerTarget("server", server=servers[0], use_private_ip=True), by_label):
        balancer.add_target(target).wait_until_finished()
    balancer.reload()
    assert [one.listen_port for one in balancer.services] == [80]
    assert [one.type for one in balancer.targets] == ["server", "label_selector"]
    assert [one.server.id for one in balancer.targets[1].targets] == [one.id for one in servers]
    assert balancer.targets[0].health_status[0].status == "healthy"
    service.destination_port = 30081
    balancer.update_service(service).wait_until_finished()
    balancer.remove_target(by_label).wait_until_finished()
    balancer.disable_public_interface().wait_until_finished()
    balancer.change_algorithm(LoadBalancerAlgorithm("least_connections")).wait_until_finished()
    balancer.reload()
    assert (balancer.services[0].destination_port, len(balancer.targets), balancer.public_net.enabled) == (30081, 1, False)
    balancer.delete_service(service).wait_until_finished()
    balancer.delete().action.wait_until_finished()
    assert client.load_balancers.get_all() == []


def test_python_primary_ips(client):
    address = client.primary_ips.create("ipv4", "web", location=Location("fsn1")).primary_ip
    made = client.load_balancers.create("lb", LoadBalancerType(name="lb11"), location=Location("fsn1"),
                                        public_net=LoadBalancerCreatePublicNetwork(ipv4=address))
    made.action.wait_until_finished()
    balancer = client.load_balancers.get_by_name("lb")
    address.reload()
    assert (balancer.public_net.ipv4.ip, address.assignee_id) == (address.ip, balancer.id)
    balancer.delete().action.wait_until_finished()
    address.reload()
    assert address.assignee_id is None and address.delete()


def test_python_certificates(client):
    made = client.certificates.create_managed("c", ["example.com"], labels={"a": "b"})
    assert made.certificate.status.issuance == "pending"
    made.action.wait_until_finished()
    certificate = client.certificates.get_by_name("c")
    assert certificate.status.issuance == "completed" and certificate.domain_names == ["example.com"]
    assert certificate.delete()


def test_python_reads_a_hundred_and_twenty_servers(client, cloud):
    for number in range(120):
        cloud.add_server(f"n{number:03d}")
    servers = client.servers.get_all()
    assert [one.name for one in servers] == [f"n{number:03d}" for number in range(120)]
    assert cloud.calls("GET", "/servers") == 3


def test_python_catalog(client):
    assert [one.name for one in client.locations.get_all()] == ["fsn1", "nbg1", "hel1", "ash", "hil", "sin"]
    assert [one.max_targets for one in client.load_balancer_types.get_all()] == [25, 75, 150]
    assert client.server_types.get_by_name("cx22").cores == 2
    assert client.images.get_by_name_and_architecture("debian-12", "arm").os_flavor == "debian"


def test_python_meets_errors(client, cloud):
    def code_of(function, *arguments, **options):
        with pytest.raises(client_library.APIException) as caught:
            function(*arguments, **options)
        return caught.value.code

    make_network(client)
    assert code_of(make_network, client) == "uniqueness_error"
    assert code_of(client.servers.get_by_id, 7) == "not_found"
    assert code_of(client.networks.create, name="", ip_range="10.0.0.0/8") == "invalid_input"
    stranger = client_library.Client("x" * 64, api_endpoint=cloud.url)
    assert code_of(stranger.servers.get_all) == "unauthorized"
    cloud.fault("GET", "/servers", faults.error("rate_limit_exceeded"))
    begun = cloud.mark()
    assert client.servers.get_all() == []
    assert [one.status for one in cloud.requests(since=begun)] == [429, 200], "it tries again on its own"


def test_python_meets_an_action_that_fails(client, cloud):
    server = make_server(client, "n1")
    cloud.fault("POST", "/servers/{id}/actions/poweroff", faults.action_error("action_failed", "no power"))
    with pytest.raises(client_library.actions.ActionFailedException, match="no power"):
        server.power_off().wait_until_finished()


# --- the command -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hcloud(cloud, tmp_path):
    """hcloud("server", "list"): runs the command; its output, or its complaint if it fails."""
    cloud.action_s = 0.2
    cloud.datacenter = "present"  # Debian's client is of the time when servers had one
    environment = {"HCLOUD_TOKEN": cloud.token, "HCLOUD_ENDPOINT": cloud.url, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def run(*arguments, fails=False):
        done = subprocess.run([COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) is fails, (arguments, done.stdout, done.stderr)
        return done.stderr if fails else done.stdout

    def described(kind, name):
        return json.loads(run(kind, "describe", name, "-o", "json"))

    run.described = described
    return run


@needs_command
def test_command_servers(hcloud, cloud):
    hcloud("network", "create", "--name", "net", "--ip-range", "10.0.0.0/8")
    hcloud("network", "add-subnet", "net", "--type", "cloud", "--network-zone", "eu-central", "--ip-range", "10.0.0.0/24")
    hcloud("server", "create", "--name", "n1", "--type", "cx22", "--image", "debian-12", "--location", "hel1", "--network",
           "net", "--label", "role=web")
    server = hcloud.described("server", "n1")
    assert (server["status"], server["private_net"][0]["ip"], server["labels"]) == ("running", "10.0.0.2", {"role": "web"})
    assert "n1" in hcloud("server", "list", "--selector", "role=web")
    assert "n1" not in hcloud("server", "list", "--selector", "role!=web")
    hcloud("server", "poweroff", "n1")
    assert hcloud.described("server", "n1")["status"] == "off"
    hcloud("server", "add-label", "n1", "x=y")
    hcloud("server", "delete", "n1")
    wait_for(lambda: not cloud.state()["servers"], what="the server to be gone")
    assert "not found" in hcloud("server", "describe", "n1", fails=True)


@needs_command
def test_command_networks(hcloud, cloud):
    hcloud("network", "create", "--name", "net", "--ip-range", "10.0.0.0/8")
    hcloud("network", "add-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
    assert hcloud.described("network", "net")["routes"] == [{"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}]
    complaint = hcloud("network", "add-route", "net", "--destination", "10.244.0.0/25", "--gateway", "10.0.0.2", fails=True)
    assert "overlaps with another route" in complaint and "invalid_input" in complaint
    hcloud("network", "remove-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
    hcloud("network", "delete", "net")
    assert cloud.state()["networks"] == {}


@needs_command
def test_command_balancers(hcloud, cloud):
    network = cloud.add_network("net")
    cloud.add_server("n1", networks=[network])
    hcloud("load-balancer", "create", "--name", "lb", "--type", "lb11", "--network-zone", "eu-central")
    hcloud("load-balancer", "attach-to-network", "lb", "--network", "net")
    hcloud("load-balancer", "add-service", "lb", "--protocol", "http", "--listen-port", "80", "--destination-port", "30080",
           "--http-sticky-sessions")
    hcloud("load-balancer", "update-service", "lb", "--listen-port", "80", "--health-check-protocol", "http",
           "--health-check-port", "30080", "--health-check-interval", "7s", "--health-check-timeout", "5s",
           "--health-check-retries", "2")
    hcloud("load-balancer", "add-target", "lb", "--server", "n1", "--use-private-ip")
    balancer = hcloud.described("load-balancer", "lb")
    (service,) = balancer["services"]
    assert (service["http"]["sticky_sessions"], service["health_check"]["interval"]) == (True, 7)
    assert balancer["targets"][0]["server"]["id"] == cloud.server("n1").id
    hcloud("load-balancer", "change-algorithm", "lb", "--algorithm-type", "least_connections")
    hcloud("load-balancer", "change-type", "lb", "lb21")
    hcloud("load-balancer", "enable-protection", "lb", "delete")
    assert "protected" in hcloud("load-balancer", "delete", "lb", fails=True)
    hcloud("load-balancer", "disable-protection", "lb", "delete")
    hcloud("load-balancer", "remove-target", "lb", "--server", "n1")
    hcloud("load-balancer", "delete", "lb")
    wait_for(lambda: not cloud.state()["load_balancers"], what="the balancer to be gone")


@needs_command
def test_command_reads_a_hundred_and_twenty_servers(hcloud, cloud):
    for number in range(120):
        cloud.add_server(f"n{number:03d}")
    names = hcloud("server", "list", "-o", "noheader", "-o", "columns=name").split()
    assert names == [f"n{number:03d}" for number in range(120)] and cloud.calls("GET", "/servers") == 3


@needs_command
def test_command_meets_a_failing_action(hcloud, cloud):
    cloud.add_server("n1")
    cloud.fault("POST", "/servers/{id}/actions/poweroff", faults.action_error("action_failed", "no power"))
    assert "no power" in hcloud("server", "poweroff", "n1", fails=True)


@needs_command
def test_command_waits_for_a_resource_that_changes(hcloud, cloud):
    """It tries again on conflict, as ours does, so that another's change is no failure."""
    network = cloud.add_network("net")
    cloud.fault("POST", "/networks/{id}/actions/add_route", faults.conflict())
    running = threading.Thread(target=hcloud, args=("network", "add-route", "net", "--destination", "10.244.0.0/24",
                                                    "--gateway", "10.0.0.2"))
    running.start()
    running.join(30)
    assert len(network.routes) == 1 and cloud.calls("POST", "/networks/{id}/actions/add_route") == 2


# --- the library of the official controller ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def go_hcloud():
    tool = REPOSITORY / "tools" / "go-program"
    return subprocess.run([tool, "tests/scenario/go-hcloud"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture
def library(cloud, go_hcloud):
    """library(argument…): what hcloud-go prints; an error, if it ends with one."""
    cloud.action_s = 0.2

    def run(*arguments):
        env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token}
        done = subprocess.run([go_hcloud, *map(str, arguments)], env=env, text=True, capture_output=True, timeout=60)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run


def test_the_library_makes_a_balancer_with_primary_ips(cloud, library):
    v4, v6, server = cloud.add_primary_ip("v4"), cloud.add_primary_ip("v6", "ipv6"), cloud.add_server("n1")
    assert library("make", "lb", v4.id, v6.id, server.id) == ""
    assert library("change", "lb") == ""
    cloud.load_balancer("lb").failing[server.id] = ("unexpected_http_status", 503)
    assert library("look", "lb").splitlines() == [f"{server.id} {port} unhealthy unexpected_http_status 503" for port in (80, 81)]
    assert library("remove", "lb") == ""
    assert not cloud.load_balancers and (v4.assignee_id, v6.assignee_id) == (None, None)


def test_the_library_meets_refusals(cloud, library):
    v4, v6 = cloud.add_primary_ip("v4"), cloud.add_primary_ip("v6", "ipv6")
    assert "primary_ip_version_mismatch" in library("make", "lb", v6.id, v6.id)
    v4.assign(cloud.add_load_balancer("other"))
    assert "primary_ip_assigned" in library("make", "lb", v4.id, v6.id)
    assert library("make", "lb", 7, v6.id) == "Primary IP 7 not found\n"


def test_the_library_and_the_former_api(cloud, library):
    cloud.be_former()
    v4, v6, server = cloud.add_primary_ip("v4"), cloud.add_primary_ip("v6", "ipv6"), cloud.add_server("n1")
    assert "invalid_input" in library("make", "lb", v4.id, v6.id)
    cloud.add_load_balancer("lb", services=[{"protocol": "tcp", "listen_port": 80, "destination_port": 30080}], targets=[{"type": "server", "server": {"id": server.id}}])
    assert library("change", "lb") == ""
    assert library("look", "lb").splitlines() == [f"{server.id} {port} healthy" for port in (80, 81)]
