"""Reasons for which Kueue would not start a workload even on an empty cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from morph_opt.round.live.kueue_jobs import Asked
from morph_opt.round.live.kueue_objects import KueueObjects
from morph_opt.round.live.kueue_queues import USUAL, Queue, allowed_spaces

_SPACES = "kubectl get namespaces -o json"


def with_reason(cluster: KueueObjects, job: Asked) -> Asked:
    """Return a waiting workload, held back with a reason if Kueue would never start it."""
    if job.held:
        return job
    name = cluster.queue_of(job)
    if not name:
        return replace(job, held=_without_queue(cluster, job), passed=True)
    local = cluster.queues.local.get(job.local)
    away = (local.away if local is not None else "") or cluster.queues.away(name)
    if away:
        return replace(job, held=away, passed=True)
    queue = cluster.queues.queues[name]
    if reason := _barred_space(cluster, queue, job.name.partition("/")[0]):
        return replace(job, held=reason, passed=True)
    missing = [one for one in job.amounts if queue.group_of(one) is None]
    if strange := [one for one in missing if one not in USUAL]:
        return replace(job, held=f"its cluster queue {name} covers no {', '.join(strange)}")
    if usual := [one for one in missing if one != "pods"]:
        _noted(
            cluster,
            f"cluster queue {name} covers no {', '.join(usual)}, which its workloads ask for: "
            "unless Kueue is told to leave them out, they wait",
        )
    return job


def _without_queue(cluster: KueueObjects, job: Asked) -> str:
    """Return why a workload has no cluster queue."""
    label = job.local.partition("/")[2]
    if not label:
        return "it names no local queue"
    local = cluster.queues.local.get(job.local)
    if local is not None:
        return f"its local queue {label} is of {local.queue}, which is in no file"
    return f"its local queue {label} is in no file: kubectl get localqueues -A -o json"


def _barred_space(cluster: KueueObjects, queue: Queue, space: str) -> str:
    """Return why workloads of a namespace may not use a queue; "" if they may or if unknown."""
    allowed = allowed_spaces(queue, cluster.spaces, space)
    if allowed == "unknown":
        _noted(
            cluster,
            f"namespaces that cluster queue {queue.name} selects: not known, give {_SPACES}",
        )
    if allowed != "no":
        return ""
    return f"namespace {space} is not one that its cluster queue {queue.name} selects"


def _noted(cluster: KueueObjects, note: str) -> None:
    if note not in cluster.notes:
        cluster.notes.append(note)


def in_order(cluster: KueueObjects, waiting: Sequence[Asked]) -> list[Asked]:
    """Return the workloads, held back if an earlier one blocks their StrictFIFO queue.

    Parameters
    ----------
    waiting
        By priority and time.
    """
    blocked: dict[str, str] = {}
    found: list[Asked] = []
    for job in waiting:
        name, reason = cluster.queue_of(job), job.held
        if name and cluster.queues.queues[name].strict:
            if job.held and not job.passed:
                blocked.setdefault(name, job.name)
            elif not job.held and name in blocked:
                reason = f"waits for {blocked[name]}, which is before it in its StrictFIFO queue"
        found.append(replace(job, held=reason))
    return found
