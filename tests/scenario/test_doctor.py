"""ccmd doctor: each check is provoked alone and names itself, on a healthy cluster there is nothing to say, and what cannot
be checked is said."""
import itertools
import os
import pty
import re
import shutil
import subprocess
import time
from datetime import datetime

import pytest
import yaml

from lib import role
from lib.api import NODES, STRATEGIC
from lib.ccmd import binary, environment, machine, run_ccmd
from lib.certs import Authority
from lib.faultproxy import answer, delay
from lib.nodes import is_initialized
from lib.operator import Report, doctor, doctor_beside, flags_of
from lib.process import free_ports
from lib.replicas import LEASE
from lib.services import Services, ingress
from lib.wait import wait_for
from sim import faults
from sim.brightbox import Brightbox
from sim.certificates import Certificate

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]


@pytest.fixture
def examine(cluster, inventory):
    """examine("--flag", option=value): what the doctor says to the flags of the fixture ccmd."""

    def run(*flags, kubeconfig=cluster.ccmd_kubeconfig, inventory=inventory, env=None, **options):
        return doctor(*flags_of(kubeconfig, inventory, *flags, **options), env=env)

    return run


@pytest.fixture
def node(kubelet, inventory):
    """node("n1"): an initialised node and its machine."""

    def add(name, ip="10.0.0.1", **fields):
        inventory.add(machine(name, ip))
        fields = {"provider_id": f"cloudlycke://m-{name}", "initialized": True, **fields}
        return kubelet(name, ip=ip, **fields)

    return add


def a_list(kind, *items):
    return answer(200, {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": list(items)})


def only(report, code, *objects):
    """The check found exactly these objects, and no other check found anything."""
    assert report.codes() == {code}, report.content
    assert report.codes("unknown") == set()
    assert set(report.found(code)) == set(objects)
    assert report.exit_code == 1
    assert all(one["fix"] for one in report.checks[code]["findings"] if code != "CCMD041")


# --- healthy -----------------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
def test_a_healthy_cluster(api, inventory, kubelet, ccmd, examine):
    for number in (1, 2):
        inventory.add(machine(f"n{number}", f"10.0.0.{number}", zone="z1", region="r1", type="t1"))
        kubelet(f"n{number}", ip=f"10.0.0.{number}")
    ccmd(leader_elect=True)
    for name in ("n1", "n2"):
        api.wait_node(name, is_initialized)
    report = examine(leader_elect=True)
    assert report.exit_code == 0, report.content
    assert report.codes() == set() and report.codes("unknown") == set()
    assert {"CCMD001", "CCMD010", "CCMD020", "CCMD030", "CCMD045"} <= report.codes("ok")
    assert report.content["cluster"].startswith("https://") and report.content["context"] and report.content["version"]
    assert abs(datetime.fromisoformat(report.content["time"]).timestamp() - time.time()) < 60


def test_it_changes_nothing_and_reads_the_newest_state(api, cluster, node, proxy, examine):
    """With a resourceVersion, the API server may answer from a cache that has not seen the last changes."""
    node("n1")
    kubeconfig = cluster.kubeconfig("doctor", url=proxy.url)
    examine(kubeconfig=kubeconfig, leader_elect=True)
    lists = [one for one in proxy.requests() if one.path in (NODES, "/api/v1/services")]
    assert len(lists) == 2 and all("resourceVersion" not in one.query for one in lists)
    methods = {(one.method, one.path) for one in proxy.requests() if one.method != "GET"}
    assert methods == {("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")}


# --- the API server, rights, the lease ---------------------------------------------------------------------------------------


def test_a_wrong_clock(cluster, api, proxy, examine):
    proxy.on("GET", "/version", answer(200, {"gitVersion": "v1.37.2", "major": "1", "minor": "37"},
                                       headers={"Date": "Tue, 14 Nov 2023 22:13:20 GMT"}), times=99)
    only(examine(kubeconfig=cluster.kubeconfig("doctor", url=proxy.url)), "CCMD003", "")


def test_an_old_version(cluster, api, proxy, examine):
    proxy.on("GET", "/version", answer(200, {"gitVersion": "v1.27.16", "major": "1", "minor": "27"}), times=99)
    only(examine(kubeconfig=cluster.kubeconfig("doctor", url=proxy.url)), "CCMD002", "")


def test_missing_rights_are_those_of_the_published_role(cluster, api, examine):
    stranger = cluster.kubeconfig("stranger", pair=cluster.authority.client("stranger", "stranger"))
    report = examine(kubeconfig=stranger, leader_elect=True, secure_port=10258)
    wanted = set()
    for one in role.objects():
        for rule in one.get("rules", ()):
            for verb in rule["verbs"]:
                wanted |= {f"may not {verb} {resource}" for resource in rule.get("resources", ())}
    told = {(one["message"].split(" in the namespace")[0].split(";")[0].removesuffix(" cloud-controller-manager"), one["isNote"])
            for one in report.checks["CCMD010"]["findings"]}
    server = {"may not create tokenreviews", "may not create subjectaccessreviews",
              "may not get configmaps extension-apiserver-authentication"}
    assert {text for text, _ in told} == wanted | server
    kubelets = {"may not get leases"}  # in kube-node-lease
    assert {text for text, is_note in told if is_note} == server | kubelets, "the controllers work without these"
    assert report.exit_code == 2, "the nodes could not be listed"


ROLE_OF_HETZNER = {  # hcloud-cloud-controller-manager, chart/templates/clusterrole.yaml
    ("", "events"): ["create", "patch", "update"],
    ("", "nodes"): ["delete", "get", "list", "patch", "update", "watch"],
    ("", "nodes/status"): ["patch"],
    ("", "services"): ["list", "patch", "update", "watch"],
    ("", "services/status"): ["list", "patch", "update", "watch"],
    ("coordination.k8s.io", "leases"): ["create", "get", "list", "update", "watch"],
}


def test_in_the_place_of_another_controller(cluster, api, cloud, kubelet, hetzner, temporary):
    """With its role and its flags there is nothing to do: what ccmd can do without is a note."""
    user = cluster.kubeconfig("drop-in", pair=cluster.authority.client("drop-in", "drop-in"))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": verbs} for (group, resource), verbs in ROLE_OF_HETZNER.items()]
    temporary(f"{rbac}/clusterroles", {"metadata": {"name": "drop-in"}, "rules": rules})
    temporary(f"{rbac}/clusterrolebindings", {
        "metadata": {"name": "drop-in"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "drop-in"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "drop-in"}})
    cloud.add_server("n1")
    kubelet("n1")
    hetzner(leader_elect=True)
    api.wait_node("n1", is_initialized)
    flags = flags_of(user, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", "--webhook-secure-port=0",
                     "--allocate-node-cidrs=true", leader_elect=True, secure_port=10258)
    report = wait_for(lambda: found if (found := doctor(*flags, env=hetzner_environment(cloud))).exit_code == 0 else None,
                      what="the role to be known, and the node to be Ready")
    assert report.codes("note") == {"CCMD010", "CCMD080"}, report.content
    assert {one["name"] for one in report.checks["CCMD010"]["findings"]} == {"tokenreviews", "subjectaccessreviews", "configmaps"}


def test_an_administrator_asks_about_the_account_of_the_published_role(cluster, api, examine):
    report = examine(kubeconfig=cluster.admin_kubeconfig, leader_elect=True, secure_port=10258)
    assert report.checks["CCMD010"]["result"] == "ok"


def test_an_administrator_names_another_account(cluster, api, examine):
    report = examine("--as-service-account=kube-system/other", kubeconfig=cluster.admin_kubeconfig)
    only(report, "CCMD010", *report.found("CCMD010"))
    assert "the ServiceAccount kube-system/other may not patch nodes/status" in str(report.content)


def test_an_administrator_is_not_the_controller(cluster, api, examine):
    path = "/api/v1/namespaces/kube-system/serviceaccounts"
    account = api.get(f"{path}/ccmd")
    api.delete(f"{path}/ccmd")
    try:
        report = examine(kubeconfig=cluster.admin_kubeconfig)
    finally:
        api.post(path, {**account, "metadata": {"name": "ccmd", "labels": account["metadata"]["labels"]}})
    assert report.checks["CCMD010"]["result"] == "skipped"
    assert "--as-service-account" in report.checks["CCMD010"]["reason"]


def test_a_review_that_is_refused(cluster, api, examine):
    stranger = cluster.kubeconfig("stranger", pair=cluster.authority.client("stranger", "stranger"))
    report = examine("--as-service-account=kube-system/other", kubeconfig=stranger)
    assert report.checks["CCMD010"]["result"] == "skipped"
    assert "may not create subjectaccessreviews" in report.checks["CCMD010"]["reason"]


def test_nobody_leads(api, examine):
    only(examine(leader_elect=True), "CCMD020", "lease kube-system/cloud-controller-manager")


def lease(holder="host_uuid", age_s=0):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() - age_s))
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "cloud-controller-manager", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": at, "renewTime": at}}


def test_a_leader_that_is_silent(api, examine):
    api.post(LEASE.rsplit("/", 1)[0], lease(age_s=3600), fieldManager="ccmd")
    only(examine(leader_elect=True), "CCMD021", "lease kube-system/cloud-controller-manager")


def test_a_lease_of_another_program(api, examine):
    api.post(LEASE.rsplit("/", 1)[0], lease(), fieldManager="hcloud-cloud-controller-manager")
    only(examine(leader_elect=True), "CCMD022", "lease kube-system/cloud-controller-manager")


def test_a_lease_of_another_program_that_has_ended(api, examine):
    """It published a duration of a day, for which ccmd does not wait, and there is nothing to scale to 0."""
    one = lease(age_s=660)
    one["spec"]["leaseDurationSeconds"] = 86400
    api.post(LEASE.rsplit("/", 1)[0], one, fieldManager="hcloud-cloud-controller-manager")
    report = examine(leader_elect=True)
    only(report, "CCMD021", "lease kube-system/cloud-controller-manager")
    assert "host_uuid of hcloud-cloud-controller-manager holds it" in report.found("CCMD021")["lease kube-system/cloud-controller-manager"]
    assert "ccmd takes it within 300 s" in report.checks["CCMD021"]["findings"][0]["fix"]
    assert report.checks["CCMD022"]["result"] == "skipped"


