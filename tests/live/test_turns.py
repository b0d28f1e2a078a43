"""Turns beside a pretended Slurm: what must hold, whatever it refuses, hides or forgets."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.explain.why import why
from morph_opt.live.execution import release_all
from morph_opt.live.history import write_run
from morph_opt.live.memory import read_memory
from morph_opt.live.picture import LEASE_NAME, OURS
from morph_opt.live.record import status_of
from morph_opt.live.scheduler import AwayError, Command
from morph_opt.live.slurm import Slurm
from morph_opt.live.turn import ACT, ADVISE, OBSERVE, Mode
from morph_opt.round.cli import main as decide_again
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import PriorityClass
from morph_opt.simulation.runs.read import read_run
from tests.live.fake import FakeSlurm
from tests.live.scene import ALL, audit, commands, controller, finish, settings, steps, submitted


@pytest.mark.parametrize(
    ("seed", "more"),
    [(2, {"away": 40.0}), (3, {"away": 15.0, "refuse": 0.1})],
)
def test_jobs_are_not_lost_rerun_or_changed(
    tmp_path: Path, seed: int, more: dict[str, Any]
) -> None:
    fake = FakeSlurm(3, seed=seed, refuse=more.get("refuse", 0.0))
    foreign = [
        fake.submit(4, 150.0, foreign=True, user="bob", partition=place)
        for place in ("gpu", "other")
    ]
    one = controller(tmp_path, fake)
    jobs = submitted(fake, 6, seed)
    steps(one, fake, 40.0)
    if "away" in more:
        fake.away(more["away"])
        steps(one, fake, more["away"])
    jobs += submitted(fake, 4, seed + 100)
    fake.flags["n1"] = "DRAIN"
    steps(one, fake, 60.0)
    fake.flags.clear()
    finish(one, fake, [*jobs, *foreign])
    assert {job.state for job in [*jobs, *foreign]} == {"COMPLETED"}
    assert not any(job.ran_again for job in jobs)
    assert fake.touched == []
    assert commands(tmp_path, "refused" if "refuse" in more else "did")
    assert one.memory.ran_again == 0


def test_jobs_held_by_a_person_are_not_released(tmp_path: Path) -> None:
    fake = FakeSlurm(2)
    mine = [fake.submit(8, 50.0, "morph checkpoint seconds=50") for _ in range(4)]
    others = [
        fake.submit(4, 50.0, foreign=True),
        fake.submit(4, 50.0, "morphling", foreign=True),
        fake.submit(4, 50.0, "morph", partition="other", foreign=True),
        fake.submit(4, 50.0, "morph", dependency="afterok:1", foreign=True),
        fake.submit(4, 50.0, "morph", begin_s=fake.now_s + 500.0, foreign=True),
        fake.submit(4, 50.0, "morph", pinned=["n2"], foreign=True),
        fake.submit(4, 50.0, "morph", array=77, foreign=True),
    ]
    held = fake.submit(4, 50.0, "morph", foreign=True)
    held.priority = 0.0
    one = controller(tmp_path, fake)
    steps(one, fake, 30.0)
    assert mine[-1].mark.startswith(OURS)
    assert fake.touched == []
    assert held.state == "PENDING"
    assert all(not job.mark for job in others)


def test_a_hold_on_a_parked_job_is_seen(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    fake.submit(8, 300.0, "morph seconds=300")
    fake.advance(2.0)
    waits = fake.submit(8, 50.0, "morph seconds=50")
    one = controller(tmp_path, fake, powers=frozenset(("placement",)))
    steps(one, fake, 5.0)
    assert waits.mark.startswith("morph:parked@")
    waits.priority, waits.foreign = 0.0, True
    finish(one, fake, [fake.jobs[1]], 400.0)
    assert waits.state == "PENDING"
    assert fake.touched == []


def test_powers_that_are_not_granted_are_not_used(tmp_path: Path) -> None:
    kinds = {
        "order": {"prioritise"}, "placement": {"start", "park"}, "stops": {"start", "park", "stop"}
    }  # fmt: skip
    for power, allowed in kinds.items():
        fake = FakeSlurm(2)
        folder = tmp_path / power
        powers = frozenset({power} if power == "order" else {"placement", power})
        one = controller(folder, fake, powers=powers)
        long = [fake.submit(8, 900.0, "morph checkpoint seconds=900") for _ in range(2)]
        steps(one, fake, 30.0)
        submitted(fake, 8, 3)
        steps(one, fake, 60.0)
        found = {record["kind"] for record in commands(folder)}
        assert found == allowed, power
        assert any(job.restarts for job in long) is (power == "stops")
        # 8 GPUs from the start of the job on, as its user states no checkpoint, and its start-up.
        lost = [cost for entry in audit(folder) for cost in entry.get("loses", {}).values()]
        assert len(lost) == sum(job.restarts for job in fake.jobs.values())
        for cost in lost:
            assert cost["restart_gpu_s"] == pytest.approx(8 * settings().restart_s)
            assert 8 * settings().minimum_run_s <= cost["progress_gpu_s"] <= 8 * 90.0


@pytest.mark.parametrize(
    ("preempts", "preemptible"), [("own", True), ("own", False), ("lower", True)]
)
def test_a_job_is_stopped_only_where_its_class_allows_it(
    tmp_path: Path, preempts: str, preemptible: bool
) -> None:
    every = PriorityClass("every", (-1e6, 1e12), preempts, preemptible)
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake, Mode(ACT, rules=OperatorRules((every,))), powers=ALL)
    long = [fake.submit(8, 900.0, "morph checkpoint seconds=900") for _ in range(2)]
    steps(one, fake, 30.0)
    submitted(fake, 8, 3)
    steps(one, fake, 60.0)
    stops = preempts == "own" and preemptible
    assert any(job.restarts for job in long) is stops
    assert any("loses" in entry for entry in audit(tmp_path)) is stops


def test_round_without_allowed_changes_is_worth_zero(tmp_path: Path) -> None:
    """Every GPU is taken, nothing may be stopped; then a job ends and there is room."""
    fake = FakeSlurm(1)
    fake.submit(8, 600.0, "morph seconds=600")
    fake.advance(5.0)
    for work_s in (50.0, 400.0):
        fake.submit(4, work_s, f"morph seconds={work_s:.0f}")
    one = controller(tmp_path, fake, Mode("observe"))
    one.step()
    assert audit(tmp_path)[-1]["worth"] == pytest.approx(0.0)
    fake.advance(590.0)
    fake.submit(4, 50.0, "morph seconds=50")
    fake._finish(fake.jobs[1], "COMPLETED", fake.now_s)
    one.step()
    assert audit(tmp_path)[-1]["worth"] > 0.0


def test_looking_changes_nothing(tmp_path: Path) -> None:
    for word in (OBSERVE, ADVISE):
        fake = FakeSlurm(2)
        jobs = submitted(fake, 8, 3)
        before = [(job.mark, job.priority, job.pinned) for job in jobs]
        one = controller(tmp_path / word, fake, Mode(word), powers=frozenset(), partitions=())
        steps(one, fake, 30.0)
        assert [(job.mark, job.priority, job.pinned) for job in jobs] == before
        assert commands(tmp_path / word, "would")
        assert not commands(tmp_path / word)
    said = (tmp_path / ADVISE / "commands.txt").read_text()
    assert said == "" or said.startswith("TZ=UTC scontrol update JobId=")
    assert "GPU-hours would have been used" in (tmp_path / ADVISE / "status.txt").read_text()


def test_a_round_is_decided_again_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import hashlib

    fake = FakeSlurm(2)
    words = ("--policy=milp", "--objective=jct")
    from morph_opt.scheduling.policies.options import PolicyOptions

    mode = Mode("act", options=PolicyOptions(objective="jct"))
    one = controller(tmp_path, fake, mode)
    submitted(fake, 8, 3)
    steps(one, fake, 60.0)
    begun, *entries = audit(tmp_path)
    turns = [entry for entry in entries if "turn" in entry]
    assert any("doing" in entry for entry in entries)
    assert begun["options"]["objective"] == "jct"
    assert PolicyOptions(**begun["options"]) == mode.options
    for turn in turns:
        assert decide_again(["--state", str(tmp_path / turn["round"]), *words]) == 0
        told = capsys.readouterr().out
        assert hashlib.sha256(told.encode()).hexdigest() == turn["decision"]


def test_a_job_that_ended_unseen_is_not_stopped(tmp_path: Path) -> None:
    """The two jobs of the trial: they ended while slurmctld was away, and were requeued behind."""
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake)
    ends = fake.submit(8, 40.0, "morph checkpoint seconds=4000")
    steps(one, fake, 30.0)
    assert ends.state == "RUNNING"
    fake.away(30.0)
    fake.submit(8, 5.0, "morph seconds=5")
    steps(one, fake, 60.0)
    assert ends.state == "COMPLETED"
    assert ends.restarts == ends.ran_again == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [("squeue", "Failed while looking for jobs"), ("sinfo", "Unspecified error")],
)
def test_a_list_that_could_not_be_made_is_no_empty_cluster(
    tmp_path: Path, command: str, said: str
) -> None:
    """slurmctld goes between two commands of a look: 22.05 prints a list all the same."""
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake)
    jobs = submitted(fake, 4, 3)
    steps(one, fake, 10.0)
    before = len(audit(tmp_path))
    fake.unlisted = command
    with pytest.raises(AwayError, match=f"{command} --json: {said}"):
        one.step()
    steps(one, fake, 20.0)
    assert len(audit(tmp_path)) == before
    assert one.memory.away_s == fake.now_s - 1.0
    with pytest.raises(InputError, match=f"slurmctld: does not answer: {command} --json: {said}"):
        controller(tmp_path / "other", fake, Mode(OBSERVE)).run(1, False)
    fake.unlisted = ""
    finish(one, fake, jobs)
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert one.memory.ran_again == 0


def test_a_job_that_is_about_to_end_is_not_stopped(tmp_path: Path) -> None:
    """What it could be worth is less than a restart, and it may have ended before it is known.

    One that runs beyond what was said of it is of no known end.
    """
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake, interval_s=2.0)
    job = fake.submit(8, 300.0, "morph checkpoint seconds=60")
    said = f"left alone {job.id}: by its word it is about to end, or has ended"
    found = []
    for _ in range(4):
        steps(one, fake, 30.0)
        found.append(said in (tmp_path / "status.txt").read_text())
        steps(one, fake, 0.5)
    assert found == [False, True, True, True]


def test_a_job_whose_slurmd_takes_no_connection_is_not_stopped(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    with socket.create_server(("127.0.0.1", 0)) as door:
        fake.doors["n1"] = door.getsockname()[1]
    one = controller(tmp_path, fake)
    long = fake.submit(8, 900.0, "morph checkpoint seconds=900")
    steps(one, fake, 20.0)
    fake.submit(8, 10.0, "morph seconds=10")
    steps(one, fake, 10.0)
    assert long.restarts == 0
    assert {r["why"] for r in commands(tmp_path, "postponed") if r["kind"] == "stop"} == {
        "slurmd of n1 takes no connection"
    }
    with socket.create_server(("127.0.0.1", fake.doors["n1"])):
        steps(one, fake, 70.0)
    assert long.restarts == 1


def test_a_job_that_slurm_starts_meanwhile_is_not_resized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that a job is to start on are, to one that runs there, those that it is to keep."""
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake)
    do = one.scheduler.do

    def late(command: Command) -> None:
        fake.advance(0.5)
        do(command)

    monkeypatch.setattr(one.scheduler, "do", late)
    jobs = []
    for seed in range(3):
        jobs += submitted(fake, 3, seed)
        one.step()
        steps(one, fake, 20.0)
    assert commands(tmp_path, "refused"), "some were to be started that ran by then"
    finish(one, fake, jobs)
    assert {(job.state, job.resized) for job in jobs} == {("COMPLETED", 0)}


