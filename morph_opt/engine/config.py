"""Settings of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from morph_opt.domain import InputError
from morph_opt.domain.round_state import first_boundary


def _require_number(name: str, value: float, *, at_least: float = 0.0, above: bool = False) -> None:
    """A finite number, at least (or strictly above) the limit."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < at_least or (above and value == at_least):
        rule = "above" if above else "at least"
        raise InputError(f"must be a number {rule} {at_least:g}, got {value!r}", field=name)


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """What decides how a replay runs, next to trace, cluster, policy and true speeds.

    Parameters
    ----------
    interval_s
        Seconds between two decisions; boundaries are its multiples from 1 on.
    restart_s
        Start-up of a first start and of every change of shape, plan, node or GPU, seconds.
    restart_s_by_model
        Start-up of single models in place of ``restart_s``.
    lost_work_s
        Seconds of progress that a job loses when the policy stops it (to queue it or to change
        it); never more than it made since its last start.
    checkpoint_s
        Seconds of progress between two checkpoints: what a node failure can cost. 0 means that
        every iteration is saved.
    until_s
        Horizon: the replay stops at this instant; None runs until every job is complete.
    stall_rounds
        The replay gives up when nothing ran, arrived or changed for so many rounds.
    seed
        Recorded; the engine itself draws nothing.

    Raises
    ------
    InputError
        If a value is negative, not finite, or the interval is 0.
    """

    interval_s: float = 60.0
    restart_s: float = 260.0
    restart_s_by_model: Mapping[str, float] = field(default_factory=dict)
    lost_work_s: float = 0.0
    checkpoint_s: float = 1800.0
    until_s: float | None = None
    stall_rounds: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _require_number("interval_s", self.interval_s, above=True)
        _require_number("restart_s", self.restart_s)
        for model, seconds in self.restart_s_by_model.items():
            _require_number(f"restart_s of {model}", seconds)
        _require_number("lost_work_s", self.lost_work_s)
        _require_number("checkpoint_s", self.checkpoint_s)
        if self.until_s is not None:
            _require_number("until_s", self.until_s, above=True)
        if isinstance(self.stall_rounds, bool) or self.stall_rounds < 1:
            raise InputError(f"must be at least 1, got {self.stall_rounds}", field="stall_rounds")

    def restart_of(self, model: str) -> float:
        """Start-up seconds of a model."""
        return float(self.restart_s_by_model.get(model, self.restart_s))

    def boundary_at_or_after(self, time_s: float) -> int:
        """Number k >= 1 of the first boundary that is not before an instant."""
        return first_boundary(time_s, self.interval_s)
