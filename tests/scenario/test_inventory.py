"""The inventory file changes while ccmd runs: by rename, in place, in pieces, by symlink, and with mistakes."""
import json
import re
import signal
import time

import pytest

from lib.api import NODES
from lib.ccmd import Inventory, machine
from lib.nodes import SHUTDOWN, Kubelet, addresses, in_parallel, is_initialized, taint_keys
from lib.wait import holds_for

pytestmark = pytest.mark.one_version

WAYS = ["rename", "in place", "in pieces", "symlink"]
DELETING = dict(node_monitor_period="100ms", node_delete_confirm_interval="300ms", node_delete_min_age="0s")


def change(inventory, way):
    if way == "rename":
        inventory.write()
    elif way == "in place":
        inventory.write_in_place()
    elif way == "in pieces":
        inventory.write_in_place(pieces=7, pause=0.02)
    else:
        inventory.swap_symlink()


@pytest.mark.parametrize("poll", ["0s", "200ms"], ids=["inotify alone", "with polling"])
@pytest.mark.parametrize("way", WAYS)
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


BROKEN = {
    "no YAML": "machines: [",
    "empty": "",
    "another kind": "apiVersion: cloudlycke.io/v1alpha1\nkind: Recipe\nmachines: []\n",
    "an unknown field": "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\nmachnies: []\n",
    "aliases": "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\nmachines: &a []\ncloud: *a\n",
    "binary": "\x00\x01\x02",
    "a deep nest": "a: " + "[" * 5000 + "]" * 5000,
    "a bad address": "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\nmachines: [{name: n1, id: x, addresses: "
                     "[{type: InternalIP, address: nonsense}]}]\n",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_an_invalid_file_is_rejected(api, kubelet, inventory, proxy, ccmd, settled, broken):
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    n1, n2 = kubelet("n1"), kubelet("n2")
    one = ccmd(**DELETING)
    api.wait_node("n1", is_initialized)
    n2.silent()
    inventory.write(BROKEN[broken])
    one.wait_log("inventory reload rejected")
    n1.silent()
    settled()
    holds_for(lambda: proxy.requests("DELETE", rf"^{NODES}/n[12]$") == [], 1, "no deletion")
    inventory.power("n1", "off")
    api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))


def test_the_line_of_a_mistake_is_logged(api, inventory, ccmd, settled):
    one = ccmd()
    settled()
    inventory.add(machine("n1", ("InternalIP", "192.168.20.300"), id="m-1"))
    line = next(number for number, text in enumerate(inventory.text().splitlines(), 1) if "192.168.20.300" in text)
    one.wait_log(rf"inventory\.yaml:{line}: machines\[1\]\.addresses\[0\]\.address: ")
    assert "is not an IP address" in one.text


def test_a_file_that_vanishes_changes_nothing(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    n1 = kubelet("n1")
    kubelet("n2")
    one = ccmd(**DELETING)
    api.wait_node("n1", is_initialized)
    settled()
    inventory.path.unlink()
    n1.silent()
    holds_for(lambda: one.running and api.get_or_none(f"{NODES}/n1"), 1.5, "n1", poll=0.1)
    inventory.add(machine("n3", "10.0.0.3"))
    kubelet("n3")
    api.wait_node("n3", is_initialized)


@pytest.mark.parametrize("keep", ["none", "some", "one less"])
@pytest.mark.plain
def test_a_file_cut_at_a_line_that_is_valid_yaml(api, kubelet, inventory, proxy, ccmd, settled, keep):
    """A copy that was interrupted looks like machines that are gone: the kubelets of those still speak."""
    names = [f"n{number}" for number in range(6)]
    inventory.add(*(machine(name, f"10.0.1.{number}") for number, name in enumerate(names)))
    kubelets = [kubelet(name, lease=True) for name in names]
    ccmd(**dict(DELETING, node_delete_confirm_interval="10s"))  # in which each surely speaks
    for name in names:
        api.wait_node(name, is_initialized)
    whole = inventory.text()
    starts = [found.start() for found in re.finditer(r"^- name: ", whole, re.MULTILINE)]
    cut = {"none": starts[0], "some": starts[3], "one less": starts[-1]}[keep]
    inventory.write_in_place(whole[:cut])
    for each in kubelets:
        each.not_ready()
    ends = time.monotonic() + 12
    while time.monotonic() < ends:
        in_parallel(Kubelet.renew_lease, kubelets, len(kubelets))
        assert proxy.requests("DELETE", rf"^{NODES}/n\d$") == []
    assert len([node for node in api.list(NODES) if node["metadata"]["name"] in names]) == 6


def test_mass_removals_are_refused_by_default(api, kubelet, tmp_path, proxy, ccmd):
    names = ["n1", "n2", "n3"]
    folder = tmp_path / "defaults"
    folder.mkdir()
    inventory = Inventory(folder / "inventory.yaml", [machine(name, "10.0.0.1") for name in names])
    del inventory.content["reload"]
    inventory.write()
    kubelets = [kubelet(name) for name in names]
    one = ccmd(inventory=inventory, **DELETING)
    for name in names:
        api.wait_node(name, is_initialized)
    inventory.remove("n1", "n2")
    for each in kubelets:
        each.silent()
    one.wait_log("would remove 2 of 3 machines")
    holds_for(lambda: proxy.requests("DELETE") == [], 1, "no deletion")


def test_sighup_reloads_where_nothing_else_does(api, kubelet, inventory, ccmd, settled):
    inventory.content["reload"] = {"enabled": False}
    inventory.write()
    kubelet("n1")
    one = ccmd()
    settled()
    inventory.add(machine("n1", "10.0.0.1"))
    holds_for(lambda: not is_initialized(api.node("n1")), 0.7, "n1")
    one.signal(signal.SIGHUP)
    api.wait_node("n1", is_initialized)


def test_a_setting_that_needs_a_restart_is_reported(api, inventory, ccmd, settled):
    one = ccmd()
    settled()
    inventory.content["reload"]["poll"] = "1s"
    inventory.write()
    one.wait_log("takes effect after a restart")


def test_json_is_yaml_too(api, kubelet, inventory, ccmd):
    inventory.machines.append(machine("n1", "10.0.0.1"))
    inventory.write(json.dumps(inventory.content, indent=2))
    kubelet("n1")
    ccmd()
    api.wait_node("n1", is_initialized)


@pytest.mark.parametrize("spelling", ["on", "'on'", "true", "off", '"off"', "false"])
def test_power_is_read_as_yaml_1_1_and_1_2_write_it(api, kubelet, inventory, ccmd, settled, spelling):
    inventory.machines.append(machine("n1", "10.0.0.1", power="PLACEHOLDER"))
    inventory.write(inventory.text().replace("PLACEHOLDER", spelling))
    one = kubelet("n1")
    ccmd(**DELETING)
    api.wait_node("n1", is_initialized)
    one.silent()
    if "on" in spelling or spelling == "true":
        settled()
        holds_for(lambda: SHUTDOWN not in taint_keys(one.node), 0.5, "no taint")
    else:
        api.wait_node("n1", lambda node: SHUTDOWN in taint_keys(node))
