"""The question that every policy and the engine ask: how long does one iteration take?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from morph_opt.domain import (
    ExecutionPlan,
    InputError,
    NodeType,
    Shape,
    SideDemand,
    Span,
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One possible way to run a model: a row of a speed model.

    Parameters
    ----------
    shape
        GPUs per node.
    plan
        Execution plan.
    iteration_s
        Seconds per training iteration, above 0.
    side
        Node resources held next to each GPU (host memory for offload, network share); CPU
        threads come from the job.
    """

    shape: Shape
    plan: ExecutionPlan
    iteration_s: float
    side: SideDemand = SideDemand()


_SHOWN = 8


def require_model(model: str, known: Collection[str], name: str) -> None:
    """Refuse a training model that the speed model of this name does not know.

    Raises
    ------
    InputError
        Naming some that it knows.
    """
    if model not in known:
        some = sorted(known)[:_SHOWN]
        rest = f" and {len(known) - len(some)} more" if len(known) > len(some) else ""
        rule = f"unknown model {model!r}, the speed model {name!r} knows {', '.join(some)}{rest}"
        raise InputError(rule, field="model")


class SpeedModel(Protocol):
    """Iteration time of (model, node type, shape, plan, span); truth and belief are two of these.

    Implementations are immutable during a round and deterministic.
    """

    @property
    def name(self) -> str:
        """Shown in run folders: ``"table"``, ``"model"``."""
        ...

    def models(self) -> Sequence[str]:
        """Names of the training models that can be asked for, sorted."""
        ...

    def iteration_s(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,
    ) -> float | None:
        """Seconds per iteration, or None if that configuration cannot run.

        It can run if and only if `configurations` offers it for as many GPUs: what one of the two
        answers and the other does not would be a speed that no placement has.
        """
        ...

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Every configuration that can run on nodes of this type with at most ``max_gpus`` GPUs.

        ``span`` is that of placements on several nodes; one-part shapes always have
        `Span.NODE`. The order is deterministic.
        """
        ...


class LearningModel(SpeedModel, Protocol):
    """A belief that takes in what running jobs show, between rounds."""

    @property
    def version(self) -> int:
        """Grows with every observation that changes an answer."""
        ...

    def observe(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,
        iteration_s: float,
    ) -> bool:
        """Take in seconds per iteration; returns whether answers have changed."""
        ...