def test_another_controller_at_work(api, node, examine):
    node("n1")
    api.patch(f"{NODES}/n1", {"metadata": {"annotations": {"a": "b"}}}, fieldManager="hcloud-cloud-controller-manager")
    report = examine()
    only(report, "CCMD023", "node n1")
    assert "hcloud-cloud-controller-manager" in report.found("CCMD023")["node n1"]


@pytest.fixture
def temporary(api):
    """temporary(path, object): creates it for the length of the test."""
    created = []

    def create(path, body):
        one = api.post(path, body)
        created.append(f"{path}/{one['metadata']['name']}")

    yield create
    for path in created:
        api.delete(path)


DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
DAEMONSETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"


def workload(kind, name, image, **spec):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": labels}, **spec,
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}}}


def test_another_controller_is_deployed(cluster, api, temporary, examine):
    temporary(DEPLOYMENTS, workload("Deployment", "ccm", "docker.io:5000/hetznercloud/hcloud-cloud-controller-manager:v1.26.0"))
    temporary(DAEMONSETS, workload("DaemonSet", "brightbox-cloud-controller-manager", "example.com/mirror@sha256:0"))
    only(examine(kubeconfig=cluster.admin_kubeconfig), "CCMD024", "deployment kube-system/ccm")
    api.patch(f"{DAEMONSETS}/brightbox-cloud-controller-manager/status", {"status": {"desiredNumberScheduled": 3}})
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    name = "brightbox-cloud-controller-manager"
    only(report, "CCMD024", "deployment kube-system/ccm", f"daemonset kube-system/{name}")
    assert f"kubectl -n kube-system delete daemonset {name}" in str(report.content)


def test_deployments_that_are_no_other_controller(cluster, temporary, examine):
    """ccmd itself under a familiar name, one that is scaled to 0, and all that is no cloud controller manager."""
    temporary(DEPLOYMENTS, workload("Deployment", "hcloud-cloud-controller-manager", "ghcr.io/example/ccmd:0.1.0"))
    temporary(DEPLOYMENTS, workload("Deployment", "brightbox-cloud-controller-manager", "brightbox/x:1", replicas=0))
    temporary(DEPLOYMENTS, workload("Deployment", "coredns", "registry.k8s.io/coredns/coredns:v1.11.3"))
    assert examine(kubeconfig=cluster.admin_kubeconfig).checks["CCMD024"]["result"] == "ok"


def test_the_service_load_balancer_of_k3s(cluster, api, temporary, examine):
    temporary(DAEMONSETS, workload("DaemonSet", "svclb-web-0a1b", "rancher/klipper-lb:v0.4.13"))
    api.patch(f"{DAEMONSETS}/svclb-web-0a1b/status", {"status": {"desiredNumberScheduled": 3}})
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    only(report, "CCMD024", "daemonset kube-system/svclb-web-0a1b")
    assert "--disable=servicelb" in report.checks["CCMD024"]["findings"][0]["fix"]


@pytest.mark.parametrize("tolerations", [[], [{"operator": "Exists"}],
                                         [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists"}]])
def test_a_toleration_that_is_missing(cluster, temporary, examine, tolerations):
    one = workload("Deployment", "ccmd", "ghcr.io/example/ccmd:0.1.0")
    one["spec"]["template"]["spec"]["tolerations"] = tolerations
    temporary(DEPLOYMENTS, one)
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    assert report.codes() == (set() if tolerations else {"CCMD026"}), report.content


def test_another_controller_leads_by_its_own_lease(cluster, api, temporary, examine):
    for name, age_s in (("k3s-cloud-controller-manager", 1), ("old-cloud-controller-manager", 60), ("kube-scheduler", 1)):
        temporary(LEASE.rsplit("/", 1)[0], {**lease(age_s=age_s), "metadata": {"name": name, "namespace": "kube-system"}})
    report = examine(kubeconfig=cluster.admin_kubeconfig)
    only(report, "CCMD025", "lease kube-system/k3s-cloud-controller-manager")


def event_of(instance, first_s, last_s, reason):
    begin = time.time() - 100
    first, last = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + one)) for one in (first_s, last_s))
    return {"metadata": {"name": f"web.{instance}"}, "reason": reason, "type": "Normal", "message": "x",
            "involvedObject": {"kind": "Service", "namespace": "default", "name": "web", "uid": "u-1"},
            "firstTimestamp": first, "lastTimestamp": last, "source": {"component": "service-controller"},
            "reportingComponent": "service-controller", "reportingInstance": instance}


@pytest.mark.parametrize("manager, reason, second, is_found", [
    ("ccmd", "UpdatedLoadBalancer", (20, 20), True), ("ccmd", "UpdatedLoadBalancer", (20, 80), True),
    ("ccmd", "UpdatedLoadBalancer", (65, 80), False),  # it leads after the first one has ended
    ("ccmd", "UpdatedLoadBalancer", (55, 80), False),  # likewise, if the clocks differ a little
    ("ccmd", "ForeignProviderID", (20, 80), False),  # a replica for another cloud
    ("hcloud-cloud-controller-manager", "UpdatedLoadBalancer", (20, 80), False),  # other checks find that
])
def test_two_processes_of_ccmd_act_by_turns(cluster, api, temporary, examine, manager, reason, second, is_found):
    path = "/api/v1/namespaces/default/events"
    for one, by in ((event_of("a_1", 0, 60, reason), "ccmd"), (event_of("b_2", *second, reason), manager)):
        api.post(path, one, fieldManager=by)
    try:
        report = examine(kubeconfig=cluster.admin_kubeconfig)
    finally:
        for one in ("web.a_1", "web.b_2"):
            api.delete(f"{path}/{one}")
    if is_found:
        only(report, "CCMD028", "service default/web")
        assert all(one in report.found("CCMD028")["service default/web"] for one in ("a_1", "b_2"))
    else:
        assert report.exit_code == 0, report.content


def test_two_leaders_with_leases_of_their_own(cluster, api, cloud, services, kubelet, hetzner):
    """Found by what they have written, not by their Leases, which may be anywhere."""
    cloud.add_server("n1")
    kubelet("n1")
    hetzner(env=HERE, leader_elect=True)
    services.create("web")
    services.wait_ips("web")
    second = hetzner(env=HERE, leader_elect=True, leader_elect_resource_name="two", kubeconfig=cluster.admin_kubeconfig)
    second.wait_log("became leader")
    flags = flags_of(cluster.admin_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", leader_elect=True)
    algorithms = itertools.cycle(["least_connections", "round_robin"])

    def found():
        services.patch("web", {"metadata": {"annotations": {f"{PREFIX}algorithm-type": next(algorithms)}}})
        return doctor(*flags, env=hetzner_environment(cloud, **HERE)).found("CCMD028").get("service default/web")

    message = wait_for(found, poll=1, what="both to have acted by turns")
    other = LEASE.replace("cloud-controller-manager", "two")
    assert all(api.get(one)["spec"]["holderIdentity"] in message for one in (LEASE, other))
    second.stop()
    api.delete(other)


def test_what_may_not_be_listed_is_not_checked(api, examine):
    report = examine()
    assert report.exit_code == 0, "the controller itself needs no such right"
    for code in "CCMD024", "CCMD025", "CCMD026":
        assert report.checks[code]["result"] == "skipped" and "may not list" in report.checks[code]["reason"]


# --- the cloud ---------------------------------------------------------------------------------------------------------------


def hetzner_flags(cluster, *more):
    return flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", *more)


def hetzner_environment(cloud, **more):
    return {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false", **more}


def test_a_healthy_cluster_at_hetzner(api, cluster, cloud, services, kubelet, hetzner, proxy):
    """Also when its objects are older: with endpoints, and a Service that another controller serves."""
    cloud.add_server("n1")
    kubelet("n1")
    hetzner(env=HERE)
    api.wait_node("n1", is_initialized)
    services.create("web")
    services.create("local", externalTrafficPolicy="Local")
    services.create("other", loadBalancerClass="example.com/other")
    services.set_ingress("other", "198.18.9.9")
    for name in ("web", "local"):
        services.wait_ips(name)
    # A Service that ccmd sees before the last patch of its node has no targets at first.
    wait_for(lambda: all(one.targets for one in cloud.project.load_balancers.values()), what="the targets")
    env = hetzner_environment(cloud, **HERE)
    report = doctor(*hetzner_flags(cluster), env=env)
    assert report.exit_code == 0, report.content
    proxy.on("GET", "/version", later(1000), times=99)
    proxy.on("GET", ENDPOINTS, a_list("EndpointSlice", endpoints("web", ("n1", True)), endpoints("local", ("n1", True), ("n1", False))))
    report = doctor(*flags_of(cluster.kubeconfig("doctor", url=proxy.url), None, "--cloud-provider=hcloud"), env=env)
    assert report.codes() == {"CCMD003"} and not report.codes("note") | report.codes("unknown"), report.content
    assert {"CCMD069", "CCMD070", "CCMD071"} <= report.codes("ok")


def test_a_wrong_token(api, cluster, cloud):
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud, HCLOUD_TOKEN="x" * 64))
    assert "CCMD030" in report.codes() and "401" in report.found("CCMD030")[""]
    assert report.exit_code == 2 and "CCMD044" in report.codes("unknown")
    assert "x" * 64 not in str(report.content)


def test_a_cloud_that_cannot_be_reached(api, cluster, cloud):
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud, HCLOUD_ENDPOINT="http://127.0.0.1:1"))
    assert "CCMD030" in report.codes() and report.exit_code == 2
    assert {"CCMD001", "CCMD010"} <= report.codes("ok"), "what does not need the cloud is checked"


def test_the_token_of_another_project(api, cluster, cloud, services, kubelet):
    for number in (1, 2):
        kubelet(f"n{number}", initialized=True, provider_id=f"hcloud://{number}")
    services.create("web")
    services.set_ingress("web", "198.18.0.9")
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud))
    assert report.codes() == {"CCMD031"} and report.exit_code == 1
    assert all(report.checks[code]["cause"] == "CCMD031" and report.checks[code]["result"] == "skipped"
               for code in ("CCMD044", "CCMD064"))
    printed = run_ccmd("doctor", "--all", *hetzner_flags(cluster), env=hetzner_environment(cloud)).stdout
    assert "2 checks need the cluster's project (CCMD031)" in printed
    assert "kubectl delete" not in printed and "is-gone" not in printed, "that would destroy the cluster"
    printed = run_ccmd("explain", "node", "n1", *hetzner_flags(cluster), env=hetzner_environment(cloud)).stdout
    assert "CCMD031" in printed and "kubectl delete" not in printed


