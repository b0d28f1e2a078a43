r"""`node_assignment`, the reference formulation: every part is given a node by name.

Variables
    x[j,k]   in {0,1}   job j (re)starts in candidate k
    s[j]     in {0,1}   job j stays as it is
    y[k,g,n] in {0,1}   a part of g GPUs of candidate k lies on node n

Model
    maximise  sum value[k] x[j,k] + sum stay_value[j] s[j]
    (1) one_config[j]       sum_k x[j,k] + s[j] <= 1
    (2) parts[k,g]          sum_n y[k,g,n] = count[k,g] x[j,k]
    (3) distinct_nodes[k,n] sum_g y[k,g,n] <= x[j,k]
    (4) capacity[n,r]       sum demand[k,g,r] y[k,g,n] + sum_j hold[j,n,r] s[j] <= cap[n,r]

Obvious, exact and symmetric: the oracle for small clusters, and the exact placement of a fixed
choice when decoding by packing fails. Only open nodes of the candidate's class get a y.
"""

from __future__ import annotations

import numpy as np

from formulations.linear_model import Ints, ModelBuilder
from formulations.node_pattern import Layout, RoundModel, add_choices
from formulations.round_problem import RESOURCES, Level, RoundProblem, Selection


def build(problem: RoundProblem, level: Level) -> RoundModel:
    """The model of this module's docstring."""
    builder = ModelBuilder(f"node_assignment {level.name}")
    layout = add_choices(builder, problem)
    pairs, y_pair, y_node = _spots(problem)
    y = builder.add_columns("y", np.column_stack([pairs[y_pair, :2], y_node]), 1.0)
    candidates = pairs[:, 0]
    rows = np.arange(pairs.shape[0], dtype=np.int64)
    builder.add_rows(
        "parts", pairs[:, :2], 0.0, 0.0,
        [(y_pair, y, 1.0), (rows, layout.x[candidates], -pairs[:, 2].astype(np.float64))],
    )
    spread = np.column_stack([candidates[y_pair], y_node]).reshape(-1, 2)
    labels, row_of = np.unique(spread, axis=0, return_inverse=True)
    builder.add_rows(
        "distinct_nodes", labels, -np.inf, 0.0,
        [
            (row_of.reshape(-1), y, 1.0),
            (np.arange(labels.shape[0], dtype=np.int64), layout.x[labels[:, 0]], -1.0),
        ],
    )
    _add_capacity(builder, problem, layout, pairs[y_pair], y_node, y)
    layout = Layout(layout.x, layout.stay, builder.column_count)
    return RoundModel(builder.build(layout.cost(level)), layout)


def _spots(problem: RoundProblem) -> tuple[Ints, Ints, Ints]:
    """Pairs (candidate, size, count), and for every y its pair and node."""
    c, nodes = problem.candidates, problem.nodes
    pairs = [
        (k, size, parts.count(size))
        for k in range(c.count)
        for parts in [c.parts(k)]
        for size in sorted(set(parts), reverse=True)
    ]
    table = np.asarray(pairs, dtype=np.int64).reshape(-1, 3)
    of_class = [
        np.flatnonzero(nodes.open & (nodes.node_class == t)) for t in range(nodes.classes)
    ]
    choices = [of_class[c.node_class[k]] for k in table[:, 0].tolist()]
    lengths = np.asarray([len(choice) for choice in choices], dtype=np.int64)
    y_pair = np.repeat(np.arange(table.shape[0], dtype=np.int64), lengths)
    y_node = np.concatenate(choices) if choices else np.zeros(0, dtype=np.int64)
    return table, y_pair, y_node.astype(np.int64)


def _add_capacity(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, spot: Ints, node: Ints, y: Ints
) -> None:
    """Rows ``capacity`` for every node and every resource that something asks for."""
    nodes, holds, kinds = problem.nodes, problem.holds, len(RESOURCES)
    side = problem.candidates.side[spot[:, 0]]
    demand = np.column_stack([np.ones(spot.shape[0]), side]) * spot[:, 1:2]
    resource = np.arange(kinds, dtype=np.int64)
    labels = np.column_stack(
        [np.repeat(np.arange(nodes.count, dtype=np.int64), kinds), np.tile(resource, nodes.count)]
    )
    builder.add_rows(
        "capacity", labels, -np.inf, nodes.capacity[nodes.node_class].reshape(-1),
        [
            (
                (node[:, None] * kinds + resource).reshape(-1),
                np.repeat(y, kinds),
                demand.astype(np.float64).reshape(-1),
            ),
            (
                (holds.node[:, None] * kinds + resource).reshape(-1),
                np.repeat(layout.stay[holds.job], kinds),
                holds.demand.reshape(-1),
            ),
        ],
    )


def read_nodes(problem: RoundProblem, built: RoundModel, x: np.ndarray) -> Selection:
    """The selection at an integer point: choice from x and s, nodes from y."""
    choice = built.layout.choice(problem, x)
    block = next(b for b in built.model.column_blocks if b.family == "y")
    nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
    picked = np.flatnonzero(x[block.start : block.start + block.count] > 0.5)
    spots: dict[int, list[tuple[int, int]]] = {}
    for k, size, node in block.labels[picked].tolist():
        spots.setdefault(k, []).append((-size, node))
    for job, k in enumerate(choice.tolist()):
        if k >= 0:
            nodes[job] = tuple(node for _, node in sorted(spots.get(k, [])))
    return Selection(choice, tuple(nodes))
