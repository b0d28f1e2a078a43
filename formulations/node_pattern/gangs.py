"""Where gangs lie: columns m and f of `formulations.node_pattern`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.layout import Layout
from formulations.linear_model import ModelBuilder
from formulations.node_pattern.cells import Cells, GangTypes, Kinds, PartCounts
from formulations.round.tables import Scope


@dataclass(frozen=True, slots=True)
class PartPlaces:
    """Parts by where they lie: entries (column, cell, kind, parts, gang type)."""

    column: Ints
    cell: Ints
    kind: Ints
    parts: Floats
    gang: Ints
    types: GangTypes


def add_gangs(
    builder: ModelBuilder,
    layout: Layout,
    cells: Cells,
    kinds: Kinds,
    types: GangTypes,
    parts: PartCounts,
) -> PartPlaces:
    """Columns m and f with rows ``gangs`` and ``parts``; types with one possible cell need none.

    One of each class, where a gang is over several.
    """
    of_type = types.of_candidate[parts.candidate]
    hosts = _hosts_by_type(cells, types)
    only = _only_cells(cells, types, hosts)
    known: Bools = np.any(only >= 0, axis=1)
    plain: Bools = known & ~types.strict
    only = only[:, kinds.node_class]
    # One entry per type that has to be looked at; those without choice and rows are one together.
    found = [_plain_lies(layout, parts, only, of_type, np.flatnonzero(plain[of_type]))]
    members, mine = _by_type(types.of_candidate, types.count), _by_type(of_type, types.count)
    for q in np.flatnonzero(~plain & types.counts.any(axis=1)).tolist():
        x = layout.x[members(q)]
        if known[q]:
            found.append(_plain_lies(layout, parts, only, of_type, mine(q)))
            _add_span(builder, cells, types, (q, 0), x, found[-1:])
            continue
        gangs = _gang_columns(builder, q, hosts[q], x)
        for h, (host, column) in enumerate(zip(hosts[q], gangs, strict=True)):
            lies = _host_lies(builder, cells, kinds, types, (q, h), host, column)
            found += lies
            if types.strict[q]:
                _add_span(builder, cells, types, (q, h), column, lies)
    columns = [np.concatenate([entry[i] for entry in found]) for i in range(5)]
    order = np.argsort(columns[4], kind="stable")
    column, cell, kind, count, gang = (entry[order] for entry in columns)
    return PartPlaces(column, cell, kind, count, gang, types)


def _only_cells(cells: Cells, types: GangTypes, hosts: list[list[Ints]]) -> Ints:
    """The cell of each class where a type has one host and that one of each, else -1; (G, T)."""
    found = np.full(types.classes.shape, -1, dtype=np.int64)
    for q, (mine, wanted) in enumerate(zip(hosts, types.classes.sum(axis=1).tolist(), strict=True)):
        if [host.size for host in mine] == [wanted] and wanted:
            found[q, cells.node_class[mine[0]]] = mine[0]
    return found


def _by_type(of_entry: Ints, count: int) -> Callable[[int], Ints]:
    """Entries of a type, ascending."""
    order = np.argsort(of_entry, kind="stable")
    first = np.searchsorted(of_entry[order], np.arange(count + 1)).tolist()
    return lambda q: order[first[q] : first[q + 1]]


_Entry = tuple[Ints, Ints, Ints, Floats, Ints]


def _lie(column: Ints, cell: int, kind: Ints, parts: Floats, gang: int) -> _Entry:
    size = column.size
    return (
        column,
        np.full(size, cell, dtype=np.int64),
        np.asarray(kind, dtype=np.int64),
        np.asarray(parts, dtype=np.float64),
        np.full(size, gang, dtype=np.int64),
    )


def _plain_lies(layout: Layout, parts: PartCounts, only: Ints, of_type: Ints, mine: Ints) -> _Entry:
    """Parts that can lie in one cell only: the x themselves say how many are there."""
    return (
        layout.x[parts.candidate[mine]],
        only[of_type[mine], parts.kind[mine]],
        parts.kind[mine],
        parts.count[mine].astype(np.float64),
        of_type[mine],
    )


def _host_lies(
    builder: ModelBuilder,
    cells: Cells,
    kinds: Kinds,
    types: GangTypes,
    label: tuple[int, int],
    host: Ints,
    column: Ints,
) -> list[_Entry]:
    """Parts of the gangs of a type in one host, with columns f where the host has several cells."""
    q, found = label[0], []
    for g in np.flatnonzero(types.counts[q]).tolist():
        count = float(types.counts[q, g])
        there = host[cells.node_class[host] == kinds.node_class[g]]
        if len(there) == 1:
            size = column.size
            found.append(_lie(column, int(there[0]), np.full(size, g), np.full(size, count), q))
            continue
        f = builder.add_columns(
            "f", np.column_stack([np.full((len(there), 3), (*label, g)), there]), np.inf
        )
        row = np.zeros(1, dtype=np.int64)
        builder.add_rows(
            "parts",
            np.asarray([[*label, g]]),
            0.0,
            0.0,
            [
                (np.zeros(column.size, dtype=np.int64), column, count),
                (np.repeat(row, f.size), f, -1.0),
            ],
        )
        found += [
            _lie(f[i : i + 1], int(cell), np.asarray([g]), np.ones(1), q)
            for i, cell in enumerate(there.tolist())
        ]
    return found


def _add_span(
    builder: ModelBuilder,
    cells: Cells,
    types: GangTypes,
    label: tuple[int, int],
    gangs: Ints,
    lies: list[_Entry],
) -> None:
    """Rows ``span``: no gang of a strict type has all its parts in one tighter place of a host.

    Of n gangs of P parts each, at most n (P - 1) parts lie in one place. Necessary, and for parts
    of one kind sufficient: parts can then be dealt to gangs so that each is in two places.
    """
    q = label[0]
    place = cells.leaf if types.scope[q] == Scope.POD else cells.domain
    column, cell, parts = (np.concatenate([entry[i] for entry in lies]) for i in (0, 1, 3))
    places, row = np.unique(place[cell.astype(np.int64)], return_inverse=True)
    rows = np.arange(places.size, dtype=np.int64)
    builder.add_rows(
        "span",
        np.column_stack([np.full((places.size, 2), label), places]),
        -np.inf,
        0.0,
        [
            (row.reshape(-1), column, parts),
            (
                np.repeat(rows, gangs.size),
                np.tile(gangs, places.size),
                1.0 - float(types.counts[q].sum()),
            ),
        ],
    )


def _hosts_by_type(cells: Cells, types: GangTypes) -> list[list[Ints]]:
    """`hosts_of` every type; those of the same classes, set and scope have the same."""
    where = np.column_stack([types.classes, types.node_set, types.scope])
    known: dict[tuple[int, ...], list[Ints]] = {}
    found = []
    for q, key in enumerate(map(tuple, where.tolist())):
        if key not in known:
            known[key] = hosts_of(cells, types, q)
        found.append(known[key])
    return found


def hosts_of(cells: Cells, types: GangTypes, q: int) -> list[Ints]:
    """Per place that may hold a whole gang of the type, the cells in it; never empty inside."""
    usable = np.flatnonzero(types.classes[q, cells.node_class] & cells.in_set[types.node_set[q]])
    scope = types.scope[q]
    if scope in (Scope.NODE, Scope.POD):
        places = [usable]
    else:
        place = cells.leaf if scope == Scope.LEAF else cells.domain
        places = [usable[place[usable] == value] for value in np.unique(place[usable]).tolist()]
    # Every class of the gang must be there.
    wanted = int(types.classes[q].sum())
    return [host for host in places if host.size and _classes(cells, host) == wanted]


def _classes(cells: Cells, host: Ints) -> int:
    return int(np.unique(cells.node_class[host]).size)


def _gang_columns(builder: ModelBuilder, q: int, hosts: list[Ints], x: Ints) -> list[Ints]:
    """Columns that count the gangs in each host: the x themselves where there is one host."""
    if len(hosts) == 1:
        return [x]
    labels = np.column_stack(
        [np.full(len(hosts), q, dtype=np.int64), np.arange(len(hosts), dtype=np.int64)]
    )
    m = builder.add_columns("m", labels, float(x.size))
    zero = np.zeros(1, dtype=np.int64)
    builder.add_rows(
        "gangs",
        np.asarray([[q]]),
        0.0,
        0.0,
        [(np.repeat(zero, x.size), x, 1.0), (np.repeat(zero, m.size), m, -1.0)],
    )
    return [m[h : h + 1] for h in range(len(hosts))]
