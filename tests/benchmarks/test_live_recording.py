"""Recordings of a real Slurm: instants out of its log, and how well a replay agrees with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.backfill.agreement import agreement
from benchmarks.backfill.recorded import Recording
from benchmarks.checks.live.real import FakeClock
from benchmarks.checks.live.recording import main, workload, write_instants

LOG = """\
[2027-01-01T00:00:10.000] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=9 usec=5
[2027-01-01T00:00:10.500] debug:  sched: Running job scheduler for default depth.
[2027-01-01T00:00:10.510] sched: Allocate JobId=1 NodeList=n[1-2] #CPUs=2 Partition=gpu
[2027-01-01T00:00:10.600] debug2: node_did_resp n1
[2027-01-01T00:00:12.000] _slurm_rpc_submit_batch_job: JobId=2 InitPrio=8 usec=5
[2027-01-01T00:00:40.000] sched/backfill: _attempt_backfill: beginning
[2027-01-01T00:00:40.010] sched/backfill: _start_job: Started JobId=2 in gpu on n3
[2027-01-01T00:10:00.000] _job_complete: JobId=1 WEXITSTATUS 0
[2027-01-01T00:10:00.010] _job_complete: JobId=1 done
[2027-01-01T00:10:00.100] debug2: node_did_resp n2
[2027-01-01T00:10:00.200] debug2: node_did_resp n1
  a line of something else
"""
BEGAN_S = 1_798_761_600.0


def test_instants_are_read_from_a_log(tmp_path: Path) -> None:
    write_instants(LOG.splitlines(), tmp_path)
    assert (tmp_path / "instants.txt").read_text().splitlines() == [
        "job|submit|end|free",
        f"1|{BEGAN_S + 10:.3f}|{BEGAN_S + 600:.3f}|{BEGAN_S + 600.2:.3f}",
        f"2|{BEGAN_S + 12:.3f}|0.000|0.000",
    ]
    assert (tmp_path / "bf_cycles.txt").read_text() == f"{BEGAN_S + 40:.3f}\n"
    assert (tmp_path / "passes.txt").read_text() == f"{BEGAN_S + 10.5:.3f}\n"


def made(folder: Path, start_of_second: str) -> Recording:
    """Return a recording of two jobs that both take the only node, by a pass every 10 s."""
    folder.mkdir()
    (folder / "slurm.conf").write_text(
        "SchedulerType=sched/builtin\nNodeName=n1\nPartitionName=gpu\n"
    )
    (folder / "assoc.txt").write_text("Account|User|Share\nroot||1\n")
    day = "2027-01-01T00:"
    rows = [
        "JobID|JobName|User|Account|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|NodeList"
        "|ReqTRES|Priority",
        f"1|a|root||gpu|COMPLETED|{day}00:10|{day}00:11|{day}10:00|20|1|n1|gres/gpu=8|9",
        f"2|b|root||gpu|COMPLETED|{day}00:12|{start_of_second}|{day}20:00|20|1|n1|gres/gpu=8|8",
    ]
    (folder / "sacct.txt").write_text("\n".join(rows) + "\n")
    instants = [(1, 10.0, 600.0, 600.5), (2, 12.0, 1_200.0, 1_200.5)]
    lines = [
        "|".join([str(job), *(f"{BEGAN_S + at_s:.3f}" for at_s in at)]) for job, *at in instants
    ]
    (folder / "instants.txt").write_text("\n".join(["job|submit|end|free", *lines]) + "\n")
    (folder / "bf_cycles.txt").write_text("")
    passes = [f"{BEGAN_S + 10 * k + 1:.3f}" for k in range(1, 130)]
    (folder / "passes.txt").write_text("\n".join(passes) + "\n")
    jobs = [{"name": "a", "run": 589.0}, {"name": "b", "run": 590.0}]
    (folder / "workload.json").write_text(json.dumps({"jobs": jobs}))
    return Recording.read(folder)


def test_a_recording_is_reproduced_and_one_that_is_not_so_is_seen(tmp_path: Path) -> None:
    found = agreement(made(tmp_path / "right", "2027-01-01T00:10:01"))
    assert (found.in_order, found.same_nodes, found.same_priority) == (1.0, 1.0, None)
    assert found.p95_s == pytest.approx(0.0)
    assert "100.00% in order" in str(found)
    late = agreement(made(tmp_path / "late", "2027-01-01T00:12:01"))
    assert late.p95_s == pytest.approx(114.0)


def test_without_libfaketime_nothing_is_recorded_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FakeClock.NAMED, str(tmp_path / "none.so"))
    monkeypatch.setattr("benchmarks.checks.live.recording.missing", lambda **_: "")
    assert main([]) == 0
    assert "nothing is recorded: no libfaketime" in capsys.readouterr().err


def test_limits_are_whole_minutes_beyond_the_run_times() -> None:
    jobs = workload(3, 40, 600.0)
    assert all(60.0 * job.limit_min >= job.run for job in jobs)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    assert jobs == workload(3, 40, 600.0)
