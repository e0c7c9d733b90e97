"""The pages can be followed: their commands are executed, their files are accepted, and their networks fit together."""
import ipaddress
import json
import os
import re
import shlex
import shutil
import subprocess

import jsonschema
import pytest
import yaml

from lib.ccmd import binary
from lib.cluster import programs_folder
from lib.helm import CHART, tool
from lib.nodes import is_initialized
from lib.process import REPOSITORY
from lib.wait import wait_for

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

INSTALL = REPOSITORY / "docs" / "install"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "SECURITY.md", CHART / "README.md", *sorted(INSTALL.glob("*.md")),
         *(REPOSITORY / "docs" / f"{name}.md" for name in ("getting-started", "helm", "operating", "plan", "status",
                                                      "upgrading", "walkthroughs"))]
CLI = shutil.which("hcloud")


# --- which test executes a command ---------------------------------------------------------------------------------------

HERE = object()  # test_the_commands_can_be_followed


def by(test):
    """Another test executes the command, or does the same."""
    return test


def cannot(why):
    """No test does."""
    return (why,)


NO_SYSTEMD = cannot("no systemd is process 1 here; test_packages.py does these steps in a Debian system")
NO_CONTAINERD = cannot("no containerd runs here; test_image.py reads the archive with skopeo and umoci, and runs it with runc")
IN_THE_POD = by("test_commands_in_the_container_need_no_flags")

# The first of these that a command begins with says how it is executed.
COMMANDS = {
    "./dev demo --cloud=hcloud --keep": by("test_the_page_is_true"),
    "./dev demo": by("test_a_clone_shows_the_demo_and_passes_the_unit_tests"),
    "./dev test": cannot("it is the run that this test is a part of"),
    "./dev image": by("test_a_source_archive_builds_the_image"),
    "./dev verify-release": by("test_a_release_is_rebuilt_and_compared"),
    "minisign -V": by("test_a_release_is_signed_and_the_same_from_two_folders"),
    "ctr ": NO_CONTAINERD,
    "k3s ctr ": NO_CONTAINERD,
    "skopeo copy ": by("test_a_release_is_copied_into_a_registry"),
    "kubectl -n kube-system create secret generic ": HERE,
    "helm install ccmd ": HERE,
    "helm install cilium ": cannot("https://helm.cilium.io is not reached from here; the networks are compared below"),
    "helm upgrade hccm ": by("test_a_release_of_hetzners_chart_is_upgraded_and_rolled_back"),
    "helm get values hccm ": by("test_a_release_of_hetzners_chart_is_upgraded_and_rolled_back"),
    "helm test ": by("test_helm_test_runs_the_doctor"),
    "hcloud network ": by("test_hetzners_client_takes_the_commands_of_the_kubeadm_guide"),
    "talosctl gen config ": cannot("no talosctl is here; Talos' schema accepts the patch"),
    "kubectl apply -f deploy/": HERE,
    "kubectl get nodes -o custom-columns": HERE,
    "kubectl -n kube-system logs -l ": HERE,
    "kubectl -n kube-system exec deploy/ccmd -- ": IN_THE_POD,
    "ccmd --dry-run ": by("test_the_dry_run_of_the_page"),
    "curl -k -X PUT -d 1 ": by("test_the_verbosity_is_changed_as_the_page_says"),
    **dict.fromkeys(["apt install ./ccmd_", "cp ", "chgrp ", "editor /etc/ccmd/", "echo 'CCMD_FLAGS", "systemctl "], NO_SYSTEMD),
}
# All commands of these pages are executed by one test.
FOLLOWED = {"getting-started": by("test_the_page_is_true"), "walkthroughs": by("test_a_node_stays_tainted")}


def commands_of(block, language):
    """The commands of a block without their comments; those of a console are behind "$ "."""
    lines = block.replace("\\\n", " ").splitlines()
    if language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [re.sub(r"\s+# .*", "", line) for line in lines if line and not line.startswith("#")]


