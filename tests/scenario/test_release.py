"""What a release consists of: the same bytes from every folder, checksums, signatures, and a list of what is linked."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
import yaml

from lib.helm import tool
from lib.process import REPOSITORY, Process, free_ports
from lib.wait import wait_for

SLOW_MACHINE_S = 3600  # each test builds something in two folders; two programs alone took 9 minutes on a busy machine

pytestmark = [pytest.mark.slow, pytest.mark.plain, pytest.mark.timeout(SLOW_MACHINE_S)]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_of_the_tree(folder):
    """The files under version control as they are now, in a repository with one commit, which is the same in all copies."""
    for name in run("git", "ls-files", "-z", cwd=REPOSITORY).split("\0")[:-1]:
        if (REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
             for what, value in (("NAME", "test"), ("EMAIL", "test@example.com"), ("DATE", "2026-01-01T00:00:00Z"))}
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", cwd=folder)
    run("git", "commit", "-qm", "all", cwd=folder, env=os.environ | names)
    return folder


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def release(tree, *arguments, **variables):
    return subprocess.run([tree / "dev", "release", *arguments], capture_output=True, text=True,
                          env=os.environ | {"CCACHE_DISABLE": "1"} | variables)


def sign(folder, secret):
    return subprocess.run([REPOSITORY / "tools" / "sign", folder], capture_output=True, text=True,
                          env=os.environ | {"CCMD_SIGNING_KEY": secret})


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Two copies of the tree in different folders."""
    folder = tmp_path_factory.mktemp("trees")
    one = copy_of_the_tree(folder / "one")
    return one, shutil.copytree(one, folder / "two" / "deeper")


@pytest.fixture
def key(tmp_path):
    """A throw-away key: the secret one's text, and the public one's file."""
    if not shutil.which("minisign"):
        pytest.skip("minisign is not installed")
    run("minisign", "-G", "-W", "-p", tmp_path / "ccmd.pub", "-s", tmp_path / "ccmd.key")
    return (tmp_path / "ccmd.key").read_text(), tmp_path / "ccmd.pub"


def test_the_program_is_the_same_from_two_folders(trees):
    for tree in trees:
        run(tree / "dev", "build", env=os.environ | {"CCACHE_DISABLE": "1"})
    one, two = (digest(tree / "build" / "ccmd") for tree in trees)
    assert one == two


def test_a_release_is_signed_and_the_same_from_two_folders(pytestconfig, trees, key):
    tool(pytestconfig, "helm")
    secret, public = key
    for tree in trees:
        done = release(tree, "chart", "docs", "source")
        assert done.returncode == 0, done.stdout + done.stderr
        done = sign(tree / "dist" / "release", secret)
        assert done.returncode == 0 and secret.splitlines()[1] not in done.stdout + done.stderr, done.stdout + done.stderr
    one, two = (tree / "dist" / "release" for tree in trees)
    sums = one / "SHA256SUMS"
    assert sums.read_text() == (two / "SHA256SUMS").read_text()
    listed = {line.split()[1] for line in sums.read_text().splitlines()}
    assert {path.name for path in one.iterdir()} == listed | {"SHA256SUMS", "SHA256SUMS.minisig"}
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=one)
    verify = ["minisign", "-V", "-p", public, "-m", sums]
    run(*verify)
    sums.write_text(sums.read_text().replace("0", "1", 1))
    assert subprocess.run(verify, capture_output=True).returncode != 0


def test_a_build_gets_no_key(tmp_path):
    tree = copy_of_the_tree(tmp_path / "tree")
    done = release(tree, "source", CCMD_SIGNING_KEY="untrusted comment: …")
    assert done.returncode == 1 and "CCMD_SIGNING_KEY must not be set while a release is built" in done.stderr


@pytest.mark.parametrize("name, text", [("a", "changed"), ("unlisted", "new")])
def test_only_listed_files_are_signed(tmp_path, key, name, text):
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "a").write_text("a")
    (tmp_path / "release" / "SHA256SUMS").write_text(f"{digest(tmp_path / 'release' / 'a')}  a\n")
    (tmp_path / "release" / name).write_text(text)
    assert sign(tmp_path / "release", key[0]).returncode == 1
    assert not (tmp_path / "release" / "SHA256SUMS.minisig").exists()


