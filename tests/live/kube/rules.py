"""The rules of the API server that `tests.live.kube.fake` pretends to be: requests in, answers out.

Where each is written stands there.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from copy import deepcopy
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.live.kube.fake import FakeKube

Key = tuple[str, str, str]
"""Resource, namespace and name."""
Table = dict[str, Any]
Rule = tuple[str, str, str, str, str]
"""Verb, group, resource, namespace ("" for all) and name ("" for all)."""

GPU, HOST = "nvidia.com/gpu", "kubernetes.io/hostname"
GATE, KUEUE = "morph-opt.dev/round", "kueue.x-k8s.io"
GROUPS = {
    "pods": "",
    "nodes": "",
    "namespaces": "",
    "jobs": "batch",
    "leases": "coordination.k8s.io",
    "workloads": KUEUE,
}
KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "namespaces": "Namespace",
    "jobs": "Job",
    "leases": "Lease",
    "workloads": "Workload",
}
SCALES = {"": 1.0, "m": 1e-3, "Gi": 1024.0**3}
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")
_JOB_FREE = ("suspend", "parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished")


class StatusError(Exception):
    """An answer that is no object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


def api_version(group: str) -> str:
    """Group and version, as objects name it; that of Kueue is none of the first."""
    return f"{group}/{'v1beta2' if group == KUEUE else 'v1'}".lstrip("/")


def owner_of(pod: Table) -> str:
    """Uid of the controller of a pod."""
    return next((o["uid"] for o in pod["metadata"].get("ownerReferences", ())), "")


def alive(pod: Table) -> bool:
    """Whether it has not ended."""
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


def amount(text: str) -> float:
    """A quantity."""
    digits = text.rstrip("miG")
    return float(digits) * SCALES[text[len(digits) :]]


def needs_of(pod: Table) -> dict[str, float]:
    """What it asks of a node."""
    asked = {"pods": 1.0, GPU: 0.0}
    for container in pod["spec"]["containers"]:
        for key, value in container["resources"]["limits"].items():
            asked[key] = asked.get(key, 0.0) + amount(value)
    return asked


def gates_of(spec: Table) -> list[str]:
    """Its gates."""
    return [gate["name"] for gate in spec.get("schedulingGates") or ()]


def serve(fake: FakeKube, handler: BaseHTTPRequestHandler) -> None:
    """Answer a request."""
    length = int(handler.headers.get("Content-Length") or 0)
    text = handler.rfile.read(length)
    if fake.now_s < fake.away_until_s:
        handler.connection.close()
        return
    try:
        value = _answer(fake, handler, text)
        code = 201 if handler.command == "POST" else 200
    except StatusError as error:
        code = error.code
        value = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": code,
            "reason": error.reason,
            "message": str(error),
        }
    fake.codes[code] = fake.codes.get(code, 0) + 1
    body = json.dumps(value).encode()
    with suppress(OSError):
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def _answer(fake: FakeKube, handler: BaseHTTPRequestHandler, text: bytes) -> Table:
    parts = urlsplit(handler.path)
    words = parts.path.strip("/").split("/")
    if fake.token and handler.headers.get("Authorization") != f"Bearer {fake.token}":
        raise StatusError(401, "Unauthorized", "Unauthorized")
    if KUEUE in words[:2] and not fake.has_kueue:
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    known = discovery(words)
    if known is not None:
        return known
    group = "" if words[0] == "api" else words[1]
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2:
        namespace, words = words[1], words[2:]
    kind, name = words[0], words[1] if len(words) > 1 else ""
    if GROUPS.get(kind) != group:
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    verb = VERBS[handler.command]
    verb = "list" if verb == "get" and not name else verb
    _allowed(fake, (verb, group, "/".join([kind, *words[2:]]), namespace, name))
    if verb == "list":
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        return _list(fake, kind, namespace, query)
    if verb == "create":
        return _create(fake, kind, namespace, json.loads(text))
    key = kind, namespace, name
    if fake.before_write is not None and verb != "get":
        fake.before_write(key)
    if key not in fake.store:
        raise StatusError(404, "NotFound", f'{kind} "{name}" not found')
    if verb == "get":
        return fake.store[key]
    return _write(fake, key, verb, handler.headers.get("Content-Type", ""), json.loads(text))


