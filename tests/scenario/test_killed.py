"""kill -9 at each write, one after the other: what is started again ends where it would have ended, with nothing twice.

Writes are what ccmd asks the API server for (killed before the server hears of it, or before the answer comes), each step of
the state file and of HAProxy's, each program that is started, and the middle of a hook's run.
"""
import fcntl
import json
import os
import shutil
import subprocess

import pytest

from lib.ccmd import is_static, sanitized
from lib.faultproxy import Hangup
from lib.haproxy import PROGRAM
from lib.killed import KilledAtEachWrite
from lib.process import REPOSITORY
from lib.services import FINALIZER, finalizers, ips

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
SERVICE_PATH = r"^/api/v1/namespaces/default/services/"


class World:
    """What the hook, the state file and HAProxy have: all three must agree with the Services."""

    def __init__(self, folder, inventory):
        self.told = folder / "told"
        self.told.mkdir()
        self.state = folder / "state.json"
        self.haproxy = folder / "haproxy.cfg"
        self.loaded = folder / "loaded.cfg"
        self.half = folder / "half"  # how many runs of the hook until one kills ccmd in its middle
        hook = script(folder / "hook", f"""
            read -r document
            test ! -s {self.half} || {{ n=$(($(cat {self.half}) - 1)); echo $n >{self.half}; test $n != 0 || kill -9 $PPID; }}
            name=$(echo "$document" | sed 's/.*"uid":"\\([^"]*\\)".*/\\1/')
            if [ $CLOUDLYCKE_ACTION = delete ]; then rm -f {self.told}/$name
            else echo "$document" >{self.told}/.new.$name && mv {self.told}/.new.$name {self.told}/$name; fi""")
        reload = script(folder / "reload", f"cp {self.haproxy} {self.loaded}")
        inventory.content.update(
            addressPools=[{"name": "lab", "addresses": ["192.0.2.10-192.0.2.30"]}], state={"file": str(self.state)},
            loadBalancers={"hook": str(hook), "haproxy": {"file": str(self.haproxy), "reload": [str(reload)],
                                                          "check": [PROGRAM, "-c", "-f"] if PROGRAM else ["true"]}})
        inventory.write()

    def records(self):
        return {one["name"]: one for one in json.loads(self.state.read_text())["loadBalancers"].values()}

    def hooked(self):
        return {one["name"]: one for one in (json.loads(path.read_text()) for path in self.told.glob("[!.]*"))}

    def check(self, wanted, nodes):
        """wanted: {name: address}, nodes: their names."""
        for said in (self.records(), self.hooked()):
            assert {name: one["addresses"] for name, one in said.items()} == {name: [ip] for name, ip in wanted.items()}
        assert all([node["name"] for node in one["nodes"]] == nodes for one in self.hooked().values())
        assert all(one["hook"]["generation"] == one["generation"] and not one["hook"]["error"] for one in self.records().values())
        text = self.loaded.read_text()
        assert text == self.haproxy.read_text()
        assert sorted(line.split()[1] for line in text.splitlines() if line.startswith("\tbind ipv4@")) == \
            sorted(f"ipv4@{address}:80" for address in wanted.values())
        assert text.count("\tserver ") == len(nodes) * len(wanted)


def script(path, text):
    path.write_text("#!/bin/sh\n" + "\n".join(line.strip() for line in text.strip().splitlines()) + "\n")
    path.chmod(0o755)
    return path


# --- who kills ---------------------------------------------------------------------------------------------------------


class ByApi:
    """At the n-th write to a Service: before the request arrives, or before its answer does."""

    def __init__(self, proxy, is_done):
        self.proxy = proxy
        self.is_done = is_done
        self.environment = {}
        self.strikes = False  # it is under way: all may look settled before ccmd is dead

    def arm(self, n, one):
        self.strikes = False

        def act(connection, request):
            self.strikes = True
            if self.is_done:
                status, headers = connection.ask(request)
                list(connection.answer_body(request, status, headers))
            one.process.child.kill()
            raise Hangup

        self.proxy.on("PATCH", SERVICE_PATH, act, skip=n - 1)

    def disarm(self):
        self.proxy.clear()


