"""Strict check: whether an allocation is possible on this cluster, job by job and node by node.

The rules are in `morph_opt.scheduling.strict.rules`. The engine checks every decision with the true
speeds, the MILP and snapshots with what is believed, and metrics count with it from the log.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import add
from typing import TypeVar

from formulations.resources import RESOURCES, SIDES, UPLINK
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import Assignment, Cluster, Job, Span
from morph_opt.core.domain.placement import NOTHING, Sides, held_by_part, sides_of
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel, pair_speeds
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.scheduling.strict.rules import StateFacts, Violation, check_job

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Placed:
    """Assignment that passed the rules on one job alone.

    Parameters
    ----------
    assignment, job
        Assignment and the job that holds it.
    sides
        Side demand of the job, by the name of the node type.
    """

    assignment: Assignment
    job: Job
    sides: Mapping[str, Sides]

    def is_still(self, assignment: Assignment, job: Job | None) -> bool:
        """Return whether this is the same job with the same assignment."""
        mine = self.assignment
        return (mine, mine.partner, self.job) == (assignment, assignment.partner, job)


class PlacementCheck:
    """Incremental check: keeps what was placed last and checks only what has changed.

    A round costs one comparison per assignment, and sums for changed nodes only: on 65,536 GPUs
    most of a round stays as it was. Between two calls these hold:

    1. ``_placed`` has exactly the assignments that broke no rule on one job alone; ``_on_node``,
       ``_on_uplink`` and ``_named_by`` are its indices by node, leaf and named partner.
    2. ``_of_partner``, ``_of_node`` and ``_of_uplink`` have every broken rule of ``_placed``, and
       no entry for what is in order. ``_of_job`` has the assignments refused in the present call.
    3. The three sets ``_due_*`` are empty. During a call, `_put` and `_drop` add to them each
       node, uplink and partner whose result may differ; every other result is still true, as it
       depends on nothing that has changed.
    4. A departure can only repair a node or an uplink, so `_drop` marks it only if it was broken.
       An arrival marks it always.
    5. A job that comes, goes or changes also changes whether jobs that name it as their partner
       share their GPUs rightly: `_regroup` marks these jobs and their nodes.

    Parameters
    ----------
    lookup
        Speeds on the cluster: the truth, or a belief.
    unknown_may_stay
        Whether a job may stay where the speeds do not know what it runs, as it may by a belief: it
        then holds nothing next to its GPUs.
    """

    def __init__(self, lookup: RunLookup, *, unknown_may_stay: bool = False) -> None:
        self.cluster: Cluster = lookup.cluster
        self._lookup = lookup
        self._unknown_may_stay = unknown_may_stay
        self._topology = known = topology_of(lookup.cluster)
        self._leaf = tuple(known.leaf_names[leaf] for leaf in known.leaf)
        limits = zip(known.leaf_names, known.uplink_gb_per_s, strict=True)
        self._uplinks = {name: limit for name, limit in limits if limit < math.inf}
        self._placed: dict[str, _Placed] = {}
        self._on_node: dict[int, dict[str, tuple[int, ...]]] = {}
        self._on_uplink: dict[str, dict[str, float]] = {}
        self._named_by: dict[str, set[str]] = {}
        # What has to be looked at anew, and what was found when it was looked at last.
        self._due_nodes: set[int] = set()
        self._due_uplinks: set[str] = set()
        self._due_partners: set[str] = set()
        self._of_job: dict[str, Violation] = {}
        self._of_partner: dict[str, Violation] = {}
        self._of_node: dict[int, list[Violation]] = {}
        self._of_uplink: dict[str, Violation] = {}

    def check(self, assignments: Iterable[Assignment], before: StateFacts) -> tuple[Violation, ...]:
        """Return every broken rule: of jobs in the order given, of nodes, of uplinks.

        Only a stay that was checked before is left alone: the same job with the same assignment,
        which it also holds before this decision. All others are dropped and put anew, and so is
        every job on a failed node, whose rule belongs to `check_job`.
        """
        assignments = tuple(assignments)
        granted = {assignment.job: assignment for assignment in assignments}
        twice: list[str] = []
        if len(granted) < len(assignments):
            granted = {}
            for assignment in assignments:
                if assignment.job in granted:
                    twice.append(assignment.job)
                granted.setdefault(assignment.job, assignment)
        self._of_job.clear()
        for node in before.failed:
            for name in tuple(self._on_node.get(node, ())):
                self._drop(name)
        active, held, placed = before.active, before.held, self._placed
        fresh: list[Assignment] = []
        for name, assignment in granted.items():
            mine, was = placed.get(name), held.get(name)
            # Most are the same objects as in the round before, which is the quickest to see.
            if mine is None or not (
                (mine.assignment is assignment is was and mine.job is active.get(name))
                or (was == assignment and mine.is_still(assignment, active.get(name)))
            ):
                fresh.append(assignment)
        if len(placed) + sum(a.job not in placed for a in fresh) > len(granted):
            for name in placed.keys() - granted.keys():
                self._drop(name)
        self._replace(fresh, before)
        doubled = (Violation("one_config", (name,), None, "is assigned twice") for name in twice)
        return (*doubled, *self._broken(granted))

    def add(self, assignments: Collection[Assignment], before: StateFacts) -> tuple[Violation, ...]:
        """Add assignments, or none of them if that breaks a rule, and return every broken rule.

        What is placed already breaks none. An assignment takes the place of the same job's.
        """
        self._of_job.clear()
        earlier = [self._placed[a.job].assignment for a in assignments if a.job in self._placed]
        self._replace(assignments, before)
        found = self._broken(self._placed)
        if found:
            for assignment in assignments:
                self._drop(assignment.job)
            self._replace(earlier, before)
            self._broken(self._placed)
        return found

    def _replace(self, assignments: Collection[Assignment], before: StateFacts) -> None:
        """Replace the holdings of these jobs."""
        for assignment in assignments:
            self._drop(assignment.job)
        for assignment in assignments:
            self._put(assignment, before)

    def _drop(self, name: str) -> None:
        """Remove the holding of a job."""
        self._of_job.pop(name, None)
        mine = self._placed.pop(name, None)
        if mine is None:
            return
        for node, _ in mine.assignment.placement.parts:
            del self._on_node[node][name]
            # Whoever leaves makes room: what was in order stays so.
            if node in self._of_node:
                self._due_nodes.add(node)
            leaf = self._leaf[node]
            if self._on_uplink.get(leaf, {}).pop(name, None) and leaf in self._of_uplink:
                self._due_uplinks.add(leaf)
        if mine.assignment.partner is not None:
            self._named_by[mine.assignment.partner].discard(name)
            self._of_partner.pop(name, None)
            self._due_partners.discard(name)
        self._regroup(name)

    def _put(self, assignment: Assignment, before: StateFacts) -> None:
        """Add an assignment, unless it breaks a rule on its own."""
        name, placement, nodes = assignment.job, assignment.placement, self.cluster.nodes
        broken = check_job(assignment, self.cluster, before)
        if broken is not None:
            self._of_job[name] = broken
            return
        job = before.active[name]
        facts = self._lookup.facts(job.model, assignment)
        stays = self._unknown_may_stay and before.held.get(name) == assignment
        if facts is None and not stays:
            span = self._topology.span(placement.nodes)
            where = "" if span is Span.NODE else f" in a {span.name.lower()}"
            detail = f"{job.model} cannot run {assignment.plan} on {placement.shape} GPUs{where}"
            self._of_job[name] = Violation("runnable", (name,), None, detail)
            return
        known = {} if facts is None else facts.sides
        kinds = {nodes[node].type.name for node in placement.nodes}
        # Where speeds say nothing, the job holds what it asks for.
        sides = {kind: known.get(kind, NOTHING).beside(job.side) for kind in kinds}
        self._placed[name] = _Placed(assignment, job, sides)
        crosses = bool(self._uplinks) and self._topology.span(placement.nodes) is Span.POD
        for node, gpus in placement.parts:
            self._on_node.setdefault(node, {})[name] = gpus
            self._due_nodes.add(node)
            leaf = self._leaf[node]
            if crosses and leaf in self._uplinks:
                carried = self._on_uplink.setdefault(leaf, {})
                share = held_by_part(sides[nodes[node].type.name], len(gpus))[UPLINK]
                carried[name] = carried.get(name, 0.0) + share
                self._due_uplinks.add(leaf)
        if assignment.partner is not None:
            self._named_by.setdefault(assignment.partner, set()).add(name)
            self._due_partners.add(name)
        self._regroup(name)

    def _regroup(self, name: str) -> None:
        """Mark the jobs that name this job as their partner for a new check (invariant 5).

        Their nodes are marked too: two jobs may hold the same GPUs only as partners of each other.
        """
        if name in self._named_by:
            self._due_partners |= self._named_by[name]
            for other in self._named_by[name]:
                self._due_nodes.update(self._placed[other].assignment.placement.nodes)

    def _broken(self, order: Mapping[str, object]) -> tuple[Violation, ...]:
        """Check everything that has changed and return all broken rules."""
        names = _Order(order)
        for name in self._due_partners:
            _keep(self._of_partner, name, self._partner_broken(name))
        for node in self._due_nodes:
            _keep(self._of_node, node, self._node_broken(node, names))
        for leaf in self._due_uplinks:
            _keep(self._of_uplink, leaf, self._uplink_broken(leaf, names))
        for due in (self._due_partners, self._due_nodes, self._due_uplinks):
            due.clear()
        if not (self._of_job or self._of_partner or self._of_node or self._of_uplink):
            return ()
        found = [self._of_job[name] for name in names.sorted(self._of_job)]
        found += [self._of_partner[name] for name in names.sorted(self._of_partner)]
        found += [each for node in sorted(self._of_node) for each in self._of_node[node]]
        return (*found, *(self._of_uplink[leaf] for leaf in sorted(self._of_uplink)))

    def _partner_broken(self, name: str) -> Violation | None:
        """Check rule ``partners`` of a job that names one."""
        mine = self._placed[name]
        held, partner = mine.assignment, str(mine.assignment.partner)
        other = self._placed.get(partner)
        if other is None or other.assignment.partner != name or partner == name:
            detail = f"names {partner} as its partner, which does not name it"
        elif other.assignment.placement != held.placement:
            detail = f"does not hold the same GPUs as its partner {partner}"
        else:
            models = mine.job.model, other.job.model
            if self._lookup.paired_iteration_s(models, held, other.assignment) is not None:
                return None
            detail = f"{models[0]} cannot share GPUs with {models[1]}"
        return Violation("partners", (name,), None, detail)

    def _node_broken(self, node: int, names: _Order) -> list[Violation]:
        """Check the rules on what a node's jobs hold together."""
        where, on_node = self.cluster.nodes[node], self._on_node[node]
        held = [gpu for gpus in on_node.values() for gpu in gpus]
        gpus, sides = len(held), [0.0] * len(SIDES)
        for name, own in on_node.items():
            demand = self._placed[name].sides[where.type.name]
            sides = list(map(add, sides, held_by_part(demand, len(own))))
        found: list[Violation] = []
        if len(set(held)) < len(held):
            clashes, paired = self._clashes(on_node, names)
            gpus -= paired
            found = [Violation("one_holder", (name,), where.name, how) for name, how in clashes]
        there = where.type
        limits = (there.gpus, *sides_of(there))
        for resource, used, limit in zip(RESOURCES, (gpus, *sides), limits, strict=True):
            if used > limit * (1.0 + FEASIBILITY):
                jobs, detail = names.sorted(on_node), f"{used:g} of {limit:g} {resource.unit}"
                found.append(Violation(resource.rule, jobs, where.name, detail))
        return found

    def _clashes(
        self, on_node: Mapping[str, tuple[int, ...]], names: _Order
    ) -> tuple[list[tuple[str, str]], int]:
        """Return jobs that hold GPUs of others, with the reason, and GPUs shared by pairs."""
        holders: dict[int, list[str]] = {}
        for name in names.sorted(on_node):
            for gpu in on_node[name]:
                holders.setdefault(gpu, []).append(name)
        paired, taken, earlier = 0, dict[str, list[int]](), dict[str, dict[str, None]]()
        for gpu, jobs in sorted(holders.items()):
            if len(jobs) == 2 and self._is_pair(*jobs):
                paired += 1
                continue
            for at, name in enumerate(jobs[1:], 1):
                taken.setdefault(name, []).append(gpu)
                earlier.setdefault(name, {}).update(dict.fromkeys(jobs[:at]))
        found = [
            (name, f"GPUs {taken[name]} are held by another job ({', '.join(earlier[name])})")
            for name in names.sorted(taken)
        ]
        return found, paired

    def _is_pair(self, one: str, two: str) -> bool:
        first, second = self._placed[one].assignment, self._placed[two].assignment
        named = first.partner == two and second.partner == one
        return named and first.placement == second.placement

    def _uplink_broken(self, leaf: str, names: _Order) -> Violation | None:
        """Check rule ``uplink`` of a leaf."""
        shares, limit = self._on_uplink[leaf], self._uplinks[leaf]
        used = sum(shares.values())
        if used <= limit * (1.0 + FEASIBILITY):
            return None
        detail = f"the uplink of leaf {leaf} would carry {used:g} of {limit:g} GB/s"
        return Violation("uplink", names.sorted(shares), None, detail)


