r"""`node_pattern`, the default formulation: it counts identical nodes instead of naming them.

Data: a `RoundProblem` and one `Level`. Nodes form cells c, part demands form kinds g of slots,
candidates form gang types q (`formulations.node_pattern.cells`); a[p,g] is the number of slots of
kind g in pattern p, and count[q,g] the number of parts of kind g of a gang of type q.

Variables
    x[j,k] in {0,1}      job j (re)starts in candidate k
    pair[i,j,k] in {0,1} jobs i and j run on the same GPUs as in candidate k (below also an x)
    group[h,i,..,k]      the same of three jobs or more
    s[j]   in {0,1}      job j stays on its nodes, alone
    w[n,e] in {0,1}      node n, which carries running jobs, is left with its free state e
    z[c,e,p] integer     nodes of cell c in free state e that are cut by pattern p
    m[q,h] integer       gangs of type q inside leaf or NVLink domain h
    f[q,h,g,c]           parts of kind g of a pool of types in cell c of host h
    u      rules' own    e.g. GPUs that a tenant borrows

Model
    maximise  sum of the values of the options chosen
    (1) one_config[j]       sum_k x[j,k] + s[j] <= 1      a pair counts for each of its jobs
        one_gang[i,j]       s[i] + .. + s[j] + pairs in place of i .. j <= 1   if i .. j share GPUs
    (2) one_free[n]         sum_e w[n,e] = 1
    (3) node_free[n,r]      sum_e free[n,e,r] w[n,e] + sum_j hold[j,n,r] s[j] <= capacity[n,r]
                            pairs in place hold like stays, here, in (8) and in (9)
    (4) pattern_count[c,e]  sum_p z[c,e,p] - sum_{n in c} w[n,e] <= idle nodes of c (full state)
    (5) gangs[q]            sum_{k of q} x[j,k] - sum_h m[q,h] = 0      only if q has several h
    (6) parts[q,h,g]        sum_q count[q,g] m[q,h] - sum_c f[q,h,g,c] = 0   only if h has several c
                            over the types q of a pool, which is named after its first
        span[q,h,l]         parts of the pool in l, in h - (parts of a gang - 1) gangs in h <= 0
                            q strict, l a leaf (scope POD) or an NVLink domain (LEAF)
    (7) slots[c,g]          parts of kind g in c - sum_{e,p} a[p,g] z[c,e,p] <= 0
    (8) uplink[l]           traffic of the parts and staying jobs that may leave leaf l
                            <= its capacity
    (9) side[c,r]           demand of the parts and staying jobs of c for r <= capacity of c
                            together, for scarce resources that do not distinguish kinds
    and the operator's rules (`formulations.round.rules`).

and, only when a point violates them (`formulations.layout.cut_distinct`),
    (10) distinct[j,g]      sum_k count[k,g] x[j,k] - sum_{c,e,p: a[p,g] > 0} z[c,e,p] <= 0

Exact for jobs whose parts are whole nodes or in one node, if kinds distinguish all scarce
resources. For several sub-node parts (10) is necessary, not sufficient, and so is (9):
`formulations.round.decode` either finds distinct nodes with room or reports that it cannot, and the
caller cuts the choice off (`formulations.layout.forbid`) and solves again.

For a tight relaxation, also for jobs j that are not alone on node n,
    (11) beside[n,j]        s[j] + sum_{e: free[n,e] + hold[j,n] > capacity[n]} w[n,e] <= 1

See ``docs/formulations/node_pattern.md``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.layout import DistinctParts, Layout, RoundModel, add_choices
from formulations.linear_model import ModelBuilder
from formulations.node_pattern.cells import (
    Cells,
    Kinds,
    PartCounts,
    count_parts,
    find_cells,
    find_gang_types,
    find_kinds,
    limited_leaves,
)
from formulations.node_pattern.free_states import Patterns, add_free, add_patterns
from formulations.node_pattern.gangs import PartPlaces, add_gangs
from formulations.round.candidates import amounts
from formulations.round.rules import add_rules
from formulations.round.tables import Level, RoundProblem

Entries = list[tuple[Ints, Ints, Floats | float]]


def build(problem: RoundProblem, level: Level, tight: bool = False) -> RoundModel:
    """Build the model of this module's docstring; deterministic, without side effects.

    Parameters
    ----------
    tight
        Whether rows (11) are added.

    Raises
    ------
    formulations.node_pattern.patterns.TooManyPatternsError
        If side resources make too many patterns.
    """
    builder = ModelBuilder(f"node_pattern {level.name}")
    layout = add_choices(builder, problem)
    cells, kinds = find_cells(problem), find_kinds(problem)
    parts = count_parts(problem, kinds)
    busy = add_free(builder, problem, layout, cells, kinds, tight)
    z = add_patterns(builder, problem, cells, kinds, busy)
    types = find_gang_types(problem, kinds)
    places = add_gangs(builder, problem, layout, cells, kinds, types, parts)
    _add_slots(builder, kinds, z, places)
    _add_uplinks(builder, problem, layout, cells, kinds, places)
    _add_side(builder, problem, layout, cells, kinds, places)
    add_rules(builder, problem, layout.x)
    layout = replace(layout, columns=builder.column_count)
    spread = _spread(problem, kinds, z, parts)
    model = builder.build(layout.cost(level))
    return RoundModel(model, layout, spread, base_rows=model.rows)


def _add_slots(builder: ModelBuilder, kinds: Kinds, z: Patterns, places: PartPlaces) -> None:
    """Add rows ``slots``: parts in a cell and kind are at most the slots cut for them."""
    width = max(1, kinds.count)
    demand, supply = places.cell * width + places.kind, z.cell * width + z.kind
    wanted = np.bincount(demand, minlength=width * max(1, z.cell.max(initial=0) + 1)) > 0
    keys, kept = np.flatnonzero(wanted), wanted[supply]
    builder.add_rows(
        "slots",
        np.column_stack([keys // width, keys % width]),
        -np.inf,
        0.0,
        [
            (np.searchsorted(keys, demand), places.column, places.parts),
            (
                np.searchsorted(keys, supply[kept]),
                z.column[kept],
                -z.slots[kept].astype(np.float64),
            ),
        ],
    )


def _spread(problem: RoundProblem, kinds: Kinds, z: Patterns, parts: PartCounts) -> DistinctParts:
    """Return data for cuts: parts of a kind that could share a node, and patterns of the kind."""
    capacity = problem.nodes.capacity[kinds.node_class[parts.kind], 0]
    several = (parts.count > 1) & (2 * kinds.gpus[parts.kind] <= capacity)
    several &= ~problem.options.starts.loose[parts.candidate]
    return DistinctParts(
        parts.candidate[several], parts.kind[several], parts.count[several], z.column, z.kind
    )


def _add_uplinks(
    builder: ModelBuilder,
    problem: RoundProblem,
    layout: Layout,
    cells: Cells,
    kinds: Kinds,
    places: PartPlaces,
) -> None:
    """Add rows ``uplink`` of the leaves with a limit."""
    leaves, limit = limited_leaves(problem), problem.nodes.uplink_gb_per_s
    if not leaves.size:
        return
    row_of = np.full(limit.size, -1, dtype=np.int64)
    row_of[leaves] = np.arange(leaves.size)
    share = places.types.uplink_per_gpu[places.gang]
    uses = np.flatnonzero((share > 0) & (row_of[cells.leaf[places.cell]] >= 0))
    here = problem.options.held
    here = here.take((here.uplink_gb_per_s > 0) & (row_of[problem.nodes.leaf[here.node]] >= 0))
    builder.add_rows(
        "uplink",
        leaves[:, None],
        -np.inf,
        limit[leaves],
        [
            (
                row_of[cells.leaf[places.cell[uses]]],
                places.column[uses],
                places.parts[uses] * share[uses] * kinds.gpus[places.kind[uses]],
            ),
            (
                row_of[problem.nodes.leaf[here.node]],
                layout.x[here.option],
                here.uplink_gb_per_s,
            ),
        ],
    )


def _add_side(
    builder: ModelBuilder,
    problem: RoundProblem,
    layout: Layout,
    cells: Cells,
    kinds: Kinds,
    places: PartPlaces,
) -> None:
    """Add rows ``side``: the total of each aggregated resource on a cell's open nodes."""
    nodes = problem.nodes
    labels = [
        (cell, int(resource))
        for cell in range(cells.count)
        for resource in kinds.aggregated[int(cells.node_class[cell])]
    ]
    if not labels:
        return
    limit = [cells.size[cell] * nodes.capacity[cells.node_class[cell], r] for cell, r in labels]
    entries: Entries = []
    here = problem.options.held
    here_cell = cells.of_node[here.node]
    for row, (cell, resource) in enumerate(labels):
        uses = np.flatnonzero(
            (places.cell == cell) & (places.types.side[places.gang, resource - 1] > 0)
        )
        gpus = kinds.gpus[places.kind[uses]].astype(np.float64)
        each = amounts(places.types.side[places.gang[uses]], gpus)[:, resource - 1]
        held = np.flatnonzero((here_cell == cell) & (here.demand[:, resource] > 0))
        entries += [
            (
                np.full(uses.size, row, dtype=np.int64),
                places.column[uses],
                places.parts[uses] * each,
            ),
            (
                np.full(held.size, row, dtype=np.int64),
                layout.x[here.option[held]],
                here.demand[held, resource],
            ),
        ]
    builder.add_rows(
        "side", np.asarray(labels, dtype=np.int64), -np.inf, np.asarray(limit), entries
    )
