"""Statistical twins of the published traces: generated, seeded, nothing to download.

A twin is drawn from aggregate statistics of its original (``twins.toml``); no row is copied.
`docs/traces.md` lists what is matched and what is not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain import ExecutionPlan, InputError, Job, Trace
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.format import MODEL, generated
from morph_opt.inputs.traces.requested import RequestedSpeeds
from morph_opt.inputs.traces.twins.sampling import assign, match_total, stratified
from morph_opt.inputs.traces.twins.stats import Cell, TwinStats, Variants, load_stats, size_class

TWINS = ("base", "bp", "mt", "naive")
"""Names of the twins; each has the name of its original without ``morphling/``."""

_CPUS_PER_GPU = 8
_FEWEST_ITERATIONS = 2
_PLAN_DRAWS = 128
_FAMILY = 172
"""First word of every random stream; `docs/traces.md` states how it was chosen."""


def twin(name: str, *, seed: int = 0, speeds: SpeedModel | None = None) -> Trace:
    """Generate a twin.

    Parameters
    ----------
    name
        One of `TWINS`.
    seed
        Member of the family, at least 0; 0 is the project's fixed twin.
    speeds
        Speed model that turns GPU-hours into iterations; the built-in one by default.

    Raises
    ------
    InputError
        If there is no such twin, the seed is negative, or the speed model cannot run a
        requested configuration.
    """
    if name not in TWINS:
        raise InputError(unknown("twin", name, TWINS), field="trace")
    if seed < 0:
        raise InputError(f"must be at least 0, got {seed}", field="seed")
    stats, variants = load_stats()
    original = "naive" if name == "naive" else "base"
    steps = RequestedSpeeds(builtin_model() if speeds is None else speeds)
    jobs = _jobs(stats[original], steps, _stream(original, seed))
    if name == "bp":
        jobs = _with_free_plans(jobs, variants, steps, _stream(name, seed))
    elif name == "mt":
        jobs = _with_guarantees(jobs, variants, steps, _stream(name, seed))
    return Trace.of(
        name,
        jobs,
        f"{name}: generated statistical twin of the published trace morphling/{name} "
        f"(seed {seed}), not the original",
    )


def _stream(name: str, seed: int) -> np.random.Generator:
    """Return the random stream of a twin; each twin has its own."""
    return np.random.default_rng([_FAMILY, seed, TWINS.index(name)])


def _jobs(stats: TwinStats, steps: RequestedSpeeds, rng: np.random.Generator) -> list[Job]:
    cells, hours = _work(stats, rng)
    sizes = np.array([size_class(cell.gpus) for cell in cells], dtype=np.int64)
    counts = np.array([phase.jobs for phase in stats.phases]).T
    phases = assign(hours, counts, [p.gpu_hours for p in stats.phases], rng, sizes)
    submission_s = _arrivals(stats, phases, rng)
    jobs = []
    for number, index in enumerate(np.argsort(submission_s, kind="stable")):
        cell = cells[index]
        plan = ExecutionPlan.parse(cell.plan)
        step_s = steps.iteration_s(cell.model, cell.gpus, plan)
        jobs.append(
            Job(
                name=f"{cell.model}-{number}",
                model=cell.model,
                submission_s=float(submission_s[index]),
                iterations=max(
                    _FEWEST_ITERATIONS, round(hours[index] * 3600.0 / (cell.gpus * step_s))
                ),
                requested_gpus=cell.gpus,
                requested_plan=plan,
                cpus_per_gpu=_CPUS_PER_GPU,
            )
        )
    return jobs


def _work(stats: TwinStats, rng: np.random.Generator) -> tuple[list[Cell], Floats]:
    """Draw cell and GPU-hours of every job, one group of models after the other."""
    cells: list[Cell] = []
    hours: list[Floats] = []
    for models, quantiles in stats.work:
        own = [cell for cell in stats.cells if cell.model in models]
        values = stratified(stats.levels, quantiles, sum(c.jobs for c in own), rng)
        values = match_total(values, sum(c.gpu_hours for c in own))
        bins = assign(values, np.array([[c.jobs for c in own]]), [c.gpu_hours for c in own], rng)
        cells.extend(own[b] for b in bins)
        hours.append(values)
    return cells, np.concatenate(hours)


def _arrivals(stats: TwinStats, phases: Ints, rng: np.random.Generator) -> Floats:
    """Draw whole seconds of submission, shape ``(jobs,)``, from 0 to the end of the span."""
    inside = sum(sum(p.jobs) - p.bursts for p in stats.phases)
    gaps = rng.permutation(stratified(stats.gap_levels, stats.gap_s, inside, rng))
    times = np.empty(len(phases), dtype=np.float64)
    start_s, used = 0.0, 0
    for number, phase in enumerate(stats.phases):
        members = rng.permutation(np.flatnonzero(phases == number))
        if len(members):
            own = gaps[used : used + len(members) - phase.bursts]
            used += len(own)
            times[members] = start_s + _phase_times(phase.end_s - start_s, phase.bursts, own, rng)
        start_s = phase.end_s
    order = np.argsort(times, kind="stable")
    times[order[0]], times[order[-1]] = 0.0, stats.phases[-1].end_s
    return np.asarray(np.floor(times), dtype=np.float64)


def _phase_times(length_s: float, bursts: int, gaps: Floats, rng: np.random.Generator) -> Floats:
    """Draw offsets in a phase: bursts of random size, spread uniformly between the gaps."""
    jobs = len(gaps) + bursts
    heads = np.zeros(jobs, dtype=bool)
    heads[0] = True
    heads[rng.choice(np.arange(1, jobs), size=bursts - 1, replace=False)] = True
    busy = float(gaps.sum())
    if busy > 0.9 * length_s:
        gaps = gaps * (0.9 * length_s / busy)
    free_s = length_s - float(gaps.sum())
    spaces = np.diff(np.sort(rng.random(bursts)), prepend=0.0) * free_s
    steps = np.empty(jobs, dtype=np.float64)
    steps[heads], steps[~heads] = spaces, gaps
    return np.asarray(np.cumsum(steps), dtype=np.float64)


def _with_free_plans(
    jobs: list[Job], variants: Variants, steps: RequestedSpeeds, rng: np.random.Generator
) -> list[Job]:
    """Return the jobs with plans requested equally often; iterations stay.

    The plan of the few largest jobs decides how many GPU-hours they ask for, so of a few
    draws the one closest to the published total is taken.
    """

    def excess_hours(plans: list[ExecutionPlan]) -> float:
        total_gpu_s = sum(
            job.iterations
            * job.requested_gpus
            * steps.iteration_s(job.model, job.requested_gpus, plan)
            for job, plan in zip(jobs, plans, strict=True)
        )
        return abs(total_gpu_s / 3600.0 - variants.free_plans_gpu_hours)

    draws = [_draw_plans(jobs, variants, rng) for _ in range(_PLAN_DRAWS)]
    best = min(draws, key=excess_hours)
    return [replace(job, requested_plan=plan) for job, plan in zip(jobs, best, strict=True)]


def _draw_plans(
    jobs: list[Job], variants: Variants, rng: np.random.Generator
) -> list[ExecutionPlan]:
    """Draw a plan per job; within a model and GPU count all occur equally often."""
    groups: dict[tuple[str, int], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault((job.model, job.requested_gpus), []).append(index)
    drawn = [job.requested_plan for job in jobs]
    for (model, gpus), members in sorted(groups.items()):
        plans = variants.free_plans.get(f"{model}/{gpus}") or variants.free_plans[model]
        first = int(rng.integers(len(plans)))
        for position, index in enumerate(rng.permutation(members)):
            drawn[index] = plans[(first + position) % len(plans)]
    return drawn


def _with_guarantees(
    jobs: list[Job], variants: Variants, steps: RequestedSpeeds, rng: np.random.Generator
) -> list[Job]:
    """Return the jobs with guarantees for the published number and share of work."""
    hours = np.array([steps.gpu_hours(job) for job in jobs])
    yes, yes_hours = variants.guaranteed_jobs, variants.guaranteed_gpu_hours
    counts = np.array([[yes, len(jobs) - yes]])
    bins = assign(hours, counts, [yes_hours, float(hours.sum()) - yes_hours], rng)
    return [replace(job, guaranteed=bool(b == 0)) for job, b in zip(jobs, bins, strict=True)]


def _drawn(name: str, *, seed: int) -> tuple[Trace, SpeedModel]:
    """Return a twin with the built-in speeds."""
    return twin(name, seed=seed), builtin_model()


FORMATS = tuple(generated(name, partial(_drawn, name), MODEL) for name in TWINS)
"""Trace formats of the twins."""
