"""Messages to systemd, as sd_notify(3) describes them: the tests' own socket takes the place of systemd's."""
import contextlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from lib.ccmd import binary, machine
from lib.nodes import is_initialized
from lib.process import REPOSITORY
from lib.wait import PATIENCE_S

pytestmark = [pytest.mark.needs_binary, pytest.mark.one_version]


class Notifications:
    """Datagrams, split into lines, in the order they came: (seconds, "READY=1")."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.seen = []

    def receive(self, timeout):
        self.socket.settimeout(max(timeout, 0.001))
        text = self.socket.recv(4096).decode()
        self.seen += [(time.monotonic(), line) for line in text.split("\n") if line]

    def wait(self, line, count=1):
        """Returns the times of the first `count` lines that start so."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            times = [at for at, text in self.seen if text.startswith(line)]
            if len(times) >= count:
                return times[:count]
            try:
                self.receive(ends - time.monotonic())
            except TimeoutError:
                raise AssertionError(f"no {line} within {PATIENCE_S:g} s, only {self.lines()}") from None

    def lines(self):
        return [text for _, text in self.seen]

    def drain(self):
        with contextlib.suppress(TimeoutError):
            while True:
                self.receive(0.05)
        return self.lines()


@pytest.fixture
def systemd(tmp_path):
    one = Notifications(str(tmp_path / "notify"))
    one.environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    yield one
    one.socket.close()


def test_ready_comes_with_the_api_server_and_stopping_before_the_end(api, proxy, kubelet, inventory, ccmd, systemd):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    proxy.refuse()
    one = ccmd(env=systemd.environment)
    one.wait_log("ccmd starts")
    time.sleep(0.5)  # the length of the outage
    assert "READY=1" not in systemd.drain()
    proxy.accept_again()
    systemd.wait("READY=1")
    systemd.wait("STATUS=leading")
    api.wait_node("n1", is_initialized)
    one.stop()
    lines = systemd.drain()
    assert lines.count("READY=1") == 1 and lines[-1] == "STOPPING=1", lines


def test_an_abstract_socket_address_works(ccmd, tmp_path):
    """Some service managers and containers use such an address; the sandbox permits no other abstract socket."""
    name = f"ccmd-{tmp_path.name}-{time.time_ns()}"
    systemd = Notifications(f"\0{name}")
    one = ccmd(env={"NOTIFY_SOCKET": f"@{name}"})
    systemd.wait("READY=1")
    one.stop()
    assert systemd.drain()[-1] == "STOPPING=1"


def test_systemd_gets_the_time_of_a_reload(ccmd, systemd):
    one = ccmd(env=systemd.environment)
    systemd.wait("READY=1")
    before = time.monotonic()
    one.signal(signal.SIGHUP)
    systemd.wait("READY=1", count=2)
    lines = systemd.lines()
    at = lines.index("RELOADING=1")
    told = int(lines[at + 1].removeprefix("MONOTONIC_USEC=")) / 1e6
    assert before <= told <= time.monotonic() and "READY=1" in lines[at + 2 :], lines


@pytest.mark.plain
def test_watchdog_messages_come_at_half_the_time_and_not_while_ccmd_is_stopped(ccmd, systemd):
    one = ccmd(env={**systemd.environment, "WATCHDOG_USEC": "2000000"})
    times = systemd.wait("WATCHDOG=1", count=5)
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    assert max(gaps) < 2 and sum(gaps) > 3, gaps
    one.pause()
    systemd.drain()
    fed = systemd.lines().count("WATCHDOG=1")
    time.sleep(2.5)  # longer than systemd would wait
    assert systemd.drain().count("WATCHDOG=1") == fed
    one.resume()
    systemd.wait("WATCHDOG=1", count=fed + 1)


def test_the_watchdog_of_another_process_gets_no_messages(ccmd, systemd, settled):
    ccmd(env={**systemd.environment, "WATCHDOG_USEC": "200000", "WATCHDOG_PID": "1"})
    settled()
    assert not [line for line in systemd.drain() if line.startswith("WATCHDOG")]


# --- the unit ------------------------------------------------------------------------------------------------------------


UNIT = REPOSITORY / "deploy" / "ccmd.service"


def analyze(*arguments):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    return subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    """Except that the program and its man page are not installed here."""
    unit = tmp_path / "ccmd.service"
    unit.write_text(UNIT.read_text().replace("ExecStart=/usr/bin/ccmd ", f"ExecStart={binary()} "))
    done = analyze("verify", "--man=no", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_gives_up_what_it_can(tmp_path):
    """The exposure that systemd-analyze still finds is due to the network, and to restrictions that would break ccmd."""
    done = analyze("security", "--offline=true", "--threshold=14", UNIT)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at files")
    assert done.returncode == 0, done.stdout + done.stderr
