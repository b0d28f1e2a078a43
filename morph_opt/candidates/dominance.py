"""Dominated configurations, which no optimum needs.

Configuration a dominates b (same model, same node class) when a is at least as fast and *embeds*
in b: the parts of a can be mapped one to one to parts of b of at least their size, with at most
their demand for every other resource. Then in any feasible round b can be replaced by a on a
subset of b's nodes: nothing else moves, capacity is freed, and every objective that does not
lose from a faster configuration on fewer GPUs (``throughput``, ``jct``, guarantees) does not
get worse. Hence some optimum uses no dominated configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.perf.speed import Configuration


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


def undominated(rows: Sequence[Configuration]) -> list[Configuration]:
    """The rows that no other row dominates, in their order; of equals the first stays."""
    ranked = sorted(
        range(len(rows)),
        key=lambda i: (
            rows[i].iteration_s, rows[i].shape.gpus, rows[i].shape.nodes, _side(rows[i]), i
        ),
    )
    kept: list[int] = []
    for i in ranked:
        if not any(embeds(rows[k], rows[i]) for k in kept):
            kept.append(i)
    return [rows[i] for i in sorted(kept)]
