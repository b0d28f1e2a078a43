"""Flavors for a workload's pod sets, by whether they fit now, after preemption, or never."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from morph_opt.inputs.kueue.kube import holds, tolerates
from morph_opt.inputs.kueue.queues import Flavor, Fungibility, Group, Queue, Slot
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.kueue.workloads import Amounts, Domain, Placed, PodSet, Workload

PODS = "pods"
"""Resource that counts pods; every pod set requests it if a queue covers it."""


class Grade(IntEnum):
    """Grade of a flavor for a request; higher is better."""

    NO_FIT, NO_VICTIMS, PREEMPT, RECLAIM, FIT = range(5)

    @property
    def mode(self) -> Mode:
        """Mode of an assignment with it."""
        if self in (Grade.NO_FIT, Grade.FIT):
            return Mode.FIT if self is Grade.FIT else Mode.NO_FIT
        return Mode.PREEMPT


class Mode(IntEnum):
    """Way to admit an assignment: never, after its own preemption, after others', or now."""

    NO_FIT, PREEMPT, DEFERRED, FIT = range(4)


class Reason(IntEnum):
    """Reason why a workload has no quota; higher is graver."""

    NONE, PLACEMENT, WAITING, TOO_MUCH, NO_FLAVOR = range(5)

    @property
    def word(self) -> str:
        """Kueue's word for it."""
        words = ("", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota")
        return (*words, "NoMatchingFlavor")[self]


Oracle = Callable[[Snapshot, Workload, Slot, int], tuple[Grade, int]]
"""Whether an amount of a flavor and resource has victims, and the level of borrowing after."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Flavor of a resource, how it may be had, and the number of the last flavor tried."""

    flavor: str
    mode: Mode
    tried: int = -1


@dataclass(frozen=True, slots=True)
class Attempt:
    """Verdict on a flavor for a pod set: its grade, and why it does not fit or suit."""

    flavor: str
    grade: Grade
    why: Reason = Reason.NONE
    words: str = ""


@dataclass(frozen=True, slots=True)
class SetAssignment:
    """Flavors of a pod set.

    Parameters
    ----------
    name, count
        The pod set, and the pods that it would have.
    flavors
        By resource; none if some resource has no flavor.
    amounts
        Thousandths of each resource.
    attempts
        Flavors that were looked at.
    failed
        Whether some resource has no flavor.
    """

    name: str
    count: int
    flavors: Mapping[str, Chosen]
    amounts: Mapping[str, int]
    attempts: tuple[Attempt, ...] = ()
    failed: bool = False

    @property
    def mode(self) -> Mode:
        """Mode of the worst resource."""
        if self.failed:
            return Mode.NO_FIT
        return min((one.mode for one in self.flavors.values()), default=Mode.FIT)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Flavors of a workload.

    Parameters
    ----------
    pod_sets
        Its pod sets as far as flavors were sought.
    mode
        Way in which it may be admitted.
    borrowing
        Height of the lowest subtree of quotas that has what it uses; 0 without borrowing.
    usage
        Thousandths by flavor and resource.
    reason
        Why it cannot be admitted, where it cannot.
    places
        Domains of pod sets in topologies, by name.
    levels
        Levels that the domains have values of, by name.
    """

    pod_sets: tuple[SetAssignment, ...]
    mode: Mode
    borrowing: int
    usage: Amounts
    reason: Reason = Reason.NONE
    places: Mapping[str, tuple[Domain, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def needing(self) -> frozenset[Slot]:
        """Flavors and resources that need preemption."""
        return frozenset(
            (one.flavor, resource)
            for pods in self.pod_sets
            for resource, one in pods.flavors.items()
            if one.mode is Mode.PREEMPT
        )

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The pod sets as they would be admitted."""
        return tuple(
            Placed(
                pods.name,
                pods.count,
                {r: one.flavor for r, one in pods.flavors.items()},
                {r: pods.amounts.get(r, 0) for r in pods.flavors},
                self.places.get(pods.name),
                self.levels.get(pods.name, ()),
            )
            for pods in self.pod_sets
        )

    @property
    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Number of the last flavor tried by pod set and resource; -1 to begin anew."""
        return tuple({r: one.tried for r, one in pods.flavors.items()} for pods in self.pod_sets)


@dataclass(frozen=True, slots=True)
class Search:
    """Conditions of the search for a workload's flavors.

    Parameters
    ----------
    oracle
        Answers whether victims can be found.
    tried
        Flavors tried last time, by pod set and resource (see `Assignment.tried`).
    only
        Flavors that may be given, by name of the pod set and resource; None for all.
    """

    oracle: Oracle
    tried: Sequence[Mapping[str, int]] = ()
    only: Mapping[str, Mapping[str, str]] | None = None


@dataclass(slots=True)
class _Found:
    """Flavors found so far for a group of pod sets."""

    flavors: dict[str, Chosen] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    borrowing: dict[str, int] = field(default_factory=dict)


def assign(
    snapshot: Snapshot,
    workload: Workload,
    search: Search,
    counts: Sequence[int] | None = None,
) -> Assignment:
    """Return the best flavors for a workload.

    Pod sets are taken in order, those of one group together, resources group by group, and
    flavors as they are listed.

    Parameters
    ----------
    snapshot
        What is held.
    workload, search
        See the classes.
    counts
        Pods of each set; None for those that it asks for.
    """
    queue = snapshot.site.queues.queues[workload.queue]
    asked = counts if counts is not None else [one.count for one in workload.pod_sets]
    amounts = [one.amounts(n) for one, n in zip(workload.pod_sets, asked, strict=True)]
    if queue.group_of(PODS) is not None:
        amounts = [{**one, PODS: 1000 * n} for one, n in zip(amounts, asked, strict=True)]
    groups: dict[str, list[int]] = {}
    for at, pods in enumerate(workload.pod_sets):
        name = pods.topology.group if pods.topology is not None else ""
        groups.setdefault(name or f"/{at}", []).append(at)
    made: dict[int, SetAssignment] = {}
    usage: dict[Slot, int] = {}
    borrowing = 0
    for members in groups.values():
        needs: dict[str, int] = {}
        for at in members:
            for resource, amount in amounts[at].items():
                needs[resource] = needs.get(resource, 0) + amount
        found = _of_group(snapshot, workload, queue, search, members, needs, usage)
        for at in members:
            made[at] = _of_set(workload.pod_sets[at], asked[at], amounts[at], found)
            for resource, one in made[at].flavors.items():
                slot = one.flavor, resource
                usage[slot] = usage.get(slot, 0) + amounts[at].get(resource, 0)
                borrowing = max(borrowing, found.borrowing.get(resource, 0))
        if any(made[at].failed for at in members):
            break
    sets = tuple(made.values())
    mode = min((one.mode for one in sets), default=Mode.NO_FIT)
    reason = reason_of(queue, sets) if mode is Mode.NO_FIT else Reason.NONE
    return Assignment(sets, mode, borrowing, usage, reason)


def _of_set(pods: PodSet, count: int, amounts: Mapping[str, int], found: _Found) -> SetAssignment:
    """Return the flavors of a group for the resources that a pod set requests."""
    if amounts:
        mine = {r: one for r, one in found.flavors.items() if r in amounts}
    elif pods.topology is not None and pods.topology.group:
        mine = dict(found.flavors)  # a leader without requests is placed with its group
    else:
        mine = {}
    attempts = tuple(sorted(found.attempts.values(), key=lambda one: one.flavor))
    return SetAssignment(pods.name, count, mine, amounts, attempts, bool(amounts) and not mine)


def _of_group(
    snapshot: Snapshot,
    workload: Workload,
    queue: Queue,
    search: Search,
    members: Sequence[int],
    needs: Mapping[str, int],
    before: Amounts,
) -> _Found:
    """Search flavors for pod sets that must get the same ones."""
    found = _Found()
    declared_only = snapshot.site.settings.declared_only
    for resource, amount in needs.items():
        group = queue.group_of(resource)
        if group is None and (not amount or declared_only):
            continue
        if resource in found.flavors:
            continue
        best: dict[str, Chosen] = {}
        if group is not None:
            covered = {one: needs[one] for one in group.resources if one in needs}
            seeking = _Seeking(snapshot, workload, queue, search, members, group, covered, before)
            best, borrowing, attempts = seeking.best(resource)
            _merge(found.attempts, attempts, group)
            found.borrowing |= borrowing
        if not best and needs:
            found.flavors = {}
            return found
        found.flavors |= best
    return found


def _merge(known: dict[str, Attempt], new: Sequence[Attempt], group: Group) -> None:
    """Add the verdicts of one group of resources to the others'."""
    for one in new:
        old = known.get(one.flavor)
        if old is None:
            known[one.flavor] = one
        else:
            known[one.flavor] = Attempt(
                one.flavor, min(old.grade, one.grade), max(old.why, one.why), old.words or one.words
            )
    names = {one.flavor for one in new}
    for flavor in group.flavors if new else ():
        if flavor in known and flavor not in names:
            known[flavor] = Attempt(flavor, Grade.NO_FIT, Reason.NO_FLAVOR)


@dataclass(frozen=True, slots=True)
class _Seeking:
    """Search for one flavor of a group of resources.

    Parameters
    ----------
    snapshot, workload, queue, search
        See the classes.
    members
        Numbers of the pod sets.
    group, needs
        The resources that get one flavor together, and the thousandths of each.
    before
        Amounts that earlier pod sets use.
    """

    snapshot: Snapshot
    workload: Workload
    queue: Queue
    search: Search
    members: Sequence[int]
    group: Group
    needs: Mapping[str, int]
    before: Amounts

    def best(self, resource: str) -> tuple[dict[str, Chosen], dict[str, int], list[Attempt]]:
        """Return the best flavor by resource, the borrowing of each, and all verdicts."""
        flavors, fungibility = self.group.flavors, self.queue.fungibility
        known, first = self.search.tried, self.members[0]
        tried = known[first] if first < len(known) else {}
        best: tuple[Grade, int] = Grade.NO_FIT, 0
        chosen: dict[str, Grade] = {}
        levels: dict[str, int] = {}
        attempts: list[Attempt] = []
        last, name = -1, ""
        for at in range(tried.get(resource, -1) + 1, len(flavors)):
            last, flavor = at, flavors[at]
            if not self._allowed(flavor, resource):
                continue
            if words := self._unsuited(flavor):
                attempts.append(Attempt(flavor, Grade.NO_FIT, Reason.NO_FLAVOR, words))
                continue
            worst, grades, borrowing, why = self._judge(flavor)
            attempts.append(Attempt(flavor, worst[0], why))
            if not tries_next(worst, fungibility):
                chosen, levels, best, name = grades, borrowing, worst, flavor
                break
            if is_better(worst, best, fungibility):
                chosen, levels, best, name = grades, borrowing, worst, flavor
        number = -1 if last == len(flavors) - 1 else last
        given = {r: Chosen(name, grade.mode, number) for r, grade in chosen.items()}
        return given, levels, attempts

    def _allowed(self, flavor: str, resource: str) -> bool:
        """Return whether fixed flavors, if any, permit a flavor."""
        if self.search.only is None:
            return True
        sets = self.workload.pod_sets
        only = self.search.only
        return any(only.get(sets[at].name, {}).get(resource) == flavor for at in self.members)

    def _unsuited(self, name: str) -> str:
        """Return why a flavor does not suit the pods; "" if it does."""
        flavor = self.snapshot.site.queues.flavors.get(name)
        if flavor is None:
            return f"there is no flavor {name}"
        for at in self.members:
            pods = self.workload.pod_sets[at]
            if words := self.snapshot.suits(self.queue, pods, flavor, self.group):
                return words
            if words := unsuited(pods, flavor):
                return words
        return ""

    def _judge(
        self, flavor: str
    ) -> tuple[tuple[Grade, int], dict[str, Grade], dict[str, int], Reason]:
        """Return the worst grade and level of a flavor, each resource's own, and the reasons."""
        worst: tuple[Grade, int] = Grade.FIT, 0
        grades: dict[str, Grade] = {}
        levels: dict[str, int] = {}
        reason = Reason.NONE
        for resource, amount in self.needs.items():
            slot = flavor, resource
            grade, level, why = grade_of(
                self.snapshot, self.workload, slot, self.before.get(slot, 0) + amount, self.search
            )
            reason = max(reason, why)
            if is_better(worst, (grade, level), self.queue.fungibility):
                worst = grade, level
            if worst[0] is Grade.NO_FIT:
                return worst, {}, {}, reason
            grades[resource], levels[resource] = grade, level
        return worst, grades, levels, reason


def grade_of(
    snapshot: Snapshot, workload: Workload, slot: Slot, amount: int, search: Search
) -> tuple[Grade, int, Reason]:
    """Return the grade of a flavor for a resource, the level of borrowing, and why it waits.

    Parameters
    ----------
    snapshot
        What is held.
    workload
        Workload that requests the flavor.
    slot, amount
        Flavor and resource, and the thousandths that it asks for with its other pod sets.
    search
        Conditions of the search, with the function that finds victims.
    """
    queue = snapshot.site.queues.queues[workload.queue]
    node = snapshot.node(slot, queue.name)
    if amount > node.could:
        return Grade.NO_FIT, 0, Reason.TOO_MUCH
    level, below_root = node.lowest_holding(amount)
    if amount <= max(0, node.free):
        return Grade.FIT, level, Reason.NONE
    policy = queue.preemption
    while_borrowing = policy.borrow not in ("", "Never") or (
        snapshot.site.settings.fair_sharing and policy.reclaim != "Never"
    )
    if node.limits.nominal >= amount or below_root or while_borrowing:
        grade, after = search.oracle(snapshot, workload, slot, amount)
        return grade, after, Reason.NONE
    return Grade.NO_FIT, level, Reason.WAITING


def is_better(one: tuple[Grade, int], other: tuple[Grade, int], rule: Fungibility) -> bool:
    """Return whether a grade and level of borrowing are better than others."""
    if one[0] is Grade.NO_FIT or other[0] is Grade.NO_FIT:
        return one[0] is not Grade.NO_FIT
    without = one[0] is Grade.NO_VICTIMS, other[0] is Grade.NO_VICTIMS
    if without[0] is not without[1]:
        return without[1]
    if rule.preference == "PreemptionOverBorrowing":
        return (-one[1], one[0]) > (-other[1], other[0])
    return (one[0], -one[1]) > (other[0], -other[1])


def tries_next(grade: tuple[Grade, int], rule: Fungibility) -> bool:
    """Return whether the next flavor is tried after one with this grade and level of borrowing."""
    if grade[0] in (Grade.NO_FIT, Grade.NO_VICTIMS):
        return True
    if grade[0] in (Grade.PREEMPT, Grade.RECLAIM) and rule.when_can_preempt == "TryNextFlavor":
        return True
    return grade[1] > 0 and rule.when_can_borrow == "TryNextFlavor"


def unsuited(pods: PodSet, flavor: Flavor) -> str:
    """Return why a flavor's taints or labels do not suit pods; "" if they do.

    Selectors and affinity count on the flavor's own label keys alone.
    """
    for taint in flavor.taints:
        if not tolerates((*pods.tolerations, *flavor.tolerations), taint):
            return f"taint {taint[0]}={taint[1]} of flavor {flavor.name} is not tolerated"
    labels = flavor.labels
    for key, value in pods.selector.items():
        if key in labels and labels[key] != value:
            return f"flavor {flavor.name} has {key}={labels[key]}, not {value}"
    terms = [[one for one in term if one[0] in labels] for term in pods.terms or ()]
    if terms and all(terms) and not any(all(holds(e, labels) for e in term) for term in terms):
        return f"flavor {flavor.name} does not match the required affinity"
    return ""


def reason_of(queue: Queue, sets: Collection[SetAssignment]) -> Reason:
    """Return the gravest reason over pod sets and groups, of each group by its best flavor."""
    gravest = Reason.NONE
    for pods in sets:
        if pods.mode is not Mode.NO_FIT:
            continue
        if not pods.attempts:
            return Reason.NO_FLAVOR
        least: dict[int, Reason] = {}
        for number, one in enumerate(pods.attempts):
            if one.grade is not Grade.NO_FIT:
                continue
            groups = [i for i, group in enumerate(queue.groups) if one.flavor in group.flavors]
            for at in groups or [-1 - number]:
                least[at] = min(least.get(at, one.why), one.why)
        gravest = max(gravest, *least.values(), Reason.NONE)
    return gravest
