"""From options to the things that a replay needs; everything bad is found here, before it runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.commandline import named_numbers
from morph_opt.domain import InputError, Job, Trace
from morph_opt.engine.node_events import NodeEvent, merged, random_failures, read_node_events
from morph_opt.metrics.bounds.demands import hopeless_slos, impossible_jobs
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import require_pair_speeds
from morph_opt.policies.base import Policy
from morph_opt.replay.belief import make_belief
from morph_opt.replay.options import RunOptions

if TYPE_CHECKING:
    from morph_opt.policies.registry import PolicyOptions


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything loaded and checked.

    Parameters
    ----------
    options
        With the digests of trace and events filled in.
    trace, truth, policy
        What runs, how fast, who decides.
    kind, notice
        Where the trace comes from.
    skipped
        Jobs that were dropped because they can never run, with the rule.
    hopeless
        Jobs whose SLO nothing can keep, with the rule; they run, and their SLO is dropped.
    belief, policy_options
        What the policy was made from.
    """

    options: RunOptions
    trace: Trace
    truth: SpeedModel
    policy: Policy
    kind: str
    notice: str
    skipped: tuple[tuple[Job, str], ...]
    belief: SpeedModel
    policy_options: PolicyOptions
    hopeless: tuple[tuple[Job, str], ...] = ()

    def node_events(self) -> Iterable[NodeEvent]:
        """A fresh stream of node events."""
        options, cluster = self.options, self.options.cluster
        streams: list[Iterable[NodeEvent]] = []
        if options.events:
            streams.append(read_node_events(Path(options.events), cluster))
        if options.mtbf_s > 0.0:
            streams.append(
                random_failures(
                    cluster, mtbf_s=options.mtbf_s, mttr_s=options.mttr_s, seed=options.seed
                )
            )
        return merged(*streams)


