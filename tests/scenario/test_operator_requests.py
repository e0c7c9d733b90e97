"""How many requests the commands for operators send to the cloud, in a project with many servers."""
import json

import pytest

from lib.api import NODES
from lib.ccmd import run_ccmd
from lib.operator import flags_of
from lib.services import ingress
from sim.brightbox import Brightbox

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]


@pytest.fixture
def large(api, cluster, cloud, services, kubelet):
    """A project of 700 servers (14 pages), of which 60 are nodes with routes; large("explain", …): runs a command there, and
    returns what it says and the number of requests that the cloud got."""
    network = cloud.add_network("net", "10.0.0.0/8", subnet="10.0.0.0/16")
    for number in range(700):
        server = cloud.add_server(f"n{number}", networks=[network] if number < 60 else [])
        if number >= 60:
            continue
        kubelet(server.name, ip=server.private_ip(network.id), initialized=True, provider_id=f"hcloud://{server.id}")
        cidr = f"10.244.{number}.0/24"
        api.patch(f"{NODES}/{server.name}", {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})
        with cloud.lock:
            network.routes.append(network.new_route({"destination": cidr, "gateway": server.private_ip(network.id)}))
    services.create("web")
    env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false", "HCLOUD_NETWORK": "net",
           "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud",
                     "--cluster-cidr=10.244.0.0/16")

    def run(*words):
        mark = cloud.mark()
        done = run_ccmd(*words, "-o", "json", *flags, env=env, timeout=120)
        assert done.stdout, done.stderr
        return json.loads(done.stdout), len(cloud.requests(since=mark))

    return run


def test_the_number_of_requests_at_brightbox(api, cluster, services, kubelet, ccmd, tmp_path):
    """Of 40 servers, each with its node. The login counts, too."""
    with Brightbox() as cloud:
        cloud.hosts_file = tmp_path / "hosts"
        cloud.hosts_file.touch()
        env = {**cloud.environment(False), "BRIGHTBOX_HOSTS_FILE": str(cloud.hosts_file)}
        names = [cloud.account.add_server()["id"] for _ in range(40)]
        for name in names:
            kubelet(name, initialized=True, provider_id=f"brightbox://{name}")
        one = ccmd("--cloud-provider=brightbox", inventory=None, env=env)
        services.create("web")
        services.wait("web", ingress)
        one.stop()
        flags = flags_of(cluster.ccmd_kubeconfig, None, "--cloud-provider=brightbox")

        def run(*words):
            before = len(cloud.requests())
            done = run_ccmd(*words, "-o", "json", *flags, env=env, timeout=120)
            assert done.stdout, done.stderr
            return json.loads(done.stdout), len(cloud.requests()) - before

        said, n = run("explain", "node", names[7])
        assert n <= 10 and [row["cloud"] for row in said["comparison"] if row["name"] == "state"] == ["exists, runs"], (n, said)
        assert not [one for one in said["notKnown"] if one["what"].startswith("CCMD")], said
        said, n = run("explain", "service", "default/web")
        assert n <= 10 and said["exists"] and not [one for one in said["notKnown"] if one["what"].startswith("CCMD")], (n, said)


def test_the_number_of_requests_in_a_large_project(large):
    said, n = large("explain", "node", "n7")
    assert n <= 10 and [row["cloud"] for row in said["comparison"] if row["name"] == "state"] == ["exists, runs"], (n, said)
    assert not [one for one in said["notKnown"] if one["what"].startswith("CCMD")], said
    said, n = large("explain", "service", "default/web")
    assert n <= 10 and said["exists"], (n, said)
    said, n = large("explain", "route", "10.244.7.0/24")
    assert n <= 10 and said["state"] == "routed" and said["exitCode"] == 0, (n, said)
    pages = 14
    for words in (["doctor"], ["plan"]):
        _, n = large(*words)
        assert n <= 3 * pages + 15, (words, n)
