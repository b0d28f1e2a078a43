"""Gandiva's published choice of pairs: what the memory of a GPU holds, and the best matching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morph_opt.scheduling.policies.gandiva.packed import PackingTask, Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTask(PackingTask):
    """Jobs that might share, with what they need of the memory of a GPU."""

    memory_gib: float
    needs_gib: Mapping[int, float]

    def fits(self, one: int, other: int) -> bool:
        """Whether the memory of a GPU holds both as well."""
        both_gib = self.needs_gib[one] + self.needs_gib[other]
        return PackingTask.fits(self, one, other) and both_gib <= self.memory_gib

    def value(self, pairs: Sequence[Pair]) -> float:
        """Speed in sum: groups share the GPUs equally."""
        groups = len(self.utilisation) - len(pairs)
        alone = len(self.utilisation) - 2 * len(pairs)
        speed = alone + sum(self.together(*pair) for pair in pairs)
        return min(1.0, self.gpus / max(1, groups)) * speed


def best_pairs(task: PublishedTask) -> list[Pair]:
    """The matching of largest value, by enumeration."""
    jobs = sorted(task.utilisation)
    best: list[Pair] = []

    def extend(rest: Sequence[int], pairs: list[Pair]) -> None:
        nonlocal best
        if task.value(pairs) > task.value(best) + 1e-12:
            best = list(pairs)
        for i, one in enumerate(rest):
            for other in rest[i + 1 :]:
                if task.fits(one, other):
                    left = [job for job in rest[i + 1 :] if job != other]
                    extend(left, [*pairs, (one, other)])

    extend(jobs, [])
    return best