def paragraphs():
    """(page, commands that belong together): blocks, which empty lines divide."""
    for page in PAGES:
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S):
            assert language in ("sh", "console", "yaml", "ini", "text"), f"{page}: what is this block?\n{block}"
            for part in block.split("\n\n") if language in ("sh", "console") else ():
                commands = commands_of(part, language)
                if commands:
                    yield page, commands


def how(page, command):
    known = [FOLLOWED[page.stem]] if page.stem in FOLLOWED else []
    known += [value for beginning, value in COMMANDS.items() if command.startswith(beginning)]
    assert known, f"{page}: execute this command in a test, or say in {__file__} why that cannot be: {command}"
    return known[0]


def test_each_command_is_executed_or_has_a_reason():
    tests = "".join(path.read_text() for path in (REPOSITORY / "tests" / "scenario").glob("test_*.py"))
    commands = [(page, one) for page, part in paragraphs() for one in part]
    for page, command in commands:
        one = how(page, command)
        assert not isinstance(one, str) or f"def {one}(" in tests, f"there is no test {one}"
    unused = [beginning for beginning in COMMANDS if not any(command.startswith(beginning) for _, command in commands)]
    assert not unused, f"no page has these commands any more: {unused}"


def followed_here():
    for number, (page, part) in enumerate(paragraphs()):
        mine = [command for command in part if how(page, command) is HERE]
        if mine:
            yield pytest.param(page, mine, id=f"{page.parent.name}-{page.stem}-{number}")


@pytest.fixture
def shell(pytestconfig, cluster, api, tmp_path):
    """shell(commands): bash with kubectl and helm for the cluster, in a clone. The cluster has no account or role of ccmd."""
    folder = tmp_path / "clone"
    (folder / "bin").mkdir(parents=True)
    for name, program in {"kubectl": programs_folder() / "kubectl", "helm": tool(pytestconfig, "helm")}.items():
        (folder / "bin" / name).symlink_to(program)
    for name in ("charts", "deploy", "examples"):
        (folder / name).symlink_to(REPOSITORY / name)
    machines, = files(INSTALL / "bare-metal.md")[0]
    (folder / "inventory.yaml").write_text(yaml.safe_dump(machines))
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "KUBECONFIG": str(cluster.admin_kubeconfig),
                   "HCLOUD_TOKEN": "token", "SECRET": "secret"}

    def run(commands, where=folder):
        done = subprocess.run(["bash", "-euc", "\n".join(commands)], capture_output=True, text=True, timeout=120,
                              cwd=where, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cluster.kubectl("delete", "-f", str(REPOSITORY / "deploy" / "rbac.yaml"))
    try:
        yield run
    finally:
        run(["helm uninstall ccmd --namespace kube-system --ignore-not-found"])
        run(["kubectl -n kube-system delete secret,deployment,poddisruptionbudget --all"])
        cluster.grant()


@pytest.mark.parametrize("page, commands", followed_here())
def test_the_commands_can_be_followed(shell, api, page, commands):
    shell(commands, *([CHART] if page.parent == CHART else []))
    secrets = [one["metadata"]["name"] for one in api.list("/api/v1/namespaces/kube-system/secrets") if one["type"] == "Opaque"]
    if any("create secret" in one for one in commands):
        assert len(secrets) == 1
    if any(one.startswith("helm install") or "deploy/" in one for one in commands):
        (workload,) = api.list("/apis/apps/v1/namespaces/kube-system/deployments")
        spec = workload["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["image"].startswith(("localhost/ccmd:", "registry.example.com/ccmd:", "registry.invalid/ccmd:"))
        names = {one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        assert not secrets or names == set(secrets), "the workload mounts the Secret that the page creates"


def only(page, beginning):
    """The one command of a page that begins so."""
    (found,) = [one for other, part in paragraphs() for one in part if other.stem == page and one.startswith(beginning)]
    return found


@pytest.mark.needs_binary
def test_the_dry_run_of_the_page(cluster, api, cloud, kubelet, tmp_path):
    cloud.add_server("n1")
    kubelet("n1", ip="10.0.0.1")
    shutil.copy(cluster.ccmd_kubeconfig, tmp_path / "ccmd.kubeconfig")
    program, *flags = shlex.split(only("plan", "ccmd --dry-run"))
    with open(tmp_path / "log", "w+", encoding="utf-8") as log:
        child = subprocess.Popen([binary(), *flags], cwd=tmp_path, stderr=log, env={
            "PATH": os.environ["PATH"], "HCLOUD_TOKEN": cloud.token, "HCLOUD_ENDPOINT": cloud.url, "HCLOUD_METRICS_ENABLED": "false"})
        try:
            wait_for(lambda: 'would change what=node name=n1 request="PATCH' in (tmp_path / "log").read_text(), what="the change")
        finally:
            child.terminate()
            child.wait(30)
    assert not is_initialized(api.node("n1"))


def test_the_verbosity_is_changed_as_the_page_says(cluster, api, served):
    _, administrator, _ = served()
    cluster.kubectl("create", "serviceaccount", "verbosity")
    cluster.kubectl("create", "clusterrolebinding", "verbosity", "--clusterrole=cluster-admin", "--serviceaccount=default:verbosity")
    try:
        token = cluster.kubectl("create", "token", "verbosity").strip()
        command = only("operating", "curl -k -X PUT").replace(":10258", f":{administrator.port}")
        done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "TOKEN": token})
        assert done.returncode == 0 and "successfully set" in done.stdout, done.stdout + done.stderr
    finally:
        cluster.kubectl("delete", "serviceaccount/verbosity", "clusterrolebinding/verbosity")


# --- the files -----------------------------------------------------------------------------------------------------------


def commands(path, first):
    """The arguments of the commands of a page that begin with these words."""
    text = path.read_text().replace("\\\n", " ")
    return [shlex.split(arguments, comments=True) for arguments in re.findall(rf"^{first} (.*)$", text, re.M)]


def files(path):
    """The YAML files of a page, as lists of documents."""
    return [list(yaml.safe_load_all(text)) for text in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.M | re.S)]


