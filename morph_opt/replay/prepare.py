"""Load and validate a scenario before it runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.domain import Cluster, InputError, Trace
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.options import changed
from morph_opt.inputs.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.replay.belief import make_belief, require_belief
from morph_opt.replay.check import Checked, check, require_models, require_slices, require_tenants
from morph_opt.replay.initial import (
    state_digest,
)
from morph_opt.replay.load import Loaded, load
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.options import OPTIONS
from morph_opt.simulation.engine.node_events import (
    NodeEvent,
    merged,
    random_failures,
    read_node_events,
)

if TYPE_CHECKING:
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.replay.scenario import Scenario
    from morph_opt.scheduling.policies.options import PolicyOptions, Scheduler
    from morph_opt.scheduling.policies.registry import Decider
    from morph_opt.simulation.engine.config import ReplayConfig


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
        What the policy is made from.
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
        """Return another policy of the same kind: an object serves one run."""
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
    loaded = load(scenario.workload, scenario.trace)
    if engine.first_start_s is None and loaded.source.first_start_s is not None:
        engine = replace(engine, first_start_s=loaded.source.first_start_s)
    # A measured table may insist on knowing every GPU type, instead of leaving some unused.
    require_cluster = getattr(loaded.truth, "require_cluster", None)
    if require_cluster is not None:
        require_cluster(scenario.cluster)
    require_belief(scheduler)
    belief = make_belief(scheduler.belief, loaded.truth)
    decider = resolve(scenario.policy, scenario.objective)
    options = _policy_options(scheduler, decider, scenario.cluster, loaded)
    require_models(engine, loaded.trace)
    require_slices(engine, decider)
    policy = make_policy(decider, scheduler, belief, loaded.truth, options)
    jobs = check(scenario, engine, loaded, decider, belief, options)
    recorded = _recorded(scenario, engine, jobs.trace)
    return Prepared(recorded, loaded.source, jobs, decider, belief, options, policy)


def _policy_options(
    scheduler: Scheduler, decider: Decider, cluster: Cluster, loaded: Loaded
) -> PolicyOptions:
    """Return the options of the policy, with the rules of their file or of the state."""
    from morph_opt.scheduling.decision.rules.model import OperatorRules
    from morph_opt.scheduling.decision.rules.spec import read_rules

    rules, snapshot = OperatorRules(), loaded.snapshot
    if scheduler.rules:
        rules = read_rules(scheduler.rules, cluster)
        decider.require_understood(("rules",))
    elif snapshot is not None and snapshot.rules is not None and snapshot.rules.rules:
        rules = snapshot.rules
    require_tenants(scheduler.entity_weights, loaded.trace)
    options = scheduler.options(rules)
    decider.require_effect(options, loaded.trace.jobs)
    return options


def _digest(file: str | None) -> str | None:
    """Return the SHA-256 of a file that has been read already; None for no file."""
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
    """Return a fresh policy; it learns by itself and leaves the belief unchanged.

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
        # With linear algebra that nothing else needs.
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


@cache
def versions_json() -> str:
    """Return the text of ``versions.json``: interpreter, platform and packages."""
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
