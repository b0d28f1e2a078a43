"""Trust in replays of a log: what policies know of its jobs, and the hindcast of its own site.

Page: ``docs/planning.md``, "What can a log answer?".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.core.domain import InputError, Range
from morph_opt.core.domain.arguments import shown
from morph_opt.core.domain.options import documented, option, require_all
from morph_opt.replay.scenario import Scenario
from morph_opt.scheduling.policies.options import Scheduler

if TYPE_CHECKING:
    from morph_opt.hindcast.recorded import RecordedWaits
    from morph_opt.inputs.traces.logs.registry import LogSpec
    from morph_opt.plan.ask import Ask
    from morph_opt.replay.prepare import Prepared
    from morph_opt.simulation.runs.slo import Slo

HINDCAST = "hindcast.json"
"""File of an answer's folder with the hindcast, so that the same one is not made again."""

MOST_JOBS = 20_000
"""Jobs of a log above which it is replayed only if a hindcast is asked for."""


@documented
@dataclass(frozen=True, slots=True)
class Site:
    """Site that a log comes from.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    replays: int = option(
        10,
        "number of shaken replays of a log under its own scheduler before the answer (10)",
        flag="--hindcast",
        metavar="K",
        range=Range(0, 10_000, whole=True),
    )
    policy: str = option(
        "slurm", "scheduler of the site that a log comes from", flag="--site-policy", metavar="NAME"
    )
    cluster: str | None = option(
        None,
        "cluster that a log comes from (--cluster, if the question has it)",
        flag="--site-cluster",
        metavar="SPEC.toml|8x8:A800-80GB",
    )

    def __post_init__(self) -> None:
        require_all(self)
        if self.replays == 1:
            raise InputError("must be 0, or 2 and more: one replay has no spread", field="replays")


@dataclass(frozen=True, slots=True)
class Noise:
    """Spread of one figure over the shaken replays of a log.

    Parameters
    ----------
    low, high
        Its 2.5 and 97.5 % over the replays.
    replays
        Number of the replays.
    """

    low: float
    high: float
    replays: int

    @property
    def width(self) -> float:
        """Difference below which two alternatives count as equal."""
        return self.high - self.low

    def hides(self, difference: float) -> bool:
        """Return whether a difference is smaller than the spread."""
        return abs(difference) < self.width


@dataclass(frozen=True, slots=True)
class Trust:
    """Lines that precede an answer, and the noise of its figure.

    Parameters
    ----------
    lines
        Hindcast first, then what policies know.
    noise
        Spread of the figure; None if no hindcast was made, or it does not have the figure.
    """

    lines: tuple[str, ...] = ()
    noise: Noise | None = None

    @property
    def figures(self) -> dict[str, Any]:
        """Figures for the answer."""
        if self.noise is None:
            return {}
        one = self.noise
        return {"replay_noise": {"lower": one.low, "upper": one.high, "replays": one.replays}}


def is_log(scenario: Scenario) -> bool:
    """Return whether the jobs of a scenario come from a log."""
    return _log_of(scenario) is not None


def _log_of(scenario: Scenario) -> LogSpec | None:
    from morph_opt.inputs.traces.registry import log_of
    from morph_opt.inputs.traces.resampled import split_resampled

    return log_of(split_resampled(scenario.workload.trace)[-1])


def knowing(scenario: Scenario, *, stated: bool) -> tuple[Scenario, str | None]:
    """Return the scenario with what its policy would know at the site, and a line on it.

    If all jobs of a log have time limits, a policy that asks what jobs have left is told limits
    instead of the truth.

    Parameters
    ----------
    scenario
        Scenario of the question.
    stated
        Whether its ``durations`` are as asked; they are kept then.

    Raises
    ------
    InputError
        If the log cannot be read.
    """
    from morph_opt.inputs.traces.registry import absolute_spec
    from morph_opt.plan.workloads import loaded
    from morph_opt.scheduling.decision.rules.model import OperatorRules
    from morph_opt.scheduling.policies.registry import resolve

    scheduler = scenario.scheduler
    if stated or scheduler.durations != "true" or not is_log(scenario):
        return scenario, None
    spec = absolute_spec(scenario.workload.trace)
    jobs = loaded(replace(scenario.workload, trace=spec)).trace.jobs
    told = replace(scheduler, durations="limits")
    decider = resolve(scenario.policy, scenario.objective)
    options = told.options(OperatorRules())
    try:
        decider.require_understood(("durations",))
    except InputError:
        return scenario, None
    if decider.rule.limits or any(
        name == "durations" for name, _ in decider.without_effect(options, jobs)
    ):
        return scenario, None
    without = sum(job.time_limit_s is None for job in jobs)
    if not without:
        line = "durations: limits (the log states time limits; --durations true to override)"
        return scenario.replaced(scheduler=told), line
    lacks = "no time limits" if without == len(jobs) else f"no limit of {without:,} jobs"
    return scenario, (
        f"durations: true (the log states {lacks}): policies know run times that no scheduler "
        "knows, so a gain cannot be claimed for the site; --durations blind, or limits:modal, "
        "tells them less"
    )


def hindcast_of(ask: Ask, folder: Path, metric: Slo | None, *, there: bool = True) -> Trust:
    """Replay a log under the scheduler of its site, and state how well its waits are reproduced.

    Parameters
    ----------
    ask
        Circumstances of the question.
    folder
        Folder of the answer, in which the hindcast is kept.
    metric
        Figure whose spread is wanted; None for none.
    there
        Whether the scenario's cluster is that of the log, unless the site names another.

    Raises
    ------
    InputError
        If the site is stated, but its trace is no log, or the log cannot be replayed there.
    """
    site = ask.site or Site()
    if not is_log(ask.scenario):
        if ask.site is not None and ask.site.replays:
            rule = f"has an effect on logs only, and {shown(ask.scenario.workload.trace)} is none"
            raise InputError(rule, field="--hindcast")
        return Trust()
    if not site.replays:
        return Trust()
    try:
        if site.cluster is None and not there:
            raise InputError("no cluster of the log is named: --site-cluster")
        return _hindcast(ask, site, folder, metric)
    except InputError as error:
        if ask.site is not None:
            raise
        return Trust((f"hindcast: none ({error}); --hindcast 0 leaves it out",))


def _hindcast(ask: Ask, site: Site, folder: Path, metric: Slo | None) -> Trust:
    from morph_opt.core.domain.options import asked
    from morph_opt.hindcast.recorded import read_waits
    from morph_opt.hindcast.report import one_line
    from morph_opt.hindcast.shaken import prepared_site, shaken_replays
    from morph_opt.hindcast.statement import figure_of, state
    from morph_opt.inputs.clusters import load_cluster
    from morph_opt.inputs.traces.options import LogOptions

    workload = ask.scenario.workload
    log = _log_of(ask.scenario)
    given = {
        name: value
        for name, value in workload.trace_options.items()
        if name in asked(LogOptions) and value is not None
    }
    recorded = read_waits(str(log), given)
    count = len(recorded.loaded.trace.jobs)
    if ask.site is None and count > MOST_JOBS:
        many = f"{site.replays} replays of {count:,} jobs are not made unasked"
        raise InputError(f"{many}: --hindcast K asks for K of them")
    cluster = ask.scenario.cluster if site.cluster is None else load_cluster(site.cluster)
    prepared = prepared_site(
        recorded.loaded,
        cluster,
        Scheduler(policy=site.policy),
        skip_impossible=workload.skip_impossible,
    )
    path = folder / HINDCAST
    key = _key(prepared, recorded, site, metric)
    kept = read_json(path) if exists(path) else None
    if not isinstance(kept, dict) or kept.get("key") != key:
        found = shaken_replays(prepared, site.replays, 0)
        figure = None if metric is None else figure_of(found, metric)
        kept = {
            "key": key,
            "line": one_line(state(recorded, found), site.policy),
            "spread": None if figure is None else list(figure.spread),
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(kept, indent=1) + "\n")
    spread = kept["spread"]
    noise = None if spread is None else Noise(spread[0], spread[1], site.replays)
    return Trust((kept["line"],), noise)


def _key(prepared: Prepared, recorded: RecordedWaits, site: Site, metric: Slo | None) -> str:
    """Return a digest of everything that a hindcast depends on."""
    from morph_opt.hindcast.shaken import site_of
    from morph_opt.sweep.cell import key_of, sources_digest

    return key_of(
        {
            "sources": sources_digest(),
            "scenario": prepared.scenario.digest,
            "jobs": prepared.trace.sha256,
            "waits": sorted(recorded.waits_s.items()),
            "site": [repr(site), repr(site_of(prepared))],
            "metric": None if metric is None else str(metric),
        }
    )
