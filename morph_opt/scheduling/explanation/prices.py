r"""Prices of a round's scarce resources: duals of its linear relaxation.

With A the rows of ``node_pattern`` (those of guarantees, ranks and rules included), y their row
duals and v the objective's values, in the sign of `Outcome.row_duals` (every model maximises, so a
binding ``<=`` row has y >= 0):

    price[k]   = sum of y[i] A[i,k] over all rows i but the job's own one_config
    reduced[k] = v[k] - price[k]

By duality ``one_config[j]`` has the dual ``max(0, max_k reduced[k])``, the job's surplus. In the
relaxation a job holds only candidates whose reduced value is that surplus; a queued job has none
above 0.

Where the duals are not unique, those are taken that value one more of every resource, not one less:
the relaxation is solved again with slightly more of each, and its duals are checked to be optimal.

Rows that hand demand on (``gangs``, ``parts``) are equations in the model. They are priced as
"places for at least as many": the optimum is the same, and a place then never has a negative price.

An idle node of a class is worth what its best pattern p sells at these prices,
``max_p sum_g a[p,g] y[slots[c,g]] + ...``. That is no bound on what the round gains from one more:
a node may make gangs possible that no set of the present nodes has room for. The relaxation of the
round with one more node is (`relaxation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from formulations.node_pattern.cells import Cells, Kinds, find_cells, find_kinds
from formulations.node_pattern.patterns import maximal_patterns
from formulations.resources import RESOURCES
from formulations.round.tables import RoundProblem
from morph_opt.scheduling.explanation.report import EXPLAIN, UnexplainedError
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status

GPUS = RESOURCES[0].words

_HANDED_ON = ("gangs", "parts", "one_host")

_RESOURCES = ("pattern_count", "node_free", "uplink", "side", "capacity")

_WORDS = {
    "slots": GPUS,
    "pattern_count": GPUS,
    "one_free": GPUS,
    "distinct": "distinct nodes",
    "uplink": "uplinks",
    "guarantee": "guarantees",
    "rank": "goals that rank higher",
    "not_again": "placement",
    "parts": GPUS,
    "one_host": GPUS,
    "distinct_nodes": "distinct nodes",
}


@dataclass(frozen=True, slots=True)
class CellPrice:
    """Value of the nodes of one kind.

    Parameters
    ----------
    nodes
        Their indices, ascending.
    value
        Value of an idle node at the round's prices, in the objective's unit.
    """

    nodes: tuple[int, ...]
    value: float


def _unbounded(model: LinearModel) -> LinearModel:
    """Return the relaxation without the column limits that its rows imply.

    Every column but those of rules is limited by a row (``one_config``, ``one_free``,
    ``pattern_count``) or only costs (``gangs``). A limit that is stated twice would share the row's
    price. What is shut out, as pairs that may not meet are, stays out.
    """
    upper = np.where(model.column_upper > 0.0, np.inf, model.column_upper)
    for block in model.column_blocks:
        if block.family == "u":
            own = slice(block.start, block.start + block.count)
            upper[own] = model.column_upper[own]
    return replace(model, column_upper=upper)


def _handing_on(model: LinearModel, counted: bool) -> LinearModel:
    """Return the relaxation with rows that need at least, not exactly, one place per start.

    Places only cost, so an optimum uses no more places than chosen starts.
    """
    lower, upper = model.row_lower.copy(), model.row_upper.copy()
    for block in model.row_blocks:
        if block.family in _HANDED_ON:
            # Where nodes are counted, the chosen stand with +1; where they are named, the places.
            (lower if counted else upper)[block.start : block.start + block.count] = (
                -np.inf if counted else np.inf
            )
    return replace(model, row_lower=lower, row_upper=upper)


def _with_a_little_more(model: LinearModel) -> LinearModel:
    """Return the relaxation with slightly more of every resource.

    If prices are not unique, its duals state what one more is worth, not what one less costs.
    """
    upper = model.row_upper.copy()
    for block in model.row_blocks:
        if block.family in _RESOURCES:
            rows = slice(block.start, block.start + block.count)
            upper[rows] += EXPLAIN.little * np.maximum(1.0, np.abs(upper[rows]))
    return replace(model, row_upper=upper)


def _proves(model: LinearModel, duals: Floats, optimum: float) -> bool:
    """Return whether row duals are optimal: feasible, with the optimum as their value."""
    reduced = model.cost - model.matrix().T @ duals
    limited = np.isfinite(model.column_upper)
    beyond = np.where(limited, 0.0, np.maximum(0.0, reduced))
    limit = np.where(duals > 0, model.row_upper, model.row_lower)
    used = duals != 0
    worth = float(duals[used] @ limit[used])
    worth += float(np.maximum(0.0, reduced[limited]) @ model.column_upper[limited])
    feasible = bool(beyond.max(initial=0.0) <= EXPLAIN.proven)
    return feasible and abs(worth - optimum) <= EXPLAIN.proven * max(1.0, abs(optimum))


def relaxation(model: LinearModel, limits: Limits) -> float | None:
    """Solve the linear relaxation of a model; None if that failed."""
    scale = model.scale
    outcome = HighsSolver().solve(model.with_objective(model.cost / scale).relaxed(), limits)
    return outcome.bound * scale if outcome.status is Status.OPTIMAL else None


def _cheapest(capacity: Floats, needs: Floats, pays: Floats) -> Floats:
    """Return least resource prices at which no slot pays more than it uses, shape (resources,).

    Parameters
    ----------
    capacity
        Resources of an idle node, shape (resources,).
    needs, pays
        Resources of a slot of each kind, shape (kinds, resources), and its price, shape (kinds,).
    """
    if capacity.size == 1:
        return np.atleast_1d((pays / needs[:, 0]).max(initial=0.0))
    # As long to import as a small round takes, and only rounds with scarce side resources need it.
    from scipy.optimize import linprog

    # Where several are as cheap, the first: GPUs before all others.
    cost = capacity * (1.0 + EXPLAIN.little * np.arange(capacity.size))
    return np.asarray(linprog(cost, -needs, -pays, method="highs-ds").x)


class Prices:
    """Duals of a round's relaxation, and prices derived from them.

    Parameters
    ----------
    problem
        The round.
    built
        Model under the priced goal, rows of earlier goals included.
    limits
        For the linear program.

    Raises
    ------
    UnexplainedError
        If the relaxation could not be solved.
    """

    def __init__(self, problem: RoundProblem, built: RoundModel, limits: Limits) -> None:
        self.problem = problem
        self._built = built
        model = built.model
        # Duals in the unit of the objective; the solver sees a largest coefficient of 1.
        scale = model.scale
        scaled = _handing_on(model.with_objective(model.cost / scale), built.distinct is not None)
        relaxed = _unbounded(scaled.relaxed())
        outcome = HighsSolver().solve(relaxed, limits)
        duals = outcome.row_duals if model.columns else np.zeros(model.rows)
        if outcome.status is not Status.OPTIMAL or duals is None:
            raise UnexplainedError(f"the relaxation could not be priced: {outcome.message}")
        more = HighsSolver().solve(_with_a_little_more(relaxed), limits).row_duals
        if more is not None and _proves(relaxed, more, outcome.bound):
            duals = more
        self.relaxation = outcome.bound * scale
        self.scale = scale
        self.duals: Floats = duals * scale
        self._family = np.zeros(model.rows, dtype=np.int64)
        self._families = [block.family for block in model.row_blocks]
        for number, block in enumerate(model.row_blocks):
            self._family[block.start : block.start + block.count] = number
        self._rows = model.matrix()
        self._columns = self._rows.tocsc()
        self._rules = set(problem.rules.name)
        self._cells, self._kinds = find_cells(problem), find_kinds(problem)
        self._slots = self._by_label("slots")
        self._of_slots: dict[int, Floats] = {}

    def of(self, option: int) -> dict[str, float]:
        """Return the price of an option, by resource or rule."""
        return self._of(int(self._built.layout.x[option]))

    def surplus(self, job: int) -> float:
        """Return the value of a job's best option above its price (dual of ``one_config``)."""
        return self._by_label("one_config")[(job,)]

    def is_rule(self, word: str) -> bool:
        """Return whether an entry of a price belongs to an operator's rule."""
        return word in self._rules

    def _of(self, column: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for row, value in self._entries(column):
            if self._families[self._family[row]] == "one_config":
                continue
            amount = self.duals[row] * value
            if abs(amount) > EXPLAIN.small * self.scale:
                for word, share in self._shares(row).items():
                    found[word] = found.get(word, 0.0) + amount * share
        least = EXPLAIN.small * self.scale
        return {word: amount for word, amount in found.items() if abs(amount) > least}

    def _entries(self, column: int) -> Iterable[tuple[int, float]]:
        span = slice(int(self._columns.indptr[column]), int(self._columns.indptr[column + 1]))
        return zip(
            self._columns.indices[span].tolist(), self._columns.data[span].tolist(), strict=True
        )

    def _shares(self, row: int) -> dict[str, float]:
        """Return the price of a row by resource or rule, as fractions.

        Rows that only hand demand on (``gangs``, ``parts``) are priced as the cheapest way on.
        """
        family = self._families[self._family[row]]
        if family in ("gangs", "parts") and self._built.distinct is not None:
            return self._handed_on(row)
        if family == "slots":
            block = self._built.model.row_blocks[self._family[row]]
            return self._of_slot(*block.labels[row - block.start].tolist())
        if family in ("node_free", "side", "capacity"):
            block = self._built.model.row_blocks[self._family[row]]
            return {RESOURCES[int(block.labels[row - block.start][1])].words: 1.0}
        return {_WORDS.get(family, family): 1.0}

    def _of_slot(self, cell: int, kind: int) -> dict[str, float]:
        """Return the price of a slot by resource or rule, as fractions.

        Slots offer all that can run out on a node at once. Which of it they are paid for is said by
        the prices of these resources that make an idle node cheapest, and pay for every slot.
        """
        t = int(self._cells.node_class[cell])
        scarce, first = self._kinds.scarce[t], int(self._kinds.first[t])
        needs: Floats = np.asarray(self._kinds.vectors[t])
        if cell not in self._of_slots:
            pays = [self._slots.get((cell, first + k), 0.0) for k in range(needs.shape[0])]
            capacity = self.problem.nodes.capacity[t, scarce]
            self._of_slots[cell] = _cheapest(capacity, needs, np.asarray(pays))
        paid = needs[kind - first] * self._of_slots[cell]
        if paid.sum() <= EXPLAIN.small * self.scale:
            return {GPUS: 1.0}
        return {
            RESOURCES[resource].words: float(amount / paid.sum())
            for resource, amount in zip(scarce.tolist(), paid, strict=True)
            if amount > 0.0
        }

    def _handed_on(self, row: int) -> dict[str, float]:
        span = slice(int(self._rows.indptr[row]), int(self._rows.indptr[row + 1]))
        ways: list[dict[str, float]] = []
        for column, value in zip(
            self._rows.indices[span].tolist(), self._rows.data[span].tolist(), strict=True
        ):
            if value < 0.0:
                paid: dict[str, float] = {}
                for other, coefficient in self._entries(column):
                    if other == row:
                        continue
                    for word, share in self._shares(other).items():
                        amount = self.duals[other] * coefficient * share
                        paid[word] = paid.get(word, 0.0) + amount
                ways.append(paid)
        cheapest = min(ways, key=lambda paid: sum(paid.values()), default={})
        total = sum(cheapest.values())
        if total <= EXPLAIN.small * self.scale:
            return {GPUS: 1.0}
        return {word: amount / total for word, amount in cheapest.items()}

    def nodes(self) -> list[CellPrice]:
        """Return the value of one more idle node for every cell of open nodes, in their order."""
        cells, kinds = self._cells, self._kinds
        if self._built.distinct is None:
            return self._named_nodes(cells)
        slots, side = self._by_label("slots"), self._by_label("side")
        distinct: dict[int, float] = {}
        for (_, kind), amount in self._by_label("distinct").items():
            distinct[kind] = distinct.get(kind, 0.0) + amount
        found = []
        for cell in range(cells.count):
            members: Ints = np.flatnonzero(cells.of_node == cell)
            worth = self._best_pattern(cell, cells, kinds, slots, distinct)
            capacity = self.problem.nodes.capacity[cells.node_class[cell]]
            worth += sum(
                amount * float(capacity[r]) for (c, r), amount in side.items() if c == cell
            )
            found.append(CellPrice(tuple(members.tolist()), worth))
        return found

    def _named_nodes(self, cells: Cells) -> list[CellPrice]:
        """Return `nodes` of a model with named nodes: each cell has the value of its cheapest.

        A copy of the node gets its duals: of ``capacity`` for what it has, and of
        ``distinct_nodes`` for at most one part of a gang that a job starts at most one of.
        """
        capacity = self.problem.nodes.capacity[self.problem.nodes.node_class]
        worth = np.zeros(self.problem.nodes.count)
        for (node, resource), amount in self._by_label("capacity").items():
            worth[node] += amount * float(capacity[node, resource])
        once: dict[tuple[int, int], float] = {}
        for (candidate, node), amount in self._by_label("distinct_nodes").items():
            key = (int(self.problem.options.starts.job[candidate]), node)
            once[key] = max(once.get(key, 0.0), amount)
        for (_, node), amount in once.items():
            worth[node] += amount
        members = [np.flatnonzero(cells.of_node == cell) for cell in range(cells.count)]
        return [CellPrice(tuple(m.tolist()), float(worth[m].min())) for m in members]

    def _best_pattern(
        self,
        cell: int,
        cells: Cells,
        kinds: Kinds,
        slots: dict[tuple[int, ...], float],
        distinct: dict[int, float],
    ) -> float:
        t = int(cells.node_class[cell])
        first, last = int(kinds.first[t]), int(kinds.first[t + 1])
        full = tuple(self.problem.nodes.capacity[t, kinds.scarce[t]].tolist())
        patterns = maximal_patterns(full, kinds.vectors[t])
        if not patterns.size:
            return 0.0
        price = np.asarray([slots.get((cell, g), 0.0) for g in range(first, last)])
        once = np.asarray([distinct.get(g, 0.0) for g in range(first, last)])
        return float((patterns @ price + (patterns > 0) @ once).max(initial=0.0))

    def _by_label(self, family: str) -> dict[tuple[int, ...], float]:
        return {
            tuple(label): float(self.duals[block.start + i])
            for block in self._built.model.row_blocks
            if block.family == family
            for i, label in enumerate(block.labels.tolist())
        }
