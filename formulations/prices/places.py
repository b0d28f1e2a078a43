"""Nodes for a choice of any size, from buckets of nodes by free GPUs, tightest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_rows
from formulations.node_pattern.cells import scarce_resources
from formulations.parameters import PLACING, PlacingParams
from formulations.round.candidates import PER_NODE
from formulations.round.tables import RoundProblem, Scope
from formulations.tolerances import FEASIBILITY


class Places:
    """Free resources while parts are placed and taken back; at first all nodes are empty.

    Parameters
    ----------
    problem
        A round; pairs are not placed here.
    params
        Sizes of comparisons.

    Notes
    -----
    A bucket holds the nodes of one class, leaf and number of free GPUs. An entry is stale once the
    node's free GPUs have changed; stale entries are dropped when they reach the top.
    """

    def __init__(self, problem: RoundProblem, params: PlacingParams = PLACING) -> None:
        self._many, self._widens = params.bucket, params.bucket_widens
        nodes, table = problem.nodes, problem.candidates
        self._problem = problem
        self._class: list[int] = nodes.node_class.tolist()
        self._open: list[bool] = nodes.open.tolist()
        rows, self._row = table.templates
        leaves = (rows.scope == Scope.LEAF).any() or np.isfinite(nodes.uplink_gb_per_s).any()
        self._leaf: list[int] = nodes.leaf.tolist()
        self._group: list[int] = nodes.leaf.tolist() if leaves else [0] * nodes.count
        self._groups = max(self._group, default=0) + 1
        self._side: Floats = nodes.capacity[nodes.node_class, 1:].copy()
        self._per_node: list[bool] = PER_NODE.tolist()
        self._uplink: list[float] = nodes.uplink_gb_per_s.tolist()
        # Side resources that nodes of each class may run out of; only these are counted.
        self._scarce: list[list[int]] = [
            (scarce_resources(problem, t)[1:] - 1).tolist() for t in range(nodes.classes)
        ]
        self._first_hold = np.searchsorted(problem.holds.job, np.arange(problem.jobs.count + 1))
        self._hold_node: list[int] = problem.holds.node.tolist()
        self._hold_gpus: list[int] = problem.holds.demand[:, 0].astype(np.int64).tolist()
        self._rows = rows
        self._fill(nodes.capacity[nodes.node_class, 0].astype(np.int64))

    def _fill(self, free: Ints) -> None:
        """Set the free GPUs of every node, shape (N,), and all counts derived from them."""
        nodes = self._problem.nodes
        self.free: list[int] = free.tolist()
        usable = np.flatnonzero(nodes.open)
        t, group = nodes.node_class[usable], np.asarray(self._group, dtype=np.int64)[usable]
        spare = np.bincount(t * self._groups + group, free[usable], nodes.classes * self._groups)
        self._spare: list[list[int]] = spare.astype(np.int64).reshape(-1, self._groups).tolist()
        self.spare: list[int] = [sum(by_group) for by_group in self._spare]
        sizes = int(nodes.capacity[:, 0].max(initial=0)) + 1
        self._buckets: list[list[list[list[int]]]] = [
            [[[] for _ in range(sizes)] for _ in range(self._groups)] for _ in range(nodes.classes)
        ]
        for node in usable[::-1].tolist():
            self._bucket(node).append(node)

    def _bucket(self, node: int) -> list[int]:
        return self._buckets[self._class[node]][self._group[node]][self.free[node]]

    def _take(self, node: int, gpus: int, side: Floats | None) -> None:
        """Take GPUs (negative: give them back) and side resources of a node."""
        self.free[node] -= gpus
        if side is not None:
            self._side[node] -= side
        if self._open[node]:
            t = self._class[node]
            self.spare[t] -= gpus
            self._spare[t][self._group[node]] -= gpus
            self._bucket(node).append(node)

    def _holds_of(self, job: int) -> range:
        """Return the rows of a job's holds, which are consecutive."""
        return range(int(self._first_hold[job]), int(self._first_hold[job + 1]))

    def all_stay(self, jobs: Ints) -> bool:
        """Keep what these jobs hold, before any other placement; return whether uplinks suffice.

        Nodes have room for their holds: a round is refused otherwise.
        """
        nodes, holds = self._problem.nodes, self._problem.holds
        continuing = np.zeros(self._problem.jobs.count, dtype=bool)
        continuing[jobs] = True
        rows = np.flatnonzero(continuing[holds.job])
        node = holds.node[rows]
        leaf = nodes.leaf[node]
        used = np.bincount(leaf, holds.uplink_gb_per_s[rows], nodes.uplink_gb_per_s.size)
        if (used > nodes.uplink_gb_per_s + FEASIBILITY).any():
            return False
        self._uplink = (nodes.uplink_gb_per_s - used).tolist()
        at_rows(np.subtract, self._side, node, holds.demand[rows, 1:])
        free = np.asarray(self.free, dtype=np.int64)
        np.subtract.at(free, node, holds.demand[rows, 0].astype(np.int64))
        self._fill(free)
        return True

    def stays(self, job: int) -> bool:
        """Keep what a running job holds if it is still free; return whether it was."""
        demand, holds = self._problem.holds.demand, self._problem.holds
        for row in self._holds_of(job):
            node = self._hold_node[row]
            if self.free[node] < self._hold_gpus[row]:
                return False
            for short in self._scarce[self._class[node]]:
                left = float(self._side[node, short])
                if left < demand[row, 1 + short] - FEASIBILITY * max(1.0, left):
                    return False
            reserved = float(holds.uplink_gb_per_s[row])
            if reserved > 0.0 and self._uplink[self._leaf[node]] < reserved - FEASIBILITY:
                return False
        self._hold(job, 1)
        return True

    def leaves(self, job: int) -> None:
        """Release the resources that a staying job holds."""
        self._hold(job, -1)

    def _hold(self, job: int, sign: int) -> None:
        holds = self._problem.holds
        for row in self._holds_of(job):
            node = self._hold_node[row]
            scarce = self._scarce[self._class[node]]
            side = sign * holds.demand[row, 1:] if scarce else None
            self._take(node, sign * self._hold_gpus[row], side)
            self._uplink[self._leaf[node]] -= sign * float(holds.uplink_gb_per_s[row])

    def gpus_of(self, job: int, option: int) -> list[int]:
        """Return the GPUs on open nodes that an option holds, by class."""
        found = [0] * len(self.spare)
        if option >= self._problem.candidates.count:
            for row in self._holds_of(job):
                node = self._hold_node[row]
                found[self._class[node]] += self._hold_gpus[row] if self._open[node] else 0
        elif option >= 0:
            for part, t in zip(self.parts(option), self.classes(option), strict=True):
                found[t] += part
        return found

    def parts(self, candidate: int) -> list[int]:
        """Return the GPUs of each part, largest first."""
        return list(self._problem.candidates.parts(candidate))

    def classes(self, candidate: int) -> list[int]:
        """Return the class of each part."""
        found: list[int] = self._problem.candidates.classes_of(candidate).tolist()
        return found

    def starts(self, candidate: int) -> tuple[int, ...] | None:
        """Take nodes for the parts of a candidate and return them; None if none were found."""
        rows, row = self._rows, int(self._row[candidate])
        scope = int(rows.scope[row])
        parts, classes = self.parts(candidate), self.classes(candidate)
        plain = scope == Scope.NODE and not rows.node_set[row]
        if plain and not self._need(candidate, parts[0], classes[0]):
            node = self.starts_anywhere(classes[0], parts[0])
            return None if node < 0 else (node,)
        for groups, inside in self._hosts(set(classes), scope, sum(parts)):
            found = self._fit(candidate, classes, parts, groups, inside)
            if found is not None:
                self._assign(candidate, parts, found, 1)
                return tuple(found)
        return None

    def anywhere(self, candidates: Ints) -> Bools:
        """Return whether candidates are single parts that need only GPUs of any node of a class."""
        rows = self._rows
        plain = (rows.scope == Scope.NODE) & (rows.node_set == 0)
        for t, scarce in enumerate(self._scarce):
            plain &= (rows.node_class != t) | (rows.side[:, scarce] == 0.0).all(axis=1)
        return np.asarray(plain[self._row[candidates]])

    def starts_anywhere(self, t: int, part: int) -> int:
        """Take the tightest node of a class with room for a part; -1 if there is none."""
        buckets, free = self._buckets[t], self.free
        for size in range(part, len(buckets[0])):
            for by_size in buckets:
                bucket = by_size[size]
                while bucket and free[bucket[-1]] != size:
                    bucket.pop()
                if bucket:
                    node = bucket[-1]
                    self._take(node, part, None)
                    return node
        return -1

    def ends(self, candidate: int, nodes: tuple[int, ...]) -> None:
        """Release the nodes of a start."""
        self._assign(candidate, self.parts(candidate), list(nodes), -1)

    def takes(self, candidate: int, nodes: tuple[int, ...]) -> None:
        """Take nodes again that were just released."""
        self._assign(candidate, self.parts(candidate), list(nodes), 1)

    def _assign(self, candidate: int, parts: list[int], nodes: list[int], sign: int) -> None:
        table = self._problem.candidates
        for part, node in zip(parts, nodes, strict=True):
            needs = self._need(candidate, part, self._class[node])
            side = sign * table.demand(candidate, part)[1:] if needs else None
            self._take(node, sign * part, side)
            self._uplink[self._leaf[node]] -= sign * table.sends(candidate, part)

    def _need(self, candidate: int, part: int, node_class: int) -> list[tuple[int, float]]:
        """Return the use by a part of each side resource that its class may run out of."""
        short = self._scarce[node_class]
        if not short:
            return []
        side = self._rows.side[int(self._row[candidate])].tolist()
        return [
            (resource, side[resource] * (1 if self._per_node[resource] else part))
            for resource in short
            if side[resource]
        ]

    def _hosts(
        self, classes: set[int], scope: int, gpus: int
    ) -> Iterator[tuple[Sequence[int], set[int] | None]]:
        """Yield the places that may hold a candidate, fullest first, as groups of buckets."""
        every = range(self._groups)
        if scope in (Scope.NODE, Scope.POD):
            yield every, None
            return
        if scope == Scope.LEAF:
            room = [sum(self._spare[t][group] for t in classes) for group in every]
            for group in sorted(every, key=room.__getitem__):
                if room[group] >= gpus:
                    yield range(group, group + 1), None
            return
        nodes = self._problem.nodes
        mine = np.flatnonzero(nodes.open & np.isin(nodes.node_class, list(classes)))
        spare = np.bincount(nodes.domain[mine], np.asarray(self.free)[mine])
        for host in np.argsort(spare, kind="stable").tolist():
            if spare[host] >= gpus:
                inside = mine[nodes.domain[mine] == host].tolist()
                yield sorted({self._group[node] for node in inside}), set(inside)

    def _fit(
        self,
        candidate: int,
        classes: list[int],
        parts: list[int],
        groups: Sequence[int],
        inside: set[int] | None,
    ) -> list[int] | None:
        """Return the tightest node for each part in turn, counting the candidate's own parts."""
        rows, row, nodes = self._rows, int(self._row[candidate]), self._problem.nodes
        pinned = int(rows.node_set[row])
        allowed = nodes.sets[pinned] if pinned else None
        crosses = int(rows.scope[row]) == Scope.POD
        share = rows.sends(row, 1)
        # A strict gang must not lie in one place of the tighter scope.
        tighter = nodes.leaf if crosses else nodes.domain
        strict, loose = bool(rows.strict[row]), bool(rows.loose[row])
        uplink: dict[int, float] = {}
        chosen: list[int] = []
        for part, t in zip(parts, classes, strict=True):
            last = strict and len(chosen) == len(parts) - 1
            same = int(tighter[chosen[0]]) if last and len(set(tighter[chosen])) == 1 else -1
            need = self._need(candidate, part, t)
            for node in self._candidates(t, part, groups, need):
                if inside is not None and node not in inside:
                    continue
                # Nodes chosen so far are not taken yet; only loose parts share a node.
                again = chosen.count(node)
                if again and not (loose and self.free[node] >= (again + 1) * part):
                    continue
                if (allowed is not None and not allowed[node]) or int(tighter[node]) == same:
                    continue
                if any(
                    self._side[node, resource] < (again + 1) * amount - FEASIBILITY
                    for resource, amount in need
                ):
                    continue
                leaf = self._leaf[node]
                if (
                    share
                    and self._uplink[leaf] - uplink.get(leaf, 0.0) < part * share - FEASIBILITY
                ):
                    continue
                uplink[leaf] = uplink.get(leaf, 0.0) + part * share
                chosen.append(node)
                break
            else:
                return None
        return chosen

    def _candidates(
        self, t: int, part: int, groups: Sequence[int], need: Sequence[tuple[int, float]] = ()
    ) -> Iterator[int]:
        """Yield nodes of a class with GPUs for a part, tightest first.

        In large buckets, only those with enough side resources.
        """
        buckets, free = self._buckets[t], self.free
        for size in range(part, len(buckets[0])):
            for group in groups:
                bucket = buckets[group][size]
                while bucket and free[bucket[-1]] != size:
                    bucket.pop()
                if need and len(bucket) >= self._many:
                    yield from self._with_enough(bucket, size, need)
                    continue
                for at in range(len(bucket) - 1, -1, -1):
                    if free[bucket[at]] == size:
                        yield bucket[at]

    def _with_enough(
        self, bucket: list[int], size: int, need: Sequence[tuple[int, float]]
    ) -> Iterator[int]:
        """Yield the nodes of a bucket with enough side resources for a part.

        Later nodes of a bucket are compared in stretches, each several times as long as the one
        before: mostly the first nodes suffice, and buckets of large clusters have tens of
        thousands.
        """
        above, stretch = len(bucket), self._many
        while above:
            below = max(0, above - stretch)
            there = np.asarray(bucket[below:above][::-1])
            for resource, amount in need:
                there = there[self._side[there, resource] >= amount - FEASIBILITY]
            yield from (node for node in there.tolist() if self.free[node] == size)
            above, stretch = below, self._widens * stretch

    def most_side(self, full: bool) -> Floats | None:
        """Return, per class, the largest free side resources of a node with a free GPU, (T, R - 1).

        None if no class runs out of any. With ``full``, nodes without a free GPU count as well: a
        job that moves frees its own GPUs there.
        """
        if not any(self._scarce):
            return None
        nodes = self._problem.nodes
        found = np.full((nodes.classes, self._side.shape[1]), -np.inf)
        some = np.flatnonzero(nodes.open & (full | (np.asarray(self.free) > 0)))
        at_rows(np.maximum, found, nodes.node_class[some], self._side[some])
        for t, scarce in enumerate(self._scarce):
            found[t, np.setdiff1d(np.arange(found.shape[1]), scarce)] = np.inf
        return found

    def most_free(self) -> Ints:
        """Return the largest number of free GPUs on an open node of each class, shape (T,)."""
        nodes = self._problem.nodes
        most = np.zeros(nodes.classes, dtype=np.int64)
        free = np.asarray(self.free, dtype=np.int64)
        np.maximum.at(most, nodes.node_class[nodes.open], free[nodes.open])
        return most
