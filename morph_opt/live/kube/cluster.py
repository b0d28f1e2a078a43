"""Client of Kubernetes: merge patches, and the lease.

Patched are pods, Jobs and, of Jobs that Kueue admits, their Workloads.

Every patch names the version of the object that it was decided on: where anybody changed it
meanwhile, the user, the Job controller or another controller, the API server answers 409 and
nothing is done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from morph_opt.core.domain import InputError
from morph_opt.live.kube.api import MERGE, Api, Reply, StatusError, path_of
from morph_opt.live.kube.job import KUEUE, WORKLOAD
from morph_opt.live.kube.picture import Answers, Objects, Unit, read_kube_picture
from morph_opt.live.kube.pods import GATE, HOST, PLAN, STARTED, STATE, STOPPED, Pod
from morph_opt.live.picture import Picture
from morph_opt.live.scheduler import Command, Intent, Park, Release, Start, Stop, require_free
from morph_opt.live.settings import Settings

_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"
_RIGHTS = "the account needs the rights of docs/security.md"
_FORBIDDEN, _ABSENT, _CONFLICT = 403, 404, 409


class Kubernetes:
    """Client of a Kubernetes cluster.

    Parameters
    ----------
    settings
        Limits of time, namespaces, address of the API server.
    clock, sleep
        Clock and sleep of this machine; tests have their own.
    """

    server = "API server"

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._api = Api(settings)
        self._cluster = self._owner = self._kueue = ""
        self._indices: dict[str, tuple[int, ...]] = {}
        self.clock = clock
        self.sleep = sleep

    def ask(self) -> Answers:
        """Ask the API server for all lists.

        Raises
        ------
        AwayError
            If it does not answer.
        InputError
            If a request is forbidden, or a namespace does not exist.
        """
        try:
            if not self._cluster:
                for name in self._settings.partitions:
                    self._api.call("GET", f"/api/v1/namespaces/{quote(name, safe='')}")
                reply = self._api.call("GET", "/api/v1/namespaces/kube-system")
                # A cluster has no name of its own: this is what tells clusters apart.
                self._cluster = str(reply.value["metadata"]["uid"])
                self._kueue = self._kueue_version()
            pods, _ = self._api.listed("/api/v1/pods", fieldSelector=_ALIVE)
            jobs, _ = self._api.listed("/apis/batch/v1/jobs")
            workloads = self._workloads()
            nodes, time_s = self._api.listed("/api/v1/nodes")
        except StatusError as error:
            field = "partitions" if error.status == _ABSENT else self.server
            why = f": {_RIGHTS}" if error.status == _FORBIDDEN else ""
            raise InputError(f"{error}{why}", field=field) from None
        return Answers(nodes, pods, jobs, workloads, time_s)

    def _kueue_version(self) -> str:
        """Return the version of Kueue's API that the API server prefers; "" without Kueue."""
        try:
            group = self._api.call("GET", f"/apis/{KUEUE}").value
        except StatusError as error:
            if error.status in (_FORBIDDEN, _ABSENT):
                return ""
            raise
        return str(group["preferredVersion"]["version"])

    def _workloads(self) -> list[dict[str, Any]]:
        """List Kueue's Workloads; none if that is refused, so that no Job of Kueue is stopped."""
        if not self._kueue:
            return []
        try:
            return self._api.listed(f"/apis/{KUEUE}/{self._kueue}/workloads")[0]
        except StatusError as error:
            if error.status == _FORBIDDEN:
                return []
            raise

    def observe(
        self,
        submitted_s: Mapping[str, float],  # noqa: ARG002 - a Job is submitted once
        asked: Answers | None = None,
    ) -> Picture:
        """Return the picture; see `morph_opt.live.kube.picture.read_kube_picture`.

        Raises
        ------
        AwayError
            If the API server does not answer.
        InputError
            If its answers make no sense.
        """
        answer = asked or self.ask()
        return read_kube_picture(answer, self._cluster, self._settings, self._indices)

    def commands(self, intent: Intent, picture: Picture) -> tuple[Command, ...]:
        """Return the patches of an intent: one for each pod that starts, or one of the Job.

        Of a Job of Kueue's it is one of its Workload.
        """
        objects: Objects = picture.objects
        unit, now = objects.units[intent.job], f"{picture.time_s:.0f}"
        if isinstance(intent, Start):
            return tuple(
                _patch(
                    "pod",
                    pod.namespace,
                    pod.name,
                    pod.version,
                    {STATE: STARTED + now, PLAN: ",".join(map(str, gpus))},
                    _open(pod) | {"nodeSelector": {HOST: objects.hosts[node].label}},
                )
                for pod, node, gpus in _places(unit, intent)
            )
        if isinstance(intent, Stop):
            return (_suspend(unit, STOPPED + now),)
        if isinstance(intent, Park):
            return (_suspend(unit, None),)
        assert isinstance(intent, Release)
        back = (_suspend(unit, None),) if unit.suspended else ()
        return back + tuple(
            _patch("pod", pod.namespace, pod.name, pod.version, {}, _open(pod)) for pod in unit.pods
        )

    def against(self, intent: Intent, picture: Picture) -> str:
        """Return the resource that a start lacks on a node; "" if nothing is missing."""
        objects: Objects = picture.objects
        if not isinstance(intent, Start):
            return ""
        taken: list[tuple[str, str, float]] = []
        for pod, node, _ in _places(objects.units[intent.job], intent):
            for key, value in pod.needs.items():
                if objects.left[node].get(key, 0.0) < value:
                    _take(objects, taken, -1.0)
                    return f"{node} has too little {key}"
                taken.append((node, key, value))
                _take(objects, taken[-1:], 1.0)
        return ""

    def do(self, command: Command) -> None:
        """Send one of the patches that `commands` returned.

        Raises
        ------
        AwayError, RefusedError
            See `Api.call`.
        """
        _, _, kind, name, _, namespace, _, _, body = command
        version = self._kueue if kind == WORKLOAD else "v1"
        self._api.call("PATCH", path_of(kind, namespace, name, version), json.loads(body), MERGE)

    def take_lease(self, owner: str) -> None:
        """Take the lease of the cluster's one controller, for `Settings.lease_s`.

        Raises
        ------
        InputError
            If another has it, or there is no right to.
        AwayError
            If the API server does not answer.
        """
        self._owner = owner
        try:
            found = self._lease()
            if found is None:
                namespace, name = self._lease_name()
                empty = {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, "namespace": namespace},
                }
                path = path_of("lease", namespace)
                self._api.call("POST", path, empty | {"spec": self._held(owner)})
                return
            require_free(_holder(found), owner, self.clock())
            self._write(found, owner)
        except StatusError as error:
            why = "another controller took it" if error.status == _CONFLICT else str(error)
            why += f": {_RIGHTS}" if error.status == _FORBIDDEN else ""
            raise InputError(why, field="lease") from None

    def renew_lease(self, owner: str, picture: Picture) -> bool:  # noqa: ARG002 - it is no job
        """Renew the lease; return False if it is lost, in which case nothing may be done.

        Raises
        ------
        AwayError, RefusedError
            If the API server does not take it.
        """
        found = self._lease()
        if found is None or _holder(found)[0] != owner:
            return False
        until_s = _holder(found)[1]
        if until_s - self.clock() < self._settings.lease_s / 2.0:
            self._write(found, owner)
        return until_s > self.clock()

    def give_lease(self) -> None:
        """Release the lease."""
        found = self._lease()
        if found is not None and _holder(found)[0] == self._owner:
            self._write(found, "")

    def _lease_name(self) -> tuple[str, str]:
        namespace, _, name = self._settings.lease.partition("/")
        return namespace, name

    def _lease(self) -> dict[str, Any] | None:
        try:
            return self._api.call("GET", path_of("lease", *self._lease_name())).value
        except StatusError as error:
            if error.status == _ABSENT:
                return None
            raise

    def _write(self, found: dict[str, Any], owner: str) -> Reply:
        """Write the lease that was read; refused with 409 if it has changed since."""
        body = found | {"spec": found.get("spec", {}) | self._held(owner)}
        return self._api.call("PUT", path_of("lease", *self._lease_name()), body)

    def _held(self, owner: str) -> dict[str, Any]:
        now = f"{datetime.fromtimestamp(self.clock(), UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        seconds = round(self._settings.lease_s) if owner else 1
        return {"holderIdentity": owner, "leaseDurationSeconds": seconds, "renewTime": now}


