"""Exports say what the run says, in the words of those who read them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import morph_opt as mo
from morph_opt.export.batsim import COLUMNS, batsim_jobs, batsim_schedule
from morph_opt.export.cli import main
from morph_opt.export.perfetto import STARTUP, perfetto_trace, trace_records
from morph_opt.export.tables import parquet_bytes, tidy_tables
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.views.view import RunView, open_run
from tests.runs.views.worlds import HOSTILE, hostile, moved, paired


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("export")
    made = {"moved": moved, "paired": paired, "hostile": hostile}
    return {name: make(parent / name) for name, make in made.items()}


@pytest.fixture(params=["moved", "paired", "hostile"])
def view(request: pytest.FixtureRequest, folders: dict[str, Path]) -> RunView:
    return open_run(folders[request.param])


# ---------------------------------------------------------------- Perfetto


def test_slices_of_a_thread_nest_or_do_not_overlap(view: RunView) -> None:
    threads = defaultdict(list)
    for record in trace_records(view):
        if record["ph"] == "X":
            assert type(record["ts"]) is int
            assert type(record["dur"]) is int
            assert record["pid"] >= 1
            assert record["tid"] >= 1
            threads[record["pid"], record["tid"]].append(record)
    for slices in threads.values():
        open_: list[int] = []
        for one in sorted(slices, key=lambda record: (record["ts"], -record["dur"])):
            while open_ and open_[-1] <= one["ts"]:
                open_.pop()
            assert not open_ or one["ts"] + one["dur"] <= open_[-1], one["name"]
            assert len(open_) == (one["cat"] == STARTUP)
            open_.append(one["ts"] + one["dur"])


def test_slices_add_up_to_the_gpu_seconds_held(view: RunView) -> None:
    held_us = sum(r["dur"] for r in trace_records(view) if r.get("cat") == "job")
    shared_s = sum(segment.shared_gpu_s for _, segment in view.segments)
    # a pair's GPU-seconds count half for either job, and there is a slice for both
    assert held_us / 1e6 - shared_s == pytest.approx(view.values["gpu_s_held"], rel=1e-6)
    startup_us = sum(r["dur"] for r in trace_records(view) if r.get("cat") == STARTUP)
    whole = sum(segment.startup_s * segment.gpus for _, segment in view.segments)
    assert startup_us / 1e6 == pytest.approx(whole, rel=1e-6)


def test_every_process_and_thread_has_a_name_and_one_thread_is_one_gpu(view: RunView) -> None:
    named = {
        (r["pid"], r["tid"]): r["args"]["name"]
        for r in trace_records(view)
        if r["name"] in ("process_name", "thread_name")
    }
    used = {(r["pid"], r["tid"]) for r in trace_records(view) if r["ph"] == "X"}
    assert used <= set(named)
    assert {(pid, 0) for pid, _ in used} <= set(named)


def test_a_pair_has_a_second_thread_on_its_gpu(folders: dict[str, Path]) -> None:
    found = [r for r in trace_records(open_run(folders["paired"])) if r.get("cat") == "job"]
    assert [(r["name"], r["tid"], r["ts"], r["dur"]) for r in found] == [
        ("a", 1, 60_000_000, 242_000_000),
        ("b", 3, 120_000_000, 110_000_000),  # threads 1 and 2 are GPUs 0 and 1
    ]


def test_failures_are_instants_and_rounds_are_counted(folders: dict[str, Path]) -> None:
    view = open_run(folders["moved"])
    records = list(trace_records(view))
    seen = [(r["name"], r["pid"], r["ts"]) for r in records if r["ph"] == "i"]
    assert seen == [("failed", 2, 750_000_000), ("up", 2, 2_700_000_000)]
    gpus = [r["args"]["GPUs"] for r in records if r["name"] == "GPUs held"]
    assert gpus == [row.gpus_used for row in view.run.rounds]


def test_the_file_is_compressed_json_and_the_same_twice(view: RunView) -> None:
    made = perfetto_trace(view)
    assert json.loads(gzip.decompress(made))["traceEvents"] == list(trace_records(view))
    assert made == perfetto_trace(open_run(str(view.run.folder)))


# ---------------------------------------------------------------- Batsim


def test_columns_are_batsim_s_and_resources_its_interval_sets(view: RunView) -> None:
    rows = list(csv.DictReader(io.StringIO(batsim_jobs(view).to_csv())))
    assert tuple(rows[0]) == COLUMNS
    assert len(COLUMNS) == 17
    assert len(rows) == len(view.segments)
    assert len({row["job_id"] for row in rows}) == len(rows)
    for row in rows:
        gpus = interval_set(row["allocated_resources"])
        assert len(gpus) == int(row["requested_number_of_resources"])
        assert max(gpus) < view.nodes.total
        assert row["success"] in "01"
        begin, end = float(row["starting_time"]), float(row["finish_time"])
        assert begin + float(row["execution_time"]) == pytest.approx(end)
        assert float(row["submission_time"]) + float(row["waiting_time"]) == pytest.approx(begin)


def interval_set(text: str) -> set[int]:
    """Numbers of ``0-7 12``."""
    found: set[int] = set()
    for part in text.split(" "):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def test_one_row_per_job_has_the_times_of_the_job(folders: dict[str, Path]) -> None:
    view = open_run(folders["moved"])
    rows = list(csv.DictReader(io.StringIO(batsim_jobs(view, per_job=True).to_csv())))
    assert [row["job_id"] for row in rows] == [row.job for row in view.jobs]
    for row, job in zip(rows, view.jobs, strict=True):
        assert float(row["turnaround_time"]) == pytest.approx(job.jct_s)
        assert float(row["stretch"]) == pytest.approx(job.stretch)
    about = json.loads(batsim_schedule(view))
    turnarounds = [job.jct_s for job in view.jobs]
    assert about["mean_turnaround_time"] == pytest.approx(sum(turnarounds) / 12)
    assert about["nb_jobs_finished"] == about["nb_jobs"] == 12


def test_who_is_cancelled_leaves_the_gpus_to_others(tmp_path: Path) -> None:
    """Two trials after each other on one GPU; both have reported at 180 s, and the second goes on.

    The first ran from 60 to 120 s and was cancelled at 180 s: not at the end of the run.
    """
    rules = ReplayConfig(restart_s=0.0)
    mo.Scenario("search-twin/2", "1x1:V100", objective="feedback", engine=rules).run(tmp_path / "r")
    view = open_run(tmp_path / "r")
    rows = list(csv.DictReader(io.StringIO(batsim_jobs(view, per_job=True).to_csv())))
    killed = [float(row["finish_time"]) for row in rows if row["success"] == "0"]
    assert killed == [180.0]
    about = json.loads(batsim_schedule(view))
    assert (about["nb_jobs_finished"], about["nb_jobs_killed"]) == (2, 1)


EVALYS = Path(sys.prefix) / "evalys"
"""Where `make evalys` puts it: apart, as it brings a package ``tests`` that would hide ours."""

READ_BACK = """
import sys
from evalys.jobset import JobSet
jobs = JobSet.from_csv(sys.argv[1], resource_bounds=(0, int(sys.argv[2])))
print(len(jobs.df), jobs.mean_utilisation())
"""


@pytest.mark.skipif(not EVALYS.is_dir(), reason="evalys is not installed: make evalys")
def test_evalys_reads_the_rows_and_finds_our_utilisation(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """Its mean of GPUs in use is over the time from the first start; ours, from the arrival."""
    view = open_run(folders["moved"])
    file = tmp_path / "jobs.csv"
    file.write_text(batsim_jobs(view).to_csv())
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        READ_BACK,
        str(file),
        str(view.nodes.total - 1),
    ]
    place = {"PYTHONPATH": str(EVALYS), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, used = done.stdout.split()
    assert int(rows) == len(view.segments)
    first_s = min(segment.start_s for _, segment in view.segments)
    mean = view.values["gpu_s_held"] / (view.end_s - first_s)  # type: ignore[operator]
    assert float(used) == pytest.approx(mean, rel=1e-9)


# ---------------------------------------------------------------- tables


def test_segments_add_up_and_name_what_ended_them(view: RunView) -> None:
    tables = tidy_tables(view, "r")
    of_groups = {"groups"} if len(view.run.groups) else set()
    assert set(tables) == {"jobs", "segments", "rounds", "summary", *of_groups}
    rows = [
        dict(zip(tables["segments"].header, row, strict=True)) for row in tables["segments"].rows
    ]
    held = 0.0
    for row in rows:
        assert row["run"] == "r"
        assert row["start_s"] <= row["startup_until_s"] <= row["end_s"]
        alone = 1.0 if row["partner"] is None else 0.5
        held += alone * (row["last_gpu"] - row["first_gpu"] + 1) * (row["end_s"] - row["start_s"])
    assert held == pytest.approx(view.values["gpu_s_held"], rel=1e-9)
    times = [name for name in tables["jobs"].header if name.endswith("_time")]
    assert times == []  # every time says its unit


def test_parquet_holds_the_rows_of_the_csv(view: RunView) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    for table in tidy_tables(view, "r").values():
        made = parquet_bytes(table)
        assert made == parquet_bytes(table)
        read = pq.read_table(io.BytesIO(made)).to_pylist()
        assert len(read) == len(table.rows)
        for row, cells in zip(read, table.rows, strict=True):
            shown = [same(a) for a in row.values()]
            assert shown == [same(b, a) for a, b in zip(row.values(), cells, strict=True)]


def same(value: Any, like: Any = None) -> Any:
    """None for NaN; text where the column is one of texts and numbers."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(value) if isinstance(like, str) else value


# ---------------------------------------------------------------- command


def test_files_named_in_the_output_are_written(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for to, files in (
        ("perfetto", {"x.json.gz"}),
        ("batsim", {"jobs.csv", "schedule.json"}),
        ("tables", {"jobs.csv", "groups.csv", "segments.csv", "rounds.csv", "summary.csv"}),
    ):
        out = tmp_path / to / ("x.json.gz" if to == "perfetto" else "made")
        out.parent.mkdir()
        assert main([str(folders["hostile"]), "--to", to, "--out", str(out)]) == 0
        written = {out} if out.is_file() else set(out.iterdir())
        assert {file.name for file in written} == files
    read = csv.DictReader(io.StringIO((tmp_path / "tables/made/jobs.csv").read_text()))
    assert [row["job"] for row in read] == list(HOSTILE)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{run} --to tables --per-job", "has an effect with --to batsim only"),
        ("{run} --to perfetto --out x.json", "--out: must end in .gz"),
        ("{run} --to batsim --out {run}", "is not empty"),
        ("nothing --to batsim", "nothing: is no run folder (it has no summary.json)"),
    ],
)
def test_bad_input_is_one_line(
    line: str, complaint: str, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.format(run=folders["moved"]).split()) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
