"""What ccmd doctor may find at the end of a scenario: what the scenario itself has made wrong. All else is a false alarm."""
import os

from .operator import doctor_beside

# Beside these, every scenario is examined only with --all.
ALWAYS = {"test_example.py", "test_hcloud_routes.py", "test_initialise.py", "test_routes.py"}

# Nodes that a test registers as initialised have no labels of the cloud, and other addresses than their machines.
ALREADY_INITIALISED = {"CCMD045", "CCMD046"}
# No machine of any node is in the cloud.
NO_MACHINE = {"CCMD031", "CCMD044", "CCMD049"}
# A Service that its cloud refuses or has not finished, or that has no node.
NO_BALANCER = {"CCMD060", "CCMD061", "CCMD063"}
# A node whose kubelet is silent because its machine is switched off.
OFF = {"CCMD052"}
# A node that is of no cloud, of another one, or of a machine that cannot be found.
NOT_OURS = {"CCMD040", "CCMD041", "CCMD042", "CCMD043"}

# The API server or the cloud takes a second and more.
SLOW = {"CCMD005", "CCMD035"}

MADE_BY = {
    "test_addresses.py": NOT_OURS | ALREADY_INITIALISED,
    "test_balancers.py": NO_MACHINE | NO_BALANCER,
    "test_brightbox.py": NOT_OURS | ALREADY_INITIALISED | NO_BALANCER | OFF | {"CCMD064", "CCMD070"},
    "test_dry_run.py": ALREADY_INITIALISED,
    "test_endpoints.py": NO_MACHINE | {"CCMD041"},
    "test_explain.py": ALREADY_INITIALISED | NO_MACHINE | NO_BALANCER | OFF | {"CCMD022", "CCMD030", "CCMD041", "CCMD068"},
    "test_haproxy.py": NO_BALANCER,
    "test_hcloud_balancers.py": NOT_OURS | ALREADY_INITIALISED | NO_MACHINE | NO_BALANCER |
    {"CCMD030", "CCMD032", "CCMD064", "CCMD066", "CCMD070"},
    "test_hcloud_nodes.py": NOT_OURS | ALREADY_INITIALISED | NO_MACHINE | OFF | {"CCMD030", "CCMD032"},
    "test_hcloud_operating.py": NOT_OURS | ALREADY_INITIALISED | {"CCMD030", "CCMD032"},
    "test_hcloud_primary_ips.py": ALREADY_INITIALISED | NO_BALANCER | {"CCMD067", "CCMD068"},
    "test_hcloud_routes.py": ALREADY_INITIALISED | {"CCMD047", "CCMD048"},
    "test_hcloud_start.py": NOT_OURS | ALREADY_INITIALISED | NO_MACHINE,
    "test_initialise.py": NOT_OURS | {"CCMD046"},
    "test_inventory.py": NO_MACHINE | OFF | {"CCMD030"},
    "test_killed.py": NO_MACHINE,
    "test_kube_client.py": {"CCMD010"},
    "test_lifecycle.py": NOT_OURS | ALREADY_INITIALISED | NO_MACHINE | OFF,
    "test_metrics.py": NO_MACHINE | {"CCMD041"},
    "test_plan.py": OFF,
    "test_program.py": NO_MACHINE | {"CCMD003"},
    "test_routes.py": NOT_OURS | ALREADY_INITIALISED | {"CCMD044"},
    "test_services.py": NO_BALANCER,
    "test_status.py": NO_MACHINE,
    "test_systemd.py": NO_MACHINE,
}


def of_the_harness(code, subject):
    """A kubeconfig or a token in the folder of a test, which all may read; no kube-controller-manager assigns pod CIDRs; an API
    server and a simulated cloud that are slow because this machine is overloaded."""
    return code == "CCMD053" or (code == "CCMD081" and "/pytest-" in subject) or (code in SLOW and is_machine_overloaded())


def is_machine_overloaded():
    return os.getloadavg()[0] > 5 * os.cpu_count()


def check_no_false_alarm(module, ccmd):
    """Examines the cluster with the flags and the environment of a running Ccmd."""
    report = doctor_beside(ccmd)
    found = {(code, subject): message for code in report.codes() for subject, message in report.found(code).items()}
    alarms = {key: message for key, message in found.items()
              if key[0] not in MADE_BY.get(module, ()) and not of_the_harness(*key)}
    assert not alarms, alarms
