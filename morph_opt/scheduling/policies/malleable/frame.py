"""Base of the malleable heuristics: keep jobs that have what they want, then place the others.

Every policy here returns a wanted configuration per job (`Want`); the rest is common, so that they
differ in nothing else. A job that runs in its wanted configuration stays, at no cost. The others
take, most GPUs first, the tightest candidate that fits. If none fits, a running job keeps its GPUs,
and others take the largest smaller count that fits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.slices import ModelSlice
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.policies.base import Decision, shortfall_of
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy


@dataclass(frozen=True, slots=True)
class Want:
    """Wanted configuration of a job.

    Parameters
    ----------
    gpus
        Number of GPUs.
    node_class
        Required node class; None for any.
    parts
        GPUs per node, largest first; None for any.
    """

    gpus: int
    node_class: int | None = None
    parts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """Configuration of a job: its row in the job's slice, and its properties."""

    row: int
    gpus: int
    node_class: int
    parts: tuple[int, ...]
    iteration_s: float

    def is_in(self, want: Want) -> bool:
        """Return whether the configuration is the wanted one."""
        return (
            self.gpus == want.gpus
            and want.node_class in (None, self.node_class)
            and want.parts in (None, self.parts)
        )


class JobWays:
    """Configurations of a model: tightest first, then fastest.

    Parameters
    ----------
    slice_
        All of them.
    """

    def __init__(self, slice_: ModelSlice) -> None:
        ends = np.cumsum(slice_.part_count)
        ways = [
            Way(
                k,
                int(slice_.gpus[k]),
                int(slice_.node_class[k]),
                tuple(slice_.part_gpus[end - count : end].tolist()),
                float(slice_.iteration_s[k]),
            )
            for k, (end, count) in enumerate(zip(ends, slice_.part_count, strict=True))
        ]
        self.ways = sorted(ways, key=lambda way: (len(way.parts), way.iteration_s, way.row))
        self._best = self.fastest(lambda way: way.gpus)
        self.counts = sorted(self._best)
        """GPU counts with a configuration, ascending."""

    def fastest(self, key: Callable[[Way], int]) -> dict[int, float]:
        """Return the least seconds per iteration for each value of a key of configurations."""
        found: dict[int, float] = {}
        for way in self.ways:
            found[key(way)] = min(found.get(key(way), np.inf), way.iteration_s)
        return found

    def iteration_s(self, gpus: int) -> float:
        """Return the least seconds per iteration on exactly these GPUs; infinite if none."""
        return self._best.get(gpus, np.inf)

    def next_count(self, gpus: int) -> int | None:
        """Return the next larger GPU count."""
        return next((count for count in self.counts if count > gpus), None)


class MalleableBaseline(FillingPolicy):
    """Base class of the malleable heuristics; see the module.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    """

    requests_only = False

    def __init__(self, belief: SpeedModel) -> None:
        super().__init__(belief)
        self._ways: dict[int, tuple[ModelSlice, JobWays]] = {}
        self.now_s = 0.0
        self._short = (0, 0.0)

    def decide(self, state: RoundState) -> Decision:
        """Decide the round and count broken promises."""
        self.now_s = state.time_s
        decision = super().decide(state)
        count, missing = self._short
        report = replace(decision.report, guarantees_short=count, guarantee_shortfall=missing)
        return replace(decision, report=report)

    def ways(self, view: RoundView, job: int) -> JobWays:
        """Return the configurations of a job; computed once per model."""
        slice_ = view.slices[job]
        # The slice is kept with its ways, so that no other object can get its id.
        known = self._ways.get(id(slice_))
        if known is None:
            known = self._ways[id(slice_)] = (slice_, JobWays(slice_))
        return known[1]

    def fill(self, filling: Filling) -> None:
        """Keep and place the configurations that the policy wants."""
        jobs = range(filling.problem.jobs.count)
        ways = [self.ways(filling.view, job) for job in jobs]
        serve(filling, ways, self.wants(filling, ways))
        self._short = shortfall_of(filling.problem, filling.selection())

    @abstractmethod
    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted configuration of each job; None if it should wait."""


def held_by(filling: Filling) -> list[Way | None]:
    """Return the configuration that each running job holds, as a `Way` without a row."""
    view, nodes = filling.view, filling.problem.nodes
    found: list[Way | None] = []
    for state in view.states:
        if state.running is None:
            found.append(None)
            continue
        placement = state.running.placement
        kind = int(nodes.node_class[placement.nodes[0]])
        pace = float(filling.problem.jobs.stay_iteration_s[len(found)])
        found.append(Way(-1, placement.gpus, kind, placement.shape.parts, pace))
    return found


def open_gpus(filling: Filling) -> int:
    """Return the number of assignable GPUs, including those still held on drained nodes."""
    nodes, holds = filling.problem.nodes, filling.problem.holds
    free = float(nodes.capacity[nodes.node_class, 0][nodes.open].sum())
    return round(free + float(holds.demand[~nodes.open[holds.node], 0].sum()))


def serve(filling: Filling, ways: list[JobWays], wants: list[Want | None]) -> None:
    """Keep jobs that hold what they want, then place the others, most GPUs first."""
    view, held = filling.view, held_by(filling)
    moved = []
    for job, want in enumerate(wants):
        now = held[job]
        if want is None or (now is not None and now.is_in(want) and filling.keep(job)):
            continue
        moved.append(
            (-want.gpus, view.states[job].job.submission_s, view.states[job].job.name, job)
        )
    for *_, job in sorted(moved):
        want = wants[job]
        assert want is not None
        if _start(filling, ways[job], job, want) or (held[job] is not None and filling.keep(job)):
            continue
        for count in reversed(ways[job].counts):
            smaller = Want(count, want.node_class)
            if count < want.gpus and _start(filling, ways[job], job, smaller):
                break


def _start(filling: Filling, ways: JobWays, job: int, want: Want) -> bool:
    first = int(filling.view.offset[job])
    return filling.start(job, [first + way.row for way in ways.ways if way.is_in(want)])
