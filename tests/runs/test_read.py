"""Runs as values: what is read is what was written, whether from memory or from a folder."""

from __future__ import annotations

import gc
import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError, Trace
from morph_opt.replay.run import replay
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import (
    Completed,
    RoundDecided,
    Started,
    StartKind,
    event_to_line,
)
from morph_opt.simulation.runs.jobs import FORMER, job_rows, jobs_csv
from morph_opt.simulation.runs.read import Parts, Run, read_run
from morph_opt.simulation.runs.result import ReplayResult
from morph_opt.simulation.runs.rounds import RoundRow, row_to_line
from morph_opt.simulation.runs.summary import FIGURES, Summary
from tests.engine.toys import Shuffler, ToySpeeds, cluster, random_trace

LABELS = {"objective": "jct", "solver": None, "wall_s": 1.5, "peak_rss_mib": 100.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture(scope="module")
def result(folder: Path) -> ReplayResult:
    """A run with restarts, written to ``folder``."""
    trace: Trace = random_trace(5, 12)
    policy = Shuffler(seed=1)
    config = ReplayConfig(restart_s=30.0, lost_work_s=5.0)
    return replay(trace, cluster(2, 4), policy, ToySpeeds(), config, out=folder)


@pytest.fixture(scope="module")
def whole(result: ReplayResult, folder: Path) -> Path:
    """The folder, written."""
    assert result
    return folder


@pytest.fixture
def run(whole: Path) -> Run:
    return read_run(whole)


def test_a_folder_gives_the_rows_that_were_written(run: Run, result: ReplayResult) -> None:
    assert list(run.events) == list(result.events)
    assert [row_to_line(row) for row in run.rounds] == [row_to_line(row) for row in result.rounds]
    assert jobs_csv(run.jobs) == jobs_csv(result.jobs)
    assert dict(run.summary.values) == dict(result.summary)


def test_groups_of_a_folder_are_those_that_were_written(tmp_path: Path) -> None:
    """Queues a and b, users x and y, and a job of nobody; jobs of one queue alone have no rows."""
    plain = random_trace(5, 12)
    owners = [("a", "x"), ("b", "y"), ("b", "")]
    jobs = [
        replace(job, tenant=owners[at % 3][0], user=owners[at % 3][1])
        for at, job in enumerate(plain.jobs)
    ]
    config = ReplayConfig(restart_s=30.0, lost_work_s=5.0)
    trace, out = plain.of_jobs(jobs), tmp_path / "r"
    ran = replay(trace, cluster(2, 4), Shuffler(seed=1), ToySpeeds(), config, out=out)
    groups = {(row.kind, row.group): row for row in read_run(out).groups}
    assert list(groups.values()) == list(ran.groups)
    assert [(key, row.jobs) for key, row in groups.items()] == [
        (("queue", "a"), 4), (("queue", "b"), 8), (("user", "x"), 4), (("user", "y"), 4)
    ]  # fmt: skip
    queues = groups["queue", "a"], groups["queue", "b"]
    summary = ran.summary
    assert sum(row.gpu_hours for row in queues) == pytest.approx(summary["gpu_s_held"] / 3600.0)
    assert sum(row.gpu_hours_lost for row in queues) == pytest.approx(summary["gpu_hours_lost"])
    assert sum(row.evictions for row in queues) == summary["preemptions"] > 0
    mine = [row.queued_s for row in ran.jobs if row.tenant == "a"]
    assert queues[0].queued_mean_s == pytest.approx(sum(mine) / 4)
    assert {row.user for row in ran.jobs} == {"x", "y", ""}


def test_jobs_of_one_queue_make_no_groups(run: Run, whole: Path) -> None:
    assert len(run.groups) == 0
    assert not (whole / "groups.csv").exists()


def test_the_summary_is_typed(run: Run, result: ReplayResult) -> None:
    assert run.summary.avg_jct_s == result.summary["avg_jct_s"]
    assert run.summary.jobs == run.summary.completed == 12
    assert run.summary.solver is None
    assert math.isnan(run.summary.gap_max)  # the policy proves nothing
    assert run.summary.values["ended"] == "complete"


def test_every_figure_of_the_file_has_an_attribute(run: Run) -> None:
    more = set(run.summary.values) - set(FIGURES)
    assert {name.removeprefix("gpu_utilization_") for name in more} == {"A800-80GB"}
    for name, value in run.summary.values.items():
        if name in FIGURES and value is not None:
            assert getattr(run.summary, name) == value, name
    assert math.isnan(run.summary.packed_gpu_share), "nothing was packed"
    assert run.summary.packed_jobs is None


def test_a_folder_of_an_earlier_version_is_read(run: Run, whole: Path, tmp_path: Path) -> None:
    """Its jobs.csv has Batsim's names of columns and states."""
    header, *lines = (whole / "jobs.csv").read_text().splitlines()
    state, former = header.split(",").index("state"), {new: old for old, new in FORMER.items()}
    names = [former.get(name, name) for name in header.split(",")]
    names[state - 1 : state + 1] = "success", "final_state"
    cells = [line.split(",") for line in lines]
    words = ("UNFINISHED", "CANCELLED", *10 * ["COMPLETED_SUCCESSFULLY"])
    for row, word in zip(cells, words, strict=True):
        row[state] = word
    shutil.copytree(whole, tmp_path / "copy")
    (tmp_path / "copy" / "jobs.csv").write_text("\n".join(map(",".join, (names, *cells))) + "\n")
    found = read_run(tmp_path / "copy").jobs
    assert [row.state for row in found][:3] == ["unfinished", "cancelled", "completed"]
    assert [replace(row, state="completed") for row in found] == list(run.jobs)


def test_segments_are_those_of_the_jobs(run: Run, result: ReplayResult) -> None:
    by_job = Counter(segment.job for segment in run.segments)
    starts = Counter(event.job for event in run.events if isinstance(event, Started))
    assert by_job == starts
    for job in run.jobs:
        mine = [segment for segment in run.segments if segment.job == job.job]
        assert sum(s.held_s for s in mine) == pytest.approx(job.held_s)
        assert sum(s.held_s * s.gpus for s in mine) == pytest.approx(job.gpu_s_held)
        assert max(s.end_s for s in mine) == job.finish_s
    records = {record.job.name: record.segments for record in result.history.jobs}
    assert sum(map(len, records.values())) == len(run.segments)


def test_data_frames(run: Run) -> None:
    jobs = run.jobs.to_pandas()
    assert jobs["jct_s"].mean() == pytest.approx(run.summary.avg_jct_s)
    assert list(jobs.columns) == list(run.jobs.names)
    assert len(run.rounds.to_pandas()) == run.summary.rounds
    assert run.segments.to_pandas()["gpus"].max() <= 8
    events = run.events.to_pandas()
    assert (events["event"] == "complete").sum() == 12
    kinds = events.loc[events["event"] == "start", "kind"].value_counts()
    assert kinds[StartKind.FIRST] == 12


def test_tables_of_some_columns(run: Run) -> None:
    text = run.jobs.to_table("job", "jct_s").to_csv()
    assert text.splitlines()[0] == "job,jct_s"
    assert len(text.splitlines()) == 13


def test_a_run_without_rows_has_its_columns() -> None:
    empty = Run(Parts(dict, tuple, tuple, tuple))
    assert list(empty.jobs.to_pandas().columns) == list(empty.jobs.names)
    assert list(empty.segments.to_pandas().columns) == list(empty.segments.names)
    assert list(empty.events.to_pandas().columns) == ["event"]


def test_memory_and_folder_are_alike(run: Run, result: ReplayResult) -> None:
    parts = Parts(
        lambda: Summary.of(result.summary),
        lambda: result.jobs,
        lambda: result.rounds,
        lambda: result.events,
    )
    memory = Run(parts)
    assert str(memory.summary) == str(run.summary)  # NaN is not equal to itself
    assert list(memory.segments) == list(run.segments)
    assert repr(memory) in repr(run).replace(f" in {run.folder}", "")


@pytest.mark.parametrize("written", [True, False], ids=["folder", "memory"])
def test_a_written_replay_keeps_no_round_in_memory(written: bool, tmp_path: Path) -> None:
    """Rounds and their rows go to the folder as they come, however many there are."""
    rounds_seen = 0
    alive: list[int] = []

    def look(_decided: RoundDecided, _completed: int) -> None:
        nonlocal rounds_seen
        rounds_seen += 1
        if rounds_seen in (1, 40):
            # Cycles that other tests left behind must not go between the two counts.
            gc.collect()
            kinds = (RoundDecided, RoundRow)
            alive.append(sum(isinstance(thing, kinds) for thing in gc.get_objects()))

    found = replay(
        random_trace(5, 12),
        cluster(2, 4),
        Shuffler(seed=1),
        ToySpeeds(),
        out=tmp_path / "run" if written else None,
        progress=look,
    )
    # Without a folder each of the 39 rounds leaves its event and its row.
    first, fortieth = alive
    assert fortieth - first == (0 if written else 2 * 39)
    assert len(found.rounds) > 40
    assert found.summary["rounds"] == len(found.rounds)


def test_rows_say_what_the_history_says(result: ReplayResult) -> None:
    rows = job_rows(result.history, cluster(2, 4))
    done = {e.job: e.time_s for e in result.events if isinstance(e, Completed)}
    assert {row.job: row.finish_s for row in rows} == done


def damaged(folder: Path, copy: Path, name: str, line: int, text: str) -> Path:
    shutil.copytree(folder, copy)
    lines = (copy / name).read_text().splitlines()
    lines[line - 1] = text
    (copy / name).write_text("\n".join(lines) + "\n")
    return copy


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        (
            "rounds.csv",
            3,
            "1,2",
            r"rounds\.csv, line 3: must have \d+ cells like",
        ),
        ("rounds.csv", 1, "round", r"rounds\.csv, line 1, time_s: "),
        ("jobs.csv", 2, "a,b", r"jobs\.csv, line 2: must have \d+ cells like"),
        ("events.jsonl", 2, "{}", r"events\.jsonl, line 2: is not an event"),
    ],
)
def test_damage_names_file_and_line(
    whole: Path, tmp_path: Path, name: str, line: int, text: str, message: str
) -> None:
    run = read_run(damaged(whole, tmp_path / "copy", name, line, text))
    with pytest.raises(InputError, match=message):
        _ = {"rounds.csv": lambda: run.rounds, "jobs.csv": lambda: run.jobs}.get(
            name, lambda: run.events
        )()


