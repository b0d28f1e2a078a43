"""Logs as sites write them: times, durations, ids, arrays and sizes in the notations of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.cli import main
from morph_opt.inputs.traces.logs.formats.sacct import tasks_of
from morph_opt.inputs.traces.logs.guess import guessed
from morph_opt.inputs.traces.logs.reading.clock import Clock
from morph_opt.inputs.traces.logs.reading.quantities import elapsed_s, number_of
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.registry import load_trace
from tests.traces.logs.samples import SACCT, put, read, read_sacct, sacct, workload


def table(
    tmp_path: Path, head: str, *lines: str, columns: str | None = None
) -> tuple[list[LogRow], Report]:
    """Jobs and report of a table."""
    text = "\n".join((head, *lines)) + "\n"
    return read(tmp_path, "table", text, Reading(columns=columns))


# ------------------------------------------------------------------ numbers, times, durations


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.00032973289489746094", 0.00032973289489746094), ("1e3", 1000.0),
        ("1.05162e+06", 1.05162e6),
        (".5", 0.5), ("+7", 7.0), ("600,25", 600.25), ("1,234.5", 1234.5), ("1.234,5", 1234.5),
        ("1,234,567", 1_234_567.0), ("1_0", None), ("nan", None), ("1e999", None), ("ten", None),
    ],
)  # fmt: skip
def test_a_number_in_any_notation(text: str, value: float | None) -> None:
    assert number_of(text) == value


def test_a_mark_of_decimals_or_thousands_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"may be 1600 or 1\.600"):
        number_of("1,600")
    _, report = table(tmp_path, "job;submit;gpus;duration", "a;0;1;1,600")
    assert dict(report.dropped) == {"malformed": 1}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03", 93_780.0), ("2-06", 194_400.0), ("1:02:03:04", 93_784.0), ("90 min", 5400.0),
        ("3600 second(s)", 3600.0), ("1h30m0s", 5400.0), ("1d 2h", 93_600.0), ("PT1H30M", 5400.0),
        ("2 days, 3:00:00", 183_600.0), ("0:05.25", 5.25), ("100:00:00", 360_000.0),
    ],
)  # fmt: skip
def test_a_duration_in_the_notation_of_any_scheduler(text: str, seconds: float) -> None:
    assert elapsed_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01 10:00:10 +0200", "2024/05/01 08:00:10", "01.05.2024 08:00:10",
        "Wed May  1 08:00:10 2024", "Wed, 01 May 2024 08:00:10 GMT", "1 May 2024 08:00:10",
        "20240501T080010Z", "20240501080010", "1714550410", "1714550410000", "1714550410e6",
        "2024-05-01 08:00:10 +0000 UTC", "2024-05-01 08:00:10,000",
    ],
)  # fmt: skip
def test_a_time_in_the_notation_of_any_scheduler(text: str) -> None:
    assert Clock("UTC", numbers=True).seconds(text) == 1_714_550_410.0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("05/01/2024 08:00:10", "may be of 2024-05-01 or 2024-01-05"),
        ("May  1 08:00", "must be a time like"),
        ("2024-05-01 08:00:10 CEST", "must be a time like"),
        ("3600", "must be a time like"),
    ],
)
def test_a_time_that_may_be_another_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Clock("UTC", numbers=True).seconds(text)


def test_sacct_counts_seconds_where_its_time_format_says_so(tmp_path: Path) -> None:
    header = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES"
    jobs, report = read_sacct(
        tmp_path,
        "1|COMPLETED|1714550400|1714550410|1714554010|gres/gpu=2|gres/gpu=2",
        "2|CANCELLED by 7|1714550400|0|1714550500|gres/gpu=2|",
        "3|RUNNING|1714550400|1714550410|Unknown|gres/gpu=2|gres/gpu=2",
        header=header,
    )
    assert [(job.submit_s, job.run_s) for job in jobs] == [(1_714_550_400.0, 3600.0)]
    assert dict(report.dropped) == {"not-started": 1, "still-running": 1}


def test_another_time_format_of_sacct_names_its_variable(tmp_path: Path) -> None:
    _, report = read_sacct(tmp_path, sacct(submit="1 May 08:00", start="", end=""))
    assert "SLURM_TIME_FORMAT" in str(report.first_malformed)


def test_a_row_that_never_started_has_no_size_without_its_request(tmp_path: Path) -> None:
    header = "JobID|State|Submit|Start|End|AllocTRES"
    line = "5|CANCELLED|2024-05-01T08:00:00|Unknown|2024-05-01T09:00:00|"
    _, report = read_sacct(tmp_path, line, header=header)
    assert dict(report.dropped) == {"not-started": 1}


# ------------------------------------------------------------------ sacct: ids, arrays, JSON


def test_an_id_of_another_user_or_cluster_is_another_job(tmp_path: Path) -> None:
    header = "JobID|Cluster|User|State|Submit|Start|End|AllocTRES"
    times = "2024-05-01T08:00:00|2024-05-01T08:00:10|2024-05-01T09:00:10"
    jobs, report = read_sacct(
        tmp_path,
        f"9|alpha|ada|NODE_FAIL|{times}|gres/gpu=1",
        f"9|beta|ada|NODE_FAIL|{times}|gres/gpu=2",
        f"9|beta|bob|NODE_FAIL|{times}|gres/gpu=4",
        header=header,
    )
    assert [job.gpus for job in jobs] == [1, 2, 4]
    assert report.folded == 0


@pytest.mark.parametrize(
    ("state", "submit", "jobs"),
    [
        ("COMPLETED", "09:30:00", 2),  # over, whatever comes
        ("CANCELLED by 7", "09:30:00", 2),
        ("FAILED", "09:00:10", 1),  # requeued at once
        ("NODE_FAIL", "09:30:00", 1),
        ("NODE_FAIL", "2024-06-01T08:00:00", 2),  # ids have begun anew
    ],
)
def test_an_id_after_a_final_state_is_another_job(
    tmp_path: Path, state: str, submit: str, jobs: int
) -> None:
    day = submit[:11] if "T" in submit else ""
    later = sacct(submit=submit, start=f"{day}10:00:00", end=f"{day}11:00:00")
    found, report = read_sacct(tmp_path, sacct(state=state), later)
    assert len(found) == jobs
    assert report.folded == 2 - jobs
    assert sum(job.gpu_seconds or 0.0 for job in found) == 2 * 8 * 3600.0


def test_an_old_job_ends_though_its_id_runs_again(tmp_path: Path) -> None:
    again = sacct(submit="2026-05-01T08:00:00", start="2026-05-01T08:00:10", state="RUNNING")
    jobs, report = read_sacct(tmp_path, sacct(), again)
    assert [job.run_s for job in jobs] == [3600.0]
    assert dict(report.dropped) == {"still-running": 1}


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("3-8", (6, None)),
        ("3-8%2", (6, 2)),
        ("1,3,5-7", (5, None)),
        ("0-10:5%1", (3, 1)),
        ("1,2,...", (2, None)),
    ],
)
def test_tasks_of_an_array(text: str, tasks: tuple[int, int | None]) -> None:
    assert tasks_of(text) == tasks


@pytest.mark.parametrize("text", ["", "...", "a-b", "8-3", "0-99999999"])
def test_malformed_array_tasks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="tasks"):
        tasks_of(text)


def test_json_of_sacct_is_read_as_its_table(tmp_path: Path) -> None:
    def job(number: int, **changes: object) -> dict[str, object]:
        plain: dict[str, object] = {
            "job_id": number, "cluster": "c", "user": "ada", "account": "ml", "partition": "gpu",
            "state": {"current": ["COMPLETED"]}, "nodes": "n1", "allocation_nodes": 1,
            "time": {"submission": 1714550400, "eligible": 1714550400, "start": 1714550410,
                     "end": 1714554010, "elapsed": 3600,
                     "limit": {"set": True, "infinite": False, "number": 120}},
            "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8},
                                   {"type": "gres", "name": "gpu", "count": 2}],
                     "requested": [{"type": "gres", "name": "gpu", "count": 2}]},
        }  # fmt: skip
        return plain | changes

    waits = {"submission": 1714550400, "start": 0, "end": 0, "elapsed": 0}
    limits = {"max": {"running": {"tasks": 2}}}
    array = {"job_id": 7, "task_id": {"set": False, "number": 0}, "task": "3-8", "limits": limits}
    waiting = job(8, state=["PENDING"], time=waits, array=array)
    waiting["tres"] = {"allocated": [], "requested": [{"type": "gres", "name": "gpu", "count": 1}]}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"meta": {}, "jobs": [job(1), waiting]}), encoding="utf-8")
    jobs, report = read(tmp_path, "sacct", path.read_text("utf-8"), name="jobs.json")
    assert [(one.name, one.gpus, one.run_s, one.limit_s) for one in jobs] == [("1", 2, 3600, 7200)]
    assert report.findings["pending-array"].details == {"tasks": 6.0}
    assert main(["lint", str(path)]) == 0  # guessed


def test_json_of_squeue_is_refused_with_what_reads_it(tmp_path: Path) -> None:
    text = json.dumps({"jobs": [{"job_id": 1, "job_state": "RUNNING"}]})
    _, report = read(tmp_path, "sacct", text, name="jobs.json")
    assert "morph_opt.round" in str(report.first_malformed)


# ------------------------------------------------------------------ tables: sizes, ends, outcomes


def test_gpus_per_node_are_times_the_nodes(tmp_path: Path) -> None:
    lines = ("a,0,2,8,600", "b,0,1,4,600")
    jobs, report = table(tmp_path, "job,submit,nodes,gpus_per_node,duration", *lines)
    assert [job.gpus for job in jobs] == [16, 4]
    assert report.worst is None
    columns = "gpus=,gpus_per_node=gpus"
    jobs, _ = table(tmp_path, "job,submit,nodes,gpus,duration", *lines, columns=columns)
    assert [job.gpus for job in jobs] == [16, 4]


def test_gpus_in_the_words_of_slurm(tmp_path: Path) -> None:
    head = "job,submit,gres_used,duration"
    jobs, _ = table(tmp_path, head, "a,0,gpu:a100:4,600", 'b,0,"gpu:2,craynetwork:1",600')
    assert [job.gpus for job in jobs] == [4, 2]
    head = "job,submit,tres_alloc,duration"
    lines = ('a,0,"1=16,1001=2",600', "b,0,1=4,600")
    jobs, report = table(tmp_path, head, *lines, columns="gpus=tres_alloc[1001]")
    assert [job.gpus for job in jobs] == [2]
    assert dict(report.dropped) == {"no-gpu": 1}


def test_the_job_table_of_slurmdbd(tmp_path: Path) -> None:
    jobs, report = table(
        tmp_path,
        "id_job,account,state,time_submit,time_start,time_end,gres_used,tres_alloc",
        "1,ml,3,1714550400,1714550410,1714554010,gpu:2,1=16",
        "2,ml,0,1714550400,0,0,,",
        "3,ml,1,1714550400,1714550410,0,gpu:1,1=16",
        "4,ml,5,1714550400,1714550410,1714551010,gpu:1,1=16",
    )
    assert [(job.gpus, job.run_s, job.outcome) for job in jobs] == [
        (2, 3600.0, "completed"),
        (1, 600.0, "failed"),
    ]
    assert dict(report.dropped) == {"not-started": 1, "still-running": 1}
    assert "columns not read: tres_alloc" in report.assumed


def test_hours_and_minutes_by_name(tmp_path: Path) -> None:
    head, line = "job,submit,gpus,run_time", "a,0,1,01:30"
    jobs, report = table(tmp_path, head, line, columns="duration=run_time[HH:MM]")
    assert [job.run_s for job in jobs] == [5400.0]
    assert report.worst is None
    jobs, report = table(tmp_path, head, line, columns="duration=run_time[MM:SS]")
    assert [job.run_s for job in jobs] == [90.0]
    assert "two-part-durations" not in report.findings


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("CANCELLED by 1001", "cancelled"), ("JOB_FINISHED", "completed"), ("EXIT", "failed"),
        ("Timed Out", "failed"), ("CD", "completed"), ("n/a", "unknown"),
    ],
)  # fmt: skip
def test_outcomes_in_the_words_of_others(tmp_path: Path, word: str, outcome: str) -> None:
    jobs, report = table(tmp_path, "job,submit,gpus,duration,state", f"a,0,1,600,{word}")
    assert [job.outcome for job in jobs] == [outcome]
    assert report.worst is None


@pytest.mark.parametrize("word", ["PEND", "PD", "hqw", "RUN", "USUSP", "R"])
def test_foreign_words_for_waiting_and_running_are_not_jobs(tmp_path: Path, word: str) -> None:
    jobs, report = table(tmp_path, "job,submit,gpus,duration,state", f"a,0,1,600,{word}")
    assert jobs == []
    assert sum(report.dropped.values()) == 1
    assert set(report.dropped) <= {"not-started", "still-running"}


def test_quoted_headers_a_byte_order_mark_and_bars(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes('\ufeff"job";"submit";"gpus";"duration"\r\n"a";"0";"2";"600"\r\n'.encode())
    assert main(["lint", str(path)]) == 0
    path.write_text('"JobID"|"State"|"Submit"|"Start"|"End"|"AllocTRES"\n' + "|".join(
        f'"{cell}"' for cell in ("1", "COMPLETED", "2024-05-01T08:00:00", "2024-05-01T08:00:10",
                                 "2024-05-01T09:00:10", "gres/gpu=2")
    ) + "\n", encoding="utf-8")  # fmt: skip
    assert load_trace(f"sacct:{path}").trace.jobs[0].requested_gpus == 2


# ------------------------------------------------------------------ one reading for all commands


def test_deadlines_of_a_table_reach_the_jobs(tmp_path: Path) -> None:
    text = "name,submit,gpus,seconds,ddl\na,1714550400,1,600,1714551400\nb,1714550460,1,600,-1\n"
    path = put(tmp_path, "table", text, "jobs.csv")
    columns = "duration=seconds,deadline=ddl"
    jobs = load_trace(f"table:{path}", columns=columns).trace.jobs
    assert [job.deadline_s for job in jobs] == [1000.0, None]
    after = put(tmp_path, "table", text.replace("1714551400", "900"), "after.csv")
    columns = "duration=seconds,deadline_after=ddl"
    jobs = load_trace(f"table:{after}", columns=columns).trace.jobs
    assert [job.deadline_s for job in jobs] == [900.0, None]


def test_what_a_batch_scheduler_reads_of_a_table_reaches_the_jobs(tmp_path: Path) -> None:
    """Limits, partitions and QOS are guessed; a priority has to be named, since 1 may go first."""
    lines = (
        "a,0,1,600,00:20:00,fast,high,7\nb,60,1,600,UNLIMITED,slow,,\nc,90,1,600,5m,slow,low,1\n"
    )
    text = f"job,submit,gpus,duration,time_limit,partition,qos,prio\n{lines}"
    path = put(tmp_path, "table", text, "jobs.csv")
    loaded = load_trace(f"table:{path}")
    jobs = loaded.trace.jobs
    assert [job.time_limit_s for job in jobs] == [1200.0, None, 300.0]
    assert [(job.partition, job.qos) for job in jobs] == [
        ("fast", "high"),
        ("slow", ""),
        ("slow", "low"),
    ]
    assert {job.priority for job in jobs} == {0.0}
    assert loaded.account is not None
    assert "over-time-limit" in loaded.account.as_json()  # c ran for longer
    jobs = load_trace(f"table:{path}", columns="priority=prio").trace.jobs
    assert [job.priority for job in jobs] == [7.0, 0.0, 1.0]
    with pytest.raises(InputError, match="qos: must be a number, got 'high'"):
        load_trace(f"table:{path}", columns="priority=qos,qos=")


def test_a_table_may_have_the_time_between_checkpoints_of_each_job(tmp_path: Path) -> None:
    text = "job,submit,gpus,duration,saves_min\na,0,1,600,30\nb,60,1,600,\nc,90,1,600,0\n"
    path = put(tmp_path, "table", text, "jobs.csv")
    assert {job.checkpoint_s for job in load_trace(f"table:{path}").trace.jobs} == {None}
    jobs = load_trace(f"table:{path}", columns="checkpoint=saves_min").trace.jobs
    assert [job.checkpoint_s for job in jobs] == [1800.0, None, 0.0]
    bad = put(tmp_path, "table", text.replace(",30", ",-5"), "bad.csv")
    with pytest.raises(InputError, match="line 2, checkpoint_s: must be at least 0"):
        load_trace(f"table:{bad}", columns="checkpoint=saves_min")


def test_a_replay_says_that_partitions_are_one_pool(tmp_path: Path) -> None:
    lines = (sacct("1"), sacct("2").replace("|gpu|", "|h100|"))
    path = put(tmp_path, "sacct", "\n".join((SACCT, *lines)) + "\n", "jobs.txt")
    account = load_trace(f"sacct:{path}").account
    assert account is not None
    assert "2 partitions are one pool to every policy but slurm" in account.lines()["assumed"]


def test_a_replay_says_what_the_linter_doubts(tmp_path: Path) -> None:
    path = put(tmp_path, "table", "job,submit,gpus,duration\na,0,1,24:00\n", "jobs.csv")
    assert main(["lint", str(path)]) == 1
    account = load_trace(f"table:{path}").account
    assert account is not None
    assert "warning: 1 durations have two parts" in account.lines()["assumed"]


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\tb", "x" * 1001])
def test_the_linter_refuses_the_names_that_a_replay_refuses(tmp_path: Path, name: str) -> None:
    text = f'job,submit,gpus,duration\n"{name}",0,1,600\nok,1,1,600\n'
    path = put(tmp_path, "table", text, "jobs.csv")
    assert main(["lint", str(path)]) == 2
    with pytest.raises(InputError, match="line 2, name: must"):
        load_trace(f"table:{path}")
    dropped = load_trace(f"table:{path}", malformed="drop")
    assert [job.name for job in dropped.trace.jobs] == ["ok"]


def test_a_log_without_a_job_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, "table", "job,submit,gpus,duration\na,0,0,600\nb,0,0,600\n", "jobs.csv")
    assert main(["lint", str(path)]) == 1
    assert "no row is a job: dropped are no-gpu 2" in capsys.readouterr().out


def test_objects_of_kueue_by_themselves_and_one_after_the_other(tmp_path: Path) -> None:
    """``kubectl get workload X -o json``, and ``-w``: of an object twice the last state counts."""
    one, two = workload("a"), workload("b")
    for text, gpu_s in ((one, 4 * 2 * 3600.0), (f"{one}\n{two}\n{one}", 2 * 4 * 2 * 3600.0)):
        path = tmp_path / "w.json"
        path.write_text(text)
        assert guessed(path) == ("kueue", {})
        _, report = read(tmp_path, "kueue", text, name="w.json")
        assert report.gpu_seconds == gpu_s


def test_priorities_of_kueue_are_kept(tmp_path: Path) -> None:
    row = json.loads(workload("high"))
    row["spec"]["priority"] = 100
    items = json.dumps({"kind": "List", "items": [row, json.loads(workload("plain"))]})
    jobs, _ = read(tmp_path, "kueue", items, name="w.json")
    assert [one.priority for one in jobs] == [100.0, 0.0]


def test_tenants_of_kueue_are_queues_of_the_cluster(tmp_path: Path) -> None:
    """Local queues of one name in two namespaces are two tenants; an admission names its queue."""
    status = {
        "admission": {"clusterQueue": "cq"},
        "conditions": json.loads(workload("a"))["status"]["conditions"],
    }
    texts = [
        workload("a"),
        workload("b").replace('"team"', '"other"'),
        workload("c", status=status),
    ]
    items = json.dumps({"items": [json.loads(text) for text in texts]})
    jobs, _ = read(tmp_path, "kueue", items, name="w.json")
    assert [job.tenant for job in jobs] == ["team/q", "other/q", "cq"]


@pytest.mark.parametrize(
    ("reason", "message", "outcome"),
    [
        ("Succeeded", "", "completed"), ("JobFinished", "Job finished successfully", "completed"),
        ("JobFinished", "Job has reached the specified backoff limit", "failed"),
        ("OwnerNotFound", "", "cancelled"), ("Vanished", "", "unknown"),
    ],
)  # fmt: skip
def test_outcomes_of_kueue_by_release(
    tmp_path: Path, reason: str, message: str, outcome: str
) -> None:
    entry = workload("w", reason=reason).replace(
        f'"reason": "{reason}"', f'"reason": "{reason}", "message": "{message}"'
    )
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{entry}]}}'
    jobs, report = read(tmp_path, "kueue", text, name="w.json")
    assert [job.outcome for job in jobs] == [outcome]
    assert ("unknown-outcome" in report.findings) == (outcome == "unknown")


def test_a_description_repeats_the_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, "table", "job,submit,gpus,duration\na,0,1,24:00\n", "jobs.csv")
    assert main(["describe", str(path)]) == 0
    assert "warning: 1 durations have two parts" in capsys.readouterr().out


def test_columns_of_pbs(tmp_path: Path) -> None:
    head = (
        "Job Id,qtime,start,end,Resource_List.ngpus,Resource_List.walltime,resources_used.walltime"
    )
    line = "1.srv,1714550400,1714550410,1714554010,4,24:00:00,01:00:00"
    jobs, report = table(tmp_path, head, line)
    assert [(job.gpus, job.run_s, job.recorded_s) for job in jobs] == [(4, 3600.0, 3600.0)]
    assert report.worst is None


@pytest.mark.parametrize("submit", ["9998-01-01 00:00:00", "-5"])
def test_the_linter_refuses_the_instants_that_a_replay_refuses(tmp_path: Path, submit: str) -> None:
    kind = "batsim" if submit == "-5" else "table"
    text = f"job,submit,gpus,duration\na,{submit},1,600\nb,2024-05-01 00:00:00,1,600\n"
    if kind == "batsim":
        jobs = [{"id": n, "subtime": at, "res": 1, "profile": "p"} for n, at in ((1, -5), (2, 0))]
        profiles = {"p": {"type": "delay", "delay": 600}}
        text = json.dumps({"jobs": jobs, "profiles": profiles})
    path = put(tmp_path, kind, text, "log.csv")
    assert main(["lint", f"{kind}:{path}"]) == 2
    with pytest.raises(InputError, match="must be"):
        load_trace(f"{kind}:{path}", **({"procs_per_gpu": 1} if kind == "batsim" else {}))
