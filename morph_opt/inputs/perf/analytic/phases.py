"""Phases that a run reports, and the parts of the model in each of them.

A profiler reports forward, synchronisation (backward pass and gradients) and optimizer times of an
iteration. They separate constants that the iteration time alone mixes. The content of a phase
depends on the synchronisation of its timer, see `Timers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from morph_opt.core.domain import ExecutionPlan, InputError, PlanFamily
from morph_opt.core.domain._validate import require_finite
from morph_opt.inputs.perf.analytic.architecture import PARTS
from morph_opt.inputs.perf.parameters import PHASES


class Timers(StrEnum):
    """Kinds of timers of phases."""

    SYNCHRONISED = "synchronised"
    """Timers that wait for the kernels of every phase, as recommended."""
    STREAMED = "streamed"
    """Timers that do not wait for kernels.

    The forward phase ends with its launches: its compute is in the next phase, and gradients
    that do not overlap the backward pass are in the optimizer phase."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Part of an iteration that a run reports.

    Parameters
    ----------
    parts
        Names from `PARTS`.
    seconds
        Duration, above 0.
    """

    parts: tuple[str, ...]
    seconds: float

    def __post_init__(self) -> None:
        require_finite("phase.seconds", self.seconds, above=0.0)
        unknown = set(self.parts) - set(PARTS)
        if unknown or not self.parts:
            raise InputError(f"must be some of {', '.join(PARTS)}", field="phase.parts")


def booked(plan: ExecutionPlan, timers: Timers) -> tuple[tuple[str, ...], ...]:
    """Return the parts of the model that a run reports in each of its four phases."""
    if plan.family is PlanFamily.THREE_D:
        # a pipeline runs both passes at once
        return ((), ("forward", "backward"), ("optimizer",), ("stall", "gradients", "rest"))
    if timers is Timers.SYNCHRONISED:
        return (("forward", "stall"), ("backward", "gradients"), ("optimizer",), ("rest",))
    if plan.family is PlanFamily.DP:
        return ((), ("forward", "backward"), ("gradients", "optimizer"), ("stall", "rest"))
    return ((), ("forward", "backward", "gradients"), ("optimizer",), ("stall", "rest"))


def phases_of(
    plan: ExecutionPlan,
    iteration_s: float,
    reported_s: tuple[float, float, float],
    timers: Timers = Timers.SYNCHRONISED,
) -> tuple[Phase, ...]:
    """Return the phases of a run from its forward, synchronisation and optimizer times.

    A phase of 0 counts as part of synchronisation.

    Raises
    ------
    InputError
        If a time is negative or their sum exceeds the iteration by far.
    """
    for time in reported_s:
        require_finite("phase.seconds", time, at_least=0.0)
    field, take = "forward_s, sync_s, optimizer_s", f"the phases take {sum(reported_s):.4g} s"
    if sum(reported_s) > PHASES.most * iteration_s:
        raise InputError(f"{take}, the iteration {iteration_s:.4g} s", field=field)
    if sum(reported_s) < PHASES.least * iteration_s:
        rule = (
            f"{take} of an iteration of {iteration_s:.4g} s; are they in another unit, or of one "
        )
        rule += "micro-batch? Leave all three empty if not measured"
        raise InputError(rule, field=field)
    least = PHASES.negligible * iteration_s
    forward, sync, optimizer, rest = booked(plan, timers)
    forward_s, sync_s, optimizer_s = reported_s
    if not forward or forward_s < least:
        sync, sync_s, forward, forward_s = forward + sync, forward_s + sync_s, (), 0.0
    if optimizer_s < least:
        sync, sync_s, optimizer, optimizer_s = sync + optimizer, sync_s + optimizer_s, (), 0.0
    rest_s = iteration_s - forward_s - sync_s - optimizer_s
    found = [(forward, forward_s), (sync, sync_s), (optimizer, optimizer_s), (rest, rest_s)]
    return tuple(Phase(parts, time) for parts, time in found if parts and time > least)
