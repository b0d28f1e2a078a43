"""Measured speeds of two jobs that share the same GPUs; not every speed model has them."""

from __future__ import annotations

from typing import Protocol, cast

from morph_opt.domain import ExecutionPlan, InputError, NodeType, Shape
from morph_opt.perf.speed import SpeedModel


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
