"""A proxy in front of the API server that records every request and can do to it what networks and servers do.

    proxy = FaultProxy(cluster)
    kubeconfig = cluster.kubeconfig("through-proxy", url=proxy.url)
    proxy.on("GET", NODES_PATH, cut_events(2), watch=True)       # the first watch of nodes breaks in its third event
    proxy.writes(node="n1")                                      # what was written about that node

The client connects by TLS (HTTP/1.1), with any certificate or token; the proxy speaks to the API server with ccmd's own
certificate, so the API server judges the requests by ccmd's role. Bodies are passed on as they arrive.

An action is a function (connection, request) that serves the request and returns whether the connection may be used
again. The factories below make them: answer, delay, reset, lose_answer, cut_headers, cut_body, cut_events, insert,
replace, stall, silence, vanish, raw, stream.
"""
import ctypes
import fcntl
import json
import re
import select
import socket
import ssl
import struct
import termios
import threading
import time
from urllib.parse import parse_qs, urlsplit

from . import traces
from .api import tls_context
from .wait import PATIENCE_S, wait_for

NODES_PATH = r"^/api/v1/nodes$"
NODE_PATH = r"^/api/v1/nodes/[^/]+$"
STATUS_PATH = r"^/api/v1/nodes/[^/]+/status$"
EVENTS_PATH = r"^/api/v1/namespaces/[^/]+/events"

TICK_S = 0.05
MAX_HEAD = 1 << 20
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "host", "authorization", "content-length"}


class Hangup(Exception):
    """Ends the client's connection: with a reset, or in order (FIN)."""

    def __init__(self, reset=True):
        self.reset = reset


class Request:
    """One request as it came in. status is that of the answer, which began at answered_at; None: there is no answer yet."""

    def __init__(self, connection, method, target, headers, body):
        self.at = time.monotonic()
        self.connection = connection
        self.method = method
        parts = urlsplit(target)
        self.target = target
        self.path = parts.path
        self.query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.headers = headers
        self.body = body
        self._status = None
        self.answered_at = None
        self.rule = None

    @property
    def status(self):
        return self._status

    @status.setter
    def status(self, status):
        self.answered_at = time.monotonic()
        self._status = status

    @property
    def is_watch(self):
        return self.query.get("watch") in ("true", "1")

    @property
    def is_write(self):
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def is_event(self):
        return re.search(EVENTS_PATH, self.path) is not None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        body = f" {self.body[:300].decode(errors='replace')}" if self.body else ""
        return f"<{self.method} {self.target} {self.status}{body}>"


class Rule:
    """Acts on requests that match: the first skip of them are passed on, and then times of them are acted on."""

    def __init__(self, method, path, action, watch=None, skip=0, times=1, when=None):
        self.method = method
        self.path = re.compile(path) if path else None
        self.action = action
        self.watch = watch
        self.skip = skip
        self.times = times
        self.when = when
        self.seen = 0
        self.hits = 0

    def matches(self, request):
        if self.method and request.method != self.method:
            return False
        if self.path and not self.path.search(request.path):
            return False
        if self.watch is not None and request.is_watch != self.watch:
            return False
        return self.when is None or bool(self.when(request))

    def take(self, request):
        """Under the proxy's lock. True if this request is to be acted on."""
        if not self.matches(request):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True

    def wait_hit(self, timeout=PATIENCE_S, hits=1):
        wait_for(lambda: self.hits >= hits, timeout, f"the proxy to have hit {hits} request(s)")