def _holder(lease: Mapping[str, Any]) -> tuple[str, float]:
    """Return owner and expiry of a lease."""
    spec = lease.get("spec") or {}
    written = spec.get("renewTime")
    since_s = datetime.fromisoformat(written).timestamp() if written else 0.0
    return spec.get("holderIdentity") or "", since_s + float(spec.get("leaseDurationSeconds") or 0)


def _places(unit: Unit, start: Start) -> Iterator[tuple[Pod, str, tuple[int, ...]]]:
    """Yield pods with node and GPUs for a job; empty if the job does not wait at our gate."""
    pods = iter(unit.pods)
    for node, gpus in zip(start.nodes, start.gpus, strict=True):
        left = gpus
        while left and (pod := next(pods, None)) is not None:
            yield pod, node, left[: pod.gpus]
            left = left[pod.gpus :]


def _take(objects: Objects, amounts: list[tuple[str, str, float]], sign: float) -> None:
    for node, key, value in amounts:
        objects.left[node][key] -= sign * value


def _open(pod: Pod) -> dict[str, Any]:
    """Return the part of a patch that removes our gate and keeps all others."""
    return {"schedulingGates": [{"name": one} for one in pod.gates if one != GATE] or None}


def _suspend(unit: Unit, mark: str | None) -> Command:
    """Return the patch that suspends a Job with our mark, or resumes it without.

    Kueue suspends its own: while their Workload is not active, it neither runs nor waits.
    """
    stops = mark is not None
    spec = {"active": not stops} if unit.kind == WORKLOAD else {"suspend": stops}
    return _patch(unit.kind, unit.namespace, unit.name, unit.version, {STATE: mark}, spec)


def _patch(
    kind: str,
    namespace: str,
    name: str,
    version: str,
    notes: Mapping[str, str | None],
    spec: Mapping[str, Any],
) -> Command:
    meta = {"resourceVersion": version} | ({"annotations": dict(notes)} if notes else {})
    body = json.dumps({"metadata": meta, "spec": dict(spec)}, separators=(",", ":"))
    what = ("kubectl", "patch", kind, name, "--namespace", namespace)
    return (*what, "--type=merge", "--patch", body)
