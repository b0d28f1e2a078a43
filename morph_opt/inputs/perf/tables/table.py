"""Speed model of measured iteration times; only measured configurations can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from morph_opt.core.domain import ExecutionPlan, InputError, NodeType, Shape, SideDemand, Span
from morph_opt.core.domain._validate import require_iteration_s, require_name
from morph_opt.inputs.perf.speed import Configuration, Listed, SpeedModel, require_model


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured iteration time of a configuration.

    Parameters
    ----------
    model
        Training model, for example ``"gpt2"``.
    gpu_type
        Name of the GPU type that it ran on, for example ``"A800-80GB"``.
    shape
        GPUs per node.
    plan
        Execution plan; a 3D plan must need exactly the shape's GPUs.
    iteration_s
        Seconds per training iteration, above 0.
    side
        Node resources held next to each GPU.

    Raises
    ------
    InputError
        If the time is not a positive number or the plan does not fit the shape.
    """

    model: str
    gpu_type: str
    shape: Shape
    plan: ExecutionPlan
    iteration_s: float
    side: SideDemand = SideDemand()

    def __post_init__(self) -> None:
        require_name("model", self.model)
        require_name("gpu_type", self.gpu_type)
        require_iteration_s(self.iteration_s)
        self.plan.require_gpus(self.shape.gpus, "the shape has", "shape")


class MeasuredTable(Listed):
    """Speed model of exactly the measured configurations.

    The span of a placement does not change a measured time: the tables that we read were taken
    on a flat cluster.

    Parameters
    ----------
    measurements
        Rows, in the order in which `configurations` gives them.
    name
        Name in run folders.

    Raises
    ------
    InputError
        If a configuration is listed twice (by model, GPU type, shape and plan) or there is none.
    """

    spans_differ = False

    def __init__(self, measurements: Iterable[Measurement], name: str = "table") -> None:
        require_name("table.name", name)
        super().__init__()
        self.name = name
        self._times: dict[tuple[str, str, Shape, ExecutionPlan], float] = {}
        self._measured: dict[tuple[str, str], list[Configuration]] = {}
        for row in measurements:
            key = (row.model, row.gpu_type, row.shape, row.plan)
            if key in self._times:
                rule = f"{row.model} on {row.gpu_type} with {row.plan} on {row.shape} occurs twice"
                raise InputError(rule, field="placement")
            self._times[key] = row.iteration_s
            found = Configuration(row.shape, row.plan, row.iteration_s, row.side)
            self._measured.setdefault(key[:2], []).append(found)
        if not self._times:
            raise InputError("the table has no rows", field=name)
        self._models = tuple(sorted({model for model, _ in self._measured}))

    def models(self) -> Sequence[str]:
        """Return the names of the measured models, sorted."""
        return self._models

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return measured seconds per iteration, or None if not measured.

        Raises
        ------
        InputError
            If the model is unknown.
        """
        require_model(model, self._models, self.name)
        if shape.parts[0] > node_type.gpus:
            return None
        return self._times.get((model, node_type.gpu_type.name, shape, plan))

    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        """Return the measured rows of the model that fit such nodes.

        Raises
        ------
        InputError
            If the model is unknown.
        """
        require_model(model, self._models, self.name)
        for row in self._measured.get((model, node_type.gpu_type.name), ()):
            if row.shape.parts[0] <= node_type.gpus and row.shape.gpus <= max_gpus:
                yield row


class Joined:
    """Speed model of two others, the first of which takes precedence.

    Parameters
    ----------
    first, then
        Speed models; if both know a model, the first one's speeds count.
    """

    def __init__(self, first: SpeedModel, then: SpeedModel) -> None:
        self.name = f"{first.name}+{then.name}"
        self._first, self._then = first, then
        self._known = frozenset(first.models())

    def models(self) -> Sequence[str]:
        """Return names of both, sorted."""
        return sorted(self._known | set(self._then.models()))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds per iteration, or None if that configuration cannot run."""
        return self._of(model).iteration_s(model, node_type, shape, plan, span)

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Return every configuration that can run; see `SpeedModel`."""
        return self._of(model).configurations(model, node_type, max_gpus, span)

    def _of(self, model: str) -> SpeedModel:
        return self._first if model in self._known else self._then
