"""Records what ccmd sends, if $CCMD_TRACES names a folder; tools/traces compares such recordings.

Each test has a folder there, with a file of JSON lines for each receiver: API servers (from their audit log, which has each
request that arrives), fault proxies (which have the others as well), simulated clouds, and the hooks and the reload command of
cloudlycke (what they are given). Requests of other clients than ccmd are left out.
"""
import json
import os
import re
import tempfile
import threading
import zlib
from pathlib import Path

FOLDER = os.environ.get("CCMD_TRACES")
METHODS = {"create": "POST", "update": "PUT", "list": "GET", "watch": "GET", "deletecollection": "DELETE"}
WRAPPER = """\
#!/bin/sh
given={runs}/$(date +%s%N).{action}
{copy} >"$given"
exec {command} "$@"{stdin}
"""

_lock = threading.Lock()
_requests = {}  # of the test that runs: receiver -> its requests
_logs = {}  # cluster -> (how much of its audit log has been read, IDs of the requests seen in it)
_runs = None  # the folder of what the hooks and the reload command have been given


# --- what comes in -----------------------------------------------------------------------------------------------------


def add(receiver, request):
    """Notes a request to a fault proxy or a simulated cloud."""
    if FOLDER and is_ours(request.headers.get("user-agent")):
        with _lock:
            _requests.setdefault(receiver, []).append(request)


def is_ours(agent):
    return "ccmd/" in (agent or "")


def add_cluster(cluster):
    """From now on the cluster's audit log is read at the end of each test."""
    if FOLDER:
        _logs[cluster] = (0, set())


def remove_cluster(cluster):
    """Its audit log goes away."""
    if cluster in _logs:
        _read_log(cluster)
        del _logs[cluster]


def _read_log(cluster):
    """Notes the requests that are new in the cluster's audit log."""
    if not cluster.audit_log.exists():
        return
    offset, seen = _logs[cluster]
    with open(cluster.audit_log, "rb") as file:
        file.seek(offset)
        text = file.read()
    text = text[:text.rfind(b"\n") + 1]
    _logs[cluster] = (offset + len(text), seen)
    for line in filter(lambda line: b'"userAgent":"ccmd/' in line, text.splitlines()):
        entry = json.loads(line)
        if entry["auditID"] not in seen:  # a watch is logged when it begins and when it ends
            seen.add(entry["auditID"])
            _requests.setdefault(cluster, []).append(entry)


def hooked(content):
    """The inventory's content, with commands that note what the hooks and the reload command are given, and run those."""
    global _runs
    if not FOLDER:
        return content
    _runs = _runs or tempfile.TemporaryDirectory(prefix="ccmd-traces-")
    content = dict(content)
    for key in ("loadBalancers", "routes"):
        hook = (content.get(key) or {}).get("hook")
        if hook and os.access(hook, os.X_OK):
            content[key] = {**content[key], "hook": _wrapper("${CLOUDLYCKE_ACTION}", "cat", hook, ' <"$given"')}
    haproxy = (content.get("loadBalancers") or {}).get("haproxy") or {}
    if haproxy.get("reload") and haproxy.get("file"):
        wrapper = _wrapper("reload", f"cat {haproxy['file']}", "", "")
        haproxy = {**haproxy, "reload": [wrapper, *haproxy["reload"]]}
        content["loadBalancers"] = {**content["loadBalancers"], "haproxy": haproxy}
    return content


def _wrapper(action, copy, command, stdin):
    text = WRAPPER.format(runs=_runs.name, action=action, copy=copy, command=command, stdin=stdin)
    path = Path(_runs.name) / f"wrapper-{zlib.crc32(text.encode()):08x}"
    if not path.exists():
        path.write_text(text)
        path.chmod(0o755)
    return str(path)


# --- what is written ---------------------------------------------------------------------------------------------------


def end(test, failed):
    """The test with this node ID has ended: writes what was noted since the one before."""
    if not FOLDER:
        return
    test = re.sub(r"@[\w-]+$", "", test)  # the group, which xdist appends
    for cluster in list(_logs):
        _read_log(cluster)
    with _lock:
        found = dict(_requests)
        _requests.clear()
    name = re.sub(r"[^\w.]+", "-", test.rpartition("/")[2])
    folder = Path(FOLDER) / f"{name[:100]}-{zlib.crc32(test.encode()):08x}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.json").write_text(json.dumps({"test": test, "failed": failed}))
    names = {}
    for receiver, requests in found.items():
        kind = type(receiver).__name__.lower()
        names[kind] = names.get(kind, 0) + 1
        _write(folder / f"{kind}-{names[kind]}.jsonl", map(_noted, sorted(requests, key=_time)))
    runs = sorted(Path(_runs.name).glob("[0-9]*")) if _runs else []
    if runs:
        _write(folder / "hooks-1.jsonl", [{"method": path.suffix[1:], "uri": "", "body": _decoded(path.read_bytes())} for path in runs])
        for path in runs:
            path.unlink()


def _write(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records))


def _time(request):
    return request["requestReceivedTimestamp"] if isinstance(request, dict) else request.at


def _noted(request):
    if isinstance(request, dict):
        users = [request["user"].get("username"), (request.get("impersonatedUser") or {}).get("username")]
        return {"method": METHODS.get(request["verb"], request["verb"].upper()), "uri": request["requestURI"],
                "user": " as ".join(filter(None, users)), "agent": request["userAgent"],
                "status": request.get("responseStatus", {}).get("code"), "body": request.get("requestObject")}
    return {"method": request.method, "uri": request.target, "agent": request.headers.get("user-agent"),
            "type": request.headers.get("content-type"), "status": request.status, "body": _decoded(request.body)}


def _decoded(body):
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")