def test_many_machines_are_gone(api, cluster, cloud, kubelet):
    """More than one look confirms: doctor looks again, so that none is unknown when it matters."""
    server = cloud.add_server("n0")
    kubelet("n0", initialized=True, provider_id=f"hcloud://{server.id}")
    for number in range(1, 131):
        kubelet(f"n{number}", initialized=True, provider_id=f"hcloud://{9_000_000 + number}", ready="Unknown")
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud))
    assert report.codes("unknown") == set() and report.exit_code == 1, report.content
    assert len(report.found("CCMD044")) == 130


def test_a_rate_limit_that_is_nearly_used_up(cloud, hcloud):
    cloud.project.tokens_left = 500.0
    report = hcloud()
    assert report.checks["CCMD032"]["result"] == "ok" and report.codes() == set()
    cloud.project.tokens_left = 300.0
    report = hcloud()
    assert report.codes() - {"CCMD030"} == {"CCMD032"}
    assert "of 3600 requests are left" in report.found("CCMD032")[""] and "fewer than 360" in report.found("CCMD032")[""]


def test_a_cloud_that_is_slow(cloud, hcloud):
    assert hcloud().checks["CCMD035"]["result"] == "ok"
    cloud.fault("GET", None, faults.delay(cloud, 1.2), times=None)
    report = hcloud()
    assert report.codes() == {"CCMD035"} and "the cloud takes" in report.found("CCMD035")[""]


def test_a_cloud_without_a_rate_limit(api, examine):
    check = examine().checks["CCMD032"]
    assert check["result"] == "skipped" and "reports no rate limit" in check["reason"]


def test_a_token_that_may_only_read(api, cloud, services, kubelet, hetzner, tmp_path):
    """Known from the running leader, whose reads succeed meanwhile."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(cloud.add_token(may_write=False))
    cloud.add_server("n1")
    kubelet("n1")
    ccmd = hetzner(env={**HERE, "HCLOUD_TOKEN": None, "HCLOUD_TOKEN_FILE": str(token)}, leader_elect=True,
                   metrics_bind_address=f"127.0.0.1:{free_ports(1)[0]}")
    api.wait_node("n1", is_initialized)
    report = doctor_beside(ccmd)
    assert report.codes() == set() and report.checks["CCMD033"]["result"] == "ok", "no change was refused yet"
    services.create("web")
    services.wait_event("web", "SyncLoadBalancerFailed", "forbidden")
    report = doctor_beside(ccmd)
    assert report.codes() == {"CCMD033", "CCMD060"}
    assert "may only read" in report.found("CCMD033")[""] and report.checks["CCMD033"]["findings"][0]["fix"]
    services.clear()
    assert doctor_beside(ccmd).codes() == {"CCMD033"}
    token.write_text(cloud.token)
    services.create("web")
    services.wait_ips("web")
    assert doctor_beside(ccmd).checks["CCMD033"]["result"] == "ok"


PLACES = "only fsn1, nbg1, hel1, ash, hil, sin"


@pytest.mark.parametrize(("variable", "value", "message", "fix"), [
    ("HCLOUD_LOAD_BALANCERS_LOCATION", "fns1", f'the cloud has no location "fns1", {PLACES}', "fsn1"),
    ("HCLOUD_LOAD_BALANCERS_LOCATION", "moon", f'the cloud has no location "moon", {PLACES}', None),
    ("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-centrl",
     'the cloud has no network zone "eu-centrl", only eu-central, us-east, us-west, ap-southeast', "eu-central"),
    ("HCLOUD_LOAD_BALANCERS_TYPE", "lb12", 'the cloud has no load balancer type "lb12", only lb11, lb21, lb31', "lb11"),
    ("HCLOUD_NETWORK", "nett", 'the cloud has no network "nett", only net, other', "net"),
    ("HCLOUD_NETWORK", "4711", 'the cloud has no network "4711", only net, other', None),
])
def test_a_setting_that_names_nothing(cloud, hcloud, variable, value, message, fix):
    for name in ("net", "other"):
        cloud.add_network(name)
    report = hcloud(env={variable: value})
    assert report.codes() == {"CCMD034"}, "that the cloud cannot be used follows from it"
    assert report.found("CCMD034") == {f"variable {variable}": message}
    (finding,) = report.checks["CCMD034"]["findings"]
    assert finding["fix"] == f"set {variable}={fix}" if fix else finding["fix"].startswith(f"set {variable} to the name of a ")


def test_settings_that_name_what_exists(cloud, hcloud):
    network = cloud.add_network("net")
    for value in ("net", str(network.id)):
        report = hcloud(env={"HCLOUD_NETWORK": value, "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
                             "HCLOUD_NETWORK_ROUTES_ENABLED": "false", "HCLOUD_LOAD_BALANCERS_LOCATION": "1",
                             "HCLOUD_LOAD_BALANCERS_TYPE": "lb11"})
        assert report.checks["CCMD034"]["result"] == "ok" and report.codes() == set()


def test_settings_without_names(api, examine):
    assert examine().checks["CCMD034"]["result"] == "skipped"


def test_a_leader_that_cannot_be_asked(api, cloud, hetzner):
    """Neither the exit code nor the other checks change."""
    api.post(LEASE.rsplit("/", 1)[0], lease(), fieldManager="ccmd")
    for options, reason in (({"metrics_bind_address": f"127.0.0.1:{free_ports(1)[0]}"}, "stands by"), ({}, "--secure-port=0")):
        one = hetzner(leader_elect=True, **options)
        if options:
            one.wait_log("serving metrics")
        report = doctor_beside(one)
        assert report.checks["CCMD033"]["result"] == "skipped" and reason in report.checks["CCMD033"]["reason"]
        assert report.codes() == set() and report.codes("unknown") == set()


def test_nothing_is_written_to_the_cloud(api, cluster, cloud, kubelet):
    cloud.add_server("n1")
    kubelet("n1")
    doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud))
    assert {one.method for one in cloud.requests()} == {"GET"}


@pytest.fixture
def brightbox(tmp_path):
    """A simulated Brightbox; the names of its cloud IPs can be resolved in brightbox.env."""
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        cloud.env = {**cloud.environment(False), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)}
        yield cloud


def test_a_healthy_cluster_at_brightbox(api, cluster, brightbox, kubelet, ccmd):
    """The provider's login is the one POST that the cloud gets."""
    server = brightbox.account.add_server()
    kubelet(server["id"])
    one = ccmd("--cloud-provider=brightbox", inventory=None, env=brightbox.env)
    api.wait_node(server["id"], is_initialized)
    one.stop()
    before = len(brightbox.requests())
    report = doctor(*flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=brightbox"), env=brightbox.env)
    assert report.exit_code == 0, report.content
    asked = {(one.method, one.path.partition("?")[0]) for one in brightbox.requests()[before:]}
    assert {one for one in asked if one[0] != "GET"} == {("POST", "/token/")}, asked


def healthy_at_hetzner(get, *flags, provider="hcloud", network=False, with_robot=False):
    """Two nodes, and a Service if the cloud has load balancers. Returns the controller."""
    cloud, kubelet, env, names = get("cloud"), get("kubelet"), dict(HERE), ["n1", "n2"]
    networks = [cloud.add_network("net", "10.0.0.0/8", "10.0.0.0/16")] if network else []
    for number, name in enumerate(names, 1):
        server = cloud.add_server(name, networks=networks)
        kubelet(name, ip=server.private_ip(networks[0].id) if network else server.ipv4)
        if network:
            env |= {"HCLOUD_NETWORK": str(networks[0].id), "HCLOUD_METADATA_ENDPOINT": get("metadata")(server).url}
            pod_cidr(get("api"), name, f"10.244.{number}.0/24")
    if with_robot:
        robot = get("robot")
        robot.add_server(321, "bm1", ip="203.0.113.77")
        cloud.robot_ips.add("203.0.113.77")
        kubelet("bm1", ip="203.0.113.77")
        names.append("bm1")
        env |= {"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user, "ROBOT_PASSWORD": robot.password}
    one = get("hetzner")("--cluster-name=mine", *flags, env=env, provider=provider)
    for name in names:
        get("api").wait_node(name, is_initialized)
    get("services").create("web")
    get("services").wait_ips("web")
    return one


def healthy_at_brightbox(get):
    brightbox = get("brightbox")
    names = [brightbox.account.add_server()["id"] for _ in range(2)]
    for name in names:
        get("kubelet")(name)
    one = get("ccmd")("--cloud-provider=brightbox", "--cluster-name=mine", inventory=None, env=brightbox.env)
    for name in names:
        get("api").wait_node(name, is_initialized)
    get("services").create("web")
    get("services").wait("web", ingress)
    return one


def healthy_at_home(get, *flags, has_routes=False):
    inventory = get("inventory")
    if has_routes:
        get("routed")
    for number in (1, 2):
        inventory.add(machine(f"n{number}", f"10.0.0.{number}", zone="z1", region="r1", type="t1"))
        get("kubelet")(f"n{number}", ip=f"10.0.0.{number}")
        if has_routes:
            pod_cidr(get("api"), f"n{number}", f"10.244.{number}.0/24")
    one = get("ccmd")(*flags)
    for number in (1, 2):
        get("api").wait_node(f"n{number}", is_initialized)
    return one


CIDR = ("--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true")
HEALTHY = {
    "hcloud": healthy_at_hetzner,
    "hcloud in a network": lambda get: healthy_at_hetzner(get, *CIDR, network=True),
    "hcloud with Robot": lambda get: healthy_at_hetzner(get, with_robot=True),
    "hcloud-from-scratch in a network": lambda get: healthy_at_hetzner(get, *CIDR, provider="hcloud-from-scratch", network=True),
    "brightbox": healthy_at_brightbox,
    "cloudlycke": healthy_at_home,
    "cloudlycke with routes": lambda get: healthy_at_home(get, *CIDR, has_routes=True),
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_healthy_cluster_of_every_kind(cluster, api, services, request, kind):
    """Flags without effect are notes (CCMD080)."""
    one = HEALTHY[kind](request.getfixturevalue)

    def look():
        report = doctor_beside(one)
        return {code: report.checks[code] for code in report.codes() | report.codes("note") | report.codes("unknown")
                if code != "CCMD080"}, report

    _, report = wait_for(lambda: seen if not (seen := look())[0] else None, what="nothing to be found", poll=1,
                         seen=lambda: look()[0])
    assert report.exit_code == 0 and {"CCMD030", "CCMD031", "CCMD041", "CCMD044", "CCMD045"} <= report.codes("ok"), report.content
    if "route" in kind or "network" in kind:
        assert {"CCMD050", "CCMD051", "CCMD053"} <= report.codes("ok"), report.content


# --- nodes -------------------------------------------------------------------------------------------------------------------


def test_a_kubelet_without_the_cloud_provider(node, kubelet, examine):
    node("n1")
    kubelet("n2", initialized=True)
    report = examine()
    assert report.found("CCMD040").keys() == {"node n2"}
    only(report, "CCMD040", "node n2")


def test_a_new_node_without_a_machine(node, kubelet, examine):
    node("n1")
    kubelet("n2")
    only(examine(), "CCMD041", "node n2")


def test_a_new_node_with_two_machines(node, kubelet, inventory, examine):
    node("n1")
    kubelet("n2")
    inventory.add(machine("x", "10.0.0.2", ("Hostname", "n2")), machine("y", "10.0.0.3", ("Hostname", "n2")))
    report = examine()
    only(report, "CCMD041", "node n2")
    assert "m-x, m-y" in report.found("CCMD041")["node n2"]


def test_a_new_node_with_a_wrong_node_ip(node, kubelet, inventory, examine):
    node("n1")
    inventory.add(machine("n2", "10.0.0.2"))
    kubelet("n2", provided_node_ip="192.0.2.7")
    report = examine()
    only(report, "CCMD041", "node n2")
    assert "192.0.2.7" in report.found("CCMD041")["node n2"]


def test_a_node_of_another_cloud(node, examine):
    node("n1")
    node("n2", provider_id="aws:///eu-west-1/i-0abc")
    only(examine(), "CCMD042", "node n2")


def test_two_nodes_with_one_machine(node, kubelet, examine):
    node("n1")
    kubelet("n2", ip="10.0.0.1", initialized=True, provider_id="cloudlycke://m-n1", addresses=[("InternalIP", "10.0.0.1")])
    only(examine(), "CCMD043", "node n2")


def test_a_machine_that_is_gone(node, inventory, examine):
    node("n1")
    node("n2")
    inventory.remove("n2")
    report = examine()
    only(report, "CCMD044", "node n2")
    assert "Ready" in report.found("CCMD044")["node n2"]


def test_a_machine_that_is_switched_off(node, inventory, examine):
    node("n1")
    node("n2", ip="10.0.0.2", ready="Unknown")
    inventory.set("n1", power="off")  # its kubelet still reports
    inventory.set("n2", power="off")
    only(examine(), "CCMD052", "node n2")


@pytest.mark.parametrize("fields, text", [
    (dict(ready="Unknown", lease=True), "its machine runs, but its kubelet has been silent for 1"),
    (dict(ready="Unknown"), "its machine runs, but its kubelet is silent"),
    (dict(ready="False"), "its machine runs, and its kubelet reports a problem"),
    (dict(ready="Unknown", provider_id="aws:///eu-west-1/i-0abc"), "its machine is not in this cloud, so ccmd does not delete the node"),
])
def test_a_node_that_is_not_ready(node, examine, examine_later, fields, text):
    node("n1")
    node("n2", ip="10.0.0.2", **fields)
    assert "CCMD052" not in examine().codes(), "it may still be starting"
    report = examine_later(100)
    assert set(report.found("CCMD052")) == {"node n2"} and text in report.found("CCMD052")["node n2"]


@pytest.mark.parametrize("name, ip, text", [
    ("n2.example.com", "10.0.0.9", "machine n2 (cloudlycke://m-n2) has a similar name"),
    ("other", "10.0.0.2", "machine n2 (cloudlycke://m-n2) has its address 10.0.0.2"),
    ("n-3", "10.0.0.9", "machine n.3 (cloudlycke://m-n.3) has a similar name"),
    ("n1.example.com", "10.0.0.9", "the cloud has no machine for it"),
])
def test_a_new_node_whose_machine_has_another_name(node, kubelet, inventory, examine, name, ip, text):
    node("n1")
    inventory.add(machine("n2", "10.0.0.2"), machine("n.3", "10.0.0.3"))
    kubelet(name, ip=ip)
    report = examine()
    only(report, "CCMD041", f"node {name}")
    assert text in report.found("CCMD041")[f"node {name}"]


def test_a_machine_that_was_created_again(node, inventory, examine):
    node("n1")
    node("n2", ip="10.0.0.2")
    inventory.remove("n2")
    inventory.add(machine("n2", "10.0.0.7", id="m-9"))
    report = examine()
    only(report, "CCMD044", "node n2")
    assert "machine n2 (cloudlycke://m-9) has its name" in report.found("CCMD044")["node n2"]


def test_a_node_ip_of_another_machine(node, kubelet, inventory, examine):
    node("n1")
    inventory.add(machine("n2", "10.0.0.2"))
    kubelet("n2", provided_node_ip="10.0.0.1")
    report = examine()
    only(report, "CCMD041", "node n2")
    assert "that of another machine: n1 (cloudlycke://m-n1)" in report.found("CCMD041")["node n2"]


@pytest.mark.parametrize("provider_id, text", [
    ("k3s://n2", "the cloud controller of k3s"), ("talos://hcloud/10.0.0.78", "the Talos cloud controller manager"),
    ("gce://p/z/n2", "belongs to another cloud"),
])
def test_who_has_set_a_provider_id(node, examine, provider_id, text):
    node("n1")
    node("n2", provider_id=provider_id)
    report = examine()
    only(report, "CCMD042", "node n2")
    assert text in report.found("CCMD042")["node n2"]


def test_a_robot_server_with_another_name(cluster, cloud, robot, kubelet):
    robot.add_server(321, "dedicated-1", ip="203.0.113.77")
    kubelet("worker", addresses=[("ExternalIP", "203.0.113.77"), ("Hostname", "worker")])
    env = {"ROBOT_ENABLED": "true", "ROBOT_ENDPOINT": robot.url, "ROBOT_USER": robot.user, "ROBOT_PASSWORD": robot.password}
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud, **env))
    assert "machine dedicated-1 (hrobot://321) has its address 203.0.113.77" in report.found("CCMD041")["node worker"]
    report = doctor(*hetzner_flags(cluster), env=hetzner_environment(cloud))
    assert "ROBOT_ENABLED=true" in report.checks["CCMD041"]["findings"][0]["fix"]


def test_other_addresses(node, inventory, examine):
    node("n1")
    inventory.set_addresses("n1", "10.0.0.9")
    report = examine()
    only(report, "CCMD045", "node n1")
    assert "10.0.0.1" in report.found("CCMD045")["node n1"] and "10.0.0.9" in report.found("CCMD045")["node n1"]


def test_another_zone(node, inventory, examine):
    node("n1", labels={"topology.kubernetes.io/zone": "z1"})
    inventory.set("n1", zone="z2")
    only(examine(), "CCMD046", "node n1")


def pod_cidr(api, name, cidr):
    api.patch(f"{NODES}/{name}", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})


