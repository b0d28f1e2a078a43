"""Reader of the public Morphling artifact (MLSys'25): workloads and measured tables.

Layout, relative to the artifact's root::

    simulator/workloads/workload-{base,bp,mt}.csv, simulator/workloads/naive.csv
    simulator/traces/<model>/placements.csv

Conventions of the artifact that are undone here: a job does ``steps + 1`` iterations;
``num_cpus`` is the job's total; plans are labels such as ``ga`` or ``244`` (pp, tp, dp);
``placement`` is one digit per node; ``iter_time`` is in seconds in every table, whereas the
other timing columns are in seconds or milliseconds depending on the model and are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from morph_opt.core.documents import Row, read_rows
from morph_opt.core.domain import ExecutionPlan, InputError, Job, PlanFamily, Shape, Trace
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.domain.trace import Search
from morph_opt.inputs.data import locate
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.inputs.traces.format import LoadedTrace, TraceFormat, of_data_set

SEARCH_COLUMNS = ("feedback_iterations", "group", "keep", "rank")
"""Columns of searches. ``group``: name of a search, empty for none. ``keep``: trials that continue
once all have done their ``feedback_iterations``, equal in all rows of a group. ``rank``: place
of the trial, lowest best.
"""


def feedback_of(row: Row) -> int | None:
    """Return the cell ``feedback_iterations``; None if it is empty or missing."""
    if not row.cells.get("feedback_iterations"):
        return None
    return row.integer("feedback_iterations", at_least=1)


class Trials:
    """Collector of the trials of a file's searches."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[float, str, Row]]] = {}
        self._keep: dict[str, int] = {}

    def add(self, row: Row, job: Job) -> None:
        """Note a job, if it is a trial.

        Raises
        ------
        InputError
            If it has no rank or no report, one that others have, or keeps another number.
        """
        group = row.cells.get("group")
        if not group:
            for name in ("keep", "rank"):
                if row.cells.get(name):
                    raise row.error(name, "must be left to trials of a group")
            return
        if not row.cells.get("rank"):
            raise row.error("rank", f"must be given for a trial of search {group!r}")
        if job.feedback_iterations is None:
            rule = f"must be given for a trial of search {group!r}"
            raise row.error("feedback_iterations", rule)
        keep = row.integer("keep", at_least=1) if row.cells.get("keep") else 1
        if self._keep.setdefault(group, keep) != keep:
            raise row.error("keep", f"must be {self._keep[group]} as in the search's other rows")
        rank = row.number("rank", at_least=0.0)
        known = self._rows.setdefault(group, [])
        if rank in (other for other, _, _ in known):
            raise row.error("rank", f"two trials of search {group!r} have rank {rank:g}")
        known.append((rank, job.name, row))

    def searches(self) -> list[Search]:
        """Return the searches, in the order of their first rows.

        Raises
        ------
        InputError
            If one has fewer trials than it is to keep.
        """
        found = []
        for group, rows in self._rows.items():
            try:
                ranked = tuple(name for _, name, _ in sorted(rows, key=lambda row: row[:2]))
                found.append(Search(group, ranked, self._keep[group]))
            except InputError as error:
                raise rows[0][2].located(error) from None
        return found


GPU_TYPE = "A800-80GB"
"""GPU type on which the artifact's tables were measured."""

WORKLOADS: dict[str, str] = {
    "base": "workload-base.csv",
    "bp": "workload-bp.csv",
    "mt": "workload-mt.csv",
    "naive": "naive.csv",
}
"""Workload file by trace name."""

MICRO_BENCHMARKS = ("llama7b_bsz16", "t5_3B")
"""Tables of two micro-benchmarks, where an ``iter_time`` of 0 marks a configuration that cannot
run.
"""

_REQUIRED = (
    "name", "submission_time", "application", "num_gpus", "num_cpus", "exec_plan", "steps",
    "is_sla",
)  # fmt: skip
_OPTIONAL = ("duration", "bandwidth", "weight", "tenant", "deadline", *SEARCH_COLUMNS)
_DEGREES = re.compile(r"([1-9])([1-9])([1-9])")
_PLACEMENT = re.compile(r"[1-9]+")
_LABELS = {
    "ga": ExecutionPlan(PlanFamily.DP, gradient_accumulation=True),
    "gc": ExecutionPlan(PlanFamily.DP, gradient_checkpointing=True),
    "zero-dp": ExecutionPlan(PlanFamily.ZERO_DP),
    "zero-offload": ExecutionPlan(PlanFamily.ZERO_OFFLOAD),
    "zero-offload+gc": ExecutionPlan(PlanFamily.ZERO_OFFLOAD, gradient_checkpointing=True),
}


