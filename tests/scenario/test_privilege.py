"""The limits of ccmd's rights: system calls, files, and the places of its secrets. The role is used by every scenario."""
import base64
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from lib.api import NODES
from lib.ccmd import Ccmd, binary, is_static, machine, sanitized
from lib.nodes import is_initialized
from lib.operator import flags_of
from lib.process import free_ports
from lib.wait import wait_for

pytestmark = [pytest.mark.needs_binary, pytest.mark.one_version]

STRACE, SETPRIV, UNSHARE = (shutil.which(name) for name in ("strace", "setpriv", "unshare"))
NOBODY = 65532
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/ccmd"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root")


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


# --- the sandbox ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sanitized(), reason="a sanitizer needs more calls than seccomp would leave")
def test_the_sandbox_is_in_force_unless_it_is_off(ccmd, settled):
    inside, outside = ccmd(secure_port=0), ccmd("--sandbox=off")
    settled()
    inside.wait_log("sandbox by=\\S*seccomp")
    outside.wait_log("ccmd starts")  # the limit is set before
    told, free = status_of(inside.pid), status_of(outside.pid)
    assert (told["Seccomp"], told["NoNewPrivs"], told["Umask"]) == ("2", "1", "0077")
    assert (free["Seccomp"], free["NoNewPrivs"]) == ("0", "0")
    # the files of a process that is not dumpable belong to root; ours do anyway, so ask for the core limit of both
    for one in (inside, outside):
        assert re.search(r"Max core file size +0 +0 ", Path(f"/proc/{one.pid}/limits").read_text())


@pytest.mark.skipif(not STRACE or sanitized(), reason="no strace, or a sanitizer")
def test_no_call_that_we_need_is_refused(cluster, api, kubelet, inventory, tmp_path):
    """A whole life under strace: names looked up, the lease, the server with its own certificate and a caller who is asked
    about, a node initialised, another deleted, a reload, an orderly end."""
    inventory.add(machine("n1", "10.0.0.1"), machine("n2", "10.0.0.2"))
    for name in ("n1", "n2"):
        kubelet(name)
    trace = tmp_path / "trace"
    config = cluster.kubeconfig("by-name", url=f"https://localhost:{cluster.port}")
    (port,) = free_ports(1)
    one = Ccmd(
        tmp_path, config, inventory, "--node-delete-guard=false", "-v=4", node_monitor_period="1s", leader_elect=True,
        secure_port=port, bind_address="127.0.0.1", cert_dir=tmp_path / "pair",
    )
    # -D: ccmd stays our child, and strace runs detached; -ff: a file for each thread, because lines of several may be mixed
    one.process.argv = [STRACE, "-D", "-ff", "-qq", "-e", "status=failed", "-o", str(trace), *one.process.argv]
    with one:
        for name in ("n1", "n2"):
            api.wait_node(name, is_initialized)
        asked = cluster.api(token=api.post(f"{ACCOUNT}/token", {"spec": {}})["status"]["token"])
        asked.port, asked._context = port, ssl._create_unverified_context()
        assert asked.request("GET", "/metrics").status == 403
        assert (tmp_path / "pair" / "cloud-controller-manager.crt").exists()
        inventory.remove("n2")
        one.signal(signal.SIGHUP)
        api.patch(f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
        api.wait_node("n1", is_initialized)
    calls = [line for file in tmp_path.glob("trace.*") for line in file.read_text().splitlines()]
    refused = [line for line in calls if re.search(r"= -1 (ENOSYS|EACCES|EPERM) ", line)]
    # glibc makes a thread with clone3 first, which the filter refuses, and falls back; musl does not
    assert any(line.startswith("clone3(") for line in refused) or is_static()
    refused = [line for line in refused if not line.startswith("clone3(")]
    assert not refused, "\n".join(refused)


# --- any user, nothing to write to ---------------------------------------------------------------------------------------


def inline(path, target):
    """A kubeconfig without references to files, which any user may read."""
    config = yaml.safe_load(Path(path).read_text())
    for part in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in part:
                part[f"{key}-data"] = base64.b64encode(Path(part.pop(key)).read_bytes()).decode()
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o644)
    return target


@pytest.fixture
def open_folder():
    """A folder that everybody may look into: those of pytest are its owner's."""
    folder = Path(tempfile.mkdtemp(prefix="ccmd-open."))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def install(folder):
    """What `meson install` leaves of the program; of one that was not built here, a copy."""
    if not (binary().parent / "build.ninja").exists():
        return shutil.copy(binary(), folder / "ccmd")
    subprocess.run(["meson", "install", "-C", binary().parent, "--no-rebuild", "--destdir", folder, "--quiet"], check=True)
    return next(folder.glob("**/bin/ccmd"))


