"""Objects as ``kubectl get ... -o json`` prints them: Kueue's workloads and queues, nodes.

Kueue admits by quota; which node a pod went to stands in none of these objects. Admitted workloads
are taken to be packed as tightly as they fit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Ints
from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.core.domain.packing import Parts, emptiest_first, tightest
from morph_opt.round.live.build import Live, LiveJob, LiveNode, live_round
from morph_opt.round.live.kube_fields import instant_of, is_ready, meta_of, name_of
from morph_opt.round.snapshot import read_text
from morph_opt.scheduling.decision.rules.model import TenantQuota

KINDS = ("Workload", "Node", "ClusterQueue", "LocalQueue", "ResourceFlavor")
_BARRING = frozenset(("NoSchedule", "NoExecute"))
_PRODUCT = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class _Queue:
    """A cluster queue: its quota of GPUs, what it may borrow (None: anything), its flavors."""

    gpus: int
    borrow: int | None
    cohort: str
    flavors: tuple[str, ...]
    stopped: bool


def read_kueue(files: Sequence[str]) -> Live:
    """The round of these documents, in any order; several may hold objects of one kind.

    Raises
    ------
    InputError
        With file, field and rule.
    """
    found: dict[str, list[Fields]] = {kind: [] for kind in KINDS}
    for file in files:
        document = Fields(parse_json(read_text(file), file), "", file, None)
        listed = document.objects("items", None) if document.given("items") else [document]
        for item in listed:
            kind = item.text("kind")
            if kind not in found:
                raise item.error("kind", f"must be one of {', '.join(KINDS)}, got {kind!r}")
            found[kind].append(item)
    for kind in ("Workload", "Node", "ClusterQueue"):
        if not found[kind]:
            raise InputError(f"no file has an object of kind {kind}", field="--from")
    flavors = {name_of(item): _labels(item) for item in found["ResourceFlavor"]}
    nodes = [node for item in found["Node"] for node in _nodes(item, flavors)]
    queues = {name_of(item): _queue(item) for item in found["ClusterQueue"]}
    local = {
        f"{meta_of(item).text('namespace', 'default')}/{name_of(item)}": item.object(
            "spec", None
        ).text("clusterQueue")
        for item in found["LocalQueue"]
    }
    jobs = [job for item in found["Workload"] for job in _jobs(item, queues, local, bool(flavors))]
    time_s = max(
        [0.0, *(at for job in jobs for at in (job.submit_s, job.started_s) if at is not None)]
    )
    placed, lost = _packed(nodes, jobs)
    notes = [
        "admitted workloads are taken to be packed: nodes of pods are not in these objects",
        "CPUs and memory are not looked at",
        f"{len(found['Workload'])} workloads, {len(jobs)} with GPUs that run or wait",
        *(f"{name} is admitted and fits nowhere: left out" for name in lost),
    ]
    if len({queue.cohort for queue in queues.values() if queue.cohort}) > 1:
        notes.append("queues borrow across cohorts here, in Kueue within one")
    quotas = _quotas(queues, placed, notes)
    return found["Workload"][0].built(
        lambda: live_round(nodes, placed, time_s, notes, quotas, "kueue")
    )


def _labels(flavor: Fields) -> dict[str, str]:
    return flavor.object("spec", None, {}).value("nodeLabels", dict[str, str], {})


def _gpus(table: Fields, most: int = MOST_GPUS) -> int:
    """GPUs among the resources of a table: those of every vendor."""
    total = 0
    for key in table:
        if not key.endswith("/gpu"):
            continue
        value = table.raw(key)
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 12:
            raise table.error(key, f"must be a whole number, got {str(value)[:40]!r}")
        total += int(text)
    if total > most:
        raise table.error(None, f"must be at most {most} GPUs, got {total}")
    return total


def _nodes(item: Fields, flavors: dict[str, dict[str, str]]) -> Iterator[LiveNode]:
    """The node if it has GPUs."""
    status, spec = item.object("status", None, {}), item.object("spec", None, {})
    table = status.object("allocatable" if status.has("allocatable") else "capacity", None, {})
    gpus = _gpus(table, MOST_GPUS_PER_NODE)
    if not gpus:
        return
    labels = meta_of(item).value("labels", dict[str, str], {})
    # GPU nodes are often tainted for GPU jobs alone; such a taint names the resource.
    barred = any(
        taint.text("effect", "") in _BARRING and not taint.text("key", "").endswith("/gpu")
        for taint in spec.objects("taints", None, [])
    )
    groups = {name for name, wanted in flavors.items() if wanted.items() <= labels.items()}
    usable = is_ready(item) and not barred and not spec.flag("unschedulable", False)
    yield LiveNode(name_of(item), labels.get(_PRODUCT, ""), gpus, usable, frozenset(groups))


def _queue(item: Fields) -> _Queue:
    spec = item.object("spec", None)
    gpus, limit, names = 0, 0, []
    unlimited = False
    for group in spec.objects("resourceGroups", None, []):
        for flavor in group.objects("flavors", None, []):
            for resource in flavor.objects("resources", None, []):
                key = resource.text("name")
                if not key.endswith("/gpu"):
                    continue
                names.append(flavor.text("name"))
                gpus += _gpus(Fields({key: resource.raw("nominalQuota")}, key, None, None))
                if resource.has("borrowingLimit"):
                    most = {key: resource.raw("borrowingLimit")}
                    limit += _gpus(Fields(most, key, None, None))
                else:
                    unlimited = True
    cohort = spec.text("cohort", "") or spec.text("cohortName", "")
    borrow = None if unlimited and cohort else limit if cohort else 0
    stopped = spec.text("stopPolicy", "None") != "None"
    return _Queue(gpus, borrow, cohort, tuple(names), stopped)


def _jobs(
    item: Fields, queues: dict[str, _Queue], local: dict[str, str], by_flavor: bool
) -> Iterator[LiveJob]:
    """The job of a workload that runs or waits and asks for GPUs."""
    meta, spec = meta_of(item), item.object("spec", None)
    status = item.object("status", None, {})
    conditions = {
        condition.text("type"): condition for condition in status.objects("conditions", None, [])
    }
    true = {kind for kind, one in conditions.items() if one.text("status") == "True"}
    sets = [_pod_set(one) for one in spec.objects("podSets", None)]
    asked = [(count, gpus) for count, gpus in sets if gpus and count]
    if "Finished" in true or not asked:
        return
    name = f"{meta.text('namespace', 'default')}/{meta.text('name')}"
    admitted = status.has("admission") and bool(true & {"Admitted", "QuotaReserved"})
    queue = _queue_of(item, queues, local, admitted)
    gpus = sum(count * each for count, each in asked)
    started_s = None
    if admitted:
        used = status.object("admission", None).objects("podSetAssignments", None, [])
        gpus = sum(_gpus(one.object("resourceUsage", None, {})) for one in used) or gpus
        since = conditions["Admitted" if "Admitted" in true else "QuotaReserved"]
        started_s = instant_of(since, "lastTransitionTime")
    held = ""
    if not spec.flag("active", True):
        held = "it is not active"
    elif queues[queue].stopped:
        held = f"its cluster queue {queue} is stopped"
    yield LiveJob(
        name,
        queue,
        gpus,
        instant_of(meta, "creationTimestamp"),
        grain=math.gcd(gpus, *(each for _, each in asked)),
        groups=queues[queue].flavors if by_flavor else (),
        started_s=started_s,
        held=held,
    )


def _pod_set(row: Fields) -> tuple[int, int]:
    """Pods of a set, and GPUs of each: requests, limits where requests are missing."""
    spec = row.object("template", None).object("spec", None)

    def asked(container: Fields) -> int:
        resources = container.object("resources", None, {})
        return _gpus(resources.object("requests", None, {})) or _gpus(
            resources.object("limits", None, {})
        )

    # Init containers run one after the other before the others: the largest counts, not the sum.
    first = max((asked(one) for one in spec.objects("initContainers", None, [])), default=0)
    both = sum(asked(one) for one in spec.objects("containers", None))
    return row.whole("count", 1, least=0, most=MOST_GPUS), max(first, both)


def _queue_of(
    item: Fields, queues: dict[str, _Queue], local: dict[str, str], admitted: bool
) -> str:
    """The cluster queue of a workload."""
    if admitted:
        name = item.object("status", None).object("admission", None).text("clusterQueue")
    else:
        queue = item.object("spec", None).text("queueName", "")
        space = meta_of(item).text("namespace", "default")
        name = local.get(f"{space}/{queue}", queue if not local else "")
        if not local and len(queues) == 1:
            (name,) = queues
        elif name not in queues:
            rule = f"local queue {queue!r} is in no file: give kubectl get localqueues -A -o json"
            raise item.error("spec.queueName", rule)
    if name not in queues:
        raise item.error("status.admission.clusterQueue", f"there is no cluster queue {name!r}")
    return name


def _packed(nodes: Sequence[LiveNode], jobs: Iterable[LiveJob]) -> tuple[list[LiveJob], list[str]]:
    """The jobs with places for those that run, largest first; and those that fit nowhere."""
    free = np.asarray([node.gpus for node in nodes], dtype=np.int64)
    placed: list[LiveJob] = []
    lost: list[str] = []
    for job in sorted(jobs, key=lambda one: -one.gpus):
        if job.started_s is None:
            placed.append(job)
            continue
        by_type: dict[str, list[int]] = defaultdict(list)
        for at, node in enumerate(nodes):
            if not job.groups or node.groups & set(job.groups):
                by_type[node.gpu_type].append(at)
        parts = next(filter(None, (_places(job, own, free) for own in by_type.values())), None)
        if parts is None:
            lost.append(job.name)
            continue
        held = []
        for at, gpus in parts:
            first = nodes[at].gpus - int(free[at])
            held.append((nodes[at].name, tuple(range(first, first + gpus))))
            free[at] -= gpus
        placed.append(replace(job, parts=tuple(held)))
    return placed, lost


def _places(job: LiveJob, nodes: Sequence[int], free: Ints) -> Parts | None:
    """GPUs on nodes for one job: the fullest node that takes all of it, else the emptiest first."""
    able = np.asarray(nodes, dtype=np.int64)
    parts = tightest(job.gpus, job.gpus, free, able) or emptiest_first(
        job.gpus, job.grain, free, able
    )
    return parts if sum(gpus for _, gpus in parts) == job.gpus else None


def _quotas(
    queues: dict[str, _Queue], jobs: Iterable[LiveJob], notes: list[str]
) -> list[TenantQuota]:
    """Quotas of the queues; one that is overdrawn is what it holds, so that the round exists."""
    used: dict[str, int] = defaultdict(int)
    for job in jobs:
        if job.started_s is not None:
            used[job.tenant] += job.gpus
    found = []
    for name, queue in queues.items():
        most = None if queue.borrow is None else queue.gpus + queue.borrow
        gpus = queue.gpus
        if most is not None and used[name] > most:
            gpus = used[name]
            notes.append(f"cluster queue {name} holds {gpus} GPUs, its quota is {most}")
        found.append(TenantQuota(name, gpus, queue.borrow))
    return found
