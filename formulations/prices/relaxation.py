r"""A round in which only sums count: options of jobs, and the rows that they share.

The options are those of `formulations.round.options`. The rows

    lower[d] <= sum over chosen options o of use[d,o] + sum_a aux_use[d,a] aux[a] <= upper[d]

hold in every feasible decision of the round: GPUs of each node class, side resources of each class
that can run out, all uplinks together, and the operator's rules. Which node a part lies on is
forgotten. For prices p of the rows (at least 0 for an upper limit, at most 0 for a lower one) the
best that every job can do by itself bounds what all of them can do together (Everett 1963).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice
from formulations.prices.rows import shared_rows
from formulations.prices.sizes import Sizes
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import Level, RoundProblem

FEW_ROWS = 16
"""Rows beyond those of GPUs up to which what options use of them is kept as a dense table."""

SLACK = 1e-9
"""Absolute tolerance in comparing what a rule counts."""


def _jobs_of_options(problem: RoundProblem) -> tuple[Ints, Ints]:
    """First and second job of each option, shape (O,); the second is -1 but for pairs."""
    options, members = problem.options, problem.options.members
    second = np.full(options.count, -1, dtype=np.int64)
    if not problem.shared.count:
        return options.job, second
    more = np.flatnonzero(members.job != options.job[members.option])
    second[members.option[more]] = members.job[more]
    return options.job, second


def possible_options(problem: RoundProblem) -> tuple[Bools, Bools]:
    """Options that a job may take, shape (O,), and jobs that may have nothing, shape (J,).

    A rule's row that concerns one job alone is a statement about its options, because it takes one
    at most: those that break the row by themselves are out.
    """
    jobs = problem.jobs.count
    first, second = _jobs_of_options(problem)
    fine = problem.options.possible.copy()
    idle = np.ones(jobs, dtype=bool)
    if not problem.rules.count:
        return fine, idle
    rules, option = problem.rules, options_in_rules(problem)
    owner = _owners(problem, option, first, second)
    mine = np.flatnonzero((owner[rules.row] >= 0) & (option >= 0))
    if not mine.size:
        return fine, idle
    key, at = np.unique(rules.row[mine] * first.size + option[mine], return_inverse=True)
    row, where = key // first.size, key % first.size
    use = np.bincount(at.reshape(-1), rules.value[mine], minlength=key.size)
    keeps = (use >= rules.lower[row] - SLACK) & (use <= rules.upper[row] + SLACK)
    fine[where[~keeps]] = False
    # Rows that ask for something rule out whatever of their job does not stand in them.
    asks = (owner >= 0) & ((rules.lower > SLACK) | (rules.upper < -SLACK))
    asked = np.bincount(owner[asks], minlength=jobs)
    for job_of in (first, second):
        of_job = asks[row] & keeps & (owner[row] == job_of[where])
        kept = np.bincount(where[of_job], minlength=first.size)
        fine &= (job_of < 0) | (kept >= asked[job_of])
    return fine, asked == 0


def _owners(problem: RoundProblem, option: Ints, first: Ints, second: Ints) -> Ints:
    """The job that a rule's row concerns alone, shape (Q,); -1: several, or other columns."""
    rules = problem.rules
    owner = np.full(rules.count, -1, dtype=np.int64)
    stands = np.flatnonzero(option >= 0)
    rows, option = rules.row[stands], option[stands]
    some, at = np.unique(rows, return_index=True)
    shared = np.zeros(rules.count, dtype=bool)
    shared[rules.row[rules.kind == RULE_U]] = True
    some, at = some[~shared[some]], at[~shared[some]]
    for job_of in (second, first):
        guess = np.full(rules.count, -1, dtype=np.int64)
        guess[some] = job_of[option[at]]
        theirs = guess[rows]
        other = (first[option] != theirs) & (second[option] != theirs)
        alone = guess >= 0
        alone[rows[other]] = False
        owner[alone] = guess[alone]
    return owner


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The relaxation at some prices.

    Parameters
    ----------
    bound
        Upper bound on the value of every feasible decision; -inf if there is none.
    size
        Sum of the absolute values of the terms that it is made of.
    surplus
        What each job earns at most, shape (J,).
    choice
        Option that earns it, -1 for nothing, shape (J,); a pair is the choice of both its jobs
        where neither has a better one.
    """

    bound: float
    size: float
    surplus: Floats
    choice: Ints


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of single jobs, job by job.

    Parameters
    ----------
    option
        Which, shape (O,).
    job, start, length
        Jobs that have any, where their options begin and how many they are, shape (I,).
    """

    option: Ints
    job: Ints
    start: Ints
    length: Ints

    @classmethod
    def of(cls, option: Ints, owner: Ints) -> _Options:
        """Options in the order of the jobs that own them."""
        start = np.flatnonzero(np.diff(owner, prepend=-1))
        length = np.diff(np.append(start, owner.size))
        return cls(option, owner[start], start, length)


