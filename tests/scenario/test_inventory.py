"""The inventory file changes while ccmd runs: in pieces, by symlink, and with mistakes.

tests/providers/cloudlycke/watcher.c and reader.c have all ways and all mistakes. Here is what becomes of the nodes."""
import re
import signal
import time

import pytest

from lib.api import NODES
from lib.ccmd import machine
from lib.nodes import SHUTDOWN, addresses, is_initialized, taint_keys
from lib.wait import holds_for

pytestmark = pytest.mark.one_version

DELETING = dict(node_monitor_period="100ms", node_delete_confirm_interval="300ms", node_delete_min_age="0s")


def change(inventory, way):
    if way == "in pieces":
        inventory.write_in_place(pieces=7, pause=0.02)
    else:
        inventory.swap_symlink()


@pytest.mark.parametrize("way, poll", [("in pieces", "200ms"), ("symlink", "0s")])
def test_a_change_is_seen(api, kubelet, inventory, ccmd, settled, way, poll):
    inventory.content["reload"]["poll"] = poll
    if way == "in pieces":
        inventory.content["reload"]["debounce"] = "500ms"  # the pieces come faster than that, even on a busy machine
    inventory.write()
    if way == "symlink":
        inventory.use_symlinks()
    kubelet("n1")
    one = ccmd()
    settled()
    for number in range(3):
        inventory.machines.append(machine(f"n{number}", f"10.0.0.{number}"))
        change(inventory, way)
        if number != 1:
            kubelet(f"n{number}")
        node = api.wait_node(f"n{number}", is_initialized)
        assert addresses(node)[0] == ("InternalIP", f"10.0.0.{number}")
    assert one.running


def test_an_invalid_file_is_rejected(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    n1, n2 = kubelet("n1"), kubelet("n2")
    one = ccmd(**DELETING)
    api.wait_node("n1", is_initialized)
    n2.silent()
    inventory.write("machines: [")
    one.wait_log("inventory reload rejected")
    n1.silent()
    settled()
    holds_for(lambda: proxy.requests("DELETE", rf"^{NODES}/n[12]$") == [], 1, "no deletion")
    inventory.power("n1", "off")
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))


@pytest.mark.plain
def test_a_file_cut_at_a_line_that_is_valid_yaml(api, kubelet, inventory, proxy, ccmd, settled):
    """A copy that was interrupted looks like machines that are gone: the kubelets of those still speak."""
    names = [f"n{number}" for number in range(6)]
    inventory.add(*(machine(name, f"10.0.1.{number}") for number, name in enumerate(names)))
    kubelets = [kubelet(name, lease=True) for name in names]
    ccmd(**dict(DELETING, node_delete_confirm_interval="2s"))  # in which each surely speaks
    for name in names:
        api.wait_node(name, is_initialized)
    whole = inventory.text()
    starts = [found.start() for found in re.finditer(r"^- name: ", whole, re.MULTILINE)]
    inventory.write_in_place(whole[:starts[3]])
    for each in kubelets:
        each.not_ready()
    ends = time.monotonic() + 4.5
    while time.monotonic() < ends:
        for each in kubelets:
            each.renew_lease()
        assert proxy.requests("DELETE", rf"^{NODES}/n\d$") == []
    assert len([node for node in api.list(NODES) if node["metadata"]["name"] in names]) == 6


def test_sighup_reloads_where_nothing_else_does(api, kubelet, inventory, ccmd, settled):
    inventory.content["reload"] = {"enabled": False}
    inventory.write()
    kubelet("n1")
    one = ccmd()
    settled()
    inventory.add(machine("n1", "10.0.0.1"))
    holds_for(lambda: not is_initialized(api.node("n1")), 0.7, "n1")
    one.signal(signal.SIGHUP)
    api.wait_node("n1", is_initialized, 20)
