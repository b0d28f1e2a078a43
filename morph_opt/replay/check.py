"""Check that the jobs of a scenario can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.domain import Cluster, InputError, Job, RoundState, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay.initial import (
    on_cluster,
    require_initial,
    with_prices,
)
from morph_opt.simulation.engine.node_events import read_node_events
from morph_opt.simulation.metrics.bounds.demands import impossible_jobs, infeasible_slos

if TYPE_CHECKING:
    from morph_opt.replay.load import Loaded
    from morph_opt.replay.scenario import Scenario
    from morph_opt.scheduling.policies.options import PolicyOptions
    from morph_opt.scheduling.policies.registry import Decider
    from morph_opt.simulation.engine.config import ReplayConfig


@dataclass(frozen=True, slots=True)
class Checked:
    """Jobs of a run, each of which can run.

    Parameters
    ----------
    trace
        The jobs.
    skipped
        Jobs that were dropped because they can never run, with the rule.
    infeasible
        Jobs whose SLO nothing can keep, with the rule; they run, and their SLO is dropped.
    initial
        State to begin with; None if there is none.
    """

    trace: Trace
    skipped: tuple[tuple[Job, str], ...]
    infeasible: tuple[tuple[Job, str], ...]
    initial: RoundState | None


def check(
    scenario: Scenario,
    engine: ReplayConfig,
    loaded: Loaded,
    decider: Decider,
    belief: SpeedModel,
    options: PolicyOptions,
) -> Checked:
    """Check that the jobs can run, that their SLOs can be kept, and that the state fits.

    Raises
    ------
    InputError
        If a job can never run or an SLO never be kept, unless such are to be dropped; if the state
        is not one of the trace on the cluster.
    """
    from morph_opt.scheduling.decision.rules.stranded import stranded_jobs

    cluster, snapshot = scenario.cluster, loaded.snapshot
    stranded = stranded_jobs(options.rules, loaded.trace.jobs, belief, cluster)
    infeasible = _infeasible_slos_of(scenario, decider, loaded)
    trace, skipped = _possible(loaded.trace, scenario, (loaded.truth, belief), stranded)
    if scenario.failures.events:
        read_node_events(Path(scenario.failures.events), cluster)
    initial = None
    if snapshot is not None:
        try:
            require_initial(snapshot.state, loaded.trace, cluster, engine)
        except InputError as error:
            raise error.located(file=scenario.workload.state) from error
        initial = with_prices(on_cluster(snapshot.state, cluster, trace.jobs), engine)
    return Checked(trace, tuple(skipped), infeasible, initial)


def require_models(engine: ReplayConfig, trace: Trace) -> None:
    """Refuse start-ups of models that no job has."""
    models = sorted({job.model for job in trace.jobs})
    for model in engine.restart_s_by_model:
        if model not in models:
            raise InputError(
                f"unknown model {model!r}{did_you_mean(model, models)}; trace {trace.name!r} has "
                f"{_some(models)}",
                field="--restart-s",
            )


def require_slices(engine: ReplayConfig, decider: Decider) -> None:
    """Refuse time slices that end before a job in them has started."""
    slowest_s = max(engine.restart_s, *engine.restart_s_by_model.values(), 0.0)
    if decider.rule.slices and slowest_s >= engine.interval_s:
        rule = (
            f"must be below the round of {engine.interval_s:g} s for time slices, got {slowest_s:g}"
        )
        raise InputError(rule, field="--restart-s")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def require_tenants(weights: Mapping[str, float], trace: Trace) -> None:
    """Refuse weights of tenants that no job has."""
    tenants = sorted({job.tenant for job in trace.jobs})
    for name in weights:
        if name not in tenants:
            raise InputError(
                f"unknown tenant {name!r}{did_you_mean(name, tenants)}; trace {trace.name!r} has "
                f"{_some(tenants)}",
                field="--entity-weights",
            )


def _infeasible_slos_of(
    scenario: Scenario, decider: Decider, loaded: Loaded
) -> tuple[tuple[Job, str], ...]:
    """Return SLOs that nothing can keep, where the policy needs prices and so looks at SLOs.

    Raises
    ------
    InputError
        If there are any and they are not to be dropped, or a GPU has no price.
    """
    from morph_opt.scheduling.policies.objectives.deadlines import prices_of

    if not decider.rule.prices:
        return ()
    prices_of(scenario.cluster)
    found = infeasible_slos(loaded.trace.jobs, loaded.truth, scenario.cluster)
    if found and not scenario.workload.skip_impossible:
        job, rule = found[0]
        others = f" ({len(found) - 1} more such SLOs)" if len(found) > 1 else ""
        raise InputError(
            f"{rule}{others}; {typed('--skip-impossible')} drops such SLOs",
            file=scenario.workload.trace,
            field=f"job {job.name}",
        )
    return found


def _possible(
    trace: Trace,
    scenario: Scenario,
    speeds: tuple[SpeedModel, SpeedModel],
    stranded: tuple[tuple[Job, str], ...],
) -> tuple[Trace, tuple[tuple[Job, str], ...]]:
    """Return the trace without jobs that can never run, or refuse them."""
    found = impossible_jobs(trace.jobs, speeds[0], scenario.cluster)
    if speeds[1] is not speeds[0]:
        known = {job.name for job, _ in found}
        more = impossible_jobs(trace.jobs, speeds[1], scenario.cluster)
        found += tuple(
            (job, f"{rule} (as the belief {scenario.scheduler.belief!r} sees it)")
            for job, rule in more
            if job.name not in known
        )
    known = {job.name for job, _ in found}
    found += tuple((job, rule) for job, rule in stranded if job.name not in known)
    if not found:
        return trace, ()
    if not scenario.workload.skip_impossible:
        job, rule = found[0]
        others = f" ({len(found) - 1} more such jobs)" if len(found) > 1 else ""
        raise InputError(
            f"can never run: {rule}{others}; {typed('--skip-impossible')} drops such jobs"
            + _elsewhere(speeds[0], scenario.cluster),
            file=scenario.workload.trace,
            field=f"job {job.name}",
        )
    dropped = {job.name for job, _ in found}
    kept = tuple(job for job in trace.jobs if job.name not in dropped)
    if not kept:
        rule = "no job of the trace can ever run" + _elsewhere(speeds[0], scenario.cluster)
        raise InputError(rule, file=scenario.workload.trace, field="jobs")
    return trace.of_jobs(kept), found


def _elsewhere(truth: SpeedModel, cluster: Cluster) -> str:
    """Return advice for a log whose jobs ran on GPU types that the cluster lacks."""
    of_log = getattr(truth, "types_not_in", None)
    strange = of_log(cluster) if of_log is not None else ()
    if not strange:
        return ""
    has = ", ".join(kind.name for kind in cluster.gpu_types)
    return (
        f"; the log's GPU types are {', '.join(strange)}, the cluster has {has}: name one with "
        f"{typed('--cluster')} NODESxGPUS:TYPE, or let jobs run on any with "
        f"{typed('--gpu-types')} ignore"
    )