def _digest(file: str) -> str:
    """SHA-256 of a file that has been read already; "" for no file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def prepare(options: RunOptions) -> Prepared:
    """Load and check everything.

    Raises
    ------
    InputError
        For everything that a user can cause.
    """
    from morph_opt.perf.fitting.online import OnlineModel
    from morph_opt.policies.online import OnlinePolicy
    from morph_opt.policies.registry import PolicyOptions, make_policy, require_understood
    from morph_opt.rules import OperatorRules, read_rules, stranded_jobs
    from morph_opt.traces.registry import load_trace

    loaded = load_trace(options.trace, seed=options.seed)
    # A measured table may insist on knowing every GPU type, instead of leaving some unused.
    require_cluster = getattr(loaded.truth, "require_cluster", None)
    if require_cluster is not None:
        require_cluster(options.cluster)
    belief = make_belief(options.belief, loaded.truth)
    policy_options = PolicyOptions(
        objective=options.objective,
        solver=options.solver,
        formulation=options.formulation,
        method=options.method,
        gap=options.gap,
        time_limit_s=options.time_limit_s,
        node_limit=options.node_limit or None,
        seed=options.seed,
        rules=read_rules(options.rules, options.cluster) if options.rules else OperatorRules(),
        packing=options.packing,
        entity_weights=_entity_weights(options, loaded.trace),
        starvation_knob=options.starvation_knob,
        artifact_quirks=options.artifact_quirks,
    )
    if options.rules:
        require_understood(options.policy, options.objective, ("rules",))
    _require_models(options, loaded.trace)
    if options.packing and options.online_fit:
        raise InputError("cannot be combined with --online-fit", field="--packing")
    if options.packing:
        require_pair_speeds(loaded.truth)
    policy = (
        OnlinePolicy(
            OnlineModel(belief),
            loaded.truth,
            lambda learnt: make_policy(options.policy, learnt, policy_options),
        )
        if options.online_fit
        else make_policy(options.policy, belief, policy_options)
    )
    stranded = stranded_jobs(policy_options.rules, loaded.trace.jobs, belief, options.cluster)
    hopeless = _hopeless(options, loaded.trace, loaded.truth)
    trace, skipped = _possible(loaded.trace, options, (loaded.truth, belief), stranded)
    events_sha256 = ""
    if options.events:
        read_node_events(Path(options.events), options.cluster)
        events_sha256 = _digest(options.events)
    rules_sha256 = _digest(options.rules)
    _require_same("trace", options.trace_sha256, trace.sha256, options.trace)
    _require_same("events", options.events_sha256, events_sha256, options.events)
    _require_same("rules", options.rules_sha256, rules_sha256, options.rules)
    path = Path(options.trace)
    resolved = replace(
        options,
        trace=str(path.resolve()) if loaded.kind == "file" and path.is_file() else options.trace,
        trace_sha256=trace.sha256,
        events=str(Path(options.events).resolve()) if options.events else "",
        events_sha256=events_sha256,
        rules=str(Path(options.rules).resolve()) if options.rules else "",
        rules_sha256=rules_sha256,
    )
    return Prepared(
        resolved, trace, loaded.truth, policy, loaded.kind, loaded.notice, tuple(skipped),
        belief, policy_options, hopeless,
    )  # fmt: skip


def _require_models(options: RunOptions, trace: Trace) -> None:
    """Refuse start-ups of models that no job has."""
    models = sorted({job.model for job in trace.jobs})
    for model in options.restart_s_by_model:
        if model not in models:
            raise InputError(
                f"unknown model {model!r}; trace {trace.name!r} has {_some(models)}",
                field="--restart-s",
            )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _entity_weights(options: RunOptions, trace: Trace) -> dict[str, float]:
    """Weights by tenant; tenants that the trace does not have are refused."""
    text = options.entity_weights
    weights = named_numbers(text, "--entity-weights") if text else {}
    tenants = sorted({job.tenant for job in trace.jobs})
    for name in weights:
        if name not in tenants:
            raise InputError(
                f"unknown tenant {name!r}; trace {trace.name!r} has {_some(tenants)}",
                field="--entity-weights",
            )
    return weights


def _hopeless(options: RunOptions, trace: Trace, truth: SpeedModel) -> tuple[tuple[Job, str], ...]:
    """SLOs that nothing can keep; an error unless they are to be dropped. Also needs prices."""
    from morph_opt.policies.deadlines import prices_of
    from morph_opt.policies.registry import needs_of

    if not needs_of(options.policy, options.objective).prices:
        return ()
    prices_of(options.cluster)
    found = hopeless_slos(trace.jobs, truth, options.cluster)
    if found and not options.skip_impossible:
        job, rule = found[0]
        others = f" ({len(found) - 1} more such SLOs)" if len(found) > 1 else ""
        raise InputError(
            f"{rule}{others}; --skip-impossible drops such SLOs",
            file=options.trace,
            field=f"job {job.name}",
        )
    return found


def _possible(
    trace: Trace,
    options: RunOptions,
    speeds: tuple[SpeedModel, SpeedModel],
    stranded: tuple[tuple[Job, str], ...],
) -> tuple[Trace, tuple[tuple[Job, str], ...]]:
    """The trace without jobs that can never run; an error if they must not be dropped."""
    found = impossible_jobs(trace.jobs, speeds[0], options.cluster)
    if speeds[1] is not speeds[0]:
        known = {job.name for job, _ in found}
        more = impossible_jobs(trace.jobs, speeds[1], options.cluster)
        found += tuple(
            (job, f"{rule} (as the belief {options.belief!r} sees it)")
            for job, rule in more
            if job.name not in known
        )
    known = {job.name for job, _ in found}
    found += tuple((job, rule) for job, rule in stranded if job.name not in known)
    if not found:
        return trace, ()
    if not options.skip_impossible:
        job, rule = found[0]
        others = f" ({len(found) - 1} more such jobs)" if len(found) > 1 else ""
        raise InputError(
            f"can never run: {rule}{others}; --skip-impossible drops such jobs",
            file=options.trace,
            field=f"job {job.name}",
        )
    dropped = {job.name for job, _ in found}
    kept = tuple(job for job in trace.jobs if job.name not in dropped)
    if not kept:
        raise InputError("no job of the trace can ever run", file=options.trace, field="jobs")
    return Trace(trace.name, kept, trace.description), found


def _require_same(what: str, recorded: str, found: str, file: str) -> None:
    if recorded and recorded != found:
        raise InputError(
            f"is not the {what} that the run began with (sha256 {found[:12]}, not {recorded[:12]})",
            file=file,
            field=what,
        )


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
