"""Sets whose members are counted: cells of nodes, kinds of slots, types of gangs.

* A *cell* is a set of open nodes that no candidate distinguishes: same class, same leaf if a
  candidate or an uplink depends on leaves, same NVLink domain if a candidate depends on domains,
  and members of the same node sets.
* A *kind* of slot is a part's demand for the resources that can run out on a node of its class.
* A *gang type* is a set of candidates of any jobs with the same class, scope, strictness, node set
  and parts by kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import by_content, distinct_rows, of_rows
from formulations.node_pattern.patterns import Vector
from formulations.parameters import PATTERNS
from formulations.resources import UPLINK
from formulations.round.candidates import amounts
from formulations.round.tables import RoundProblem, Scope
from formulations.tolerances import DECIMALS, FEASIBILITY, ROUNDING


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of the open nodes.

    Parameters
    ----------
    of_node
        Cell of each node, shape (N,); -1 for closed nodes.
    node_class, leaf, domain
        Class, leaf and domain of each cell, shape (C,); the domain is -1 if domains do not matter,
        and for nodes that no domain joins with another open node.
    size
        Open nodes of each cell, shape (C,).
    in_set
        Whether the cell belongs to each node set, shape (M, C).
    """

    of_node: Ints
    node_class: Ints
    leaf: Ints
    domain: Ints
    size: Ints
    in_set: Bools

    @property
    def count(self) -> int:
        """Number of cells C."""
        return int(self.node_class.size)


def limited_leaves(problem: RoundProblem) -> Ints:
    """Return the leaves whose uplinks all jobs together could exceed, ascending."""
    limit, starts = problem.nodes.uplink_gb_per_s, problem.options.starts
    if np.isposinf(limit).all():
        return np.zeros(0, dtype=np.int64)
    most = np.zeros(problem.jobs.count)
    np.maximum.at(most, starts.job, starts.sent_per_gpu * starts.gpus)
    # Each job stays or starts; its whole traffic counts for every leaf.
    held = problem.options.held
    sent = np.bincount(held.option, held.uplink_gb_per_s, problem.options.count)
    np.maximum.at(most, problem.options.job, sent)
    leaves: Ints = np.flatnonzero(limit < most.sum() * (1 + FEASIBILITY))
    return leaves


def uplinks_matter(problem: RoundProblem) -> bool:
    """Return whether the jobs could exceed some uplink."""
    return bool(limited_leaves(problem).size)


def find_cells(problem: RoundProblem) -> Cells:
    """Return the cells in the order of their first node."""
    nodes, rows = problem.nodes, problem.options.starts.templates[0]
    scopes, strict = rows.scope, rows.scope[rows.strict]
    leaves = bool((scopes == Scope.LEAF).any() or strict.size) or uplinks_matter(problem)
    domains = bool((scopes == Scope.NVLINK).any() or (strict == Scope.LEAF).any())
    used = np.unique(rows.node_set)
    key = np.column_stack(
        [
            nodes.node_class,
            nodes.leaf if leaves or domains else np.zeros_like(nodes.leaf),
            _joining(problem) if domains else np.full_like(nodes.domain, -1),
            *(nodes.sets[one].astype(np.int64) for one in used.tolist()),
        ]
    )
    is_open = np.flatnonzero(nodes.open)
    sample, cell = _in_order(key[is_open])
    of_node = np.full(nodes.count, -1, dtype=np.int64)
    of_node[is_open] = cell
    first = is_open[sample]
    of_cell = key[first]
    size = np.bincount(cell, minlength=first.size)
    kind, leaf, domain = of_cell[:, 0], of_cell[:, 1], of_cell[:, 2]
    return Cells(of_node, kind, leaf, domain, size, nodes.sets[:, first])


def _joining(problem: RoundProblem) -> Ints:
    """Return the domain of each node, shape (N,); -1 if the domain joins no two open nodes.

    A gang on distinct nodes lies within no single node, so such nodes are identical.
    """
    nodes = problem.nodes
    if problem.options.starts.loose.any():
        return nodes.domain
    domains = int(nodes.domain.max(initial=-1)) + 1
    joins = np.bincount(nodes.domain[nodes.open], minlength=domains) > 1
    return np.where(joins[nodes.domain], nodes.domain, -1)


@by_content
def _in_order(key: Ints) -> tuple[Ints, Ints]:
    """Return the first of each group of equal rows, ascending, and the group of each row."""
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse.reshape(-1)]


