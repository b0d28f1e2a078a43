"""Places where jobs of a log ran, and may run, on a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from morph_opt.audit.recorded import Held, Recorded, RecordedJob
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.packing import Parts, emptiest_first, tightest

Free = npt.NDArray[np.int64]


class Places:
    """Cluster as the log describes it.

    Parameters
    ----------
    recorded
        The log; names of its nodes are those of the cluster, or of equal nodes in the same number.
    cluster
        Cluster of the log.

    Raises
    ------
    InputError
        If a job ran on a node that the cluster does not have.
    """

    def __init__(self, recorded: Recorded, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notes: list[str] = []
        self.size = np.asarray([node.type.gpus for node in cluster.nodes], dtype=np.int64)
        self.index = self._index(recorded)
        self._nodes_of = self._learned(recorded)
        types = {kind.name.lower(): kind.name for kind in cluster.gpu_types}
        asked = {job.gpu_type.lower() for job in recorded.jobs if job.gpu_type}
        self._types = {
            one: next((full for low, full in types.items() if low.startswith(one)), None)
            for one in asked
        }
        if unknown := sorted(one for one, full in self._types.items() if full is None):
            self.notes.append(f"GPU types of the log that the cluster does not have: {unknown}")
        self._by_type = {
            name: np.asarray([n.type.gpu_type.name == name for n in cluster.nodes])
            for name in types.values()
        }
        self._tell(recorded.placed)

    def _tell(self, placed: float) -> None:
        if placed == 1.0:
            return
        self.notes.append(
            "the log does not say on which nodes jobs ran: they are taken to be packed, so what "
            "was scattered is not seen"
            if placed == 0.0
            else f"{100 * placed:.1f} % of the stints name their nodes, the others are packed"
        )

    def _index(self, recorded: Recorded) -> dict[str, int]:
        """Return the index of each node by its name in the log."""
        names = {host for job in recorded.jobs for one in job.intervals for host, _ in one.hosts}
        known = self.cluster.node_index
        if names <= set(known):
            return dict(known)
        kinds = {node.type for node in self.cluster.nodes}
        if names & set(known) or len(kinds) > 1 or len(names) > len(known):
            stranger = min(names - set(known))
            rule = f"a job ran on {stranger!r}, cluster {self.cluster.name!r} has no such node"
            raise InputError(rule, field="--cluster")
        self.notes.append("nodes of the log are those of the cluster in order of their names")
        return {name: at for at, name in enumerate(sorted(names))}

    def _learned(self, recorded: Recorded) -> dict[str, frozenset[int]]:
        """Return the nodes on which each partition's jobs ran; empty unless they differ."""
        found: dict[str, set[int]] = defaultdict(set)
        if recorded.placed == 1.0 and recorded.cluster is None:
            for job in recorded.jobs:
                for one in job.intervals:
                    found[job.partition] |= {self.index[host] for host, _ in one.hosts}
        if len(found) < 2:
            return {}
        self.notes.append("nodes of a partition are those that its jobs ran on")
        return {name: frozenset(nodes) for name, nodes in found.items() if nodes}

    # ------------------------------------------------------------ where a job may run

    def partition_of(self, job: RecordedJob) -> str | None:
        """Return the partition that limits a job; None for none."""
        return job.partition if job.partition in self._nodes_of else None

    def type_of(self, job: RecordedJob) -> str | None:
        """Return the GPU type that limits a job, as the cluster names it; None for none."""
        if job.gpu_type is None or len(self._by_type) == 1:
            return None
        return self._types[job.gpu_type.lower()]

    def groups_of(self, node: int) -> frozenset[str]:
        """Return the partitions of a node."""
        return frozenset(name for name, nodes in self._nodes_of.items() if node in nodes)

    def per_node(self, job: RecordedJob) -> int | None:
        """Return the GPUs that a job asks for on every node; None for the fewest nodes."""
        if job.nodes is None or job.gpus % job.nodes:
            return None
        return job.gpus // job.nodes

    def _able(self, job: RecordedJob) -> npt.NDArray[np.bool_]:
        able = np.ones(self.size.size, dtype=bool)
        partition, kind = self.partition_of(job), self.type_of(job)
        if partition is not None:
            able[:] = False
            able[list(self._nodes_of[partition])] = True
        return able if kind is None else able & self._by_type[kind]

    # ------------------------------------------------------------ taking GPUs

    def take(self, job: RecordedJob, free: Free) -> bool:
        """Take a job's GPUs from the free ones, tightly; return whether they fit."""
        able = np.flatnonzero(self._able(job))
        per_node = self.per_node(job)
        for name in self._by_type:
            mine = able[self._by_type[name][able]]
            if not mine.size:
                continue
            each = per_node or min(job.gpus, int(self.size[mine].max()))
            parts = tightest(job.gpus, each, free, mine)
            if parts is not None:
                _remove(parts, free)
                return True
        return False

    def pack(self, job: RecordedJob, one: Held, free: Free) -> int:
        """Take the GPUs that a job holds, tightly if possible; return the number missing.

        A component of a job holds fewer than the job asked for.
        """
        if one.gpus != job.gpus:
            job = replace(job, gpus=one.gpus, nodes=None)
        if self.take(job, free):
            return 0
        parts = emptiest_first(one.gpus, 1, free, np.arange(free.size))
        _remove(parts, free)
        return one.gpus - sum(part for _, part in parts)


