"""Arrivals after an instant: the rest of a seeded family's member, or days of a history.

A member of a family has a last job, and so has the future of a state of such a member: after n jobs
come as many as the family has left, whatever the clock. Where a state belongs to no member,
arrivals do not end.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.core.domain import SEEDS, InputError, Job
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.inputs.traces.resampled import BLOCK_S, DAYS, history_note
from morph_opt.plan.parameters import HISTORY
from morph_opt.plan.workloads import is_family, loaded, read_from, require_blocks
from morph_opt.replay.scenario import Workload

DAY_S = BLOCK_S[DAYS]


Draw = Callable[[float, float, int], list[Job]]
"""Function that draws the jobs submitted after an instant up to another, by a seed."""


@dataclass(frozen=True, slots=True)
class Coming:
    """Arrivals that a forecast may draw.

    Parameters
    ----------
    draw
        See `Draw`.
    futures
        Number of different futures of the next hours; None if one per seed.
    whole
        Whether draws end by themselves, so that one horizon is enough.
    notes
        Notes for the answer.
    speeds
        Speeds of models that the state may not know, such as a log's gangs; None if it knows all.
    """

    draw: Draw
    futures: int | None = None
    whole: bool = True
    notes: tuple[str, ...] = ()
    speeds: SpeedModel | None = None


NOTHING = Coming(lambda *_: [], 1, True, ("nothing arrives: no history was given",))


def coming(history: str, known: Iterable[str] = (), **options: Any) -> Coming:
    """Return the arrivals of a trace after a state that has jobs of these names.

    From a seeded family, the rest of the member to which the state belongs (`arrived_of`), or
    members without an end if it belongs to none; from any other trace, days.

    Parameters
    ----------
    history
        As `morph_opt.inputs.traces.registry.load_trace` takes it.
    known
        Names that are taken.
    **options
        Options of the history.

    Raises
    ------
    InputError
        If the history has fewer than two whole days.
    """
    taken = frozenset(known)
    if is_family(history):
        family = Workload(history, **options)
        return of_family(family, arrived_of(family, taken), taken)
    past = load_trace(history, **options)
    days = require_blocks(past.trace, DAYS)
    found = of_days(past.trace.jobs, days, taken, past.clock_s)
    if past.account is None:
        return found
    return replace(found, notes=(*found.notes, *read_from(past)), speeds=past.truth)


# --- a family ----------------------------------------------------------------------------------


def arrived_of(family: Workload, names: Iterable[str]) -> int | None:
    """Return the number of a member's jobs submitted before a state with these job names.

    Families number jobs in order of submission (``j17``, ``gpt2-17``), so the last one in the state
    gives the number. None if the names are no member's.
    """
    jobs = [_numbered(job.name) for job in loaded(replace(family, seed=0)).trace.jobs]
    stems, numbers = {stem for stem, _ in jobs}, [number for _, number in jobs]
    found = [_numbered(name) for name in names]
    mine = [number for _, number in found]
    ordered = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    alike = all(stem in stems for stem, _ in found) and set(mine) <= set(numbers)
    if not (mine and ordered and alike and len(set(mine)) == len(mine)):
        return None
    return max(mine) - numbers[0] + 1


def _numbered(name: str) -> tuple[str, int]:
    """Split a name into stem and number; -1 if it has none."""
    found = re.fullmatch(r"(.*?)([0-9]{1,9})", name)
    return (name, -1) if found is None else (found[1], int(found[2]))


def of_family(
    family: Workload, arrived: int | None = None, taken: frozenset[str] = frozenset()
) -> Coming:
    """Return the arrivals of a seeded family after the first jobs of one of its members.

    Parameters
    ----------
    family
        Its seed does not matter.
    arrived
        Number of jobs submitted so far; None for arrivals without an end.
    taken
        Names that are taken.
    """
    if arrived is None:
        return Coming(
            lambda a, b, seed: endless(family, a, b, seed, taken),
            whole=False,
            notes=(f"members of {family.trace} arrive one behind the other, without an end",),
        )
    return Coming(
        lambda a, b, seed: rest(family, arrived, a, b, seed, taken),
        notes=(f"the state is of a member of {family.trace}: {arrived} of its jobs have come",),
    )


def _member(family: Workload, seed: int) -> tuple[Job, ...]:
    return loaded(replace(family, seed=seed % (int(SEEDS.high) + 1))).trace.jobs


def rest(
    family: Workload,
    arrived: int,
    from_s: float,
    until_s: float,
    seed: int,
    taken: frozenset[str] = frozenset(),
) -> list[Job]:
    """Draw the jobs that a member submits after an instant, given how many it had submitted.

    Drawn from the family's law given that number, by rejection: the first of
    `HistoryParams.members` that had as many by the same instant. Where none had, the nearest one
    continues after its own job of that number, which is taken to arrive now: exact where gaps are
    exponential.

    Without the condition too many jobs would be left wherever a state is looked at because many
    jobs came early: most members had fewer by then.
    """
    best: tuple[int, tuple[Job, ...], float] | None = None
    for draw in range(HISTORY.members):
        jobs = _member(family, HISTORY.members * seed + draw)
        count = bisect_right(jobs, from_s, key=lambda job: job.submission_s)
        off = abs(count - arrived)
        if best is None or off < best[0]:
            last_s = jobs[arrived - 1].submission_s if 0 < arrived <= len(jobs) else 0.0
            best = off, jobs, 0.0 if off == 0 else from_s - last_s
        if off == 0:
            break
    assert best is not None
    _, jobs, shift_s = best
    soonest_s = math.nextafter(from_s, math.inf)
    found = [_renamed(job, f"+{seed}", shift_s, taken, soonest_s) for job in jobs[arrived:]]
    return [job for job in found if job.submission_s <= until_s]


def endless(
    family: Workload, from_s: float, until_s: float, seed: int, taken: frozenset[str] = frozenset()
) -> list[Job]:
    """Draw the jobs submitted between two instants by members that follow each other forever.

    The first member's clock is the state's, modulo the member's length. A member lasts until its
    last job and a mean gap; one shorter than `HistoryParams.member_s` is no process, and nothing
    follows it.
    """
    draw = random.Random(f"members/{seed}")
    jobs = _member(family, seed)
    found: list[Job] = []
    length_s = _length_s(jobs)
    begin_s = from_s - from_s % length_s if length_s >= HISTORY.member_s else 0.0
    for number in range(10**9):
        mark = f"+{seed}" if number == 0 else f"+{seed}.{number}"
        found += [
            _renamed(job, mark, begin_s, taken)
            for job in jobs
            if from_s < job.submission_s + begin_s <= until_s
        ]
        begin_s += length_s
        if begin_s > until_s or length_s < HISTORY.member_s:
            break
        jobs = _member(family, draw.randrange(2**31))
        length_s = _length_s(jobs)
    return found


def _length_s(jobs: Sequence[Job]) -> float:
    """Return the time in seconds from a member's beginning to the next one's."""
    return jobs[-1].submission_s * len(jobs) / max(1, len(jobs) - 1)


# --- days of a history -------------------------------------------------------------------------


def of_days(
    past: Sequence[Job], days: int, taken: frozenset[str] = frozenset(), clock_s: float = 0.0
) -> Coming:
    """Return arrivals drawn from the first days of a history; see `arrivals`."""
    note = history_note(past, days, DAYS)
    if days < HISTORY.few_blocks:
        note += f": an interval holds {100 * (days - 1) / (days + 1):.0f} % at most"
    return Coming(
        lambda a, b, seed: arrivals(past, days, a, b, seed, taken, clock_s), days, False, (note,)
    )


def arrivals(
    history: Sequence[Job],
    days: int,
    from_s: float,
    until_s: float,
    seed: int,
    taken: frozenset[str] = frozenset(),
    clock_s: float = 0.0,
) -> list[Job]:
    """Draw the jobs submitted between two instants: whole days of a history, at random.

    A day is taken as it is, from the history's second 0 on; of the day drawn for today, the part
    after the present time of day counts. Consecutive seeds take different days for today, so that
    each is taken once before any is twice.

    Second 0 is at ``clock_s`` of the log's clock. A later instant is on the same clock (a
    scheduler's answer), and jobs keep their time of day; an earlier one belongs to a replay, which
    counts from second 0 itself.
    """
    draw = random.Random(f"arrivals/{seed}")
    found = []
    begin_s = clock_s % DAY_S if from_s >= clock_s else 0.0
    first, last = int((from_s - begin_s) // DAY_S), int((until_s - begin_s) // DAY_S)
    for day in range(first, last + 1):
        chosen = seed % days if day == first else draw.randrange(days)
        shift_s = begin_s + (day - chosen) * DAY_S
        found += [
            _renamed(job, f"+{day}", shift_s, taken)
            for job in history
            if int(job.submission_s // DAY_S) == chosen
            and from_s < job.submission_s + shift_s <= until_s
        ]
    return found


def _renamed(
    job: Job, mark: str, shift_s: float, taken: frozenset[str], soonest_s: float = 0.0
) -> Job:
    name = job.name + mark
    if name in taken:
        raise InputError(f"job {name} is in the state already", field="--history")
    at_s = max(job.submission_s + shift_s, soonest_s)
    moved_s = at_s - job.submission_s
    deadline_s = None if job.deadline_s is None else job.deadline_s + moved_s
    return replace(job, name=name, submission_s=at_s, deadline_s=deadline_s)
