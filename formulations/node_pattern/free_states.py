"""Free states and patterns of nodes: columns w and z of `formulations.node_pattern`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.layout import Layout
from formulations.linear_model import ModelBuilder
from formulations.node_pattern.cells import Cells, Kinds
from formulations.node_pattern.patterns import Vector, maximal_patterns, reachable_free_of
from formulations.round.tables import RoundProblem
from formulations.tolerances import DECIMALS, FEASIBILITY


@dataclass(frozen=True, slots=True)
class FreeStates:
    """Columns w: node, cell, free state and column index, one entry per state."""

    node: Ints
    cell: Ints
    free: tuple[Vector, ...]
    column: Ints


def add_free(
    builder: ModelBuilder,
    problem: RoundProblem,
    layout: Layout,
    cells: Cells,
    kinds: Kinds,
    tight: bool,
) -> FreeStates:
    """Add columns w and rows ``one_free`` and ``node_free`` of open nodes with running jobs.

    With ``tight`` also rows ``beside``, one for each of several jobs on a node.
    """
    here, nodes = problem.options.held, problem.nodes
    on_open = np.flatnonzero(nodes.open[here.node])
    here = here.take(on_open[np.argsort(here.node[on_open], kind="stable")])
    busy, first = np.unique(here.node, return_index=True)
    of_node: list[int] = []
    labels: list[tuple[int, int]] = []
    free: list[Vector] = []
    row_label: list[tuple[int, int]] = []
    row_limit: list[float] = []
    state_entries: list[tuple[int, int, float]] = []
    hold_entries: list[tuple[int, int, float]] = []
    beside = _Beside()
    groups = np.split(np.arange(here.node.size), first[1:]) if busy.size else []
    gang_of = problem.options.gang
    for position, (node, rows) in enumerate(zip(busy.tolist(), groups, strict=True)):
        t = int(nodes.node_class[node])
        scarce = kinds.scarce[t]
        capacity = nodes.capacity[t, scarce]
        held = np.round(here.demand[rows][:, scarce], DECIMALS)
        states = reachable_free_of(
            tuple(capacity.tolist()), _by_gang(gang_of[here.job[rows]].tolist(), held)
        )
        ways = layout.x[here.option[rows]].tolist()
        at = len(free)
        of_node += [position] * len(states)
        labels += [(node, i) for i in range(len(states))]
        free += states
        if tight and len(ways) > 1:
            over = np.asarray(states)[None, :, :] + held[:, None, :] > capacity + FEASIBILITY
            options = here.option[rows].tolist()
            for option, way, none in zip(options, ways, over.any(axis=2), strict=True):
                beside.add((node, option), way, at + np.flatnonzero(none))
        for column, resource in enumerate(scarce.tolist()):
            row = len(row_label)
            row_label.append((node, resource))
            row_limit.append(float(capacity[column]))
            state_entries += [(row, at + i, state[column]) for i, state in enumerate(states)]
            hold_entries += [
                (row, way, amount)
                for way, amount in zip(ways, held[:, column].tolist(), strict=True)
            ]
    w = builder.add_columns("w", np.asarray(labels, dtype=np.int64).reshape(-1, 2), 1.0)
    builder.add_rows(
        "one_free", busy[:, None], 1.0, 1.0, [(np.asarray(of_node, dtype=np.int64), w, 1.0)]
    )
    state_row, state_column, state_value = _columns(state_entries)
    hold_row, hold_column, hold_value = _columns(hold_entries)
    builder.add_rows(
        "node_free",
        np.asarray(row_label, dtype=np.int64).reshape(-1, 2),
        -np.inf,
        np.asarray(row_limit),
        [(state_row, w[state_column], state_value), (hold_row, hold_column, hold_value)],
    )
    beside.pose(builder, w)
    node = busy[np.asarray(of_node, dtype=np.int64)]
    return FreeStates(node, cells.of_node[node], tuple(free), w)


class _Beside:
    """Rows ``beside``: at most one of a stay and the free states in which it cannot fit."""

    def __init__(self) -> None:
        self._label: list[tuple[int, int]] = []
        self._way: list[int] = []
        self._states: list[Ints] = []

    def add(self, label: tuple[int, int], way: int, states: Ints) -> None:
        """Note one row: the column of the stay and the numbers of the states."""
        self._label.append(label)
        self._way.append(way)
        self._states.append(states)

    def pose(self, builder: ModelBuilder, w: Ints) -> None:
        """Add all rows to the model, with ``w`` the columns of the states."""
        if not self._way:
            return
        way = np.asarray(self._way, dtype=np.int64)
        each = np.arange(way.size)
        states = np.repeat(each, [one.size for one in self._states])
        column = w[np.concatenate(self._states)]
        label = np.asarray(self._label, dtype=np.int64)
        entries = [(states, column, 1.0), (each, way, 1.0)]
        builder.add_rows("beside", label, -np.inf, 1.0, entries)


def _by_gang(gangs: list[int], held: Floats) -> tuple[tuple[Vector, ...], ...]:
    """Return the distinct holds of each gang, in an order independent of gang numbers."""
    ways: dict[int, set[Vector]] = {}
    for gang, row in zip(gangs, held.tolist(), strict=True):
        ways.setdefault(gang, set()).add(tuple(row))
    return tuple(sorted(tuple(sorted(own)) for own in ways.values()))


def _columns(entries: list[tuple[int, int, float]]) -> tuple[Ints, Ints, Floats]:
    table = np.asarray(entries, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Columns z with their slots: entries (column, cell, kind, slots)."""

    column: Ints
    cell: Ints
    kind: Ints
    slots: Ints


