r"""Bound that any prices prove: docs/formulations/prices.md, theorem 1.

    bound = sum_j U[j] + sum_n W[n] + sum_d p[d] limit[d] + auxiliary columns at their better end

with p the prices of the shared rows, pi[c,g] >= 0 the price of a slot of kind g in cell c, and
sigma[h] >= 0 the payment of a job that stays on its hold h:

    U[j]    best reduced value of job j's options; for a pair, the sum over both jobs
    W[n]    largest income of node n, over all subsets of the jobs that may stay there
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.node_pattern.cells import (
    find_cells,
    find_gang_types,
    find_kinds,
)
from formulations.node_pattern.gangs import hosts_of
from formulations.node_pattern.patterns import Vector, maximal_patterns
from formulations.prices.relaxation import Evaluation, Relaxation
from formulations.prices.rows import Shared, held_on_open
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import DECIMALS, FEASIBILITY, MARGIN, ROUNDING


def _no_floats() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of shared resources.

    Parameters
    ----------
    gpu
        Price of a GPU of each node class, at least 0, shape (T,).
    side
        Price of a unit of each side resource of each class, at least 0, shape (T, R - 1).
    uplink
        Price of a GB/s on any uplink, at least 0.
    rule
        Price of each row of the operator's rules, shape (Q,): at least 0 for its upper limit, at
        most 0 for its lower limit.
    slot
        Additional price of a slot of each kind in each cell, at least 0, shape (C, S); None for 0.
    stay
        Additional price of each hold on an open node, at least 0, shape (H,); None for 0.
    """

    gpu: Floats
    side: Floats
    uplink: float = 0.0
    rule: Floats = field(default_factory=_no_floats)
    slot: Floats | None = None
    stay: Floats | None = None

    @classmethod
    def of_rows(cls, problem: RoundProblem, shared: Shared, prices: Floats) -> Prices:
        """Return the `Prices` of these prices of the shared rows, shape (D,)."""
        gpu = np.zeros(problem.nodes.classes)
        side = np.zeros((problem.nodes.classes, problem.nodes.resources - 1))
        rule = np.zeros(problem.rules.count)
        uplink = 0.0
        for (word, at, r), price in zip(shared.label, prices.tolist(), strict=True):
            if word == "gpu":
                gpu[at] = price
            elif word == "side":
                side[at, r - 1] = price
            elif word == "uplink":
                uplink = price
            else:
                rule[at] = price
        return cls(gpu, side, uplink, rule)

    def rows(self, shared: Shared) -> Floats:
        """Return the prices of the shared rows as one array, shape (D,).

        Raises
        ------
        ValueError
            If a resource that cannot run out has a price, or a price has the wrong sign.
        """
        side, left = np.zeros_like(self.side), float(self.uplink)
        found: list[float] = []
        for word, at, r in shared.label:
            if word == "gpu":
                found.append(float(self.gpu[at]))
            elif word == "side":
                place = at, r - 1
                side[place] = self.side[place]
                found.append(float(side[place]))
            elif word == "uplink":
                found.append(float(self.uplink))
                left = 0.0
            else:
                found.append(float(self.rule[at]))
        if left or (side != self.side).any():
            raise ValueError("prices of resources that cannot run out must be 0")
        if min(self.gpu.min(initial=0.0), self.side.min(initial=0.0), self.uplink) < 0.0:
            raise ValueError("prices must be at least 0")
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound and the prices that prove it.

    Parameters
    ----------
    value
        Upper bound on all feasible decisions of the round; -inf if there are none.
    prices
        Certificate, from which `formulations.check_bound` recomputes the value.
    """

    value: float
    prices: Prices


def price_bound(problem: RoundProblem, level: Level, prices: Prices) -> Bound:
    """Return the bound at these prices, by its definition.

    Raises
    ------
    formulations.node_pattern.patterns.TooManyPatternsError
        With slot prices, if a node has too many patterns.
    """
    return evaluated(problem, Relaxation(problem, level), prices)[0]


def evaluated(
    problem: RoundProblem, relaxation: Relaxation, prices: Prices
) -> tuple[Bound, Floats, Floats]:
    """Return the bound, U of each job, (J,), and the reduced value of each option, (O,)."""
    rows = prices.rows(relaxation.shared)
    if prices.slot is None and prices.stay is None:
        plain = relaxation.at(rows)
        return Bound(rounded_up(plain), prices), plain.surplus, relaxation.reduced(rows)
    slots = _Slots(problem, prices)
    paid = slots.paid()
    evaluation = relaxation.at(rows, paid)
    worth = slots.collected()
    bound = rounded_up(evaluation, float(worth.sum()), float(np.abs(worth).sum()))
    return Bound(bound, prices), evaluation.surplus, relaxation.reduced(rows) - paid


def rounded_up(evaluation: Evaluation, more: float = 0.0, size: float = 0.0) -> float:
    """Return the bound of an evaluation plus further terms, raised by possible rounding."""
    value = evaluation.bound + more
    return value + ROUNDING * (evaluation.size + size) if np.isfinite(value) else value


class _Slots:
    """Slot prices of a round: payments of options and income of nodes."""

    def __init__(self, problem: RoundProblem, prices: Prices) -> None:
        self._problem = problem
        self._cells, self._kinds = find_cells(problem), find_kinds(problem)
        shape = (self._cells.count, self._kinds.count)
        self._slot = np.zeros(shape) if prices.slot is None else prices.slot
        holds = np.zeros(problem.holds.count) if prices.stay is None else prices.stay
        # The entry past the last is for holds of no stay: their price is 0.
        self._stay = np.append(np.where(held_on_open(problem), holds, 0.0), 0.0)

    def paid(self) -> Floats:
        """Return the price of each option, shape (O,); inf for a start without nodes."""
        problem, cells, kinds = self._problem, self._cells, self._kinds
        table = problem.options.starts
        types = find_gang_types(problem, kinds)
        cost = np.zeros(types.count)
        same = cells.node_class[:, None] == kinds.node_class[None, :]
        for q in range(types.count):
            if types.counts[q].any():
                need = types.counts[q] > 0
                cost[q] = min(
                    (
                        float(types.counts[q] @ _cheapest(self._slot[host], same[host], need))
                        for host in hosts_of(cells, types, q)
                    ),
                    default=np.inf,
                )
        held = problem.options.held
        paid = np.zeros(problem.options.count)
        paid[: table.count] = cost[types.of_candidate]
        np.add.at(paid, held.option, self._stay[held.of_stay])
        return paid

    def collected(self) -> Floats:
        """Return W, the largest income of each open node, shape (N,)."""
        problem = self._problem
        held, nodes, gang = problem.options.held, problem.nodes, problem.options.gang
        ways: list[dict[int, tuple[Floats, float]]] = [{} for _ in range(nodes.count)]
        price = self._stay[held.of_stay]
        for shared, n, need, pays in zip(
            gang[held.job].tolist(), held.node.tolist(), held.demand, price.tolist(), strict=True
        ):
            least, most = ways[n].get(shared, (need, pays))
            ways[n][shared] = (np.minimum(least, need), max(most, pays))
        worth = np.zeros(nodes.count)
        known: dict[tuple[int, tuple[tuple[Vector, float], ...]], float] = {}
        for n in np.flatnonzero(nodes.open).tolist():
            cell = int(self._cells.of_node[n])
            scarce = self._kinds.scarce[int(nodes.node_class[n])]
            mine = tuple(
                sorted(
                    (tuple(np.round(need[scarce], DECIMALS).tolist()), pays)
                    for need, pays in ways[n].values()
                    if pays > 0.0  # a gang that pays 0 only takes room
                )
            )
            if (cell, mine) not in known:
                known[cell, mine] = self._worth(cell, mine)
            worth[n] = known[cell, mine]
        return worth

    def _worth(self, cell: int, gangs: tuple[tuple[Vector, float], ...]) -> float:
        """Return W: the best subset of gangs that stay, with the best pattern in the rest."""
        t = int(self._cells.node_class[cell])
        capacity = self._problem.nodes.capacity[t, self._kinds.scarce[t]]
        best = 0.0
        for continuing in product((False, True), repeat=len(gangs)):
            free, paid = capacity.copy(), 0.0
            for (need, pays), stays in zip(gangs, continuing, strict=True):
                if stays:
                    free -= need
                    paid += pays
            if (free >= -FEASIBILITY).all():
                free = np.maximum(free, 0.0) + MARGIN * np.maximum(1.0, capacity)
                state = tuple(np.round(free, DECIMALS).tolist())
                best = max(best, paid + self._best_pattern(cell, t, state))
        return best

    def _best_pattern(self, cell: int, t: int, free: Vector) -> float:
        first, last = int(self._kinds.first[t]), int(self._kinds.first[t + 1])
        patterns: Ints = maximal_patterns(free, self._kinds.vectors[t])
        return float((patterns @ self._slot[cell, first:last]).max(initial=0.0))


def _cheapest(slot: Floats, same: Bools, need: Bools) -> Floats:
    """Return the least price of each needed kind in cells of its class, (S,); else 0."""
    return np.where(need, np.where(same, slot, np.inf).min(axis=0), 0.0)