def scarce_resources(problem: RoundProblem, node_class: int) -> Ints:
    """Return the resources that can run out on a node before its GPUs; 0 always.

    A side resource cannot run out if a node full of the hungriest part fits: parts and holds take
    at most ``worst`` of it per GPU, so together at most ``worst x GPUs``.
    """
    return _scarce(_worst_side(problem)[node_class], problem.nodes.capacity[node_class])


def side_is_scarce(problem: RoundProblem) -> bool:
    """Return whether threads or memory can run out on a node before its GPUs, on any class."""
    return any(
        np.any(scarce_resources(problem, t)[1:] != UPLINK + 1) for t in range(problem.nodes.classes)
    )


def _worst_side(problem: RoundProblem) -> Floats:
    """Return the largest use of side resources per GPU of a full node, shape (T, R - 1).

    A job has one part on a node at most, so few jobs may not fill it with their hungriest.
    """
    options, capacity = problem.options, problem.nodes.capacity
    if problem.jobs.count >= capacity[:, 0].max() or options.starts.loose.any():
        return options.worst_side
    starts, held = options.starts, options.held
    most = np.zeros((problem.jobs.count, *options.worst_side.shape))
    owner = starts.part_candidate
    held_by = amounts(starts.side[owner], starts.part_gpus.astype(np.float64))
    np.maximum.at(most, (starts.job[owner], starts.part_class), held_by)
    np.maximum.at(
        most,
        (options.job[held.option], problem.nodes.node_class[held.node]),
        held.demand[:, 1:],
    )
    found: Floats = np.minimum(options.worst_side, most.sum(axis=0) / capacity[:, :1])
    return found


