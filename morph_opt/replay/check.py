"""Check that the jobs of a scenario can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.domain import Cluster, InputError, Job, JobState, RoundState, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.simulation.engine.node_events import read_node_events
from morph_opt.simulation.metrics.bounds.demands import impossible_jobs, infeasible_slos

if TYPE_CHECKING:
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.replay.scenario import Scenario
    from morph_opt.round.snapshot import Snapshot
    from morph_opt.scheduling.policies.options import PolicyOptions
    from morph_opt.scheduling.policies.registry import Decider
    from morph_opt.simulation.engine.config import ReplayConfig


@dataclass(frozen=True, slots=True)
class Checked:
    """Jobs of a run, without those that were dropped.

    Parameters
    ----------
    trace
        The jobs.
    skipped
        Jobs that were dropped because they can never run, with the rule.
    infeasible
        Jobs whose SLO cannot be met, with the rule; they run without it.
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
    source: LoadedTrace,
    snapshot: Snapshot | None,
    decider: Decider,
    belief: SpeedModel,
    options: PolicyOptions,
) -> Checked:
    """Check that the jobs can run, that their SLOs can be kept, and that the state fits.

    Raises
    ------
    InputError
        If a job can never run or an SLO cannot be met, unless such are dropped; if the state does
        not fit trace and cluster.
    """
    from morph_opt.scheduling.decision.rules.stranded import stranded_jobs

    cluster = scenario.cluster
    _require_fitting(scenario, engine, source, decider)
    decider.require_effect(options, source.trace.jobs)
    stranded = stranded_jobs(options.rules, source.trace.jobs, belief, cluster)
    infeasible = _infeasible_slos_of(scenario, decider, source)
    trace, skipped = _possible(source.trace, scenario, (source.truth, belief), stranded)
    if scenario.failures.events:
        read_node_events(Path(scenario.failures.events), cluster)
    initial = None
    if snapshot is not None:
        try:
            require_initial(snapshot.state, source.trace, cluster, engine)
        except InputError as error:
            raise error.located(file=scenario.workload.state) from error
        initial = with_prices(on_cluster(snapshot.state, cluster, trace.jobs), engine)
    return Checked(trace, tuple(skipped), infeasible, initial)


def _require_fitting(
    scenario: Scenario, engine: ReplayConfig, source: LoadedTrace, decider: Decider
) -> None:
    """Refuse options that do not fit the trace: unknown models or tenants, slices too short."""
    trace = source.trace
    models, tenants = engine.restart_s_by_model, scenario.scheduler.entity_weights
    for field, what, asked in (
        ("--restart-s", "model", models),
        ("--entity-weights", "tenant", tenants),
    ):
        names = sorted({getattr(job, what) for job in trace.jobs})
        for name in (one for one in asked if one not in names):
            some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise InputError(
                f"unknown {what} {name!r}{did_you_mean(name, names)}; trace {trace.name!r} has "
                f"{some}",
                field=field,
            )
    # A measured table may require speeds for every GPU type instead of leaving some unused.
    require_cluster = getattr(source.truth, "require_cluster", None)
    if require_cluster is not None:
        require_cluster(scenario.cluster)
    slowest_s = max(engine.restart_s, *engine.restart_s_by_model.values(), 0.0)
    if decider.rule.slices and slowest_s >= engine.interval_s:
        rule = (
            f"must be below the round of {engine.interval_s:g} s for time slices, got {slowest_s:g}"
        )
        raise InputError(rule, field="--restart-s")


def _infeasible_slos_of(
    scenario: Scenario, decider: Decider, source: LoadedTrace
) -> tuple[tuple[Job, str], ...]:
    """Return the jobs whose SLOs cannot be met; none if the policy ignores SLOs.

    Raises
    ------
    InputError
        If there are any and they are not to be dropped, or a GPU has no price.
    """
    from morph_opt.scheduling.policies.objectives.deadlines import prices_of

    if not decider.rule.prices:
        return ()
    prices_of(scenario.cluster)
    found = infeasible_slos(source.trace.jobs, source.truth, scenario.cluster)
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


# ---------------------------------------------------------------- state to begin with


def require_initial(
    state: RoundState, trace: Trace, cluster: Cluster, config: ReplayConfig
) -> None:
    """Refuse a state that is not one of this trace on this cluster.

    Raises
    ------
    InputError
        If the cluster does not begin with the state's nodes, a job is of only one of the two or
        differs between them, or the horizon is not after the state.
    """
    names = [node.name for node in state.cluster.nodes]
    sizes = [node.type.gpus for node in state.cluster.nodes]
    here = cluster.nodes[: len(names)]
    if [node.name for node in here] != names or [node.type.gpus for node in here] != sizes:
        raise InputError(f"cluster {cluster.name!r} does not begin with its nodes", field="state")
    known = {one.job.name: one.job for one in state.jobs}
    there = {job.name: job for job in trace.jobs if job.submission_s <= state.time_s}
    for name in (*known, *there):
        if name not in there or name not in known:
            where = "not submitted by then in the trace" if name in known else "not in the state"
            raise InputError(f"job {name} is {where}", field="state")
        if known[name] != there[name]:
            raise InputError(f"job {name} differs from that of the trace", field="state")
    if config.until_s is not None and config.until_s <= state.time_s:
        rule = f"must be after the state, which is of {state.time_s:g} s"
        raise InputError(f"{rule}, got {config.until_s:g}", field="until_s")


def on_cluster(state: RoundState, cluster: Cluster, jobs: Sequence[Job]) -> RoundState:
    """Return the state with these jobs only, on a cluster that begins with its nodes."""
    names = {job.name for job in jobs}
    kept = tuple(one for one in state.jobs if one.job.name in names)
    return replace(state, cluster=cluster, jobs=kept)


def with_prices(state: RoundState, config: ReplayConfig) -> RoundState:
    """Fill in the engine's start costs for jobs without their own.

    Each is at most the job's restart cost.
    """
    if config.resume_s is None and config.migrate_s is None:
        return state

    def priced(known: JobState) -> JobState:
        if known.resume_s is not None or known.migrate_s is not None:
            return known
        migrate_s, resume_s = (
            None if price is None else min(price, known.restart_s)
            for price in (config.migrate_s, config.resume_s)
        )
        return replace(known, migrate_s=migrate_s, resume_s=resume_s)

    return replace(state, jobs=tuple(map(priced, state.jobs)))
