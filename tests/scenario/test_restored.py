"""The API server's data is restored from a backup while ccmd runs: etcd is killed, and an older copy of its folder takes the
place of its data. What was written since is gone, and versions that were seen come again with another content. A watch from
such a version is accepted and stays silent, so a client that goes on as before sees no changes."""
import struct

import pytest

from lib.ccmd import machine, preload
from lib.cluster import Cluster
from lib.nodes import Kubelet, is_initialized
from lib.replicas import LEASE, RETRY_S, Replicas
from lib.wait import PATIENCE_S

pytestmark = [
    pytest.mark.plain, pytest.mark.needs_binary, pytest.mark.one_version, pytest.mark.xdist_group("restored")]

LOST_WRITES = 3000  # more than the API server makes by itself until the test is over
LONG = (60, 50, RETRY_S)  # the outage alone must not cost the lease
SHORT = (6, 5, RETRY_S)


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """A cluster of its own, which no other test can use afterwards."""
    with Cluster(request.param, folder=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def replicas(cluster, api, inventory, tmp_path):
    inventory.add(machine("before", "10.0.0.1"), machine("after", "10.0.0.2"))
    started = []

    def start(timings):
        started.append(Replicas(cluster, inventory, tmp_path, timings))
        return started[-1].__enter__().start()

    yield start
    for one in started:
        one.__exit__(None)


def initialise(api, name, ip):
    Kubelet(api, name, ip=ip).register()
    api.wait_node(name, is_initialized)


@pytest.mark.sanitized
def test_a_leader_ends_when_the_data_was_restored(cluster, api, replicas):
    leader = replicas(LONG)
    initialise(api, "before", "10.0.0.1")
    cluster.backup()
    cluster.advance(LOST_WRITES)
    cluster.restore()
    leader.wait_lost(LONG[1] - 10)  # before the outage alone could cost the lease
    assert "the data of the API server was restored" in leader.text


def test_a_standby_leads_with_the_restored_data(cluster, api, replicas):
    """The lease is held by another replica, which never renews it again."""
    api.delete(LEASE)
    api.post(LEASE.rsplit("/", 1)[0], lease("a"))
    cluster.backup()
    api.patch(LEASE, {"spec": {"holderIdentity": "b"}})
    cluster.advance(LOST_WRITES)
    standby = replicas(SHORT)  # late: it must not lead before the data is restored
    standby.wait_log("another replica leads.*holder=b")
    cluster.restore()
    standby.wait_log("became leader", 2 * SHORT[0] + PATIENCE_S)
    assert "the data of the API server was restored" in standby.text
    initialise(api, "after", "10.0.0.2")


def lease(holder):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "cloud-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": SHORT[0]},
    }


def test_without_election_silence_is_noticed(cluster, api, inventory, proxy, ccmd, tmp_path):
    """Two minutes of silence pass in a moment: the program's clock leaps."""
    leap = tmp_path / "leap"
    leap.write_bytes(struct.pack("q", 0))
    inventory.add(machine("before", "10.0.0.1"), machine("after", "10.0.0.2"), machine("lost", "10.0.0.3"))
    Kubelet(api, "before", ip="10.0.0.1").register()
    cluster.backup()
    cluster.advance(LOST_WRITES)
    one = ccmd(env={**preload(tmp_path, "leap"), "CLOCK_LEAP_FILE": str(leap)}, sandbox="off")
    api.wait_node("before", is_initialized)
    one.wait_log("node initialised node=before")
    initialise(api, "lost", "10.0.0.3")  # heard of by the watch, so that its version is one of those that get lost
    proxy.refuse()
    cluster.restore()
    assert not is_initialized(api.node("before"))
    with open(leap, "r+b") as file:
        file.write(struct.pack("q", 150))
    proxy.accept_again()
    one.wait_log("does not know the last version seen.*kind=Node")
    api.wait_node("before", is_initialized)
    initialise(api, "after", "10.0.0.2")
