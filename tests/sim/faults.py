"""Faults that a test can inject into a request: actions for Endpoint.fault().

Each is a function (request, go) that returns a Reply; go() is the true answer, which takes effect when called.
"""
import json
import time

from .endpoint import Reply

# What the API says with which status; clients decide by the code.
STATUS = {
    "json_error": 400,
    "deprecated_api_endpoint": 410,
    "unauthorized": 401,
    "forbidden": 403,
    "token_readonly": 403,
    "protected": 423,
    "resource_limit_exceeded": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "uniqueness_error": 409,
    "resource_in_use": 409,
    "invalid_input": 422,
    "locked": 423,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "service_error": 500,
    "bad_gateway": 502,
    "maintenance": 503,
    "unavailable": 503,
    "timeout": 504,
}


def status_of(code):
    """Codes that are not in the table refuse the request's content: 422."""
    return STATUS.get(code, 422)


def error_body(code, message, details=None):
    return {"error": {"code": code, "message": message, "details": details}}


# --- in place of the answer ----------------------------------------------------------------------------------------------


def error(code, message=None, status=None, headers=None):
    """An error as the API writes it. The status is the code's usual one."""
    body = error_body(code, message or f"{code} on purpose")
    return lambda request, go: Reply(status or status_of(code), body, headers)


def locked():
    return error("locked", "the resource is locked by a running action")


def conflict():
    return error("conflict", "the resource was changed during processing, please retry")


def unauthorized():
    return error("unauthorized", "unable to authenticate")


def too_many(reset_in_s=10, limit=3600, retry_after_s=None):
    """429 with the headers of an empty bucket."""

    def act(request, go):
        headers = {"RateLimit-Limit": limit, "RateLimit-Remaining": 0, "RateLimit-Reset": int(time.time() + reset_in_s)}
        if retry_after_s is not None:
            headers["Retry-After"] = retry_after_s
        return Reply(429, error_body("rate_limit_exceeded", "limit of requests per hour reached"), headers)

    return act


def plain(status=502, text="<html><body>Bad Gateway</body></html>"):
    """An answer of a proxy in between, which is not JSON."""
    return lambda request, go: Reply(status, text.encode(), {"Content-Type": "text/html"})


def bad_json(text='{"servers": [{"id": 1, '):
    return lambda request, go: Reply(200, text.encode(), {"Content-Type": "application/json"})


def reset():
    """The connection ends before the request is executed."""
    return lambda request, go: Reply(0, reset=True)


# --- around the answer ---------------------------------------------------------------------------------------------------


def delay(endpoint, seconds):
    """The request is executed late, and so its answer comes late."""

    def act(request, go):
        endpoint.pause(seconds)
        return go()

    return act


def answer_late(endpoint, seconds):
    """The request is executed immediately, and answered late."""

    def act(request, go):
        reply = go()
        endpoint.pause(seconds)
        return reply

    return act


def lose_answer():
    """The request is executed, but the connection ends instead of an answer."""

    def act(request, go):
        go()
        return Reply(0, reset=True)

    return act


def cut_body(length, reset=False):
    """The connection ends after that many bytes of the body, whose announced length is longer."""

    def act(request, go):
        reply = go()
        return Reply(reply.status, reply.body, reply.headers, cut=length, reset=reset)

    return act


def meanwhile(function):
    """Runs the function, then answers: for what happens between two requests, such as pages that shift."""

    def act(request, go):
        function()
        return go()

    return act


def afterwards(function):
    """Runs the function, then answers with the state before it."""

    def act(request, go):
        reply = go()
        function()
        return reply

    return act


def rewrite(change):
    """change(object) alters the answer's body, or returns another."""

    def act(request, go):
        reply = go()
        body = reply.json()
        return Reply(reply.status, json.dumps(change(body) or body).encode(), reply.headers)

    return act


def empty_list():
    """A valid list without entries."""

    def change(body):
        for key, value in body.items():
            if isinstance(value, list):
                body[key] = []
        pagination = body["meta"]["pagination"]
        pagination.update(total_entries=0, last_page=1, next_page=None)

    return rewrite(change)


def wrong_total(difference=1):
    """A list whose total is not the number of its entries."""

    def change(body):
        body["meta"]["pagination"]["total_entries"] += difference

    return rewrite(change)


def short_page(drop=1):
    """A page that lacks its last entries; the total is right."""

    def change(body):
        for key, value in body.items():
            if isinstance(value, list):
                body[key] = value[: max(0, len(value) - drop)]

    return rewrite(change)


# --- actions -------------------------------------------------------------------------------------------------------------


def action_error(code="action_failed", message="Action failed"):
    """The request is accepted; the action that it starts fails."""

    def act(request, go):
        request.outcome = ("error", code, message)
        return go()

    return act


def action_hangs():
    """The request is accepted; the action that it starts never ends, until project.release() is called."""

    def act(request, go):
        request.outcome = ("hangs", None, None)
        return go()

    return act
