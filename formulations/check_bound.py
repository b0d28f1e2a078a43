r"""Independent check of a claimed bound, from the tables and the prices alone.

It restates everything per job and per node, as the proof of docs/formulations/prices.md does. The
cells and kinds of `formulations.node_pattern.cells` only name prices: whether a part may be on a
node follows from the tables of nodes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import gathered, no_ints, of_tables, stretches
from formulations.node_pattern.cells import find_cells, find_kinds
from formulations.prices.bound import Prices
from formulations.round.check import RuleError, check_start
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import Level, RoundProblem, Scope
from formulations.tolerances import FEASIBILITY, MARGIN, PRICE_CLAIM

Price = tuple[float, ...]
Gangs = tuple[tuple[Price, float], ...]
"""Demand for each resource and payment, of each gang."""


class BoundError(Exception):
    """A claimed bound that the prices do not prove.

    Parameters
    ----------
    claim, proven
        Claimed bound, and the bound at these prices.
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
        If a price of a resource is negative.
    """
    if any((p < 0).any() for p in (prices.gpu, prices.side, np.asarray([prices.uplink]))) or any(
        p is not None and (p < 0).any() for p in (prices.slot, prices.stay)
    ):
        raise ValueError("prices must be at least 0")
    # Prices that overflow prove nothing: inf and NaN are no less than any claim.
    with np.errstate(over="ignore", invalid="ignore"):
        proven = _Definition(problem, level, prices).bound()
    if not claim >= proven - PRICE_CLAIM * abs(claim):
        raise BoundError(claim, proven)


class _Definition:
    def __init__(self, problem: RoundProblem, level: Level, prices: Prices) -> None:
        self.problem, self.level, self.prices = problem, level, prices
        stay = np.zeros(problem.holds.count) if prices.stay is None else prices.stay
        self.on_open = problem.nodes.open[problem.holds.node]
        # The entry past the last is for holds of no stay: their price is 0.
        self.stay = np.append(np.where(self.on_open, stay, 0.0), 0.0)
        # Even at slot prices of 0, a start without open nodes is impossible.
        self.by_slots = prices.slot is not None or prices.stay is not None
        if self.by_slots:
            self.cells, self.kinds = find_cells(problem), find_kinds(problem)
            none = np.zeros((self.cells.count, self.kinds.count))
            self.slot = none if prices.slot is None else prices.slot

    def bound(self) -> float:
        """Return the bound of the theorem."""
        nodes, prices = self.problem.nodes, self.prices
        of_class = nodes.node_class[nodes.open]
        total = float(prices.gpu[of_class] @ nodes.capacity[of_class, 0])
        total += float((prices.side[of_class] * nodes.capacity[of_class, 1:]).sum())
        if prices.uplink:
            total += prices.uplink * float(nodes.uplink_gb_per_s.sum())
        total += self._rules_worth()
        if self.by_slots:
            total += self._nodes_worth()
        return total + float(self._surplus().sum())

    # ------------------------------------------------------------------ rules

    def _rules_worth(self) -> float:
        """Return the price of the rules' limits and the best value of auxiliary columns."""
        rules, y = self.problem.rules, self.prices.rule
        total = 0.0
        for d in np.flatnonzero(y).tolist():
            total += float(y[d] * (rules.upper[d] if y[d] > 0 else rules.lower[d]))
        aux = rules.kind == RULE_U
        earned = np.zeros(rules.aux_upper.size)
        np.subtract.at(earned, rules.index[aux], y[rules.row[aux]] * rules.value[aux])
        for a in np.flatnonzero(earned > 0).tolist():
            total += float(earned[a]) * self._most_of(a)
        return total

    def _most_of(self, a: int) -> float:
        """Return the limit of an auxiliary column.

        Its own limit, or the limit of a row in which no entry is negative.
        """
        rules, most = self.problem.rules, float(self.problem.rules.aux_upper[a])
        for entry in np.flatnonzero((rules.kind == RULE_U) & (rules.index == a)).tolist():
            row = int(rules.row[entry])
            if rules.value[entry] > 0 and (rules.value[rules.row == row] >= 0).all():
                most = min(most, float(rules.upper[row] / rules.value[entry]))
        return max(0.0, most)

    def _paid_to_rules(self) -> Floats:
        """Return the price that each option pays for the rules, shape (O,)."""
        rules, option = self.problem.rules, options_in_rules(self.problem)
        amount = np.where(option >= 0, self.prices.rule[rules.row] * rules.value, 0.0)
        count = self.problem.options.count
        return np.bincount(np.maximum(option, 0), amount, minlength=count).astype(np.float64)

    # ------------------------------------------------------------------ jobs

    def _surplus(self) -> Floats:
        """Return each job's largest reduced value U, shape (J,)."""
        options, price = self.problem.options, self._price()
        allowed, idle = allowed_options(self.problem)
        best = np.where(idle, 0.0, -np.inf)
        for own in stretches(options.count):
            earned = np.where(allowed[own], self.level.value[own] - price[own], -np.inf)
            alone = np.where(options.shared[own], -np.inf, earned)
            np.maximum.at(best, options.job[own], alone)
        together = np.flatnonzero(options.shared & allowed) if options.shared.any() else no_ints()
        gains = (self.level.value[together] - price[together]).tolist()
        shared = [
            (options.jobs_of(o), earns)
            for o, earns in zip(together.tolist(), gains, strict=True)
            if np.isfinite(earns)
        ]
        for jobs, _ in shared:
            best[jobs] = np.where(np.isneginf(best[jobs]), 0.0, best[jobs])
        # Raise both jobs by half of an option's excess, one by one: valid in any order.
        for jobs, earns in shared:
            best[jobs] += max(0.0, earns - float(best[jobs].sum())) / len(jobs)
        return np.asarray(best)

    def _price(self) -> Floats:
        """Return the price of each option, shape (O,); inf if it has no nodes."""
        problem, prices, table = self.problem, self.prices, self.problem.options.starts
        # A million candidates have a few hundred configurations.
        rows, which = table.templates
        owner, where, gpus = rows.part_candidate, rows.part_class, rows.part_gpus
        held, count = problem.options.held, problem.options.count
        each = prices.gpu[where] * gpus
        for r in np.flatnonzero(prices.side.any(axis=0)).tolist():
            # Side resources without a price are skipped.
            each += prices.side[where, r] * rows.part_side(r)
        if prices.uplink:
            each += prices.uplink * rows.sent_per_gpu[owner] * gpus
        of_row = np.bincount(owner, each, minlength=rows.count).astype(np.float64)
        paid = gathered(of_row, which, np.zeros(count - which.size))
        paid[held.option] = 0.0
        t = problem.nodes.node_class[held.node]
        amount = prices.gpu[t] * held.demand[:, 0] + (prices.side[t] * held.demand[:, 1:]).sum(1)
        amount = np.where(problem.nodes.open[held.node], amount, 0.0) + self.stay[held.of_stay]
        amount = amount + prices.uplink * held.uplink_gb_per_s
        np.add.at(paid, held.option, amount)
        if self.by_slots:
            paid += self._paid_for_slots()
        return np.asarray(paid + self._paid_to_rules() if self.problem.rules.count else paid)

    def _paid_for_slots(self) -> Floats:
        """Return the least price of each option's slots, within one leaf or domain if confined."""
        table, held = self.problem.options.starts, self.problem.options.held
        # A million candidates have a few hundred configurations.
        rows, which = table.templates
        of_row = np.full(rows.count, np.inf)
        for scope, node_set in {*zip(rows.scope.tolist(), rows.node_set.tolist(), strict=True)}:
            mine = (rows.scope == scope) & (rows.node_set == node_set)
            parts = np.flatnonzero(mine[rows.part_candidate])
            owner, kind = rows.part_candidate[parts], self.kinds.of_part[parts]
            least = np.full(rows.count, np.inf)
            for price in self._prices_of_places(scope, node_set):
                np.minimum(least, np.bincount(owner, price[kind], rows.count), out=least)
            of_row[mine] = least[mine]
        paid = gathered(of_row, which, np.zeros(self.problem.options.count - which.size))
        paid[held.option] = 0.0
        return paid

    def _prices_of_places(self, scope: int, node_set: int) -> Floats:
        """Return the cheapest slot of each kind in each distinct place; inf if there is none."""
        nodes, kinds = self.problem.nodes, self.kinds
        fit = np.flatnonzero(nodes.open & nodes.sets[node_set])
        places: Ints = np.zeros(nodes.count, dtype=np.int64)
        if scope not in (Scope.NODE, Scope.POD):
            places = nodes.leaf if scope == Scope.LEAF else nodes.domain
        which, place = np.unique(places[fit], return_inverse=True)
        price = np.full((which.size, kinds.count), np.inf)
        for t in range(nodes.classes):
            here, own = nodes.node_class[fit] == t, np.flatnonzero(kinds.node_class == t)
            at = place.reshape(-1)[here][:, None], own[None, :]
            np.minimum.at(price, at, self.slot[self.cells.of_node[fit[here]]][:, own])
        return np.unique(price, axis=0)

    # ------------------------------------------------------------------ nodes

    def _nodes_worth(self) -> float:
        """Return the largest total payment of stays and slots on all open nodes (sum of W)."""
        alike: dict[tuple[int, int], list[Gangs]] = {}
        gangs = self._gangs()
        for n in np.flatnonzero(self.problem.nodes.open).tolist():
            paying = tuple(gang for gang in gangs[n].values() if gang[1] > 0.0)
            alike.setdefault((int(self.cells.of_node[n]), len(paying)), []).append(paying)
        return sum(self._worth_of_nodes(cell, k, own) for (cell, k), own in alike.items())

    def _worth_of_nodes(self, cell: int, k: int, gangs: list[Gangs]) -> float:
        """Return the most paid on nodes of a cell, over all subsets of stays."""
        t, count = int(self.cells.node_class[cell]), len(gangs)
        capacity, scarce = self.problem.nodes.capacity[t], self.kinds.scarce[t]
        price = tuple(self.slot[cell, self.kinds.first[t] : self.kinds.first[t + 1]].tolist())
        need = np.asarray([[gang[0] for gang in own] for own in gangs]).reshape(
            count, k, capacity.size
        )
        pays = np.asarray([[gang[1] for gang in own] for own in gangs]).reshape(count, k)
        best = np.zeros(count)
        for chosen in product((False, True), repeat=k):
            on = np.asarray(chosen, dtype=bool)
            free = capacity[scarce] - np.zeros((count, 1))
            if on.any():
                free = free - need[:, on][..., scarce].sum(axis=1)
            fits = np.flatnonzero((free >= -MARGIN).all(axis=1))
            # With a margin, because demands are rounded: a tight fit must count as fitting.
            room = free[fits] + MARGIN * np.maximum(1.0, capacity[scarce])
            states, which = np.unique(room, axis=0, return_inverse=True)
            slots = [_fill(tuple(state), self.kinds.vectors[t], price) for state in states.tolist()]
            paid = pays[fits][:, on].sum(axis=1) + np.asarray(slots)[which.reshape(-1)]
            best[fits] = np.maximum(best[fits], paid)
        return float(best.sum())

    def _gangs(self) -> list[dict[int, tuple[Price, float]]]:
        """Return the gangs that pay per node, each with its smallest demand and largest payment."""
        options, held = self.problem.options, self.problem.options.held
        found: list[dict[int, tuple[Price, float]]] = [{} for _ in range(self.problem.nodes.count)]
        gangs, pays = options.gang[held.job].tolist(), self.stay[held.of_stay].tolist()
        for gang, n, need, paid in zip(
            gangs, held.node.tolist(), held.demand.tolist(), pays, strict=True
        ):
            least, most = found[n].get(gang, (tuple(need), paid))
            found[n][gang] = tuple(map(min, least, need)), max(most, paid)
        return found


