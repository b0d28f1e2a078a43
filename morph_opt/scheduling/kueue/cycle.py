"""One admission cycle: heads of queues get flavors and victims, and some are admitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from morph_opt.inputs.kueue.queues import Slot
from morph_opt.scheduling.kueue.fair import fair
from morph_opt.scheduling.kueue.flavors import (
    Assignment,
    Grade,
    Mode,
    Reason,
    Search,
    assign,
)
from morph_opt.scheduling.kueue.order import in_entry_order, in_fair_order
from morph_opt.scheduling.kueue.places import (
    fits_places,
    has_places,
    reserved_places,
    with_places,
)
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.kueue.victims import Preemptor, Victim, classical
from morph_opt.scheduling.kueue.workloads import Amounts, Held, Workload


class Outcome(Enum):
    """Outcome of a head in a cycle."""

    ADMITTED = "admitted"
    PREEMPTING = "waits for its victims"
    NO_FIT = "does not fit"
    NO_VICTIMS = "needs victims and finds none"
    SKIPPED = "lost what it needs to another in the cycle"
    BARRED = "may not use its queue"
    NAMESPACE = "is of a namespace that its queue does not select"


@dataclass(frozen=True, slots=True)
class Head:
    """Head of a queue in a cycle.

    Parameters
    ----------
    workload
        The workload.
    tried
        Flavors tried last time (see `Assignment.tried`).
    preemptor
        Whether it waits for its victims.
    """

    workload: Workload
    tried: Sequence[Mapping[str, int]] = ()
    preemptor: bool = False


@dataclass(slots=True)
class Nominee:
    """Head with its assignment; see `morph_opt.scheduling.kueue.order.Entry`.

    Parameters
    ----------
    head
        The head.
    assignment, victims
        Assignment that it would get, and workloads that would have to end.
    outcome
        Outcome of the head; None until its turn.
    reason
        Kueue's word for why it waits; "" for one that is admitted.
    taken
        Amounts that are kept for it during the cycle.
    """

    head: Head
    assignment: Assignment
    victims: list[Victim] = field(default_factory=list)
    outcome: Outcome | None = None
    reason: str = ""
    taken: Amounts = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The workload."""
        return self.head.workload

    @property
    def borrowing(self) -> int:
        """Level of borrowing of the assignment."""
        return self.assignment.borrowing

    @property
    def usage(self) -> Amounts:
        """Amounts that the assignment uses."""
        return self.assignment.usage

    @property
    def preemptor(self) -> bool:
        """Whether it waits for its victims."""
        return self.head.preemptor

    @property
    def keeps_tried(self) -> bool:
        """Whether the next try begins at the flavor after those tried now."""
        return self.outcome in (Outcome.NO_FIT, Outcome.NO_VICTIMS, Outcome.SKIPPED)