def test_jobs_that_are_not_shown_keep_their_gpus(tmp_path: Path) -> None:
    fake = FakeSlurm(2)
    hidden = fake.submit(4, 400.0, foreign=True)
    fake.hidden.add(hidden.id)
    fake.advance(1.0)
    one = controller(tmp_path, fake)
    jobs = submitted(fake, 6, 4)
    steps(one, fake, 60.0)
    assert not [record for record in commands(tmp_path) if record["kind"] == "stop"]
    finish(one, fake, jobs)
    assert {job.state for job in jobs} == {"COMPLETED"}


def test_a_restart_waits_until_the_end_is_settled(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake)
    first = fake.submit(8, 500.0, "morph checkpoint seconds=500")
    steps(one, fake, 20.0, 0.5)
    jobs = [first, fake.submit(8, 10.0, "morph seconds=10")]
    finish(one, fake, jobs)
    assert first.restarts == 1
    assert {job.state for job in jobs} == {"COMPLETED"}  # not FAILED: credential revoked


def test_jobs_start_after_the_controller_is_killed(tmp_path: Path) -> None:
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake, park_s=60.0)
    jobs = submitted(fake, 6, 6)
    steps(one, fake, 10.0)
    one.folder.close()  # killed: no lease is given back, nothing is released
    fake.advance(1500.0)
    assert {job.state for job in jobs} == {"COMPLETED"}


