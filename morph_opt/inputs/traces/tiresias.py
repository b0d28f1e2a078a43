"""Readers of Tiresias' files (NSDI'19): traces, cluster specs, samples for the Gittins index.

Trace columns: job_id, num_gpu, submit_time, iterations, model_name, duration, interval; times in
whole seconds. The files state how long a job runs and not how fast, so a second of its run time
is one iteration (`morph_opt.inputs.perf.tables.gangs`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from morph_opt.core.documents import read_rows
from morph_opt.core.domain import InputError, NodeType, Trace
from morph_opt.core.domain._validate import shown_number
from morph_opt.core.domain.catalog import GPU_TYPES
from morph_opt.core.domain.job import LATEST_S, MOST_GPUS, MOST_ITERATIONS
from morph_opt.inputs.data import locate
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.format import SECONDS, LoadedTrace, TraceFormat, of_data_set

SAMPLES = "yarn-gput1000.csv"
"""GPU-second samples for the Gittins index, relative to the data set's root."""

UPSTREAM = "simulator"
"""Folder of a checkout (and of a fetched copy) that holds the files."""

TRACES = {"60": "60_job.csv"}
"""Trace files by short name."""

_TIMES = re.compile(r"[1-9][0-9]{0,17}")

_COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")


@dataclass(frozen=True, slots=True)
class TiresiasRow:
    """One job of a trace.

    Parameters
    ----------
    name, model
        ``job_id`` and ``model_name``.
    gpus
        Gang.
    submit_s, duration_s
        Whole seconds.
    file, line
        Its place; no part of comparisons.
    """

    name: str
    model: str
    gpus: int
    submit_s: int
    duration_s: int
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    def located(self, error: InputError) -> InputError:
        """Return an error about this job, with its place."""
        return error.located(file=self.file, line=self.line)

    def times(self, factor: int) -> TiresiasRow:
        """Return the job with its run time times a factor.

        Raises
        ------
        InputError
            If it becomes longer than `MOST_ITERATIONS` seconds.
        """
        if factor * self.duration_s > MOST_ITERATIONS:
            rule = f"times {shown_number(factor)} must be at most {MOST_ITERATIONS:g} seconds"
            raise self.located(InputError(rule, field="duration"))
        return replace(self, duration_s=factor * self.duration_s)


def read_trace_rows(path: Path) -> list[TiresiasRow]:
    """Read the jobs of a trace file.

    Raises
    ------
    InputError
        Naming file, line, field and rule: see `morph_opt.core.documents.read_rows`; further
        counts below 1, times that are negative or descend, a job that occurs twice, no job.
    """
    rows: list[TiresiasRow] = []
    seen: set[str] = set()
    for row in read_rows(path, _COLUMNS, ()):
        name = row.text("job_id")
        if name in seen:
            raise row.error("job_id", f"must be unique, {name!r} occurs twice")
        seen.add(name)
        row.integer("iterations", at_least=1)
        row.number("interval", at_least=0.0)
        job = TiresiasRow(
            name,
            row.text("model_name"),
            row.integer("num_gpu", at_least=1, at_most=MOST_GPUS),
            row.integer("submit_time", at_least=0, at_most=int(LATEST_S)),
            row.integer("duration", at_least=1, at_most=MOST_ITERATIONS),
            row.file,
            row.line,
        )
        if rows and job.submit_s < rows[-1].submit_s:
            raise row.error("submit_time", f"must not be before the line above, got {job.submit_s}")
        rows.append(job)
    if not rows:
        raise InputError("has a header but no jobs", file=str(path))
    return rows


def rigid_node(gpus: int, *, cpus: int = 128, memory_gib: float = 256.0) -> NodeType:
    """Return a node as Tiresias' specs describe it; its GPU (P100) is the paper's."""
    return NodeType(f"tiresias-x{gpus}", GPU_TYPES["P100"], gpus, cpus, memory_gib, 20.0, 12.5)


def trace_of(rows: Sequence[TiresiasRow], *, name: str, description: str = "") -> Trace:
    """Return the rows as jobs for `GangTable`: an iteration is a second of run time."""
    return Trace.of(
        name,
        [
            Gang(row.gpus, row.model).job(f"job-{row.name}", float(row.submit_s), row.duration_s)
            for row in rows
        ],
        description,
    )


def files_root(root: Path) -> Path:
    """Return the folder of the files: ``simulator/`` of a checkout, else the root."""
    return root / UPSTREAM if (root / UPSTREAM / SAMPLES).is_file() else root


def parse_name(argument: str) -> tuple[str, int]:
    """Return the short name of a trace file and the factor of its run times, of ``60x10``.

    Raises
    ------
    InputError
        If there is no such trace.
    """
    base, _, times = argument.partition("x")
    if base not in TRACES or (times and not _TIMES.fullmatch(times)):
        known = ", ".join(f"tiresias/{name}, tiresias/{name}x10" for name in TRACES)
        raise InputError(f"unknown trace 'tiresias/{argument}'; known are {known}", field="trace")
    return base, int(times) if times else 1


def load(root: Path, argument: str) -> tuple[Trace, GangTable, str]:
    """Load a trace of the data set by short name (``60``, or ``60x10``: run times times 10).

    Parameters
    ----------
    root
        A checkout of the repository, or a folder with the content of its ``simulator/``.

    Raises
    ------
    InputError
        If there is no such trace, or a file is wrong.
    """
    base, factor = parse_name(argument)
    root = files_root(root)
    rows = [row.times(factor) for row in read_trace_rows(root / TRACES[base])]
    notice = f"tiresias/{argument}: original trace of the public Tiresias artifact" + (
        f", run times x {factor}" if factor > 1 else ""
    )
    trace = trace_of(rows, name=f"tiresias/{argument}", description=notice)
    return trace, GangTable(Gang(row.gpus, row.model) for row in rows), notice


def _load(argument: str, *, seed: int) -> LoadedTrace:
    """Return a trace of the data set; an unknown name is refused before data are looked for."""
    del seed  # an original is the same for every seed
    parse_name(argument)
    root = locate("tiresias")
    trace, truth, _ = load(root, argument)
    file = files_root(root) / TRACES[parse_name(argument)[0]]
    return of_data_set("tiresias", f"tiresias/{argument}", trace, truth, [file])


FORMAT = TraceFormat("tiresias", ("60", "60x10"), _load, SECONDS, data_set="tiresias")
"""Trace format of the originals."""
