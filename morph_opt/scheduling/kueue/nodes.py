"""Nodes of a cluster as the pods of admitted workloads hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from formulations.arrays import Floats
from morph_opt.core.domain import Assignment, Cluster, Job, Placement, Span
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.backfill.queue import Demand, Free
from morph_opt.scheduling.kueue.clusters import Placing
from morph_opt.scheduling.kueue.pods import Pods, parts_in_shape, seats


class Nodes:
    """Nodes with the pods on them.

    Parameters
    ----------
    cluster, capacity
        The nodes, and what each has, shape (N, R), GPUs first.
    belief
        Speeds: which shapes exist.
    runs
        Function that returns whether a job can run in an assignment.
    placing
        How pods are placed.
    """

    def __init__(
        self,
        cluster: Cluster,
        capacity: Floats,
        belief: SpeedModel,
        runs: Callable[[Job, Assignment], bool],
        placing: Placing,
    ) -> None:
        self.cluster = cluster
        self.free = Free(capacity)
        self.at: dict[str, Assignment] = {}
        """Where jobs run, by name."""
        self._belief, self._runs, self._placing = belief, runs, placing
        self._kinds = [node.type.name for node in cluster.nodes]
        self._gpus: dict[int, set[int]] = {}
        self._held: dict[str, list[tuple[int, Demand]]] = {}

    def pods_of(self, name: str) -> list[tuple[int, Demand]]:
        """Return node and demand of each pod, or part, of a job that is placed."""
        return self._held.get(name, [])

    def settle(self, made: Assignment, demand: Demand = ()) -> None:
        """Count a job that runs.

        Parameters
        ----------
        made
            Where it runs.
        demand
            What each part of it takes of its node, where it was placed in that shape.
        """
        self.leave(made.job)
        self.at[made.job] = made
        sides = [0.0] * (self.free.amounts.shape[1] - 1)
        for node, gpus in made.placement.parts:
            as_asked = bool(demand) and len(gpus) == round(demand[0])
            self._hold(made.job, node, demand if as_asked else (float(len(gpus)), *sides))
            self._gpus.setdefault(node, set()).update(gpus)

    def _hold(self, name: str, node: int, demand: Demand) -> None:
        self.free.take(1 << node, demand)
        self._held.setdefault(name, []).append((node, demand))

    def leave(self, name: str) -> None:
        """Give back what a job holds."""
        made = self.at.pop(name, None)
        if made is not None:
            for node, gpus in made.placement.parts:
                self._gpus[node].difference_update(gpus)
        for node, demand in self._held.pop(name, ()):
            self.free.take(1 << node, tuple(-amount for amount in demand))

    def place(self, job: Job, wanted: Sequence[Pods]) -> bool:
        """Place the pods of a job as far as there are nodes; return whether it runs now."""
        held = self._held.get(job.name, [])
        left = _missing(wanted, held)
        kind = self._kinds[held[0][0]] if held else ""
        found = self._seats(left, kind, spread=self._placing.spread)
        whole = sum(map(len, found)) == sum(one.count for one in left)
        if not whole and not self._placing.pods:
            return False
        if whole and not held and not all(one.apart for one in wanted):
            found = self._that_runs(job, wanted, found)
            if not found:
                return False
        for one, nodes in zip(left, found, strict=True):
            for node in nodes:
                self._hold(job.name, node, one.demand)
        if whole:
            self._run(job)
        return whole

    def _seats(self, wanted: Sequence[Pods], kind: str, *, spread: bool) -> list[list[int]]:
        return seats(wanted, self.free, self._kinds, spread=spread, kind=kind)

    def _that_runs(
        self, job: Job, wanted: Sequence[Pods], found: list[list[int]]
    ) -> list[list[int]]:
        """Return nodes in a shape in which the job can run; [] if there are none.

        Pods taken node by node may have a shape whose speed is not known.
        """
        if self._runs(job, self._made(job, wanted, found)):
            return found
        other = self._seats(wanted, "", spread=not self._placing.spread)
        if self._runs(job, self._made(job, wanted, other)):
            return other
        return self._in_shape(job, wanted)

    def _in_shape(self, job: Job, wanted: Sequence[Pods]) -> list[list[int]]:
        common = ~0
        for one in wanted:
            common &= one.nodes
        gpus = sum(one.count * one.gpus for one in wanted)
        amounts = self.free.amounts
        for kind in dict.fromkeys(node.type for node in self.cluster.nodes):
            members = [at for at in self._members(kind.name) if common >> at & 1]
            ordered = sorted(members, key=lambda at: (amounts[at, 0], at))
            for row in self._belief.configurations(job.model, kind, gpus, Span.LEAF):
                if row.shape.gpus != gpus or row.plan != job.requested_plan:
                    continue
                nodes = parts_in_shape(row.shape.parts, wanted, self.free, ordered)
                if nodes and self._runs(
                    job, _at(job, dict(zip(nodes, row.shape.parts, strict=True)))
                ):
                    return _shared(wanted, dict(zip(nodes, row.shape.parts, strict=True)))
        return []

    def _members(self, kind: str) -> Iterable[int]:
        return (at for at, name in enumerate(self._kinds) if name == kind)

    def _made(self, job: Job, wanted: Sequence[Pods], found: Sequence[Sequence[int]]) -> Assignment:
        gpus: Counter[int] = Counter()
        for one, nodes in zip(wanted, found, strict=True):
            for node in nodes:
                gpus[node] += one.gpus
        return _at(job, gpus)

    def _run(self, job: Job) -> None:
        """Give the pods of a job their GPUs."""
        gpus: Counter[int] = Counter()
        for node, demand in self._held[job.name]:
            gpus[node] += round(demand[0])
        parts = {}
        for node, count in sorted(gpus.items()):
            used = self._gpus.setdefault(node, set())
            every = range(self.cluster.nodes[node].type.gpus)
            parts[node] = [gpu for gpu in every if gpu not in used][:count]
            used.update(parts[node])
        self.at[job.name] = Assignment(job.name, job.requested_plan, Placement.of(parts))

    def able(self, name: str, wanted: Sequence[Pods]) -> int:
        """Return the number of nodes that have a pod of a job, or could take one now."""
        nodes = sum(1 << node for node in {node for node, _ in self.pods_of(name)})
        for one in _missing(wanted, self.pods_of(name)):
            nodes |= self.free.fits(one.demand) & one.nodes
        return nodes.bit_count()


def _at(job: Job, gpus: Mapping[int, int]) -> Assignment:
    parts = {node: range(count) for node, count in sorted(gpus.items())}
    return Assignment(job.name, job.requested_plan, Placement.of(parts))


def _missing(wanted: Sequence[Pods], held: Sequence[tuple[int, Demand]]) -> list[Pods]:
    """Return the pods that are not placed yet; those that are apart avoid the others' nodes."""
    placed = [*held]
    left = []
    for one in wanted:
        mine = [row for row in placed if row[1] == one.demand and one.nodes >> row[0] & 1]
        mine = mine[: one.count]
        for row in mine:
            placed.remove(row)
        taken = sum(1 << node for node, _ in mine) if one.apart else 0
        left.append(Pods(one.count - len(mine), one.demand, one.nodes & ~taken, one.apart))
    return left


def _shared(wanted: Sequence[Pods], parts: Mapping[int, int]) -> list[list[int]]:
    """Return the nodes of pods that fill parts, the largest first; see `pods.fills`."""
    left = dict(parts)
    found: list[list[int]] = [[] for _ in wanted]
    for at in sorted(range(len(wanted)), key=lambda at: -wanted[at].gpus):
        for _ in range(wanted[at].count):
            fits = [node for node, room in left.items() if room >= wanted[at].gpus]
            node = min(fits, key=lambda node: left[node])
            left[node] -= wanted[at].gpus
            found[at].append(node)
    return found
