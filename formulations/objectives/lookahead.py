"""The objective **lookahead**: GPU-seconds priced by the backlog behind a round.

`Jct` adds up completion rates and does not know what a GPU-second is worth to waiting jobs. On
one fluid machine that serves the least remaining work first the worth is known: a GPU-second at
instant ``s`` delays all jobs that end after ``s``, so its price is their weight over the GPUs.
Page: ``docs/formulations/lookahead.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import distinct_rows, of_tables
from formulations.objectives import seconds_left
from formulations.objectives.makespan import least_work
from formulations.parameters import LOOKAHEAD, LookaheadParams
from formulations.round.tables import Level, RoundProblem


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
        waiting = weight[::-1].cumsum()[::-1]
        steps = ends_s.copy()
        steps[1:] -= ends_s[:-1]
        steps *= waiting
        steps /= gpus
        return cls(ends_s, np.concatenate([[0.0], steps.cumsum()]), 1.0 / gpus)

    def until(self, at_s: Floats) -> Floats:
        """Integral of the price from the round's begin to these instants, any shape."""
        knots = np.concatenate([[0.0], self.ends_s])
        beyond = np.maximum(at_s - knots[-1], 0.0)
        found: Floats = np.interp(at_s, knots, self.paid) + self.tail * beyond
        return found


def levels(
    problem: RoundProblem, wait_rounds: float = 2.0, params: LookaheadParams = LOOKAHEAD
) -> tuple[Level, ...]:
    """Seconds of weighted completion time saved against waiting, at prices of the backlog.

    Parameters
    ----------
    wait_rounds
        After how many rounds a job that gets nothing now may begin at the earliest.
    """
    least = np.where(problem.options.members.starts, params.least_start, params.least_stay)
    rate = least * problem.interval_s**2
    worth = np.maximum(
        saved_s(problem, wait_rounds, params),
        rate / np.maximum(problem.interval_s, seconds_left(problem)),
    )
    return (Level.of(problem, "lookahead", "seconds saved", worth),)


def saved_s(
    problem: RoundProblem, wait_rounds: float, params: LookaheadParams = LOOKAHEAD
) -> Floats:
    """What it costs each member to wait, less what its option costs now, shape (M,); any sign."""
    paths = backlog_prices(problem, params)
    wait = _best_wait(problem, paths, wait_rounds, params.most_waits)
    saved: Floats = wait[problem.options.members.job] - _cost(problem, paths)
    return saved


def _best_wait(
    problem: RoundProblem, paths: list[PricePath], wait_rounds: float, most_waits: int
) -> Floats:
    """What each job costs at least if it gets nothing now, shape (J,); inf for none to cost."""
    jobs, members = problem.jobs, problem.options.members
    # A job that waits begins anew, and on as many GPUs in what is fastest there.
    every = jobs.restart_s[members.job] - members.startup_s + seconds_left(problem)
    order, first, job, gpus = _sizes_of_jobs(problem)
    seconds = np.minimum.reduceat(every[order], first) if first.size else every
    best = np.full(jobs.count, np.inf)
    soonest_s = wait_rounds * problem.interval_s
    # The prices of all classes fall at the same instants.
    begins_s = np.unique(np.maximum(soonest_s, np.append(paths[0].ends_s, soonest_s)))
    if begins_s.size > most_waits:
        begins_s = begins_s[np.linspace(0, begins_s.size - 1, most_waits).round().astype(np.int64)]
    before = [path.until(begins_s) for path in paths]
    for own in gpus:
        mine = np.flatnonzero(own > 0)
        ends_s = begins_s[None, :] + seconds[mine, None]
        cost = jobs.weight[job[mine], None] * ends_s
        for path, begun, all_ in zip(paths, before, gpus, strict=True):
            theirs = all_[mine, None]
            if theirs.any():
                cost += theirs * (path.until(ends_s) - begun)
        np.minimum.at(best, job[mine], cost.min(axis=1))
    return best


