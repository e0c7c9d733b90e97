"""Load balancers by a real HAProxy: real requests to stand-ins for nodes, on addresses of the loopback network."""
import os
import threading

import pytest

from lib import netns
from lib.ccmd import machine
from lib.haproxy import PROGRAM, Backend, Haproxy, Stream, fetch
from lib.nodes import is_initialized
from lib.wait import holds_for, wait_for

pytestmark = [
    pytest.mark.plain,
    pytest.mark.one_version,
    pytest.mark.skipif(PROGRAM is None, reason="no haproxy here"),
]

PORT = 18080
NET = f"127.{100 + os.getpid() % 100}"  # several sessions at once do not get into each other's addresses
POOL = {"name": "lab", "addresses": [f"{NET}.0.10-{NET}.0.20"]}


@pytest.fixture
def haproxy(tmp_path, inventory):
    one = Haproxy(tmp_path / "haproxy")
    inventory.content["addressPools"] = [POOL]
    inventory.content["loadBalancers"] = {"haproxy": one.settings}
    inventory.content["state"] = {"file": str(tmp_path / "state.json")}
    inventory.write()
    one.start()
    yield one
    one.stop()


@pytest.fixture
def backends():
    """backends(service, name, address): a program behind each node port of a Service on one node."""
    started = []

    def start(service, name, address, **more):
        for port in service["spec"]["ports"]:
            started.append(Backend(name, address, port["nodePort"], **more))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def node(kubelet, inventory):
    """node("n1", f"{NET}.1.1"): a machine and its node."""

    def register(name, address):
        inventory.add(machine(name, address))
        return kubelet(name, ip=address)

    return register


@pytest.fixture
def three_nodes(node, ccmd, api):
    """n1, n2 and n3, known to a running ccmd."""
    for number in (1, 2, 3):
        node(f"n{number}", f"{NET}.1.{number}")
    ccmd()
    for number in (1, 2, 3):
        api.wait_node(f"n{number}", is_initialized, what="the node to be initialised")


def answered(address, port=PORT, **more):
    """The name of the backend that answers, or None."""
    try:
        return fetch(address, port, timeout=5, **more)
    except OSError:
        return None


def names(address, count=12, **more):
    return {answered(address, **more) for _ in range(count)}


@pytest.mark.sanitized
def test_requests_reach_the_nodes(services, haproxy, backends, node, ccmd):
    node("n1", f"{NET}.1.1"), node("n2", f"{NET}.1.2")
    ccmd()
    web = services.create("web", PORT)
    backends(web, "n1", f"{NET}.1.1"), backends(web, "n2", f"{NET}.1.2")
    address, = services.wait_ips("web")
    wait_for(lambda: names(address) == {"n1", "n2"}, what="both nodes to answer", seen=lambda: names(address))
    services.delete("web")
    services.wait_gone("web")
    wait_for(lambda: answered(address) is None, what="no backend to answer any more")
    assert haproxy.is_valid()


def test_nodes_come_and_go_under_a_steady_stream(services, haproxy, backends, node, inventory, ccmd, api):
    """Changes of n3 affect neither requests that n1 and n2 answer, nor a request that began before."""
    node("n1", f"{NET}.1.1"), node("n2", f"{NET}.1.2")
    ccmd()
    web = services.create("web", PORT)
    for number in (1, 2, 3):
        backends(web, f"n{number}", f"{NET}.1.{number}")
    address, = services.wait_ips("web")
    wait_for(lambda: names(address) == {"n1", "n2"}, what="both nodes to answer")
    slow = []
    with Stream(address, PORT) as stream:
        for _ in range(4):
            one = threading.Thread(target=lambda: slow.append(fetch(address, PORT, "/slow", timeout=20)))
            one.start()
            n3 = node("n3", f"{NET}.1.3")
            wait_for(lambda: "n3" in stream.answers[-30:], what="the third node to answer")
            n3.delete()
            wait_for(lambda: "n3" not in stream.answers[-60:], what="the third node to answer no more")
            inventory.remove("n3")
            one.join(20)
    assert stream.failures == []
    assert len(stream.answers) > 500
    assert len(slow) == 4
    assert haproxy.reloads() >= 8


