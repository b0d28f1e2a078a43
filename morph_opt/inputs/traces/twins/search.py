"""``search-twin``: hyper-parameter searches, generated; nothing to download.

Alone it is a day's searches among other jobs: searches of 8, 16 or 32 trials on one GPU each come
as a Poisson process, their work is lognormal about an hour, each trial reports after a minute, and
the best continues. With a number of trials as argument, it is one search of equal trials at 0, as
in the comparison of time slices with first come first served.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from morph_opt.core.domain import InputError, Job, Range, Trace
from morph_opt.core.domain.trace import Search
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.format import SECONDS, generated
from morph_opt.inputs.traces.twins.sampling import stream

SEARCH_TWIN = "search-twin"
"""Name of the twin."""

ONE_SEARCH = ("16", "64")
"""Listed numbers of trials of one search; others are accepted, too."""

TRIALS = Range(2, 4096, whole=True)
FEEDBACK_S, WORK_S = 60, 3600
"""Seconds until a trial's report, and of a whole trial; an iteration is a second."""

_SEARCHES, _OTHERS = 8, 24
_SIZES = (8, 16, 32)
_GAP_S, _OTHER_GAP_S = 3000.0, 1000.0
_GANGS = ((1, 2, 4), (0.6, 0.25, 0.15))
_MODEL = "trial"


def search_twin(argument: str, seed: int = 0) -> tuple[Trace, GangTable]:
    """Return the twin of a seed, or one search of ``argument`` trials, with its speed model.

    Raises
    ------
    InputError
        If the seed is negative, or the argument is no number of trials.
    """
    rng = stream(16, seed)
    if argument:
        if not argument.isdecimal():
            rule = f"{SEARCH_TWIN} takes a number of trials, got {argument!r}"
            raise InputError(rule, field="trace")
        TRIALS.require("trace", int(argument))
        jobs, searches = _search(rng, 0, int(argument), 0.0, WORK_S)
        gangs, name = [Gang(1, _MODEL)], f"{SEARCH_TWIN}/{argument}"
    else:
        jobs, searches, gangs, name = _day(rng)
    notice = f"{name}: generated hyper-parameter searches (seed {seed}), not an original"
    return Trace.of(name, jobs, notice, searches), GangTable(gangs)


def _job(name: str, gpus: int, submit_s: float, work_s: int) -> Job:
    """Return a gang that reports after a minute of work."""
    job = Gang(gpus, _MODEL).job(name, submit_s, work_s)
    return replace(job, feedback_iterations=min(FEEDBACK_S, work_s))


def _search(
    rng: np.random.Generator, number: int, trials: int, submit_s: float, work_s: int
) -> tuple[list[Job], list[Search]]:
    """Draw one search: equal trials, ranked at random."""
    names = [f"search-{number}-{trial:03d}" for trial in range(trials)]
    jobs = [_job(name, 1, submit_s, work_s) for name in names]
    ranked = tuple(names[at] for at in rng.permutation(trials).tolist())
    return jobs, [Search(f"search-{number}", ranked, 1)]


def _day(rng: np.random.Generator) -> tuple[list[Job], list[Search], list[Gang], str]:
    """Draw a day of searches, and of other jobs that report but belong to no search."""
    jobs: list[Job] = []
    searches: list[Search] = []
    for number, at in enumerate(np.floor(np.cumsum(rng.exponential(_GAP_S, _SEARCHES))).tolist()):
        work_s = round(float(np.clip(rng.lognormal(np.log(WORK_S), 0.7), 600, 20_000)))
        more = _search(rng, number, int(rng.choice(_SIZES)), float(at), work_s)
        jobs += more[0]
        searches += more[1]
    sizes, odds = _GANGS
    arrivals = np.floor(np.cumsum(rng.exponential(_OTHER_GAP_S, _OTHERS))).tolist()
    for number, at in enumerate(arrivals):
        gang = int(rng.choice(sizes, p=odds))
        work_s = round(float(np.clip(rng.lognormal(np.log(WORK_S), 1.2), 120, 40_000)))
        name = f"other-{number:03d}"
        jobs.append(_job(name, gang, float(at), work_s))
    return jobs, searches, [Gang(gang, _MODEL) for gang in sizes], SEARCH_TWIN


FORMAT = generated(
    SEARCH_TWIN, search_twin, SECONDS, "2x4:V100", arguments=("", *ONE_SEARCH), others=True
)
"""Trace format of the twin."""
