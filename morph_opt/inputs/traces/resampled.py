"""Workloads drawn from another trace: whole weeks or days, and more or less load.

``resampled/LOAD/BLOCKS/TRACE`` with the load factor, ``as-is``, ``weeks`` or ``days``, and a trace
as `morph_opt.inputs.traces.registry.load_trace` takes it. The seed draws; of a twin taken ``as-is``
it is also the member of the family.

**Load.** Each job is taken ``floor(f)`` times and once more with probability ``f - floor(f)``, from
a stream of (seed, job name): the jobs at 1.1 are among those at 1.2. Time is never squeezed.

**Blocks.** A moving-block bootstrap (Künsch 1989): one block per whole block of the history,
each drawn from all of them, so that bursts and the order inside a block stay. A job belongs to the
block of its submission. Days are drawn among those of the same place in the week where there are
two weeks at least, else among all.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from morph_opt.core.domain import InputError, Job, Range, Trace
from morph_opt.inputs.traces.format import LoadedTrace

RESAMPLED = "resampled"
AS_IS, WEEKS, DAYS = "as-is", "weeks", "days"
LOADS = Range(0.01, 100.0)
BLOCK_S = {WEEKS: 604_800.0, DAYS: 86_400.0}
WHOLE = 0.95
"""Least share of its length with which a last block counts as whole."""

_SPEC = re.compile(rf"{RESAMPLED}/x([0-9]{{1,3}}(?:\.[0-9]{{1,6}})?)/({AS_IS}|{WEEKS}|{DAYS})/(.+)")


def resampled_spec(trace: str, *, load: float = 1.0, blocks: str = AS_IS) -> str:
    """Return the spec of a workload drawn from a trace; the trace itself if nothing is drawn."""
    LOADS.require("load", load)
    if load == 1.0 and blocks == AS_IS:
        return trace
    return f"{RESAMPLED}/x{load:.6g}/{blocks}/{trace}"


def split_resampled(spec: str) -> tuple[float, str, str]:
    """Return load, blocks and trace of a spec; for other specs 1, ``as-is`` and the spec."""
    found = _SPEC.fullmatch(spec)
    return (1.0, AS_IS, spec) if found is None else (float(found[1]), found[2], found[3])


def resample(argument: str, *, seed: int, load_trace: Callable[..., LoadedTrace]) -> LoadedTrace:
    """Return the workload of a spec's argument.

    Parameters
    ----------
    argument
        Behind ``resampled/``.
    seed
        Seed of the draw.
    load_trace
        `morph_opt.inputs.traces.registry.load_trace`.

    Raises
    ------
    InputError
        If the argument does not look like that, or the history has fewer than two whole blocks.
    """
    found = _SPEC.fullmatch(f"{RESAMPLED}/{argument}")
    if found is None:
        rule = f"must look like {RESAMPLED}/x1.2/weeks/TRACE (or days, as-is), got {argument!r}"
        raise InputError(rule, field="trace")
    load, blocks, base = float(found[1]), found[2], found[3]
    LOADS.require("load", load)
    loaded: LoadedTrace = load_trace(base, seed=seed if blocks == AS_IS else 0)
    if loaded.trace.searches:
        rule = f"{loaded.trace.name} has searches, whose trials cannot be drawn one by one"
        raise InputError(rule, field="trace")
    jobs = loaded.trace.jobs if blocks == AS_IS else drawn(loaded.trace, blocks, seed)
    jobs = loaded_by(jobs, load, seed)
    if not jobs:
        raise InputError(f"no job is left at a load of {load:g}", field="trace")
    notice = f"drawn from {loaded.trace.name}: {blocks}, load x{load:g}, seed {seed}"
    trace = Trace.of(loaded.trace.name, jobs, f"{loaded.trace.description}; {notice}")
    return replace(loaded, trace=trace, notice=f"{loaded.notice}; {notice}")


def loaded_by(jobs: tuple[Job, ...], load: float, seed: int) -> tuple[Job, ...]:
    """Repeat jobs by the load factor, in order of submission."""
    found: list[Job] = []
    for job in jobs:
        more = random.Random(f"load/{seed}/{job.name}").random() < load - math.floor(load)
        times = math.floor(load) + more
        found += [job if k == 0 else replace(job, name=f"{job.name}~{k + 1}") for k in range(times)]
    return tuple(found)


def whole_blocks(trace: Trace, blocks: str) -> int:
    """Return the number of whole weeks or days of a history, from second 0 of the trace."""
    length = trace.jobs[-1].submission_s / BLOCK_S[blocks]
    return math.floor(length) + (length - math.floor(length) >= WHOLE)


def history_note(jobs: Sequence[Job], count: int, blocks: str) -> str:
    """Describe how many whole blocks a history has, and how many jobs are in none of them."""
    after = sum(job.submission_s >= count * BLOCK_S[blocks] for job in jobs)
    left = f", {after} jobs after them are in no whole {blocks[:-1]} and left out" if after else ""
    return f"{count} {blocks} of history{left}"


def drawn(trace: Trace, blocks: str, seed: int) -> tuple[Job, ...]:
    """Return jobs of blocks that are drawn with replacement and follow one another.

    Raises
    ------
    InputError
        If the history has fewer than two whole blocks.
    """
    count, length_s = whole_blocks(trace, blocks), BLOCK_S[blocks]
    if count < 2:
        rule = f"a bootstrap needs two whole {blocks} of history, {trace.name} has {count}"
        raise InputError(rule, field="trace")
    of_block: list[list[Job]] = [[] for _ in range(count)]
    for job in trace.jobs:
        if job.submission_s < count * length_s:
            of_block[int(job.submission_s // length_s)].append(job)
    by_day = blocks == DAYS and count >= 14
    draw = random.Random(f"blocks/{seed}/{blocks}")
    found: list[Job] = []
    for place in range(count):
        among = [k for k in range(count) if not by_day or k % 7 == place % 7]
        taken = draw.choice(among)
        shift_s = (place - taken) * length_s
        found += [_moved(job, f"{job.name}@{place}", shift_s) for job in of_block[taken]]
    if not found:
        raise InputError("the blocks that were drawn have no job", field="trace")
    return tuple(found)


def _moved(job: Job, name: str, by_s: float) -> Job:
    deadline_s = None if job.deadline_s is None else job.deadline_s + by_s
    return replace(job, name=name, submission_s=job.submission_s + by_s, deadline_s=deadline_s)
