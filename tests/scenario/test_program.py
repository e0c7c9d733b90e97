"""The program's start, its end, and the mistakes that operators make."""
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lib.api import NODES
from lib.ccmd import STOP_S, binary, environment, is_static, machine, run_ccmd, sanitized
from lib.certs import Authority
from lib.faultproxy import NODES_PATH, STATUS_PATH, delay, silence, stall
from lib.nodes import is_initialized
from lib.process import free_ports
from lib.replicas import LEASE
from lib.wait import holds_for, wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.one_version]


@pytest.fixture
def usual(cluster, inventory):
    """The flags of a start that works, as a dictionary, so that tests can spoil one."""
    return {
        "--cloud-provider": "cloudlycke", "--cloud-config": inventory.path, "--kubeconfig": cluster.ccmd_kubeconfig,
        "--leader-elect": "false",
    }


def start(flags, *more, **options):
    return run_ccmd(*(f"{name}={value}" for name, value in flags.items()), *more, **options)


def fails(done, code, *texts):
    """Ends with this code and one line that says why."""
    assert done.returncode == code, done
    complaints = [line for line in done.stderr.splitlines() if not re.match(r"\S+Z (debug|info|warn) ", line)]
    assert len(complaints) == 1, done.stderr
    for text in texts:
        # a quoted text may be escaped once more inside a log line
        assert text in complaints[0] or text in complaints[0].replace('\\"', '"'), done.stderr


# --- flags ---------------------------------------------------------------------------------------------------------------


def test_version_and_help():
    version, help = run_ccmd("--version"), run_ccmd("--help")
    assert version.returncode == 0 and re.search(r"\d+\.\d+", version.stdout) and version.stderr == ""
    assert help.returncode == 0 and "--cloud-provider" in help.stdout and "--node-delete-guard" in help.stdout
    assert help.stdout.startswith(f"ccmd is a cloud-controller-manager for Kubernetes.\n\n{run_ccmd('help').stdout}\n")


def test_version_of_the_plugin(tmp_path):
    """kubectl ccmd --version"""
    (tmp_path / "kubectl-ccmd").symlink_to(binary())
    done = subprocess.run([tmp_path / "kubectl-ccmd", "--version"], capture_output=True, text=True, timeout=60, env=environment())
    assert (done.returncode, done.stdout) == (0, run_ccmd("--version").stdout), done


