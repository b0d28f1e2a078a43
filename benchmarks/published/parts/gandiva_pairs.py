"""Gandiva's published choice of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.policies.gandiva.packing import PackingTask, Pair


def best_pairs(task: PackingTask) -> list[Pair]:
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
