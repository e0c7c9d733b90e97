"""A real control plane in a temporary folder: etcd, kube-apiserver, and kube-scheduler where asked for.

    with Cluster() as cluster:
        api = cluster.api()
        api.get("/api/v1/nodes")

There is no kubelet and no controller manager. Everything is started from the main thread, dies with it, and leaves
nothing behind.
"""
import base64
import copy
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from . import role, traces
from .api import Api
from .certs import Authority
from .process import REPOSITORY, Process, free_ports
from .wait import Timeout, wait_for

DEFAULT_VERSION = "1.37"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
# On a busy machine an API server that waits for its turn would cost a leader its Lease, which is short in tests.
PRIORITY = ["nice", "-n", "-5"] if os.geteuid() == 0 else []
READY_S = 120  # four of them start at the same time, on two busy cores

# ccmd runs under the published role and no other, so that every scenario also proves it.
USER = "system:serviceaccount:kube-system:ccmd"
USER_GROUPS = ["system:serviceaccounts", "system:serviceaccounts:kube-system"]
REPLICAS = "ccmd:replicas"  # a group with the same rights, for tests that distinguish replicas by name

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: RequestResponse
    resources: [{group: "", resources: [nodes, nodes/status, events]}]
    verbs: [create, update, patch, delete]
  - level: Request
    verbs: [create, update, patch, delete, deletecollection]
  - level: Metadata
"""


def programs_folder(version=DEFAULT_VERSION, names=PROGRAMS):
    """The folder that holds the control plane's programs, fetched or built first where need be."""
    tool = REPOSITORY / "tools" / "kube-parts"
    command = [str(tool), "--version", version, *names]
    return Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