_NOTHING = Assignment((), Mode.NO_FIT, 0, {})


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a cycle.

    Parameters
    ----------
    admitted
        Workloads that got quota, with their flavors.
    victims
        Workloads to preempt, each with the workload that needs it.
    nominees
        Every head, in the order in which it had its turn.
    """

    admitted: tuple[Held, ...]
    victims: tuple[tuple[Victim, Workload], ...]
    nominees: tuple[Nominee, ...]

    @property
    def changed(self) -> bool:
        """Whether anybody was admitted or is to end."""
        return bool(self.admitted or self.victims)


class Victims:
    """Victims of a workload, as long as what is held stays the same."""

    def __init__(self) -> None:
        self._found: dict[tuple[frozenset[tuple[Slot, int]], frozenset[Slot]], list[Victim]] = {}

    def of(self, snapshot: Snapshot, preemptor: Preemptor) -> list[Victim]:
        """Return the victims of a workload; see `victims_of`."""
        key = frozenset(preemptor.usage.items()), preemptor.needing
        if key not in self._found:
            self._found[key] = victims_of(snapshot, preemptor)
        return list(self._found[key])

    def __call__(
        self, snapshot: Snapshot, workload: Workload, slot: Slot, amount: int
    ) -> tuple[Grade, int]:
        """Return whether an amount of a flavor has victims, and the level of borrowing after."""
        preemptor = Preemptor(workload, {slot: amount}, frozenset((slot,)))
        victims = self.of(snapshot, preemptor)
        return _after(snapshot, workload, slot, amount, victims)


def _after(
    snapshot: Snapshot, workload: Workload, slot: Slot, amount: int, victims: list[Victim]
) -> tuple[Grade, int]:
    node = snapshot.node(slot, workload.queue)
    if not victims:
        return Grade.NO_VICTIMS, node.lowest_holding(amount)[0]
    with snapshot.without([one.held for one in victims]):
        level, _ = node.lowest_holding(amount)
    own = any(one.held.workload.queue == workload.queue for one in victims)
    return (Grade.PREEMPT if own else Grade.RECLAIM), level


def victims_of(snapshot: Snapshot, preemptor: Preemptor) -> list[Victim]:
    """Return the victims of a workload by the rules of the site; [] if there are none."""
    if snapshot.site.settings.fair_sharing:
        return fair(snapshot, preemptor)
    return classical(snapshot, preemptor)


def cycle(snapshot: Snapshot, heads: Iterable[Head], now_s: float) -> Result:
    """Run one admission cycle.

    Parameters
    ----------
    snapshot
        Usage of quotas; admitted workloads are added to it, victims stay in it until they end.
    heads
        One workload of each queue.
    now_s
        The instant, from which admitted workloads hold quota.
    """
    nominees: list[Nominee] = []
    barred: list[Nominee] = []
    for head in heads:
        one = nominate(snapshot, head)
        (nominees if one.outcome is None else barred).append(one)
    settings = snapshot.site.settings
    ordered: Iterator[Nominee] | list[Nominee]
    if settings.fair_sharing:
        ordered = in_fair_order(snapshot, nominees)
    else:
        ordered = in_entry_order(settings, nominees)
    gone: dict[str, Held] = {}
    reserved: list[Nominee] = []
    seen: list[Nominee] = []
    for one in ordered:
        _process(snapshot, one, gone, reserved)
        seen.append(one)
    for one in reserved:
        snapshot.use(one.workload.queue, one.taken, -1)
        snapshot.occupy(one.workload, one.assignment.placed, -1)
    admitted = [held_of(one, now_s) for one in seen if one.outcome is Outcome.ADMITTED]
    for held in admitted:
        snapshot.add(held)
    victims = [
        (victim, one.workload)
        for one in seen
        if one.outcome is Outcome.PREEMPTING
        for victim in one.victims
    ]
    return Result(tuple(admitted), tuple(victims), (*seen, *barred))


def nominate(snapshot: Snapshot, head: Head) -> Nominee:
    """Return the assignment that a head would get, and its victims."""
    site, workload = snapshot.site, head.workload
    queue = site.queues.queues.get(workload.queue)
    if queue is None:
        return Nominee(head, _NOTHING, outcome=Outcome.BARRED, reason="Misconfigured")
    if queue.name in site.inactive:
        return Nominee(head, _NOTHING, outcome=Outcome.BARRED, reason="Suspended")
    if not site.selects(queue, workload.namespace):
        return Nominee(head, _NOTHING, outcome=Outcome.NAMESPACE, reason="Misconfigured")
    assignment, victims = best(snapshot, workload, head.tried)
    return Nominee(head, assignment, victims)


def best(
    snapshot: Snapshot,
    workload: Workload,
    tried: Sequence[Mapping[str, int]] = (),
    only: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[Assignment, list[Victim]]:
    """Return the best assignment of a workload with its victims.

    Where not all of its pods fit, it is the largest number between those asked for and the least.

    Parameters
    ----------
    snapshot, workload
        What is held, and who asks.
    tried, only
        See `Search`.
    """
    known = Victims()
    search = Search(known, tried, only)
    whole = with_places(snapshot, workload, assign(snapshot, workload, search))
    victims = _victims(snapshot, workload, whole, known)
    if whole.mode is Mode.FIT or victims or not snapshot.site.settings.partial:
        return reserved_places(snapshot, workload, whole, victims), victims
    sets = workload.pod_sets
    spare = [one.count - (one.count if one.min_count is None else one.min_count) for one in sets]
    steps, found = sum(spare), None
    if not steps:
        return reserved_places(snapshot, workload, whole, []), []
    low, high = 0, steps + 1
    while low < high:  # the fewest steps down at which it fits, as far as fitting is monotone
        middle = (low + high) // 2
        counts = [one.count - less * middle // steps for one, less in zip(sets, spare, strict=True)]
        less_of_it = assign(snapshot, workload, search, counts)
        less_of_it = with_places(snapshot, workload, less_of_it)
        victims = _victims(snapshot, workload, less_of_it, known)
        if less_of_it.mode is Mode.FIT or victims:
            high, found = middle, (middle, less_of_it, victims)
        else:
            low = middle + 1
    if found is not None and found[0] == low:
        return reserved_places(snapshot, workload, found[1], found[2]), found[2]
    return reserved_places(snapshot, workload, whole, []), []


def _victims(
    snapshot: Snapshot, workload: Workload, assignment: Assignment, known: Victims
) -> list[Victim]:
    if assignment.mode is not Mode.PREEMPT:
        return []
    preemptor = Preemptor(workload, assignment.usage, assignment.needing)
    if not snapshot.topologies:
        return known.of(snapshot, preemptor)
    has_places = partial(fits_places, snapshot, workload, assignment)
    return victims_of(snapshot, replace(preemptor, placed=has_places))


def _process(
    snapshot: Snapshot,
    one: Nominee,
    gone: dict[str, Held],
    reserved: list[Nominee],
) -> None:
    """Admit a nominee, preempt for it, or leave it for the next cycle.

    Parameters
    ----------
    snapshot
        Usage of quotas, including earlier nominees.
    one
        The nominee.
    gone
        Victims of nominees before it, by name.
    reserved
        Nominees that took something, to be given back after the cycle.
    """
    queue = one.workload.queue
    overlap = any(victim.held.workload.name in gone for victim in one.victims)
    deferred = False
    only = {
        pods.name: {r: chosen.flavor for r, chosen in pods.flavors.items()}
        for pods in one.assignment.pod_sets
    }
    if overlap and snapshot.site.settings.assign_anew:
        with snapshot.without(list(gone.values())):
            one.assignment, one.victims = best(snapshot, one.workload, only=only)
        deferred = one.assignment.mode is Mode.FIT
    elif (
        not overlap
        and snapshot.site.settings.replace_within_cycle
        and _lost_places(snapshot, one, gone)
    ):
        one.assignment, one.victims = best(snapshot, one.workload, only=only)
    mode = Mode.DEFERRED if deferred else one.assignment.mode
    if mode is Mode.NO_FIT:
        one.outcome, one.reason = Outcome.NO_FIT, one.assignment.reason.word
        return
    if mode is Mode.PREEMPT and not one.victims:
        one.outcome, one.reason = Outcome.NO_VICTIMS, Reason.WAITING.word
        policy = snapshot.site.queues.queues[queue].preemption
        first = snapshot.site.settings.preemptors_first and one.preemptor
        if policy.reclaim != "Any" or first:
            _take(snapshot, one, _reserve(snapshot, one), reserved)
        return
    if deferred:
        one.outcome, one.reason = Outcome.PREEMPTING, "WaitingForPreemptedWorkloads"
        _take(snapshot, one, one.usage, reserved)
        return
    again = any(victim.held.workload.name in gone for victim in one.victims)
    mine = {victim.held.workload.name: victim.held for victim in one.victims}
    with snapshot.without(list((gone | mine).values())):
        fits = snapshot.fits(queue, one.usage) and has_places(
            snapshot, one.workload, one.assignment
        )
    if again or not fits:
        one.outcome, one.reason = Outcome.SKIPPED, Reason.WAITING.word
        return
    gone |= mine
    _take(snapshot, one, one.usage, reserved)
    if mode is Mode.PREEMPT:
        one.outcome, one.reason = Outcome.PREEMPTING, "WaitingForPreemptedWorkloads"
    else:
        one.outcome = Outcome.ADMITTED


def _lost_places(snapshot: Snapshot, one: Nominee, gone: Mapping[str, Held]) -> bool:
    """Return whether a nominee has quota, and others took its places in the cycle."""
    mine = {victim.held.workload.name: victim.held for victim in one.victims}
    with snapshot.without(list({**gone, **mine}.values())):
        quota = snapshot.fits(one.workload.queue, one.usage)
        return quota and not has_places(snapshot, one.workload, one.assignment)


def _take(snapshot: Snapshot, one: Nominee, amounts: Amounts, reserved: list[Nominee]) -> None:
    one.taken = amounts
    snapshot.use(one.workload.queue, amounts)
    snapshot.occupy(one.workload, one.assignment.placed)
    reserved.append(one)


def _reserve(snapshot: Snapshot, one: Nominee) -> dict[Slot, int]:
    """Return the amounts reserved for a workload that needs victims and finds none."""
    found: dict[Slot, int] = {}
    for slot, amount in one.usage.items():
        node = snapshot.node(slot, one.workload.queue)
        limit, borrow = node.limits.nominal, node.limits.borrow
        if one.borrowing == 0:
            found[slot] = max(0, min(amount, int(limit - node.usage)))
        elif borrow is None:
            found[slot] = amount
        else:
            found[slot] = min(amount, int(limit + borrow - node.usage))
    return found


def held_of(one: Nominee, now_s: float) -> Held:
    """Return the admission of a nominee at an instant."""
    return Held(one.workload, one.assignment.placed, now_s)