def test_a_machine_that_gets_another_address_is_followed(services, haproxy, backends, node, inventory, ccmd):
    node("n1", f"{NET}.1.1"), node("n2", f"{NET}.1.2")
    ccmd(node_status_update_frequency="500ms")
    web = services.create("web", PORT)
    backends(web, "n1", f"{NET}.1.1"), backends(web, "n2 before", f"{NET}.1.2"), backends(web, "n2 after", f"{NET}.1.9")
    address, = services.wait_ips("web")
    wait_for(lambda: names(address) == {"n1", "n2 before"}, what="both nodes to answer")
    inventory.set_addresses("n2", f"{NET}.1.9")
    wait_for(lambda: names(address) == {"n1", "n2 after"}, what="the second to answer at its new address")


def test_many_services_need_few_reloads(services, haproxy, node, ccmd, inventory):
    inventory.content["addressPools"] = [{"name": "lab", "addresses": [f"{NET}.0.0/24"]}]
    inventory.write()
    node("n1", f"{NET}.1.1")
    for number in range(60):
        services.create(f"s{number}", PORT)
    ccmd()
    for number in range(60):
        services.wait_ips(f"s{number}")
    assert haproxy.reloads() <= 5
    assert not [number for number in range(60) if services.events(f"s{number}", "SyncLoadBalancerFailed")]
    assert len(set(one for number in range(60) for one in services.wait_ips(f"s{number}"))) == 60


def test_a_restart_interrupts_no_connection(services, haproxy, backends, node, ccmd, tmp_path):
    """Also without the state file: what other Services have stays in HAProxy's file from the first rendering on."""
    node("n1", f"{NET}.1.1")
    one = ccmd()
    made = [services.create(f"s{number}", PORT) for number in range(5)]
    for service in made:
        backends(service, service["metadata"]["name"], f"{NET}.1.1")
    addresses = {f"s{number}": services.wait_ips(f"s{number}")[0] for number in range(5)}
    all_answer = lambda: all(answered(address) == name for name, address in addresses.items())
    wait_for(all_answer, what="every Service to answer")  # one that came before its node has no server at first
    for with_state in (True, False):
        one.stop()
        if not with_state:
            (tmp_path / "state.json").unlink()
        before = {name: services.get(name)["metadata"]["resourceVersion"] for name in addresses}
        reloads = haproxy.reloads()
        with Stream(addresses["s3"], PORT) as stream:
            one = ccmd()
            wait_for(lambda: haproxy.reloads() > reloads, what="HAProxy to be told")
            holds_for(all_answer, 2)
        assert stream.failures == []
        assert {name: services.get(name)["metadata"]["resourceVersion"] for name in addresses} == before
        assert haproxy.reloads() == reloads + 1


def test_other_protocols_are_refused(services, haproxy, node, ccmd):
    node("n1", f"{NET}.1.1")
    ccmd()
    services.create("dns", (53, "UDP"))
    services.wait_event("dns", "SyncLoadBalancerFailed", "port 53/UDP: HAProxy balances TCP only")
    services.create("web", PORT)
    services.wait_ips("web")
    assert services.get("dns").get("status", {}).get("loadBalancer") == {}


@pytest.mark.sanitized
def test_proxy_protocol_carries_the_clients_address(services, haproxy, backends, node, ccmd):
    node("n1", f"{NET}.1.1")
    ccmd()
    for version in ("v1", "v2"):
        web = services.create(f"web-{version}", PORT, annotations={"proxy-protocol": version})
        backend = backends(web, "n1", f"{NET}.1.1", proxied=True)
        address, = services.wait_ips(f"web-{version}")
        wait_for(lambda: answered(address, source="127.9.9.9") == "n1", what="an answer")
        assert "127.9.9.9" in backend.seen
    services.create("odd", PORT, annotations={"proxy-protocol": "v3"})
    services.wait_event("odd", "SyncLoadBalancerFailed", '"v3" is not one of v1, v2')


