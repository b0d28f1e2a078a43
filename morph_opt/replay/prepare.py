"""Load and validate a scenario before it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.documents import JSON_BYTES, parse_json, read_bytes
from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import Cluster, InputError, Job, RoundState, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.trace import Search
from morph_opt.inputs.data.archive import sha256_of
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.format import STATE_TRACE, LoadedTrace
from morph_opt.inputs.traces.limits import with_limits
from morph_opt.inputs.traces.registry import absolute_spec, load_trace
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.decision.rules.stranded import stranded_jobs
from morph_opt.scheduling.policies.auto import chosen
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.blind import Durations, limit_of
from morph_opt.scheduling.policies.objectives.deadlines import prices_of
from morph_opt.scheduling.policies.registry import Decider, resolve
from morph_opt.scheduling.policies.scheduler import learning_policy, make_belief
from morph_opt.simulation.engine.initial import on_cluster, require_initial, with_prices
from morph_opt.simulation.engine.node_events import (
    NodeEvent,
    merged,
    random_failures,
    read_node_events,
)
from morph_opt.simulation.metrics.bounds.demands import impossible_jobs, infeasible_slos

if TYPE_CHECKING:
    from morph_opt.replay.scenario import Scenario, Workload
    from morph_opt.round.snapshot import Snapshot
    from morph_opt.scheduling.policies.options import PolicyOptions, Scheduler
    from morph_opt.simulation.engine.config import ReplayConfig


def load(
    workload: Workload, given: str | Trace | LoadedTrace
) -> tuple[LoadedTrace, Snapshot | None]:
    """Load the jobs of a workload with their true speeds, and the state to begin with, if any.

    Parameters
    ----------
    workload
        The workload.
    given
        Its trace: name, file or value.

    Raises
    ------
    InputError
        If trace or state cannot be read, or do not fit together.
    """
    source: LoadedTrace | None = None
    if isinstance(given, LoadedTrace):
        source = given
    elif isinstance(given, Trace):
        told = f"{given.name}: your jobs, speeds of the built-in performance model"
        source = LoadedTrace(given, builtin_model(), "file", told)
    elif workload.state is None or given != STATE_TRACE:
        source = load_trace(given, seed=workload.seed, **workload.trace_options)
    if workload.state is None:
        assert source is not None
        return source, None
    snapshot = read_snapshot(workload.state)
    state, name = snapshot.state, Path(workload.state).name
    notice = f"{name}: from {state.time_s:g} s on, with {len(state.jobs)} jobs"
    try:
        if source is None:
            trace = continued(state, (), name, notice)
            return LoadedTrace(trace, snapshot.speeds, "file", notice), snapshot
        full = source.trace
        trace = continued(state, full.jobs, full.name, full.description, full.searches)
    except InputError as error:
        raise error.located(file=workload.state) from error
    return replace(source, trace=trace, notice=f"{source.notice}; {notice}"), snapshot


def continued(
    state: RoundState,
    later: Sequence[Job],
    name: str,
    description: str = "",
    searches: Sequence[Search] = (),
) -> Trace:
    """Return a trace of the state's jobs, of later jobs, and of the searches among them.

    A job of the trace that was submitted before the state and is not in it is complete or
    cancelled. So a search that has been cut is not cut again.

    Raises
    ------
    InputError
        If there is no job at all, or a job of the state differs from the trace's.
    """
    known = {one.job.name: one.job for one in state.jobs}
    for job in later:
        if job.name in known and known[job.name] != job:
            raise InputError(f"job {job.name} of the state differs from the trace's", field="state")
    arrivals = [job for job in later if job.submission_s > state.time_s]
    if not known and not arrivals:
        raise InputError("the state has no jobs, and no job arrives after it", field="state")
    there = {*known, *(job.name for job in arrivals)}
    left = []
    for search in searches:
        ranked = tuple(trial for trial in search.ranked if trial in there)
        if ranked:
            left.append(Search(search.name, ranked, len(ranked) - len(there & {*search.cut})))
    return Trace.of(name, (*known.values(), *arrivals), description, left)


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario that is loaded and checked.

    Parameters
    ----------
    scenario
        The scenario with digests and absolute paths, as run folders record it.
    source
        Source of jobs and speeds.
    jobs
        Jobs that run, and those that were dropped.
    decider, belief, policy_options
        Inputs of the policy.
    policy
        The policy of the run.
    """

    scenario: Scenario
    source: LoadedTrace
    jobs: Checked
    decider: Decider
    belief: SpeedModel
    policy_options: PolicyOptions
    policy: Policy

    @property
    def trace(self) -> Trace:
        """Jobs that run."""
        return self.jobs.trace

    @property
    def truth(self) -> SpeedModel:
        """Speeds by which jobs advance."""
        return self.source.truth

    def notes(self) -> Iterator[str]:
        """Yield lines on the source of the jobs and on the choice of ``auto``."""
        yield self.source.notice
        if self.scenario.scheduler.chosen is not None:
            yield self.scenario.scheduler.chosen
        yield from self.policy.notes()
        if self.source.account is not None:
            yield from self.source.account.texts()

    def dropped(self) -> Iterator[str]:
        """Yield a line per dropped job and per dropped SLO."""
        for job, rule in self.jobs.skipped:
            yield f"job {job.name} can never run: {rule}"
        for job, rule in self.jobs.infeasible:
            yield f"the SLO of job {job.name}: {rule}"

    def node_events(self) -> Iterable[NodeEvent]:
        """Return a fresh stream of node events."""
        failures, cluster = self.scenario.failures, self.scenario.cluster
        streams: list[Iterable[NodeEvent]] = []
        if failures.events:
            streams.append(read_node_events(Path(failures.events), cluster))
        if failures.mtbf_s is not None and failures.mttr_s is not None:
            means = {"mtbf_s": failures.mtbf_s, "mttr_s": failures.mttr_s}
            streams.append(random_failures(cluster, **means, seed=failures.seed))
        return merged(*streams)

    def fresh_policy(self) -> Policy:
        """Return a new policy of the same kind; one object serves one run."""
        scheduler = self.scenario.scheduler
        policy = learning_policy(
            self.decider, scheduler, self.belief, self.truth, self.policy_options
        )
        policy.begins_at(self.source.clock_s)
        return policy


