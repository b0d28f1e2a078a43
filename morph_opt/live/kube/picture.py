"""Pictures of a Kubernetes cluster: nodes, pods and Jobs as values.

A job is a Job of ``batch/v1`` with GPUs. It waits at our scheduling gate, which its user wrote into
the template of its pods; ``suspend`` is a person's, but for the mark of a stop of ours. GPUs are
held by pods: by all that have a node, whosoever they are, and by those that we let go to one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from morph_opt.core.documents import Fields
from morph_opt.inputs.kueue.kube import gpus_in, instant_of, meta_of
from morph_opt.live.kube.job import Job, read_job
from morph_opt.live.kube.pods import HOST, SAYS, Host, Pod, owners_of, read_hosts, read_pod
from morph_opt.live.picture import OURS, Picture, Seen
from morph_opt.live.settings import Settings
from morph_opt.round.live.build import LiveJob, LiveNode, live_round

REST = "+rest"
_MOST_UID = 8


@dataclass(frozen=True, slots=True)
class Unit:
    """Object whose fields stop a job, and the job's pods at our gate.

    Parameters
    ----------
    kind, namespace, name, version
        Object to change: the Job, or the Workload of a job of Kueue.
    suspended
        Whether we suspended it.
    """

    kind: str
    namespace: str
    name: str
    version: str
    pods: tuple[Pod, ...]
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Objects:
    """Jobs and nodes by name, with free resources of each node, for commands."""

    units: Mapping[str, Unit]
    hosts: Mapping[str, Host]
    left: Mapping[str, dict[str, float]]


@dataclass(slots=True)
class _Reading:
    """Collector of a picture."""

    settings: Settings
    hosts: dict[str, Host]
    time_s: float
    free: dict[str, list[int]]
    left: dict[str, dict[str, float]]
    indices: dict[str, tuple[int, ...]]
    given: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    jobs: list[LiveJob] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)
    barred: dict[object, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """Lists of nodes, pods that have not ended, Jobs and Workloads, with the time.

    The clock is the API server's.
    """

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    workloads: list[dict[str, Any]]
    time_s: float

    @property
    def seen(self) -> object:
        """Fingerprint of all lists."""
        objects = (*self.nodes, *self.pods, *self.jobs, *self.workloads)
        metas = (one["metadata"] for one in objects)
        return hash(tuple((meta["uid"], meta["resourceVersion"]) for meta in metas))


def read_kube_picture(
    answer: Answers, cluster: str, settings: Settings, indices: dict[str, tuple[int, ...]]
) -> Picture:
    """Build the picture of nodes, pods that have not ended, Jobs and Workloads.

    Parameters
    ----------
    indices
        GPUs that pods were taken to have, by uid; brought up to date. Kubernetes counts GPUs
        without naming them: these indices make the log of one cluster consistent.

    Raises
    ------
    InputError
        If an object is not what the API promises, or there is no node with GPUs.
    """
    hosts = {one.name: one for item in answer.nodes for one in read_hosts(_fields(item, "nodes"))}
    read = [read_pod(_fields(item, "pods")) for item in answer.pods]
    found = _Reading(
        settings,
        hosts,
        answer.time_s,
        {name: list(range(host.gpus)) for name, host in hosts.items()},
        {name: dict(host.room) for name, host in hosts.items()},
        indices,
    )
    _hold(found, read)
    owned: dict[str, list[Pod]] = defaultdict(list)
    for pod in read:
        owned[pod.owner or pod.uid].append(pod)
    rows = [_fields(item, "workloads") for item in answer.workloads]
    admitted = {owner: row for row in rows for owner in owners_of(row)}
    for item in answer.jobs:
        row = _fields(item, "jobs")
        uid = meta_of(row).text("uid")
        _take(found, read_job(row, owned.pop(uid, []), admitted.get(uid)))
    for others in owned.values():
        for pod in others:
            _other(found, pod)
    happened = [max(one.submit_s, one.start_s) for one in found.seen.values()]
    now_s = max([answer.time_s, *happened])
    ready = [LiveNode(h.name, h.kind, h.gpus, h.open) for h in hosts.values()]
    live = live_round(ready, found.jobs, now_s, name=cluster)
    live = replace(live, held={**live.held, **found.alone})
    silent = frozenset(h.name for h in hosts.values() if h.silent)
    objects = Objects(found.units, hosts, found.left)
    return Picture(
        live, found.seen, now_s, 0.0, settings.timeout_s, cluster, silent, True, objects=objects
    )


def _fields(item: Any, where: str) -> Fields:
    return Fields(item, "", where, None)


def _hold(found: _Reading, pods: Sequence[Pod]) -> None:
    """Subtract the pods' resources from nodes: first of placed pods, then of released ones."""
    by_label = {host.label: host.name for host in found.hosts.values()}
    where = {pod.uid: pod.node or by_label.get(pod.selector.get(HOST, ""), "") for pod in pods}
    holding = [
        pod
        for pod in pods
        if where[pod.uid] in found.hosts and (pod.node or (not pod.gates and pod.let_go_s))
    ]
    known = {pod.uid: found.indices.get(pod.uid) or _planned(pod) for pod in holding}
    found.indices.clear()
    # What was taken to be whose stays so; the rest goes to whoever is left, pods with nodes first.
    for pod in sorted(holding, key=lambda one: (not known[one.uid], not one.node, one.uid)):
        node, left = where[pod.uid], found.left[where[pod.uid]]
        for key, value in pod.needs.items():
            left[key] = left.get(key, 0.0) - value
        free, wanted = found.free[node], known[pod.uid]
        whole = len(wanted) == pod.gpus and set(wanted) <= set(free)
        gpus = wanted if whole else tuple(free[: pod.gpus])
        found.free[node] = [gpu for gpu in free if gpu not in gpus]
        found.given[pod.uid] = node, gpus
        found.indices[pod.uid] = gpus