@of_tables
def allowed_options(problem: RoundProblem) -> tuple[Bools, Bools]:
    """Return the options, (O,), and the idle jobs, (J,), that rows about single jobs allow."""
    rules, options = problem.rules, problem.options
    allowed, idle = _may_happen(problem), np.ones(problem.jobs.count, dtype=bool)
    if not rules.count:
        return allowed, idle
    about = options_in_rules(problem)
    order = np.argsort(rules.row, kind="stable")
    ends = np.searchsorted(rules.row[order], np.arange(rules.count + 1))
    for d in range(rules.count):
        entries = order[ends[d] : ends[d + 1]]
        refers = entries[about[entries] >= 0]
        if not refers.size or (rules.kind[entries] == RULE_U).any():
            continue
        first, *others = about[refers].tolist()
        alone = set(options.jobs_of(first))
        for option in others:
            if not alone:
                break
            alone.intersection_update(options.jobs_of(option))
        for job in alone:
            low, high = rules.lower[d] - FEASIBILITY, rules.upper[d] + FEASIBILITY
            idle[job] &= bool(low <= 0.0 <= high)
            use = np.zeros(options.count)
            np.add.at(use, about[refers], rules.value[refers])
            mine = options.members.option[options.members.job == job]
            allowed[mine] &= (use[mine] >= low) & (use[mine] <= high)
    return allowed, idle


