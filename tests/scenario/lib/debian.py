"""Fresh Debian systems in folders, made by tools/debian-system."""
import os
import subprocess

import pytest

from .process import REPOSITORY

TOOL = REPOSITORY / "tools" / "debian-system"
RELEASES = ["12", "13"]


def need_tools():
    """Skips the test where such systems cannot be made, and in a run for another build, which they do not use."""
    if os.environ.get("CCMD_BINARY"):
        pytest.skip("does not depend on the build under test")
    if os.geteuid() != 0:
        pytest.skip("making Debian systems needs root")
    if subprocess.run([REPOSITORY / "tools" / "setup", "debian"]).returncode != 0:
        pytest.skip("mmdebstrap cannot be installed")


class System:
    """A fresh system of that release. It has the network of this machine. No systemd runs in it.

        with System("12", folder) as system:
            system.run("apt-get", "update")
    """

    def __init__(self, release, folder):
        self.root = folder / f"debian-{release}"
        self.release = release

    def __enter__(self):
        subprocess.run([TOOL, "make", self.release, self.root], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", "--one-file-system", self.root])

    def command(self, *command):
        """What runs the command in the system."""
        return [str(word) for word in (TOOL, "run", self.root, *command)]

    def run(self, *command, check=True):
        """Its standard output, with check; else (exit code, output and messages)."""
        done = subprocess.run(self.command(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if not check:
            return done.returncode, done.stdout + done.stderr
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def path(self, path):
        return self.root / path.lstrip("/")
