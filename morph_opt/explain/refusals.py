"""Plans that do not fit in memory, for the models of a round."""

from __future__ import annotations

from morph_opt.domain import RoundState, Span
from morph_opt.explain.report import PlanRefusal
from morph_opt.perf.memory.filter import MemoryFilter
from morph_opt.perf.speed import SpeedModel


def refusals_of(belief: SpeedModel, state: RoundState) -> tuple[PlanRefusal, ...]:
    """By model, node type and plan, in that order; models without published facts have none."""
    judge = belief if isinstance(belief, MemoryFilter) else MemoryFilter(belief)
    found: list[PlanRefusal] = []
    for model in sorted({known.job.model for known in state.jobs}):
        for kind in state.cluster.node_types:
            gpus = kind.gpus * len(state.cluster.nodes_of(kind))
            by_plan: dict[str, tuple[list[str], str]] = {}
            for refusal in judge.refusals(model, kind, max_gpus=gpus, span=Span.LEAF):
                shapes, _ = by_plan.setdefault(refusal.plan.label, ([], refusal.reason))
                shapes.append(refusal.shape.label)
            found += [
                PlanRefusal(model, kind.name, plan, tuple(shapes), reason)
                for plan, (shapes, reason) in by_plan.items()
            ]
    return tuple(found)
