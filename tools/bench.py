"""./dev bench: measures ccmd, and prints each figure beside its goal and beside the program that it is compared with.

    ./dev bench                     everything: about 10 minutes
    ./dev bench --nodes 5 1000      only these sizes
    ./dev bench --skip-idle --skip-micro
    ./dev bench --bare              without election and server, as the figures of versions that had neither
    ./dev bench --takeover          only this: how long no replica leads after the leader's end, about 5 minutes
    ./dev bench --balancers         only this: 200 Services in a cluster of 500 nodes, beside the Go framework, about 8 minutes
    ./dev bench --hcloud            only this: 20 Services in a simulated Hetzner Cloud, about 2 minutes
    ./dev bench --many              only this: 500 Services at once in a simulated Hetzner Cloud, about a minute
    ./dev bench --hcloud-nodes      only this: requests for nodes in a simulated Hetzner Cloud, and a long list, about 3 minutes
    ./dev bench --brightbox         only this: 20 Services and the requests of an hour in a simulated Brightbox Cloud, about 5 minutes
    ./dev bench --broken [CASE]     only this: the requests that objects cost which can never be complete, about 20 minutes
    ./dev bench --idle              only this: the cost of an idle cluster, beside the Go framework, about 11 minutes

Times are wall seconds of this machine and this moment: compare within one run. The limit is the time in which bench/limit.c sends the same two PATCHes for each node, at its best number of connections
(docs/performance.md).
"""
import argparse
import contextlib
import re
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests" / "scenario"), str(REPOSITORY / "tests")]

from lib.api import EVENTS, NODES  # noqa: E402
from lib.ccmd import Ccmd, Inventory, machine  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.nodes import create_many, is_initialized, numbered_ip  # noqa: E402
from lib.process import end_on_interrupt, free_ports  # noqa: E402
from lib.serving import Serving  # noqa: E402
from lib.replicas import LEASE  # noqa: E402
from lib.wait import wait_for  # noqa: E402
from balancing import TUNED, Balancing  # noqa: E402
from brightbox import Brightbox  # noqa: E402
from broken import Broken  # noqa: E402
from hcloud_nodes import HCloudNodes  # noqa: E402
from hetzner import Hetzner, Many  # noqa: E402
from idle import Idle  # noqa: E402
from takeover import TakeOver  # noqa: E402