def test_the_release_workflow_builds_without_rights_and_signs_without_a_build():
    jobs = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    build, publish = jobs["build"], jobs["publish"]
    assert build["permissions"] == {"contents": "read"} and "secrets." not in str(build) and "github.token" not in str(build)
    assert "./dev" not in str(publish) and publish["needs"] == "build"
    registry = jobs["registry"]
    assert (registry["needs"], registry["if"]) == ("publish", "vars.CCMD_REGISTRY != ''") and "./dev" not in str(registry)
    assert registry["permissions"] == {"contents": "read", "packages": "write", "id-token": "write", "attestations": "write"}
    assert "CCMD_SIGNING_KEY" not in str(registry)
    for job in jobs.values():
        for step in job["steps"]:
            assert "uses" not in step or re.search(r"@[0-9a-f]{40}$", step["uses"])
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def oci_archive(folder, path):
    """An image for two architectures, of no program."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(content, kind, **more):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{name}", "size": len(data), **more}

    layer = bytes(1024)  # an empty tar file
    manifests = [
        add({"schemaVersion": 2, "layers": [add(layer, "layer.v1.tar")], "config": add(
            {"architecture": architecture, "os": "linux", "rootfs": {
                "type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}, "config.v1+json")},
            "manifest.v1+json", platform={"architecture": architecture, "os": "linux"})
        for architecture in ("amd64", "arm64")]
    index = add({"schemaVersion": 2, "manifests": manifests}, "index.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    run("tar", "-C", folder, "-cf", path, ".")
    return index["digest"]


def test_a_release_is_copied_into_a_registry(pytestconfig, tmp_path):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    tree = copy_of_the_tree(tmp_path / "tree")
    helm = tool(pytestconfig, "helm")
    done = release(tree, "chart")
    assert done.returncode == 0, done.stdout + done.stderr
    files = tree / "dist" / "release"
    (tmp_path / "oci").mkdir()
    image = oci_archive(tmp_path / "oci", files / "ccmd-image.tar")
    (chart,) = files.glob("ccmd-*.tgz")
    (files / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in (chart, files / "ccmd-image.tar")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(helm)
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    (port,) = free_ports(1)
    registry = Process("registry", [tool(pytestconfig, "registry"), f"-port={port}"], tmp_path / "registry.log").start()
    try:
        address = f"127.0.0.1:{port}"
        wait_for(lambda: "serving on port" in registry.log_text(), what="the registry")
        done = subprocess.run([tree / "tools" / "publish", files, address], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        version = chart.name.removeprefix("ccmd-").removesuffix(".tgz")
        printed = dict(line.split() for line in done.stdout.splitlines())
        assert printed["image"] == image, "its bytes are those of the archive"
        inspected = run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{address}/ccmd:{version}")
        assert {one["platform"]["architecture"] for one in json.loads(inspected)["manifests"]} == {"amd64", "arm64"}
        run(helm, "pull", "--plain-http", f"oci://{address}/charts/ccmd@{printed['chart']}", cwd=tmp_path, env=environment)
        (pulled,) = tmp_path.glob("*.tgz")  # named after the digest
        assert digest(pulled) == digest(chart)
        # the command of docs/install/index.md, for this registry
        page = (REPOSITORY / "docs" / "install" / "index.md").read_text()
        (command,) = re.findall(r"^skopeo copy .*$", page, re.M)
        command = command.replace("registry.example.com", address).replace("docker://", "--dest-tls-verify=false docker://")
        run("bash", "-euc", command.replace(f"{address}/ccmd", f"{address}/mine"), cwd=files, env=environment)
        # a file that is not the one that was signed
        chart.write_bytes(b"another")
        done = subprocess.run([tree / "tools" / "publish", files, address], capture_output=True, text=True, env=environment)
        assert done.returncode != 0 and done.stdout == ""
    finally:
        registry.stop()


def test_the_packages_have_names_that_github_keeps(tmp_path):
    tree = copy_of_the_tree(tmp_path / "tree")
    (tree / "tools" / "deb").write_text("#!/bin/sh\nmkdir -p dist\necho package >dist/ccmd_0.1.0-1~deb13u1_amd64.deb\n")
    done = release(tree, "deb")
    assert done.returncode == 0, done.stdout + done.stderr
    files = tree / "dist" / "release"
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=files)
    assert {path.name for path in files.iterdir()} == {"ccmd_0.1.0-1.deb13u1_amd64.deb", "SHA256SUMS"}


def verify(tree, folder, *arguments):
    """The folder is named as seen from where it is, as a user names it."""
    return subprocess.run([tree / "dev", "verify-release", folder.name, *arguments], capture_output=True, text=True,
                          cwd=folder.parent)


def test_a_release_is_rebuilt_and_compared(tmp_path, key):
    """The part that is built here takes seconds; the others are rebuilt in the same way."""
    secret, public = key
    tree = copy_of_the_tree(tmp_path / "tree")
    done = release(tree, "source")
    assert done.returncode == 0, done.stdout + done.stderr
    files = shutil.move(tree / "dist" / "release", tmp_path / "downloads")
    (archive,) = files.glob("*-source.tar.gz")
    sums = files / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{'0' * 64}  ccmd-image.tar\n")
    done = verify(tree, files, "source")
    version = archive.name.removeprefix("ccmd-").removesuffix("-source.tar.gz")
    assert done.returncode == 1 and f"this clone has no tag v{version}" in done.stderr, done.stderr
    run("git", "tag", f"v{version}", cwd=tree)
    done = verify(tree, files, "source")
    assert (done.returncode, done.stdout.split()) == (0, ["same", archive.name, "not", "rebuilt", "ccmd-image.tar"]), done.stderr
    assert "the signature is not checked" in done.stderr
    # published by somebody whose build differs
    sums.write_text(f"{'1' * 64}  {archive.name}\n")
    content = archive.read_bytes()
    archive.unlink()
    done = verify(tree, files, "source")
    assert (done.returncode, done.stdout.split()) == (1, ["differs", archive.name]), done.stderr
    # downloaded badly, or signed by somebody else
    archive.write_bytes(content)
    done = verify(tree, files, "source")
    assert done.returncode == 1 and "are not those that SHA256SUMS lists" in done.stderr and done.stdout == ""
    sums.write_text(f"{digest(archive)}  {archive.name}\n")
    assert sign(files, secret).returncode == 0
    assert verify(tree, files, f"--key={public}", "source").returncode == 0
    sums.write_text(sums.read_text() + f"{'0' * 64}  ccmd-image.tar\n")
    done = verify(tree, files, f"--key={public}", "source")
    assert done.returncode == 1 and "the signature of SHA256SUMS is not by" in done.stderr


def version_of(tree):
    (version,) = re.findall(r"^  version: '(.*)',", (tree / "meson.build").read_text(), re.M)
    return version


def replace(path, pattern, new):
    path.write_text(re.sub(pattern, new, path.read_text()))


def prepare(tree, parts):
    """Commits a tree that meets these requirements of a release ("a section", "an address", "a digest") and none of the others."""
    changelog, version = tree / "CHANGELOG.md", version_of(tree)
    replace(changelog, f"## {re.escape(version)}", "## another version")
    if "a section" in parts:
        changelog.write_text(changelog.read_text() + f"\n## {version}\n\nAll.\n")
    if "an address" in parts:
        for name in run("git", "grep", "-lF", "ccmd.example", "--", "charts", "packaging", cwd=tree).split():
            replace(tree / name, r"ccmd\.example", "example.com")
    image = f"debian@sha256:{'0' * 64}" if "a digest" in parts else "debian:13"
    replace(tree / ".github" / "workflows" / "release.yml", r"image: [^,]*,", f'image: "{image}",')
    run("git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-aqm", "prepared", "--allow-empty", cwd=tree)


@pytest.mark.parametrize("tag, change, problem", [
    ("v9.9.9", None, "the tag is v9.9.9, but meson.build has version"),
    (None, "README.md", "the tree has changes"),
    (None, None, "CHANGELOG.md has no section"),
    (None, "a section", "the placeholder ccmd.example in charts/ccmd/Chart.yaml charts/ccmd/README.md packaging/debian/control"),
    (None, "a section, an address", "write debian@DIGEST after image:, with the digest that this prints: skopeo inspect --f"),
])
def test_a_release_of_a_tag_is_refused(tmp_path, tag, change, problem):
    tree = copy_of_the_tree(tmp_path / "tree")
    if change == "README.md":
        (tree / change).write_text("changed")
    elif not tag:
        prepare(tree, change or "")
    done = release(tree, f"--tag={tag or 'v' + version_of(tree)}", "source")
    assert done.returncode == 1 and problem in done.stderr, done.stderr


def test_a_release_of_a_tag_is_made(tmp_path):
    tree = copy_of_the_tree(tmp_path / "tree")
    prepare(tree, "a section, an address, a digest")
    done = release(tree, f"--tag=v{version_of(tree)}", "source")
    assert done.returncode == 0, done.stderr
    assert (tree / "dist" / "NOTES.md").read_text() == f"## {version_of(tree)}\n\nAll.\n"


def test_the_components_of_the_program_are_listed(trees):
    tree = trees[0]
    done = release(tree, "image")
    assert done.returncode == 0, done.stdout + done.stderr
    locked = {row.split()[0]: row.split()[1] for row in (tree / "tools" / "image.lock").read_text().splitlines()}
    for architecture in ("amd64", "arm64"):
        (path,) = (tree / "dist" / "release").glob(f"*-{architecture}.cdx.json")
        bom = json.loads(path.read_text())
        (archive,) = (tree / "dist" / "release").glob(f"*-linux-{architecture}.tar.gz")
        with tarfile.open(archive) as files:
            (member,) = (one for one in files if one.name.endswith("/ccmd"))
            program = files.extractfile(member).read()
        assert bom["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(program).hexdigest()}]
        listed = {one["name"]: one["version"] for one in bom["components"]}
        libgcc = listed.pop("libgcc", None)
        assert libgcc is None or libgcc[0].isdigit()
        assert listed == {name: locked[name] for name in listed}
        # what a reader of the program finds in it
        for name, before in {"curl": "", "openssl": "OpenSSL "}.items():
            upstream = re.match(r"[\d.]+", listed[name])[0]
            assert f"{before}{upstream}".encode() in program
        assert "ca-certificates" in listed  # of the image
        for one in bom["components"]:
            if one["name"] != "libgcc":
                assert one["purl"].endswith("distro=debian-13") and one["supplier"]["name"] == "Debian", one


def test_the_workflows_are_valid(pytestconfig):
    actionlint = tool(pytestconfig, "actionlint")
    run(actionlint, *sorted((REPOSITORY / ".github" / "workflows").glob("*.yml")))
