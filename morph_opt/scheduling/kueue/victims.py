"""Victims of preemption without fair sharing, by Kueue's classical rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from morph_opt.inputs.kueue.queues import Slot
from morph_opt.scheduling.kueue.order import in_candidate_order
from morph_opt.scheduling.kueue.site import Settings, Snapshot
from morph_opt.scheduling.kueue.workloads import Amounts, Held, Workload

IN_QUEUE = "InClusterQueue"
RECLAMATION = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FAIR_SHARING = "InCohortFairSharing"

Kind = Literal["own", "hierarchy", "without", "while"]


@dataclass(frozen=True, slots=True)
class Victim:
    """Workload to preempt, with Kueue's reason."""

    held: Held
    reason: str


@dataclass(frozen=True, slots=True)
class Preemptor:
    """Workload that needs victims.

    Parameters
    ----------
    workload
        The workload.
    usage
        Amounts that it would use.
    needing
        Flavors and resources that it does not fit in.
    placed
        Whether its pods have places next to the placed ones, whatever the quotas.
    """

    workload: Workload
    usage: Amounts
    needing: frozenset[Slot]
    placed: Callable[[], bool] = field(default=lambda: True)

    @property
    def queue(self) -> str:
        """Its cluster queue."""
        return self.workload.queue

    def fits(self, snapshot: Snapshot, *, borrowing: bool) -> bool:
        """Return whether it fits, with or without borrowing."""
        for slot, amount in self.usage.items():
            if not borrowing and snapshot.borrows(self.queue, slot, amount):
                return False
            if amount > snapshot.free(self.queue, slot):
                return False
        return self.placed()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Workload that may be preempted.

    Parameters
    ----------
    held, kind
        The workload, and which rule allows it.
    common
        Lowest cohort that it has in common with the preemptor; "" in its own queue.
    """

    held: Held
    kind: Kind
    common: str = ""

    @property
    def reason(self) -> str:
        if self.kind == "own":
            return IN_QUEUE
        return WHILE_BORROWING if self.kind == "while" else RECLAMATION


def allows(settings: Settings, policy: str, preemptor: Workload, candidate: Workload) -> bool:
    """Return whether a policy of preemption lets one workload preempt another."""
    if policy == "Any":
        return True
    if policy not in ("LowerPriority", "LowerOrNewerEqualPriority"):
        return False
    if preemptor.priority != candidate.priority or policy == "LowerPriority":
        return preemptor.priority > candidate.priority
    return settings.queued_s(preemptor) < settings.queued_s(candidate)


def uses(held: Held, slots: frozenset[Slot]) -> bool:
    """Return whether a workload uses one of these flavors and resources."""
    return not slots.isdisjoint(held.usage)


def classical(snapshot: Snapshot, preemptor: Preemptor) -> list[Victim]:
    """Return victims by which a workload fits; [] if there are none.

    Candidates are taken in order until it fits, with borrowing or without as the policies allow,
    and then given back from the last but one where they are not needed.

    Parameters
    ----------
    snapshot
        Usage of quotas; unchanged at the end.
    preemptor
        The workload.
    """
    policy = snapshot.site.queues.queues[preemptor.queue].preemption
    own = list(_own(snapshot, preemptor))
    above, others = _of_cohort(snapshot, preemptor)
    if not may_free(snapshot, preemptor, (one.held for one in (*above, *others, *own))):
        return []
    candidates = _ordered(snapshot, preemptor.queue, (above, others, own))
    forbidden = policy.borrow in ("", "Never")
    under = all(
        (node := snapshot.node(slot, preemptor.queue)).limits.nominal > node.usage
        for slot in preemptor.needing
    )
    if (not above and not others) or (forbidden and not under):
        tries: tuple[bool, ...] = (True,)
    elif forbidden and not above:
        tries = (False, True)
    else:
        tries = (True, False)
    for borrowing in tries:
        victims: list[Victim] = []
        for one in candidates:
            if not _valid(snapshot, preemptor, one, borrowing=borrowing):
                continue
            snapshot.remove(one.held)
            victims.append(Victim(one.held, one.reason))
            if preemptor.fits(snapshot, borrowing=borrowing):
                victims = given_back(snapshot, preemptor, victims, borrowing=borrowing)
                _restore(snapshot, victims)
                return victims
        _restore(snapshot, victims)
    return []


def may_free(snapshot: Snapshot, preemptor: Preemptor, candidates: Iterable[Held]) -> bool:
    """Return whether the ends of all candidates could free what a workload asks for.

    The end of one frees at most what it uses, at every node of the tree.
    """
    lacks = {
        slot: amount - snapshot.free(preemptor.queue, slot)
        for slot, amount in preemptor.usage.items()
    }
    left = {slot for slot, amount in lacks.items() if amount > 0}
    for held in candidates:
        if not left:
            return True
        for slot, amount in held.usage.items():
            if slot in left:
                lacks[slot] -= amount
                if lacks[slot] <= 0:
                    left.discard(slot)
    return not left


def given_back(
    snapshot: Snapshot, preemptor: Preemptor, victims: list[Victim], *, borrowing: bool
) -> list[Victim]:
    """Give back victims that are not needed, from the last but one, and return the others."""
    for at in range(len(victims) - 2, -1, -1):
        snapshot.add(victims[at].held)
        if preemptor.fits(snapshot, borrowing=borrowing):
            victims[at] = victims[-1]
            victims.pop()
        else:
            snapshot.remove(victims[at].held)
    return victims


def _restore(snapshot: Snapshot, victims: Iterable[Victim]) -> None:
    for one in victims:
        snapshot.add(one.held)


def _own(snapshot: Snapshot, preemptor: Preemptor) -> Iterator[_Candidate]:
    """Yield candidates of the preemptor's own queue."""
    site = snapshot.site
    policy = site.queues.queues[preemptor.queue].preemption.within
    if policy == "Never":
        return
    for held in snapshot.held[preemptor.queue].values():
        if uses(held, preemptor.needing) and allows(
            site.settings, policy, preemptor.workload, held.workload
        ):
            yield _Candidate(held, "own")