def _remove(parts: Parts, free: Free) -> None:
    for node, part in parts:
        free[node] -= part


def free_gpus(places: Places, held: Sequence[tuple[RecordedJob, Held]]) -> tuple[Free, int]:
    """Return the free GPUs by node, and how many more GPUs are held than the nodes have.

    Their sum with what the nodes have at work is what is held: ``sum(held) + sum(free) =
    capacity + missing``.
    """
    free = places.size.copy()
    splits: dict[int, list[dict[int, int]]] = defaultdict(list)
    for _, one in held:
        share = {places.index[host]: gpus for host, gpus in one.hosts}
        for node, gpus in share.items():
            free[node] -= gpus
            if one.split:
                splits[node].append(share)
    stuck: set[int] = set()
    for node in np.flatnonzero(free < 0).tolist():
        while free[node] < 0 and _moved(node, splits, free, stuck):
            pass
    missing = int(-free[free < 0].sum())
    free = np.maximum(free, 0)
    unknown = [(job, one) for job, one in held if not one.hosts]
    for job, one in sorted(unknown, key=lambda both: -both[1].gpus):
        missing += places.pack(job, one, free)
    return free, missing


def _moved(
    node: int, splits: Mapping[int, Sequence[dict[int, int]]], free: Free, stuck: set[int]
) -> bool:
    """Move GPUs of jobs on several nodes off an overfull node; return whether that is possible.

    An augmenting path: a job has some fewer on one of its nodes (one at least stays) and more on
    another, from which the next job takes them further, up to a node with free ones. Where there is
    no path, none of the nodes that were reached ever has one: later paths leave them as they are.
    """
    came: dict[int, tuple[int, dict[int, int]]] = {}
    reached = [node]
    for at in reached:
        for share in splits.get(at, ()):
            if share[at] < 2:
                continue
            for other in share:
                if other == node or other in came or other in stuck:
                    continue
                came[other] = at, share
                reached.append(other)
                if free[other] > 0:
                    _shift(other, node, came, free)
                    return True
    stuck.update(reached)
    return False


def _shift(
    last: int, node: int, came: Mapping[int, tuple[int, dict[int, int]]], free: Free
) -> None:
    """Move one GPU along the path to the last node."""
    path = []
    at = last
    while at != node:
        before, share = came[at]
        path.append((before, share, at))
        at = before
    for before, share, to in path:
        share[before] -= 1
        share[to] += 1
    free[node] += 1
    free[last] -= 1
