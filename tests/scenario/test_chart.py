"""The Helm chart: what it renders, what it refuses, and that ccmd does its job as the chart installs it."""
import itertools
import json
import re
import shlex
import subprocess
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import yaml

from lib.ccmd import machine
from lib.helm import CHART, IMAGE, KINDS_OF_MONITORING, NAMESPACE, Helm, tool
from lib.nodes import is_initialized, is_routed
from lib.pod import Pod
from lib.process import REPOSITORY, free_ports
from lib.services import ingress
from lib.serving import Serving
from lib.wait import wait_for
from sim.brightbox import Brightbox

pytestmark = pytest.mark.plain

CLOUDS = ("hcloud", "hcloud-from-scratch", "ccm-from-scratch", "brightbox", "cloudlycke")

# Values as Hetzner's chart has them, in their defaults or in its README.
HETZNER = {
    "args": {"cloud-provider": "hcloud", "allow-untagged-cloud": "", "route-reconciliation-period": "30s",
             "webhook-secure-port": "0", "feature-gates": "CloudControllerManagerWatchBasedRoutesReconciliation=true"},
    "kind": "Deployment", "replicaCount": 1, "nameOverride": None,
    "env": {"HCLOUD_TOKEN": {"valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "token"}}},
            "ROBOT_USER": {"valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "robot-user", "optional": True}}},
            "HCLOUD_LOAD_BALANCERS_LOCATION": {"value": "fsn1"}},
    "image": {"pullSecrets": [{"name": "registry"}]},
    "monitoring": {"enabled": True, "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "annotations": {},
                                                   "spec": {"podMetricsEndpoints": [{"port": "metrics"}]}}},
    "networking": {"enabled": True, "clusterCIDR": "10.244.0.0/16",
                   "network": {"valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "network"}}}},
    "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
    "podSecurityContext": {"runAsNonRoot": True}, "securityContext": {"readOnlyRootFilesystem": True},
    "strategy": {}, "additionalTolerations": [{"key": "node.cilium.io/agent-not-ready", "operator": "Exists"}],
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""}, "affinity": {},
    "priorityClassName": "system-cluster-critical", "robot": {"enabled": True}, "rbac": {"create": True},
    "serviceAccount": {"annotations": {"a": "b"}}, "podLabels": {"c": "d"}, "podAnnotations": {"e": "f"},
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": True}],
    "extraVolumes": [{"name": "more", "secret": {"secretName": "more"}}],
    "dnsPolicy": "Default", "dnsConfig": {"nameservers": ["1.1.1.1"]},
}

ALL_MONITORING = {"monitoring": {"enabled": True, **{
    name: {"enabled": True, "labels": {"release": "prometheus"}, "annotations": {"a": "b"}}
    for name in ("podMonitor", "serviceMonitor", "prometheusRule", "dashboard")}}}

MATRIX = {
    "default": {},
    **{cloud: {"args": {"cloud-provider": cloud}} for cloud in CLOUDS},
    "three replicas": {"replicaCount": 3},
    "DaemonSet": {"kind": "DaemonSet"},
    "pod network": {"hostNetwork": False, "replicaCount": 2, "networkPolicy": {"egress": [{"ports": [{"port": 443}]}]}},
    "Hetzner's values": HETZNER,
    "monitoring": ALL_MONITORING,
    "accounts": {"args": {"use-service-account-credentials": True, "leader-elect-resource-name": "x",
                          "leader-elect-resource-namespace": "default", "bind-address": "127.0.0.1"}},
    "another release": {"nameOverride": "ccm-two", "serviceAccount": {"name": "ccm-two"},
                        "args": {"leader-elect-resource-name": "ccm-two"}},
    "policy": {"admissionPolicy": {"enabled": True}},
    "no rights": {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "mine"}},
}
matrix = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
POLICY_NEEDS_1_30 = "admissionPolicy.enabled: needs Kubernetes 1.30"


@pytest.fixture
def helm(request, tmp_path):
    return Helm(tool(request.config, "helm"), tmp_path)


# --- what is rendered ----------------------------------------------------------------------------------------------------


@matrix
def test_values_pass_the_linter(helm, values):
    helm.checked("lint", "--strict", values=values)


@pytest.mark.parametrize("values, message", [
    ({"replicas": 2}, "additional properties 'replicas' not allowed"),
    ({"monitoring": {"podmonitor": {}}}, "at '/monitoring': additional properties 'podmonitor' not allowed"),
    ({"kind": "StatefulSet"}, "at '/kind': value must be one of 'Deployment', 'DaemonSet'"),
    ({"args": {"cloud-provider": "aws"}}, "at '/args/cloud-provider': value must be one of 'hcloud', "),
    ({"args": {"cloud-provider": None}}, "at '/args': missing property 'cloud-provider'"),
    ({"args": {"v": [4]}}, "at '/args/v': got array, want "),
    ({"args": {"--v": 4}}, "at '/args': additional properties '--v' not allowed"),
    ({"env": {"HCLOUD_TOKEN": "secret"}}, "at '/env/HCLOUD_TOKEN': got string, want null or object"),
    ({"env": {"A": {"value": 1}}}, "at '/env/A/value': got number, want string"),
    ({"env": {"A": {"value": "1", "valueFrom": {}}}}, "at '/env/A': maxProperties: got 2, want 1"),
    ({"networking": {"clusterCIDR": "10.244.0.0"}}, "at '/networking/clusterCIDR': '10.244.0.0' does not match pattern"),
    ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
    ({"image": {"digest": "abc"}}, "at '/image/digest': 'abc' does not match pattern"),
    ({"serviceAccount": {"name": "-"}}, "at '/serviceAccount/name': '-' does not match pattern"),
    ({"serviceAccount": {"create": False}}, "serviceAccount.name: name the account"),
    ({"admissionPolicy": {"enabled": True}, "args": {"use-service-account-credentials": True}},
     "admissionPolicy.enabled: with args.use-service-account-credentials"),
    ({"admissionPolicy": {"actions": ["Refuse"]}}, "at '/admissionPolicy/actions/0': value must be one of 'Deny', "),
    ({"monitoring": {"port": 0}}, "at '/monitoring/port': minimum: got 0, want 1"),
    ({"args": {"cluster-cidr": "10.0.0.0/8"}}, "args.cluster-cidr: the chart sets this flag; use networking.enabled and"),
    ({"args": {"leader-elect": False}, "replicaCount": 2}, "args.leader-elect: without election only one replica may run"),
    ({"args": {"leader-elect": "false"}, "kind": "DaemonSet"}, "args.leader-elect: without election only one replica may"),
    ({"args": {"secure-port": "0"}}, "args.secure-port: the probes need this port"),
    ({"args": {"cloud-provider": "brightbox"}, "robot": {"enabled": True}}, "robot.enabled: dedicated servers need"),
    ({"args": {"bind-address": "::1"}, "hostNetwork": False}, "args.bind-address: without hostNetwork the probes do not"),
    ({"loadBalancerAdoption": "label"}, "at '/loadBalancerAdoption': value must be one of "),
    ({"args": {"cluster-name": "a cluster"}}, 'args.cluster-name: "a cluster" cannot be the value of a label'),
    ({"args": {"cluster-name": "x" * 64}, "loadBalancerAdoption": "labelled"}, "cannot be the value of a label"),
    ({"args": {"cluster-name": "a:b"}, "env": {"HCLOUD_LOAD_BALANCERS_ADOPTION": {"value": "labelled"}}},
     'args.cluster-name: "a:b" cannot be'),
    ({"monitoring": {"podMonitor": {"enabled": True}}}, "monitoring.podMonitor: it scrapes the plain port, which is off"),
    ({"monitoring": {"enabled": False, "podMonitor": {"enabled": True}}}, "monitoring.podMonitor: it scrapes the plain port"),
    ({"image": {"repository": ""}}, "image.repository: name your copy of the image; the project publishes none"),
    ({"image": {"repository": "docker.io/hetznercloud/hcloud-cloud-controller-manager"}},
     "image.repository: this is Hetzner's program"),
    ({"image": {"tag": "v{{ $.Chart.Version }}"}}, "image.tag: templates in values are not evaluated"),
    ({"env": {"A": {"value": "{{ .Release.Name }}"}}}, "env.A.value: templates in values are not evaluated"),
    ({"monitoring": {"enabled": True, "podMonitor": {"spec": {"jobLabel": "{{ .Release.Name }}"}}}},
     "monitoring.podMonitor.spec: templates in values are not evaluated"),
], ids=lambda one: "" if isinstance(one, str) else json.dumps(one))
def test_wrong_values_are_explained(helm, values, message):
    done = helm.run("template", "ccmd", values=values)
    assert done.returncode != 0 and message in done.stderr, done.stderr


def test_the_policy_needs_kubernetes_1_30(helm):
    done = helm.run("template", "ccmd", "--kube-version=1.29.0", values=MATRIX["policy"])
    assert done.returncode != 0 and POLICY_NEEDS_1_30 in done.stderr
    assert "ValidatingAdmissionPolicy" not in helm.checked("template", "ccmd", "--kube-version=1.29.0", values={})


@pytest.mark.parametrize("release, values, name, account", [
    ("ccmd", {}, "ccmd", "ccmd"),
    ("ccmd-two", {}, "ccmd-two", "ccmd-two"),
    ("hetzner", {}, "hetzner-ccmd", "hetzner-ccmd"),
    ("hetzner", {"fullnameOverride": "x", "nameOverride": "y"}, "x", "x"),
    ("hccm", {"nameOverride": "hcloud-cloud-controller-manager"}, "hcloud-cloud-controller-manager", "hcloud-cloud-controller-manager"),
    ("ccmd", {"serviceAccount": {"name": "cloud-controller-manager"}}, "ccmd", "cloud-controller-manager"),
], ids=lambda one: json.dumps(one))
def test_names_follow_the_release(helm, release, values, name, account):
    values = {**values, "hostNetwork": False, "replicaCount": 2, "admissionPolicy": {"enabled": True},
              "operatorRole": {"bindServiceAccount": True}, **ALL_MONITORING}
    found = helm.render(values, release=release, tests=True)
    (workload,) = found["Deployment"]
    assert workload["metadata"]["name"] == name
    assert workload["spec"]["template"]["spec"]["serviceAccountName"] == account
    names = {one["metadata"]["name"] for objects in found.values() for one in objects} - {account}
    assert all(one.startswith((name, f"system:{account}")) for one in names), names
    subjects = {subject["name"] for kind in ("ClusterRoleBinding", "RoleBinding") for one in found[kind] for subject in one["subjects"]}
    assert subjects == {account, f"{name}-test"}


def test_two_releases_share_no_object(helm):
    def objects(release):
        values = {"admissionPolicy": {"enabled": True}, **ALL_MONITORING}
        return {(kind, one["metadata"].get("namespace"), one["metadata"]["name"])
                for kind, ones in helm.render(values, release=release, tests=True).items() for one in ones}

    assert not objects("ccmd") & objects("ccmd-two")


def test_the_chart_says_where_it_comes_from():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["home"].startswith("https://") and chart["sources"]
    kind, picture = chart["icon"].split(",", 1)
    assert kind == "data:image/svg+xml" and ElementTree.fromstring(unquote(picture)).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_of_the_chart_names_all_values():
    rows = re.findall(r"^\| (`.*?`) \| ", (CHART / "README.md").read_text(), re.M)
    named = [name for row in rows for name in re.findall("`(.*?)`", row)]
    assert sorted(named) == sorted(yaml.safe_load((CHART / "values.yaml").read_text()))


def test_flags_are_written_as_given(helm):
    args = {"cloud-provider": "hcloud", "allow-untagged-cloud": "", "v": 4, "profiling": False, "kube-api-qps": 1000000,
            "controllers": "*,-node-route-controller", "cluster-name": "a: b", "node-monitor-period": None}
    (container,) = helm.workload({"args": args, "loadBalancerAdoption": "never"})["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "--allow-untagged-cloud", "--cert-dir=/run/ccmd", "--cloud-provider=hcloud", "--cluster-name=a: b", "--controllers=*,-node-route-controller",
        "--kube-api-qps=1000000", "--profiling=false", "--v=4"]


def test_the_certificate_is_kept_in_a_writable_volume(helm):
    spec = helm.workload({})["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,) = [one for one in container["volumeMounts"] if f"--cert-dir={one['mountPath']}" in container["args"]]
    (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
    assert "emptyDir" in volume and not mount.get("readOnly")


def test_variables_of_the_user_replace_those_of_the_chart(helm):
    (container,) = helm.workload({"env": {
        "HCLOUD_TOKEN_FILE": {"value": "/mine"}, "POD_UID": None, "A": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    }, "networking": {"enabled": True, "network": {"value": "4711"}}})["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one for one in container["env"]}
    assert len(found) == len(container["env"])
    assert found["HCLOUD_TOKEN_FILE"]["value"] == "/mine"
    assert found["HCLOUD_NETWORK"] == {"name": "HCLOUD_NETWORK", "value": "4711"}
    assert found["A"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_values_of_hetzners_chart_have_their_effect(helm):
    found = helm.render(HETZNER)
    (workload,), spec = found["Deployment"], found["Deployment"][0]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment = {one["name"]: one for one in container["env"]}
    assert environment["HCLOUD_TOKEN"]["valueFrom"] == HETZNER["env"]["HCLOUD_TOKEN"]["valueFrom"]
    assert environment["HCLOUD_NETWORK"]["valueFrom"] == HETZNER["networking"]["network"]["valueFrom"]
    assert environment["ROBOT_ENABLED"]["value"] == "true"
    assert {"--allow-untagged-cloud", "--cluster-cidr=10.244.0.0/16", "--route-reconciliation-period=30s"} <= set(container["args"])
    assert container["resources"]["requests"] == HETZNER["resources"]["requests"]
    assert spec["nodeSelector"] == HETZNER["nodeSelector"] and spec["imagePullSecrets"] == [{"name": "registry"}]
    assert HETZNER["additionalTolerations"][0] in spec["tolerations"] and spec["dnsConfig"] == HETZNER["dnsConfig"]
    assert {"name": "more", "mountPath": "/more", "readOnly": True} in container["volumeMounts"]
    assert found["PodMonitor"][0]["metadata"]["labels"]["release"] == "prometheus"
    assert workload["spec"]["template"]["metadata"]["labels"]["c"] == "d"
    assert found["ServiceAccount"][0]["metadata"]["annotations"] == {"a": "b"}


def test_probes_ask_where_ccmd_listens(helm):
    (container,) = helm.workload({"args": {"bind-address": "127.0.0.1", "secure-port": 10300}})["spec"]["template"]["spec"]["containers"]
    assert container["ports"][0] == {"name": "https", "containerPort": 10300}
    for name, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[name]["httpGet"] == {"host": "127.0.0.1", "path": path, "port": "https", "scheme": "HTTPS"}


@pytest.mark.parametrize("image, wanted", [
    ({}, IMAGE + ":{version}"),
    ({"tag": "v2"}, f"{IMAGE}:v2"),
    ({"repository": "r:5000/x", "tag": "v2", "digest": f"sha256:{'0' * 64}"}, f"r:5000/x@sha256:{'0' * 64}"),
], ids=["default", "tag", "digest"])
def test_the_image(helm, image, wanted):
    (container,) = helm.workload({"image": image})["spec"]["template"]["spec"]["containers"]
    assert container["image"] == wanted.format(version=project_version())


def test_no_file_names_an_image_that_is_not_the_projects(helm):
    """Whoever owns such a name would run a program with the rights and the token of ccmd."""
    names = {}
    for path in [*(REPOSITORY / "deploy").glob("*.yaml"), *CHART.rglob("*.*"), REPOSITORY / "README.md",
                 *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").rglob("*.yaml")]:
        for name in re.findall(r"\b[\w.-]+(?:\.[a-z]+|localhost)(?::\d+)?/(?:[\w.-]+/)*ccmd\b", path.read_text()):
            names.setdefault(name, path.name)
    assert all(re.match(r"registry\.(invalid|example(\.com)?)/", name) or name == IMAGE for name in names
               if not name.startswith(("github.com/", "docs.example.com/", "git.example.com/", "ccmd.example/"))), names


@pytest.mark.parametrize("values, wanted", [
    ({}, "labelled"),
    ({"loadBalancerAdoption": "by-name"}, "by-name"),
    ({"loadBalancerAdoption": "never", "args": {"cluster-name": "a b"}}, "never"),
    ({"env": {"HCLOUD_LOAD_BALANCERS_ADOPTION": {"value": "by-name"}}}, "by-name"),
    ({"args": {"cloud-provider": "brightbox", "cluster-name": "a b"}}, None),
], ids=json.dumps)
def test_a_new_installation_adopts_by_label(helm, values, wanted):
    assert variables(helm.workload(values)).get("HCLOUD_LOAD_BALANCERS_ADOPTION") == wanted


def variables(workload):
    """{name: value} of those with a value."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def has_plain_metrics(workload):
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    flags = [one for one in container["args"] if one.startswith("--metrics-bind-address=")]
    ports = [one for one in container["ports"] if one["name"] == "metrics"]
    assert len(flags) == len(ports)
    return bool(flags)


def test_metrics_by_plain_http_are_served_if_they_are_wanted(helm):
    assert not has_plain_metrics(helm.workload({}))
    assert variables(helm.workload({}))["HCLOUD_METRICS_ENABLED"] == "false"
    assert has_plain_metrics(helm.workload({"monitoring": {"enabled": True}}))


def test_tokens_are_requested_for_the_accounts_of_the_controllers_only(helm):
    found = helm.render({"args": {"use-service-account-credentials": True}})
    rules = [(one["kind"], one["metadata"].get("namespace"), rule) for kind in ("ClusterRole", "Role") for one in found[kind]
             for rule in one["rules"] if any("serviceaccounts" in name for name in rule.get("resources", []))]
    assert {(kind, namespace) for kind, namespace, _ in rules} == {("Role", "kube-system")}
    names = ["node-controller", "service-controller", "route-controller"]
    assert [rule for _, _, rule in rules if rule.get("resources") == ["serviceaccounts/token"]] == [
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": names, "verbs": ["create"]}]
    assert "serviceaccounts" not in str(helm.render({})["ClusterRole"]) + str(helm.render({})["Role"])


def project_version():
    return re.search(r"^  version: '(.*)',$", (REPOSITORY / "meson.build").read_text(), re.M)[1]


def test_the_chart_has_the_version_of_the_program():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project_version()


@pytest.mark.parametrize("values, kinds", [
    ({}, set()),
    ({"replicaCount": 2}, {"PodDisruptionBudget"}),
    ({"replicaCount": 2, "podDisruptionBudget": {"enabled": False}}, set()),
    ({"kind": "DaemonSet", "replicaCount": 2}, set()),
    ({"hostNetwork": False}, {"NetworkPolicy"}),
    ({"hostNetwork": False, "networkPolicy": {"enabled": False}}, set()),
    (ALL_MONITORING, {"PodMonitor", "ServiceMonitor", "Service", "PrometheusRule", "ConfigMap"}),
    ({"monitoring": {**ALL_MONITORING["monitoring"], "enabled": False, "podMonitor": {"enabled": False}}},
     {"ServiceMonitor", "Service", "PrometheusRule", "ConfigMap"}),
], ids=lambda one: json.dumps(one)[:60] if isinstance(one, dict) else "")
def test_optional_objects(helm, values, kinds):
    always = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", values.get("kind", "Deployment")}
    assert set(helm.render(values)) == always | kinds
    assert not set(helm.render(values, monitoring=False)) & set(KINDS_OF_MONITORING)


def test_alerts_link_to_the_published_runbook(helm):
    values = {"monitoring": {"prometheusRule": {"enabled": True, "runbookURL": "https://docs.example.com/runbook/"}}}
    (rule,) = helm.render(values)["PrometheusRule"]
    for alert in rule["spec"]["groups"][0]["rules"]:
        assert alert["annotations"]["runbook_url"] == f"https://docs.example.com/runbook/#{alert['alert'].lower()}"
        assert "runbook" not in alert["annotations"]


def test_the_notes_say_what_was_left_out(helm):
    said = helm.checked("install", "ccmd", "--dry-run=client", values=ALL_MONITORING)
    assert "monitoring.prometheusRule is left out: the cluster has no such API" in said
    assert "exec deployment/ccmd -- ccmd doctor" in said
    assert "only if the load balancer's label ccmd.io/adopt names the cluster" in said and "HCLOUD_TOKEN takes precedence" not in said
    assert "The pods need a node with the labels of affinity.nodeAffinity" in said
    said = helm.checked("install", "ccmd", "--dry-run=client", values=HETZNER)
    assert "env.HCLOUD_TOKEN takes precedence over the file of the Secret: a new token needs a restart" in said


def test_manifests_in_deploy_are_current(helm):
    done = subprocess.run([REPOSITORY / "tools" / "manifests", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def commands_of_documents():
    """(document, the options that set values of `helm install` or `helm upgrade`), of our chart, in a clone or a package"""
    for path in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]:
        text = path.read_text().replace("\\\n", " ")
        for found in re.findall(r"^helm (?:install|upgrade) \S+ \S*ccmd\S*(.*)", text, re.M):
            words = shlex.split(found)
            options = [words[n:n + 2] for n, word in enumerate(words) if word.startswith("--set")]
            yield str(path.relative_to(REPOSITORY)), [word for option in options for word in option]


@pytest.mark.parametrize("document, options", commands_of_documents(), ids=[name for name, _ in commands_of_documents()])
def test_commands_of_documents_name_values_of_the_chart(helm, document, options):
    helm.checked("template", "ccmd", CHART, *options)


# --- values of Hetzner's chart, turned into ours --------------------------------------------------------------------------


def migrated(values):
    """(values for our chart, in which the user has named the image; what standard error says)"""
    done = subprocess.run([CHART / "migrate-values"], input=values if isinstance(values, str) else json.dumps(values),
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["image"]["repository"] == ""
    found["image"]["repository"] = IMAGE
    return found, done.stderr


# Its defaults, with the templates that each copied file of values has.
HETZNER_DEFAULTS = {
    **HETZNER, "selectorLabels": {}, "args": {**HETZNER["args"], "cluster-cidr": "10.0.0.0/8", "profiling": False},
    "env": {**HETZNER["env"], "HCLOUD_X": {"value": "{{ .Release.Name }}"}},
    "image": {"repository": "docker.io/hetznercloud/hcloud-cloud-controller-manager", "tag": "v{{ $.Chart.Version }}",
              "pullSecrets": [{"name": "registry"}]},
    "monitoring": {"enabled": True, "podMonitor": {"enabled": True, "spec": {
        "podMetricsEndpoints": [{"port": "metrics"}], "jobLabel": "{{ .Release.Name }}"}}},
}


def test_values_of_hetzners_chart_are_migrated(helm):
    done = helm.run("template", "ccmd", values=HETZNER_DEFAULTS)
    assert done.returncode != 0
    values, said = migrated(HETZNER_DEFAULTS)
    workload = helm.workload(values)
    spec = workload["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"].startswith(IMAGE) and spec["imagePullSecrets"] == [{"name": "registry"}]
    assert workload["metadata"]["name"] == spec["serviceAccountName"] == LEGACY_ACCOUNT
    assert has_plain_metrics(workload) and variables(workload)["HCLOUD_LOAD_BALANCERS_ADOPTION"] == "by-name"
    assert not (spec.get("affinity") or {}).get("nodeAffinity")
    for text in ("to do: image.repository: name your copy", "to do: args.cluster-cidr: removed; set networking.clusterCIDR",
                 "to do: args.profiling: Hetzner's chart wrote the flag without a value", "to do: env.HCLOUD_X: removed",
                 "to do: monitoring.podMonitor.spec: removed", "changed: affinity.nodeAffinity: null", "changed: selectorLabels: removed"):
        assert text in said, said


def test_a_release_without_values_is_migrated(helm):
    values, said = migrated("null\n")  # what `helm get values` prints
    helm.checked("lint", "--strict", values=values)
    assert said.count("to do: ") == 1
    values, said = migrated({"unknown": 1})
    assert "to do: unknown: no such value; removed" in said
    helm.checked("lint", "--strict", values=values)


# --- examples ------------------------------------------------------------------------------------------------------------

EXAMPLES = REPOSITORY / "examples"


def example(name):
    return [one for one in yaml.safe_load_all((EXAMPLES / name).read_text()) if one]


def values_of(name):
    """(name of the release, its values) as Helm, Argo CD or Flux take them from an example."""
    if name.startswith("helm/"):
        return "ccmd", example(name)[0]
    spec = example(name)[-1]["spec"]
    if "source" in spec:
        assert (REPOSITORY / spec["source"]["path"]) == CHART and spec["destination"]["namespace"] == NAMESPACE
        return spec["source"]["helm"]["releaseName"], spec["source"]["helm"]["valuesObject"]
    assert (REPOSITORY / spec["chart"]["spec"]["chart"]) == CHART and spec["targetNamespace"] == NAMESPACE
    return spec["releaseName"], spec["values"]


NAMES_OF_EXAMPLES = ["helm/hetzner-production.yaml", "gitops/argocd.yaml", "gitops/flux.yaml"]


@pytest.mark.parametrize("name", NAMES_OF_EXAMPLES)
def test_examples_are_rendered(helm, name):
    release, values = values_of(name)
    helm.checked("lint", "--strict", values=values)
    workload = helm.workload(values)
    assert workload["metadata"]["name"] == release == "ccmd" and workload["spec"]["replicas"] == 2
    assert variables(workload)["HCLOUD_LOAD_BALANCERS_LOCATION"] == "fsn1"
    assert variables(workload)["HCLOUD_LOAD_BALANCERS_ADOPTION"] == "labelled"
    assert set(path.relative_to(EXAMPLES).as_posix() for kind in ("helm", "gitops") for path in (EXAMPLES / kind).iterdir()) == set(
        NAMES_OF_EXAMPLES)


# --- in a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hcloud", "brightbox", "cloudlycke"])
def test_manifests_in_deploy_are_accepted(cluster, api, name):
    """The API server accepts them, with unknown fields refused; nothing runs them here."""
    said = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(REPOSITORY / "deploy" / f"{name}.yaml"))
    assert "deployment.apps/ccmd created" in said


@pytest.fixture(scope="module")
def crds(request, cluster):
    """The CRDs of the Prometheus operator."""
    folder = tool(request.config, "prometheus-operator")
    files = [f"{folder}/example/prometheus-operator-crd/monitoring.coreos.com_{kind.lower()}s.yaml" for kind in KINDS_OF_MONITORING]
    arguments = [word for one in files for word in ("-f", one)]
    cluster.kubectl("apply", "--server-side", *arguments)
    for kind in KINDS_OF_MONITORING:
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind.lower()}s.monitoring.coreos.com")
    yield
    cluster.kubectl("delete", "--wait=false", *arguments)


# The harness has granted rights to the account of deploy/rbac.yaml. Releases use another one, so that only theirs count.
ACCOUNT = "ccmd-chart"


def merged(values, more):
    """values with more in them, which takes precedence."""
    found = dict(values)
    for key, value in more.items():
        found[key] = merged(found[key], value) if isinstance(found.get(key), dict) and isinstance(value, dict) else value
    return found


@pytest.fixture
def release(helm, cluster, api):
    """release(values): installs or upgrades the release; returns its workload, as the API server has it."""
    access = (f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}")

    def install(values):
        values = merged({"serviceAccount": {"name": ACCOUNT}}, values)
        helm.checked("upgrade", "--install", "ccmd", *access, values=values)
        kind = values.get("kind", "Deployment").lower()
        return api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}s/{values.get('nameOverride') or 'ccmd'}")

    yield install
    helm.run("uninstall", "ccmd", *access)


@pytest.mark.slow
@matrix
def test_the_api_server_accepts_all(helm, cluster, api, crds, values):
    if values == MATRIX["policy"] and cluster.version == "1.28":
        done = helm.run("install", "ccmd", f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}", values=values)
        assert done.returncode != 0 and POLICY_NEEDS_1_30 in done.stderr
        return
    text = helm.template(merged(values, {"serviceAccount": {"name": ACCOUNT}}))
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
    try:
        said = cluster.kubectl("apply", "--validate=strict", "-f", "-", input=text)
        assert said.count(" created\n") == len([one for one in yaml.safe_load_all(text) if one])
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=text)


@pytest.fixture(scope="module")
def gitops(request, cluster):
    """The CRDs of Argo CD and Flux."""
    folders = {name: tool(request.config, name) for name in ("argo-cd", "flux-helm-controller", "flux-source-controller")}
    files = [f"{folders['argo-cd']}/manifests/crds/application-crd.yaml",
             f"{folders['flux-helm-controller']}/config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",
             f"{folders['flux-source-controller']}/config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml"]
    arguments = [word for one in files for word in ("-f", one)]
    cluster.kubectl("apply", "--server-side", *arguments)
    cluster.kubectl("wait", "--for=condition=Established", *arguments)
    for namespace in ("argocd", "flux-system"):
        cluster.kubectl("create", "namespace", namespace)
    yield
    cluster.kubectl("delete", "--wait=false", *arguments)


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.parametrize("name", NAMES_OF_EXAMPLES)
def test_examples_are_applied(cluster, crds, gitops, release, name):
    if name.startswith("gitops/"):
        cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(EXAMPLES / name))
    workload = release(values_of(name)[1])
    assert workload["spec"]["replicas"] == 2


@pytest.mark.slow
@pytest.mark.one_version
def test_a_release_is_installed_changed_and_removed(helm, cluster, api, crds, release):
    release(ALL_MONITORING)
    listed = cluster.kubectl("get", "-A", "podmonitor,servicemonitor,prometheusrule,service,configmap", "-o", "name",
                             "-l", "app.kubernetes.io/instance=ccmd").split()
    assert len(listed) == 5, listed
    workload = release({"replicaCount": 3})
    assert workload["spec"]["replicas"] == 3
    assert len(cluster.kubectl("get", "-A", "poddisruptionbudget", "-o", "name").split()) == 1
    workload = release({"kind": "DaemonSet"})
    assert workload["kind"] == "DaemonSet"
    assert cluster.kubectl("get", "-A", "deployments,poddisruptionbudget", "-o", "name") == ""
    helm.checked("uninstall", "ccmd", f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}")
    left = cluster.kubectl("get", "-A", "daemonset,serviceaccount,clusterrole,clusterrolebinding,role,rolebinding", "-o", "name")
    assert ACCOUNT not in left


@pytest.mark.slow
@pytest.mark.one_version
def test_the_account_gets_tokens_of_the_controllers_accounts_only(cluster, release):
    release({"args": {"use-service-account-credentials": True}})

    def may_get_token(name, namespace=NAMESPACE):
        said = cluster.kubectl("auth", "can-i", "create", f"serviceaccounts/{name}", "--subresource=token", "-n", namespace,
                               f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}", check=False)
        return said.strip().endswith("yes")

    for name in ("node-controller", "service-controller", "route-controller"):
        wait_for(lambda: may_get_token(name), what=f"the right for {name}")
        assert not may_get_token(name, "default")
    assert not may_get_token("clusterrole-aggregation-controller") and not may_get_token(ACCOUNT)


# What a release of Hetzner's chart has and an upgrade cannot change: names, the labels that select the pods, and what a binding
# binds. Up to 1.27 the account is an administrator; since 1.28 it has a role of its own, and the binding another name.
LEGACY = """\
apiVersion: v1
kind: ServiceAccount
metadata: {{name: hcloud-cloud-controller-manager}}
---
{rbac}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: hcloud-cloud-controller-manager}}
spec:
  replicas: {{{{ .Values.replicaCount }}}}
  selector:
    matchLabels: &labels
      app.kubernetes.io/name: hcloud-cloud-controller-manager
      app.kubernetes.io/instance: "{{{{ .Release.Name }}}}"
  template:
    metadata: {{labels: *labels}}
    spec:
      serviceAccountName: hcloud-cloud-controller-manager
      containers:
        - name: hcloud-cloud-controller-manager
          image: docker.io/hetznercloud/hcloud-cloud-controller-manager:v{version}
          args: [--cloud-provider=hcloud]
          env:
            - name: HCLOUD_TOKEN
              valueFrom: {{secretKeyRef: {{name: hcloud, key: token}}}}
          ports: [{{name: metrics, containerPort: 8233}}]
"""
LEGACY_BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: "{name}"}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "{role}"}}
subjects: [{{kind: ServiceAccount, name: hcloud-cloud-controller-manager, namespace: kube-system}}]
"""
LEGACY_ACCOUNT = "hcloud-cloud-controller-manager"
# Up to 1.30 this role has persistentvolumes, too.
LEGACY_RIGHTS = {
    "configmaps": ["get", "list", "watch"],
    "events": ["create", "patch", "update"],
    "nodes": ["*"],
    "nodes/status": ["patch"],
    "services": ["list", "watch"],
    "services/status": ["patch", "update"],
    "serviceaccounts": ["create"],
    "leases": ["create", "get", "list", "watch", "update"],
}
LEGACY_ROLE = yaml.safe_dump({
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"system:{LEGACY_ACCOUNT}"},
    "rules": [{"apiGroups": ["coordination.k8s.io" if resource == "leases" else ""], "resources": [resource], "verbs": verbs}
              for resource, verbs in LEGACY_RIGHTS.items()]}) + "---\n"
LEGACY_RBAC = {
    "1.20.0": LEGACY_BINDING.format(name=f"system:{LEGACY_ACCOUNT}", role="cluster-admin"),
    "1.26.0": LEGACY_BINDING.format(name=f"system:{LEGACY_ACCOUNT}", role="cluster-admin"),
    "1.35.0": LEGACY_ROLE + LEGACY_BINDING.format(name=f"system:{LEGACY_ACCOUNT}:restricted", role=f"system:{LEGACY_ACCOUNT}"),
}


def helm_command(page, beginning):
    """The words of the one command of a page that begins so, without "helm"."""
    (found,) = re.findall(rf"^helm ({beginning.removeprefix('helm ')}.*)$", (REPOSITORY / page).read_text().replace("\\\n", " "), re.M)
    words = shlex.split(found)
    return [words[0], words[1], words[2], *words[3:]]


@pytest.fixture(params=["helm", "helm3"])
def each_helm(request, tmp_path):
    return Helm(tool(request.config, request.param), tmp_path)


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.parametrize("version", LEGACY_RBAC)
def test_a_release_of_hetzners_chart_is_upgraded_and_rolled_back(each_helm, cluster, api, tmp_path, version):
    helm, name = each_helm, LEGACY_ACCOUNT
    legacy = tmp_path / "legacy"
    (legacy / "templates").mkdir(parents=True)
    (legacy / "Chart.yaml").write_text(f"{{apiVersion: v2, name: {name}, version: {version}}}")
    (legacy / "templates" / "all.yaml").write_text(LEGACY.format(rbac=LEGACY_RBAC[version], version=version))
    access = (f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}")

    def deployment():
        return api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")

    def container_of(workload):
        return [one["name"] for one in workload["spec"]["template"]["spec"]["containers"]]

    def may(verb, resources):
        said = cluster.kubectl("auth", "can-i", verb, resources, "--all-namespaces",
                               f"--as=system:serviceaccount:{NAMESPACE}:{name}", check=False)
        return said.strip().endswith("yes")

    def has_former_rights():
        return may("list", "configmaps") and may("*", "*") == (version != "1.35.0")

    helm.checked("install", "hccm", *access, values={"replicaCount": 1, "networking": {"enabled": True}}, chart=legacy)
    try:
        uid = deployment()["metadata"]["uid"]
        wait_for(has_former_rights, what="the rights of the release")
        # the values of the release, as the page of the chart says, and the command of docs/helm.md
        values, _ = migrated(helm.checked("get", "values", "hccm", *access, "-o", "json"))
        helm.checked("upgrade", "hccm", *access, "--dry-run=server", values=values)
        _, _, chart, *options = helm_command("docs/helm.md", "helm upgrade hccm ")
        assert REPOSITORY / chart == CHART
        helm.checked("upgrade", "hccm", CHART, *access, *options[2:])
        found = deployment()
        assert found["metadata"]["uid"] == uid and container_of(found) == ["ccmd"]
        wait_for(lambda: not may("list", "configmaps"), what="the rights that ccmd does not need to be gone")
        # what it did before, it goes on doing
        assert "HCLOUD_LOAD_BALANCERS_ADOPTION" not in variables(found) and has_plain_metrics(found)
        helm.checked("upgrade", "hccm", *access, "--reset-then-reuse-values", values={"replicaCount": 2})
        assert "HCLOUD_LOAD_BALANCERS_ADOPTION" not in variables(deployment()) and has_plain_metrics(deployment())
        helm.checked("rollback", "hccm", *access, "1")
        assert container_of(deployment()) == [name]
        wait_for(has_former_rights, what="the former rights")
    finally:
        helm.run("uninstall", "hccm", *access)


@pytest.mark.slow
@pytest.mark.one_version
def test_an_upgrade_keeps_what_the_workload_has(each_helm, cluster, api):
    access = (f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}")
    account = {"serviceAccount": {"name": ACCOUNT}}

    def upgrade(values, *options):
        each_helm.checked("upgrade", "--install", "ccmd", *access, *options, values=merged(account, values))
        kind = values.get("kind", "Deployment").lower()
        workload = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}s/ccmd")
        return variables(workload).get("HCLOUD_LOAD_BALANCERS_ADOPTION"), has_plain_metrics(workload)

    try:
        assert upgrade({}) == ("labelled", False)
        assert upgrade({"replicaCount": 2}) == ("labelled", False)
        assert upgrade({"loadBalancerAdoption": "by-name", "monitoring": {"enabled": True}}) == ("by-name", True)
        assert upgrade({}) == ("by-name", True)
        assert upgrade({"replicaCount": 2}, "--reset-then-reuse-values") == ("by-name", True)
        assert upgrade({"kind": "DaemonSet"}) == ("by-name", True)
        assert upgrade({"loadBalancerAdoption": "labelled", "monitoring": {"enabled": False}}) == ("labelled", False)
        assert upgrade({"loadBalancerAdoption": ""}, "--reuse-values") == ("labelled", False)
    finally:
        each_helm.run("uninstall", "ccmd", *access)


# --- ccmd, as the chart runs it --------------------------------------------------------------------------------------------


@pytest.fixture
def ports():
    """The values that make ccmd listen where no other test does."""
    secure, metrics = free_ports(2)
    return {"args": {"secure-port": secure}, "monitoring": {"enabled": True, "port": metrics}, "admissionPolicy": {"enabled": True}}


@pytest.fixture
def secret(api):
    """secret("hcloud", token="…"): makes a Secret in the release's namespace."""
    made = []

    def create(name, **data):
        api.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": name}, "stringData": data})
        made.append(name)

    yield create
    for name in made:
        api.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")


@pytest.fixture
def run(cluster, tmp_path):
    """run(workload): the ccmd of one of its pods."""
    started = []

    def start(workload):
        started.append(Pod(cluster, workload).start(tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.finish()


def check_probes(workload, ccmd):
    """The probes and the metrics, where the workload says that they are."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for name in ("livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        server = Serving(ports[probe["port"]], is_plain=probe["scheme"] != "HTTPS")
        wait_for(lambda: server.get(probe["path"]).status == 200, what=name)
    assert "ccmd_build_info" in Serving(ports["metrics"], is_plain=True).get("/metrics").text
    assert " forbidden" not in ccmd.text


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.needs_binary
def test_hcloud(api, cloud, kubelet, ports, release, run, secret, services):
    network = cloud.add_network("net")
    server = cloud.add_server("n1", networks=[network])
    secret("hcloud", token=cloud.token, network="net")
    workload = release(merged(ports, {
        "networking": {"enabled": True},
        "env": {"HCLOUD_ENDPOINT": {"value": cloud.url}, "HCLOUD_LOAD_BALANCERS_LOCATION": {"value": "fsn1"},
                "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": {"value": "true"}}}))
    kubelet("n1", ip=server.private_ip(network.id))
    api.patch("/api/v1/nodes/n1", {"spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}})
    one = run(workload)
    api.wait_node("n1", is_initialized)
    api.wait_node("n1", is_routed)
    services.create("web", 80)
    services.wait_ips("web")
    check_probes(workload, one)


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.needs_binary
def test_brightbox(api, kubelet, ports, release, run, secret, services, tmp_path):
    with Brightbox() as cloud:
        secret("brightbox-credentials", **{"controller-client": cloud.client, "controller-client-secret": cloud.secret,
                                           "apiurl": cloud.url + "/", "hosts": ""})
        workload = release(merged(ports, {
            "args": {"cloud-provider": "brightbox", "cluster-name": "k"}, "kind": "DaemonSet",
            "env": {"BRIGHTBOX_HOSTS_FILE": {"value": "/etc/ccmd/hosts"}}}))
        server = cloud.account.add_server()
        kubelet(server["id"])
        one = run(workload)
        cloud.hosts_file = tmp_path / "root" / "etc" / "ccmd" / "hosts"
        api.wait_node(server["id"], is_initialized)
        services.create("web", 80)
        services.wait("web", ingress)
        check_probes(workload, one)
        one.finish()


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.needs_binary
def test_cloudlycke(api, inventory, kubelet, ports, release, run, secret, services, tmp_path):
    inventory.content.update(addressPools=[{"name": "lab", "addresses": ["192.0.2.10-192.0.2.12"]}], loadBalancers={})
    inventory.add(machine("n1", "10.0.0.1"))
    secret("ccmd", **{"cloud.yaml": inventory.text()})
    workload = release(merged(ports, {"args": {"cloud-provider": "cloudlycke"}, "replicaCount": 2}))
    kubelet("n1", ip="10.0.0.1")
    one = run(workload)
    api.wait_node("n1", is_initialized)
    services.create("web", 80)
    services.wait_ips("web", "192.0.2.10")
    assert api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager")
    check_probes(workload, one)
    # a changed inventory, as the kubelet would bring it; the event about a wrong one is the pod's
    (tmp_path / "root" / "etc" / "ccmd" / "cloud.yaml").write_text("machines: 1\n")
    wait_for(lambda: [event for event in api.list(f"/api/v1/namespaces/{NAMESPACE}/events")
                      if event["reason"] == "InventoryReloadRejected" and event["involvedObject"]["name"] == "ccmd-0"],
             what="the event about the pod")


@pytest.mark.one_version
@pytest.mark.needs_binary
@pytest.mark.parametrize("values", [{}, pytest.param({"monitoring": {"enabled": False}}, marks=pytest.mark.slow)],
                         ids=["defaults", "without-monitoring"])
def test_commands_in_the_container_need_no_flags(api, inventory, kubelet, ports, release, run, secret, values):
    inventory.add(machine("n1", "10.0.0.1"))
    secret("ccmd", **{"cloud.yaml": inventory.text()})
    workload = release(merged(merged(ports, {"args": {"cloud-provider": "cloudlycke"}, "replicaCount": 2,
                                             "operatorRole": {"bindServiceAccount": True}}), values))
    kubelet("n1", ip="10.0.0.1")
    one = run(workload)
    api.wait_node("n1", is_initialized)
    wait_for(lambda: Serving(ports["args"]["secure-port"]).get("/readyz").status == 200, what="it to be ready")
    done = one.exec("/ccmd", "status", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    status = json.loads(done.stdout)
    assert status["lease"]["isFresh"] and status["process"]["isHealthy"]
    assert status["metrics"]["isLeader"]
    done = one.exec("/ccmd", "explain", "node", "n1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    explanation = json.loads(done.stdout)
    assert explanation["leader"]["isKnown"] and explanation["notKnown"] == []
    done = one.exec("/ccmd", "doctor")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    done = one.exec("/ccmd", "plan")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith("Nothing to do.\n"), done.stdout


@pytest.mark.one_version
@pytest.mark.needs_binary
def test_doctor_in_the_container_names_what_it_could_not_read(api, inventory, kubelet, ports, release, run, secret):
    inventory.add(machine("n1", "10.0.0.1"))
    secret("ccmd", **{"cloud.yaml": inventory.text()})
    workload = release(merged(ports, {"args": {"cloud-provider": "cloudlycke"}, "monitoring": {"enabled": False}}))
    kubelet("n1", ip="10.0.0.1")
    one = run(workload)
    api.wait_node("n1", is_initialized)
    done = one.exec("/ccmd", "doctor")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for code, what in (("CCMD024", "deployments"), ("CCMD025", "Leases")):
        assert re.search(rf" skipped +{code}  .*\n +not checked: these credentials may not list {what}; "
                         "the ClusterRole ccmd-operator permits it", done.stdout), done.stdout
    assert not re.search(r" (problem|unknown) +CCMD", done.stdout), done.stdout
    done = one.exec("/ccmd", "status")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "metrics need credentials that may get /metrics" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.needs_binary
def test_helm_test_runs_the_doctor(helm, api, cluster, inventory, kubelet, ports, release, run, secret, tmp_path):
    """The pod that `helm test` makes, with what its other objects permit. Without a kubelet, Helm itself would wait for ever."""
    inventory.add(machine("n1", "10.0.0.1"))
    secret("ccmd", **{"cloud.yaml": inventory.text()})
    values = merged(ports, {"args": {"cloud-provider": "cloudlycke"}, "serviceAccount": {"name": ACCOUNT}})
    workload = release(values)
    kubelet("n1", ip="10.0.0.1")
    run(workload)
    api.wait_node("n1", is_initialized)
    hooks = [one for ones in helm.render(values, tests=True).values() for one in ones if "annotations" in one["metadata"]]
    order = sorted(hooks, key=lambda one: int(one["metadata"]["annotations"].get("helm.sh/hook-weight", 0)))
    assert [one["kind"] for one in order] == ["ServiceAccount", "ClusterRoleBinding", "Pod"]
    assert all(one["metadata"]["annotations"]["helm.sh/hook"] == "test" for one in order)
    cluster.kubectl("apply", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(order))
    try:
        pod = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/ccmd-test")
        test = Pod(cluster, {"metadata": pod["metadata"], "spec": {"template": {"spec": pod["spec"]}}})
        folders = (tmp_path / f"test-{number}" for number in itertools.count())
        done = wait_for(lambda: (one := test.run(next(folders))).returncode == 0 and one, what="the new rights to be in force", poll=1)
        assert done.stderr == "" and "not checked" not in done.stdout, "the account may read everything"
        kubelet("n2", ip="10.0.0.2")  # which has no machine
        wait_for(lambda: test.run(next(folders)).returncode == 1, what="a finding", poll=1)
    finally:
        cluster.kubectl("delete", "--force", "-f", "-", input=yaml.safe_dump_all(order))
