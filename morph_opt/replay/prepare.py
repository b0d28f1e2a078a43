"""From options to the things that a replay needs; everything bad is found here, before it runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.domain import Cluster, InputError, Job, RoundState, Trace
from morph_opt.domain.errors import typed
from morph_opt.domain.nearest import did_you_mean
from morph_opt.domain.options import changed
from morph_opt.engine.node_events import NodeEvent, merged, random_failures, read_node_events
from morph_opt.metrics.bounds.demands import impossible_jobs, infeasible_slos
from morph_opt.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.policies.base import Policy
from morph_opt.policies.options import OPTIONS
from morph_opt.replay.belief import make_belief, require_belief
from morph_opt.replay.initial import (
    continued,
    on_cluster,
    require_initial,
    state_digest,
    with_prices,
)
from morph_opt.replay.workload import Workload
from morph_opt.round.reader import read_snapshot
from morph_opt.traces.format import STATE_TRACE

if TYPE_CHECKING:
    from morph_opt.policies.options import PolicyOptions, Scheduler
    from morph_opt.replay.scenario import Scenario
    from morph_opt.round.snapshot import Snapshot
    from morph_opt.traces.format import LoadedTrace
    from morph_opt.traces.logs.account import Account


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything loaded and checked.

    Parameters
    ----------
    scenario
        With the digests of trace, events and rules filled in, paths made absolute.
    trace, truth, policy
        What runs, how fast, by which policy.
    kind, notice
        Where the trace comes from.
    skipped
        Jobs that were dropped because they can never run, with the rule.
    infeasible
        Jobs whose SLO nothing can keep, with the rule; they run, and their SLO is dropped.
    belief, policy_options
        What the policy was made from.
    initial
        What the replay begins with; None without a state.
    account
        What became of a log on its way to jobs; None for other traces.
    """

    scenario: Scenario
    trace: Trace
    truth: SpeedModel
    policy: Policy
    kind: str
    notice: str
    skipped: tuple[tuple[Job, str], ...]
    belief: SpeedModel
    policy_options: PolicyOptions
    infeasible: tuple[tuple[Job, str], ...] = ()
    initial: RoundState | None = None
    account: Account | None = None

    def node_events(self) -> Iterable[NodeEvent]:
        """A fresh stream of node events."""
        failures, cluster = self.scenario.failures, self.scenario.cluster
        streams: list[Iterable[NodeEvent]] = []
        if failures.events:
            streams.append(read_node_events(Path(failures.events), cluster))
        if failures.mtbf_s is not None and failures.mttr_s is not None:
            streams.append(
                random_failures(
                    cluster, mtbf_s=failures.mtbf_s, mttr_s=failures.mttr_s, seed=failures.seed
                )
            )
        return merged(*streams)


