"""Upgrade and rollback: two replicas are replaced one by one, by another build, while nodes and Services come and go.

The other build is that of --previous, else of the newest release tag, else of the commit below. It is older than the present
form of the state file.
"""
import json
import re
import subprocess
import threading

import pytest

from lib.api import NODES
from lib.ccmd import binary, machine
from lib.nodes import Kubelet, is_initialized
from lib.process import REPOSITORY
from lib.replicas import Replicas
from lib.services import Services, ips, path
from lib.wait import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.needs_binary, pytest.mark.one_version]

BEFORE_RELEASES = "d65b7d7"  # docs: what a patched status can do at the next start
POOL = "192.0.2.1-192.0.2.250"
MUCH = 12  # the number of nodes that stay
GOING = 3  # one of this many nodes is deleted again, and one of this many Services


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


@pytest.fixture(scope="session")
def previous(request):
    """The previous build's program, built in the cache folder."""
    tag = "git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null"
    revision = request.config.getoption("previous") or output("sh", "-c", f"{tag} || echo {BEFORE_RELEASES}", cwd=REPOSITORY)
    try:
        commit = output("git", "rev-parse", "--verify", f"{revision}^{{commit}}", cwd=REPOSITORY)
    except subprocess.CalledProcessError:
        pytest.skip(f"this clone has no commit {revision}")
    tree = cache() / "previous" / commit
    program = tree / "build" / "ccmd"
    if not program.exists():
        tree.mkdir(parents=True, exist_ok=True)
        subprocess.run(["sh", "-c", f"git archive {commit} | tar -x -C {tree}"], check=True, cwd=REPOSITORY)
        subprocess.run([tree / "dev", "build"], check=True)
    return program


def cache():
    """The cache folder, as tools/lib.sh defines it."""
    return REPOSITORY / output("sh", "-c", '. tools/lib.sh; echo "$CACHE"', REPOSITORY / "tools" / "x", cwd=REPOSITORY)


@pytest.fixture
def services(api):
    one = Services(api)
    one.clear()
    yield one
    one.clear()


class Load:
    """Nodes and Services that come and go, from a thread. cloud.add(name, address) makes a machine."""

    def __init__(self, api, services, cloud):
        self.api = api
        self.services = services
        self.cloud = cloud
        self.nodes = []  # those that stay
        self.balanced = {}  # name -> the Service's addresses, as first seen
        self.problem = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="load")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        assert not self.problem, self.problem

    def _run(self):
        number = 0
        try:
            while not self._stop.wait(0.1):
                self._step(number)
                number += 1
        except Exception as problem:  # reported by stop()
            self.problem = problem

    def _step(self, number):
        name = f"n{number}"
        self.cloud.add(name, f"10.1.{number // 250}.{1 + number % 250}")
        kubelet = Kubelet(self.api, name, ip=f"10.1.{number // 250}.{1 + number % 250}")
        kubelet.register()
        self.nodes.append(kubelet)
        if number % 5 == 0:
            kubelet.silent()  # its machine is there, so it must be kept
        if number % GOING == GOING - 1:
            self.nodes.pop(0).delete()
        if number % 4 == 0 and number < 400:  # 100 Services
            self.services.create(f"s{number}", annotations=self.cloud.annotations)
            self.balanced[f"s{number}"] = []
        if number % (4 * GOING) == 4 * GOING - 1:
            going = next(iter(self.balanced))
            del self.balanced[going]
            self.services.delete(going)
        self.cloud.check()
        for one in self.api.get(path())["items"]:
            name, now = one["metadata"]["name"], ips(one)
            if self.balanced.get(name):
                assert now == self.balanced[name], f"{name} had {self.balanced[name]}, has {now}"
            elif name in self.balanced:
                self.balanced[name] = now


class Inventoried:
    """Machines in a file, addresses from a pool, and a state file that all replicas share."""

    annotations = {}
    flags = ()
    environment = {}

    def __init__(self, inventory, folder):
        self.inventory = inventory
        self.state = folder / "state" / "state.json"
        self.state.parent.mkdir()
        hook = folder / "hook"
        hook.write_text(f"#!/bin/sh\ncat >>{folder}/hook.log\n")
        hook.chmod(0o755)
        inventory.content.update(addressPools=[{"name": "lab", "addresses": [POOL]}], state={"file": str(self.state)},
                                 loadBalancers={"hook": str(hook)})
        inventory.write()

    def add(self, name, address):
        self.inventory.add(machine(name, address))

    def check(self):
        pass

    def addresses(self):
        """{UID of the Service: its addresses}, by the state file."""
        return {one["uid"]: one["addresses"] for one in json.loads(self.state.read_text())["loadBalancers"].values()}


