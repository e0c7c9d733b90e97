"""The addresses of initialised nodes are compared with the cloud's from time to time, and follow them."""
import pytest

from lib.api import MERGE, NODES
from lib.ccmd import machine
from lib.nodes import addresses
from lib.wait import holds_for

PERIOD = "200ms"
HOSTNAME = ("Hostname", "n1")
A, B = ("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2")
EXTERNAL = ("ExternalIP", "198.51.100.1")


@pytest.fixture
def n1(kubelet, inventory, ccmd, api):
    """n1(A, EXTERNAL): starts ccmd with a machine of these addresses and a node that has them. Returns the kubelet."""

    def start(*cloud, node=None, **options):
        inventory.add(machine("n1", *cloud))
        one = kubelet("n1", initialized=True, addresses=(list(cloud) + [HOSTNAME]) if node is None else node, **options)
        ccmd(node_status_update_frequency=PERIOD)
        return one

    return start


def becomes(api, expected, name="n1"):
    api.wait_node(name, lambda node: addresses(node) == expected, 10, f"the addresses to become {expected}")


def test_an_address_changes(api, n1, inventory, proxy):
    n1(A, EXTERNAL)
    inventory.set_addresses("n1", B, EXTERNAL)
    becomes(api, [B, EXTERNAL, HOSTNAME])
    (write,) = proxy.writes(node="n1")
    assert write.path == f"{NODES}/n1/status"


def test_addresses_come_and_go(api, n1, inventory):
    n1(A)
    inventory.set_addresses("n1", A, B, ("InternalIP", "fd00::1"), EXTERNAL)
    becomes(api, [A, B, ("InternalIP", "fd00::1"), EXTERNAL, HOSTNAME])
    inventory.set_addresses("n1", ("InternalIP", "fd00::1"))
    becomes(api, [("InternalIP", "fd00::1"), HOSTNAME])


def test_addresses_that_other_clients_write_are_corrected(api, n1, proxy):
    one = n1(A, EXTERNAL)
    proxy.wait_watching()
    one.set_addresses(("InternalIP", "192.0.2.66"), HOSTNAME)
    becomes(api, [A, EXTERNAL, HOSTNAME])


def test_the_provided_address_is_enforced_at_a_refresh_too(api, n1, inventory):
    n1(A, B, EXTERNAL, provided_node_ip="10.0.0.2")
    becomes(api, [B, EXTERNAL, HOSTNAME])


def test_a_provided_address_without_a_match_leaves_the_addresses(api, n1, inventory, proxy):
    n1(A, EXTERNAL, provided_node_ip="10.0.0.1", node=[A, EXTERNAL, HOSTNAME])
    proxy.wait_watching()
    inventory.set_addresses("n1", B, EXTERNAL)
    holds_for(lambda: proxy.writes(node="n1") == [], 1.0, "no write")
    api.patch(f"{NODES}/n1", {"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.2"}}}, MERGE)
    becomes(api, [B, EXTERNAL, HOSTNAME])
