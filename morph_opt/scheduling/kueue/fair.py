"""Victims of preemption under fair sharing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from morph_opt.scheduling.kueue.order import candidate_key, in_candidate_order
from morph_opt.scheduling.kueue.shares import Share, share
from morph_opt.scheduling.kueue.site import FAIR, Snapshot
from morph_opt.scheduling.kueue.victims import (
    FAIR_SHARING,
    IN_QUEUE,
    RECLAMATION,
    Preemptor,
    Victim,
    allows,
    given_back,
    may_free,
    uses,
)
from morph_opt.scheduling.kueue.workloads import Held

_NOTHING = False, -1.0
"""Rank below the rank of every share."""


class Targets:
    """Queues whose candidates are preempted, one after the other.

    From the root of the tree the child of the highest share is taken, a cohort before a queue of
    the same share. Whoever asks takes a candidate of the queue, or drops the queue, before asking
    again: each step so takes one or leaves a node out for good, and the iteration ends.

    Parameters
    ----------
    snapshot
        Usage of quotas, including the newcomer.
    queue
        Queue of the preemptor.
    candidates
        Candidates in their order.
    """

    def __init__(self, snapshot: Snapshot, queue: str, candidates: Iterable[Held]) -> None:
        self._snapshot, self._queue = snapshot, queue
        self._path = set(snapshot.site.path(queue))
        self._done: set[str] = set()
        self.left: dict[str, list[Held]] = {}
        """Candidates of each queue that have not been taken."""
        for one in candidates:
            self.left.setdefault(one.workload.queue, []).append(one)

    def __iter__(self) -> Iterator[str]:
        """Yield the queue with the next candidate."""
        site = self._snapshot.site
        root = site.root[self._queue]
        if root == self._queue:
            while self._queue not in self._done and self.left.get(self._queue):
                yield self._queue
            return
        while root not in self._done:
            queue = self._next(root)
            if queue:
                yield queue

    def take(self, queue: str) -> Held:
        """Take the first candidate of a queue."""
        return self.left[queue].pop(0)

    def drop(self, queue: str) -> None:
        """Leave a queue out from now on."""
        self._done.add(queue)

    def _next(self, cohort: str) -> str:
        """Return the queue to take from below a cohort; "" if nodes were only left out."""
        site = self._snapshot.site
        best, best_rank = "", _NOTHING
        for queue in filter(site.is_queue, site.below[cohort]):
            if queue in self._done:
                continue
            mine = share(self._snapshot, queue)
            if not self.left.get(queue) or (not mine.borrowed and queue != self._queue):
                self._done.add(queue)
                continue
            if mine.rank > best_rank or (mine.rank == best_rank and self._before(queue, best)):
                best, best_rank = queue, mine.rank
        other, other_rank = "", _NOTHING
        for child in site.below[cohort]:
            if child in self._done or site.is_queue(child):
                continue
            mine = share(self._snapshot, child)
            if not mine.borrowed and child not in self._path:
                self._done.add(child)
            elif mine.rank > other_rank:
                other, other_rank = child, mine.rank
        if not best and not other:
            self._done.add(cohort)
            return ""
        return self._next(other) if other_rank >= best_rank else best

    def _before(self, queue: str, other: str) -> bool:
        """Return whether the next candidate of one queue comes before another queue's."""
        first, second = self.left[queue][0], self.left[other][0]
        return candidate_key(self._queue, first) < candidate_key(self._queue, second)

    def ends(self, target: str) -> tuple[str, str]:
        """Return the nodes of preemptor and target below their lowest common cohort."""
        site = self._snapshot.site
        theirs = target
        while site.above[theirs] not in self._path:
            theirs = site.above[theirs]
        common, mine = site.above[theirs], self._queue
        while site.above[mine] != common:
            mine = site.above[mine]
        return mine, theirs


