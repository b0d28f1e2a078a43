"""Load and validate a scenario before it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.documents import JSON_BYTES, parse_json, read_bytes
from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import Cluster, InputError, Job, RoundState, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.options import changed
from morph_opt.core.domain.trace import Search
from morph_opt.inputs.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.inputs.traces.format import STATE_TRACE, LoadedTrace
from morph_opt.replay.belief import make_belief, require_belief
from morph_opt.replay.check import Checked, check
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.options import OPTIONS
from morph_opt.simulation.engine.node_events import (
    NodeEvent,
    merged,
    random_failures,
    read_node_events,
)

if TYPE_CHECKING:
    from morph_opt.replay.scenario import Scenario, Workload
    from morph_opt.round.snapshot import Snapshot
    from morph_opt.scheduling.decision.rules.model import OperatorRules
    from morph_opt.scheduling.policies.options import PolicyOptions, Scheduler
    from morph_opt.scheduling.policies.registry import Decider
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
    if workload.state is None:
        return _traced(workload, given), None
    snapshot = read_snapshot(workload.state)
    state, name = snapshot.state, Path(workload.state).name
    notice = f"{name}: from {state.time_s:g} s on, with {len(state.jobs)} jobs"
    try:
        if workload.trace == STATE_TRACE:
            trace = continued(state, (), name, notice)
            return LoadedTrace(trace, snapshot.speeds, "file", notice), snapshot
        source = _traced(workload, given)
        full = source.trace
        trace = continued(state, full.jobs, full.name, full.description, full.searches)
    except InputError as error:
        if error.field != "state":
            raise
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
        If there is no job at all, or a job of the state differs from that of the trace.
    """
    known = {one.job.name: one.job for one in state.jobs}
    for job in later:
        if job.name in known and known[job.name] != job:
            raise InputError(
                f"job {job.name} of the state differs from that of the trace", field="state"
            )
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


def _traced(workload: Workload, given: str | Trace | LoadedTrace) -> LoadedTrace:
    """Load a trace; a `Trace` gets the speeds of the built-in model."""
    from morph_opt.inputs.traces.registry import load_trace

    if isinstance(given, str):
        return load_trace(given, seed=workload.seed, **workload.trace_options)
    if isinstance(given, LoadedTrace):
        return given
    from morph_opt.inputs.perf.analytic.zoo import builtin_model

    notice = f"{given.name}: your jobs, speeds of the built-in performance model"
    return LoadedTrace(given, builtin_model(), "file", notice)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario that is loaded and checked.

    Parameters
    ----------
    scenario
        The scenario with digests and absolute paths, as run folders record it.
    source
        Where jobs and speeds come from.
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

    def node_events(self) -> Iterable[NodeEvent]:
        """Return a fresh stream of node events."""
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

    def fresh_policy(self) -> Policy:
        """Return a new policy of the same kind; one object serves one run."""
        scheduler = self.scenario.scheduler
        return make_policy(self.decider, scheduler, self.belief, self.truth, self.policy_options)


def prepare(scenario: Scenario) -> Prepared:
    """Load and check a scenario.

    Raises
    ------
    InputError
        For everything that a user can cause.
    """
    from morph_opt.scheduling.policies.registry import resolve

    scheduler, engine = scenario.scheduler, scenario.engine
    source, snapshot = load(scenario.workload, scenario.trace)
    if engine.first_start_s is None and source.first_start_s is not None:
        engine = replace(engine, first_start_s=source.first_start_s)
    belief = make_belief(scheduler, source.truth)
    decider = resolve(scenario.policy, scenario.objective)
    options = scheduler.options(_rules(scheduler, decider, scenario.cluster, snapshot))
    policy = make_policy(decider, scheduler, belief, source.truth, options)
    jobs = check(scenario, engine, source, snapshot, decider, belief, options)
    recorded = _recorded(scenario, engine, jobs.trace)
    return Prepared(recorded, source, jobs, decider, belief, options, policy)


