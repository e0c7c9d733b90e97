"""ccmd's credentials for the API server, from files and plugins and through proxies, and their replacement while it runs."""
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from lib.api import NODES
from lib.ccmd import Ccmd, Inventory, machine, run_ccmd
from lib.certs import Authority
from lib.cluster import REPLICAS, USER, USER_GROUPS, Cluster
from lib.nodes import Kubelet, is_initialized
from lib.socks import SocksProxy
from lib.wait import PATIENCE_S, wait_for

pytestmark = pytest.mark.needs_binary

ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/ccmd"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
CREDENTIAL = "client.authentication.k8s.io/v1"


def token(api, until=None):
    """A token of ccmd's service account, which is valid as long as the Secret named until exists."""
    spec = {"expirationSeconds": 3600}
    if until:
        api.post(SECRETS, {"metadata": {"name": until}})
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": until}
    return api.post(f"{ACCOUNT}/token", {"spec": spec})["status"]["token"]


def revoke(cluster, api, text, until):
    """Returns when the API server refuses the token; it remembers for 10 s that a token is good."""
    api.delete(f"{SECRETS}/{until}")
    with_it = cluster.api(token=text)
    wait_for(lambda: with_it.request("GET", "/version/").status in (401, 403)
             and with_it.request("GET", "/api/v1/nodes").status == 401, what="the token to be refused")


def kubeconfig(folder, server, ca, user, **cluster):
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, "certificate-authority": str(ca), **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def pair_user(pair, **more):
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key), **more}


def plugin_user(folder, script):
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
    path.chmod(0o755)
    return {"exec": {"command": str(path), "apiVersion": CREDENTIAL, "interactiveMode": "Never"}}


def write_answer(folder, **status):
    answer = {"kind": "ExecCredential", "apiVersion": CREDENTIAL, "status": status}
    (folder / "answer.new").write_text(json.dumps(answer))
    (folder / "answer.new").replace(folder / "answer")


def initialized(api, name, timeout=PATIENCE_S):
    return api.wait_node(name, is_initialized, timeout, f"{name} to be initialised")


@pytest.fixture
def machines(inventory):
    inventory.add(*(machine(f"n{i}", f"10.0.0.{i}") for i in range(1, 9)))


# --- tokens --------------------------------------------------------------------------------------------------------------


@pytest.mark.plain
def test_a_token_that_the_kubelet_renews(cluster, api, machines, kubelet, ccmd, tmp_path):
    first, second = token(api, until="first"), token(api)
    (tmp_path / "first").write_text(first)
    (tmp_path / "second").write_text(second)
    link = tmp_path / "token"
    link.symlink_to("first")
    ccmd(kubeconfig=kubeconfig(tmp_path, cluster.url(), cluster.ca, {"tokenFile": "token"}))
    kubelet("n1")
    initialized(api, "n1")
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(link)
    revoke(cluster, api, first, until="first")
    kubelet("n2")
    initialized(api, "n2", timeout=20)  # a 401 has it read again; else that would take up to 50 s


def test_a_plugin_gives_tokens(cluster, api, machines, kubelet, ccmd, tmp_path):
    first, second = token(api, until="first"), token(api)
    write_answer(tmp_path, token=first)
    user = plugin_user(tmp_path, "echo run >>runs; cat answer")
    ccmd(kubeconfig=kubeconfig(tmp_path, cluster.url(), cluster.ca, user))
    kubelet("n1")
    initialized(api, "n1")
    assert (tmp_path / "runs").read_text() == "run\n", "one run is enough for all"
    write_answer(tmp_path, token=second)
    revoke(cluster, api, first, until="first")
    kubelet("n2")
    initialized(api, "n2", timeout=20)
    assert (tmp_path / "runs").read_text() == "run\n" * 2


def test_a_plugin_is_run_again_before_its_token_expires(cluster, api, machines, kubelet, ccmd, tmp_path):
    good = token(api)
    script = f"""echo run >>runs; end=$(date -u -d '+12 seconds' +%Y-%m-%dT%H:%M:%SZ)
echo '{{"kind":"ExecCredential","apiVersion":"{CREDENTIAL}","status":{{"token":"{good}","expirationTimestamp":"'$end'"}}}}'"""
    ccmd(kubeconfig=kubeconfig(tmp_path, cluster.url(), cluster.ca, plugin_user(tmp_path, script)))
    kubelet("n1")
    initialized(api, "n1")
    time.sleep(2.1)  # ten seconds before its end it is old
    kubelet("n2")
    initialized(api, "n2")
    assert (tmp_path / "runs").read_text().count("run") >= 2


