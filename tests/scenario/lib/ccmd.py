"""The program under test, and the inventory file that is its cloud."""
import os
import re
import subprocess
import time
from pathlib import Path

import yaml

from . import role, traces
from .process import REPOSITORY, Process
from .wait import PATIENCE_S, wait_for

STOP_S = 6  # it promises 2 s; the rest is for a busy machine
# Flags: the guard of deletions as on every day, a hundred times as fast.
FAST = dict(
    node_monitor_period="100ms",
    node_delete_confirm_interval="500ms",
    node_delete_min_age="0s",
    node_delete_nameless_age="2s",
    node_delete_breaker_window="10s",
    node_delete_breaker_agree="3s",
)
SANITIZER_REPORT = re.compile(
    r"ERROR: (Address|Leak|Memory)Sanitizer|WARNING: ThreadSanitizer|runtime error: |SUMMARY: \w+Sanitizer"
)


def binary():
    return Path(os.environ.get("CCMD_BINARY") or REPOSITORY / "build" / "ccmd")


def example_binary():
    """The same build of ccmd with the example among its clouds."""
    import pytest

    path = binary().parent / "tests" / "ccmd-example"
    if not path.exists():
        pytest.skip(f"{binary()} was built without a program that lists the example")
    return path


def sanitized(path=None):
    """Whether ccmd is built with a sanitizer: then its memory and speed mean nothing. Found by the libraries and symbols in it."""
    return b"__asan_init" in Path(path or binary()).read_bytes() or b"__tsan_init" in Path(path or binary()).read_bytes()


def is_static():
    """Whether ccmd is linked statically: then it takes no shim."""
    done = subprocess.run(["ldd", str(binary())], capture_output=True, text=True)
    return done.returncode != 0 or "statically linked" in done.stdout


def preload(folder, name):
    """An environment in which lib/NAME.c is loaded before the C library, for one test."""
    import pytest

    if is_static():
        pytest.skip("a static program takes no shim")
    source, library = Path(__file__).with_name(f"{name}.c"), folder / f"{name}.so"
    done = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no C compiler")
    return {"LD_PRELOAD": str(library), **({"ASAN_OPTIONS": "verify_asan_link_order=0"} if sanitized() else {})}


def environment():
    """The caller's environment without its settings of proxies, clouds and sanitizers."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH")}
    kept["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "abort_on_error=0:detect_leaks=1")
    kept["UBSAN_OPTIONS"] = os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1")
    kept["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "second_deadlock_stack=1")
    return kept


def run_ccmd(*arguments, timeout=30, env=None):
    """Runs it until it ends by itself: for start-up errors, --help, --version. Returns subprocess.CompletedProcess."""
    done = subprocess.run(
        [str(binary()), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
        env={**environment(), **(env or {})},
    )
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr
    return done


class Ccmd:
    """One running ccmd. flags are appended to the usual ones; keyword arguments become --name=value flags.

    Without election and without a server, unless leader_elect=True and a secure_port are given. Its cloud is the inventory;
    with None the flags say which it is. program is another build than the one under test; wrapper are the words of a command
    that runs it.

        Ccmd(folder, cluster.ccmd_kubeconfig, inventory, "-v=4", node_monitor_period="1s").start()
    """

    may_be_refused = False  # set where a test takes rights away

    def __init__(self, folder, kubeconfig, inventory, *flags, env=None, name="ccmd", program=None, wrapper=(), **options):
        cloud = []
        if inventory is not None:
            cloud = ["--cloud-provider=cloudlycke", f"--cloud-config={getattr(inventory, 'path', inventory)}"]
        program = program or binary()
        if "--cloud-provider=example" in flags:  # which the program itself does not list
            program = example_binary()
        self.program = program
        argv = [*wrapper, program, *cloud, f"--kubeconfig={kubeconfig}", *flags]
        options.setdefault("leader_elect", False)
        options.setdefault("secure_port", 0)
        for option, value in options.items():
            argv.append(f"--{option.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
        self.process = Process(name, argv, Path(folder) / f"{name}.log", env={**environment(), **(env or {})})
        self._stopped_on_purpose = False

    def __getattr__(self, name):
        """pid, running, pause(), resume(), kill(), rss_kib(), … are those of the process."""
        if name == "process":
            raise AttributeError(name)
        return getattr(self.process, name)

    def start(self):
        self.process.start()
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        self.finish(check=kind is None)

    # --- its log -----------------------------------------------------------------------------------------------------

    @property
    def text(self):
        return self.process.log_text()

    def wait_log(self, pattern, timeout=PATIENCE_S):
        """Waits for a line that matches; returns the match."""
        compiled = re.compile(pattern, re.MULTILINE)

        def check():
            found = compiled.search(self.text)
            if not found:
                assert self.running, f"ccmd ended with {self.exit_code}"
            return found

        return wait_for(check, timeout, f"the log to say {pattern!r}", seen=lambda: self.process.log_tail())

    # --- its end -----------------------------------------------------------------------------------------------------

    def stop(self):
        """SIGTERM: it must end with 0 in time."""
        assert self.running, f"ccmd ended by itself with {self.exit_code}:\n{self.process.log_tail()}"
        begun = time.monotonic()
        self.process.resume()
        self.process.child.terminate()
        limit = 30 if sanitized() else STOP_S  # a leak check takes its time
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"ccmd did not end within {limit} s of SIGTERM:\n{self.process.log_tail()}") from None
        took = time.monotonic() - begun
        self.check_log()
        assert code == 0, f"ccmd ended with {code}:\n{self.process.log_tail()}"
        return took

    def kill(self):
        self._stopped_on_purpose = True
        return self.process.kill()

    def check_log(self):
        text = self.text
        report = SANITIZER_REPORT.search(text)
        assert not report, f"a sanitizer complains:\n{text[max(0, report.start() - 200):][:6000]}"
        refused = None if self.may_be_refused else role.missing(text)
        assert not refused, f"deploy/rbac.yaml or deploy/policy.yaml does not allow what it does:\n{refused}"

    def finish(self, check=True):
        """For the end of a test: stops ccmd if it runs. With check it must still run, or the test must have stopped it."""
        if self.process.child is None:
            return
        if self.running and check:
            self.stop()
            return
        code = self.exit_code
        if self.running:
            self.process.kill()
        self.check_log()
        if check and not self._stopped_on_purpose:
            assert code == 0, f"ccmd ended by itself with {code}:\n{self.process.log_tail()}"


# --- the cloud ---------------------------------------------------------------------------------------------------------


def machine(name, *addresses, id=None, type=None, zone=None, region=None, labels=None, power=None, fault=None, aliases=None):
    """One entry of machines. An address is (type, address), or a string, which is an InternalIP."""
    entry = {"name": name, "id": id or f"m-{name}"}
    for key, value in (("aliases", aliases), ("type", type), ("zone", zone), ("region", region), ("power", power)):
        if value is not None:
            entry[key] = value
    if addresses:
        pairs = [("InternalIP", one) if isinstance(one, str) else one for one in addresses]
        entry["addresses"] = [{"type": kind, "address": address} for kind, address in pairs]
    if labels:
        entry["labels"] = dict(labels)
    if fault:
        entry["fault"] = fault
    return entry


class _Plain(yaml.SafeDumper):
    """Keeps the order of dictionaries, and writes no aliases, which the inventory's reader refuses."""

    def ignore_aliases(self, data):
        return True


