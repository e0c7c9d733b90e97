"""The addresses of initialised nodes are compared with the cloud's from time to time, and follow them."""
import pytest

from lib.api import MERGE, NODES
from lib.ccmd import machine
from lib.nodes import UNINITIALIZED, addresses, taint_keys
from lib.wait import holds_for, wait_for

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
    api.wait_node(name, lambda node: addresses(node) == expected, what=f"the addresses to become {expected}")


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


def test_the_order_within_a_type_matters(api, n1, inventory):
    n1(A, B, EXTERNAL)
    inventory.set_addresses("n1", B, A, EXTERNAL)
    becomes(api, [B, A, EXTERNAL, HOSTNAME])


def test_the_order_of_types_does_not_matter(api, n1, inventory, proxy, settled):
    n1(A, EXTERNAL)
    proxy.wait_watching()
    inventory.set_addresses("n1", EXTERNAL, A)
    holds_for(lambda: proxy.writes(node="n1") == [], 1.0, "no write")


@pytest.mark.parametrize("cloud", [[A, EXTERNAL], [A, B, ("InternalIP", "fd00::1")]], ids=["one of a type", "several"])
def test_nothing_is_written_while_nothing_changes(api, n1, proxy, cloud):
    n1(*cloud)
    proxy.wait_watching()
    holds_for(lambda: proxy.writes(events=True) == [], 1.2, "no write for several periods")


def test_the_clouds_hostname_replaces_the_kubelets_and_stays_when_it_goes(api, n1, inventory):
    n1(A)
    inventory.set_addresses("n1", A, ("Hostname", "other.example"))
    becomes(api, [A, ("Hostname", "other.example")])
    inventory.set_addresses("n1", B)
    becomes(api, [B, ("Hostname", "other.example")])


def test_a_cloud_without_addresses_leaves_the_nodes(api, n1, inventory, proxy):
    n1(A, EXTERNAL)
    proxy.wait_watching()
    inventory.set_addresses("n1")
    holds_for(lambda: proxy.writes(node="n1") == [], 1.0, "no write")
    assert addresses(api.node("n1")) == [A, EXTERNAL, HOSTNAME]


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


def test_a_cloud_that_cannot_be_asked_changes_nothing(api, n1, inventory, proxy):
    n1(A)
    proxy.wait_watching()
    inventory.set("n1", fault="no answer", addresses=[{"type": "InternalIP", "address": "10.0.0.2"}])
    holds_for(lambda: proxy.writes(node="n1") == [], 1.0, "no write")
    inventory.fault("n1", None)
    becomes(api, [B, HOSTNAME])


def test_labels_and_provider_id_are_not_refreshed(api, n1, inventory, proxy):
    n1(A)
    inventory.set("n1", zone="z9", type="t9", labels={"new": "label"}, addresses=[{"type": B[0], "address": B[1]}])
    becomes(api, [B, HOSTNAME])
    node = api.node("n1")
    assert "providerID" not in node["spec"] and "new" not in node["metadata"]["labels"]
    assert "topology.kubernetes.io/zone" not in node["metadata"]["labels"]


def test_nodes_that_wait_for_initialisation_are_not_refreshed(api, kubelet, inventory, ccmd, proxy):
    inventory.add(machine("n1", A, EXTERNAL))
    kubelet("n1", provided_node_ip="10.9.9.9")
    ccmd(node_status_update_frequency=PERIOD)
    api.wait_event("n1", "FailedToInitializeNode")
    holds_for(lambda: proxy.writes(node="n1") == [], 0.6, "no write")
    assert UNINITIALIZED in taint_keys(api.node("n1"))


def test_a_change_is_seen_without_waiting_for_the_period(api, kubelet, inventory, ccmd):
    """A new inventory wakes what was waiting for a machine; addresses follow with the next period."""
    kubelet("n1")
    inventory.add(machine("n2", "10.0.0.2"))
    kubelet("n2")
    one = ccmd(node_status_update_frequency="1h")
    api.wait_node("n2", lambda node: UNINITIALIZED not in taint_keys(node))
    inventory.add(machine("n1", A))
    wait_for(lambda: UNINITIALIZED not in taint_keys(api.node("n1")), 10, "n1 to be initialised")
    assert one.running