def test_a_plugin_gives_a_certificate(cluster, api, machines, kubelet, ccmd, tmp_path):
    pair = cluster.ccmd_pair
    write_answer(tmp_path, clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text())
    ccmd(kubeconfig=kubeconfig(tmp_path, cluster.url(), cluster.ca, plugin_user(tmp_path, "cat answer")))
    kubelet("n1")
    initialized(api, "n1")


def test_a_plugin_that_fails(cluster, inventory, tmp_path):
    """It is run again until the start gives up, after 10 s. All plugins are tried at the same time."""
    plugins = {
        "exec sleep 100": "has not ended in time", "exit 3": "exit code 3", "echo '{}'": "its kind is not ExecCredential",
        "head -c 5242880 /dev/zero": "wrote more than 1048576 bytes",
    }

    def start(number, script):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = kubeconfig(folder, cluster.url(), cluster.ca, plugin_user(folder, script))
        return folder, run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}", f"--kubeconfig={path}",
                                "--leader-elect=false", "--secure-port=0", timeout=30)

    with ThreadPoolExecutor() as pool:
        for (folder, done), problem in zip(pool.map(start, range(len(plugins)), plugins), plugins.values()):
            assert done.returncode == 1 and problem in done.stderr and f"{folder}/plugin" in done.stderr, done.stderr


# --- the way there -------------------------------------------------------------------------------------------------------


def test_through_a_socks_proxy(cluster, api, machines, kubelet, ccmd, tmp_path):
    with SocksProxy() as proxy:
        ccmd(kubeconfig=kubeconfig(tmp_path, f"https://localhost:{cluster.port}", cluster.ca,
                                   pair_user(cluster.ccmd_pair), **{"proxy-url": proxy.url}))
        kubelet("n1")
        initialized(api, "n1")
        assert set(proxy.asked) == {("localhost", cluster.port)}, "names are the proxy's to resolve"


def test_another_authority_is_reported_immediately(cluster, inventory, tmp_path):
    other = Authority(tmp_path, "other")
    path = kubeconfig(tmp_path, cluster.url(), other.certificate, pair_user(cluster.ccmd_pair))
    begun = time.monotonic()
    done = run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}", f"--kubeconfig={path}",
                    "--leader-elect=false", "--secure-port=0")
    assert done.returncode == 1 and time.monotonic() - begun < 8
    assert "the API server's certificate cannot be verified" in done.stderr and cluster.url() in done.stderr


# --- with an audit log, and a control plane that may be changed ----------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    with Cluster(folder=tmp_path_factory.mktemp("cluster"), audit=True) as cluster:
        yield cluster


@pytest.fixture
def rig(audited, tmp_path):
    """ccmd at the audited cluster, see Rig. The log is that of all tests: each names nodes of its own."""
    with Rig(audited, tmp_path) as rig:
        yield rig


class Rig:
    """start(user) runs ccmd with these credentials; register(NAME) waits until that node is initialised."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.api = cluster.api()
        self.api.delete(NODES)
        self.inventory = Inventory(folder / "inventory.yaml", [machine(f"n{i}", f"10.0.0.{i}") for i in range(1, 9)])
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(cluster.ca.read_bytes())
        self.ccmd = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.ccmd:
            self.ccmd.finish(check=kind is None)

    def start(self, user, **options):
        path = kubeconfig(self.folder, self.cluster.url(), self.ca, user)
        self.ccmd = Ccmd(self.folder, path, self.inventory, **options).start()
        return self.ccmd

    def register(self, name, timeout=PATIENCE_S):
        Kubelet(self.api, name, ip=f"10.0.0.{name[1:]}").register()
        initialized(self.api, name, timeout)

    def writers(self, node):
        """Who changed the node without being its kubelet: the audit log's user, or the one acted as."""
        found = set()
        for entry in self.cluster.audit_entries():
            about = entry.get("objectRef", {})
            if entry["verb"] == "patch" and about.get("resource") == "nodes" and about.get("name") == node:
                found.add((entry["user"]["username"], entry.get("impersonatedUser", {}).get("username")))
        return found


