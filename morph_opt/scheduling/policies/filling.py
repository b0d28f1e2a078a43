"""Base of policies that place jobs one by one, also for users' own policies.

A subclass of `FillingPolicy` gives the order of the jobs; free GPUs, threads, memory and uplinks
are counted here, and the result passes the same check as the MILP's. ``docs/how-to/policy.md``
writes one in 20 lines.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.round.check import check
from formulations.round.decode import Room, place_parts, room_after_stays
from formulations.round.tables import NONE, RoundProblem, Scope, Selection
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import JobState, Placement, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport

Mark = tuple[Ints, list[tuple[int, ...]], Room, list[bool]]
"""Placements of a round and what they leave free."""


class Filling:
    """Free capacity of a round while jobs are placed one by one; jobs are numbered from 0.

    Attributes
    ----------
    states
        The jobs, in order of submission: request, progress, what each holds.
    problem, view
        Tables of the round, which add speeds, node classes and demands to the states.
    choice
        Option of each job so far or `NONE`, shape (J,).
    room
        Free resources of nodes and uplinks.
    """

    def __init__(self, view: RoundView) -> None:
        self.problem: RoundProblem = view.problem
        self.view = view
        self.states: tuple[JobState, ...] = tuple(view.states)
        jobs = view.problem.jobs.count
        self.choice = np.full(jobs, NONE, dtype=np.int64)
        self.spots: list[tuple[int, ...]] = [()] * jobs
        self.room = room_after_stays(view.problem, self.choice)
        holds, nodes = view.problem.holds, view.problem.nodes
        self._first = np.searchsorted(holds.job, np.arange(jobs + 1)).tolist()
        self._node: list[int] = holds.node.tolist()
        self._open: list[bool] = nodes.open[holds.node].tolist()
        self._leaf: list[int] = nodes.leaf[holds.node].tolist()
        self._uplink: list[float] = holds.uplink_gb_per_s.tolist()
        self._least = holds.demand - FEASIBILITY
        # Running jobs fit together, except jobs that share GPUs, until a job starts on their nodes.
        self._changed = np.full(nodes.count, view.problem.shared.gang.size > 0).tolist()
        self._stay: list[int] = view.problem.options.stay.tolist()

    @property
    def running(self) -> list[int]:
        """Jobs that hold GPUs, in order of submission."""
        return np.flatnonzero(self.problem.jobs.running).tolist()

    @property
    def waiting(self) -> list[int]:
        """Jobs that hold nothing, in order of submission."""
        return np.flatnonzero(~self.problem.jobs.running).tolist()

    def candidates(self, job: int) -> range:
        """Return the ways to start a job, as rows in the candidates of the tables.

        Of a policy that offers requests only, the shapes of the request, the fastest first.
        """
        return range(int(self.view.offset[job]), int(self.view.offset[job + 1]))

    def keep(self, job: int) -> bool:
        """Keep a running job in place; return False if its resources are not free any more."""
        room, demand = self.room, self.problem.holds.demand
        rows = range(self._first[job], self._first[job + 1])
        carried: dict[int, float] = {}
        for row in rows:
            # A drained node has no free resources, but a job that runs there may stay.
            node = self._node[row]
            if (
                self._changed[node]
                and self._open[row]
                and not (room.nodes[node] >= self._least[row]).all()
            ):
                return False
            if self._uplink[row]:
                leaf = self._leaf[row]
                carried[leaf] = carried.get(leaf, 0.0) + self._uplink[row]
        if any(share > room.uplinks[leaf] + FEASIBILITY for leaf, share in carried.items()):
            return False
        for row in rows:
            room.nodes[self._node[row]] -= demand[row]
        for leaf, share in carried.items():
            room.uplinks[leaf] -= share
        self.choice[job] = self._stay[job]
        return True

    def give_back(self, job: int) -> None:
        """Undo `keep`."""
        room, holds = self.room, self.problem.holds
        for row in range(self._first[job], self._first[job + 1]):
            room.nodes[self._node[row]] += holds.demand[row]
            room.uplinks[self._leaf[row]] += self._uplink[row]
        self.choice[job] = NONE

    def start_on(self, job: int, candidate: int, placement: Placement) -> bool:
        """Start a job in a candidate on exactly these nodes; return False if that is impossible."""
        nodes, table, left = self.problem.nodes, self.problem.options.starts, self.room
        by_size = sorted(placement.parts, key=lambda part: -len(part[1]))
        found = tuple(node for node, _ in by_size)
        if table.parts(candidate) != tuple(len(gpus) for _, gpus in by_size):
            return False
        at, usable = np.asarray(found), nodes.open & nodes.sets[table.node_set[candidate]]
        scope = int(table.scope[candidate])
        tighter = nodes.leaf if scope == Scope.POD else nodes.domain
        place = {Scope.LEAF: nodes.leaf, Scope.NVLINK: nodes.domain}.get(Scope(scope))
        if (
            not usable[at].all()
            or (nodes.node_class[at] != table.classes_of(candidate)).any()
            or (place is not None and np.unique(place[at]).size > 1)
            or (table.strict[candidate] and np.unique(tighter[at]).size == 1)
        ):
            return False
        demand = np.stack([table.demand(candidate, part) for part in table.parts(candidate)])
        sent = np.zeros(left.uplinks.size)
        shares = [table.sends(candidate, part) for part in table.parts(candidate)]
        np.add.at(sent, nodes.leaf[at], shares)
        fits = (left.nodes[at] >= demand - FEASIBILITY).all()
        if not fits or (sent > left.uplinks + FEASIBILITY)[sent > 0.0].any():
            return False
        left.nodes[at] -= demand
        left.uplinks[:] -= sent
        self._take(job, candidate, found)
        return True

    def _take(self, job: int, candidate: int, nodes: tuple[int, ...]) -> None:
        self.choice[job] = candidate
        self.spots[job] = nodes
        for node in nodes:
            self._changed[node] = True

    def mark(self) -> Mark:
        """Return the placements so far, for `back_to`."""
        room = Room(self.room.nodes.copy(), self.room.uplinks.copy())
        return self.choice.copy(), [*self.spots], room, [*self._changed]

    def back_to(self, mark: Mark) -> None:
        """Undo everything since a mark, which may be used again."""
        choice, spots, room, changed = mark
        self.choice, self.spots, self._changed = choice.copy(), [*spots], [*changed]
        self.room = Room(room.nodes.copy(), room.uplinks.copy())

    def start(
        self, job: int, candidates: Iterable[int] | None = None, among: Bools | None = None
    ) -> bool:
        """Start a job in its first fitting candidate, and return whether there was one.

        Parameters
        ----------
        job, candidates
            The job, and the ways to start it, best first; None for all.
        among
            Whether it may be on a node, shape (N,); None for all.
        """
        gpus = self.problem.candidates.gpus
        # Most jobs of a long queue end here: they need more GPUs than are free on all nodes.
        free = np.maximum(self.room.nodes[:, 0], 0.0).sum() + 0.5
        for candidate in self.candidates(job) if candidates is None else candidates:
            if gpus[candidate] > free:
                continue
            found = place_parts(self.problem, candidate, self.room, among)
            if found is not None:
                self._take(job, candidate, found)
                return True
        return False

    def selection(self) -> Selection:
        """Return the placements so far."""
        return Selection(self.choice, tuple(self.spots))


class FillingPolicy(Policy):
    """Policy that places jobs one by one in the order of its method `fill`.

    Parameters
    ----------
    belief
        Speed model: the possible configurations and the speed of each.
    options
        Options of the command line; ignored here.
    """

    requests_only = True
    """Whether jobs are offered only the GPUs and the plan of their request."""

    stays_put = False
    """Whether all jobs stay in place while every job runs and nothing else happens."""

    timeless = False
    """Whether decisions depend neither on the clock nor on the progress of jobs."""

    def __init__(self, belief: SpeedModel, options: object = None) -> None:
        del options
        self._builder = CandidateBuilder(belief, prune=False, requests_only=self.requests_only)

    @abstractmethod
    def fill(self, filling: Filling) -> None:
        """Keep and start jobs; those neither kept nor started wait."""

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        began = time.perf_counter()
        view = self._builder.view(state)
        prepared = time.perf_counter()
        filling = Filling(view)
        self.fill(filling)
        selection = filling.selection()
        allocation = to_allocation(state, view, selection)
        placed = time.perf_counter()
        check(view.problem, selection)
        report = RoundReport(
            "heuristic" if state.jobs else "idle",
            candidates=view.problem.candidates.count,
            candidates_ms=1e3 * (prepared - began),
            place_ms=1e3 * (placed - prepared),
            check_ms=1e3 * (time.perf_counter() - placed),
        )
        return Decision(allocation, report, steady=self._is_steady(view.problem, selection))

    def _is_steady(self, problem: RoundProblem, selection: Selection) -> bool:
        """Return `Decision.steady`: all jobs stay, or no waiting job can start later."""
        running = problem.jobs.running
        if problem.shared.count or (selection.choice != problem.options.stay)[running].any():
            return False
        waits = not running.all()
        starts = waits and bool((selection.choice[~running] != NONE).any())
        return not starts and (self.timeless or (self.stays_put and not waits))
