"""What happened, of an audit log: whole, and never more GPUs than there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from morph_opt.audit.instants import audit as audited
from morph_opt.audit.recorded import read_recorded
from morph_opt.inputs.clusters import parse_short
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.live.history import RunInterval, placed, settle, write_run
from morph_opt.live.turn import OBSERVE, Mode
from morph_opt.simulation.runs.read import Run, read_run
from tests.live.fake import FakeJob, FakeSlurm
from tests.live.scene import OPEN, controller, finish, steps, submitted


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().folder.close()


def told(folder: Path) -> Run:
    """The run of the log of a folder, in which no round and no instant is over capacity."""
    write_run(folder / "audit.jsonl", folder / "run")
    recorded = read_recorded(f"run:{folder / 'run'}", Reading())
    assert recorded.cluster is not None
    for instant in audited(recorded, recorded.cluster, 0.5).instants:
        assert instant.used + instant.idle == recorded.cluster.gpus
        assert instant.idle >= 0
    run = read_run(folder / "run")
    assert run.summary.rounds_over_capacity == 0
    return run


def mean_s(jobs: list[FakeJob]) -> float:
    return sum(job.end_s - job.submit_s for job in jobs) / len(jobs)


@pytest.mark.parametrize("word", [OBSERVE, "act"])
def test_jobs_that_come_and_go_between_two_looks_are_told(tmp_path: Path, word: str) -> None:
    fake = FakeSlurm(2)
    fake.now_s += 0.3  # Slurm's instants are whole seconds
    one = controller(tmp_path, fake, Mode(word))
    jobs = [fake.submit(8, 300.0, "morph seconds=300")]
    steps(one, fake, 20.0, 5.0)
    for k in range(12):
        jobs.append(fake.submit(random.Random(k).choice([1, 2, 4]), k / 3.0, "morph seconds=4"))
        jobs.append(fake.submit(12, 3.0, "morph seconds=3", nodes=0))
        steps(one, fake, 20.0, 10.0)
    finish(one, fake, jobs)
    run = told(tmp_path)
    assert run.summary.completed == len(jobs)
    # Slurm starts jobs at any instant: no boundary of a round stands between them and the bound.
    assert run.summary.avg_jct_lower_bound_s <= run.summary.avg_jct_s
    assert run.summary.makespan_lower_bound_s <= run.summary.makespan_s
    assert run.summary.avg_jct_s == pytest.approx(mean_s(jobs), abs=2.0)
    assert {row.job for row in run.segments} == {str(job.id) for job in jobs}


def test_jobs_that_ended_before_the_first_look_are_not_in_the_history(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    fake.submit(4, 3.0, "morph")
    fake.advance(20.0)
    one = controller(tmp_path, fake)
    jobs = [fake.submit(4, 3.0, "morph")]
    finish(one, fake, jobs)
    assert told(tmp_path).summary.completed == 1


def test_a_job_cancelled_before_it_ran_holds_nothing(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake, Mode(OBSERVE))
    long = fake.submit(8, 60.0, "morph")
    steps(one, fake, 3.0)
    waits = fake.submit(8, 60.0, "morph")
    steps(one, fake, 3.0)
    fake(("scancel", str(waits.id)), 1.0)
    finish(one, fake, [long, waits])
    run = told(tmp_path)
    assert run.summary.completed == 1
    assert [row.job for row in run.segments] == [str(long.id)]


def test_a_job_that_is_run_again_between_two_looks_has_both_runs(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake, Mode(OBSERVE))
    job = fake.submit(8, 30.0, "morph", checkpoint=False)
    steps(one, fake, 3.0)
    fake(("scontrol", "requeue", "Incomplete", str(job.id)), 1.0)
    fake.advance(5.0)
    fake(("scontrol", "update", f"JobId={job.id}", "StartTime=now"), 1.0)
    fake.advance(60.0)
    finish(one, fake, [job])
    run = told(tmp_path)
    assert run.summary.completed == 1
    assert [row.start_s for row in run.segments] == pytest.approx([0.0, 8.0], abs=2.0)


@pytest.mark.parametrize("seed", range(3))
def test_no_round_is_over_capacity_whatever_happens(tmp_path: Path, seed: int) -> None:
    """Nodes drain, do not respond and come back, slurmctld is away, looks are rare."""
    draw, fake = random.Random(seed), FakeSlurm(3, seed=seed, refuse=0.1)
    fake.now_s += draw.random()
    one = controller(tmp_path, fake, Mode("act" if seed % 2 else OBSERVE))
    jobs: list[FakeJob] = []
    for k in range(8):
        jobs += submitted(fake, 2, 100 * seed + k)
        jobs.append(fake.submit(draw.choice([1, 3, 8, 12]), 5.0 * draw.random(), "morph"))
        node = draw.choice(list(fake.nodes))
        word = draw.choice(["", "DRAIN", "NOT_RESPONDING"])
        fake.flags = {node: word} if word else {}
        if draw.random() < 0.2:
            fake.away(draw.uniform(2.0, 20.0))
        steps(one, fake, 30.0, draw.choice([0.7, 1.0, 7.0, 15.0]))
    fake.flags = {}
    finish(one, fake, jobs)
    run = told(tmp_path)
    assert run.summary.completed == len(jobs)


def test_interval_ends_before_the_next_holder_of_its_gpus() -> None:
    first = RunInterval("a", 0.0, ("n1",), 2, {"n1": (0, 1)})
    second = RunInterval("b", 5.0, ("n1",), 1, {"n1": (1,)}, 9.0, "complete")
    settle([first, second])
    assert (first.end_s, first.end) == (5.0, "preempt")
    assert (second.end_s, second.end) == (9.0, "complete")


def test_unseen_intervals_get_free_gpus_or_are_left_out() -> None:
    cluster = parse_short("2x2:V100")
    names = tuple(node.name for node in cluster.nodes)
    known = RunInterval("a", 0.0, names[:1], 1, {names[0]: (0,)}, 9.0, "complete")
    unseen = RunInterval("b", 1.0, names, 3, {}, 2.0, "complete")
    more = RunInterval("c", 1.0, names, 2, {}, 2.0, "complete")
    found = {one.job: one.held for one in placed([known, unseen, more], cluster)}
    assert found["b"] == {names[0]: (1,), names[1]: (0, 1)}
    assert "c" not in found