class FaultProxy:
    def __init__(self, cluster, upstream_port=None, pair=None, address="127.0.0.1"):
        self._upstream = ("127.0.0.1", upstream_port or cluster.port)
        self._upstream_context = tls_context(cluster.ca, pair or cluster.ccmd_pair)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(str(cluster.server_pair.certificate), str(cluster.server_pair.key))
        self._context.load_verify_locations(str(cluster.ca))
        self._context.verify_mode = ssl.CERT_OPTIONAL
        self._context.set_alpn_protocols(["http/1.1"])
        self._lock = threading.Lock()
        self._rules = []
        self._requests = []
        self._connections = set()
        self._listener = None
        self.closed = threading.Event()
        self.n_connections = 0
        self.silent = False
        self._address = address
        self.port = self._listen(0)
        self.url = f"https://{f'[{address}]' if ':' in address else address}:{self.port}"

    # --- rules -------------------------------------------------------------------------------------------------------

    def on(self, method, path, action, watch=None, skip=0, times=1, when=None):
        """Adds a rule; the first that takes a request acts on it. times=None: for ever. Returns the rule."""
        rule = Rule(method, path, action, watch, skip, times, when)
        with self._lock:
            self._rules.append(rule)
        return rule

    def fail_nth(self, n, action):
        """The n-th request from now, counted from 1, whatever it is."""
        return self.on(None, None, action, skip=n - 1)

    def clear(self):
        """Removes all rules; a connection that was silenced stays silent until it ends."""
        with self._lock:
            self._rules.clear()

    # --- what came in ------------------------------------------------------------------------------------------------

    def requests(self, method=None, path=None, watch=None, since=0):
        with self._lock:
            found = self._requests[since:]
        return [
            one
            for one in found
            if (method is None or one.method == method)
            and (path is None or re.search(path, one.path))
            and (watch is None or one.is_watch == watch)
        ]

    def mark(self):
        """How many requests have come so far: pass it as since."""
        with self._lock:
            return len(self._requests)

    def writes(self, node=None, events=False, since=0):
        """Requests that were not reads, without those about Events unless asked for."""
        found = [one for one in self.requests(since=since) if one.is_write and (events or not one.is_event)]
        if node is not None:
            found = [one for one in found if re.match(rf"/api/v1/nodes/{re.escape(node)}(/|$)", one.path)]
        return found

    def deletion(self, node=None):
        """The only DELETE, or the only one of that node."""
        (delete,) = [one for one in self.writes(node) if one.method == "DELETE"]
        return delete

    def wait_request(self, predicate, timeout=PATIENCE_S, what="a request", since=0):
        def check():
            with self._lock:
                found = self._requests[since:]
            return next((one for one in found if predicate(one)), None)

        return wait_for(check, timeout, what, seen=lambda: self.requests(since=since)[-5:])

    def wait_watching(self, timeout=PATIENCE_S, since=0, path=NODES_PATH):
        """Returns the first watch that the API server accepted."""
        accepted = lambda one: one.is_watch and one.status == 200 and re.search(path, one.path)
        return self.wait_request(accepted, timeout, "a watch", since)

    # --- the whole network -------------------------------------------------------------------------------------------

    def cut_all(self, reset=True):
        """Ends every present connection."""
        for connection in self._present():
            connection.doom = Hangup(reset)

    def vanish_all(self):
        """Cuts every present connection as if its cable was cut: not even TCP answers any more."""
        for connection in self._present():
            connection.vanish()

    def refuse(self):
        """Stops listening: new connections are refused. Present connections are reset."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut_all()

    def accept_again(self):
        self._listen(self.port)

    def close(self):
        self.closed.set()
        self.refuse()
        for connection in self._present():
            connection.thread.join(2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _listen(self, port):
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        listener = socket.create_server((self._address, port), family=family, backlog=128, reuse_port=False)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True, name="faultproxy").start()
        return listener.getsockname()[1]

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, client)
            with self._lock:
                self._connections.add(connection)
                self.n_connections += 1
                connection.thread.start()

    def _present(self):
        with self._lock:
            return list(self._connections)

    def _forget(self, connection):
        with self._lock:
            self._connections.discard(connection)

    def _record(self, request):
        """Records it and returns the rule that takes it."""
        traces.add(self, request)
        with self._lock:
            self._requests.append(request)
            for rule in self._rules:
                if rule.take(request):
                    request.rule = rule
                    return rule
        return None

    def handshake(self, client):
        return self._context.wrap_socket(client, server_side=True)

    def dial(self):
        upstream = socket.create_connection(self._upstream, timeout=10)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._upstream_context.wrap_socket(upstream, server_hostname="127.0.0.1")


class Connection:
    """One connection of a client, on a thread of its own, with at most one connection to the API server behind it."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.raw = client
        self.wire = client.dup()  # raw loses its descriptor to the TLS handshake
        self.client = None
        self.upstream = None
        self.doom = None  # a Hangup, set from other threads
        self.vanished = False
        self.peer = client.getpeername()
        self._in = bytearray()
        self._up = bytearray()
        self.thread = threading.Thread(target=self._run, daemon=True, name="faultproxy-connection")

    def _run(self):
        reset = False
        try:
            if self.proxy.silent:
                self._silent_raw()
            self.raw.settimeout(20)
            self.client = self._handshake()
            while True:
                request = self._read_request()
                if request is None:
                    break
                rule = self.proxy._record(request)
                action = rule.action if rule else forward
                if not action(self, request):
                    break
        except Hangup as hangup:
            reset = hangup.reset
        except (OSError, ValueError):
            reset = True
        finally:
            self._close(reset)
            self.proxy._forget(self)

    def _handshake(self):
        try:
            return self.proxy.handshake(self.raw)
        except OSError:
            if self.vanished:
                self.wait_for_end()
            raise

    def _close(self, reset):
        if self.upstream:
            self.upstream.close()
        self.wire.close()
        sock = self.client or self.raw
        if reset:
            linger = struct.pack("ii", 1, 0)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except OSError:
                pass
        elif self.client and not self.vanished:
            try:
                self.client.settimeout(1)
                self.client.unwrap()
            except (OSError, ValueError):
                pass
        sock.close()

    # --- the client's side -------------------------------------------------------------------------------------------

    def _wait_readable(self, sock, also_client=False):
        """Returns once sock can be read. With also_client, raises Hangup if the client has gone."""
        while True:
            if self.doom:
                raise self.doom
            if sock.pending():
                return
            watched = [sock, self.client] if also_client and not self.vanished else [sock]
            readable, _, _ = select.select(watched, [], [], TICK_S)
            if also_client and self.client in readable and sock is not self.client:
                self._check_client()
            if sock in readable:
                return

    def _check_client(self):
        """The client's socket can be read while it waits for an answer: it has gone, or has sent the next request."""
        self.client.settimeout(1)
        data = self.client.recv(65536)
        if not data:
            raise Hangup(reset=False)
        self._in += data

    def _receive(self):
        self._wait_readable(self.client)
        self.client.settimeout(20)
        return self.client.recv(65536)

    def _read_request(self):
        while b"\r\n\r\n" not in self._in:
            data = self._receive()
            if not data:
                return None
            self._in += data
        head, _, rest = bytes(self._in).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = parse_headers(lines[1:])
        self._in = bytearray(rest)
        if "expect" in headers:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._read_chunked()
        else:
            body = self._read_exactly(int(headers.get("content-length", 0)))
        return Request(self, method, target, headers, body)

    def _read_exactly(self, length):
        while len(self._in) < length:
            data = self._receive()
            if not data:
                raise Hangup()
            self._in += data
        body = bytes(self._in[:length])
        del self._in[:length]
        return body

    def _read_line(self):
        while b"\r\n" not in self._in:
            data = self._receive()
            if not data:
                raise Hangup()
            self._in += data
        line, _, rest = bytes(self._in).partition(b"\r\n")
        self._in = bytearray(rest)
        return line

    def _read_chunked(self):
        body = b""
        while True:
            size = int(self._read_line().split(b";")[0], 16)
            if size == 0:
                while self._read_line():
                    pass
                return body
            body += self._read_exactly(size)
            self._read_line()

    def send(self, data):
        if self.doom:
            raise self.doom
        if self.vanished:
            self.wait_for_end()
        self.client.settimeout(60)
        self.client.sendall(data)

    def send_answer(self, request, status, body=b"", headers=None):
        request.status = status
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        all_headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        self.send(head_bytes(status, all_headers) + body)
        return True

    def send_chunk(self, data):
        if data:
            self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def pause(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.proxy.closed.is_set():
            if self.doom:
                raise self.doom
            time.sleep(min(TICK_S, max(0, deadline - time.monotonic())))

    def wait_for_end(self):
        """Sends nothing until the client has gone, or the proxy closes."""
        while not self.proxy.closed.is_set():
            if self.doom:
                raise self.doom
            if self.vanished:
                self.proxy.closed.wait(TICK_S)
                continue
            readable, _, _ = select.select([self.client], [], [], TICK_S)
            if readable:
                self._check_client()
        raise Hangup()

    def _silent_raw(self):
        """Not even a TLS handshake."""
        while not self.proxy.closed.is_set() and not self.doom:
            time.sleep(TICK_S)
        raise Hangup()

    def vanish(self):
        """From now on the kernel discards everything that the client sends, without an answer, and the proxy sends nothing.

        What was sent must have been acknowledged before: else our kernel would send it again and again, and the client
        would take that for a sign of life. A connection that ends meanwhile is gone as well.
        """
        self.vanished = True
        try:
            wait_for(lambda: unacknowledged(self.wire) == 0, what="the client to acknowledge what was sent", poll=0.002)
            drop_everything(self.wire)
        except (OSError, ValueError):
            if self.wire.fileno() >= 0:
                raise

    # --- the API server's side ---------------------------------------------------------------------------------------

    def _upstream_usable(self):
        if self.upstream is None:
            return False
        readable, _, _ = select.select([self.upstream], [], [], 0)
        return not readable  # nothing is due: readable means that it was closed

    def ask(self, request):
        """Sends the request on. Returns the answer's status line and headers."""
        if not self._upstream_usable():
            if self.upstream:
                self.upstream.close()
            self.upstream = self.proxy.dial()
            self._up.clear()
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        headers["Host"] = "127.0.0.1"
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(len(request.body))
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.upstream.settimeout(60)
        self.upstream.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body)
        return self._read_answer_head()

    def _upstream_receive(self):
        self._wait_readable(self.upstream, also_client=True)
        data = self.upstream.recv(65536)
        self._up += data
        return data

    def _read_answer_head(self):
        while True:
            while b"\r\n\r\n" not in self._up:
                if not self._upstream_receive():
                    raise Hangup()
            head, _, rest = bytes(self._up).partition(b"\r\n\r\n")
            self._up = bytearray(rest)
            lines = head.decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            if status != 100:
                return status, parse_headers(lines[1:])

    def answer_body(self, request, status, headers):
        """Yields the body as it arrives, without chunk framing."""
        if request.method == "HEAD" or status in (204, 304):
            return
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._upstream_chunks()
        elif "content-length" in headers:
            left = int(headers["content-length"])
            while left > 0:
                if not self._up and not self._upstream_receive():
                    raise Hangup()
                piece = bytes(self._up[:left])
                del self._up[: len(piece)]
                left -= len(piece)
                yield piece
        else:
            while True:
                if self._up:
                    piece = bytes(self._up)
                    self._up.clear()
                    yield piece
                if not self._upstream_receive():
                    break

    def _upstream_line(self):
        while b"\r\n" not in self._up:
            if not self._upstream_receive():
                raise Hangup()
        line, _, rest = bytes(self._up).partition(b"\r\n")
        self._up = bytearray(rest)
        return line

    def _upstream_chunks(self):
        while True:
            size = int(self._upstream_line().split(b";")[0], 16)
            if size == 0:
                while self._upstream_line():
                    pass
                return
            left = size
            while left > 0:
                if not self._up and not self._upstream_receive():
                    raise Hangup()
                piece = bytes(self._up[:left])
                del self._up[: len(piece)]
                left -= len(piece)
                yield piece
            self._upstream_line()


