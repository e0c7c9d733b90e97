"""The completion of flags, and the Debian packages: built, installed and used in fresh systems of their releases."""
import base64
import contextlib
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from lib.ccmd import Inventory, machine
from lib.debian import RELEASES, System, need_tools
from lib.helm import CHART, IMAGE, Helm, tool
from lib.nodes import Kubelet, is_initialized
from lib.process import REPOSITORY, Process

COMPLETION = REPOSITORY / "deploy" / "completion"

# --- completion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, expected", [
    (["do"], ["doctor"]),
    (["--sandbox=auto", "do"], []),  # a command comes first
    (["doctor", "--al"], ["--all"]),
    (["status", "--o"], ["--output="]),
    (["status", "--al"], []),  # of another command, and without effect
    (["doctor", "--output", "="], ["json", "text"]),
    (["doctor", "-o", ""], ["json", "text"]),
    (["plan", ""], ["all", "nodes", "routes", "services"]),
    (["explain", ""], ["node", "route", "service"]),
    (["explain", "--sand"], ["--sandbox="]),
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


# --- the Debian packages -------------------------------------------------------------------------------------------------

def slow(test):
    """Builds packages, which takes minutes, more where the systems to build in are missing."""
    return pytest.mark.slow(pytest.mark.timeout(3600)(test))


class Machine(System):
    """A system that packages are installed in."""

    def install(self, package):
        shutil.copy(package, self.root / "root" / package.name)
        self.run("apt-get", "-qq", "-y", "--no-install-recommends", "install", f"/root/{package.name}")

    def owner_and_mode(self, path):
        return self.run("stat", "-c", "%U:%G %a", path).strip()

    def status(self):
        """What dpkg says about the package, and its version."""
        return self.run("sh", "-c", "dpkg-query -W -f='${db:Status-Status} ${Version}' ccmd 2>/dev/null || echo none").strip()


@pytest.fixture(scope="module")
def packages():
    """packages("12", "arm64"): the package, built from this tree."""
    need_tools()

    @functools.cache
    def build(release, architecture="amd64"):
        done = subprocess.run([REPOSITORY / "tools" / "deb", release, architecture], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, "see the messages of tools/deb"
        name, = [line for line in done.stdout.splitlines() if line.startswith("ccmd_")]
        return REPOSITORY / "dist" / name

    return build


@pytest.fixture
def system(packages, tmp_path):
    """system("12"): a fresh system of that release."""
    with contextlib.ExitStack() as stack:
        yield lambda release: stack.enter_context(Machine(release, tmp_path))


def older(package, folder):
    """The same package with a lower version, and another program: what is upgraded from."""
    tree = folder / "older"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub("^Version: .*", "Version: 0.0.1-1", control.read_text(), flags=re.MULTILINE))
    (tree / "usr" / "bin" / "ccmd").write_text("#!/bin/sh\necho older\n")
    result = folder / "ccmd_0.0.1-1_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, result], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return result