def test_source_ranges_are_enforced(services, haproxy, backends, node, ccmd):
    node("n1", f"{NET}.1.1")
    ccmd()
    web = services.create("web", PORT, loadBalancerSourceRanges=["127.7.0.0/16", "::/0"])
    backends(web, "n1", f"{NET}.1.1")
    address, = services.wait_ips("web")
    wait_for(lambda: answered(address, source="127.7.1.1") == "n1", what="an answer")
    assert answered(address, source="127.8.1.1") is None
    services.patch("web", {"spec": {"loadBalancerSourceRanges": ["127.8.0.0/16"]}})
    wait_for(lambda: answered(address, source="127.8.1.1") == "n1", what="an answer")
    assert answered(address, source="127.7.1.1") is None


def test_source_ranges_of_several_ports_are_enforced(services, haproxy, backends, node, ccmd):
    """The ports share a frontend, also after a change that makes them share it."""
    node("n1", f"{NET}.1.1")
    ccmd()
    ports = (PORT, PORT + 1)
    web = services.create("web", *ports)
    backends(web, "n1", f"{NET}.1.1")
    address, = services.wait_ips("web")
    for port in ports:
        wait_for(lambda: answered(address, port, source="127.8.1.1") == "n1", what="an answer")
    services.patch("web", {"spec": {"loadBalancerSourceRanges": ["127.7.0.0/16"]}})
    for port in ports:
        wait_for(lambda: answered(address, port, source="127.8.1.1") is None, what="no answer")
        assert answered(address, port, source="127.7.1.1") == "n1"
    assert haproxy.file.read_text().count("127.7.0.0/16") == 1


def test_clients_stay_with_their_node(services, haproxy, backends, node, three_nodes):
    """Also when a node is added, to which a hash would send one client in four, and when a Service is added."""
    web = services.create("web", PORT, sessionAffinity="ClientIP")
    for number in (1, 2, 3, 4):
        backends(web, f"n{number}", f"{NET}.1.{number}")
    address, = services.wait_ips("web")
    strangers = (f"127.6.{number // 250}.{number % 250}" for number in range(10000))
    wait_for(lambda: len({answered(address, source=next(strangers)) for _ in range(30)} - {None}) == 3, what="all to answer")
    by_client = {}
    for client in range(1, 20):
        found = names(address, 5, source=f"127.5.0.{client}")
        assert len(found) == 1, f"client {client} was led to {found}"
        by_client[client] = found
    assert len(set.union(*by_client.values())) > 1
    haproxy.wait_knows_clients()
    worker = haproxy.worker()
    node("n4", f"{NET}.1.4")
    wait_for(lambda: "n4" in {answered(address, source=next(strangers)) for _ in range(30)}, what="n4 to answer")
    haproxy.wait_knows_clients(after=worker)
    for client, found in by_client.items():
        assert names(address, 2, source=f"127.5.0.{client}") == found
    worker = haproxy.worker()
    services.create("other", PORT)  # a reload
    services.wait_ips("other")
    haproxy.wait_knows_clients(after=worker)
    for client, found in by_client.items():
        assert names(address, 2, source=f"127.5.0.{client}") == found


