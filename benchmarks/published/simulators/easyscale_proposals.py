"""Placements as EasyScale's published code proposes them, with the map of workers that it keeps.

For every placement (GPUs by type) the published code enumerates maps, a number of workers by type,
and keeps the *slowest*, as it compares a speed with a waste; ties are decided by the order of a
Python set and by rounding, both of which are repeated here. Rules: ``docs/gandiva-easyscale.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from morph_opt.scheduling.policies.easyscale.grants import Proposal


def maps_of(workers: int, speed: Sequence[float]) -> list[tuple[tuple[int, ...], int]]:
    """Maps that are tried, with their scale m: floor and ceiling of m times the speeds.

    Of two types and more, and of one type alone; in the order of a set, then by the first type.
    """
    kinds = len(speed)
    found: list[tuple[tuple[int, ...], int]] = []
    scaled: list[tuple[tuple[int, ...], int]] = []
    for m in range(1, workers + 1):
        around = []
        for one in speed:
            low, high = math.floor(one * m), math.ceil(one * m)
            around.append([low] if low == high else [low, high])
        scaled += [(one, m) for one in product(*around)]
    for values, m in scaled:
        for count in range(2, kinds + 1):
            for chosen in combinations(range(kinds), count):
                if all(values[kind] > workers for kind in chosen):
                    continue
                found.append((tuple(values[k] if k in chosen else 0 for k in range(kinds)), m))
    for kind in range(kinds):
        found += [
            (tuple(m if k == kind else 0 for k in range(kinds)), m) for m in range(1, workers + 1)
        ]
    # Not dict.fromkeys: the published order among equals is that of a set.
    return sorted(set(found), key=lambda one: one[0][0])


@dataclass(frozen=True, slots=True)
class _Found:
    """Placements of one map, in the order in which they are found."""

    gpus: Ints
    waste: Floats
    speed: Floats
    workers: Ints


def _added(per_kind: Sequence[float], most: Sequence[int]) -> Floats:
    """Sums of counts times values, added one by one in this order as the published loop does."""
    table: Floats = np.zeros(1)
    for value, count in zip(per_kind, most, strict=True):
        columns = [table]
        for _ in range(count):
            columns.append(columns[-1] + value)
        table = np.stack(columns, axis=-1)
    return table.reshape([count + 1 for count in most])


def _placements(
    workers: int, speed: Sequence[float], values: Sequence[int], m: int, pools: Sequence[int]
) -> _Found | None:
    """Counts by type that just hold all workers, and what the published formula says of them."""
    kinds = [k for k in range(len(pools)) if values[k] > 0 and pools[k] > 0]
    order = sorted(kinds, key=lambda k: -values[k])
    if not order:
        return None
    most = [pools[k] for k in order]
    grids = np.stack(
        np.meshgrid(*[np.arange(n + 1) for n in most], indexing="ij"), axis=-1
    ).reshape(-1, len(order))
    size = np.asarray([values[k] for k in order])
    held = grids @ size
    last = np.where(grids > 0, size, np.iinfo(np.int64).max)
    smallest = last.min(axis=1)
    just = (held >= workers) & (held - smallest < workers) & grids.any(axis=1)
    grids = grids[just]
    if not len(grids):
        return None
    # Fewest GPUs first, then as a search finds them that takes the largest values first.
    grids = grids[np.lexsort((*(-grids[:, i] for i in reversed(range(len(order)))), grids.sum(1)))]
    gpus = np.zeros((len(grids), len(pools)), dtype=np.int64)
    gpus[:, order] = grids
    theory = [one * m for one in speed]
    waste = np.zeros(len(grids))
    for used in np.unique(gpus > 0, axis=0):
        rows = ((gpus > 0) == used).all(axis=1)
        waste[rows] = _wasted(grids[rows], used, values, theory, order, most, workers)
    mapped = np.tile(np.asarray(values, dtype=np.int64), (len(grids), 1))
    single = (gpus > 0).sum(axis=1) == 1
    total = gpus.sum(axis=1)
    turns = -(-workers // total)
    mapped[single] = np.where(gpus[single] > 0, turns[single, None], 0)
    whole = np.zeros(len(grids))
    for k in range(len(pools)):
        whole = whole + speed[k] * gpus[:, k]
    return _Found(gpus, waste, whole * (1.0 - waste), mapped)


def _wasted(
    grids: Ints,
    used: Bools,
    values: Sequence[int],
    theory: Sequence[float],
    order: Sequence[int],
    most: Sequence[int],
    workers: int,
) -> Floats:
    """Waste of placements on the same types, added up in the published order; none on one type."""
    if int(used.sum()) == 1:
        return np.zeros(len(grids))
    std = max(values[k] / theory[k] for k in order if used[k])
    lost = [theory[k] - float(values[k]) / std for k in order]
    here = tuple(grids.T)
    losses = _added(lost, most)[here]
    theories = _added([theory[k] for k in order], most)[here]
    held = grids @ np.asarray([values[k] for k in order])
    found: Floats = (losses + (held - workers) / std) / theories
    return found


def proposals_of(
    workers: int, speed: Sequence[float], pools: Sequence[int], *, slowest: bool = True
) -> list[Proposal]:
    """All proposals in the published order: fastest enumerated map first.

    Parameters
    ----------
    workers, speed, pools
        Workers; speed of a GPU of each type in units of the last; GPUs by type.
    slowest
        Whether the slowest map of a placement is kept, as published; otherwise the fastest.
    """
    found = [
        one
        for values, m in maps_of(workers, speed)
        if (one := _placements(workers, speed, values, m, pools)) is not None
    ]
    gpus = np.concatenate([one.gpus for one in found])
    waste = np.concatenate([one.waste for one in found])
    fast = np.concatenate([one.speed for one in found])
    mapped = np.concatenate([one.workers for one in found])
    order = np.lexsort((np.arange(fast.size), waste, -gpus[:, 0], -fast))
    kept: dict[tuple[int, ...], tuple[int, int]] = {}
    for row, key in zip(order.tolist(), map(tuple, gpus[order].tolist()), strict=True):
        kept[key] = (kept[key][0], row) if key in kept else (row, row)
    return [
        Proposal(
            key,
            tuple(mapped[last if slowest else first].tolist()),
            float(waste[last if slowest else first]),
            float(fast[last if slowest else first]),
            float(fast[first]),
        )
        for key, (first, last) in kept.items()
    ]
