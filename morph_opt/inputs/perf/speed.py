"""Protocols of speed models: seconds per iteration of a configuration, alone and in pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

from morph_opt.core.domain import ExecutionPlan, InputError, NodeType, Shape, SideDemand, Span
from morph_opt.core.domain.errors import some


@dataclass(frozen=True, slots=True)
class Configuration:
    """Shape and plan of a model with its speed: a row of a speed model.

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
        listed = some(sorted(known), _SHOWN)
        rule = f"unknown model {model!r}, the speed model {name!r} knows {listed}"
        raise InputError(rule, field="model")


class SpeedModel(Protocol):
    """Protocol of speeds: seconds per iteration by model, node type, shape, plan and span.

    Truth and belief of a replay are two such models.

    Implementations are immutable during a round and deterministic.
    """

    @property
    def name(self) -> str:
        """Name in run folders: ``"table"``, ``"model"``."""
        ...

    def models(self) -> Sequence[str]:
        """Return the names of the known training models, sorted."""
        ...

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds per iteration, or None if that configuration cannot run.

        It can run if and only if `configurations` offers it for as many GPUs.
        """
        ...

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Return every configuration on nodes of this type with at most ``max_gpus`` GPUs.

        ``span`` applies to placements on several nodes; one-part shapes always have `Span.NODE`.
        The order is deterministic.
        """
        ...


class LearningModel(SpeedModel, Protocol):
    """Protocol of beliefs that learn from running jobs between rounds."""

    @property
    def version(self) -> int:
        """Number that grows with every observation that changes an answer."""
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
        """Take in seconds per iteration and return whether answers have changed."""
        ...


class Listed(ABC):
    """Speed model that lists its configurations once for each question."""

    spans_differ: ClassVar[bool] = True
    """Whether speeds depend on the span."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, NodeType, int, Span], tuple[Configuration, ...]] = {}

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Return every configuration, as a cached tuple; see `SpeedModel`."""
        key = (model, node_type, max_gpus, span if self.spans_differ else Span.LEAF)
        if key not in self._rows:
            self._rows[key] = tuple(self._listed(*key))
        return self._rows[key]

    @abstractmethod
    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        """Return every configuration, in their order."""


class SpeedsOver(Listed):
    """Speed model with the configurations of another one and its own times.

    Parameters
    ----------
    base
        Speed model with the possible configurations.
    """

    def __init__(self, base: SpeedModel) -> None:
        super().__init__()
        self._base = base

    def models(self) -> Sequence[str]:
        """Return the names that the base knows, sorted."""
        return self._base.models()

    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        rows = self._base.configurations(model, node_type, max_gpus, span)
        return self._own(model, node_type, rows, span)

    @abstractmethod
    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        """Return the rows with this model's times, without those that cannot run."""


def span_of(shape: Shape, span: Span) -> Span:
    """Return the span of a shape; shapes on one node always have `Span.NODE`."""
    return span if shape.nodes > 1 else Span.NODE


Plans = tuple[ExecutionPlan, ExecutionPlan]
"""Plans of two jobs on the same GPUs."""


class PairSpeeds(Protocol):
    """Protocol of iteration times of two jobs on the same GPUs."""

    @property
    def measures_pairs(self) -> bool:
        """Whether any pair was measured."""
        ...

    def paired_iteration_s(
        self, models: tuple[str, str], plans: Plans, node_type: NodeType, shape: Shape
    ) -> tuple[float, float] | None:
        """Return seconds per iteration of each job while both hold the same GPUs.

        None if the pair was not measured or does not fit in memory.
        """
        ...


def pair_speeds(speeds: SpeedModel) -> PairSpeeds | None:
    """Return a speed model as `PairSpeeds`, or None if it measures no pairs."""
    if getattr(speeds, "measures_pairs", False):
        return cast(PairSpeeds, speeds)
    return None


def require_pair_speeds(speeds: SpeedModel) -> PairSpeeds:
    """Return a speed model as `PairSpeeds`.

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
