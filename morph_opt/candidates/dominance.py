"""Dominated configurations, which no optimum needs.

Configuration a dominates b (same model, same node class) when a is at least as fast, *embeds* in
b, and may lie wherever b lies. It embeds when the parts of a can be mapped one to one to parts of
b of at least their size, with at most their demand for every other resource. It may lie there
when it has one part, or the scope of b, or when b is confined to an NVLink domain and a to a leaf
(a domain lies under one leaf). Then in any feasible round b can be replaced by a on a subset of
b's nodes: nothing else moves, capacity is freed, and every objective that does not lose from a
faster configuration on fewer GPUs (``throughput``, ``jct``, guarantees) does not get worse. Hence
some optimum uses no dominated configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from formulations.round_problem import Scope
from morph_opt.perf.speed import Configuration


class Scoped(NamedTuple):
    """A configuration and within what its parts must lie."""

    scope: Scope
    row: Configuration


def embeds(a: Configuration, b: Configuration) -> bool:
    """Whether the parts of ``a`` fit one to one into parts of ``b``.

    Both shapes are sorted, so it is enough to compare the i-th largest parts: if any one-to-one
    map exists, the sorted one does (exchange argument).
    """
    if a.shape.nodes > b.shape.nodes:
        return False
    per_gpu = tuple(zip(_side(a), _side(b), strict=True))
    return all(
        small <= large and all(small * x <= large * y for x, y in per_gpu)
        for small, large in zip(a.shape.parts, b.shape.parts, strict=False)
    )


def _side(row: Configuration) -> tuple[float, float, float]:
    return row.side.cpus, row.side.host_memory_gib, row.side.rdma_gb_per_s


def _dominates(a: Scoped, b: Scoped) -> bool:
    """Whether ``a``, known to be at least as fast, makes ``b`` superfluous."""
    reaches = a.scope in (Scope.NODE, b.scope) or (a.scope, b.scope) == (Scope.LEAF, Scope.NVLINK)
    return reaches and embeds(a.row, b.row)


def undominated(rows: Sequence[Scoped]) -> list[Scoped]:
    """The rows that no other row dominates, in their order; of equals the first stays."""

    def rank(i: int) -> tuple[float, int, int, tuple[float, float, float], int, int]:
        row = rows[i].row
        # Of equals the wider scope comes first, because it dominates the narrower one.
        return (
            row.iteration_s,
            row.shape.gpus,
            row.shape.nodes,
            _side(row),
            -int(rows[i].scope),
            i,
        )

    kept: list[int] = []
    for i in sorted(range(len(rows)), key=rank):
        if not any(_dominates(rows[k], rows[i]) for k in kept):
            kept.append(i)
    return [rows[i] for i in sorted(kept)]
