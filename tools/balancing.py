"""200 Services of type LoadBalancer in a cluster of 500 nodes, addresses from a pool: ./dev bench --balancers.

ccmd, and the Go framework (bench/go-framework) with balancers in memory, tuned and with its defaults, each in a cluster of its own,
without election. There is nothing behind the balancers: the program is measured, and for ccmd also a disk and a hook that does
nothing, since ccmd writes changes only if there is a hook.

Writes are those of the API server's audit log. Changes are balancers made, and their nodes changed: for ccmd, the generations in its
state file. Calls are those of the cloud's functions for balancers: for ccmd the
reconciles of Services, of which each makes one call at most.
"""
import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

from lib.api import NODES
from lib.ccmd import Ccmd, Inventory, environment, machine
from lib.nodes import create_many, in_parallel, is_initialized, numbered_ip
from lib.process import Process, free_ports
from lib.services import ALL_SERVICES, SERVICES, ips, service
from lib.serving import Serving
from lib.wait import wait_for

REPOSITORY = Path(__file__).resolve().parents[1]
N_NODES, N_SERVICES, N_FLAPPING = 500, 200, 50
TUNED = ["--concurrent-service-syncs=10", "--kube-api-qps=2000", "--kube-api-burst=2000"]
FLAP_S = 60
SETTLE_S = 6
MIB = 1024
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


class WithCcmd:
    name, agent = "ccmd", "ccmd/"

    def __init__(self, cluster, folder, nodes):
        self.kubeconfig = cluster.ccmd_kubeconfig
        self.folder = folder
        self.state = folder / "state.json"
        self.inventory = Inventory(
            folder / "balancing.yaml", [machine(name, ip) for name, ip in nodes], state={"file": str(self.state)},
            loadBalancers={"hook": "/bin/true"}, addressPools=[{"name": "pool", "addresses": ["10.100.0.0/22"]}])

    def start(self, name):
        (self.port,) = free_ports(1)
        self.program = Ccmd(self.folder, self.kubeconfig, self.inventory, f"--metrics-bind-address=127.0.0.1:{self.port}",
                            name=f"balancing-{name}").start()
        return self.program

    def stop(self):
        self.program.finish()

    def wait_known(self):
        self.program.wait_log("objects listed kind=Service")

    def changes(self):
        return sum(one["hook"]["generation"] for one in json.loads(self.state.read_text())["loadBalancers"].values())

    def calls(self):
        text = Serving(self.port, is_plain=True).get("/metrics").text
        done = re.search(r'^workqueue_work_duration_seconds_count\{name="service"\} (\S+)', text, re.M)
        return Counter({"reconcile": int(float(done[1])) if done else 0})

    @staticmethod
    def goal(figure):
        return figure


class WithGo:
    agent = "go-framework"

    def __init__(self, cluster, folder, nodes, *flags):
        command = [REPOSITORY / "tools" / "go-program", "bench/go-framework"]
        program = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        machines = folder / "machines.txt"
        machines.write_text("".join(f"{name} {ip}\n" for name, ip in nodes))
        self.folder = folder
        self.name = "Go, tuned" if flags else "Go"
        kubeconfig = cluster.admin_kubeconfig  # the Go framework needs more rights than deploy/rbac.yaml grants
        self.argv = [program, "--cloud-provider=memory", f"--cloud-config={machines}", f"--kubeconfig={kubeconfig}",
                     f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
                     "--bind-address=127.0.0.1", f"--cert-dir={folder}", "--leader-elect=false", *flags]

    def start(self, name):
        port, self.port = free_ports(2)
        self.program = Process(f"go-{name}", [*self.argv, f"--secure-port={port}"], self.folder / f"go-{name}.log",
                               env={**environment(), "MEMORY_BALANCERS": f"127.0.0.1:{self.port}"})
        return self.program.start()

    def stop(self):
        self.program.stop()

    def wait_known(self):
        wait_for(lambda: self.counts().get("changes", 0) >= N_SERVICES, 120, "all Services to be seen", poll=0.2)

    def changes(self):
        return self.counts().get("changes", 0)

    def calls(self):
        return Counter({kind: count for kind, count in self.counts().items() if kind != "changes"})

    def counts(self):
        try:
            return Serving(self.port, is_plain=True).get("/").json
        except ConnectionError as early:
            raise LookupError("it does not listen yet") from early

    @staticmethod
    def goal(_):
        return None