class Hetzner:
    """The simulated Hetzner Cloud."""

    annotations = {"load-balancer.hetzner.cloud/location": "fsn1"}
    flags = ("--cloud-provider=hcloud", "--allow-untagged-cloud")

    def __init__(self, cloud):
        self.cloud = cloud
        cloud.rate_limit = 36_000
        cloud.advance(3600)  # the bucket is full
        self.inventory = None
        self.environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false"}

    def add(self, name, _address):
        self.cloud.add_server(name)

    def _balancers(self):
        return self.cloud.state()["load_balancers"].values()

    def check(self):
        owners = [one["labels"]["hcloud-ccm/service-uid"] for one in self._balancers()]
        assert len(owners) == len(set(owners)), f"a Service has two balancers: {owners}"

    def addresses(self):
        return {one["labels"]["hcloud-ccm/service-uid"]: [one["public_net"][family]["ip"] for family in ("ipv4", "ipv6")]
                for one in self._balancers()}


@pytest.fixture(params=["cloudlycke", "hcloud"])
def provider(request, inventory, tmp_path):
    if request.param == "hcloud":
        return Hetzner(request.getfixturevalue("cloud"))
    return Inventoried(inventory, tmp_path)


def start(replicas, provider, program):
    return replicas.start(*provider.flags, env=provider.environment, program=program)


def replace(replicas, provider, going, program):
    """One step of a rolling update: another replica is started, and is ready before an old one is stopped."""
    coming = start(replicas, provider, program)
    coming.wait_log("another replica leads")
    led = going.identity == replicas.holder()
    going.stop()
    if led:
        replicas.wait_leader(other_than=going)
    return coming


def catch_up(load):
    """Waits until much more has come, and all that was there before is done by whoever leads now."""
    nodes, count = list(load.nodes), len(load.nodes) + MUCH

    def is_done(kubelet):
        node = load.api.get_or_none(f"{NODES}/{kubelet.name}")
        return kubelet not in load.nodes or node and is_initialized(node)

    wait_for(lambda: len(load.nodes) >= count or load.problem, what="nodes to come")
    for kubelet in nodes:
        wait_for(lambda: is_done(kubelet), what=f"{kubelet.name} to be initialised")
    for name in list(load.balanced):
        wait_for(lambda: load.balanced.get(name) != [] or load.problem, what=f"addresses of {name}")


def test_a_rolling_update_and_its_rollback_lose_nothing(previous, provider, api, cluster, services, tmp_path):
    with Replicas(cluster, provider.inventory, tmp_path) as replicas:
        old = [start(replicas, provider, previous)]
        replicas.wait_leader()
        old.append(start(replicas, provider, previous))
        lease = replicas.lease()
        with Load(api, services, provider) as load:
            catch_up(load)
            new = [replace(replicas, provider, one, binary()) for one in old]
            assert replicas.wait_leader() in new
            catch_up(load)
            old = [replace(replicas, provider, one, previous) for one in new]
            assert replicas.wait_leader() in old
            catch_up(load)

        # the Lease was passed on, never replaced
        now = replicas.lease()
        assert now["metadata"]["uid"] == lease["metadata"]["uid"]
        assert now["spec"]["leaseTransitions"] >= lease["spec"]["leaseTransitions"] + 2
        replicas.prove()
        # no node was deleted, by whatever build
        assert not [one for replica in replicas.all for one in replica.changes()
                    if one.method == "DELETE" and re.search("/nodes/", one.path)]
        for kubelet in load.nodes:
            wait_for(lambda: is_initialized(kubelet.node), what=f"{kubelet.name} to be initialised")
        # each build read what the other one wrote
        assert not [one.name for one in replicas.all if "state file" in one.text]
        # each Service has one balancer, with the addresses that it had from the start, and no other balancer is left
        expected = {services.get(name)["metadata"]["uid"]: addresses or services.wait_ips(name)
                    for name, addresses in load.balanced.items()}
        wait_for(lambda: provider.addresses() == expected, what="one balancer for each Service",
                 seen=lambda: (provider.addresses(), expected))
