"""docs/adding-a-cloud.md: its commands, one after the other, in a copy of the tree."""
import getpass
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from lib.process import REPOSITORY

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
STEP = "== step "
LEFT_OUT = re.compile(r"\.git|build-.*|__pycache__")


def copy_tree(folder):
    """With what was built, so that only what the new cloud adds has to be compiled; only one build folder of them."""
    leave_out = lambda _, names: [name for name in names if LEFT_OUT.fullmatch(name)]
    shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=leave_out)
    return folder


def script():
    """Each block is announced on the output, which is how a failure can be placed."""
    blocks = BLOCK.findall((REPOSITORY / "docs" / "adding-a-cloud.md").read_text())
    return "\n".join(f"echo '{STEP}{number}'\n{block}" for number, block in enumerate(blocks, 1)), len(blocks)


def test_the_commands_of_the_page_do_what_it_says(tmp_path):
    tree = copy_tree(tmp_path / "tree")
    text, count = script()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CCMD_BINARY", "PYTEST_"))}
    with subprocess.Popen(
        ["bash", "-eu", "-c", text], cwd=tree, env=environment | {"TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL,
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
    said = lambda number, *patterns: all(re.search(one, steps[number]) for one in patterns) or steps[number]
    assert said(1, "mycloud") is True
    assert said(4, r"node/worker-7 condition met", r"worker-8 +Ready .* 10\.0\.0\.8") is True
    assert said(5, r"web +LoadBalancer .* 198\.51\.100\.", r'"targets": \["7", "8"\]') is True
    assert said(6, r"node/worker-8 condition met", "DeletingNode") is True
    assert said(8, r"\b12 passed, 0 failed", r"\b3 passed, 0 failed") is True
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
