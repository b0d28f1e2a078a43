"""Audits of logs: of our own replays, where the answer is known, and of invented accounting."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from morph_opt.audit.__main__ import main
from morph_opt.audit.instants import Audit, _largest_sum, audit
from morph_opt.audit.recorded import read_recorded
from morph_opt.core.domain import InputError, RoundState
from morph_opt.inputs.clusters import load_cluster, parse_short
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.replay.cli import main as replay_main
from morph_opt.replay.scenario import read_scenario
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules
from morph_opt.scheduling.policies.registry import PolicyOptions
from morph_opt.simulation.runs.read import read_run

CLUSTER = "4x8:A100-80GB"


def replayed(folder: Path, *options: str) -> Path:
    """A contended half hour of a small twin, in rounds of a minute without start-up."""
    words = ["--trace", "acme-twin", "--gpus", "32", "--jobs", "90", "--days", "0.02"]
    words += ["--restart-s", "0", "--until-s", "2400", "--quiet", "--out", str(folder / "run")]
    words += ["--dump-rounds", str(folder / "rounds"), *options]
    assert replay_main(words) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def fifo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed(tmp_path_factory.mktemp("fifo"), "--policy", "fifo")


def filled_by_milp(path: Path) -> tuple[float, int]:
    """What the MILP starts beside what fifo decided in the round of a dumped state."""
    snapshot = read_snapshot(path)
    decided = decide_round(snapshot, policy="fifo").decision.allocation.by_job()
    jobs = [
        replace(
            known,
            job=replace(known.job, weight=float(known.job.requested_gpus)),
            running=decided.get(known.job.name),
        )
        for known in snapshot.state.jobs
    ]
    state = snapshot.state
    after = RoundState(state.index, state.time_s, state.interval_s, state.cluster, tuple(jobs))
    stays = OperatorRules((NonPreemptible(("*",)),))
    options = PolicyOptions(gap=1e-7)
    rows = decide_round(Snapshot(after, snapshot.speeds, stays), options).to_json()["jobs"]
    return state.time_s, sum(row["gpus"] for row in rows if row["action"] == "start")


def test_a_replay_under_fifo_has_exactly_the_idle_gpus_that_the_milp_fills(fifo: Path) -> None:
    recorded = read_recorded(f"run:{fifo}", Reading())
    found = audit(recorded, parse_short(CLUSTER), 60.0)
    ours = {one.time_s: one.fillable for one in found.instants}
    theirs = dict(filled_by_milp(path) for path in sorted((fifo.parent / "rounds").glob("round*")))
    compared = {time_s: ours.get(time_s, 0) for time_s in theirs if time_s < 2400.0}
    assert compared == {t: gpus for t, gpus in theirs.items() if t < 2400.0}
    assert sum(compared.values()) > 100
    assert all(one.bound == one.fillable for one in found.instants)


def test_a_replay_under_the_milp_has_no_gap(tmp_path: Path) -> None:
    run = replayed(tmp_path, "--policy", "milp")
    found = audit(read_recorded(f"run:{run}", Reading()), parse_short(CLUSTER), 60.0)
    assert sum(one.waiting for one in found.instants) > 100
    assert sum(one.fillable for one in found.instants) == 0


def as_sacct(run: Path, *, hosts: bool) -> str:
    """The accounting that Slurm would have kept of a run."""
    cluster = read_scenario(run / "config.toml").cluster
    segments = {row.job: row for row in read_run(run).segments}
    lines = ["JobIDRaw|Partition|Submit|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList"]

    def stamp(seconds: float) -> str:
        return str(np.datetime64("2026-01-01T00:00:00") + np.timedelta64(round(seconds), "s"))

    for row in read_run(run).jobs:
        held = segments.get(row.job)
        tres = f"gres/gpu={row.gpus}"
        number = row.job.removeprefix("job-")
        when = stamp(row.submission_s)
        if held is None:
            lines.append(f"{number}|gpu|{when}|Unknown|Unknown|PENDING|0|{tres}||None assigned")
            continue
        names = [cluster.nodes[int(p.split(":")[0])].name for p in held.allocated_gpus.split()]
        done = held.ended_by == "complete"
        end = stamp(held.end_s) if done else "Unknown"
        state = "COMPLETED" if done else "RUNNING"
        nodes = ",".join(names) if hosts else ""
        lines.append(
            f"{number}|gpu|{when}|{stamp(held.start_s)}|{end}|{state}|{len(names)}|{tres}|{tres}|"
            f"{nodes}"
        )
    return "\n".join(lines) + "\n"


def gaps(found: Audit, first_s: float) -> dict[float, int]:
    return {one.time_s - first_s: one.fillable for one in found.instants if one.fillable}


@pytest.mark.parametrize("hosts", [True, False])
def test_the_same_run_as_slurm_s_accounting(fifo: Path, tmp_path: Path, hosts: bool) -> None:
    """With nodes the same gaps, packed without them; pending and running rows count as well.

    The run stops at 2,400 s; its accounting goes on for ever, so instants behind it are left out.
    """
    log = tmp_path / "jobs.txt"
    log.write_text(as_sacct(fifo, hosts=hosts))
    first_s = 1767225600.0  # 2026-01-01 in seconds since 1970
    found = audit(read_recorded(f"sacct:{log}", Reading()), parse_short(CLUSTER), 60.0)
    run = audit(read_recorded(f"run:{fifo}", Reading()), parse_short(CLUSTER), 60.0)
    last = max(one.time_s - first_s for one in found.instants)
    expected = {t: gpus for t, gpus in gaps(run, 0.0).items() if t <= last}
    if hosts:
        assert gaps(found, first_s) == expected
    else:
        assert "they are taken to be packed" in " ".join(found.notes)
        packed = gaps(found, first_s)
        assert all(packed.get(t, 0) >= gpus for t, gpus in expected.items())


HEADER = "JobIDRaw|Partition|Submit|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList"


def sacct(folder: Path, *rows: str) -> str:
    file = folder / "log.txt"
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    return f"sacct:{file}"


def row(
    number: int, gpus: int, submit: int, start: int, end: int, nodes: str, part: str = "p"
) -> str:
    def at(minute: int) -> str:
        return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00"

    tres = f"gres/gpu={gpus}"
    count = nodes.count(",") + 1
    when = f"{at(submit)}|{at(start)}|{at(end)}"
    return f"{number}|{part}|{when}|COMPLETED|{count}|{tres}|{tres}|{nodes}"


def test_scattered_gpus_are_told_from_those_that_somebody_fits(tmp_path: Path) -> None:
    """Two nodes of 4. From minute 0 each has a job of 2: 4 idle, 2 on each.

    Job 3 waits from minute 10 to 60 for 4 on one node: idle by count, scattered in truth. Job 4
    waits from 20 to 60 for 2: it would have fitted. So of four instants (0 has nobody):
    10 to 19 minutes nothing fits, at 20, 30, 40, 50 two GPUs do, and 3 and 4 by count would be 4.
    """
    log = sacct(
        tmp_path,
        row(1, 2, 0, 0, 60, "a"),
        row(2, 2, 0, 0, 60, "b"),
        row(3, 4, 10, 60, 70, "a"),
        row(4, 2, 20, 60, 70, "b"),
    )
    found = audit(read_recorded(log, Reading()), parse_short("2x4"), 600.0)
    by_minute = {(one.time_s % 86400) / 60: one for one in found.instants}
    assert [by_minute[m].fillable for m in (10, 20, 30, 40, 50, 60)] == [0, 2, 2, 2, 2, 0]
    assert [by_minute[m].by_count for m in (10, 20, 60)] == [4, 4, 0]
    assert by_minute[20].started == ("4",)
    assert by_minute[60].used == 6


def test_partitions_keep_their_nodes_and_their_order(tmp_path: Path) -> None:
    """Node b is of partition q alone: its idle GPUs help nobody who waits in p.

    In p job 2 came at 5 and waits until 60, job 3 came at 10 and runs from 10: job 2 was passed.
    """
    log = sacct(
        tmp_path,
        row(1, 2, 0, 0, 60, "a"),
        row(2, 2, 5, 60, 70, "a"),
        row(3, 2, 10, 10, 60, "a"),
        row(4, 1, 0, 0, 70, "b", "q"),
    )
    found = audit(read_recorded(log, Reading()), parse_short("2x4"), 1200.0)
    assert [one.fillable for one in found.instants] == [0, 0, 0]
    assert [one.passed for one in found.instants] == [1, 1, 0]


def test_an_attempt_that_ended_held_gpus_while_a_later_one_still_runs(tmp_path: Path) -> None:
    """Job 1 held all 4 GPUs from 0 to 30 and, requeued, from 40 on; job 2 waited from 10 to 40.

    Idle GPUs that job 2 would have had are those at 30 alone: not those of the first attempt.
    """
    again = row(1, 4, 30, 40, 50, "a").replace("2026-01-01T00:50:00|COMPLETED", "Unknown|RUNNING")
    log = sacct(
        tmp_path,
        row(1, 4, 0, 0, 30, "a").replace("COMPLETED", "NODE_FAIL"),
        again,
        row(2, 4, 10, 45, 50, "a"),
    )
    found = audit(read_recorded(log, Reading()), parse_short("1x4"), 600.0)
    by_minute = {(one.time_s % 86400) / 60: one for one in found.instants}
    assert [by_minute[m].used for m in (10, 20, 30, 40)] == [4, 4, 0, 4]
    assert [by_minute[m].fillable for m in (10, 20, 30)] == [0, 0, 4]


def test_gangs_over_nodes_are_solved_and_not_only_counted(tmp_path: Path) -> None:
    """Three nodes of 4 with 2, 3 and 4 free. A pair of nodes with 2 each fits, so do 4 on one.

    By hand: the pair needs 2 of the first and 2 of the second or third; the job of 4 needs the
    third whole. Both: 8 of 9 idle, beside a job of 1 all 9. A greedy that gives the pair nodes two
    and three would lose the 4.
    """
    log = sacct(
        tmp_path,
        row(1, 2, 0, 0, 60, "a"),
        row(2, 1, 0, 0, 60, "b"),
        row(3, 4, 1, 60, 70, "a,c"),
        row(4, 4, 1, 60, 70, "b"),
        row(5, 1, 1, 60, 70, "c"),
    )
    found = audit(read_recorded(log, Reading()), parse_short("3x4"), 600.0)
    assert [one.fillable for one in found.instants] == [9, 9, 9, 9, 9, 0]


@pytest.mark.parametrize("seed", range(30))
def test_largest_sum_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = {int(g): int(rng.integers(1, 4)) for g in rng.integers(1, 9, 3)}
    most = int(rng.integers(1, 25))
    items = [size for size, count in sizes.items() for _ in range(count)]
    sums = {sum(some) for n in range(len(items) + 1) for some in itertools.combinations(items, n)}
    assert _largest_sum(sizes, most) == max(total for total in sums if total <= most)


def test_command_reports_as_text_json_and_picture(
    fifo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, document = tmp_path / "audit.svg", tmp_path / "audit.json"
    words = [f"run:{fifo}", "--every", "300", "--picture", str(picture), "--json", str(document)]
    assert main(words) == 0
    text = capsys.readouterr().out
    for part in ("a job that waits would have fitted", "no job waits", "what a log cannot tell"):
        assert part in text
    assert "<svg" in picture.read_text("utf-8")
    found = json.loads(document.read_text("utf-8"))
    assert found["gpus"] == 32
    hours = sum(one["fillable"] for one in found["instants"]) * 300 / 3600
    assert found["gpu_hours"]["fillable"] == pytest.approx(hours)
    assert sum(found["by_partition"].values()) == pytest.approx(hours)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["{log}"], "--cluster: is needed: a log does not name"),
        (["{log}", "--cluster", "1x8"], "a job ran on 'a', cluster .* has no such node"),
        (["{log}", "--cluster", "2x4", "--every", "1e8"], "--every: is longer than the log"),
        (["{log}", "--cluster", "2x4", "--every", "0.001"], "--every: makes .* at most 200000"),
        (["{log}", "--cluster", "2x4", "--picture", "x.gif"], r"--picture: must end in \.svg"),
        (["{log}", "--cluster", "2x4", "--json", "{path}"], "is an input: name another"),
        (["sacct", "--cluster", "2x4"], "must be FORMAT:PATH"),
        (["lsf:x", "--cluster", "2x4"], "unknown format 'lsf'"),
        (["sacct:nowhere.txt", "--cluster", "2x4"], "nowhere.txt: cannot be read"),
        (["run:nowhere"], "nowhere"),
        (["run:nowhere", "--only", "completed"], "without options"),
    ],
)
def test_bad_usage_is_one_line(
    words: list[str], rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = sacct(tmp_path, row(1, 2, 0, 0, 60, "a"), row(2, 2, 0, 0, 60, "b"))
    assert main([word.format(log=log, path=log[6:]) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(rule, error), error


def test_log_without_any_start_is_audited(tmp_path: Path) -> None:
    line = "1|p|2026-01-01T00:00:00|Unknown|Unknown|PENDING|1|gres/gpu=1||"
    with pytest.raises(InputError, match="nothing can be rebuilt"):
        read_recorded(sacct(tmp_path, line), Reading())


# ------------------------------------------------------------------ arrays, windows, ids again

ARRAY = "JobID|State|Partition|Submit|Start|End|NNodes|ReqTRES|AllocTRES|NodeList"


def array(tmp_path: Path, tasks: str, *more: str) -> str:
    """A log of two tasks that run for four hours on 4 GPUs, and of others in one row."""
    ran = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T04:00:00|1|gres/gpu=1|gres/gpu=1|n1"
    rows = (
        *(f"9_{task}|COMPLETED|p|{ran}" for task in (1, 2)),
        f"9_[{tasks}]|PENDING|p|2026-01-01T00:00:00|Unknown|Unknown|1|gres/gpu=1||None assigned",
    )
    path = tmp_path / "array.txt"
    path.write_text("\n".join((ARRAY, *rows, *more)) + "\n", encoding="utf-8")
    return f"sacct:{path}"


@pytest.mark.parametrize(
    ("tasks", "waiting", "fillable"),
    [("3-8", 6, 2), ("3", 1, 1), ("3-8%3", 1, 1), ("3-8%2", 0, 0), ("3-8%1", 0, 0)],
)
def test_an_array_waits_with_as_many_tasks_as_may_run(
    tmp_path: Path, tasks: str, waiting: int, fillable: int
) -> None:
    found = audit(read_recorded(array(tmp_path, tasks), Reading()), load_cluster("1x4"), 3600.0)
    assert {(one.waiting, one.fillable) for one in found.instants} == {(waiting, fillable)}
    assert {one.used + one.idle for one in found.instants} == {4}


def test_a_window_is_audited_with_what_ran_before_it(tmp_path: Path) -> None:
    spec = array(tmp_path, "3") + "@2026-01-01 02:00:00..2026-01-01 04:00:00"
    found = audit(read_recorded(spec, Reading()), load_cluster("1x4"), 1800.0)
    first_s = found.instants[0].time_s
    assert [one.time_s - first_s for one in found.instants] == [0.0, 1800.0, 3600.0, 5400.0]
    assert {(one.used, one.waiting) for one in found.instants} == {(2, 1)}
    plain = spec.removeprefix("sacct:")  # the format is guessed
    assert audit(read_recorded(plain, Reading()), load_cluster("1x4"), 1800.0) == found
    short = read_recorded(
        f"{plain[: plain.index('@')]}@2026-01-01 02:05..2026-01-01 02:10", Reading()
    )
    with pytest.raises(InputError, match="every: is longer than the window"):
        audit(short, load_cluster("1x4"), 1800.0)


@pytest.mark.parametrize("window", ["2027-01-01..2027-01-02", "2025-12-30..2025-12-31", "0..3600"])
def test_a_window_that_misses_the_log_is_refused_with_the_time_of_the_log(
    tmp_path: Path, window: str
) -> None:
    missed = read_recorded(f"{array(tmp_path, '3')}@{window}", Reading())
    rule = r"^the window misses the log, which runs from 2026-01-01 .* to 2026-01-01 .* UTC$"
    with pytest.raises(InputError, match=rule):
        audit(missed, load_cluster("1x4"), 1800.0)


def test_a_job_of_an_id_that_was_used_before_has_its_own_place_in_the_order(tmp_path: Path) -> None:
    times = "2025-01-01T00:00:00|2025-01-01T00:00:00|2025-01-01T01:00:00"
    old = f"7|COMPLETED|p|{times}|1|gres/gpu=1|gres/gpu=1|n1"
    waits = "7|PENDING|p|2026-01-01T01:00:00|Unknown|Unknown|1|gres/gpu=1||"
    recorded = read_recorded(array(tmp_path, "3", old, waits), Reading())
    first = {(job.name, job.submit_s - job.first_s) for job in recorded.jobs}
    assert first == {(name, 0.0) for name in ("7", "9_1", "9_2", "9_[3]")}


def test_node_named_twice_in_a_list_counts_once(tmp_path: Path) -> None:
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T04:00:00"
    row = f"7|COMPLETED|p|{times}|2|gres/gpu=4|gres/gpu=4|n1,n1"
    path = tmp_path / "twice.txt"
    path.write_text(f"{ARRAY}\n{row}\n", encoding="utf-8")
    found = audit(read_recorded(f"sacct:{path}", Reading()), load_cluster("1x8"), 3600.0)
    assert {(one.used, one.idle) for one in found.instants} == {(4, 4)}
