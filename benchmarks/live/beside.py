"""What each power is worth beside a real Slurm: the jobs of the comparison, many times as fast.

Restarts, cycles of Slurm, commands and turns take the seconds that they take, so that they weigh
more than beside jobs of hours.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.checks.live.chaos import Run
from benchmarks.checks.live.counted import runs_of
from benchmarks.checks.live.real import RealSlurm, cluster
from benchmarks.live.workload import (
    ARMS,
    PACE,
    REPORTED,
    RESTART_S,
    SCALING,
    SETTINGS,
    Drawn,
    drawn,
    speeds,
)

LIMIT_S = 900.0
BELIEFS = (REPORTED, "sigma 0.5", "unknown")
PARTS = (
    [(load, "exact", arm) for load in (0.8, 1.6) for arm in ("backfill", "FIFO", "+ stops")],
    [(1.6, belief, "+ stops") for belief in BELIEFS],
    [(load, "exact", "+ shape") for load in (0.8, 1.6)],
    [(1.6, belief, "+ shape") for belief in BELIEFS],
    [(load, "exact", arm) for load in (0.8, 1.6) for arm in ("order", "+ placement")],
)
"""Load, belief and who decides, what matters most first; Slurm's own orders know no beliefs."""
JOB = """#!/bin/bash
# Sleeps as long as its work takes on the GPUs that it holds; stopped, it keeps what is left, which
# it also reports each second, if $4 says so.
log={folder}/$1.log; left={folder}/$1.left; report={folder}/$SLURM_JOB_ID.json
speed="(($SLURM_GPUS_ON_NODE * $SLURM_JOB_NUM_NODES) / $3) ^ {scaling}"
work=$(cat $left 2>/dev/null || echo $2)
began=$EPOCHREALTIME
stop() {{
  trap '' TERM
  gone="($EPOCHREALTIME - $begun) * $speed"
  awk "BEGIN {{left = $work - $gone; print (left > 0 ? left : 0)}}" > $left
  echo "stop $EPOCHREALTIME" >> $log
  exit 0
}}
echo "start $began ${{SLURM_RESTART_COUNT:-0}} $SLURM_GPUS_ON_NODE $SLURM_JOB_NODELIST" >> $log
[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || sleep {start_up}
begun=$EPOCHREALTIME
reports() {{
  while sleep 1; do
    gone="($EPOCHREALTIME - $begun) * $speed"
    now=$(awk "BEGIN {{left = $work - $gone; print (left > 0 ? left : 0), 1 / $speed}}")
    printf '{{"iterations_left": %s, "iteration_s": %s}}' $now > $report.new
    mv $report.new $report
  done
}}
[ "$4" = True ] && reports &
trap stop TERM
sleep $(awk "BEGIN {{print $work / $speed}}") & wait $! || stop
kill %1
echo "end $EPOCHREALTIME" >> $log
"""