@pytest.mark.sanitized
def test_local_traffic_goes_where_the_pods_are(services, haproxy, backends, three_nodes):
    """The health check's node port shows which nodes have a pod. HAProxy keeps this state over a reload."""
    web = services.create("web", PORT, externalTrafficPolicy="Local")
    for number in (1, 2, 3):
        backends(web, f"n{number}", f"{NET}.1.{number}")
    health = Backend("healthy", f"{NET}.1.2", web["spec"]["healthCheckNodePort"])
    try:
        address, = services.wait_ips("web")
        wait_for(lambda: haproxy.text().count("server n") == 3, what="all nodes to be there")
        wait_for(lambda: names(address) == {"n2"}, what="only the node with the pod to answer")
        with Stream(address, PORT) as stream:
            services.create("other", PORT)
            services.wait_ips("other")
            count = len(stream.answers)
            wait_for(lambda: len(stream.answers) > count + 300, what="more answers")
        assert set(stream.answers) == {"n2"} and stream.failures == []
    finally:
        health.stop()


def test_a_file_that_haproxy_refuses_is_never_in_use(services, haproxy, backends, node, inventory, tmp_path, ccmd):
    """After a check or a reload that fails, the Service has an event, and the file stays valid; the next change succeeds."""
    broken = tmp_path / "broken"
    for step in ("check", "reload"):
        script = tmp_path / step
        real = " ".join(haproxy.settings[step])
        script.write_text(f"#!/bin/sh\nif [ -e {broken} ]; then echo '[ALERT] broken {step}' >&2; exit 7; fi\n{real} \"$@\"\n")
        script.chmod(0o755)
    inventory.content["loadBalancers"]["haproxy"] = {
        **haproxy.settings, "check": [str(tmp_path / "check")], "reload": [str(tmp_path / "reload")]}
    inventory.write()
    node("n1", f"{NET}.1.1")
    ccmd()
    web = services.create("web", PORT)
    backends(web, "n1", f"{NET}.1.1")
    address, = services.wait_ips("web")
    wait_for(lambda: answered(address) == "n1", what="an answer")
    good = haproxy.text()
    broken.write_text("")
    services.create("db", PORT)
    services.wait_event("db", "SyncLoadBalancerFailed", "[ALERT] broken check")
    assert haproxy.text() == good and haproxy.is_valid()
    assert answered(address) == "n1"
    broken.unlink()
    services.wait_ips("db")


@pytest.mark.sanitized
def test_a_reload_that_is_lost_is_repeated(services, haproxy, backends, node, ccmd):
    """Until then the Service has no address, and an event says why."""
    node("n1", f"{NET}.1.1")
    ccmd()
    backends(services.create("one", PORT), "one", f"{NET}.1.1")
    address, = services.wait_ips("one")
    wait_for(lambda: answered(address) == "one", what="an answer")
    haproxy.lose_next_reload()
    reloads = haproxy.reloads()
    backends(services.create("two", PORT), "two", f"{NET}.1.1")
    services.wait_event("two", "SyncLoadBalancerFailed", "still responds at")
    assert services.get("two")["status"]["loadBalancer"] == {}
    address, = services.wait_ips("two")
    assert answered(address) == "two"
    assert haproxy.reloads() >= reloads + 2


def test_a_reload_that_takes_longer_than_its_command(services, haproxy, backends, node, ccmd):
    """Longer also than ccmd waits for it: then its worker counts at the next attempt."""
    node("n1", f"{NET}.1.1")
    ccmd()
    services.create("one", PORT)
    services.wait_ips("one")
    haproxy.script.write_text(f"#!/bin/sh\n(sleep 4; kill -USR2 {haproxy.process.pid}) >/dev/null 2>&1 &\n")
    backends(services.create("two", PORT), "two", f"{NET}.1.1")
    address, = services.wait_ips("two")
    assert answered(address) == "two"