def add_patterns(
    builder: ModelBuilder, problem: RoundProblem, cells: Cells, kinds: Kinds, busy: FreeStates
) -> Patterns:
    """Add columns z and rows ``pattern_count``."""
    nodes = problem.nodes
    carries = np.zeros(nodes.count, dtype=bool)
    carries[busy.node] = True
    idle = (
        np.bincount(cells.of_node[nodes.open & ~carries], minlength=cells.count)
        if cells.count
        else np.zeros(0, dtype=np.int64)
    )
    waiting: dict[tuple[int, Vector], list[int]] = {}
    for cell, state, column in zip(
        busy.cell.tolist(), busy.free, busy.column.tolist(), strict=True
    ):
        waiting.setdefault((cell, state), []).append(column)
    for cell in np.flatnonzero(idle).tolist():
        waiting.setdefault((cell, _full(problem, cells, kinds, cell)), [])
    labels: list[tuple[int, int, int]] = []
    upper: list[float] = []
    row_labels: list[tuple[int, int]] = []
    row_idle: list[float] = []
    z_rows: list[int] = []
    w_entries: list[tuple[int, int]] = []
    offers: list[tuple[Ints, int, Ints]] = []
    numbers: dict[int, int] = {}
    for (cell, state), columns in sorted(waiting.items()):
        t = int(cells.node_class[cell])
        patterns = maximal_patterns(state, kinds.vectors[t])
        number = numbers[cell] = numbers.get(cell, -1) + 1
        if not patterns.shape[0]:
            continue
        row = len(row_labels)
        spare = float(idle[cell]) if state == _full(problem, cells, kinds, cell) else 0.0
        row_labels.append((cell, number))
        row_idle.append(spare)
        offers.append((patterns, cell, np.arange(len(labels), len(labels) + patterns.shape[0])))
        labels += [(cell, number, p) for p in range(patterns.shape[0])]
        upper += [spare + len(columns)] * patterns.shape[0]
        z_rows += [row] * patterns.shape[0]
        w_entries += [(row, column) for column in columns]
    z = builder.add_columns(
        "z", np.asarray(labels, dtype=np.int64).reshape(-1, 3), np.asarray(upper)
    )
    w_table = np.asarray(w_entries, dtype=np.int64).reshape(-1, 2)
    builder.add_rows(
        "pattern_count",
        np.asarray(row_labels, dtype=np.int64).reshape(-1, 2),
        -np.inf,
        np.asarray(row_idle),
        [(np.asarray(z_rows, dtype=np.int64), z, 1.0), (w_table[:, 0], w_table[:, 1], -1.0)],
    )
    return _offers(offers, z, cells, kinds)


def _full(problem: RoundProblem, cells: Cells, kinds: Kinds, cell: int) -> Vector:
    t = int(cells.node_class[cell])
    return tuple(problem.nodes.capacity[t, kinds.scarce[t]].tolist())


def _offers(offers: list[tuple[Ints, int, Ints]], z: Ints, cells: Cells, kinds: Kinds) -> Patterns:
    column, cell, kind, slots = [], [], [], []
    for patterns, at, indices in offers:
        row, local = np.nonzero(patterns)
        column.append(z[indices[row]])
        cell.append(np.full(row.size, at, dtype=np.int64))
        kind.append(kinds.first[cells.node_class[at]] + local)
        slots.append(patterns[row, local])
    none = np.zeros(0, dtype=np.int64)
    return Patterns(*(np.concatenate(c or [none]) for c in (column, cell, kind, slots)))
