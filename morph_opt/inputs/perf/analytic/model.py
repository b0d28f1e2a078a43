"""Analytic model as a speed model: architectures, constants and supports by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from formulations.arrays import Floats
from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, NodeType, Shape, Span
from morph_opt.inputs.perf.analytic.architecture import (
    CONSTANT_NAMES,
    Architecture,
    Constants,
    Features,
)
from morph_opt.inputs.perf.analytic.layout import rails
from morph_opt.inputs.perf.analytic.support import Support, side_demand
from morph_opt.inputs.perf.analytic.terms import predict_s
from morph_opt.inputs.perf.speed import Configuration, Listed, require_model, span_of

POD_SLOWDOWN = 2.0
"""Network slowdown across leaf switches if it was not measured: 2:1 oversubscription."""


@dataclass(frozen=True, slots=True)
class Quirk:
    """Public measurements that did not train the whole global batch.

    Parameters
    ----------
    gpus
        GPU count of these rows.
    plans
        Plans of these rows.
    work
        Share of the global batch's compute that they did.
    """

    gpus: int
    plans: tuple[ExecutionPlan, ...]
    work: float


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """Description of one training model for the speed model.

    Parameters
    ----------
    architecture
        Architecture, known before any run.
    constants
        Fitted on nodes of type `A800_NODE`.
    support
        Plans and shapes that can run.
    quirks
        Deviations of the public measurements that a synthetic trace reproduces.
    """

    architecture: Architecture
    constants: Constants
    support: Support
    quirks: tuple[Quirk, ...] = ()


class AnalyticModel(Listed):
    """Speed model that predicts; deterministic, and immutable but for its caches.

    Parameters
    ----------
    entries
        Models; names must be unique.
    name
        Name in run folders.
    gpu_speed
        Compute speed by GPU type name relative to the GPU that the constants were fitted on. A
        GPU type that is not listed runs nothing: extrapolating to other chips is the user's
        decision, never a silent one.

    Raises
    ------
    InputError
        If there is no entry or two share a name.
    """

    def __init__(
        self,
        entries: Iterable[ModelEntry],
        *,
        name: str = "model",
        gpu_speed: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self._name = name
        self._entries: dict[str, ModelEntry] = {}
        for entry in entries:
            if entry.architecture.name in self._entries:
                raise InputError(f"{entry.architecture.name!r} occurs twice", field="model")
            self._entries[entry.architecture.name] = entry
        if not self._entries:
            raise InputError("the speed model has no entries", field=name)
        self._gpu_speed = dict(gpu_speed or {A800_NODE.gpu_type.name: 1.0})
        self._models = tuple(sorted(self._entries))
        self._times: dict[tuple[str, NodeType, Shape, ExecutionPlan, Span], float | None] = {}

    @property
    def name(self) -> str:
        """Name in run folders."""
        return self._name

    def models(self) -> Sequence[str]:
        """Return the names of the known models, sorted."""
        return self._models

    def entry(self, model: str) -> ModelEntry:
        """Return the entry of a model.

        Raises
        ------
        InputError
            If the model is unknown.
        """
        require_model(model, self._entries, self._name)
        return self._entries[model]

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return predicted seconds per iteration; None if `configurations` lacks the pair."""
        key = (model, node_type, shape, plan, span_of(shape, span))
        if key not in self._times:
            self.configurations(model, node_type, shape.gpus, span)  # stores their times
            self._times.setdefault(key, None)
        return self._times[key]

    def extrapolated(self) -> ExtrapolatedModel:
        """Return the same predictions for every shape that a plan can run on, offered or not."""
        return ExtrapolatedModel(self)

    def predicted_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return predicted seconds per iteration, or None if the plan cannot run on that shape.

        Shapes that `configurations` does not offer are predicted as well.
        """
        entry = self.entry(model)
        if shape.parts[0] > node_type.gpus:
            return None
        if not entry.support.allows(entry.architecture, shape, plan):
            return None
        found = self._predict(entry, node_type, [(shape, plan)], span)
        return found[0] if found else None

    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        """Return the model's support with predicted times."""
        entry = self.entry(model)
        pairs = list(entry.support.pairs(entry.architecture, node_type.gpus, max_gpus))
        times = self._predict(entry, node_type, pairs, span)
        for (shape, plan), seconds in zip(pairs, times, strict=False):
            self._times[model, node_type, shape, plan, span_of(shape, span)] = seconds
            side = side_demand(entry.architecture, shape, plan, seconds)
            yield Configuration(shape, plan, seconds, side)

    def _predict(
        self,
        entry: ModelEntry,
        node_type: NodeType,
        pairs: Sequence[tuple[Shape, ExecutionPlan]],
        span: Span,
    ) -> list[float]:
        """Return times of the pairs; an empty list on GPUs that the model does not know."""
        speed = self._gpu_speed.get(node_type.gpu_type.name)
        if speed is None or not pairs:
            return []
        vector = constants_on(entry.constants, node_type, span)
        features = Features.of(pairs)
        share = [
            next((q.work for q in entry.quirks if q.gpus == s.gpus and p in q.plans), 1.0)
            for s, p in pairs
        ]
        features.columns["work"][:] *= share
        features.columns["work"][:] /= speed
        return [float(t) for t in predict_s(entry.architecture, vector, features)]


def constants_on(constants: Constants, node_type: NodeType, span: Span) -> Floats:
    """Return the constants on another node type and span, scaled by nominal bandwidths."""
    vector = constants.vector()
    at = {name: i for i, name in enumerate(CONSTANT_NAMES)}
    nvlink = node_type.nvlink_gb_per_s / A800_NODE.nvlink_gb_per_s
    per_card = node_type.rdma_gb_per_s / rails(node_type.gpus)
    card = per_card / (A800_NODE.rdma_gb_per_s / rails(A800_NODE.gpus))
    vector[at["nvlink_gb_per_s"]] *= nvlink
    vector[at["tensor_gb_per_s"]] *= nvlink
    vector[at["rail_gb_per_s"]] *= card / (POD_SLOWDOWN if span is Span.POD else 1.0)
    if span is Span.NVLINK:
        vector[at["rail_gb_per_s"]] = vector[at["nvlink_gb_per_s"]]
    return vector


class ExtrapolatedModel:
    """Analytic model with predictions for every shape that a plan can run on.

    It offers the model's configurations; `FeasibleBelief` (`inputs.perf.tables`) asks it for times
    of the truth's configurations.
    """

    def __init__(self, model: AnalyticModel) -> None:
        self._model = model
        self.name = model.name
        self.models = model.models
        self.configurations = model.configurations
        self.iteration_s = lru_cache(maxsize=None)(model.predicted_s)
