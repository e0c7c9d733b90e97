"""What ccmd doctor prints as a fix works: beside a running controller each fault is provoked, the printed command is run, and
then nothing is wrong."""
import os
import re
import subprocess

import pytest

from lib.api import NODES, STRATEGIC
from lib.ccmd import machine
from lib.nodes import is_initialized
from lib.operator import doctor, doctor_beside, flags_of
from lib.process import REPOSITORY
from lib.wait import wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

CHECKS = REPOSITORY / "docs" / "reference" / "checks.md"
PREFIX = "load-balancer.hetzner.cloud/"
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"


class World:
    """A cluster with the initialised node n1, and a controller. look() is what doctor says with its flags."""

    def __init__(self, get):
        self.get = get
        self.cluster, self.api, self.kubelet = get("cluster"), get("api"), get("kubelet")
        self.inventory = self.cloud = self.services = None
        self.at_end = []  # paths of objects to delete

    def at_hetzner(self, *flags):
        self.cloud, self.services = self.get("cloud"), self.get("services")
        self.cloud.add_server("n1")
        self.kubelet("n1")
        self.controller = one = self.get("hetzner")("--cluster-name=mine", *flags, env={"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"})
        return self.ready(lambda: doctor_beside(one))

    def at_home(self, *flags, kubeconfig=None):
        """On the machines of an inventory. kubeconfig: of doctor."""
        self.inventory = self.get("inventory")
        self.add_machine("n1", "10.0.0.1")
        self.controller = one = self.get("ccmd")(*flags)
        self.kubelet("n1", ip="10.0.0.1")
        if kubeconfig:
            return self.ready(lambda: doctor(*flags_of(kubeconfig, self.inventory, *flags)))
        return self.ready(lambda: doctor_beside(one))

    def ready(self, look):
        self.look = look
        self.api.wait_node("n1", is_initialized)
        return self

    def add_machine(self, name, ip):
        self.inventory.add(machine(name, ip, zone="z1", region="r1", type="t1"))

    def add_node(self, name, ip, **fields):
        self.add_machine(name, ip)
        self.kubelet(name, ip=ip, **fields)
        self.api.wait_node(name, is_initialized)

    def create_service(self, *ports):
        """Returns its balancer."""
        self.services.create("web", *ports)
        self.services.wait_ips("web")
        wait_for(lambda: self.look().exit_code == 0, what="a healthy cluster")
        with self.cloud.lock:
            (lb,) = self.cloud.project.load_balancers.values()
        return lb


@pytest.fixture
def world(cluster, request):
    one = World(request.getfixturevalue)
    yield one
    for path in one.at_end:
        one.api.delete(path)


# --- commands that can be run as they are ------------------------------------------------------------------------------------


def a_lost_right(world):
    world.at_home(kubeconfig=world.cluster.admin_kubeconfig).controller.stop()  # it has its rights from elsewhere
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:ccmd"
    rules = world.api.get(path)["rules"]
    world.api.patch(path, {"rules": [one for one in rules if one.get("resources") != ["services/status"]]})


def a_resized_machine(world):
    """The controller sets a label to the value of its beta name, so it would undo a change of the label alone."""
    world.at_home()
    world.inventory.set("n1", zone="z2", region="r2", type="t2")


def a_node_that_is_never_deleted(world):
    world.at_home("--controllers=*,-cloud-node-lifecycle-controller", "--node-delete-min-age=0s")
    world.add_node("n2", "10.0.0.2", ready="Unknown")
    world.inventory.remove("n2")


def misspelt_annotations(world):
    world.at_hetzner()
    world.services.create("web", annotations={f"{PREFIX}locaton": "fsn1", f"{PREFIX}nothing-like-it": "x"})
    world.services.create("shop", annotations={f"{PREFIX}typ": "lb21", f"{PREFIX}type": "lb11"})


def an_unknown_location(world):
    world.at_hetzner()
    world.services.create("web", annotations={f"{PREFIX}location": "fns1"})


def a_lost_target(world):
    lb = world.at_hetzner().create_service()
    with world.cloud.lock:
        lb.targets.clear()


def a_key_that_all_can_read(world):
    folder = world.get("tmp_path") / "keys"
    folder.mkdir()
    world.at_home(f"--cert-dir={folder}")
    (folder / "cloud-controller-manager.key").touch(mode=0o644)


# Each with the checks that find something as well.
FAULTS = {
    "CCMD010": (a_lost_right, set()),
    "CCMD046": (a_resized_machine, set()),
    "CCMD049": (a_node_that_is_never_deleted, {"CCMD044"}),
    "CCMD062": (misspelt_annotations, set()),
    "CCMD063": (an_unknown_location, set()),
    "CCMD066": (a_lost_target, set()),
    "CCMD081": (a_key_that_all_can_read, set()),
}


