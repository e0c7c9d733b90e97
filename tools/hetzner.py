"""Load balancers in a simulated Hetzner Cloud: ./dev bench --hcloud.

20 Services in a cluster of 10 nodes; each answer takes 20 ms, each action 100 ms. Times are from the last request to the API
server until the cloud and the Services' status show the result. Calls are all requests to the cloud. Beside them are the figures of the official controller (1.35) in the same cloud, measured once: it is not part of this run.
"""
import time

from lib.ccmd import Ccmd
from lib.nodes import Kubelet, in_parallel
from lib.services import SERVICES, Services, finalizers, ips, service
from lib.wait import wait_for
from sim.hcloud import HCloud

N_NODES, N_SERVICES = 10, 20
LATENCY_S, ACTION_S = 0.02, 0.1
SETTLE_S = 3
FORGET_S = 65  # after that, nothing from the start is cached any more
WAIT_S = 300
# The official controller's: (seconds, calls); None: not measured.
OFFICIAL = {"create": (132, 561), "restart": (None, 89), "node": (10, 48), "delete": (None, None)}


class Hetzner:
    def __init__(self, cluster, folder, table):
        self.cluster = cluster
        self.api = cluster.api()
        self.services = Services(self.api)
        self.folder = folder
        self.table = table

    def run(self):
        with HCloud(latency_s=LATENCY_S, action_s=ACTION_S) as self.cloud:
            for number in range(N_NODES):
                self.add_node(f"n{number}")
            program = self.start("first")
            try:
                self.measure("create", f"{N_SERVICES} Services, {N_NODES} nodes: created", self.create, seconds=6, calls=100)
            finally:
                program.finish()
            program = self.restart()
            try:
                time.sleep(FORGET_S)
                self.measure("node", "one node more", self.one_more, seconds=3, calls=2 * N_SERVICES)
                self.measure("delete", "all deleted", self.delete)
            finally:
                program.finish()

    def add_node(self, name):
        server = self.cloud.add_server(name)
        Kubelet(self.api, name, initialized=True, provider_id=f"hcloud://{server.id}").register()

    def start(self, name):
        env = {"HCLOUD_ENDPOINT": self.cloud.url, "HCLOUD_TOKEN": self.cloud.token, "HCLOUD_METRICS_ENABLED": "false",
               "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"}
        program = Ccmd(self.folder, self.cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud",
                       name=f"hetzner-{name}", env=env).start()
        program.wait_log("objects listed kind=Service")
        time.sleep(SETTLE_S)
        return program

    # --- the parts ---------------------------------------------------------------------------------------------------

    def create(self):
        in_parallel(lambda number: self.api.post(SERVICES, service(f"s{number}")), range(N_SERVICES), 8)
        wait_for(lambda: all(map(ips, self.balanced())), WAIT_S, "all Services to have an address")

    def one_more(self):
        self.add_node("one-more")
        wait_for(lambda: all(len(one.targets) == N_NODES + 1 for one in self.balancers()), WAIT_S, "the new target everywhere")

    def delete(self):
        in_parallel(lambda number: self.api.delete(f"{SERVICES}/s{number}"), range(N_SERVICES), 8)
        wait_for(lambda: not self.balanced() and not self.balancers(), WAIT_S, "all to be gone")

    def restart(self):
        mark = self.cloud.mark()
        program = self.start("second")
        wait_for(lambda: self.cloud.calls("GET", "/load_balancers", since=mark), WAIT_S, "the list")
        time.sleep(SETTLE_S)
        self.report("restart", "restarted", None, mark, calls=4)
        self.table.add("  changes", len(self.cloud.writes(mark)), goal=0, note="official: 26")
        return program

    # --- looking -----------------------------------------------------------------------------------------------------

    def balanced(self):
        return [one for one in self.api.list(SERVICES) if one["spec"]["type"] == "LoadBalancer" or finalizers(one)]

    def balancers(self):
        with self.cloud.lock:
            self.cloud.project.settle()
            return list(self.cloud.load_balancers.values())

    def measure(self, key, what, act, seconds=None, calls=None):
        mark, begun = self.cloud.mark(), time.monotonic()
        act()
        took = time.monotonic() - begun
        time.sleep(SETTLE_S)
        self.report(key, what, took, mark, seconds, calls)

    def report(self, key, what, took, mark, seconds=None, calls=None):
        official_s, official_calls = OFFICIAL[key]
        if took is not None:
            self.table.add(f"hcloud: {what}", took, "s", seconds, f"official: {official_s} s" if official_s else "")
        tally = ", ".join(f"{kind} {count}" for kind, count in sorted(self.cloud.tally(mark).items()))
        note = f"official: {official_calls}; " if official_calls else ""
        self.table.add("  calls" if took is not None else f"hcloud: {what}: calls", self.cloud.calls(since=mark), goal=calls,
                       note=note + tally)