@needs_root
@pytest.mark.skipif(not (SETPRIV and UNSHARE), reason="no setpriv or unshare")
def test_it_works_installed_as_nobody_without_homes_and_with_nothing_to_write_to(cluster, api, kubelet, inventory, tmp_path, open_folder):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    program = install(open_folder)
    config = inline(cluster.ccmd_kubeconfig, open_folder / "kubeconfig")
    machines = open_folder / "cloud.yaml"
    machines.write_text(inventory.text())
    one = Ccmd(tmp_path, config, machines)
    # what ProtectHome= and ProtectSystem= of the systemd unit do
    read_only = "for m in /root /home; do mount -t tmpfs none $m; done; " \
        "for m in / /tmp; do mount -o remount,bind,ro $m 2>/dev/null || true; done; exec \"$@\""
    one.process.argv = [
        UNSHARE, "--mount", "--propagation", "private", "sh", "-c", read_only, "sh",
        SETPRIV, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", "--inh-caps=-all",
        "--bounding-set=-all", program, *one.process.argv[1:],
    ]
    one.process.cwd = "/"
    with one:
        api.wait_node("n1", is_initialized)
        told = status_of(one.pid)
        assert told["Uid"].split() == [str(NOBODY)] * 4 and int(told["CapEff"], 16) == int(told["CapBnd"], 16) == 0
        root = next(line for line in Path(f"/proc/{one.pid}/mounts").read_text().splitlines() if line.split()[1] == "/")
        assert "ro" in root.split()[3].split(",")


# --- what root reads of the controller -----------------------------------------------------------------------------------

PLUGIN = """#!/bin/sh
echo "$(id -u) $(id -g) $(grep NoNewPrivs /proc/self/status | tr -d '[:space:]') preload=$LD_PRELOAD" >>{calls}
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}'
"""


@pytest.fixture
def contained(cluster, api, inventory, tmp_path, open_folder):
    """The controller as process 1 of a namespace, as nobody, with a credential plugin; and `sudo ccmd COMMAND` beside it."""
    if os.geteuid() != 0 or not (SETPRIV and UNSHARE):
        pytest.skip("not root, or no setpriv or unshare")
    if sanitized():
        pytest.skip("a sanitizer takes LD_PRELOAD for itself")
    token = api.post(f"{ACCOUNT}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    calls = open_folder / "calls"
    calls.touch()
    calls.chmod(0o666)
    plugin = open_folder / "plugin"
    plugin.write_text(PLUGIN.format(calls=calls, token=token))
    plugin.chmod(0o755)
    config = inline(cluster.ccmd_kubeconfig, open_folder / "kubeconfig")
    content = yaml.safe_load(config.read_text())
    content["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin),
                                            "interactiveMode": "Never"}}
    config.write_text(yaml.safe_dump(content))
    machines = open_folder / "cloud.yaml"
    machines.write_text(inventory.text())
    hostile = {"LD_PRELOAD": "/nowhere/of-the-controller.so"}
    one = Ccmd(tmp_path, config, machines, program=install(open_folder), env=hostile)
    one.process.argv = [UNSHARE, "--pid", "--mount-proc", "--fork", "--kill-child", SETPRIV, f"--reuid={NOBODY}",
                        f"--regid={NOBODY}", "--clear-groups", *one.process.argv]

    def inside():
        return int(Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text())

    def sudo(*words, prefix=()):
        command = ["nsenter", "--target", inside(), "--mount", "--pid", *prefix, one.program, *words]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60,
                              env={"PATH": os.environ["PATH"]})

    one.sudo, one.calls, one.config = sudo, calls, config
    with one:
        one.wait_log("objects listed kind=Node")
        one.process.child.terminate = lambda: os.kill(inside(), signal.SIGTERM)  # unshare ignores it
        yield one


@pytest.mark.parametrize("command", ["doctor", "status", "plan", "explain node n1"])
def test_root_runs_a_command_with_the_rights_of_the_controller(contained, command):
    """The controller may write its own command line and environment: what they name is not run by root."""
    contained.calls.write_text("")
    done = contained.sudo(*command.split())
    assert f"continues as user {NOBODY}" in done.stderr and "LD_PRELOAD" not in done.stderr
    calls = contained.calls.read_text().splitlines()
    assert calls and set(calls) == {f"{NOBODY} {NOBODY} NoNewPrivs:1 preload="}, done.stdout + done.stderr


def test_root_learns_that_the_controller_cannot_read_a_file(contained):
    contained.config.chmod(0o600)  # root's, as is its folder
    done = contained.sudo("doctor")
    assert done.returncode != 0 and f"{contained.config}: Permission denied" in done.stdout
    assert f"continues as user {NOBODY}, as the controller does; it cannot read what only root can read" in done.stderr
    assert "let the user of the controller read the file" in done.stdout


