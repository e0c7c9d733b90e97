"""The Hetzner provider's start: what it says when something is wrong, what it shows, and the tutorial's dialect."""
import urllib.request

import pytest

from lib.ccmd import run_ccmd
from lib.nodes import addresses, is_initialized
from lib.process import free_ports
from lib.wait import wait_for

pytestmark = pytest.mark.one_version


@pytest.fixture
def refused(cluster, cloud):
    """refused(NAME=value): what a program says that ends at its start. A variable that is None is not set."""

    def start(**variables):
        environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, **variables}
        done = run_ccmd(
            "--cloud-provider=hcloud", f"--kubeconfig={cluster.ccmd_kubeconfig}", "--leader-elect=false", "--secure-port=0",
            timeout=60, env={name: value for name, value in environment.items() if value is not None})
        assert done.returncode == 1, done.stderr
        return done.stderr

    return start


@pytest.fixture
def start(ccmd, cloud):
    def start(*flags, env=None, provider="hcloud", **options):
        environment = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                       **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        return ccmd(f"--cloud-provider={provider}", *flags, env=environment, **options)

    return start


# --- what is wrong ---------------------------------------------------------------------------------------------------------


def test_a_token_is_required(refused, cloud):
    said = refused(HCLOUD_TOKEN=None)
    assert "Cloud provider could not be initialized" in said and r'\"HCLOUD_TOKEN\" is required' in said
    assert not cloud.calls()


def test_all_mistakes_are_reported_together(refused, cloud):
    said = refused(HCLOUD_DEBUG="foo", ROBOT_CACHE_TIMEOUT="biweekly")
    assert "failed to parse HCLOUD_DEBUG: strconv.ParseBool" in said and "failed to parse ROBOT_CACHE_TIMEOUT" in said


def test_a_wrong_token_is_reported_and_not_shown(refused):
    token = "x" * 64
    said = refused(HCLOUD_TOKEN=token)
    assert "hcloud/newCloud: unable to authenticate (unauthorized" in said, "what alerts match"
    assert token not in said


def test_a_cloud_that_cannot_be_reached(refused):
    said = refused(HCLOUD_ENDPOINT=f"http://127.0.0.1:{free_ports(1)[0]}/v1")
    assert "hcloud/newCloud: GET /locations: " in said


def test_a_network_that_does_not_exist(refused, cloud):
    assert "hcloud/newCloud: Network nowhere not found" in refused(HCLOUD_NETWORK="nowhere\n")
    assert "hcloud/newCloud: Network 4711 not found" in refused(HCLOUD_NETWORK="4711")
    assert cloud.calls("GET", "/networks/4711") == 1, "a number is an ID first"


def test_a_network_that_this_machine_is_not_attached_to(refused, cloud, metadata):
    cloud.add_network("net")
    here = metadata(cloud.add_server("here"))
    said = refused(HCLOUD_NETWORK="net", HCLOUD_METADATA_ENDPOINT=here.url)
    assert "hcloud/newCloud: This node is not attached to Network net" in said
    said = refused(HCLOUD_NETWORK="net", HCLOUD_METADATA_ENDPOINT=f"http://127.0.0.1:{free_ports(1)[0]}")
    assert "checking if server is in Network not possible: serverIsAttachedToNetwork: " in said


# --- what it shows ---------------------------------------------------------------------------------------------------------


def test_metrics_are_where_users_look_for_them(start, cloud):
    port = free_ports(1)[0]
    variables = {"HCLOUD_METRICS_ENABLED": "true", "HCLOUD_METRICS_ADDRESS": f"localhost:{port}"}
    start(env=variables).wait_log("serving the cloud's metrics")
    text = wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode(), what="metrics")
    assert 'hcloud_api_requests_total{api_endpoint="/locations",code="200",method="get"} 1' in text
    assert 'cloud_controller_manager_operations_total{op="hcloud/newCloud"} 1' in text
    other = start(env=variables)
    other.wait_log("cannot serve the cloud's metrics")
    assert other.running, "who moves from one controller to the other has two"


def test_the_debug_dump_has_no_token(api, start, cloud, kubelet):
    cloud.add_server("n1")
    kubelet("n1")
    one = start(env={"HCLOUD_DEBUG": "true"})
    one.wait_log("--- Response:")
    api.wait_node("n1", is_initialized)
    assert "Authorization: REDACTED" in one.text and f"GET {cloud.url}/locations" in one.text
    assert cloud.token not in one.text


def test_a_token_in_a_file_can_be_read_in_the_sandbox(api, start, cloud, kubelet, tmp_path):
    cloud.add_server("n1")
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "token").write_text(cloud.token)
    one = start(env={"HCLOUD_TOKEN": None, "HCLOUD_TOKEN_FILE": str(folder / "token")})
    one.wait_log("controller started")
    kubelet("n1")
    api.wait_node("n1", is_initialized)


# --- the tutorial ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["hcloud-from-scratch", "ccm-from-scratch"])
def test_the_tutorials_nodes(api, start, cloud, kubelet, provider):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", ip="198.18.0.7", ipv6="2001:db8:1234::/64", networks=[network], private_ip="10.0.0.9")
    other = cloud.add_server("n2")
    kubelet("n1", ip="10.0.0.9")
    n2 = kubelet("n2", initialized=True, provider_id=f"ccm-from-scratch://{other.id}")
    start("--allow-untagged-cloud", provider=provider, env={"HCLOUD_NETWORK": str(network.id), "HCLOUD_DEBUG": "yes"})
    node = api.wait_node("n1", is_initialized)
    assert node["spec"]["providerID"] == f"{provider}://{server.id}"
    labels = node["metadata"]["labels"]
    assert (labels["topology.kubernetes.io/region"], labels["topology.kubernetes.io/zone"]) == ("eu-central", "fsn1")
    assert "instance.hetzner.cloud/provided-by" not in labels
    assert addresses(node) == [
        ("Hostname", "n1"), ("ExternalIP", "198.18.0.7"), ("ExternalIP", "2001:db8:1234::"), ("InternalIP", "10.0.0.9")]
    assert n2.node["spec"]["providerID"] == f"ccm-from-scratch://{other.id}"
