"""Orders of Kueue: of a queue, of the entries of a cycle, and of candidates for preemption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from typing import Protocol, TypeVar

from morph_opt.scheduling.kueue.shares import Share, share
from morph_opt.scheduling.kueue.site import Settings, Site, Snapshot
from morph_opt.scheduling.kueue.workloads import Amounts, Held, Workload


class Entry(Protocol):
    """Head of a queue with its assignment in a cycle."""

    @property
    def workload(self) -> Workload:
        """The workload."""

    @property
    def borrowing(self) -> int:
        """Level of borrowing of the assignment."""

    @property
    def usage(self) -> Amounts:
        """Amounts that the assignment uses."""

    @property
    def preemptor(self) -> bool:
        """Whether it waits for its victims."""


_E = TypeVar("_E", bound=Entry)


def queue_key(settings: Settings, workload: Workload) -> tuple[int, float, str, str]:
    """Return the key by which workloads of a queue are ordered."""
    return -workload.priority, settings.queued_s(workload), workload.uid, workload.name


def in_entry_order(settings: Settings, entries: Iterable[_E]) -> list[_E]:
    """Return the entries of a cycle in the order in which they are served without fair sharing."""

    def key(entry: _E) -> tuple[bool, int, int, float]:
        return (
            settings.preemptors_first and not entry.preemptor,
            entry.borrowing,
            -entry.workload.priority if settings.by_priority else 0,
            settings.queued_s(entry.workload),
        )

    return sorted(entries, key=key)


def in_fair_order(snapshot: Snapshot, entries: Iterable[_E]) -> Iterator[_E]:
    """Yield the entries of a cycle in the order of fair sharing.

    Each is chosen when it is asked for, with the usage of the snapshot by then: per tree a
    tournament from the leaves, won by the lowest share after admission.
    """
    left = {entry.workload.queue: entry for entry in entries}
    site = snapshot.site
    while left:
        first = next(iter(left))
        if not site.above[first]:
            yield left.pop(first)
            continue
        root = site.root[first]
        after = _shares_after(snapshot, root, left)
        best = _winner(site, root, left, after)
        assert best is not None  # the entry of `first` is below the root
        del left[best.workload.queue]
        yield best


def _shares_after(
    snapshot: Snapshot, root: str, entries: dict[str, _E]
) -> dict[tuple[str, str], Share]:
    """Return the share after admission of each node on the way of an entry, by its parent."""
    found: dict[tuple[str, str], Share] = {}
    for queue in snapshot.site.leaves(root):
        if queue in entries:
            entry = entries[queue]
            with snapshot.using(queue, entry.usage):
                key = queue
                for above in snapshot.site.path(queue):
                    found[above, queue] = share(snapshot, key)
                    key = above
    return found


def _winner(
    site: Site, key: str, entries: dict[str, _E], after: dict[tuple[str, str], Share]
) -> _E | None:
    """Return the entry of a cohort that is to be served first; None if it has none."""
    children = site.below[key]
    cohorts = (one for one in children if not site.is_queue(one))
    found = [_winner(site, one, entries, after) for one in cohorts]
    found += [entries.get(one) for one in children if site.is_queue(one)]
    settings = site.settings

    def rank(entry: _E) -> tuple[object, ...]:
        mine = after[key, entry.workload.queue]
        return (
            settings.preemptors_first and not entry.preemptor,
            settings.unborrowed_first and mine.borrows_of(entry.usage),
            mine.rank,
            -entry.workload.priority if settings.by_priority else 0,
            settings.queued_s(entry.workload),
        )

    return min((one for one in found if one is not None), key=rank, default=None)


def in_candidate_order(snapshot: Snapshot, queue: str, candidates: Iterable[Held]) -> list[Held]:
    """Return the candidates for preemption by a workload of a queue, the first to be taken first.

    Those that are evicted already come first, then those of other queues, lower priorities and
    later admissions.
    """
    found = sorted(candidates, key=lambda one: candidate_key(queue, one))
    usage = snapshot.local_usage
    if not usage:
        return found

    def compare(a: Held, b: Held) -> int:
        first, second = candidate_key(queue, a), candidate_key(queue, b)
        one, other = a.workload, b.workload
        if first[:2] == second[:2] and one.queue == other.queue and one.local != other.local:
            used = usage.get(one.local, 0.0), usage.get(other.local, 0.0)
            if used[0] != used[1]:
                return -1 if used[0] > used[1] else 1
        return (first > second) - (first < second)

    return sorted(found, key=cmp_to_key(compare))


def candidate_key(queue: str, held: Held) -> tuple[bool, bool, int, float, str, str]:
    """Return the key by which candidates for preemption by a workload of a queue are ordered."""
    one = held.workload
    return (
        one.evicted is None,
        one.queue == queue,
        one.priority,
        -held.since_s,
        one.uid,
        one.name,
    )
