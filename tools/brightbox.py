"""Services and nodes in a simulated Brightbox Cloud: ./dev bench --brightbox.

As tools/hetzner.py: 20 Services in a cluster of 10 nodes, each answer takes 20 ms, and building, mapping and deleting
100 ms. Then the requests of an hour in which nothing happens to them, and of one in which a node is not ready: time passes
60 times as fast for ccmd (tests/scenario/lib/hurry.c). The official controller was not measured.
"""
import time

from lib.api import NODES
from lib.ccmd import preload
from lib.nodes import Kubelet
from sim.brightbox import Brightbox as Cloud

from hetzner import ACTION_S, LATENCY_S, N_NODES, N_SERVICES, Hetzner

HURRY = 60
HOUR_S = 3600


class Brightbox(Hetzner):
    provider = "brightbox"
    lists = "/1.0/load_balancers"
    official = dict.fromkeys(("create", "restart", "node", "delete"), (None, None))
    official_changes = ""
    goals = {"create": (6, 13 * N_SERVICES), "restart": (None, 10), "node": (3, 5 * N_SERVICES),
             "delete": (None, 11 * N_SERVICES)}

    def run(self):
        super().run()
        self.api.delete(NODES)
        with self.new_cloud() as self.cloud:
            kubelets = [self.add_node(f"m{number}") for number in range(N_NODES)]
            program = self.start("hour", env={**preload(self.folder, "hurry"), "HURRY": str(HURRY)})
            try:
                self.create()
                self.hour("requests in an hour", goal=20)
                kubelets[0].not_ready()
                self.hour("requests in an hour, one node NotReady", goal=100)
            finally:
                program.finish()

    def new_cloud(self):
        cloud = Cloud(latency_s=LATENCY_S)
        cloud.lb_build_s = cloud.lb_destroy_s = cloud.map_delay_s = ACTION_S
        cloud.hosts_file = self.folder / "hosts"
        cloud.hosts_file.touch()
        return cloud

    def environment(self):
        return {**self.cloud.environment(), "BRIGHTBOX_HOSTS_FILE": str(self.cloud.hosts_file)}

    def add_node(self, name):
        ident = self.cloud.account.add_server(name)["id"]
        kubelet = Kubelet(self.api, ident, initialized=True, provider_id=f"brightbox://{ident}")
        kubelet.register()
        return kubelet

    def members(self):
        with self.cloud.lock:
            self.cloud.account.settle()
            return [len(one["nodes"]) for one in self.cloud.account.every("load_balancers")
                    if one["status"] in ("active", "creating")]

    def hour(self, what, goal):
        time.sleep(HOUR_S / HURRY / 4)  # what was cached, or due, before
        mark = self.cloud.mark()
        time.sleep(HOUR_S / HURRY)
        tally = ", ".join(f"{kind} {count}" for kind, count in sorted(self.cloud.tally(mark).items()))
        self.table.add(f"{self.provider}: {what}", self.cloud.calls(since=mark), goal=goal, note=tally)
