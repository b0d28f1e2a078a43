"""What each power is worth against Slurm's own orders, beside the pretended Slurm of the tests.

Its clock is not that of the machine: a real Slurm would take days for as many seeds. What Slurm it
pretends to be is in `tests.live.fake`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.live.workload import ARMS, RESTART_S, SCALING, SETTINGS, drawn, speeds
from morph_opt.live.turn import ACT, Mode
from tests.live.fake import FakeJob, FakeSlurm
from tests.live.scene import OPEN, controller

STEP_S, LIMIT_S = 2.0, 1e5


def average_jct_s(arm: str, seed: int, count: int, load: float, belief: str) -> float:
    """Average completion time of a run; every job must complete."""
    jobs = drawn(seed, count, load, belief)
    fake = FakeSlurm(8, backfill=arm != "FIFO", restart_s=RESTART_S)
    begin_s = fake.now_s
    done: list[FakeJob] = []
    with tempfile.TemporaryDirectory() as folder:
        one = None
        if ARMS[arm]:
            (Path(folder) / "speeds.json").write_text(json.dumps(speeds()))
            one = controller(
                Path(folder) / "live",
                fake,
                Mode(ACT),
                powers=frozenset(ARMS[arm]),
                folder=Path(folder),
                lease_s=1e4,
                **SETTINGS,
            )
        while jobs or not all(job.state == "COMPLETED" for job in done):
            while jobs and begin_s + jobs[0].at_s <= fake.now_s:
                new = jobs.pop(0)
                done.append(
                    fake.submit(
                        new.gpus,
                        new.work_s,
                        new.words,
                        nodes=new.nodes,
                        limit_s=new.limit_s,
                        scaling=SCALING,
                    )
                )
            if one is not None:
                one.step()
            fake.advance(STEP_S, 1.0)
            if fake.now_s > begin_s + LIMIT_S:
                raise RuntimeError(f"not over: {[j for j in done if j.state != 'COMPLETED']}")
        while OPEN:
            OPEN.pop().folder.close()
    if any(job.ran_again for job in done):
        raise RuntimeError("a job ran again after its end")
    return statistics.mean(job.end_s - job.submit_s for job in done)
