"""Cycles until one changes nothing, with the ends of victims between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from morph_opt.scheduling.kueue.cycle import Nominee, Result, cycle
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.kueue.victims import Victim
from morph_opt.scheduling.kueue.workloads import Held, Workload


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of the cycles of an instant.

    Parameters
    ----------
    admitted
        Workloads that hold quota now and did not before.
    victims
        Workloads that held quota and do not any more, with the workload that needed it.
    waiting
        Last reason why a waiting workload was not admitted, by name.
    cycles
        Number of cycles.
    """

    admitted: dict[str, Held]
    victims: dict[str, tuple[Victim, Workload]]
    waiting: dict[str, Nominee]
    cycles: int


def settle(
    snapshot: Snapshot,
    pending: Pending,
    now_s: float,
    goes_on: Callable[[Result], bool] = lambda _: True,
) -> Settled:
    """Run cycles at an instant until one changes nothing; see `cycles`.

    Parameters
    ----------
    snapshot, pending
        Usage of quotas, and pending workloads; both are changed.
    now_s
        The instant.
    goes_on
        Function that returns whether another cycle may follow one with a result.
    """
    admitted: dict[str, Held] = {}
    victims: dict[str, tuple[Victim, Workload]] = {}
    waiting: dict[str, Nominee] = {}
    number = 0
    for result in cycles(snapshot, pending, now_s):
        number += 1
        for held in result.admitted:
            admitted[held.workload.name] = held
            waiting.pop(held.workload.name, None)
        for one in result.nominees:
            if one.workload.name not in admitted:
                waiting[one.workload.name] = one
        for victim, preemptor in result.victims:
            name = victim.held.workload.name
            if admitted.pop(name, None) is None:
                victims[name] = victim, preemptor
        if not goes_on(result):
            break
    return Settled(admitted, victims, waiting, number)


def cycles(snapshot: Snapshot, pending: Pending, now_s: float) -> Iterator[Result]:
    """Yield the results of the cycles of an instant, up to the first that changes nothing.

    Victims end between two cycles and queue again after `Settings.requeue_s`. So a workload is
    admitted at most once and ended at most once. Between two such changes queues only get shorter,
    and the cycles end when the same heads come again with the same flavors left to try.

    Parameters
    ----------
    snapshot, pending
        Usage of quotas, and pending workloads; both are changed, victims included, before the
        result of a cycle is yielded.
    now_s
        The instant.
    """
    seen: set[object] = set()
    while heads := pending.heads():
        result = cycle(snapshot, heads, now_s)
        pending.requeue(result.nominees)
        for victim, _ in result.victims:
            snapshot.remove(victim.held)
            again = ended(victim.held.workload, victim.reason, now_s)
            pending.add(again, now_s + snapshot.site.settings.requeue_s)
            pending.wake(again.queue, now_s)
        yield result
        if result.changed:
            seen.clear()
            continue
        now = tuple(
            (head.workload.name, tuple(tuple(row.items()) for row in head.tried)) for head in heads
        )
        if now in seen:
            break
        seen.add(now)


def ended(workload: Workload, reason: str, now_s: float) -> Workload:
    """Return a workload in the state in which it queues again after a preemption."""
    return replace(workload, evicted=("Preempted", now_s), preempted=(reason, now_s))
