"""Plans: when each job starts, how and where, with the GPUs of every node in every round.

A plan stops no job: from its start to its end a job keeps one configuration. It respects the
engine's clock: jobs start at boundaries, are charged a start-up, and hold their GPUs until the
first boundary that is not before their end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import Floats
from morph_opt.decision.candidates.table import CandidateBuilder
from morph_opt.domain import Cluster, Trace
from morph_opt.engine.config import ReplayConfig
from morph_opt.perf.speed import SpeedModel

SOON = 96
"""Starts, in rounds after the first, that are looked at before more are."""


@dataclass(frozen=True, slots=True)
class Way:
    """A configuration of a job, from start to end.

    Parameters
    ----------
    parts
        GPUs per node, largest first.
    duration_s
        Start-up and all iterations.
    rounds
        For which it holds its GPUs.
    node_class
        Where.
    needs
        Pairs of GPUs and the nodes that must have as many: parts fit if all of these are met.
    """

    parts: tuple[int, ...]
    duration_s: float
    rounds: int
    node_class: int
    needs: tuple[tuple[int, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        needs = tuple((p, sum(q >= p for q in self.parts)) for p in sorted(set(self.parts)))
        object.__setattr__(self, "needs", needs)

    @property
    def gpus(self) -> int:
        """In all."""
        return sum(self.parts)


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be planned.

    Parameters
    ----------
    release
        First round of each job, shape (J,).
    submission_s
        Shape (J,).
    ways
        Of each job, fewest GPUs first, more only where they are faster.
    capacity, node_class
        GPUs and class of each node.
    interval_s
        Length of a round.
    """

    release: NDArray[np.int64]
    submission_s: Floats
    ways: tuple[tuple[Way, ...], ...]
    capacity: NDArray[np.int64]
    node_class: NDArray[np.int64]
    interval_s: float

    @classmethod
    def of(cls, trace: Trace, cluster: Cluster, speeds: SpeedModel, config: ReplayConfig) -> Work:
        """The jobs of a trace with the fastest shape of each GPU count, class by class."""
        builder = CandidateBuilder(speeds, prune=False)
        submission_s = np.asarray([job.submission_s for job in trace.jobs])
        release = [config.boundary_at_or_after(at_s) for at_s in submission_s.tolist()]
        kinds = list(cluster.node_types)
        ways = []
        for job in trace.jobs:
            rows = builder.all_of(job, cluster)
            ends = np.cumsum(rows.part_count)
            startup_s = config.first_start_of(job.model)
            duration_s = startup_s + job.iterations * rows.iteration_s
            first: dict[tuple[int, int], Way] = {}
            for row in np.argsort(duration_s, kind="stable").tolist():
                parts = rows.part_gpus[ends[row] - rows.part_count[row] : ends[row]]
                held = math.ceil(duration_s[row] / config.interval_s - 1e-9)
                way = Way(
                    tuple(parts.tolist()), float(duration_s[row]), held, int(rows.node_class[row])
                )
                first.setdefault((way.node_class, way.gpus), way)
            ways.append(_useful(first.values()))
        return cls(
            np.asarray(release, dtype=np.int64),
            submission_s,
            tuple(ways),
            np.asarray([node.type.gpus for node in cluster.nodes]),
            np.asarray([kinds.index(node.type) for node in cluster.nodes]),
            config.interval_s,
        )

    @property
    def floor_s(self) -> Floats:
        """Earliest end of each job, alone on the cluster."""
        least = [min(way.duration_s for way in ways) for ways in self.ways]
        floor: Floats = self.release * self.interval_s + np.asarray(least)
        return floor


def _useful(ways: Sequence[Way]) -> tuple[Way, ...]:
    """Without those that need no fewer GPUs of their class than a faster one."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda w: (w.node_class, w.gpus)):
        last = kept[-1] if kept and kept[-1].node_class == way.node_class else None
        if last is None or way.duration_s < last.duration_s:
            kept.append(way)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Entry:
    """A job in a plan: its first round, its way, the node of each part."""

    start: int
    way: int
    nodes: tuple[int, ...]


class Plan:
    """Entries of jobs, and the GPUs that they leave free.

    Parameters
    ----------
    work
        What is planned.
    rounds
        For how many; all of it must fit.
    """

    def __init__(self, work: Work, rounds: int) -> None:
        self.work = work
        self.entries: list[Entry | None] = [None] * len(work.ways)
        self.end_s = work.floor_s.copy()
        self._free = np.repeat(work.capacity[:, None], rounds, axis=1).astype(np.int16)
        self._of_class = {
            int(kind): np.flatnonzero(work.node_class == kind) for kind in set(work.node_class)
        }

    @property
    def rounds(self) -> int:
        """For how many rounds it is."""
        return int(self._free.shape[1])

    @property
    def mean_s(self) -> float:
        """Mean completion time; of jobs that are not in it, their floor."""
        return float((self.end_s - self.work.submission_s).mean())

    def earliest(self, way: Way, since: int, before: int) -> int | None:
        """First round, from ``since`` and below ``before``, in which a way fits to its end."""
        free = self._free[self._of_class[way.node_class]]
        span, first = SOON, since
        while first < before:
            last = min(first + span, before, self.rounds - way.rounds + 1)
            if last <= first:
                return None
            window = free[:, first : last + way.rounds - 1]
            fits = np.ones(last - first, dtype=bool)
            for part, nodes in way.needs:
                short = np.zeros((window.shape[0], window.shape[1] + 1), dtype=np.int32)
                np.cumsum(window < part, axis=1, out=short[:, 1:])
                clear = short[:, way.rounds :] == short[:, : -way.rounds]
                fits &= clear.sum(axis=0) >= nodes
            found = int(fits.argmax())
            if fits[found]:
                return first + found
            first, span = last, 2 * span
        return None

    def put(self, job: int, way: int, start: int) -> None:
        """Enter a job where it fits, on the nodes that have least to spare."""
        chosen = self.work.ways[job][way]
        mine = self._of_class[chosen.node_class]
        spare = self._free[mine, start : start + chosen.rounds].min(axis=1)
        nodes: list[int] = []
        for part in chosen.parts:
            fitting = [(int(spare[i]), int(n)) for i, n in enumerate(mine) if spare[i] >= part]
            nodes.append(min(pair for pair in fitting if pair[1] not in nodes)[1])
        self.enter(job, Entry(start, way, tuple(nodes)))

    def enter(self, job: int, entry: Entry) -> None:
        """Enter a job exactly so."""
        way = self.work.ways[job][entry.way]
        held = slice(entry.start, entry.start + way.rounds)
        for part, node in zip(way.parts, entry.nodes, strict=True):
            self._free[node, held] -= part
        self.entries[job] = entry
        self.end_s[job] = entry.start * self.work.interval_s + way.duration_s

    def remove(self, job: int) -> Entry:
        """Take a job out."""
        entry = self.entries[job]
        assert entry is not None
        way = self.work.ways[job][entry.way]
        held = slice(entry.start, entry.start + way.rounds)
        for part, node in zip(way.parts, entry.nodes, strict=True):
            self._free[node, held] += part
        self.entries[job] = None
        return entry
