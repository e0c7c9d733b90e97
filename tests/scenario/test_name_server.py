"""A name server that accepts queries and never answers: the program must not hang, and must report the reason."""
import os
import socket
import subprocess
import time

import pytest
import yaml
from lib.ccmd import SANITIZER_REPORT, binary, environment

SILENT = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # several sessions at once need one each


@pytest.fixture
def silent_name_server():
    """Listens on the port of name servers, so that the resolver gets no "refused"."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for port 53 and a mount namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        try:
            server.bind((SILENT, 53))
        except OSError as problem:
            pytest.skip(f"port 53 of {SILENT} is not to be had: {problem}")
        yield server


@pytest.mark.one_version
@pytest.mark.needs_binary
@pytest.mark.plain
def test_a_silent_name_server_ends_the_start_in_time(silent_name_server, cluster, inventory, tmp_path):
    resolv = tmp_path / "resolv.conf"
    resolv.write_text(f"nameserver {SILENT}\n")
    config = yaml.safe_load(open(cluster.ccmd_kubeconfig))
    config["clusters"][0]["cluster"]["server"] = "https://api.cluster.example:6443"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    program = [str(binary()), "--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}",
               f"--kubeconfig={kubeconfig}", "--leader-elect=false",
               "--secure-port=0"]
    script = f"mount --bind {resolv} /etc/resolv.conf && exec \"$@\""
    begun = time.monotonic()
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *program], capture_output=True, text=True,
                          timeout=60, env=environment(), check=False)
    took = time.monotonic() - begun
    if "ccmd starts" not in done.stderr:
        pytest.skip(f"no mount namespace to be had here: {done.stderr}")
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr
    assert done.returncode == 1, done.stderr
    assert "api.cluster.example:6443" in done.stderr
    assert len([line for line in done.stderr.splitlines() if " error " in line]) == 1, done.stderr
    # ten seconds of asking; the resolver's own patience, which must not be added at the end, is ten more
    assert took < 17, f"{took:.1f} s\n{done.stderr}"
    silent_name_server.settimeout(1)
    assert silent_name_server.recv(512), "the name server was not asked"
