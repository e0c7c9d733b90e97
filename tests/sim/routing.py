"""Checks a request against tables.py, and finds the function that serves it."""
import json
import re

from . import tables
from .project import ApiError, invalid, refused

HANDLERS = {}  # (method, path) -> function(project, call)


def serves(method, path):
    """The function that serves this row of tables.ROWS: (project, call) -> what the body says, None for nothing."""

    def remember(function):
        assert (method, path) in tables.ROWS and (method, path) not in HANDLERS, (method, path)
        HANDLERS[method, path] = function
        return function

    return remember


def _compiled():
    """For paths without a placeholder first, so that /servers/actions is no server."""
    paths = sorted({path for _, path in tables.ROWS}, key=lambda path: (path.count("{"), path))
    named = [(re.compile(re.sub(r"\{([a-z_]+)\}", r"(?P<\1>[^/]+)", path)), path) for path in paths]
    return named


PATHS = _compiled()


class Call:
    """A request that has passed the checks."""

    def __init__(self, request, path, row, parts, body, now):
        self.request = request
        self.path = path
        self.row = row
        self.parts = parts
        self.body = body
        self.now = now
        self.headers = {}  # of the answer
        self.status = row.status

    @property
    def id(self):
        return self.parts["id"]

    def one(self, name):
        """A query parameter's value, or None. An empty name or selector is as good as none."""
        return self.request.query.get(name) or None

    def every(self, name):
        return [value for key, value in self.request.pairs if key == name and value]

    def render(self, action):
        return action.json(self.now)


def call_of(request, now):
    """The request as a Call, or ApiError."""
    path, parts = _find(request)
    row = tables.ROWS[request.method, path]
    _check_query(request, row)
    return Call(request, path, row, parts, _check_body(request, row), now)


def _find(request):
    known = False
    for pattern, path in PATHS:
        match = pattern.fullmatch(request.path)
        if match and (request.method, path) in tables.ROWS:
            return path, match.groupdict()
        known = known or match
    if known:
        raise ApiError("method_not_allowed", f"{request.method} is not allowed here")
    raise ApiError("not_found", "page not found")


def _check_query(request, row):
    problems = []
    for name, text in request.pairs:
        kind = row.query.get(name)
        if kind is None:
            problems.append((name, "unknown parameter"))
        elif text:
            kind.check(int(text) if int in kind.types and re.fullmatch(r"-?[0-9]{1,18}", text) else text, name, problems)
    if problems:
        raise invalid(problems)


def _check_body(request, row):
    if row.body is None:
        if request.body.strip() not in (b"", b"{}"):
            raise refused("body", "this request takes no body")
        return {}
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        raise ApiError("json_error", "the body is not announced as application/json")
    try:
        body = json.loads(request.body)
    except ValueError:
        raise ApiError("json_error", "the body is not valid JSON") from None
    problems = []
    row.body.check(body, "", problems)
    if problems:
        raise invalid(problems)
    return body
