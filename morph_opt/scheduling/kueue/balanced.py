"""Balanced placement: pods spread evenly over as few domains as greed would take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from morph_opt.scheduling.kueue.domains import Domain, Topology


class Counts(Protocol):
    """Orders and sums of a search; see `morph_opt.scheduling.kueue.placing`."""

    def ordered(self, domains: Sequence[Domain]) -> list[Domain]:
        """Return domains with the most slices first."""

    def led(self, domains: Sequence[Domain]) -> list[Domain]:
        """Return domains by the slices beside a leader."""

    def sum_up(self, domain: Domain, level: int, *, inner: bool = True) -> None:
        """Compute the counts of a domain from those below it."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Pods that are to be placed evenly.

    Parameters
    ----------
    count, size, leaders
        Pods, pods of a slice, and leaders.
    level, slice_level
        Level that is preferred, and that of slices.
    counts
        The search.
    """

    count: int
    size: int
    leaders: int
    level: int
    slice_level: int
    counts: Counts

    @property
    def slices(self) -> int:
        """Slices to be placed."""
        return self.count // self.size


_Greedy = tuple[int, Domain | None, Domain | None]
"""Number of domains that greed takes, and the last of them with a leader and without."""


def balanced(one: Balance, topology: Topology) -> tuple[list[Domain] | None, int]:
    """Return domains with their pods and their level; None if no balance is possible."""
    domains, threshold = _best(one, topology)
    if not threshold:
        return None, one.level
    at = one.level
    if one.level < one.slice_level:
        chosen = _fewest(one, domains, by_entropy=True)
        if chosen is None:
            return None, one.level
        domains, at = [child for each in chosen for child in each.children], at + 1
    return _spread(one, domains, threshold), at


def _greedy(one: Balance, domains: Sequence[Domain]) -> _Greedy | None:
    """Return what greed takes; None if the domains have too little room."""
    slices, leaders, number, at = one.slices, one.leaders, 0, 0
    last_led: Domain | None = None
    last: Domain | None = None
    rest = list(domains)
    if leaders > 0:
        rest = one.counts.led(domains)
        while leaders > 0 and at < len(rest) and rest[at].leaders > 0:
            last_led = rest[at]
            number, leaders, slices = (
                number + 1,
                leaders - last_led.leaders,
                slices - last_led.slices_led,
            )
            at += 1
    if leaders > 0:
        return None
    for each in one.counts.ordered(rest[at:]):
        if slices <= 0 or each.slices <= 0:
            break
        number, last, slices = number + 1, each, slices - each.slices
    return None if slices > 0 else (number, last_led, last)


def _best(one: Balance, topology: Topology) -> tuple[list[Domain], int]:
    """Return sibling domains with the largest least number of slices on a domain, and it."""
    if one.level == 0:
        families = [list(topology.by_level[0].values())]
    else:
        above = sorted(topology.by_level[one.level - 1].values(), key=lambda d: d.values)
        families = [each.children for each in above]
    best, fewest, found = 0, 0, list[Domain]()
    for family in families:
        siblings = [each.copy() for each in family]
        lower = siblings
        if one.level < one.slice_level:
            lower = [child for each in siblings for child in each.children]
        greedy = _greedy(one, lower)
        if greedy is None:
            continue
        number, last_led, last = greedy
        threshold = one.slices // number if number else 0
        if last_led is not None:
            threshold = min(threshold, last_led.slices_led)
        if last is not None:
            threshold = min(threshold, last.slices)
        kept = threshold
        if one.leaders and last is not None:
            kept = min(threshold, last.slices_led)
        if threshold < best:
            continue
        _prune(one, siblings, threshold)
        after = _greedy(one, siblings)
        if after is None and kept < threshold:
            if kept <= 0 or kept < best:
                continue
            threshold = kept
            siblings = [each.copy() for each in family]
            _prune(one, siblings, threshold)
            after = _greedy(one, siblings)
        if after is not None and (threshold > best or (threshold == best and after[0] < fewest)):
            best, fewest, found = threshold, after[0], siblings
    return found, best


def _prune(one: Balance, domains: Sequence[Domain], threshold: int) -> None:
    """Leave out domains with less room than the threshold."""
    for each in domains:
        for child in each.children:
            _prune_one(one, child, threshold)
    for each in domains:
        one.counts.sum_up(each, one.level, inner=False)
        _prune_one(one, each, threshold)


def _prune_one(one: Balance, domain: Domain, threshold: int) -> None:
    if domain.slices < threshold:
        domain.clear()
    elif one.leaders and domain.leaders and domain.slices_led < threshold:
        _without_leader(domain)


def _without_leader(domain: Domain) -> None:
    domain.pods_led = domain.slices_led = domain.leaders = 0
    for child in domain.children:
        _without_leader(child)


def _entropy(domains: Sequence[Domain]) -> float:
    total = sum(each.pods for each in domains)
    shares = [each.pods / total for each in domains if each.pods] if total else []
    return -sum(part * math.log2(part) for part in shares)


def _fewest(one: Balance, domains: Sequence[Domain], *, by_entropy: bool) -> list[Domain] | None:
    """Return as many domains as greed takes with the least room in all; None if none fit.

    A table over the number of domains, leaders left and pods left, filled domain by domain; of
    equal entries the first stays.
    """
    greedy = _greedy(one, domains)
    if greedy is None:
        return None
    number = greedy[0]

    def key(each: Domain) -> tuple[object, ...]:
        if not by_entropy:
            return (each.values,)
        return -each.leaders, -each.slices_led, -_entropy(each.children), each.values

    table: list[dict[tuple[int, int], list[Domain]]] = [{} for _ in range(number + 1)]
    table[0][one.leaders, one.slices * one.size] = []
    for each in sorted(domains, key=key):
        for taken in range(number, 0, -1):
            for (leaders, pods), before in sorted(table[taken - 1].items(), key=lambda e: e[0]):
                if leaders <= 0 and pods <= 0:
                    continue
                after = [*before, each]
                if leaders > 0 and each.leaders > 0:
                    spot = leaders - each.leaders, pods - each.pods_led
                    table[taken].setdefault(spot, after)
                if each.slices > 0:
                    table[taken].setdefault((leaders, pods - each.pods), after)
    fits = {
        pods: some for (leaders, pods), some in table[number].items() if not leaders and pods <= 0
    }
    return fits[max(fits)] if fits else None


def _spread(one: Balance, domains: Sequence[Domain], threshold: int) -> list[Domain] | None:
    """Give each domain the threshold, and the rest to the first that have room."""
    chosen = _fewest(one, domains, by_entropy=False)
    if chosen is None or one.slices < len(chosen) * threshold:
        return None
    extra, leaders = one.slices - len(chosen) * threshold, one.leaders
    chosen = one.counts.led(chosen)
    for each in chosen:
        more = 0
        if leaders > 0:
            more, each.leaders = min(each.slices_led - threshold, extra), 1
            leaders -= 1
        else:
            if extra > 0:
                more = min(each.slices - threshold, extra)
            each.leaders = 0
        each.slices = each.slices_led = threshold + more
        each.pods = each.slices * one.size
        each.pods_led = each.pods - each.leaders
        extra -= more
    return None if extra > 0 or leaders > 0 else chosen
