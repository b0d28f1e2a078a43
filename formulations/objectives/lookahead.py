"""Objective `lookahead`: GPU-seconds priced by the backlog after a round.

`jct` adds up completion rates and ignores the value of a GPU-second to waiting jobs. On one fluid
machine that serves the least remaining work first this value is known: a GPU-second at instant
``s`` delays all jobs that end after ``s``, so its price is their weight over the GPUs.
Page: ``docs/formulations/lookahead.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import distinct_rows, of_tables
from formulations.objectives import seconds_left
from formulations.objectives.makespan import least_work
from formulations.objectives.scattered import is_scattered, place_s, usable
from formulations.parameters import LOOKAHEAD, LookaheadParams
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class PricePath:
    """Price of a GPU-second of one node class over time, and its integral.

    Parameters
    ----------
    ends_s
        Instants at which the price falls, ascending, shape (n,).
    paid
        Integral of the price up to 0 and to each instant, shape (n + 1,), in seconds of delay per
        GPU.
    tail
        Price after the last instant.
    """

    ends_s: Floats
    paid: Floats
    tail: float

    @classmethod
    def of(cls, ends_s: Floats, weight: Floats, gpus: float) -> PricePath:
        """Return the path for jobs that end at these instants, ascending, on ``gpus`` GPUs."""
        waiting = weight[::-1].cumsum()[::-1]
        steps = ends_s.copy()
        steps[1:] -= ends_s[:-1]
        steps *= waiting
        steps /= gpus
        return cls(ends_s, np.concatenate([[0.0], steps.cumsum()]), 1.0 / gpus)

    def until(self, at_s: Floats) -> Floats:
        """Return the integral of the price from the start of the round to these instants."""
        knots = np.concatenate([[0.0], self.ends_s])
        beyond = np.maximum(at_s - knots[-1], 0.0)
        found: Floats = np.interp(at_s, knots, self.paid) + self.tail * beyond
        return found


def levels(
    problem: RoundProblem, wait_rounds: float = 2.0, params: LookaheadParams = LOOKAHEAD
) -> tuple[Level, ...]:
    """Return the weighted completion time saved against waiting, at prices of the backlog.

    Parameters
    ----------
    wait_rounds
        Rounds after which a job that gets nothing now may begin at the earliest.
    params
        Limits, step sizes and smallest values.
    """
    if one_at_a_time(problem):
        return (Level.of(problem, "lookahead", "seconds saved", soonest_first(problem)),)
    least = np.where(problem.options.members.starts, params.least_start, params.least_stay)
    soon = problem.interval_s**2 / np.maximum(problem.interval_s, seconds_left(problem))
    worth = np.maximum(saved_s(problem, wait_rounds, params), least * soon)
    # Jobs that take a whole class all save the same: of them the one with the least work left goes
    # first, and goes on, as it has even less left then.
    worth += np.where(_takes_all(problem)[problem.options.members.job], params.tie * soon, 0.0)
    return (Level.of(problem, "lookahead", "seconds saved", worth),)


def saved_s(
    problem: RoundProblem, wait_rounds: float, params: LookaheadParams = LOOKAHEAD
) -> Floats:
    """Return each member's cost of waiting minus its cost if its option begins now, shape (M,).

    Where places are short and GPUs are not, a GPU-second has no price, and a job that gets nothing
    waits for a place (`formulations.objectives.scattered`).
    """
    if is_scattered(problem):
        return _saved_by_places(problem, wait_rounds)
    paths = backlog_prices(problem, params)
    wait = _best_wait(problem, paths, wait_rounds, params.most_waits)
    saved: Floats = wait[problem.options.members.job] - _cost(problem, paths)
    return saved


@of_tables
def one_at_a_time(problem: RoundProblem) -> bool:
    """Return whether no two jobs of a round fit at once, on one node class."""
    nodes, members = problem.nodes, problem.options.members
    if nodes.classes > 1 or problem.shared.count:
        return False
    least = np.full(problem.jobs.count, np.inf)
    np.minimum.at(least, members.job, problem.options.gpus[members.option])
    smallest = np.sort(least[np.isfinite(least)])[:2]
    whole = nodes.capacity[nodes.node_class[usable(problem)], 0].sum()
    return bool(smallest.size == 2 and smallest.sum() > whole)


def soonest_first(problem: RoundProblem) -> Floats:
    """Return values that rank jobs of which one runs at a time, shape (M,), in seconds.

    The cluster is one machine then, whatever the GPUs of each job: the least seconds left go first,
    over their weight. A stop would cost the start-up that follows it.
    """
    jobs, members = problem.jobs, problem.options.members
    avoided_s = np.where(members.starts, 0.0, jobs.restart_s[members.job])
    left_s = problem.interval_s + np.maximum(0.0, seconds_left(problem) - avoided_s)
    return np.asarray(jobs.weight[members.job] * problem.interval_s**2 / left_s)


def _saved_by_places(problem: RoundProblem, wait_rounds: float) -> Floats:
    """Return the seconds that each member saves against a wait for a place, shape (M,)."""
    jobs, members = problem.jobs, problem.options.members
    left_s = seconds_left(problem)
    fastest_s = np.full(jobs.count, np.inf)
    restarted_s = jobs.restart_s[members.job] - members.startup_s + left_s
    np.minimum.at(fastest_s, members.job, restarted_s)
    waits_s = np.maximum(wait_rounds * problem.interval_s, place_s(problem)) + fastest_s
    saved: Floats = waits_s[members.job] - np.maximum(problem.interval_s, left_s)
    return jobs.weight[members.job] * saved


def _best_wait(
    problem: RoundProblem, paths: list[PricePath], wait_rounds: float, most_waits: int
) -> Floats:
    """Return the least cost of each job if it gets nothing now, shape (J,)."""
    jobs, members = problem.jobs, problem.options.members
    # A waiting job pays a full start-up, and takes its fastest configuration of a size.
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
    """Return members in groups of equal job and GPUs, which differ in speed alone.

    Members in the order of the groups, shape (M,); the start of each group and its job, shapes
    (S,); its GPUs on each node class, T arrays of shape (S,).
    """
    job, gpus = problem.options.members.job, gpus_of_members(problem)
    rows, group = distinct_rows(np.column_stack([job, *gpus]))
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(rows.shape[0]))
    return order, first, rows[:, 0].astype(np.int64), tuple(rows.T[1:])


@of_tables
def gpus_of_members(problem: RoundProblem) -> tuple[Floats, ...]:
    """Return GPUs per node class that each member is charged, T arrays of shape (M,).

    Jobs on the same GPUs share them, so each is charged its part of them.
    """
    options, option = problem.options, problem.options.members.option
    part = np.bincount(option, minlength=options.count)[option]
    return tuple(options.gpus_on(t)[option] / part for t in range(problem.nodes.classes))


def _takes_all(problem: RoundProblem) -> Bools:
    """Return whether a job has only options that take all GPUs of a node class, shape (J,)."""
    nodes, members = problem.nodes, problem.options.members
    held = nodes.node_class[usable(problem)]
    gpus = np.bincount(held, nodes.capacity[held, 0], nodes.classes)
    some = np.ones(members.job.size, dtype=bool)
    for node_class, most in enumerate(gpus.tolist()):
        own = problem.options.gpus_on(node_class)[members.option]
        some &= (own < most) | (own <= 0)
    every = np.ones(problem.jobs.count, dtype=bool)
    every[members.job[some]] = False
    return every


def backlog_prices(problem: RoundProblem, params: LookaheadParams = LOOKAHEAD) -> list[PricePath]:
    """Return price paths per node class of the fluid schedule, least work first.

    All classes act as one machine that does in a second what they do together. A job takes its
    GPU-seconds at `class_values` of that machine's seconds, on the class where these are fewest.
    Jobs run in the order of these seconds over their weight; a GPU costs its part of the machine.
    """
    jobs, nodes, work = problem.jobs, problem.nodes, least_work(problem)
    held = nodes.node_class[usable(problem)]
    gpus = np.maximum(np.bincount(held, nodes.capacity[held, 0], nodes.classes), 1.0)
    possible = np.flatnonzero(np.isfinite(work.min(axis=1, initial=np.inf)))
    part = class_values(work[possible], gpus, params)
    load_s = (work[possible] * part).min(axis=1, initial=np.inf)
    order = np.argsort(load_s / jobs.weight[possible], kind="stable")
    ends_s, weight = np.cumsum(load_s[order]), jobs.weight[possible[order]]
    return [PricePath.of(ends_s, weight, 1.0 / one) for one in part.tolist()]


def class_values(work: Floats, gpus: Floats, params: LookaheadParams = LOOKAHEAD) -> Floats:
    """Return the value of one GPU of each class as a share of all GPUs' value, shape (T,).

    Over all GPUs the values add up to 1. At the values v with the largest ``sum_j min_k v[k]
    work[j, k]`` that sum is, by duality, the least time in which the classes together do all the
    work, each job divided among them at will. Found by multiplicative supergradient steps.

    Parameters
    ----------
    work
        GPU-seconds of each job on each class, inf where it cannot run; shape (J, T), each row with
        a finite entry.
    gpus
        GPUs of each class.
    params
        Number and length of the steps.
    """
    share = np.full(gpus.size, 1.0 / gpus.size) if gpus.size > 1 else np.ones(1)
    if gpus.size == 1 or not work.size:
        return np.asarray(share / gpus)
    best_s, best, flat = -np.inf, share, work.ravel()
    rows = np.arange(0, work.size, gpus.size)
    # A hundred calls on a few numbers: ufuncs cost less than the methods of arrays.
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
    """Return the weighted end, plus GPU-seconds after this round at their prices, shape (M,).

    GPU-seconds of the round itself are charged by the rows of the model.
    """
    members = problem.options.members
    ends_s = np.maximum(problem.interval_s, seconds_left(problem))
    round_s = np.asarray(problem.interval_s)
    cost = problem.jobs.weight[members.job] * ends_s
    for gpus, path in zip(gpus_of_members(problem), paths, strict=True):
        mine = np.flatnonzero(gpus > 0)
        later = path.until(ends_s[mine]) - path.until(round_s)
        cost[mine] += gpus[mine] * later
    return cost