def _gpus_open(problem: RoundProblem) -> Floats:
    """GPUs of open nodes that each option holds, shape (O,)."""
    options, held = problem.options, problem.options.held
    gpus, closed = options.gpus.copy(), ~problem.nodes.open[held.node]
    np.subtract.at(gpus, held.option[closed], held.demand[closed, 0])
    return gpus


class Relaxation:
    """Options with their values under a level, and the rows that they share.

    Parameters
    ----------
    problem, level
        The round and what it is to maximise.

    Attributes
    ----------
    gpus_open
        GPUs of open nodes that each option holds, shape (O,).
    """

    def __init__(self, problem: RoundProblem, level: Level) -> None:
        self.shared = shared_rows(problem)
        self.jobs = problem.jobs.count
        self.value = level.value
        fine, self.idle = possible_options(problem)
        self._first, self._second = _jobs_of_options(problem)
        self.possible: Ints = np.flatnonzero(fine)
        single = self.possible[self._second[self.possible] < 0]
        order: Ints = single[np.argsort(self._first[single], kind="stable")]
        self._pairs = self.possible[self._second[self.possible] >= 0]
        self._all = _Options.of(order, self._first[order])
        self._is_gpu = np.asarray([word == "gpu" for word, _, _ in self.shared.label], dtype=bool)
        self._classes = int(self._is_gpu.sum())
        options = problem.options
        several = options.mixed.option.size or self._pairs.size
        self._plain = not several and not problem.returns.options
        self._class = options.node_class
        self.gpus_open = _gpus_open(problem)
        self._others = self.shared.use[self._classes :]
        # Few further rows are looked up for what is chosen alone.
        few = self._others.shape[0] <= FEW_ROWS and self._others.nnz > 0
        self._dense = self._others.toarray() if few else None
        self._sizes: Sizes | None = None
        if self._plain:
            self._sizes = Sizes(problem, self.value, self.possible, self.idle, self.gpus_open)

    def reduced(self, prices: Floats) -> Floats:
        """Value of each option less its price, shape (O,)."""
        if not self._plain:
            return np.asarray(self.value - self.shared.use.T @ prices)
        paid: Floats = prices[: self._classes][self._class] * self.gpus_open
        if prices[self._classes :].any():
            paid = paid + self._others.T @ prices[self._classes :]
        return self.value - paid

    def at(self, prices: Floats, more: Floats | None = None) -> Evaluation:
        """The bound at prices of the rows, shape (D,).

        Parameters
        ----------
        more
            Further price of each option, shape (O,); inf where it is impossible.
        """
        if more is None and self._sizes is not None and not prices[~self._is_gpu].any():
            surplus, choice = self._sizes.best(prices[: self._classes])
        else:
            every = self.reduced(prices) if more is None else self.reduced(prices) - more
            surplus, choice = self._best_alone(self._all, every[self._all.option])
            self._raise_for_pairs(every, surplus, choice)
        terms = np.concatenate([surplus, self._limits(prices)])
        # A surplus is what an option is worth less what it pays: both have been rounded.
        taken = choice[choice >= 0]
        size = float(np.abs(terms).sum() + 2 * np.abs(self.value[taken]).sum())
        return Evaluation(float(terms.sum()), size, surplus, choice)

    def _best_alone(self, options: _Options, reduced: Floats) -> tuple[Floats, Ints]:
        surplus = np.where(self.idle, 0.0, -np.inf)
        choice = np.full(self.jobs, -1, dtype=np.int64)
        if reduced.size:
            best = np.maximum.reduceat(reduced, options.start)
            hit = np.flatnonzero(reduced == np.repeat(best, options.length))
            first = hit[np.searchsorted(hit, options.start)]
            better = best > surplus[options.job]
            chosen = options.job[better]
            surplus[chosen] = best[better]
            choice[chosen] = options.option[first[better]]
        return surplus, choice

    def _raise_for_pairs(self, reduced: Floats, surplus: Floats, choice: Ints) -> None:
        """Raise what two jobs earn until no pair earns more than the two; in place."""
        if not self._pairs.size:
            return
        one, two = self._first[self._pairs], self._second[self._pairs]
        lost = np.isneginf(surplus)
        paired = np.zeros(self.jobs, dtype=bool)
        paired[one] = paired[two] = True
        surplus[lost & paired] = 0.0
        taken = np.zeros(self.jobs, dtype=bool)
        # In the order of the table: what is gained by a better one hangs on ties of rounding.
        for p in np.flatnonzero(reduced[self._pairs] > surplus[one] + surplus[two]).tolist():
            i, j = int(one[p]), int(two[p])
            excess = float(reduced[self._pairs[p]]) - float(surplus[i]) - float(surplus[j])
            if excess <= 0.0:
                continue
            surplus[i] += 0.5 * excess
            surplus[j] += 0.5 * excess
            if not (taken[i] or taken[j]):
                taken[i] = taken[j] = True
                choice[i] = choice[j] = self._pairs[p]

    def _limits(self, prices: Floats) -> Floats:
        """What the prices pay for the limits of rows and auxiliary columns, term by term."""
        shared = self.shared
        bounded = np.where(prices > 0, shared.upper, shared.lower)
        rows = np.where(prices == 0, 0.0, prices * np.where(prices == 0, 0.0, bounded))
        gain = np.maximum(0.0, -(shared.aux_use.T @ prices))
        aux = np.where(gain > 0, gain * np.where(gain > 0, shared.aux_upper, 0.0), 0.0)
        return np.concatenate([rows, aux])

    def options_by_job(self) -> tuple[Ints, Ints]:
        """Possible options but pairs, job by job, and the job of each."""
        option = self._all.option
        return option, self._first[option]

    def margin(self, reduced: Floats, option: Ints) -> Floats:
        """Reduced value that each job's option has before its next best, shape (J,).

        Negative where another one has more; inf where there is no other.
        """
        has = option >= 0
        now = at_choice(reduced, option)
        others = np.where(self.idle & has, 0.0, -np.inf)
        order, owner = self.options_by_job()
        if order.size:
            other = order != option[owner]
            worth = np.where(other, reduced[order], -np.inf)
            best = np.maximum.reduceat(worth, self._all.start)
            others[self._all.job] = np.maximum(others[self._all.job], best)
        return np.where(np.isneginf(others), np.inf, now - others)

    def options_use(self, row: int) -> Floats:
        """What each option uses of a row, shape (O,)."""
        use, dense = self.shared.use, np.zeros(self.value.size)
        span = slice(int(use.indptr[row]), int(use.indptr[row + 1]))
        dense[use.indices[span]] = use.data[span]
        return dense

    def usage(self, choice: Ints) -> Floats:
        """What a choice uses of each row, shape (D,); a pair counts once."""
        picked = choice[choice >= 0]
        if self._plain:
            gpus = np.bincount(self._class[picked], self.gpus_open[picked], self._classes)
            if not self._others.nnz:
                return np.append(gpus, np.zeros(self.shared.count - self._classes))
            if self._dense is not None:
                return np.append(gpus, self._dense[:, picked].sum(axis=1))
        taken = np.zeros(self.value.size)
        taken[picked] = 1.0
        return np.asarray(self.shared.use @ taken)
