"""Load balancers of the cloudlycke provider: addresses, hooks and the state file, as a user of `kubectl` sees them."""
import json
import threading
import time

import pytest

from lib.ccmd import run_ccmd
from lib.faultproxy import Hangup
from lib.services import FINALIZER, finalizers, ingress, ips
from lib.wait import PATIENCE_S, holds_for, wait_for

pytestmark = pytest.mark.one_version

POOL = {"name": "lab", "addresses": ["192.0.2.10-192.0.2.12"]}


@pytest.fixture
def lab(inventory):
    """lab(pool, …, state=…, hook=…): an inventory with these pools, by default one of three addresses."""

    def change(*pools, state=None, **balancers):
        inventory.content["addressPools"] = list(pools or [POOL])
        inventory.content["loadBalancers"] = balancers
        if state:
            inventory.content["state"] = {"file": str(state)}
        return inventory.write()

    change()
    return change


@pytest.fixture
def hook(tmp_path):
    """A hook that records its input: .path, .runs(). .fate(script) decides how it ends."""

    class Hook:
        path = tmp_path / "hook"
        folder = tmp_path / "hook.d"

        def runs(self):
            return [json.loads(one.read_text()) for one in sorted(self.folder.glob("run.*"), key=lambda one: int(one.suffix[1:]))]

        def actions(self, name):
            return [one["action"] for one in self.runs() if one["name"] == name]

        def fate(self, script):
            (self.folder / "fate").write_text(script)

    one = Hook()
    one.folder.mkdir()
    one.path.write_text(f"#!/bin/bash\ncd {one.folder}\nf=$(mktemp in.XXXXXX)\ncat >$f\nmv $f run.$(date +%s%N)\n"
                        "test ! -e fate || . ./fate\n")
    one.path.chmod(0o755)
    return one


@pytest.fixture
def node(kubelet):
    return kubelet("n1", initialized=True, provider_id="cloudlycke://m-n1")


HOLD = "example.com/hold"


@pytest.mark.parametrize("is_done", [False, True], ids=["before the API server hears", "before its answer comes"])
def test_a_service_whose_deletion_was_interrupted_takes_no_address_back(services, lab, node, proxy, ccmd, is_done):
    """ccmd is killed when the balancer has been deleted and the address given to another Service, before the finalizer is
    removed."""
    lab({"name": "lab", "addresses": ["192.0.2.10"]})
    reached, strike = threading.Event(), threading.Event()
    made = [services.create(name, kind="ClusterIP") for name in ("a", "b")]
    going, stays = [one["metadata"]["name"] for one in sorted(made, key=lambda one: one["metadata"]["uid"])]
    one = ccmd()
    services.patch(going, {"spec": {"type": "LoadBalancer"}})
    services.wait_ips(going, "192.0.2.10")
    services.patch(going, {"metadata": {"finalizers": [FINALIZER, HOLD]}})
    services.patch(stays, {"spec": {"type": "LoadBalancer"}})
    services.wait_event(stays, "SyncLoadBalancerFailed", "has no free IPv4 address")

    def kill(connection, request):
        reached.set()
        strike.wait(PATIENCE_S)
        if is_done:
            status, headers = connection.ask(request)
            list(connection.answer_body(request, status, headers))
        one.process.child.kill()
        raise Hangup

    proxy.on("PATCH", rf"/services/{going}/status$", kill, when=lambda request: b"$deleteFromPrimitiveList" in request.body)
    services.delete(going)
    assert reached.wait(PATIENCE_S)
    services.wait_ips(stays, "192.0.2.10")
    strike.set()
    wait_for(lambda: not one.running, what="the end")
    one.kill()
    ccmd()
    services.wait(going, lambda now: finalizers(now) == [HOLD] and not ingress(now))
    services.annotate(stays, hostname="stays.example")  # it is worked on after the start
    services.wait(stays, lambda now: [one.get("hostname") for one in ingress(now)] == ["stays.example"])
    assert ips(services.get(stays)) == ["192.0.2.10"] and not ingress(services.get(going))
    assert not services.events(stays, "AddressConflict") + services.events(going, "AddressConflict")


# --- addresses ---------------------------------------------------------------------------------------------------------