@pytest.mark.xdist_group("audited")
@pytest.mark.one_version
def test_acting_as_another_user(rig):
    rig.start(pair_user(rig.cluster.admin_pair, **{"as": USER, "as-groups": USER_GROUPS}))
    rig.register("n1")
    assert wait_for(lambda: rig.writers("n1"), what="the audit log") == {("kubernetes-admin", USER)}


@pytest.mark.xdist_group("audited")
@pytest.mark.one_version
def test_controllers_act_as_service_accounts(rig):
    rig.start(pair_user(rig.cluster.admin_pair), use_service_account_credentials=True)
    rig.register("n2")
    rig.api.get("/api/v1/namespaces/kube-system/serviceaccounts/node-controller")
    assert wait_for(lambda: rig.writers("n2"), what="the audit log") == {
        ("system:serviceaccount:kube-system:node-controller", None)
    }
    agents = {one["userAgent"] for one in rig.cluster.audit_entries()
              if one["user"]["username"].endswith(":node-controller")}
    assert all(one.endswith("/system:serviceaccount:kube-system:node-controller") for one in agents)


@pytest.mark.xdist_group("audited")
@pytest.mark.slow
@pytest.mark.one_version
def test_a_client_certificate_that_is_renewed(rig):
    """In the end only the new name has rights. ccmd is not restarted, and no node is missed."""
    authority = rig.cluster.authority
    pairs = {name: authority.client(f"renewed-{name}", name, [group]) for name, group in
             (("old-name", "old-group"), ("new-name", REPLICAS))}
    role = rig.api.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:ccmd:ccmd")
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    rig.api.post(binding, {
        "metadata": {"name": "old"}, "roleRef": role["roleRef"],
        "subjects": [{"kind": "Group", "name": "old-group", "apiGroup": "rbac.authorization.k8s.io"}],
    })
    mine = [rig.folder / "client.crt", rig.folder / "client.key"]

    def write(pair):
        for source, target in zip((pair.certificate, pair.key), mine):
            new = target.with_suffix(".new")
            new.write_bytes(Path(source).read_bytes())
            new.replace(target)

    write(pairs["old-name"])
    ccmd = rig.start({"client-certificate": str(mine[0]), "client-key": str(mine[1])})
    rig.register("n3")
    write(pairs["new-name"])
    time.sleep(60)  # files are looked at once a minute, when there is something to send
    rig.register("n4")
    ccmd.wait_log("client certificate replaced")
    rig.api.delete(f"{binding}/old")
    rig.register("n5")
    assert wait_for(lambda: rig.writers("n5"), what="the audit log") == {("new-name", None)}


@pytest.mark.xdist_group("audited")
@pytest.mark.one_version
@pytest.mark.plain
def test_authorities_that_are_replaced(rig):
    """The bundle has both for a while; then the API server's certificate is the new one's."""
    cluster = rig.cluster
    newer = Authority(rig.folder, "newer")
    ccmd = rig.start(pair_user(cluster.ccmd_pair))
    rig.register("n6")
    both = cluster.ca.read_bytes() + newer.certificate.read_bytes()
    pair = newer.server("apiserver")
    old = {path: path.read_bytes() for path in (cluster.ca, cluster.server_pair.certificate, cluster.server_pair.key)}
    try:
        cluster.ca.write_bytes(both)
        cluster.server_pair.certificate.write_bytes(pair.certificate.read_bytes())
        cluster.server_pair.key.write_bytes(pair.key.read_bytes())
        rig.ca.write_bytes(both)
        cluster.restart_apiserver()
        rig.api = cluster.api()
        rig.register("n7", timeout=20)  # a failed handshake has the files read again; else that would take up to a minute
        ccmd.wait_log("certificate authorities of the API server read again")
        rig.ca.write_bytes(b"")  # and a bundle that is lost changes nothing
        rig.register("n8")
    finally:
        for path, content in old.items():
            path.write_bytes(content)
        cluster.restart_apiserver()
