"""The faults of tests/scenario/faults.md: a cluster at Hetzner in which one is provoked, what the commands for operators
print about it, and the verdict on that.

The commands run as an operator runs them beside the leader: with the leader's flags and environment, and with the rights of the
published role for operators. To them all nodes and Services are some minutes old, as most are when somebody looks for a fault.
"""
import contextlib
import datetime
import re
import threading
from pathlib import Path

import yaml

from .api import NODES
from .ccmd import run_ccmd
from .cluster import USER
from .faultproxy import FaultProxy, rewrite
from .nodes import is_initialized
from .operator import flags_of
from .process import REPOSITORY
from .services import SERVICES, SLICES, ips
from .wait import wait_for

PAGE = Path(__file__).resolve().parents[1] / "faults.md"
VERDICTS = ["wrong", "silent", "hinted", "named"]  # the worst one first
ACCOUNT = "kube-system/ccmd"
UID_LABEL = "hcloud-ccm/service-uid"
PREFIX = "load-balancer.hetzner.cloud/"
AGE = datetime.timedelta(minutes=20)


# --- what is printed, and the verdict ------------------------------------------------------------------------------------

CHECK = re.compile(r"\s*(ok|note|problem|unknown|skipped)\s+(CCMD\d{3}\b.*)")
SAME_FOR_ALL = re.compile(r"\s*(Why|More): ")


class Printed:
    """The output of a command. parts are the texts that stand for themselves, each on one line: each finding of a report with
    the name of its check, or the whole explanation of an object. Checks that found nothing are left out, and so are the
    sentences that are the same for every finding of a check."""

    def __init__(self, done, is_report):
        self.exit_code = done.returncode
        self.text = done.stdout + done.stderr
        parts = self._of_report(done.stdout) if is_report else [done.stdout]
        self.parts = [" ".join(one.split()) for one in [*parts, done.stderr] if one.strip()]

    @staticmethod
    def _of_report(text):
        parts, check = [""], ""
        for line in text.splitlines():
            if match := CHECK.match(line):
                check = match[2] if match[1] not in ("ok", "skipped") else None
                parts.append(check or "")
            elif not line.startswith(" "):
                check = ""
                parts.append(line)
            elif check is not None and line.lstrip().startswith("- "):
                parts.append(f"{check} {line}")
            elif check is not None and not SAME_FOR_ALL.match(line):
                parts[-1] += f" {line}"
        return parts

    def says(self, pattern):
        return any(re.search(pattern, one, re.IGNORECASE) for one in self.parts)

    def commands(self):
        return re.findall(r"run: (kubectl .*)", self.text)


class Fault:
    """provoke(world) makes it, and may return values for patterns: <name> stands for one of them. says are the patterns that
    the last column of the page asks for; each of them has to be found. wrong are those of texts that make matters worse.
    check(world, doctor) decides in the end whether what was said is true."""

    def __init__(self, number, provoke, says, wrong, explain, check):
        self.number, self.provoke, self.says, self.wrong, self.explain, self.check = number, provoke, says, wrong, explain, check
        self.name = f"{number:02}-{provoke.__name__}"

    def judge(self, world, values):
        """The verdict, what was printed, and the patterns that were not found."""
        printed = [world.doctor()]
        if self.explain:
            printed.append(world.explain(*self.explain.split()))

        def is_said(pattern):
            for key, value in (values or {}).items():
                pattern = pattern.replace(f"<{key}>", re.escape(str(value)))
            return any(one.says(pattern) for one in printed)

        missing = [one for one in self.says if not is_said(one)]
        if misleading := [one for one in self.wrong if is_said(one)]:
            return "wrong", printed, [f"must not be said: {one}" for one in misleading]
        if not missing and (self.check is None or self.check(world, printed[0])):
            return "named", printed, []
        is_silent = len(missing) == len(self.says) and all(one.exit_code == 0 for one in printed)
        return "silent" if is_silent else "hinted", printed, missing or ["what is said is not true"]