@of_tables
def _sizes_of_jobs(problem: RoundProblem) -> tuple[Ints, Ints, Ints, tuple[Floats, ...]]:
    """Members that are alike but for their speed, one group after the other.

    Members in the order of the groups, shape (M,), where each group begins, its job, shapes (S,),
    and its GPUs on each node class, T arrays of shape (S,).
    """
    job, gpus = problem.options.members.job, _gpus_of_members(problem)
    rows, group = distinct_rows(np.column_stack([job, *gpus]))
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(rows.shape[0]))
    return order, first, rows[:, 0].astype(np.int64), tuple(rows.T[1:])


@of_tables
def _gpus_of_members(problem: RoundProblem) -> tuple[Floats, ...]:
    """GPUs on each node class of the option of each member, T arrays of shape (M,)."""
    options = problem.options
    return tuple(options.gpus_on(t)[options.members.option] for t in range(problem.nodes.classes))


def backlog_prices(problem: RoundProblem, params: LookaheadParams = LOOKAHEAD) -> list[PricePath]:
    """Prices per node class of the fluid schedule of the round's jobs, least work first.

    All classes are one machine that does as much in a second as they can do together, so a job is
    so many of its seconds: its GPU-seconds at `class_values`, where these are fewest. Jobs in order
    of their seconds over their weight; a GPU of a class is worth its part of the machine.
    """
    jobs, nodes, work = problem.jobs, problem.nodes, least_work(problem)
    usable: Bools = nodes.open.copy()
    usable[problem.holds.node] = True
    held = nodes.node_class[usable]
    gpus = np.maximum(np.bincount(held, nodes.capacity[held, 0], nodes.classes), 1.0)
    possible = np.flatnonzero(np.isfinite(work.min(axis=1, initial=np.inf)))
    part = class_values(work[possible], gpus, params)
    load_s = (work[possible] * part).min(axis=1, initial=np.inf)
    order = np.argsort(load_s / jobs.weight[possible], kind="stable")
    ends_s, weight = np.cumsum(load_s[order]), jobs.weight[possible[order]]
    return [PricePath.of(ends_s, weight, 1.0 / one) for one in part.tolist()]


def class_values(work: Floats, gpus: Floats, params: LookaheadParams = LOOKAHEAD) -> Floats:
    """Part of all classes that one GPU of each is, shape (T,); over all GPUs these add to 1.

    At the values v that make ``sum_j min_k v[k] work[j, k]`` largest this is, by duality, the least
    time in which the classes together do all the work, each job divided among them at will. Found
    by multiplicative supergradient steps; where they stop decides how even the loads are.

    Parameters
    ----------
    work
        GPU-seconds of each job on each class, inf where it cannot run; shape (J, T), each row with
        a finite entry.
    gpus
        Of each class.
    """
    share = np.full(gpus.size, 1.0 / gpus.size) if gpus.size > 1 else np.ones(1)
    if gpus.size == 1 or not work.size:
        return np.asarray(share / gpus)
    best_s, best, flat = -np.inf, share, work.ravel()
    rows = np.arange(0, work.size, gpus.size)
    # Called a hundred times on a few numbers, methods of arrays cost more than their ufuncs.
    steps = params.first_step / np.sqrt(1.0 + np.arange(params.steps))
    for step in steps.tolist():
        cost_s = work * (share / gpus)
        at = rows + cost_s.argmin(axis=1)
        value_s = float(np.add.reduce(cost_s.ravel()[at]))
        if value_s > best_s:
            best_s, best = value_s, share
        load_s = np.bincount(at - rows, flat[at], gpus.size) / gpus
        share = share * np.exp(step * load_s / np.maximum.reduce(load_s))
        share = share / np.add.reduce(share)
    return np.asarray(best / gpus)


def _cost(problem: RoundProblem, paths: list[PricePath]) -> Floats:
    """Weighted end, and the GPU-seconds after this round at their prices, shape (M,).

    Those of the round itself are charged by the rows of the model.
    """
    members = problem.options.members
    ends_s = np.maximum(problem.interval_s, seconds_left(problem))
    round_s = np.asarray(problem.interval_s)
    cost = problem.jobs.weight[members.job] * ends_s
    for gpus, path in zip(_gpus_of_members(problem), paths, strict=True):
        mine = np.flatnonzero(gpus > 0)
        later = path.until(ends_s[mine]) - path.until(round_s)
        cost[mine] += gpus[mine] * later
    return cost
