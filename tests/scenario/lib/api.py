"""A thin client of the API server: paths and dictionaries in, dictionaries out, connections kept alive.

An Api may be used from several threads; each gets a connection of its own.
"""
import http.client
import json
import socket
import ssl
import threading
import time
from urllib.parse import urlencode, urlsplit

from .wait import PATIENCE_S, wait_for

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

CLOSED = (ConnectionError, ssl.SSLEOFError, http.client.HTTPException)

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class ApiError(Exception):
    """An answer with a status of 400 or more."""

    def __init__(self, method, path, answer):
        self.status = answer.status
        try:
            self.body = json.loads(answer.body)
        except ValueError:
            self.body = {"message": answer.body[:500].decode(errors="replace")}
        self.reason = self.body.get("reason", "")
        super().__init__(f"{method} {path}: {self.status} {self.reason}: {self.body.get('message', '')}")


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


def tls_context(ca, pair=None):
    context = ssl.create_default_context(cafile=str(ca))
    if pair:
        context.load_cert_chain(str(pair.certificate), str(pair.key))
    return context


class _Connection(http.client.HTTPConnection):
    """HTTPS in which a connection that breaks is an OSError: http.client's own takes it for an orderly end."""

    def __init__(self, host, port, timeout, context):
        super().__init__(host, port, timeout=timeout)
        self._context = context

    def connect(self):
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host, suppress_ragged_eofs=False)


class Api:
    def __init__(self, url, ca, pair=None, token=None, timeout=30):
        parts = urlsplit(str(url))
        self.host, self.port = parts.hostname, parts.port
        self.timeout = timeout
        self.token = token
        self._context = tls_context(ca, pair) if ca else None  # None: plain HTTP
        self._local = threading.local()
        self._connections = set()
        self._lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    # --- requests ----------------------------------------------------------------------------------------------------

    def request(self, method, path, body=None, content_type="application/json", query=None, headers=None):
        """One request, whatever the answer. A dictionary as body is sent as JSON."""
        if query:
            path = f"{path}?{urlencode(query)}"
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body, separators=(",", ":"))
        all_headers = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            all_headers["Content-Type"] = content_type
        if self.token:
            all_headers["Authorization"] = f"Bearer {self.token}"
        for fresh in (False, True):
            connection, reused = self._connection(fresh)
            try:
                connection.request(method, path, body, all_headers)
                response = connection.getresponse()
                return Answer(response.status, response.headers, response.read())
            except (OSError, http.client.HTTPException) as problem:
                self._drop(connection)
                # a kept connection may have been closed meanwhile: that is no failure of this request
                if not reused or not isinstance(problem, CLOSED):
                    raise problem if isinstance(problem, OSError) else ConnectionError(repr(problem)) from problem

    def call(self, method, path, body=None, **options):
        """One request; its decoded answer, or ApiError."""
        answer = self.request(method, path, body, **options)
        if answer.status >= 400:
            raise ApiError(method, path, answer)
        return answer.json()

    def get(self, path, **query):
        return self.call("GET", path, query=query)

    def get_or_none(self, path):
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path, **query):
        return self.get(path, **query)["items"]

    def post(self, path, body, **query):
        return self.call("POST", path, body, query=query)

    def put(self, path, body, **query):
        return self.call("PUT", path, body, query=query)

    def patch(self, path, body, content_type=MERGE, **query):
        return self.call("PATCH", path, body, content_type=content_type, query=query)

    def delete(self, path, missing_ok=True, **query):
        try:
            return self.call("DELETE", path, query=query)
        except ApiError as error:
            if error.status == 404 and missing_ok:
                return None
            raise

    def ensure(self, path, body):
        """Creates the object unless one of that name exists."""
        try:
            return self.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return self.get(f"{path}/{body['metadata']['name']}")

    # --- watching ----------------------------------------------------------------------------------------------------

    def watch(self, path, timeout=30, **query):
        """Yields (type, object) until the time is up or the server ends the stream; on a connection of its own."""
        deadline = time.monotonic() + timeout
        query = {"watch": "true", "timeoutSeconds": max(1, int(timeout) + 1), **query}
        connection = self._connect()
        try:
            connection.request("GET", f"{path}?{urlencode(query)}", headers=self._watch_headers())
            response = connection.getresponse()
            if response.status >= 400:
                raise ApiError("GET", path, Answer(response.status, response.headers, response.read()))
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                # the connection hands its socket over once the answer is to be read until its end
                stream = connection.sock or response.fp.raw._sock
                stream.settimeout(left)
                try:
                    line = response.readline()
                except (socket.timeout, TimeoutError):
                    return
                if not line:
                    return
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def _watch_headers(self):
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    # --- nodes, events -----------------------------------------------------------------------------------------------

    def node(self, name):
        return self.get(f"{NODES}/{name}")

    def wait_node(self, name, predicate, timeout=PATIENCE_S, what=None):
        """Polls the node until it exists and predicate(node) is true or passes as assertions; returns the node."""
        last = [None]

        def check():
            last[0] = self.get_or_none(f"{NODES}/{name}")
            if last[0] is None:
                return None
            result = predicate(last[0])
            return last[0] if result or result is None else None

        return wait_for(check, timeout, what or f"node {name}", seen=lambda: brief(last[0]))

    def wait_gone(self, name, timeout=PATIENCE_S):
        wait_for(lambda: self.get_or_none(f"{NODES}/{name}") is None, timeout, f"node {name} to be deleted")

    def events(self, name=None, reason=None, uid=None, kind=None):
        """Events, oldest first. The API server writes some of its own, about its Services: ask for a kind or a reason."""
        found = []
        for event in self.list(EVENTS):
            about = event["involvedObject"]
            if kind is not None and about.get("kind") != kind:
                continue
            if name is not None and about.get("name") != name:
                continue
            if uid is not None and about.get("uid") != uid:
                continue
            if reason is None or event.get("reason") == reason:
                found.append(event)
        return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def wait_event(self, name, reason, timeout=PATIENCE_S):
        """The first event of that reason about that node."""
        seen = lambda: [(e["reason"], e["message"]) for e in self.events(name)]
        found = wait_for(lambda: self.events(name, reason), timeout, f"event {reason} about {name}", seen=seen)
        return found[0]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _connect(self):
        if self._context:
            connection = _Connection(self.host, self.port, self.timeout, self._context)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        connection.connect()
        return connection

    def _connection(self, fresh):
        """This thread's connection, and whether it was used before."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None and not fresh:
            return connection, True
        connection = self._connect()
        self._local.connection = connection
        with self._lock:
            self._connections.add(connection)
        return connection, False

    def _drop(self, connection):
        connection.close()
        self._local.connection = None
        with self._lock:
            self._connections.discard(connection)


def brief(thing):
    """A node without what fills the screen."""
    if not isinstance(thing, dict) or "metadata" not in thing:
        return thing
    metadata = {k: v for k, v in thing["metadata"].items() if k not in ("managedFields",)}
    status = {k: v for k, v in thing.get("status", {}).items() if k in ("addresses",)}
    return json.dumps({"metadata": metadata, "spec": thing.get("spec"), "status": status}, indent=1)
