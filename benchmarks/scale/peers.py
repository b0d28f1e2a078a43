"""Methods of others, restated for our rounds: each decision has nodes and passes the same check.

`Pop` (Narayanan et al., SOSP 2021) solves random parts exactly, `Priced` takes the two stages of
CvxCluster (Nnorom, Boyd and Levis 2026), `Decoupled` the method of DeDe (Xu et al., OSDI 2025).
None of them proves anything: what their decisions miss is measured against the best bound that any
method certified for the same round.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from formulations.arrays import Bools, Floats, Ints
from formulations.prices import Relaxation, choose_prices
from formulations.prices.places import Places
from formulations.round.check import check
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.subround import residual_round
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop

TRIED = 12
"""Options that a job tries to place, best first; as many as the ladder's (`prices.placing`)."""

STEPS = 200
"""Steps of the alternating directions at most."""

FIRST_RHO = 10.0
"""Weight of the difference between both shares, in medians of the options' values."""

OVER = 1.6
"""Over-relaxation of the alternating directions (Boyd et al. 2011, section 3.4.3)."""

TIE = 1e-6
"""Weight of values beside shares."""

SLACK = 1e-9
"""Relative tolerance of what a row is used."""

CLOSE = 1e-3
"""Residuals a root of jobs, both alike, at which the alternating directions end."""


@dataclass(frozen=True, slots=True)
class Pop:
    """Random parts of the cluster, each an exact round of its own.

    Running jobs follow their nodes, so that what shares a job is in one part; waiting jobs are
    spread at random, as many to a GPU in each part. A part whose time is up goes on as it was, if
    what it found is no better.

    Parameters
    ----------
    solver
        Of the parts; each has the same share of the time.
    gpus
        GPUs of a part, about.
    seed
        Of the split.
    """

    solver: Solver
    gpus: int
    seed: int = 0

    @property
    def name(self) -> str:
        """The method and the size of its parts."""
        return f"pop-{self.gpus}"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """See `morph_opt.scheduling.decision.method.RoundMethod`."""
        problem, level = posed.problem, posed.worth
        decided = Selection(problem.options.stay.copy(), ((),) * problem.jobs.count)
        decided.choice[~problem.jobs.running] = NONE
        jobs, nodes, count = self._split(problem)
        ends = time.perf_counter() + limits.time_s
        for part in range(count):
            left_s = max(0.1, ends - time.perf_counter())
            share = Limits(limits.gap, left_s / (count - part), threads=1)
            one = residual_round(problem, level, decided, jobs == part, nodes == part)
            found = RoundSolver(self.solver, share, tight=True).ranked(one.problem, (one.level,))
            if found.selection is not None:
                merged = one.merged(decided, found.selection)
                decided = max(decided, merged, key=lambda one: one.value(level))
        return _solved(problem, level, decided, self.name)

    def _split(self, problem: RoundProblem) -> tuple[Ints, Ints, int]:
        """Part of each job, shape (J,), and of each node, shape (N,), and how many there are."""
        draw, nodes, holds = np.random.default_rng(self.seed), problem.nodes, problem.holds
        gpus = nodes.capacity[nodes.node_class, 0]
        count = max(1, round(float(gpus.sum()) / self.gpus))
        jobs = problem.jobs.count
        # Jobs and nodes are the vertices, what a job holds on a node an edge.
        edge = coo_array(
            (np.ones(holds.count), (holds.job, jobs + holds.node)), shape=(jobs + nodes.count,) * 2
        )
        _, block = connected_components(edge, directed=False)
        size = np.bincount(block[jobs:], gpus, block.max() + 1)
        filled, part = np.zeros(count), np.full(size.size, NONE)
        blocks = draw.permutation(np.flatnonzero(size > 0))
        # What belongs together comes first: single nodes then even out what it left.
        for at in blocks[np.argsort(-size[blocks], kind="stable")].tolist():
            part[at] = int(np.argmin(filled + draw.random(count) * 1e-6))
            filled[part[at]] += size[at]
        waiting = np.flatnonzero(~problem.jobs.running)
        of_job = part[block[:jobs]]
        # Where gangs lie scattered, nodes that share jobs are one part of nearly all of a class.
        share = np.bincount(part[block[jobs:]], gpus, count).cumsum() / gpus.sum()
        turn = (np.arange(waiting.size) + 0.5) / max(1, waiting.size)
        of_job[draw.permutation(waiting)] = np.searchsorted(share, turn)
        return of_job, part[block[jobs:]], count