@pytest.fixture
def routed(inventory, tmp_path):
    """An inventory whose cloud has routes, and the flags."""
    inventory.content["routes"] = {"hook": "/bin/true"}
    inventory.content["state"] = {"file": str(tmp_path / "state")}
    inventory.write()
    return dict(cluster_cidr="10.244.0.0/16")


def test_pod_cidrs_outside_of_the_cluster_cidr(api, node, routed, examine):
    node("n1")
    pod_cidr(api, "n1", "10.244.1.0/24")
    node("n2", ip="10.0.0.2")
    pod_cidr(api, "n2", "10.99.2.0/24")
    only(examine(**routed), "CCMD047", "node n2")


def test_pod_cidrs_that_overlap(api, node, routed, examine):
    for name, cidr in (("n1", "10.244.1.0/24"), ("n2", "10.244.0.0/22"), ("n3", "10.244.8.0/24"), ("n4", "10.244.9.0/24")):
        node(name, ip=f"10.0.0.{name[1]}")
        pod_cidr(api, name, cidr)
    report = examine(**routed)
    only(report, "CCMD048", "node n1")
    assert "n2" in report.found("CCMD048")["node n1"]


OLD_ENOUGH = "--node-delete-min-age=0s"


def test_a_deletion_without_a_witness(node, inventory, examine):
    node("n1", ready="Unknown")
    inventory.remove("n1")
    only(examine(OLD_ENOUGH), "CCMD031", "")
    node("n2")
    inventory.remove("n2")
    report = examine(OLD_ENOUGH)
    only(report, "CCMD031", "")
    assert report.checks["CCMD049"]["cause"] == "CCMD031"


def test_a_deletion_without_a_witness_in_the_right_project(cluster, cloud, kubelet):
    """The network shows that it is the right one."""
    network = cloud.add_network("net")
    for number in (1, 2):
        kubelet(f"n{number}", initialized=True, provider_id=f"hcloud://{4710 + number}", ready="Unknown")
    env = {"HCLOUD_NETWORK": str(network.id), "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true", "HCLOUD_NETWORK_ROUTES_ENABLED": "false"}
    flags = hetzner_flags(cluster, OLD_ENOUGH)
    report = doctor(*flags, env=hetzner_environment(cloud, **env))
    assert report.codes() == {"CCMD044", "CCMD049"}
    assert "none of the machines of the 1 other nodes" in report.found("CCMD049")["node n1"]
    assert "CCMD049" not in doctor(*flags, "--node-delete-require-witness=false", env=hetzner_environment(cloud, **env)).codes()


def test_a_deletion_against_which_the_kubelet_speaks(node, inventory, examine):
    node("n1")
    node("n2", ip="10.0.0.2", ready="False", lease=True)
    inventory.remove("n2")
    report = examine(OLD_ENOUGH)
    assert report.codes() == {"CCMD044", "CCMD049"}
    assert "its kubelet renewed its Lease" in report.found("CCMD049")["node n2"]


