"""Replicas of ccmd that elect a leader, each with a certificate and a recording proxy of its own, and the proof that
only the leader acted.

    with Replicas(cluster, inventory, folder) as replicas:
        first = replicas.start()
        replicas.wait_leader() is first
        replicas.prove()
"""
import datetime
import re

from .ccmd import Ccmd
from .cluster import REPLICAS
from .faultproxy import FaultProxy
from .wait import PATIENCE_S, wait_for

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"
SLACK_S = 0.05  # the proxy notes a request a moment after it was sent

# Short ones make short tests: take-over 8 s after a kill instead of 15. On a busy machine an API server that has just started was
# seen not to answer for 2.8 s, and a released lease to be taken over after 5.7 s.
LEASE_S, RENEW_S, RETRY_S = 8, 7, 0.5


def is_lease(request):
    return request.path.startswith(LEASE.rsplit("/", 1)[0])


class Replica:
    def __init__(self, cluster, inventory, folder, name, timings, flags=(), env=None, **options):
        self.name = name
        self.user = f"replica-{name}"
        self.lease_s = timings[0]
        pair = cluster.authority.client(self.user, self.user, [REPLICAS])
        self.proxy = FaultProxy(cluster, pair=pair)
        kubeconfig = cluster.kubeconfig(self.user, url=self.proxy.url, pair=pair)
        names = ("lease_duration", "renew_deadline", "retry_period")
        options |= {f"leader_elect_{key}": f"{round(value * 1000)}ms" for key, value in zip(names, timings)}
        if "LD_PRELOAD" in (env or {}):
            options["sandbox"] = "off"  # what is preloaded reads files that the sandbox does not know
        self.ccmd = Ccmd(folder, kubeconfig, inventory, *flags, name=f"ccmd-{name}", leader_elect=True, env=env, **options)

    def __getattr__(self, name):
        if name == "ccmd":
            raise AttributeError(name)
        return getattr(self.ccmd, name)

    @property
    def identity(self):
        found = re.search(r"became leader.* identity=(\S+)", self.text)
        return found and found[1]

    @property
    def leads(self):
        return self.running and self.identity is not None

    def lease_writes(self):
        """The renewals that the API server accepted and whose answer arrived: no rule of the proxy dropped it."""
        found = [one for one in self.proxy.requests() if one.is_write and is_lease(one)]
        return [one for one in found if one.status in (200, 201) and one.rule is None]

    def renewals(self):
        return [one for one in self.lease_writes() if one.json()["spec"]["holderIdentity"]]

    def changes(self, since=0.0):
        """All requests of the replica except reads, those about the lease, and events, whatever the API server answered."""
        return [one for one in self.proxy.writes() if not is_lease(one) and one.at >= since]

    def wait_lost(self, timeout):
        """The replica must end by itself, with code 1, and log why."""
        code = self.process.wait(timeout)
        assert code == 1, f"it ended with {code}:\n{self.process.log_tail()}"
        assert "error leaderelection lost" in self.text, self.process.log_tail()
        self.ccmd._stopped_on_purpose = True
        self.check_log()


class Replicas:
    def __init__(self, cluster, inventory, folder, timings=(LEASE_S, RENEW_S, RETRY_S)):
        self.cluster = cluster
        self.inventory = inventory
        self.folder = folder
        self.timings = timings
        self.api = cluster.api()
        self.all = []
        self.begun = datetime.datetime.now(datetime.timezone.utc)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            for one in self.all:
                one.finish(check=kind is None)
        finally:
            for one in self.all:
                one.process.kill()
                one.proxy.close()

    def start(self, *flags, **options):
        """flags and options are those of Ccmd, such as env and program."""
        name = "abcdefgh"[len(self.all)]
        one = Replica(self.cluster, self.inventory, self.folder, name, self.timings, flags, **options)
        self.all.append(one)
        one.ccmd.start()
        return one

    def start_all(self, count, *flags):
        """The first is the leader, the others wait."""
        first = self.start(*flags)
        self.wait_leader()
        others = [self.start(*flags) for _ in range(count - 1)]
        for one in others:
            one.wait_log("another replica leads")
        return [first, *others]

    def lease(self):
        return self.api.get(LEASE)

    def holder(self):
        lease = self.api.get_or_none(LEASE)
        return lease and lease["spec"].get("holderIdentity", "")

    def wait_leader(self, timeout=PATIENCE_S, other_than=None):
        """The replica that holds the lease."""

        def check():
            holder = self.holder()
            return next((one for one in self.all if one is not other_than and one.leads and one.identity == holder), None)

        return wait_for(check, timeout, "a leader", seen=self.holder)

    # --- the proof ---------------------------------------------------------------------------------------------------

    def prove(self, at_least=1):
        """Each change was sent while its sender led: after a renewal that it knew had succeeded, less than the lease's
        duration - 1 s after that one was begun, and not after somebody else's. Returns how many changes there were."""
        n = 0
        renewals = [(one, one.renewals()) for one in self.all]
        for one, own_renewals in renewals:
            others_renewals = [(other, renewal.at) for other, found in renewals if other is not one for renewal in found]
            for change in one.changes():
                self._prove(one, change, own_renewals, others_renewals)
                n += 1
        assert n >= at_least, f"only {n} changes were seen"
        return n

    def _prove(self, replica, change, own_renewals, others_renewals):
        known = [one for one in own_renewals if one.answered_at <= change.at]
        assert known, f"{replica.name} acted before it led: {change}"
        last = known[-1]
        late = change.at - (last.at + replica.lease_s - 1)
        assert late < SLACK_S, f"{replica.name} acted {late:.3f} s after its fence: {change}"
        for other, at in others_renewals:
            assert not last.at < at < change.at, f"{replica.name} acted after {other.name} took the lease: {change}"

    def prove_by_audit(self, at_least=1):
        """The same from the API server's log: of who changed anything, the last to write the Lease was the same user, not
        longer ago than the lease lasts."""
        last = None
        n = 0
        entries = [one for one in self.cluster.audit_entries() if received(one) >= self.begun]
        for entry in sorted(entries, key=received):
            user = entry["user"]["username"]
            about = entry.get("objectRef", {}).get("resource")
            accepted = entry.get("responseStatus", {}).get("code", 0) < 300
            if entry["verb"] not in ("create", "update", "patch", "delete") or user not in [one.user for one in self.all]:
                continue
            if about == "leases":
                if accepted:
                    last = (user, received(entry))
            elif about != "events":
                assert last and last[0] == user, f"{user} changed what {last} leads: {entry['requestURI']}"
                age = (received(entry) - last[1]).total_seconds()
                assert age < self.timings[0], f"{user} changed something {age} s after its last renewal"
                n += 1
        assert n >= at_least, f"only {n} changes in the audit log"
        return n


def received(entry):
    return datetime.datetime.fromisoformat(entry["requestReceivedTimestamp"].replace("Z", "+00:00"))
