r"""`node_assignment`, the reference formulation: every part gets a node by name.

Variables
    x[j,k]   in {0,1}   job j (re)starts in candidate k
    pair[i,j,k] in {0,1} jobs i and j run on the same GPUs as in candidate k (below also an x)
    group[h,i,..,k]     the same of three jobs or more
    s[j]     in {0,1}   job j stays on its nodes, alone
    h[k,l]   in {0,1}   candidate k is in leaf or NVLink domain l (only scopes LEAF and NVLINK)
    y[k,g,n] in {0,1}   a part of g GPUs of candidate k is on node n; the number of loose parts
    u        rules' own

Model
    maximise  sum of the values of the options chosen
    (1) one_config[j]       sum_k x[j,k] + s[j] <= 1      a pair counts for each of its jobs
        one_gang[i,j]       s[i] + .. + s[j] + pairs in place of i .. j <= 1   if i .. j share GPUs
    (2) parts[k,g]          sum_n y[k,g,n] - count[k,g] x[j,k] = 0
        parts[k,g,t]        the same for the parts and nodes of class t, if k is of several classes
    (3) one_host[k]         sum_l h[k,l] - x[j,k] = 0
    (4) distinct_nodes[k,n] sum_g y[k,g,n] <= x[j,k], or h[k,l(n)] if k is confined; times the
                            GPUs of n, at most the parts of k there, if k is loose
    (5) capacity[n,r]       sum demand[k,g,r] y[k,g,n] + sum_j hold[j,n,r] s[j] <= cap[n,r]
                            pairs in place hold like stays, here and in (6)
    (6) uplink[l]           traffic of POD parts and staying jobs in leaf l <= capacity
    (7) span[k,l]           sum_{g, n in l} y[k,g,n] - (parts of k - 1) x[j,k] <= 0
                            k strict, l a leaf (scope POD) or an NVLink domain (LEAF)
    and the operator's rules (`formulations.round.rules`).

Exact and symmetric: the oracle for small clusters, and the exact placement of a fixed choice when
decoding by packing fails. A y exists only for open nodes of the part's class and the
candidate's node set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.layout import Layout, RoundModel, add_choices
from formulations.linear_model import ModelBuilder
from formulations.round.candidates import amounts
from formulations.round.decode import with_partners
from formulations.round.rules import add_rules
from formulations.round.tables import Level, RoundProblem, Scope, Selection


def build(problem: RoundProblem, level: Level) -> RoundModel:
    """Build the model of this module's docstring."""
    builder = ModelBuilder(f"node_assignment {level.name}")
    layout = add_choices(builder, problem)
    spots = _spots(problem)
    labels = np.column_stack([spots.pairs[spots.pair, :2], spots.node])
    y = builder.add_columns("y", labels, spots.most)
    _add_parts(builder, problem, layout, spots, y)
    _add_distinct_nodes(builder, problem, layout, spots, y)
    _add_capacity(builder, problem, layout, spots, y)
    _add_uplinks(builder, problem, layout, spots, y)
    _add_span(builder, problem, layout, spots, y)
    add_rules(builder, problem, layout.x)
    layout = replace(layout, columns=builder.column_count)
    model = builder.build(layout.cost(level))
    return RoundModel(model, layout, base_rows=model.rows)


def column_count(problem: RoundProblem) -> int:
    """Return the number of columns of the model, without building it."""
    spots = _spots(problem)
    hosts = _hosts(problem, spots.candidate, spots.node)[0]
    own = int(problem.rules.aux_upper.size)
    return problem.options.count + int(spots.node.size) + int(hosts.shape[0]) + own


@dataclass(frozen=True, slots=True)
class _Spots:
    """Parts with equal GPUs, one row (candidate, size, count, class), and the columns y."""

    pairs: Ints
    pair: Ints
    node: Ints
    most: Floats

    @property
    def candidate(self) -> Ints:
        """Candidate of every y."""
        return np.take(self.pairs[:, 0], self.pair)

    @property
    def gpus(self) -> Ints:
        """GPUs of every y."""
        return np.take(self.pairs[:, 1], self.pair)


