"""CPU seconds of a turn, memory and log of a large cluster: ``python -m tests.live.scale``."""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from morph_opt.live.turn import ACT, Mode
from tests.live.fake import FakeSlurm
from tests.live.scene import OPEN, controller


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--jobs", type=int, default=1280)
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args(arguments)
    draw, fake = random.Random(1), FakeSlurm(given.nodes)
    took_s, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        one = controller(Path(folder), fake, Mode(ACT), restart_s=60.0, minimum_run_s=600.0)
        for _ in range(given.turns):
            alive = sum(not job.over for job in fake.jobs.values())
            for _ in range(given.jobs - alive):
                gpus, work_s = draw.choice([1, 1, 2, 4, 8]), draw.uniform(60.0, 7200.0)
                fake.submit(gpus, work_s, f"morph checkpoint seconds={work_s:.0f}")
            began_s = time.process_time()
            one.step()
            # What the pretended Slurm takes to answer is in it.
            took_s.append(time.process_time() - began_s)
            sizes.append((Path(folder) / "audit.jsonl").stat().st_size)
            fake.advance(60.0, 10.0)
        size = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
        last = (Path(folder) / "status.txt").read_text()
        while OPEN:
            OPEN.pop().folder.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"{given.nodes * 8} GPUs, {given.jobs} jobs: CPU of a turn median "
        f"{statistics.median(took_s[1:]):.2f} s, largest {max(took_s[1:]):.2f} s, first "
        f"{took_s[0]:.2f} s; {peak:.0f} MiB; {size / 1024:.1f} KiB of log a turn, "
        f"{size * 1440 / 2**20:.1f} MiB a day of turns a minute"
    )
    print(last)
    return 0


if __name__ == "__main__":
    sys.exit(main())
