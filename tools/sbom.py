"""Lists what is linked into a program, and the certificate authorities of its image, in the format of CycloneDX 1.6:

    sbom.py BUILD_FOLDER PROGRAM OUTPUT.cdx.json

BUILD_FOLDER is one of tools/image. The linker says which archives gave it something (its map); tools/image.lock says which
versions these are. So a library that is no longer linked leaves the list by itself, and an archive that nobody knows is an error.
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import uuid
from datetime import datetime, timezone
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from cyclonedx.model.license import DisjunctiveLicense
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
MEMBER = re.compile(r"^(\S+\.a)\(", re.M)

# the archive, the source package of Debian, its licence
LIBRARIES = {
    "libc.a": ("musl", "MIT"),
    "libcrypto.a": ("openssl", "Apache-2.0"),
    "libcurl.a": ("curl", "curl"),
    "libevent_core.a": ("libevent", "BSD-3-Clause"),
    "libevent_pthreads.a": ("libevent", "BSD-3-Clause"),
    "libseccomp.a": ("libseccomp", "LGPL-2.1-only"),
    "libssl.a": ("openssl", "Apache-2.0"),
    "libyaml.a": ("libyaml", "MIT"),
    "libyyjson.a": ("yyjson", "MIT"),
}
CERTIFICATES = ("ca-certificates", "MPL-2.0")
COMPILER = ("libgcc.a", "libgcc_eh.a")


def main():
    build, program, output = map(Path, sys.argv[1:])
    own = Component(
        name="ccmd", version=version(), type=ComponentType.APPLICATION, licenses=[DisjunctiveLicense(id="Apache-2.0")],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(program.read_bytes()).hexdigest())],
        bom_ref="ccmd")
    libraries = [component(name) for name in sorted(packages(linked_archives(build)))]
    bom = Bom(components=[*libraries, component(CERTIFICATES[0])])
    bom.metadata.component = own
    # the same for the same program, so that a release can be made again
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, next(iter(own.hashes)).content)
    bom.register_dependency(own, libraries)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        sys.exit(f"sbom: {problem}")
    output.write_text(text + "\n")


def version():
    return re.search(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.M)[1]


def linked_archives(build):
    """The archives outside of the build folder that members were taken from."""
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "ccmd"], check=True, capture_output=True, text=True)
    link = commands.stdout.splitlines()[-1]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(f"{link} -Wl,-Map={scratch}/map -o {scratch}/program", shell=True, check=True, cwd=build)
        text = Path(scratch, "map").read_text()
    head = text.split("\nMemory Configuration", 1)[0].split("\nDiscarded input sections", 1)[0]
    paths = {(build / path).resolve() for path in MEMBER.findall(head)}
    return {path for path in paths if not path.is_relative_to(build.resolve())}


def packages(archives):
    names = set()
    for path in archives:
        if path.name in COMPILER:
            names.add("libgcc")
        elif path.name in LIBRARIES:
            names.add(LIBRARIES[path.name][0])
        else:
            sys.exit(f"sbom: {path} is linked, but tools/sbom.py does not know it")
    return names


def component(name):
    if name == "libgcc":
        found = subprocess.run(["gcc", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
        return Component(name=name, version=found, type=ComponentType.LIBRARY, bom_ref=name,
                         purl=PackageURL("generic", None, "gcc", found),
                         licenses=[DisjunctiveLicense(name="GPL-3.0-or-later WITH GCC-exception-3.1")])
    rows = [row.split() for row in (ROOT / "tools" / "image.lock").read_text().splitlines() if row.startswith(f"{name} ")]
    licence = next(licence for package, licence in (*LIBRARIES.values(), CERTIFICATES) if package == name)
    is_source = name != CERTIFICATES[0]
    # scanners need the distribution to match Debian's advisories
    place = {"arch": "source" if is_source else "all", "distro": "debian-13"}
    return Component(
        name=name, version=rows[0][1], type=ComponentType.LIBRARY if is_source else ComponentType.DATA, bom_ref=name,
        supplier=OrganizationalEntity(name="Debian"), purl=PackageURL("deb", "debian", name, rows[0][1], place),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=row[3]) for row in rows if ".orig." in row[2] or not is_source],
        licenses=[DisjunctiveLicense(id=licence)])


if __name__ == "__main__":
    main()
