"""The guides of docs/install can be followed: their commands work, their files are accepted, and their networks fit together."""
import ipaddress
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from lib.helm import CHART, Helm, tool
from lib.nodes import is_initialized
from lib.process import REPOSITORY

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

INSTALL = REPOSITORY / "docs" / "install"
PAGES = [REPOSITORY / "README.md", *sorted(INSTALL.glob("*.md")), REPOSITORY / "docs" / "hcloud.md", REPOSITORY / "docs" / "helm.md"]
CLI = shutil.which("hcloud")


def commands(path, first):
    """The arguments of the commands of a page that begin with these words."""
    text = path.read_text().replace("\\\n", " ")
    return [shlex.split(arguments, comments=True) for arguments in re.findall(rf"^{first} (.*)$", text, re.M)]


def files(path):
    """The YAML files of a page, as lists of documents."""
    return [list(yaml.safe_load_all(text)) for text in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.M | re.S)]


def value(arguments, name):
    return next(one.partition("=")[2] for one in arguments if one.startswith(f"{name}="))


def helm_commands():
    for path in PAGES:
        for number, arguments in enumerate(commands(path, "helm install ccmd")):
            yield pytest.param(arguments, id=f"{path.stem}-{number}")


@pytest.mark.parametrize("arguments", helm_commands())
def test_the_chart_accepts_the_commands(pytestconfig, tmp_path, arguments):
    chart, *values = arguments
    assert REPOSITORY / chart == CHART, "what a clone has"
    rendered = Helm(tool(pytestconfig, "helm"), tmp_path).checked("template", "ccmd", CHART, *values)
    (deployment,) = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "Deployment"]
    assert deployment["metadata"]["namespace"] == "kube-system"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith(("localhost/ccmd:", "registry.example.com/ccmd:"))


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
