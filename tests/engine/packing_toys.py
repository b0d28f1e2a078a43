"""Toy speeds with pairs, and a policy that packs at random."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    ExecutionPlan,
    NodeType,
    RoundState,
    Shape,
)
from morph_opt.scheduling.policies.base import Decision, Policy
from tests.engine.toys import ToySpeeds, first_fit, free_gpus, hold


@dataclass(frozen=True)
class PairedToys(ToySpeeds):
    """Toy speeds; ``slower[a, b]`` is by how much a is slower next to b, on one node."""

    slower: Mapping[tuple[str, str], float] = field(
        default_factory=lambda: {("m", "m"): 1.25, ("m", "n"): 1.25, ("n", "m"): 1.5}
    )
    measures_pairs: bool = True

    def paired_iteration_s(
        self,
        models: tuple[str, str],
        plans: tuple[ExecutionPlan, ExecutionPlan],
        node_type: NodeType,
        shape: Shape,
    ) -> tuple[float, float] | None:
        if shape.nodes > 1 or models not in self.slower or models[::-1] not in self.slower:
            return None
        alone = [
            self.seconds[model] * (1.25 if plan.gradient_checkpointing else 1.0) / shape.gpus
            for model, plan in zip(models, plans, strict=True)
        ]
        del node_type
        return alone[0] * self.slower[models], alone[1] * self.slower[models[::-1]]


def pair(one: str, two: str, parts: Mapping[int, list[int]]) -> tuple[Assignment, Assignment]:
    """Two jobs on the same GPUs, each naming the other."""
    return (
        replace(hold(one, parts), partner=two),
        replace(hold(two, parts), partner=one),
    )


class Packer(Policy):
    """Starts, parts, joins and preempts at random, always within the cluster."""

    name = "packer"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def decide(self, state: RoundState) -> Decision:
        draw = random.Random(f"{self._seed}/{state.index}")
        kept = {s.running.job: s.running for s in state.jobs if s.running is not None}
        for name in sorted(kept):
            if draw.random() < 0.1:
                del kept[name]
        kept = {
            name: a if a.partner in kept else replace(a, partner=None) for name, a in kept.items()
        }
        waiting = [s.job for s in state.jobs if s.job.name not in kept]
        draw.shuffle(waiting)
        for job in waiting:
            hosts = [a for a in kept.values() if a.partner is None and draw.random() < 0.5]
            nodes = [a for a in hosts if state.unavailable.isdisjoint(a.placement.nodes)]
            free = free_gpus(state, list(kept.values()))
            if nodes:
                host = nodes[0]
                kept[host.job] = replace(host, partner=job.name)
                kept[job.name] = Assignment(job.name, host.plan, host.placement, host.job)
            else:
                started = first_fit(job, draw.choice((1, 2)), free)
                if started is not None:
                    kept[job.name] = started
        return Decision(Allocation(tuple(kept.values())))