def prepare(scenario: Scenario) -> Prepared:
    """Load and check a scenario.

    Raises
    ------
    InputError
        For everything that a user can cause.
    """
    scheduler, engine = scenario.scheduler, scenario.engine
    decider = resolve(scenario.policy, scenario.objective)
    source, snapshot = load(scenario.workload, scenario.trace)
    if engine.first_start_s is None and source.first_start_s is not None:
        engine = replace(engine, first_start_s=source.first_start_s)
    source = replace(source, trace=_limited(scenario, engine, source, decider))
    belief = make_belief(scheduler, source.truth)
    options = scheduler.options(_rules(scheduler, decider, scenario.cluster, snapshot))
    policy = learning_policy(decider, scheduler, belief, source.truth, options)
    policy.begins_at(source.clock_s)
    jobs = _check(scenario, engine, source, snapshot, decider, belief, options)
    recorded = _recorded(scenario, engine, jobs.trace)
    return Prepared(recorded, source, jobs, decider, belief, options, policy)


def _limited(
    scenario: Scenario, engine: ReplayConfig, source: LoadedTrace, decider: Decider
) -> Trace:
    """Return the trace with time limits by the law of ``--durations limits:LAW``.

    Raises
    ------
    InputError
        If a job has none and no law is given, but policy or option go by limits.
    """
    durations, trace = Durations.parse(scenario.scheduler.durations), source.trace
    if durations.law is not None:
        requests = GangSpeeds.on(scenario.cluster, source.truth)

        def run_s(job: Job) -> float:
            return engine.first_start_of(job.model) + job.iterations * requests.iteration_s(job)

        seed = scenario.workload.seed
        return trace.of_jobs(with_limits(trace.jobs, durations.law, run_s, seed))
    if (durations.limits and decider.rule.limits != "planned") or decider.rule.limits == "needed":
        for job in trace.jobs:
            limit_of(job)
    return trace


def _rules(
    scheduler: Scheduler, decider: Decider, cluster: Cluster, snapshot: Snapshot | None
) -> OperatorRules:
    """Return the operator's rules, from their file or from the state."""
    if scheduler.rules:
        rules = read_rules(scheduler.rules, cluster)
        decider.require_rules(rules)
        return rules
    if snapshot is not None and snapshot.rules is not None:
        return snapshot.rules
    return OperatorRules()