@dataclass(frozen=True, slots=True)
class Priced:
    """Prices of the convex relaxation, then every job in turn takes its best option that has room.

    The relaxation is solved by our own search for prices, which is faster than a general convex
    solver: that flatters the peer.
    """

    @property
    def name(self) -> str:
        """The method."""
        return "cvx"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:  # noqa: ARG002 - it ends long before
        """See `morph_opt.scheduling.decision.method.RoundMethod`."""
        problem, level = posed.problem, posed.worth
        relaxation = Relaxation(problem, level)
        chosen = choose_prices(relaxation)
        reduced = relaxation.reduced(chosen.prices)
        order = np.argsort(-chosen.evaluation.surplus, kind="stable")
        decided = in_turn(problem, relaxation, order, reduced)
        return _solved(problem, level, decided, self.name)


@dataclass(frozen=True, slots=True)
class Decoupled:
    """Alternating directions between jobs and GPUs, then jobs in turn.

    Shares x of options are to satisfy the rows, shares z the jobs; each step projects onto one of
    both, which falls apart into rows and into jobs, and a price u of their difference draws them
    together (DeDe, section 3). Jobs then choose by their shares, and once more by what the prices
    leave of their values; the better decision counts.
    """

    @property
    def name(self) -> str:
        """The method."""
        return "dede"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """See `morph_opt.scheduling.decision.method.RoundMethod`; steps end at the time limit."""
        problem, level = posed.problem, posed.worth
        relaxation = Relaxation(problem, level)
        option, owner = relaxation.options_by_job()
        found = []
        for wished in self._wishes(relaxation, option, owner, limits.time_s):
            wish = np.full(problem.options.count, -np.inf)
            wish[option] = wished
            best = np.full(problem.jobs.count, -np.inf)
            np.maximum.at(best, owner, wished)
            order = np.argsort(-best, kind="stable")
            found.append(in_turn(problem, relaxation, order, wish))
        decided = max(found, key=lambda one: one.value(level))
        return _solved(problem, level, decided, self.name)

    def _wishes(
        self, relaxation: Relaxation, option: Ints, owner: Ints, time_s: float
    ) -> tuple[Floats, Floats]:
        """Share of each option of a job as far as the steps come, and its value less its price."""
        ends = time.perf_counter() + time_s
        rows = np.flatnonzero(np.isfinite(relaxation.shared.upper))
        use = relaxation.shared.use.tocsr()[rows][:, option].tocsr()
        limit = relaxation.shared.upper[rows]
        start = np.flatnonzero(np.diff(owner, prepend=-1))
        worth = relaxation.value[option]
        worth = worth / max(float(np.abs(worth).max(initial=0.0)), 1e-300)
        rho = FIRST_RHO * float(np.median(np.abs(worth[worth != 0]))) if worth.any() else 1.0
        z, u = np.zeros(option.size), np.zeros(option.size)
        for step in range(1, STEPS + 1):
            x = z - u
            for row in range(rows.size):
                span = slice(int(use.indptr[row]), int(use.indptr[row + 1]))
                at = use.indices[span]
                x[at] = onto_row(x[at], use.data[span], float(limit[row]))
            drawn = OVER * x + (1.0 - OVER) * z
            before, z = z, onto_jobs(drawn + u + worth / rho, start)
            u += drawn - z
            apart, moved = float(np.linalg.norm(x - z)), float(np.linalg.norm(z - before))
            if max(apart, moved) < CLOSE * start.size**0.5 or time.perf_counter() > ends:
                break
            if step % 10 == 0:  # the two residuals are kept alike
                scale = 2.0 if apart > 3 * moved else 0.5 if moved > 3 * apart else 1.0
                rho, u = rho * scale, u / scale
        # Among equal shares, which are mostly none, the better value for its GPUs comes first.
        by_gpu = worth / np.maximum(relaxation.gpus_open[option], 1.0)
        return z + TIE * by_gpu, worth + rho * u


