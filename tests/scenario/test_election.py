"""Several replicas, of which one acts. Each has a proxy and a certificate of its own. Nodes join all the time, so that
a leader always has something to write. At the end of each test the proxies and the audit log prove that no replica wrote
anything while it did not lead."""
import itertools
import os
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from lib.ccmd import is_static, machine, preload, sanitized
from lib.cluster import REPOSITORY, Cluster
from lib.faultproxy import EVENTS_PATH, NODES_PATH, delay, lose_answer
from lib.nodes import Kubelet, is_initialized
from lib.process import Process
from lib.replicas import LEASE, LEASE_S, RENEW_S, RETRY_S, SLACK_S, Replicas, is_lease
from lib.wait import holds_for, wait_for

pytestmark = [
    pytest.mark.plain, pytest.mark.needs_binary, pytest.mark.one_version, pytest.mark.xdist_group("election")]

MANY = 2000
JITTER_S = RETRY_S * 2.2
needs_shim = pytest.mark.skipif(is_static(), reason="a static program takes no shim")
USUAL = (15, 10, 2)  # the defaults
BUSY_S = 8  # what is added to a bound for a busy machine; where being early matters, the order is asserted


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """A cluster of this module's own, with an audit log, because some tests freeze it."""
    with Cluster(request.param, folder=tmp_path_factory.mktemp("cluster"), audit=True) as cluster:
        yield cluster


class Arrivals:
    """A node joins every 50 ms."""

    def __init__(self, api):
        self.api = api
        self.names = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="arrivals")
        self._thread.start()

    def _run(self):
        for number in itertools.count():
            if self._stop.wait(0.05):
                return
            name = f"n{number}"
            try:
                Kubelet(self.api, name, ip="10.0.0.1").register()
            except OSError:  # the API server is frozen
                continue
            self.names.append(name)

    def stop(self):
        self._stop.set()
        self._thread.join(60)

    def wait_initialized(self):
        """All that have come so far."""
        for name in list(self.names):
            self.api.wait_node(name, is_initialized)


@pytest.fixture
def arrivals(api):
    arrivals = Arrivals(api)
    yield arrivals
    arrivals.stop()


def make_replicas(cluster, inventory, tmp_path, timings):
    """prove() is for the time when they have ended: it parses their requests, which delays their proxies in this process."""
    cluster.api().delete(LEASE)
    inventory.add(*(machine(f"n{number}", "10.0.0.1") for number in range(MANY)))
    return Replicas(cluster, inventory, tmp_path, timings)


@pytest.fixture
def replicas(cluster, api, inventory, tmp_path, arrivals):
    with make_replicas(cluster, inventory, tmp_path, (LEASE_S, RENEW_S, RETRY_S)) as replicas:
        yield replicas
    replicas.prove()
    replicas.prove_by_audit()


@pytest.fixture
def usual_replicas(cluster, api, inventory, tmp_path, arrivals):
    """With the default timings. No proof by audit log: a frozen API server finds requests when it wakes that were sent in
    time."""
    with make_replicas(cluster, inventory, tmp_path, USUAL) as replicas:
        yield replicas
    replicas.prove()


@pytest.fixture
def replicas_with_long_lease(cluster, api, inventory, tmp_path, arrivals):
    """A renewal may take up to 25 s on a busy machine."""
    with make_replicas(cluster, inventory, tmp_path, (30, 25, RETRY_S)) as replicas:
        yield replicas
    replicas.prove()
    replicas.prove_by_audit()


def transitions(replicas):
    return replicas.lease()["spec"]["leaseTransitions"]


# --- the proof itself ----------------------------------------------------------------------------------------------------


def test_the_proof_finds_changes_by_a_replica_that_does_not_lead():
    def replica(name, renewals, changes):
        def sent(at):
            return SimpleNamespace(at=at, answered_at=at + 0.01)

        one = SimpleNamespace(name=name, lease_s=4)
        one.renewals = lambda: [sent(at) for at in renewals]
        one.changes = lambda: [sent(at) for at in changes]
        return one

    def prove(*all):
        replicas = Replicas.__new__(Replicas)
        replicas.all = all
        return replicas.prove()

    other = replica("b", [5], [])
    assert prove(replica("a", [1, 3], [1.5, 2, 3.005, 5.9])) == 4
    assert prove(replica("a", [1], [3.9]), replica("b", [5], [5.5])) == 2
    for changes, why in ([0.5], "before it led"), ([1.005], "before it led"), ([4.2], "after its fence"):
        with pytest.raises(AssertionError, match=why):
            prove(replica("a", [1], changes), other)
    with pytest.raises(AssertionError, match="b took the lease"):
        prove(replica("a", [4], [5.5]), other)
    with pytest.raises(AssertionError, match="only 0 changes"):
        prove(other)


