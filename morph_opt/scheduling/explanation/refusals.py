"""Plans that do not fit in memory, for the models of a round."""

from __future__ import annotations

from morph_opt.core.domain import RoundState, Span
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.explanation.report import PlanRefusal


class Refusals:
    """Memory checks, cached per belief.

    What fits follows from facts of a model, not from its speeds, and a run asks the same of every
    round.
    """

    def __init__(self) -> None:
        self._belief: SpeedModel | None = None
        self._judge: MemoryFilter | None = None

    def of(self, belief: SpeedModel, state: RoundState) -> tuple[PlanRefusal, ...]:
        """Return refused plans, by model, node type and plan, of models with published facts."""
        if self._judge is None or belief is not self._belief:
            self._belief = belief
            self._judge = belief if isinstance(belief, MemoryFilter) else MemoryFilter(belief)
        return _of_round(self._judge, state)


def _of_round(judge: MemoryFilter, state: RoundState) -> tuple[PlanRefusal, ...]:
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
