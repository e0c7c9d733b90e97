"""200 Services of type LoadBalancer in a cluster of 500 nodes, addresses from a pool: ./dev bench --balancers.

Writes are those of the API server's audit log. Changes are those of the state file, which is written as a whole for each:
balancers made, and their nodes changed. Nothing is behind the balancers: what is measured is ccmd, and a disk.
"""
import json
import time
from collections import Counter

from lib.api import NODES
from lib.ccmd import Ccmd, Inventory, machine
from lib.nodes import create_many, in_parallel, is_initialized, numbered_ip
from lib.services import ALL_SERVICES, SERVICES, ips, service
from lib.wait import wait_for

N_NODES, N_SERVICES, N_FLAPPING = 500, 200, 50
FLAP_S = 60
SETTLE_S = 6
MIB = 1024
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


class Balancing:
    """Needs a cluster with audit=True."""

    def __init__(self, cluster, folder, table):
        self.cluster = cluster
        self.api = cluster.api()
        self.folder = folder
        self.table = table
        self.state = folder / "state.json"

    def run(self):
        names = create_many(self.api, N_NODES)
        machines = [machine(name, numbered_ip(number)) for number, name in enumerate(names)]
        self.inventory = Inventory(
            self.folder / "balancing.yaml", machines, state={"file": str(self.state)}, loadBalancers={},
            addressPools=[{"name": "pool", "addresses": ["10.100.0.0/22"]}])
        with self.ccmd("first") as ccmd:
            self.initialise()
            self.create(ccmd)
            self.one_node(names[0])
            self.flap(names[:N_FLAPPING])
        with self.ccmd("second") as ccmd:
            self.restart(ccmd)

    def ccmd(self, name):
        return Ccmd(self.folder, self.cluster.ccmd_kubeconfig, self.inventory, name=f"balancing-{name}")

    def initialise(self):
        wait_for(lambda: all(map(is_initialized, self.api.list(NODES))), 60, "all nodes to be initialised")
        time.sleep(SETTLE_S)

    # --- the parts ---------------------------------------------------------------------------------------------------

    def create(self, ccmd):
        rss, cpu, before, begun = ccmd.rss_kib(), ccmd.cpu_seconds(), self.writes(), time.monotonic()
        in_parallel(lambda number: self.api.post(SERVICES, service(f"s{number}")), range(N_SERVICES), 8)
        created = time.monotonic()
        wait_for(lambda: all(map(ips, self.balanced())), 120, "all Services to have an address")
        self.table.add(f"{N_SERVICES} Services, {N_NODES} nodes: all have an address after the last was created",
                       time.monotonic() - created, "s", 1.0, f"creating them took {created - begun:.1f} s")
        time.sleep(SETTLE_S)
        self.report("  writes", before)
        self.table.add("  CPU", ccmd.cpu_seconds() - cpu, "s")
        self.table.add("  RSS, more than before", (ccmd.rss_kib() - rss) / MIB, "MiB", 2.0)

    def one_node(self, name):
        changes, before, begun = self.generation(), self.writes(), time.monotonic()
        self.exclude(name, "true")
        wait_for(lambda: self.generation() >= changes + N_SERVICES, 60, "all balancers to change")
        self.table.add("one node less: all balancers changed", time.monotonic() - begun, "s", 3.0)
        time.sleep(SETTLE_S)
        self.report("  writes", before)
        self.table.add("  changes", self.generation() - changes, goal=N_SERVICES)
        self.exclude(name, None)
        time.sleep(SETTLE_S)

    def flap(self, names):
        """Each of them goes or comes every two seconds."""
        changes, before, begun = self.generation(), self.writes(), time.monotonic()
        turn = 0
        while time.monotonic() - begun < FLAP_S:
            turn += 1
            in_parallel(lambda name: self.exclude(name, "true" if turn % 2 else None), names, 4)
            time.sleep(max(0, begun + turn * 2 - time.monotonic()))
        in_parallel(lambda name: self.exclude(name, None), names, 4)
        time.sleep(SETTLE_S)
        self.table.add(f"{len(names)} nodes flap for {FLAP_S} s: changes a balancer and second",
                       (self.generation() - changes) / N_SERVICES / FLAP_S, goal=1.0)
        self.report("  writes", before)

    def restart(self, ccmd):
        changes, before = self.generation(), self.writes()
        ccmd.wait_log("objects listed kind=Service")
        time.sleep(SETTLE_S)
        self.report("restarted: writes", before)
        self.table.add("  changes", self.generation() - changes, goal=1, note="what the Services say is written down")

    # --- looking -----------------------------------------------------------------------------------------------------

    def exclude(self, name, value):
        self.api.patch(f"{NODES}/{name}", {"metadata": {"labels": {EXCLUDED: value}}})

    def balanced(self):
        return [one for one in self.api.list(ALL_SERVICES) if one["spec"]["type"] == "LoadBalancer"]

    def generation(self):
        return json.loads(self.state.read_text())["generation"]

    def writes(self):
        """What ccmd has written so far, by kind."""
        seen = {one["auditID"]: one for one in self.cluster.audit_entries() if one.get("userAgent", "").startswith("ccmd/")}
        return Counter(f"{one['verb']} {one.get('objectRef', {}).get('resource', '')}" for one in seen.values()
                       if one["verb"] in ("create", "delete", "patch", "update"))

    def report(self, what, before):
        made = self.writes() - before
        others = sum(count for kind, count in made.items() if not kind.endswith(" events"))
        self.table.add(f"{what} but events", others,
                       note=", ".join(f"{kind} {count}" for kind, count in sorted(made.items())))
