"""The published role, deploy/rbac.yaml, and whether it allows what the API server refused; and deploy/policy.yaml, which refuses
what the role cannot.

For a moment after its start the API server knows no roles and refuses everybody: that says nothing about ours.
"""
import re
from functools import cache

import yaml

from .process import REPOSITORY

FILE = REPOSITORY / "deploy" / "rbac.yaml"
POLICY_FILE = REPOSITORY / "deploy" / "policy.yaml"
NAME = "system:ccmd"

# nodes "n1" is forbidden: User "…" cannot patch resource "nodes/status" in API group "" at the cluster scope
REFUSED = re.compile(
    r'(?:"(?P<name>[^"]+)" )?is forbidden: User "[^"]*" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)" (?:at the cluster scope|in the namespace "(?P<namespace>[^"]+)")'
)
PATH_REFUSED = re.compile(r'is forbidden: User "[^"]*" cannot \w+ path "[^"]*"')

# What system:auth-delegator and extension-apiserver-authentication-reader allow, in every cluster.
BUILT_IN = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
     "resourceNames": ["extension-apiserver-authentication"]},
]


@cache
def objects():
    return [one for one in yaml.safe_load_all(FILE.read_text()) if one]


def rules(namespace):
    """Those for a namespace, or (None) for the cluster."""
    found = list(BUILT_IN)
    for one in objects():
        if one["kind"] == "ClusterRole" or one["kind"] == "Role" and one["metadata"]["namespace"] == namespace:
            found += one["rules"]
    return found


def allows(verb, resource, group, namespace=None, name=None):
    return any(
        verb in rule["verbs"] and resource in rule.get("resources", ()) and group in rule["apiGroups"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for rule in rules(namespace)
    )


def missing(text):
    """The first refusal in a log that the role does not explain, or one of the policy, or None."""
    for line in text.splitlines():
        plain = line.replace('\\"', '"')
        refused = REFUSED.search(plain)
        if "ValidatingAdmissionPolicy" in plain:
            return line
        if PATH_REFUSED.search(plain) or refused and not allows(**refused.groupdict()):
            return line
    return None
