"""The objective ``auto``: what is taken where the user names none, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from morph_opt.decision.promises import FACTOR, Promises
from morph_opt.domain import Job
from morph_opt.policies.blind import Durations
from morph_opt.policies.objectives.plain import Lookahead, SavedTime

if TYPE_CHECKING:
    from morph_opt.policies.options import DecisionOptions

AUTO = "auto"


def objective_for(options: DecisionOptions) -> SavedTime | Lookahead:
    """`SavedTime` where policies know what jobs have left, if only about; else `Lookahead`.

    Dividing by the time for which GPUs are held pays where that is known; on guesses it does not.
    """
    blind = Durations.parse(options.durations).blind
    return Lookahead(name=AUTO) if blind else SavedTime(name=AUTO)


def promises_for(options: DecisionOptions) -> Promises:
    """As the options say; where they say nothing by weight under ``auto``, else by rank."""
    if options.promises is not None:
        return Promises.parse(options.promises)
    return Promises(FACTOR) if options.objective == AUTO else Promises()


def chosen(policy: str, options: DecisionOptions, jobs: Iterable[Job]) -> str | None:
    """What ``auto`` takes for jobs like these, and why, in a line; None under other objectives."""
    if policy != "milp" or options.objective != AUTO:
        return None
    durations = Durations.parse(options.durations)
    if durations.blind:
        what = "auto: lookahead on guesses, as in jct-blind, because durations are unknown"
    elif durations.sigma:
        what = "auto: saved-time, because durations are estimated"
    else:
        what = "auto: saved-time, because durations are known"
    promised = sum(job.guaranteed for job in jobs)
    if not promised:
        return what
    factor = promises_for(options).factor
    how = "by rank" if factor is None else f"by weight {factor:g}"
    are = "1 is" if promised == 1 else f"{promised} are"
    why = "as asked" if options.promises is not None else f"because {are} guaranteed"
    return f"{what}; promises {how}, {why}"