def with_its_files(kubeconfig):
    """The kubeconfig with the content of the files that it names: a system does not see them."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    for part in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in part:
                part[f"{key}-data"] = base64.b64encode(Path(part.pop(key)).read_bytes()).decode()
    return yaml.safe_dump(config)


def exec_start(system):
    """The unit's command as systemd would run it, with the variables of /etc/ccmd/environment."""
    unit = system.run("cat", "/usr/lib/systemd/system/ccmd.service").replace("\\\n", " ")
    command = re.search("^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    user = re.search("^User=(.*)$", unit, re.MULTILINE)[1]
    return ["sh", "-c", f"set -a; . /etc/ccmd/environment; exec setpriv --reuid={user} --regid={user} --clear-groups "
                        f"--no-new-privs {command}"]


def do_its_job(system, cluster, api, folder):
    """Runs the unit's command until a new node is initialised."""
    kubelet = Kubelet(api, "n1", ip="10.0.0.1")
    kubelet.register()
    one = Process("packaged-ccmd", system.command(*exec_start(system)), folder / "packaged-ccmd.log", env=dict(os.environ))
    one.start()
    try:
        api.wait_node("n1", is_initialized)
        assert api.node("n1")["spec"]["providerID"] == "cloudlycke://m-n1"
    except Exception:
        print(one.log_text())
        raise
    finally:
        one.kill()
        kubelet.delete()


@slow
@pytest.mark.one_version
@pytest.mark.parametrize("release", RELEASES)
def test_a_package_is_installed_upgraded_removed_and_purged_twice(release, packages, system, cluster, api, tmp_path):
    new = packages(release)
    old = older(new, tmp_path)
    one = system(release)
    one.run("apt-get", "-qq", "update")
    inventory = Inventory(tmp_path / "cloud.yaml", [machine("n1", "10.0.0.1")])
    for _ in range(2):
        one.install(old)
        assert one.run("ccmd") == "older\n"
        assert one.owner_and_mode("/etc/ccmd") == "root:ccmd 750"
        assert one.owner_and_mode("/etc/ccmd/environment") == "root:root 640"
        # not enabled, and not startable before it is configured
        assert one.run("systemctl", "is-enabled", "ccmd", check=False)[1].split() == ["disabled"]
        condition = ["systemd-analyze", "condition", "ConditionPathExists=/etc/ccmd/kubeconfig"]
        assert "ConditionPathExists=/etc/ccmd/kubeconfig\n" in one.run("cat", "/usr/lib/systemd/system/ccmd.service")
        assert one.run(*condition, check=False)[0] != 0

        kubeconfig = one.path("/etc/ccmd/kubeconfig")
        kubeconfig.write_text(with_its_files(cluster.ccmd_kubeconfig))
        one.path("/etc/ccmd/cloud.yaml").write_text(inventory.text())
        one.path("/etc/ccmd/environment").write_text("CCMD_FLAGS='--cloud-provider=cloudlycke --secure-port=0'\n")
        one.run("sh", "-c", "chgrp ccmd /etc/ccmd/kubeconfig /etc/ccmd/cloud.yaml; chmod 0640 /etc/ccmd/*")
        assert one.run(*condition, check=False)[0] == 0
        one.run("install", "-d", "-o", "ccmd", "/var/lib/ccmd")  # as StateDirectory= does

        one.install(new)
        assert one.status() == f"installed {new.name.split('_')[1]}"
        assert "--secure-port=0" in one.path("/etc/ccmd/environment").read_text()
        assert one.run("systemctl", "is-enabled", "ccmd", check=False)[1].split() == ["disabled"]
        one.run("systemd-analyze", "verify", "--man=no", "ccmd.service")
        do_its_job(one, cluster, api, tmp_path)
        assert "ccmd doctor" in one.run("kubectl-ccmd", "help") and one.path("/usr/share/man/man8/kubectl-ccmd.8.gz").exists()
        # the flags of the unit are found only while it runs
        assert "unit ccmd.service" in one.run("ccmd", "status", check=False)[1]

        one.run("apt-get", "-qq", "-y", "remove", "ccmd")
        assert one.status().startswith("config-files")
        assert not one.path("/usr/bin/ccmd").exists()
        assert one.path("/etc/ccmd/environment").exists() and one.path("/var/lib/ccmd").exists()

        one.run("apt-get", "-qq", "-y", "purge", "ccmd")
        assert one.status() in ("none", "not-installed")
        assert not one.path("/etc/ccmd/environment").exists() and not one.path("/var/lib/ccmd").exists()
        assert kubeconfig.exists()  # the administrator's, and perhaps the only copy
        kubeconfig.unlink()
        one.run("getent", "passwd", "ccmd")


@slow
@pytest.mark.parametrize("release", RELEASES)
def test_helm_accepts_the_chart_of_the_package(pytestconfig, release, packages, tmp_path):
    subprocess.run(["dpkg-deb", "-x", packages(release), tmp_path / "root"], check=True)
    chart = tmp_path / "root" / "usr" / "share" / "doc" / "ccmd" / "charts" / "ccmd"
    files = {path.relative_to(chart) for path in chart.rglob("*") if path.is_file()}
    assert files == {path.relative_to(CHART) for path in CHART.rglob("*") if path.is_file()}
    Helm(tool(pytestconfig, "helm"), tmp_path).checked("lint", "--strict", values={"image": {"repository": IMAGE}}, chart=chart)


@slow
@pytest.mark.parametrize("release", RELEASES)
def test_the_arm64_package_is_installed_and_starts(release, packages, system):
    emulator = shutil.which("qemu-aarch64-static")
    if not emulator:
        pytest.skip("no qemu-aarch64-static")
    one = system(release)
    one.run("dpkg", "--add-architecture", "arm64")
    one.run("apt-get", "-qq", "update")
    package = packages(release, "arm64")
    one.install(package)
    shutil.copy(emulator, one.root / "usr" / "bin")
    version = package.name.split("_")[1].split("~")[0].split("-")[0]
    assert f"v{version}" in one.run("qemu-aarch64-static", "/usr/bin/ccmd", "--version")


@slow
def test_zsh_and_fish_complete_flags_and_values(packages, system):
    one = system("13")
    one.run("apt-get", "-qq", "update")
    one.run("apt-get", "-qq", "-y", "--no-install-recommends", "install", "zsh", "fish")
    one.install(packages("13"))

    def fish(line):
        """What fish offers, without the descriptions."""
        return [offer.split("\t")[0] for offer in one.run("fish", "-c", f"complete -C '{line}'").splitlines()]

    assert fish("ccmd --sand")[0] == "--sandbox"  # what only resembles it follows
    assert sorted(fish("ccmd --sandbox=")) == ["--sandbox=auto", "--sandbox=off"]
    assert "--allow-untagged-cloud" not in fish("ccmd --allow")
    assert sorted(fish("ccmd explain ")) == ["node", "route", "service"]
    assert sorted(fish("ccmd plan nodes -o ")) == ["json", "text"]
    # compadd is what zsh's completion ends in; it needs a terminal, which zpty makes
    script = """
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z 'autoload -U compinit && compinit -u && PS1= && bindkey "^I" complete-word && echo ready'
        zpty -r z seen '*ready*ready*'
        zpty -w -n z "$1"$'\\t\\C-a\\echo \\n'
        zpty -r z seen "*$2*"
        print -r -- $seen
    """
    for typed, completed in (("ccmd --cloud-provider=hcloud-", "--cloud-provider=hcloud-from-scratch"),
                             ("ccmd expl", "ccmd explain"), ("ccmd explain ser", "ccmd explain service"),
                             ("ccmd plan --output=j", "ccmd plan --output=json")):
        assert completed in one.run("timeout", "60", "zsh", "-f", "-c", script, "zsh", typed, completed), typed
