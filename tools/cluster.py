"""./dev cluster: a bare API server to try things on, without ccmd, and with fake kubelets.

    ./dev cluster                         starts etcd and kube-apiserver, prints what to export, runs until Ctrl-C
    ./dev cluster kubelet add NAME…       starts kubelets: they register their nodes, and report that they are ready
    ./dev cluster kubelet silence NAME…   kubelets stop reporting, as when their machines are switched off or gone
    ./dev cluster kubelet remove NAME…    deletes their nodes

The commands for kubelets need the exported KUBECONFIG. The one line that the first command writes to its standard output is
for the shell; everything else goes to standard error.
"""
import argparse
import os
import shlex
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "scenario"))

from lib.api import LEASES, Api, ApiError  # noqa: E402
from lib.certs import Pair  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.nodes import Kubelet  # noqa: E402
from lib.process import end_on_interrupt  # noqa: E402


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


# --- the control plane ---------------------------------------------------------------------------------------------------


def serve():
    end_on_interrupt()
    with Cluster() as cluster:
        show(cluster)
        cluster.apiserver.child.wait()
        sys.exit(f"cluster: the API server has ended:\n{cluster.apiserver.log_tail()}")


def show(cluster):
    kubeconfig, programs = shlex.quote(str(cluster.admin_kubeconfig)), shlex.quote(str(cluster.programs))
    print(f'export KUBECONFIG={kubeconfig} PATH={programs}:"$PATH"', flush=True)
    say(f"ready after {cluster.started_in_s:.1f} s. Run the line above in another terminal, and there for example:\n"
        "    ./dev cluster kubelet add worker-1\n"
        "    kubectl get nodes\n"
        "Ctrl-C stops it.")


# --- kubelets ------------------------------------------------------------------------------------------------------------


def connect():
    """The cluster of KUBECONFIG. It must be one that these tools started, so that no real cluster gets a fake node."""
    path = Path(os.environ.get("KUBECONFIG", ""))
    if not (path.parent / "etcd.log").exists():
        sys.exit("cluster: KUBECONFIG does not name a cluster that ./dev cluster or ./dev demo --keep started: run the export "
                 "line that it printed")
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return Api(cluster["server"], cluster["certificate-authority"],
               Pair(Path(user["client-certificate"]), Path(user["client-key"])))


def add(api, kubelet):
    """A node that exists keeps what the cloud wrote, as when a kubelet is started again."""
    try:
        kubelet.register()
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        kubelet.ready()
    kubelet.renew_lease()


def silence(api, kubelet):
    kubelet.silent()


def remove(api, kubelet):
    kubelet.delete()
    api.delete(f"{LEASES}/{kubelet.name}")


def command_kubelets(options):
    with connect() as api:
        for name in options.names:
            try:
                options.act(api, Kubelet(api, name))
            except ApiError as error:
                sys.exit(f"cluster: kubelet {name}: {error}")
            except OSError as problem:
                sys.exit(f"cluster: kubelet {name}: the API server does not respond: {problem}")


def main():
    parser = argparse.ArgumentParser(prog="./dev cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(metavar="kubelet").add_parser("kubelet").add_subparsers(required=True)
    for act in (add, silence, remove):
        action = actions.add_parser(act.__name__)
        action.add_argument("names", nargs="+", metavar="NAME")
        action.set_defaults(act=act)
    options = parser.parse_args()
    if hasattr(options, "act"):
        command_kubelets(options)
    else:
        serve()


if __name__ == "__main__":
    main()
