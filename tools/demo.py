"""./dev demo: the main job, as it happens, on a real API server.

Starts etcd and kube-apiserver in a temporary folder, describes three machines in an inventory file, registers their
nodes as kubelets do, starts ccmd, and shows what happens to them, and to a Service that wants a load balancer; a real HAProxy
serves it if it is installed. The result of every step is read back through the API; the demo
exits with 0 only if every result was seen.

    ./dev demo                     about a minute once everything is built
    ./dev demo --cloud=hcloud      the same job in a simulated Hetzner Cloud
    ./dev demo --cloud=brightbox   and in a simulated Brightbox Cloud
    ./dev demo --ha                two replicas: the leader is killed, the other takes over
    ./dev demo --keep              leaves it running, and prints commands to try
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests" / "scenario"), str(REPOSITORY / "tests")]

from lib.ccmd import Ccmd, Inventory, machine  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.haproxy import PROGRAM as HAPROXY  # noqa: E402
from lib.haproxy import Backend, Haproxy  # noqa: E402
from lib.nodes import SHUTDOWN, Kubelet, addresses, is_initialized, taint_keys  # noqa: E402
from lib.process import end_on_interrupt  # noqa: E402
from lib.services import FINALIZER, Services, finalizers  # noqa: E402
from lib.wait import Timeout, wait_for  # noqa: E402
from demo_clouds import CLOUDS, CloudDemo  # noqa: E402

MACHINES = ("control-1", "worker-1", "worker-2")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"
LABELS = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "example.com/rack")

# The defaults are 12 s and 60 s. With shorter times the demo is shorter, and shows the same rules.
GUARD = {"node_delete_confirm_interval": "4s", "node_delete_min_age": "10s"}


# A node as a new kubelet registers it, for docs/getting-started.md.
NEW_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-3"},
            "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]}}

NETWORK = {"cluster_cidr": "10.244.0.0/16"}


class Stage:
    """The demo's output: a line for each step, with its time; in colour only on a terminal."""

    def __init__(self):
        self.is_terminal = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.begun = time.monotonic()

    def paint(self, code, text):
        return f"\033[{code}m{text}\033[0m" if self.is_terminal else text

    def title(self, text):
        print(f"\n{self.paint('1', text)}", flush=True)

    def destroyed(self, name):
        self.title(f"{name} is destroyed")
        self.say("The guard is shortened for the demo: checks 4 s apart instead of 12 s, nodes 10 s old instead of 60 s.")

    def say(self, text):
        print(f"  {text}", flush=True)

    def shell(self, text):
        print(self.paint("2", "\n".join(f"    {line}" for line in text.rstrip().splitlines())), flush=True)

    def step(self, text, check, timeout=20):
        """Waits until check() is true, and says how long that took."""
        begun = time.monotonic()
        try:
            seen = wait_for(check, timeout, text)
        except Timeout as problem:
            print(f"  {self.paint('31', 'failed')}  {text}\n{problem}", flush=True)
            raise SystemExit(1) from None
        took = time.monotonic() - begun
        print(f"  {self.paint('32', 'seen')} after {took:5.2f} s  {text}", flush=True)
        return seen

    def keep(self, cluster, ccmd, hints, **variables):
        """Leaves everything running until Ctrl-C, and does not return; hints are commands for a shell that has read the file env.

        variables: the environment that ccmd was given."""
        self.title("It keeps running, so that you can try the commands in another terminal")
        self.shell(f". {self.write_env(cluster, ccmd, variables)}     # kubectl, and ccmd with the flags of the controller\n{hints}")
        self.say("Ctrl-C stops it.")
        cluster.apiserver.child.wait()
        sys.exit(f"demo: the API server has ended:\n{cluster.apiserver.log_tail()}")

    @staticmethod
    def write_env(cluster, ccmd, variables):
        """A file for a shell: the environment of that ccmd, and a command of its name that gives its flags behind the arguments."""
        folder = cluster.folder
        programs = folder / "bin"
        programs.mkdir()
        program, *flags = map(str, ccmd.process.argv)
        flags.append(f"--kubeconfig={cluster.admin_kubeconfig}")  # the last one counts
        command = programs / "ccmd"
        command.write_text(f"#!/bin/sh\nexec {program} \"$@\" {shlex.join(flags)}\n")
        command.chmod(0o755)
        variables = {**variables, "KUBECONFIG": str(cluster.admin_kubeconfig), "DEMO": str(folder)}
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        (folder / "worker-3.json").write_text(json.dumps(NEW_NODE))
        env = folder / "env"
        env.write_text("\n".join([*lines, f"export PATH={programs}:{cluster.programs}:$PATH", ""]))
        return env


