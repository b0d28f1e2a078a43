"""Nodes for the pods of admitted workloads, which Kueue leaves to the scheduler of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from formulations.tolerances import FEASIBILITY
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.backfill.queue import Demand, Free


@dataclass(frozen=True, slots=True)
class Pods:
    """Equal pods of a workload that need GPUs.

    Parameters
    ----------
    count
        Their number.
    demand
        Demand of each on its node, GPUs first.
    nodes
        Nodes that may hold them, as bits.
    apart
        Whether no two of them share a node.
    """

    count: int
    demand: Demand
    nodes: int
    apart: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of each pod."""
        return round(self.demand[0])


def seats(
    wanted: Sequence[Pods], free: Free, kinds: Sequence[str], *, spread: bool, kind: str = ""
) -> list[list[int]]:
    """Return the nodes of as many pods as fit on nodes of one kind, for each set of pods.

    Parameters
    ----------
    wanted
        Sets of pods; the largest pods are placed first.
    free
        Free amounts of the nodes.
    kinds
        Kind of each node, of which a workload has one.
    spread
        Whether the emptiest nodes are taken first and pods in turns, not the fullest.
    kind
        Kind of the nodes on which other pods of the workload are; "" if there are none.
    """
    fits = [free.fits(one.demand) & one.nodes for one in wanted]
    every = 0
    for nodes in fits:
        every |= nodes
    sign = -1.0 if spread else 1.0
    by_kind: dict[str, list[int]] = {kind: []} if kind else {}
    for node in sorted(bits(every), key=lambda at: (sign * free.amounts[at, 0], at)):
        if not kind or kinds[node] == kind:
            by_kind.setdefault(kinds[node], []).append(node)
    best: list[list[int]] = [[] for _ in wanted]
    for ordered in by_kind.values():
        found = _on(ordered, wanted, fits, free, spread=spread)
        if sum(map(len, found)) > sum(map(len, best)):
            best = found
        if all(len(mine) == one.count for mine, one in zip(found, wanted, strict=True)):
            return found
    return best


def _on(
    ordered: Sequence[int], wanted: Sequence[Pods], fits: Sequence[int], free: Free, *, spread: bool
) -> list[list[int]]:
    """Place pods on nodes in their order; return the nodes of each set."""
    left = {node: list(free.amounts[node]) for node in ordered} if len(wanted) > 1 else {}
    found: list[list[int]] = [[] for _ in wanted]
    for at in sorted(range(len(wanted)), key=lambda at: -wanted[at].demand[0]):
        one, mine = wanted[at], found[at]
        nodes = [node for node in ordered if fits[at] >> node & 1]
        if one.apart and not left:
            mine += nodes[: one.count]
            continue
        rooms = {}
        for node in nodes:
            has = left[node] if left else free.amounts[node]
            rooms[node] = min(_room(has, one.demand), 1 if one.apart else one.count)
        while len(mine) < one.count and nodes:
            for node in nodes:
                more = min(1 if spread else rooms[node], rooms[node], one.count - len(mine))
                mine += [node] * more
                rooms[node] -= more
                if left:
                    left[node] = [a - more * b for a, b in zip(left[node], one.demand, strict=True)]
            nodes = [node for node in nodes if rooms[node]]
    return found


def _room(has: Iterable[float], demand: Demand) -> int:
    """Return how many pods of a demand fit in free amounts."""
    counts = [int((a + FEASIBILITY) / b) for a, b in zip(has, demand, strict=True) if b > 0.0]
    return max(0, min(counts, default=1))


def parts_in_shape(
    parts: Sequence[int], wanted: Sequence[Pods], free: Free, ordered: Sequence[int]
) -> list[int]:
    """Return a node for each part of a shape; [] if pods do not fill the parts, or none are free.

    Parameters
    ----------
    parts
        GPUs on each node, largest first.
    wanted
        All pods of the workload.
    free, ordered
        Free amounts, and the nodes in the order in which they are tried.
    """
    pods = sorted((one.gpus for one in wanted for _ in range(one.count)), reverse=True)
    if not fills(parts, pods):
        return []
    found: list[int] = []
    for part in parts:
        each = min(wanted, key=lambda one: one.gpus)
        demand = tuple(amount * part / each.gpus for amount in each.demand)
        nodes = free.fits(demand)
        node = next((n for n in ordered if nodes >> n & 1 and n not in found), None)
        if node is None:
            return []
        found.append(node)
    return found


def fills(parts: Sequence[int], pods: Sequence[int]) -> bool:
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
