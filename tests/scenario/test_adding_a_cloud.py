"""docs/adding-a-cloud.md: its commands, one after the other, in a copy of the tree."""
import getpass
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lib.process import REPOSITORY

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
STEP = "== step "
LEFT_OUT = re.compile(r"\.git|build(-.*)?|__pycache__")  # each compiler command contains the tree's folder: all is built anew
PREAMBLE = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"  # a command that fails leaves programs in the background
NAMES_MADE = ("src/providers/{}", "tests/providers/{}", "tests/sim/{}.py", "tests/scenario/test_{}.py")


def copy_tree(folder):
    def leave_out(where, names):
        return [name for name in names if LEFT_OUT.fullmatch(name) and "tools" not in Path(where).name]

    return Path(shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=leave_out))


def script():
    """Each block is announced on the output, which is how a failure can be placed."""
    blocks = BLOCK.findall((REPOSITORY / "docs" / "adding-a-cloud.md").read_text())
    return "\n".join(f"echo '{STEP}{number}'\n{block}" for number, block in enumerate(blocks, 1)), len(blocks)


def test_the_commands_of_the_page_do_what_it_says(tmp_path):
    tree = copy_tree(tmp_path / "tree")
    text, count = script()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CCMD_BINARY", "PYTEST_"))}
    with subprocess.Popen(
        ["bash", "-eu", "-c", PREAMBLE + text], cwd=tree, env=environment | {"TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=500)
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)  # what a failed command left running
            except ProcessLookupError:
                pass
    assert shell.returncode == 0, printed
    steps = dict(enumerate(printed.split(STEP)))
    assert len(steps) == count + 1
    said = lambda number, *patterns: all(re.search(one, steps[number], re.M) for one in patterns) or steps[number]
    assert said(1, "mycloud") is True
    assert said(4, r"node/worker-7 condition met", r"worker-8 +Ready .* 10\.0\.0\.8") is True
    assert said(5, r"web +LoadBalancer .* 198\.51\.100\.", r'"targets": \["7", "8"\]') is True
    assert said(6, r"node/worker-8 condition met", "DeletingNode") is True
    assert said(8, r"^\d\d passed, 0 failed", r"^4 passed, 0 failed") is True
    assert {path.name for path in tmp_path.iterdir()} <= {"tree", f"pytest-of-{getpass.getuser()}"}
    check_format(tree)


def check_format(tree):
    lint_bin = subprocess.run(["sh", "-c", '. tools/lib.sh; echo "$LINT_BIN"', tree / "tools" / "x"], cwd=tree,
                              capture_output=True, text=True).stdout.strip()
    formatter = Path(lint_bin) / "clang-format"
    if formatter.exists():  # else ./dev new-cloud could not get it either, and said so
        files = [tree / "src/cloud/registry.c", *(tree / "src/providers/mycloud").glob("*.c"),
                 *(tree / "tests/providers/mycloud").glob("*.c")]
        done = subprocess.run([formatter, "--dry-run", "-Werror", *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return copy_tree(tmp_path_factory.mktemp("new") / "tree")


def new_cloud(tree, name):
    return subprocess.run([tree / "tools" / "new-cloud", name], cwd=tree, capture_output=True, text=True)


def test_a_new_cloud_overwrites_nothing(sources):
    made = [sources / path.format("acme") for path in NAMES_MADE]
    assert new_cloud(sources, "acme").returncode == 0
    assert all(path.exists() for path in made)
    registry = (sources / "src/cloud/registry.c").read_text()
    (sources / "src/providers/acme/provider.c").write_text("mine")
    done = new_cloud(sources, "acme")
    assert (done.returncode, done.stderr) == (1, "new-cloud: src/providers/acme exists already\n")
    assert (sources / "src/providers/acme/provider.c").read_text() == "mine"
    assert (sources / "src/cloud/registry.c").read_text() == registry


@pytest.mark.parametrize("name, problem", [
    ("", "cannot be the name of a cloud"),
    ("Nimbus", "cannot be the name of a cloud"),
    ("my-cloud", "cannot be the name of a cloud"),
    ("../acme2", "cannot be the name of a cloud"),
    ("a234567890123456", "cannot be the name of a cloud"),
    ("int", "has another meaning"),
    ("class", "has another meaning"),
    ("errno", "has another meaning"),
    ("rest", "has another meaning"),
    ("base", "has another meaning"),
    ("test", "has another meaning"),
    ("hcloud", "exists already"),
    ("faults", "exists already"),
])
def test_names_that_would_not_work_are_refused(sources, name, problem):
    before = {path: (sources / path.format(name)).exists() for path in NAMES_MADE}
    done = new_cloud(sources, name)
    assert done.returncode == 1 and problem in done.stderr, done.stderr
    assert {path: (sources / path.format(name)).exists() for path in NAMES_MADE} == before
