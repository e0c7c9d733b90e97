"""An HTTP endpoint on a port of its own: it records every request, and fails where a test asks for it.

    with HCloud() as endpoint:
        endpoint.fault("GET", "/servers", faults.error("unavailable"), times=2)
        ...
        assert endpoint.calls("GET", "/servers") == 3

A subclass, such as HCloud, computes the answers. A fault is a function (request, go) that returns a Reply; go() returns
the answer without the fault. The faults are in faults.py. Every method may be called from any thread.
"""
import contextlib
import http.server
import json
import re
import socket
import struct
import sys
import threading
import time
from urllib.parse import parse_qsl, urlsplit

MAX_BODY = 4 << 20
IDLE_S = 120
PLACEHOLDER = re.compile(r"\{[a-z_]+\}")


def path_pattern(path):
    """The pattern that a whole path must match: from a path such as /servers/{id}, or a regular expression."""
    return re.compile(PLACEHOLDER.sub("[^/]+", path))


class Clock:
    """The endpoint's time, in seconds as time.time(). advance() lets it pass without waiting."""

    def __init__(self):
        self._ahead_s = 0.0
        self._stopped_at = None

    def now(self):
        return (self._stopped_at or time.time()) + self._ahead_s

    def stop(self):
        """From now on only advance() lets time pass."""
        self._stopped_at = time.time()

    def advance(self, seconds):
        self._ahead_s += seconds


class Request:
    """One request as it came in. path is without the endpoint's base; status is None until it is answered."""

    def __init__(self, method, target, headers, body, base, peer):
        self.at = time.monotonic()
        self.method = method
        self.target = target
        parts = urlsplit(target)
        self.full_path = parts.path
        self.has_base = parts.path.startswith(base + "/")
        self.path = parts.path[len(base):] if self.has_base else parts.path
        self.pairs = parse_qsl(parts.query, keep_blank_values=True)
        self.headers = headers
        self.body = body
        self.peer = peer
        self.status = None
        self.took_s = None
        self.fault = None
        self.outcome = None  # how the actions that it starts end, see faults.action_error

    @property
    def query(self):
        """The parameters; if one is given several times, the last one counts."""
        return dict(self.pairs)

    def json(self):
        return json.loads(self.body)

    @property
    def is_write(self):
        return self.method not in ("GET", "HEAD")

    def __repr__(self):
        body = f" {self.body[:300].decode(errors='replace')}" if self.body else ""
        return f"<{self.method} {self.target} {self.status}{body}>"


class Reply:
    """An answer. body is bytes, or an object sent as JSON, or None. With cut, only that many bytes of the body are sent and
    the connection ends, with a reset if reset; cut=None and reset: nothing is sent at all."""

    def __init__(self, status, body=None, headers=None, cut=None, reset=False):
        self.status = status
        self.headers = dict(headers or {})
        self.cut = cut
        self.reset = reset
        if body is None or isinstance(body, bytes):
            self.body = body or b""
        else:
            self.body = json.dumps(body).encode()
            self.headers.setdefault("Content-Type", "application/json")

    def json(self):
        return json.loads(self.body)


class Fault:
    """Acts on requests that match: the first skip of them are answered as usual, and then times of them are acted on."""

    def __init__(self, method, path, action, times, skip, seconds, when):
        self.method = method
        self.pattern = path_pattern(path) if path else None
        self.action = action
        self.times = times
        self.skip = skip
        self.until = None if seconds is None else time.monotonic() + seconds
        self.when = when
        self.seen = 0
        self.hits = 0

    def matches(self, request):
        if self.method and request.method != self.method:
            return False
        if self.pattern and not self.pattern.fullmatch(request.path):
            return False
        return self.when is None or bool(self.when(request))

    def take(self, request):
        """Under the endpoint's lock. True if this request is to be acted on."""
        if (self.until is not None and time.monotonic() >= self.until) or not self.matches(request):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True


