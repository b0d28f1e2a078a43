r"""The independent check of a claimed bound: from tables and prices alone, knowing no method.

Everything is restated per job and per node, as in the proof of docs/formulations/prices.md. The
cells and kinds of `formulations.node_pattern.cells` are read as names of prices only: whether a
part may lie on a node is found from the tables of nodes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.node_pattern.cells import find_cells, find_kinds
from formulations.prices.bound import Prices
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X
from formulations.round.tables import STAY, Level, RoundProblem, Scope

TOLERANCE = 1e-10
"""How far, relative to itself, a claim may lie below the bound that its prices prove."""

MARGIN = 1e-8
"""Share of what a node has that is added to what is free there."""


class BoundError(Exception):
    """A claim that the prices do not prove.

    Parameters
    ----------
    claim, proven
        What was claimed, and the bound at these prices.
    """

    def __init__(self, claim: float, proven: float) -> None:
        self.claim = claim
        self.proven = proven
        super().__init__(f"claims a bound of {claim!r}; the prices prove {proven!r}")


def check_bound(problem: RoundProblem, level: Level, prices: Prices, claim: float) -> None:
    """Raise `BoundError` unless the prices prove that no decision is worth more than ``claim``.

    Raises
    ------
    ValueError
        If a price is negative that must not be.
    """
    if any((p < 0).any() for p in (prices.gpu, prices.side, np.asarray([prices.uplink]))) or any(
        p is not None and (p < 0).any() for p in (prices.slot, prices.stay)
    ):
        raise ValueError("prices must be at least 0")
    proven = _Definition(problem, level, prices).bound()
    if not claim >= proven - TOLERANCE * abs(claim):
        raise BoundError(claim, proven)


class _Definition:
    def __init__(self, problem: RoundProblem, level: Level, prices: Prices) -> None:
        self.problem, self.level, self.prices = problem, level, prices
        stay = np.zeros(problem.holds.count) if prices.stay is None else prices.stay
        self.on_open = problem.nodes.open[problem.holds.node]
        self.stay = np.where(self.on_open, stay, 0.0)
        self.by_slots = bool(self.stay.any() or (prices.slot is not None and prices.slot.any()))
        if self.by_slots:
            self.cells, self.kinds = find_cells(problem), find_kinds(problem)
            none = np.zeros((self.cells.count, self.kinds.count))
            self.slot = none if prices.slot is None else prices.slot

    def bound(self) -> float:
        """The sum of the theorem."""
        nodes, prices = self.problem.nodes, self.prices
        of_class = nodes.node_class[nodes.open]
        total = float(prices.gpu[of_class] @ nodes.capacity[of_class, 0])
        total += float((prices.side[of_class] * nodes.capacity[of_class, 1:]).sum())
        if prices.uplink:
            total += prices.uplink * float(nodes.uplink_gb_per_s.sum())
        total += self._rules_worth()
        if self.by_slots:
            total += sum(self._node_worth(n) for n in np.flatnonzero(nodes.open).tolist())
        return total + float(self._surplus().sum())

    # ------------------------------------------------------------------ rules

    def _rules_worth(self) -> float:
        """Limits at their prices, and what auxiliary columns add at their better end."""
        rules, y = self.problem.rules, self.prices.rule
        total = 0.0
        for q in np.flatnonzero(y).tolist():
            total += float(y[q] * (rules.upper[q] if y[q] > 0 else rules.lower[q]))
        aux = rules.kind == RULE_U
        earned = np.zeros(rules.aux_upper.size)
        np.subtract.at(earned, rules.index[aux], y[rules.row[aux]] * rules.value[aux])
        for u in np.flatnonzero(earned > 0).tolist():
            total += float(earned[u]) * self._most_of(u)
        return total

    def _most_of(self, u: int) -> float:
        """Limit of an auxiliary column: its own, or that of a row in which nothing is negative."""
        rules, most = self.problem.rules, float(self.problem.rules.aux_upper[u])
        for e in np.flatnonzero((rules.kind == RULE_U) & (rules.index == u)).tolist():
            row = int(rules.row[e])
            if rules.value[e] > 0 and (rules.value[rules.row == row] >= 0).all():
                most = min(most, float(rules.upper[row] / rules.value[e]))
        return max(0.0, most)

    def _paid_to_rules(self, kind: int, count: int) -> Floats:
        rules = self.problem.rules
        mine = rules.kind == kind
        amount = self.prices.rule[rules.row[mine]] * rules.value[mine]
        return np.bincount(rules.index[mine], amount, minlength=count).astype(np.float64)

    # ------------------------------------------------------------------ jobs

    def _surplus(self) -> Floats:
        """U: what each job earns at most at the prices, shape (J,)."""
        problem = self.problem
        table, pairs = problem.candidates, problem.pairs
        alone = table.count - pairs.count
        started = self.level.value - self._start_price()
        stayed = np.where(problem.jobs.running, self.level.stay_value - self._stay_price(), -np.inf)
        start_ok, stay_ok, idle = self._allowed()
        started[~start_ok], stayed[~stay_ok] = -np.inf, -np.inf
        best = np.maximum(np.where(idle, 0.0, -np.inf), stayed)
        np.maximum.at(best, table.job[:alone], started[:alone])
        couples = [
            (int(table.job[alone + p]), int(pairs.partner[p]), float(started[alone + p]))
            for p in range(pairs.count)
            if np.isfinite(started[alone + p])
        ]
        for i, j, _ in couples:
            best[i], best[j] = (0.0 if np.isneginf(best[one]) else best[one] for one in (i, j))
        # Raised by half of what a pair earns more, pair by pair; whatever the order, it is valid.
        for i, j, earned in couples:
            excess = earned - best[i] - best[j]
            if excess > 0:
                best[i] += excess / 2
                best[j] += excess / 2
        return np.asarray(best)

    def _start_price(self) -> Floats:
        """What each candidate pays, shape (K,); inf where it has no nodes."""
        prices, table = self.prices, self.problem.candidates
        per_gpu = prices.gpu[table.node_class] + (prices.side[table.node_class] * table.side).sum(1)
        per_gpu = per_gpu + np.where(table.scope == Scope.POD, prices.uplink * table.side[:, 2], 0)
        paid = table.gpus * per_gpu
        in_place = np.flatnonzero(np.diff(table.part_start) == 0)
        for k in in_place.tolist():
            paid[k] = self._in_place_price(k)
        if self.by_slots:
            for k in np.flatnonzero(np.diff(table.part_start) > 0).tolist():
                paid[k] += self._cheapest_nodes(k)
        return np.asarray(paid + self._paid_to_rules(RULE_X, table.count))

    def _in_place_price(self, k: int) -> float:
        problem, prices, nodes = self.problem, self.prices, self.problem.nodes
        side = problem.candidates.side[k]
        mine = np.flatnonzero(problem.holds.job == problem.candidates.job[k]).tolist()
        where = problem.holds.node[mine]
        paid = 0.0
        for h, node in zip(mine, where.tolist(), strict=True):
            gpus, t = float(problem.holds.demand[h, 0]), int(nodes.node_class[node])
            if nodes.open[node]:
                paid += gpus * float(prices.gpu[t] + prices.side[t] @ side) + float(self.stay[h])
            if np.unique(nodes.leaf[where]).size > 1:
                paid += prices.uplink * gpus * float(side[2])
        return paid

    def _stay_price(self) -> Floats:
        """What each stay pays, shape (J,)."""
        problem, prices, holds = self.problem, self.prices, self.problem.holds
        t = problem.nodes.node_class[holds.node]
        amount = prices.gpu[t] * holds.demand[:, 0] + (prices.side[t] * holds.demand[:, 1:]).sum(1)
        amount = np.where(self.on_open, amount, 0.0) + self.stay
        amount = amount + prices.uplink * holds.uplink_gb_per_s
        jobs = problem.jobs.count
        return np.bincount(holds.job, amount, minlength=jobs) + self._paid_to_rules(RULE_S, jobs)

    def _cheapest_nodes(self, k: int) -> float:
        """Least price of slots for the parts of a candidate, inside one leaf or domain if asked."""
        nodes, table = self.problem.nodes, self.problem.candidates
        span = slice(int(table.part_start[k]), int(table.part_start[k + 1]))
        kinds = self.kinds.of_part[span]
        fit = nodes.open & (nodes.node_class == table.node_class[k]) & nodes.sets[table.node_set[k]]
        if table.scope[k] in (Scope.NODE, Scope.POD):
            places: Ints = np.zeros(nodes.count, dtype=np.int64)
        else:
            places = nodes.leaf if table.scope[k] == Scope.LEAF else nodes.domain
        best = np.inf
        for place in np.unique(places[fit]).tolist():
            price = self.slot[self.cells.of_node[fit & (places == place)]]
            best = min(best, float(price[:, kinds].min(axis=0).sum()))
        return best

    def _allowed(self) -> tuple[Bools, Bools, Bools]:
        """Starts, stays and idleness that no row about a single job rules out."""
        problem, rules, table = self.problem, self.problem.rules, self.problem.candidates
        first = table.job
        second = np.full(table.count, -1, dtype=np.int64)
        second[table.count - problem.pairs.count :] = problem.pairs.partner
        start_ok, stay_ok = np.ones(table.count, dtype=bool), problem.jobs.running.copy()
        start_ok[table.count - problem.pairs.count :] &= self._may_meet()
        idle = np.ones(problem.jobs.count, dtype=bool)
        order = np.argsort(rules.row, kind="stable")
        ends = np.searchsorted(rules.row[order], np.arange(rules.count + 1))
        for q in range(rules.count):
            entries = order[ends[q] : ends[q + 1]]
            kind, index, value = rules.kind[entries], rules.index[entries], rules.value[entries]
            if not entries.size or (kind == RULE_U).any():
                continue
            a, b = index.copy(), np.full(index.size, -1, dtype=np.int64)
            starts = kind == RULE_X
            a[starts], b[starts] = first[index[starts]], second[index[starts]]
            for job in (int(a[0]), int(b[0])):
                if job >= 0 and ((a == job) | (b == job)).all():
                    break
            else:
                continue
            low, high = rules.lower[q] - 1e-9, rules.upper[q] + 1e-9
            stays = float(value[kind == RULE_S].sum())
            stay_ok[job] &= bool(low <= stays <= high)
            idle[job] &= bool(low <= 0.0 <= high)
            mine = (
                np.flatnonzero((first == job) | (second == job))
                if not low <= 0.0 <= high
                else (np.unique(index[kind == RULE_X]))
            )
            use = np.zeros(table.count)
            np.add.at(use, index[kind == RULE_X], value[kind == RULE_X])
            start_ok[mine] &= (use[mine] >= low) & (use[mine] <= high)
        return start_ok, stay_ok, idle

    def _may_meet(self) -> Bools:
        """Pairs whose second job may come to where the first one is, shape (P,)."""
        problem, nodes, table, pairs = (
            self.problem,
            self.problem.nodes,
            self.problem.candidates,
            self.problem.pairs,
        )
        base = table.count - pairs.count
        fine = np.ones(pairs.count, dtype=bool)
        for p in np.flatnonzero((pairs.first_half == STAY) & (pairs.second_half != STAY)).tolist():
            where = problem.holds.node[problem.holds.job == table.job[base + p]]
            fine[p] = bool(
                nodes.open[where].all()
                and (nodes.node_class[where] == table.node_class[base + p]).all()
                and nodes.sets[table.node_set[base + p], where].all()
            )
        return fine

    # ------------------------------------------------------------------ nodes

    def _node_worth(self, node: int) -> float:
        """W: the most that stays and slots pay on a node, over everything that may go on there."""
        problem, t = self.problem, int(self.problem.nodes.node_class[node])
        scarce = self.kinds.scarce[t]
        gangs = self._gangs_on(node)
        first, last = int(self.kinds.first[t]), int(self.kinds.first[t + 1])
        price = tuple(self.slot[self.cells.of_node[node], first:last].tolist())
        best = 0.0
        for chosen in product((False, True), repeat=len(gangs)):
            on = [gang for gang, goes_on in zip(gangs, chosen, strict=True) if goes_on]
            free = problem.nodes.capacity[t].copy()
            for need, _ in on:
                free -= need
            free = free[scarce]
            if (free >= -MARGIN).all():
                # Generous, as demands are rounded: what fits by a hair must count as fitting.
                free = free + MARGIN * np.maximum(1.0, problem.nodes.capacity[t, scarce])
                slots = _fill(tuple(free.tolist()), self.kinds.vectors[t], price)
                best = max(best, sum(pays for _, pays in on) + slots)
        return best

    def _gangs_on(self, node: int) -> list[tuple[Floats, float]]:
        """What may go on there: the least that it holds and the most that it pays."""
        problem, holds, table = self.problem, self.problem.holds, self.problem.candidates
        partner = {int(j): int(i) for i, j in problem.pairs.sharing}
        found: dict[int, tuple[Floats, float]] = {}
        base = table.count - problem.pairs.count
        for h in np.flatnonzero(holds.node == node).tolist():
            job, pays = int(holds.job[h]), float(self.stay[h])
            gpus = float(holds.demand[h, 0])
            here = [
                base + p
                for p in np.flatnonzero(problem.pairs.first_half == STAY).tolist()
                if table.job[base + p] == job
            ]
            ways = [holds.demand[h], *(gpus * np.append(1.0, table.side[k]) for k in here)]
            for need in ways:
                least, most = found.get(partner.get(job, job), (need, pays))
                found[partner.get(job, job)] = (np.minimum(least, need), max(most, pays))
        return list(found.values())


@lru_cache(maxsize=65536)
def _fill(
    free: tuple[float, ...], kinds: tuple[tuple[float, ...], ...], price: tuple[float, ...]
) -> float:
    """The most that slots in this room pay: one slot more, and the best of the rest."""
    best = 0.0
    for need, pays in zip(kinds, price, strict=True):
        rest = tuple(have - asks for have, asks in zip(free, need, strict=True))
        if pays > 0 and min(rest) >= 0.0:
            best = max(best, pays + _fill(rest, kinds, price))
    return best
