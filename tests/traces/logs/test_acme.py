"""Traps of Acme and Helios: recorded durations that are something else, states, zones."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from tests.traces.logs.samples import SAMPLES, read

KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
    "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time"
)


def kalos(
    job: str = "d1",
    gpus: str = "64",
    state: str = "FAILED",
    start: str = "09:00:10",
    end: str = "09:01:40",
    duration: str = "100",
    queue: str = "10.0",
    gpu_time: str = "6400.0",
) -> str:
    """A line submitted at 9:00:00; it ran for 90 s, and its duration is from the submission."""
    times = ",".join(
        f"2023-05-17 {t}+00:00" if t else "" for t in ("09:00:00", start, end, end, "")
    )
    return f"{job},u7,8,{gpus},960,1000,100.0,Other,{state},{times},{duration},{queue},{gpu_time}"


def read_kalos(tmp_path: Path, *lines: str) -> tuple[list[LogRow], Report]:
    return read(tmp_path, "acme", "\n".join((KALOS, *lines)) + "\n")


def test_a_duration_that_contains_the_queueing_is_recomputed(tmp_path: Path) -> None:
    jobs, report = read_kalos(tmp_path, kalos())
    assert (jobs[0].run_s, jobs[0].recorded_s, report.gpu_seconds) == (90.0, 100.0, 5760.0)
    counts = {code: found.count for code, found in report.findings.items()}
    assert counts == {
        "duration-mismatch": 1,
        "duration-is-end-minus-submit": 1,
        "gpu-time-mismatch": 1,
    }


def test_other_mismatches_are_told_apart(tmp_path: Path) -> None:
    _, report = read_kalos(
        tmp_path,
        kalos(duration="70", queue="11", gpu_time="5760"),
        kalos("d2", duration="90", start="08:59:50", end="09:01:20", queue="-10", gpu_time="5760"),
    )
    found = report.findings
    assert found["duration-mismatch"].details == {"as_end_minus_submit": 0.0}
    assert found["queue-mismatch"].lines == [2]
    assert found["start-before-submit"].details == {"worst": 10.0}
    assert "gpu-time-mismatch" not in found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "FOO"}, "unknown-status"),
        ({"gpus": "0"}, "no-gpu"),
        ({"start": "", "end": ""}, "not-started"),
        ({"state": "RUNNING"}, "still-running"),
        ({"end": ""}, "still-running"),
        ({"gpus": "0.5"}, "fractional-gpu"),
        ({"end": "09:00:09"}, "negative-duration"),
        ({"end": "09:00:10"}, "zero-duration"),
        ({"state": "FOO", "gpus": "0", "start": ""}, "unknown-status"),
        ({"gpus": "0", "start": ""}, "no-gpu"),
        ({"gpus": "0.5", "end": "09:00:09"}, "fractional-gpu"),
    ],
)
def test_a_row_goes_to_the_first_reason(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    _, report = read_kalos(tmp_path, kalos(**change))
    assert dict(report.dropped) == {reason: 1}


def test_a_share_can_be_rounded_up_and_says_what_that_invents(tmp_path: Path) -> None:
    text = f"{KALOS}\n{kalos(gpus='2.5')}\n"
    jobs, report = read(tmp_path, "acme", text, Reading(gpu_shares="round-up"))
    assert jobs[0].gpus == 3
    # Half a GPU for 90 s.
    assert report.findings["gpu-shares-rounded"].details == {"invented_gpu_s": 45.0}
    assert report.gpu_seconds == 270.0


def test_rows_dropped_by_only_completed_are_counted(tmp_path: Path) -> None:
    sample = SAMPLES["acme"]
    jobs, report = read(tmp_path, "acme", sample.text(), Reading(only="completed"))
    assert [job.name for job in jobs] == ["71"]
    assert dict(report.dropped) == {"not-completed": 1}
    assert report.options == {"only": "completed"}


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        ("2023-04-02..2023-04-03", 2),
        ("2023-04-02T01:30:00..", 1),  # 9:30 at +08:00 is 1:30 UTC, the zone of Acme's windows
        ("..2023-04-02T01:30:00", 1),
        ("2023-04-02T09:30:00+08:00..2023-04-03", 1),
    ],
)
def test_a_window_keeps_what_is_submitted_inside(tmp_path: Path, window: str, kept: int) -> None:
    jobs, report = read(tmp_path, "acme", SAMPLES["acme"].text(), Reading(window=window))
    assert len(jobs) == kept
    assert report.dropped["outside-window"] == 2 - kept


def test_a_window_tells_what_was_running_when_it_begins(tmp_path: Path) -> None:
    # The first job has 16 GPUs from 9:00:07 to 10:00:07; 1,807 s of that are behind 9:30.
    how = Reading(window="2023-04-02T01:30:00..")
    _, report = read(tmp_path, "acme", SAMPLES["acme"].text(), how)
    assert report.findings["running-at-window-start"].details == {"gpu_s": 16 * 1807.0}


HELIOS = SAMPLES["helios"].head[0] + "\n"


def test_an_offset_counts_and_a_time_without_one_is_in_shanghai(tmp_path: Path) -> None:
    line = "88,u,v,8,48,1,TIMEOUT,{0} 08:00:00{1},{0} 09:00:00{1},{0} 10:00:00{1},3600,3600\n"
    naive, report = read(tmp_path, "helios", HELIOS + line.format("2020-07-03", ""))
    assert report.findings["naive-time"].count == 3
    assert report.assumed == ["times without a zone are of Asia/Shanghai"]
    written, plain = read(tmp_path, "helios", HELIOS + line.format("2020-07-03", "+08:00"))
    assert written == naive
    assert not plain.findings
    other, _ = read(
        tmp_path, "helios", HELIOS + line.format("2020-07-03", ""), Reading(timezone="UTC")
    )
    assert other[0].submit_s - naive[0].submit_s == 8 * 3600


def test_an_hour_that_exists_twice_is_told(tmp_path: Path) -> None:
    line = "88,u,v,8,48,1,TIMEOUT,2017-11-05 00:30:00,2017-11-05 01:30:00,2017-11-05 03:00:00,1,1\n"
    how = Reading(timezone="America/Los_Angeles")
    jobs, report = read(tmp_path, "helios", HELIOS + line, how)
    assert report.findings["dst-overlap"].count == 1
    # From 1:30 of summer time to 3:00 of winter time: 2.5 hours.
    assert jobs[0].run_s == 9000.0


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-30 08:00:00",
        "2023-04-02",
        "1680000000",
        "2023-04-02 25:00:00",
        "2023-04-02 08:61:00",
        "2023-04-02 08:00:00+99:00",
    ],
)
def test_malformed_times_are_refused(tmp_path: Path, text: str) -> None:
    line = f"88,u,v,8,48,1,TIMEOUT,{text},2020-07-03 09:00:00,2020-07-03 10:00:00,3600,3600\n"
    _, report = read(tmp_path, "helios", HELIOS + line)
    assert dict(report.dropped) == {"malformed": 1}
    assert report.first_malformed is not None
    assert report.first_malformed.field == "submit_time"
