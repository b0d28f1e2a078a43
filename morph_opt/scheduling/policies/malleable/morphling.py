"""Morphling's heuristic in the round engine, as in its paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from formulations.tolerances import SAME_SPEED
from morph_opt.scheduling.policies.filling import Filling
from morph_opt.scheduling.policies.malleable.frame import (
    JobWays,
    MalleableBaseline,
    Want,
)
from morph_opt.scheduling.policies.published import MORPHLING


def stairs(ways: JobWays, largest: int) -> dict[int, float]:
    """Return seconds per iteration by GPUs of one node, without counts that gain nothing."""
    found: dict[int, float] = {}
    one = ways.fastest(lambda way: way.gpus if len(way.parts) == 1 else 0)
    for gpus in sorted(one):
        last = min(found.values(), default=float("inf"))
        if 0 < gpus <= largest and last > one[gpus] * (1.0 + MORPHLING.gain):
            found[gpus] = one[gpus]
    return found


@dataclass(slots=True)
class Live:
    """Job while a round is decided.

    Parameters
    ----------
    speed
        Relative to the request, by GPUs of one node; empty for a model that needs several.
    shapes
        Speed by GPUs per node, of a model that needs several.
    guaranteed
        Whether it was promised a speed: its request's, or its best on one node if that is less.
    may_shrink
        Whether it has restarts left, so that it may be shrunk.
    gpus
        Number of GPUs by node.
    """

    speed: dict[int, float]
    shapes: dict[tuple[int, ...], float]
    guaranteed: bool
    may_shrink: bool
    gpus: dict[int, int] = field(default_factory=dict)

    @property
    def held(self) -> int:
        """Number of GPUs."""
        return sum(self.gpus.values())

    def keeps(self, speed: float) -> bool:
        """Return whether a speed keeps the job's promise, if it has one."""
        best = max(self.speed.values(), default=0.0)
        return not self.guaranteed or speed >= min(1.0 - SAME_SPEED, best)

    @property
    def parts(self) -> tuple[int, ...]:
        """GPUs per node, largest first."""
        return tuple(sorted(self.gpus.values(), reverse=True))

    def step(self, most: int) -> int:
        """Return the largest step within this number of GPUs; 0 if none."""
        return max((gpus for gpus in self.speed if gpus <= most), default=0)

    @property
    def slope(self) -> float:
        """Gain of speed per GPU from the present to the next step."""
        now = self.speed.get(self.step(self.held), 0.0)
        if not self.speed:
            now = self.shapes.get(self.parts, 0.0)
            gains = [
                (s - now) / (sum(p) - self.held)
                for p, s in self.shapes.items()
                if sum(p) > self.held
            ]
            return max(gains, default=0.0)
        after = min((gpus for gpus in self.speed if gpus > self.held), default=None)
        return 0.0 if after is None else (self.speed[after] - now) / (after - self.held)

    def loss(self, to_nothing: bool) -> tuple[float, int] | None:
        """Return the speed lost per GPU by one step down, and the step; None if forbidden."""
        if len(self.gpus) != 1 or not self.speed or not self.may_shrink:
            return None
        now, below = self.step(self.held), self.step(self.held - 1)
        left = self.speed.get(below, 0.0)
        if not self.keeps(left) or (below == 0 and not to_nothing) or now == 0:
            return None
        return (self.speed[now] - left) / (self.held - below), below