def test_a_deletion_without_a_provider_id(node, kubelet, examine):
    node("n1")
    kubelet("n2", initialized=True, ready="Unknown")
    report = examine(OLD_ENOUGH)
    assert report.codes() == {"CCMD040", "CCMD049"}
    assert "absent for 900 s" in report.found("CCMD049")["node n2"]


def test_too_many_deletions(node, inventory, examine):
    node("n0")
    for number in range(1, 5):
        node(f"n{number}", ip=f"10.0.0.{number}", ready="Unknown")
        inventory.remove(f"n{number}")
    report = examine(OLD_ENOUGH)
    assert report.codes() == {"CCMD044", "CCMD049"}
    assert "4 of 5 nodes would be deleted together" in report.found("CCMD049")["node n4"]


def test_deletions_that_are_switched_off(node, inventory, examine):
    node("n1")
    node("n2", ip="10.0.0.2", ready="Unknown")
    inventory.remove("n2")
    report = examine(OLD_ENOUGH, "--controllers=*,-cloud-node-lifecycle-controller")
    assert "--controllers" in report.found("CCMD049")["node n2"]


def test_a_deletion_that_is_not_held(node, inventory, examine):
    """ccmd deletes this node as soon as it has seen it twice, and this one when it is older."""
    node("n1")
    node("n2", ip="10.0.0.2", ready="Unknown")
    inventory.remove("n2")
    only(examine(OLD_ENOUGH), "CCMD044", "node n2")
    only(examine(), "CCMD044", "node n2")


def only_in_part(report, name):
    """The other checks of this node's machine could not run."""
    assert report.codes() == {"CCMD049"} and set(report.found("CCMD049")) == {name}, report.content
    assert report.codes("unknown") >= {"CCMD044"} and name in report.checks["CCMD044"]["reason"] and report.exit_code == 2


def test_a_node_whose_machine_is_unknown(node, inventory, examine):
    """A finding only if it is not Ready: nothing waits for the answer about another one."""
    node("n1")
    node("n2", ip="10.0.0.2", ready="Unknown")
    node("n3", ip="10.0.0.3")
    for name in ("n2", "n3"):
        inventory.set(name, fault="the list of machines has no such column")
    report = examine()
    only_in_part(report, "node n2")
    assert "the list of machines has no such column" in report.found("CCMD049")["node n2"]
    assert "kubectl delete node n2" in report.checks["CCMD049"]["findings"][0]["fix"]
    assert examine("--controllers=*,-cloud-node-lifecycle-controller").codes() == set(), "it would not be deleted anyway"


def test_a_machine_about_which_the_cloud_does_not_answer(cloud, kubelet, hcloud):
    kubelet("n2", initialized=True, ready="Unknown", provider_id="hcloud://4242")
    cloud.fault("GET", "/servers/4242", faults.error("server_error", "a disk is slow", status=500), times=None)
    report = hcloud()
    only_in_part(report, "node n2")
    assert "a disk is slow" in report.found("CCMD049")["node n2"]


@pytest.mark.parametrize("fails", ["/1.0/servers.*", "/1.0/.*"])
def test_a_cloud_that_answers_about_no_machine(brightbox, kubelet, at_brightbox, fails):
    """It is reported once, and not for each node."""
    for _ in range(2):
        name = brightbox.account.add_server()["id"]
        kubelet(name, initialized=True, ready="Unknown", provider_id=f"brightbox://{name}")
    brightbox.fault("GET", fails, faults.plain(503), times=None)
    report = at_brightbox()
    assert report.codes() == {"CCMD030"} and "503" in report.found("CCMD030")[""], report.content
    assert {"CCMD044", "CCMD049"} <= report.codes("unknown") and report.exit_code == 2