MIB = 1024
SETTLE_S = 6
IDLE_S = 60
SCRAPES = 500
CONNECTIONS = (4, 8, 16)
GOALS = {
    5: {"settled RSS": 14, "settled anonymous": 3},
    1000: {"wall / limit": 1.15},
    5000: {"wall / limit": 1.15, "CPU": 1.5, "settled RSS": 19, "settled anonymous": 8},
}
MANAGER_MIB = 1.5  # what election and server may add to memory


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, figure, unit="", goal=None, note=""):
        met = "" if goal is None else ("ok" if figure <= goal else "over")
        self.rows.append((what, f"{figure:.3g} {unit}".strip() if isinstance(figure, float) else f"{figure} {unit}".strip(),
                          "" if goal is None else f"<= {goal:g} {unit}".strip(), met, note))
        print("  " + "  ".join(part for part in self.rows[-1] if part), flush=True)

    def print(self):
        head = ("what", "figure", "goal", "", "")
        widths = [max(len(row[column]) for row in [head, *self.rows]) for column in range(5)]
        print()
        for row in [head, *self.rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


class Bench:
    def __init__(self, cluster, folder, table, connections, is_bare):
        self.cluster = cluster
        self.is_bare = is_bare
        self.connections = connections
        self.folder = folder
        self.table = table
        self.api = cluster.api()

    def empty(self):
        for path in (NODES, EVENTS):
            self.api.delete(path)
        wait_for(lambda: not self.api.get(NODES, limit=1)["items"], 120, "all nodes to be gone")

    def limit(self, count, numbers):
        """The best of several numbers of connections, on fresh nodes each time: seconds, and that number."""
        best = None
        for connections in numbers:
            self.empty()
            names = create_many(self.api, count)
            time.sleep(2)  # until the API server has finished its work on the new nodes
            pair = self.cluster.admin_pair
            done = subprocess.run(
                [REPOSITORY / "build" / "bench" / "limit", self.cluster.url(), self.cluster.ca, pair.certificate, pair.key,
                 str(connections)],
                input="\n".join(names) + "\n", text=True, capture_output=True, check=True)
            seconds = float(done.stdout.split()[0])
            if best is None or seconds < best[0]:
                best = (seconds, connections)
        return best

    def initialise(self, count):
        self.empty()
        names = create_many(self.api, count)
        inventory = self.inventory(names)
        time.sleep(2)
        before = self.requests()
        started = datetime.now(timezone.utc)
        metrics_port, secure_port = free_ports(2)
        flags = [f"--metrics-bind-address=127.0.0.1:{metrics_port}"] if count == 5 and not self.is_bare else []
        options = {} if self.is_bare else self.as_manager(secure_port)
        with Ccmd(self.folder, self.cluster.ccmd_kubeconfig, inventory, *flags, name=f"ccmd-{count}", **options) as ccmd:
            log = ccmd.process.log
            wait_for(lambda: log.read_bytes().count(b"node initialised") >= count, 300, "all nodes to be initialised", poll=0.2)
            stamps = re.findall(r"^(\S+) .*node initialised", ccmd.text, re.M)
            wall = [(datetime.fromisoformat(stamp) - started).total_seconds() for stamp in (stamps[0], stamps[-1])]
            cpu = ccmd.cpu_seconds()
            requests = self.difference(before, self.requests())
            time.sleep(SETTLE_S)
            if flags:
                self.scrape(ccmd, metrics_port)
            figures = {
                "first": wall[0], "wall": wall[1], "cpu": cpu, "peak": ccmd.rss_peak_kib() / MIB, "rss": ccmd.rss_kib() / MIB,
                "anonymous": ccmd.rss_anon_kib() / MIB, "threads": ccmd.threads(), "requests": requests,
            }
            unfinished = [one["metadata"]["name"] for one in self.api.list(NODES) if not is_initialized(one)]
            assert not unfinished, f"not initialised: {unfinished[:5]}"
            if count == 5:
                figures["idle"] = self.idle(ccmd) if IDLE_S else None
        return figures

    def as_manager(self, port):
        self.api.delete(LEASE)
        kubeconfig = self.cluster.ccmd_kubeconfig
        return {"leader_elect": True, "secure_port": port, "bind_address": "127.0.0.1",
                "authentication_kubeconfig": kubeconfig, "authorization_kubeconfig": kubeconfig}

    def scrape(self, ccmd, port):
        """CPU time of one GET /metrics, its connection included."""
        server = Serving(port, is_plain=True)
        begun = ccmd.cpu_seconds()
        for _ in range(SCRAPES):
            size = len(server.get("/metrics").body)
        self.table.add("a scrape: CPU", (ccmd.cpu_seconds() - begun) / SCRAPES * 1000, "ms", 1, note=f"{size} bytes")

    def idle(self, ccmd):
        begun = ccmd.cpu_seconds()
        time.sleep(IDLE_S)
        return ccmd.cpu_seconds() - begun

    def inventory(self, names):
        machines = [machine(name, ("InternalIP", numbered_ip(number)), ("ExternalIP", f"203.0.113.{number % 250}"),
                            type="bench", zone=f"zone-{number % 3}", region="bench") for number, name in enumerate(names)]
        cloud = self.folder / f"cloud-{len(names)}"  # a folder of its own, since ccmd watches it and would be woken by a log file in it
        cloud.mkdir()
        return Inventory(cloud / "inventory.yaml", machines)

    def requests(self):
        """What the API server counted, by verb and resource."""
        text = self.api.request("GET", "/metrics").body.decode()
        counts = {}
        for labels, value in re.findall(r"^apiserver_request_total\{([^}]*)\} (\S+)", text, re.M):
            label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if label.get("resource") in ("nodes", "events", "leases"):
                key = f"{label['verb']} {label['resource']}" + (f"/{label['subresource']}" if label.get("subresource") else "")
                counts[key] = counts.get(key, 0) + int(float(value))
        return counts

    @staticmethod
    def difference(before, after):
        return {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}

    def size(self, count):
        goals = dict(GOALS.get(count, {}))
        for key in () if self.is_bare else goals.keys() & {"settled RSS", "settled anonymous"}:
            goals[key] += MANAGER_MIB
        print(f"\n{count} nodes", flush=True)
        before, connections = self.limit(count, self.connections)
        figures = self.initialise(count)
        after, _ = self.limit(count, [connections])
        seconds = (before + after) / 2  # the server may have become slower or faster between the two
        add = self.table.add
        add(f"{count} nodes: the API server's limit", seconds, "s",
            note=f"{connections} connections: {before:.1f} s before, {after:.1f} s after")
        add(f"{count} nodes: wall", figures["wall"], "s")
        add(f"{count} nodes: wall / limit", figures["wall"] / seconds, "", goals.get("wall / limit"))
        add(f"{count} nodes: CPU", figures["cpu"], "s", goals.get("CPU"))
        add(f"{count} nodes: peak RSS", figures["peak"], "MiB")
        add(f"{count} nodes: settled RSS", figures["rss"], "MiB", goals.get("settled RSS"))
        add(f"{count} nodes: settled anonymous", figures["anonymous"], "MiB", goals.get("settled anonymous"))
        add(f"{count} nodes: threads", figures["threads"])
        add(f"{count} nodes: requests", sum(figures["requests"].values()), "",
            note=", ".join(f"{key} {value}" for key, value in sorted(figures["requests"].items())))
        if count == 5:
            add("exec to first node initialised", figures["first"], "s", 0.1)
            if figures.get("idle") is not None:
                add(f"idle CPU in {IDLE_S} s, 5 nodes", figures["idle"], "s")


@contextlib.contextmanager
def control_plane(audit=False):
    with Cluster(audit=audit) as cluster:
        yield cluster, cluster.folder


def main():
    global IDLE_S
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5, 1000, 5000])
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS, help="of the limit's tool")
    parser.add_argument("--skip-idle", action="store_true")
    parser.add_argument("--skip-micro", action="store_true")
    parser.add_argument("--takeover", type=int, nargs="?", const=5, metavar="ROUNDS", help="only the take-over times")
    parser.add_argument("--idle", type=int, nargs="?", const=5, metavar="MINUTES", help="only the requests of an idle cluster")
    parser.add_argument("--balancers", action="store_true", help="only the figures of Services")
    parser.add_argument("--hcloud-nodes", action="store_true", help="only the figures of nodes in the Hetzner Cloud")
    parser.add_argument("--hcloud", action="store_true", help="only the figures of load balancers in the Hetzner Cloud")
    parser.add_argument("--many", action="store_true", help="only 500 Services at once in the Hetzner Cloud")
    parser.add_argument("--brightbox", action="store_true", help="only the figures of a simulated Brightbox Cloud")
    parser.add_argument("--broken", nargs="?", const="", metavar="CASE", help="only the cost of broken objects; those with CASE in their name")
    parser.add_argument("--bare", action="store_true", help="without election and server")
    options = parser.parse_args()
    IDLE_S = 0 if options.skip_idle else IDLE_S
    end_on_interrupt()
    table = Table()
    if options.balancers:
        for flags in (TUNED, None, []):
            with control_plane(audit=True) as (cluster, folder):
                Balancing(cluster, folder, table, flags).run()
    if options.takeover or options.idle:
        with control_plane(audit=bool(options.idle)) as (cluster, folder):
            if options.takeover:
                TakeOver(cluster, folder, table, options.takeover).run()
            if options.idle:
                Idle(cluster, folder, table, options.idle).run()
    if options.broken is not None:
        with control_plane() as (cluster, folder):
            Broken(cluster, folder, table, options.broken).run()
    clouds = [part for part, is_wanted in ((Hetzner, options.hcloud), (Many, options.many), (HCloudNodes, options.hcloud_nodes),
                                           (Brightbox, options.brightbox)) if is_wanted]
    for part in clouds:
        with control_plane() as (cluster, folder):
            part(cluster, folder, table).run()
    if options.takeover or options.idle or options.balancers or options.broken is not None or clouds:
        table.print()
        return
    with control_plane() as (cluster, folder):
        bench = Bench(cluster, folder, table, options.connections, options.bare)
        for count in options.nodes:
            bench.size(count)
    table.print()
    if not options.skip_micro:
        print("\nparse and store", flush=True)
        subprocess.run([REPOSITORY / "build" / "bench" / "parse"], check=True)


if __name__ == "__main__":
    main()