def recorded():
    """{number: verdict}, of the column "now" of the page."""
    rows = [[cell.strip() for cell in line.split("|")] for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    return {int(row[1]): row[-2] for row in rows}


# --- the cluster ---------------------------------------------------------------------------------------------------------


def make_older(body):
    for one in body.get("items", [body]):
        for field in ("creationTimestamp", "deletionTimestamp"):
            if text := one.get("metadata", {}).get(field):
                at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - AGE
                one["metadata"][field] = at.strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """get is the fixtures' getfixturevalue()."""

    def __init__(self, get):
        self.get = get
        self.cluster, self.api, self.cloud, self.services = get("cluster"), get("api"), get("cloud"), get("services")
        self.at_end = contextlib.ExitStack()
        self.kubeconfig = self._make_kubeconfig()  # of the commands
        self.options = {**get("serving"), "leader_elect": True}
        self.flags = ["--cloud-provider=hcloud", "--cluster-name=mine"]
        self.env = {"HCLOUD_ENDPOINT": self.cloud.url, "HCLOUD_TOKEN": self.cloud.token, "HCLOUD_METRICS_ENABLED": "false",
                    "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
        self.network = self.leader = None
        self.kubelets = {}

    def _make_kubeconfig(self):
        self.get("operator")  # its role
        pair = self.cluster.authority.client("operator-of-faults", "operator")
        proxy = self.at_end.enter_context(FaultProxy(self.cluster, pair=pair))
        proxy.on("GET", r"^/api/v1/(nodes|services|namespaces/[^/]+/services)\b", rewrite(make_older), times=None)
        return self.cluster.kubeconfig("operator-of-faults", url=proxy.url, pair=pair)

    def close(self):
        for one in self.api.list(SLICES):
            if one["metadata"]["name"] != "kubernetes":
                self.api.delete(f"{SLICES}/{one['metadata']['name']}")
        self.at_end.close()

    # --- before the leader starts ----------------------------------------------------------------------------------------

    def in_network(self, ip_range="10.0.0.0/8", subnet="10.0.0.0/16", cidr=None, extra=None):
        """The servers are in a private network. With a cidr, pods have routes in it. extra is one more subnet."""
        self.network = self.cloud.add_network("net", ip_range, subnet)
        self.env.update(HCLOUD_NETWORK="net", HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK="true")
        if extra:
            body = {"type": "cloud", "ip_range": extra, "network_zone": "eu-central"}
            self.network.subnets.insert(0, self.network.new_subnet(body))
        if cidr:
            self.flags.append(f"--cluster-cidr={cidr}")
        else:
            self.env["HCLOUD_NETWORK_ROUTES_ENABLED"] = "false"
        return self

    def with_robot(self):
        robot = self.get("robot")
        self.env.update(ROBOT_ENABLED="true", ROBOT_ENDPOINT=robot.url, ROBOT_USER=robot.user, ROBOT_PASSWORD=robot.password)
        return robot

    def with_token_file(self):
        """Returns the file, which is read before every request."""
        path = self.get("tmp_path") / "token"
        path.touch(mode=0o600)
        path.write_text(self.env.pop("HCLOUD_TOKEN"))
        self.env["HCLOUD_TOKEN_FILE"] = str(path)
        return path

    # --- nodes -----------------------------------------------------------------------------------------------------------

    def add_server(self, name):
        return self.cloud.add_server(name, networks=[self.network] if self.network else ())

    def register(self, name, server=None, pod_cidr=None, **fields):
        """A kubelet registers its node, by default with the address that its server has."""
        if server:
            fields.setdefault("ip", server.private_ip(self.network.id) if self.network else server.ipv4)
        self.kubelets[name] = self.get("kubelet")(name, **fields)
        if pod_cidr:
            self.api.patch(f"{NODES}/{name}", {"spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}})

    def add_node(self, name, pod_cidr=None, **fields):
        """A node and its server. Returns the server."""
        server = self.add_server(name)
        self.register(name, server, pod_cidr, **fields)
        return server

    def add_nodes(self, pod_cidrs=None):
        for number in (1, 2, 3):
            self.add_node(f"worker-{number}", pod_cidrs and pod_cidrs.format(number))

    # --- the leader ------------------------------------------------------------------------------------------------------

    def lead(self, *flags, pod_cidrs=None, kubeconfig=None, **options):
        """A leader, and three nodes that it has initialised."""
        self.flags += flags
        self.options |= options
        self.add_nodes(pod_cidrs)
        self.restart(kubeconfig=kubeconfig)
        for name in self.kubelets:
            self.api.wait_node(name, is_initialized)
        return self

    def be_healthy(self, *flags, **options):
        """lead(), and doctor finds nothing."""
        self.lead(*flags, **options)
        wait_for(lambda: self.doctor().exit_code == 0, what="a healthy cluster", seen=lambda: self.doctor().text)
        return self

    def restart(self, *flags, kubeconfig=None):
        self.stop()
        self.flags += flags
        self.leader = self.get("ccmd")(*self.flags, inventory=None, env=self.env, kubeconfig=kubeconfig, **self.options)
        self.leader.wait_log("became leader")

    def stop(self):
        if self.leader and self.leader.running:
            self.leader.stop()

    # --- Services --------------------------------------------------------------------------------------------------------

    def serve(self, name="web", *ports, on=("worker-1", "worker-2", "worker-3"), annotations=None, **spec):
        """A Service with its load balancer, and with ready pods on these nodes. Returns the load balancer."""
        self.create(name, *ports, on=on, annotations=annotations, **spec)
        self.services.wait_ips(name)
        return self.balancer(name)

    def create(self, name="web", *ports, on=("worker-1", "worker-2", "worker-3"), annotations=None, **spec):
        annotations = {PREFIX + key: value for key, value in (annotations or {}).items()}
        self.services.create(name, *ports, annotations=annotations, **spec)
        self.services.add_endpoints(name, on)

    def balancer(self, name="web"):
        uid = self.services.get(name)["metadata"]["uid"]
        with self.cloud.lock:
            return next(one for one in self.cloud.project.load_balancers.values() if one.labels[UID_LABEL] == uid)

    def fail_targets(self, lb, detail, *names, status=None):
        """The health checks of these servers fail, by default those of all."""
        with self.cloud.lock:
            for one in self.cloud.project.servers.values():
                if not names or one.name in names:
                    lb.failing[one.id] = (detail, status)

    def fight(self, name, manager, status):
        """Another controller writes its status to the Service whenever it differs, until the end."""
        api, stop = self.cluster.api(), threading.Event()
        wanted = [one["ip"] for one in status["loadBalancer"]["ingress"]]

        def run():
            while not stop.wait(0.2):
                one = api.get_or_none(f"{SERVICES}/{name}")
                if one and ips(one) != wanted:
                    api.patch(f"{SERVICES}/{name}/status", {"status": status}, fieldManager=manager)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.at_end.callback(thread.join)
        self.at_end.callback(stop.set)
        self.services.wait_ips(name, *wanted)

    # --- routes ----------------------------------------------------------------------------------------------------------

    def has_tried_routes(self):
        return self.network.routes or [one for one in self.api.events() if one["reason"] == "FailedToCreateRoute"]

    # --- other objects ---------------------------------------------------------------------------------------------------

    def make(self, path, body):
        """Exists until the end."""
        one = self.api.post(path, body)
        self.at_end.callback(self.api.delete, f"{path}/{one['metadata']['name']}", gracePeriodSeconds=0)
        return one

    def deploy(self, kind, name, image, namespace="kube-system", labels=None, args=()):
        labels = {"app": name, **(labels or {})}
        self.api.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s"
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image, "args": list(args)}]}}
        self.make(path, {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels},
                         "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
        if kind == "DaemonSet":
            status = {"currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 3}
            self.api.patch(f"{path}/{name}/status", {"status": status})

    def deploy_ccmd(self, change, status):
        """The published Deployment after change(its pod template's spec), and a pod of it with this status."""
        manifest = (REPOSITORY / "deploy" / "hcloud.yaml").read_text()
        workload = next(one for one in yaml.safe_load_all(manifest) if one["kind"] == "Deployment")
        template = workload["spec"]["template"]
        change(template["spec"])
        self.make("/apis/apps/v1/namespaces/kube-system/deployments", workload)
        metadata = {"name": "ccmd-6f9c4-x7k2p", "labels": template["metadata"]["labels"]}
        pods = "/api/v1/namespaces/kube-system/pods"
        spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
        self.make(pods, {"metadata": metadata, "spec": spec})
        self.api.patch(f"{pods}/{metadata['name']}/status", {"status": status})

    def take_right(self, verb, resource, path):
        """From now on this role of ccmd lacks the right; its refusals are no failure of the test."""
        path = f"/apis/rbac.authorization.k8s.io/v1/{path}"
        rules = self.api.get(path)["rules"]
        for rule in rules:
            if resource in rule.get("resources", ()):
                rule["verbs"] = [one for one in rule["verbs"] if one != verb]
        self.at_end.callback(self.cluster.grant)
        self.api.patch(path, {"rules": [rule for rule in rules if rule["verbs"]]})
        question = ["auth", "can-i", verb, resource, "--namespace=kube-system", f"--as={USER}"]
        wait_for(lambda: "no" in self.cluster.kubectl(*question, check=False), what="the right to be missing")
        if self.leader:
            self.leader.may_be_refused = True

    # --- the commands ----------------------------------------------------------------------------------------------------

    def run(self, *words):
        flags = flags_of(self.kubeconfig, None, *self.flags, **self.options)
        return run_ccmd(*words, *flags, env=self.env, timeout=400)

    def doctor(self):
        return Printed(self.run("doctor", f"--as-service-account={ACCOUNT}"), True)

    def explain(self, kind, name):
        return Printed(self.run("explain", kind, name), False)
