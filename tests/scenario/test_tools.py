"""The tools behind ./dev: a tree of their own in a temporary folder, with stubs in place of what takes minutes."""
import contextlib
import functools
import hashlib
import http.server
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lib.api import LEASES, NODES
from lib.nodes import UNINITIALIZED, taint_keys
from lib.wait import wait_for

ROOT = Path(__file__).parents[2]

# Each call of a stub is a line in $CALLS.
STUBS = {
    "meson": 'echo "meson $*" >>"$CALLS"; mkdir -p "$2"; pwd >"$2/build.ninja"',
    "ninja": ":",
    "go-program": 'echo "go-program $*" >>"$CALLS"',
    "python3": 'echo "python3 $*" >>"$CALLS"',
}


class Tree:
    def __init__(self, folder):
        self.folder = folder
        self.calls = folder.parent / "calls"
        self.cache = folder.parent / "cache"
        self.programs = folder.parent / "programs"

    def script(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def make(self):
        (self.folder / "tools").mkdir(parents=True)
        for name in ("lib.sh", "test", "build", "supervise", *(one.name for one in (ROOT / "tools").glob("requirements*.txt"))):
            shutil.copy(ROOT / "tools" / name, self.folder / "tools" / name)
        shutil.copy(ROOT / "dev", self.folder / "dev")
        for name in ("setup", "kube-parts", "count-tests"):
            self.script(self.folder / "tools" / name, ":")
        self.script(self.folder / "tools" / "go-program", STUBS["go-program"])
        for name in ("test_one.py", "test_two.py"):
            self.script(self.folder / "tests" / "scenario" / name, ":")
        for name in ("meson", "ninja"):
            self.script(self.programs / name, STUBS[name])
        self.script(Path(self.run("sh", "-c", '. tools/lib.sh; echo "$PYTHON"').strip()), STUBS["python3"])
        return self

    def run(self, *command):
        """From its root; what it printed."""
        environment = os.environ | {
            "CALLS": str(self.calls), "CCMD_CACHE": str(self.cache), "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        environment.pop("CI", None)  # there, warnings are errors, and the call of meson is another one
        if command[0] == "sh":  # lib.sh finds the root by the name of the script
            command = ("sh", "-c", command[2], str(self.folder / "tools" / "x"))
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def take_calls(self, program):
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [line.removeprefix(f"{program} ") for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree").make()


def test_a_copied_tree_builds_itself(tree):
    tree.run("./dev", "build")
    assert tree.take_calls("meson") == ["setup build"]
    tree.run("./dev", "build")
    assert tree.take_calls("meson") == []  # configured once
    copy = Tree(tree.folder.parent / "copy")
    shutil.copytree(tree.folder, copy.folder)
    copy.run("./dev", "build")
    assert copy.take_calls("meson") == ["setup build"]
    assert (copy.folder / "build" / "build.ninja").read_text().strip() == str(copy.folder)


@pytest.mark.parametrize("arguments, runs_all", [
    ([], True),
    (["-k", "taint"], True),
    (["-k", "tests/scenario/none.py"], True),
    (["tests/scenario/test_one.py"], False),
    (["tests/scenario/test_one.py::test_x", "-k", "taint"], False),
    (["-k", "taint", "tests/scenario/test_one.py", "tests/scenario/test_two.py"], False),
])
def test_named_scenarios_run_alone(tree, arguments, runs_all):
    """If all scenarios run, the programs in Go are built first; otherwise the tests that need them build them."""
    tree.run("./dev", "test", "scenario", *arguments)
    assert ("go-program tests/scenario/go-elector\n" in tree.calls.read_text()) == runs_all
    (call,) = tree.take_calls("python3")
    assert ("tests/scenario" in call.split()) == runs_all
    assert call.endswith(" ".join(arguments))


@pytest.mark.parametrize("command", [
    "new-cloud", "test", "build", "image", "lint", "fuzz", "deb", "docs", "release", "verify-release", "clean",
])
def test_help_describes_a_command_and_runs_nothing(tree, command):
    head = list(itertools.takewhile(lambda line: line.startswith("#"), (ROOT / "tools" / command).read_text().splitlines()))
    tree.script(tree.folder / "tools" / command, "\n".join([*head[1:], 'echo run >>"$CALLS"']))
    said = tree.run("./dev", command, "--help").splitlines()
    assert said == [line.removeprefix("#").removeprefix(" ") for line in head[1:] if not line.startswith("# shellcheck ")]
    assert not tree.calls.exists()


def marked(mark):
    """The processes that have the mark in their environment: what somebody's command has started, wherever it is by now."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize("number, command", [
    (signal.SIGINT, ["test", "scenario", "-n", "2", "tests/scenario/test_harness.py"]),
    (signal.SIGKILL, ["test", "scenario", "-n", "2", "tests/scenario/test_harness.py"]),
    (signal.SIGINT, ["cluster"]),
    (signal.SIGKILL, ["cluster"]),
    (signal.SIGINT, ["demo", "--keep"]),
    (signal.SIGKILL, ["demo", "--keep"]),
    (signal.SIGTERM, ["demo", "--cloud=brightbox"]),
    (signal.SIGINT, ["bench", "--nodes", "5"]),
    (signal.SIGKILL, ["bench", "--nodes", "5"]),
])
def test_a_command_that_ends_leaves_no_process_and_no_folder(tmp_path, number, command):
    mark = f"CCMD_MARK={tmp_path}"
    folder = tmp_path / "tmp"
    folder.mkdir()
    with open(tmp_path / "log", "wb") as log:
        dev = subprocess.Popen([ROOT / "dev", *command], env=os.environ | {"CCMD_MARK": str(tmp_path), "TMPDIR": str(folder)},
                               start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: dev.poll() is not None or any("--etcd-servers" in one for one in marked(mark)), 120, "an API server")
        assert dev.poll() is None, (tmp_path / "log").read_text()
        if number == signal.SIGINT:
            os.killpg(dev.pid, number)  # as a terminal does
        else:
            dev.send_signal(number)
        wait_for(lambda: not marked(mark), 20, "all of it to end", seen=lambda: marked(mark))
        assert dev.wait() == -number and "Traceback" not in (tmp_path / "log").read_text()
        # A control plane has 124 MB of files. pytest removes its own folders at the end of later runs.
        assert not [one for one in folder.iterdir() if not one.name.startswith("pytest-of-")]
        shutil.rmtree(folder)
    finally:
        dev.kill()
        dev.wait()


def test_a_command_ends_with_the_parent_that_waits_for_it(tmp_path):
    mark = f"CCMD_MARK={tmp_path}"
    words = ["sh", "-c", '"$@"; echo waited', "sh", ROOT / "tools" / "supervise", "sleep", "600"]
    with subprocess.Popen(words, env=os.environ | dict([mark.split("=", 1)]), start_new_session=True) as parent:
        wait_for(lambda: "sleep 600 " in marked(mark), what="the command")
        parent.kill()
    wait_for(lambda: not marked(mark), 20, "all of it to end", seen=lambda: marked(mark))


@pytest.mark.parametrize("shell, script", [
    ("sh", '"$@" &'),
    ("sh", 'nohup "$@" >/dev/null &'),
    ("sh", 'setsid "$@" &'),
    ("bash", 'set -m; "$@" &'),
])
def test_a_command_in_the_background_goes_on_without_its_parent(tmp_path, shell, script):
    command = [ROOT / "tools" / "supervise", "sh", "-c", 'echo >"$0/started"; sleep 3; echo >"$0/done"', tmp_path]
    script += ' until [ -e "$STARTED" ]; do sleep 0.1; done'
    subprocess.run([shell, "-c", script, shell, *command], env=os.environ | {"STARTED": str(tmp_path / "started")}, timeout=60,
                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # which tests in the background ignore
    assert not (tmp_path / "done").exists()
    wait_for((tmp_path / "done").exists, what="the command to go on")


def test_nohup_keeps_a_command_when_the_terminal_hangs_up():
    dies_of_sighup = "import signal, time\nsignal.signal(signal.SIGHUP, signal.SIG_DFL); print('started'); time.sleep(3); print('done')"
    words = ["nohup", ROOT / "tools" / "supervise", sys.executable, "-uc", dies_of_sighup]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "started\n"
        command.send_signal(signal.SIGHUP)
        assert command.stdout.read() == "done\n"


def test_a_soak_reports_the_runs_that_fail(tree):
    for name in ("soak", "supervise"):
        shutil.copy(ROOT / "tools" / name, tree.folder / "tools" / name)
    tree.script(tree.folder / "tools" / "test", 'echo run >>"$CALLS"; [ "$(wc -l <"$CALLS")" != 2 ] || { echo "  FAILED x"; exit 1; }')
    environment = os.environ | {"CALLS": str(tree.calls), "CCMD_CACHE": str(tree.cache)}
    done = subprocess.run([tree.folder / "tools" / "soak", "3", "--load=2"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "  FAILED x" in done.stdout
    assert "1 of 3 runs failed, beside 2 busy processes" in done.stderr


def test_supervise_ends_by_the_signal_that_it_got_if_it_had_to_kill():
    words = [ROOT / "tools" / "supervise", "sh", "-c", "trap '' INT; echo started; while :; do sleep 1; done"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "started\n"
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == -signal.SIGINT


def test_a_command_that_fails_leaves_its_exit_code_and_nothing_else(tmp_path):
    script = "mktemp; setsid sh -c 'trap : TERM; while :; do sleep 1; done' & setsid sleep 60 & exit 3"
    mark = f"CCMD_MARK={tmp_path}"
    done = subprocess.run([ROOT / "tools" / "supervise", "sh", "-c", script],
                          env=os.environ | {"CCMD_MARK": str(tmp_path), "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and marked(mark) == []
    assert Path(done.stdout.strip()).is_relative_to(tmp_path) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_ends_by_a_signal_and_leaves_no_folder(tmp_path, number):
    folder = tmp_path / "tmp"
    folder.mkdir()
    with subprocess.Popen(
        [ROOT / "dev", "cluster"], env=os.environ | {"CCMD_MARK": str(tmp_path), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # as shells do for a command in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as dev:
        try:
            line = dev.stdout.readline()
            shell = subprocess.run(["sh", "-c", f"{line} kubectl get --raw /readyz"], capture_output=True, text=True)
            assert shell.stdout == "ok", shell.stderr
            dev.send_signal(number)
            printed, problems = dev.communicate(timeout=60)
        finally:
            dev.kill()
    assert (dev.returncode, printed) == (-number, ""), problems
    assert list(folder.iterdir()) == [] and marked(f"CCMD_MARK={tmp_path}") == []


def kubelet_command(kubeconfig, *arguments):
    """Runs what ./dev cluster kubelet runs. Returns its exit code and its standard error."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "cluster.py", "kubelet", *arguments],
                          env=os.environ | {"KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_kubelets_of_a_cluster_are_added_silenced_and_removed(api, cluster):
    def kubelet(*arguments):
        return kubelet_command(cluster.admin_kubeconfig, *arguments)

    def ready(name):
        return next(one for one in api.node(name)["status"]["conditions"] if one["type"] == "Ready")

    assert kubelet("add", "n1", "n2") == (0, "")
    assert UNINITIALIZED in taint_keys(api.node("n1"))
    assert ready("n1")["status"] == ready("n2")["status"] == "True"
    assert {one["metadata"]["name"] for one in api.list(LEASES)} == {"n1", "n2"}
    before = ready("n1")["lastHeartbeatTime"]
    assert kubelet("silence", "n1") == (0, "")
    assert (ready("n1")["status"], ready("n1")["lastHeartbeatTime"]) == ("Unknown", before)
    assert ready("n2")["status"] == "True"
    assert kubelet("add", "n1") == (0, "")
    assert ready("n1")["status"] == "True"
    assert kubelet("remove", "n1") == (0, "")
    assert [one["metadata"]["name"] for one in api.list(NODES)] == ["n2"]
    assert [one["metadata"]["name"] for one in api.list(LEASES)] == ["n2"]
    status, problems = kubelet("silence", "n1")
    assert status == 1 and "kubelet n1: " in problems and "NotFound" in problems


def test_kubelets_are_added_to_clusters_of_ours_only(tmp_path, cluster):
    other = shutil.copy(cluster.admin_kubeconfig, tmp_path / "kubeconfig")
    status, problems = kubelet_command(other, "add", "n1")
    assert status == 1 and "KUBECONFIG does not name a cluster" in problems


def test_documents_are_listed_and_comments_cite_what_is_there(tmp_path):
    for name, text in {
        "mkdocs.yml": "nav:\n  - X: spec/x.md\n  - brightbox.md\n",
        "docs/unlisted.md": "# No entry\n",
        "docs/spec/x.md": "# X\n\n## Here\n",
        "src/a.c": '/* docs/spec/x.md,\n * "Here" and "Gone"; docs/spec/y.md, x.md. */\n',
        "src/providers/brightbox/b.c": '"BRIGHTBOX_CLIENT", "BRIGHTBOX_GONE"',
        "docs/brightbox.md": "`BRIGHTBOX_CLIENT`\n",
        "tools/b": '# docs/spec/x.md, "Here"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "tools" / "check-docs", tmp_path / "tools" / "check-docs")
    done = subprocess.run([tmp_path / "tools" / "check-docs"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'src/a.c: cites docs/spec/x.md, "Gone", which does not exist',
        "src/a.c: cites docs/spec/y.md, which does not exist",
        "src/a.c: cites x.md, which does not exist",
        "docs/unlisted.md: has no entry in mkdocs.yml",
        "src/providers/brightbox/b.c: reads BRIGHTBOX_GONE, which docs/brightbox.md lacks",
    ]


def test_documents_name_what_the_program_has(tmp_path):
    for name, text in {
        "mkdocs.yml": "nav:\n  - x.md\n  - reference/flags.md\n  - reference/metrics.md\n  - reference/events.md\n",
        "meson.build": "project('ccmd', 'c',\n  version: '0.1.0',\n",
        "tools/kube-parts": 'DEFAULT = "1.37"\n',
        "src/a.c": 'enum { OLDEST_MINOR = 28 };\n"HCLOUD_TOKEN"',
        "docs/reference/flags.md": "| `--one` | duration | `2s` | x |\n| `--two` | duration | `5m0s` | x |\n",
        "docs/reference/metrics.md": "| `ccmd_a` |\n",
        "docs/reference/events.md": "| `Good` |\n",
        "docs/x.md": "Every 2 s (`--one`), 5 min (`--two`): `ccmd_a`, event `Good`, HCLOUD_TOKEN_FILE, 1.28 to 1.37, ccmd:0.1.0.\n"
                     "`--three` and `ccmd --four=1`, `--one` (3 s), 4 min (`--two`), `ccmd_b`, event `Bad`, HCLOUD_GONE, 1.27 to 1.37,\n"
                     "ccmd:0.2.0, CCMD999; of another program: `other --five`, `--node-ip`.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "tools" / "check-docs", tmp_path / "tools" / "check-docs")
    done = subprocess.run([tmp_path / "tools" / "check-docs"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "docs/x.md: names four, which is none of the program's flags",
        "docs/x.md: names three, which is none of the program's flags",
        "docs/x.md: names HCLOUD_GONE, which is none of the program's variables",
        "docs/x.md: names ccmd_b, which is none of the program's metrics",
        "docs/x.md: names Bad, which is none of the program's events",
        "docs/x.md: names CCMD999, which is none of the program's checks",
        "docs/x.md: says 3 s of --one, whose default is 2s",
        "docs/x.md: says 4 min of --two, whose default is 5m0s",
        "docs/x.md: names Kubernetes 1.27 to 1.37, the program and its tests 1.28 to 1.37",
        "docs/x.md: names version 0.2.0 of ccmd",
    ]


def test_the_facts_that_a_shorter_document_lacks_are_listed(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@example.com", *arguments], check=True)

    page = tmp_path / "docs" / "x.md"
    for folder in ("docs", "tools"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools" / "doc-facts", tmp_path / "tools")
    page.write_text("Use `--a` and\n`B_C` for 10 s. It must run.\n\n| of | at most |\n| -- | -- |\n| ports | 200 |\n| | x |\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=x")
    page.write_text("Use `--a`.\n\n| of | at most |\n| -- | -- |\n| x | 10 |\n")
    (tmp_path / "docs" / "y.md").write_text("It has 200.\n")
    done = subprocess.run([tmp_path / "tools" / "doc-facts", "--since", "HEAD", page], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["code     B_C", "number   10 s", "row      ports", "warning  It must run."]


# --- recorded requests -------------------------------------------------------------------------------------------------------


def patch(node, zone, commit="0f0e0d0", agent="node-controller"):
    return {"method": "PATCH", "uri": f"/api/v1/nodes/{node}", "body": {"metadata": {"labels": {"zone": zone}}},
            "agent": f"ccmd/0.1.0 (linux/amd64) kubernetes/{commit}/{agent}"}


def event(uid, message):
    return {"method": "POST", "uri": "/api/v1/namespaces/default/events",
            "body": {"involvedObject": {"kind": "Node", "name": "n1", "uid": uid}, "reason": "Synced", "message": message}}


def compare_traces(folder, old, new):
    """old and new: of each run the requests. Returns the exit code and the output."""
    for name, runs in (("old", old), ("new", new)):
        shutil.rmtree(folder / name, ignore_errors=True)
        for n, requests in enumerate(runs, 1):
            test = folder / name / str(n) / "test"
            test.mkdir(parents=True)
            (test / "test.json").write_text(json.dumps({"test": "test_x.py::test_y", "failed": False}))
            (test / "cluster-1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in requests))
    done = subprocess.run([ROOT / "tools" / "traces", "compare", "old", "new"], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_recordings_differ_in_what_no_run_of_the_old_program_has(tmp_path):
    a, b, other = patch("n1", "a"), patch("n1", "b"), patch("n2", "a")
    uids = [f"0f0e0d0c-0000-4000-8000-00000000000{n}" for n in range(3)]
    old = [[a, other, b, event(uids[0], "took 2 s")], [other, a, b, event(uids[1], "took 31 s")]]
    said = event(uids[2], "took 5 s")
    assert compare_traces(tmp_path, old, [[a, b, said, other]])[0] == 0
    assert compare_traces(tmp_path, [[a]], [[patch("n1", "a", commit="0.1.0")]])[0] == 0
    assert compare_traces(tmp_path, [[a]], [[patch("n1", "a", agent="route-controller")]])[0] == 1
    for new, line in [
        ([a, b, said], "- PATCH /api/v1/nodes/n2"),
        ([b, a, said, other], '+ PATCH /api/v1/nodes/n1 {"metadata": {"labels": {"zone": "b"}}}'),
        ([a, b, said, patch("n2", "c")], '+ PATCH /api/v1/nodes/n2 {"metadata": {"labels": {"zone": "c"}}}'),
        ([a, b, event(uids[2], "failed"), other], "texts of events of Node n1"),
    ]:
        code, output = compare_traces(tmp_path, old, [new])
        assert code == 1 and "DIFFERS: test_x.py::test_y" in output and line in output


def test_recordings_are_compared_as_strictly_as_the_old_program_is_steady(tmp_path):
    a, b = patch("n1", "a"), patch("n1", "b")
    assert compare_traces(tmp_path, [[a, b], [b, a]], [[b, a]])[0] == 0, "in any order"
    assert compare_traces(tmp_path, [[a, b], [b, a]], [[b, a, a]])[0] == 1
    assert compare_traces(tmp_path, [[a, b], [a, a, b]], [[a, a, a, b]])[0] == 0, "repeated"
    assert compare_traces(tmp_path, [[a, b], [a, a, b]], [[b, a]])[0] == 1
    code, output = compare_traces(tmp_path, [[a, b], [a]], [[b]])
    assert code == 0 and "unsteady: test_x.py::test_y" in output
    code, output = compare_traces(tmp_path, [[a, b], [a]], [[patch("n1", "c")]])
    assert code == 0 and "unsteady, and with requests that no run of OLD has" in output
    assert compare_traces(tmp_path, [[a], [a]], [[b], [a]])[0] == 0, "one run of the new program is enough"
    load = [[patch(f"n{n}", "a") for n in range(count)] for count in (3, 5, 7)]
    assert compare_traces(tmp_path, load[:2], load[2:])[0] == 0, "as many nodes as there was time for"
    assert compare_traces(tmp_path, load[:2], [[*load[2], patch("n6", "b")]])[0] == 1


# --- what the mirror of Debian no longer has -----------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path):
    """(a folder, the address of the server that shows it)"""
    folder = tmp_path / "archive"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch_sources(tree, address, snapshot):
    tree.script(tree.programs / "apt-get", f'[ "$1" != indextargets ] || echo {address}/mirror/debian/')
    tree.script(tree.programs / "apt-cache", "echo Version: 8.2-1; echo Directory: pool/main/c/curl")
    env = os.environ | {"CCMD_CACHE": str(tree.cache), "PATH": f"{tree.programs}:{os.environ['PATH']}",
                        "CCMD_DEBIAN_SNAPSHOT": f"{address}/{snapshot}"}
    return subprocess.run([tree.folder / "tools" / "image-sources"], env=env, capture_output=True, text=True)


def test_a_source_that_the_mirror_dropped_comes_from_the_snapshot(tree, archive):
    folder, address = archive
    shutil.copy(ROOT / "tools" / "image-sources", tree.folder / "tools")
    checksum = hashlib.sha256(b"the source").hexdigest()
    lock = f"snapshot 20260102T030405Z\ncurl 8.1-1 debian/pool/main/c/curl/curl_8.1.orig.tar.gz {checksum}\n"
    (tree.folder / "tools" / "image.lock").write_text(lock)
    done = fetch_sources(tree, address, "nothing")
    assert done.returncode == 1
    assert "curl 8.1-1 cannot be fetched:" in done.stderr
    assert f"{address}/mirror/debian/pool/main/c/curl/curl_8.1.orig.tar.gz: HTTP Error 404" in done.stderr
    assert f"{address}/nothing/archive/debian/20260102T030405Z/pool/main/c/curl/curl_8.1.orig.tar.gz: HTTP" in done.stderr
    assert "The mirror has curl 8.2-1 in place of 8.1-1." in done.stderr
    place = folder / "snapshot" / "archive" / "debian" / "20260102T030405Z" / "pool" / "main" / "c" / "curl"
    place.mkdir(parents=True)
    (place / "curl_8.1.orig.tar.gz").write_bytes(b"another source")
    done = fetch_sources(tree, address, "snapshot")
    assert done.returncode == 1 and "the checksum is not that of image.lock; nothing of it was used" in done.stderr
    (place / "curl_8.1.orig.tar.gz").write_bytes(b"the source")
    done = fetch_sources(tree, address, "snapshot")
    assert done.returncode == 0, done.stderr
    assert (tree.cache / "image" / "sources" / "curl_8.1.orig.tar.gz").read_bytes() == b"the source"


def test_an_image_without_a_commit_says_why(tmp_path):
    for name in ("image-oci", "revision", "scripts.py"):
        (tmp_path / "tree" / "tools").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools" / name, tmp_path / "tree" / "tools")
    script = "from scripts import load; commit = load('image-oci').Commit(); print([commit.revision, commit.created])"
    for path, problem in ((os.environ["PATH"], "not a git repository"), (tmp_path, "git is not installed")):
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "tree" / "tools", capture_output=True, text=True,
                              env={"PATH": str(path)})
        assert done.stdout == "['', '1970-01-01T00:00:00Z']\n", done.stderr
        assert "the image has no revision" in done.stderr and problem in done.stderr


SYSTEM = """case $1 in
make) mkdir -p "$3/build" "$3/etc/apt/sources.list.d" ;;
run) shift 2; case $1 in
  dpkg-query) cat "$INSTALLED" ;;
  apt-get) case "$*" in *--allow-downgrades*) echo "$*" >>"$CALLS" ;; esac ;;
  */apt-helper) exit 100 ;;
esac ;;
esac"""


def test_the_compilers_of_a_release_are_those_of_the_lock(tree, tmp_path):
    shutil.copy(ROOT / "tools" / "release-system", tree.folder / "tools")
    tree.script(tree.folder / "tools" / "debian-system", SYSTEM)
    subprocess.run(["git", "init", "-q"], cwd=tree.folder, check=True)
    (tree.folder / "tools" / "release.lock").write_text("snapshot 20260102T030405Z\nbinutils 2.44-3\ngcc-14 14.2.0-19\n")
    installed = tmp_path / "installed"
    env = os.environ | {"CALLS": str(tree.calls), "CCMD_CACHE": str(tree.cache), "INSTALLED": str(installed)}
    installed.write_text("binutils 2.44-3\ngcc-14 14.2.0-20\n")
    done = subprocess.run([tree.folder / "tools" / "release-system"], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "lock: gcc-14 14.2.0-19\nhere: gcc-14 14.2.0-20\n" in done.stderr and "binutils" not in done.stderr
    assert "the tools of the system differ from tools/release.lock" in done.stderr
    assert tree.take_calls("apt-get")[-1].endswith("install binutils=2.44-3 gcc-14=14.2.0-19")
    installed.write_text("binutils 2.44-3\ngcc-14 14.2.0-19\n")
    done = subprocess.run([tree.folder / "tools" / "release-system"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip(), "complete").exists()