def plan_of(label: str, gpus: int) -> ExecutionPlan:
    """Return the execution plan of a label of the artifact.

    Parameters
    ----------
    label
        ``ga``, ``gc``, ``zero-dp``, ``zero-offload``, ``zero-offload+gc``, ``tp+ga`` (tensor
        parallelism over all GPUs), three digits pp tp dp, or a label of `ExecutionPlan.parse`.
    gpus
        GPUs of the job or of the measured placement.

    Raises
    ------
    InputError
        If the label names no plan, or the plan needs another number of GPUs.
    """
    match = _DEGREES.fullmatch(label)
    if label in _LABELS:
        plan = _LABELS[label]
    elif label == "tp+ga":
        plan = ExecutionPlan(PlanFamily.THREE_D, 1, gpus, 1, gradient_accumulation=True)
    elif match:
        plan = ExecutionPlan.three_d(*(int(degree) for degree in match.groups()))
    else:
        plan = _parse_ours(label)
    if plan.gpus is not None and plan.gpus != gpus:
        rule = f"plan {label} needs {plan.gpus} GPUs, the row has {gpus}"
        raise InputError(rule, field="exec_plan")
    return plan


def _parse_ours(label: str) -> ExecutionPlan:
    try:
        return ExecutionPlan.parse(label)
    except InputError as error:
        if not error.rule.startswith("unknown plan"):
            raise InputError(error.rule, field="exec_plan") from error
        known = ", ".join((*_LABELS, "tp+ga"))
        rule = f"unknown plan {label!r}; known are {known}, three digits pp tp dp, dp, ppP-tpT-dpD"
        raise InputError(rule, field="exec_plan") from None


def read_workload(
    path: Path, *, name: str, models: Collection[str], description: str = ""
) -> Trace:
    """Read a workload CSV of the artifact, or a user's own in that layout.

    Parameters
    ----------
    path
        The file. Besides the artifact's columns it may have ``weight``, ``tenant`` and
        ``deadline`` (seconds since the start of the trace, -1 for none),
        ``feedback_iterations``, ``group``, ``keep`` and ``rank``
        (`SEARCH_COLUMNS`; empty for none); ``duration`` and ``bandwidth`` may be
        left out.
    name, description
        Name and description of the trace.
    models
        Models that the speed model knows.

    Raises
    ------
    InputError
        Naming file, line, field and rule: see `morph_opt.core.documents.read_rows`; further
        negative or non-finite times, counts that are not whole, unknown models and plans, 3D
        plans that do not match ``num_gpus``, a job name that occurs twice, no job at all.
    """
    first_line: dict[str, int] = {}
    jobs: list[Job] = []
    trials = Trials()
    for row in read_rows(path, _REQUIRED, _OPTIONAL):
        job = _job(row, models)
        trials.add(row, job)
        if job.name in first_line:
            rule = f"must be unique, {job.name!r} is also on line {first_line[job.name]}"
            raise row.error("name", rule)
        first_line[job.name] = row.line
        jobs.append(job)
    if not jobs:
        raise InputError("has a header but no jobs", file=str(path))
    return Trace.of(name, jobs, description, trials.searches())


def _job(row: Row, models: Collection[str]) -> Job:
    model = row.text("application")
    if model not in models:
        rule = f"unknown model {model!r}; the speed model knows {', '.join(sorted(models))}"
        raise row.error("application", rule)
    for unused in ("duration", "bandwidth"):
        if unused in row.cells:
            row.number(unused, at_least=0.0)
    gpus = row.integer("num_gpus", at_least=1)
    cpus = row.integer("num_cpus", at_least=0)
    if cpus % gpus:
        raise row.error("num_cpus", f"must be a multiple of num_gpus ({gpus}), got {cpus}")
    try:
        return Job(
            name=row.text("name"),
            model=model,
            submission_s=row.number("submission_time", at_least=0.0),
            iterations=row.integer("steps", at_least=0) + 1,
            requested_gpus=gpus,
            requested_plan=plan_of(row.text("exec_plan"), gpus),
            cpus_per_gpu=cpus // gpus,
            guaranteed=row.flag("is_sla"),
            weight=row.number("weight", at_least=-math.inf) if "weight" in row.cells else 1.0,
            tenant=row.text("tenant") if "tenant" in row.cells else "default",
            deadline_s=_deadline(row),
            feedback_iterations=feedback_of(row),
        )
    except InputError as error:
        named = row.cells["name"] and error.field == "weight"
        job_part = f" (job {row.cells['name']}, {model})" if named else ""
        raise row.located(InputError(error.rule + job_part, field=error.field)) from None


