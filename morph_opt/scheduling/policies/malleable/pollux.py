"""Pollux in the round engine, with its fitness maximised by search or exactly over counts."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.tolerances import SMALLEST
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.filling import Filling
from morph_opt.scheduling.policies.malleable.frame import (
    JobWays,
    MalleableBaseline,
    Want,
    held_by,
    open_gpus,
)
from morph_opt.scheduling.policies.malleable.pollux_rule import Budget, PolluxRound, Search
from morph_opt.scheduling.policies.published import POLLUX


class PolluxPolicy(MalleableBaseline):
    """Common base: nodes of one class, fair shares, and prices of changes.

    The batch is fixed, so goodput is speed: the value of a configuration is the time per iteration
    on a fair share of GPUs (the largest count not above it) over its own.
    """

    def fair_s(self, filling: Filling, ways: list[JobWays]) -> list[float]:
        """Return seconds per iteration of each job on its fair share; 0 for a job without any.

        Raises
        ------
        InputError
            If the nodes are of several classes, which Pollux' fitness does not support.
        """
        if filling.problem.nodes.classes > 1:
            rule = f"policy {self.name!r} knows nodes of one type only"
            raise InputError(rule, field="--policy")
        fair = -(-open_gpus(filling) // max(1, len(ways)))
        found = []
        for known in ways:
            count = max(
                (c for c in known.counts if c <= fair), default=min(known.counts, default=0)
            )
            found.append(known.iteration_s(count) if count else 0.0)
        return found

    def kept(self, filling: Filling) -> Floats:
        """Return the part of a job's value left after a change, shape (J,)."""
        states = filling.view.states
        age = np.asarray([max(0.0, self.now_s - s.job.submission_s) for s in states])
        restarts = np.asarray([float(max(0, s.starts - 1)) for s in states])
        cost = np.asarray([s.restart_s for s in states])
        factor: Floats = np.maximum(0.0, age - cost * restarts) / np.maximum(age + cost, SMALLEST)
        return factor