class PaperRound:
    """Morphling's round as in the paper, on nodes.

    Guaranteed jobs first, then by slope, steepest first. A job takes what a node has free, down to
    its step, a guaranteed one only where that keeps its promise. If it finds none, it takes
    steps from the jobs that lose least per GPU, while that is less than its gain; else nothing.

    Parameters
    ----------
    jobs
        Jobs with their GPUs; changed in place.
    free
        Free GPUs of each node; changed in place.
    """

    def __init__(self, jobs: list[Live], free: list[int]) -> None:
        self.jobs, self.free = jobs, free

    def run(self) -> None:
        """Decide the round."""
        order = sorted(
            range(len(self.jobs)), key=lambda j: (not self.jobs[j].guaranteed, -self.jobs[j].slope)
        )
        for j in order:
            if not self.jobs[j].held and not self._start(j):
                self._take_from_others(j)
        self._scale_up()
        for j in order:
            if self.jobs[j].shapes and not self.jobs[j].speed:
                self._enlarge(j)

    def _start(self, j: int) -> bool:
        job = self.jobs[j]
        if not job.speed:
            return self._start_wide(j, lambda _speed: True)
        for node in sorted(range(len(self.free)), key=lambda n: (-self.free[n], n)):
            gpus = job.step(self.free[node])
            if gpus and job.keeps(job.speed[gpus]):
                self._set(job, node, gpus)
                return True
        return False

    def _start_wide(self, j: int, enough: Callable[[float], bool]) -> bool:
        """Start a job in the fastest shape that fits, fullest nodes first."""
        job = self.jobs[j]
        for parts, speed in sorted(job.shapes.items(), key=lambda item: -item[1]):
            if not enough(speed):
                return False
            found: dict[int, int] = {}
            for part in parts:
                open_nodes = [n for n in range(len(self.free)) if n not in found]
                fits = [(self.free[n], n) for n in open_nodes if self.free[n] >= part]
                if not fits:
                    break
                found[min(fits)[1]] = part
            if len(found) == len(parts):
                for node, gpus in found.items():
                    self._set(job, node, gpus)
                return True
        return False

    def _set(self, job: Live, node: int, gpus: int) -> None:
        self.free[node] += job.gpus.pop(node, 0) - gpus
        if gpus:
            job.gpus[node] = gpus

    def _take_from_others(self, j: int) -> None:
        job, before = self.jobs[j], [dict(other.gpus) for other in self.jobs]
        free = list(self.free)
        slope = job.slope
        while True:
            losses = [
                (found, i)
                for i, other in enumerate(self.jobs)
                if i != j and (found := other.loss(job.guaranteed)) is not None
            ]
            if not losses or min(losses)[0][0] >= slope:
                break
            (_, below), i = min(losses)
            self._set(self.jobs[i], next(iter(self.jobs[i].gpus)), below)
            if self._start(j):
                return
        for other, gpus in zip(self.jobs, before, strict=True):
            other.gpus = gpus
        self.free[:] = free

    def _scale_up(self) -> None:
        """Give the free GPUs of a node step by step to the job with the steepest slope on it."""
        for node in range(len(self.free)):
            while self.free[node] > 0:
                growing = [
                    (job.slope, -j)
                    for j, job in enumerate(self.jobs)
                    if job.speed
                    and set(job.gpus) == {node}
                    and job.step(job.held + self.free[node]) > job.held
                ]
                if not growing:
                    break
                job = self.jobs[-max(growing)[1]]
                after = min(gpus for gpus in job.speed if gpus > job.held)
                self._set(job, node, after)

    def _enlarge(self, j: int) -> None:
        """Give a job on several nodes a faster shape, after it has released its own GPUs."""
        job = self.jobs[j]
        if not job.held:
            return
        before, now = dict(job.gpus), job.shapes.get(job.parts, 0.0)
        for node in before:
            self._set(job, node, 0)
        if not self._start_wide(j, lambda speed: speed > now * (1.0 + MORPHLING.gain)):
            for node, gpus in before.items():
                self._set(job, node, gpus)


class Morphling(MalleableBaseline):
    """Policy ``morphling``: slopes of sensitivity curves, guarantees, shrinking; plans chosen anew.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    """

    name = "morphling"

    def wants(self, filling: Filling, ways: list[JobWays]) -> list[Want | None]:
        """Return the wanted shape and plan of each job; see `MalleableBaseline.wants`."""
        shapes = self.shapes(filling, ways)
        return [Want(sum(parts), None, parts) if parts else None for parts in shapes]

    def shapes(self, filling: Filling, ways: list[JobWays]) -> list[tuple[int, ...]]:
        """Return the GPUs per node of every job, most first; empty for a job without GPUs."""
        held, capacity = gpus_held(filling), gpus_of_nodes(filling)
        size = max(capacity, default=0)
        asked = filling.problem.jobs.request_iteration_s
        jobs = []
        for j, (known, state) in enumerate(zip(ways, filling.view.states, strict=True)):
            speed = {g: float(asked[j]) / s for g, s in stairs(known, size).items()}
            shapes: dict[tuple[int, ...], float] = {}
            for way in known.ways:
                if not speed:
                    fast = max(shapes.get(way.parts, 0.0), float(asked[j]) / way.iteration_s)
                    shapes[way.parts] = fast
            few = state.starts - 1 < MORPHLING.most_restarts
            jobs.append(Live(speed, shapes, state.job.guaranteed, few, held[j]))
        free = list(capacity)
        for job in jobs:
            for node, gpus in job.gpus.items():
                free[node] -= gpus
        PaperRound(jobs, free).run()
        return [job.parts for job in jobs]


def gpus_held(filling: Filling) -> list[dict[int, int]]:
    """Return the GPUs of every job by node."""
    found: list[dict[int, int]] = [{} for _ in filling.view.states]
    holds = filling.problem.holds
    for job, node, gpus in zip(holds.job, holds.node, holds.demand[:, 0], strict=True):
        found[int(job)][int(node)] = round(float(gpus))
    return found


def gpus_of_nodes(filling: Filling) -> list[int]:
    """Return the usable GPUs of every node; on a closed node, the GPUs still held."""
    nodes, holds = filling.problem.nodes, filling.problem.holds
    found = [round(float(n)) for n in nodes.capacity[nodes.node_class, 0]]
    for node in range(nodes.count):
        if not nodes.open[node]:
            found[node] = round(float(holds.demand[holds.node == node, 0].sum()))
    return found
