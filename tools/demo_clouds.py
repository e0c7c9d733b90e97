"""./dev demo --cloud=hcloud|brightbox: the main job in a simulated cloud.

ccmd asks the cloud's HTTP API, which is played on this machine (tests/sim). What the cloud has in the end is read from the
simulator, and everything else through the Kubernetes API.
"""
import time

from lib.ccmd import Ccmd
from lib.nodes import SHUTDOWN, Kubelet, addresses, is_initialized, taint_keys
from lib.process import free_ports
from lib.services import FINALIZER, Services, finalizers, ingress
from sim.brightbox import Brightbox
from sim.hcloud import HCloud

LABELS = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone")
LATENCY_S, CHANGE_S = 0.02, 1


class Hetzner:
    """Three servers in a project of the Hetzner Cloud."""

    provider = "hcloud"
    title = "a simulated Hetzner Cloud"

    def __init__(self, folder):
        self.sim = HCloud(latency_s=LATENCY_S, action_s=CHANGE_S)
        self.names = ["control-1", "worker-1", "worker-2"]
        self.ids = {name: f"hcloud://{self.sim.add_server(name).id}" for name in self.names}

    def environment(self):
        return {"HCLOUD_ENDPOINT": self.sim.url, "HCLOUD_TOKEN": self.sim.token, "HCLOUD_METRICS_ENABLED": "false",
                "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"}

    def power(self, name, is_on):
        self.sim.power(name, "running" if is_on else "off")

    def destroy(self, name):
        self.sim.delete_server(name)

    def balancers(self):
        """Of each balancer its name, its ports, and how many servers are behind it."""
        with self.sim.lock:
            self.sim.project.settle()
            return [(one.name, [service["listen_port"] for service in one.services], len(one.targets))
                    for one in self.sim.load_balancers.values()]


class BrightboxCloud:
    """Three servers in an account of Brightbox; a node's name is the id of its server."""

    provider = "brightbox"
    title = "a simulated Brightbox Cloud"

    def __init__(self, folder):
        self.sim = Brightbox(latency_s=LATENCY_S)
        self.sim.lb_build_s = self.sim.lb_destroy_s = self.sim.map_delay_s = CHANGE_S
        self.sim.hosts_file = folder / "hosts"  # the names of its cloud IPs, which no name server knows
        self.sim.hosts_file.touch()
        self.names = [self.sim.account.add_server()["id"] for _ in range(3)]
        self.ids = {name: f"brightbox://{name}" for name in self.names}

    def environment(self):
        return {**self.sim.environment(), "BRIGHTBOX_HOSTS_FILE": str(self.sim.hosts_file)}

    def power(self, name, is_on):
        with self.sim.lock:
            self.sim.account.get("servers", name)["status"] = "active" if is_on else "inactive"

    def destroy(self, name):
        with self.sim.lock:
            self.sim.account.forget("servers", self.sim.account.get("servers", name))

    def balancers(self):
        with self.sim.lock:
            self.sim.account.settle()
            return [(one["name"], [listener["in"] for listener in one["listeners"]], len(one["nodes"]))
                    for one in self.sim.account.every("load_balancers") if one["status"] in ("creating", "active")]


CLOUDS = {one.provider: one for one in (Hetzner, BrightboxCloud)}


