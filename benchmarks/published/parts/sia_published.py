"""Sia's published choices that no round here takes: configurations, projection, placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from morph_opt.scheduling.policies.malleable.sia_rule import Column

MOST_GPUS = 64
"""Of a configuration."""


@dataclass(frozen=True, slots=True)
class GpuPool:
    """The nodes of one GPU type.

    Parameters
    ----------
    name, nodes, gpus_per_node
        Of the type.
    profiled_nodes
        On how many of them jobs were ever measured.
    """

    name: str
    nodes: int
    gpus_per_node: int
    profiled_nodes: int


def configurations(pools: Sequence[GpuPool]) -> list[Column]:
    """All configurations, type by type: 1, 2, 4 (8) GPUs in one node, then whole nodes.

    The published code takes eight GPUs as one node of every type but those with four.
    """
    found = []
    for pool in pools:
        size = 4 if pool.gpus_per_node == 4 else 8
        part = [gpus for gpus in (1, 2, 4, 8) if gpus <= size]
        whole = range(2 * size, MOST_GPUS + 1, size)
        most = min(pool.nodes, pool.profiled_nodes)
        rows = [(pool.name, 1, gpus) for gpus in part]
        rows += [(pool.name, gpus // size, gpus) for gpus in whole]
        found += [row for row in rows if row[1] <= most]
    return found


def projected(
    goodput: Floats,
    columns: Sequence[Column],
    pools: Sequence[GpuPool],
    known: Sequence[str],
    ratio: Mapping[str, Mapping[str, float]],
    elsewhere: Callable[[str, int], float] = lambda _type, _gpus: 0.0,
) -> Floats:
    """Goodputs of a job whose model is known on some types only, shape (columns,).

    Other types get what the first known one has for the same count, times the ratio of one-GPU
    throughputs; a job that is known nowhere has 1 on one GPU of every type, 0 elsewhere.

    Parameters
    ----------
    elsewhere
        Goodput for a count that is no column of the first known type.
    """
    if not known:
        return np.asarray([1.0 if gpus == 1 else 0.0 for _, _, gpus in columns])
    source = next(pool.name for pool in pools if pool.name in known)
    there = {gpus: goodput[k] for k, (name, _, gpus) in enumerate(columns) if name == source}
    found = goodput.copy()
    for k, (name, _, gpus) in enumerate(columns):
        if name not in known:
            base = there[gpus] if gpus in there else elsewhere(source, gpus)
            found[k] = base * ratio[name][source]
    return found


def cursor_placement(gpus: Sequence[int], nodes: int, per_node: int) -> list[list[tuple[int, int]]]:
    """The published simulator's nodes for jobs of one type: a cursor that goes round once.

    Jobs by descending GPUs; whole nodes from fully free ones, the rest wherever the cursor is,
    split freely, so that a job may be spread over nodes that it needs not.
    """
    free = [per_node] * nodes
    found: list[list[tuple[int, int]]] = [[] for _ in gpus]
    cursor = 0
    for j in sorted(range(len(gpus)), key=lambda j: -gpus[j]):
        missing = gpus[j]
        for _ in range(nodes):
            if missing < per_node:
                break
            if free[cursor] == per_node:
                found[j].append((cursor, per_node))
                free[cursor] = 0
                missing -= per_node
            cursor = (cursor + 1) % nodes
        for _ in range(nodes):
            if missing == 0:
                break
            taken = min(free[cursor], missing)
            if taken:
                found[j].append((cursor, taken))
                free[cursor] -= taken
                missing -= taken
            cursor = (cursor + 1) % nodes
    return found
