"""Statements of users about jobs, in comments or reports.

A stop that comes between a job's last line and its scheduler's knowing of it makes the job run
again. So a job is stopped only where its end is seen to be far: by the work that it reports as
left, or, if the settings allow it, by its user's statement. A time limit does not show it: the job
may end at any moment before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, exists, read_json
from morph_opt.core.domain import ExecutionPlan, InputError, JobState
from morph_opt.live.settings import REPORT, Settings
from morph_opt.round.speeds import SpeedRow
from morph_opt.scheduling.decision.rules.model import GangLimit

_WORD = re.compile(r"([a-z_]+)=(\S+)")
_GPUS = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")
REPORT_FIELDS = ("iterations_left", "iteration_s")

LIMIT_SHARE = 0.9
"""Largest share of the time limit that a job's estimate on other GPUs may take."""


@dataclass(frozen=True, slots=True)
class Stated:
    """Statements of a user about a job; None for those that are missing.

    ``morph checkpoint seconds=3600 model=gpt2 iterations=1000 plan=zero_dp gpus=2-16 restart_s=30``

    Parameters
    ----------
    checkpoint
        Whether it resumes from a checkpoint when it is requeued; no other job is ever stopped.
    seconds
        Run time with its request.
    model, plan, iterations, gpus
        Model, plan, work, and the least and most GPUs that it may have. Without iterations their
        number follows from ``seconds``, or from the time limit, at the speed of its request.
    restart_s, weight
        Cost of a restart in seconds, and weight of the job.
    left, iteration_s
        Iterations to go and seconds of each as it runs now.
    """

    checkpoint: bool = False
    seconds: float | None = None
    model: str | None = None
    plan: ExecutionPlan | None = None
    iterations: int | None = None
    gpus: tuple[int, int] | None = None
    restart_s: float | None = None
    weight: float = 1.0
    left: float | None = None
    iteration_s: float | None = None

    @property
    def malleable(self) -> bool:
        """Whether the statements suffice to give the job another shape."""
        return None not in (self.model, self.gpus)


def stated_of(comment: str, report: Path | None = None) -> tuple[Stated, str]:
    """Parse a comment and a report; return the statements, and what is wrong with them or ""."""
    words = comment.split()[1:]
    found: dict[str, Any] = {"checkpoint": "checkpoint" in words}
    try:
        for key, value in (m.groups() for m in map(_WORD.fullmatch, words) if m):
            if key in ("seconds", "restart_s", "weight", "left", "iteration_s"):
                found[key] = _positive(key, value)
            elif key == "iterations":
                found[key] = max(1, int(_positive(key, value)))
            elif key == "plan":
                found[key] = ExecutionPlan.parse(value)
            elif key == "model":
                found[key] = value
            elif key == "gpus":
                ends = _GPUS.fullmatch(value)
                if ends is None:
                    raise InputError(f"must be A or A-B, got {value!r}", field=key)
                found[key] = int(ends[1]), int(ends[2] or ends[1])
        if report is not None and exists(report):
            read = Fields(read_json(report), "", str(report), REPORT_FIELDS)
            found["left"] = read.number("iterations_left", least=0.0)
            found["iteration_s"] = read.number("iteration_s", above=0.0)
    except InputError as error:
        return Stated(), str(error)
    return Stated(**found), ""


def _positive(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1e12:
        raise InputError(f"must be a positive number, got {value!r}", field=key)
    return number


def unseen_end(
    state: JobState, stated: Stated, age_s: float, iteration_s: float, settings: Settings
) -> str:
    """Return why a running job may end before a stop reaches it; "" if its end is far.

    Parameters
    ----------
    state
        As it is posed: iterations of its model, or seconds.
    age_s
        Seconds for which the report has not changed, so that it is that much older.
    iteration_s
        Seconds of each iteration where it runs.
    """
    if stated.left is not None:
        left_s = stated.left * (stated.iteration_s or iteration_s) - age_s
    elif stated.seconds is None and (stated.iterations is None or stated.model != state.job.model):
        return "nothing is known of its end but its time limit"
    elif settings.stop_needs == REPORT:
        return "does not report what is left"
    else:
        left_s = (state.job.iterations - state.iterations_done) * iteration_s
    # A stop would not be worth what the restart costs, either.
    soon_s = max(state.restart_s, settings.settle_s)
    return "by its word it is about to end, or has ended" if left_s < soon_s else ""


def paces(rows: Iterable[SpeedRow]) -> dict[int, float]:
    """Return, by GPU count, seconds per iteration of the best plan in the slowest place."""
    best: dict[tuple[object, ...], float] = {}
    for row in rows:
        found = row.configuration
        place = found.shape.gpus, row.node_type, found.shape, row.span
        best[place] = min(found.iteration_s, best.get(place, found.iteration_s))
    slowest: dict[int, float] = {}
    for (gpus, *_), iteration_s in best.items():
        assert isinstance(gpus, int)
        slowest[gpus] = max(iteration_s, slowest.get(gpus, 0.0))
    return slowest


def gangs(
    state: JobState,
    stated: Stated,
    by_gpus: Mapping[int, float],
    limit_s: float | None,
    settings: Settings,
) -> GangLimit:
    """Return the numbers of GPUs that a job may have: its request, or more if powers allow.

    A count other than the requested or the present one is left out if the job is estimated to reach
    its time limit there.

    Parameters
    ----------
    by_gpus
        Seconds of an iteration by GPUs.
    limit_s
        Time limit of a run; None without one.
    """
    asked, held = state.job.requested_gpus, state.running and state.running.placement.gpus
    if "shape" not in settings.powers or stated.gpus is None or not stated.malleable:
        return GangLimit((state.job.name,), asked, asked)
    least, most = stated.gpus
    if limit_s is not None:
        left = state.job.iterations - state.iterations_done
        ready_s = LIMIT_SHARE * limit_s - (state.restart_s if state.starts else 0.0)
        late = {gpus for gpus, pace_s in by_gpus.items() if pace_s * left > ready_s} - {asked, held}
        least = max([least, *(gpus + 1 for gpus in late if gpus < asked)])
        most = min([most, *(gpus - 1 for gpus in late if gpus > asked)])
    if least > most:
        least = most = asked
    return GangLimit((state.job.name,), min(least, held or least), max(most, held or most))
