"""Settings of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from morph_opt.core.domain import InputError, Job, Range
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.options import documented, option, require_all
from morph_opt.core.domain.round_state import first_boundary
from morph_opt.core.domain.starting import StartPrices

_SINCE_SAVED = Range(0.0, 1e9)
"""Range of seconds of progress that a stop takes away."""
_STARTS = Range(0.0, 1e7)
"""Range of a start-up in seconds; beyond it instants would lose their fractions."""


def _rounds(text: str) -> str:
    """Return the text if it names a way to begin rounds."""
    if text not in ("interval", "events"):
        raise InputError(f"must be interval or events, got {text!r}", field="--rounds")
    return text


@documented
@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Settings of the engine, in addition to trace, cluster, policy and true speeds.

    Boundaries of rounds are the multiples of ``interval_s``, or events. Start-up times are defined
    in `morph_opt.core.domain.starting`: after a node's failure or a start-up that is cut short a
    job starts anew. None means the next longer start-up time.

    Raises
    ------
    InputError
        If a value is out of range, or start-up times are in the wrong order.
    """

    interval_s: float = option(
        60.0,
        "seconds of a round",
        flag="--interval",
        metavar="S",
        range=Range(0.1, 1e7),
        common=True,
    )
    rounds: str = option(
        "interval",
        "begin of rounds: every --interval, or events: submissions, ends, changes of nodes and "
        "instants that the policy names",
        metavar="interval|events",
        parse=_rounds,
    )
    restart_s: float = option(
        260.0,
        "start-up seconds of every start and change; repeat for single models",
        metavar="S|MODEL=S",
        range=_STARTS,
        by_name="restart_s_by_model",
        common=True,
    )
    first_start_s: float | None = option(
        None,
        "start-up seconds of first starts (--restart-s; 0 for a log)",
        metavar="S",
        range=_STARTS,
    )
    restart_s_by_model: Mapping[str, float] = option(
        {}, "start-up seconds of single models in place of restart_s", range=_STARTS, hidden=True
    )
    lost_work_s: float = option(
        0.0,
        "seconds of progress that a preemption loses, at most those since the last start",
        flag="--lost-work",
        metavar="S",
        range=_SINCE_SAVED,
    )
    checkpoint_s: float = option(
        1800.0,
        "seconds of progress between two checkpoints; repeat for single models; 0: nothing is lost",
        metavar="S|MODEL=S",
        range=_SINCE_SAVED,
        by_name="checkpoint_s_by_model",
    )
    checkpoint_s_by_model: Mapping[str, float] = option(
        {}, "the same of single models in place of checkpoint_s", range=_SINCE_SAVED, hidden=True
    )
    at_stop: str = option(
        "keep",
        "progress of a job that the policy stops or moves: keep (all but --lost-work) or "
        "checkpoint (as of the last one, which a node failure always leaves)",
        metavar="keep|checkpoint",
        choices=("keep", "checkpoint"),
    )
    until_s: float | None = option(
        None,
        "stop at this simulated instant (when every job is complete)",
        metavar="S",
        range=Range(0.0, 1e12, above=True),
        common=True,
    )
    stall_rounds: int = option(
        1000,
        "rounds without anything running, arriving or changing after which a replay ends",
        range=Range(1, 10**9, whole=True),
        hidden=True,
    )
    resume_s: float | None = option(
        None,
        "start-up seconds of a job back on its last nodes in its last plan (--migrate-s)",
        metavar="S",
        range=_STARTS,
    )
    migrate_s: float | None = option(
        None,
        "start-up seconds in the last plan on other nodes (--restart-s)",
        metavar="S",
        range=_STARTS,
    )

    def __post_init__(self) -> None:
        require_all(self)
        if self.at_stop == "checkpoint" and self.lost_work_s:
            rule = f"has no effect with {typed('--at-stop')} checkpoint, which decides what is lost"
            raise InputError(rule, field="lost_work_s")
        least_s = min((self.restart_s, *self.restart_s_by_model.values()))
        for name, dearer_s, what in (
            ("first_start_s", least_s, "restart"),
            ("migrate_s", least_s, "restart"),
            ("resume_s", least_s, "restart"),
            ("resume_s", self.migrate_s, "migration"),
        ):
            seconds = getattr(self, name)
            if seconds is not None and dearer_s is not None and seconds > dearer_s:
                rule = f"must be at most {dearer_s:g}, the seconds of a {what}, got {seconds:g}"
                raise InputError(rule, field=name)

    def restart_of(self, model: str) -> float:
        """Return start-up seconds of a model."""
        return float(self.restart_s_by_model.get(model, self.restart_s))

    def checkpoint_of(self, job: Job) -> float:
        """Return seconds of progress between two checkpoints of a job; 0 if a stop loses none."""
        if job.checkpoint_s is not None:
            return job.checkpoint_s
        return float(self.checkpoint_s_by_model.get(job.model, self.checkpoint_s))

    def first_start_of(self, model: str) -> float:
        """Return start-up seconds of a model that never ran."""
        return self.restart_of(model) if self.first_start_s is None else float(self.first_start_s)

    def prices_of(self, restart_s: float) -> StartPrices:
        """Return the start-up times of a job with this restart time."""
        return StartPrices.of(restart_s, self.migrate_s, self.resume_s)

    @property
    def at_events(self) -> bool:
        """Whether rounds begin at events."""
        return self.rounds == "events"

    def first_s(self, time_s: float) -> float:
        """Return the earliest instant at or after ``time_s`` at which a round may begin."""
        return time_s if self.at_events else self.boundary_at_or_after(time_s) * self.interval_s

    def boundary_at_or_after(self, time_s: float) -> int:
        """Return the number of the first multiple of ``interval_s`` at or after an instant."""
        return first_boundary(time_s, self.interval_s)