class ByFile:
    """Before the n-th step of a file, or start of a program."""

    def __init__(self, folder):
        if is_static():
            pytest.skip("a static program takes no shim")
        library = folder / "deadly.so"
        source = REPOSITORY / "tests" / "scenario" / "lib" / "deadly.c"
        if not shutil.which("cc") or subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]).returncode:
            pytest.skip("no C compiler")
        self.file = folder / "deadly"
        self.disarm()
        self.environment = {"LD_PRELOAD": str(library), "DEADLY_FILE": str(self.file)}
        if sanitized():
            self.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0"

    def arm(self, n, _):
        self.swap(n)

    def disarm(self):
        self.strikes = self.swap(0) == "-1"  # it may have been the last moment

    def swap(self, count):
        """The count that was there: one that is just being counted is waited for."""
        with open(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = file.read().strip()
            file.seek(0)
            file.write(f"{count:<8}\n")
        return before


class ByHook:
    """In the middle of the n-th run of the hook."""

    environment = {}
    strikes = False  # immediately

    def __init__(self, world):
        self.world = world

    def arm(self, n, _):
        self.world.half.write_text(str(n))

    def disarm(self):
        self.world.half.write_text("")


# --- the steps ---------------------------------------------------------------------------------------------------------


class Scenario(KilledAtEachWrite):
    """A Service comes, loses a node, gets it back, and goes, beside one that stays."""

    def __init__(self, start, services, world, killer):
        super().__init__(start, killer)
        self.services, self.world = services, world
        self.wanted = {"stays": "192.0.2.10"}
        self.nodes = ["n1", "n2"]

    def seen(self):
        return self.wanted, self.nodes, self.services.get("web"), self.world.records()

    def check(self):
        for name in ("stays", "web"):
            one = self.services.get(name)
            if name in self.wanted:
                assert one and ips(one) == [self.wanted[name]] and FINALIZER in finalizers(one)
            else:
                assert one is None
        self.world.check(self.wanted, self.nodes)

    def create(self):
        """It gets the lowest address that is left, each time."""
        self.wanted["web"] = "192.0.2.11"
        self.services.create("web")

    def delete(self):
        del self.wanted["web"]
        self.services.delete("web")

    def exclude(self):
        self.nodes = ["n1"]
        self.services.api.patch("/api/v1/nodes/n2", {"metadata": {"labels": {EXCLUDED: "true"}}})

    def include(self):
        self.nodes = ["n1", "n2"]
        self.services.api.patch("/api/v1/nodes/n2", {"metadata": {"labels": {EXCLUDED: None}}})


@pytest.mark.parametrize("moment", [
    "before the API server hears", "before its answer comes", "in a hook",
    pytest.param("at a file or program", marks=pytest.mark.slow)])
def test_killed_at_each_write(services, inventory, kubelet, ccmd, proxy, tmp_path, moment):
    world = World(tmp_path, inventory)
    for number in (1, 2):
        kubelet(f"n{number}", ip=f"10.0.0.{number}", initialized=True, provider_id=f"cloudlycke://m-n{number}")
    killer = {"before the API server hears": lambda: ByApi(proxy, is_done=False),
              "before its answer comes": lambda: ByApi(proxy, is_done=True),
              "at a file or program": lambda: ByFile(tmp_path),
              "in a hook": lambda: ByHook(world)}[moment]()
    killer.disarm()
    scenario = Scenario(ccmd, services, world, killer)
    services.create("stays")
    scenario.begin()
    scenario.run(scenario.create, scenario.exclude, scenario.include, scenario.delete)
    assert scenario.n_kills >= 2, f"{scenario.n_kills} kills"
    print(f"{moment}: {scenario.n_kills} kills")