def _of_cohort(
    snapshot: Snapshot, preemptor: Preemptor
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Return candidates of other queues: under cohorts whose quota covers the need, and others."""
    site = snapshot.site
    above: list[_Candidate] = []
    others: list[_Candidate] = []
    if site.queues.queues[preemptor.queue].preemption.reclaim == "Never":
        return above, others
    left = dict(preemptor.usage)
    nearer, left = _covers(snapshot, preemptor.queue, left)
    previous = ""
    for cohort in site.path(preemptor.queue):
        found = above if nearer else others
        found += _below(snapshot, preemptor, cohort, cohort, previous, nearer=nearer)
        covers, left = _covers(snapshot, cohort, left)
        nearer, previous = nearer or covers, cohort
    return above, others


def _covers(snapshot: Snapshot, key: str, amounts: dict[Slot, int]) -> tuple[bool, dict[Slot, int]]:
    """Return whether a subtree's quota covers amounts, and the rest for its parent to cover."""
    nodes = {slot: snapshot.node(slot, key) for slot in amounts}
    left = {slot: max(0, int(n - nodes[slot].local)) for slot, n in amounts.items()}
    return all(nodes[slot].holds(n) for slot, n in amounts.items()), left


def _below(
    snapshot: Snapshot,
    preemptor: Preemptor,
    cohort: str,
    common: str,
    skipped: str,
    *,
    nearer: bool,
) -> Iterator[_Candidate]:
    """Yield candidates below a cohort whose queues and cohorts are beyond their quota."""
    for child in snapshot.site.below[cohort]:
        if child in (skipped, preemptor.queue) or snapshot.within(child, preemptor.needing):
            continue
        if not snapshot.site.is_queue(child):
            yield from _below(snapshot, preemptor, child, common, skipped, nearer=nearer)
            continue
        for held in snapshot.held[child].values():
            kind = _kind(snapshot, preemptor, held, nearer=nearer)
            if kind is not None:
                yield _Candidate(held, kind, common)


def _kind(snapshot: Snapshot, preemptor: Preemptor, held: Held, *, nearer: bool) -> Kind | None:
    """Return which rule allows a candidate of another queue; None if none does."""
    site, one, other = snapshot.site, preemptor.workload, held.workload
    policy = site.queues.queues[preemptor.queue].preemption
    if not uses(held, preemptor.needing):
        return None
    if not allows(site.settings, policy.reclaim, one, other):
        return None
    if nearer:
        return "hierarchy"
    if policy.borrow in ("", "Never") or other.priority >= one.priority:
        return "without"
    if policy.threshold is not None and other.priority > policy.threshold:
        return "without"
    return "while"


def _ordered(snapshot: Snapshot, queue: str, kinds: Sequence[list[_Candidate]]) -> list[_Candidate]:
    """Return candidates of all kinds, those that are evicted already first."""
    found: list[_Candidate] = []
    ordered: list[list[_Candidate]] = []
    for kind in kinds:
        by_name = {one.held.workload.name: one for one in kind}
        held = in_candidate_order(snapshot, queue, [one.held for one in kind])
        ordered.append([by_name[one.workload.name] for one in held])
    for evicted in (True, False):
        for listed in ordered:
            found += [one for one in listed if (one.held.workload.evicted is not None) is evicted]
    return found


def _valid(
    snapshot: Snapshot, preemptor: Preemptor, candidate: _Candidate, *, borrowing: bool
) -> bool:
    """Return whether a candidate may still be taken after the earlier ones."""
    if candidate.kind == "own":
        return True
    if borrowing and candidate.kind == "without":
        return False
    key = candidate.held.workload.queue
    while key != candidate.common:
        if snapshot.within(key, preemptor.needing):
            return False
        key = snapshot.site.above[key]
    return True