# --- the usual -----------------------------------------------------------------------------------------------------------


def test_one_leads_and_the_others_wait(cluster, replicas, arrivals):
    first, second, third = replicas.start_all(3)
    time.sleep(LEASE_S + JITTER_S)  # longer than a lease that is not renewed
    assert first.leads and not second.leads and not third.leads
    arrivals.wait_initialized()
    assert first.changes() and not second.changes() and not third.changes()
    # its first lists are at least as new as its Lease, so they have all that a leader before it wrote
    taken = first.renewals()[1].json()["metadata"]["resourceVersion"]  # a renewal names what the one before was answered
    listed = first.proxy.requests("GET", NODES_PATH, watch=False)[0]
    assert listed.query == {"resourceVersion": taken, "resourceVersionMatch": "NotOlderThan"}
    shown = cluster.kubectl("get", "lease", "-n", "kube-system", "cloud-controller-manager")
    assert first.identity in shown and transitions(replicas) == 0
    described = cluster.kubectl("describe", "lease", "-n", "kube-system", "cloud-controller-manager")
    assert "LeaderElection" in described and f"{first.identity} became leader" in described
    assert "cloud-controller-manager" in described


def test_a_leader_renews_by_one_request_a_period(replicas):
    """Through a connection of its own, under a name of its own."""
    (first,) = replicas.start_all(1)
    begun = time.monotonic()
    time.sleep(6 * RETRY_S)

    def renewed():
        found = [one for one in first.proxy.requests() if is_lease(one) and one.at > begun]
        pauses = [later.at - one.at for one, later in itertools.pairwise(found)]
        assert len(found) >= 3 and min(pauses) <= 1.5 * RETRY_S, pauses  # a busy machine makes some longer
        return found

    found = wait_for(renewed, BUSY_S, "three renewals, one pause of at most 1.5 periods")
    periods = (time.monotonic() - begun) / RETRY_S
    assert {one.method for one in found} == {"PUT"} and len(found) <= periods + 1
    assert all(one.headers["user-agent"].endswith("/leader-election") for one in found)
    assert len({one.connection for one in found}) == 1
    others = {one.connection for one in first.proxy.requests() if not is_lease(one)}
    assert found[0].connection not in others


def test_a_standby_ends_immediately_and_leaves_the_lease_unchanged(replicas):
    first, second = replicas.start_all(2)
    before = replicas.lease()["spec"]["holderIdentity"]
    assert second.stop() < LEASE_S - 1 or sanitized()
    assert replicas.lease()["spec"]["holderIdentity"] == before and first.leads
    assert not second.lease_writes()


# --- take-over -----------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_a_killed_leader_is_replaced(replicas, arrivals):
    first, second, third = replicas.start_all(3)
    first.kill()
    leader = replicas.wait_leader(LEASE_S + 2 * JITTER_S + BUSY_S)
    assert leader in (second, third) and transitions(replicas) == 1
    took = leader.renewals()[0].at - first.renewals()[-1].at
    assert LEASE_S - SLACK_S < took < LEASE_S + 2 * JITTER_S + BUSY_S
    wait_for(lambda: leader.changes(), what="the new leader to act")
    arrivals.wait_initialized()


@pytest.mark.sanitized
def test_after_sigterm_another_replica_leads_soon(cluster, replicas, arrivals):
    """The API server receives the release a second late. It still succeeds, because it may use the rest of the grace period."""
    first, second = replicas.start_all(2, "--shutdown-grace-period=5s")
    first.proxy.on("PUT", r"/leases/", delay(1.0), times=None, when=lambda request: not request.json()["spec"]["holderIdentity"])
    identity = first.identity
    first.stop()
    ended = time.monotonic()
    assert replicas.wait_leader() is second
    assert second.renewals()[0].at - ended < LEASE_S - RETRY_S  # the shortest time if the lease had not been released
    release = first.proxy.requests("PUT", r"/leases/")[-1]
    assert release.rule and release.status == 200
    assert release.json()["spec"]["holderIdentity"] == "" and release.json()["spec"]["leaseDurationSeconds"] == 1
    assert not first.changes(since=release.at)
    assert transitions(replicas) == 1
    events = cluster.kubectl("get", "events", "-n", "kube-system", "-o", "jsonpath={.items[*].message}")
    assert f"{identity} stopped leading" in events
    arrivals.wait_initialized()