@pytest.mark.parametrize("arguments", [["--help"], ["help"], ["doctor"], ["plan"], ["status"]], ids=" ".join)
@pytest.mark.parametrize("output, reason", [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
def test_output_that_cannot_be_written_is_a_failure(usual, arguments, output, reason):
    flags = [] if "help" in arguments[0] else [f"{name}={value}" for name, value in usual.items()]
    done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {output}', binary(), *arguments, *flags], capture_output=True, text=True,
                          env=environment())
    assert done.returncode == 2, done
    assert done.stderr.splitlines()[-1] == f"standard output cannot be written: {reason}"


@pytest.mark.parametrize(
    "flag", ["--no-such-flag", "--no-such-flag=1", "--kubeconfg=x", "-x", "--node-monitor-period", "--leader-elect=perhaps",
             "--node-monitor-period=banana", "--node-monitor-period=-5s", "--node-monitor-period=5", "--concurrent-node-syncs=0",
             "--concurrent-node-syncs=many", "--node-delete-breaker-percent=101", "--node-delete-confirm-interval=", "-v=loud",
             "--logging-format=xml", "positional"],
)
def test_a_flag_that_is_wrong_is_named(usual, flag):
    done = start(usual, flag)
    fails(done, 2, flag.lstrip("-").split("=")[0])


@pytest.mark.parametrize(
    "flags",
    [["-v=4"], ["-v", "4"], ["--v=4"], ["--node-monitor-period=1h2m3s"], ["--node-monitor-period", "300ms"],
     ["--node_monitor_period=5s"], ["--node-delete-guard"], ["--node-delete-guard=TRUE"], ["--allow-untagged-cloud"],
     ["--allow-untagged-cloud=true"], ["--concurrent-node-syncs=3"], ["--kube-api-qps=50", "--kube-api-burst=100"],
     ["--logging-format=json"], ["--configure-cloud-routes=false", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"]],
    ids=" ".join,
)
def test_flags_as_people_type_them(api, kubelet, inventory, ccmd, flags):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    ccmd(*flags)
    api.wait_node("n1", is_initialized)


@pytest.mark.parametrize(
    "name, value, code, texts",
    [
        ("--cloud-provider", "", 2, ["cloud-provider"]),
        ("--cloud-provider", "nimbus", 2, ["nimbus", "cloudlycke"]),
        ("--cloud-config", "", 1, ["--cloud-config is required"]),
        ("--cloud-config", "/nonexistent/inventory.yaml", 1, ["/nonexistent/inventory.yaml", "No such file"]),
        ("--kubeconfig", "/nonexistent/kubeconfig", 1, ["/nonexistent/kubeconfig", "No such file"]),
        ("--kubeconfig", "/dev/null", 1, ["/dev/null"]),
        ("--authentication-kubeconfig", "/nonexistent/reviewer", 1, ["--authentication-kubeconfig: ", "/nonexistent/reviewer", "No such file"]),
        ("--authorization-kubeconfig", "/nonexistent/reviewer", 1, ["--authorization-kubeconfig: ", "/nonexistent/reviewer", "No such file"]),
    ],
)
def test_missing_settings_are_named(usual, name, value, code, texts):
    """docs/operating.md, "Exit codes"."""
    fails(start({**usual, name: value}), code, *texts)


@pytest.mark.plain
def test_an_unusable_api_server_is_reported(cluster, usual, proxy, tmp_path):
    """No server listens there, or its certificate is of another authority. Both are tried together, to save time."""
    nobody = f"https://127.0.0.1:{free_ports(1)[0]}"
    other = Authority(tmp_path, "other-ca").certificate
    configs = [cluster.kubeconfig("nobody", url=nobody), cluster.kubeconfig("wrong-ca", url=proxy.url, ca=other)]
    begun = time.monotonic()
    with ThreadPoolExecutor() as pool:
        unreachable, untrusted = pool.map(lambda config: start({**usual, "--kubeconfig": config}, timeout=30), configs)
    assert time.monotonic() - begun < 15
    fails(unreachable, 1, nobody, "refused")
    fails(untrusted, 1, proxy.url, "certificate")
    assert proxy.requests() == []


@pytest.mark.parametrize("elects", [False, True], ids=["alone", "with election"])
@pytest.mark.parametrize("silent", [False, True], ids=["refused", "no answer"])
def test_sigterm_while_it_waits_for_the_server(cluster, api, proxy, ccmd, elects, silent):
    if silent:
        proxy.on(None, None, silence(), times=None)
    else:
        proxy.refuse()
    one = ccmd(leader_elect=elects)
    one.wait_log("ccmd starts")
    if silent:
        proxy.wait_request(lambda request: request.path == "/healthz")
    one.stop()
    assert "info  stopping signal=TERM" in one.text
    assert "cannot start" not in one.text and "error" not in one.text
    assert not api.get_or_none(LEASE)


def test_sigterm_while_it_reads_the_trusted_authorities(cluster, api, proxy, ccmd):
    rule = proxy.on("GET", "extension-apiserver-authentication", silence())
    kubeconfig = cluster.kubeconfig("through-proxy", url=proxy.url)
    one = ccmd(kubeconfig=kubeconfig, authentication_kubeconfig=kubeconfig, leader_elect=True, secure_port=free_ports(1)[0])
    rule.wait_hit()
    one.stop()
    assert "info  stopping signal=TERM" in one.text and "cannot start" not in one.text
    assert not api.get_or_none(LEASE)


@pytest.mark.parametrize("reason", ["the port is in use", "the authorities may not be read"])
def test_a_process_that_cannot_serve_does_not_take_the_lease(cluster, api, usual, reason):
    """In a loop of restarts it would keep the healthy replicas from leading."""
    reviewer = cluster.kubeconfig("nobody", pair=cluster.authority.client("nobody", "nobody"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = {"--secure-port": taken.getsockname()[1]}
        if reason != "the port is in use":
            flags = {"--secure-port": free_ports(1)[0], "--authentication-kubeconfig": reviewer}
        done = start({**usual, **flags, "--bind-address": "127.0.0.1", "--leader-elect": "true"}, timeout=30)
    assert done.returncode == 1 and "cannot start" in done.stderr, done.stderr
    assert not api.get_or_none(LEASE) and "became leader" not in done.stderr


def test_a_server_that_comes_a_little_later_is_waited_for(cluster, api, proxy, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    proxy.refuse()
    ccmd()
    time.sleep(1.5)  # the length of the outage, not a wait for anything
    proxy.accept_again()
    api.wait_node("n1", is_initialized)


@pytest.mark.parametrize("elects", [False, True], ids=["alone", "with election"])
def test_from_start_to_the_first_node_there_are_few_round_trips(api, proxy, kubelet, inventory, ccmd, elects):
    """One TLS connection for all but the election."""
    inventory.add(machine("n1", "10.0.0.2"))
    kubelet("n1", ip="10.0.0.1")
    ccmd(leader_elect=elects)
    api.wait_node("n1", is_initialized)
    sent = [one for one in proxy.requests() if not is_election(one) and not one.is_watch]
    assert [(one.method, one.path) for one in sent if not one.is_event] == [
        ("GET", "/healthz"), ("GET", NODES), ("PATCH", f"{NODES}/n1/status"), ("PATCH", f"{NODES}/n1")]
    assert len({one.connection for one in sent}) == 1, sent


def is_election(request):
    return request.path.startswith("/apis/coordination.k8s.io/")


def test_an_inventory_with_mistakes_is_refused_with_its_lines(usual, tmp_path):
    text = (
        "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\nmachines:\n  - name: n1\n    id: m-1\n    addresses:\n"
        "      - {type: InternalIP, address: 192.168.20.300}\n"
    )
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    done = start({**usual, "--cloud-config": path})
    fails(done, 1, "Cloud provider could not be initialized", 'machines[0].addresses[0].address: "192.168.20.300" is not an IP')
    assert re.search(r"broken\.yaml:7:", done.stderr)


def test_secrets_stay_out_of_messages(cluster, usual, tmp_path):
    config = tmp_path / "bad.kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: '!!!not base64!!!'}}]\n"
        "users: [{name: a, user: {token: s3cr3t-t0ken, username: x, password: s3cr3t-passw0rd}}]\n"
    )
    done = start({**usual, "--kubeconfig": config}, timeout=30)
    assert done.returncode > 0 and "s3cr3t" not in done.stderr + done.stdout


# --- the end -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(api, ccmd, settled, number):
    one = ccmd()
    settled()
    one.signal(number)
    assert one.wait(10 if sanitized() else 2.5) == 0
    one.check_log()


def test_sigterm_while_it_lists(api, proxy, ccmd):
    rule = proxy.on("GET", NODES_PATH, stall(length=10), watch=False)
    one = ccmd()
    rule.wait_hit()
    one.stop()


def test_sigterm_while_a_write_is_under_way(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.2"))
    kubelet("n1", ip="10.0.0.1")
    rule = proxy.on("PATCH", STATUS_PATH, silence())
    one = ccmd()
    rule.wait_hit()
    one.stop()


def test_sigterm_while_the_api_server_does_not_answer(api, proxy, ccmd, settled):
    one = ccmd()
    settled()
    proxy.vanish_all()
    one.stop()


def test_sigterm_while_the_api_server_does_not_listen(api, proxy, ccmd, settled):
    one = ccmd()
    settled()
    proxy.refuse()
    one.wait_log("cannot follow the API server")
    one.stop()


def test_sigterm_at_its_first_line_of_log(usual):
    """Its log is a full pipe, so it waits before it has opened any connection."""
    reader, writer = os.pipe()
    os.write(writer, b"." * fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096))
    flags = {**usual, "--secure-port": 0, "--allow-untagged-cloud": "true"}  # the last one is worth a line
    child = subprocess.Popen([binary(), *(f"{name}={value}" for name, value in flags.items())], stdin=subprocess.DEVNULL,
                             stderr=writer, env=environment())
    os.close(writer)
    wait_for(lambda: Path(f"/proc/{child.pid}/exe").resolve() == binary().resolve() and is_asleep(child.pid), what="its first line")
    child.send_signal(signal.SIGTERM)
    with open(reader, "rb") as pipe:
        text = pipe.read().decode()
    assert child.wait(20) == 0 and "stopping signal=TERM" in text, text


def is_asleep(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_sigterm_at_any_moment_of_the_start(api, proxy, ccmd):
    """While the dynamic linker works, the signal itself may end it."""
    for n in range(12):
        one = ccmd()
        wait_for(lambda: Path(f"/proc/{one.pid}/exe").resolve() == binary().resolve(), what="the exec")
        time.sleep(n * 0.006)  # a different moment each time
        one.signal(signal.SIGTERM)
        code = one.wait(30 if sanitized() else STOP_S)
        one.check_log()
        assert code in (0, -signal.SIGTERM)
        one.process.child = None


def test_work_under_way_is_finished_in_the_grace_period(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.2"))
    kubelet("n1", ip="10.0.0.1")
    rule = proxy.on("PATCH", STATUS_PATH, delay(0.5))
    one = ccmd(shutdown_grace_period="5s")  # the usual 1 s can pass before both answers on a busy machine
    rule.wait_hit()
    one.stop()
    assert is_initialized(api.node("n1"))


def test_killed_at_each_write_the_next_one_finishes(api, kubelet, inventory, proxy, ccmd):
    inventory.add(machine("n1", "10.0.0.2", "fd00::2"))
    for n in range(2):
        one = kubelet("n1", ip="10.0.0.1")
        proxy.clear()
        rule = proxy.on("PATCH", None, silence(), skip=n)
        program = ccmd()
        rule.wait_hit()
        program.kill()
        proxy.clear()
        program = ccmd()
        api.wait_node("n1", is_initialized)
        program.stop()
        one.delete()


# --- while it runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ccmd_continues_after_half_a_minute_of_sigstop(api, kubelet, inventory, proxy, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    n1 = kubelet("n1")
    one = ccmd(node_delete_min_age="0s")
    api.wait_node("n1", is_initialized)
    one.pause()
    kubelet("n2")
    n1.silent()
    time.sleep(30)  # the length of the stop is what is tested
    one.resume()
    api.wait_node("n2", is_initialized)
    settled()
    assert proxy.requests("DELETE") == [] and one.running


@pytest.mark.parametrize("hours", [-1, 1], ids=["an hour behind", "an hour ahead"])
def test_a_wrong_clock_neither_hastens_nor_causes_a_deletion(api, kubelet, inventory, proxy, ccmd, tmp_path, hours):
    """If the clock is behind, nodes seem to come from the future, and count as young. If it is ahead, their age alone proves
    nothing."""
    shim = skewed_clock(tmp_path)
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    kubelets = [kubelet("n1"), kubelet("n2")]
    env = {"LD_PRELOAD": str(shim), "CLOCK_SKEW_S": str(hours * 3600)}
    if sanitized():
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
    ccmd(env=env, node_monitor_period="100ms", node_delete_confirm_interval="1s", node_delete_min_age="1m")
    for one in kubelets:
        api.wait_node(one.name, is_initialized)
    removed = time.monotonic()
    inventory.remove("n1")
    kubelets[0].silent()
    if hours < 0:
        holds_for(lambda: api.get_or_none(f"{NODES}/n1"), 3, "n1")
    else:
        api.wait_gone("n1")
        assert proxy.deletion().at - removed >= 1.0
    assert api.get_or_none(f"{NODES}/n2")


def skewed_clock(folder):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler")
    if is_static():
        pytest.skip("a static program takes no shim")
    source = Path(__file__).parent / "lib" / "skew.c"
    shim = folder / "skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


def test_it_needs_no_home_no_temporary_folder_and_no_terminal(api, kubelet, inventory, ccmd):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    ccmd(env={"HOME": "/nonexistent", "TMPDIR": "/nonexistent"})
    api.wait_node("n1", is_initialized)


def test_at_rest_it_is_silent_and_small(api, kubelet, inventory, ccmd, settled):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1", real_sized=True)
    one = ccmd()
    api.wait_node("n1", is_initialized)
    settled()
    wait_for(lambda: api.events("sentinel", "Synced"), what="the last event")
    size, cpu = one.process.log.stat().st_size, one.cpu_seconds()
    holds_for(lambda: one.process.log.stat().st_size == size, 2, "the log")
    assert one.cpu_seconds() - cpu < 0.1
    assert sanitized() or one.rss_kib() < 20 << 10


def test_two_processes_without_election_do_no_harm(api, kubelet, inventory, ccmd):
    """Without election, two processes run for a moment in a rolling update."""
    names = [f"n{number}" for number in range(30)]
    inventory.add(*(machine(name, f"10.0.1.{number}", "fd00::1") for number, name in enumerate(names)))
    ccmd()
    ccmd()
    for name in names:
        kubelet(name)
    for name in names:
        node = api.wait_node(name, is_initialized)
        assert node["spec"]["providerID"] == f"cloudlycke://m-{name}"
