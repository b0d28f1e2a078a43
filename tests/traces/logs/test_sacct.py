"""Traps of ``sacct``, each with an invented line."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.formats.sacct import XDMOD, Tres
from morph_opt.inputs.traces.logs.guess import guessed
from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.quantities import elapsed_s
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import log_format
from tests.traces.logs.samples import SACCT, read, read_sacct, sacct


@pytest.mark.parametrize(
    ("text", "gpus", "types"),
    [
        ("", 0, ()),
        ("cpu=1,mem=1000M,node=1", 0, ()),
        ("billing=8,gres/gpu=2,gres/gpu:a100=2", 2, ("a100",)),
        ("gres/gpu:a100=2,gres/gpu=2,cpu=4", 2, ("a100",)),
        ("gres/gpu:a100=2,cpu=4", 2, ("a100",)),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3, ("a100", "v100")),
        ("gres/gpu=4,gres/gpumem=80G,gres/gpuutil=100", 4, ()),
        ("gres/gpu=0,gres/gpu:a100=0", 0, ()),
    ],
)
def test_gpus_are_counted_once(text: str, gpus: int, types: tuple[str, ...]) -> None:
    found = Tres.of(text)
    assert (found.gpus, found.types, found.disagree) == (gpus, types, False)


def test_the_total_wins_over_the_types(tmp_path: Path) -> None:
    jobs, report = read_sacct(tmp_path, sacct(held="gres/gpu=4,gres/gpu:a100=2"))
    assert jobs[0].gpus == 4
    assert report.findings["tres-disagree"].count == 1
    # Asked for 8, ran on 4.
    assert report.findings["allocated-not-requested"].count == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"job": "77.batch"}, "step"),
        ({"state": "FOO"}, "unknown-status"),
        ({"held": "cpu=4", "asked": "cpu=4"}, "no-gpu"),
        ({"start": "Unknown", "end": "Unknown", "state": "PENDING", "held": ""}, "not-started"),
        ({"held": "", "start": "09:00:00", "end": "09:00:00", "elapsed": "0"}, "not-started"),
        ({"start": "None", "end": "09:00:00", "state": "CANCELLED", "held": ""}, "not-started"),
        ({"state": "RUNNING", "end": "Unknown"}, "still-running"),
        ({"state": "RUNNING", "elapsed": "77"}, "still-running"),
        ({"held": "gres/gpu=1,gres/gpu:a100_1g.5gb=1"}, "mig-slice"),
        ({"held": "gres/gpu:3g.20gb=1"}, "mig-slice"),
        ({"held": "gres/shard=4", "asked": "gres/shard=4"}, "fractional-gpu"),
        ({"held": "gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1"}, "mixed-gpu-types"),
        ({"elapsed": "", "start": "09:00:00", "end": "08:00:00"}, "negative-duration"),
        ({"elapsed": "0", "end": "08:00:10"}, "zero-duration"),
        ({"job": "91_[4-9]", "start": "Unknown", "state": "PENDING", "held": ""}, "not-started"),
        # Several reasons apply: the first in order counts.
        ({"job": "7.0", "state": "FOO", "held": "cpu=1"}, "step"),
        ({"state": "FOO", "held": "cpu=1", "asked": "", "start": "Unknown"}, "unknown-status"),
        ({"held": "", "asked": "", "start": "Unknown", "state": "PENDING"}, "no-gpu"),
        ({"start": "Unknown", "end": "Unknown", "state": "RUNNING"}, "not-started"),
        ({"state": "RUNNING", "elapsed": "0", "held": "gres/gpu:1g.5gb=1"}, "still-running"),
        ({"held": "gres/gpu:1g.5gb=1,gres/gpu:a=1,gres/gpu:b=1"}, "mig-slice"),
        ({"held": "gres/gpu:a=1,gres/gpu:b=1", "elapsed": "0"}, "mixed-gpu-types"),
    ],
)
def test_a_row_goes_to_the_first_reason(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    # A second job keeps the site from looking as if it accounted no GPUs.
    jobs, report = read_sacct(tmp_path, sacct(**change), sacct("1"))
    assert dict(report.dropped) == {reason: 1}
    assert [job.name for job in jobs] == ["1"]


def test_sacct_without_gpu_accounting_is_an_error_finding(tmp_path: Path) -> None:
    line = sacct(held="cpu=4,node=1", asked="cpu=4")
    _, report = read_sacct(tmp_path, line)
    assert report.findings["no-gpu-tracking"].count == 1
    assert report.worst == "error"


def test_states_in_all_their_spellings(tmp_path: Path) -> None:
    spellings = {
        "COMPLETED": "completed", "CANCELLED by 1001": "cancelled", "CANCELLED+": "cancelled",
        "OUT_OF_ME+": "failed", "NODE_FAIL": "failed", "TIMEOUT": "failed",
    }  # fmt: skip
    lines = (sacct(str(i), state=state) for i, state in enumerate(spellings))
    jobs, _ = read_sacct(tmp_path, *lines)
    assert [job.outcome for job in jobs] == list(spellings.values())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("02:03:04", 7384.0), ("03:04", 184.0), ("00:00:09.5", 9.5)],
)
def test_elapsed_in_all_its_forms(text: str, seconds: float) -> None:
    assert elapsed_s(text) == seconds


def test_elapsed_counts_and_a_suspension_is_noted(tmp_path: Path) -> None:
    jobs, report = read_sacct(tmp_path, sacct(elapsed="3000"))
    assert jobs[0].run_s == 3000.0
    assert report.findings["elapsed-mismatch"].count == 1


def test_attempts_fold_into_one_job(tmp_path: Path) -> None:
    jobs, report = read_sacct(
        tmp_path,
        sacct(end="08:10:10", elapsed="600", state="NODE_FAIL", held="gres/gpu=4"),
        sacct("8"),
        sacct(start="09:00:00", end="10:00:00"),
    )
    job = jobs[1]
    assert (report.rows, report.jobs, report.folded) == (3, 2, 1)
    assert (job.name, job.gpus, job.run_s, job.attempts) == ("7", 8, 4200.0, 2)
    assert job.outcome == "completed"
    # 4 GPUs for 600 s, then 8 for 3,600 s; replayed with 8 for 4,200 s: 2,400 more.
    assert job.gpu_seconds == 4 * 600 + 8 * 3600
    found = report.findings["gpus-differ-between-attempts"]
    assert found.details == {"surplus_gpu_s": 8 * 4200 - 31200}
    assert report.findings["retried"].details == {"wasted_gpu_s": 2400.0}


def test_attempts_count_with_their_own_gpus_against_the_cluster(tmp_path: Path) -> None:
    """Requeued from 1 GPU to 8, beside a job that holds the other 7 while it has one."""
    log = tmp_path / "log.txt"
    lines = (
        sacct("1", end="09:00:10", elapsed="3600", state="REQUEUED", held="gres/gpu=1"),
        sacct("1", submit="09:00:10", start="09:00:20", end="10:00:20"),
        sacct("2", end="09:00:10", elapsed="3600", held="gres/gpu=7"),
    )
    log.write_text("\n".join((SACCT, *lines)) + "\n")
    assert "over-capacity" not in lint(log, "sacct", cluster_gpus=8).report.findings
    assert "over-capacity" in lint(log, "sacct", cluster_gpus=7).report.findings
    (job,), _ = read_sacct(tmp_path, *lines[:2])
    assert [one.gpus for one in job.parts] == [1, 8]


def test_the_first_submission_of_a_requeued_job_is_kept(tmp_path: Path) -> None:
    """A requeue sets ``Submit`` to its instant; rows may come in any order."""
    later = sacct(submit="09:00:10", start="09:00:20", end="10:00:20")
    first = sacct(state="REQUEUED")
    (job,), _ = read_sacct(tmp_path, later, first)
    (alone,), _ = read_sacct(tmp_path, first)
    assert job.submit_s == alone.submit_s
    assert [one.submit_s - job.submit_s for one in job.parts] == [0.0, 3610.0]


@pytest.mark.parametrize(
    ("eligible", "start", "seconds"),
    [
        ("2024-05-01T08:30:00", "08:30:10", 1800.0),
        ("Unknown", "08:30:10", None),
        ("Unknown", "Unknown", float("inf")),
    ],
)
def test_when_a_job_became_eligible(
    tmp_path: Path, eligible: str, start: str, seconds: float | None
) -> None:
    """A begin time ahead; a row without one that started; one that was held until it was gone."""
    seen = []
    line = sacct(start=start, end="09:30:10") + f"|{eligible}"
    file = tmp_path / "log.txt"
    file.write_text(f"{SACCT}|Eligible\n{line}\n")
    scan = Scan(file, log_format("sacct"), also=lambda row, _: seen.append(row))
    (row,) = (*scan.jobs(), *seen)
    assert row.eligible_s == (seconds if seconds in (None, float("inf")) else row.submit_s + 1800)


def test_a_job_whose_last_attempt_runs_is_not_over(tmp_path: Path) -> None:
    jobs, report = read_sacct(
        tmp_path, sacct(state="PREEMPTED"), sacct(state="RUNNING", end="Unknown")
    )
    assert jobs == []
    assert dict(report.dropped) == {"still-running": 2}


@pytest.mark.parametrize(
    ("window", "kept"), [("2024-05-01..2024-05-02", 1), ("2024-05-02..2024-05-03", 0)]
)
def test_a_job_is_in_a_window_with_all_its_attempts_or_with_none(
    tmp_path: Path, window: str, kept: int
) -> None:
    # Submitted on the first day, requeued on the second: its day is the first.
    lines = (
        sacct(submit="23:00:00", start="23:00:10", end="23:30:10", elapsed="1800", state="FAILED"),
        sacct(submit="2024-05-02T00:10:00", start="2024-05-02T00:10:00", end="2024-05-02T01:10:00"),
    )
    jobs, report = read_sacct(tmp_path, *lines, how=Reading(window=window))
    assert [job.run_s for job in jobs] == [1800.0 + 3600.0] * kept
    assert (report.folded, report.dropped["outside-window"]) == (kept, 2 - 2 * kept)


@pytest.mark.parametrize(("last", "kept"), [("COMPLETED", 1), ("FAILED", 0)])
def test_only_completed_asks_the_job_and_not_its_attempts(
    tmp_path: Path, last: str, kept: int
) -> None:
    lines = (
        sacct(end="08:30:10", elapsed="1800", state="NODE_FAIL"),
        sacct(start="09:00:00", end="10:00:00", state=last),
    )
    jobs, report = read_sacct(tmp_path, *lines, how=Reading(only="completed"))
    assert [job.run_s for job in jobs] == [1800.0 + 3600.0] * kept
    assert (report.folded, report.dropped["not-completed"]) == (kept, 2 - 2 * kept)
    assert ("retried" in report.findings) == bool(kept)


def test_components_of_one_job_run_at_once(tmp_path: Path) -> None:
    jobs, report = read_sacct(
        tmp_path,
        sacct("90+0"),
        sacct("90+1", held="gres/gpu=2", end="08:30:10", elapsed="1800"),
        sacct("91_3"),
    )
    assert [(job.name, job.gpus, job.run_s) for job in jobs] == [
        ("91_3", 8, 3600.0),
        ("90", 10, 3600.0),
    ]
    assert jobs[1].gpu_seconds == 8 * 3600 + 2 * 1800
    assert report.findings["heterogeneous"].count == 1
    assert report.folded == 1


def test_components_of_two_types_are_no_gang(tmp_path: Path) -> None:
    jobs, report = read_sacct(
        tmp_path, sacct("90+0", held="gres/gpu:a=8"), sacct("90+1", held="gres/gpu:b=8")
    )
    assert jobs == []
    assert dict(report.dropped) == {"mixed-gpu-types": 2}


def test_a_separator_in_the_last_column_is_text(tmp_path: Path) -> None:
    jobs, _ = read_sacct(tmp_path, sacct(name="a|b|c"))
    assert len(jobs) == 1
    columns = SACCT.split("|")
    moved = "|".join((columns[-1], *columns[:-1]))
    cells = sacct(name="a|b").split("|")
    _, report = read_sacct(tmp_path, "|".join((*cells[-2:], *cells[:-2])), header=moved)
    assert dict(report.dropped) == {"malformed": 1}
    assert "must have 12 fields, got 13" in str(report.first_malformed)


def test_columns_count_by_name(tmp_path: Path) -> None:
    columns, cells = SACCT.split("|"), sacct().split("|")
    jobs, _ = read_sacct(tmp_path, sacct())
    turned, _ = read_sacct(tmp_path, "|".join(reversed(cells)), header="|".join(reversed(columns)))
    assert turned == jobs
    parsable = read_sacct(tmp_path, sacct() + "|", header=SACCT + "|")[0]
    assert parsable == jobs


def test_the_headerless_columns_of_xdmod(tmp_path: Path) -> None:
    cells = dict.fromkeys(XDMOD, "x") | {
        "JobID": "7_1",
        "Submit": "2024-05-01T08:00:00",
        "Start": "2024-05-01T08:00:10",
        "Eligible": "2024-05-01T08:00:00",
        "End": "2024-05-02T08:00:10",
        "Elapsed": "1-00:00:00",
        "State": "COMPLETED",
        "NNodes": "1",
        "ReqTRES": "cpu=1",
        "AllocTRES": "gres/gpu=2",
        "Timelimit": "12:00:00",
        "ReqMem": "2147486648Mn",
    }
    text = "|".join(cells[name] for name in XDMOD) + "\n"
    jobs, report = read(tmp_path, "sacct", text, Reading(columns="xdmod"))
    assert [(job.name, job.gpus, job.run_s, job.limit_s) for job in jobs] == [
        ("7_1", 2, 86400.0, 43200.0)
    ]
    assert report.findings["over-time-limit"].count == 1


def test_a_raw_time_limit_is_in_minutes(tmp_path: Path) -> None:
    ((job,), report) = read_sacct(tmp_path, sacct() + "|90", header=SACCT + "|TimelimitRaw")
    assert (job.run_s, job.limit_s) == (3600.0, 5400.0)
    assert "over-time-limit" not in report.findings


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    header = SACCT.replace("AllocTRES", "AllocCPUS")
    _, report = read_sacct(tmp_path, sacct(), header=header)
    sentence = next(text for _, code, text in report.sentences() if code == "missing-columns")
    assert sentence == "trace has no column AllocTRES (format sacct): GPUs cannot be known"
    with pytest.raises(InputError, match="line 1, AllocTRES: column is missing"):
        read(tmp_path, "sacct", header + "\n", strict=True)
    _, report = read_sacct(tmp_path, sacct(), header=SACCT.replace("JobIDRaw", "Job"))
    assert report.findings["missing-columns"].lines == [1]


# ---------------------------------------------------------------- what people print


def test_commas_and_bars_at_the_end_are_read_where_no_cell_has_them(tmp_path: Path) -> None:
    plain, _ = read_sacct(tmp_path, sacct(held="gres/gpu=8"))
    for separator, end in ((",", ""), (";", ""), ("|", "|"), ("\t", "")):
        lines = [line.replace("|", separator) + end for line in (SACCT, sacct(held="gres/gpu=8"))]
        found, report = read(tmp_path, "sacct", "\n".join(lines) + "\n", strict=True)
        assert found == plain
        assert report.worst in (None, "note")


def test_a_line_without_a_header_may_have_more_commas_than_bars(tmp_path: Path) -> None:
    cells = dict.fromkeys(XDMOD, "")
    times = dict.fromkeys(("Submit", "Start", "End"), "2024-05-01T08:00:00")
    held = ",".join(["gres/gpu=2", *(f"gres/tmp{n}=1" for n in range(60))])
    line = "|".join((cells | times | {"State": "FAILED", "JobID": "7", "AllocTRES": held}).values())
    path = tmp_path / "log.txt"
    path.write_text(line + "\n")
    assert guessed(path) == ("sacct", {"columns": "xdmod"})


def test_commas_inside_of_cells_say_what_to_run(tmp_path: Path) -> None:
    text = "\n".join((SACCT, sacct())).replace("|", ",") + "\n"
    with pytest.raises(InputError, match=r"line 2: .*commas themselves; run sacct with --pa"):
        read(tmp_path, "sacct", text, strict=True)


def test_the_table_for_reading_says_what_to_run(tmp_path: Path) -> None:
    text = "       JobID      State               Submit\n------------ ---------- ----------\n"
    text += "           7 COMPLETED+  2024-05-01T08:00:00\n"
    path = tmp_path / "log.txt"
    path.write_text(text)
    assert guessed(path)[0] == "sacct"
    for strict in (True, False):
        with pytest.raises(InputError, match=r"line 1: .*cuts its cells; run sacct with --pars"):
            read(tmp_path, "sacct", text, strict=strict)


@pytest.mark.parametrize(
    ("asked", "held", "gpus", "kind"),
    [
        ("gpu:8", "gpu:8", 8, None),
        ("gpu:a100:4", "gpu:a100:4(S:0-1,3)", 4, "a100"),
        ("gpu:2", "craynetwork:1,gpu:2", 2, None),
        ("", "gres:gpu:3", 3, None),
        ("", "gres/gpu:v100:3", 3, "v100"),
        ("gpu", "gpu", 1, None),
        ("", "7696487:4", 4, None),  # the plugin's number, where its name is not known
    ],
)
def test_generic_resources_of_older_releases(
    tmp_path: Path, asked: str, held: str, gpus: int, kind: str | None
) -> None:
    header = SACCT.replace("TRES", "GRES")
    (job,), _ = read_sacct(tmp_path, sacct(asked=asked, held=held), header=header)
    assert (job.gpus, job.gpu_type) == (gpus, kind)


def test_a_job_without_generic_resources_holds_no_gpu(tmp_path: Path) -> None:
    header = SACCT.replace("TRES", "GRES")
    lines = (sacct(asked="", held=""), sacct("8", asked="gpu:2", held="", start="Unknown"))
    _, report = read_sacct(tmp_path, *lines, header=header)
    assert dict(report.dropped) == {"no-gpu": 1, "not-started": 1}


def test_unknown_column_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns: must be xdmod for format sacct"):
        read_sacct(tmp_path, sacct(), how=Reading(columns="submit=Submit"))
