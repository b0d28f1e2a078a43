"""Hindcasts of small logs whose waits are known, under the right and under a wrong policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from morph_opt.hindcast.__main__ import main
from morph_opt.hindcast.recorded import read_waits
from morph_opt.hindcast.statement import Figure

HEAD = (
    "JobID|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|NNodes|"
    "AllocTRES"
)
Row = tuple[int, int, int, int, int]
"""Submission, start, run time, GPUs, limit in minutes."""


def instant(at_s: int) -> str:
    return (datetime(2024, 5, 1) + timedelta(seconds=at_s)).isoformat()


def line(number: int, row: Row, *, user: str = "ada", state: str = "COMPLETED") -> str:
    submit_s, start_s, run_s, gpus, limit = row
    start, end = instant(start_s), instant(start_s + run_s)
    if state == "RUNNING":
        end, run_s = "Unknown", 0
    if state == "PENDING":
        start = end = "Unknown"
    held = f"gres/gpu={gpus},node=1"
    asked = instant(submit_s)
    return f"{number}|{user}|lab|gpu|{asked}|{asked}|{start}|{end}|{run_s}|{limit}|{state}|1|{held}"


def write(folder: Path, lines: Sequence[str]) -> str:
    (folder / "jobs.txt").write_text("\n".join([HEAD, *lines]) + "\n")
    return f"sacct:{folder / 'jobs.txt'}"


def hindcast(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def queue(tmp_path: Path) -> str:
    """Three whole-node jobs, one after the other; the last two change places if shaken."""
    rows: list[Row] = [(0, 0, 600, 4, 20), (60, 600, 600, 4, 20), (61, 1200, 600, 4, 20)]
    return write(tmp_path, [line(n, row) for n, row in enumerate(rows)])


@pytest.fixture
def backfilled(tmp_path: Path) -> str:
    """A gang waits an hour for half a node; short jobs run next to its end meanwhile."""
    rows: list[Row] = [(0, 0, 3600, 2, 60), (10, 3600, 600, 4, 20)]
    rows += [(20 + 290 * n, 20 + 290 * n, 240, 2, 5) for n in range(10)]
    users = ["ada", "bob", *["cyd"] * 10]
    return write(tmp_path, [line(n, row, user=users[n]) for n, row in enumerate(rows)])


def test_waits_known_by_hand_are_reproduced(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = hindcast(capsys, queue, "--cluster", "1x4:A100-80GB", "--policy", "fifo")
    mean, most = found["waits_s"]["mean"], found["waits_s"]["max"]
    assert (mean["recorded"], most["recorded"]) == ((540.0 + 1139.0) / 3.0, 1139.0)
    assert found["reproduced"]
    assert mean["inside"]
    assert len(mean["by_replay"]) == found["replays"] == 20
    assert mean["low"] < mean["simulated"] < mean["high"]
    # Two run times and two submissions are shaken, by 2 s and by 1 s each.
    assert all(abs(value - mean["recorded"]) <= 4.0 for value in mean["by_replay"])
    assert all(abs(value - 1139.0) <= 7.0 for value in most["by_replay"])
    # In one replay of some the third job is there before the second.
    assert 0.0 < found["starts_off_s"]["median"] <= 6.0
    assert 590.0 < found["starts_off_s"]["p95"] < 610.0


def test_a_wrong_policy_is_not_reproduced(
    backfilled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site = (backfilled, "--cluster", "1x4:A100-80GB", "--policy")
    easy, fifo = hindcast(capsys, *site, "easy"), hindcast(capsys, *site, "fifo")
    assert easy["reproduced"]
    assert easy["within"] < 0.01
    assert not fifo["reproduced"]
    assert not fifo["waits_s"]["mean"]["inside"]
    assert fifo["within"] > 1.0
    classes = easy["classes"]["user"]
    assert {name: (one["jobs"], one["few"]) for name, one in classes.items()} == {
        "cyd": (10, False),
        "ada": (1, True),
        "bob": (1, True),
    }
    assert classes["bob"]["recorded"] == 3590.0
    assert main([*site, "fifo", "--replays", "2"]) == 0
    out, progress = capsys.readouterr()
    assert "NOT reproduced" in out
    assert "are noise" in out
    assert "few jobs" in out
    assert "replay 2 of 2" in progress


def test_the_same_seed_gives_the_same_bytes(
    backfilled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "NodeName=n1\nPartitionName=gpu Nodes=ALL Default=YES\nPriorityType=priority/multifactor\n"
        "PriorityWeightFairshare=1000\nPriorityWeightAge=10\nFairShareDampeningFactor=5\n"
    )
    site = (backfilled, "--cluster", "1x4:A100-80GB", "--policy", f"slurm:{conf}", "--replays", "6")
    first, again = hindcast(capsys, *site), hindcast(capsys, *site)
    other = hindcast(capsys, *site, "--seed", "1")
    assert first == again
    assert first["phases_s"] != other["phases_s"]
    assert first["waits_s"]["mean"]["by_replay"] != other["waits_s"]["mean"]["by_replay"]
    assert len(set(first["phases_s"])) == 6
    assert all(-300.0 <= phase_s <= 0.0 for phase_s in first["phases_s"])
    assert first["reproduced"]
    assert first["not_followed"] == ["FairShareDampeningFactor"]
    assert any("equal" in text for text in first["cannot_claim"])


def test_jobs_that_ran_are_judged_and_jobs_that_waited_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        line(0, (0, 0, 600, 4, 20)),
        line(1, (60, 600, 0, 4, 20), state="RUNNING"),
        line(2, (120, 0, 0, 4, 20), state="PENDING"),
    ]
    found = read_waits(write(tmp_path, lines), {})
    assert found.waits_s == {"0": 0.0, "1": 540.0}
    run_s = {job.name: job.iterations for job in found.loaded.trace.jobs}
    assert run_s == {"0": 600, "1": 1200, "2": 1200}
    told = "\n".join(found.notes)
    assert "jobs that still ran at the end, replayed to their limits, judged: 1" in told
    assert "jobs that still waited at the end, replayed to their limits, not judged: 1" in told


def test_a_window_holds_for_jobs_that_had_not_ended(tmp_path: Path) -> None:
    lines = [
        line(0, (0, 0, 60, 1, 5)),
        line(1, (100, 130, 0, 1, 5), state="RUNNING"),
        line(2, (7200, 7230, 60, 1, 5)),
    ]
    log = write(tmp_path, lines)
    assert set(read_waits(log, {}).waits_s) == {"0", "1", "2"}
    assert read_waits(f"{log}@2024-05-01T01:00:00..", {}).waits_s == {"2": 30.0}


def test_waits_count_from_eligible(tmp_path: Path) -> None:
    row = line(0, (0, 600, 60, 1, 5)).split("|")
    row[5] = instant(500)
    other = line(1, (0, 30, 60, 1, 5))
    found = read_waits(write(tmp_path, ["|".join(row), other]), {})
    assert found.waits_s == {"1": 30.0, "0": 100.0}
    assert any(
        "eligible after their submission, which wait from then on: 1" in note
        for note in found.notes
    )


def test_a_log_without_limits_says_what_it_cannot_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job,submit,start,end,gpus\na,0,0,600,4\nb,60,600,1200,4\nc,120,1200,1800,4\n"
    )
    log = f"table:{tmp_path / 'jobs.csv'}"
    found = hindcast(capsys, log, "--cluster", "1x4:A100-80GB", "--policy", "slurm")
    assert found["reproduced"]
    assert any("3 of 3 jobs have no limit" in text for text in found["cannot_claim"])
    assert any("the log names none" in text for text in found["cannot_claim"])


def test_the_verdict_is_by_spread_or_by_ten_percent() -> None:
    inside = Figure("mean", 50, 100.0, tuple(range(50, 151)))
    near = Figure("mean", 50, 100.0, (108.0, 109.0))
    far = Figure("mean", 50, 100.0, (112.0, 113.0))
    assert [one.reproduced for one in (inside, near, far)] == [True, True, False]
    assert [one.inside for one in (inside, near, far)] == [True, False, False]
    nobody = Figure("mean", 50, 0.0, (0.0, 0.0))
    assert nobody.reproduced
    assert not Figure("mean", 50, 0.0, (5.0, 6.0)).reproduced


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "--cluster: is needed"),
        ("--cluster 1x4:A100-80GB", "--policy: is needed"),
        ("--cluster 1x4:A100-80GB --policy fifo --replays 1", "argument --replays"),
        ("--cluster 1x4:A100-80GB --policy fifo --objective jct", "--objective"),
        (
            "--cluster 1x4:A100-80GB --policy slurm --durations blind",
            "--durations: has no effect: policy 'slurm'",
        ),
        ("--cluster 1x4:A100-80GB --policy slurm:none.conf", "none.conf"),
        ("--cluster 1x4:A100-80GB --policy fifo --scaling linear", "--scaling: has an effect"),
        ("--cluster 1x2:A100-80GB --policy fifo", "can never run"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(
    words: str, said: str, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([queue, *words.split()]) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert said in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "\n", "has no job"),
        ("nonsense\n1\n", "missing"),
        ("\x00\x01", "jobs.txt"),
        (HEAD + "\n" + line(0, (0, 0, 60, 1, 5)).replace("|60|", "|sixty|"), "ElapsedRaw"),
    ],
)
def test_hostile_logs_are_refused_in_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.txt").write_text(text)
    log = f"sacct:{tmp_path / 'jobs.txt'}"
    assert main([log, "--cluster", "1x4:A100-80GB", "--policy", "fifo"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_a_log_without_starts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit,duration,gpus\na,0,600,4\nb,60,600,4\n")
    log = f"table:{tmp_path / 'jobs.csv'}"
    assert main([log, "--cluster", "1x4:A100-80GB", "--policy", "fifo"]) == 2
    assert "no wait is recorded" in capsys.readouterr().err
