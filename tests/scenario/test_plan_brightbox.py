"""ccmd plan at Brightbox: the requests that it prints are those that the next controller sends, and it sends none itself."""
import subprocess

import pytest

from lib.api import NODES
from lib.ccmd import REPOSITORY
from lib.foretold import Foretold
from lib.operator import flags_of, plan
from lib.services import FINALIZER, ingress, path
from sim.brightbox import Brightbox

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]

PREFIX = "service.beta.kubernetes.io/brightbox-load-balancer-"
NAME = "web.default.k"


@pytest.fixture
def cloud(tmp_path):
    """A simulated Brightbox; names of its cloud IPs can be resolved."""
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        yield cloud


@pytest.fixture
def foretold(cluster, cloud, proxy, ccmd, kubelet):
    """Two servers with initialised nodes."""
    for _ in range(2):
        one = cloud.account.add_server()
        kubelet(one["id"], initialized=True, provider_id=f"brightbox://{one['id']}")
    environment = {**cloud.environment(False), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)}
    environment = {name: value for name, value in environment.items() if value is not None}
    cloud_flags = ["--cloud-provider=brightbox", "--cluster-name=k"]
    flags = flags_of(cluster.kubeconfig("through-proxy", url=proxy.url), None, *cloud_flags)
    return Foretold(proxy, cloud, lambda: plan(*flags, env=environment),
                    lambda: ccmd(*cloud_flags, inventory=None, env=environment), None)


def check(foretold):
    found = foretold.carry_out()
    assert foretold.plan().exit_code == 0
    return found


def test_a_new_service_and_what_follows(api, foretold, cloud, services):
    foretold.settle()
    services.create("web", 80)
    found = check(foretold)
    assert found.exit_code == 1 and len(found.requests()[1]) == 7, found.content
    assert ("status ingress", "(new address)") in found.differences()["service default/web"]["new"]
    cip, = cloud.account.named("cloud_ips", NAME)
    assert [one["hostname"] for one in ingress(services.get("web"))] == [cip["reverse_dns"], cip["fqdn"]]

    services.patch("web", {"metadata": {"annotations": {PREFIX + "policy": "round-robin"}}})
    assert found_fields(check(foretold)) == {("policy", "least-connections", "round-robin")}
    services.delete("web")
    assert len(check(foretold).requests()[1]) == 5


def found_fields(found):
    return {(one["name"], one["old"], one["new"]) for _, change in found.changes() for one in change["fields"]}


def test_a_node_less(api, foretold, cloud, services):
    services.create("web", 80)
    foretold.settle()
    gone = cloud.account.every("servers")[1]["id"]
    api.patch(f"{NODES}/{gone}", {"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}})
    assert check(foretold).requests() == ([], ["POST /1.0/server_groups/*/remove_servers", "PUT /1.0/load_balancers/*"])


@pytest.mark.slow
def test_what_the_official_controller_left_behind(foretold, cloud, services):
    """Made by the official library, as its controller does it. The Service has the finalizer and the names of its cloud IP."""
    servers = [one["id"] for one in cloud.account.every("servers")]
    foretold.settle()
    services.create("web", 80, annotations={PREFIX + key: value for key, value in {
        "policy": "round-robin", "listener-protocol": "tcp", "listener-proxy-protocol": "v2", "listener-idle-timeout": "60000",
        "healthcheck-protocol": "http", "healthcheck-interval": "4000"}.items()})
    services.patch("web", {"spec": {"ports": [{"name": "p80-tcp", "port": 80, "protocol": "TCP", "targetPort": 80,
                                               "nodePort": 30080}]}})
    tool = subprocess.run([REPOSITORY / "tools" / "go-program", "tests/scenario/go-brightbox"], check=True,
                          stdout=subprocess.PIPE, text=True)
    subprocess.run([tool.stdout.strip(), "make", NAME, *reversed(servers)], env=cloud.environment(with_user=False), check=True, timeout=60)
    cip, = cloud.account.named("cloud_ips", NAME)
    rule, = cloud.account.every("firewall_rules")
    rule["destination_port"] = "30080"  # the library's program has two ports there
    services.patch("web", {"metadata": {"finalizers": [FINALIZER]}})
    services.api.patch(f"{path('web')}/status", {"status": {"loadBalancer": {"ingress": [
        {"hostname": cip["reverse_dns"]}, {"hostname": cip["fqdn"]}]}}})
    found = check(foretold)
    assert found.exit_code == 0, found.content
