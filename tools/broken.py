"""What one broken object costs: ./dev bench --broken.

Each case is an object that can never become complete in a simulated cloud: a Service with more ports than its load balancer
takes, targets that the cloud refuses, a certificate that is never validated. Counted are the requests to the cloud, and the
changing ones among them, in the hour that begins when the object is created. Time passes HURRY times as fast for ccmd
(tests/scenario/lib/hurry.c), so that an hour takes two minutes.
"""
import json
import time
from contextlib import contextmanager

from lib.api import NODES
from lib.ccmd import Ccmd, preload
from lib.nodes import Kubelet
from lib.services import SERVICES, Services, ingress, service
from lib.wait import wait_for
from sim.brightbox import Brightbox
from sim.hcloud import HCloud

HURRY = 30
HOUR_S = 3600
READ_S = 3


class Broken:
    """case: only cases that have this in their name. To measure another program, a subclass overrides start()."""

    hurry = HURRY
    window_s = HOUR_S

    def __init__(self, cluster, folder, table, case=""):
        self.cluster = cluster
        self.api = cluster.api()
        self.services = Services(self.api)
        self.folder = folder
        self.table = table
        self.case = case

    def run(self):
        for name, case in CASES.items():
            if self.case in name:
                case(self, name)

    # --- the clouds --------------------------------------------------------------------------------------------------

    @contextmanager
    def hcloud(self, name, n_nodes=3, public_ipv4=True):
        """A cloud whose nodes are ready; a Service gets an lb11 with public targets."""
        with HCloud() as cloud, self.cleaned():
            for number in range(n_nodes):
                server = cloud.add_server(f"n{number}", public_ipv4=public_ipv4 or number == 0)
                Kubelet(self.api, server.name, initialized=True, provider_id=f"hcloud://{server.id}").register()
            env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                   "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"}
            with self.running("hcloud", name, env):
                yield cloud

    @contextmanager
    def brightbox(self, name, cloud=Brightbox):
        with cloud() as cloud, self.cleaned():
            cloud.hosts_file = self.folder / f"{name}.hosts".replace(" ", "-")
            cloud.hosts_file.touch()
            for number in range(3):
                ident = cloud.account.add_server(f"m{number}")["id"]
                Kubelet(self.api, ident, initialized=True, provider_id=f"brightbox://{ident}").register()
            with self.running("brightbox", name, {**cloud.environment(), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)}):
                yield cloud

    @contextmanager
    def cleaned(self):
        """Afterwards the cluster has no nodes and Services of the case."""
        try:
            yield
        finally:
            for one in self.services_now():
                self.services.patch(one["metadata"]["name"], {"metadata": {"finalizers": None}})
                self.services.delete(one["metadata"]["name"])
            self.api.delete(NODES)
            wait_for(lambda: not self.services_now() and not self.api.list(NODES), 60, "the cluster to be empty")

    def services_now(self):
        return [one for one in self.api.list(SERVICES) if one["metadata"]["name"] != "kubernetes"]

    @contextmanager
    def running(self, provider, name, env):
        program = self.start(provider, name.replace(" ", "-"), env)
        try:
            yield
        finally:
            program.kill()

    def start(self, provider, name, env):
        program = Ccmd(self.folder, self.cluster.ccmd_kubeconfig, None, f"--cloud-provider={provider}", "--allow-untagged-cloud",
                       name=name, env={**env, **preload(self.folder, "hurry"), "HURRY": str(self.hurry)}).start()
        program.wait_log("objects listed kind=Service")
        time.sleep(READ_S)
        return program

    def window(self, name, cloud, mark=None):
        mark = cloud.mark() if mark is None else mark
        time.sleep(self.window_s / self.hurry)
        writes = len([one for one in cloud.writes(mark) if not one.path.startswith("/token")])
        tally = ", ".join(f"{kind} {count}" for kind, count in sorted(cloud.tally(mark).items()))
        self.table.add(f"{name}: requests", cloud.calls(since=mark), note=tally)
        self.table.add(f"{name}: changing requests", writes)

    # --- the cases ---------------------------------------------------------------------------------------------------

    def ports(self, name):
        with self.hcloud(name) as cloud:
            mark = cloud.mark()
            self.api.post(SERVICES, service("many-ports", *range(8000, 8100)))
            self.window(name, cloud, mark)

    def targets(self, name):
        with self.hcloud(name, n_nodes=20, public_ipv4=False) as cloud:
            mark = cloud.mark()
            for number in range(20):
                self.api.post(SERVICES, service(f"s{number}"))
            self.window(name, cloud, mark)

    def protected(self, name):
        with self.hcloud(name) as cloud:
            self.services.create("kept")
            self.services.wait_ips("kept")
            with cloud.lock:
                next(iter(cloud.load_balancers.values())).protection["delete"] = True
            mark = cloud.mark()
            self.services.delete("kept")
            self.window(name, cloud, mark)

    def certificate(self, name, count=1):
        with self.brightbox(name) as cloud:
            cloud.acme_delay_s = None
            mark = cloud.mark()
            for number in range(count):
                self.api.post(SERVICES, service(f"s{number}", 443))
            self.window(name, cloud, mark)

    def certificates(self, name):
        self.certificate(name, count=30)

    def mapping(self, name):
        with self.brightbox(name) as cloud:
            cloud.map_never_completes = True
            mark = cloud.mark()
            self.api.post(SERVICES, service("unmapped"))
            self.window(name, cloud, mark)

    def order(self, name):
        with self.brightbox(name, cloud=Shuffled) as cloud:
            mark = cloud.mark()
            self.api.post(SERVICES, service("shuffled"))
            self.window(name, cloud, mark)

    def failing(self, name):
        with self.brightbox(name, cloud=Failing) as cloud:
            mark = cloud.mark()
            self.api.post(SERVICES, service("failing"))
            self.window(name, cloud, mark)

    def gone(self, name):
        with self.brightbox(name) as cloud:
            self.services.create("s")
            self.services.wait("s", ingress)
            mark = cloud.mark()
            Kubelet(self.api, "srv-gone0", initialized=True, provider_id="brightbox://srv-gone0").register()
            self.window(name, cloud, mark)


class Shuffled(Brightbox):
    """Lists the nodes of a balancer in an order of its own."""

    def answer(self, request):
        reply = super().answer(request)
        if request.method == "GET" and "load_balancers" in request.path and reply.status == 200:
            found = reply.json()
            for one in found if isinstance(found, list) else [found]:
                one["nodes"].sort(key=lambda node: node["id"][::-1])
            reply.body = json.dumps(found).encode()
        return reply


class Failing(Brightbox):
    """Each balancer fails as soon as it is built."""

    def answer(self, request):
        with self.lock:
            for one in self.account.every("load_balancers"):
                if one["status"] == "active":
                    one["status"] = "failed"
        return super().answer(request)


CASES = {
    "hcloud, 1 Service with 100 ports on an lb11": Broken.ports,
    "hcloud, 20 Services, 19 of 20 nodes without public IPv4": Broken.targets,
    "hcloud, 1 protected balancer of a deleted Service": Broken.protected,
    "brightbox, 1 certificate that is never validated": Broken.certificate,
    "brightbox, 30 certificates that are never validated": Broken.certificates,
    "brightbox, 1 mapping that never completes": Broken.mapping,
    "brightbox, an API with its own order of nodes": Broken.order,
    "brightbox, a balancer that always fails": Broken.failing,
    "brightbox, a node whose server is gone": Broken.gone,
}