def onto_row(wanted: Floats, use: Floats, limit: float) -> Floats:
    """The nearest shares of at least 0 that use no more of a row than its limit.

    Parameters
    ----------
    wanted
        Shape (E,).
    use
        Of the row by each share, more than 0, shape (E,).
    limit
        At least 0.

    Returns
    -------
    ndarray
        Shape (E,).
    """
    found = np.maximum(wanted, 0.0)
    while (above := float(use @ found) - limit) > SLACK * max(1.0, limit):
        # Newton's step to the price at which the row is kept: those above 0 pay for it. What it
        # uses is convex in the price, so that steps from a price below never go beyond.
        above0 = found > 0.0
        wanted = wanted - above / float(use[above0] @ use[above0]) * use
        found = np.maximum(wanted, 0.0)
    return found


def onto_jobs(wanted: Floats, start: Ints) -> Floats:
    """The nearest shares of at least 0 of which each job has at most 1 in all.

    Parameters
    ----------
    wanted
        Shape (I,), job by job.
    start
        Where the options of each job begin, ascending from 0, shape (B,).

    Returns
    -------
    ndarray
        Shape (I,).
    """
    length = np.diff(np.append(start, wanted.size))
    kept = np.maximum(wanted, 0.0)
    over = np.add.reduceat(kept, start) > 1.0
    active = np.repeat(over, length)
    # What lies below the threshold of those above 0 leaves, until none does (Michelot 1986).
    while True:
        count = np.add.reduceat(active.astype(np.float64), start)
        total = np.add.reduceat(np.where(active, wanted, 0.0), start)
        threshold = np.repeat(np.where(over, (total - 1.0) / np.maximum(count, 1.0), 0.0), length)
        fewer = active & (wanted > threshold)
        if (fewer == active).all():
            return np.maximum(wanted - threshold, 0.0)
        active = fewer


def in_turn(
    problem: RoundProblem, relaxation: Relaxation, jobs: Iterable[int], wish: Floats
) -> Selection:
    """Jobs in turn take the option that they wish most of those that have room on nodes.

    Parameters
    ----------
    jobs
        All jobs in the order in which they choose.
    wish
        Of each option, shape (O,); none is taken whose value is no gain.
    """
    option, owner = relaxation.options_by_job()
    order = np.lexsort([-wish[option], owner])
    option = option[order]
    first = np.searchsorted(owner, np.arange(problem.jobs.count + 1))
    count, places = problem.candidates.count, Places(problem)
    choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
    nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
    idle: Bools = relaxation.idle
    for job in (int(job) for job in jobs):
        for at in option[first[job] : min(first[job + 1], first[job] + TRIED)].tolist():
            if idle[job] and relaxation.value[at] <= 0.0:
                continue
            if at >= count:
                if places.stays(job):
                    choice[job] = at
                    break
            elif (found := places.starts(at)) is not None:
                choice[job], nodes[job] = at, found
                break
    return Selection(choice, tuple(nodes))


def _solved(problem: RoundProblem, level: Level, decided: Selection, name: str) -> Solved:
    """The answer of a method that proves nothing; raises where it breaks a rule."""
    check(problem, decided)
    value = decided.value(level)
    outcome = Outcome(Status.FEASIBLE, Stop.WORK_LIMIT, name, objective=value)
    return Solved(decided, (outcome,), (level,), step=name, bound_by="")