def _spots(problem: RoundProblem) -> _Spots:
    c, nodes = problem.options.starts, problem.nodes
    parts = np.column_stack([c.part_candidate, -c.part_gpus, c.part_class])
    pairs, count = np.unique(parts.reshape(-1, 3), axis=0, return_counts=True)
    pairs = np.column_stack([pairs[:, 0], -pairs[:, 1], count, pairs[:, 2]])
    where = list(zip(pairs[:, 3].tolist(), c.node_set[pairs[:, 0]].tolist(), strict=True))
    usable = {
        (t, allowed): np.flatnonzero(nodes.open & (nodes.node_class == t) & nodes.sets[allowed])
        for t, allowed in set(where)
    }
    choices = [usable[key] for key in where]
    lengths = np.asarray([choice.size for choice in choices], dtype=np.int64)
    pair = np.repeat(np.arange(pairs.shape[0], dtype=np.int64), lengths)
    node = np.concatenate([*choices, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    room = np.minimum(pairs[pair, 2], nodes.capacity[nodes.node_class[node], 0])
    return _Spots(pairs, pair, node, np.where(c.loose[pairs[pair, 0]], room, 1.0))


def _add_parts(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spots: _Spots, y: Ints
) -> None:
    """Add rows ``parts``, one per class for a gang over several classes."""
    pairs = spots.pairs
    mixed = problem.options.starts.mixed[pairs[:, 0]]
    for rows, label in ((~mixed, pairs[:, :2]), (mixed, pairs[:, [0, 1, 3]])):
        mine = np.flatnonzero(rows)
        if not mine.size:
            continue
        at = np.full(pairs.shape[0], -1, dtype=np.int64)
        at[mine] = np.arange(mine.size)
        own = np.flatnonzero(rows[spots.pair])
        count = -pairs[mine, 2].astype(np.float64)
        builder.add_rows(
            "parts",
            label[mine],
            0.0,
            0.0,
            [
                (at[spots.pair[own]], y[own], 1.0),
                (np.arange(mine.size, dtype=np.int64), layout.x[pairs[mine, 0]], count),
            ],
        )


def _add_distinct_nodes(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spots: _Spots, y: Ints
) -> None:
    """Add rows ``distinct_nodes``, and for confined candidates columns h and rows ``one_host``."""
    c = problem.options.starts
    labels, row_of = np.unique(
        np.column_stack([spots.candidate, spots.node]).reshape(-1, 2), axis=0, return_inverse=True
    )
    switch = layout.x[labels[:, 0]]
    hosts, confined, host_of = _hosts(problem, labels[:, 0], labels[:, 1])
    h = builder.add_columns("h", hosts, 1.0)
    owners = np.flatnonzero((c.scope == Scope.LEAF) | (c.scope == Scope.NVLINK))
    builder.add_rows(
        "one_host",
        owners[:, None],
        0.0,
        0.0,
        [
            (np.searchsorted(owners, hosts[:, 0]), h, 1.0),
            (np.arange(owners.size, dtype=np.int64), layout.x[owners], -1.0),
        ],
    )
    switch[confined] = h[host_of]
    # At most one part per node; for loose parts, their largest number.
    most = np.zeros(labels.shape[0])
    np.maximum.at(most, row_of.reshape(-1), spots.most)
    builder.add_rows(
        "distinct_nodes",
        labels,
        -np.inf,
        0.0,
        [
            (row_of.reshape(-1), y, 1.0),
            (np.arange(labels.shape[0], dtype=np.int64), switch, -most),
        ],
    )


def _hosts(problem: RoundProblem, candidate: Ints, node: Ints) -> tuple[Ints, Ints, Ints]:
    """Return candidate and place of columns h, the entries of confined candidates, and their h."""
    nodes, scope = problem.nodes, problem.options.starts.scope[candidate]
    confined = np.flatnonzero((scope == Scope.LEAF) | (scope == Scope.NVLINK))
    where = node[confined]
    place = np.where(scope[confined] == Scope.LEAF, nodes.leaf[where], nodes.domain[where])
    hosts, host_of = np.unique(
        np.column_stack([candidate[confined], place]).reshape(-1, 2), axis=0, return_inverse=True
    )
    return hosts, confined, host_of.reshape(-1)


def _add_capacity(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spots: _Spots, y: Ints
) -> None:
    """Add rows ``capacity`` for every node and resource."""
    nodes, here, kinds = problem.nodes, problem.options.held, problem.nodes.resources
    gpus = spots.gpus.astype(np.float64)
    side = amounts(problem.options.starts.side[spots.candidate], gpus)
    demand: Floats = np.column_stack([gpus, side])
    resource = np.arange(kinds, dtype=np.int64)
    labels = np.column_stack(
        [np.repeat(np.arange(nodes.count, dtype=np.int64), kinds), np.tile(resource, nodes.count)]
    )
    builder.add_rows(
        "capacity",
        labels,
        -np.inf,
        nodes.capacity[nodes.node_class].reshape(-1),
        [
            (
                (spots.node[:, None] * kinds + resource).reshape(-1),
                np.repeat(y, kinds),
                demand.reshape(-1),
            ),
            (
                (here.node[:, None] * kinds + resource).reshape(-1),
                np.repeat(layout.x[here.option], kinds),
                here.demand.reshape(-1),
            ),
        ],
    )


def _add_uplinks(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spots: _Spots, y: Ints
) -> None:
    """Add rows ``uplink`` of the leaves with a limit."""
    nodes, c, here = problem.nodes, problem.options.starts, problem.options.held
    leaves = np.flatnonzero(np.isfinite(nodes.uplink_gb_per_s))
    share: Floats = c.sent_per_gpu[spots.candidate] * spots.gpus.astype(np.float64)
    row_of = np.full(nodes.uplink_gb_per_s.size, -1, dtype=np.int64)
    row_of[leaves] = np.arange(leaves.size)
    uses = np.flatnonzero((share > 0) & (row_of[nodes.leaf[spots.node]] >= 0))
    here = here.take((here.uplink_gb_per_s > 0) & (row_of[nodes.leaf[here.node]] >= 0))
    builder.add_rows(
        "uplink",
        leaves[:, None],
        -np.inf,
        nodes.uplink_gb_per_s[leaves],
        [
            (row_of[nodes.leaf[spots.node[uses]]], y[uses], share[uses]),
            (row_of[nodes.leaf[here.node]], layout.x[here.option], here.uplink_gb_per_s),
        ],
    )


def _add_span(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spots: _Spots, y: Ints
) -> None:
    """Add rows ``span``: the parts of a strict candidate do not all lie in one tighter place."""
    c, nodes = problem.options.starts, problem.nodes
    mine = np.flatnonzero(c.strict[spots.candidate])
    candidate, node = spots.candidate[mine], spots.node[mine]
    place = np.where(c.scope[candidate] == Scope.POD, nodes.leaf[node], nodes.domain[node])
    labels, row_of = np.unique(
        np.column_stack([candidate, place]).reshape(-1, 2), axis=0, return_inverse=True
    )
    fewer = np.diff(c.part_start)[labels[:, 0]] - 1.0
    rows = np.arange(labels.shape[0], dtype=np.int64)
    builder.add_rows(
        "span",
        labels,
        -np.inf,
        0.0,
        [(row_of.reshape(-1), y[mine], 1.0), (rows, layout.x[labels[:, 0]], -fewer)],
    )


def read_nodes(problem: RoundProblem, built: RoundModel, x: Floats) -> Selection:
    """Return the selection at an integer point: choice from x, pair and s, nodes from y."""
    choice = built.layout.choice(problem, x)
    block = next(b for b in built.model.column_blocks if b.family == "y")
    nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
    times = np.rint(x[block.start : block.start + block.count]).astype(np.int64)
    picked = np.repeat(np.arange(block.count), times)
    spots: dict[tuple[int, int, int], list[int]] = {}
    kinds = problem.nodes.node_class
    for k, size, node in block.labels[picked].tolist():
        spots.setdefault((k, size, int(kinds[node])), []).append(node)
    for own in spots.values():
        own.sort(reverse=True)
    table = problem.options.starts
    for job, k in enumerate(choice.tolist()):
        if 0 <= k < table.count and table.job[k] == job:
            parts = zip(table.parts(k), table.classes_of(k).tolist(), strict=True)
            nodes[job] = tuple(spots[k, size, kind].pop() for size, kind in parts)
    return with_partners(problem, Selection(choice, tuple(nodes)))
