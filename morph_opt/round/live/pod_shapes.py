"""Shapes in which the pods of a gang may be on nodes of one type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from morph_opt.core.domain import Shape
from morph_opt.core.domain.shape import partitions

_FEW_PODS, _FEW_SHAPES = 8, 32
"""Largest number of pods with all shapes offered, and shapes per kind for larger gangs."""


def shapes_of_pods(
    pods: tuple[int, ...], now: tuple[Shape, ...], per_node: int
) -> tuple[Shape, ...]:
    """Return shapes of a gang of pods on nodes with this number of GPUs.

    All where they are few; else those on the fewest nodes, an even one for each larger number of
    nodes, and those that the GPUs which are free now have.
    """
    total, grain = sum(pods), gcd(*pods)
    grains, room = total // grain, per_node // grain
    if pods[0] > per_node:
        return ()
    found: dict[tuple[int, ...], None] = {}
    if grains <= _FEW_PODS:
        found |= dict.fromkeys(one.parts for one in partitions(grains, min(room, grains)))
    else:
        fewest = -(-grains // room)
        largest = min(room, grains - fewest + 1)
        tight = (one.parts for one in partitions(grains, largest) if one.nodes == fewest)
        found |= dict.fromkeys(parts for parts, _ in zip(tight, range(_FEW_SHAPES), strict=False))
        for nodes in range(fewest, min(grains, fewest + _FEW_SHAPES) + 1):
            each, more = divmod(grains, nodes)
            found[(each + 1,) * more + (each,) * (nodes - more)] = None
    shapes = [tuple(grain * part for part in parts) for parts in found]
    shapes += [one.parts for one in now if one.parts[0] <= per_node]
    return tuple(Shape(parts) for parts in dict.fromkeys(shapes) if _hold_pods(parts, pods))


def _hold_pods(parts: Sequence[int], pods: Sequence[int]) -> bool:
    """Return whether pods, largest first, fill parts exactly, each pod in one of them.

    Each goes to the part with the least room that has enough; where pods differ, a shape that
    only another order fills is passed over.
    """
    if len(set(pods)) == 1:
        return all(part % pods[0] == 0 for part in parts)
    left = list(parts)
    for pod in pods:
        fits = [at for at, room in enumerate(left) if room >= pod]
        if not fits:
            return False
        left[min(fits, key=lambda at: left[at])] -= pod
    return not any(left)


def spread_now(pods: Sequence[int], free: Iterable[Sequence[int]]) -> tuple[Shape, ...]:
    """Return the shapes of a gang of pods on the GPUs that are free now.

    Parameters
    ----------
    pods
        GPUs of each, largest first.
    free
        Free GPUs by node, for each type of nodes.
    """
    found: dict[tuple[int, ...], None] = {}
    for rooms in free:
        for order in (sorted(rooms, reverse=True), sorted(rooms)):
            parts = [0] * len(order)
            for pod in pods:
                at = next((i for i, room in enumerate(order) if room - parts[i] >= pod), None)
                if at is None:
                    break
                parts[at] += pod
            else:
                found[tuple(sorted((part for part in parts if part), reverse=True))] = None
    return tuple(Shape(parts) for parts in found)