def parse_headers(lines):
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


def head_bytes(status, headers):
    lines = [f"HTTP/1.1 {status} Because"] + [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def unacknowledged(sock):
    """How many bytes in the kernel's send queue the peer has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]


def drop_everything(sock):
    """A socket filter of one instruction, "return 0": TCP never sees another segment, so nothing is acknowledged."""
    SO_ATTACH_FILTER = 26
    instruction = struct.pack("HBBI", 0x06, 0, 0, 0)
    program = ctypes.create_string_buffer(instruction)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))


# --- actions -----------------------------------------------------------------------------------------------------------


def forward(connection, request, transform=None, head_limit=None):
    """Passes the request on and the answer back. transform turns the pieces of the body into others."""
    status, headers = connection.ask(request)
    request.status = status
    close = headers.get("connection", "").lower() == "close"
    outgoing = {name: value for name, value in headers.items() if name not in ("connection", "keep-alive")}
    framed = "content-length" in headers and transform is None
    if not framed:
        outgoing.pop("content-length", None)
        outgoing["transfer-encoding"] = "chunked"
    head = head_bytes(status, outgoing)
    if head_limit is not None:
        connection.send(head[:head_limit])
        raise Hangup()
    connection.send(head)
    pieces = connection.answer_body(request, status, headers)
    for piece in transform(connection, pieces) if transform else pieces:
        if framed:
            connection.send(piece)
        else:
            connection.send_chunk(piece)
    if not framed and request.method != "HEAD" and status not in (204, 304):
        connection.send(b"0\r\n\r\n")
    return not close


def answer(status, body=b"", headers=None, message=""):
    """Answers in the API server's place; without a body, with the Status object that it would send."""
    reasons = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
               422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
    if not body and status >= 400:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status,
                "reason": reasons.get(status, ""), "message": message or f"the fault proxy says {status}"}
    return lambda connection, request: connection.send_answer(request, status, body, headers)


