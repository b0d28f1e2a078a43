"""Reader of Gavel's traces (OSDI'20): tab-separated lines without a header.

Ten columns: job_type, command, working_directory, num_steps_arg, needs_data_dir, total_steps,
scale_factor, priority_weight, SLO (-1 for none), arrival_time in seconds. The older files have
seven: job_type, command, num_steps_arg, needs_data_dir, total_steps, arrival_time, scale_factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from morph_opt.core.documents import read_lines
from morph_opt.core.domain import InputError, Job, Trace
from morph_opt.core.domain._validate import require_finite
from morph_opt.core.domain.job import LATEST_S, LEAST_WEIGHT, MOST_ITERATIONS, MOST_WEIGHT
from morph_opt.inputs.data import dataset, find, locate
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang
from morph_opt.inputs.perf.tables.gavel import GavelTable, GavelThroughputs, read_throughputs
from morph_opt.inputs.traces.format import LoadedTrace, TraceFormat, of_data_set

TABLE = "simulation_throughputs.json"
"""Throughput table, relative to the data set's root."""

HOME = "1x4:V100+1x4:P100+1x4:K80"
"""Cluster of the publication."""

UPSTREAM = "scheduler"
"""Folder of a checkout (and of a fetched copy) that holds table and traces."""

FOLDERS = {"physical_cluster": "", "msr_seed0": "msr_seed0/", "msr/seed=0": "msr_seed0/"}
"""Folders of traces below ``traces/`` with the prefix of their short names."""

_TEN = (0, 5, 6, 7, 8, 9)
_SEVEN = (0, 4, 6, None, None, 5)
_SHOCKWAVE = 12
"""Columns of Shockwave's traces, which have two more than Gavel's."""


@dataclass(frozen=True, slots=True)
class GavelRow:
    """One line of a trace.

    Parameters
    ----------
    job_type
        Key of the throughput table.
    steps
        Steps to do, at least 1.
    gang
        GPUs, at least 1.
    weight
        Priority weight, above 0.
    slo
        Deadline after the arrival as a multiple of the job's duration alone on the fastest type;
        None without.
    arrival_s
        Seconds.
    file, line
        Its place; no part of comparisons.
    """

    job_type: str
    steps: int
    gang: int
    weight: float
    slo: float | None
    arrival_s: float
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    def located(self, error: InputError) -> InputError:
        """Return an error about this job, with its place."""
        return error.located(file=self.file, line=self.line)


def read_rows(path: Path) -> list[GavelRow]:
    """Read the lines of a trace file.

    Raises
    ------
    InputError
        Naming file, line, field and rule: a wrong number of columns, a number that is not one,
        steps or gang below 1, a weight that is not above 0, an SLO of 0 or below other than -1,
        arrivals that are negative or descend, no line at all.
    """
    rows: list[GavelRow] = []
    for number, line in read_lines(path):
        try:
            row = _row(line.split("\t"), str(path), number)
            if rows and row.arrival_s < rows[-1].arrival_s:
                rule = f"must not be before the line above, got {row.arrival_s:g}"
                raise InputError(rule, field="arrival_time")
        except InputError as error:
            job_part = f" (job {len(rows)}, {line.split(chr(9))[0].strip() or 'without a type'})"
            rule = error.rule + job_part
            raise InputError(rule, file=str(path), line=number, field=error.field) from None
        rows.append(row)
    if not rows:
        raise InputError("has no jobs", file=str(path))
    return rows


def _row(cells: list[str], file: str, line: int) -> GavelRow:
    if len(cells) not in (10, 7):
        rule = f"must have 10 or 7 tab-separated columns, got {len(cells)}"
        more = " (12 are Shockwave's: keep Gavel's ten)" if len(cells) == _SHOCKWAVE else ""
        raise InputError(rule + more)
    kind, steps, gang, weight, slo, arrival = _TEN if len(cells) == 10 else _SEVEN
    slo_value = -1.0 if slo is None else _number("SLO", cells[slo])
    if slo_value <= 0 and slo_value != -1.0:
        raise InputError(f"must be above 0, or -1 for none, got {slo_value:g}", field="SLO")
    row = GavelRow(
        job_type=cells[kind].strip(),
        steps=_whole("total_steps", cells[steps]),
        gang=_whole("scale_factor", cells[gang]),
        weight=1.0 if weight is None else _number("priority_weight", cells[weight]),
        slo=None if slo_value == -1.0 else slo_value,
        arrival_s=_number("arrival_time", cells[arrival]),
        file=file,
        line=line,
    )
    if not row.job_type:
        raise InputError("must not be empty", field="job_type")
    require_finite("priority_weight", row.weight, above=0.0)
    require_finite("priority_weight", row.weight, at_least=LEAST_WEIGHT, at_most=MOST_WEIGHT)
    require_finite("arrival_time", row.arrival_s, at_least=0.0, at_most=LATEST_S)
    return row


def _number(field: str, text: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"must be a finite number, got {text!r}", field=field)
    return value


def _whole(field: str, text: str) -> int:
    value = _number(field, text)
    if value != int(value) or not 1 <= value <= MOST_ITERATIONS:
        rule = f"must be a whole number from 1 to {MOST_ITERATIONS:g}, got {text!r}"
        raise InputError(rule, field=field)
    return int(value)


