"""What each power is worth against Slurm's own orders: ``python -m tests.live.compare``.

Beside the pretended Slurm, whose clock is not that of the machine: real Slurm would take days for
as many seeds. Jobs, arrivals and time limits are drawn; a job restarts in 20 s where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from morph_opt.live.turn import ACT, Mode
from morph_opt.table import Table
from tests.live.fake import FakeJob, FakeSlurm
from tests.live.scene import OPEN, controller

SIZES = (1, 1, 2, 4, 8, 8, 16)
SCALING = 0.8
RESTART_S = 20.0
ARMS = {
    "order": ("order",), "+ placement": ("placement",), "+ shape": ("placement", "shape"),
    "+ stops": ("placement", "shape", "stops"),
}  # fmt: skip
T_975 = {4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}


def drawn(seed: int, count: int, load: float) -> list[tuple[float, int, float, float]]:
    """Arrival, GPUs, seconds and time limit of each job."""
    draw = random.Random(seed)
    at_s, found = 0.0, []
    mean_gpu_s = statistics.mean(SIZES) * 300.0 * math.exp(0.5 * 0.8**2)
    for _ in range(count):
        at_s += draw.expovariate(load * 64.0 / mean_gpu_s)
        work_s = min(3600.0, max(30.0, draw.lognormvariate(math.log(300.0), 0.8)))
        limit_s = 60.0 * math.ceil(work_s * draw.uniform(1.2, 4.0) / 60.0)
        found.append((at_s, draw.choice(SIZES), work_s, limit_s))
    return found


def words_of(gpus: int, work_s: float, belief: str, draw: random.Random, limit_s: float) -> str:
    """What the user says of a job."""
    said_s = {"exact": work_s, "unknown": limit_s}.get(belief) or work_s * draw.lognormvariate(
        0.0, 0.5
    )  # fmt: skip
    more = f"gpus={max(1, gpus // 2)}-{min(16, 2 * gpus)}"
    return f"morph checkpoint model=net{gpus} iterations={max(1, round(said_s))} plan=dp {more}"


def table() -> dict[str, Any]:
    """Speeds of the models: one iteration a second on what is asked for."""
    rows = []
    for asked in sorted(set(SIZES)):
        for gpus in (1, 2, 4, 8, 16):
            shape = str(gpus) if gpus <= 8 else "8+8"
            rows.append({"model": f"net{asked}", "node_type": "a800-x8", "shape": shape,
                         "plan": "dp", "iteration_s": (asked / gpus) ** SCALING})  # fmt: skip
    return {"schema": "morph-opt/speeds/1", "rows": rows}


def average_jct_s(arm: str, seed: int, count: int, load: float, belief: str) -> float:
    """Average completion time of a run; every job must complete."""
    jobs = drawn(seed, count, load)
    draw = random.Random(seed + 1000)
    fake = FakeSlurm(8, backfill=arm != "FIFO", restart_s=RESTART_S)
    begin_s, done = fake.now_s, []
    with tempfile.TemporaryDirectory() as folder:
        one = None
        if arm in ARMS:
            (Path(folder) / "speeds.json").write_text(json.dumps(table()))
            one = controller(
                Path(folder) / "live", fake, Mode(ACT), powers=frozenset(ARMS[arm]),
                speeds="speeds.json", folder=Path(folder), restart_s=RESTART_S, margin=1.5,
                minimum_run_s=120.0, restarts_per_hour=4, stops_per_turn=8, lease_s=1e4,
            )  # fmt: skip
        while jobs or not all(job.state == "COMPLETED" for job in done):
            while jobs and begin_s + jobs[0][0] <= fake.now_s:
                _, gpus, work_s, limit_s = jobs.pop(0)
                words = words_of(gpus, work_s, belief, draw, limit_s)
                nodes = 2 if gpus == 16 else 1
                done.append(
                    fake.submit(gpus, work_s, words, nodes=nodes, limit_s=limit_s, scaling=SCALING)
                )
            if one is not None:
                one.step()
            fake.advance(2.0, 1.0)
            assert fake.now_s < begin_s + 1e5, [job for job in done if job.state != "COMPLETED"]
        while OPEN:
            OPEN.pop().folder.close()
    assert not any(job.ran_again for job in done)
    ours: Sequence[FakeJob] = done
    return statistics.mean(job.end_s - job.submit_s for job in ours)


def against(values: Sequence[float], base: Sequence[float]) -> str:
    """Mean of the ratios less 1, in per cent, with a 95 % interval over seeds (Student's t)."""
    ratios = [100.0 * (value / other - 1.0) for value, other in zip(values, base, strict=True)]
    half = T_975[len(ratios)] * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return f"{statistics.mean(ratios):+.0f} ± {half:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table as Markdown, a row as soon as it is there on stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_975))
    parser.add_argument("--jobs", type=int, default=40)
    given = parser.parse_args(arguments)
    rows = []
    cases = [(0.8, "exact"), (1.6, "exact"), (1.6, "sigma 0.5"), (1.6, "unknown")]
    bases: dict[tuple[str, float], list[float]] = {}
    for load, belief in cases:
        for arm in ("FIFO", "backfill", *ARMS):
            known = bases.get((arm, load))
            values = known or [
                average_jct_s(arm, seed, given.jobs, load, belief) for seed in range(given.seeds)
            ]
            if arm not in ARMS:
                bases[arm, load] = values
            row = (
                f"{load:g}", belief, arm, f"{statistics.mean(values):.0f}",
                against(values, bases["backfill", load]) if arm != "FIFO" else "",
                against(values, bases["FIFO", load]),
            )  # fmt: skip
            print(*row, file=sys.stderr, flush=True)
            rows.append(row)
    header = ("load", "beliefs", "who decides", "average JCT, s", "vs backfill, %", "vs FIFO, %")
    print(Table(header, rows, align="rllrrr").to_markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
