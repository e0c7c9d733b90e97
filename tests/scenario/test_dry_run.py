"""--dry-run: each change is logged once and none is made, beside a controller that leads."""
import re
from collections import Counter

import pytest

from lib.api import NODES
from lib.ccmd import FAST, machine
from lib.haproxy import PROGRAM, Haproxy
from lib.nodes import is_initialized
from lib.replicas import LEASE, is_lease
from lib.services import ips
from lib.wait import holds_for, wait_for

pytestmark = [pytest.mark.plain, pytest.mark.one_version]

HERE = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
NO_TARGET = {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}
QUIET_S = 1.0
LINE = re.compile(r"^\S+ info  would (create|change|delete) (.*)$", re.MULTILINE)
REQUEST = re.compile(r'request="([^"]*)"')
ABOUT = re.compile(r'for="([^"]*)"')


def lines(ccmd):
    """What was logged, without the times."""
    return [" ".join(found) for found in LINE.findall(ccmd.text)]


def lines_about(ccmd, what):
    return [one for one in lines(ccmd) if ABOUT.search(one)[1] == what]


def requests(ccmd, to):
    return Counter(REQUEST.search(one)[1] for one in lines(ccmd) if f'to={to} ' in one)


def sent(writes):
    return Counter(f"{one.method} {one.path}" for one in writes)


def test_each_change_is_logged_once_and_then_made_by_a_controller(api, cloud, proxy, kubelet, services, hetzner):
    cloud.add_server("n1")
    server = cloud.add_server("n2")
    kubelet("n1", ip="10.0.0.1", labels=NO_TARGET)
    kubelet("n2", ip="10.0.0.1", initialized=True, provider_id=f"hcloud://{server.id}")
    kubelet("gone", ip="10.0.0.2", initialized=True, provider_id="hcloud://4711", labels=NO_TARGET).silent()
    services.create("web", 80)
    dry = hetzner("--dry-run", env=HERE, leader_elect=True, **FAST)
    dry.wait_log(r"would delete what=node name=gone")
    dry.wait_log(r"would change what=service .*status ingress")
    holds_for(lambda: not proxy.writes(events=True) and not cloud.writes(), QUIET_S, "nothing is written", poll=0.1)
    assert max(Counter(lines(dry)).values()) == 1
    assert api.get_or_none(LEASE) is None
    to_server, to_cloud = requests(dry, '"API server"'), requests(dry, "cloud")

    before = len(lines_about(dry, "node n1"))
    api.patch(f"{NODES}/n1", {"metadata": {"labels": {"example.com/poke": "1"}}})
    wait_for(lambda: len(lines_about(dry, "node n1")) == 2 * before, what="the changes to be logged again")
    dry.stop()
    assert not proxy.writes(events=True) and not cloud.writes()

    hetzner(env=HERE, leader_elect=True, **FAST)
    api.wait_node("n1", is_initialized)
    services.wait("web", ips)
    wait_for(lambda: not api.get_or_none(f"{NODES}/gone"), what="the node to be deleted")
    assert sent(one for one in proxy.writes() if not is_lease(one)) == to_server
    assert sent(cloud.writes()) == to_cloud
    holder = api.get(LEASE)["spec"]["holderIdentity"]

    beside = hetzner("--dry-run", env=HERE, leader_elect=True, **FAST)
    beside.wait_log("objects listed kind=Service")
    holds_for(lambda: not lines(beside), QUIET_S, "nothing left to change")
    assert api.get(LEASE)["spec"]["holderIdentity"] == holder


@pytest.fixture
def haproxy(tmp_path, inventory):
    one = Haproxy(tmp_path / "haproxy")
    inventory.content["addressPools"] = [{"name": "lab", "addresses": ["127.99.0.10-127.99.0.20"]}]
    inventory.content["loadBalancers"] = {"haproxy": one.settings}
    inventory.content["state"] = {"file": str(tmp_path / "state.json")}
    inventory.write()
    one.start()
    yield one
    one.stop()


def files(folder):
    return {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.rglob("*") if one.is_file() and one.suffix != ".log"}


@pytest.mark.skipif(PROGRAM is None, reason="no haproxy here")
def test_neither_the_files_nor_haproxy_are_touched(
        api, inventory, haproxy, kubelet, services, ccmd, tmp_path):
    inventory.add(machine("n1", "127.99.1.1"), machine("n2", "127.99.1.2"))
    kubelet("n1", ip="127.99.1.1")
    real = ccmd()
    api.wait_node("n1", is_initialized)
    services.create("web", 18080)
    services.wait("web", ips)
    dry = ccmd("--dry-run")
    dry.wait_log("objects listed kind=Service")
    holds_for(lambda: not lines(dry), QUIET_S, "nothing to change")

    real.stop()
    before = files(tmp_path)
    kubelet("n2", ip="127.99.1.2")
    services.create("more", 18081)
    dry.wait_log(r'would change what=node name=n2 .*taint')
    dry.wait_log(r'would change what=service .*for="service default/more" .*status ingress')
    dry.stop()
    assert files(tmp_path) == before
