"""Greedy rounds: an objective without a MILP, and Optimus' gain in seconds.

``greedy:NAME`` and ``--policy milp --objective NAME`` differ only in the optimisation: candidates,
values, prices of restarts and promises are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.objectives import kept
from formulations.objectives.lookahead import one_at_a_time
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.policies.filling import Filling
from morph_opt.scheduling.policies.malleable.frame import (
    JobWays,
    MalleableBaseline,
    Want,
    held_by,
    open_gpus,
)


@dataclass(frozen=True, slots=True)
class Step:
    """Possible holding of a job: GPUs, value, and whether it keeps the job's promise."""

    gpus: int
    value: float
    kept: bool


class Greedy(MalleableBaseline):
    """Greedy assignment of GPUs by the values of an objective.

    From nothing, the step with the largest gain of value per GPU is taken again and again, as far
    as the GPUs go; where no two jobs fit at once, that with the largest gain. Steps go from one
    configuration to any larger one, a stay being one of them.
    Guaranteed jobs first get the fewest GPUs that keep their promise, in order of submission.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    objective
        Objective whose last goal gives the values.
    name
        Name of the policy.
    """

    def __init__(self, belief: SpeedModel, objective: Stateless, name: str) -> None:
        super().__init__(belief)
        self._objective = objective
        self.name = name

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted GPUs of each job; see `MalleableBaseline.wants`."""
        steps = self._steps(filling, ways)
        guaranteed = filling.problem.jobs.guaranteed
        free = open_gpus(filling)
        has: list[Step] = [Step(0, 0.0, False)] * len(steps)
        for job in np.flatnonzero(guaranteed).tolist():
            least = min(
                (step for step in steps[job] if step.kept and step.gpus <= free),
                key=lambda step: (step.gpus, -step.value),
                default=None,
            )
            if least is not None:
                has[job], free = least, free - least.gpus
        alone = one_at_a_time(filling.problem)
        best = [_best_step(steps[job], has[job], free, alone) for job in range(len(steps))]
        while True:
            gain, job = max(((b[0], -j) for j, b in enumerate(best)), default=(0.0, 0))
            if gain <= 0.0:
                break
            job = -job
            step = best[job][1]
            if step.gpus - has[job].gpus > free:
                best[job] = _best_step(steps[job], has[job], free, alone)
                continue
            free -= step.gpus - has[job].gpus
            has[job] = step
            best[job] = _best_step(steps[job], step, free, alone)
        return [Want(step.gpus) if step.gpus else None for step in has]

    def _steps(self, filling: Filling, ways: list[JobWays]) -> list[list[Step]]:
        """Return the best value of each GPU count for each job."""
        problem = filling.problem
        level = self._objective.levels(problem)[-1]
        # Without pairs every option has one member, of its own number.
        promised, stay = kept(problem), problem.options.stay
        held = held_by(filling)
        found = []
        for job, known in enumerate(ways):
            first = int(filling.view.offset[job])
            best: dict[int, Step] = {}
            for way in known.ways:
                k = first + way.row
                _better(best, Step(way.gpus, float(level.value[k]), bool(promised[k])))
            now = held[job]
            if now is not None:
                k = int(stay[job])
                _better(best, Step(now.gpus, float(level.value[k]), bool(promised[k])))
            found.append(list(best.values()))
        return found


def _better(best: dict[int, Step], step: Step) -> None:
    known = best.get(step.gpus)
    if known is None or (step.kept, step.value) > (known.kept, known.value):
        best[step.gpus] = step


def _best_step(steps: list[Step], now: Step, free: int, alone: bool) -> tuple[float, Step]:
    """Return the largest gain per GPU among larger steps that fit, the smaller step if equal.

    Where one job runs at a time (``alone``) nobody else could use what it leaves: the gain counts.
    """
    best = (0.0, now)
    for step in steps:
        more = step.gpus - now.gpus
        if 0 < more <= free:
            gain = (step.value - now.value) / (1 if alone else more)
            if gain > best[0] or (gain == best[0] > 0.0 and step.gpus < best[1].gpus):
                best = (gain, step)
    return best


class Optimus(MalleableBaseline):
    """Optimus: give each GPU to the job whose completion time falls most.

    Every job gets its smallest count in order of arrival; then, while somebody gains, the next
    larger count goes to the largest ``(t(g) - t(g')) Q / (g' - g)``, Q being the iterations to go.
    """

    name = "optimus"

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted GPUs of each job; see `MalleableBaseline.wants`."""
        left = filling.problem.jobs.iterations_left
        free = open_gpus(filling)
        has = [0] * len(ways)
        for job, known in enumerate(ways):
            if known.counts and known.counts[0] <= free:
                has[job] = known.counts[0]
                free -= has[job]

        def gain(job: int) -> float:
            after = ways[job].next_count(has[job]) if has[job] else None
            if after is None or after - has[job] > free:
                return 0.0
            saved_s = ways[job].iteration_s(has[job]) - ways[job].iteration_s(after)
            return saved_s * float(left[job]) / (after - has[job])

        gains = [gain(job) for job in range(len(ways))]
        while gains:
            job = max(range(len(ways)), key=gains.__getitem__)
            if gains[job] <= 0.0:
                break
            after = ways[job].next_count(has[job])
            if after is None or after - has[job] > free:
                gains[job] = 0.0
                continue
            free -= after - has[job]
            has[job] = after
            gains[job] = gain(job)
        return [Want(gpus) if gpus else None for gpus in has]
