"""ccmd plan beside a running controller with a real HAProxy: it names what the controller then does, and touches no file."""
import os

import pytest

from lib.ccmd import machine
from lib.haproxy import PROGRAM, Haproxy
from lib.operator import flags_of, plan
from lib.services import ips
from lib.wait import wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version,
              pytest.mark.skipif(not PROGRAM, reason="haproxy is not installed")]

PORT = 18080
NET = f"127.{100 + os.getpid() % 100}"  # several sessions at once do not get into each other's addresses
ADDRESS, NODE = f"{NET}.9.1", f"{NET}.1.1"


@pytest.fixture
def haproxy(tmp_path, inventory):
    one = Haproxy(tmp_path / "haproxy")
    inventory.content["addressPools"] = [{"name": "pool", "addresses": [f"{ADDRESS}-{NET}.9.9"]}]
    inventory.content["loadBalancers"] = {"haproxy": one.settings}
    inventory.content["state"] = {"file": str(tmp_path / "state.json")}
    inventory.write()
    one.start()
    yield one
    one.stop()


def files(*folders):
    """The inode and the time of each file: every write makes a new one."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for folder in folders for path in folder.iterdir()
            if path.name.startswith(("state.json", "haproxy.cfg"))}


def test_frontends_and_addresses(cluster, haproxy, inventory, kubelet, services, ccmd, tmp_path):
    inventory.add(machine("n1", NODE))
    kubelet("n1", ip=NODE, initialized=True, provider_id="cloudlycke://m-n1")
    flags = flags_of(cluster.ccmd_kubeconfig, inventory)

    def foretell():
        before = files(tmp_path, haproxy.folder)
        found = plan(*flags)
        assert files(tmp_path, haproxy.folder) == before
        return found

    made = services.create("web", PORT)
    name = "a" + made["metadata"]["uid"].replace("-", "")[:31]
    found = foretell()
    assert found.exit_code == 1, found.content
    differences = found.differences()
    assert differences[f"address {ADDRESS}"] == {"action": "create", "old": [], "new": [("pool", "pool")]}
    port = made["spec"]["ports"][0]["nodePort"]
    assert {("address", f"ipv4@{ADDRESS}:{PORT} transparent"), ("targets", f"n1 ipv4@{NODE}:{port}")} <= set(
        differences[f"HAProxy frontend {name}-{PORT}-v4"]["new"])
    assert not (tmp_path / "state.json").exists() and not (tmp_path / "state.json.lock").exists()

    one = ccmd()
    services.wait("web", ips, what="web to have an address")
    assert ips(services.get("web")) == [ADDRESS]
    wait_for(lambda: foretell().exit_code == 0, what="nothing to do", seen=lambda: foretell().content)  # while it runs
    one.stop()
    services.patch("web", {"spec": {"sessionAffinity": "ClientIP"}})
    assert ("balance", "source") in foretell().differences()[f"HAProxy frontend {name}-{PORT}-v4"]["new"]
    ccmd()
    wait_for(lambda: foretell().exit_code == 0, what="nothing to do", seen=lambda: foretell().content)
    assert "balance source" in haproxy.file.read_text()
