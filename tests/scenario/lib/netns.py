"""Networks of the tests' own: network namespaces, which are visible from outside too."""
import contextlib
import ctypes
import os
import shutil
import subprocess

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def available():
    """Why network namespaces cannot be used, or None."""
    if os.geteuid() != 0 or not shutil.which("ip") or subprocess.run(["unshare", "-n", "true"]).returncode != 0:
        return "network namespaces need root, and ip"
    return None


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout


class Namespace:
    """ip("address", "add", …) and command("haproxy", …) are about what is inside it, where loopback is up already."""

    def __init__(self, name):
        self.name = f"ccmd-{name}-{os.getpid()}"

    def __enter__(self):
        ip("netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        ip("netns", "delete", self.name, check=False)

    def ip(self, *arguments):
        return ip("-n", self.name, *arguments)

    def command(self, *argv):
        return ["ip", "netns", "exec", self.name, *map(str, argv)]

    def sysctl(self, *settings):
        subprocess.run(self.command("sysctl", "-qw", *settings), check=True)

    def connect(self, other, ours, theirs, *addresses, their_addresses=()):
        """A cable: our device, theirs, and what addresses each end has."""
        self.ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", other.name)
        for one, device, wanted in ((self, ours, addresses), (other, theirs, their_addresses)):
            for address in wanted:
                one.ip("address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
            one.ip("link", "set", device, "up")

    @contextlib.contextmanager
    def inside(self):
        """This thread, and threads and sockets that it makes meanwhile."""
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self.name}") as there:
            enter(there)
            try:
                yield
            finally:
                enter(before)


def enter(file):
    if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