def later(seconds):
    """The answer to /version of an API server whose clock is that much ahead, so that all objects are older."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))
    return answer(200, {"gitVersion": "v1.37.2", "major": "1", "minor": "37"}, headers={"Date": date})


def add_route(network, destination, gateway):
    with network.project.cloud.lock:
        network.routes.append(network.new_route({"destination": destination, "gateway": gateway}))


@pytest.mark.parametrize("ip_range, subnet, what", [
    ("10.0.0.0/16", "10.0.0.0/24", "network 10.0.0.0/16"), ("10.0.0.0/8", "10.244.0.0/24", "network 10.244.0.0/24"),
    ("10.0.0.0/8", "10.0.0.0/24", None),
])
def test_pods_outside_of_the_private_network(api, cluster, cloud, kubelet, ip_range, subnet, what):
    network = cloud.add_network("net", ip_range, subnet)
    server = cloud.add_server("n1", networks=[network])
    kubelet("n1", ip=server.private_ip(network.id), initialized=True, provider_id=f"hcloud://{server.id}")
    env = {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    report = doctor(*flags_of(cluster.kubeconfig("doctor"), None, "--cloud-provider=hcloud", "--cluster-cidr=10.244.0.0/16"),
                    env=hetzner_environment(cloud, **env))
    assert list(report.found("CCMD047")) == ([what] if what else [])


@pytest.fixture
def examine_later(cluster, proxy, examine):
    """examine_later(100): what the doctor says in so many seconds, to an API server with further answers."""

    def run(seconds, *flags, answers=None, **options):
        proxy.clear()
        proxy.on("GET", "/version", later(seconds), times=99)
        for path, body in (answers or {}).items():
            proxy.on("GET", path, answer(200, body), times=99)
        report = examine(*flags, kubeconfig=cluster.kubeconfig("doctor", url=proxy.url), **options)
        report.checks["CCMD003"].update(result="ok", findings=[])
        return report

    return run


def test_nodes_without_a_pod_cidr(api, node, routed, examine, examine_later):
    for name in ("n1", "n2"):
        node(name, ip=f"10.0.0.{name[1]}")
    assert len(examine(**routed).found("CCMD053")) == 2, "nobody assigns them"
    pod_cidr(api, "n1", "10.244.1.0/24")
    assert "CCMD053" not in examine(**routed).codes(), "it is new"
    report = examine_later(100, **routed)
    assert set(report.found("CCMD053")) == {"node n2"}
    assert "--allocate-node-cidrs=true" in report.checks["CCMD053"]["findings"][0]["fix"]


def test_a_condition_that_nobody_clears(api, node, routed, examine):
    node("n1")
    condition = {"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"}
    api.patch(f"{NODES}/n1/status", {"status": {"conditions": [condition]}}, content_type=STRATEGIC)
    only(examine(configure_cloud_routes=False), "CCMD054", "node n1")
    assert "CCMD054" not in examine(**routed).codes()


def test_routes(api, cluster, cloud, kubelet, hetzner, proxy):
    network = cloud.add_network("net")
    env = {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    gateways = {}

    def add_node(number, cidr):
        server = cloud.add_server(f"n{number}", networks=[network])
        gateways[number] = server.private_ip(network.id)
        kubelet(f"n{number}", ip=gateways[number], initialized=True, provider_id=f"hcloud://{server.id}")
        pod_cidr(api, f"n{number}", cidr)

    add_node(1, "10.244.1.0/24")
    add_node(2, "10.244.2.0/24")

    def examine(seconds):
        proxy.clear()
        proxy.on("GET", "/version", later(seconds), times=99)
        report = doctor(*flags_of(cluster.kubeconfig("doctor", url=proxy.url), None, "--cloud-provider=hcloud",
                                  "--cluster-cidr=10.244.0.0/16"), env=hetzner_environment(cloud, **env))
        return {code: report.found(code) for code in report.codes() & {"CCMD050", "CCMD051"}}

    assert set(examine(100)["CCMD050"]) == {"node n1", "node n2"}
    assert examine(0) == {}, "the nodes are new"
    one = hetzner(env=env, cluster_cidr="10.244.0.0/16")
    wait_for(lambda: len(network.routes) == 2, what="the routes")
    one.stop()
    assert examine(100) == {}

    add_node(3, "10.244.1.0/25")
    assert examine(100) == {}, "the controller creates no route to a part of another node's pod CIDR"
    api.delete(f"{NODES}/n3")

    add_route(network, "10.99.0.0/24", gateways[1])
    assert examine(100) == {}, "it is outside of --cluster-cidr"
    add_route(network, "10.244.7.0/24", gateways[2])
    found = examine(100)
    assert set(found) == {"CCMD051"} and "leads to node n2" in found["CCMD051"]["route 10.244.7.0/24"]
    with cloud.lock:
        network.routes.clear()
    add_route(network, "10.244.1.0/24", gateways[2])
    found = examine(100)["CCMD050"]
    assert "leads to node n2" in found["node n1"] and "no route" in found["node n2"]


# --- Services ----------------------------------------------------------------------------------------------------------------


HERE = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
PREFIX = "load-balancer.hetzner.cloud/"


@pytest.fixture
def services(api):
    one = Services(api)
    one.clear()
    yield one
    one.clear()


@pytest.fixture
def hcloud(cluster, cloud, kubelet):
    """hcloud("--flag"): what the doctor says about a cluster of one node at Hetzner, apart from --allow-untagged-cloud."""
    server = cloud.add_server("n1", ip="198.18.0.7")
    kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")

    def examine(*flags, env=HERE):
        report = doctor(*hetzner_flags(cluster, *flags), env=hetzner_environment(cloud, **env))
        for code in ("CCMD045", "CCMD046", "CCMD080"):  # nobody has initialised the node
            report.checks[code].update(result="ok", findings=[])
        return report

    return examine


def found_one(report, code, name, text):
    assert report.codes() == {code} and set(report.found(code)) == {name}
    assert text in report.found(code)[name] + report.checks[code]["findings"][0]["fix"]


def test_a_pending_service(services, hcloud):
    services.create("web")
    found_one(hcloud(), "CCMD060", "service default/web", "it could not be asked: --secure-port=0")


def test_no_node_may_be_a_target(api, services, hcloud):
    services.create("web")
    api.patch(f"{NODES}/n1", {"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}})
    report = hcloud()
    assert report.codes() == {"CCMD060", "CCMD061"} and set(report.found("CCMD061")) == {"service default/web"}
    assert "of 1 nodes, 1 have the label" in report.found("CCMD061")["service default/web"]


def test_a_node_that_is_not_initialised_is_no_target(api, services, hcloud):
    services.create("web")
    assert not hcloud().found("CCMD061")
    taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    api.patch(f"{NODES}/n1", {"spec": {"taints": [taint]}})
    assert set(hcloud().found("CCMD061")) == {"service default/web"}


def test_a_service_that_selects_no_node(services, hcloud):
    services.create("web", annotations={f"{PREFIX}node-selector": "kubernetes.io/hostname=other"})
    services.create("all")
    assert set(hcloud().found("CCMD061")) == {"service default/web"}


def test_an_annotation_with_a_mistake_in_its_name(services, hcloud):
    services.create("web", annotations={f"{PREFIX}locaton": "fsn1", f"{PREFIX}type": "lb11", "example.com/x": "y"})
    report = hcloud()
    assert set(report.found("CCMD062")) == {"service default/web"}
    services.patch("web", {"metadata": {"annotations": {f"{PREFIX}nothing-like-it": "x"}}})
    report = hcloud()
    fixes = {one["fix"].removeprefix("kubectl -n default annotate service web ") for one in report.checks["CCMD062"]["findings"]}
    assert fixes == {f"{PREFIX}location=fsn1 {PREFIX}locaton-", f"{PREFIX}nothing-like-it-"}


def test_an_annotation_with_an_invalid_value(services, hcloud):
    services.create("web", annotations={f"{PREFIX}use-private-ip": "maybe"})
    report = hcloud()
    assert report.codes() == {"CCMD063"}
    assert "use-private-ip" in report.found("CCMD063")["service default/web"]


def test_an_annotation_that_names_no_place(services, hcloud):
    services.create("web", annotations={f"{PREFIX}location": "fns1"})
    services.create("shop", annotations={f"{PREFIX}network-zone": "moon"})
    services.create("good", annotations={f"{PREFIX}location": "1"})
    report = hcloud()
    assert report.codes() == {"CCMD060", "CCMD063"} and set(report.found("CCMD060")) == {"service default/good"}
    fixes = {one["name"]: one["fix"] for one in report.checks["CCMD063"]["findings"]}
    assert fixes == {"default/web": f"kubectl -n default annotate service web --overwrite {PREFIX}location=fsn1",
                     "default/shop": "kubectl -n default edit service shop"}
    assert report.found("CCMD063")["service default/web"] == f'{PREFIX}location: the cloud has no location "fns1", {PLACES}'
    assert "only eu-central, us-east" in report.found("CCMD063")["service default/shop"]
    assert hcloud(env={"HCLOUD_LOAD_BALANCERS_LOCATION": "moon"}).codes() == {"CCMD034", "CCMD060", "CCMD063"}


def test_a_service_that_is_refused_is_reported_once(services, hcloud):
    """Not as one without an address, too. Another Service is."""
    services.create("web", annotations={f"{PREFIX}use-private-ip": "maybe"})
    check = hcloud().checks["CCMD060"]
    assert check["result"] == "skipped" and check["reason"] == "what it found is a consequence of CCMD063"
    services.create("shop")
    report = hcloud()
    assert set(report.found("CCMD060")) == {"service default/shop"} and set(report.found("CCMD063")) == {"service default/web"}


def test_balancers_and_services(api, cluster, cloud, services, hetzner, hcloud):
    ccmd = hetzner("--cluster-name=mine", env=HERE)
    for name in ("web", "kept"):
        services.create(name)
        services.wait_ips(name)
    assert hcloud("--cluster-name=mine").codes() == set()
    ccmd.stop()

    gone = services.get("kept")["metadata"]
    services.patch("kept", {"metadata": {"finalizers": None}})
    services.delete("kept")
    report = hcloud("--cluster-name=mine")
    found_one(report, "CCMD065", f"load balancer {default_name(gone)}", gone["uid"])
    found_one(report, "CCMD065", f"load balancer {default_name(gone)}", "5.39 a month, without VAT")
    assert hcloud().checks["CCMD065"]["result"] == "skipped", "another cluster may have the default name, too"
    assert hcloud("--cluster-name=other").codes() == set()

    with cloud.lock:
        cloud.project.load_balancers.clear()
    found_one(hcloud("--cluster-name=mine"), "CCMD064", "service default/web", "load-balancer-is-gone=true")


def default_name(metadata):
    return ("a" + metadata["uid"].replace("-", ""))[:32]


def test_balancers_that_were_changed_by_hand(api, cloud, services, hetzner, hcloud):
    ccmd = hetzner("--cluster-name=mine", env=HERE)
    services.create("web", 80, 443)
    services.create("untouched")
    for name in ("web", "untouched"):
        services.wait_ips(name)
    ccmd.stop()
    before = len(cloud.requests())
    assert hcloud("--cluster-name=mine").codes() == set()
    with cloud.lock:
        (lb,) = (one for one in cloud.project.load_balancers.values() if len(one.services) == 2)
        lb.services.pop()
        lb.targets.clear()
    found_one(hcloud("--cluster-name=mine"), "CCMD066", "service default/web", "443")
    found_one(hcloud("--cluster-name=mine"), "CCMD066", "service default/web", "target")
    assert {one.method for one in cloud.requests()[before:]} == {"GET"}


def test_a_balancer_of_another_cluster(cloud, services, hcloud):
    cloud.project.add_load_balancer("shared", labels={"ccmd.io/cluster": "other", "hcloud-ccm/service-uid": "u-1"})
    services.create("web", annotations={f"{PREFIX}name": "shared"})
    report = hcloud("--cluster-name=mine")
    assert report.codes() == {"CCMD067"}
    assert "other" in report.found("CCMD067")["service default/web"]


def test_a_service_without_a_location(services, hcloud):
    services.create("web")
    report = hcloud(env={})
    assert report.codes() == {"CCMD063"}
    assert "location" in report.found("CCMD063")["service default/web"]


def test_balancers_that_were_changed_by_hand_at_brightbox(brightbox, services, ccmd, at_brightbox):
    one = ccmd("--cloud-provider=brightbox", "--cluster-name=mine", inventory=None, env=brightbox.env)
    services.create("web")
    services.wait(name="web", predicate=ingress)
    one.stop()
    assert at_brightbox("--cluster-name=mine").codes() == set()
    with brightbox.lock:
        (lb,) = brightbox.account.named("load_balancers", "web.default.mine")
        lb["healthcheck"]["port"] = 1
    found_one(at_brightbox("--cluster-name=mine"), "CCMD066", "service default/web", "load balancer")


BB_PREFIX = "service.beta.kubernetes.io/brightbox-load-balancer-"


@pytest.fixture
def at_brightbox(cluster, brightbox, kubelet, api):
    """at_brightbox("--flag"): what the doctor says about a cluster of one node at Brightbox."""
    server = brightbox.account.add_server()
    kubelet(server["id"], initialized=True, provider_id=f"brightbox://{server['id']}")

    def examine(*flags):
        flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=brightbox", *flags)
        report = doctor(*flags, env=brightbox.env)
        for code in ("CCMD045", "CCMD046"):  # nobody has initialised the node
            report.checks[code].update(result="ok", findings=[])
        return report

    return examine


LEFT_OVER = ["cloud IP", "firewall policy", "load balancer", "server group"]


def kinds_of(report, code):
    """The kinds of the objects that the check names, without their ids."""
    return sorted(name.rpartition(" ")[0] for name in report.found(code))


def test_what_services_left_over_at_brightbox(brightbox, services, ccmd, at_brightbox):
    one = ccmd("--cloud-provider=brightbox", "--cluster-name=mine", inventory=None, env=brightbox.env)
    for name in ("web", "kept"):
        services.create(name)
        services.wait(name, ingress)
    assert at_brightbox("--cluster-name=mine").codes() == set()
    one.stop()

    services.patch("kept", {"metadata": {"finalizers": None}})
    services.delete("kept")
    report = at_brightbox("--cluster-name=mine")
    assert report.codes() == {"CCMD065"} and kinds_of(report, "CCMD065") == LEFT_OVER, report.content
    assert all("no Service default/kept of this cluster" in text for text in report.found("CCMD065").values())
    assert "costs" not in str(report.found("CCMD065"))
    assert at_brightbox().checks["CCMD065"]["result"] == "skipped"

    with brightbox.lock:
        for lb in brightbox.account.named("load_balancers", "web.default.mine"):
            lb["status"] = "deleted"
    report = at_brightbox("--cluster-name=mine")
    assert report.codes() == {"CCMD064", "CCMD065"} and set(report.found("CCMD064")) == {"service default/web"}


def test_a_server_group_and_a_firewall_policy_without_a_service_at_brightbox(brightbox, at_brightbox):
    """Only those whose name consists of a Service, a namespace and this cluster are its own."""
    with brightbox.lock:
        wanted = {f"{kind} {brightbox.account.add(collection, name='kept.default.mine')['id']}"
                  for kind, collection in (("server group", "server_groups"), ("firewall policy", "firewall_policies"))}
        for collection in "server_groups", "firewall_policies":
            for name in "kept.default.other", "mine", "kept.mine", "My Group.default.mine":
                brightbox.account.add(collection, name=name)
    report = at_brightbox("--cluster-name=mine")
    assert report.codes() == {"CCMD065"} and set(report.found("CCMD065")) == wanted, report.content


ENDPOINTS = "/apis/discovery.k8s.io/v1/endpointslices"


def endpoints(name, *pods):
    """The EndpointSlice of a Service. A pod is (node, is_ready)."""
    return {"metadata": {"name": f"{name}-x", "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": ["10.244.0.7"], "nodeName": node, "conditions": {"ready": is_ready}} for node, is_ready in pods]}


@pytest.fixture
def hcloud_later(cluster, cloud, hcloud, proxy):
    """hcloud_later(100, endpoints("web", …)): the same in so many seconds, with these endpoints."""

    def examine(seconds, *slices, flags=(), env=HERE):
        proxy.clear()
        proxy.on("GET", "/version", later(seconds), times=99)
        proxy.on("GET", ENDPOINTS, a_list("EndpointSlice", *slices), times=99)
        return doctor(*flags_of(cluster.kubeconfig("doctor", url=proxy.url), None, "--cloud-provider=hcloud", *flags),
                      env=hetzner_environment(cloud, **env))

    return examine


@pytest.mark.parametrize("policy, pods, result, text", [
    ("Cluster", [], "problem", "it has no endpoints"),
    ("Cluster", [("n1", False)], "problem", "none of its endpoints is ready"),
    ("Cluster", [("n2", True)], "ok", None),
    ("Local", [("n1", True)], "note", "1 of 2 targets run one of its ready pods"),
    ("Local", [("n1", True), ("n2", True)], "ok", None),
    ("Local", [("n9", True)], "problem", "no target runs one of its ready pods"),
])
def test_endpoints(cloud, services, kubelet, hcloud_later, policy, pods, result, text):
    kubelet("n2", initialized=True, provider_id=f"hcloud://{cloud.add_server('n2').id}")
    services.create("web", externalTrafficPolicy=policy)
    slices = [endpoints("web", *pods), endpoints("other", ("n1", True))]
    services.set_ingress("web", "198.18.0.9")
    assert hcloud_later(0, *slices).checks["CCMD069"]["result"] != "problem", "its pods may still start"
    report = hcloud_later(100, *slices)
    assert report.checks["CCMD069"]["result"] == result, report.content
    assert text is None or text in report.found("CCMD069")["service default/web"]


def test_endpoints_that_the_cloud_misses_too(cloud, services, hetzner, hcloud_later):
    """Then the Service need not be old."""
    hetzner(env=HERE)
    services.create("web")
    services.wait_ips("web")
    assert hcloud_later(0).checks["CCMD069"]["result"] == "ok"
    (balancer,) = cloud.project.load_balancers.values()
    balancer.health = "unhealthy"
    assert "it has no endpoints" in hcloud_later(0).found("CCMD069")["service default/web"]


def test_endpoints_that_may_not_be_listed(services, hcloud):
    services.create("web")
    check = hcloud().checks["CCMD069"]
    assert check["result"] == "skipped" and "may not list endpointslices" in check["reason"]


@pytest.mark.parametrize("spec, ports, result, text", [
    (dict(loadBalancerSourceRanges=["192.0.2.0/24"]), [80], "problem", "the Service is open to all addresses"),
    ({}, [53, (53, "UDP")], "problem", "ports of protocol UDP; these ports are not served"),
    (dict(loadBalancerIP="192.0.2.7"), [80], "note", "do not support spec.loadBalancerIP"),
])
def test_what_a_cloud_does_not_support(services, hcloud, spec, ports, result, text):
    services.create("web", *ports, **spec)
    check = hcloud().checks["CCMD070"]
    assert check["result"] == result and text in check["findings"][0]["message"], check


def test_a_location_that_is_changed_later(services, hetzner, hcloud):
    ccmd = hetzner("--cluster-name=mine", env=HERE)
    services.create("web", annotations={f"{PREFIX}location": "fsn1"})
    services.wait_ips("web")
    ccmd.stop()
    assert hcloud("--cluster-name=mine").codes() == set()
    services.patch("web", {"metadata": {"annotations": {f"{PREFIX}location": "hel1"}}})
    assert '"hel1" has no effect on an existing load balancer, which stays in fsn1' in str(hcloud("--cluster-name=mine").found("CCMD063"))


def test_more_ports_than_the_type_has_services(services, hcloud):
    services.create("web", *range(80, 86))
    report = hcloud()
    assert "at most 5 services: these ports are not served: 85" in report.found("CCMD063")["service default/web"], report.content
    assert report.checks["CCMD063"]["findings"][0]["fix"] == "kubectl -n default edit service web"


def test_the_taint_of_cluster_api(api, node, examine):
    node("n1")
    taint = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
    api.patch(f"{NODES}/n1", {"spec": {"taints": [taint]}})
    report = examine()
    assert report.exit_code == 0 and "Cluster API has to remove" in report.found("CCMD041")["node n1"]


def test_a_network_that_services_need(cloud, services, hcloud):
    services.create("web", annotations={f"{PREFIX}use-private-ip": "true"})
    report = hcloud(env={**HERE, "HCLOUD_NETWORK": "gone"})
    assert report.found("CCMD034") == {"variable HCLOUD_NETWORK": 'the cloud has no network "gone"; needed by the Services default/web'}


def test_an_annotation_without_effect(services, hcloud):
    services.create("web", annotations={f"{PREFIX}location": "fsn1", f"{PREFIX}network-zone": "eu-central"})
    services.create("good", annotations={f"{PREFIX}network-zone": "eu-central", f"{PREFIX}http-certificates": ""})
    report = hcloud()
    assert set(report.found("CCMD070")) == {"service default/web"}
    assert f"{PREFIX}network-zone has no effect together with {PREFIX}location=fsn1" in report.found("CCMD070")["service default/web"]


def test_a_class_that_nobody_serves(services, hcloud, hcloud_later):
    services.create("web", loadBalancerClass="example.com/gone")
    assert hcloud().checks["CCMD070"]["result"] == "ok"
    report = hcloud_later(700)
    assert 'no controller has served its class "example.com/gone"' in report.found("CCMD070")["service default/web"]


def delete_with_finalizer(services, **spec):
    services.create("web", **spec)
    services.patch("web", {"metadata": {"finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}})
    services.delete("web")


def test_a_finalizer_of_a_controller_that_is_gone(services, hcloud, hcloud_later):
    delete_with_finalizer(services, loadBalancerClass="example.com/gone")
    assert hcloud().checks["CCMD070"]["result"] == "note", "that controller may be at work"
    report = hcloud_later(400)
    assert report.checks["CCMD070"]["result"] == "problem" and 'waits for the controller of the class "example.com/gone"' in report.found("CCMD070")["service default/web"]


def test_a_finalizer_without_the_service_controller(services, hcloud_later):
    delete_with_finalizer(services)
    assert hcloud_later(400).checks["CCMD070"]["result"] == "ok", "ccmd removes it"
    for more in {"flags": ["--controllers=*,-service-lb-controller"]}, {"env": {"HCLOUD_LOAD_BALANCERS_ENABLED": "false"}}:
        report = hcloud_later(400, **more)
        assert "the service controller is switched off" in report.found("CCMD070")["service default/web"]


@pytest.mark.parametrize("manager, fix", [("controller", "--lb-class"), ("cilium-operator-generic", "defaultLBServiceIPAM"),
                                          ("hcloud-cloud-controller-manager", None), ("ccmd", None)])
def test_another_controller_writes_the_addresses(services, hcloud, manager, fix):
    services.create("web")
    services.set_ingress("web", "192.0.2.7", manager=manager)
    check = hcloud().checks["CCMD071"]
    assert check["result"] == ("problem" if fix else "ok")
    assert fix is None or fix in check["findings"][0]["fix"]


def test_unhealthy_targets(cloud, services, kubelet, hetzner, hcloud):
    """A part of them is a note, unless only some nodes have pods; the annotation that decides what they get is named."""
    other = cloud.add_server("n2")
    kubelet("n2", initialized=True, provider_id=f"hcloud://{other.id}")
    ccmd = hetzner("--cluster-name=mine", env=HERE)
    services.create("web", annotations={f"{PREFIX}uses-proxyprotocol": "true"})
    services.create("local", externalTrafficPolicy="Local")
    for name in ("web", "local"):
        services.wait_ips(name)
    ccmd.stop()
    balancers = list(cloud.project.load_balancers.values())
    for one in balancers:
        one.failing[other.id] = ("unexpected_http_status", 503)
    check = hcloud("--cluster-name=mine").checks["CCMD068"]
    assert check["result"] == "note" and [one["name"] for one in check["findings"]] == ["default/web"]
    assert "1 of 2 targets of its load balancer are unhealthy: node n2 at port 80: unexpected_http_status (HTTP 503)" in str(check)
    for one in balancers:
        one.health = "unhealthy"
    report = hcloud("--cluster-name=mine")
    assert set(report.found("CCMD068")) == {"service default/web", "service default/local"}
    assert f"sends with {PREFIX}uses-proxyprotocol=true" in str(report.checks["CCMD068"])


def test_a_protected_balancer_that_is_left_over(cloud, hcloud):
    one = cloud.add_load_balancer("orphan", labels={"ccmd.io/cluster": "mine", "hcloud-ccm/service-uid": "u-1"})
    one.protection["delete"] = True
    report = hcloud("--cluster-name=mine")
    assert "remove the protection" in report.checks["CCMD065"]["findings"][0]["fix"]


@pytest.mark.parametrize("key, value, text", [
    ("private-ipv4", "10.0.0.77", None), ("private-ipv4", "10.9.0.7", 'the cloud has no subnet for "10.9.0.7", only 10.0.0.0/16'),
    ("private-subnet-ip-range", "10.0.0.5/16", None),
    ("private-subnet-ip-range", "10.9.0.0/24", 'the cloud has no subnet "10.9.0.0/24", only 10.0.0.0/16'),
])
def test_an_annotation_that_names_a_subnet(cloud, services, hcloud, key, value, text):
    network = cloud.add_network("net", "10.0.0.0/8", "10.0.0.0/16")
    services.create("web", annotations={f"{PREFIX}{key}": value})
    report = hcloud(env={**HERE, "HCLOUD_NETWORK": str(network.id), "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
                         "HCLOUD_NETWORK_ROUTES_ENABLED": "false"})
    assert report.found("CCMD063") == ({"service default/web": f"{PREFIX}{key}: {text}"} if text else {})


def test_a_certificate_with_a_mistake_in_its_name(cloud, services, hcloud):
    with cloud.lock:
        one = Certificate(cloud.project, "example-com", "uploaded", ["example.com"])
        cloud.certificates[one.id] = one
    services.create("web", 443, annotations={f"{PREFIX}protocol": "https", f"{PREFIX}http-certificates": "exmaple-com"})
    services.create("two", 443, annotations={f"{PREFIX}protocol": "https", f"{PREFIX}http-certificates": "example-com, exampl-com"})
    report = hcloud()
    fixes = {one["name"]: one["fix"] for one in report.checks["CCMD063"]["findings"]}
    assert fixes == {"default/web": f"kubectl -n default annotate service web --overwrite {PREFIX}http-certificates=example-com",
                     "default/two": "write example-com: kubectl -n default edit service two"}


def test_annotations_at_brightbox(services, at_brightbox):
    services.create("web", annotations={f"{BB_PREFIX}policy": "fastest", f"{BB_PREFIX}listener-protcol": "tcp"})
    report = at_brightbox()
    assert report.codes() == {"CCMD062", "CCMD063"}
    command = f"kubectl -n default annotate service web {BB_PREFIX}listener-protocol=tcp {BB_PREFIX}listener-protcol-"
    assert report.checks["CCMD062"]["findings"][0]["fix"] == command
    assert "fastest" in report.found("CCMD063")["service default/web"]


def test_a_service_that_the_inventory_cannot_serve(node, services, inventory, tmp_path, examine):
    inventory.content["addressPools"] = [{"name": "lab", "addresses": ["192.0.2.10-192.0.2.20"]}]
    inventory.content["loadBalancers"] = {}
    inventory.write()
    node("n1")
    services.create("web", annotations={"pool": "no-such-pool"})
    report = examine()
    assert report.codes() == {"CCMD063"}
    assert "no-such-pool" in report.found("CCMD063")["service default/web"]


# --- configuration -----------------------------------------------------------------------------------------------------------


def test_flags_without_effect(api, examine):
    report = examine("--allow-untagged-cloud", "--min-resync-period=1h")
    assert report.exit_code == 0 and report.codes("note") == {"CCMD080"}
    assert set(report.found("CCMD080")) == {"flag --allow-untagged-cloud", "flag --min-resync-period"}


def test_a_variable_with_a_mistake_in_its_name(cloud, hcloud):
    report = hcloud(env={**HERE, "HCLOUD_LOAD_BALANCER_TYPE": "lb11", "HCLOUD_CONTEXT": "mine"})
    assert report.found("CCMD082") == {
        "variable HCLOUD_LOAD_BALANCER_TYPE": "it has no effect; HCLOUD_LOAD_BALANCERS_TYPE is probably meant"}


def test_a_key_that_all_can_read(api, tmp_path, examine):
    key = tmp_path / "cloud-controller-manager.key"
    key.touch(mode=0o644)
    only(examine(f"--cert-dir={tmp_path}"), "CCMD081", f"file {key}")
    report = examine(f"--tls-sni-cert-key={tmp_path}/other.crt,{key}")
    only(report, "CCMD081", f"file {key}")


def test_a_kubeconfig_that_all_can_read(api, cluster, tmp_path, examine):
    path = tmp_path / "kubeconfig"
    shutil.copy(cluster.ccmd_kubeconfig, path)
    path.chmod(0o644)
    only(examine(kubeconfig=path), "CCMD081", f"file {path}")
    report = examine(kubeconfig=path, env={"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert report.codes() == set()


# --- several at the same time, and failures ----------------------------------------------------------------------------------


def test_several_problems(node, kubelet, inventory, examine):
    node("n1")
    node("n2")
    kubelet("n3")
    node("n4", ip="10.0.0.4", ready="Unknown")
    inventory.remove("n2")
    inventory.set("n4", fault="on purpose")
    report = examine("--allow-untagged-cloud", leader_elect=True)
    assert report.codes() == {"CCMD020", "CCMD041", "CCMD044", "CCMD049"} and report.exit_code == 2


def test_no_api_server(inventory, tmp_path):
    report = doctor("--master=http://127.0.0.1:1", "--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}")
    assert report.exit_code == 2 and report.codes() == {"CCMD001"}
    assert "CCMD041" in report.codes("unknown") and "CCMD080" in report.codes("ok")
    assert {one["cause"] for one in report.checks.values() if one["result"] == "unknown"} == {"CCMD001"}


def test_the_api_server_fails_at_any_request(cluster, api, node, inventory, proxy, examine):
    node("n1")
    node("n2", ip="10.0.0.2", ready="Unknown")
    inventory.remove("n2")
    flags = ["--as-service-account=kube-system/other"]
    options = dict(kubeconfig=cluster.kubeconfig("doctor", url=proxy.url), leader_elect=True)

    def list_workloads():
        for kind in "Deployment", "DaemonSet":  # which the controller itself may not list
            proxy.on("GET", f"/apis/apps/v1/{kind.lower()}s", a_list(kind), times=99)

    list_workloads()
    examine(**options)
    examine(*flags, **options)
    paths = {one.path for one in proxy.requests()}
    assert {"/apis/apps/v1/daemonsets", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews"} <= paths
    for path in sorted(paths - {"/api/v1/namespaces/kube-system/pods"}):  # the leader only adds to what is found
        proxy.clear()
        rule = proxy.on(None, path, answer(500), times=99)
        list_workloads()
        report = examine(*(flags if "/subjectaccess" in path else []), **options)
        assert report.exit_code == 2, f"{path}: {report.content}"
        assert rule.hits
        assert "CCMD080" in report.codes("ok")


def test_it_never_sends_a_credential_to_a_server_it_cannot_verify(cluster, api, proxy, tmp_path, examine):
    stranger = Authority(tmp_path)
    kubeconfig = cluster.kubeconfig("doctor", url=proxy.url, ca=stranger.certificate)
    report = examine(kubeconfig=kubeconfig)
    assert report.exit_code == 2 and "CCMD001" in report.codes() and not proxy.requests()


# --- the command line --------------------------------------------------------------------------------------------------------


def test_text_for_people(api, cluster, node, kubelet, inventory):
    node("n1")
    kubelet("n2")
    done = run_ccmd("doctor", *flags_of(cluster.ccmd_kubeconfig, inventory))
    assert done.returncode == 1
    assert done.stdout.startswith("1 problem; ") and " checks are ok. --all shows them.\n" in done.stdout
    assert ("  problem  CCMD041  New nodes are not initialised\n"
            "           A node keeps its taint until it is initialised, and no ordinary pod runs on it.\n"
            "           - node n2: ") in done.stdout
    assert "\x1b" not in done.stdout, "no colours without a terminal"
    assert done.stderr == ""


@pytest.fixture
def plugin(cluster, inventory, tmp_path):
    """plugin("a:b"): kubectl ccmd doctor with this $KUBECONFIG."""
    (tmp_path / "kubectl-ccmd").symlink_to(binary())

    def run(kubeconfig):
        command = [str(cluster.programs / "kubectl"), "ccmd", "doctor", "--cloud-provider=cloudlycke",
                   f"--cloud-config={inventory.path}", "--leader-elect=false", "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={
            **environment(), "PATH": f"{tmp_path}:/usr/bin:/bin", "KUBECONFIG": str(kubeconfig)})
        return Report(done)

    return run


def test_as_a_plugin_of_kubectl(api, cluster, plugin):
    report = plugin(cluster.admin_kubeconfig)
    assert report.exit_code == 0, report.content


def test_a_plugin_with_several_kubeconfigs(api, cluster, plugin, tmp_path):
    """As kubectl merges them: the first file with an entry counts, and paths in a file are relative to it."""
    content = yaml.safe_load(cluster.admin_kubeconfig.read_text())
    (tmp_path / "clusters").mkdir()
    shutil.copy(cluster.ca, tmp_path / "clusters" / "authority")
    content["clusters"][0]["cluster"]["certificate-authority"] = "authority"
    stranger = {"name": "test", "user": {"token": "of nobody"}}
    files = {"users": {"users": content["users"], "current-context": "test"},
             "contexts": {"contexts": content["contexts"], "users": [stranger], "current-context": "no-such-context"},
             "clusters/file": {"clusters": content["clusters"]}}
    for name, one in files.items():
        (tmp_path / name).write_text(yaml.safe_dump(one))
        (tmp_path / name).chmod(0o600)
    value = ":".join(str(tmp_path / name) for name in ("no-such-file", *files))
    report = plugin(value)
    assert report.exit_code == 0, report.content
    (tmp_path / "contexts").chmod(0o644)
    (tmp_path / "clusters/file").chmod(0o644)
    only(plugin(value), "CCMD081", f"file {tmp_path}/contexts", f"file {tmp_path}/clusters/file")
    (tmp_path / "contexts").write_text("users: {")
    report = plugin(value)
    assert f"{tmp_path}/contexts: line " in report.found("CCMD001")[""] and report.exit_code == 2


@pytest.mark.parametrize("arguments, code, text", [
    (["help"], 0, "ccmd doctor"),
    (["help", "doctor"], 0, "--output json"),
    (["doctor", "--help"], 0, "--output json"),
    (["help", "nothing"], 2, 'no command "nothing"'),
    (["doctor", "-o", "yaml"], 2, '"yaml" instead of text or json'),
    (["doctor"], 2, "--cloud-provider cannot be empty"),
    (["doctor", "--as-service-account=x"], 2, '"x" instead of NAMESPACE/NAME'),
    (["doctor", "--no-such-flag"], 2, "unknown flag: --no-such-flag"),
    (["doctr"], 2, "did you mean doctor?"),
    (["--cloud-provder=hcloud"], 2, "unknown flag: --cloud-provder; did you mean --cloud-provider?"),
    (["--cloud-provider=hcloud", "doctor", "extra"], 2, 'unexpected argument "extra"'),
    ([], 2, "--cloud-provider cannot be empty"),
])
def test_the_command_line(arguments, code, text):
    done = run_ccmd(*arguments)
    assert done.returncode == code and text in done.stdout + done.stderr


# --- progress ----------------------------------------------------------------------------------------------------------------


def read_to_end(main):
    """What was written to the terminal, whose last writer has ended. The kernel passes it on in pieces, some time later."""
    text = b""
    while True:
        try:
            text += os.read(main, 65536)
        except OSError:  # EIO: nothing more will come
            return text.decode()


def test_progress_is_shown_on_a_terminal_and_erased(api, cluster, node, proxy):
    node("n1")
    proxy.on("GET", NODES, delay(3.5))
    command = [binary(), "doctor", *flags_of(cluster.kubeconfig("doctor", url=proxy.url), None, "--cloud-provider=hcloud")]
    main, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment()) as child:
        os.close(terminal)
        printed = child.stdout.read().decode()
    shown = read_to_end(main)
    os.close(main)
    lines = shown.split("\r\x1b[K")
    assert lines[0] == "" and lines[-1] == "", shown
    # a busy machine shows later seconds, and may leave some out
    seconds = [int(found[1]) for line in lines if (found := re.fullmatch(r"reading the nodes … (\d+) s", line))]
    assert len(seconds) >= 2 and seconds == sorted(set(seconds)) and seconds[-1] >= 2, shown
    assert "reading" not in printed and "checks are ok" in printed.splitlines()[0]


def test_no_progress_without_a_terminal(api, cluster, node, proxy):
    node("n1")
    proxy.on("GET", NODES, delay(1.5))
    done = run_ccmd("doctor", *flags_of(cluster.kubeconfig("doctor", url=proxy.url), None, "--cloud-provider=hcloud"))
    assert done.stderr == ""
