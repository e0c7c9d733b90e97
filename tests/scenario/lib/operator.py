"""The commands for operators: ccmd doctor, ccmd plan and ccmd status."""
import json
import subprocess

from .ccmd import run_ccmd
from .foretold import without_ids


class Report:
    """What `ccmd doctor -o json` found."""

    def __init__(self, done):
        self.exit_code = done.returncode
        assert done.stdout, done.stderr
        self.content = json.loads(done.stdout)
        assert self.content["exitCode"] == self.exit_code
        self.checks = {one["code"]: one for one in self.content["checks"]}

    def codes(self, result="problem"):
        return {code for code, one in self.checks.items() if one["result"] == result}

    def found(self, code):
        """{"node n1": "what is wrong", …}"""
        return {f"{one['kind']} {one['name']}".strip(): one["message"] for one in self.checks[code]["findings"]}


def flags_of(kubeconfig, inventory, *flags, **options):
    """The flags of lib.ccmd.Ccmd."""
    cloud = ["--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}"] if inventory is not None else []
    options.setdefault("leader_elect", False)
    options.setdefault("secure_port", 0)
    rest = [f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in options.items()]
    return [*cloud, f"--kubeconfig={kubeconfig}", *flags, *rest]


def doctor(*flags, env=None):
    return Report(run_ccmd("doctor", "-o", "json", *flags, env=env, timeout=120))


class Plan:
    """What `ccmd plan -o json` printed."""

    def __init__(self, done):
        self.exit_code = done.returncode
        assert done.stdout, done.stderr
        self.content = json.loads(done.stdout)
        assert self.content["exitCode"] == self.exit_code
        self.objects = {f"{one['kind']} {one['name']}".strip(): one for one in self.content["objects"]}
        self.errors = {name: one["error"] for name, one in self.objects.items() if one["error"]}

    def changes(self):
        return [(one, change) for one in self.content["objects"] for change in one["changes"]]

    def requests(self):
        """(to the API server, to the cloud), sorted."""
        found = [[], []]
        for _, change in self.changes():
            found[change["isCloud"]].append(without_ids(change["request"]))
        assert [len(one) for one in found] == [self.content["serverWrites"], self.content["cloudRequests"]]
        return sorted(found[0]), sorted(found[1])

    def differences(self):
        """{"node n1": {"action": "change", "old": [("label zone", "a")], "new": …}}, of all requests together."""
        found = {}
        for one, change in self.changes():
            name = change["name"] or (one["name"] if change["what"] == one["kind"] else "")
            thing = found.setdefault(f"{change['what']} {name}".strip(), {"action": change["action"], "old": [], "new": []})
            if change["action"] != "change":
                thing["action"] = change["action"]
            for field in change["fields"]:
                for when in ("old", "new"):
                    thing[when] += [(field["name"], field[when])] if field[when] else []
        return found


def plan(*flags, scope="all", env=None):
    return Plan(run_ccmd("plan", scope, "-o", "json", *flags, env=env, timeout=120))


def doctor_beside(ccmd):
    """What it says to the flags and the environment of a running Ccmd."""
    argv = ccmd.process.argv
    first = argv.index(str(ccmd.program)) + 1
    done = subprocess.run([*argv[:first], "doctor", "-o", "json", *argv[first:]], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=ccmd.process.env)
    return Report(done)
