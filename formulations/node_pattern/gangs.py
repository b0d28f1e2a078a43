"""Where gangs lie: columns m and f of `formulations.node_pattern`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.layout import Layout
from formulations.linear_model import Floats, Ints, ModelBuilder
from formulations.node_pattern.cells import Cells, GangTypes, PartCounts
from formulations.round.tables import Scope


@dataclass(frozen=True, slots=True)
class Lies:
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
    types: GangTypes,
    parts: PartCounts,
) -> Lies:
    """Columns m and f with rows ``gangs`` and ``parts``; types with one possible cell need none."""
    found: list[_Entry] = []
    of_type = types.of_candidate[parts.candidate]
    for q in range(types.count):
        hosts = hosts_of(cells, types, q)
        members = np.flatnonzero(types.of_candidate == q)
        kind = np.flatnonzero(types.counts[q])
        if not kind.size:
            continue  # pairs in place take no nodes
        if len(hosts) == 1 and len(hosts[0]) == 1:
            mine = np.flatnonzero(of_type == q)
            found.append(
                _lie(
                    layout.x[parts.candidate[mine]],
                    int(hosts[0][0]),
                    parts.kind[mine],
                    parts.count[mine].astype(np.float64),
                    q,
                )
            )
            if types.strict[q]:
                _add_span(builder, cells, types, (q, 0), layout.x[members], found[-1:])
            continue
        gangs = _gang_columns(builder, layout, q, hosts, members)
        for h, (host, column) in enumerate(zip(hosts, gangs, strict=True)):
            before = len(found)
            for g in kind.tolist():
                count = float(types.counts[q, g])
                if len(host) == 1:
                    found.append(
                        _lie(
                            column,
                            int(host[0]),
                            np.full(column.size, g),
                            np.full(column.size, count),
                            q,
                        )
                    )
                    continue
                f = builder.add_columns(
                    "f", np.column_stack([np.full((len(host), 3), (q, h, g)), host]), np.inf
                )
                row = np.zeros(1, dtype=np.int64)
                builder.add_rows(
                    "parts",
                    np.asarray([[q, h, g]]),
                    0.0,
                    0.0,
                    [
                        (np.zeros(column.size, dtype=np.int64), column, count),
                        (np.repeat(row, f.size), f, -1.0),
                    ],
                )
                found += [
                    _lie(f[i : i + 1], int(cell), np.asarray([g]), np.ones(1), q)
                    for i, cell in enumerate(host.tolist())
                ]
            if types.strict[q]:
                _add_span(builder, cells, types, (q, h), column, found[before:])
    none = np.zeros(0, dtype=np.int64)
    columns = [np.concatenate([entry[i] for entry in found] or [none]) for i in range(5)]
    return Lies(columns[0], columns[1], columns[2], columns[3], columns[4], types)


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


def hosts_of(cells: Cells, types: GangTypes, q: int) -> list[Ints]:
    """Per place that may hold a whole gang of the type, the cells in it; never empty inside."""
    usable = np.flatnonzero(
        (cells.node_class == types.node_class[q]) & cells.in_set[types.node_set[q]]
    )
    scope = types.scope[q]
    if scope in (Scope.NODE, Scope.POD):
        return [usable] if usable.size else []
    place = cells.leaf if scope == Scope.LEAF else cells.domain
    return [usable[place[usable] == value] for value in np.unique(place[usable]).tolist()]


def _gang_columns(
    builder: ModelBuilder, layout: Layout, q: int, hosts: list[Ints], members: Ints
) -> list[Ints]:
    """Columns that count the gangs in each host: the x themselves where there is one host."""
    x = layout.x[members]
    if len(hosts) == 1:
        return [x]
    labels = np.column_stack(
        [np.full(len(hosts), q, dtype=np.int64), np.arange(len(hosts), dtype=np.int64)]
    )
    m = builder.add_columns("m", labels, float(members.size))
    zero = np.zeros(1, dtype=np.int64)
    builder.add_rows(
        "gangs",
        np.asarray([[q]]),
        0.0,
        0.0,
        [(np.repeat(zero, x.size), x, 1.0), (np.repeat(zero, m.size), m, -1.0)],
    )
    return [m[h : h + 1] for h in range(len(hosts))]