def _scarce(worst: Floats, capacity: Floats) -> Ints:
    short = np.flatnonzero(worst * capacity[0] > capacity[1:] * (1 + ROUNDING)) + 1
    return np.concatenate([[0], short]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of slots, numbered over all classes.

    Parameters
    ----------
    node_class, gpus
        Class and GPUs of each kind, shape (S,).
    vectors
        Demands of the kinds of each class for its scarce resources, in the order of the kinds.
    first
        First kind of each class, shape (T + 1,).
    scarce
        Resources that distinguish the kinds of each class: its scarce ones, or only GPUs and those
        that keep kinds few.
    aggregated
        The other scarce resources of each class; formulations bound them per cell, and decoding
        checks them on every node.
    of_part
        Kind of each part of the templates of starts, shape (P,).
    """

    node_class: Ints
    gpus: Ints
    vectors: tuple[tuple[Vector, ...], ...]
    first: Ints
    scarce: tuple[Ints, ...]
    aggregated: tuple[Ints, ...]
    of_part: Ints

    @property
    def count(self) -> int:
        """Number of kinds S."""
        return int(self.node_class.size)


def find_kinds(problem: RoundProblem) -> Kinds:
    """Return the kinds of each class, by ascending demand."""
    c = problem.options.starts.templates[0]
    worst, capacity = _worst_side(problem), problem.nodes.capacity
    return _kinds(c.part_class, c.demands(slice(None)), worst, capacity)


@by_content
def _kinds(part_class: Ints, demand: Floats, worst: Floats, capacity: Floats) -> Kinds:
    of_part = np.zeros(part_class.size, dtype=np.int64)
    scarce: list[Ints] = []
    aggregated: list[Ints] = []
    vectors: list[tuple[Vector, ...]] = []
    first = [0]
    for t in range(capacity.shape[0]):
        resources = _scarce(worst[t], capacity[t])
        mine = np.flatnonzero(part_class == t)
        rows, inverse = _distinct(demand[np.ix_(mine, resources)])
        counted = resources
        if rows.shape[0] > PATTERNS.kinds and resources.size > 1:
            # Keep resources, in order, within the limit: threads mostly go with GPUs.
            counted = resources[:1]
            rows, inverse = _distinct(demand[np.ix_(mine, counted)])
            for resource in resources[1:].tolist():
                more = np.append(counted, resource)
                finer, which = _distinct(demand[np.ix_(mine, more)])
                if finer.shape[0] <= PATTERNS.kinds:
                    counted, rows, inverse = more, finer, which
        of_part[mine] = first[-1] + inverse
        scarce.append(counted)
        aggregated.append(np.setdiff1d(resources, counted))
        vectors.append(tuple(tuple(row) for row in rows.tolist()))
        first.append(first[-1] + rows.shape[0])
    sizes = np.diff(first)
    return Kinds(
        node_class=np.repeat(np.arange(sizes.size, dtype=np.int64), sizes),
        gpus=np.asarray([int(v[0]) for rows in vectors for v in rows], dtype=np.int64),
        vectors=tuple(vectors),
        first=np.asarray(first, dtype=np.int64),
        scarce=tuple(scarce),
        aggregated=tuple(aggregated),
        of_part=of_part,
    )


def _distinct(demand: Floats) -> tuple[Floats, Ints]:
    return distinct_rows(np.round(demand, DECIMALS))


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Parts of a candidate by kind: one entry per (candidate, kind), count at least 1."""

    candidate: Ints
    kind: Ints
    count: Ints


def count_parts(problem: RoundProblem, kinds: Kinds) -> PartCounts:
    """Return the number of parts of each kind of every candidate."""
    counts, which = _by_kind(problem, kinds), problem.options.starts.templates[1]
    row, kind = np.nonzero(counts)
    entry, start = of_rows(np.searchsorted(row, np.arange(counts.shape[0] + 1)), which)
    candidate = np.repeat(np.arange(which.size), np.diff(start))
    return PartCounts(candidate, kind[entry], counts[row, kind][entry])


def _by_kind(problem: RoundProblem, kinds: Kinds) -> Ints:
    """Return the number of parts of each kind of every template of a start, (rows, S)."""
    c, width = problem.options.starts.templates[0], kinds.count
    count = np.bincount(c.part_candidate * width + kinds.of_part, minlength=c.count * width)
    return count.reshape(c.count, width)


@dataclass(frozen=True, slots=True)
class GangTypes:
    """Types of gangs: a type has one shape and one set of allowed places.

    Parameters
    ----------
    of_candidate
        Type of each candidate, shape (K,).
    classes
        Whether the type has parts on each class, shape (G, T).
    scope, strict, node_set
        Scope, strictness and node set of each type, shape (G,).
    uplink_per_gpu
        Network share per GPU that the type reserves on uplinks, shape (G,).
    side
        Aggregated resources of the type as in `CandidateTable`, shape (G, R - 1); 0 for others.
    counts
        Parts by kind, shape (G, S).
    loose
        Whether parts of a gang may share a node, shape (G,).
    """

    of_candidate: Ints
    classes: Bools
    scope: Ints
    node_set: Ints
    strict: Bools
    uplink_per_gpu: Floats
    side: Floats
    counts: Ints
    loose: Bools

    @property
    def count(self) -> int:
        """Number of types G."""
        return int(self.scope.size)


def find_gang_types(problem: RoundProblem, kinds: Kinds) -> GangTypes:
    """Return the gang types in lexicographic order of their attributes.

    Types differ by the uplink share only where uplinks matter, and by side resources only where
    these are aggregated.
    """
    c, which = problem.options.starts.templates
    counts = _by_kind(problem, kinds)
    share = c.sent_per_gpu if uplinks_matter(problem) else np.zeros(c.count)
    is_aggregated = np.zeros((problem.nodes.classes, problem.nodes.resources), dtype=bool)
    for t, resources in enumerate(kinds.aggregated):
        is_aggregated[t, resources] = True
    aggregated = is_aggregated[c.node_class, 1:]
    np.logical_or.at(aggregated, c.part_candidate, is_aggregated[c.part_class, 1:])
    side = np.where(aggregated, c.side, 0.0)
    key = [c.node_class, c.scope, c.node_set, c.strict, share, c.loose, side, counts]
    table = np.column_stack(key)
    types = _gang_types(table, kinds.node_class[:, None] == np.arange(problem.nodes.classes))
    return replace(types, of_candidate=types.of_candidate[which])


@by_content
def _gang_types(table: Floats, of_class: Bools) -> GangTypes:
    """Return types by class, scope, set, strictness, uplink share, looseness, side and parts."""
    unique, inverse = distinct_rows(table)
    whole = unique[:, :3].astype(np.int64)
    first = table.shape[1] - of_class.shape[0]
    of_type = unique[:, first:].astype(np.int64)
    return GangTypes(
        inverse,
        of_type @ of_class.astype(np.int64) > 0,
        whole[:, 1],
        whole[:, 2],
        unique[:, 3] > 0,
        unique[:, 4],
        unique[:, 6:first],
        of_type,
        unique[:, 5] > 0,
    )