def test_a_folder_without_a_finished_run(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no run folder"):
        read_run(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    (copy / "events.jsonl").rename(copy / "events.jsonl.partial")
    with pytest.raises(InputError, match="not finished"):
        read_run(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jobs": "12"}, "jobs: must be of type int, got '12'"),
        ({"avg_jct_s": True}, "avg_jct_s: must be of type float, got True"),
        ({"trace": None}, "trace: must be of type str, got None"),
        ({"makespan_s": ...}, "makespan_s: is missing"),
    ],
)
def test_a_summary_of_another_form_is_refused(
    run: Run, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    values = {k: v for k, v in (dict(run.summary.values) | change).items() if v is not ...}
    (tmp_path / "summary.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=message):
        read_run(tmp_path)


def test_events_keep_their_words(run: Run) -> None:
    lines = [json.loads(event_to_line(event))["event"] for event in run.events]
    assert run.events.column("event") == lines


def test_rows_with_missing_numbers_are_equal(run: Run) -> None:
    """NaN is a missing number: Python 3.13 compares fields one by one, where NaN != NaN."""
    row = replace(run.jobs[0], deadline_s=float("nan"))
    same = replace(row, deadline_s=float("nan"))
    assert row == same
    assert hash(row) == hash(same)
    assert row != replace(row, deadline_s=1.0)
    assert row != replace(row, job="another")
    assert row != run.rounds[0]
