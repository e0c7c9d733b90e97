"""A pod of a Deployment, run without a kubelet: its container's program with the arguments, environment, user and files that
the Deployment names, as process 1, in a file system that has nothing else and is read-only except for emptyDir volumes.
"""
import base64
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from .ccmd import Ccmd, binary, sanitized
from .wait import wait_for

ACCOUNT_FOLDER = "var/run/secrets/kubernetes.io/serviceaccount"
LOOKED_UP = ("etc/hosts", "etc/resolv.conf", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt")
START = """
set -e
mount --bind "$1" "$1"
mount --bind /dev "$1/dev"
mount --bind /proc "$1/proc"
mount -o remount,bind,ro "$1"
root=$1 user=$2 folders=$3
shift 3
for folder in $folders; do
	mount -t tmpfs -o "mode=2777,gid=${user#*:}" tmpfs "$root$folder"
done
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
"""


def skip_unless_possible():
    if os.geteuid() != 0:
        pytest.skip("not root")
    if not shutil.which("unshare") or not shutil.which("setpriv"):
        pytest.skip("no unshare or setpriv")
    if sanitized():
        pytest.skip("a sanitizer needs files that a container does not have")


class Pod:
    """What the API server says of a Deployment or DaemonSet, made to run here."""

    def __init__(self, cluster, workload):
        self.cluster = cluster
        self.api = cluster.api()
        self.namespace = workload["metadata"]["namespace"]
        self.spec = workload["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]
        self.metadata = {"name": f"{workload['metadata']['name']}-0", "namespace": self.namespace, "uid": "11111111-pod"}

    def start(self, folder):
        """Its ccmd, which runs already."""
        skip_unless_possible()
        one = Ccmd(folder, None, None, name="pod")
        one.process.argv = self.command(self.make_root(folder / "root"))
        one.process.env = self.environment()
        one.start()
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children")
        self.pid = int(wait_for(children.read_text, what="process 1 of the pod"))
        one.process.child.terminate = lambda: os.kill(self.pid, signal.SIGTERM)  # unshare ignores it
        one.exec = self.exec
        return one

    def run(self, folder):
        """Runs a container that ends by itself. Returns subprocess.CompletedProcess."""
        skip_unless_possible()
        return subprocess.run(self.command(self.make_root(folder)), capture_output=True, text=True, timeout=120,
                              env=self.environment())

    def command(self, root):
        user = self.spec["securityContext"]
        return ["unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "--propagation=private",
                "sh", "-c", START, "sh", str(root), f"{user['runAsUser']}:{user['runAsGroup']}", self.writable_folders(),
                "/ccmd", *self.container["args"]]

    def exec(self, *argv):
        """`kubectl exec`: another process in the container. Returns subprocess.CompletedProcess."""
        user = self.spec["securityContext"]
        command = ["nsenter", "--target", self.pid, "--mount", "--pid", "--root", "--setuid", user["runAsUser"],
                   "--setgid", user["runAsGroup"], *argv]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                              env=self.environment())

    # --- its environment ---------------------------------------------------------------------------------------------

    def environment(self):
        found = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.port),
                 "PATH": os.environ["PATH"]}
        for one in self.container["env"]:
            value = one["value"] if "value" in one else self.value_from(one["valueFrom"])
            if value is not None:
                found[one["name"]] = value
        return found

    def value_from(self, source):
        if "fieldRef" in source:
            return self.metadata[source["fieldRef"]["fieldPath"].removeprefix("metadata.")]
        reference = source["secretKeyRef"]
        value = self.secret(reference["name"]).get(reference["key"])
        assert value is not None or reference.get("optional"), f"no key {reference}"
        return value and value.decode()

    def secret(self, name):
        one = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        return {key: base64.b64decode(value) for key, value in one["data"].items()}

    # --- its files ---------------------------------------------------------------------------------------------------

    def make_root(self, root):
        root.mkdir()
        for name in ("dev", "proc", ACCOUNT_FOLDER):
            (root / name).mkdir(parents=True)
        copy_program(root)
        for name in LOOKED_UP:
            if Path("/", name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path("/", name), root / name)
        self.write_account(root / ACCOUNT_FOLDER)
        self.write_volumes(root)
        return root

    def write_account(self, folder):
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.spec['serviceAccountName']}/token"
        (folder / "token").write_text(self.api.post(path, {"spec": {}})["status"]["token"])
        (folder / "ca.crt").write_text(Path(self.cluster.ca).read_text())
        (folder / "namespace").write_text(self.namespace)

    def writable_folders(self):
        """Where the volumes of the type emptyDir are mounted, separated by spaces."""
        names = [one["name"] for one in self.spec["volumes"] if "emptyDir" in one]
        return " ".join(one["mountPath"] for one in self.container["volumeMounts"] if one["name"] in names)

    def write_volumes(self, root):
        group = self.spec["securityContext"]["fsGroup"]
        volumes = {one["name"]: one.get("secret") for one in self.spec["volumes"]}
        for mount in self.container["volumeMounts"]:
            folder = root / mount["mountPath"].lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            volume = volumes[mount["name"]]
            for key, value in self.secret(volume["secretName"]).items() if volume else ():
                (folder / key).write_bytes(value)
                os.chown(folder / key, 0, group)
                (folder / key).chmod(volume["defaultMode"])


def copy_program(root):
    """The program, and the libraries that it is linked to, where it looks for them."""
    shutil.copy(binary(), root / "ccmd")
    for line in subprocess.run(["ldd", str(binary())], capture_output=True, text=True).stdout.splitlines():
        library = re.search(r"(/\S+) \(0x", line)
        if library:
            path = root / library.group(1).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library.group(1), path)
