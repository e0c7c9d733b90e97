"""docs/getting-started.md is carried out as it is written: the demo, and each command of the page after it."""
import os
import re
import shutil
import subprocess

import pytest

from lib.console import blocks, matches
from lib.process import REPOSITORY, Process
from lib.wait import PATIENCE_S, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.plain, pytest.mark.one_version]

DOCUMENT = REPOSITORY / "docs" / "getting-started.md"
# What ccmd does by itself takes a moment, so commands that only look are repeated until they print what the page says.
LOOKING = ("ccmd ", "kubectl get ")
CREATED = "$(kubectl get service web -o jsonpath={.metadata.creationTimestamp})"
NEW_S = 60  # as in src/operator/check_services.c


@pytest.fixture
def demo(tmp_path):
    """The demo, which keeps running: the file for the shell of its reader."""
    one = Process("demo", [REPOSITORY / "dev", "demo", "--cloud=hcloud", "--keep"], tmp_path / "demo.log", env=dict(os.environ)).start()
    try:
        yield wait_for(lambda: (found := re.search(r"^ *\. (/\S+/env) ", one.log_text(), re.M)) and found[1], 180, "the demo to keep running")
    finally:
        one.stop()


def test_the_page_is_true(demo):
    if not shutil.which("hcloud"):
        pytest.skip("no hcloud command")

    def run(command):
        return subprocess.run(["bash", "-c", f". {demo}; {command}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=90).stdout

    for command, expected in [one for block in blocks(DOCUMENT.read_text()) for one in block]:
        printed = run(command)
        if command.startswith(LOOKING) and not matches(printed, expected):
            wait_for(lambda: matches(run(command), expected), what=f"$ {command}", seen=lambda: run(command))
        else:
            assert matches(printed, expected), f"$ {command}\n{printed}\n--- instead of:\n{expected}"

    # a reader takes longer than this test: doctor then expects pods behind the Service
    wait_for(lambda: int(run(f"echo $(( $(date +%s) - $(date -d {CREATED} +%s) ))")) > NEW_S, NEW_S + PATIENCE_S, "an old Service")
    printed = run("ccmd doctor")
    assert printed.startswith("No problems;"), printed