class Balancing:
    """Needs a cluster with audit=True, of its own. flags are those of the Go framework; None: this is about ccmd."""

    def __init__(self, cluster, folder, table, flags=None):
        self.cluster = cluster
        self.api = cluster.api()
        self.folder = folder
        self.table = table
        self.flags = flags

    def run(self):
        names = create_many(self.api, N_NODES)
        nodes = [(name, numbered_ip(number)) for number, name in enumerate(names)]
        self.side = (WithCcmd(self.cluster, self.folder, nodes) if self.flags is None
                     else WithGo(self.cluster, self.folder, nodes, *self.flags))
        program = self.side.start("first")
        try:
            self.initialise()
            self.create(program)
            self.one_node(names[0])
            if self.flags is None:
                self.flap(names[:N_FLAPPING])
            changes = self.side.changes()
        finally:
            self.side.stop()
        before = self.writes()
        self.side.start("second")
        try:
            self.restart(before, changes)
        finally:
            self.side.stop()

    def initialise(self):
        wait_for(lambda: all(map(is_initialized, self.api.list(NODES))), 300, "all nodes to be initialised")
        time.sleep(SETTLE_S)

    # --- the parts ---------------------------------------------------------------------------------------------------

    def create(self, program):
        calls, before = self.side.calls(), self.writes()
        rss, cpu, begun = program.rss_kib(), program.cpu_seconds(), time.monotonic()
        in_parallel(lambda number: self.api.post(SERVICES, service(f"s{number}")), range(N_SERVICES), 8)
        created = time.monotonic()
        wait_for(lambda: all(map(ips, self.balanced())), 300, "all Services to have an address")
        self.table.add(f"{self.side.name}: {N_SERVICES} Services, {N_NODES} nodes: all have an address after the last was created",
                       time.monotonic() - created, "s", self.side.goal(1.0), f"creating them took {created - begun:.1f} s")
        time.sleep(SETTLE_S)
        self.report("  writes", before)
        self.table.add("  CPU", program.cpu_seconds() - cpu, "s")
        now = program.rss_kib()
        self.table.add("  RSS, more than before", (now - rss) / MIB, "MiB", self.side.goal(2.0),
                       note=f"{now / MIB:.1f} MiB in all, at most {program.rss_peak_kib() / MIB:.1f}")
        self.called(calls)

    def one_node(self, name):
        calls, changes, before = self.side.calls(), self.side.changes(), self.writes()
        begun = time.monotonic()
        self.exclude(name, "true")
        wait_for(lambda: self.side.changes() >= changes + N_SERVICES, 300, "all balancers to change")
        self.table.add(f"{self.side.name}: one node less: all balancers changed", time.monotonic() - begun, "s",
                       self.side.goal(1.0))
        time.sleep(SETTLE_S)
        self.report("  writes", before)
        self.table.add("  changes", self.side.changes() - changes, goal=self.side.goal(N_SERVICES))
        self.called(calls)
        self.exclude(name, None)
        time.sleep(SETTLE_S)

    def flap(self, names):
        """Excludes these nodes from load balancers, and two seconds later includes them again, and so on."""
        changes, before, begun = self.side.changes(), self.writes(), time.monotonic()
        turn = 0
        while time.monotonic() - begun < FLAP_S:
            turn += 1
            in_parallel(lambda name: self.exclude(name, "true" if turn % 2 else None), names, 4)
            time.sleep(max(0, begun + turn * 2 - time.monotonic()))
        in_parallel(lambda name: self.exclude(name, None), names, 4)
        time.sleep(SETTLE_S)
        self.table.add(f"{len(names)} nodes flap for {FLAP_S} s: changes a balancer and second",
                       (self.side.changes() - changes) / N_SERVICES / FLAP_S, goal=1.0)
        self.report("  writes", before)

    def restart(self, before, changes):
        self.side.wait_known()
        time.sleep(SETTLE_S)
        self.report(f"{self.side.name}: restarted: writes", before)
        self.called(Counter())
        if self.flags is None:  # the Go framework's cloud loses its memory at a restart, so all balancers are made again
            self.table.add("  changes", self.side.changes() - changes, goal=0)

    # --- looking -----------------------------------------------------------------------------------------------------

    def exclude(self, name, value):
        self.api.patch(f"{NODES}/{name}", {"metadata": {"labels": {EXCLUDED: value}}})

    def balanced(self):
        return [one for one in self.api.list(ALL_SERVICES) if one["spec"]["type"] == "LoadBalancer"]

    def writes(self):
        """What the program has written so far, by kind."""
        seen = {one["auditID"]: one for one in self.cluster.audit_entries()
                if one.get("userAgent", "").startswith(self.side.agent)}
        return Counter(f"{one['verb']} {one.get('objectRef', {}).get('resource', '')}" for one in seen.values()
                       if one["verb"] in ("create", "delete", "patch", "update"))

    def report(self, what, before):
        made = self.writes() - before
        others = sum(count for kind, count in made.items() if not kind.endswith(" events"))
        self.table.add(f"{what} but events", others,
                       note=", ".join(f"{kind} {count}" for kind, count in sorted(made.items())))

    def called(self, before):
        made = self.side.calls() - before
        self.table.add("  calls", sum(made.values()), note=", ".join(f"{kind} {count}" for kind, count in sorted(made.items())))
