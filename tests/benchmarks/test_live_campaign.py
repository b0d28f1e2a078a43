"""What runs beside a real Slurm begin and count; no Slurm is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checks.live.counted import SOON, blame, forgot, held_by_slurm
from benchmarks.checks.live.real import end_all, processes, until
from benchmarks.checks.live.scripts import reporting_job

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import os, subprocess, sys
from pathlib import Path
from benchmarks.checks.live.real import guard
conf = Path(sys.argv[1])
keeper = guard(conf)
env = {**os.environ, "SLURM_CONF": str(conf)}
job = "trap '' TERM; sleep 600 & wait"
subprocess.Popen(["sh", "-c", job], env=env, start_new_session=True)
print("begun", flush=True)
keeper.wait()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_run(tmp_path: Path, how: signal.Signals) -> None:
    conf = tmp_path / "slurm.conf"
    words = [sys.executable, "-c", RUN, str(conf)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        until("the job", lambda: len(processes(conf)) == 2)
        run.send_signal(how)
    until("the end", lambda: not processes(conf))


def test_a_step_that_has_another_title_is_found(tmp_path: Path) -> None:
    """As slurmstepd is, by the log that it has open: its title is where its environment was."""
    step = tmp_path / "slurmstepd"
    step.symlink_to("/bin/sleep")
    conf = tmp_path / "slurm" / "slurm.conf"
    conf.parent.mkdir()
    with (conf.parent / "n1.log").open("w") as log:
        step_of = subprocess.Popen([step, "600"], stderr=log)
    other = subprocess.Popen(["/bin/sleep", "600"])
    try:
        until("the step", lambda: processes(conf) == [step_of.pid])
        end_all(conf.with_name("other.conf"))
        assert step_of.wait(60) == -signal.SIGKILL
        os.kill(other.pid, 0)
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ([], "by_slurm"),
        (["a 5.0 requeue Incomplete 7"], "by_slurm"),  # the stop that it had begun again behind
        (["a 25.0 requeue Incomplete 7"], "unreached"),
        (["a 31.0 requeue Incomplete 7"], "ran_again"),
        (["a 31.0 requeue Incomplete 7", "a refused"], "by_slurm"),
        (["a 31.0 requeue Incomplete 77"], "by_slurm"),
    ],
)
def test_reruns_are_attributed_to_their_cause(changes: list[str], kind: str) -> None:
    lines = ["start 1 0 n1", "stop 6", "start 20 1 n1", "end 30", "start 40 2 n1"]
    assert blame("7", lines, changes) == kind


def test_lost_starts_are_explained_by_a_restart_of_slurmctld() -> None:
    lines = ["start 1 0 n1", "stop 6", "start 100 1 n1", "end 130"]
    assert forgot(lines, [135.0])
    assert forgot(lines, [105.0])
    assert not forgot(lines, [3.0]), "of a run before the last"
    assert not forgot(lines, [160.0])
    assert not forgot(lines, [])


def test_a_job_put_where_one_of_its_number_ran_is_held_by_slurm() -> None:
    """As a slurmctld wrote it that had forgotten one job and gave its number to the next."""
    log = [
        "sched: Allocate JobId=24 NodeList=n[4-5] #CPUs=2 Partition=gpu",
        "sched: Allocate JobId=26 NodeList=n[7-8] #CPUs=2 Partition=gpu",
        "error: Duplicate jobid on nodes n7, set to state DRAIN",
        "update_node: node n3 state set to IDLE",
        "Requeuing JobId=26",
    ]
    assert held_by_slurm("26", log)
    assert not held_by_slurm("6", log)
    assert not held_by_slurm("24", log)
    assert not held_by_slurm("26", [*log[:3], *["another line"] * SOON, log[-1]])
    assert not held_by_slurm("26", [log[-1], *log[:3]]), "taken back before"


def test_the_page_s_job_keeps_whole_what_it_has_done_and_goes_on_there(tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(reporting_job(tmp_path))
    env = {**os.environ, "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}
    words = ["bash", str(job), "j", "2"]
    state, before = tmp_path / "j/state", tmp_path / "before"
    with subprocess.Popen(words, env=env, start_new_session=True) as first:
        until("a piece of the work", state.exists)
        before.hardlink_to(state)
        os.killpg(first.pid, signal.SIGTERM)
    assert first.returncode == 0
    assert not state.samefile(before), "another file takes its place, it is never written into"
    assert state.read_text() == "1\n"
    subprocess.run(words, env=env, check=True)
    log = (tmp_path / "j.log").read_text().splitlines()
    assert [line.split()[0] for line in log] == ["start", "stop", "start", "end"]
    said = json.loads((tmp_path / "7.json").read_text())
    assert said == {"iterations_left": 0, "iteration_s": 1.0}
