"""ccmd doctor and ccmd plan while single requests fail.

Each request of a healthy run fails once, in a run of its own. What could not be checked is named, by exit code 2 as well; all
else is found as in the healthy run; and nothing is found that is not there.
"""
import re
import types

import pytest

from lib import official
from lib.api import NODES
from lib.faultproxy import FaultProxy, answer, reset
from lib.operator import doctor, flags_of, plan
from lib.services import ingress
from sim import faults
from sim.brightbox import Brightbox

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

PREFIX = "load-balancer.hetzner.cloud/"
BB_PREFIX = "service.beta.kubernetes.io/brightbox-load-balancer-"
CUT = b'{"items": [{"metadata": {"name": '
SERVER = {"an error": answer(500), "a reset": reset(), "half an answer": answer(200, CUT)}
CLOUD = {"an error": faults.error("server_error"), "a reset": faults.reset(), "half an answer": faults.bad_json()}
KINDS = list(SERVER)

# Requests of which the status alone is the answer, and what a plan does not need.
STATUS_IS_ENOUGH = {"/api/v1/namespaces/kube-system/serviceaccounts/ccmd"}
NOT_FOR_A_PLAN = {"/version"}

# The leader's pods, which are asked what it last failed at. Without an answer the commands find the same, and say that they
# could not ask.
PODS = "/api/v1/namespaces/kube-system/pods"


@pytest.fixture
def proxy(cluster):
    """It has the rights of an administrator, so the doctor asks for everything that it ever asks for."""
    with FaultProxy(cluster, pair=cluster.admin_pair) as proxy:
        yield proxy


@pytest.fixture
def at_hetzner(api, cloud, services, kubelet):
    """Of each kind something to find: nodes, routes, balancers and Services with and without problems."""
    network = cloud.add_network("net")
    servers = []
    for number in (1, 2, 3):
        servers.append(cloud.add_server(f"n{number}", networks=[network]))
        is_old = {} if number == 3 else dict(initialized=True, provider_id=f"hcloud://{servers[-1].id}")
        kubelet(f"n{number}", ip=servers[-1].private_ip(network.id), **is_old)
        cidr = f"10.244.{number}.0/24"
        api.patch(f"{NODES}/n{number}", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})
    kubelet("gone", ip="10.0.9.9", initialized=True, provider_id="hcloud://4711", ready="Unknown")
    official.leave_balancers(services, cloud, network, servers[:2])
    cloud.add_load_balancer("orphan", labels={"ccmd.io/cluster": "mine", "hcloud-ccm/service-uid": "u-1"})
    with cloud.lock:
        network.routes.append(network.new_route({"destination": "10.244.7.0/24", "gateway": servers[0].private_ip(network.id)}))
        next(one for one in cloud.project.load_balancers.values() if one.name == "rich-lb").algorithm = "round_robin"
    services.create("pending", 81, annotations={f"{PREFIX}locaton": "fsn1"})
    environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                   "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_NETWORK": "net",
                   "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    return types.SimpleNamespace(cloud=cloud, env=environment, flags=[
        "--cloud-provider=hcloud", "--cluster-name=mine", "--cluster-cidr=10.244.0.0/16", "--allow-untagged-cloud"])


@pytest.fixture
def at_brightbox(services, kubelet, ccmd, tmp_path):
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        seeded = types.SimpleNamespace(cloud=cloud, env={**cloud.environment(False), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)},
                                       flags=["--cloud-provider=brightbox", "--cluster-name=mine", "--allow-untagged-cloud"])
        for _ in range(2):
            server = cloud.account.add_server()["id"]
            kubelet(server, initialized=True, provider_id=f"brightbox://{server}")
        one = ccmd(*seeded.flags, inventory=None, env=seeded.env)
        for name in ("web", "kept"):
            services.create(name)
            services.wait(name, ingress)
        one.stop()
        services.patch("kept", {"metadata": {"finalizers": None}})
        services.delete("kept")
        services.patch("web", {"metadata": {"annotations": {f"{BB_PREFIX}policy": "round-robin"}}})
        services.create("pending", 81, annotations={f"{BB_PREFIX}polcy": "round-robin"})
        kubelet("srv-gone1", ip="10.0.9.9", initialized=True, provider_id="brightbox://srv-gone1", ready="Unknown")
        kubelet(cloud.account.add_server()["id"], ip="10.0.0.7")
        yield seeded


# --- what a run found --------------------------------------------------------------------------------------------------------


def is_incomplete(check):
    return check["result"] == "unknown" or (check["result"] == "problem" and check["reason"] != "")


def without_ages(findings):
    return {name: re.sub(r"\d+ s\b", "some s", message) for name, message in findings.items()}


def check_report(found, healthy):
    """A check is as in the healthy run, or says that it could not run, for some objects at least, or of which it is a consequence."""
    unreachable = {"CCMD001", "CCMD030"}  # that the API server or the cloud does not answer is their finding
    for code, check in found.checks.items():
        if code in unreachable and healthy.checks[code]["result"] == "ok":
            continue
        if check["cause"]:  # its findings are left out
            assert found.checks[check["cause"]]["result"] in ("problem", "unknown"), check
            continue
        if code == "CCMD049" and all("the cloud does not say" in one["message"] for one in check["findings"]):
            continue
        assert not is_incomplete(check) or any(word in check["reason"] for word in ("GET ", "POST ", "access review", "Lease")), check
        now, before = without_ages(found.found(code)), without_ages(healthy.found(code))
        assert now.keys() <= before.keys() if is_incomplete(check) else now == before, (check, before)
    return any(is_incomplete(one) for one in found.checks.values())