def test_release_all_leaves_no_mark(tmp_path: Path) -> None:
    for powers in (ALL, frozenset(("order",))):
        fake = FakeSlurm(1)
        folder = tmp_path / str(len(powers))
        one = controller(folder, fake, powers=powers)
        jobs = submitted(fake, 6, 6)
        steps(one, fake, 10.0)
        assert any(job.mark for job in jobs)
        one.close()
        slurm = Slurm(settings(), fake, fake.clock, fake.sleep)
        assert release_all(slurm, folder, 10**6) == (0, [])
        done, refused = release_all(slurm, folder, None)
        assert done
        assert refused == []
        assert not any(job.mark or job.pinned for job in jobs)
        assert all(job.begin_s <= fake.now_s for job in jobs)


def test_two_controllers(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path / "a", fake)
    with pytest.raises(InputError, match=r"another controller works in this folder"):
        controller(tmp_path / "a", fake)
    with pytest.raises(InputError, match=r"lease: another controller .* has it for 1\d\d s more"):
        controller(tmp_path / "b", fake)
    submitted(fake, 4, 1)
    fake.jobs[1].mark = f"lease:elsewhere:1@{fake.now_s + 100:.0f}"  # taken while we slept
    steps(one, fake, 5.0)
    assert not commands(tmp_path / "a")
    held = {r["why"] for r in commands(tmp_path / "a", "postponed")}
    assert held
    assert all("another controller (elsewhere:1) has it" in why for why in held)
    one.close()
    assert fake.jobs[1].state == "PENDING", "another's lease is not ours to give"


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "held"])
def test_a_job_of_a_user_that_is_named_like_the_lease_changes_nothing(
    tmp_path: Path, state: str
) -> None:
    """Whether it runs, waits or is held, before ours or after it: all others are decided."""
    fake = FakeSlurm(3)
    first = fake.submit(1, 1e6, name=LEASE_NAME, user="mallory")
    first.priority = 0.0 if state == "held" else first.priority
    if state == "RUNNING":
        fake.advance(2.0)
        assert first.state == "RUNNING"
    before = (first.mark, first.priority, first.comment)
    one = controller(tmp_path, fake)
    jobs = submitted(fake, 4, 3)
    finish(one, fake, jobs)
    assert all(job.state == "COMPLETED" for job in jobs)
    assert commands(tmp_path)
    assert (first.mark, first.priority, first.comment) == before
    one.close()
    assert first.state in ("RUNNING", "PENDING")


