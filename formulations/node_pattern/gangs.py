"""Places of gangs: columns m and f of `formulations.node_pattern`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.layout import Layout
from formulations.linear_model import ModelBuilder
from formulations.node_pattern.cells import Cells, GangTypes, Kinds, PartCounts
from formulations.round.tables import RoundProblem, Scope


@dataclass(frozen=True, slots=True)
class PartPlaces:
    """Parts by place: entries (column, cell, kind, parts, gang type)."""

    column: Ints
    cell: Ints
    kind: Ints
    parts: Floats
    gang: Ints
    types: GangTypes


def add_gangs(
    builder: ModelBuilder,
    problem: RoundProblem,
    layout: Layout,
    cells: Cells,
    kinds: Kinds,
    types: GangTypes,
    parts: PartCounts,
) -> PartPlaces:
    """Add columns m and f with rows ``gangs`` and ``parts``; return the places of parts.

    Types with one possible cell of each class need none of them.
    """
    of_type = types.of_candidate[parts.candidate]
    hosts = _hosts_by_type(cells, types)
    for q in np.flatnonzero(types.scope == Scope.NVLINK).tolist():
        # Nodes that no domain joins share a cell without a domain.
        hosts[q] = [host for host in hosts[q] if cells.domain[host[0]] >= 0]
    only = _only_cells(cells, types, hosts)
    known: Bools = np.any(only >= 0, axis=1)
    plain: Bools = known & ~types.strict
    only = only[:, kinds.node_class]
    # One entry per type with a choice or rows of its own, and one for all other types.
    found = [_plain_places(layout, parts, only, of_type, np.flatnonzero(plain[of_type]))]
    members, mine = _by_type(types.of_candidate, types.count), _by_type(of_type, types.count)
    look = ~plain & types.counts.any(axis=1)
    for q in np.flatnonzero(look & known).tolist():
        found.append(_plain_places(layout, parts, only, of_type, mine(q)))
        _add_span(builder, cells, types, (q, 0), [(q, 0, layout.x[members(q)])], found[-1:])
    room = problem.nodes.capacity[kinds.node_class, 0] // kinds.gpus
    for pool in _pools(problem, types, np.flatnonzero(look & ~known)):
        inside: dict[tuple[int, ...], list[_Gangs]] = {}
        x = [layout.x[members(q)] for q in pool]
        gangs = _gang_columns(builder, pool, [len(hosts[q]) for q in pool], x)
        for q, of_host in zip(pool, gangs, strict=True):
            for h, (host, column) in enumerate(zip(hosts[q], of_host, strict=True)):
                inside.setdefault(tuple(host.tolist()), []).append((q, h, column))
        for within, there in inside.items():
            entries = _host_places(builder, cells, kinds, types, room, np.asarray(within), there)
            found += entries
            if types.strict[pool[0]]:
                _add_span(builder, cells, types, there[0][:2], there, entries)
    columns = [np.concatenate([entry[i] for entry in found]) for i in range(5)]
    order = np.argsort(columns[4], kind="stable")
    column, cell, kind, count, gang = (entry[order] for entry in columns)
    return PartPlaces(column, cell, kind, count, gang, types)


def _only_cells(cells: Cells, types: GangTypes, hosts: list[list[Ints]]) -> Ints:
    """Return the only cell of each class per type, shape (G, T); -1 if it has several."""
    found = np.full(types.classes.shape, -1, dtype=np.int64)
    for q, (mine, wanted) in enumerate(zip(hosts, types.classes.sum(axis=1).tolist(), strict=True)):
        if [host.size for host in mine] == [wanted] and wanted:
            found[q, cells.node_class[mine[0]]] = mine[0]
    return found


def _by_type(of_entry: Ints, count: int) -> Callable[[int], Ints]:
    """Return a function from a type to its entries, ascending."""
    order = np.argsort(of_entry, kind="stable")
    first = np.searchsorted(of_entry[order], np.arange(count + 1)).tolist()
    return lambda q: order[first[q] : first[q + 1]]


_Gangs = tuple[int, int, Ints]
"""A type, the number of one of its hosts, and the columns that count its gangs there."""


def _pools(problem: RoundProblem, types: GangTypes, of: Ints) -> list[list[int]]:
    """Return groups of types with interchangeable parts within a host, in order.

    They have the same demand for uplinks and aggregated resources. Strict types also have parts of
    one kind, or belong to one job, which has at most one gang.
    """
    job = problem.options.starts.job
    first, last = np.full(types.count, problem.jobs.count), np.full(types.count, -1)
    np.minimum.at(first, types.of_candidate, job)
    np.maximum.at(last, types.of_candidate, job)
    alike = np.column_stack(
        [
            types.classes,
            types.node_set,
            types.scope,
            types.strict,
            types.loose,
            types.uplink_per_gpu,
            types.side,
        ]
    )
    pools: dict[tuple[float, ...], list[int]] = {}
    for q in of.tolist():
        separate = (-1, -1)
        if types.strict[q]:
            kinds = np.flatnonzero(types.counts[q])
            separate = (0, int(kinds[0])) if kinds.size == 1 else (1, q)
            separate = (2, int(first[q])) if first[q] == last[q] else separate
        pools.setdefault((*alike[q].tolist(), *separate), []).append(q)
    return list(pools.values())


_Entry = tuple[Ints, Ints, Ints, Floats, Ints]


def _place(column: Ints, cell: int, kind: Ints, parts: Floats, gang: int) -> _Entry:
    size = column.size
    return (
        column,
        np.full(size, cell, dtype=np.int64),
        np.asarray(kind, dtype=np.int64),
        np.asarray(parts, dtype=np.float64),
        np.full(size, gang, dtype=np.int64),
    )


def _plain_places(
    layout: Layout, parts: PartCounts, only: Ints, of_type: Ints, mine: Ints
) -> _Entry:
    """Return the parts with one possible cell, which columns x count."""
    return (
        layout.x[parts.candidate[mine]],
        only[of_type[mine], parts.kind[mine]],
        parts.kind[mine],
        parts.count[mine].astype(np.float64),
        of_type[mine],
    )


def _host_places(
    builder: ModelBuilder,
    cells: Cells,
    kinds: Kinds,
    types: GangTypes,
    room: Floats,
    host: Ints,
    gangs: list[_Gangs],
) -> list[_Entry]:
    """Return the parts of a pool in one host, with columns f if it has several cells.

    ``room`` is the number of slots of each kind in an idle node, shape (S,). It limits the columns
    f, as CP-SAT and cuts that multiply columns need finite limits.
    """
    (q, h, _), found = gangs[0], []
    for g in np.flatnonzero(types.counts[[of for of, _, _ in gangs]].any(axis=0)).tolist():
        there = host[cells.node_class[host] == kinds.node_class[g]]
        mine = [(of, column) for of, _, column in gangs if types.counts[of, g]]
        column = np.concatenate([own for _, own in mine])
        count = np.repeat(
            [float(types.counts[of, g]) for of, _ in mine], [own.size for _, own in mine]
        )
        if len(there) == 1:
            found.append(_place(column, int(there[0]), np.full(column.size, g), count, q))
            continue
        labels = np.column_stack([np.full((len(there), 3), (q, h, g)), there])
        f = builder.add_columns("f", labels, cells.size[there] * room[g])
        row = np.zeros(1, dtype=np.int64)
        builder.add_rows(
            "parts",
            np.asarray([[q, h, g]]),
            0.0,
            0.0,
            [(np.repeat(row, column.size), column, count), (np.repeat(row, f.size), f, -1.0)],
        )
        found += [
            _place(f[i : i + 1], int(cell), np.asarray([g]), np.ones(1), q)
            for i, cell in enumerate(there.tolist())
        ]
    return found


def _add_span(
    builder: ModelBuilder,
    cells: Cells,
    types: GangTypes,
    label: tuple[int, int],
    gangs: list[_Gangs],
    entries: list[_Entry],
) -> None:
    """Add rows ``span``: no strict gang has all its parts in one tighter place of a host.

    Of n gangs of P parts each, at most n (P - 1) parts lie in one place. This is necessary; for
    parts of one kind, and for one gang, it is sufficient: parts can then be given to gangs so that
    each is in two places.
    """
    place = cells.leaf if types.scope[label[0]] == Scope.POD else cells.domain
    column, cell, parts = (np.concatenate([entry[i] for entry in entries]) for i in (0, 1, 3))
    # Distinct nodes that no domain joins are never in one place.
    inside = place[cell.astype(np.int64)] >= 0
    column, cell, parts = column[inside], cell[inside], parts[inside]
    places, row = np.unique(place[cell.astype(np.int64)], return_inverse=True)
    rows = np.arange(places.size, dtype=np.int64)
    counted = np.concatenate([own for _, _, own in gangs])
    less = np.repeat(
        [1.0 - float(types.counts[q].sum()) for q, _, _ in gangs],
        [own.size for _, _, own in gangs],
    )
    at = np.repeat(rows, counted.size)
    builder.add_rows(
        "span",
        np.column_stack([np.full((places.size, 2), label), places]),
        -np.inf,
        0.0,
        [
            (row.reshape(-1), column, parts),
            (at, np.tile(counted, places.size), np.tile(less, places.size)),
        ],
    )


def _hosts_by_type(cells: Cells, types: GangTypes) -> list[list[Ints]]:
    """Return `hosts_of` every type, computed once per classes, set and scope."""
    where = np.column_stack([types.classes, types.node_set, types.scope])
    known: dict[tuple[int, ...], list[Ints]] = {}
    found = []
    for q, key in enumerate(map(tuple, where.tolist())):
        if key not in known:
            known[key] = hosts_of(cells, types, q)
        found.append(known[key])
    return found


def hosts_of(cells: Cells, types: GangTypes, q: int) -> list[Ints]:
    """Return the cells of each place that may hold a whole gang of the type."""
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


def _gang_columns(
    builder: ModelBuilder, pool: list[int], hosts: list[int], x: list[Ints]
) -> list[list[Ints]]:
    """Return the columns that count the gangs of types by host: x if there is one host."""
    several = [i for i, count in enumerate(hosts) if count != 1]
    if not several:
        return [[own] for own in x]
    count = np.asarray([hosts[i] for i in several], dtype=np.int64)
    row = np.repeat(np.arange(count.size), count)
    first = np.cumsum(count) - count
    q = np.asarray([pool[i] for i in several], dtype=np.int64)
    size = np.asarray([x[i].size for i in several], dtype=np.int64)
    m = builder.add_columns(
        "m", np.column_stack([q[row], np.arange(row.size) - first[row]]), size[row].astype(float)
    )
    builder.add_rows(
        "gangs",
        q[:, None],
        0.0,
        0.0,
        [
            (np.repeat(np.arange(size.size), size), np.concatenate([x[i] for i in several]), 1.0),
            (row, m, -1.0),
        ],
    )
    found = [[own] for own in x]
    for i, at, many in zip(several, first.tolist(), count.tolist(), strict=True):
        found[i] = [m[h : h + 1] for h in range(at, at + many)]
    return found