@needs_shim
@pytest.mark.sanitized
def test_the_cloud_is_closed_after_the_lease_is_released_and_before_the_recorder_ends(replicas, inventory, tmp_path):
    """The thread that watches the inventory is held, so closing the cloud blocks, as it does while the kernel is slow to close
    an inotify descriptor. Let go, the thread rejects an inventory; the event about that is written."""
    stall = tmp_path / "stall"
    stall.touch()
    first = replicas.start("--shutdown-grace-period=60s",
                           env={**preload(tmp_path, "stall"), "STALL_THREAD": "inventory", "STALL_FILE": str(stall)})
    replicas.wait_leader()
    second = replicas.start()
    second.wait_log("another replica leads")
    first.signal(signal.SIGTERM)
    assert replicas.wait_leader(other_than=first) is second
    assert first.proxy.requests("PUT", r"/leases/")[-1].json()["spec"]["holderIdentity"] == ""
    assert first.running  # it is still closing the cloud
    inventory.write("damaged")
    stall.unlink()
    assert first.wait(BUSY_S) == 0
    rejected, = [one for one in first.proxy.requests("POST", EVENTS_PATH) if b"InventoryReloadRejected" in one.body]
    assert rejected.status == 201


def test_a_rolling_update(replicas, arrivals):
    """A new replica starts and the old one gets SIGTERM, three times."""
    current = replicas.start()
    replicas.wait_leader()
    for round in range(3):
        following = replicas.start()
        following.wait_log("another replica leads")
        current.stop()
        assert replicas.wait_leader() is following
        current = following
    assert transitions(replicas) == 3
    arrivals.wait_initialized()


def test_a_leader_that_was_stopped_wakes_as_a_former_one(replicas, arrivals):
    first, second = replicas.start_all(2)
    wait_for(lambda: first.changes(), what="the leader to act")
    first.pause()
    replicas.wait_leader(LEASE_S + 2 * JITTER_S + BUSY_S, other_than=first)
    wait_for(lambda: second.changes(), what="the new leader to act")
    woken = time.monotonic()
    first.resume()
    first.wait_lost(BUSY_S)
    assert not [one for one in first.proxy.writes() if one.at > woken], "events are not kept back"
    assert second.leads
    arrivals.wait_initialized()


def watch_overlap(first, second):
    """A list that gets, at each attempt of the second to take or renew the lease, whether the first one still runs."""
    overlaps = []

    def note(_request):
        try:
            overlaps.append(os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None)
        except ChildProcessError:
            overlaps.append(False)

    second.proxy.on("PUT", r"/leases/", None, times=None, when=note)
    return overlaps


@needs_shim
@pytest.mark.sanitized
def test_an_elector_that_is_stuck_ends_with_the_lease(replicas, arrivals, tmp_path):
    """The main loop's timer watches the elector's thread: the process changes nothing after the fence, and ends before another
    replica begins."""
    stall = tmp_path / "stall"
    first = replicas.start(env={**preload(tmp_path, "stall"), "STALL_THREAD": "elector", "STALL_FILE": str(stall)})
    replicas.wait_leader()
    second = replicas.start()
    second.wait_log("another replica leads")
    wait_for(lambda: first.changes() and len(first.renewals()) > 1, what="the leader to act, and to renew")
    stall.touch()
    overlaps = watch_overlap(first, second)
    first.wait_lost(LEASE_S + BUSY_S)
    ended = time.monotonic()
    assert "the lease was not renewed in time, and the elector did not notice" in first.text
    counted = first.renewals()[-2]  # it may have been held before it counted the answer to its last one
    assert counted.at + LEASE_S - 1 - SLACK_S < ended
    assert replicas.wait_leader(LEASE_S + 2 * JITTER_S + BUSY_S) is second
    assert overlaps and not any(overlaps)
    arrivals.wait_initialized()


