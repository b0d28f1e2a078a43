"""A job is stopped only where its end is seen to be far, and given no time limit to run into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from morph_opt.live.turn import ADVISE, Mode
from tests.live.fake import FakeJob, FakeSlurm
from tests.live.scene import audit, controller, finish, steps

NOTHING = "nothing is known of its end but its time limit"
NO_REPORT = "does not report what is left"
NEAR = "by its word it is about to end, or has ended"


def reported(folder: Path, fake: FakeSlurm) -> None:
    """Every job that runs says what is left."""
    for job in fake.jobs.values():
        if job.state == "RUNNING" and not job.true_end_s:
            left_s = max(0.0, job.work_s - job.done_s - (fake.now_s - job.start_s) * job.rate)
            said = {"iterations_left": left_s, "iteration_s": 1.0 / job.rate}
            (folder / f"{job.id}.json").write_text(json.dumps(said))


@pytest.mark.parametrize(
    ("needs", "words", "why"),
    [
        ("word", "checkpoint", NOTHING),
        ("word", "checkpoint iterations=900", NOTHING),
        ("word", "checkpoint seconds=900", ""),
        ("report", "checkpoint seconds=900", NO_REPORT),
        ("report", "checkpoint left=900", ""),
        ("report", "checkpoint seconds=10 left=900", ""),
        ("report", "checkpoint left=20", NEAR),
    ],
)
def test_jobs_are_stopped_only_if_their_end_is_known_to_be_far(
    tmp_path: Path, needs: str, words: str, why: str
) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake, stop_needs=needs)
    long = fake.submit(8, 900.0, f"morph {words}")
    steps(one, fake, 20.0)
    fake.submit(8, 5.0, "morph seconds=5")
    steps(one, fake, 80.0)
    assert long.restarts == (0 if why else 1)
    told = [entry["not_stopped"] for entry in audit(tmp_path) if entry.get("not_stopped")]
    # What was said long ago, and nothing since, is taken for over.
    reasons = {reason for entry in told for reason in entry.values()}
    assert reasons == ({why} if why else reasons & {NEAR})
    if why:
        assert len(told) == 1, "said once, not every turn"
        assert f"left alone {long.id}: {why}" in (tmp_path / "status.txt").read_text()


def test_advice_says_which_jobs_are_not_stopped(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    job = fake.submit(8, 900.0, "morph checkpoint")
    fake.advance(5.0)
    one = controller(tmp_path, fake, Mode(ADVISE))
    one.step()
    assert (tmp_path / "commands.txt").read_text() == f"# {job.id} is not stopped: {NOTHING}\n"


@pytest.mark.parametrize("needs", ["word", "report"])
def test_jobs_about_to_end_are_not_stopped(tmp_path: Path, needs: str) -> None:
    """Ends that are heard of three seconds late, of jobs whose users are wrong or say nothing.

    Where these are stopped by word alone, or by their time limits, one runs again.
    """
    fake = FakeSlurm(2, lag_s=3.0)
    (tmp_path / "reports").mkdir()
    more: dict[str, Any] = {"folder": tmp_path, "reports": "reports", "minimum_run_s": 0.0}
    one = controller(tmp_path, fake, stop_needs=needs, restarts_per_hour=100, **more)
    jobs: list[FakeJob] = []
    for _ in range(12):
        work_s, wrong_s = fake.draw.uniform(10.0, 60.0), fake.draw.uniform(20.0, 200.0)
        words = f"morph checkpoint{f' seconds={wrong_s:.0f}' if needs == 'report' else ''}"
        limit_s = 60.0 * fake.draw.randint(2, 20)
        jobs.append(fake.submit(fake.draw.choice([4, 8]), work_s, words, limit_s=limit_s))
        for _ in range(10):
            if needs == "report":
                reported(tmp_path / "reports", fake)
            steps(one, fake, 1.0)
    finish(one, fake, jobs)
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert sum(job.ran_again for job in jobs) == 0
    assert any(job.restarts for job in jobs) is (needs == "report"), "who reports is stopped"


def test_service_is_counted_per_model(tmp_path: Path) -> None:
    """Without reports, seconds by the table's speed, on other GPUs than asked for and before."""
    fake = FakeSlurm(1)
    more = speeds(tmp_path, {4: 2.0, 8: 1.0})
    one = controller(tmp_path / "a", fake, interval_s=5.0, **more)
    job = fake.submit(8, 600.0, "morph checkpoint model=net iterations=600 plan=dp gpus=4-8")
    steps(one, fake, 100.0)
    assert job.state == "RUNNING"
    left = one.memory.jobs[str(job.id)]
    assert (left.done, left.iteration_s) == (0.0, 1.0)
    fake._requeue(job, True)  # by its user
    steps(one, fake, 150.0)
    assert one.memory.jobs[str(job.id)].done == pytest.approx(100.0, abs=3.0)
    rounds = json.loads((tmp_path / "a/round.json").read_text())
    assert rounds["jobs"][0]["iterations_done"] > 100.0


def speeds(folder: Path, by_gpus: dict[int, float]) -> dict[str, Any]:
    """Settings with a file of speeds of the model ``net``."""
    rows = [
        {"model": "net", "node_type": "a800-x8", "shape": str(n), "plan": "dp", "iteration_s": each}
        for n, each in by_gpus.items()
    ]
    (folder / "speeds.json").write_text(json.dumps({"schema": "morph-opt/speeds/1", "rows": rows}))
    return {"speeds": "speeds.json", "folder": folder}


@pytest.mark.parametrize(
    ("words", "limit_min", "gpus"),
    [
        ("iterations=600", 60, 4),  # 20 minutes on 4 GPUs
        ("iterations=600", 21, 0),  # within a tenth of its limit
        ("iterations=600", None, 4),
        ("", 60, 0),  # nothing is known but its limit, for 8 GPUs
        ("seconds=600", 60, 4),
    ],
)
def test_no_shape_is_chosen_that_reaches_the_time_limit(
    tmp_path: Path, words: str, limit_min: int | None, gpus: int
) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path / "a", fake, **speeds(tmp_path, {4: 2.0, 8: 1.0}))
    fake.submit(4, 300.0, "morph seconds=300")
    steps(one, fake, 3.0)
    limit_s = 86_400.0 * 300 if limit_min is None else 60.0 * limit_min
    job = fake.submit(8, 600.0, f"morph model=net plan=dp gpus=4-8 {words}", limit_s=limit_s)
    steps(one, fake, 30.0)
    assert sum(map(len, job.held.values())) == gpus
    finish(one, fake, [job])
    assert job.state == "COMPLETED", "not ended at its time limit"