class Demo:
    def __init__(self, stage, folder, cluster):
        self.stage = stage
        self.cluster = cluster
        self.api = cluster.api()
        cloud = folder / "cloud"
        cloud.mkdir()
        self.haproxy = Haproxy(folder / "haproxy").start() if HAPROXY else None
        self.services = Services(self.api)
        self.backends = []
        # without the limit on removals in the inventory, so that the last step shows the guard behind it
        self.inventory = Inventory(
            cloud / "inventory.yaml",
            [self.machine(name, number) for number, name in enumerate(MACHINES, 10)],
            cloud={"region": "lab", "zone": "rack-room-1"},
            reload={"debounce": "50ms", "maxRemoval": "100%"},
            addressPools=[{"name": "lab", "addresses": ["127.30.0.1-127.30.0.9"]}],
            loadBalancers={"haproxy": self.haproxy.settings} if self.haproxy else {},
            routes={},
            state={"file": str(cloud / "state.json")},
        )
        self.state = cloud / "state.json"
        self.kubelets = {name: Kubelet(self.api, name, ip=self.address(number)) for number, name in enumerate(MACHINES, 10)}
        self.ccmd = Ccmd(folder, cluster.ccmd_kubeconfig, self.inventory, **GUARD, **NETWORK)

    @staticmethod
    def address(number):
        """An address of the loopback network, so that HAProxy can reach it."""
        return f"127.20.0.{number}"

    @staticmethod
    def machine(name, number):
        return machine(
            name,
            ("InternalIP", Demo.address(number)),
            ("ExternalIP", f"203.0.113.{number}"),
            type="bare.metal.8cpu" if name.startswith("worker") else "bare.metal.4cpu",
            labels={"example.com/rack": f"r{number - 9}"},
        )

    def node(self, name):
        return self.api.node(name)

    def event(self, name, reason):
        found = [one for one in self.api.events(name=name) if one["reason"] == reason]
        return found[0] if found else None

    def kubectl(self, *arguments):
        self.stage.shell("$ kubectl " + " ".join(arguments))
        done = self.cluster.kubectl(*arguments)
        self.stage.shell(getattr(done, "stdout", done))

    # --- the steps -------------------------------------------------------------------------------------------------------

    def join(self):
        self.stage.title("Three machines join: their kubelets register nodes that accept no pods yet")
        for kubelet in self.kubelets.values():
            kubelet.register(lease=True)
        self.kubectl("get", "nodes", "-o", "custom-columns=NAME:.metadata.name,PROVIDER ID:.spec.providerID,TAINTS:.spec.taints[*].key")

    def initialise(self):
        self.stage.title("ccmd starts, with an inventory file as its cloud")
        self.ccmd.start()
        for name in MACHINES:
            node = self.stage.step(f"{name}: taint removed", lambda name=name: is_initialized(self.node(name)) and self.node(name))
            labels = " ".join(f"{key}={node['metadata']['labels'][key]}" for key in LABELS)
            assert node["spec"]["providerID"] == f"cloudlycke://m-{name}", node["spec"]
            self.stage.say(f"{'':19}provider ID {node['spec']['providerID']}")
            self.stage.say(f"{'':19}addresses   {' '.join(f'{kind}={one}' for kind, one in addresses(node))}")
            self.stage.say(f"{'':19}labels      {labels}")
        self.stage.step("the event Synced reports it", lambda: self.event("worker-1", "Synced"))

    def route(self):
        self.stage.title("Pods get a network: a route to each node's pod CIDR, and the condition of the node shows it")
        for number, name in enumerate(MACHINES, 1):
            cidr = f"10.244.{number}.0/24"
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})
            self.stage.step(f"{name}: {cidr}, NetworkUnavailable=False (RouteCreated)", lambda name=name: self.is_routed(name))
        routes = json.loads(self.state.read_text())["routes"]["kubernetes"]
        self.stage.say(f"{'':19}the cloud's table: " + ", ".join(f"{one['destinationCIDR']} -> {one['targetNode']}" for one in routes))

    def is_routed(self, name):
        conditions = {one["type"]: one for one in self.node(name)["status"]["conditions"]}
        found = conditions.get("NetworkUnavailable")
        return found and (found["status"], found["reason"]) == ("False", "RouteCreated")

    def serve(self):
        self.stage.title("A Service of type LoadBalancer gets an address" + (", and HAProxy serves it" if self.haproxy else ""))
        web = self.services.create("web", 18080)
        port = web["spec"]["ports"][0]["nodePort"]
        if self.haproxy:
            self.backends = [Backend(name, self.address(number), port) for number, name in enumerate(MACHINES, 10)]
        self.stage.step("web: an address in its status", lambda: self.services.wait_ips("web", timeout=0.1))
        self.kubectl("get", "service", "web")
        if not self.haproxy:
            self.stage.say("(haproxy is not installed: the address is allocated, and not served)")
            return
        self.stage.step("curl reaches all three machines through this address", lambda: {self.curl() for _ in range(6)} >= set(MACHINES))
        self.stage.shell(f"$ curl http://{self.services.wait_ips('web')[0]}:18080/\n{self.curl()}")

    def curl(self):
        address = self.services.wait_ips("web")[0]
        done = subprocess.run(["curl", "-sS", "--max-time", "5", f"http://{address}:18080/"], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def still_served(self):
        if self.haproxy:
            self.stage.step("web: worker-2 gets no more requests, the others respond",
                            lambda: {self.curl() for _ in range(8)} == {"control-1", "worker-1"})

    def unserve(self):
        self.stage.title("The Service is deleted")
        self.stage.say(f"{'':19}held by its finalizer {FINALIZER} until its load balancer is gone")
        assert FINALIZER in finalizers(self.services.get("web"))
        self.services.delete("web")
        self.stage.step("web: gone", lambda: self.services.get("web") is None)
        if self.haproxy:
            self.stage.step("its address is no longer served", lambda: "18080" not in self.haproxy.text())

    def switch_off(self):
        self.stage.title("worker-1 is switched off; its kubelet stops reporting")
        self.inventory.power("worker-1", "off")
        self.kubelets["worker-1"].silent()
        self.stage.step(f"worker-1: taint {SHUTDOWN}", lambda: SHUTDOWN in taint_keys(self.node("worker-1")))

    def switch_on(self):
        self.stage.title("It is switched on again; its kubelet reports")
        self.inventory.power("worker-1", "on")
        self.kubelets["worker-1"].ready()
        self.stage.step("worker-1: taint gone", lambda: SHUTDOWN not in taint_keys(self.node("worker-1")))

    def destroy(self):
        self.stage.destroyed("worker-2")
        self.inventory.remove("worker-2")
        self.kubelets["worker-2"].silent()
        self.stage.step(
            "worker-2: node deleted, after two checks that agreed while its kubelet stayed silent and other machines were found",
            lambda: self.api.get_or_none("/api/v1/nodes/worker-2") is None,
            timeout=40,
        )
        event = self.stage.step("the event says why", lambda: self.event("worker-2", "DeletingNode"))
        self.stage.say(f"{'':19}{event['message']}")
        self.still_served()

    def empty(self):
        self.stage.title("The inventory is emptied by mistake, while worker-1 is not ready")
        self.inventory.remove(*[one["name"] for one in self.inventory.machines])
        self.kubelets["worker-1"].silent()
        event = self.stage.step("worker-1: held, and a Warning says why", lambda: self.event("worker-1", "NodeDeletionHeld"))
        self.stage.say(f"{'':19}{event['message']}")
        begun = time.monotonic()
        for name in ("control-1", "worker-1"):
            assert self.api.get_or_none(f"/api/v1/nodes/{name}"), f"{name} is gone"
        self.stage.step(
            "both nodes are still there, two checks later",
            lambda: time.monotonic() - begun > 9 and all(self.api.get_or_none(f"/api/v1/nodes/{name}") for name in ("control-1", "worker-1")),
        )

    def end(self):
        self.stage.title("ccmd stops on SIGTERM")
        took = self.ccmd.stop()
        self.stage.say(f"exit code 0 after {took:.2f} s")

    def run(self, keep):
        self.join()
        self.initialise()
        self.route()
        self.serve()
        self.switch_off()
        self.switch_on()
        self.destroy()
        self.unserve()
        self.empty()
        if keep:
            self.keep()
        self.end()

    def logs(self):
        return self.ccmd.text if self.ccmd.process.child else ""

    def finish(self):
        self.ccmd.finish(check=False)
        for one in self.backends:
            one.stop()
        if self.haproxy:
            self.haproxy.stop()

    def keep(self):
        self.stage.keep(
            self.cluster, self.ccmd,
            "ccmd doctor\n"
            "kubectl get nodes -o wide\n"
            "kubectl describe node worker-1\n"
            "kubectl get events\n"
            f"$EDITOR {self.inventory.path}     # power: off, another address, a machine more\n"
            f"tail -f {self.ccmd.process.log}",
        )


class Failover:
    """--ha: two replicas with the default times of the lease; a leader is killed, and the next one gets SIGTERM."""

    def __init__(self, stage, folder, cluster):
        self.stage = stage
        self.cluster = cluster
        self.api = cluster.api()
        cloud = folder / "cloud"
        cloud.mkdir()
        machines = [Demo.machine(name, number) for number, name in enumerate(MACHINES, 10)]
        self.inventory = Inventory(cloud / "inventory.yaml", machines, cloud={"region": "lab", "zone": "rack-room-1"})
        self.replicas = [self.replica(folder, name) for name in ("replica-1", "replica-2")]

    def replica(self, folder, name):
        return Ccmd(folder, self.cluster.ccmd_kubeconfig, self.inventory, name=name, leader_elect=True)

    @property
    def holder(self):
        lease = self.api.get_or_none(LEASE)
        return lease and lease["spec"].get("holderIdentity")

    def identity(self, replica):
        found = re.search(r"became leader.* identity=(\S+)", replica.text)
        return found and found[1]

    def leads(self, replica):
        return replica.running and self.holder is not None and self.holder == self.identity(replica)

    def join(self, name):
        number = 10 + MACHINES.index(name)
        Kubelet(self.api, name, ip=Demo.address(number)).register(lease=True)
        self.stage.step(f"{name}: initialised", lambda: is_initialized(self.api.node(name)))

    def start(self):
        first, second = self.replicas
        self.stage.title("Two replicas start; one of them gets the lease")
        first.start()
        self.stage.step("replica-1 leads", lambda: self.leads(first))
        second.start()
        self.stage.step("replica-2 stands by", lambda: "another replica leads" in second.text)
        self.stage.shell("$ kubectl -n kube-system get lease cloud-controller-manager")
        self.stage.shell(self.cluster.kubectl("-n", "kube-system", "get", "lease", "cloud-controller-manager"))
        self.join("control-1")

    def kill(self):
        first, second = self.replicas
        self.stage.title("replica-1 is killed (SIGKILL): its lease has to run out, 15 s after it was renewed last")
        first.kill()
        self.stage.step("replica-2 leads", lambda: self.leads(second), timeout=40)
        self.join("worker-1")

    def ask_to_go(self, folder):
        second = self.replicas[1]
        third = self.replica(folder, "replica-3")
        self.replicas.append(third)
        self.stage.title("replica-3 starts, and replica-2 gets SIGTERM: it gives the lease back")
        third.start()
        self.stage.step("replica-3 stands by", lambda: "another replica leads" in third.text)
        took = second.stop()
        self.stage.say(f"replica-2: exit code 0 after {took:.2f} s")
        self.stage.step("replica-3 leads", lambda: self.leads(third))
        self.join("worker-2")
        third.stop()

    def run(self, folder):
        self.start()
        self.kill()
        self.ask_to_go(folder)

    def logs(self):
        return "\n".join(one.text for one in self.replicas if one.process.child)

    def finish(self):
        for one in self.replicas:
            one.finish(check=False)


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave everything running, and print commands to try")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cloud", choices=["cloudlycke", *CLOUDS], default="cloudlycke", help="default: cloudlycke, an inventory file")
    what.add_argument("--ha", action="store_true", help="two replicas: the leader is killed, the other takes over")
    options = parser.parse_args()
    stage = Stage()
    stage.title("A real etcd and kube-apiserver start")
    end_on_interrupt()
    with Cluster() as cluster:
        folder = cluster.folder
        stage.say(f"ready after {cluster.started_in_s:.1f} s")
        if options.cloud in CLOUDS:
            demo = CloudDemo(stage, folder, cluster, CLOUDS[options.cloud](folder), GUARD)
        else:
            demo = (Failover if options.ha else Demo)(stage, folder, cluster)
        try:
            if options.ha:
                demo.run(folder)
            else:
                demo.run(options.keep)
        except BaseException:
            print(re.sub(r"^", "    ", demo.logs(), flags=re.M), file=sys.stderr)
            raise
        finally:
            demo.finish()
    stage.title(f"Every result was seen through the API, in {time.monotonic() - stage.begun:.0f} s.")


if __name__ == "__main__":
    main()
