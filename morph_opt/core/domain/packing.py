"""Choice of nodes for a gang whose log or queue names none."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Ints

Parts = list[tuple[int, int]]
"""Pairs of a node and its GPUs."""


def tightest(gpus: int, each: int, free: Ints, able: Ints) -> Parts | None:
    """Return nodes for parts of ``each`` GPUs and a rest, fullest nodes first; None if none fit.

    Parameters
    ----------
    gpus, each
        GPUs of the gang, and of each part.
    free
        Free GPUs by node, shape (N,).
    able
        Nodes that it may use; of equally full ones the first is taken.
    """
    whole, rest = divmod(gpus, each)
    found: Parts = []
    for count, part in ((whole, each), (int(rest > 0), rest)):
        fits = able[(free[able] >= part) & ~np.isin(able, [node for node, _ in found])]
        if fits.size < count:
            return None
        order = np.argsort(free[fits], kind="stable")[:count]
        found += [(node, part) for node in fits[order].tolist()]
    return found


def emptiest_first(gpus: int, grain: int, free: Ints, able: Ints) -> Parts:
    """Return nodes for up to ``gpus`` GPUs in multiples of a grain, emptiest nodes first."""
    found: Parts = []
    for node in able[np.argsort(-free[able], kind="stable")].tolist():
        part = min(gpus, int(free[node]) // grain * grain)
        if part > 0:
            found.append((node, part))
            gpus -= part
    return found
