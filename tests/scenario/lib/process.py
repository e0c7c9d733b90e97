"""A child process that never outlives us, with its output in a file."""
import contextlib
import ctypes
import functools
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from .wait import wait_for

REPOSITORY = Path(__file__).resolve().parents[3]
PR_SET_PDEATHSIG = 1
SETPRIV = shutil.which("setpriv")
LIBC = ctypes.CDLL(None)


def _die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(argv, **options):
    """subprocess.Popen of a child that the kernel kills when the thread that called this ends, however it ends.

    The thread, not the process: call this from the main thread. setpriv is preferred to preexec_fn, which is not safe
    in a process with threads.
    """
    if SETPRIV:
        return subprocess.Popen([SETPRIV, "--pdeathsig", "KILL", *map(str, argv)], **options)
    return subprocess.Popen([str(word) for word in argv], preexec_fn=_die_with_parent, **options)


class _Ports:
    """A block of ports from which no other process of the tests takes ports, as long as this one lives.

    Those that the kernel gives to who asks for port 0 are no good for a server that starts later, and again later: until
    then they may become the local end of somebody's connection. So these are from below that range, and below NodePorts.
    An abstract socket, which is gone when we are, says that a block is taken.
    """

    FIRST, SIZE, BLOCKS = 20000, 250, 40

    def __init__(self):
        self.claim, first = next(filter(None, map(self._claim, random.sample(range(self.BLOCKS), self.BLOCKS))))
        self.ports = itertools.cycle(range(first, first + self.SIZE))

    def _claim(self, number):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0ccmd-test-ports-{number}")
        except OSError:
            claim.close()
            return None
        return claim, self.FIRST + number * self.SIZE

    def take(self):
        return next(port for port in self.ports if _is_free(port))


def _is_free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", port))
        except OSError:
            return False
        return True


@functools.cache
def _ports():
    return _Ports()


def free_ports(count):
    """Ports on which no process listens, all different, and reserved for the caller."""
    return [_ports().take() for _ in range(count)]


def _is_stopped(pid):
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RSD":
                return False
    return True


class Process:
    """One program. start() again after stop() or kill() runs the same command line, appending to the same log."""

    def __init__(self, name, argv, log, env=None, cwd=None):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = Path(log)
        self.env = env
        self.cwd = cwd
        self.child = None
        self.started_at = None

    def start(self):
        assert not self.running, f"{self.name} runs already"
        with open(self.log, "ab") as log:
            self.started_at = time.monotonic()
            self.child = spawn(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.cwd
            )
        return self

    @property
    def pid(self):
        return self.child.pid

    @property
    def running(self):
        return self.child is not None and self.child.poll() is None

    @property
    def exit_code(self):
        return self.child.poll() if self.child else None

    def signal(self, number):
        if self.running:
            self.child.send_signal(number)

    def pause(self):
        """SIGSTOP: the program freezes, its connections stay open and silent. Returns when all its threads have stopped, which they
        do one after the other."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: not self.running or _is_stopped(self.pid), what=f"each thread of {self.name} to stop")

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout):
        """Its exit code (negative: the signal), or subprocess.TimeoutExpired. If the kernel is closing an inotify descriptor of the
        process when the timeout passes, the wait starts again. The kernel took up to 13 s for this on a busy machine, also after
        SIGKILL."""
        while True:
            try:
                return self.child.wait(timeout)
            except subprocess.TimeoutExpired:
                if not self._closes_inotify():
                    raise

    def _closes_inotify(self):
        try:
            return any("inotify_release" in stack.read_text() for stack in Path(f"/proc/{self.pid}/task").glob("*/stack"))
        except OSError:  # the thread has ended, or its stack cannot be read
            return False

    def stop(self, timeout=10.0):
        """SIGTERM, then SIGKILL past the timeout. Returns the exit code."""
        if not self.running:
            return self.exit_code
        self.resume()
        self.child.terminate()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self):
        """SIGKILL, and waits until it is gone."""
        if self.running:
            self.child.kill()
        return self.wait(10) if self.child else None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines=20):
        return "\n".join(self.log_text().splitlines()[-lines:])

    # --- what it costs -----------------------------------------------------------------------------------------------

    def _proc(self, name):
        return Path(f"/proc/{self.pid}/{name}").read_text()

    def _status_kib(self, key):
        for line in self._proc("status").splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise KeyError(key)

    def rss_kib(self):
        return self._status_kib("VmRSS")

    def rss_anon_kib(self):
        return self._status_kib("RssAnon")

    def rss_peak_kib(self):
        return self._status_kib("VmHWM")

    def cpu_seconds(self):
        """User and system time of all its threads."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def end_on_interrupt():
    """Ctrl-C ends this program immediately, as SIGTERM does. Otherwise KeyboardInterrupt can come just after subprocess has taken a
    lock, and every later wait() hangs. tools/supervise, under which ./dev runs this program, ends the children and removes the
    files."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