def read_trace(
    path: Path, *, name: str, throughputs: GavelThroughputs, description: str = ""
) -> Trace:
    """Read a trace file as jobs whose models `GavelTable` knows.

    The first arrival becomes instant 0, as in Gavel's simulator.

    Raises
    ------
    InputError
        As `read_rows`; further job types that the table does not have, or that have throughput 0
        everywhere. A known job type in a gang that was not measured (the older files have many)
        is read; the replay then refuses the job, which can never run, or drops it on request.
    """
    rows = read_rows(path)
    first = rows[0].arrival_s
    width = len(str(len(rows) - 1))
    measured = set(throughputs.job_keys())
    jobs = []
    for number, row in enumerate(rows):
        try:
            if (row.job_type, row.gang) in measured:
                throughputs.require_key((row.job_type, row.gang))
            else:
                throughputs.require_job_type(row.job_type)
            submission_s = row.arrival_s - first
            job = Job(
                name=f"job-{number:0{width}d}",
                model=Gang(row.gang, row.job_type).name,
                submission_s=submission_s,
                iterations=row.steps,
                requested_gpus=row.gang,
                requested_plan=RIGID_PLAN,
                weight=row.weight,
                deadline_s=deadline_of(row, submission_s, throughputs),
            )
        except InputError as error:
            raise row.located(error) from None
        jobs.append(job)
    return Trace.of(name, jobs, description)


def deadline_of(row: GavelRow, submission_s: float, throughputs: GavelThroughputs) -> float | None:
    """Return the instant of the SLO: submission + SLO x duration alone, as in the published code.

    Its duration is that of generated jobs, on a V100. Here it is steps over the consolidated speed
    on the fastest type of the table. None without an SLO, or for a gang that was not measured.
    """
    speed = throughputs.fastest((row.job_type, row.gang))
    if row.slo is None or speed <= 0:
        return None
    return submission_s + row.slo * row.steps / speed


def known_files(root: Path) -> dict[str, Path]:
    """Return the trace files by short name, ``max_min_fairness`` or ``msr_seed0/2869ce``."""
    return {
        prefix + path.stem: path
        for folder, prefix in FOLDERS.items()
        for path in sorted((root / "traces" / folder).glob("*.trace"))
    }


def published_names() -> tuple[str, ...]:
    """Return short names of the traces in the published data set, on this machine or not."""
    traces = PurePosixPath(UPSTREAM, "traces")
    files = [PurePosixPath(file) for file in dataset("gavel").sha256]
    return tuple(
        prefix + file.stem
        for folder, prefix in FOLDERS.items()
        for file in files
        if file.parent == traces / folder
    )


def require_known(argument: str, known: Iterable[str]) -> None:
    """Refuse a short name that is none of the ``known``.

    Raises
    ------
    InputError
        Naming those that are.
    """
    known = tuple(known)
    if argument not in known:
        names = ", ".join(f"gavel/{name}" for name in known)
        raise InputError(f"unknown trace 'gavel/{argument}'; known are {names}", field="trace")


def load(root: Path, argument: str) -> tuple[Trace, GavelTable, str]:
    """Load a trace of the data set by short name, with its speed model and a notice.

    Parameters
    ----------
    root
        A checkout of the repository, or a folder with the content of its ``scheduler/``.

    Raises
    ------
    InputError
        If there is no such trace, or a file is wrong.
    """
    file, table = _files(root, argument)
    name = f"gavel/{argument}"
    notice = f"{name}: original trace of the public Gavel artifact, speeds as measured there"
    return (*read_pair(file, table, name, notice), notice)


def read_pair(file: Path, table: Path, name: str, notice: str) -> tuple[Trace, GavelTable]:
    """Read a trace file with the speeds of a throughput table.

    Raises
    ------
    InputError
        If a file is wrong.
    """
    throughputs = read_throughputs(table)
    trace = read_trace(file, name=name, throughputs=throughputs, description=notice)
    also = [(row.job_type, row.gang) for row in read_rows(file)]
    return trace, GavelTable(throughputs, also=also)


def _files(root: Path, argument: str) -> tuple[Path, Path]:
    """Return trace file and throughput table of a short name."""
    if (root / UPSTREAM / TABLE).is_file():
        root = root / UPSTREAM
    files = known_files(root)
    if not files:
        raise InputError("has no traces/*.trace", file=str(root), field="data set gavel")
    require_known(argument, files)
    return files[argument], root / TABLE


def _load(argument: str, *, seed: int) -> LoadedTrace:
    """Return a trace of the data set; without the data, an unknown name is refused first."""
    del seed  # an original is the same for every seed
    if find("gavel") is None:
        require_known(argument, published_names())
    root = locate("gavel")
    trace, truth, _ = load(root, argument)
    return of_data_set("gavel", f"gavel/{argument}", trace, truth, _files(root, argument))


_SPEEDS = "the artifact's table, by GPU type, pairs included"
FORMAT = TraceFormat(
    "gavel", ("max_min_fairness", "minimize_makespan"), _load, _SPEEDS, HOME, "gavel"
)
"""Trace format of the originals."""


def _pair(text: str) -> tuple[str, ...]:
    """Return the paths of ``FILE[,TABLE]``; a comma may be part of one path."""
    return (text,) if Path(text).is_file() or "," not in text else tuple(text.rsplit(",", 1))


def _load_own(text: str, *, seed: int) -> LoadedTrace:
    """Return a user's own trace; without a table, with the data set's throughputs."""
    del seed  # a file is the same for every seed
    paths = [Path(path) for path in _pair(text)]
    name = f"gavel:{','.join(path.name for path in paths)}"
    if len(paths) < 2:
        root = locate("gavel")
        paths.append((root / UPSTREAM if (root / UPSTREAM / TABLE).is_file() else root) / TABLE)
    notice = f"{name}: your file, speeds of {paths[1].name}"
    trace, truth = read_pair(paths[0], paths[1], name, notice)
    return LoadedTrace(trace, truth, "file", notice)


OWN_FORMAT = TraceFormat("gavel", (), _load_own, _SPEEDS, HOME, paths=_pair)
"""Trace format of a user's own files, ``gavel:FILE[,TABLE]``."""