def test_the_lease_of_another_operator_counts(tmp_path: Path) -> None:
    """Of another user, with a mark that operators alone can write."""
    fake = FakeSlurm(1)
    other = fake.submit(0, 1.0, name=LEASE_NAME, user="slurm")
    other.priority, other.mark = 0.0, f"lease:elsewhere:1@{fake.now_s + 100:.0f}"
    with pytest.raises(InputError, match=r"lease: another controller \(elsewhere:1\) has it"):
        controller(tmp_path, fake)


def test_a_lease_that_slurmctld_forgot_is_taken_again(tmp_path: Path) -> None:
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake)
    fake.jobs[1].mark = f"lease:gone:1@{fake.now_s + 8:.0f}"  # as of before it was killed
    jobs = submitted(fake, 4, 3)
    steps(one, fake, 4.0)
    assert not commands(tmp_path)
    finish(one, fake, jobs)
    assert all(job.state == "COMPLETED" for job in jobs)
    assert commands(tmp_path)
    assert one.owner in fake.jobs[1].mark
    one.close()


def test_clocks_apart_do_nothing(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake)
    submitted(fake, 4, 1)
    fake.skew_s = 60.0
    steps(one, fake, 5.0)
    assert not commands(tmp_path)
    assert "clocks are" in commands(tmp_path, "postponed")[0]["why"]


