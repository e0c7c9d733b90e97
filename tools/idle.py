"""The cost of an idle cluster of 5 nodes: ./dev bench --idle.

ccmd and the Go framework (bench/go-framework, a cloud in memory), one after the other on the same API server, both with
election and with their HTTPS server, as they are deployed. Meanwhile /healthz is probed every 10 s, and a ServiceAccount
scrapes /metrics every 30 s, on new connections; the reviews that this causes are part of the figure.

Requests are those of the API server's audit log, distinguished by User-Agent, in a window that begins when the nodes are
initialised and all is quiet. Their number is multiplied up to an hour, but for watches: these last 5 to 10 minutes at
random, which is too long for the window, and so count as 8 an hour each.
"""
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lib.api import NODES
from lib.ccmd import Ccmd, Inventory, machine
from lib.nodes import create_many, is_initialized, numbered_ip
from lib.process import Process, free_ports
from lib.replicas import LEASE
from lib.serving import Serving
from lib.wait import wait_for

REPOSITORY = Path(__file__).resolve().parents[1]
N_NODES = 5
PROBE_S, SCRAPE_S = 10, 30
QUIET_S = 10
WATCH_S = (300, 600)
HOUR_S = 3600
MIB = 1024

SCRAPER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: kube-system}]
"""
TOKEN = "/api/v1/namespaces/kube-system/serviceaccounts/scraper/token"


class Idle:
    """Needs a cluster with audit=True."""

    def __init__(self, cluster, folder, table, minutes):
        self.cluster = cluster
        self.api = cluster.api()
        self.folder = folder
        self.table = table
        self.window_s = minutes * 60

    def run(self):
        self.cluster.kubectl("apply", "-f", "-", input=SCRAPER)
        self.token = self.api.post(TOKEN, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
        self.measure("Go", "go-framework", self.go())
        self.measure("ccmd", "ccmd/", self.ccmd(), rss=15.5, anonymous=4.5)

    # --- the two -----------------------------------------------------------------------------------------------------

    def flags(self, kubeconfig):
        (self.port,) = free_ports(1)
        return [f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"]

    def ccmd(self):
        names = self.nodes()
        machines = [machine(name, numbered_ip(number)) for number, name in enumerate(names)]
        inventory = Inventory(self.folder / "idle.yaml", machines)
        flags = self.flags(self.cluster.ccmd_kubeconfig)[1:]
        return Ccmd(self.folder, self.cluster.ccmd_kubeconfig, inventory, *flags, leader_elect=True, secure_port=self.port)

    def go(self):
        """As the administrator: it asks for more than our role allows."""
        command = [REPOSITORY / "tools" / "go-program", "bench/go-framework"]
        program = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        names = self.nodes()
        machines = self.folder / "idle.txt"
        machines.write_text("".join(f"{name} {numbered_ip(number)}\n" for number, name in enumerate(names)))
        argv = [program, "--cloud-provider=memory", f"--cloud-config={machines}", *self.flags(self.cluster.admin_kubeconfig),
                f"--secure-port={self.port}", f"--cert-dir={self.folder}"]
        return Process("go-framework", argv, self.folder / "go-framework.log")

    def nodes(self):
        for path in (NODES, LEASE):
            self.api.delete(path)
        wait_for(lambda: not self.api.get(NODES, limit=1)["items"], 60, "all nodes to be gone")
        return create_many(self.api, N_NODES)

    # --- the window --------------------------------------------------------------------------------------------------

    def measure(self, name, agent, program, rss=None, anonymous=None):
        program.start()
        try:
            wait_for(lambda: all(map(is_initialized, self.api.list(NODES))), 60, f"{name} to initialise the nodes")
            time.sleep(QUIET_S)
            before, cpu = self.requests(agent), program.cpu_seconds()
            self.live()
            after, cpu = self.requests(agent), program.cpu_seconds() - cpu
            an_hour = self.an_hour(before, after)
            add = self.table.add
            add(f"{name}, idle: requests an hour", sum(an_hour.values()),
                note=", ".join(f"{kind} {count}" for kind, count in sorted(an_hour.items())))
            add(f"{name}, idle: RSS", program.rss_kib() / MIB, "MiB", rss)
            add(f"{name}, idle: anonymous", program.rss_anon_kib() / MIB, "MiB", anonymous)
            add(f"{name}, idle: CPU in a minute", cpu * 60 / self.window_s, "s")
        finally:
            program.kill()

    def live(self):
        server = Serving(self.port)
        begun = time.monotonic()
        for turn in range(self.window_s // PROBE_S):
            time.sleep(max(0, begun + turn * PROBE_S - time.monotonic()))
            assert server.get("/healthz").status == 200
            if turn % (SCRAPE_S // PROBE_S) == 0:
                assert server.get("/metrics", Authorization=f"Bearer {self.token}").status == 200
        time.sleep(max(0, begun + self.window_s - time.monotonic()))

    def an_hour(self, before, after):
        """By kind of request. All that was asked until the window began says which watches there are."""
        rates = Counter()
        for kind, count in (after - before).items():
            if not kind.startswith("watch "):
                rates[kind] = round(count * HOUR_S / self.window_s)
        for kind in after:
            if kind.startswith("watch "):
                rates[kind] = HOUR_S * 2 // sum(WATCH_S)
        return rates

    def requests(self, agent):
        """What this program asked so far, by kind."""
        seen = {one["auditID"]: one for one in self.cluster.audit_entries() if one.get("userAgent", "").startswith(agent)}
        return Counter(kind(one) for one in seen.values())


def kind(entry):
    url = urlsplit(entry["requestURI"])
    about = entry.get("objectRef", {})
    if entry["verb"] != "watch":
        return f"{entry['verb']} {about.get('resource') or url.path}"
    query = parse_qs(url.query)
    assert WATCH_S[0] <= int(query["timeoutSeconds"][0]) <= WATCH_S[1], url.query
    fields = re.sub(r"^metadata\.name=", "", query.get("fieldSelector", [""])[0])
    return f"watch {about['resource']}" + (f" {fields}" if fields else "")
