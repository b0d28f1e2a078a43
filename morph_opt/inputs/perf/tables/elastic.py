"""Times of elastic workers by GPU type, for EasyScale's jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from morph_opt.core.domain import ExecutionPlan, InputError, NodeType, PlanFamily, Shape, Span
from morph_opt.inputs.perf.ests import UNIT_S, elastic_model
from morph_opt.inputs.perf.speed import Configuration, require_model

LONGEST_S = 10**6
"""Longest time of a worker's mini-batch in seconds, so that steps fit 64-bit integers."""


class ElasticTable:
    """Speed model of jobs with a fixed number of workers.

    Parameters
    ----------
    seconds
        Seconds of one worker's mini-batch, by model and name of the GPU type; text is read exactly.
    """

    name = "elastic"

    def __init__(self, seconds: Mapping[str, Mapping[str, str | float]]) -> None:
        self._units: dict[str, dict[str, int]] = {}
        for model, times in seconds.items():
            units = {kind: round(Fraction(str(time)) / UNIT_S) for kind, time in times.items()}
            for kind, unit in units.items():
                if not 1 <= unit <= LONGEST_S / UNIT_S:
                    rule = f"from {float(UNIT_S):g} to {LONGEST_S:g} s"
                    got = f"{float(unit * UNIT_S):g}"
                    rule = f"must take a worker {rule} on {kind}, got {got}"
                    raise InputError(rule, field=f"model {model}")
            self._units[model] = units

    def models(self) -> Sequence[str]:
        """Return the names, sorted."""
        return sorted(self._units)

    def worker_units(self, model: str, gpu_type: str) -> int | None:
        """Return the time of a mini-batch; see `morph_opt.inputs.perf.ests.ElasticSpeeds`."""
        require_model(model, self._units, self.name)
        return self._units[model].get(gpu_type)

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds of a step of all workers on GPUs of one type, wherever they are."""
        if plan.family is not PlanFamily.EST:
            return None
        known = elastic_model(self, model, plan, (node_type.gpu_type.name,))
        return None if known is None else known.step_s((shape.gpus,))

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Return no configurations: workers run on GPUs by type and not in shapes."""
        self.worker_units(model, "")
        return ()
