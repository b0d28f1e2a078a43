r"""Relaxation of a round to sums: options of jobs and the rows that they share.

`formulations.round.options` has the options. The rows

    lower[d] <= sum over chosen options o of use[d,o] + sum_a aux_use[d,a] aux[a] <= upper[d]

hold in every feasible decision of the round: GPUs of each node class, side resources of each class
that can run out, all uplinks together, and the operator's rules. The node of a part is ignored. For
prices p of the rows (at least 0 for an upper limit, at most 0 for a lower one) the best reduced
values of all jobs, each by itself, bound the value of all together (Everett 1963).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_choice, joined, no_ints, of_tables, stretches
from formulations.prices.rows import Shared, shared_rows
from formulations.prices.sizes import Sizes
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import FEASIBILITY


@of_tables
def possible_options(problem: RoundProblem) -> tuple[Bools, Bools]:
    """Return which options are possible, (O,), and which jobs may be idle, (J,).

    A rule's row about one job alone is a statement about its options, because the job takes at most
    one: options that break the row by themselves are impossible. A row concerns every job that is a
    member of all options in it.
    """
    jobs, members = problem.jobs.count, problem.options.members
    rules, fine = problem.rules, problem.options.possible.copy()
    if not rules.count:
        return fine, np.ones(jobs, dtype=bool)
    option = options_in_rules(problem)
    refers = np.flatnonzero(option >= 0)
    if not refers.size:
        return fine, np.ones(jobs, dtype=bool)
    key, at = np.unique(rules.row[refers] * fine.size + option[refers], return_inverse=True)
    row, where = key // fine.size, key % fine.size
    use = np.bincount(at.reshape(-1), rules.value[refers], minlength=key.size)
    keeps = (use >= rules.lower[row] - FEASIBILITY) & (use <= rules.upper[row] + FEASIBILITY)
    # Each member of an option that has an entry in a row.
    member, of = joined(members.option, where)
    concern, which, times = np.unique(
        row[of] * jobs + members.job[member], return_inverse=True, return_counts=True
    )
    about, jobs_of = concern // jobs, concern % jobs
    borrows = np.zeros(rules.count, dtype=bool)
    borrows[rules.row[rules.kind == RULE_U]] = True
    alone = (times == np.bincount(row, minlength=rules.count)[about]) & ~borrows[about]
    theirs = alone[which.reshape(-1)]
    fine[where[of[theirs & ~keeps[of]]]] = False
    # A row with a lower limit rules out all options of its job without an entry in it.
    asks = (rules.lower > FEASIBILITY) | (rules.upper < -FEASIBILITY)
    asked = np.bincount(jobs_of[alone & asks[about]], minlength=jobs)
    kept = np.bincount(member[theirs & asks[row[of]] & keeps[of]], minlength=members.job.size)
    fine[members.option[kept < asked[members.job]]] = False
    return fine, asked == 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The relaxation at some prices.

    Parameters
    ----------
    bound
        Upper bound on the value of every feasible decision; -inf if there is none.
    size
        Sum of the absolute values of its terms.
    surplus
        Best reduced value of each job, shape (J,).
    choice
        Option with that value, -1 for none, shape (J,); a shared option is the choice of all its
        jobs if none of them has a better one.
    slope, usage
        Subgradient, and use of each row by the choice, shapes (D,); None if the choice alone
        determines them.
    """

    bound: float
    size: float
    surplus: Floats
    choice: Ints
    slope: Floats | None = None
    usage: Floats | None = None


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of single jobs, job by job.

    Parameters
    ----------
    option
        Indices of the options, shape (O,).
    job, start, length
        Jobs with options, first row and number of their options, shape (I,).
    """

    option: Ints
    job: Ints
    start: Ints
    length: Ints

    @classmethod
    def of(cls, option: Ints, owner: Ints) -> _Options:
        """Return options that are sorted by the jobs that own them."""
        start = np.flatnonzero(np.diff(owner, prepend=-1))
        length = np.diff(np.append(start, owner.size))
        return cls(option, owner[start], start, length)


def _gpus_open(problem: RoundProblem) -> Floats:
    """Return the GPUs on open nodes of each option, shape (O,)."""
    options, held = problem.options, problem.options.held
    closed = ~problem.nodes.open[held.node]
    if not closed.any():
        return options.gpus
    gpus = options.gpus.copy()
    np.subtract.at(gpus, held.option[closed], held.demand[closed, 0])
    return gpus


class Relaxation:
    """Options with their values under a level, and the rows that they share.

    Parameters
    ----------
    problem, level
        The round and its goal.

    Attributes
    ----------
    gpus_open
        GPUs of each option on open nodes, shape (O,).
    sizes
        Starts as a dense table; None if some option has several jobs or classes.
    """

    def __init__(self, problem: RoundProblem, level: Level) -> None:
        self.shared = shared_rows(problem)
        self.jobs = problem.jobs.count
        self.value = level.value
        self.fine, self.idle = possible_options(problem)
        options = problem.options
        self._options, together = options, options.shared
        self._together: Ints = np.flatnonzero(together & self.fine) if together.any() else no_ints()
        rows = self._together
        if rows.size:
            rows = np.flatnonzero(np.isin(options.members.option, self._together))
        self._job: Ints = options.members.job[rows]
        self._first = np.flatnonzero(np.diff(options.members.option[rows], prepend=-1))
        self._is_gpu = np.asarray([word == "gpu" for word, _, _ in self.shared.label], dtype=bool)
        self._classes = int(self._is_gpu.sum())
        mixed = options.mixed.option.size or self._together.size
        self._plain = not mixed and not problem.returns.options
        self._class = options.node_class
        self.gpus_open = _gpus_open(problem)
        # Without rules, the use of an option is that of its configuration.
        self._by_kind = self._plain and not self.shared.others
        self.sizes: Sizes | None = None
        if self._plain:
            self.sizes = Sizes(problem, self.value, self.fine, self.idle, self.gpus_open)

    @cached_property
    def _all(self) -> tuple[_Options, Ints]:
        """Options of single jobs, job by job, and the job of each."""
        single: Ints = np.flatnonzero(self.fine & ~self._options.shared)
        order = single[np.argsort(self._options.job[single], kind="stable")]
        owner = self._options.job[order]
        return _Options.of(order, owner), owner

    @property
    def group(self) -> Ints | None:
        """Group of each job, equal for joint choices, -1 if alone, (J,); None if all are alone."""
        return None

    def reduced(self, prices: Floats) -> Floats:
        """Return the reduced value (value less price) of each option, shape (O,)."""
        if not self._plain:
            return self.value - self.shared.paid(prices)
        paid, of_class = np.empty_like(self.value), prices[: self._classes]
        for own in stretches(paid.size):
            np.multiply(of_class[self._class[own]], self.gpus_open[own], out=paid[own])
        if prices[self._classes :].any():
            paid += self.shared.paid(np.where(self._is_gpu, 0.0, prices))
        return np.subtract(self.value, paid, out=paid)

    def at(self, prices: Floats, more: Floats | None = None) -> Evaluation:
        """Return the bound at prices of the rows, shape (D,).

        Parameters
        ----------
        more
            Additional price of each option, shape (O,); inf if the option is impossible.
        """
        if more is None and self.sizes is not None and not prices[~self._is_gpu].any():
            surplus, choice = self.sizes.best(prices[: self._classes])
        else:
            every = self.reduced(prices) if more is None else self.reduced(prices) - more
            surplus, choice = self._best_alone(every)
            self._raise_for_shared(every, surplus, choice)
        terms = np.concatenate([surplus, self._limits(prices)])
        # A surplus is a value less a price, both of which were rounded.
        taken = choice[choice >= 0]
        size = float(np.abs(terms).sum() + 2 * np.abs(self.value[taken]).sum())
        return Evaluation(float(terms.sum()), size, surplus, choice)

    def _best_alone(self, every: Floats) -> tuple[Floats, Ints]:
        """Return the best reduced value of each job alone, (J,), and its option."""
        options = self._all[0]
        reduced = every[options.option]
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

    def _raise_for_shared(self, reduced: Floats, surplus: Floats, choice: Ints) -> None:
        """Raise surpluses, in place, until no shared option exceeds the sum of its jobs'."""
        if not self._together.size:
            return
        surplus[self._job] = np.where(np.isneginf(surplus[self._job]), 0.0, surplus[self._job])
        above = reduced[self._together] > np.add.reduceat(surplus[self._job], self._first)
        members = np.split(self._job, self._first[1:])
        taken = np.zeros(self.jobs, dtype=bool)
        # In the order of the table: a better order would depend on rounding of ties.
        for p in np.flatnonzero(above).tolist():
            jobs, option = members[p], self._together[p]
            excess = float(reduced[option] - surplus[jobs].sum())
            if excess > 0.0:
                surplus[jobs] += excess / jobs.size
                if not taken[jobs].any():
                    taken[jobs] = True
                    choice[jobs] = option

    def _limits(self, prices: Floats) -> Floats:
        """Return the price of the limits of rows and auxiliary columns, term by term."""
        shared = self.shared
        bounded = np.where(prices > 0, shared.upper, shared.lower)
        rows = prices * np.where(prices == 0, 0.0, bounded)
        gain = np.maximum(0.0, -(shared.aux_use.T @ prices))
        aux = gain * np.where(gain > 0, shared.aux_upper, 0.0)
        return np.concatenate([rows, aux])

    def slope(self, prices: Floats, usage: Floats) -> Floats:
        """Return a subgradient of the bound at prices, shape (D,), from the choice's usage."""
        return slope_of(self.shared, prices, usage)

    def options_by_job(self) -> tuple[Ints, Ints]:
        """Return the possible options of single jobs, job by job, and the job of each."""
        options, owner = self._all
        return options.option, owner

    def options_of(self, jobs: Bools) -> tuple[Ints, Ints]:
        """Return the possible options of the marked jobs, shape (J,), and the job of each."""
        if not self._plain:
            option, owner = self.options_by_job()
            near = np.flatnonzero(jobs[owner])
            return option[near], owner[near]
        options, count = self._options, self._options.starts.count
        stays = options.stay[jobs]
        stays = stays[stays >= 0]
        starts = np.flatnonzero(self.fine[:count] & jobs[options.starts.job])
        own: Ints = np.append(starts, stays[self.fine[stays]])
        own = own[np.argsort(options.job[own], kind="stable")]
        return own, options.job[own]

    def margin(self, reduced: Floats, option: Ints) -> Floats:
        """Return the lead in reduced value of each job's option over its next best, (J,).

        Negative if another option has more; inf if there is no other.
        """
        has = option >= 0
        now = at_choice(reduced, option)
        others = np.where(self.idle & has, 0.0, -np.inf)
        order, owner = self.options_by_job()
        if order.size:
            other, every = order != option[owner], self._all[0]
            worth = np.where(other, reduced[order], -np.inf)
            best = np.maximum.reduceat(worth, every.start)
            others[every.job] = np.maximum(others[every.job], best)
        return np.where(np.isneginf(others), np.inf, now - others)

    def options_use(self, row: int, options: Ints) -> Floats:
        """Return the use of one row by each of some options, 0 for -1, shape (options,)."""
        there, found = options >= 0, np.zeros(options.size)
        picked = options if there.all() else options[there]
        if self._plain and row < self._classes:
            found[there] = np.where(self._class[picked] == row, self.gpus_open[picked], 0.0)
        elif row < self.shared.held.of_kinds.shape[0]:
            found[there] = self.shared.held.use(slice(row, row + 1), picked)[0]
        else:
            use, dense = self.shared.use, np.zeros(self.value.size)
            span = slice(int(use.indptr[row]), int(use.indptr[row + 1]))
            dense[use.indices[span]] = use.data[span]
            found[there] = dense[picked]
        return found

    def usage(self, choice: Ints) -> Floats:
        """Return the use of each row by a choice, shape (D,); a shared option counts once."""
        picked = choice[choice >= 0]
        if self._by_kind:
            return self.shared.held.used(picked)
        taken = np.zeros(self.value.size)
        taken[picked] = 1.0
        return np.asarray(self.shared.use @ taken)


def slope_of(shared: Shared, prices: Floats, usage: Floats) -> Floats:
    """Return limits less usage, (D,), with auxiliary columns at their better bound."""
    limit = np.where(np.isfinite(shared.upper), shared.upper, shared.lower)
    used = usage
    if shared.aux_upper.size:
        aux = np.where(shared.aux_use.T @ prices < 0, shared.aux_upper, 0.0)
        used = used + shared.aux_use @ np.where(np.isfinite(aux), aux, 0.0)
    return np.where(np.isfinite(limit), limit, 0.0) - used
