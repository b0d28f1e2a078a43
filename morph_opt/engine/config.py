"""Settings of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from morph_opt.domain import InputError, Range
from morph_opt.domain.round_state import first_boundary
from morph_opt.domain.starting import StartPrices

RANGES = {
    "interval_s": Range(0.1, 1e7),
    "restart_s": Range(0.0, 1e7),
    "first_start_s": Range(0.0, 1e7),
    "resume_s": Range(0.0, 1e7),
    "migrate_s": Range(0.0, 1e7),
    "lost_work_s": Range(0.0, 1e9),
    "checkpoint_s": Range(0.0, 1e9),
    "until_s": Range(0.0, 1e12, above=True),
    "stall_rounds": Range(1, 10**9, whole=True),
    "first_boundary": Range(0, 1, whole=True),
    "mtbf_s": Range(60.0, 1e12),
    "mttr_s": Range(1.0, 1e9),
}
"""What is accepted of each setting, those of random failures included: from values below which a
replay would count instants for ever to values beyond which instants lose their fractions."""


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """What decides how a replay runs, next to trace, cluster, policy and true speeds.

    Parameters
    ----------
    interval_s
        Seconds between two decisions; boundaries are its multiples.
    restart_s
        Start-up of a first start and of every change of shape, plan, node or GPU, seconds.
    first_start_s
        Start-up of a first start, of every model, at most that of any other; None for the same.
    resume_s, migrate_s
        Start-up of a job in its plan on the nodes and GPU counts that it had last, and of one in
        its plan elsewhere, of every model: at most ``migrate_s``, and at most that of any restart;
        None for the same (see `morph_opt.domain.starting`). A node's failure takes what it
        kept, and a start-up that is cut short leaves nothing.
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
    first_boundary
        1: what is submitted at 0 waits for the first boundary after it, as everything else that
        comes between two boundaries. 0: the boundary at 0 decides what is there at 0, as
        event-driven simulators do.

    Raises
    ------
    InputError
        If a value is outside `RANGES`.
    """

    interval_s: float = 60.0
    restart_s: float = 260.0
    first_start_s: float | None = None
    restart_s_by_model: Mapping[str, float] = field(default_factory=dict)
    lost_work_s: float = 0.0
    checkpoint_s: float = 1800.0
    until_s: float | None = None
    stall_rounds: int = 1000
    first_boundary: int = 1
    resume_s: float | None = None
    migrate_s: float | None = None

    def __post_init__(self) -> None:
        for name in (
            "interval_s",
            "restart_s",
            "lost_work_s",
            "checkpoint_s",
            "stall_rounds",
            "first_boundary",
        ):
            RANGES[name].require(name, getattr(self, name))
        least_s = min((self.restart_s, *self.restart_s_by_model.values()))
        for name, dearer_s, what in (
            ("first_start_s", least_s, "restart"),
            ("migrate_s", least_s, "restart"),
            ("resume_s", least_s, "restart"),
            ("resume_s", self.migrate_s, "migration"),
        ):
            seconds = getattr(self, name)
            if seconds is None:
                continue
            RANGES[name].require(name, seconds)
            if dearer_s is not None and seconds > dearer_s:
                rule = f"must be at most that of a {what}, {dearer_s:g} s, got {seconds:g}"
                raise InputError(rule, field=name)
        for model, seconds in self.restart_s_by_model.items():
            RANGES["restart_s"].require(f"restart_s of {model}", seconds)
        if self.until_s is not None:
            RANGES["until_s"].require("until_s", self.until_s)

    def restart_of(self, model: str) -> float:
        """Start-up seconds of a model."""
        return float(self.restart_s_by_model.get(model, self.restart_s))

    def first_start_of(self, model: str) -> float:
        """Start-up seconds of a model that never ran."""
        return self.restart_of(model) if self.first_start_s is None else float(self.first_start_s)

    def prices_of(self, restart_s: float) -> StartPrices:
        """Prices of the starts of a job whose restarts cost so much."""
        return StartPrices.of(restart_s, self.migrate_s, self.resume_s)

    def boundary_at_or_after(self, time_s: float) -> int:
        """Number of the first boundary that is not before an instant."""
        return first_boundary(time_s, self.interval_s, self.first_boundary)
