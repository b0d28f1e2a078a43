"""Nodes of admitted workloads, GPUs of other pods, and GPUs that a node lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from morph_opt.core.domain.errors import some
from morph_opt.core.domain.packing import Parts, emptiest_first, tightest
from morph_opt.inputs.kueue.kube import HOST
from morph_opt.round.live.build import LiveJob
from morph_opt.round.live.kueue_jobs import Asked, Running
from morph_opt.round.live.kueue_objects import KueueObjects

_FOREVER_S = 10 * 365 * 86_400.0
"""Time limit of blocks for GPUs that others use or a node lacks."""


def _block(word: str, node: str, gpus: tuple[int, ...], now_s: float) -> LiveJob:
    """Return a job that blocks GPUs of a node for longer than any workload runs."""
    return replace(LiveJob.block(word, node, gpus, now_s), limit_s=_FOREVER_S)


def absent(cluster: KueueObjects, sizes: Mapping[str, int]) -> list[LiveJob]:
    """Return a block per node for the GPUs that it lacks compared with its type.

    Parameters
    ----------
    sizes
        GPUs of the type of each node.
    """
    found: list[LiveJob] = []
    for name, node in cluster.nodes.items():
        rest = tuple(range(node.gpus, sizes[name]))
        if rest:
            found.append(_block("absent", name, rest, cluster.now_s))
    if found:
        words = some([f"{job.gpus} on {job.parts[0][0]}" for job in found])
        cluster.notes.append(f"GPUs that others of the type have are listed as absent: {words}")
    return found


def _taken(cluster: KueueObjects, node: str, gpus: int) -> tuple[int, ...] | None:
    """Take free GPUs of a node; return None if it has too few."""
    free = cluster.free.get(node, [])
    if len(free) < gpus:
        return None
    found, cluster.free[node] = tuple(free[:gpus]), free[gpus:]
    return found


def of_pods(cluster: KueueObjects) -> tuple[list[LiveJob], dict[str, dict[str, int]]]:
    """Return blocks for pods of no admitted workload, and the others' GPUs by workload and node."""
    by_key: dict[str, str] = {}
    for job in cluster.asked:
        if job.admission is not None:
            by_key |= dict.fromkeys((*job.owners, f"workload {job.name}"), job.name)
    known: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    others: dict[str, int] = defaultdict(int)
    for pod in cluster.pods:
        mine = next((by_key[key] for key in sorted(pod.keys) if key in by_key), None)
        if pod.node not in cluster.nodes:
            continue
        if mine is None:
            others[pod.node] += pod.gpus
        else:
            known[mine][pod.node] += pod.gpus
    blocks: list[LiveJob] = []
    for node, gpus in others.items():
        held = _taken(cluster, node, min(gpus, len(cluster.free[node])))
        if held:
            blocks.append(_block("in use", node, held, cluster.now_s))
    return blocks, known


def placed(cluster: KueueObjects, known: Mapping[str, dict[str, int]]) -> list[Running]:
    """Return the admitted workloads on nodes; count the quota of those without nodes.

    First those whose nodes are known, then the others, largest first, as tightly as they fit.

    Parameters
    ----------
    known
        GPUs by workload and node, from pods.
    """
    hosts = {node.labels.get(HOST, name): name for name, node in cluster.nodes.items()}
    held: dict[str, dict[str, tuple[int, ...]]] = {}
    admitted = [job for job in cluster.asked if job.admission is not None]
    with_gpus = [job for job in admitted if job.pods and job.resource]
    for job in with_gpus:
        where = known.get(job.name) or _assigned(job, hosts)
        parts = _on_nodes(cluster, where, job.gpus)
        if parts is not None:
            held[job.name] = parts
    missing = {
        job.name: job.gpus - sum(map(len, held[job.name].values()))
        for job in with_gpus
        if job.name in held
    }
    packed: list[str] = []
    for job in sorted(with_gpus, key=lambda one: (-missing.get(one.name, 0), one.name)):
        if not missing.get(job.name):
            continue
        more = _packed(cluster, job, missing[job.name])
        if more is None:
            _given_back(cluster, held.pop(job.name))
            continue
        packed.append(job.name)
        for node, gpus in more:
            taken = _taken(cluster, node, gpus)
            assert taken is not None
            held[job.name][node] = (*held[job.name].get(node, ()), *taken)
    lost = [job for job in admitted if job.name not in held]
    for job in lost:
        _count(cluster, job)
    if packed:
        cluster.notes.append(
            f"admitted workloads whose nodes no file has are taken to be packed: {some(packed)}"
        )
    if names := [job.name for job in lost if job.pods or job.held]:
        cluster.notes.append(
            f"admitted, and on no node that is known: {some(names)}: left out, with quota kept"
        )
        cluster.passed_over |= dict.fromkeys(names, "is admitted, and on no node that is known")
    return [
        Running(job, job.admission.queue, tuple(held[job.name].items()))
        for job in admitted
        if job.admission is not None and job.name in held
    ]


def _on_nodes(
    cluster: KueueObjects, where: Mapping[str, int], most: int
) -> dict[str, tuple[int, ...]] | None:
    """Take at most ``most`` GPUs by node; return None if a node has too few free ones."""
    parts: dict[str, tuple[int, ...]] = {}
    for node, gpus in where.items():
        taken = _taken(cluster, node, min(gpus, most))
        if taken is None:
            _given_back(cluster, parts)
            return None
        if taken:
            parts[node] = taken
            most -= len(taken)
    return parts


def _given_back(cluster: KueueObjects, parts: Mapping[str, tuple[int, ...]]) -> None:
    """Return GPUs to the free ones of their nodes."""
    for node, gpus in parts.items():
        cluster.free[node] = sorted((*cluster.free[node], *gpus))


def _count(cluster: KueueObjects, job: Asked) -> None:
    """Count the usage of an admitted workload that is not a job of the round."""
    assert job.admission is not None
    for slot, amount in job.admission.usage.items():
        cluster.used[job.admission.queue, slot] += amount


def _assigned(job: Asked, hosts: dict[str, str]) -> dict[str, int]:
    """Return GPUs by node, from a topology assignment that names nodes."""
    found: dict[str, int] = defaultdict(int)
    assert job.admission is not None
    for labels, gpus in job.admission.places:
        host = labels.get(HOST)
        if host is not None:
            found[hosts.get(host, host)] += gpus
    return found


def _packed(cluster: KueueObjects, job: Asked, gpus: int) -> list[tuple[str, int]] | None:
    """Return nodes for an admitted workload whose nodes are unknown; None if none fit."""
    assert job.admission is not None
    flavors = [cluster.queues.flavor(f) for f, r in job.admission.usage if r == job.resource]
    domains = [labels for labels, _ in job.admission.places]
    nodes = list(cluster.nodes.values())
    by_type: dict[str, list[int]] = defaultdict(list)
    for at, node in enumerate(nodes):
        of_flavor = not flavors or any(one.labels.items() <= node.labels.items() for one in flavors)
        in_domain = not domains or any(one.items() <= node.labels.items() for one in domains)
        if node.resource == job.resource and of_flavor and in_domain:
            by_type[node.kind].append(at)
    free = np.asarray([len(cluster.free[node.name]) for node in nodes], dtype=np.int64)
    grain = job.grain if gpus % job.grain == 0 else 1
    for able in by_type.values():
        here = np.asarray(able, dtype=np.int64)
        parts: Parts = tightest(gpus, gpus, free, here) or emptiest_first(gpus, grain, free, here)
        if sum(count for _, count in parts) == gpus:
            return [(nodes[at].name, count) for at, count in parts]
    return None
