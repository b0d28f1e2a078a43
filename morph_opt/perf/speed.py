"""The question that every policy and the engine ask: how long does one iteration take?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

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


class SpeedsOver(ABC):
    """Configurations of another speed model, in its order and cached, as this one has them.

    Parameters
    ----------
    base
        Says what is possible.
    """

    def __init__(self, base: SpeedModel) -> None:
        self._base = base
        self._rows: dict[tuple[str, NodeType, int, Span], tuple[Configuration, ...]] = {}

    def models(self) -> Sequence[str]:
        """Names that the base knows, sorted."""
        return self._base.models()

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Those of the base that this model has, in the base's order."""
        key = (model, node_type, max_gpus, span)
        if key not in self._rows:
            rows = self._base.configurations(model, node_type, max_gpus, span)
            self._rows[key] = tuple(self._own(model, node_type, rows, span))
        return self._rows[key]

    @abstractmethod
    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        """The rows with their times here, without those that cannot run."""


def span_of(shape: Shape, span: Span) -> Span:
    """The span of a shape: one node has its own, whatever was asked."""
    return span if shape.nodes > 1 else Span.NODE


class PairSpeeds(Protocol):
    """Iteration times of pairs of jobs on the same GPUs."""

    @property
    def measures_pairs(self) -> bool:
        """Whether any pair was measured."""
        ...

    def paired_iteration_s(
        self,
        models: tuple[str, str],
        plans: tuple[ExecutionPlan, ExecutionPlan],
        node_type: NodeType,
        shape: Shape,
    ) -> tuple[float, float] | None:
        """Seconds per iteration of either while both hold the same GPUs.

        None where the pair was not measured or does not fit in memory.
        """
        ...


def pair_speeds(speeds: SpeedModel) -> PairSpeeds | None:
    """The pairs that a speed model measures, or None."""
    if getattr(speeds, "measures_pairs", False):
        return cast(PairSpeeds, speeds)
    return None


def require_pair_speeds(speeds: SpeedModel) -> PairSpeeds:
    """The pairs that a speed model measures.

    Raises
    ------
    InputError
        If it measures none.
    """
    found = pair_speeds(speeds)
    if found is None:
        rule = f"the speed table {speeds.name!r} measures no pairs of jobs"
        raise InputError(rule, field="--packing")
    return found