def value(arguments, name):
    return next(one.partition("=")[2] for one in arguments if one.startswith(f"{name}="))


def test_the_networks_of_the_kubeadm_guide_fit_together():
    """Servers send packets to pods into the private network only if the pods' network is within its range."""
    guide = INSTALL / "hetzner-kubeadm.md"
    network = ipaddress.ip_network
    (create,), (add_subnet,) = commands(guide, "hcloud network create"), commands(guide, "hcloud network add-subnet")
    whole, subnet = network(value(create, "--ip-range")), network(value(add_subnet, "--ip-range"))
    (init, cluster), (join,) = files(guide)
    pods = network(cluster["networking"]["podSubnet"])
    assert subnet.subnet_of(whole) and pods.subnet_of(whole) and not pods.overlaps(subnet)
    assert not pods.overlaps(network("10.96.0.0/12")), "kubeadm's default for Services"
    (ccmd,), (cilium,) = commands(guide, "helm install ccmd"), commands(guide, "helm install cilium")
    assert network(value(ccmd, "networking.clusterCIDR")) == network(value(cilium, "ipv4NativeRoutingCIDR")) == pods
    assert value(cilium, "ipam.mode") == "kubernetes"

    def node_ip(configuration):
        return value([f"{one['name']}={one['value']}" for one in configuration["nodeRegistration"]["kubeletExtraArgs"]], "node-ip")

    server = init["localAPIEndpoint"]["advertiseAddress"]
    assert server == node_ip(init) and join["discovery"]["bootstrapToken"]["apiServerEndpoint"] == f"{server}:6443"
    assert all(ipaddress.ip_address(one) in subnet for one in (server, node_ip(join)))