def checks_with_commands():
    return re.findall(r"^\| \[(CCMD\d+)\].*\| by the command, or by hand \|$", CHECKS.read_text(), re.MULTILINE)


@pytest.fixture
def run(cluster):
    """run("kubectl …"): as the administrator, in a copy of the repository."""
    env = {**os.environ, "KUBECONFIG": str(cluster.admin_kubeconfig), "PATH": f"{cluster.programs}:{os.environ['PATH']}"}

    def run_command(command):
        done = subprocess.run(["bash", "-c", command], env=env, cwd=REPOSITORY, timeout=60, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"

    yield run_command
    cluster.grant()


def findings(world):
    report = world.look()
    return [(code, report.found(code)) for code in report.codes() | report.codes("unknown")]


def wait_found(world, *codes):
    """What doctor says when these checks, and no others, have a finding."""
    return wait_for(lambda: one if (one := world.look()).codes() == set(codes) else None, what=f"findings of {codes}",
                    seen=lambda: findings(world))


def wait_healthy(world):
    wait_for(lambda: world.look().exit_code == 0, what="nothing to be wrong", seen=lambda: findings(world))


@pytest.mark.parametrize("code", checks_with_commands())
def test_the_printed_command(world, run, code):
    provoke, others = FAULTS[code]
    provoke(world)
    report = wait_found(world, code, *others)
    for finding in report.checks[code]["findings"]:
        assert finding["fixIsCommand"], finding
        run(finding["fix"])
    wait_healthy(world)


# --- commands for a person, who has looked at the rest of the text -------------------------------------------------------------


def another_controller(world):
    world.at_home(kubeconfig=world.cluster.admin_kubeconfig)
    labels = {"app": "ccm"}
    container = {"name": "main", "image": "docker.io/hetznercloud/hcloud-cloud-controller-manager:v1.26.0"}
    world.api.post(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ccm"}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})


def a_kubelet_without_the_cloud_provider(world):
    world.at_home()
    world.add_machine("n2", "10.0.0.2")
    world.kubelet("n2", ip="10.0.0.2", initialized=True)


def a_machine_that_is_gone(world):
    """Its kubelet goes on to report, so ccmd does not delete the node."""
    world.at_home()
    world.add_node("n2", "10.0.0.2")
    world.inventory.remove("n2")


def a_kubelet_that_still_reports(world):
    world.at_home("--node-delete-min-age=0s")
    world.add_node("n2", "10.0.0.2", ready="False", lease=True)
    world.inventory.remove("n2")


def a_condition_that_nobody_clears(world):
    world.at_home()
    condition = {"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"}
    world.api.patch(f"{NODES}/n1/status", {"status": {"conditions": [condition]}}, content_type=STRATEGIC)


def a_balancer_that_was_deleted(world):
    world.at_hetzner().create_service()
    with world.cloud.lock:
        world.cloud.project.load_balancers.clear()


def a_port_that_was_changed(world):
    lb = world.at_hetzner().create_service(80)
    with world.cloud.lock:
        lb.services[0]["destination_port"] = 1


FOR_A_PERSON = {
    "CCMD024": (another_controller, set()),
    "CCMD040": (a_kubelet_without_the_cloud_provider, set()),
    "CCMD044": (a_machine_that_is_gone, set()),
    "CCMD049": (a_kubelet_that_still_reports, {"CCMD044"}),
    "CCMD054": (a_condition_that_nobody_clears, set()),
    "CCMD064": (a_balancer_that_was_deleted, set()),
    "CCMD066": (a_port_that_was_changed, set()),
}


@pytest.mark.parametrize("code", FOR_A_PERSON)
def test_a_command_that_a_person_decides_about(world, run, code):
    provoke, others = FOR_A_PERSON[code]
    provoke(world)
    report = wait_found(world, code, *others)
    (finding,) = report.checks[code]["findings"]
    assert not finding["fixIsCommand"], finding
    run(finding["fix"][finding["fix"].index("kubectl "):])
    wait_healthy(world)


# --- what a person does, without a command ---------------------------------------------------------------------------------------


def deploy(world, spec=(), **pod):
    """A Deployment of ccmd beside the controller. Returns its path."""
    labels = {"app.kubernetes.io/name": "ccmd"}
    container = {"name": "ccmd", "image": "registry.example/ccmd:1.2.3", "args": ["--cloud-provider=cloudlycke", *pod.pop("args", [])]}
    world.api.post(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ccmd", "labels": labels}, "spec": {
        **dict(spec), "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}}})
    world.at_end.append(f"{DEPLOYMENTS}/ccmd")
    return f"{DEPLOYMENTS}/ccmd"


def pods_without_the_toleration(world):
    world.at_home(kubeconfig=world.cluster.admin_kubeconfig)
    path = deploy(world)
    tolerations = [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists"}]
    return lambda: world.api.patch(path, {"spec": {"template": {"spec": {"tolerations": tolerations}}}})


def replicas_without_an_election(world):
    world.at_home(kubeconfig=world.cluster.admin_kubeconfig)
    path = deploy(world, {"replicas": 2}, args=["--leader-elect=false"], tolerations=[{"operator": "Exists"}])
    container = {"name": "ccmd", "args": ["--cloud-provider=cloudlycke"]}
    return lambda: world.api.patch(path, {"spec": {"template": {"spec": {"containers": [container]}}}}, content_type=STRATEGIC)


def a_node_without_a_pod_cidr(world):
    inventory = world.get("inventory")
    inventory.content["routes"] = {"hook": "/bin/true"}
    inventory.content["state"] = {"file": str(world.get("tmp_path") / "state")}
    world.at_home("--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true")
    cidr = "10.244.1.0/24"
    return lambda: world.api.patch(f"{NODES}/n1", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})


def a_port_of_udp(world):
    world.at_hetzner()
    world.services.create("web", 53, (53, "UDP"))
    world.services.wait_ips("web")
    port, = [one for one in world.services.get("web")["spec"]["ports"] if one["protocol"] == "TCP"]
    return lambda: world.services.patch("web", {"spec": {"ports": [port]}})


def a_variable_with_a_mistake_in_its_name(world):
    world.at_hetzner()
    environment = world.controller.process.env
    environment["HCLOUD_LOAD_BALANCERS_LOCATON"] = "fsn1"
    return lambda: environment.pop("HCLOUD_LOAD_BALANCERS_LOCATON")


# Each returns what does as the fix says.
BY_HAND = {
    "CCMD026": pods_without_the_toleration,
    "CCMD028": replicas_without_an_election,
    "CCMD053": a_node_without_a_pod_cidr,
    "CCMD070": a_port_of_udp,
    "CCMD082": a_variable_with_a_mistake_in_its_name,
}


@pytest.mark.parametrize("code", BY_HAND)
def test_what_the_fix_says_is_done(world, code):
    put_right = BY_HAND[code](world)
    report = wait_found(world, code)
    assert all(one["fix"] and not one["fixIsCommand"] for one in report.checks[code]["findings"])
    put_right()
    wait_healthy(world)


A_PERSON_DECIDES = {
    "the machine, its clock, the network, the API server or the cloud has to change, and not an object of the cluster":
        "CCMD001 CCMD002 CCMD003 CCMD005 CCMD027 CCMD035 CCMD052 CCMD068",
    "credentials come from where they are issued": "CCMD004 CCMD030 CCMD031 CCMD033",
    "which of two programs is to work": "CCMD020 CCMD021 CCMD022 CCMD023 CCMD025 CCMD032 CCMD071",
    "which name, address or setting is right": "CCMD034 CCMD041 CCMD042 CCMD043 CCMD045 CCMD047 CCMD048 CCMD061 CCMD067",
    "whether something may be deleted in the cloud": "CCMD051 CCMD065",
    "the leader does it by itself when the cloud permits it": "CCMD050 CCMD060",
    "the pods of the Service have to run, or its selector is wrong": "CCMD069",
    "it is a note, and the exit code is 0 with it": "CCMD080 CCMD083",
}


def test_each_check_is_put_right_or_left_to_a_person():
    codes = re.findall(r"^\| \[(CCMD\d+)\]", CHECKS.read_text(), re.MULTILINE)
    left = " ".join(A_PERSON_DECIDES.values()).split()
    assert len(codes) > 40 and set(left).isdisjoint(run_here := {*FAULTS, *FOR_A_PERSON, *BY_HAND})
    assert sorted(left + list(run_here)) == sorted(codes)


def test_a_right_that_the_published_role_does_not_grant(cluster, world):
    """No command is printed for another account, or another Lease."""
    flags = {"--as-service-account=kube-system/other": None, "--leader-elect-resource-name=other": "leases"}
    world.at_home(kubeconfig=cluster.admin_kubeconfig)
    for flag, only in flags.items():
        report = doctor(*flags_of(cluster.admin_kubeconfig, world.inventory, flag, leader_elect=True))
        findings = [one for one in report.checks["CCMD010"]["findings"] if only in (None, one["name"])]
        assert findings and not any(one["fixIsCommand"] for one in findings), findings
