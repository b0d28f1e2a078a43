"""Sia in the round engine: its integer program on our speeds, then placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.alike import earlier_first
from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.filling import Filling
from morph_opt.scheduling.policies.malleable.frame import (
    JobWays,
    MalleableBaseline,
    Want,
    held_by,
)
from morph_opt.scheduling.policies.malleable.sia_rule import Column, SiaAnswer, SiaJob, solve
from morph_opt.scheduling.policies.published import SIA
from morph_opt.scheduling.solvers.outcome import Limits


class Sia(MalleableBaseline):
    """Policy ``sia``: one configuration (node class, GPU count) per job by Sia's program.

    Goodput is iterations per second, the batch being fixed: over the job's smallest, times its
    smallest count. The running jobs are the last allocation; jobs in a start-up are not changed.
    Growth is not limited to twice the previous GPUs, which a state does not contain.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    limits
        Limits of the solver.
    """

    name = "sia"

    def __init__(self, belief: SpeedModel, limits: Limits | None = None) -> None:
        super().__init__(belief)
        self._limits = limits or Limits(gap=SIA.gap)
        self._answer = SiaAnswer((), 0.0, 0.0)
        self._columns = 0

    def decide(self, state: RoundState) -> Decision:
        """Decide the round and report value and gap of the program; see `Policy`."""
        decision = super().decide(state)
        report = replace(
            decision.report,
            objective=self._answer.objective,
            gap=self._answer.gap,
            columns=self._columns,
        )
        return replace(decision, report=report)

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted configuration of each job; see `MalleableBaseline.wants`."""
        columns, sizes = self._configurations(filling, ways)
        index = {(name, gpus): k for k, (name, _, gpus) in enumerate(columns)}
        held = held_by(filling)
        jobs, least = [], []
        for job, known in enumerate(ways):
            goodput = np.zeros(len(columns))
            for way in known.ways:
                k = index.get((str(way.node_class), way.gpus))
                if k is not None and _is_published(way.parts, sizes[way.node_class]):
                    goodput[k] = max(goodput[k], 1.0 / way.iteration_s)
            now = held[job]
            current = None if now is None else index.get((str(now.node_class), now.gpus))
            state = filling.view.states[job]
            jobs.append(
                SiaJob(
                    goodput,
                    goodput > 0,
                    max(0.0, self.now_s - state.job.submission_s),
                    max(0, state.starts - 1),
                    state.restart_s,
                    current,
                    state.restart_left_s > 0.0 and current is not None,
                )
            )
            usable = [columns[k][2] for k in np.flatnonzero(goodput > 0).tolist()]
            least.append(float(min(usable, default=1)))
        shape = (len(jobs), len(columns))
        costs = np.asarray([j.cost(SIA.power, g) for j, g in zip(jobs, least, strict=True)])
        may_have = np.asarray([j.usable for j in jobs], dtype=bool).reshape(shape)
        # The published goodput of what a job cannot use is 1e-4 of whatever unit goodputs have: at
        # iterations of hours that is more than what it can use, and it would wait for ever.
        costs = np.where(may_have, costs.reshape(shape), SIA.dearest)
        self._answer = solve(
            jobs,
            costs,
            columns,
            self._room(filling, columns),
            power=SIA.power,
            waiting=SIA.waiting,
            limits=self._limits,
        )
        self._columns = costs.size
        # Jobs of equal costs that never ran may swap their columns: the earlier is served first.
        # With stopped jobs among them, the earliest is started and stopped again and again, and
        # the average JCT on `base` is six times as long.
        kinds = [
            row.tobytes() if state.starts == 0 else job
            for job, (row, state) in enumerate(zip(costs, filling.view.states, strict=True))
        ]
        served = list(zip(self._answer.chosen, costs, strict=True))
        by_arrival = earlier_first(
            kinds,
            [(k is None, SIA.waiting if k is None else float(row[k]), k) for k, row in served],
            lambda choice: choice,
        )
        return [
            Want(columns[k][2], int(columns[k][0])) if k is not None and jobs[j].usable[k] else None
            for j, (_, _, k) in enumerate(by_arrival)
        ]

    def _configurations(
        self, filling: Filling, ways: list[JobWays]
    ) -> tuple[list[Column], list[int]]:
        """Return the columns of published shapes, and the GPUs per node of each class."""
        sizes = [round(size) for size in filling.problem.nodes.capacity[:, 0].tolist()]
        found = {
            (way.node_class, len(way.parts), way.gpus)
            for known in ways
            for way in known.ways
            if _is_published(way.parts, sizes[way.node_class])
        }
        held = {
            (now.node_class, len(now.parts), now.gpus)
            for now in held_by(filling)
            if now is not None and _is_published(now.parts, sizes[now.node_class])
        }
        columns = [(str(kind), nodes, gpus) for kind, nodes, gpus in sorted(found | held)]
        return columns, sizes

    def _room(self, filling: Filling, columns: list[Column]) -> dict[str, int]:
        """Return the GPUs of each class: of open nodes, and still held on closed ones."""
        nodes, holds = filling.problem.nodes, filling.problem.holds
        size = nodes.capacity[nodes.node_class, 0]
        free = np.bincount(nodes.node_class, np.where(nodes.open, size, 0.0), nodes.classes)
        closed = ~nodes.open[holds.node]
        kinds = nodes.node_class[holds.node[closed]]
        free += np.bincount(kinds, holds.demand[closed, 0], nodes.classes)
        return {name: round(float(free[int(name)])) for name, _, _ in columns}


def _is_published(parts: tuple[int, ...], size: int) -> bool:
    """Return whether a shape is 1, 2, 4, ... GPUs of one node, or whole nodes."""
    if len(parts) == 1:
        return parts[0] == size or parts[0] & (parts[0] - 1) == 0
    return min(parts) == size