class Compared(Run):
    """A run of the comparison."""

    def __init__(self, slurm: RealSlurm, folder: Path, arm: str, belief: str) -> None:
        super().__init__(slurm, folder, 0, chaos=False)
        job = JOB.format(folder=folder / "jobs", scaling=SCALING, start_up=RESTART_S / PACE)
        (folder / "job.sh").write_text(job)
        (folder / "speeds.json").write_text(json.dumps(speeds()))
        self.reports = belief == REPORTED
        (folder / "live.toml").write_text("".join(_settings(arm, self.reports)))
        self.jobs: list[tuple[str, float]] = []

    def arrive(self, one: Drawn, number: int) -> None:
        """Submit a job."""
        words = ["sbatch", "--parsable", "--requeue", "--output=/dev/null", "--chdir=/"]
        words += ["-p", "gpu", f"--comment={one.words}", f"--time={one.limit_s / 60.0:.0f}"]
        words += [f"-N{one.nodes}", f"--gpus-per-node={one.gpus // one.nodes}"]
        words += [str(self.folder / "job.sh"), f"j{number}", f"{one.work_s:.2f}"]
        words += [str(one.gpus), str(self.reports)]
        at_s, conf = time.time(), f"SLURM_CONF={self.slurm.env['SLURM_CONF']}"
        job = self.slurm.run("runuser", "-u", "nobody", "--", "env", conf, *words).strip()
        self.mine[job] = f"j{number}"
        self.jobs.append((job, at_s))

    def complete(self, jobs: list[Drawn], *, acts: bool) -> None:
        """Let the jobs arrive, and wait for the last of them."""
        if acts:
            self.watched()
            self.process = self.control("act", "live")
            time.sleep(3.0)
        began_s = time.monotonic()
        try:
            for number, one in enumerate(jobs):
                time.sleep(max(0.0, began_s + one.at_s - time.monotonic()))
                self.arrive(one, number)
            while not self.over(set()):
                if time.monotonic() > began_s + LIMIT_S:
                    raise RuntimeError(f"not over: {self.rows()}")
                time.sleep(1.0)
        finally:
            if self.process is not None:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(30)

    def figures(self) -> dict[str, Any]:
        """Average completion time, and what else is to be known of the run."""
        rows, took_s, again = self.rows(), [], 0
        for job, at_s in self.jobs:
            lines = self.told(self.mine[job])
            kinds = [line.split()[0] for line in lines]
            if kinds[-1:] != ["end"] or rows[job]["job_state"] != "COMPLETED":
                raise RuntimeError(f"job {job} is {rows[job]['job_state']}: {lines}")
            again += kinds.count("end") - 1
            took_s.append(runs_of(lines)[-1][1] - at_s)
        log = self.audit.read_text().splitlines() if self.audit.exists() else []
        turns = [e for e in map(json.loads, log) if "turn" in e and self.process is not None]
        seconds = [sum(turn["seconds"].values()) for turn in turns]
        return {
            "jobs": len(took_s),
            "avg_jct_s": round(statistics.mean(took_s), 2),
            "restarts": sum(int(str(rows[job]["restart_cnt"] or 0)) for job, _ in self.jobs),
            "ran_again": again,
            "turns": len(turns),
            "turn_s": round(statistics.median(seconds), 3) if seconds else "",
            "slurm": self.slurm.release,
            "machine_load": round(os.getloadavg()[1], 1),
        }


def _settings(arm: str, reports: bool) -> Iterator[str]:
    """Lines of the settings: seconds are so many times fewer, but for what Slurm itself takes."""
    own = SETTINGS | {
        "restart_s": 5.0,
        "minimum_run_s": SETTINGS["minimum_run_s"] / PACE,
        "interval_s": 3.0,
        "poll_s": 0.5,
        "timeout_s": 5.0,
        "observe_turns": 1,
        "clock_s": 4.0,
        "park_s": 300.0,
        "partitions": ["gpu"],
        "powers": list(ARMS[arm]),
    }
    if reports:
        own |= {"stop_needs": "report", "reports": "jobs"}
    for name, value in own.items():
        yield f"{name} = {json.dumps(value)}\n"


def one_run(arm: str, seed: int, count: int, load: float, belief: str) -> dict[str, Any]:
    """A row of the table.

    Raises
    ------
    RuntimeError
        If a job is lost.
    """
    with tempfile.TemporaryDirectory(prefix="beside-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with cluster(folder / "slurm", backfill=arm != "FIFO") as slurm:
            run = Compared(slurm, folder / "work", arm, belief)
            run.complete(drawn(seed, count, load, belief, PACE), acts=bool(ARMS[arm]))
            row = {"load": load, "belief": belief, "who": arm, "seed": seed}
            return row | run.figures()


def rows_of(
    cells: Iterable[tuple[str, int, int, float, str]], lanes: int
) -> Iterator[dict[str, Any]]:
    """Rows of cells as they come, so many Slurms side by side; a run that fails is only named."""
    # A session of its own is what Linux gives a share of the processors to (autogroup).
    with ProcessPoolExecutor(lanes, initializer=os.setsid, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(one_run, *cell): cell for cell in cells}
        for done in as_completed(waiting):
            try:
                yield done.result()
            except (RuntimeError, TimeoutError, OSError, subprocess.SubprocessError) as error:
                print(f"{waiting[done]}: {str(error)[:2000]}", file=sys.stderr, flush=True)