class _Order:
    """Order of the jobs as given; computed only if something must be sorted."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._place: dict[str, int] = {}

    def sorted(self, some: Iterable[str]) -> tuple[str, ...]:
        """Return the names of some jobs in order."""
        if not self._place:
            self._place = {name: at for at, name in enumerate(self._names)}
        return tuple(sorted(some, key=lambda name: self._place.get(name, -1)))


def _keep(found: dict[_K, _V], key: _K, value: _V | None) -> None:
    """Store a value that is not empty under a key, else remove the key."""
    if value:
        found[key] = value
    else:
        found.pop(key, None)


class BeliefChecks:
    """Checks of empty placements by a belief, for the cluster of any round.

    Parameters
    ----------
    belief
        Speed model; its plans are judged by their memory, as candidates are.
    """

    def __init__(self, belief: SpeedModel) -> None:
        self._speeds, self._pairs = MemoryFilter(belief), pair_speeds(belief)
        self._lookup: RunLookup | None = None

    def on(self, cluster: Cluster, *, unknown_may_stay: bool = True) -> PlacementCheck:
        """Return a check on a cluster; the cache of speeds is shared."""
        if self._lookup is None or self._lookup.cluster is not cluster:
            self._lookup = RunLookup(self._speeds, cluster, self._pairs)
        return PlacementCheck(self._lookup, unknown_may_stay=unknown_may_stay)
