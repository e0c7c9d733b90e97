"""A real HAProxy, as its systemd unit runs it, and the programs behind it."""
import http.client
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .process import Process
from .wait import wait_for

PROGRAM = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")

EMPTY = """global
defaults
    mode tcp
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend nothing
    bind abns@ccmd-test-nothing-{name}
    tcp-request connection reject
"""


class Haproxy:
    """Master and worker. ccmd writes the configuration; reload is the command that loads it again.

    namespace is a lib.netns.Namespace to run in.
    """

    def __init__(self, folder, namespace=None):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.file = self.folder / "haproxy.cfg"
        self.socket = self.folder / "stats.sock"
        self.file.write_text(EMPTY.format(name=time.monotonic_ns()))
        argv = [PROGRAM, "-W", "-f", self.file]
        self.process = Process("haproxy", namespace.command(*argv) if namespace else argv, self.folder / "haproxy.log")
        self.count = self.folder / "reloads"
        self.script = self.folder / "reload"
        self.lost = self.folder / "lost"

    def start(self):
        self.process.start()
        send = f"rm {self.lost} 2>/dev/null || kill -USR2 {self.process.pid}"
        self.script.write_text(f"#!/bin/sh\necho reload >>{self.count}\n{send}\n")
        self.script.chmod(0o755)
        wait_for(lambda: "Loading success" in self.process.log_text(), what="HAProxy to start", seen=self.process.log_text)
        return self

    def stop(self):
        self.process.stop()

    @property
    def settings(self):
        """For loadBalancers.haproxy of an inventory."""
        return {"file": str(self.file), "statsSocket": str(self.socket), "check": [PROGRAM, "-c", "-f"],
                "reload": [str(self.script)]}

    def ask(self, command):
        """The answer of the running worker on its stats socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def worker(self):
        """The process ID of the worker that answers on the stats socket."""
        return int(re.search(r"^Pid: (\d+)", self.ask("show info"), re.MULTILINE)[1])

    def lose_next_reload(self):
        """The next reload's command succeeds but sends no signal; a busy HAProxy loses one now and then."""
        self.lost.touch()

    def wait_knows_clients(self, after=None):
        """Waits until the worker has the stick table of the one before, or has given up waiting for it (5 s): only then does it send
        its own to the next.

        after: the worker before a reload. It still answers for a moment after the reload's command has ended.
        """
        def state():
            return self.worker(), int(re.search(r" flags=(0x\w+)", self.ask("show peers"))[1], 16) & 3

        wait_for(lambda: state()[0] != after and state()[1] == 3, what="the new worker to know the clients", seen=state)

    def reloads(self):
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def text(self):
        return self.file.read_text()

    def is_valid(self):
        return subprocess.run([PROGRAM, "-c", "-f", self.file], capture_output=True).returncode == 0


class Backend:
    """An HTTP server on a node's address and node port: it answers with its name. /slow takes its time."""

    def __init__(self, name, address, port, proxied=False):
        backend = self
        self.name = name
        self.count = 0
        self.seen = []  # addresses of clients, as the PROXY protocol tells them

        class Handler(BaseHTTPRequestHandler):
            def setup(self):
                if proxied:
                    backend.seen.append(read_proxy_header(self.request))
                super().setup()

            def do_GET(self):
                backend.count += 1
                if self.path == "/slow":
                    time.sleep(3)
                body = backend.name.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, *_):
                """Health checks close the connection without a request."""

        self.server = Server((address, port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def read_proxy_header(connection):
    """The source address of a PROXY header, version 1 or 2; None for a health check's."""
    start = connection.recv(12, socket.MSG_WAITALL)
    if start == b"\r\n\r\n\0\r\nQUIT\n":
        command, family, length = struct.unpack("!BBH", connection.recv(4, socket.MSG_WAITALL))
        rest = connection.recv(length, socket.MSG_WAITALL)
        if command & 15 != 1 or family >> 4 not in (1, 2):
            return None
        return socket.inet_ntop(*((socket.AF_INET, rest[:4]) if family >> 4 == 1 else (socket.AF_INET6, rest[:16])))
    line = start
    while not line.endswith(b"\r\n"):
        one = connection.recv(1)
        if not one:
            return None
        line += one
    words = line.decode().split()
    return words[2] if words[1] in ("TCP4", "TCP6") else None


def fetch(address, port, path="/", timeout=10, source=None):
    """One request on a connection of its own. Returns the name of the backend that answered."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout, source_address=source and (source, 0))
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


class Stream:
    """Requests without a pause, from a few threads; each failure is kept."""

    def __init__(self, address, port, threads=3):
        self.address, self.port = address, port
        self.answers = []
        self.failures = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _run(self):
        while not self._end.is_set():
            try:
                self.answers.append(fetch(self.address, self.port, timeout=20))
            except (OSError, http.client.HTTPException) as problem:
                self.failures.append(repr(problem))

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for one in self._threads:
            one.join(30)
