"""Load balancers in a simulated Hetzner Cloud: ./dev bench --hcloud.

20 Services in a cluster of 10 nodes, and 500 with --many; each answer takes 20 ms, each action 100 ms. Times are from the last request to the API
server until the cloud and the Services' status show the result. Calls are all requests to the cloud. Beside them are the figures of the official controller (1.35) in the same cloud, measured once: it is not part of this run.
"""
import time

from lib.ccmd import Ccmd
from lib.nodes import Kubelet, in_parallel
from lib.services import SERVICES, Services, finalizers, ingress, service
from lib.wait import wait_for
from sim.hcloud import HCloud

N_NODES, N_SERVICES = 10, 20
N_MANY, MANY_S = 500, 10  # Services at once, and the goal
LATENCY_S, ACTION_S = 0.02, 0.1
SETTLE_S = 3
FORGET_S = 65  # after that, nothing from the start is cached any more
WAIT_S = 300


class Hetzner:
    """Another cloud's bench is a subclass of this one."""

    provider = "hcloud"
    lists = "/load_balancers"
    # The official controller's: (seconds, calls); None: not measured.
    official = {"create": (132, 561), "restart": (None, 89), "node": (10, 48), "delete": (None, None)}
    official_changes = "official: 26"
    # Goals: (seconds, calls).
    goals = {"create": (6, 100), "restart": (None, 4), "node": (3, 2 * N_SERVICES), "delete": (None, None)}

    def __init__(self, cluster, folder, table):
        self.cluster = cluster
        self.api = cluster.api()
        self.services = Services(self.api)
        self.folder = folder
        self.table = table

    def run(self):
        with self.new_cloud() as self.cloud:
            for number in range(N_NODES):
                self.add_node(f"n{number}")
            program = self.start("first")
            try:
                self.measure("create", f"{N_SERVICES} Services, {N_NODES} nodes: created", self.create)
            finally:
                program.finish()
            program = self.restart()
            try:
                time.sleep(FORGET_S)
                self.measure("node", "one node more", self.one_more)
                self.measure("delete", "all deleted", self.delete)
            finally:
                program.finish()

    # --- the cloud ---------------------------------------------------------------------------------------------------

    def new_cloud(self):
        return HCloud(latency_s=LATENCY_S, action_s=ACTION_S)

    def environment(self):
        return {"HCLOUD_ENDPOINT": self.cloud.url, "HCLOUD_TOKEN": self.cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"}

    def add_node(self, name):
        server = self.cloud.add_server(name)
        Kubelet(self.api, name, initialized=True, provider_id=f"hcloud://{server.id}").register()

    def members(self):
        """How many targets each balancer has."""
        with self.cloud.lock:
            self.cloud.project.settle()
            return [len(one.targets) for one in self.cloud.load_balancers.values()]

    def start(self, name, env=None):
        program = Ccmd(self.folder, self.cluster.ccmd_kubeconfig, None, f"--cloud-provider={self.provider}",
                       "--allow-untagged-cloud", name=f"{self.provider}-{name}",
                       env={**self.environment(), **(env or {})}).start()
        program.wait_log("objects listed kind=Service")
        time.sleep(SETTLE_S)
        return program

    # --- the parts ---------------------------------------------------------------------------------------------------

    def create(self):
        in_parallel(lambda number: self.api.post(SERVICES, service(f"s{number}")), range(N_SERVICES), 8)
        wait_for(lambda: all(map(ingress, self.balanced())), WAIT_S, "all Services to have an address")

    def one_more(self):
        self.add_node("one-more")
        wait_for(lambda: set(self.members()) == {N_NODES + 1}, WAIT_S, "the new target everywhere")

    def delete(self):
        in_parallel(lambda number: self.api.delete(f"{SERVICES}/s{number}"), range(N_SERVICES), 8)
        wait_for(lambda: not self.balanced() and not self.members(), WAIT_S, "all to be gone")

    def restart(self):
        mark = self.cloud.mark()
        program = self.start("second")
        wait_for(lambda: self.cloud.calls("GET", self.lists, since=mark), WAIT_S, "the list")
        time.sleep(SETTLE_S)
        self.report("restart", "restarted", None, mark)
        changes = [one for one in self.cloud.writes(mark) if not one.path.startswith("/token")]
        self.table.add("  changes", len(changes), goal=0, note=self.official_changes)
        return program

    # --- looking -----------------------------------------------------------------------------------------------------

    def balanced(self):
        return [one for one in self.api.list(SERVICES) if one["spec"]["type"] == "LoadBalancer" or finalizers(one)]

    def measure(self, key, what, act):
        mark, begun = self.cloud.mark(), time.monotonic()
        act()
        took = time.monotonic() - begun
        time.sleep(SETTLE_S)
        self.report(key, what, took, mark)

    def report(self, key, what, took, mark):
        official_s, official_calls = self.official[key]
        seconds, calls = self.goals[key]
        if took is not None:
            self.table.add(f"{self.provider}: {what}", took, "s", seconds, f"official: {official_s} s" if official_s else "")
        tally = ", ".join(f"{kind} {count}" for kind, count in sorted(self.cloud.tally(mark).items()))
        note = f"official: {official_calls}; " if official_calls else ""
        self.table.add("  calls" if took is not None else f"{self.provider}: {what}: calls", self.cloud.calls(since=mark), goal=calls,
                       note=note + tally)


class Many(Hetzner):
    """Many Services at once: ./dev bench --many."""

    def run(self):
        with self.new_cloud() as self.cloud:
            for number in range(N_NODES):
                self.add_node(f"n{number}")
            program = self.start("many")
            try:
                mark, begun, cpu_s = self.cloud.mark(), time.monotonic(), program.cpu_seconds()
                in_parallel(lambda number: self.api.post(SERVICES, service(f"s{number}")), range(N_MANY), 8)
                posted = time.monotonic() - begun
                wait_for(lambda: all(map(ingress, self.balanced())), WAIT_S, "all Services to have an address")
                took = time.monotonic() - begun
                self.table.add(f"hcloud: {N_MANY} Services at once", took, "s", MANY_S, f"the API server had the last one after {posted:.1f} s")
                self.table.add("  calls", self.cloud.calls(since=mark), note=", ".join(
                    f"{kind} {count}" for kind, count in sorted(self.cloud.tally(mark).items())))
                self.table.add("  CPU of ccmd", program.cpu_seconds() - cpu_s, "s")
                self.profile(mark)
            finally:
                program.finish()

    def profile(self, mark):
        """For how long there were requests of each kind. Those that read load balancers follow each other, never two at a time."""
        seconds = {}
        for one in self.cloud.requests(since=mark):
            kind = f"{one.method} {self.cloud.ids.sub('/{id}', one.path)}"
            seconds[kind] = seconds.get(kind, 0) + (one.took_s or 0)
        for kind, total in sorted(seconds.items(), key=lambda pair: -pair[1]):
            self.table.add(f"  all {kind}", total, "s")
