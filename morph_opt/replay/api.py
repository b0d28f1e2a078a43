"""`replay`: run a policy over a trace, with or without a run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from morph_opt.domain import Cluster, InputError, RoundState, Trace
from morph_opt.domain.options import changed
from morph_opt.engine.config import ReplayConfig
from morph_opt.engine.engine import Engine
from morph_opt.engine.node_events import NodeEvent
from morph_opt.events.log import Begun, Event
from morph_opt.metrics.bounds.demands import job_demands, packed_demands
from morph_opt.metrics.bounds.initial import initial_demands
from morph_opt.metrics.bounds.lower import Demands
from morph_opt.metrics.cost import cost_metrics
from morph_opt.metrics.fairness import fairness_metrics, finish_time_ratios
from morph_opt.metrics.history import History, Scalar
from morph_opt.metrics.promises import promise_metrics
from morph_opt.metrics.schedule import (
    gpu_utilization_by_type,
    metrics_of,
    packing_metrics,
    service_metrics,
)
from morph_opt.perf.gang import GangSpeeds
from morph_opt.perf.speed import SpeedModel, pair_speeds
from morph_opt.policies.base import Policy
from morph_opt.replay.drive import Drive, Progress
from morph_opt.replay.initial import require_initial
from morph_opt.runs.early import EarlyEnd
from morph_opt.runs.jobs import JobRow, job_rows, jobs_csv
from morph_opt.runs.read import Parts, folder_parts
from morph_opt.runs.rounds import RoundRow
from morph_opt.runs.slo import Slo
from morph_opt.runs.summary import BOUND_KEYS, Values, build_summary, summary_json
from morph_opt.runs.tally import Tally
from morph_opt.runs.write import Recorded, RunWriter, create_folder, reopen_rounds
from morph_opt.strict.rules import AllocationError


@dataclass(frozen=True, slots=True)
class RunExtras:
    """What a run needs next to the replay itself.

    Parameters
    ----------
    files
        Files that the run folder holds from its first instant on (``config.toml`` ...).
    labels
        Further values of ``summary.json`` that are known before the run: objective, solver ...
    at_end
        Gives the values that are known only at the end: wall time, memory.
    progress
        Called after each round.
    digest
        Identity of everything that decides the run and that the engine does not see (policy
        options); part of the log's first line, so that a resumed run cannot mix two of them.
    packing
        Whether jobs may share GPUs in pairs: the lower bounds are then about such schedules too.
    slo
        What the replay is run to be judged by; it ends where that is missed for certain.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Scalar] = field(default_factory=dict)
    at_end: Callable[[], Mapping[str, Scalar]] = dict
    progress: Progress | None = None
    digest: str = ""
    packing: bool = False
    slo: Slo | None = None


@dataclass(frozen=True)
class ReplayResult:
    """A finished replay.

    Parameters
    ----------
    history
        What happened to each job, segment by segment.
    jobs
        Rows of ``jobs.csv``.
    parts
        Where its log is: in the run folder, or in memory of a replay that wrote none.
    """

    history: History
    jobs: tuple[JobRow, ...]
    parts: Parts

    @cached_property
    def summary(self) -> Values:
        """Content of ``summary.json``."""
        return self.parts.summary().values

    @cached_property
    def rounds(self) -> tuple[RoundRow, ...]:
        """Rows of ``rounds.csv``."""
        return tuple(self.parts.rounds())

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The log."""
        return tuple(self.parts.events())


def replay(
    trace: Trace,
    cluster: Cluster,
    policy: Policy,
    truth: SpeedModel,
    config: ReplayConfig | None = None,
    *,
    node_events: Iterable[NodeEvent] = (),
    out: Path | None = None,
    resume: bool = False,
    extras: RunExtras | None = None,
    initial: RoundState | None = None,
) -> ReplayResult:
    """Replay a trace.

    Parameters
    ----------
    trace, cluster, policy, truth
        What runs where, by which policy, and how fast jobs truly run.
    config
        Rules; the defaults are those of the command line.
    node_events
        Failures, drains and returns, sorted by time.
    out
        Run folder to write; None keeps everything in memory.
    resume
        ``out`` is an interrupted run of the same inputs: take its recorded decisions, then go on.
    extras
        Files, labels and callbacks of a command line.
    initial
        State to begin with, of the same cluster: its jobs are those of the trace that are submitted
        by then and not complete, no others. The first round is at the first boundary not before it.

    Raises
    ------
    InputError
        If a job can never run, ``out`` is in use, or an interrupted run does not fit the inputs.
    AllocationError
        If the policy breaks a rule; a run folder keeps the log up to that round.
    MissedError
        If it misses the SLO that it is run for, whatever comes.
    """
    inputs = _Inputs(trace, cluster, truth, config or ReplayConfig(), initial)
    extras = extras or RunExtras()
    demands = inputs.demands(job_demands)
    try:
        engine = Engine(trace, cluster, truth, inputs.config, node_events, initial)
    except AllocationError as error:
        raise InputError(str(error), field="state") from error
    requests = GangSpeeds.on(cluster, truth)
    tally = Tally(trace, cluster, truth, requests, keep_log=out is None)
    begun = _begun(inputs, policy.name, extras.digest)
    early = None
    if extras.slo is not None:
        # A policy may pair jobs unasked, and of pairs the release has a start-up in it.
        paired = extras.slo.to_the_end and pair_speeds(truth) is not None
        known = inputs.demands(packed_demands) if paired else demands
        early = EarlyEnd(extras.slo, trace, known)
    writer = _driven(
        Drive(engine, policy, extras.progress, begun, tally, early), out, resume, extras.files
    )
    result = _result(inputs, tally, demands, requests, extras)
    if writer is None or out is None:
        return result
    writer.finish(jobs_csv(result.jobs), summary_json(result.parts.summary()))
    return replace(result, parts=folder_parts(out))


def result_of_log(
    trace: Trace,
    cluster: Cluster,
    truth: SpeedModel,
    events: Sequence[Event],
    rows: Iterable[RoundRow],
    labels: Mapping[str, Scalar],
) -> ReplayResult:
    """What a log amounts to that no engine wrote: starts cost nothing but what it says.

    Parameters
    ----------
    trace, cluster, truth
        Jobs, where they ran, and how fast.
    events, rows
        The whole log, and a row for each of its decided rounds.
    labels
        Further values of ``summary.json``.

    Raises
    ------
    InputError
        If the events are no log of these jobs.
    """
    config = ReplayConfig(restart_s=0.0)
    inputs, requests = _Inputs(trace, cluster, truth, config, None), GangSpeeds.on(cluster, truth)
    tally = Tally(trace, cluster, truth, requests, keep_log=True)
    tally.take(events)
    for row in rows:
        tally.add(row)
    extras = RunExtras(labels=labels)
    demands = inputs.demands(job_demands)
    # Whoever wrote the log starts jobs at any instant, not at boundaries of ours.
    at_once = tuple(replace(one, release_s=one.submission_s) for one in demands.jobs)
    return _result(inputs, tally, replace(demands, jobs=at_once), requests, extras)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What runs where, and under which rules; of whose decisions it does not depend."""

    trace: Trace
    cluster: Cluster
    truth: SpeedModel
    config: ReplayConfig
    initial: RoundState | None

    def __post_init__(self) -> None:
        if self.initial is not None:
            require_initial(self.initial, self.trace, self.cluster, self.config)

    def demands(
        self, needs_of: Callable[[Trace, Cluster, SpeedModel, ReplayConfig], Demands]
    ) -> Demands:
        """What each job needs at least; of a run that takes up a state, from there on."""
        demands = needs_of(self.trace, self.cluster, self.truth, self.config)
        if self.initial is None:
            return demands
        return initial_demands(demands, self.initial, self.config)