def check_plan(found, healthy):
    """An object is as in the healthy run, or could not be computed. A node that could not be is no target yet, and a route
    that could not be leaves the condition of its node as it is."""
    failed = {name for name in found.errors if name in ("node", "service", "route")}
    has_node_failed = any(name.split()[0] == "node" for name in found.errors)
    for name, one in healthy.objects.items():
        kind = name.split()[0]
        now = found.objects.get(name)
        if name in found.errors or kind in failed:
            continue
        assert now or "route" in failed, f"{name} is missing"
        if not has_node_failed and "route" not in failed:
            assert now["changes"] == one["changes"], name
        assert now is None or ("later" in now) == ("later" in one), name
        assert now is None or now.get("later", {}).get("verdict") == one.get("later", {}).get("verdict"), name
    requests = [one["request"] for one in healthy.objects.values() for one in one["changes"]]
    new = found.objects.keys() - healthy.objects.keys() - found.errors.keys()
    assert not new and {one["request"] for _, one in found.changes()} <= set(requests), new
    return bool(found.errors)


COMMANDS = {"doctor": (doctor, check_report), "plan": (plan, check_plan)}


class Runs:
    """The runs of one command in one seeded cluster."""

    def __init__(self, cluster, proxy, seeded, command, is_server):
        self.proxy, self.cloud, self.is_server = proxy, seeded.cloud, is_server
        self.endpoint = proxy if is_server else seeded.cloud
        self.flags = flags_of(cluster.kubeconfig("through-proxy", url=proxy.url), None, *seeded.flags, leader_elect=True)
        self.env = seeded.env
        self.ask, self.check = COMMANDS[command]
        self.is_plan = command == "plan"
        self.healthy, self.n = self.run()
        assert self.healthy.exit_code == 1 and not self.check(self.healthy, self.healthy), self.healthy.content

    def run(self):
        mark = self.endpoint.mark()
        return self.ask(*self.flags, env=self.env), len(self.endpoint.requests(since=mark))

    def fail(self, number, kind):
        """The request with that number, counted from 0, fails."""
        if self.is_server:
            rule = self.proxy.on(None, None, SERVER[kind], skip=number)
        else:
            rule = self.cloud.fault(None, None, CLOUD[kind], skip=number)
        mark = self.endpoint.mark()
        found, _ = self.run()
        failed = [one for one in self.endpoint.requests(since=mark) if (one.rule if self.is_server else one.fault) is rule]
        self.proxy.clear()
        self.cloud.clear_faults()
        what = f"{kind} for request {number}, {failed}"
        try:
            is_named = self.compare(found)
        except AssertionError as problem:
            raise AssertionError(f"{what}: {problem}") from problem
        assert found.exit_code == (2 if is_named else 1), f"{what}: {found.content}"
        assert is_named or not failed or self.may_be_ignored(failed[0], kind), f"{what}: {found.content}"

    def compare(self, found):
        """What is found depends on the age of the objects, so the healthy run to compare it with may be one that comes after it."""
        try:
            return self.check(found, self.healthy)
        except AssertionError:
            self.healthy, _ = self.run()
            return self.check(found, self.healthy)

    def may_be_ignored(self, request, kind):
        """A GET whose connection had been used before is sent again. To prove a deletion, a plan looks for several witnesses
        and for anchors (cloud.h, struct look), of which one is enough."""
        if kind == "a reset":
            return request.method == "GET"
        if self.is_server and request.path == PODS:
            return True
        if not self.is_server:
            return self.is_plan and re.search("/load_balancers$|/servers/(?!4711|srv-gone1)", request.path)
        return kind == "half an answer" and request.path in STATUS_IS_ENOUGH | (NOT_FOR_A_PLAN if self.is_plan else set())


def cases(where):
    return [pytest.param(where, side, command, id=f"{where}-{side}-{command}") for side in ("server", "cloud")
            for command in COMMANDS]


@pytest.fixture
def runs(request, cluster, proxy, where, side, command):
    return Runs(cluster, proxy, request.getfixturevalue(where), command, side == "server")


@pytest.mark.parametrize("where, side, command", cases("at_hetzner"))
def test_each_request_fails_in_one_way(runs):
    """The kinds take turns. Access reviews differ only in their bodies: the first and the last ones are enough."""
    for number in range(runs.n):
        if runs.n < 20 or not 5 <= number <= 15:
            runs.fail(number, KINDS[number % len(KINDS)])


@pytest.mark.slow
@pytest.mark.parametrize("where, side, command", [*cases("at_hetzner"), *cases("at_brightbox")])
def test_each_request_fails_in_each_way(runs):
    for number in range(runs.n):
        for kind in KINDS:
            runs.fail(number, kind)


# --- a cluster with one node -------------------------------------------------------------------------------------------------


def test_a_witness_that_cannot_be_looked_for(cluster, api, proxy, cloud, services, kubelet):
    """The machine of the only node is gone, and its balancer would show that the credentials are the right ones."""
    kubelet("gone", initialized=True, provider_id="hcloud://4711", ready="Unknown")
    network = cloud.add_network("net")
    server = cloud.add_server("other", networks=[network])
    official.leave_balancers(services, cloud, network, [server])
    environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false"}
    flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--node-delete-min-age=0s")
    assert "CCMD031" not in doctor(*flags, env=environment).codes()
    assert plan(*flags, env=environment, scope="nodes").objects["node gone"]["later"]["verdict"] == "unconfirmed"
    cloud.fault("GET", "/load_balancers", faults.error("server_error"), times=None)
    report = doctor(*flags, env=environment)
    assert report.exit_code == 2 and not {"CCMD031", "CCMD049"} & report.codes(), report.content
    assert {"CCMD031", "CCMD049"} <= report.codes("unknown")
    found = plan(*flags, env=environment, scope="nodes")
    assert found.exit_code == 2 and set(found.errors) == {"node gone"} and "later" not in found.objects["node gone"]