class CloudDemo:
    def __init__(self, stage, folder, cluster, cloud, guard):
        self.stage = stage
        self.cluster = cluster
        self.api = cluster.api()
        self.services = Services(self.api)
        self.cloud = cloud
        self.kubelets = {name: Kubelet(self.api, name) for name in cloud.names}
        port, metrics_port = free_ports(2)
        self.ccmd = Ccmd(folder, cluster.ccmd_kubeconfig, None, f"--cloud-provider={cloud.provider}", "--cluster-name=demo",
                         "--configure-cloud-routes=false", env=cloud.environment(), leader_elect=True, secure_port=port,
                         bind_address="127.0.0.1", cert_dir=folder / "certs", authentication_kubeconfig=cluster.ccmd_kubeconfig,
                         authorization_kubeconfig=cluster.ccmd_kubeconfig, metrics_bind_address=f"127.0.0.1:{metrics_port}", **guard)

    def node(self, name):
        return self.api.node(name)

    def event(self, name, reason):
        found = [one for one in self.api.events(name=name) if one["reason"] == reason]
        return found[0] if found else None

    def note(self, text):
        self.stage.say(f"{'':19}{text}")

    # --- the steps -------------------------------------------------------------------------------------------------------

    def initialise(self):
        self.stage.title(f"Three servers of {self.cloud.title} join, and ccmd starts")
        for kubelet in self.kubelets.values():
            kubelet.register(lease=True)
        self.ccmd.start()
        for name in self.cloud.names:
            node = self.stage.step(f"{name}: taint removed",
                                   lambda name=name: is_initialized(self.node(name)) and self.node(name))
            assert node["spec"]["providerID"] == self.cloud.ids[name], node["spec"]
            self.note(f"provider ID {node['spec']['providerID']}")
            self.note(f"addresses   {' '.join(f'{kind}={one}' for kind, one in addresses(node))}")
            labels = node["metadata"]["labels"]
            self.note(f"labels      {' '.join(f'{key}={labels[key]}' for key in LABELS if key in labels)}")

    def serve(self):
        self.stage.title("A Service of type LoadBalancer gets a load balancer of the cloud")
        mark = self.cloud.sim.mark()
        self.services.create("web", 80)
        self.services.add_endpoints("web", self.cloud.names[:2])
        web = self.stage.step("web: its status says where it is reached", lambda: self.is_served() and self.services.get("web"))
        self.note(" ".join(one.get("hostname") or one["ip"] for one in ingress(web)))
        (name, ports, n_servers), = self.stage.step("the cloud has one load balancer, with all servers", lambda: self.has_balancer(3))
        self.note(f"{name}: ports {ports}, {n_servers} servers, after {self.cloud.sim.calls(since=mark)} requests")

    def is_served(self):
        return ingress(self.services.get("web"))

    def has_balancer(self, n_servers):
        found = self.cloud.balancers()
        return found if len(found) == 1 and found[0][2] == n_servers else None

    def switch_off_and_on(self):
        name = self.cloud.names[1]
        self.stage.title(f"{name} is switched off, and on again")
        self.cloud.power(name, is_on=False)
        self.kubelets[name].silent()
        self.stage.step(f"{name}: taint {SHUTDOWN}", lambda: SHUTDOWN in taint_keys(self.node(name)))
        self.cloud.power(name, is_on=True)
        self.kubelets[name].ready()
        self.stage.step(f"{name}: taint gone", lambda: SHUTDOWN not in taint_keys(self.node(name)))

    def destroy(self):
        name = self.cloud.names[2]
        self.stage.destroyed(name)
        self.cloud.destroy(name)
        self.kubelets[name].silent()
        self.stage.step(f"{name}: node deleted, after two checks that agreed",
                        lambda: self.api.get_or_none(f"/api/v1/nodes/{name}") is None, timeout=40)
        self.note(self.stage.step("the event says why", lambda: self.event(name, "DeletingNode"))["message"])
        self.stage.step("the load balancer has the other two servers", lambda: self.has_balancer(2))

    def unserve(self):
        self.stage.title("The Service is deleted")
        self.note(f"held by its finalizer {FINALIZER} until its load balancer is gone")
        assert FINALIZER in finalizers(self.services.get("web"))
        self.services.delete("web")
        self.stage.step("web: gone", lambda: self.services.get("web") is None)
        self.stage.step("its load balancer is gone", lambda: not self.cloud.balancers())

    def empty(self):
        name = self.cloud.names[1]
        self.stage.title(f"All servers vanish from the cloud's responses, while {name} is not ready")
        for one in self.cloud.names[:2]:
            self.cloud.destroy(one)
        self.kubelets[name].silent()
        event = self.stage.step(f"{name}: held, and a Warning says why", lambda: self.event(name, "NodeDeletionHeld"), timeout=40)
        self.note(event["message"])
        begun = time.monotonic()
        self.stage.step("both nodes are still there, two checks later", lambda: time.monotonic() - begun > 9 and all(
            self.api.get_or_none(f"/api/v1/nodes/{one}") for one in self.cloud.names[:2]))

    def end(self):
        self.stage.title("ccmd stops on SIGTERM")
        self.stage.say(f"exit code 0 after {self.ccmd.stop():.2f} s")

    def keep(self):
        self.stage.keep(self.cluster, self.ccmd, "ccmd doctor\n"
                        "ccmd explain service web\n"
                        "kubectl get nodes -o wide\n"
                        "kubectl create service loadbalancer another --tcp=80\n"
                        f"tail -f {self.ccmd.process.log}\n"
                        "# docs/getting-started.md has faults to try", **self.cloud.environment())

    def run(self, keep):
        self.initialise()
        self.serve()
        self.switch_off_and_on()
        self.destroy()
        if keep:
            self.keep()
        self.unserve()
        self.empty()
        self.end()

    def logs(self):
        return self.ccmd.text if self.ccmd.process.child else ""

    def finish(self):
        self.ccmd.finish(check=False)
        self.cloud.sim.close()