def test_a_reload_after_which_nothing_responds_is_repeated_until_something_does(services, haproxy, backends, node, ccmd):
    """The reload moves HAProxy's socket away, as if HAProxy had ended."""
    node("n1", f"{NET}.1.1")
    ccmd()
    services.create("one", PORT)
    services.wait_ips("one")
    away, usual, reloads = haproxy.folder / "away.sock", haproxy.script.read_text(), haproxy.reloads()
    haproxy.script.write_text(f"#!/bin/sh\nmv {haproxy.socket} {away} 2>/dev/null\necho reload >>{haproxy.count}\n")
    backends(services.create("two", PORT), "two", f"{NET}.1.1")
    services.wait_event("two", "SyncLoadBalancerFailed", "nothing responds at")
    wait_for(lambda: haproxy.reloads() >= reloads + 3, what="a third reload, after two attempts")
    assert services.get("two")["status"]["loadBalancer"] == {}
    haproxy.script.write_text(usual)
    away.rename(haproxy.socket)
    address, = services.wait_ips("two")
    assert answered(address) == "two"


def test_a_socket_at_which_nothing_responds_prevents_no_change(services, inventory, node, ccmd, tmp_path):
    inventory.content["addressPools"] = [POOL]
    inventory.content["loadBalancers"] = {"haproxy": {
        "file": str(tmp_path / "haproxy.cfg"), "statsSocket": str(tmp_path / "none.sock"), "check": ["/bin/true"],
        "reload": ["/bin/true"]}}
    inventory.content["state"] = {"file": str(tmp_path / "state.json")}
    inventory.write()
    node("n1", f"{NET}.1.1")
    one = ccmd()
    services.create("web", PORT)
    services.wait_ips("web")
    one.wait_log("nothing responds at HAProxy's socket, so its reload is not verified")
    services.delete("web")
    services.wait_gone("web")


@pytest.mark.sanitized
def test_odd_names_leave_the_file_valid(services, haproxy, backends, node, ccmd):
    """Port names and Service names as odd as Kubernetes allows them."""
    node("n1.rack-1.example", f"{NET}.1.1")
    ccmd()
    services.create("global" + "-x" * 25, PORT)
    services.create("end", PORT, PORT + 1, PORT + 2)
    services.wait_ips("end")
    services.wait_ips("global" + "-x" * 25)
    assert haproxy.is_valid()


@pytest.mark.sanitized
def test_with_an_election_local_only_is_required(services, haproxy, node, inventory, ccmd, cluster, tmp_path):
    from lib.ccmd import run_ccmd

    done = run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}",
                    f"--kubeconfig={cluster.ccmd_kubeconfig}", "--leader-elect=true")
    assert done.returncode == 1
    assert "loadBalancers.localOnly" in done.stderr
    inventory.content["loadBalancers"]["localOnly"] = True
    inventory.write()
    node("n1", f"{NET}.1.1")
    ccmd(leader_elect=True)
    services.create("web", PORT)
    services.wait_ips("web")


# --- IPv6 --------------------------------------------------------------------------------------------------------------

V6 = "fd00:cc::"


@pytest.fixture
def network(tmp_path, inventory):
    """A namespace in which every address of 127/8 and fd00:cc::/64 is local, with HAProxy inside; ccmd is outside."""
    reason = netns.available()
    if reason:
        pytest.skip(reason)
    with netns.Namespace("haproxy") as network:
        network.ip("-6", "route", "add", "local", f"{V6}/64", "dev", "lo")
        network.sysctl("net.ipv6.ip_nonlocal_bind=1")  # stand-ins and clients bind them too
        one = Haproxy(tmp_path / "haproxy", namespace=network)
        pool = {"name": "lab", "addresses": [*POOL["addresses"], f"{V6}10-{V6}20"]}
        inventory.content.update(addressPools=[pool], loadBalancers={"haproxy": one.settings})
        inventory.write()
        one.start()
        network.haproxy = one
        yield network
        one.stop()


@pytest.fixture
def dual_nodes(network, kubelet, inventory, api, ccmd):
    """n1 and n2, each with an address of both families, known to a running ccmd."""
    for number in (1, 2):
        inventory.add(machine(f"n{number}", f"{NET}.1.{number}", f"{V6}1:{number}"))
        kubelet(f"n{number}", ip=f"{NET}.1.{number}")
    ccmd()
    for number in (1, 2):
        api.wait_node(f"n{number}", is_initialized, what="the node to be initialised")


