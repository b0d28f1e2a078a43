"""Evaluation of scenarios against an SLO, by certified bounds and else by replays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.core.domain import InputError
from morph_opt.plan.parameters import BOUND
from morph_opt.plan.workloads import loaded
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.metrics.bounds.completion import completion_jct_s
from morph_opt.simulation.metrics.bounds.demands import impossible_jobs, job_demands
from morph_opt.simulation.metrics.bounds.lower import (
    Demands,
    floor_jct_s,
    floor_makespan_s,
    fluid_schedule,
    srpt_jct_s,
    work_makespan_s,
)
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.read import read_job_rows
from morph_opt.simulation.runs.slo import Slo, UnfinishedError
from morph_opt.simulation.runs.write import JOBS
from morph_opt.sweep import Cell, CellStore, Limits, Progress, run_cells
from morph_opt.sweep.cell import key_of
from morph_opt.sweep.store import Found

BOUNDS = "bounds.json"
_Stage = Callable[[Demands], float | None]
_JCT: tuple[tuple[str, _Stage], ...] = (
    ("floor", lambda d: floor_jct_s(d.jobs)),
    ("srpt", lambda d: srpt_jct_s(d.jobs, sum(d.gpus))),
    ("completion", lambda d: completion_jct_s(d.jobs, d.gpus, *fluid_schedule(d))),
)
_MAKESPAN: tuple[tuple[str, _Stage], ...] = (
    ("floor", lambda d: floor_makespan_s(d.jobs)),
    ("work", lambda d: work_makespan_s(d.jobs, sum(d.gpus))),
)
STAGES = {"jct": _JCT, "makespan": _MAKESPAN}
"""Bounds by metric, from cheap to expensive; the first one above the target decides."""


def _stages(slo: Slo) -> tuple[tuple[str, _Stage], ...]:
    """Return the bounds on an SLO's figure, with names that state what they bound."""
    if slo.bounded_by == "floors":
        return ((f"{slo.statistic} {slo.metric} floor", partial(_floor, slo)),)
    found = STAGES.get(slo.bounded_by or "", ())
    return tuple((f"{slo.bounded_by} {name}", stage) for name, stage in found)


def _floor(slo: Slo, demands: Demands) -> float:
    """Return the SLO's statistic if each job had the cluster to itself."""
    alone = [
        job.release_s - job.submission_s + (job.floor_s if slo.metric == "jct_s" else 0.0)
        for job in demands.jobs
    ]
    return slo.statistic_of(np.asarray(alone, dtype=np.float64))


EARLY = "early"
"""Value of `Verdict.decided_by` for a replay that was ended early."""

EXPENSIVE = "completion"
"""Name of the slow bound, which `BoundParams.far` may skip."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on one scenario.

    Parameters
    ----------
    passed
        Whether it reaches the SLO.
    decided_by
        ``bound floor`` and the like, ``impossible`` (a job that nothing there can run), ``replay``,
        ``early`` (a replay that was ended, as it misses the SLO whatever comes), or ``failure``
        (the replay crashed or broke a limit, which counts as not reached).
    value
        The statistic of the replay, or the bound on it (of one that was ended, too).
    detail
        Description of an impossible job, a failure or a replay that was ended.
    key
        Key of the cell.
    """

    passed: bool
    decided_by: str
    value: float
    detail: str = ""
    key: str = ""