def _driven(
    run: Drive, out: Path | None, resume: bool, files: Mapping[str, str]
) -> RunWriter | None:
    """Drive a run to its end; the writer of its folder, which is still to be finished."""
    if out is None:
        run.drive()
        return None
    if resume:
        reopen_rounds(out)
    else:
        create_folder(out, files)
    writer = RunWriter(out)
    try:
        run.drive(writer, _repeat_recorded(run, writer, out) if resume else False)
    except BaseException:
        writer.close()
        raise
    return writer


def _result(
    inputs: _Inputs, tally: Tally, demands: Demands, requests: GangSpeeds, extras: RunExtras
) -> ReplayResult:
    """What a run that has ended amounts to; a function of its events and of what was known."""
    cluster, truth, config = inputs.cluster, inputs.truth, inputs.config
    history = tally.history()
    metrics = metrics_of(history, cluster, tally.over_capacity, tally.promises)
    ratios = finish_time_ratios(history, cluster, truth, config.first_start_of)
    by_type = gpu_utilization_by_type(history, cluster)
    types = {f"gpu_utilization_{name}": part for name, part in by_type.items()}
    labels: dict[str, Scalar] = {
        **types,
        **fairness_metrics(history, cluster, ratios),
        **cost_metrics(history, cluster),
        **service_metrics(history),
    }
    if inputs.trace.searches:
        labels |= dict.fromkeys(BOUND_KEYS)
    if extras.packing or tally.shares:
        demands = inputs.demands(packed_demands)
        labels |= packing_metrics(history)
    if metrics["guaranteed_jobs"]:
        labels |= promise_metrics(history, requests, config.first_start_of)
    labels |= dict(extras.labels) | dict(extras.at_end())
    jobs = job_rows(history, cluster, ratios)
    # Bounds can take longer than the run; whoever replays for its events or jobs needs none.
    summary = cache(lambda: build_summary(history, metrics, tally.times, demands, labels))
    parts = Parts(summary, lambda: jobs, lambda: tally.rows, lambda: tally.events)
    return ReplayResult(history, jobs, parts)


def _repeat_recorded(run: Drive, writer: RunWriter, folder: Path) -> bool:
    """Repeat what an interrupted run recorded; False if it recorded nothing."""
    recorded = Recorded(folder)
    run.repeat(recorded, folder)
    writer.cut(recorded.events_bytes, recorded.rounds_bytes)
    return bool(recorded.lines)


def _begun(inputs: _Inputs, policy: str, digest: str) -> Begun:
    """The first line of the log: the identity of the run."""
    trace, cluster, config = inputs.trace, inputs.cluster, inputs.config
    deciding = (
        repr((cluster.name, cluster.nodes, cluster.leaves)),
        inputs.truth.name,
        {name: getattr(config, name) for name in changed(config)},
        digest,
    )
    text = json.dumps(deciding, default=str, sort_keys=True)
    return Begun(
        0.0 if inputs.initial is None else inputs.initial.time_s,
        trace.name,
        trace.sha256,
        policy,
        len(trace.jobs),
        len(cluster.nodes),
        cluster.gpus,
        config.interval_s,
        hashlib.sha256(text.encode()).hexdigest(),
    )