class Cluster:
    """A control plane. Use it as a context manager, or call start() and close().

    audit=True writes every change of nodes and events to audit.log, see audit_entries(). folder=None makes a temporary
    one. close() removes the folder.
    """

    def __init__(self, version=DEFAULT_VERSION, audit=False, folder=None, apiserver_flags=()):
        self.version = version
        self.programs = programs_folder(version)
        self.folder = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="ccmd-cluster."))
        self.folder.mkdir(parents=True, exist_ok=True)
        etcd_port, peer_port, self.port = free_ports(3)
        self._etcd_url = f"http://127.0.0.1:{etcd_port}"
        self._apiserver_flags = list(apiserver_flags)
        self.audit_log = self.folder / "audit.log" if audit or traces.FOLDER else None
        self._make_certificates()
        self._make_kubeconfigs()
        self.etcd = Process("etcd", self._etcd_command(peer_port), self.folder / "etcd.log")
        self.apiserver = self._apiserver_process("kube-apiserver", self.port)
        self.scheduler = None
        self._others = []
        self._apis = []
        self.started_in_s = None
        traces.add_cluster(self)

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self):
        begun = time.monotonic()
        try:
            self.etcd.start()
            self.apiserver.start()
            self.wait_ready()
            self.grant()
        except BaseException:
            self.close()
            raise
        self.started_in_s = time.monotonic() - begun
        return self

    def close(self):
        for api in self._apis:
            api.close()
        # Nobody needs them to say goodbye: the folder goes anyway.
        for process in [self.scheduler, *self._others, self.apiserver, self.etcd]:
            if process:
                process.kill()
        traces.remove_cluster(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def wait_ready(self, port=None, timeout=READY_S):
        """Returns once the API server answers /readyz with 200."""
        process = self.apiserver if port in (None, self.port) else self._others[-1]
        with Api(self.url(port), self.ca, self.admin_pair, timeout=5) as api:

            def ready():
                assert process.running, f"{process.name} ended with {process.exit_code}"
                try:
                    return api.request("GET", "/readyz").status == 200
                except OSError:
                    return False

            try:
                wait_for(ready, timeout, f"{process.name} to be ready", poll=0.05)
            except Timeout as late:
                raise Timeout(f"{late}\n{process.log_tail()}\n{self.etcd.log_tail(5)}") from None

    def stop_apiserver(self):
        """An orderly end: the API server closes its watches."""
        self.apiserver.stop(timeout=30)

    def kill_apiserver(self):
        self.apiserver.kill()

    def start_apiserver(self, wait=True):
        """The same port, the same data."""
        self.apiserver.start()
        if wait:
            self.wait_ready()

    def restart_apiserver(self, kill=True):
        if kill:
            self.kill_apiserver()
        else:
            self.stop_apiserver()
        self.start_apiserver()

    def restart_etcd(self):
        self.etcd.kill()
        self.etcd.start()
        self.wait_ready()

    def backup(self):
        """Copies etcd's data as they are at this moment."""
        self.etcd.pause()
        try:
            shutil.copytree(self.folder / "etcd", self.folder / "etcd.backup")
        finally:
            self.etcd.resume()

    def restore(self):
        """Replaces etcd's data by the copy that backup() made. Returns once ccmd may use the API server."""
        self.apiserver.kill()
        self.etcd.kill()
        shutil.rmtree(self.folder / "etcd")
        (self.folder / "etcd.backup").rename(self.folder / "etcd")
        self.etcd.start()
        self.apiserver.start()
        self.wait_ready()
        with Api(self.url(), self.ca, self.ccmd_pair) as api:
            wait_for(lambda: api.request("GET", "/api/v1/nodes?limit=1").status == 200, what="the roles to be in force")

    def advance(self, count):
        """Raises etcd's revision by that much, with keys that the API server does not use."""
        connection = http.client.HTTPConnection(urlsplit(self._etcd_url).netloc, timeout=10)
        for number in range(count):
            key = base64.b64encode(b"/advance").decode()
            connection.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": key}))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        connection.close()

    def second_apiserver(self):
        """Starts another API server on the same etcd and returns its port."""
        (port,) = free_ports(1)
        process = self._apiserver_process(f"kube-apiserver-{port}", port)
        self._others.append(process)
        process.start()
        self.wait_ready(port)
        return port

    def stop_others(self):
        """Ends what second_apiserver() started."""
        for process in self._others:
            process.kill()
        self._others.clear()

    def start_scheduler(self):
        if self.scheduler and self.scheduler.running:
            return self.scheduler
        argv = [
            self.programs / "kube-scheduler",
            f"--kubeconfig={self.scheduler_kubeconfig}",
            f"--authentication-kubeconfig={self.scheduler_kubeconfig}",
            f"--authorization-kubeconfig={self.scheduler_kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            "--leader-elect=false",
            "--profiling=false",
        ]
        self.scheduler = Process("kube-scheduler", argv, self.folder / "kube-scheduler.log").start()
        return self.scheduler

    def stop_scheduler(self):
        if self.scheduler:
            self.scheduler.kill()

    # --- access ------------------------------------------------------------------------------------------------------

    def url(self, port=None):
        return f"https://127.0.0.1:{port or self.port}"

    def api(self, pair=None, token=None, timeout=30):
        """A client of the API server, as the administrator unless another identity is given. It is closed with the cluster."""
        api = Api(self.url(), self.ca, None if token else pair or self.admin_pair, token=token, timeout=timeout)
        self._apis.append(api)
        return api

    def kubeconfig(self, name, url=None, pair=None, ca=None, token_file=None):
        """Writes a kubeconfig file and returns its path. By default it is ccmd's identity at the API server."""
        user = {}
        if token_file:
            user["tokenFile"] = str(token_file)
        else:
            pair = pair or self.ccmd_pair
            user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": url or self.url(), "certificate-authority": str(ca or self.ca)},
                }
            ],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        path.chmod(0o600)
        return path

    def replica_kubeconfig(self, name, url=None):
        """An identity of its own with ccmd's rights, which a proxy or the audit log knows by its name."""
        return self.kubeconfig(name, url=url, pair=self.authority.client(name, name, [REPLICAS]))

    def kubectl(self, *arguments, input=None, check=True):
        """Runs kubectl as the administrator and returns its output."""
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.admin_kubeconfig}", *arguments]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def audit_entries(self):
        """What the API server logged so far; needs audit=True."""
        if not self.audit_log or not self.audit_log.exists():
            return []
        return [json.loads(line) for line in self.audit_log.read_text().splitlines() if line.endswith("}")]

    # --- how it is set up --------------------------------------------------------------------------------------------

    def _make_certificates(self):
        folder = self.folder / "pki"
        folder.mkdir(exist_ok=True)
        self.authority = Authority(folder)
        self.ca = self.authority.certificate
        self.server_pair = self.authority.server("apiserver", ("localhost", "127.0.0.1", "::1", "10.96.0.1"))
        self.admin_pair = self.authority.client("admin", "kubernetes-admin", ["system:masters"])
        self.scheduler_pair = self.authority.client("scheduler", "system:kube-scheduler")
        self.ccmd_pair = self.authority.client("ccmd", USER, USER_GROUPS)
        self.kubelet_client_pair = self.authority.client("kubelet-client", "kube-apiserver", ["system:masters"])
        self.service_account_pair = self.authority.key_only("sa")
        self.front_proxy_authority = Authority(folder, "front-proxy-ca")

    def _make_kubeconfigs(self):
        self.admin_kubeconfig = self.kubeconfig("admin", pair=self.admin_pair)
        self.ccmd_kubeconfig = self.kubeconfig("ccmd", pair=self.ccmd_pair)
        self.scheduler_kubeconfig = self.kubeconfig("scheduler", pair=self.scheduler_pair)

    def _etcd_command(self, peer_port):
        peer = f"http://127.0.0.1:{peer_port}"
        return [
            *PRIORITY, self.programs / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
        ]

    def _apiserver_process(self, name, port):
        log_flags = []
        if self.audit_log:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(AUDIT_POLICY)
            self.audit_log.touch()  # it is appended to, also by several API servers, only if it exists
            log_flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=10000"]
        argv = [
            *PRIORITY, self.programs / "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # an address of the loopback interface cannot be an endpoint
            f"--tls-cert-file={self.server_pair.certificate}",
            f"--tls-private-key-file={self.server_pair.key}",
            f"--client-ca-file={self.ca}",
            f"--kubelet-client-certificate={self.kubelet_client_pair.certificate}",
            f"--kubelet-client-key={self.kubelet_client_pair.key}",
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.service_account_pair.certificate}",
            f"--service-account-signing-key-file={self.service_account_pair.key}",
            "--requestheader-allowed-names=front-proxy-client",
            f"--requestheader-client-ca-file={self.front_proxy_authority.certificate}",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=ServiceAccount",  # no controller manager makes the default accounts
            "--enable-bootstrap-token-auth=true",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112",
            "--profiling=false",
            *log_flags,
            *self._apiserver_flags,
        ]
        return Process(name, argv, self.folder / f"{name}.log")

    def grant(self):
        """Applies the published manifest, with REPLICAS as one more subject."""
        # the API server makes its namespaces shortly after it says that it is ready
        api = self.api()
        for namespace in ("default", "kube-system", "kube-node-lease"):
            wait_for(lambda: api.get_or_none(f"/api/v1/namespaces/{namespace}"), what=f"namespace {namespace}")
        objects = copy.deepcopy(role.objects())
        for one in objects:
            if "subjects" in one:
                one["subjects"].append({"kind": "Group", "name": REPLICAS, "apiGroup": "rbac.authorization.k8s.io"})
        self.kubectl("apply", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))

    def restrict(self):
        """Applies the published policies of admission, for REPLICAS as well. They are in force a second later. Their names are
        not those of the chart's, which tests install."""
        objects = list(yaml.safe_load_all(role.POLICY_FILE.read_text().replace(": ccmd-", ": published-")))
        for one in objects:
            for condition in one["spec"].get("matchConditions", ()):
                condition["expression"] += f' || "{REPLICAS}" in request.userInfo.groups'
        self.kubectl("apply", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))


def main():
    """python3 -m lib.cluster: runs a control plane to try things on, until Ctrl-C."""
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION
    with Cluster(version) as cluster:
        print(f"ready after {cluster.started_in_s:.1f} s: export KUBECONFIG={cluster.admin_kubeconfig}", flush=True)
        try:
            cluster.apiserver.child.wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
