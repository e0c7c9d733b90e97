"""ccmd doctor --bundle: one file for a bug report, without secrets."""
import json
import os

import pytest

from lib.ccmd import run_ccmd
from lib.operator import flags_of

pytestmark = [pytest.mark.needs_binary, pytest.mark.plain, pytest.mark.one_version]


def test_the_bundle_has_everything_but_secrets(cluster, api, cloud, services, kubelet, tmp_path):
    secret = "hunter22-" + "x" * 8
    server = cloud.add_server("n1")
    kubelet("n1", initialized=True, provider_id=f"hcloud://{server.id}")
    kubelet("gone", ip="10.0.0.9", initialized=True, provider_id="hcloud://4711", ready="Unknown")
    services.create("web", annotations={"load-balancer.hetzner.cloud/locaton": "fsn1",
                                        "load-balancer.hetzner.cloud/name": f"token={secret}"})
    path = tmp_path / "bundle.json"
    flags = flags_of(cluster.admin_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", f"--bundle={path}")
    env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
           "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
    done = run_ccmd("doctor", *flags, env=env, timeout=120)
    assert f"wrote {path}" in done.stderr and done.returncode == 1, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    bundle = json.loads(text)
    assert {"time", "version", "server", "kubernetes", "flags", "doctor", "status", "plan", "explain", "metrics", "logs"} <= set(bundle)
    assert bundle["server"].startswith("https://") and bundle["doctor"]["exitCode"] == 1
    assert {(one["kind"], one["name"]) for one in bundle["explain"]} >= {("node", "gone"), ("service", "default/web")}
    assert any(one["kind"] == "service" for one in bundle["plan"]["objects"]), bundle["plan"]
    for one in (cloud.token, secret, "PRIVATE KEY"):
        assert one not in text
    done = run_ccmd("doctor", *flags[:-2], "--bundle=/nonexistent/x", *flags[-2:], env=env, timeout=120)
    assert done.returncode == 2 and "/nonexistent" in done.stderr


@pytest.mark.parametrize("script, member, text", [
    ('[ "$*" = "--unit=ccmd.service --lines=500 --no-pager --output=short-iso" ] && echo "ccmd[7]: HCLOUD_TOKEN=$HCLOUD_TOKEN"',
     "text", "ccmd[7]: HCLOUD_TOKEN=[redacted]"),
    ("echo 'Hint: You are currently not seeing messages from other users.' >&2; echo '-- No entries --'",
     "error", "add the output of: sudo journalctl -u ccmd -n 500"),
    ("echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", "error", "insufficient permissions"),
    ("echo '-- No entries --'", None, None),
])
def test_the_log_of_a_unit(cluster, api, cloud, tmp_path, script, member, text):
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    path = tmp_path / "bundle.json"
    flags = flags_of(cluster.admin_kubeconfig, None, "--cloud-provider=hcloud", "--allow-untagged-cloud", f"--bundle={path}")
    run_ccmd("doctor", *flags, timeout=120, env={
        "HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_METRICS_ENABLED": "false",
        "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    found = [one for one in json.loads(path.read_text())["logs"] if "unit" in one]
    assert len(found) == (member is not None) and all(one["unit"] == "ccmd.service" and text in one[member] for one in found), found
