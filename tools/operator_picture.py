"""Runs ccmd doctor and ccmd plan in a terminal, and writes what they print: tools/operator_picture.py FOLDER

The API server is real, and Hetzner Cloud is simulated. One server has another name than its node, one Service has a mistake in
the name of an annotation, and the targets of another one's load balancer were removed by hand. FOLDER/NAME.ansi is the output of ccmd NAME.
"""
import os
import pty
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests" / "scenario"), str(REPOSITORY / "tests")]

from lib.ccmd import Ccmd, binary, environment  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.nodes import Kubelet, is_initialized  # noqa: E402
from lib.operator import flags_of  # noqa: E402
from lib.services import Services, ingress  # noqa: E402
from lib.wait import wait_for  # noqa: E402
from sim.hcloud import HCloud  # noqa: E402

SERVERS = {"control-1": "control-1", "worker-1": "worker-1", "worker-2": "web-2"}  # of each node
PREFIX = "load-balancer.hetzner.cloud/"
COMMANDS = ("doctor", "plan")


def main():
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with Cluster() as cluster, HCloud() as cloud:
        flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", leader_elect=True)
        env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false"}
        with Ccmd(cluster.folder, cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", leader_elect=True, env=env):
            prepare(cluster.api(), cloud)
            for name in filter(is_command, COMMANDS):
                (target / f"{name}.ansi").write_text(output([binary(), name, *flags], {**environment(), **env}))


def prepare(api, cloud):
    for number, (node, server) in enumerate(SERVERS.items(), 1):
        cloud.add_server(server)
        Kubelet(api, node, ip=f"10.0.0.{number}").register()
    services = Services(api)
    services.create("shop", 80, annotations={PREFIX + "location": "fsn1"})
    services.wait("shop", ingress)
    for node in ("control-1", "worker-1"):
        api.wait_node(node, is_initialized)
    services.create("web", 80, annotations={PREFIX + "locaton": "fsn1"})
    services.wait_event("web", "SyncLoadBalancerFailed")
    (balancer,) = cloud.project.load_balancers.values()
    wait_for(lambda: len(balancer.targets) == 2, what="both nodes as targets")
    with cloud.lock:
        balancer.targets.clear()


def is_command(name):
    return f"\nccmd {name} " in subprocess.run([binary(), "help"], capture_output=True, text=True, check=True).stdout


def output(command, env):
    """What it writes to a terminal."""
    main, terminal = pty.openpty()
    with subprocess.Popen([str(word) for word in command], stdout=terminal, env={**env, "TERM": "xterm"}):
        os.close(terminal)
        parts = []
        while part := read(main):
            parts.append(part)
    os.close(main)
    return b"".join(parts).decode().replace("\r\n", "\n")


def read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the terminal's other side is closed
        return b""


if __name__ == "__main__":
    main()
