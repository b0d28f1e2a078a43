"""The result of a run: history, rows and summary, from its events and its inputs."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from morph_opt.core.domain import Cluster, RoundState, Trace
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.initial import require_initial
from morph_opt.simulation.events.log import Event
from morph_opt.simulation.metrics.bounds.demands import initial_demands, job_demands, packed_demands
from morph_opt.simulation.metrics.bounds.lower import Demands
from morph_opt.simulation.metrics.cost import cost_metrics
from morph_opt.simulation.metrics.fairness import fairness_metrics, finish_time_ratios
from morph_opt.simulation.metrics.history import History, Scalar
from morph_opt.simulation.metrics.promises import promise_metrics
from morph_opt.simulation.metrics.schedule import (
    gpu_utilization_by_type,
    metrics_of,
    packing_metrics,
    service_metrics,
)
from morph_opt.simulation.runs.groups import GroupRow, group_rows, groups_csv
from morph_opt.simulation.runs.jobs import JobRow, job_rows, jobs_csv
from morph_opt.simulation.runs.read import Parts
from morph_opt.simulation.runs.rounds import RoundRow
from morph_opt.simulation.runs.summary import BOUND_KEYS, Values, build_summary, summary_json
from morph_opt.simulation.runs.tally import Tally
from morph_opt.simulation.runs.write import GROUPS, JOBS, SUMMARY

NO_RULES = OperatorRules()


@dataclass(frozen=True, slots=True)
class Record:
    """Values that a scenario adds to the records of its run.

    Parameters
    ----------
    files
        Files that the run folder holds from the start (``config.toml`` ...).
    labels
        Further values of ``summary.json``: objective, solver ...
    digest
        Identity of the inputs that the engine does not see (policy options). It is part of the
        log's first line, so that a resumed run cannot mix two of them.
    began
        Start of the command, by `time.perf_counter`; None leaves out wall time and memory.
    rules
        Rules of the operator: the queues and classes of ``groups.csv``.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Scalar] = field(default_factory=dict)
    digest: str = ""
    began: float | None = None
    rules: OperatorRules = NO_RULES

    def at_end(self) -> dict[str, Scalar]:
        """Return the values that are known only at the end: wall time, memory."""
        if self.began is None:
            return {}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1024.0 if platform.system() == "Darwin" else 1.0  # bytes on macOS, KiB elsewhere
        return {"wall_s": time.perf_counter() - self.began, "peak_rss_mib": peak / unit / 1024.0}


NO_RECORD = Record()


@dataclass(frozen=True)
class ReplayResult:
    """A finished replay.

    Parameters
    ----------
    history
        History of each job, segment by segment.
    jobs, groups
        Rows of ``jobs.csv`` and ``groups.csv``.
    parts
        Readers of its parts, from the run folder or from memory.
    """

    history: History
    jobs: tuple[JobRow, ...]
    groups: tuple[GroupRow, ...]
    parts: Parts

    def last_files(self) -> dict[str, str]:
        """Return the files that end a run folder, by name."""
        found = {JOBS: jobs_csv(self.jobs), SUMMARY: summary_json(self.parts.summary())}
        return found | ({GROUPS: groups_csv(self.groups)} if self.groups else {})

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
        """Events of the log."""
        return tuple(self.parts.events())


@dataclass(frozen=True, slots=True)
class Inputs:
    """Jobs, cluster, speeds and rules of a run: everything but the policy."""

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
        """Return the minimum that each job needs, from the initial state on if there is one."""
        demands = needs_of(self.trace, self.cluster, self.truth, self.config)
        if self.initial is None:
            return demands
        return initial_demands(demands, self.initial, self.config)


def result_of_log(
    trace: Trace,
    cluster: Cluster,
    truth: SpeedModel,
    events: Sequence[Event],
    rows: Iterable[RoundRow],
    labels: Mapping[str, Scalar],
) -> ReplayResult:
    """Return the result of a log from outside; start costs are those in the log.

    Parameters
    ----------
    trace, cluster, truth
        Jobs, their cluster, and their true speeds.
    events, rows
        The whole log, and one row per round.
    labels
        Further values of ``summary.json``.

    Raises
    ------
    InputError
        If the events are no log of these jobs.
    """
    config = ReplayConfig(restart_s=0.0)
    inputs, requests = Inputs(trace, cluster, truth, config, None), GangSpeeds.on(cluster, truth)
    tally = Tally(trace, cluster, truth, requests, keep_log=True)
    tally.take(events)
    for row in rows:
        tally.add(row)
    demands = inputs.demands(job_demands)
    # Such a scheduler starts jobs at any instant, not only at boundaries of rounds.
    at_once = tuple(replace(one, release_s=one.submission_s) for one in demands.jobs)
    return result_of(inputs, tally, replace(demands, jobs=at_once), requests, Record(labels=labels))


def result_of(
    inputs: Inputs,
    tally: Tally,
    demands: Demands,
    requests: GangSpeeds,
    record: Record,
    packing: bool = False,
) -> ReplayResult:
    """Return the outcome of a run that has ended: a function of its events and its inputs."""
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
    if packing or tally.shares:
        demands = inputs.demands(packed_demands)
        labels |= packing_metrics(history)
    if metrics["guaranteed_jobs"]:
        labels |= promise_metrics(history, requests, config.first_start_of)
    labels |= dict(record.labels) | record.at_end()
    jobs = job_rows(history, cluster, ratios)
    # Bounds can take longer than the run, and only the summary needs them.
    summary = cache(
        lambda: build_summary(history, metrics, tally.times, tally.steps, demands, labels)
    )
    groups = group_rows(history, record.rules)
    parts = Parts(summary, lambda: jobs, lambda: tally.rows, lambda: tally.events, lambda: groups)
    return ReplayResult(history, jobs, groups, parts)