class PolluxSearch(PolluxPolicy):
    """Policy ``pollux``: the published genetic search, from the running state, with a budget.

    The repair without its defect, then rows cut down to shapes that the job can run in.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    budget
        Budget of the search.
    """

    name = "pollux"

    def __init__(self, belief: SpeedModel, budget: Budget | None = None) -> None:
        super().__init__(belief)
        self._budget = budget or Budget()

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted GPUs of each job; see `MalleableBaseline.wants`."""
        if not ways:
            return []
        nodes = filling.problem.nodes
        size = nodes.capacity[nodes.node_class, 0].round().astype(np.int64)
        task = PolluxRound(
            self._relative(filling, ways, int(size.sum())),
            self._current(filling),
            np.where(nodes.open, size, 0),
            np.asarray([max(known.counts, default=0) for known in ways], dtype=np.int64),
            self.kept(filling),
        )
        order = self._order(filling)
        snap = PossibleRows([ways[job] for job in order], int(size.max()))
        found = Search(_ordered(task, order), self._budget, snap).run()
        wants: list[Want | None] = [None] * len(ways)
        for row, job in zip(found, order, strict=True):
            if row.any():
                parts = tuple(sorted(row[row > 0].tolist(), reverse=True))
                wants[job] = Want(int(row.sum()), None, parts)
        return wants

    def _order(self, filling: Filling) -> list[int]:
        """Return jobs by attained service, then submission."""
        states = filling.view.states
        return sorted(
            range(len(states)), key=lambda j: (states[j].attained_gpu_s, states[j].job.submission_s)
        )

    def _current(self, filling: Filling) -> Ints:
        problem = filling.problem
        found = np.zeros((problem.jobs.count, problem.nodes.count), dtype=np.int64)
        gpus = problem.holds.demand[:, 0].round().astype(np.int64)
        found[problem.holds.job, problem.holds.node] = gpus
        return found

    def _relative(self, filling: Filling, ways: list[JobWays], total: int) -> Floats:
        fair_s = self.fair_s(filling, ways)
        found = np.zeros((len(ways), filling.problem.nodes.count + 1, total + 1))
        for job, known in enumerate(ways):
            for way in known.ways:
                at = (job, len(way.parts), way.gpus)
                found[at] = max(found[at], fair_s[job] / way.iteration_s)
        return found


def _ordered(task: PolluxRound, order: list[int]) -> PolluxRound:
    return PolluxRound(
        task.relative[order], task.current[order], task.capacity, task.most[order], task.kept[order]
    )


class PossibleRows:
    """Function that cuts rows of states down to the next smaller shape that the job can run in.

    Parameters
    ----------
    ways
        Configurations of the jobs, in the order of the rows.
    largest
        GPUs of the largest node.
    """

    def __init__(self, ways: list[JobWays], largest: int) -> None:
        self._shapes = [
            sorted({way.parts for way in known.ways}, key=lambda p: (-sum(p), len(p)))
            for known in ways
        ]
        self._base = largest + 1
        self._known: list[dict[tuple[int, ...], tuple[int, ...]]] = [{} for _ in ways]

    def __call__(self, states: Ints) -> Ints:
        """Return the states with possible rows only."""
        found = states.copy()
        for job in range(states.shape[1]):
            rows = states[:, job]
            busy = np.flatnonzero(rows.any(axis=1))
            if not busy.size:
                continue
            different, inverse = np.unique(rows[busy], axis=0, return_inverse=True)
            mended = np.asarray([self._mended(job, row) for row in different])
            found[busy, job] = mended[inverse.ravel()]
        return found

    def _mended(self, job: int, row: Ints) -> Ints:
        order = np.argsort(-row, kind="stable")
        parts = tuple(row[order][row[order] > 0].tolist())
        if parts not in self._known[job]:
            self._known[job][parts] = next(
                (
                    shape
                    for shape in self._shapes[job]
                    if len(shape) <= len(parts)
                    and all(a <= b for a, b in zip(shape, parts, strict=False))
                ),
                (),
            )
        shape = self._known[job][parts]
        mended = np.zeros_like(row)
        mended[order[: len(shape)]] = shape
        return mended


class PolluxCounts(PolluxPolicy):
    """Policy ``pollux:counts``: Pollux' fitness maximised over GPU counts, without nodes.

    Harmonic means add up over jobs, so the best counts are found exactly, job by job over the GPUs
    used so far. This is the best that the published search could find if nodes did not matter. It
    is deterministic and not Pollux' search.
    """

    name = "pollux:counts"

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted GPUs of each job; see `MalleableBaseline.wants`."""
        total, fair_s = open_gpus(filling), self.fair_s(filling, ways)
        kept, held = self.kept(filling), held_by(filling)
        size = float(filling.problem.nodes.capacity[:, 0].max(initial=1.0))
        cost = np.zeros(total + 1)
        chosen: list[Ints] = []
        for job, known in enumerate(ways):
            options = {0: 1.0 / POLLUX.least}
            for count in known.counts:
                value = fair_s[job] / known.iteration_s(count) * float(kept[job])
                options[count] = 1.0 / (value / size + POLLUX.least)
            now = held[job]
            if now is not None:
                options[now.gpus] = 1.0 / (fair_s[job] / now.iteration_s / size + POLLUX.least)
            counts = np.asarray([c for c in sorted(options) if c <= total], dtype=np.int64)
            table = np.full((counts.size, total + 1), np.inf)
            for row, count in enumerate(counts.tolist()):
                table[row, count:] = cost[: total + 1 - count] + options[count]
            best = table.argmin(axis=0)
            chosen.append(counts[best])
            cost = table[best, np.arange(total + 1)]
        wants: list[Want | None] = [None] * len(ways)
        left = total
        for job in reversed(range(len(ways))):
            gpus = int(chosen[job][left])
            left -= gpus
            wants[job] = Want(gpus) if gpus else None
        return wants
