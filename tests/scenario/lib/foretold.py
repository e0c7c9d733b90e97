"""A plan, and then the controller itself: everything that the controller changes must be in the plan, and nothing else.

    foretold.settle()                              # a controller runs until there is nothing to do, and ends
    services.annotate("web", …)                    # something changes
    plan = foretold.check()                        # a plan, and a controller that does what the plan says

What was changed is compared in two ways: request by request, as the fault proxy and the cloud recorded them, and member by
member, by comparing the cluster and the cloud before and after.
"""
import re
from collections import Counter

from .services import FINALIZER as CLEANUP
from .wait import holds_for, wait_for

QUIET_S = 1.0


class Foretold:
    """plan() returns a lib.operator.Plan; start() a running Ccmd; facts() {"node n1": [("label a", "b")]}: the state of all
    that the controllers change, in the words of plans. cloud: a sim.Endpoint, or None. A cloud's logins are no changes."""

    def __init__(self, proxy, cloud, plan, start, facts):
        self.proxy, self.cloud, self.facts = proxy, cloud, facts
        self._plan, self._start = plan, start

    def requests(self, marks):
        """Those that change something: (the API server's, the cloud's), sorted."""
        server = sorted(f"{one.method} {one.path}" for one in self.proxy.writes(since=marks[0])
                        if "authorization.k8s.io" not in one.path)
        cloud = [one for one in self.cloud.writes(since=marks[1]) if "/token" not in one.path] if self.cloud else []
        return server, sorted(f"{one.method} {without_ids(one.path)}" for one in cloud)

    def marks(self):
        return self.proxy.mark(), self.cloud.mark() if self.cloud else 0

    def plan(self, **options):
        """A plan; it sends nothing that changes anything."""
        marks = self.marks()
        found = self._plan(**options)
        assert self.requests(marks) == ([], []), "a plan changed something"
        return found

    def settle(self):
        one = self._start()
        wait_for(lambda: self._plan().exit_code == 0, what="nothing to do", seen=lambda: self._plan().content)
        one.stop()
        assert self.plan().exit_code == 0

    def carry_out(self):
        """A plan, and then a controller that sends these requests and no others. Returns the plan."""
        found, marks = self.plan(), self.marks()
        wanted = found.requests()
        one = self._start()
        for kind in ("Node", "Service"):
            one.wait_log(f"objects listed kind={kind}")
        seen = lambda: {"plan": wanted, "done": self.requests(marks)}
        wait_for(lambda: self.requests(marks) == wanted, what="the requests of the plan", seen=seen)
        holds_for(lambda: self.requests(marks) == wanted, QUIET_S, "the requests of the plan, and no others")
        one.stop()
        return found

    def check(self):
        before, found = self.facts(), self.carry_out()
        check_differences(found, before, self.facts())
        return found


ROUTES = {"create route": "POST /networks/*/actions/add_route", "remove route": "POST /networks/*/actions/delete_route"}


def without_ids(path):
    """The cloud's IDs, and {id}, which stands for one in a plan, become *. A plan does not know the requests of a route."""
    return ROUTES.get(path) or re.sub(r"/(\d+|\{id\}|[a-z]{3}-([a-z0-9]{5}|new))(?=/|$)", "/*", path)


def check_differences(plan, before, after):
    """before and after: {"node n1": [("label a", "b"), …]}."""
    foretold = plan.differences()
    for thing in sorted({*before, *after, *foretold}):
        old, new, said = before.get(thing), after.get(thing), foretold.get(thing)
        removed, added = Counter(old or []) - Counter(new or []), Counter(new or []) - Counter(old or [])
        if said is None:
            assert not removed and not added and (old is None) == (new is None), f"not in the plan: {thing}: {removed}, {added}"
            continue
        if thing.startswith("service ") and new is None and ("finalizer", CLEANUP) in said["old"]:
            continue  # the API server deletes it with its last finalizer
        exists = {"create": (False, True), "change": (True, True), "delete": (True, False)}[said["action"]]
        assert exists == (old is not None, new is not None), f"{thing}: {said['action']}"
        if said["action"] != "delete":
            check_members(thing, removed, said["old"])
            check_members(thing, added, said["new"], has_defaults=said["action"] == "create")


def check_members(thing, seen, said, has_defaults=False):
    """A value in parentheses is not known before: "(new address)". has_defaults: the cloud adds members of its own."""
    unknown = {name for name, value in said if value.startswith("(")}
    known = Counter(one for pair in said if pair[0] not in unknown for one in texts(*pair))
    assert known <= seen, f"{thing}: in the plan, but not done: {known - seen}"
    assert unknown <= {name for name, _ in seen}, f"{thing}: {unknown} did not become anything"
    whole = tuple(f"{name} " for name, _ in said if re.fullmatch(r"service \d+", name))  # with the cloud's defaults
    rest = {one for one in (seen - known) if one[0] not in unknown and not one[0].startswith(whole or "\n")}
    assert has_defaults or not rest, f"{thing}: done, but not in the plan: {rest}"


def texts(name, value):
    """A service of a balancer is one text: "protocol tcp, listen_port 80". Whose machine a target is does not matter."""
    if re.fullmatch(r"service \d+", name):
        return [(f"{name} {key}", one) for key, _, one in (part.partition(" ") for part in value.split(", "))]
    return [("target" if name.startswith("target ") else name, value)]