def test_recorded_history_is_a_valid_run(tmp_path: Path) -> None:
    fake = FakeSlurm(2)
    one = controller(tmp_path, fake)
    jobs = submitted(fake, 8, 5)
    foreign = fake.submit(1, 30.0)
    finish(one, fake, [*jobs, foreign])
    write_run(tmp_path / "audit.jsonl", tmp_path / "run")
    jobs.append(foreign)
    run = read_run(tmp_path / "run")
    assert run.summary.completed == len(jobs)
    assert run.summary.rounds_over_capacity == 0
    assert run.summary.preemptions == sum(job.restarts for job in jobs)
    mean_s = sum(job.end_s - job.submit_s for job in jobs) / len(jobs)
    assert run.summary.avg_jct_s == pytest.approx(mean_s, abs=2.0)
    late = str(max(jobs, key=lambda job: job.first_start_s).id)
    said = "\n".join(why(tmp_path / "run", late, rounds=2))
    assert f"{late} was queued from 0.00 h" in said
    assert f"{late}: queue; " in said
    assert "took no part" in "\n".join(why(tmp_path / "run", str(foreign.id), rounds=2))
    shutil.rmtree(tmp_path / "run/rounds")
    assert "keep_rounds" in why(tmp_path / "run", late, rounds=2)[-1]
    (tmp_path / "bad.jsonl").write_text('{"turn": 1}\n')
    with pytest.raises(InputError, match="holds no turns"):
        write_run(tmp_path / "bad.jsonl", tmp_path / "again")


def test_shapes_follow_a_table_and_reports_correct_it(tmp_path: Path) -> None:
    rows = [
        {
            "model": "net",
            "node_type": "a800-x8",
            "shape": str(n),
            "plan": "dp",
            "iteration_s": 8.0 / n,
        }
        for n in (1, 2, 4, 8)
    ]
    table = {"schema": "morph-opt/speeds/1", "rows": rows}
    (tmp_path / "speeds.json").write_text(json.dumps(table))
    (tmp_path / "reports").mkdir()
    more = {"speeds": "speeds.json", "reports": "reports", "folder": tmp_path}
    fake = FakeSlurm(1)
    one = controller(tmp_path / "a", fake, Mode("act", measured=True), **more)
    blocker = fake.submit(4, 60.0, "morph seconds=60")
    steps(one, fake, 3.0)
    job = fake.submit(8, 60.0, "morph checkpoint model=net iterations=60 plan=dp gpus=1-8")
    steps(one, fake, 10.0)
    assert job.gpus == 4  # it asked for 8 and would have waited
    (tmp_path / "reports" / f"{job.id}.json").write_text(
        json.dumps({"iterations_left": 40, "iteration_s": 2.5})
    )
    steps(one, fake, 70.0)
    assert [row.iteration_s for row in one.memory.measured if row.shape == "4"] == [2.5]
    finish(one, fake, [blocker, job])
    assert job.state == "COMPLETED"


def test_memory_is_read_back(tmp_path: Path) -> None:
    fake = FakeSlurm(1)
    one = controller(tmp_path, fake)
    submitted(fake, 3, 1)
    steps(one, fake, 20.0)
    one.close()
    again = read_memory(tmp_path)
    assert again.jobs == one.memory.jobs
    assert again.turns == one.memory.turns > 0


def test_late_jobs_are_said() -> None:
    entry = {
        **{"turn": 3, "waits": 1, "free_gpus": 0, "worth": 1.0, "status": "optimal"},
        **{"seconds": {}, "commands": [], "late": {"7": "waits for jobs that are due before it"}},
    }
    said = list(status_of(entry, ACT, "toy", 2, {}))
    assert said[-1] == "  late 7: it is due, and waits for jobs that are due before it"
