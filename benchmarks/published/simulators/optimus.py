"""Optimus' greedy rule as published beside Pollux: seconds saved by one more GPU.

Source: petuum/adaptdl, branch ``osdi21-artifact`` (Apache-2.0), the baseline "Optimus+Oracle"; the
rules in our words are on ``docs/published-heuristics.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptimusJob:
    """A job as the rule sees it.

    Parameters
    ----------
    step_s
        Seconds per step on 1, 2, ... GPUs.
    remaining
        Steps to go.
    most
        Largest number of GPUs.
    current
        GPUs by node.
    """

    step_s: tuple[float, ...]
    remaining: float
    most: int
    current: Mapping[int, int]

    def gain_s(self, gpus: int) -> float:
        """Seconds saved by the next GPU."""
        if gpus + 1 > self.most or gpus >= len(self.step_s):
            return 0.0
        return (self.step_s[gpus - 1] - self.step_s[gpus]) * self.remaining


def counts(jobs: Sequence[OptimusJob], total: int) -> list[int]:
    """GPUs of each job: one each in order of arrival, then to the largest gain above 0."""
    found = [1 if j < total else 0 for j in range(len(jobs))]
    free = total - sum(found)
    gain = [job.gain_s(gpus) if gpus else 0.0 for job, gpus in zip(jobs, found, strict=True)]
    while free > 0 and gain:
        j = max(range(len(jobs)), key=gain.__getitem__)
        if gain[j] <= 0.0:
            break
        found[j] += 1
        free -= 1
        gain[j] = jobs[j].gain_s(found[j])
    return found


def placement(
    jobs: Sequence[OptimusJob], gpus: Sequence[int], capacity: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Nodes of each job, in the order in which they were taken.

    Whose count is as it was keeps its nodes; the others, fewest GPUs first, take the node with
    most free GPUs, again and again.
    """
    free = list(capacity)
    found: list[list[tuple[int, int]]] = [[] for _ in jobs]
    moved = []
    for j, job in enumerate(jobs):
        if gpus[j] and sum(job.current.values()) == gpus[j]:
            found[j] = list(job.current.items())
            for node, count in found[j]:
                free[node] -= count
        else:
            moved.append(j)
    for j in sorted(moved, key=lambda j: gpus[j]):
        missing = gpus[j]
        while missing > 0:
            node = max(range(len(free)), key=lambda node: (free[node], -node))
            taken = min(free[node], missing)
            if taken <= 0:
                break
            free[node] -= taken
            missing -= taken
            found[j].append((node, taken))
    return found
