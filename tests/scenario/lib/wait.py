"""Waiting for a condition, with a deadline. All waiting of the tests is done here."""
import time

POLL_S = 0.02
PATIENCE_S = 60.0  # until something is taken for missing; tests of many objects set a longer limit


class Timeout(AssertionError):
    """A condition did not become true in time. An AssertionError, so that pytest reports it as a failed test."""


def wait_for(predicate, timeout=PATIENCE_S, what="it", poll=POLL_S, seen=None):
    """Calls predicate() until it returns something true, and returns that.

    An AssertionError or LookupError inside the predicate counts as "not yet", so predicates can be written as
    assertions; the last one is shown on failure. seen, if given, is called for the last state to show.
    """
    deadline = time.monotonic() + timeout
    problem = None
    while True:
        try:
            result = predicate()
            problem = None
        except (AssertionError, LookupError) as not_yet:
            result, problem = None, not_yet
        if result:
            return result
        if time.monotonic() >= deadline:
            break
        time.sleep(poll)
    text = f"waited {timeout:g} s for {what}, in vain"
    if problem is not None:
        text += f"\nlast: {type(problem).__name__}: {problem}"
    if seen is not None:
        text += f"\nlast seen: {seen()}"
    raise Timeout(text)


def holds_for(predicate, seconds, what="it", poll=POLL_S):
    """Checks that predicate() stays true for a while: for things that must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert predicate(), f"{what} did not stay so"
        time.sleep(poll)