def test_a_short_stop_is_survived(replicas, arrivals):
    first, second = replicas.start_all(2)
    first.pause()
    time.sleep(1.5)  # the length of the stop is what is tested
    first.resume()
    time.sleep(LEASE_S + JITTER_S)
    assert first.leads and not second.leads and transitions(replicas) == 0


# --- the API server ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_frozen_api_server(cluster, usual_replicas, arrivals):
    """With the default timings the leader survives 8 s. In 16 s it ends, before another replica may begin."""
    first, second = usual_replicas.start_all(2)
    cluster.apiserver.pause()
    time.sleep(8)  # the length of the stop is what is tested
    cluster.apiserver.resume()
    time.sleep(4)
    assert first.leads and not second.leads
    frozen = time.monotonic()
    cluster.apiserver.pause()
    try:
        first.wait_lost(USUAL[0] - 1)
        assert time.monotonic() - frozen > 8
        time.sleep(max(0.0, frozen + 16 - time.monotonic()))
    finally:
        cluster.apiserver.resume()
    assert usual_replicas.wait_leader(25) is second
    arrivals.wait_initialized()


def test_a_restarted_api_server(cluster, replicas, arrivals):
    first, second = replicas.start_all(2)
    for one in (first, second):
        one.proxy.refuse()
    time.sleep(1.5)
    for one in (first, second):
        one.proxy.accept_again()
    time.sleep(LEASE_S + JITTER_S)
    assert first.leads and not second.leads and transitions(replicas) == 0
    arrivals.wait_initialized()


def test_a_leader_that_is_cut_off_ends_before_another_begins(replicas, arrivals):
    first, second = replicas.start_all(2)
    first.proxy.vanish_all()
    first.proxy.silent = True
    overlaps = watch_overlap(first, second)
    first.wait_lost(LEASE_S + BUSY_S)
    assert replicas.wait_leader(LEASE_S + 2 * JITTER_S + BUSY_S) is second
    assert overlaps and not any(overlaps)
    arrivals.wait_initialized()


@pytest.mark.parametrize("when", ["acquiring", "renewing"])
def test_a_lost_answer_about_the_lease_changes_no_leader(replicas, arrivals, when):
    """The API server has stored the Lease, and the connection breaks before its answer arrives."""
    first = replicas.start()
    replicas.wait_leader()
    if when == "renewing":
        rule = first.proxy.on("PUT", r"/leases/", lose_answer())
        rule.wait_hit()
        time.sleep(LEASE_S)
        assert first.leads and transitions(replicas) == 0
        return
    second = replicas.start()
    second.wait_log("another replica leads")
    rule = second.proxy.on("PUT", r"/leases/", lose_answer())
    first.stop()
    rule.wait_hit()
    assert replicas.wait_leader() is second
    assert transitions(replicas) == 1
    wait_for(second.changes, what="a change by the new leader")


# --- what is done to the Lease -------------------------------------------------------------------------------------------


def test_a_deleted_lease_ends_its_leader(replicas, arrivals):
    """A replica that has seen the Lease waits until it would have run out, although it is deleted, and then creates a new one."""
    first, second = replicas.start_all(2)
    uid = replicas.lease()["metadata"]["uid"]
    deleted = time.monotonic()
    replicas.api.delete(LEASE)
    first.wait_lost(RETRY_S + BUSY_S)
    assert replicas.wait_leader(LEASE_S + JITTER_S + BUSY_S) is second
    assert second.renewals()[0].at - deleted > LEASE_S - JITTER_S - RETRY_S - 0.5
    assert replicas.lease()["metadata"]["uid"] != uid and transitions(replicas) == 0
    told = [one.answered_at for one in first.proxy.requests() if is_lease(one) and one.answered_at]
    assert not first.changes(since=told[-1] + SLACK_S)
    arrivals.wait_initialized()


def test_a_lease_taken_by_force_ends_its_leader(replicas, arrivals):
    first, second = replicas.start_all(2)
    taken = time.monotonic()
    replicas.api.patch(LEASE, {"spec": {"holderIdentity": "an-administrator", "leaseDurationSeconds": 3}})
    first.wait_lost(RETRY_S + BUSY_S)
    assert replicas.wait_leader(3 + 2 * JITTER_S + BUSY_S) is second
    assert second.renewals()[0].at - taken > 2.5
    arrivals.wait_initialized()