def test_another_user_does_not_take_the_flags_of_the_controller(contained):
    contained.calls.write_text("")
    done = contained.sudo("doctor", prefix=(SETPRIV, "--reuid=65533", "--regid=65533", "--clear-groups"))
    assert done.returncode == 2 and not contained.calls.read_text()
    assert f"the controller runs as user {NOBODY}: run the command with sudo, as that user" in done.stderr


# Of the terminal, of kubectl and of the service manager: a command has its own.
NOT_TAKEN = {"HOME", "KUBECONFIG", "TERM", "NO_COLOR", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}


def test_the_variables_that_a_command_takes_are_those_that_the_code_reads():
    source = Path(__file__).parents[2] / "src"
    read = {"SSL_CERT_FILE", "SSL_CERT_DIR"}  # by the names that OpenSSL has for them
    for file in source.rglob("*.c"):
        text = file.read_text()
        if "getenv(" in text:
            read |= set(re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+_proxy)"', text))
            read |= set(re.findall(r'getenv\("(\w+)"\)', text))
    text = (source / "operator/running.c").read_text()
    names = set(re.findall(r'"(\w+)"', re.search(r"names\[\] = \{(.*?)\}", text, re.DOTALL).group(1)))
    prefixes = {prefix for file in (source / "providers").rglob("provider.c")
                for row in re.findall(r"\.variables = \{(.*?)\}", file.read_text())
                for prefix in re.findall(r'"(\w+_)"', row)}
    taken = {name for name in read if name in names or name.startswith(tuple(prefixes))}
    assert read - taken == NOT_TAKEN
    assert names <= read and all(any(name.startswith(prefix) for name in read) for prefix in prefixes)


@pytest.mark.skipif(not STRACE or sanitized(), reason="no strace, or a sanitizer")
@pytest.mark.parametrize("command", ["doctor", "status", "plan", "explain node n1"])
def test_a_command_is_hardened_and_makes_no_call_that_is_refused(cluster, api, kubelet, inventory, tmp_path, command):
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    trace = tmp_path / "trace"
    config = cluster.kubeconfig("by-name", url=f"https://localhost:{cluster.port}")
    argv = [STRACE, "-f", "-qq", "-o", str(trace), str(binary()), *command.split(), *flags_of(config, inventory)]
    subprocess.run(argv, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    calls = trace.read_text()
    first_read = calls.index(str(inventory.path))
    assert -1 < calls.index("PR_SET_DUMPABLE, SUID_DUMP_DISABLE") < first_read
    filtered = re.search(r"SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC\S*, \{len=", calls).start()
    assert first_read < filtered < calls.index("sa_family=AF_INET")
    refused = [line for line in calls[filtered:].splitlines() if re.search(r"= -1 (ENOSYS|EACCES|EPERM) ", line)]
    refused = [line for line in refused if " clone3" not in line]
    assert not refused, "\n".join(refused)


# --- secrets -------------------------------------------------------------------------------------------------------------


def memory_of(pid):
    """Every area that can be read, as bytes."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            start, end = (int(part, 16) for part in place.split("-"))
            if not rights.startswith("r") or "[v" in line:
                continue
            memory.seek(start)
            yield memory.read(end - start)


def count_in_memory(pid, secret):
    """How often it is there: (ours, those in a request that libcurl laid out, where a line ends behind it)."""
    everywhere = requests = 0
    for data in memory_of(pid):
        everywhere += data.count(secret)
        requests += data.count(secret + b"\r\n")
    return everywhere - requests, requests


# The one that is sent, and for a token that is part of the kubeconfig the configuration as well.
OURS = {"inline": 2, "file": 1}
# libcurl keeps a copy of the last request in each handle, for OpenSSL: 4 for requests, 1 for events, 1 for the watch of nodes.
REQUESTS = 6


@needs_root
@pytest.mark.skipif(sanitized(), reason="a sanitizer keeps freed memory on purpose")
@pytest.mark.parametrize("place", OURS)
def test_a_token_is_where_it_is_needed_and_nowhere_else(cluster, api, kubelet, inventory, ccmd, tmp_path, place):
    token = api.post(f"{ACCOUNT}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(Path(cluster.ccmd_kubeconfig).read_text())
    if place == "inline":
        config["users"][0]["user"] = {"token": token}
    else:
        (tmp_path / "token").write_text(token)
        config["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config, width=10**6))
    inventory.add(machine("n1", "10.0.0.1"))
    one = ccmd("--sandbox=off", kubeconfig=kubeconfig)
    kubelet("n1")
    api.wait_node("n1", is_initialized)
    # its signature, without which the rest is worth nothing
    signature = token.split(".")[2][-200:].encode()
    # between a request's end and its buffer's there is a moment in which another copy lives
    ours, requests = wait_for(
        lambda: (found := count_in_memory(one.pid, signature)) and found[0] <= OURS[place] and found, 5, "copies to go"
    )
    assert ours == OURS[place] and requests <= REQUESTS, (ours, requests)
