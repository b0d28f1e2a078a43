"""Remove dominated configurations, which no optimum needs.

Configuration a dominates b (same model, same node class) when a is at least as fast, *embeds* in
b, and may lie wherever b lies. It embeds when the parts of a can be mapped one to one to parts of
b of at least their size, with at most their demand for every other resource. It may lie there
when it has one part, or the scope of b, or when b is confined to an NVLink domain and a to a leaf
(a domain lies under one leaf). Then in any feasible round b can be replaced by a on a subset of
b's nodes: nothing else moves, capacity is freed, and every objective that does not lose from a
faster configuration on fewer GPUs (``throughput``, ``jct``, guarantees) does not get worse. Hence
some optimum uses no dominated configuration.

A *strict* configuration (one that must not lie within less than its scope, because the belief has
another row there) dominates only strict ones of its scope with as many parts, whose places are
not tighter than its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import le
from typing import NamedTuple

from formulations.round.tables import Scope
from morph_opt.core.domain import Shape, SideDemand
from morph_opt.core.domain.placement import NOTHING, Sides, held_by_part
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.scheduling.decision.params import DOMINANCE, DominanceParams


class Scoped(NamedTuple):
    """Configuration with its scope, and whether it must not lie within a tighter one."""

    scope: Scope
    row: Configuration
    strict: bool = False


def embeds(a: Configuration, b: Configuration, asked: SideDemand = NOTHING) -> bool:
    """Return whether the parts of ``a`` fit one to one into parts of ``b``.

    Side resources are the larger of the configuration's and the job's demand ``asked``.

    Both shapes are sorted, so it is enough to compare the i-th largest parts: if any one-to-one
    map exists, the sorted one does (exchange argument).
    """
    if a.shape.nodes > b.shape.nodes:
        return False
    mine, theirs = a.side.beside(asked), b.side.beside(asked)
    return all(
        small <= large and all(map(le, held_by_part(mine, small), held_by_part(theirs, large)))
        for small, large in zip(a.shape.parts, b.shape.parts, strict=False)
    )


def _reaches(a: Scoped, b: Scoped) -> bool:
    """Return whether ``a`` may be placed on the first parts of any placement of ``b``."""
    if a.strict:
        same = (a.scope, a.row.shape.nodes) == (b.scope, b.row.shape.nodes)
        return same and b.strict
    return a.scope in (Scope.NODE, b.scope) or (a.scope, b.scope) == (Scope.LEAF, Scope.NVLINK)


def with_strictness(
    rows: Sequence[Scoped], scopes: Sequence[Scope], asked: SideDemand = NOTHING
) -> list[Scoped]:
    """Mark rows of one model on one class that must not lie within a tighter scope than theirs.

    Where every tighter scope has a row of the same shape and plan that is no slower and holds no
    more, a candidate that happens to lie there is worth no less than claimed and takes no more, so
    it may. Otherwise a placement there is that other row's, or does not exist.

    Parameters
    ----------
    rows
        Configurations with their scopes.
    scopes
        Scopes that placements on several nodes of the class may have.
    asked
        Demand of the job for other resources than GPUs.
    """
    own = {(entry.scope, entry.row.shape, entry.row.plan): entry.row for entry in rows}

    def covers(tight: Configuration | None, wide: Configuration) -> bool:
        if tight is None or tight.iteration_s > wide.iteration_s:
            return False
        return all(map(le, tight.side.beside(asked), wide.side.beside(asked)))

    def strict(entry: Scoped) -> bool:
        several = entry.scope is not Scope.NODE
        return several and not all(
            covers(own.get((scope, entry.row.shape, entry.row.plan)), entry.row)
            for scope in scopes
            if scope < entry.scope
        )

    return [entry._replace(strict=strict(entry)) for entry in rows]


def undominated(
    rows: Sequence[Scoped], asked: SideDemand = NOTHING, params: DominanceParams = DOMINANCE
) -> list[Scoped]:
    """Return the rows that no other row dominates, in their order; of equal ones the first.

    Among very many rows some dominated ones may stay (`DominanceParams.compared`).

    Parameters
    ----------
    rows
        All configurations of one model on one node class.
    asked
        Side resources that the job requests; a row that needs less takes that amount.
    params
        Number of rows that each is compared with.
    """

    def rank(i: int) -> tuple[float, int, int, Sides, bool, int, int]:
        row = rows[i].row
        return (
            row.iteration_s,
            row.shape.gpus,
            row.shape.nodes,
            row.side.beside(asked),
            # Of equals the one that may lie in more places dominates the other.
            rows[i].strict,
            -int(rows[i].scope),
            i,
        )

    def beaten(i: int, others: Iterable[int]) -> bool:
        return any(
            _reaches(rows[k], rows[i]) and embeds(rows[k].row, rows[i].row, asked) for k in others
        )

    # On as many GPUs only the same shape embeds, so a gang's many shapes are not compared.
    kept: list[int] = []
    by_shape: dict[Shape, list[int]] = {}
    for i in sorted(range(len(rows)), key=rank):
        shape = rows[i].row.shape
        twins = by_shape.setdefault(shape, [])
        fewer = (k for k in kept[: params.compared] if rows[k].row.shape.gpus < shape.gpus)
        if not beaten(i, twins) and not beaten(i, fewer):
            kept.append(i)
            twins.append(i)
    return [rows[i] for i in sorted(kept)]
