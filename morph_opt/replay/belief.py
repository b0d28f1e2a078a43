"""What the policy believes about speed.

Which configurations are possible is a fact that the policy may know; how fast they are is what
it believes. So a belief offers exactly those configurations of the truth that it has a time for,
with its own time and the truth's side demands; the engine's strict check can then never meet a
configuration that the truth cannot run.
"""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.domain import ExecutionPlan, InputError, NodeType, Shape, Span
from morph_opt.perf.speed import Configuration, SpeedModel

BELIEFS = ("truth", "model", "table")


class FeasibleBelief:
    """Believed times on the configurations that are truly possible.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    truth
        Says what is possible.

    Raises
    ------
    InputError
        If the belief does not know a model of the truth when it is asked for it.
    """

    def __init__(self, belief: SpeedModel, truth: SpeedModel) -> None:
        self._belief = belief
        self._truth = truth
        self._cache: dict[tuple[str, NodeType, int, Span], tuple[Configuration, ...]] = {}

    @property
    def name(self) -> str:
        """That of the belief."""
        return self._belief.name

    def models(self) -> Sequence[str]:
        """Models that both know, sorted."""
        return sorted(set(self._belief.models()) & set(self._truth.models()))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Believed seconds per iteration, or None if the truth cannot run it."""
        if self._truth.iteration_s(model, node_type, shape, plan, span) is None:
            return None
        return self._belief.iteration_s(model, node_type, shape, plan, span)

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """The truth's configurations, in its order, with believed times."""
        key = (model, node_type, max_gpus, span)
        if key not in self._cache:
            rows = []
            for row in self._truth.configurations(model, node_type, max_gpus, span):
                across = span if row.shape.nodes > 1 else Span.NODE
                seconds = self._belief.iteration_s(model, node_type, row.shape, row.plan, across)
                if seconds is not None:
                    rows.append(Configuration(row.shape, row.plan, seconds, row.side))
            self._cache[key] = tuple(rows)
        return self._cache[key]


def make_belief(name: str, truth: SpeedModel) -> SpeedModel:
    """The belief of this name: the truth itself, the built-in model, or the measured table.

    Raises
    ------
    InputError
        If the name is unknown, or the measured table is not on this machine.
    """
    if name == "truth":
        return truth
    if name == "model":
        from morph_opt.perf.analytic.zoo import builtin_model

        return FeasibleBelief(builtin_model(), truth)
    if name == "table":
        from morph_opt.data import locate
        from morph_opt.traces.morphling import read_tables

        return FeasibleBelief(read_tables(locate("morphling")), truth)
    raise InputError(f"unknown belief {name!r}; known are {', '.join(BELIEFS)}", field="--belief")
