"""The static program and the OCI image, as `./dev image` makes them."""
import functools
import json
import os
import shutil
import struct
import subprocess
import tarfile

import pytest
import yaml
from lib import netns
from lib.ccmd import environment
from lib.dns import NameServer
from lib.faultproxy import FaultProxy
from lib.nodes import is_initialized
from lib.process import REPOSITORY, spawn

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.plain, pytest.mark.xdist_group("image")]

DIST = REPOSITORY / "dist"
NAME_SERVER = "127.0.0.78"
PACKED_MAX = 3_000_000
ELF_DYN, PT_INTERP = 3, 3
BUILD_S = 3600
USER = 65532
TOOLS = {"skopeo": "skopeo", "umoci": "umoci", "runc": "runc", "qemu-user-static": "qemu-aarch64-static"}


def run(*argv, timeout=120, **options):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def build(tree):
    run(tree / "tools" / "image", timeout=BUILD_S, cwd=tree)


@pytest.fixture(scope="session")
def built():
    """dist/ with the programs and the image of this tree."""
    if not shutil.which("apt-get"):
        pytest.skip("the sources are fetched from a Debian mirror, and their lists are read by apt-get")
    build(REPOSITORY)
    return DIST


@functools.cache
def missing_tools():
    """Those of the programs that the tests use on the image, and that cannot be installed."""
    absent = [package for package, program in TOOLS.items() if not shutil.which(program)]
    if absent and os.geteuid() == 0:
        subprocess.run(["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "install", "--no-install-recommends",
                        *absent], capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    return {package for package in absent if not shutil.which(TOOLS[package])}


def need(*packages):
    absent = missing_tools() & set(packages)
    if absent:
        pytest.skip(f"cannot be installed here: {', '.join(sorted(absent))}")


# --- the program -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "machine"), [("amd64", 62), ("arm64", 183)])
def test_the_program_is_a_static_pie(built, name, machine):
    data = (built / f"ccmd-linux-{name}").read_bytes()
    kind, found = struct.unpack_from("<HH", data, 16)
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, headers + i * size)[0] for i in range(count)]
    assert (kind, found) == (ELF_DYN, machine)
    assert PT_INTERP not in kinds, "it asks for a dynamic linker"
    assert str(REPOSITORY).encode() not in data and b"/.cache/" not in data, "it names folders of this machine"


@pytest.fixture
def resolver(tmp_path):
    """resolver("nameserver 127.0.0.1"): the words that run a program with this /etc/resolv.conf."""
    if reason := netns.available():
        pytest.skip(reason)

    def wrapper(text):
        resolv, hosts = tmp_path / "resolv.conf", tmp_path / "hosts"
        resolv.write_text(text)
        hosts.write_text("127.0.0.1 localhost\n")
        script = f"mount --bind {resolv} /etc/resolv.conf && mount --bind {hosts} /etc/hosts && exec \"$@\""
        return ["unshare", "--mount", "sh", "-c", script, "sh"]

    return wrapper


def named(cluster, url, folder):
    """A kubeconfig for the API server under a name that its certificate does not have."""
    config = yaml.safe_load(open(cluster.ccmd_kubeconfig))
    config["clusters"][0]["cluster"].update({"server": url, "tls-server-name": "localhost"})
    path = folder / "named.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def name_server(*arguments, **options):
    try:
        return NameServer(*arguments, **options)
    except OSError as problem:
        pytest.skip(f"port 53 is not to be had: {problem}")