def _write(fake: FakeKube, key: Key, verb: str, content: str, given: Table) -> Table:
    old, new = fake.store[key], given
    if verb == "patch":
        if content != "application/merge-patch+json":
            raise StatusError(415, "UnsupportedMediaType", "only merge patches here")
        _faults(fake)
        new = merged(deepcopy(old), given)
    elif verb != "update":
        raise StatusError(405, "MethodNotAllowed", "nobody deletes here but users")
    if "resourceVersion" not in new["metadata"]:
        rule = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
        raise StatusError(422, "Invalid", rule)
    _same_version(key, old, new)
    if key[0] == "leases" and new["spec"].get("leaseDurationSeconds", 1) <= 0:
        raise StatusError(422, "Invalid", "spec.leaseDurationSeconds: must be greater than 0")
    if "status" in old:
        new["status"] = old["status"]  # it is a subresource of its own
    if key[0] in ("pods", "jobs", "workloads"):
        check = {"pods": _check_pod, "jobs": _check_job, "workloads": _check_workload}[key[0]]
        check(old["spec"], new["spec"], old)
        _count(fake, key, old, new)
    return fake.put(key, new)


def _allowed(fake: FakeKube, asked: Rule) -> None:
    verb, group, kind, namespace, name = asked
    fake.verbs.add((verb, group, kind))
    if fake.rules is not None and not any(
        rule[:3] == asked[:3] and rule[3] in ("", namespace) and rule[4] in ("", name)
        for rule in fake.rules
    ):
        rule = f'{kind}.{group} "{name}" is forbidden: User "controller" cannot {verb} resource'
        raise StatusError(403, "Forbidden", f'{rule} "{kind}" in the namespace "{namespace}"')


def _list(fake: FakeKube, kind: str, namespace: str, query: dict[str, str]) -> Table:
    items = [v for k, v in fake.all(kind) if namespace in ("", k[1])]
    version, first = fake.version, 0
    for word in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = word.partition("!=")
        if kind != "pods" or path != "status.phase":
            raise StatusError(400, "BadRequest", f"field label not supported: {path}")
        items = [one for one in items if one["status"].get("phase") != value]
    if "continue" in query:
        version, first = json.loads(base64.b64decode(query["continue"]))
        if version not in fake.pages or fake.expire:
            fake.expire = max(0, fake.expire - 1)
            rule = "The provided continue parameter is too old to display a consistent list result"
            raise StatusError(410, "Expired", rule)
        items = fake.pages[version]
    limit = min(fake.page, int(query.get("limit", "0")) or 10**9)
    meta: Table = {"resourceVersion": str(version)}
    if len(items) > first + limit:
        fake.pages[version] = items
        token = json.dumps([version, first + limit]).encode()
        meta["continue"] = base64.b64encode(token).decode()
    return {
        "kind": f"{KINDS[kind]}List",
        "apiVersion": api_version(GROUPS[kind]),
        "metadata": meta,
        "items": items[first : first + limit],
    }


def _create(fake: FakeKube, kind: str, namespace: str, value: Table) -> Table:
    meta = value["metadata"]
    key = kind, namespace, meta["name"]
    if "resourceVersion" in meta:
        rule = "resourceVersion should not be set on objects to be created"
        raise StatusError(400, "BadRequest", rule)
    if key in fake.store:
        raise StatusError(409, "AlreadyExists", f'{kind} "{meta["name"]}" already exists')
    return fake.put(key, value)