def _check(
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
    cluster, jobs = scenario.cluster, source.trace.jobs
    _require_fitting(scenario, engine, source, decider)
    decider.require_effect(options, jobs)
    infeasible: tuple[tuple[Job, str], ...] = ()
    stranded = stranded_jobs(options.rules, jobs, belief, cluster)
    if decider.rule.prices:
        prices_of(cluster)
        infeasible = infeasible_slos(jobs, source.truth, cluster)
        _require_dropped(infeasible, scenario, "{}", "SLOs")
    trace, skipped = _possible(source, scenario, belief, stranded)
    if scenario.failures.events:
        read_node_events(Path(scenario.failures.events), cluster)
    initial = None
    if snapshot is not None:
        try:
            require_initial(snapshot.state, source.trace, cluster, engine)
        except InputError as error:
            raise error.located(file=scenario.workload.state) from error
        initial = with_prices(on_cluster(snapshot.state, cluster, trace.jobs), engine)
    return Checked(trace, skipped, infeasible, initial)


def _require_fitting(
    scenario: Scenario, engine: ReplayConfig, source: LoadedTrace, decider: Decider
) -> None:
    """Refuse options that do not fit the trace: unknown models or tenants, slices too short."""
    trace = source.trace
    tenants = scenario.scheduler.entity_weights
    for field, what, asked in (
        ("--restart-s", "model", engine.restart_s_by_model),
        ("--checkpoint-s", "model", engine.checkpoint_s_by_model),
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


def _possible(
    source: LoadedTrace, scenario: Scenario, belief: SpeedModel, stranded: Iterable[tuple[Job, str]]
) -> tuple[Trace, tuple[tuple[Job, str], ...]]:
    """Return the trace without jobs that can never run, and those, or refuse them."""
    trace, cluster = source.trace, scenario.cluster
    faults = [*impossible_jobs(trace.jobs, source.truth, cluster)]
    if belief is not source.truth:
        seen = f" (as the belief {scenario.scheduler.belief!r} sees it)"
        more = impossible_jobs(trace.jobs, belief, cluster)
        faults += ((job, rule + seen) for job, rule in more)
    first: dict[str, tuple[Job, str]] = {}
    for job, rule in (*faults, *stranded):
        first.setdefault(job.name, (job, rule))
    found = tuple(first.values())
    if not found:
        return trace, ()
    elsewhere = _elsewhere(source.truth, cluster)
    _require_dropped(found, scenario, "can never run: {}", "jobs", elsewhere)
    dropped = {job.name for job, _ in found}
    kept = tuple(job for job in trace.jobs if job.name not in dropped)
    if not kept:
        rule = f"no job of the trace can ever run{elsewhere}"
        raise InputError(rule, file=scenario.workload.trace, field="jobs")
    return trace.of_jobs(kept), found


def _require_dropped(
    found: Sequence[tuple[Job, str]], scenario: Scenario, rule: str, what: str, advice: str = ""
) -> None:
    """Refuse jobs with these faults unless such are dropped; the first one is named."""
    if found and not scenario.workload.skip_impossible:
        job, fault = found[0]
        others = f" ({len(found) - 1} more such {what})" if len(found) > 1 else ""
        drops = f"{typed('--skip-impossible')} drops such {what}"
        raise InputError(
            f"{rule.format(fault)}{others}; {drops}{advice}",
            file=scenario.workload.trace,
            field=f"job {job.name}",
        )


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


def _recorded(scenario: Scenario, engine: ReplayConfig, trace: Trace) -> Scenario:
    """Return the scenario as run folders record it: with digests and absolute paths.

    Raises
    ------
    InputError
        If a file is not the one whose digest is recorded.
    """
    workload, scheduler, failures = scenario.workload, scenario.scheduler, scenario.failures
    found = {
        "state": None if workload.state is None else state_digest(workload.state),
        "trace": trace.sha256,
        "events": _digest(failures.events),
        "rules": _digest(scheduler.rules),
    }
    for what, recorded, file in (
        ("state", workload.state_sha256, workload.state),
        ("trace", workload.sha256, workload.trace),
        ("events", failures.events_sha256, failures.events),
        ("rules", scheduler.rules_sha256, scheduler.rules),
    ):
        if recorded is not None and recorded != found[what]:
            digests = f"sha256 {str(found[what])[:12]}, not {recorded[:12]}"
            rule = f"is not the {what} that the run began with ({digests})"
            raise InputError(rule, file=file, field=what)
    return scenario.replaced(
        engine=engine,
        workload=replace(
            workload,
            trace=absolute_spec(workload.trace),
            sha256=found["trace"],
            state=_absolute(workload.state),
            state_sha256=found["state"],
        ),
        failures=replace(
            failures, events=_absolute(failures.events), events_sha256=found["events"]
        ),
        scheduler=replace(
            scheduler,
            rules=_absolute(scheduler.rules),
            rules_sha256=found["rules"],
            chosen=chosen(scheduler.policy, scheduler, trace.jobs),
        ),
    )


def _digest(file: str | None) -> str | None:
    """Return the SHA-256 of a file; None for no file."""
    return sha256_of(Path(file)) if file else None


def state_digest(path: str) -> str:
    """Return the SHA-256 of a state's file and of the file of speeds that it names."""
    digest = hashlib.sha256(read_bytes(Path(path), JSON_BYTES))
    speeds = parse_json(read_text(Path(path), JSON_BYTES), path).get("speeds")
    if isinstance(speeds, dict) and isinstance(speeds.get("file"), str):
        digest.update(read_bytes(Path(path).parent / speeds["file"], JSON_BYTES))
    return digest.hexdigest()


def _absolute(file: str | None) -> str | None:
    return str(Path(file).resolve()) if file else None
