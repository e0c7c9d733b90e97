"""The example cloud: a node, a Service and a deleted machine, with its simulated API (tests/sim/example.py)."""
import pytest

from lib.nodes import addresses
from lib.services import Services
from lib.wait import wait_for
from sim import faults
from sim.example import PAGE_MAX, Example

QUICK = {"node_monitor_period": "1s", "node_delete_confirm_interval": "1s", "node_delete_min_age": "1s"}


@pytest.fixture
def example(ccmd):
    """The cloud's API, with a ccmd that works with it."""
    with Example() as cloud:
        ccmd("--cloud-provider=example", inventory=None, env={"EXAMPLE_URL": cloud.url, "EXAMPLE_TOKEN": cloud.token}, **QUICK)
        yield cloud


def join(api, kubelet, cloud, name):
    """A machine, its initialised node, and its kubelet."""
    machine = cloud.add("machines", name=name)
    node = kubelet(name)
    api.wait_node(name, lambda one: one["spec"].get("providerID") == f"example://{machine['id']}")
    return machine, node


def test_a_node_is_initialised(api, kubelet, example):
    fault = example.fault("GET", "/machines", faults.plain(503))
    machine, _ = join(api, kubelet, example, "n1")
    node = api.node("n1")
    assert addresses(node)[0] == ("InternalIP", machine["ip"])
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
    assert fault.hits == 1


def test_lists_are_read_to_their_last_page(api, kubelet, example):
    machines = [join(api, kubelet, example, f"n{i}")[0] for i in range(2 * PAGE_MAX + 1)]
    services = Services(api)
    names = [f"web-{i}" for i in range(PAGE_MAX + 1)]
    try:
        for name in names:
            services.create(name, 80)
            services.wait_ips(name)
        assert len(example.items["balancers"]) == len(names)
        wait_for(lambda: all(len(one["targets"]) == len(machines) for one in example.items["balancers"].values()),
                 what="all machines as targets")
        services.delete(names[-1])
        services.wait_gone(names[-1])
        assert len(example.items["balancers"]) == PAGE_MAX
    finally:
        services.clear()


def test_a_service_gets_a_balancer(api, kubelet, example):
    machines = [join(api, kubelet, example, name)[0] for name in ("n1", "n2")]
    services = Services(api)
    web = services.create("web", 80)
    try:
        (ip,) = services.wait_ips("web")
        (balancer,) = example.items["balancers"].values()
        assert balancer["ip"] == ip
        assert balancer["ports"] == [f"80:{web['spec']['ports'][0]['nodePort']}"]
        wait_for(lambda: balancer["targets"] == [one["id"] for one in machines], what="both machines as targets")
        services.delete("web")
        services.wait_gone("web")
        assert not example.items["balancers"]
    finally:
        services.clear()


def test_a_node_is_deleted_with_its_machine(api, kubelet, example):
    join(api, kubelet, example, "n1")
    machine, silent = join(api, kubelet, example, "n2")
    del example.items["machines"][machine["id"]]
    silent.silent()
    api.wait_gone("n2")
    assert api.node("n1")
