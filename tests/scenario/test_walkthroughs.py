"""docs/walkthroughs.md: each walkthrough is carried out as it is written, and what the commands print is compared.

What a walkthrough does in the cloud's own console happens here between two blocks.
"""
import re
import shlex
import subprocess
from datetime import datetime, timezone

import pytest

from lib.ccmd import binary, environment
from lib.console import blocks, matches
from lib.nodes import is_initialized
from lib.operator import flags_of
from lib.process import REPOSITORY, free_ports
from lib.replicas import LEASE
from lib.serving import Serving
from lib.wait import wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

DOCUMENT = REPOSITORY / "docs" / "walkthroughs.md"
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
FORMER = "control-1_3f1c"
OFFICIAL = "hcloud-cloud-controller-manager"


class Walkthrough:
    """The blocks of one section, run in their order with the flags and the environment of the running controller."""

    def __init__(self, heading, cluster, flags, env):
        section, = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.M | re.S)
        self.blocks = blocks(section)
        self.cluster, self.flags, self.env = cluster, flags, env
        self.ccmd = self.start = self.wait_ready = None

    def stop(self):
        self.ccmd.stop()

    def run(self):
        """Runs the commands of the next block."""
        for command, expected in self.blocks.pop(0):
            printed = self.run_command(shlex.split(command))
            assert matches(printed, expected), f"$ {command}\n{printed}\n--- instead of:\n{expected}"

    def run_command(self, words):
        if words[0] == "kubectl":
            return self.cluster.kubectl(*words[1:])
        assert words[0] == "ccmd", words
        done = subprocess.run([binary(), *words[1:], *self.flags], capture_output=True, text=True, timeout=60,
                              env={**environment(), **self.env})
        assert done.stderr == ""
        return done.stdout


@pytest.fixture
def walk(cluster, cloud, hetzner):
    """walk("heading"): a ccmd that leads, and the section to follow."""

    def follow(heading):
        options = {"leader_elect": True, "secure_port": free_ports(1)[0], "bind_address": "127.0.0.1",
                   "authentication_kubeconfig": cluster.ccmd_kubeconfig,
                   "authorization_kubeconfig": cluster.ccmd_kubeconfig,
                   "metrics_bind_address": f"127.0.0.1:{free_ports(1)[0]}"}
        env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false"}
        one = Walkthrough(heading, cluster, flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", **options), env)
        one.start = lambda: setattr(one, "ccmd", hetzner(env=env, **options))
        one.start()
        one.wait_ready = lambda: wait_for(lambda: is_ready(options["secure_port"]), what="it to be ready")
        one.wait_ready()
        return one

    return follow


def is_ready(port):
    try:
        return Serving(port).get("/readyz").status == 200
    except OSError:
        return False


@pytest.fixture
def fleet(api, cloud, kubelet):
    """fleet("worker-1"): servers, and nodes that wait to be initialised."""

    def build(*names):
        for number, name in enumerate(names, 1):
            cloud.add_server(name)
            kubelet(name, ip=f"10.0.0.{number}")

    return build


def test_a_node_stays_tainted(api, cloud, fleet, kubelet, walk):
    fleet("control-1", "worker-1")
    renamed = cloud.add_server("web-2")
    kubelet("worker-2", ip="10.0.0.3")
    one = walk("A node stays tainted")
    api.wait_node("worker-1", is_initialized)
    one.run()
    one.run()
    renamed.name = "worker-2"
    api.wait_node("worker-2", is_initialized)
    one.run()
    assert not one.blocks


def test_a_service_stays_pending(api, fleet, services, walk):
    fleet("control-1", "worker-1")
    one = walk("A Service stays pending")
    api.wait_node("worker-1", is_initialized)
    services.create("web", 80, annotations={"load-balancer.hetzner.cloud/locaton": "fsn1"})
    services.wait_event("web", "SyncLoadBalancerFailed")
    one.run()
    one.run()
    one.run()
    services.wait_ips("web")
    one.run()
    assert not one.blocks


@pytest.fixture
def official(api, cloud, fleet, services):
    """A cluster of the official controller: its Deployment, its Lease, initialised nodes and a load balancer."""
    api.post(DEPLOYMENTS, {
        "metadata": {"name": OFFICIAL}, "spec": {"selector": {"matchLabels": {"app": OFFICIAL}}, "template": {
            "metadata": {"labels": {"app": OFFICIAL}},
            "spec": {"containers": [{"name": "ccm", "image": f"docker.io/hetznercloud/{OFFICIAL}:v1.26.0"}]}}}})
    fleet("control-1", "worker-1")
    services.create("web", 80, annotations={"load-balancer.hetzner.cloud/location": "fsn1"})

    def take_over():
        """What ccmd left behind becomes what the official controller leaves behind."""
        for balancer in cloud.load_balancers.values():
            balancer.labels.pop("ccmd.io/cluster", None)
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        api.delete(LEASE)
        api.post(LEASE.rsplit("/", 1)[0], {
            "metadata": {"name": LEASE.rsplit("/", 1)[1]},
            "spec": {"holderIdentity": FORMER, "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}},
            fieldManager=OFFICIAL)

    yield take_over
    api.delete(f"{DEPLOYMENTS}/{OFFICIAL}")


def test_moving_from_the_official_controller(api, cloud, official, services, walk):
    one = walk("Moving from the official controller")
    services.wait_ips("web")
    wait_for(lambda: [len(each.targets) for each in cloud.load_balancers.values()] == [2], what="two targets")
    one.stop()
    official()
    one.run()
    one.run()
    one.run()
    api.patch(LEASE, {"spec": {"leaseDurationSeconds": 1}})  # instead of a pause
    one.start()
    wait_for(lambda: api.get(LEASE)["spec"]["holderIdentity"] != FORMER, what="ccmd to lead")
    one.wait_ready()
    one.run()
    assert not one.blocks