def test_kubectl_describe_shows_address_and_events(cluster, services, lab, node, ccmd):
    ccmd()
    services.create("web")
    address, = services.wait_ips("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    text = cluster.kubectl("describe", "service", "web")
    assert f"LoadBalancer Ingress:     {address} (VIP)" in text
    assert text.index("Ensuring load balancer") < text.index("Ensured load balancer")
    assert "service-controller" in text


def test_a_service_gets_an_address_and_gives_it_back(services, lab, node, ccmd):
    ccmd()
    services.create("web")
    address, = services.wait_ips("web")
    services.create("db")
    assert (address, *services.wait_ips("db")) == ("192.0.2.10", "192.0.2.11")
    one = services.get("web")
    assert FINALIZER in finalizers(one)
    assert ingress(one)[0].get("ipMode") == "VIP"
    services.wait_event("web", "EnsuringLoadBalancer")
    services.wait_event("web", "EnsuredLoadBalancer")
    services.delete("web")
    services.wait_gone("web")
    services.create("other")
    assert services.wait_ips("other") == [address]


def test_a_type_change_takes_the_address_away(services, lab, node, ccmd):
    ccmd()
    services.create("web")
    services.wait_ips("web")
    services.patch("web", {"spec": {"type": "ClusterIP"}})
    services.wait("web", lambda one: not ingress(one) and FINALIZER not in finalizers(one))
    services.wait_event("web", "DeletedLoadBalancer")
    services.patch("web", {"spec": {"type": "LoadBalancer"}})
    services.wait_ips("web", "192.0.2.10")


@pytest.mark.plain
def test_a_service_without_an_address_gets_the_next_free_one(services, lab, node, ccmd):
    one = ccmd()
    for name in "abc":
        services.create(name)
        services.wait_ips(name)
    services.create("d")
    services.wait_event("d", "SyncLoadBalancerFailed", 'address pool "lab" has no free IPv4 address (3 of 3 in use)')
    one.wait_log(r"will retry service=default/d .* in=1[0-4]")  # the second try has failed as well
    services.delete("b")
    services.wait_ips("d", "192.0.2.11", timeout=7)  # not only at the next try, after 10 s


def test_requested_addresses(services, lab, node, ccmd):
    lab({**POOL, "avoid": ["192.0.2.11"]})
    ccmd()
    services.create("one", loadBalancerIP="192.0.2.12")
    services.wait_ips("one", "192.0.2.12")
    for name, address, problem in (
        ("taken", "192.0.2.12", 'address "192.0.2.12" is already used by default/one'),
        ("avoided", "192.0.2.11", 'address "192.0.2.11" is reserved in pool "lab"'),
        ("outside", "192.0.2.99", 'address "192.0.2.99" is not in pool "lab"'),
        ("odd", "192.0.2.300", '"192.0.2.300" is not an IP address'),
        ("two", "192.0.2.10,192.0.2.12", "more than one IPv4 address is wanted"),
    ):
        services.create(name, annotations={"addresses": address})
        services.wait_event(name, "SyncLoadBalancerFailed", problem)
        assert not ingress(services.get(name))
    services.annotate("taken", addresses="192.0.2.10")
    services.wait_ips("taken", "192.0.2.10")


@pytest.mark.plain
def test_services_that_share_an_address(services, lab, node, ccmd):
    ccmd()
    services.create("tcp", (53, "TCP"), annotations={"share": "dns"})
    services.wait_ips("tcp", "192.0.2.10")
    services.create("udp", (53, "UDP"), annotations={"share": "dns"})
    services.wait_ips("udp", "192.0.2.10")
    services.create("again", (53, "UDP"), annotations={"share": "dns", "addresses": "192.0.2.10"})
    services.wait_event("again", "SyncLoadBalancerFailed",
                        'address "192.0.2.10" cannot be shared: port 53/UDP is used by default/udp')
    services.create("stranger", (54, "TCP"))
    services.wait_ips("stranger", "192.0.2.11")


def test_pools_by_name_namespace_and_default(services, api, lab, node, ccmd):
    lab({"name": "a", "addresses": ["192.0.2.1"]}, {"name": "b", "addresses": ["192.0.2.2"], "namespaces": ["kube-system"]})
    ccmd()
    services.create("none")
    services.wait_event("none", "SyncLoadBalancerFailed", "no address pool: set one as default or use annotation")
    services.create("typo", annotations={"pool": "c"})
    services.wait_event("typo", "SyncLoadBalancerFailed", 'address pool "c" does not exist')
    services.create("closed", annotations={"pool": "b"})
    services.wait_event("closed", "SyncLoadBalancerFailed", 'address pool "b" is not available to namespace "default"')
    services.create("open", namespace="kube-system", annotations={"pool": "b"})
    services.wait_ips("open", "192.0.2.2", namespace="kube-system")


def test_hostnames_and_ip_modes(services, lab, node, ccmd):
    lab({**POOL, "hostnameTemplate": "{name}.{namespace}.lab.example", "ipMode": "Proxy"})
    ccmd()
    services.create("web")
    services.wait_ips("web")
    assert ingress(services.get("web")) == [{"ip": "192.0.2.10", "hostname": "web.default.lab.example", "ipMode": "Proxy"}]
    services.annotate("web", hostname="www.example.com")
    services.wait("web", lambda one: ingress(one)[0]["hostname"] == "www.example.com")
    services.annotate("web", hostname="not a name")
    services.wait_event("web", "SyncLoadBalancerFailed", 'hostname "not a name" is not a DNS name')
    assert ingress(services.get("web"))[0]["hostname"] == "www.example.com"


def test_services_follow_a_changed_pool(services, lab, node, ccmd):
    one = ccmd()
    services.create("web")
    services.wait_ips("web", "192.0.2.10")
    lab({"name": "lab", "addresses": ["198.51.100.7"]})
    services.wait_ips("web", "198.51.100.7")
    one.wait_log("address 192.0.2.10 left pool .*lab.*; reallocating")
    lab({"name": "other", "addresses": ["203.0.113.1"], "default": True})
    services.delete("web")
    services.wait_gone("web")


# --- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["state file", "no state file", "state file lost"])
def test_a_restart_keeps_everything(services, lab, node, ccmd, tmp_path, memory, proxy):
    """The same addresses, and not one write: neither to the API server nor a second run of a hook."""
    state = tmp_path / "state.json"
    lab(state=None if memory == "no state file" else state)
    one = ccmd()
    wanted = {}
    for number, name in enumerate("abc"):
        services.create(name, loadBalancerIP=f"192.0.2.{12 - number}")
        wanted[name] = services.wait_ips(name)
    for name in "abc":
        services.patch(name, {"spec": {"loadBalancerIP": None}})
        services.wait_event(name, "EnsuredLoadBalancer")
    one.stop()
    if memory == "state file lost":
        state.unlink()
    before = {name: services.get(name)["metadata"]["resourceVersion"] for name in wanted}
    proxy.clear() if hasattr(proxy, "clear") else None
    one = ccmd()
    services.create("d")
    services.wait_event("d", "SyncLoadBalancerFailed", "has no free IPv4 address (3 of 3 in use)")
    assert {name: services.wait_ips(name) for name in wanted} == wanted
    assert {name: services.get(name)["metadata"]["resourceVersion"] for name in wanted} == before


def test_two_services_with_one_address(services, lab, node, ccmd):
    """While ccmd was stopped, another client wrote the address into a status: one Service keeps it, the other gets an event and
    another address."""
    for name in "ab":
        services.create(name)
        services.api.patch(f"/api/v1/namespaces/default/services/{name}/status",
                           {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.11"}]}}})
    keeps, moves = sorted("ab", key=lambda name: services.get(name)["metadata"]["uid"])
    ccmd()
    services.wait_event(moves, "AddressConflict", f"address 192.0.2.11 is in the status of default/{keeps} as well")
    services.wait_ips(moves, "192.0.2.10")
    services.wait_ips(keeps, "192.0.2.11")


def test_services_converge_although_ccmd_is_killed_again_and_again(services, lab, node, ccmd, hook, tmp_path):
    """kill -9 at some moment of each step: in the end each Service has one address of its own, and nothing is left."""
    state = tmp_path / "state.json"
    lab({"name": "lab", "addresses": ["192.0.2.0/26"]}, state=state, hook=str(hook.path))
    names = [f"s{number}" for number in range(12)]
    for name in names:
        services.create(name)
    for delay in (0.02, 0.05, 0.08, 0.12, 0.2, 0.3, 0.05, 0.15):
        one = ccmd()
        time.sleep(delay)
        one.kill()
    for name in names[:6]:
        services.delete(name)
    for delay in (0.05, 0.1, 0.15, 0.25):
        one = ccmd()
        time.sleep(delay)
        one.kill()
    ccmd().wait_log("objects listed kind=Service")  # those before may have done all of it
    found = [services.wait_ips(name)[0] for name in names[6:]]
    for name in names[:6]:
        services.wait_gone(name)
        assert hook.actions(name)[-1:] in (["delete"], []), "what was made for it is gone"
    assert len(set(found)) == 6
    wait_for(lambda: len(json.loads(state.read_text())["loadBalancers"]) == 6, what="six in the state file")
    content = json.loads(state.read_text())["loadBalancers"]
    assert sorted(one["addresses"][0] for one in content.values()) == sorted(found)
    for record in content.values():
        last = [run for run in hook.runs() if run["uid"] == record["uid"]][-1]
        assert last["action"] == "ensure" and last["addresses"] == record["addresses"]


# --- the state file ----------------------------------------------------------------------------------------------------


def start_fails(cluster, inventory):
    done = run_ccmd("--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}", "--leader-elect=false",
                    f"--kubeconfig={cluster.ccmd_kubeconfig}", "--secure-port=0")
    assert done.returncode == 1
    return done.stderr


def test_the_state_file(services, lab, node, ccmd, cluster, inventory, tmp_path):
    folder = tmp_path / "var"
    folder.mkdir()
    state = folder / "state.json"
    lab(state=state)
    one = ccmd()
    services.create("web", externalTrafficPolicy="Local", loadBalancerSourceRanges=["10.0.0.0/8"])
    services.wait_ips("web")
    content = json.loads(state.read_text())
    (name, record), = content["loadBalancers"].items()
    assert name == "a" + services.get("web")["metadata"]["uid"].replace("-", "")[:31]
    assert record == {"namespace": "default", "name": "web", "uid": services.get("web")["metadata"]["uid"],
                      "addresses": ["192.0.2.10"]}
    assert state.stat().st_mode & 0o777 == 0o600
    assert "is locked by another process" in start_fails(cluster, inventory)
    services.create("db")
    services.wait_ips("db")
    assert len(json.loads((folder / "state.json.bak").read_text())["loadBalancers"]) == 1
    folder.rename(tmp_path / "away")
    services.create("late")
    services.wait_event("late", "SyncLoadBalancerFailed", "cannot write state file")
    (tmp_path / "away").rename(folder)
    services.wait_ips("late", "192.0.2.12")
    one.stop()
    state.write_text(state.read_text()[:-20])
    assert "is damaged: invalid JSON" in start_fails(cluster, inventory)


# --- hooks -------------------------------------------------------------------------------------------------------------


def test_a_hook_runs_once_for_every_change(services, lab, node, ccmd, hook, tmp_path, kubelet, settled):
    lab(state=tmp_path / "state.json", hook=str(hook.path))
    one = ccmd()
    services.create("web", 80, (53, "UDP"))
    services.wait_ips("web")
    assert hook.actions("web") == ["ensure"]
    told = hook.runs()[0]
    assert told["addresses"] == ["192.0.2.10"] and [port["protocol"] for port in told["ports"]] == ["TCP", "UDP"]
    kubelet("n2", ip="10.0.0.2", initialized=True, provider_id="cloudlycke://m-n2")
    wait_for(lambda: [one["name"] for one in hook.runs()[-1]["nodes"]] == ["n1", "n2"], what="the hook to hear of n2")
    count = len(hook.runs())
    services.annotate("web", **{"of-no-interest": "x"})
    one.stop()
    one = ccmd()
    services.create("db")
    services.wait_ips("db")
    assert len(hook.runs()) == count + 1
    services.delete("web")
    services.wait_gone("web")
    assert hook.actions("web")[-1] == "delete" and hook.actions("web").count("delete") == 1


@pytest.mark.plain
def test_a_hook_that_fails_is_tried_again(services, lab, node, ccmd, hook):
    hook.fate("echo 'the router is down' >&2; exit 1")
    lab(hook=str(hook.path), hookTimeout="5s")
    ccmd()
    services.create("web")
    services.wait_event("web", "SyncLoadBalancerFailed", "load balancer hook failed: the router is down")
    assert not ingress(services.get("web"))
    hook.fate("sleep 60")
    services.wait_event("web", "SyncLoadBalancerFailed", "load balancer hook failed: timed out")
    hook.fate("exit 0")
    services.wait_ips("web", "192.0.2.10")
    hook.fate("exit 3")
    services.delete("web")
    services.wait_event("web", "SyncLoadBalancerFailed", "load balancer hook failed: exit 3")
    assert FINALIZER in finalizers(services.get("web"))
    hook.fate("exit 0")
    services.wait_gone("web")


def test_few_hooks_run_at_a_time(services, lab, node, ccmd, hook, tmp_path):
    lab({"name": "lab", "addresses": ["192.0.2.0/26"]}, hook=str(hook.path))
    hook.fate("mkdir -p on; touch on/$$; ls on | wc -l >>most; sleep 0.3; rm on/$$")
    for number in range(12):
        services.create(f"s{number}")
    ccmd()
    for number in range(12):
        services.wait_ips(f"s{number}")
    most = max(int(line) for line in (hook.folder / "most").read_text().split())
    assert 2 <= most <= 4


def test_balancers_are_offered_where_the_file_has_them(services, inventory, node, ccmd, settled):
    ccmd()
    services.create("web")
    settled()
    holds_for(lambda: not finalizers(services.get("web")), 1, "the Service untouched")
