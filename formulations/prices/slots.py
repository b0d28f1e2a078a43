r"""Relaxation with rows of slots, through which shapes have a price.

A part that starts takes a slot of its kind; a node offers the slots of one pattern p of what its
remaining jobs leave free (Gilmore, Gomory 1961). At prices pi of slots each node takes by itself

    W[n] = max over subsets S of the jobs on it of  V(free after S) + sum_{j in S} sigma[j,n]
    V(e) = max over patterns p of the free state e of  a[p] pi

and the only other priced rows are those of slots: at most as many parts of kind g start as nodes
offer slots of kind g. The payment sigma of a stay needs no search: for a job on one node the bound
is least if it pays the whole value of the stay above its best start,

    sigma[j] = max(0, stay value[j] - A[j]),    A[j] = the most that j earns by a start, or idle

because its node then weighs all of that when it decides whether the job stays. A gang pays a share
of it on each node, at first in proportion to its GPUs there, then more on nodes that would let it
go and less on nodes that keep it, until its nodes agree (`SlotRelaxation.share_out`). Any payments
prove a bound for every decision of the round (`formulations.prices.bound`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import distinct_rows
from formulations.node_pattern.cells import find_cells, find_gang_types, find_kinds
from formulations.node_pattern.patterns import maximal_patterns
from formulations.parameters import SLOTS, SlotParams
from formulations.prices.bound import Prices
from formulations.prices.relaxation import Evaluation, Relaxation, slope_of
from formulations.prices.rows import Held
from formulations.prices.sizes import Sizes
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import DECIMALS, FEASIBILITY, MARGIN, ROUNDING


@dataclass(frozen=True, slots=True)
class _Alike:
    """Open nodes of one class with the same number of jobs that may stay.

    Parameters
    ----------
    node
        Indices of the nodes, shape (N,).
    hold
        Their holds, shape (N, k).
    continuing
        Whether job k stays, in each subset of the k jobs, shape (2 ** k, k).
    state
        Free state after each subset, shape (N, 2 ** k); one past the last for subsets that hold
        more than the node has.
    """

    node: Ints
    hold: Ints
    continuing: Bools
    state: Ints


class SlotRelaxation(Relaxation):
    """Relaxation with rows of slots, in which nodes decide which of their jobs stay.

    Parameters
    ----------
    problem, level
        A round without pairs and without prices of starts, and its goal.
    params
        Limits and step sizes.

    Raises
    ------
    formulations.node_pattern.patterns.TooManyPatternsError
        If a node has too many patterns.
    """

    def __init__(self, problem: RoundProblem, level: Level, params: SlotParams = SLOTS) -> None:
        super().__init__(problem, level)
        self._params = params
        self._problem = problem
        self._base = self.shared
        self._cells, self._kinds = find_cells(problem), find_kinds(problem)
        types = find_gang_types(problem, self._kinds)
        counts, kind = distinct_rows(types.counts.astype(np.float64))
        self._counts, self._type = counts, kind[types.of_candidate]
        if self._plain:
            fine, idle = self.fine, self.idle
            self.sizes = Sizes(problem, self.value, fine, idle, self.gpus_open, self._type)
        self._stay = problem.options.stay
        self._runs = np.flatnonzero(self._stay >= 0)
        held = np.flatnonzero(problem.nodes.open[problem.holds.node])
        self._held, self._holder = held, problem.holds.job[held]
        gpus = problem.holds.demand[held, 0]
        self._part = gpus / np.bincount(self._holder, gpus, self.jobs)[self._holder]
        self._nodes_by_state()
        self._with_slots()

    @property
    def group(self) -> Ints | None:
        """First open node that each job holds, -1 for none, shape (J,)."""
        found = np.full(self.jobs, -1, dtype=np.int64)
        found[self._holder[::-1]] = self._problem.holds.node[self._held[::-1]]
        return found

    def _nodes_by_state(self) -> None:
        """Group nodes by class and number of jobs, with their free state after every subset."""
        nodes, holds = self._problem.nodes, self._problem.holds
        of_node = holds.node[self._held]
        order = np.argsort(of_node, kind="stable")
        count = np.bincount(of_node, minlength=nodes.count)
        first = np.cumsum(count) - count
        self._alike: list[_Alike] = []
        states: list[tuple[int, Floats]] = []
        for t in range(nodes.classes):
            scarce = self._kinds.scarce[t]
            capacity = nodes.capacity[t, scarce]
            mine = np.flatnonzero(nodes.open & (nodes.node_class == t))
            of_class, parts = [], []
            jobs = np.minimum(count[mine], self._params.most_gangs)
            for k in np.unique(jobs).tolist():
                node = mine[jobs == k]
                at = order[first[node][:, None] + np.arange(k)[None, :]]
                continuing = (np.arange(2**k)[:, None] >> np.arange(k)[None, :]) & 1 > 0
                used = np.einsum(
                    "sk,nkr->nsr", continuing, holds.demand[self._held[at]][..., scarce]
                )
                free = np.round(capacity - used, DECIMALS).reshape(-1, scarce.size)
                of_class.append(_Alike(node, at, continuing, np.zeros((node.size, 2**k), np.int64)))
                parts.append(free)
            if not mine.size:
                continue
            every = np.concatenate(parts)
            distinct, which = distinct_rows(every)
            which = np.where((every >= -FEASIBILITY).all(axis=1), which + len(states), -1)
            states += [(t, free) for free in distinct]
            end = np.cumsum([part.shape[0] for part in parts])
            for one, own in zip(of_class, np.split(which, end[:-1]), strict=True):
                self._alike.append(replace(one, state=own.reshape(one.state.shape)))
        tables: list[Floats] = []
        for t, free in states:
            capacity = nodes.capacity[t, self._kinds.scarce[t]]
            room = np.maximum(free, 0.0) + MARGIN * np.maximum(1.0, capacity)
            patterns = maximal_patterns(
                tuple(np.round(room, DECIMALS).tolist()), self._kinds.vectors[t]
            )
            whole = np.zeros((max(1, patterns.shape[0]), self._kinds.count))
            span = slice(int(self._kinds.first[t]), int(self._kinds.first[t + 1]))
            whole[: patterns.shape[0], span] = patterns
            tables.append(whole)
        self._patterns = np.concatenate([*tables, np.zeros((0, self._kinds.count))])
        self._first = np.cumsum([0, *(table.shape[0] for table in tables)])[:-1]
        # One past the last state: that of impossible subsets, worth -inf.
        for at, one in enumerate(self._alike):
            state = np.where(one.state < 0, len(states), one.state)
            self._alike[at] = replace(one, state=state)

    def _with_slots(self) -> None:
        """Append the rows of slots."""
        base, slots = self._base, self._kinds.count
        stays = self.value.size - self._type.size
        of_kinds = np.hstack([self._counts.T, np.zeros((slots, stays))])
        asks = Held(of_kinds, self._type, stays).matrix()
        self.shared = replace(
            base,
            label=(*base.label, *(("slot", g, 0) for g in range(slots))),
            lower=np.append(base.lower, np.full(slots, -np.inf)),
            upper=np.append(base.upper, np.zeros(slots)),
            others=(*base.others, asks),
            aux_use=np.vstack([base.aux_use, np.zeros((slots, base.aux_upper.size))]),
        )
        self._is_gpu = np.asarray([word == "gpu" for word, _, _ in self.shared.label], dtype=bool)

    @property
    def kinds(self) -> int:
        """Number of kinds of slots S."""
        return self._kinds.count

    @property
    def counted(self) -> Bools:
        """Whether a row has no price because slots price its resource, shape (D,)."""
        scarce = self._kinds.scarce
        word = [
            label[0] == "gpu" or (label[0] == "side" and label[2] in scarce[label[1]])
            for label in self.shared.label
        ]
        return np.asarray(word, dtype=bool)

    def _slots(self) -> slice:
        return slice(self._base.count, self._base.count + self._kinds.count)

    def start(self, prices: Floats) -> Floats:
        """Return first prices of slots: the prices of the resources in a slot."""
        base, kinds, counted = self._base, self._kinds, self.counted
        found = np.append(prices, np.zeros(kinds.count))
        for row in np.flatnonzero(counted).tolist():
            _, t, resource = base.label[row]
            place = int(np.searchsorted(kinds.scarce[t], resource))
            own = slice(int(kinds.first[t]), int(kinds.first[t + 1]))
            needs = np.asarray(kinds.vectors[t]).reshape(-1, kinds.scarce[t].size)[:, place]
            found[self._slots()][own] += prices[row] * needs
        found[counted] = 0.0
        return found

    def _starts(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return A, each job's best reduced value without a stay, and its option, shapes (J,)."""
        cost = self._counts @ prices[self._slots()]
        if self.sizes is not None and not prices[: self._base.count].any():
            return self.sizes.of_starts(cost[self.sizes.kind])
        every = self.value - self.shared.paid(prices)
        every[self._stay[self._runs]] = -np.inf
        return self._best_alone(every)

    @cached_property
    def _forced(self) -> float:
        """Largest payment of a stay; see `SlotParams.forced`."""
        return self._params.forced * float(np.abs(self.value).max(initial=0.0))

    def _continuing(self, prices: Floats, alone: Floats) -> tuple[Floats, Floats]:
        """Return each stay's value less rows, (J,), -inf if impossible, and payments, (H,)."""
        base = self._base
        stays = self._stay[self._runs]
        worth = np.full(self.jobs, -np.inf)
        paid: Floats | float = 0.0
        if prices[: base.count].any():
            paid = base.paid(prices[: base.count], stays)
        worth[self._runs] = np.where(self.fine[stays], self.value[stays] - paid, -np.inf)
        above = np.where(np.isfinite(worth), np.clip(worth - alone, 0.0, self._forced), 0.0)
        pays = np.zeros(self._problem.holds.count)
        pays[self._held] = self._part * above[self._holder]
        return worth, pays

    def at(self, prices: Floats, more: Floats | None = None) -> Evaluation:
        """Return the theorem's bound at these prices; see `Relaxation.at`."""
        assert more is None
        pi = prices[self._slots()]
        alone, start = self._starts(prices)
        worth, pays = self._continuing(prices, alone)
        best, which = self._best_patterns(pi)
        collected, held, offered = self._collected(pays[self._held], best, which)
        left = worth - np.bincount(self._problem.holds.job, pays, self.jobs)
        surplus = np.maximum(alone, left)
        # A job stays if all of its nodes keep it, or if its stay is worth more than its payments.
        here = np.bincount(self._holder, self._part * held, self.jobs)
        nodes = np.bincount(self._holder, minlength=self.jobs) > 0
        continuing = np.where(nodes, here > 1.0 - FEASIBILITY, True)
        continuing &= left >= alone - ROUNDING * abs(alone)
        continuing |= left > alone
        choice = np.where(continuing, self._stay, start)
        terms = np.concatenate([surplus, self._limits(prices), collected])
        taken = choice[choice >= 0]
        size = float(np.abs(terms).sum() + 2 * np.abs(self.value[taken]).sum())
        found = Evaluation(float(terms.sum()), size, surplus, choice)
        # A gang that some nodes keep counts as a start by the share of the nodes that let it go.
        share = np.where(left > alone, 0.0, np.clip(1.0 - here, 0.0, 1.0))
        starts = np.flatnonzero(start >= 0)
        asked = self._asked(start[starts], share[starts])
        slope = np.append(
            slope_of(self._base, prices[: self._base.count], self._used(choice)), offered - asked
        )
        usage = np.append(self._used(choice), self._asked(choice) - offered)
        return replace(found, slope=slope, usage=usage)

    def _used(self, choice: Ints) -> Floats:
        """Return a choice's use of all rows but the rows of slots."""
        found: Floats = super().usage(choice)[: self._base.count]
        return found

    def usage(self, choice: Ints) -> Floats:
        """Return the use of each row by a choice; of slots, the demand alone."""
        return np.append(self._used(choice), self._asked(choice))

    def _asked(self, choice: Ints, share: Floats | None = None) -> Floats:
        """Return the demand of starts for slots of each kind, shape (S,)."""
        starts = (choice >= 0) & (choice < self._type.size)
        weights = None if share is None else share[starts]
        many = np.bincount(self._type[choice[starts]], weights, self._counts.shape[0])
        found: Floats = many @ self._counts
        return found

    def share_out(self, prices: Floats) -> bool:
        """Redistribute gangs' payments over their nodes where these disagree at the prices.

        Returns
        -------
        bool
            Whether the bound at these prices is less for it.
        """
        pi, count = prices[self._slots()], np.bincount(self._holder, minlength=self.jobs)
        best, which = self._best_patterns(pi)
        alone = self._starts(prices)[0]
        least, known = self.at(prices).bound, self._part
        before, step = least, self._params.shift
        for _ in range(self._params.shifts):
            pays = self._continuing(prices, alone)[1]
            held = self._collected(pays[self._held], best, which)[1] > 0
            kept = np.bincount(self._holder, held, self.jobs)
            split = ((kept > 0) & (kept < count))[self._holder]
            if not split.any():
                break
            moved = self._part * np.where(split, np.where(held, 1.0 - step, 1.0 + step), 1.0)
            self._part = moved / np.bincount(self._holder, moved, self.jobs)[self._holder]
            bound = self.at(prices).bound
            if bound < least:
                least, known = bound, self._part
            step *= self._params.fades
        self._part = known
        return least < before

    def _best_patterns(self, pi: Floats) -> tuple[Floats, Ints]:
        """Return V and a maximising pattern per state; -inf for the impossible last state."""
        paid = self._patterns @ pi
        best = np.maximum.reduceat(paid, self._first) if self._first.size else np.zeros(0)
        size = np.diff(np.append(self._first, paid.size))
        hit = np.flatnonzero(paid == np.repeat(best, size))
        which = hit[np.searchsorted(hit, self._first)]
        return np.append(best, -np.inf), which

    def _collected(self, pays: Floats, best: Floats, which: Ints) -> tuple[Floats, Floats, Floats]:
        """Return W of each open node, the holds that stay, and the number of slots per kind."""
        collected, held = [np.zeros(0)], np.zeros(self._held.size)
        many = np.zeros(best.size)
        for one in self._alike:
            worth = pays[one.hold] @ one.continuing.T.astype(np.float64) + best[one.state]
            subset = worth.argmax(axis=1)
            row = np.arange(one.node.size)
            collected.append(worth[row, subset])
            held[one.hold] = one.continuing[subset]
            many += np.bincount(one.state[row, subset], minlength=best.size)
        offered: Floats = many[:-1] @ self._patterns[which]
        return np.concatenate(collected), held, offered

    def reduced(self, prices: Floats) -> Floats:
        """Return the reduced value of each option; a stay pays for the slots that it blocks.

        That price distinguishes jobs; at the bound's own payments all running jobs are indifferent.
        """
        base, slots = self._base, prices[self._slots()]
        found = self.value - base.paid(prices[: base.count])
        found[: self._type.size] -= (self._counts @ slots)[self._type]
        best = self._best_patterns(slots)[0]
        pays = self._continuing(prices, self._starts(prices)[0])[1][self._held]
        back = np.zeros(self._held.size)
        for one in self._alike:
            worth = pays[one.hold] @ one.continuing.T.astype(np.float64) + best[one.state]
            subset, row = worth.argmax(axis=1), np.arange(one.node.size)
            for k in range(one.hold.shape[1]):
                with_it, without = subset | (1 << k), subset & ~(1 << k)
                gives = best[one.state[row, without]] - best[one.state[row, with_it]]
                back[one.hold[:, k]] = np.where(np.isfinite(gives), gives, 0.0)
        stays = self._stay[self._runs]
        found[stays] -= np.bincount(self._holder, back, self.jobs)[self._runs]
        return found

    def prices(self, prices: Floats) -> Prices:
        """Return these prices as `Prices`: slots in all cells, and stays."""
        pi = prices[self._slots()]
        same = self._cells.node_class[:, None] == self._kinds.node_class[None, :]
        slot = np.where(same, pi[None, :], 0.0)
        plain = Prices.of_rows(self._problem, self._base, prices[: self._base.count])
        pays = self._continuing(prices, self._starts(prices)[0])[1]
        return replace(plain, slot=slot, stay=pays)


def surplus_at(relaxation: SlotRelaxation, reduced: Floats) -> Floats:
    """Return the best reduced value of each job's options, or 0 if it may idle, shape (J,)."""
    option, owner = relaxation.options_by_job()
    best = np.where(relaxation.idle, 0.0, -np.inf)
    np.maximum.at(best, owner, reduced[option])
    return best