def _planned(pod: Pod) -> tuple[int, ...]:
    """Return the GPUs in the annotation of a pod."""
    words = pod.plan.split(",")
    return tuple(int(word) for word in words if word.isascii() and word.isdigit())


def _held(found: _Reading, pods: Sequence[Pod]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the GPUs by node that pods hold."""
    parts: dict[str, tuple[int, ...]] = {}
    for pod in pods:
        node, gpus = found.given.get(pod.uid, ("", ()))
        if gpus:
            parts[node] = parts.get(node, ()) + gpus
    return tuple(parts.items())


def _seen(found: _Reading, job: Job) -> Seen:
    """Return the job as the controller sees it."""
    space, phase, gated = job.meta.text("namespace"), job.phase, job.gated
    # The Job controller has not made them yet, and they will wait for us.
    coming = phase == "starting" and job.model.gated and len(job.alive) < job.want
    notes = job.meta.value("annotations", dict[str, str], {})
    late_s = found.time_s - found.settings.launch_s
    return Seen(
        name=f"{space}/{job.meta.text('name')}@{job.meta.text('uid')[:_MOST_UID]}",
        user=space,
        partition=space,
        phase=phase,
        comment=f"{found.settings.mark} {notes.get(SAYS, '')}" if job.opted_in else "",
        mark=f"{OURS}gated" if gated or job.stopped or coming else "",
        held=bool(job.held),
        priority=0.0,
        begin_s=0.0,
        submit_s=instant_of(job.meta, "creationTimestamp"),
        start_s=min((pod.bound_s for pod in job.bound), default=0.0),
        end_s=min(job.end_s, found.time_s),
        requeue=not job.kept,
        restarts=0,
        pinned=(),
        nodes=tuple(sorted({pod.node for pod in job.bound})),
        special=job.special,
        gated=phase == "waiting" or bool(gated),
        # Kueue has carried it out when it holds no quota for it any more.
        back=job.stopped and not job.alive and not job.kueue_says("QuotaReserved"),
        stuck=phase == "starting" and min(job.let_go_s, default=late_s) < late_s,
    )


def _take(found: _Reading, job: Job) -> None:
    """Take in a Job with GPUs or with our gate."""
    alike = job.alike
    if not (alike.gpus or job.opted_in):
        return
    seen = _seen(found, job)
    name = seen.name
    found.seen[name] = seen
    kind, meta = job.stop
    found.units[name] = Unit(
        kind,
        seen.partition,
        meta.text("name"),
        meta.text("resourceVersion"),
        tuple(job.gated),
        job.stopped,
    )
    if not alike.gpus:
        found.alone[name] = seen.special
        return
    timed = job.spec.has("activeDeadlineSeconds")
    base = LiveJob(
        name,
        seen.partition,
        max(1, job.want) * alike.gpus,
        seen.submit_s,
        grain=alike.gpus,
        limit_s=job.spec.number("activeDeadlineSeconds") if timed else None,
    )
    if parts := _held(found, job.pods):
        total, since_s = sum(len(gpus) for _, gpus in parts), seen.start_s or found.time_s
        found.jobs.append(replace(base, gpus=total, grain=1, parts=parts, started_s=since_s))
    waits = replace(base, barred=_barred(found, alike), held=job.held or seen.special)
    if seen.waits:
        found.jobs.append(waits)
    elif job.gated and seen.phase in ("running", "starting"):
        # Pods that are missing: of a start that was cut short, or put in the place of lost ones.
        rest = replace(seen, name=name + REST, phase="waiting", rest=True, stuck=False)
        found.seen[rest.name], found.units[rest.name] = rest, found.units[name]
        found.jobs.append(replace(waits, name=rest.name, gpus=len(job.gated) * alike.gpus))


def _barred(found: _Reading, pod: Pod) -> frozenset[str]:
    """Return the nodes that a job's pod may not use, or that lack resources for it."""
    gpus = gpus_in(pod.needs)
    needs = tuple((key, value) for key, value in pod.needs.items() if key not in gpus)
    like = needs, tuple(gpus), tuple(pod.selector.items()), pod.tolerations
    if like not in found.barred:  # jobs are many, kinds of them few
        found.barred[like] = frozenset(
            name
            for name, host in found.hosts.items()
            if not pod.fits(host)
            or any(host.room.get(key, 0.0) < pod.needs[key] for key in gpus)
            or any(found.left[name].get(key, 0.0) < value for key, value in needs)
        )
    return found.barred[like]


def _other(found: _Reading, pod: Pod) -> None:
    """Take in a pod of no known Job: count its GPUs, or note that it is left alone."""
    name = f"{pod.namespace}/{pod.name}"
    parts = _held(found, [pod])
    if parts:
        gpus, since_s = len(parts[0][1]), pod.bound_s
        block = LiveJob(name, pod.namespace, gpus, since_s, parts=parts, started_s=since_s)
        found.jobs.append(block)
    elif pod.gated and not pod.leaving:
        found.alone[name] = "no Job has it"
