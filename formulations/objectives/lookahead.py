"""The objective **lookahead**: GPU-seconds priced by the backlog behind a round.

`Jct` adds up completion rates and does not know what a GPU-second is worth to those who wait. On
one fluid machine that serves the least remaining work first the worth is known: a GPU-second at
instant ``s`` delays everybody who ends after ``s``, so its price is their weight over the GPUs.
Page: ``docs/formulations/lookahead.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.objectives import seconds_left
from formulations.objectives.makespan import least_work
from formulations.round.tables import Level, RoundProblem

MOST_WAITS = 128
"""Beyond so many instants at which a wait may end, evenly many of them are looked at."""


@dataclass(frozen=True, slots=True)
class PricePath:
    """Price of a GPU-second of one node class, and its integral from the round's begin.

    Parameters
    ----------
    ends_s
        Instants at which the price falls, ascending, shape (n,).
    paid
        Integral up to 0 and to each of them, shape (n + 1,), in seconds of delay per GPU.
    tail
        Price after the last.
    """

    ends_s: Floats
    paid: Floats
    tail: float

    @classmethod
    def of(cls, ends_s: Floats, weight: Floats, gpus: float) -> PricePath:
        """Path for jobs that end at these instants, ascending, on so many GPUs."""
        waiting = np.cumsum(weight[::-1])[::-1]
        steps = np.diff(ends_s, prepend=0.0) * waiting / gpus
        return cls(ends_s, np.concatenate([[0.0], np.cumsum(steps)]), 1.0 / gpus)

    def until(self, at_s: Floats) -> Floats:
        """Integral of the price from the round's begin to these instants, any shape."""
        knots = np.concatenate([[0.0], self.ends_s])
        beyond = np.maximum(at_s - knots[-1], 0.0)
        found: Floats = np.interp(at_s, knots, self.paid) + self.tail * beyond
        return found


def levels(problem: RoundProblem, wait_rounds: float = 2.0) -> tuple[Level, ...]:
    """Seconds of weighted completion time saved against waiting, at prices of the backlog.

    Parameters
    ----------
    wait_rounds
        After how many rounds a job that gets nothing now may begin at the earliest.
    """
    members, least_s = problem.options.members, 1e-3 * problem.interval_s**2
    paths = backlog_prices(problem)
    wait = _best_wait(problem, paths, wait_rounds)
    rate = np.where(members.starts, 1.0, 2.0) * least_s
    worth = np.maximum(
        wait[members.job] - _cost(problem, paths),
        rate / np.maximum(problem.interval_s, seconds_left(problem)),
    )
    return (Level.of(problem, "lookahead", "seconds saved", worth),)


def _best_wait(problem: RoundProblem, paths: list[PricePath], wait_rounds: float) -> Floats:
    """What each job costs at least if it gets nothing now, shape (J,); inf for none to cost."""
    jobs, options, members = problem.jobs, problem.options, problem.options.members
    # Whoever waits begins anew.
    seconds = jobs.restart_s[members.job] - members.startup_s + seconds_left(problem)
    best = np.full(jobs.count, np.inf)
    soonest_s = wait_rounds * problem.interval_s
    for node_class, path in enumerate(paths):
        begins_s = np.unique(np.maximum(soonest_s, np.append(path.ends_s, soonest_s)))
        if begins_s.size > MOST_WAITS:
            begins_s = begins_s[
                np.linspace(0, begins_s.size - 1, MOST_WAITS).round().astype(np.int64)
            ]
        mine = np.flatnonzero(options.node_class[members.option] == node_class)
        ends_s = begins_s[None, :] + seconds[mine, None]
        cost = jobs.weight[members.job[mine], None] * ends_s
        paid = path.until(ends_s) - path.until(begins_s)[None, :]
        cost += options.gpus[members.option[mine], None] * paid
        np.minimum.at(best, members.job[mine], cost.min(axis=1))
    return best


def backlog_prices(problem: RoundProblem) -> list[PricePath]:
    """Prices per node class of the fluid schedule of the round's jobs, least work first.

    Jobs in order of their least GPU-seconds over their weight; each goes to the class on which it
    ends first behind those before it.
    """
    jobs, nodes = problem.jobs, problem.nodes
    work = least_work(problem)
    usable: Bools = nodes.open.copy()
    usable[problem.holds.node] = True
    held = nodes.node_class[usable]
    gpus = np.maximum(np.bincount(held, nodes.capacity[held, 0], nodes.classes), 1.0)
    order = np.argsort(work.min(axis=1) / jobs.weight, kind="stable")
    order = order[np.isfinite(work[order].min(axis=1))]
    load_s = work[order] / gpus
    if nodes.classes == 1:
        where = np.zeros(order.size, dtype=np.int64)
        ends_s = np.cumsum(load_s[:, 0])
    else:
        where, ends_s = _dealt(load_s)
    return [
        PricePath.of(ends_s[where == c], jobs.weight[order[where == c]], float(gpus[c]))
        for c in range(nodes.classes)
    ]


def _dealt(load_s: Floats) -> tuple[Ints, Floats]:
    """Class and end of each job, in order, each going where it ends first; shapes (jobs,)."""
    busy_s = np.zeros(load_s.shape[1])
    where = np.zeros(load_s.shape[0], dtype=np.int64)
    ends_s = np.zeros(load_s.shape[0])
    for row, mine in enumerate(load_s):
        ends = busy_s + mine
        where[row] = at = int(ends.argmin())
        busy_s[at] = ends_s[row] = ends[at]
    return where, ends_s


def _cost(problem: RoundProblem, paths: list[PricePath]) -> Floats:
    """Weighted end, and the GPU-seconds after this round at their prices, shape (M,).

    Those of the round itself are charged by the rows of the model.
    """
    options, members = problem.options, problem.options.members
    ends_s = np.maximum(problem.interval_s, seconds_left(problem))
    round_s = np.asarray(problem.interval_s)
    cost = problem.jobs.weight[members.job] * ends_s
    for node_class, path in enumerate(paths):
        mine = np.flatnonzero(options.node_class[members.option] == node_class)
        later = path.until(ends_s[mine]) - path.until(round_s)
        cost[mine] += options.gpus[members.option[mine]] * later
    return cost