@pytest.mark.slow
def test_kubeadm_accepts_the_files_of_its_guide(tmp_path):
    kubeadm = programs_folder(names=["kubeadm"]) / "kubeadm"
    version = subprocess.run([kubeadm, "version", "-o", "short"], capture_output=True, text=True, check=True).stdout.strip()
    for number, documents in enumerate(files(INSTALL / "hetzner-kubeadm.md")):
        path = tmp_path / f"{number}.yaml"
        for one in documents:
            if one["kind"] == "ClusterConfiguration":
                one.setdefault("kubernetesVersion", version)  # or kubeadm asks the Internet for the newest one
        path.write_text(yaml.safe_dump_all(documents, allow_unicode=True).replace("sha256:…", "sha256:" + "0" * 64))
        done = subprocess.run([kubeadm, "config", "validate", f"--config={path}"], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


# Flags of k3s, which are the keys of its file as well (k3s, pkg/cli/cmds/server.go and agent.go), and which RKE2 has too, with
# the types of their values. Neither program has a schema, and the Go module proxy has neither.
K3S = {"disable-cloud-controller": bool, "disable": list, "kubelet-arg": list, "node-ip": str, "flannel-iface": str}
RKE2 = {name: kind for name, kind in K3S.items() if name != "flannel-iface"}  # its CNI has a configuration of its own


@pytest.mark.parametrize("page, known", [("hetzner-k3s", K3S), ("hetzner-rke2", RKE2)])
def test_the_files_of_k3s_and_rke2_have_known_keys(page, known):
    for documents in files(INSTALL / f"{page}.md"):
        for one in documents:
            if "kind" not in one:
                assert all(isinstance(one[key], known[key]) for key in one), one


@pytest.mark.slow
def test_the_api_server_accepts_the_configuration_of_canal(pytestconfig, cluster):
    crds = f"{tool(pytestconfig, 'k3s-helm-controller')}/pkg/crds/yaml/generated/helm.cattle.io_helmchartconfigs.yaml"
    cluster.kubectl("apply", "--server-side", "-f", crds)
    try:
        cluster.kubectl("wait", "--for=condition=Established", "crd/helmchartconfigs.helm.cattle.io")
        (config,) = [one for documents in files(INSTALL / "hetzner-rke2.md") for one in documents if "kind" in one]
        cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(config))
    finally:
        cluster.kubectl("delete", "--wait=false", "-f", crds)


@pytest.mark.slow
def test_the_schema_of_talos_accepts_the_patch(pytestconfig):
    schema = json.loads(open(f"{tool(pytestconfig, 'talos-machinery')}/config/schemas/config.schema.json", encoding="utf-8").read())
    ((patch,),) = files(INSTALL / "hetzner-talos.md")
    one = {**schema, "oneOf": None, "$ref": "#/$defs/v1alpha1.Config"}
    del one["oneOf"]
    jsonschema.validate(patch, one)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**patch, "clusters": {}}, one)


@pytest.mark.skipif(not CLI, reason="the command line client hcloud is not installed")
def test_hetzners_client_takes_the_commands_of_the_kubeadm_guide(cloud, tmp_path):
    for line in re.findall(r"^hcloud .*$", (INSTALL / "hetzner-kubeadm.md").read_text(), re.M):
        done = subprocess.run([CLI, *shlex.split(line)[1:]], capture_output=True, text=True, cwd=tmp_path, timeout=60, env={
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "HCLOUD_TOKEN": cloud.token, "HCLOUD_ENDPOINT": cloud.url})
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    (network,) = cloud.project.networks.values()
    assert (network.name, str(network.ip_range)) == ("kubernetes", "10.0.0.0/8")


@pytest.mark.needs_binary
def test_the_inventory_of_the_bare_metal_guide(api, kubelet, ccmd, tmp_path):
    (machines,), (pools,) = files(INSTALL / "bare-metal.md")
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump({**machines, **pools}))
    for one in machines["machines"]:
        kubelet(one["name"], ip=one["addresses"][0]["address"])
    ccmd(inventory=path)
    for one in machines["machines"]:
        api.wait_node(one["name"], is_initialized)


# --- the man page --------------------------------------------------------------------------------------------------------


def test_the_man_page_names_each_variable_of_the_clouds():
    names = {name for path in (REPOSITORY / "src" / "providers").rglob("*.c")
             for name in re.findall(r'"((?:HCLOUD|ROBOT|BRIGHTBOX)_[A-Z0-9_]+)"', path.read_text())}
    text = (REPOSITORY / "docs" / "ccmd.8").read_text()
    variables = set(re.findall(r"\b(?:HCLOUD|ROBOT|BRIGHTBOX)_[A-Z0-9_]+\b", text))
    assert variables == names
