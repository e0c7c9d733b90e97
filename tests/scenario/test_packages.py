"""The completion of flags, and the Debian packages: built, installed and used in fresh systems of their releases."""
import subprocess

import pytest

from lib.process import REPOSITORY

COMPLETION = REPOSITORY / "deploy" / "completion"

# --- completion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, expected", [
    (["do"], ["doctor"]),
    (["--sandbox=auto", "do"], []),  # a command comes first
    (["--sand"], ["--sandbox="]),
    (["--leader-elect-r"], ["--leader-elect-renew-deadline=", "--leader-elect-retry-period=", "--leader-elect-resource-lock=",
                            "--leader-elect-resource-name=", "--leader-elect-resource-namespace="]),
    (["--sandbox", "="], ["auto", "off"]),
    (["--sandbox", ""], ["auto", "off"]),
    (["--cloud-provider", "=", "hcloud-"], ["hcloud-from-scratch"]),
    (["--leader-elect", "=", "f"], ["false"]),
    (["--leader-elect", ""], []),  # the flag alone means true
    (["--allow-untagged"], []),  # without effect
    (["--kubeconfig", "=", "/et"], []),  # readline completes files
], ids=" ".join)
def test_bash_completes_flags_and_values(words, expected):
    """The words as bash splits them; the last one is completed."""
    script = f"""
        compopt() {{ :; }}
        . {COMPLETION / "ccmd.bash"}
        COMP_WORDS=(ccmd "$@")
        COMP_CWORD=$#
        _ccmd
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-eu", "-c", script, "bash", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(expected)
