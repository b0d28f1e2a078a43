"""CPU seconds of a turn, memory and log beside the pretended Slurm: jobs come as others end."""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from morph_opt.live.turn import ACT, Mode
from tests.live.fake import FakeSlurm
from tests.live.scene import OPEN, controller

SIZES = ((8, 60), (256, 1280))
"""Nodes of 8 GPUs, and jobs that run or wait."""
TURNS = 12
DAY_TURNS = 1440
ROOT = Path(__file__).resolve().parents[2]


def in_a_process(nodes: int, jobs: int) -> dict[str, Any]:
    """`measured` in a process of its own, whose memory is that of nothing else."""
    words = [sys.executable, "-m", "benchmarks.live.turns", str(nodes), str(jobs)]
    text = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(text)
    return found


def measured(nodes: int, jobs: int) -> dict[str, Any]:
    """Figures of turns a minute apart; what the pretended Slurm takes to answer is in them."""
    draw, fake = random.Random(1), FakeSlurm(nodes)
    took_s, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        one = controller(
            Path(folder), fake, Mode(ACT), restart_s=60.0, minimum_run_s=600.0, lease_s=1e4
        )
        for _ in range(TURNS):
            alive = sum(not job.over for job in fake.jobs.values())
            for _ in range(jobs - alive):
                gpus, work_s = draw.choice([1, 1, 2, 4, 8]), draw.uniform(60.0, 7200.0)
                fake.submit(gpus, work_s, f"morph checkpoint seconds={work_s:.0f}")
            began_s = time.process_time()
            one.step()
            took_s.append(time.process_time() - began_s)
            sizes.append((Path(folder) / "audit.jsonl").stat().st_size)
            fake.advance(60.0, 10.0)
        while OPEN:
            OPEN.pop().folder.close()
    log_bytes = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    return {
        "gpus": nodes * fake.size,
        "jobs": jobs,
        "first_cpu_s": round(took_s[0], 3),
        "median_cpu_s": round(statistics.median(took_s[1:]), 3),
        "largest_cpu_s": round(max(took_s[1:]), 3),
        "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0),
        "log_kib_a_turn": round(log_bytes / 1024.0, 1),
        "log_mib_a_day": round(log_bytes * DAY_TURNS / 2**20, 1),
    }


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
