"""The chart charts/ccmd by the real helm: rendered, and installed into a control plane."""
import functools
import json
import subprocess

import pytest
import yaml

from .process import REPOSITORY

CHART = REPOSITORY / "charts" / "ccmd"
NAMESPACE = "kube-system"
IMAGE = "localhost/ccmd"  # the chart has no default
MONITORING = "monitoring.coreos.com/v1/"
KINDS_OF_MONITORING = ("PodMonitor", "ServiceMonitor", "PrometheusRule")


@functools.cache
def _tool(name, may_build):
    command = [str(REPOSITORY / "tools" / "go-tool"), *([] if may_build else ["--cached"]), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=None if may_build else subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def tool(config, name):
    """The path of a program of tools/go-tool. A build takes minutes, so only a run with slow tests builds it."""
    may_build = config.getoption("all") or "slow" in config.option.markexpr
    why = "failed: no Go modules" if may_build else "was not run yet, --all runs it"
    return _tool(name, may_build) or pytest.skip(f"tools/go-tool {name} {why}")


class Helm:
    """Values are a dictionary, as in a file of --values. Those for ccmd's chart get an image unless they name one."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def run(self, *arguments, values=None, chart=CHART):
        """Its result: returncode, stdout, stderr."""
        command = [self.program, *arguments]
        if values is not None:
            if chart == CHART:
                values = {**values, "image": {"repository": IMAGE, **values.get("image", {})}}
            path = self.folder / "values.yaml"
            path.write_text(json.dumps(values))
            command += [str(chart), f"--values={path}"]
        environment = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, env=environment)

    def checked(self, *arguments, **options):
        done = self.run(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def template(self, values=None, monitoring=True, release="ccmd", tests=False):
        """The rendered text; monitoring: of a cluster that has the CRDs of the Prometheus operator; tests: with `helm test`."""
        apis = [f"--api-versions={MONITORING}{kind}" for kind in KINDS_OF_MONITORING if monitoring]
        apis += [] if tests else ["--skip-tests"]
        return self.checked("template", release, f"--namespace={NAMESPACE}", *apis, values=values or {})

    def render(self, values=None, monitoring=True, **options):
        """{kind: [object]}"""
        found = {}
        for one in yaml.safe_load_all(self.template(values, monitoring, **options)):
            if one:
                found.setdefault(one["kind"], []).append(one)
        return found

    def workload(self, values=None):
        found = self.render(values)
        (one,) = found.get("Deployment", []) + found.get("DaemonSet", [])
        return one