@pytest.mark.sanitized
def test_other_fields_of_the_lease_survive(replicas):
    (first,) = replicas.start_all(1)
    replicas.api.patch(LEASE, {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "\u00e4 \"b\""}}})
    before = replicas.lease()["spec"]["renewTime"]
    wait_for(lambda: replicas.lease()["spec"]["renewTime"] != before, what="a renewal")
    metadata = replicas.lease()["metadata"]
    assert metadata["labels"] == {"team": "a"} and metadata["annotations"] == {"note": "\u00e4 \"b\""}
    assert first.leads


# --- clocks --------------------------------------------------------------------------------------------------------------


@needs_shim
def test_jumps_of_the_wall_clock_change_nothing(replicas_with_long_lease, arrivals, clock_shim):
    """The lease is long, because a busy API server could make the leader lose a short one. A leader that postpones its renewals
    after a jump would keep a long lease, so the pauses between its requests are checked by the bound of a short one."""
    first = replicas_with_long_lease.start(env=clock_shim.environment)
    replicas_with_long_lease.wait_leader()
    second = replicas_with_long_lease.start(env=clock_shim.environment)
    second.wait_log("another replica leads")
    for hours in (1, -1):
        day_and_hour = replicas_with_long_lease.lease()["spec"]["renewTime"][:13]
        clock_shim.set(hours * 3600)
        wait_for(lambda: replicas_with_long_lease.lease()["spec"]["renewTime"][:13] != day_and_hour, what="the jump")
        jumped = time.monotonic()
        time.sleep(LEASE_S + JITTER_S)
        wait_for(lambda: first.renewals()[-1].at > jumped + LEASE_S, what="a renewal")
        assert first.leads and not second.leads and transitions(replicas_with_long_lease) == 0
    assert longest_pause(first) < RENEW_S
    arrivals.wait_initialized()


def longest_pause(replica):
    """The longest time between an answer about the lease and the replica's next request about it."""
    requests = [one for one in replica.proxy.requests() if is_lease(one)]
    return max(later.at - one.answered_at for one, later in itertools.pairwise(requests) if one.answered_at)


@pytest.fixture
def clock_shim(tmp_path):
    """Moves the wall clock of processes while they run."""
    shim = ClockShim(tmp_path)
    yield shim


class ClockShim:
    def __init__(self, folder):
        self.file = folder / "skew"
        self.set(0)
        self.environment = {**preload(folder, "skew"), "CLOCK_SKEW_FILE": str(self.file)}

    def set(self, seconds):
        """By rename, so that no process reads half of it."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(self.file)


# --- together with the Go framework --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def go_elector():
    tool = REPOSITORY / "tools" / "go-program"
    return subprocess.run([tool, "tests/scenario/go-elector"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_the_go_frameworks_election_and_back(cluster, replicas, arrivals, tmp_path, go_elector):
    """A cluster changes to ccmd, or back: one program is started, then the other is stopped."""
    argv = [
        go_elector, f"--kubeconfig={cluster.admin_kubeconfig}", "--identity=go", f"--lease-duration={LEASE_S}s",
        f"--renew-deadline={RENEW_S}s", f"--retry-period={RETRY_S}s",
    ]
    go = Process("go", argv, tmp_path / "go.log").start()
    wait_for(lambda: "started leading" in go.log_text(), what="the Go program to lead")
    ours = replicas.start()
    ours.wait_log("another replica leads.* holder=go")
    holds_for(lambda: replicas.holder() == "go" and not ours.changes(), LEASE_S, "the Go program's lead")
    go.kill()
    assert replicas.wait_leader(LEASE_S + 2 * JITTER_S + BUSY_S) is ours
    wait_for(lambda: ours.changes(), what="ccmd to act")
    go.start()
    wait_for(lambda: f"leader is {ours.identity}" in go.log_text(), what="the Go program to see ccmd's lead")
    holds_for(lambda: ours.leads and replicas.holder() == ours.identity, LEASE_S, "ccmd's lead")
    ours.stop()
    wait_for(lambda: replicas.holder() == "go", what="the Go program to lead again")
    assert transitions(replicas) == 2
    go.kill()