def _deadline(row: Row) -> float | None:
    """Return the cell ``deadline``; -1 means none, as in Gavel's traces."""
    if "deadline" not in row.cells:
        return None
    value = row.number("deadline", at_least=-1.0)
    return None if value == -1.0 else value


def read_tables(root: Path) -> MeasuredTable:
    """Read all measured tables of the artifact as one speed model.

    Parameters
    ----------
    root
        The artifact's root. Each folder of ``simulator/traces`` is a model of that name. A
        table with a ``cpu_threads`` column is split: its first thread count keeps the folder's
        name, another count n becomes the model ``<folder>@<n>cpu``.

    Raises
    ------
    InputError
        If there is no table, or one is wrong (file, line, field and rule are named).
    """
    return MeasuredTable([m for path in table_files(root) for m in read_table(path)])


def table_files(root: Path) -> list[Path]:
    """Return the measured tables of the artifact, at least one."""
    folder = root / "simulator" / "traces"
    paths = sorted(folder.glob("*/placements.csv"))
    if not paths:
        raise InputError("has no <model>/placements.csv", file=str(folder))
    return paths


def read_table(path: Path) -> list[Measurement]:
    """Read the measurements of one ``placements.csv``; its folder names the model.

    Raises
    ------
    InputError
        As `read_tables`; also if one (placement, plan) is measured twice.
    """
    measured: list[Measurement] = []
    first_line: dict[tuple[str, Shape, ExecutionPlan], int] = {}
    for row, measurement in _measurements(path):
        key = (measurement.model, measurement.shape, measurement.plan)
        if key in first_line:
            raise row.error(
                "placement",
                f"{row.text('exec_plan')} on {measurement.shape} is also on line {first_line[key]}",
            )
        first_line[key] = row.line
        measured.append(measurement)
    if not measured:
        raise InputError("has a header but no measurements", file=str(path))
    return measured


def _measurements(path: Path) -> Iterator[tuple[Row, Measurement]]:
    folder = path.parent.name
    first_threads: int | None = None
    for row in read_rows(path, ("exec_plan", "placement", "iter_time"), None):
        model = folder
        if "cpu_threads" in row.cells:
            threads = row.integer("cpu_threads", at_least=1)
            first_threads = threads if first_threads is None else first_threads
            model = folder if threads == first_threads else f"{folder}@{threads}cpu"
        digits = row.text("placement")
        if not _PLACEMENT.fullmatch(digits):
            raise row.error("placement", f"must be one digit 1-9 per node, got {digits!r}")
        shape = Shape.of(*(int(digit) for digit in digits))
        try:
            plan = plan_of(row.text("exec_plan"), shape.gpus)
        except InputError as error:
            raise row.located(error) from None
        iteration_s = row.number("iter_time", at_least=0.0)
        if iteration_s > 0.0:
            yield row, Measurement(model, GPU_TYPE, shape, plan, iteration_s)
        elif folder not in MICRO_BENCHMARKS:
            raise row.error("iter_time", "must be above 0, got 0")


def _load(argument: str, *, seed: int) -> LoadedTrace:
    """Return a workload of the artifact with its measured tables."""
    del seed  # an original is the same for every seed
    name = f"morphling/{argument}"
    if argument not in WORKLOADS:
        raise InputError(unknown("trace", name, FORMAT.specs), field="trace")
    root = locate("morphling")
    table = read_tables(root)
    notice = f"{name}: original trace of the public Morphling artifact, speeds as measured there"
    path = root / "simulator" / "workloads" / WORKLOADS[argument]
    trace = read_workload(path, name=name, models=table.models(), description=notice)
    return of_data_set("morphling", name, trace, table, [path, *table_files(root)])


FORMAT = TraceFormat(
    "morphling", tuple(WORKLOADS), _load, "the artifact's measured table", data_set="morphling"
)
"""Trace format of the originals."""