def delay(seconds):
    def act(connection, request):
        connection.pause(seconds)
        return forward(connection, request)

    return act


def meanwhile(function):
    """Runs the function, then passes the request on: for changes between a client's read and its write."""

    def act(connection, request):
        function()
        return forward(connection, request)

    return act


def reset(orderly=False):
    """The connection ends before the API server hears of the request."""

    def act(connection, request):
        raise Hangup(not orderly)

    return act


def lose_answer(orderly=False):
    """The API server does what was asked, but its answer is lost."""

    def act(connection, request):
        status, headers = connection.ask(request)
        request.status = status
        for _ in connection.answer_body(request, status, headers):
            if request.is_watch:
                break
        raise Hangup(not orderly)

    return act


def cut_headers(length=25):
    """The connection breaks after that many bytes of the answer's head."""
    return lambda connection, request: forward(connection, request, head_limit=length)


def cut_body(length, orderly=False):
    """The connection breaks after that many bytes of the body."""

    def transform(connection, pieces):
        left = length
        for piece in pieces:
            if len(piece) >= left:
                yield piece[:left]
                break
            left -= len(piece)
            yield piece
        raise Hangup(not orderly)

    return lambda connection, request: forward(connection, request, transform)


def cut_events(count, inside=True, orderly=False):
    """A watch breaks after count events: in the middle of the next one, or right behind the last."""

    def transform(connection, pieces):
        passed = 0
        if passed == count and not inside:
            raise Hangup(not orderly)
        for line in lines(pieces):
            if passed == count:
                yield line[: len(line) // 2]
                break
            yield line
            passed += 1
            if passed == count and not inside:
                break
        raise Hangup(not orderly)

    return lambda connection, request: forward(connection, request, transform)


def end_events(count):
    """A watch ends properly, with its last chunk, after count events."""

    def transform(connection, pieces):
        passed = 0
        for line in lines(pieces) if count else ():
            yield line
            passed += 1
            if passed == count:
                break

    def act(connection, request):
        forward(connection, request, transform)
        return False  # the API server is still sending

    return act


def insert(extra, after=0):
    """Inserts lines (bytes, or objects sent as JSON) into a watch after that many real events."""
    encoded = [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in extra]

    def transform(connection, pieces):
        if after == 0:
            yield from encoded
        for number, line in enumerate(lines(pieces), 1):
            yield line
            if number == after:
                yield from encoded

    return lambda connection, request: forward(connection, request, transform)


def replace(old, new, count=-1):
    """Changes bytes of the body; the whole of a list, or line by line in a watch."""

    def act(connection, request):
        def transform(connection, pieces):
            for part in lines(pieces) if request.is_watch else [b"".join(pieces)]:
                yield part.replace(old, new, count)

        return forward(connection, request, transform)

    return act


def rewrite(change):
    """Decodes a body that is one object, lets change(object) alter or return another, and sends that."""

    def act(connection, request):
        def transform(connection, pieces):
            decoded = json.loads(b"".join(pieces))
            yield json.dumps(change(decoded) or decoded).encode()

        return forward(connection, request, transform)

    return act


def stall(events=0, length=None):
    """The answer stops after that many events of a watch, or bytes; the connection stays open and silent."""

    def transform(connection, pieces):
        if length is not None:
            left = length
            for piece in pieces:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    break
        elif events:
            for number, line in enumerate(lines(pieces), 1):
                yield line
                if number == events:
                    break
        connection.wait_for_end()

    return lambda connection, request: forward(connection, request, transform)


def silence():
    """The request is accepted and never answered; TCP is alive."""
    return lambda connection, request: connection.wait_for_end()


def vanish(after_head=False):
    """The peer disappears from the network: not even TCP answers. With after_head, this happens once the answer has begun."""

    def transform(connection, pieces):
        connection.vanish()
        connection.wait_for_end()
        yield b""

    def act(connection, request):
        if after_head:
            return forward(connection, request, transform)
        connection.vanish()
        return connection.wait_for_end()

    return act


def raw(data, then_reset=False):
    """Sends these bytes, or each of an iterable, as they are instead of an HTTP answer, and hangs up."""

    def act(connection, request):
        for piece in [data] if isinstance(data, bytes) else data:
            connection.send(piece)
        raise Hangup(then_reset)

    return act


def stream(pieces, status=200, headers=None, then=None):
    """A chunked answer of the pieces of a function's iterable, perhaps endless. then is silence() or reset() after it."""

    def act(connection, request):
        request.status = status
        connection.send(head_bytes(status, {"Content-Type": "application/json", "Transfer-Encoding": "chunked",
                                            **(headers or {})}))
        for piece in pieces():
            connection.send_chunk(piece)
        if then:
            return then(connection, request)
        connection.send(b"0\r\n\r\n")
        return True

    return act


def lines(pieces):
    """The lines of a stream, each with its newline, as soon as it is complete."""
    rest = b""
    for piece in pieces:
        rest += piece
        while (end := rest.find(b"\n")) >= 0:
            yield rest[: end + 1]
            rest = rest[end + 1 :]
    if rest:
        yield rest


def error_event(code=410, reason="Expired", message="too old resource version"):
    return {"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                                        "message": message, "reason": reason, "code": code}}