@dataclass
class Evaluator:
    """Evaluator of scenarios that keeps every result in a folder.

    Parameters
    ----------
    folder
        Folder of the answer, with its cells and bounds.
    on, limits, progress
        See `morph_opt.sweep.run_cells`.
    stage
        Name of the stage in progress messages.
    """

    folder: Path
    on: str | None = None
    limits: Limits = field(default_factory=Limits)
    progress: Callable[[Progress], None] | None = None
    stage: str = ""

    def __post_init__(self) -> None:
        self.store = CellStore(self.folder)
        self._known = _kept(self.folder / BOUNDS)

    # --- bounds -----------------------------------------------------------------------------------

    def refused(self, scenario: Scenario, slo: Slo, *, expensive: bool = True) -> Verdict | None:
        """Return the verdict of a bound that refutes the SLO; None if none does.

        Parameters
        ----------
        scenario, slo
            Scenario, and the SLO that it has to reach.
        expensive
            Whether to compute the bound that takes a good part of a replay's time. It is skipped
            where the cheap ones are far below the target.
        """
        cell = _cell(scenario)
        known = self._known.setdefault(cell.key, {})
        if "impossible" not in known:
            known["impossible"] = _impossible(scenario)
        if known["impossible"]:
            detail = str(known["impossible"])
            return Verdict(False, "impossible", math.nan, detail, cell.key)
        if scenario.scheduler.packing:
            return None
        demands: Demands | None = None
        best = 0.0
        for word, stage in _stages(slo):
            name = word.rpartition(" ")[2]
            if name == EXPENSIVE and not (expensive and slo.target < BOUND.far * best):
                continue
            if word not in known:
                if demands is None:
                    demands = _demands(scenario)
                known[word] = stage(demands)
            bound = known[word]
            if isinstance(bound, float):
                best = max(best, bound)
                if not slo.met_by(bound):
                    return Verdict(False, f"bound {name}", bound, "", cell.key)
        return None

    # --- replays ----------------------------------------------------------------------------------

    def verdicts(
        self, scenarios: Sequence[Scenario], slo: Slo, *, whole: bool = False
    ) -> list[Verdict]:
        """Return the verdicts in order; scenarios that a bound decides are not replayed.

        Parameters
        ----------
        scenarios, slo
            Scenarios, and the SLO that they have to reach.
        whole
            Whether to finish a replay that misses the SLO for certain, to have its value.
        """
        found: list[Verdict | None] = [self.refused(scenario, slo) for scenario in scenarios]
        self.save()
        left = [k for k, verdict in enumerate(found) if verdict is None]
        replayed = self._run([scenarios[k] for k in left], None if whole else slo)
        for k, one in zip(left, replayed, strict=True):
            found[k] = judged(one, slo)
        return [verdict for verdict in found if verdict is not None]

    def values(self, scenarios: Sequence[Scenario], metric: Slo) -> list[float]:
        """Return the statistic of each replay.

        Parameters
        ----------
        scenarios
            Scenarios to replay.
        metric
            Statistic of a figure; its target does not matter.

        Raises
        ------
        InputError
            If a replay has no result: a comparison of the others would be of other workloads.
        """
        found = []
        for scenario, one in zip(scenarios, self._run(scenarios), strict=True):
            if one.failure is not None:
                rule = f"a replay failed ({one.failure.kind}: {one.failure.message})"
                raise InputError(rule, file=str(one.folder), field=scenario.workload.trace)
            found.append(metric.value(one.summary, partial(_rows, one)))
        return found

    def jobs(self, scenarios: Sequence[Scenario]) -> list[tuple[JobRow, ...]]:
        """Return the rows of the jobs of each replay that `values` was asked about."""
        return [_rows(one) for one in self._run(scenarios)]

    def _run(self, scenarios: Sequence[Scenario], slo: Slo | None = None) -> list[Found]:
        ends = slo if slo is not None and slo.bounded_by is not None else None
        cells = [replace(_cell(scenario), slo=ends) for scenario in scenarios]
        sizes = sorted({len(scenario.cluster.nodes) for scenario in scenarios})
        what = f"{self.stage} " if self.stage else ""
        what += " and ".join(f"{size} nodes" for size in sizes[:2])

        def tell(now: Progress) -> None:
            if self.progress is not None:
                self.progress(replace(now, what=what))

        return run_cells(cells, self.store, on=self.on, limits=self.limits, progress=tell)

    def save(self) -> None:
        """Write the bounds to the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"sha256": key_of(self._known), "bounds": self._known}
        write_atomically(self.folder / BOUNDS, json.dumps(kept) + "\n", durable=False)


def _kept(file: Path) -> dict[str, dict[str, object]]:
    """Read the bounds that were kept, by key of the cell.

    Raises
    ------
    InputError
        If the file was changed since: an answer would rest on what nobody proved.
    """
    if not exists(file):
        return {}
    document = read_json(file)
    known = document.get("bounds") if isinstance(document, dict) else None
    if not isinstance(known, dict) or document.get("sha256") != key_of(known):
        rule = "is not what was written here; remove it to have the bounds computed again"
        raise InputError(rule, file=str(file))
    return known


def _rows(found: Found) -> tuple[JobRow, ...]:
    return read_job_rows(found.file(JOBS))


def _cell(scenario: Scenario) -> Cell:
    return Cell(scenario, keep=(JOBS,))


def judged(found: Found, slo: Slo) -> Verdict:
    """Return the verdict that follows from a replay.

    Raises
    ------
    InputError
        If the replay refused its input, or its result is not what was put there.
    """
    failure = found.failure
    if failure is not None and failure.kind == "input":
        # Wrong at every size: there is no answer, which is not the answer "none".
        # The message comes from a command, which names options.
        option, _, rule = failure.message.removeprefix("error: ").partition(": ")
        if option.startswith("--"):
            raise InputError(rule, field=option)
        raise InputError(failure.message.removeprefix("error: "))
    if failure is not None:
        detail = f"{failure.kind}: {failure.message}"
        return Verdict(False, "failure", math.nan, detail, found.key)
    missed = found.missed
    if missed is not None:
        return Verdict(False, EARLY, float(missed["at_least"]), str(missed["said"]), found.key)
    try:
        value = slo.value(found.summary, partial(_rows, found))
    except UnfinishedError as error:  # a damaged result is no verdict, but the end
        return Verdict(False, "failure", math.nan, error.rule, found.key)
    return Verdict(slo.met_by(value), "replay", value, "", found.key)


def _impossible(scenario: Scenario) -> str:
    """Return why some job can never run as requested; "" if all can."""
    if scenario.workload.skip_impossible:
        return ""
    workload = loaded(scenario.workload)
    found = impossible_jobs(workload.trace.jobs, workload.truth, scenario.cluster)
    return f"job {found[0][0].name} {found[0][1]}" if found else ""


def _demands(scenario: Scenario) -> Demands:
    workload = loaded(scenario.workload)
    return job_demands(workload.trace, scenario.cluster, workload.truth, scenario.engine)
