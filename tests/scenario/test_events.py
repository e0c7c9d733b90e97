"""Events: what `kubectl describe` shows, how repeats and floods are combined, and that events never delay other work."""
import re
import time

import pytest

from lib.api import EVENTS
from lib.ccmd import machine, sanitized
from lib.faultproxy import EVENTS_PATH, answer, silence
from lib.nodes import create_many, is_initialized, numbered_ip
from lib.wait import wait_for

COMBINED = "(combined from similar events): "


def rejected(api):
    return [one for one in api.list(EVENTS) if one["reason"] == "InventoryReloadRejected"]


def reject(ccmd, inventory, text):
    """Writes an inventory with an error, and then a valid one; returns once ccmd has seen both."""
    for what, content in (("inventory reload rejected", inventory.text().replace("machines:", f"{text}: 1\nmachines:", 1)),
                          ("inventory reloaded", inventory.text())):
        before = ccmd.text.count(what)
        inventory.write(content)
        wait_for(lambda what=what, before=before: ccmd.text.count(what) > before, what=what, poll=0.02)


def initialise_all(api, names, timeout=60):
    wait_for(lambda: all(is_initialized(one) for one in api.list("/api/v1/nodes")), timeout, f"{len(names)} nodes", poll=0.05)


def test_describe_shows_what_was_done(api, cluster, inventory, kubelet, ccmd):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    ccmd()
    api.wait_event("n1", "Synced")
    shown = cluster.kubectl("describe", "node", "n1").split("Events:")[1]
    assert re.search(r"Normal\s+Synced\s+\S+\s+cloud-node-controller\s+Node synced successfully", shown)


def test_a_repeat_raises_the_count(api, cluster, inventory, ccmd):
    one = ccmd()
    one.wait_log("objects listed")
    for count in (1, 2, 3):
        reject(one, inventory, "mistake")
        wait_for(lambda: [event["count"] for event in rejected(api)] == [count], what=f"count {count}")
    (event,) = rejected(api)
    assert event["type"] == "Warning" and event["involvedObject"]["kind"] == "Namespace"
    assert event["source"]["component"] == "cloud-controller-manager" and "mistake" in event["message"]
    assert event["lastTimestamp"] >= event["firstTimestamp"]
    shown = cluster.kubectl("get", "events", "--field-selector", "reason=InventoryReloadRejected", "--no-headers",
                            "-o", "custom-columns=REASON:.reason,COUNT:.count")
    assert shown.split() == ["InventoryReloadRejected", "3"]


def test_an_event_that_the_server_forgot_is_written_again(api, inventory, ccmd):
    one = ccmd()
    one.wait_log("objects listed")
    reject(one, inventory, "mistake")
    wait_for(lambda: rejected(api), what="the event")
    api.delete(EVENTS)
    reject(one, inventory, "mistake")
    (event,) = wait_for(lambda: rejected(api), what="the event again")
    assert event["count"] == 2, "it remembers what the server forgot"


def test_floods_are_combined_and_then_dropped(api, inventory, ccmd):
    """From the 10th different message on, messages share one event. 25 events of one object are written, and then no more."""
    one = ccmd()
    one.wait_log("objects listed")
    for number in range(30):
        reject(one, inventory, f"mistake{number}")
    combined = lambda: [event for event in rejected(api) if event["message"].startswith(COMBINED)]
    wait_for(lambda: [event["count"] for event in combined()] == [16], what="25 events", seen=lambda: rejected(api))
    own = [event for event in rejected(api) if not event["message"].startswith(COMBINED)]
    assert [event["count"] for event in own] == [1] * 9
    assert "mistake24" in combined()[0]["message"], "the message is the last that was let through"


def test_a_terminating_namespace_is_no_error(api, inventory, kubelet, proxy, ccmd):
    """What the API server answers for events of a namespace that is being deleted."""
    message = 'events "x" is forbidden: unable to create new content in namespace default because it is being terminated'
    refuse = proxy.on("POST", EVENTS_PATH, answer(403, message=message), times=None)
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    one = ccmd()
    one.may_be_refused = True
    api.wait_node("n1", is_initialized)
    refuse.wait_hit()
    assert "event not written" not in one.text, "this is not a failure"
    assert len(proxy.requests("POST", EVENTS_PATH)) == 1, "it is final"


FAULTS = {
    "403": lambda: answer(403),
    "429": lambda: answer(429, headers={"Retry-After": "5"}),
    "500": lambda: answer(500),
    "500 with Retry-After": lambda: answer(500, headers={"Retry-After": "5"}),
    "hanging": silence,
}
NODES_EACH = 60


@pytest.mark.parametrize("fault", FAULTS)
def test_events_that_fail_delay_no_node(api, cluster, inventory, proxy, ccmd, fault):
    """Nodes join in three groups. Events fail while the second one does, which may take twice as long as the slower one of the
    others, and 4 s more."""
    inventory.add(*(machine(f"{wave}-{n:05}", numbered_ip(n)) for wave in ("a", "b", "c") for n in range(NODES_EACH)))
    one = ccmd()
    one.may_be_refused = True
    proxy.wait_watching()

    def wave(prefix):
        names = create_many(api, NODES_EACH, prefix=prefix, real_sized=False)
        begun = time.monotonic()
        initialise_all(api, names)
        return time.monotonic() - begun

    before = wave("a")
    rule = proxy.on(None, EVENTS_PATH, FAULTS[fault](), times=None)
    wave_of_one = create_many(api, 1, prefix="sentinel", real_sized=False)  # its event is what fails first
    inventory.add(machine(wave_of_one[0], "10.9.9.9"))
    rule.wait_hit()
    meanwhile = wave("b")
    one.stop()  # so that no event of the second group is left
    proxy.clear()
    mark = proxy.mark()
    ccmd()
    proxy.wait_watching(since=mark)
    after = wave("c")
    assert meanwhile < 2 * max(before, after) + 4, f"{before:.2f} s, {meanwhile:.2f} s while events fail, {after:.2f} s"


@pytest.mark.slow
def test_what_does_not_fit_is_dropped(api, inventory, proxy, ccmd):
    """1,000 events wait for a server that does not accept them; further ones are dropped, and one line reports this."""
    count = 1150
    proxy.on(None, EVENTS_PATH, silence(), times=None)
    inventory.add(*(machine(f"node-{n:05}", numbered_ip(n)) for n in range(count)))
    names = create_many(api, count, real_sized=False)
    one = ccmd()
    initialise_all(api, names, timeout=120)
    one.wait_log("too many events are waiting to be written, dropping some")
    assert one.text.count("too many events") <= 2, "not one line an event"
    assert sanitized() or one.rss_kib() < 100 * 1024
    one.stop()


def test_refused_events_leave_one_warning(api, inventory, kubelet, proxy, ccmd):
    proxy.on("POST", EVENTS_PATH, answer(403, message="no right"), times=None)
    for number in (1, 2, 3):
        inventory.add(machine(f"n{number}", f"10.0.0.{number}"))
        kubelet(f"n{number}", ip=f"10.0.0.{number}")
    one = ccmd()
    wait_for(lambda: len(proxy.requests("POST", EVENTS_PATH)) >= 3, what="events of three nodes")
    one.wait_log("the API server refuses events")
    one.stop()
    assert one.text.count("the API server refuses events") == 1
