"""Demands of jobs that are under way when a replay begins: their remaining work."""

from __future__ import annotations

from dataclasses import replace

from morph_opt.core.domain import JobState, RoundState
from morph_opt.simulation.metrics.bounds.completion import JobDemand
from morph_opt.simulation.metrics.bounds.demands import Timing
from morph_opt.simulation.metrics.bounds.lower import Demands


def initial_demands(demands: Demands, state: RoundState, timing: Timing) -> Demands:
    """Return the demands of a replay that starts from a state.

    A job of the state has the rest of its iterations to do. It cannot be complete before the
    state's instant. A running one may stay what it is, so that no start is counted for it; a queued
    one starts at a boundary not before that instant. Submissions stay: completion times count from
    there.
    """
    first_s = timing.boundary_at_or_after(state.time_s) * timing.interval_s
    known = {one.job.name: one for one in state.jobs}

    def rest(demand: JobDemand) -> JobDemand:
        if demand.job not in known:
            return demand
        found = known[demand.job]
        left = found.iterations_left / found.job.iterations
        # Where two jobs may share GPUs a start stands in the release, not in the durations.
        early_s = timing.boundary_at_or_after(demand.submission_s) * timing.interval_s
        start_up_s = max(0.0, demand.release_s - early_s)
        restart_s = timing.first_start_of(found.job.model) - start_up_s
        if found.running is not None:
            return replace(
                demand,
                release_s=max(state.time_s, demand.submission_s),
                duration_s=left * (demand.duration_s - restart_s),
            )
        again_s = min(_least_s(found), restart_s + start_up_s)
        return replace(
            demand,
            release_s=max(first_s, early_s),
            duration_s=again_s * (start_up_s == 0.0) + left * (demand.duration_s - restart_s),
        )

    return replace(demands, jobs=tuple(rest(demand) for demand in demands.jobs))


def _least_s(known: JobState) -> float:
    """Return the least cost in seconds of the next start of a queued job, wherever it starts."""
    return known.restart_s if known.last_held is None else known.prices.resume_s
