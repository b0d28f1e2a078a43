"""Ruin and recreate: jobs are taken out of a plan and put back, a few thousand times a minute.

Schrimpf et al. (2000), with prices: a job that is put back takes the way with the least of its own
end and ``alpha`` times what its GPUs are worth to those in the system meanwhile (one machine serves
all jobs; see ``docs/formulations/lookahead.md``), as early as it fits. Without the price every job
would take most GPUs at poor efficiency. Worse plans are taken over with the chance that simulated
annealing gives them. What is drawn depends on the number of the block alone, so a search that is
stopped after a block can be continued.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.hindsight.plan import Entry, Plan, Way, Work
from formulations.arrays import Floats

BLOCK = 10_000
"""Steps from hot to cold."""
HOT, COLD = 2.5, 0.0085
"""Temperatures at the first and last step of a block, completion time in sum, over the mean that
jobs would take alone: what a change costs grows with how long jobs are."""
FIRST_HOT, FIRST_LENGTH = 5.0, 4
"""The first block is hotter and so many times as long, as it begins far from good."""
MOST_OUT, MOST_WIDE, WIDE = 16, 90, 0.07
"""Jobs that are taken out at a time, and in some steps: a gang that holds half of the cluster for
hours moves only where all near it do."""
ALPHA = (0.2, 2.0)
"""Factors on the prices."""
FRESH = 5
"""Prices are computed anew after so many steps."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a search stands.

    Parameters
    ----------
    entries
        Of the best plan, by job.
    mean_s
        Its mean completion time.
    blocks
        Done so far.
    """

    entries: tuple[Entry, ...]
    mean_s: float
    blocks: int


def begin(work: Work) -> Found:
    """Jobs put into an empty plan in order of arrival."""
    plan = _empty(work)
    paid = _paid(plan)
    for job in np.argsort(work.release, kind="stable").tolist():
        _insert(plan, job, paid, 1.0)
    return _found(plan, 0)


def block(work: Work, found: Found, steps: int = BLOCK) -> Found:
    """One annealing from the best plan so far."""
    plan = _empty(work)
    for job, entry in enumerate(found.entries):
        plan.enter(job, entry)
    draw = np.random.default_rng(found.blocks)
    jobs, best, floor_s = len(work.ways), found, work.floor_s
    least = np.asarray([min(w.gpus * w.duration_s for w in ways) for ways in work.ways])
    now_s, paid = jobs * plan.mean_s, np.zeros(1)
    hot, length = (HOT, 1) if found.blocks else (FIRST_HOT, FIRST_LENGTH)
    alone_s = float((floor_s - work.submission_s).mean())
    for step in range(steps * length):
        heat_s = alone_s * (hot * (1.0 - step / (steps * length)) ** 2 + COLD)
        if step % FRESH == 0:
            paid = _paid(plan)
        out = _ruined(plan, floor_s, draw)
        before = [(job, plan.remove(job), float(plan.end_s[job])) for job in out]
        alpha = math.exp(draw.uniform(*np.log(ALPHA)))
        for job in _order(out, work, least, draw):
            _insert(plan, job, paid, alpha)
        then_s = jobs * plan.mean_s
        if then_s < now_s or draw.random() < math.exp((now_s - then_s) / heat_s):
            now_s = then_s
            if plan.mean_s < best.mean_s - 1e-9:
                best = _found(plan, found.blocks)
            continue
        for job in out:
            plan.remove(job)
        for job, entry, _ in before:
            plan.enter(job, entry)
    return Found(best.entries, best.mean_s, found.blocks + 1)


def _found(plan: Plan, blocks: int) -> Found:
    entries = tuple(entry for entry in plan.entries if entry is not None)
    assert len(entries) == len(plan.entries)
    return Found(entries, plan.mean_s, blocks)


def _empty(work: Work) -> Plan:
    """Long enough for all jobs one after the other."""
    longest = sum(min(way.rounds for way in ways) for ways in work.ways)
    most = max(way.rounds for ways in work.ways for way in ways)
    return Plan(work, int(work.release.max()) + longest + most + 1)


def _paid(plan: Plan) -> Floats:
    """Integral of the price of a GPU-second up to the begin of each round, seconds per GPU."""
    work = plan.work
    change = np.zeros(plan.rounds + 1)
    np.add.at(change, work.release, 1.0)
    ends = np.ceil(plan.end_s / work.interval_s).astype(np.int64)
    np.add.at(change, np.minimum(ends, plan.rounds), -1.0)
    price = np.maximum(np.cumsum(change[:-1]), 1.0) / float(work.capacity.sum())
    return np.concatenate([[0.0], np.cumsum(price * work.interval_s)])


def _insert(plan: Plan, job: int, paid: Floats, alpha: float) -> None:
    """Put a job back where its end and the price of its GPUs are least.

    Ways are tried in the order of what they would cost at once; as prices mostly fall, one that
    would then cost more than another does is not looked at.
    """
    work, since = plan.work, int(plan.work.release[job])
    ways = work.ways[job]

    def cost_s(way: Way, start: int) -> float:
        held = float(paid[start + way.rounds] - paid[start])
        return start * work.interval_s + way.duration_s + alpha * way.gpus * held

    best: tuple[float, int, int] | None = None
    for at_once, index in sorted((cost_s(way, since), i) for i, way in enumerate(ways)):
        way, before = ways[index], plan.rounds
        if best is not None:
            if at_once >= best[0]:
                break
            # No later than where its end alone costs more.
            before = math.ceil((best[0] - way.duration_s) / work.interval_s)
        start = plan.earliest(way, since, min(before, plan.rounds))
        if start is not None and (best is None or cost_s(way, start) < best[0]):
            best = (cost_s(way, start), index, start)
    assert best is not None
    plan.put(job, best[1], best[2])


def _ruined(plan: Plan, floor_s: Floats, draw: Generator) -> list[int]:
    """Jobs near one that waits long, or near any, at an instant of its life."""
    work, jobs = plan.work, len(plan.entries)
    excess = np.maximum(plan.end_s - floor_s, 0.0) + 50.0
    late = draw.random() < 0.7
    about = int(draw.choice(jobs, p=excess / excess.sum()) if late else draw.integers(jobs))
    at = draw.uniform(float(work.release[about]), float(plan.end_s[about]) / work.interval_s)
    starts = np.asarray([entry.start for entry in plan.entries if entry is not None])
    ends = plan.end_s / work.interval_s
    far = np.maximum(0.0, np.maximum(starts - at, at - ends)) + draw.uniform(0.0, 30.0, jobs)
    wide = draw.random() < WIDE
    count = int(draw.integers(MOST_OUT, MOST_WIDE) if wide else draw.integers(2, MOST_OUT))
    near = np.argsort(far, kind="stable")[: count * (4 if draw.random() < 0.5 else 1)]
    return sorted({about, *draw.permutation(near)[:count].tolist()})


def _order(out: list[int], work: Work, least: Floats, draw: Generator) -> list[int]:
    """Least work first, about; by arrival; any; or most work first."""
    jobs = np.asarray(out)
    how = int(draw.integers(4))
    if how == 0:
        key = least[jobs] * np.exp(draw.normal(0.0, 0.5, jobs.size))
    elif how == 1:
        key = work.release[jobs].astype(np.float64)
    else:
        key = draw.random(jobs.size) if how == 2 else -least[jobs]
    ordered: list[int] = jobs[np.argsort(key, kind="stable")].tolist()
    return ordered