def _may_happen(problem: RoundProblem) -> Bools:
    """Return whether all jobs of an option may be on its named nodes, shape (O,)."""
    nodes, options = problem.nodes, problem.options
    members, fine = options.members, np.ones(options.count, dtype=bool)
    visits = options.in_place & options.shared
    shared = members.option[members.starts & visits[members.option]] if visits.any() else no_ints()
    for k in shared.tolist():
        where = options.held.node[options.held.option == k]
        fine[k] = bool(
            nodes.open[where].all()
            and (nodes.node_class[where] == options.node_class[k]).all()
            and nodes.sets[problem.options.starts.node_set[k], where].all()
        )
    first, returns = problem.candidates.count + problem.shared.count, problem.returns
    if not returns.count:
        return fine
    for at, row in enumerate(returns.placed.tolist()):
        where = returns.node[returns.of_node == at]
        try:
            check_start(problem, 0, int(returns.candidate[row]), tuple(where.tolist()))
        except RuleError:
            fine[first + at] = False
    return fine


@lru_cache(maxsize=65536)
def _fill(
    free: tuple[float, ...], kinds: tuple[tuple[float, ...], ...], price: tuple[float, ...]
) -> float:
    """Return the largest payment of slots that fit in free resources, by recursion."""
    best = 0.0
    for need, pays in zip(kinds, price, strict=True):
        rest = tuple(have - asks for have, asks in zip(free, need, strict=True))
        if pays > 0 and min(rest) >= 0.0:
            best = max(best, pays + _fill(rest, kinds, price))
    return best
