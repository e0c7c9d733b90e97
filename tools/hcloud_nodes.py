"""Nodes in a simulated Hetzner Cloud: ./dev bench --hcloud-nodes.

tests/hcloud_hour.c counts the requests of whole hours: it runs all controllers of nodes on a fake clock. The time of a look at a
project of 10,000 servers, 1,000 of which are nodes, is measured; the time that the simulator itself needs to make its pages is
shown beside it.
"""
import re
import subprocess
import time
from pathlib import Path

from lib.api import NODES
from lib.ccmd import Ccmd
from lib.nodes import create_many, is_initialized
from lib.wait import wait_for
from sim.hcloud import HCloud

REPOSITORY = Path(__file__).resolve().parents[1]
N_SERVERS, N_NODES = 10_000, 1_000
PERIOD_S = 30
MIB = 1024
# The official controller's, measured once beside the figures of docs/performance.md; None: not measured.
OFFICIAL = {"one of 10 nodes NotReady": 360}
GOALS = {"idle, 50 servers": 15, "one of 10 nodes NotReady": 60 + 15, "500 nodes join": 30}


class HCloudNodes:
    def __init__(self, cluster, folder, table):
        self.api = cluster.api()
        self.kubeconfig = cluster.ccmd_kubeconfig
        self.folder = folder
        self.table = table

    def run(self):
        self.hours()
        self.look()

    def hours(self):
        done = subprocess.run([REPOSITORY / "build" / "tests" / "test-hour"], check=True, capture_output=True, text=True)
        seen = set()
        for what, figure in re.findall(r"^(.*): ([0-9]+) requests(?: in an hour)?$", done.stdout + done.stderr, re.M):
            if what in seen:
                continue
            seen.add(what)
            official = f"official: {OFFICIAL[what]}" if what in OFFICIAL else ""
            self.table.add(f"hcloud, requests in an hour: {what}", int(figure), goal=GOALS.get(what), note=official)

    def look(self):
        with HCloud(rate_limit=1_000_000) as cloud:
            for number in range(N_SERVERS):
                cloud.add_server(f"node-{number:05d}")
            create_many(self.api, N_NODES, real_sized=False)
            env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false"}
            program = Ccmd(self.folder, self.kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud",
                           name="hcloud-nodes", env=env, node_status_update_frequency=f"{PERIOD_S}s").start()
            try:
                wait_for(lambda: all(map(is_initialized, self.api.list(NODES))), 300, "all nodes to be initialised")
                self.measure(cloud, program)
            finally:
                program.finish()

    def measure(self, cloud, program):
        """One refresh of addresses, from its first page to its last."""
        self.quiet(cloud)
        mark, cpu, before = cloud.mark(), program.cpu_seconds(), program.rss_anon_kib()
        wait_for(lambda: cloud.calls(since=mark), PERIOD_S + 10, "the next look", poll=0.01)
        most = before
        while time.monotonic() - cloud.requests(since=mark)[-1].at < 2:
            most = max(most, program.rss_anon_kib())
            time.sleep(0.02)
        asked = cloud.requests(since=mark)
        took = asked[-1].at + asked[-1].took_s - asked[0].at
        name = f"hcloud, a look at {N_NODES:,} nodes among {N_SERVERS:,} servers"
        self.table.add(name, took, "s", note=f"of which the simulator: {sum(one.took_s for one in asked):.2g} s")
        self.table.add("  requests", len(asked))
        self.table.add("  CPU", program.cpu_seconds() - cpu, "s")
        self.table.add("  anonymous memory, before", before / MIB, "MiB")
        self.table.add("  anonymous memory, at most", most / MIB, "MiB")

    def quiet(self, cloud):
        wait_for(lambda: cloud.requests() and time.monotonic() - cloud.requests()[-1].at > 3, 300, "the cloud to be left alone")
