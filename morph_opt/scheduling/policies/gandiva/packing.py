"""Gandiva's packing: pairs of jobs on the same GPUs found by trials, and Gavel's shares of pairs.

Pairs are tried in order of utilisation and kept where their speeds add up to more than 1, while
there are more groups (jobs alone and pairs) than GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PackingTask:
    """Jobs that may share GPUs.

    Parameters
    ----------
    gpus
        Number of GPUs in all.
    utilisation
        Utilisation of each job alone, by its name.
    speed
        Relative speeds of the two jobs of a pair, smaller name first.
    gang
        GPUs of each job; 1 if not given. Only equal gangs are paired.
    """

    gpus: int
    utilisation: Mapping[int, float]
    speed: Mapping[Pair, tuple[float, float]]
    gang: Mapping[int, int] = field(default_factory=dict)

    def together(self, one: int, other: int) -> float:
        """Return the sum of the relative speeds of a pair."""
        return sum(self.speed[min(one, other), max(one, other)])

    def fits(self, one: int, other: int) -> bool:
        """Return whether the speeds of a pair are known and its gangs equal."""
        known = (min(one, other), max(one, other)) in self.speed
        equal = self.gang.get(one, 1) == self.gang.get(other, 1)
        return known and equal


def by_trial(task: PackingTask) -> tuple[list[tuple[int, int, bool]], list[Pair]]:
    """Return the trials in order, each with whether it was kept, and the pairs kept."""
    order = sorted(task.utilisation, key=lambda job: (task.utilisation[job], job))
    trials: list[tuple[int, int, bool]] = []
    pairs: list[Pair] = []
    paired: set[int] = set()
    load = sum(task.gang.get(job, 1) for job in order)
    for one in order:
        for other in order:
            if one in paired or load <= task.gpus:
                break
            if other == one or other in paired or not task.fits(one, other):
                continue
            kept = task.together(one, other) > 1.0
            trials.append((one, other, kept))
            if kept:
                pairs.append((min(one, other), max(one, other)))
                paired |= {one, other}
                load -= task.gang.get(one, 1)
    return trials, sorted(pairs)


def gavel_shares(
    groups: Sequence[str], gang: Mapping[str, float], gpus: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return Gavel's ``gandiva`` shares for given pairs: equal parts of every type.

    Parameters
    ----------
    groups, gang
        Jobs and pairs by name, and their gangs.
    gpus
        GPUs by type.
    """
    found = {}
    for group in groups:
        row = {kind: count / (len(groups) * gang[group]) for kind, count in gpus.items()}
        total = max(1.0, sum(row.values()))
        found[group] = {kind: share / total for kind, share in row.items()}
    return found
