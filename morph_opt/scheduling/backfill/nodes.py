"""Sets of nodes as bits of an integer, and the choice of nodes for a gang."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from formulations.tolerances import FEASIBILITY


def bits(nodes: int) -> Iterator[int]:
    """Yield the nodes of a set in ascending order."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def runs(nodes: int) -> Iterator[int]:
    """Yield the maximal sets of neighbours in a set of nodes, from the lowest node up.

    Adding the lowest bit carries through its run and clears it, which ends the run in one step.
    """
    while nodes:
        run = nodes & ~(nodes + (nodes & -nodes))
        yield run
        nodes ^= run


def lowest(nodes: int, count: int) -> int:
    """Return the ``count`` lowest nodes of a set that has at least as many."""
    chosen = 0
    for _ in range(count):
        bit = nodes & -nodes
        chosen |= bit
        nodes ^= bit
    return chosen


def in_runs(nodes: int, count: int) -> int:
    """Return ``count`` nodes as Slurm's ``select/cons_tres`` takes them without a topology.

    The shortest run of neighbours that suffices, else the longest ones first; within a run the
    lowest nodes (``_eval_nodes`` of Slurm 22.05). Nodes in use but not full count like idle ones.

    Returns
    -------
    int
        The set; 0 if the nodes do not suffice.
    """
    if nodes.bit_count() < count:
        return 0
    left = list(runs(nodes))
    chosen, missing = 0, count
    while missing:
        sizes = [run.bit_count() for run in left]
        enough = [size for size in sizes if size >= missing]
        best = sizes.index(min(enough) if enough else max(sizes))
        taken = lowest(left.pop(best), min(missing, sizes[best]))
        chosen |= taken
        missing -= taken.bit_count()
    return chosen


def by_load(nodes: int, count: int, amounts: np.ndarray) -> int:
    """Return the least loaded nodes, as ``CR_LLN`` takes them: most free CPUs, then GPUs.

    Parameters
    ----------
    nodes, count
        The set, and how many to take of it.
    amounts
        Free amounts at that time, shape (N, R): GPUs first, then CPUs if they are counted.

    Returns
    -------
    int
        The set; 0 if the nodes do not suffice.
    """
    if nodes.bit_count() < count:
        return 0
    ranked = sorted(bits(nodes), key=lambda node: (*(-amounts[node, 1::-1]).tolist(), node))
    return sum(1 << node for node in ranked[:count])


def fitting(free: np.ndarray, demand: np.ndarray) -> int:
    """Return the nodes whose free resources, shape (N, R), hold the demand of one node, (R,)."""
    fits = (free >= demand - FEASIBILITY).all(axis=1)
    return int.from_bytes(np.packbits(fits, bitorder="little").tobytes(), "little")