class Endpoint:
    base = ""  # where its paths begin
    note = None  # a function of an endpoint and a request, called for each that comes in
    ids = re.compile(r"/[0-9]+")  # the elements of paths that tally() shows as {id}

    def __init__(self, port=0, address="127.0.0.1", latency_s=0.0):
        self.clock = Clock()
        self.latency_s = latency_s
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._requests = []
        self._faults = []
        self._listener = _Server((address, port), _Handler)
        self._listener.endpoint = self
        self.port = self._listener.server_address[1]
        self.url = f"http://{address}:{self.port}{self.base}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True, name="endpoint")
        self._thread.start()

    def answer(self, request):
        """The true answer, a Reply. May be called by several threads at once."""
        raise NotImplementedError

    def close(self):
        """Stops listening, and ends every connection."""
        if not self.closing.is_set():
            self.closing.set()
            self._listener.shutdown()
            self._listener.server_close()
            self._listener.end_connections()
            self._thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- what came in ------------------------------------------------------------------------------------------------

    def requests(self, method=None, path=None, since=0):
        """The requests so far, oldest first. path is as in path_pattern()."""
        pattern = path_pattern(path) if path else None
        with self._lock:
            found = self._requests[since:]
        return [
            one
            for one in found
            if (method is None or one.method == method) and (pattern is None or pattern.fullmatch(one.path))
        ]

    def calls(self, method=None, path=None, since=0):
        """The number of such requests."""
        return len(self.requests(method, path, since))

    def writes(self, since=0):
        return [one for one in self.requests(since=since) if one.is_write]

    def mark(self):
        """How many requests have come so far: pass it as since."""
        with self._lock:
            return len(self._requests)

    def forget(self):
        """Drops the recorded requests: for long runs."""
        with self._lock:
            self._requests.clear()

    def run_until_interrupted(self, is_quiet=False):
        """Until Ctrl-C. Unless is_quiet, prints each request, in the order they came, once it is answered."""
        n_printed = 0
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                self.pause(0.2)
                for one in self.requests(since=n_printed):
                    if one.status is None:
                        break
                    n_printed += 1
                    if is_quiet:
                        continue
                    print(f"{one.status} {one.method} {one.target} {one.body.decode(errors='replace')}", flush=True)

    def tally(self, since=0):
        """How often each method and path was asked, ids as {id}: {"GET /servers/{id}": 3}."""
        counts = {}
        for one in self.requests(since=since):
            key = f"{one.method} {self.ids.sub('/{id}', one.path)}"
            counts[key] = counts.get(key, 0) + 1
        return counts

    # --- faults ------------------------------------------------------------------------------------------------------

    def fault(self, method, path, action, times=1, skip=0, seconds=None, when=None):
        """Acts on requests of that method and path (None: any), the next one unless told otherwise.

        times=None: every one. seconds: for that long. when(request): only if it says so. The first fault that takes a
        request acts on it. Returns the Fault, whose hits say how often it has.
        """
        fault = Fault(method, path, action, times, skip, seconds, when)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear_faults(self):
        with self._lock:
            self._faults.clear()

    # --- inside ------------------------------------------------------------------------------------------------------

    def serve(self, request):
        """Records the request and answers it."""
        fault = self._record(request)
        if self.latency_s:
            self.pause(self.latency_s)
        go = lambda: self.answer(request)
        reply = fault.action(request, go) if fault else go()
        request.took_s = time.monotonic() - request.at
        request.status = reply.status
        return reply

    def pause(self, seconds):
        """Returns after that long, or when the endpoint closes."""
        self.closing.wait(seconds)

    def _record(self, request):
        if Endpoint.note:
            Endpoint.note(self, request)
        with self._lock:
            self._requests.append(request)
            request.fault = next((one for one in self._faults if one.take(request)), None)
        return request.fault


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, *arguments):
        self._connections = set()
        self._lock = threading.Lock()
        self.doomed = set()  # to be ended with a reset
        super().__init__(*arguments)

    def process_request(self, request, client_address):
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        with self._lock:
            self._connections.discard(request)
        if request in self.doomed:
            self.doomed.discard(request)
            self.close_request(request)  # a shutdown first would end it in order
        else:
            super().shutdown_request(request)

    def end_connections(self):
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it ended by itself

    def handle_error(self, request, client_address):
        """A client that closes its connection is not reported; every other error is a bug of the simulator, and printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "sim"
    wbufsize = -1  # the answer leaves in one piece
    timeout = IDLE_S
    disable_nagle_algorithm = True

    def _serve(self):
        body = self._read_body()
        if body is None:
            return
        endpoint = self.server.endpoint
        request = Request(self.command, self.path, self.headers, body, endpoint.base, self.client_address)
        self._send(endpoint.serve(request))

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve

    def _read_body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if "Transfer-Encoding" in self.headers or not 0 <= length <= MAX_BODY:
            self.close_connection = True
            self.send_error(413)
            return None
        return self.rfile.read(length)

    def _send(self, reply):
        if reply.reset and reply.cut is None:
            self._hang_up(reset=True)
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, str(value))
        if reply.status != 204:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD" and reply.status != 204:
            self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
        self.wfile.flush()
        if reply.cut is not None:
            self._hang_up(reply.reset)

    def _hang_up(self, reset):
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.server.doomed.add(self.connection)

    def log_message(self, *_):
        pass