def _digest(file: str | None) -> str | None:
    """SHA-256 of a file that has been read already; None for no file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def prepare(scenario: Scenario) -> Prepared:
    """Load and check everything.

    Raises
    ------
    InputError
        For everything that a user can cause.
    """
    with scenario.lending():
        return _prepared(scenario)


def _prepared(scenario: Scenario) -> Prepared:
    from morph_opt.decision.rules.stranded import stranded_jobs
    from morph_opt.traces.registry import load_trace

    workload, scheduler, cluster = scenario.workload, scenario.scheduler, scenario.cluster
    snapshot = None if workload.state is None else read_snapshot(workload.state)
    if snapshot is None:
        loaded = load_trace(workload.trace, seed=workload.seed, **workload.trace_options)
    else:
        loaded = _behind(snapshot, workload)
    if scenario.engine.first_start_s is None and loaded.first_start_s is not None:
        scenario = scenario.replaced(first_start_s=loaded.first_start_s)
    # A measured table may insist on knowing every GPU type, instead of leaving some unused.
    require_cluster = getattr(loaded.truth, "require_cluster", None)
    if require_cluster is not None:
        require_cluster(cluster)
    require_belief(scheduler)
    belief = make_belief(scheduler.belief, loaded.truth)
    policy_options = _policy_options(scenario, loaded.trace, snapshot)
    _require_models(scenario, loaded.trace)
    _require_slices(scenario)
    policy = policy_of(scheduler, belief, loaded.truth, policy_options)
    stranded = stranded_jobs(policy_options.rules, loaded.trace.jobs, belief, cluster)
    infeasible = _infeasible_slos_of(scenario, loaded.trace, loaded.truth)
    trace, skipped = _possible(loaded.trace, scenario, (loaded.truth, belief), stranded)
    if scenario.failures.events:
        read_node_events(Path(scenario.failures.events), cluster)
    initial = None
    if snapshot is not None:
        try:
            require_initial(snapshot.state, loaded.trace, cluster, scenario.engine)
        except InputError as error:
            raise error.located(file=workload.state) from error
        initial = on_cluster(snapshot.state, cluster, trace.jobs)
        initial = with_prices(initial, scenario.engine)
    return Prepared(
        _resolved(scenario, trace),
        trace,
        loaded.truth,
        policy,
        loaded.kind,
        loaded.notice,
        tuple(skipped),
        belief,
        policy_options,
        infeasible,
        initial,
        loaded.account,
    )


def _behind(snapshot: Snapshot, workload: Workload) -> LoadedTrace:
    """The jobs of a state and those that arrive behind it, with speeds of the trace if it has one.

    Raises
    ------
    InputError
        See `morph_opt.replay.initial.continued`.
    """
    from morph_opt.traces.format import LoadedTrace
    from morph_opt.traces.registry import load_trace

    state, name = snapshot.state, Path(str(workload.state)).name
    notice = f"{name}: from {state.time_s:g} s on, with {len(state.jobs)} jobs"
    try:
        if workload.trace == STATE_TRACE:
            trace = continued(state, (), name, notice)
            return LoadedTrace(trace, snapshot.speeds, "file", notice)
        loaded = load_trace(workload.trace, seed=workload.seed, **workload.trace_options)
        full = loaded.trace
        trace = continued(state, full.jobs, full.name, full.description, full.searches)
    except InputError as error:
        if error.field != "state":
            raise
        raise error.located(file=workload.state) from error
    return replace(loaded, trace=trace, notice=f"{loaded.notice}; {notice}")


def _policy_options(scenario: Scenario, trace: Trace, snapshot: Snapshot | None) -> PolicyOptions:
    from morph_opt.decision.rules.model import OperatorRules
    from morph_opt.decision.rules.spec import read_rules
    from morph_opt.policies.registry import require_effect, require_understood

    scheduler, cluster = scenario.scheduler, scenario.cluster
    rules = OperatorRules()
    if scheduler.rules:
        rules = read_rules(scheduler.rules, cluster)
        require_understood(scheduler.policy, scheduler.objective, ("rules",))
    elif snapshot is not None and snapshot.rules is not None and snapshot.rules.rules:
        rules = snapshot.rules
        try:
            require_understood(scheduler.policy, scheduler.objective, ("rules",))
        except InputError as error:
            rule = f"has rules: {error.rule.replace(' it;', ' them;')}"
            raise InputError(rule, field="state") from error
    _require_tenants(scheduler.entity_weights, trace)
    options = scheduler.options(rules)
    require_effect(scheduler.policy, options, trace.jobs)
    return options


def require_scheduler(scheduler: Scheduler) -> None:
    """Refuse a scheduler that no trace could make right, without making it.

    Raises
    ------
    InputError
        For unknown names, and options that the policy does not know.
    """
    from morph_opt.policies.registry import require_named, require_understood
    from morph_opt.solvers.registry import require_named as require_solver_named

    require_named(scheduler.policy, scheduler.objective)
    given = [name for name in changed(scheduler) if name in OPTIONS]
    require_understood(scheduler.policy, scheduler.objective, given)
    require_solver_named(scheduler.solver)
    require_belief(scheduler)


def policy_of(
    scheduler: Scheduler, belief: SpeedModel, truth: SpeedModel, options: PolicyOptions
) -> Policy:
    """A fresh policy; what it learns stays with it, and the belief as it is.

    Raises
    ------
    InputError
        If the policy cannot be made, or cannot learn.
    """
    from morph_opt.perf.tables.tried import TriedModel
    from morph_opt.policies.online import OnlinePolicy
    from morph_opt.policies.registry import make_policy

    if scheduler.packing and scheduler.online_fit:
        raise InputError(f"cannot be combined with {typed('--online-fit')}", field="--packing")
    if scheduler.packing:
        require_pair_speeds(truth)

    def make(known: SpeedModel) -> Policy:
        return make_policy(scheduler.policy, known, options)

    if isinstance(belief, TriedModel):
        return OnlinePolicy(belief.fresh(), truth, make, "--belief")
    if scheduler.online_fit:
        # With linear algebra that nothing else needs.
        from morph_opt.perf.fitting.online import OnlineModel

        return OnlinePolicy(OnlineModel(belief), truth, make)
    return make(belief)


def _resolved(scenario: Scenario, trace: Trace) -> Scenario:
    """The scenario with digests and absolute paths; refuses files that are not those recorded."""
    from morph_opt.policies.auto import chosen
    from morph_opt.traces.registry import absolute_spec

    workload, scheduler, failures = scenario.workload, scenario.scheduler, scenario.failures
    digests = (_digest(failures.events), _digest(scheduler.rules))
    begin = None if workload.state is None else state_digest(workload.state)
    _require_same("state", workload.state_sha256, begin, workload.state)
    _require_same("trace", workload.sha256, trace.sha256, workload.trace)
    _require_same("events", failures.events_sha256, digests[0], failures.events)
    _require_same("rules", scheduler.rules_sha256, digests[1], scheduler.rules)
    return scenario.replaced(
        workload=replace(
            workload,
            trace=absolute_spec(workload.trace),
            sha256=trace.sha256,
            state=_absolute(workload.state),
            state_sha256=begin,
        ),
        failures=replace(failures, events=_absolute(failures.events), events_sha256=digests[0]),
        scheduler=replace(
            scheduler,
            rules=_absolute(scheduler.rules),
            rules_sha256=digests[1],
            chosen=chosen(scheduler.policy, scheduler, trace.jobs),
        ),
    )


def _absolute(file: str | None) -> str | None:
    return str(Path(file).resolve()) if file else None


def _require_models(scenario: Scenario, trace: Trace) -> None:
    """Refuse start-ups of models that no job has."""
    models = sorted({job.model for job in trace.jobs})
    for model in scenario.engine.restart_s_by_model:
        if model not in models:
            raise InputError(
                f"unknown model {model!r}{did_you_mean(model, models)}; trace {trace.name!r} has "
                f"{_some(models)}",
                field="--restart-s",
            )


def _require_slices(scenario: Scenario) -> None:
    """Refuse time slices that end before what runs in them has started."""
    from morph_opt.policies.registry import needs_of

    engine, scheduler = scenario.engine, scenario.scheduler
    slowest_s = max(engine.restart_s, *engine.restart_s_by_model.values(), 0.0)
    if needs_of(scheduler.policy, scheduler.objective).slices and slowest_s >= engine.interval_s:
        rule = (
            f"must be below the round of {engine.interval_s:g} s for time slices, got {slowest_s:g}"
        )
        raise InputError(rule, field="--restart-s")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _require_tenants(weights: Mapping[str, float], trace: Trace) -> None:
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
    scenario: Scenario, trace: Trace, truth: SpeedModel
) -> tuple[tuple[Job, str], ...]:
    """SLOs that nothing can keep; an error unless they are to be dropped. Also needs prices."""
    from morph_opt.policies.objectives.deadlines import prices_of
    from morph_opt.policies.registry import needs_of

    if not needs_of(scenario.scheduler.policy, scenario.scheduler.objective).prices:
        return ()
    prices_of(scenario.cluster)
    found = infeasible_slos(trace.jobs, truth, scenario.cluster)
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
    """The trace without jobs that can never run; an error if they must not be dropped."""
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
    """What to do about a log whose jobs ran on GPU types that the cluster has not."""
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


def _require_same(what: str, recorded: str | None, found: str | None, file: str | None) -> None:
    if recorded is not None and recorded != found:
        raise InputError(
            f"is not the {what} that the run began with "
            f"(sha256 {str(found)[:12]}, not {recorded[:12]})",
            file=file,
            field=what,
        )


@cache
def versions_json() -> str:
    """Text of ``versions.json``: interpreter, platform and the packages that decide results."""
    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    for package in ("morph-opt", "numpy", "scipy", "networkx", "highspy", "ortools"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return json.dumps(versions, indent=2) + "\n"
