"""ccmd doctor --bundle: one file for a bug report, without secrets."""
import json

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