def merged(value: Any, patch: Any) -> Any:
    """A merge patch by RFC 7386: null takes away, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    value = value if isinstance(value, dict) else {}
    for key, one in patch.items():
        if one is None:
            value.pop(key, None)
        else:
            value[key] = merged(value.get(key), one)
    return value


def _same_version(key: Key, old: Table, new: Table) -> None:
    for word in ("resourceVersion", "uid"):
        if new["metadata"].get(word) != old["metadata"][word]:
            rule = (
                f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been '
                "modified; please apply your changes to the latest version"
            )
            raise StatusError(409, "Conflict", rule)
    if new["metadata"]["name"] != key[2]:
        raise StatusError(400, "BadRequest", "the name of the object does not match the URL")


def _faults(fake: FakeKube) -> None:
    if fake.refuse and fake.draw.random() < fake.refuse:
        raise fake.draw.choice(
            [
                StatusError(403, "Forbidden", 'admission webhook "quota.site" denied the request'),
                StatusError(500, "InternalError", "etcdserver: request timed out"),
                StatusError(429, "TooManyRequests", "the server has received too many requests"),
            ]
        )


def _check_pod(old: Table, new: Table, _: Table) -> None:
    was, now = gates_of(old), gates_of(new)
    if set(now) - set(was):
        found = min(set(now) - set(was))
        rule = f"spec.schedulingGates: Forbidden: only deletion is allowed, but found {found!r}"
        raise StatusError(422, "Invalid", rule)
    before, after = old.get("nodeSelector", {}), new.get("nodeSelector", {})
    if before != after and not (was and before.items() <= after.items()):
        rule = "spec.nodeSelector: Invalid value: only additions are allowed, and of gated pods"
        raise StatusError(422, "Invalid", rule)
    free = ("schedulingGates", "nodeSelector")
    if any(old.get(k) != new.get(k) for k in (old.keys() | new.keys()) - set(free)):
        rule = "spec: Forbidden: pod updates may not change fields other than images, tolerations"
        raise StatusError(422, "Invalid", rule)


def _check_job(old: Table, new: Table, job: Table) -> None:
    before, after = deepcopy(old), deepcopy(new)
    for word in _JOB_FREE:
        before.pop(word, None)
        after.pop(word, None)
    if old.get("completionMode") == "Indexed" and new["completions"] == new["parallelism"]:
        after["completions"] = before["completions"]
    if old["suspend"] and "startTime" not in job["status"]:
        for word in _DIRECTIVES:
            before["template"]["spec"].pop(word, None)
            after["template"]["spec"].pop(word, None)
    if before != after:
        raise StatusError(422, "Invalid", "spec.template: Invalid value: field is immutable")


def _check_workload(old: Table, new: Table, _: Table) -> None:
    if old | {"active": new["active"]} != new:
        raise StatusError(422, "Invalid", "spec: Invalid value: field is immutable")


def _count(fake: FakeKube, key: Key, old: Table, new: Table) -> None:
    """What no controller may do, whatever the API allows."""
    kind, namespace, name = key
    work = fake.work.get(f"{namespace}/{name}") if kind == "jobs" else fake.work_of(old)
    if work is None or work.foreign:
        fake.touched.append("/".join(key))
    if kind in ("jobs", "workloads"):
        on = new["spec"]["active"] if kind == "workloads" else not new["spec"]["suspend"]
        if work is not None and work.held and on:
            fake.ignored.append(name)
        if kind == "jobs" and fake.queued(old):
            fake.touched.append("/".join(key))  # who lets it go on is Kueue
        return
    label = new["spec"].get("nodeSelector", {}).get(HOST)
    if label is None or gates_of(new["spec"]):
        return
    nodes = {one["metadata"]["labels"][HOST]: key[2] for key, one in fake.all("nodes")}
    node = nodes.get(label, "")
    held = needs_of(new)[GPU]
    for other, pod in fake.all("pods"):
        where = pod["spec"].get("nodeName")
        pinned = pod["spec"].get("nodeSelector", {}).get(HOST) == label
        ours = (fake.work_of(pod) or work) is not None and not gates_of(pod["spec"])
        if other != key and alive(pod) and ours and (where == node or (pinned and not where)):
            held += needs_of(pod)[GPU]
    if held > fake.gpus:
        fake.twice.append(f"{node}: {held:g}")


def of_group(group: str) -> Table:
    """The one version of a group."""
    version = api_version(group)
    return {"groupVersion": version, "version": version.rpartition("/")[2]}


def discovery(words: list[str]) -> Table | None:
    """What kubectl asks before anything else; None for other paths."""
    if words == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if words == ["apis"]:
        groups = [
            {
                "name": g,
                "versions": [of_group(g)],
                "preferredVersion": of_group(g),
            }
            for g in sorted(set(GROUPS.values()) - {""})
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if words[0] == "apis" and len(words) == 2 and words[1] in GROUPS.values():
        return {"kind": "APIGroup", "name": words[1], "preferredVersion": of_group(words[1])}
    group = "" if words[0] == "api" else words[1] if len(words) > 1 else "?"
    if len(words) == (2 if words[0] == "api" else 3) and group in GROUPS.values():
        rows = [
            {
                "name": kind,
                "singularName": kind[:-1],
                "kind": KINDS[kind],
                "namespaced": kind not in ("nodes", "namespaces"),
                "verbs": ["get", "list", "create", "update", "patch"],
            }
            for kind, of in GROUPS.items()
            if of == group
        ]
        version = api_version(group)
        return {"kind": "APIResourceList", "groupVersion": version, "resources": rows}
    if words[0] not in ("api", "apis"):
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    return None
