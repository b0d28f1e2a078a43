"""The same jobs beside plain backfill and beside morph-opt, on a real Slurm: ``make live-demo``.

Both are watched by a controller; the one beside backfill only observes. What both logs say becomes
two run folders and one report.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.checks.live.chaos import Run
from benchmarks.checks.live.real import cluster, missing
from morph_opt.__main__ import main as command
from morph_opt.core.commandline.parser import LineParser


class Demo(Run):
    """Jobs that come over time, and one controller that nobody disturbs."""

    def show(self, word: str, jobs: int, spread_s: float) -> None:
        """Run the jobs beside a controller."""
        if word == "act":
            self.watched()
        watcher = self.control(word, "live", "--objective", "jct")
        began_s, draw = time.monotonic(), random.Random(7)
        arrivals = sorted(draw.uniform(0.0, spread_s) for _ in range(jobs))
        try:
            while arrivals or not self.over(set()):
                while arrivals and arrivals[0] <= time.monotonic() - began_s:
                    arrivals.pop(0)
                    gpus, halves = draw.choice([2, 4, 8, 8, 16, 32]), draw.randint(20, 160)
                    words = f"morph checkpoint seconds={halves / 2 + 2:.0f}"
                    limit = f"--time={1 + halves // 60}"
                    self.submit(gpus, halves, words, "-p", "gpu", limit, nodes=max(1, gpus // 8))
                time.sleep(0.5)
            time.sleep(5.0)
        finally:
            watcher.send_signal(signal.SIGTERM)
            try:
                watcher.wait(30)
            except subprocess.TimeoutExpired:
                watcher.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, write the report."""
    parser = LineParser(prog="python -m benchmarks.checks.live.demo", description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--spread-s", type=float, default=120.0, help="seconds of arrivals")
    parser.add_argument("--out", type=Path, default=Path("runs/live-demo"))
    given = parser.parse_args(arguments)
    if lacks := missing():
        print(f"live-demo: {lacks}", file=sys.stderr)
        return 2
    if given.out.exists():
        print(f"live-demo: {given.out} is there: name another --out", file=sys.stderr)
        return 2
    runs = []
    for name, word in (("backfill", "observe"), ("morph-opt", "act")):
        place = given.out.resolve() / f"{name}-work"
        place.mkdir(parents=True)
        print(f"{given.jobs} jobs beside {name} ...", flush=True)
        with cluster(place / "slurm") as slurm:
            Demo(slurm, place / "work", 1, chaos=False).show(word, given.jobs, given.spread_s)
        runs.append(given.out / name)
        log = place / "work/live/audit.jsonl"
        if command(["live", "replay", str(log), "--out", str(runs[-1])]):
            return 1
    shown = [str(run) for run in runs]
    command(["compare", *shown])
    return command(["report", *shown, "--out", str(given.out / "report.html")])


if __name__ == "__main__":
    sys.exit(main())
