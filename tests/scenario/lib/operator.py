"""The commands for operators: ccmd doctor and ccmd status."""
import json

from .ccmd import run_ccmd


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
