"""The models of tests/simulation as servers on this machine, and the comparison of a model with the real server.

Both get the same requests. What each chooses for itself is named in the same way on both sides: a UID by the order in which
it was first seen, a version by its place among all versions that objects had.
"""
import bisect
import os
import random
import re
import subprocess
from pathlib import Path

from .api import Api
from .process import REPOSITORY, spawn


class Model(Api):
    """A model on a port of its own, and a client of it. The kind is one that serve_model.c names."""

    def __init__(self, kind, token="token"):
        program = Path(os.environ.get("CCMD_BUILD", REPOSITORY / "build")) / "tests" / "simulation" / "serve_model"
        self.child = spawn([program, kind, "0", token], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        port = int(self.child.stdout.readline())
        super().__init__(f"http://127.0.0.1:{port}", None, token=token)

    def close(self):
        super().close()
        self.child.stdin.close()
        assert self.child.wait(timeout=10) == 0
        self.child.stdout.close()


class Choices:
    """What a seed chooses."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p


def compare(sides, choose):
    """Sends a request to both: choose makes it for a side, since IDs differ. The simulated cloud is the first one."""
    requests = [choose(side) for side in sides]
    right, found = (side.send(*request) for side, request in zip(sides, requests))
    assert found == right, f"{requests[1]}\nsimulated cloud: {right}\nmodel: {found}"


def objects_in(value):
    """All objects with a UID in an answer or event."""
    if isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and "uid" in metadata:
            yield value
        for one in value.values():
            yield from objects_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from objects_in(one)


def without_managers(answer):
    """The real server alone keeps book of who set which member. It would also take it from a PUT."""
    if isinstance(answer, dict):
        return {key: without_managers(value) for key, value in answer.items() if key != "managedFields"}
    return [without_managers(one) for one in answer] if isinstance(answer, list) else answer


class Side:
    """One of the two servers, and what it has answered."""

    def __init__(self, api, bases):
        self.api = api
        self.bases = bases  # the paths of the collections that are used
        self.answers = []
        self.shown = {}  # path: the objects that answers showed there, oldest first

    def send(self, method, path, body=None, content_type="application/json", partial=False):
        """Returns the status of the answer. body and path may be functions of this side."""
        accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} if partial else None
        target = path(self) if callable(path) else path
        body = body(self) if callable(body) else body
        answer = self.api.request(method, target, body, content_type=content_type, headers=accept)
        decoded = without_managers(answer.json())
        self.note(target, decoded)
        if answer.status < 300 and "uid" in decoded.get("metadata", {}) and isinstance(path, str):
            path = f"{path}/{decoded['metadata']['name']}" if method == "POST" else path.removesuffix("/status")
            self.shown.setdefault(path, []).append(decoded)
        return answer.status

    def note(self, path, answer):
        """Keeps an answer, or the events of a watch, of a collection or of an object in it."""
        self.answers.append((next((base for base in self.bases if path.startswith(base)), None), answer))

    def past(self, path, member, age=0):
        """The UID or the version that the object had `age` answers ago; if it was never seen, one that nothing has."""
        shown = self.shown.get(path, [])
        return shown[-1 - age]["metadata"][member] if age < len(shown) else "1"

    def last(self, path):
        """The last whole object that was answered there."""
        whole = [one for one in self.shown.get(path, []) if one["kind"] != "PartialObjectMetadata"]
        return whole[-1] if whole else {"metadata": {"name": path.rsplit("/", 1)[1]}}

    def normalised(self):
        """All answers, with names for what the server chose."""
        versions = {base: set() for base in (*self.bases, None)}
        for base, answer in self.answers:
            versions[base].update(int(one["metadata"]["resourceVersion"]) for one in objects_in(answer))
        names = Names(sorted(set().union(*versions.values())))
        for base, answer in self.answers:
            # the version of a list is between that of the last change of its kind and the newest
            if isinstance(answer, dict) and "items" in answer:
                shown = int(answer["metadata"]["resourceVersion"])
                last = max((one for one in versions[base] if one <= shown), default=0)
                answer["metadata"]["resourceVersion"] = str(last)
        return [names.of(answer) for _, answer in self.answers]


class Names:
    def __init__(self, versions):
        self.versions = versions
        self.uids = {}
        self.addresses = {}

    def version(self, text):
        return f"version {bisect.bisect_right(self.versions, int(text))}" if text.isdecimal() else text

    def uid(self, text):
        return self.uids.setdefault(text, f"uid {len(self.uids)}")

    def text(self, text):
        """A message: UIDs and versions in it are named, too."""
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+", self._word, text)

    def _word(self, match):
        word = match[0]
        if len(word) == 36:
            return self.uid(word)
        return self.version(word) if word.isdecimal() and int(word) in self.versions else word

    def of(self, value):
        if isinstance(value, list):
            return [self.of(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {key: self.member(key, one) for key, one in value.items() if one is not None}

    def member(self, key, value):
        if key == "resourceVersion":
            return self.version(value)
        if key == "uid":
            return self.uid(value)
        if key == "message":
            return self.text(value)
        if key in ("creationTimestamp", "deletionTimestamp", "continue"):
            return "set"
        if key == "clusterIP":
            return value if value == "None" else "an address"
        if key == "clusterIPs":
            return value if value == ["None"] else ["an address"] * len(value)
        if key in ("nodePort", "healthCheckNodePort"):
            return "a port"
        return self.of(value)