def fair(snapshot: Snapshot, preemptor: Preemptor) -> list[Victim]:
    """Return victims under fair sharing by which a workload fits; [] if there are none.

    Parameters
    ----------
    snapshot
        Usage of quotas; unchanged at the end.
    preemptor
        The workload.
    """
    candidates = in_candidate_order(snapshot, preemptor.queue, _candidates(snapshot, preemptor))
    if not candidates or not may_free(snapshot, preemptor, candidates):
        return []
    strategies = snapshot.site.settings.strategies or FAIR
    with snapshot.using(preemptor.queue, preemptor.usage):
        fits, victims, again = _first(snapshot, preemptor, candidates, strategies[0])
        if not fits and len(strategies) > 1:
            fits = _second(snapshot, preemptor, again, victims)
    if fits:
        victims = given_back(snapshot, preemptor, victims, borrowing=True)
    for one in victims:
        snapshot.add(one.held)
    return victims if fits else []


def _candidates(snapshot: Snapshot, preemptor: Preemptor) -> Iterator[Held]:
    site = snapshot.site
    policy = site.queues.queues[preemptor.queue].preemption
    found = [(preemptor.queue, policy.within)] if policy.within != "Never" else []
    if site.above[preemptor.queue] and policy.reclaim != "Never":
        found += [
            (queue, policy.reclaim)
            for queue in site.leaves(site.root[preemptor.queue])
            if queue != preemptor.queue
            and any(snapshot.borrows(queue, slot) for slot in preemptor.needing)
        ]
    for queue, rule in found:
        for held in snapshot.held[queue].values():
            if allows(site.settings, rule, preemptor.workload, held.workload) and uses(
                held, preemptor.needing
            ):
                yield held


def _fits(snapshot: Snapshot, preemptor: Preemptor) -> bool:
    """Return whether a newcomer that is counted in the snapshot fits."""
    with snapshot.using(preemptor.queue, preemptor.usage, -1):
        return preemptor.fits(snapshot, borrowing=True)


def _first(
    snapshot: Snapshot, preemptor: Preemptor, candidates: list[Held], strategy: str
) -> tuple[bool, list[Victim], list[Held]]:
    """Take victims by the first strategy; return whether it fits, and who was not taken."""
    targets = Targets(snapshot, preemptor.queue, candidates)
    victims: list[Victim] = []
    again: list[Held] = []
    nominal = snapshot.site.settings.nominal_first and not any(
        snapshot.borrows(preemptor.queue, slot) for slot in preemptor.needing
    )
    for queue in targets:
        if queue == preemptor.queue or nominal:
            reason = IN_QUEUE if queue == preemptor.queue else RECLAMATION
            held = targets.take(queue)
        else:
            reason = FAIR_SHARING
            found = _fairly(snapshot, targets, queue, strategy, again)
            if found is None:
                continue
            held = found
        snapshot.remove(held)
        victims.append(Victim(held, reason))
        if _fits(snapshot, preemptor):
            return True, victims, []
    return False, victims, again


def _fairly(
    snapshot: Snapshot, targets: Targets, queue: str, strategy: str, again: list[Held]
) -> Held | None:
    """Return the first candidate of a queue that a strategy allows; others are for the second."""
    mine, theirs = targets.ends(queue)
    newcomer, before = share(snapshot, mine), share(snapshot, theirs)
    while targets.left[queue]:
        held = targets.take(queue)
        with snapshot.using(queue, held.usage, -1):
            after = share(snapshot, theirs)
        if _passes(strategy, newcomer, before, after):
            return held
        again.append(held)
    return None


def _passes(strategy: str, newcomer: Share, before: Share, after: Share) -> bool:
    if strategy == "LessThanInitialShare":
        return newcomer.rank < before.rank
    return newcomer.rank <= after.rank


def _second(
    snapshot: Snapshot, preemptor: Preemptor, again: list[Held], victims: list[Victim]
) -> bool:
    """Take one more victim of each queue whose share was above the newcomer's."""
    targets = Targets(snapshot, preemptor.queue, again)
    for queue in targets:
        mine, theirs = targets.ends(queue) if queue != preemptor.queue else (queue, queue)
        passes = share(snapshot, mine).rank < share(snapshot, theirs).rank
        held = targets.take(queue)
        if passes:
            snapshot.remove(held)
            victims.append(Victim(held, FAIR_SHARING))
            if _fits(snapshot, preemptor):
                return True
        targets.drop(queue)
    return False