@pytest.fixture
def dual_backends(network, backends):
    """Behind each address of both nodes: "n1 v4", "n1 v6", …"""

    def start(service, **more):
        with network.inside():
            return [backends(service, f"n{number} {kind}", address, **more) for number in (1, 2)
                    for kind, address in (("v4", f"{NET}.1.{number}"), ("v6", f"{V6}1:{number}"))]

    return start


def inside(network, function, *arguments, **more):
    with network.inside():
        return function(*arguments, **more)


def test_ipv6_clients_are_led_to_ipv6_addresses(services, network, dual_nodes, dual_backends, inventory, kubelet):
    """A node that is added and removed disturbs none of them."""
    web = services.create("web", PORT, ipFamilies=["IPv6"], ipFamilyPolicy="SingleStack")
    dual_backends(web)
    address, = services.wait_ips("web")
    assert address == f"{V6}10"
    wait_for(lambda: inside(network, names, address) == {"n1 v6", "n2 v6"}, what="both nodes to answer")
    with network.inside():
        stream = Stream(address, PORT)
        stream.__enter__()
    try:
        inventory.add(machine("n3", f"{V6}1:3"))
        n3 = kubelet("n3", ip=f"{V6}1:3")
        with network.inside():
            third = Backend("n3 v6", f"{V6}1:3", web["spec"]["ports"][0]["nodePort"])
        wait_for(lambda: "n3 v6" in stream.answers[-30:], what="the third node to answer")
        n3.delete()
        inventory.remove_quietly("n3")
        wait_for(lambda: "n3 v6" not in stream.answers[-60:], what="the third node to answer no more")
    finally:
        stream.__exit__()
    third.stop()
    assert stream.failures == []


def test_dual_stack(services, network, dual_nodes, dual_backends):
    """Each family leads to nodes' addresses of its own, in the order that the Service names them."""
    web = services.create("web", PORT, ipFamilies=["IPv6", "IPv4"], ipFamilyPolicy="RequireDualStack")
    dual_backends(web)
    v6, v4 = services.wait_ips("web")
    assert (v6, v4) == (f"{V6}10", f"{NET}.0.10")
    wait_for(lambda: inside(network, names, v6) == {"n1 v6", "n2 v6"}, what="both nodes to answer by IPv6")
    wait_for(lambda: inside(network, names, v4) == {"n1 v4", "n2 v4"}, what="both nodes to answer by IPv4")
    services.patch("web", {"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}})
    services.wait_ips("web", v6)
    wait_for(lambda: inside(network, answered, v4) is None, what="no backend to answer by IPv4")
    assert inside(network, answered, v6).endswith("v6")


def test_ipv6_source_ranges_and_proxy_protocol(services, network, dual_nodes, dual_backends):
    """A range is valid for its own family. A family without a range is closed."""
    web = services.create("web", PORT, ipFamilyPolicy="RequireDualStack", annotations={"proxy-protocol": "v2"},
                          loadBalancerSourceRanges=[f"{V6}7:0/112"])
    seen = dual_backends(web, proxied=True)
    v4, v6 = services.wait_ips("web")
    wait_for(lambda: inside(network, answered, v6, source=f"{V6}7:1"), what="an answer")
    assert any(f"{V6}7:1" in one.seen for one in seen)
    assert inside(network, answered, v6, source=f"{V6}8:1") is None
    assert inside(network, answered, v4, source="127.7.1.1") is None
    services.patch("web", {"spec": {"loadBalancerSourceRanges": ["::/0"]}})
    wait_for(lambda: inside(network, answered, v6, source=f"{V6}8:1"), what="an answer")
    assert inside(network, answered, v4, source="127.7.1.1") is None
