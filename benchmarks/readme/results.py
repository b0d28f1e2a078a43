"""The data behind the README: aggregates of run folders, small enough to commit.

``reports/readme/results.json`` holds one row per replay, ``gpus.csv`` the GPUs in use over time
and ``jct.csv`` the quantiles of the job completion times. README and pictures are functions of
these three files alone.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from morph_opt.core.documents import exists, read_json, read_rows, write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.domain.job import LATEST_S
from morph_opt.simulation.runs.read import Run

BIN_S = 600.0
"""Width of a bin of ``gpus.csv``, seconds of simulated time."""
QUANTILES = np.linspace(0.0, 1.0, 101)

Series = Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the caller of a replay measures from outside.

    Parameters
    ----------
    whole_s
        Wall seconds from the start of the process to its end.
    rerun_identical
        Whether a second run gave the same bytes in ``events.jsonl`` and ``jobs.csv``; None if
        there was none.
    """

    whole_s: float
    rerun_identical: bool | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One replay. Names and units are those of ``summary.json`` unless said otherwise.

    Parameters
    ----------
    gap_max
        None for a policy that proves nothing.
    guaranteed_jct_s
        Average completion time of the guaranteed jobs; None without any.
    guarantee_misses
        Rounds in which all guarantees could be kept and one was not; None for a policy that does
        not know whether they could.
    measured
        None if the replay was not started by ``benchmarks.readme``.
    """

    command: str
    trace_sha256: str
    jobs: int
    completed: int
    gpus: int
    rounds: int
    avg_jct_s: float
    median_jct_s: float
    p99_jct_s: float
    makespan_s: float
    avg_queue_s: float
    gpu_utilization: float
    restarts_per_job: float
    rounds_over_capacity: int
    fallback_rounds: int
    round_ms_p50: float
    round_ms_p99: float
    gap_max: float | None
    avg_jct_lower_bound_s: float
    makespan_lower_bound_s: float
    peak_rss_mib: float
    guaranteed_jct_s: float | None
    guarantee_misses: int | None
    steps: Mapping[str, int]
    measured: Measured | None


_MAY_LACK = {"gap_max"}
_DERIVED = {"command", "guaranteed_jct_s", "guarantee_misses", "steps", "measured"}


@dataclass(frozen=True, slots=True)
class Results:
    """All that the README is made from.

    Parameters
    ----------
    rows
        By slug of the case.
    gpus
        By slug: GPUs in use, averaged over bins of `BIN_S`.
    jct_s
        By slug: quantiles `QUANTILES` of the job completion times.
    versions
        Of the packages that decide the figures, with the machine's processor.
    """

    rows: Mapping[str, Row]
    gpus: Series
    jct_s: Series
    versions: Mapping[str, str]


def row_of(run: Run, command: str, measured: Measured | None) -> Row:
    """The row of a finished run.

    Raises
    ------
    InputError
        If the run's summary has no value where the row needs one.
    """
    wanted = [field.name for field in fields(Row) if field.name not in _DERIVED]
    values = {name: run.summary.values[name] for name in wanted}
    for name, value in values.items():
        if value is None and name not in _MAY_LACK:
            raise InputError("has no value", file=str(run.folder), field=name)
    return Row(
        command=command,
        guaranteed_jct_s=_guaranteed_jct_s(run),
        guarantee_misses=_guarantee_misses(run),
        steps=dict(
            sorted(Counter(row.report.step for row in run.rounds if row.report.step).items())
        ),
        measured=measured,
        **values,  # type: ignore[arg-type]
    )


def _guaranteed_jct_s(run: Run) -> float | None:
    """Average completion time of the guaranteed jobs that completed."""
    times_s = [job.jct_s for job in run.jobs if job.guaranteed and job.completed]
    return sum(times_s) / len(times_s) if times_s else None


def _guarantee_misses(run: Run) -> int | None:
    """Rounds in which every guarantee could be kept and one was not."""
    reports = [row.report for row in run.rounds]
    known = [one for one in reports if one.guarantees_possible is not None]
    if not known:
        return None
    return sum(bool(one.guarantees_possible) and one.guarantees_short > 0 for one in known)


def gpus_over_time(run: Run) -> npt.NDArray[np.float64]:
    """GPUs in use after each decision of a run, averaged over bins of `BIN_S`."""
    time_s = np.array(run.rounds.column("time_s"), dtype=float)
    gpus = np.array(run.rounds.column("gpus_used"), dtype=float)
    # rounds without active jobs are not decided; the cluster is idle then
    interval_s = float(np.min(np.diff(time_s))) if len(time_s) > 1 else BIN_S
    if not interval_s > 0.0 or time_s.max(initial=0.0) > LATEST_S:
        raise InputError("must ascend, up to 1e10", file=str(run.folder), field="time_s")
    rounds_per_bin = max(1, round(BIN_S / interval_s))
    place = np.rint(time_s / interval_s).astype(int) // rounds_per_bin
    return np.bincount(place, weights=gpus) / rounds_per_bin


def jct_quantiles_s(run: Run) -> npt.NDArray[np.float64]:
    """Quantiles of the completion times of a run's complete jobs."""
    times_s = [job.jct_s for job in run.jobs if job.completed]
    if not times_s:
        raise InputError("has no complete job", file=str(run.folder), field="jct_s")
    return np.asarray(np.quantile(times_s, QUANTILES), dtype=np.float64)


# ---------------------------------------------------------------- committed files


def save(results: Results, folder: Path) -> None:
    """Write the three files; equal results give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "versions": dict(results.versions),
        "runs": {slug: _plain(row) for slug, row in sorted(results.rows.items())},
    }
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    write_atomically(folder / "results.json", text)
    _save_series(folder / "gpus.csv", results.gpus, "{:.2f}")
    _save_series(folder / "jct.csv", results.jct_s, "{:.1f}")


def _plain(row: Row) -> dict[str, object]:
    """Rounded to what a reader can use; that keeps the diffs of the file quiet."""
    return {name: _rounded(value) for name, value in asdict(row).items()}


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def _save_series(path: Path, series: Series, form: str) -> None:
    """One column per slug; shorter ones end in empty cells."""
    names = sorted(series)
    length = max((len(series[name]) for name in names), default=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for index in range(length):
        writer.writerow(
            form.format(series[name][index]) if index < len(series[name]) else "" for name in names
        )
    write_atomically(path, text.getvalue())


def load(folder: Path) -> Results:
    """Read what `save` wrote; an empty result where there is none yet.

    Raises
    ------
    InputError
        If a file is not what `save` writes.
    """
    path = folder / "results.json"
    if not exists(path):
        return Results({}, {}, {}, {})
    try:
        record = read_json(path)
        rows = {slug: _row(values) for slug, values in record["runs"].items()}
        versions = dict(record["versions"])
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is not what `make readme` writes ({error})", file=str(path)) from error
    return Results(
        rows, _load_series(folder / "gpus.csv"), _load_series(folder / "jct.csv"), versions
    )


def _row(values: dict[str, object]) -> Row:
    measured = values.pop("measured")
    outside = Measured(**measured) if isinstance(measured, dict) else None
    return Row(**{"steps": {}, **values}, measured=outside)  # type: ignore[arg-type]


def _load_series(path: Path) -> Series:
    found: dict[str, list[float]] = {}
    for row in read_rows(path, (), None):
        for name, cell in row.cells.items():
            numbers = found.setdefault(name, [])
            if cell:
                numbers.append(row.number(name, at_least=-math.inf))
    return {name: np.array(numbers) for name, numbers in found.items()}