class Inventory:
    """The inventory file. Each change is written immediately, as a whole, by a rename.

    It reloads fast: debounce and poll are 50 ms and 200 ms unless given.
    """

    def __init__(self, path, machines=(), cloud=None, reload=None, **more):
        self.path = Path(path)
        self.content = {"apiVersion": "cloudlycke.io/v1alpha1", "kind": "Inventory"}
        if cloud:
            self.content["cloud"] = dict(cloud)
        self.content["reload"] = {"debounce": "50ms", "poll": "200ms", "maxRemoval": "100%", **(reload or {})}
        self.content.update(more)
        self.content["machines"] = [dict(one) for one in machines]
        self.write()

    # --- writing -----------------------------------------------------------------------------------------------------

    def text(self):
        return yaml.dump(traces.hooked(self.content), Dumper=_Plain, sort_keys=False)

    def write(self, text=None):
        """Replaces the file as a whole, by a rename, as careful editors and configuration management do."""
        replacement = self.path.with_name(f".{self.path.name}.new")
        replacement.write_text(self.text() if text is None else text)
        replacement.replace(self.path)
        return self

    def write_in_place(self, text=None, pieces=1, pause=0.0):
        """Truncates and writes the file itself, in pieces with pauses if asked for, as careless editors do."""
        data = (self.text() if text is None else text).encode()
        size = max(1, -(-len(data) // pieces))
        with open(self.path, "wb", buffering=0) as file:
            for start in range(0, len(data), size):
                if start and pause:
                    time.sleep(pause)
                file.write(data[start : start + size])
        return self

    def use_symlinks(self):
        """Makes the file look as in a mounted ConfigMap: NAME -> ..data/NAME, ..data -> a dated folder."""
        self.path.unlink(missing_ok=True)
        self.swap_symlink()
        self.path.symlink_to(Path("..data") / self.path.name)
        return self

    def swap_symlink(self, text=None):
        """A new dated folder, then ..data renamed over: what the kubelet does to update a ConfigMap."""
        folder = self.path.parent / f"..{time.time_ns()}"
        folder.mkdir()
        (folder / self.path.name).write_text(self.text() if text is None else text)
        data, replacement = self.path.parent / "..data", self.path.parent / "..data_tmp"
        replacement.symlink_to(folder.name)
        replacement.replace(data)
        return self

    # --- machines ----------------------------------------------------------------------------------------------------

    @property
    def machines(self):
        return self.content["machines"]

    def find(self, name):
        return next(one for one in self.machines if one["name"] == name)

    def add(self, *machines):
        self.machines.extend(machines)
        return self.write()

    def remove(self, *names):
        return self.remove_quietly(*names).write()

    def remove_quietly(self, *names):
        """Does not write the file; for tests that write it in another way."""
        self.content["machines"] = [one for one in self.machines if one["name"] not in names]
        return self

    def set(self, name, **fields):
        """Changes fields of one machine; None removes one."""
        entry = self.find(name)
        for key, value in fields.items():
            if value is None:
                entry.pop(key, None)
            else:
                entry[key] = value
        return self.write()

    def power(self, name, state):
        return self.set(name, power=state)

    def fault(self, name, text):
        return self.set(name, fault=text or None)

    def set_addresses(self, name, *addresses):
        return self.set(name, addresses=machine(name, *addresses).get("addresses"))

    def provider_id(self, name):
        return f"cloudlycke://{self.find(name)['id']}"
