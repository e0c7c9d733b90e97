"""Fresh machines: a clone of this tree, in a new Debian system that has none of this machine's caches."""
import re
import subprocess

import pytest

from lib.debian import RELEASES, System, need_tools
from lib.process import REPOSITORY

HOUR = 3600


@pytest.mark.slow
@pytest.mark.timeout(2 * HOUR)  # where no archive can be downloaded, a kube-apiserver is built from source
@pytest.mark.parametrize("release", RELEASES)
def test_a_clone_shows_the_demo_and_passes_the_unit_tests(release, tmp_path):
    need_tools()
    with System(release, tmp_path) as system:
        clone = system.path("/root/ccmd")
        subprocess.run(["git", "clone", "--quiet", f"file://{REPOSITORY}", clone], check=True)
        code, text = system.run("/root/ccmd/dev", "demo", check=False)
        print(text[-5000:])
        assert code == 0
        code, text = system.run("/root/ccmd/dev", "test", "unit", check=False)
        print(text[-5000:])
        passed, failed = re.search(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE).groups()
        assert code == 0 and int(passed) > 1000 and failed == "0"