def _rules(
    scheduler: Scheduler, decider: Decider, cluster: Cluster, snapshot: Snapshot | None
) -> OperatorRules:
    """Return the operator's rules, from their file or from the state."""
    from morph_opt.scheduling.decision.rules.model import OperatorRules
    from morph_opt.scheduling.decision.rules.spec import read_rules

    if scheduler.rules:
        rules = read_rules(scheduler.rules, cluster)
        decider.require_understood(("rules",))
        return rules
    if snapshot is not None and snapshot.rules is not None:
        return snapshot.rules
    return OperatorRules()


def _digest(file: str | None) -> str | None:
    """Return the SHA-256 of a file; None for no file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def require_scheduler(scheduler: Scheduler) -> None:
    """Refuse a scheduler that fails for every trace, without importing or making anything.

    Raises
    ------
    InputError
        For unknown names, and options that the policy does not know.
    """
    from morph_opt.scheduling.policies.registry import require_named, require_understood
    from morph_opt.scheduling.solvers.registry import require_named as require_solver_named

    require_named(scheduler.policy, scheduler.objective)
    given = [name for name in changed(scheduler) if name in OPTIONS]
    require_understood(scheduler.policy, scheduler.objective, given)
    require_solver_named(scheduler.solver)
    require_belief(scheduler)


def make_policy(
    decider: Decider,
    scheduler: Scheduler,
    belief: SpeedModel,
    truth: SpeedModel,
    options: PolicyOptions,
) -> Policy:
    """Return a new policy; its learning leaves the belief unchanged.

    Raises
    ------
    InputError
        If the policy cannot be made, or cannot learn.
    """
    from morph_opt.inputs.perf.tables.tried import TriedModel
    from morph_opt.scheduling.policies.online import OnlinePolicy

    if scheduler.packing and scheduler.online_fit:
        raise InputError(f"cannot be combined with {typed('--online-fit')}", field="--packing")
    if scheduler.packing:
        require_pair_speeds(truth)

    def make(known: SpeedModel) -> Policy:
        return decider.make(known, options)

    if isinstance(belief, TriedModel):
        return OnlinePolicy(belief.fresh(), truth, make, "--belief")
    if scheduler.online_fit:
        # Imported here, because only it needs linear algebra.
        from morph_opt.inputs.perf.fitting.online import OnlineModel

        return OnlinePolicy(OnlineModel(belief), truth, make)
    return make(belief)


def _recorded(scenario: Scenario, engine: ReplayConfig, trace: Trace) -> Scenario:
    """Return the scenario as run folders record it: with digests and absolute paths.

    Raises
    ------
    InputError
        If a file is not the one whose digest is recorded.
    """
    from morph_opt.inputs.traces.registry import absolute_spec
    from morph_opt.scheduling.policies.auto import chosen

    workload, scheduler, failures = scenario.workload, scenario.scheduler, scenario.failures
    digests = (_digest(failures.events), _digest(scheduler.rules))
    begin = None if workload.state is None else state_digest(workload.state)
    _require_same("state", workload.state_sha256, begin, workload.state)
    _require_same("trace", workload.sha256, trace.sha256, workload.trace)
    _require_same("events", failures.events_sha256, digests[0], failures.events)
    _require_same("rules", scheduler.rules_sha256, digests[1], scheduler.rules)
    return scenario.replaced(
        engine=engine,
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


def state_digest(path: str) -> str:
    """Return the SHA-256 of a state's file and of the file of speeds that it names."""
    digest = hashlib.sha256(read_bytes(Path(path), JSON_BYTES))
    speeds = parse_json(read_text(Path(path), JSON_BYTES), path).get("speeds")
    if isinstance(speeds, dict) and isinstance(speeds.get("file"), str):
        digest.update(read_bytes(Path(path).parent / speeds["file"], JSON_BYTES))
    return digest.hexdigest()


def _absolute(file: str | None) -> str | None:
    return str(Path(file).resolve()) if file else None


def _require_same(what: str, recorded: str | None, found: str | None, file: str | None) -> None:
    if recorded is not None and recorded != found:
        raise InputError(
            f"is not the {what} that the run began with "
            f"(sha256 {str(found)[:12]}, not {recorded[:12]})",
            file=file,
            field=what,
        )
