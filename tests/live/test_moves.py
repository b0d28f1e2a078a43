"""Answers of `moves` carried out by the controller next to a pretended Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError
from morph_opt.live.moving import Moving
from morph_opt.live.turn import ACT, ADVISE, Mode
from tests.live.fake import FakeJob, FakeSlurm
from tests.live.scene import audit, controller, steps

WHERE = {"n1": (4, 2, 1), "n2": (4, 2), "n3": (4, 2, 1)}
"""GPUs of the jobs on each node: another job of 4 fits after two moves."""


def scene(tmp_path: Path, **more: Any) -> tuple[FakeSlurm, FakeJob, Path]:
    """Return a full Slurm, the job that waits, and the answer that lets it start."""
    fake = FakeSlurm(3, backfill=False, **more)
    for node, sizes in WHERE.items():
        for gpus in sizes:
            fake.submit(gpus, 900.0, "morph checkpoint seconds=900", pinned=[node])
    fake.advance(10.0)
    new = fake.submit(4, 60.0, "morph seconds=60", nodes=1)
    looks = controller(tmp_path / "look", fake, Mode(ADVISE))
    looks.step()
    looks.close()
    answer = mo.moves(tmp_path / "look/round.json", start=str(new.id))
    assert answer.moved == 2
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(answer.to_json()))
    return fake, new, file


def carried_out(tmp_path: Path, fake: FakeSlurm, file: Path) -> Moving:
    """Let a controller act until it is over; it is killed and begun anew every 20 s."""
    moves = Moving.read(file, 600.0)
    for at in range(40):
        one = controller(tmp_path / "act", fake, Mode(ACT, moves=moves))
        steps(one, fake, 20.0)
        one.folder.close()
        fake.sleep(one.settings.lease_s)
        if moves.over:
            break
        moves = Moving.read(file, 600.0)
        assert at < 39
    return moves


@pytest.mark.parametrize(("seed", "refuse"), [(1, 0.0), (2, 0.2)])
def test_steps_are_carried_out_whatever_is_refused_or_killed(
    tmp_path: Path, seed: int, refuse: float
) -> None:
    fake, new, file = scene(tmp_path, seed=seed)
    fake.refuse = refuse
    foreign = fake.submit(8, 60.0, "ours", foreign=True, nodes=1)
    moves = carried_out(tmp_path, fake, file)
    assert moves.done
    assert new.first_start_s
    assert [job.restarts for job in fake.jobs.values() if job.restarts] == [1, 1]
    assert not any(job.ran_again for job in fake.jobs.values())
    assert not fake.touched
    assert foreign.state == "PENDING"
    *_, last = (entry for entry in audit(tmp_path / "act") if "turn" in entry)
    assert {one["standing"] for one in last["moves"]["steps"]} == {"done"}


def test_no_job_is_stopped_for_a_job_that_is_gone(tmp_path: Path) -> None:
    fake, new, file = scene(tmp_path)
    fake._finish(new, "CANCELLED", fake.now_s)
    moves = carried_out(tmp_path, fake, file)
    assert not moves.done
    assert [one.word for one in moves.standings] == ["dropped"] * 3
    assert f"{new.id}, which is to start, is gone" in moves.standings[0].why
    assert not any(job.restarts for job in fake.jobs.values())


def test_moves_give_up_with_the_reason(tmp_path: Path) -> None:
    fake, _, file = scene(tmp_path)
    moves = Moving.read(file, 100.0)
    one = controller(tmp_path / "act", fake, Mode(ACT, moves=moves), minimum_run_s=1e6)
    one.run(9, watch=False)
    assert moves.late
    said = list(moves.lines())
    assert said[0].endswith("0 of 3 steps are done, no progress for 100 s")
    assert "minimum_run" in said[1]
    assert not any(job.restarts for job in fake.jobs.values())


def test_powers_must_suffice(tmp_path: Path) -> None:
    fake, _, file = scene(tmp_path)
    mode = Mode(ACT, moves=Moving.read(file, 600.0))
    with pytest.raises(InputError, match="must name stops to carry out these moves"):
        controller(tmp_path / "act", fake, mode, powers=frozenset(("placement",)))
    file.write_text(file.read_text().replace('"steps": [', '"steps": [], "x": ['))
    with pytest.raises(InputError, match="has no steps"):
        Moving.read(file, 600.0)
