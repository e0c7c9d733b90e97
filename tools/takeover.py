"""How long no replica leads: ./dev bench --takeover.

With the default timings (lease 15 s, renew deadline 10 s, retry period 2 s). A round has one leader and one standby; the
leader is killed, or gets SIGTERM, after a random part of its period. Go is client-go's election, as the controllers of the
Go framework run it (tests/scenario/go-elector): it does not release the lease, so both cases are the same there.
"""
import random
import statistics
import subprocess
import time
from pathlib import Path

from lib.ccmd import Ccmd, Inventory, machine
from lib.nodes import Kubelet, is_initialized
from lib.process import Process
from lib.replicas import LEASE
from lib.wait import wait_for

REPOSITORY = Path(__file__).resolve().parents[1]
PATIENCE_S = 40
# until another leads (docs/spec/kube-client.md, "Claiming a Lease" and "Releasing a Lease"):
# lease and retry period; at best a try that comes every 2 to 4.4 s
GOALS = {"kill": 17, "stop": 4}


class TakeOver:
    def __init__(self, cluster, folder, table, rounds):
        self.cluster = cluster
        self.api = cluster.api()
        self.folder = folder
        self.table = table
        self.rounds = rounds
        self.n_started = 0

    def run(self):
        go = subprocess.run([REPOSITORY / "tools" / "go-program", "tests/scenario/go-elector"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        for end in ("kill", "stop"):
            figures = [self.ccmd_round(end) for _ in range(self.rounds)]
            self.add(f"ccmd, {end}: until another leads", [leads for leads, _ in figures], GOALS[end])
            self.add(f"ccmd, {end}: until it initialised a node", [acts for _, acts in figures])
        self.add("Go, kill: until another leads", [self.go_round(go) for _ in range(self.rounds)])

    def add(self, what, figures, goal=None):
        note = f"{min(figures):.1f} to {max(figures):.1f} s in {len(figures)} rounds"
        self.table.add(what, statistics.median(figures), "s", goal, note=note)

    def name(self):
        self.n_started += 1
        return f"replica-{self.n_started}"

    def holder(self):
        lease = self.api.get_or_none(LEASE)
        return lease and lease["spec"].get("holderIdentity", "")

    def wait_other(self, holder):
        return wait_for(lambda: self.holder() not in (None, "", holder), PATIENCE_S, "another holder", poll=0.01)

    def ccmd_round(self, end):
        """Seconds from the signal until another holds the lease, and until a node that came meanwhile was initialised."""
        self.api.delete(LEASE)
        node = self.name()
        inventory = Inventory(self.folder / f"{node}.yaml", [machine(node, "10.0.0.1")])
        replicas = []
        for _ in range(2):
            one = Ccmd(self.folder, self.cluster.ccmd_kubeconfig, inventory, name=self.name(), leader_elect=True).start()
            one.wait_log("became leader" if not replicas else "another replica leads")
            replicas.append(one)
        first, second = replicas
        time.sleep(2 + 4 * random.random())
        holder = self.holder()
        begun = time.monotonic()
        first.process.signal(9 if end == "kill" else 15)
        Kubelet(self.api, node, ip="10.0.0.1").register()
        self.wait_other(holder)
        leads = time.monotonic() - begun
        self.api.wait_node(node, is_initialized, PATIENCE_S)
        acts = time.monotonic() - begun
        for one in replicas:
            one.kill()
        return leads, acts

    def go_round(self, program):
        self.api.delete(LEASE)
        replicas = []
        for identity in (self.name(), self.name()):
            argv = [program, f"--kubeconfig={self.cluster.admin_kubeconfig}", f"--identity={identity}"]
            one = Process(identity, argv, self.folder / f"{identity}.log").start()
            wait_for(lambda: "leader is" in one.log_text(), PATIENCE_S, f"{identity} to see a leader")
            replicas.append(one)
        time.sleep(2 + 4 * random.random())
        holder = self.holder()
        begun = time.monotonic()
        replicas[0].kill()
        self.wait_other(holder)
        took = time.monotonic() - begun
        replicas[1].kill()
        return took