def is_node_initialised(api, ccmd, kubelet, inventory, **options):
    """Whether ccmd finds the API server, and does its work there."""
    inventory.add({"name": "n1", "id": "m-n1", "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]})
    kubelet("n1", ip="10.0.0.1")
    ccmd(**options)
    api.wait_node("n1", is_initialized, what="n1 to be initialised")


def test_a_truncated_answer_is_asked_for_over_tcp(built, resolver, api, cluster, ccmd, kubelet, inventory, tmp_path):
    names = {"api.cluster.example": ["127.0.0.1"]}
    with name_server(NAME_SERVER, names, truncates=True) as server:
        is_node_initialised(
            api, ccmd, kubelet, inventory,
            kubeconfig=named(cluster, f"https://api.cluster.example:{cluster.port}", tmp_path),
            program=built / "ccmd-linux-amd64", wrapper=resolver(f"nameserver {NAME_SERVER}\n"))
        assert ("tcp", "api.cluster.example") in server.asked


def test_a_short_name_is_looked_up_in_the_search_domains(
        built, resolver, api, cluster, ccmd, kubelet, inventory, tmp_path):
    names = {"api.second.example": ["127.0.0.1"]}
    with name_server(NAME_SERVER, names) as server:
        is_node_initialised(
            api, ccmd, kubelet, inventory, kubeconfig=named(cluster, f"https://api:{cluster.port}", tmp_path),
            program=built / "ccmd-linux-amd64",
            wrapper=resolver(f"nameserver {NAME_SERVER}\nsearch first.example second.example\n"))
        asked = [name for _, name in server.asked]
        assert asked.index("api.first.example") < asked.index("api.second.example")


def test_an_api_server_and_a_name_server_with_ipv6_only(
        built, resolver, api, cluster, ccmd, kubelet, inventory, tmp_path):
    with name_server("::1", {"api.cluster.example": ["::1"]}) as server, FaultProxy(cluster, address="::1") as proxy:
        is_node_initialised(
            api, ccmd, kubelet, inventory,
            kubeconfig=named(cluster, f"https://api.cluster.example:{proxy.port}", tmp_path),
            program=built / "ccmd-linux-amd64", wrapper=resolver("nameserver ::1\n"))
        assert ("udp", "api.cluster.example") in server.asked


def test_arm64_in_an_emulator(built, api, ccmd, kubelet, inventory):
    need("qemu-user-static")
    program, wrapper = built / "ccmd-linux-arm64", ["qemu-aarch64-static"]
    assert run(*wrapper, program, "--version") == run(built / "ccmd-linux-amd64", "--version")
    is_node_initialised(api, ccmd, kubelet, inventory, program=program, wrapper=wrapper)


# --- the image -----------------------------------------------------------------------------------------------------------


def blob(digest):
    return DIST / "image" / "blobs" / "sha256" / digest.partition(":")[2]


def image_index():
    (entry,) = json.loads((DIST / "image" / "index.json").read_text())["manifests"]
    return json.loads(blob(entry["digest"]).read_text())


def manifest(architecture):
    (entry,) = [one for one in image_index()["manifests"] if one["platform"]["architecture"] == architecture]
    return json.loads(blob(entry["digest"]).read_text())


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_image_is_small_and_has_what_a_controller_needs(built, architecture):
    (layer,) = manifest(architecture)["layers"]
    assert layer["size"] <= PACKED_MAX
    with tarfile.open(blob(layer["digest"])) as tar:
        files = {one.name: one for one in tar}
        program = tar.extractfile("bin/ccmd").read()
        passwd = tar.extractfile("etc/passwd").read().decode()
    assert program == (built / f"ccmd-linux-{architecture}").read_bytes()
    for name in ("hcloud-cloud-controller-manager", "brightbox-cloud-controller-manager"):
        assert files[f"bin/{name}"].linkname == "ccmd"
    assert f":{USER}:{USER}:" in passwd
    assert sum(name.startswith("etc/ssl/certs/") for name in files) > 100
    assert {"curl", "openssl", "musl", "ccmd"} <= {name.rpartition("/")[2] for name in files if "licenses/" in name}
    assert all(one.uid == one.gid == 0 and not one.mode & 0o022 for one in files.values() if not one.issym())


def test_a_registry_tool_reads_both_architectures(built):
    need("skopeo")
    for architecture in ("amd64", "arm64"):
        seen = json.loads(run("skopeo", "inspect", f"--override-arch={architecture}", f"oci:{DIST / 'image'}"))
        assert seen["Architecture"] == architecture
        assert seen["Labels"]["org.opencontainers.image.title"] == "ccmd"
        assert seen["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_another_folder_gives_the_same_image(built, tmp_path):
    copy = tmp_path / "elsewhere"
    run("git", "clone", "--quiet", "--shared", "--no-checkout", REPOSITORY, copy)
    tracked = run("git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, tracked):
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, copy / name, follow_symlinks=False)
    run("git", "-C", copy, "reset", "--quiet")
    build(copy)
    for name in ("ccmd-linux-amd64", "ccmd-linux-arm64", "ccmd-image.tar"):
        assert (copy / "dist" / name).read_bytes() == (built / name).read_bytes(), name


@pytest.fixture
def bundle(built, tmp_path):
    """The image, unpacked for an OCI runtime: as a pod with a restricted security context would be run."""
    need("skopeo", "umoci")
    run("skopeo", "copy", "--override-arch=amd64", f"oci:{DIST / 'image'}", f"oci:{tmp_path / 'copy'}:image")
    run("umoci", "unpack", "--image", f"{tmp_path / 'copy'}:image", tmp_path / "bundle")
    return tmp_path / "bundle"


def restrict(bundle, arguments, folders):
    """What restricted pods have: a read-only root, no capability, no new privileges, a user of their own."""
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    process = config["process"]
    assert (process["user"]["uid"], process["user"]["gid"]) == (USER, USER), "the image names its user"
    process.update(terminal=False, args=[*process["args"][:1], *arguments], noNewPrivileges=True,
                   capabilities={kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")})
    process.pop("apparmorProfile", None)
    config["root"]["readonly"] = True
    config["hostname"] = None
    config["mounts"] = [{"destination": "/proc", "type": "proc", "source": "proc"}] + [
        {"destination": str(one), "type": "bind", "source": str(one), "options": ["rbind", "ro"]} for one in folders]
    config["linux"] = {"namespaces": [{"type": kind} for kind in ("pid", "mount")]}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def readable_copy(source, folder, name):
    """The container's user is not the one who owns the test's files."""
    folder.mkdir(exist_ok=True)
    shutil.copy(source, folder / name)
    (folder / name).chmod(0o644)
    return folder / name


def test_the_image_runs_in_a_container(bundle, api, cluster, kubelet, inventory, tmp_path):
    need("runc")
    if os.geteuid() != 0:
        pytest.skip("a runtime needs root for a user that is not the caller")
    kubelet("n1", ip="10.0.0.1")
    inventory.add({"name": "n1", "id": "m-n1", "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]})
    given = tmp_path / "given"
    config = yaml.safe_load(open(cluster.ccmd_kubeconfig))
    config["clusters"][0]["cluster"]["certificate-authority"] = str(readable_copy(cluster.ca, given, "ca.crt"))
    for key, path in list(config["users"][0]["user"].items()):
        config["users"][0]["user"][key] = str(readable_copy(path, given, key))
    (given / "kubeconfig").write_text(yaml.safe_dump(config))
    readable_copy(inventory.path, given, "cloud.yaml")
    restrict(bundle, ["--cloud-provider=cloudlycke", f"--cloud-config={given}/cloud.yaml",
                      f"--kubeconfig={given}/kubeconfig", "--leader-elect=false", "--secure-port=0"], [given])
    log = tmp_path / "container.log"
    runtime, name = ["runc", "--root", tmp_path / "runc"], f"ccmd-test-{os.getpid()}"
    with open(log, "w") as output:
        container = spawn([*runtime, "run", "--bundle", bundle, name], stdout=output, stderr=output, env=environment())
    try:
        api.wait_node("n1", is_initialized, what="n1 to be initialised")
        status = status_of(json.loads(run(*runtime, "state", name))["pid"])
        assert status["Uid"].split() == [str(USER)] * 4
        assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2", log.read_text()
        run(*runtime, "kill", name, "TERM")
        assert container.wait(10) == 0, log.read_text()
    finally:
        subprocess.run([*runtime, "delete", "--force", name], capture_output=True)
        print(log.read_text())


def status_of(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
