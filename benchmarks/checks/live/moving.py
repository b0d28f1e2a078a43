"""Moves carried out beside a real Slurm: ``python -m benchmarks.checks.live.moving``.

Every run fills eight nodes with jobs that leave one to three GPUs free on each; some are of others
or report nothing. Then a job of a whole node waits, a node is to be drained or one is to be free.
``moves`` answers on the round that ``live observe`` wrote, and ``live act --moves`` carries it out.
Under chaos the controller is killed three times, one command in ten is refused, some are late,
slurmctld is away in half of the runs, and a user cancels one of the jobs. Counted is as
`benchmarks.checks.live.chaos` does, and whether what was asked for came to be.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.checks.live.chaos import KILL_EVERY_S, LIMIT_S, Run
from benchmarks.checks.live.counted import Counted, record
from benchmarks.checks.live.real import GPUS, NODES, cluster, missing, until
from morph_opt.core.commandline.parser import LineParser

KINDS = ("start", "drain", "free")
FRAGMENTS = ((4, 2), (4, 1), (2, 2, 1), (4, 2, 1), (2, 2, 2), (4, 1, 1))
"""GPUs of the jobs on a node of 8."""
GIVE_UP_S, KILLS = 60, 3


class MovingRun(Run):
    """One answer, carried out."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.drained: list[str] = []

    def ask(self, kind: str) -> str:
        """Fill the nodes and write an answer; return the job or node that it is about."""
        self.watched()
        for node in range(1, NODES + 1):
            for gpus in self.draw.choice(FRAGMENTS):
                ours, reports = self.draw.random() < 0.9, self.draw.random() < 0.9
                halves = self.draw.randint(500, 700)
                comment = f"morph checkpoint seconds={halves / 2 + 1:.0f}" if ours else "ours"
                where = ("-p", "gpu", "-w", f"n{node}", "-N1")
                job = self.submit(gpus, halves, comment, *where, reports=ours and reports)
                if not ours:
                    self.foreign[job] = {}
        until("every job to run", self._all_run, 120.0)
        rows = self.rows()
        self.foreign = {job: self.facts(rows[job]) for job in self.foreign}
        about = f"n{self.draw.randint(1, NODES)}"
        words = ["--free", f"1 x {GPUS} GPUs in one node"]
        if kind == "start":
            about = self.submit(GPUS, 20, "morph seconds=11", "-p", "gpu", "-N1", reports=False)
            words = ["--start", about]
        elif kind == "drain":
            self.slurm.run("scontrol", "update", f"NodeName={about}", "State=DRAIN", "Reason=disk")
            self.drained.append(about)
            words = ["--drain", about]
        time.sleep(12.0)  # least run time, and a first report of each
        self.control("observe", "live", "--turns", "1").wait(120)
        words += ["--state", str(self.folder / "live/round.json"), "--format", "json"]
        found = subprocess.run(
            [sys.executable, "-m", "morph_opt.moves", *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        (self.folder / "answer.json").write_text(found.stdout)
        if found.returncode or not json.loads(found.stdout)["steps"]:
            self.out.notes.append((found.stderr or found.stdout)[:300])
            return ""
        return about

    def _all_run(self) -> bool:
        rows = self.rows()
        return all(rows.get(job, {}).get("job_state") == "RUNNING" for job in self.mine)

    def alive(self) -> None:
        """Begin the controller again where it was killed, or found the lease of the killed one."""
        if self.process is None or self.process.poll() not in (None, 0, 1):
            words = ["--moves", str(self.folder / "answer.json"), "--give-up-s", str(GIVE_UP_S)]
            self.process = self.control("act", "live", *words)
            self.logged, self.at_work_s = self.audit.stat().st_size, 0.0

    @property
    def moved(self) -> bool:
        """Whether the controller has ended by itself."""
        return self.process is not None and self.process.poll() in (0, 1)

    def carried_out(self, kind: str) -> dict[str, object]:
        """Carry out an answer, and return what came of it; the jobs end afterwards."""
        about, began_s = self.ask(kind), time.monotonic()
        steps: list[dict[str, object]] = []
        reached = False
        if about:
            steps = json.loads((self.folder / "answer.json").read_text())["steps"]
            began_s = time.monotonic()
            self._until_over(began_s, str(steps[0]["job"]))
            reached = self._reached(kind, about)
        took_s = time.monotonic() - began_s
        for node in self.drained:
            self.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        with suppress(TimeoutError):
            until("the last job", lambda: self.slurm.controller_up() and self.over(set()), 420.0)
        self.finish()
        self.count()
        return {"steps": len(steps), "reached": reached, "took_s": round(took_s, 1)}

    def _until_over(self, began_s: float, victim: str) -> None:
        """Let the controller work, under chaos with faults."""
        # A slurmctld that was killed keeps older jobs from being stopped (`Settings.boot_s`).
        away = [(self.draw.uniform(20.0, 60.0), "away")] if self.draw.random() < 0.5 else []
        plan = sorted([*away, (self.draw.uniform(2.0, 60.0), "cancel")]) if self.chaos else []
        while not self.moved and time.monotonic() - began_s < LIMIT_S:
            self.alive()
            self.slurm.controller_up()
            self.sample()
            if self.chaos and self.at_work() > KILL_EVERY_S and self.out.kills < KILLS:
                self.kill()
                self.out.kills += 1
            while plan and plan[0][0] <= time.monotonic() - began_s:
                self.happen(plan.pop(0)[1], victim)
            time.sleep(0.5)

    def _reached(self, kind: str, about: str) -> bool:
        """Whether the job ran, or the node or one of them is empty."""
        if kind == "start":
            return bool(self.told(self.mine[about]))
        rows = self.rows()
        busy = {str(row.get("nodes")) for row in rows.values() if row["job_state"] == "RUNNING"}
        free = {f"n{at}" for at in range(1, NODES + 1)} - busy
        return about in free if kind == "drain" else bool(free)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, and fail for any fault, or if a run without faults falls short."""
    parser = LineParser(prog="python -m benchmarks.checks.live.moving", description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--chaos", action="store_true", help="with faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="CSV", help="add a row for each run to it")
    given = parser.parse_args(arguments)
    if lacks := missing():
        print(f"live-test: {lacks}", file=sys.stderr)
        return 2
    faults = 0
    folder = Path(tempfile.mkdtemp(prefix="moving-"))
    folder.chmod(0o755)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        for k in range(given.runs):
            place, kind, chaos = folder / f"run{k}", KINDS[k % len(KINDS)], given.chaos
            place.mkdir()
            with cluster(place / "slurm") as slurm:
                run = MovingRun(slurm, place / "work", given.seed + k, chaos=chaos)
                came = run.carried_out(kind)
            out: Counted = run.out
            faults += out.faults + (not chaos and bool(came["steps"]) and not came["reached"])
            figures = {name: value for name, value in asdict(out).items() if name != "notes"}
            about = {"slurm": slurm.release, "asked": kind, "chaos": chaos, "seed": given.seed + k}
            row = about | came | figures
            if given.record is not None:
                record(given.record, row)
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            for note in out.notes:
                print(f"  {note}", flush=True)
            print(f"  {(run.folder / 'live.err').read_text()[-500:]}", flush=True)
    finally:
        if not faults:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
