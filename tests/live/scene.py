"""A controller beside a pretended Slurm, and what must hold whatever happens."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from morph_opt.live.scheduler import AwayError
from morph_opt.live.settings import Settings
from morph_opt.live.slurm import Slurm
from morph_opt.live.turn import ACT, Controller, Mode
from tests.live.fake import EPOCH_S, FakeJob, FakeSlurm

OPEN: list[Controller] = []
"""Controllers whose folders a test has locked."""
ALL = frozenset(("order", "placement", "shape", "stops"))


def settings(**more: Any) -> Settings:
    known = {
        "partitions": ("gpu",),
        "powers": ALL,
        "observe_turns": 0,
        "minimum_run_s": 5.0,
        "restart_s": 5.0,
        "stops_per_hour": 1000,
        "stop_needs": "word",
    }
    return Settings(**{**known, **more})


def controller(path: Path, fake: FakeSlurm, mode: Mode | None = None, **more: Any) -> Controller:
    own = settings(**more)
    slurm = Slurm(own, fake, fake.clock, fake.sleep)
    found = Controller(slurm, own, mode or Mode(ACT), path)
    OPEN.append(found)
    return found


def steps(one: Controller, fake: FakeSlurm, seconds: float, every_s: float = 1.0) -> None:
    """Let the controller look again and again."""
    end_s = fake.now_s + seconds
    while fake.now_s < end_s:
        with suppress(AwayError):
            one.step()
        fake.sleep(every_s)


def finish(one: Controller, fake: FakeSlurm, jobs: list[FakeJob], limit_s: float = 8000.0) -> None:
    """Until all jobs are over, and the controller has seen it."""
    end_s = fake.now_s + limit_s
    while not all(job.over and job.state != "RUNNING" for job in jobs) and fake.now_s < end_s:
        steps(one, fake, 5.0)
    steps(one, fake, 15.0)


def submitted(fake: FakeSlurm, count: int, seed: int, words: str = "checkpoint") -> list[FakeJob]:
    """Jobs of 1 to 16 GPUs and 20 to 200 seconds."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        gpus, work_s = draw.choice([1, 2, 4, 8, 16]), draw.uniform(20.0, 200.0)
        more = {"nodes": 2} if gpus == 16 else {}
        found.append(fake.submit(gpus, work_s, f"morph {words} seconds={work_s:.0f}", **more))
    return found


def audit(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def commands(folder: Path, outcome: str = "did") -> list[dict[str, Any]]:
    """Records of commands with an outcome."""
    turns = [entry for entry in audit(folder) if "turn" in entry]
    return [one for turn in turns for one in turn["commands"] if one["outcome"] == outcome]


__all__ = ["ALL", "EPOCH_S", "OPEN", "audit", "commands", "controller", "settings", "steps"]
