"""Acceptance and chaos beside a real Slurm: ``make live-test``, not part of the suite.

Every run submits jobs that write down when they start, stop and end, lets ``morph_opt.live act``
work beside Slurm, and does to both what the seed says: the controller is killed every 13 s,
slurmctld is away, a second controller tries to join, people submit, cancel and hold, nodes are
drained and stop answering, a command in ten is refused, some are late. Then it counts.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from morph_opt.domain import InputError
from morph_opt.round.live.slurm import slurm_round
from tests.live.real import RealSlurm, cluster, missing, until

KILL_EVERY_S = 13.0
LIMIT_S = 240.0
JOB = """#!/bin/bash
# Counts half seconds, keeps how many are left, and goes on there when it is requeued.
log={folder}/$1.log; left={folder}/$1.left
echo "start $(date +%s.%N) ${{SLURM_RESTART_COUNT:-0}} $SLURMD_NODENAME" >> $log
trap 'echo "stop $(date +%s.%N)" >> $log; exit 0' TERM
n=$(cat $left 2>/dev/null || echo $2)
while [ "$n" -gt 0 ]; do
  sleep 0.5 & wait $!
  n=$((n - 1)); echo $n > $left.new; mv $left.new $left
done
echo "end $(date +%s.%N)" >> $log
"""
REFUSE = """#!/bin/bash
# One change in ten is refused, one in ten is late.
case "$1" in update|requeue)
  [ $((RANDOM % 10)) = 0 ] && {{ echo "Requested operation is presently disabled" >&2; exit 1; }}
  [ $((RANDOM % 10)) = 0 ] && sleep 0.7;;
esac
exec {scontrol} "$@"
"""
SETTINGS = """partitions = ["gpu"]
powers = ["order", "placement", "shape", "stops"]
poll_s = 0.5
interval_s = 10
timeout_s = 5
lease_s = 15
restart_s = 2
minimum_run_s = 4
restarts_per_hour = 100
stops_per_hour = 1000
observe_turns = 1
park_s = 60
clock_s = 4
"""


@dataclass(slots=True)
class Counted:
    """What a run came to; everything from ``lost`` on must be 0.

    ``by_slurm`` are jobs that ran again after their end without a stop of ours: slurmctld was
    killed before it had written down that they had ended, and requeued them as of a failed node.
    ``unreached`` ended behind a stop that did not reach them, their slurmd having been killed.
    """

    jobs: int = 0
    restarts: int = 0
    commands: int = 0
    kills: int = 0
    by_slurm: int = 0
    unreached: int = 0
    lost: int = 0
    ran_again: int = 0
    touched: int = 0
    held_twice: int = 0
    not_held: int = 0
    left_marked: int = 0
    unlogged: int = 0
    second_joined: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return (self.lost + self.ran_again + self.touched + self.held_twice + self.not_held
                + self.left_marked + self.unlogged + self.second_joined)  # fmt: skip


class Run:
    """One run beside a cluster that is up."""

    def __init__(self, slurm: RealSlurm, folder: Path, seed: int, *, chaos: bool) -> None:
        self.slurm, self.folder, self.chaos = slurm, folder, chaos
        self.draw = random.Random(seed)
        self.out = Counted()
        for name in ("jobs", "bin"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "jobs").chmod(0o777)
        (folder / "job.sh").write_text(JOB.format(folder=folder / "jobs"))
        (folder / "live.toml").write_text(SETTINGS)
        real = shutil.which("scontrol", path=slurm.env["PATH"])
        (folder / "bin/scontrol").write_text(REFUSE.format(scontrol=real))
        (folder / "bin/scontrol").chmod(0o755)
        self.env = dict(slurm.env)
        if chaos:
            self.env["PATH"] = f"{folder / 'bin'}:{self.env['PATH']}"
        self.process: subprocess.Popen[bytes] | None = None
        self.logged, self.at_work_s = 0, 0.0
        self.mine: dict[str, str] = {}
        self.foreign: dict[str, dict[str, object]] = {}
        self.cancelled: set[str] = set()

    def submit(self, gpus: int, halves: int, comment: str, *more: str, nodes: int = 1) -> str:
        """A job of the user nobody; returns its number."""
        tag = f"j{self.draw.randrange(10**9)}"
        shape = [f"--gpus-per-node={gpus // nodes}", f"-N{nodes}"] if nodes > 1 else [
            f"--gpus={gpus}"]  # fmt: skip
        conf = f"SLURM_CONF={self.slurm.env['SLURM_CONF']}"
        words = ["sbatch", "--parsable", "--requeue", f"--comment={comment}", "--output=/dev/null"]
        words += ["--chdir=/", *shape, *more, str(self.folder / "job.sh"), tag, str(halves)]
        job = self.slurm.run("runuser", "-u", "nobody", "--", "env", conf, *words).strip()
        self.mine[job] = tag
        return job

    def some(self, count: int) -> None:
        """Jobs of 2 to 16 GPUs and 2 to 30 seconds; some end between a look and an act."""
        for _ in range(count):
            gpus = self.draw.choice([2, 4, 8, 8, 16, 16])
            halves = self.draw.randint(4, 60)
            words = f"morph checkpoint seconds={halves / 2 + 1:.0f}"
            self.submit(gpus, halves, words, "-p", "gpu", nodes=2 if gpus == 16 else 1)

    def rows(self) -> dict[str, dict[str, object]]:
        """Records of squeue by job; none while slurmctld is away."""
        try:
            text = self.slurm.run("squeue", "--json", timeout=8.0, check=False)
            return {str(row["job_id"]): row for row in json.loads(text)["jobs"]}
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            return {}

    def control(self, word: str, name: str, *more: str) -> subprocess.Popen[bytes]:
        """Begin a controller."""
        yes = [] if word == "observe" else ["--yes"]
        words = [sys.executable, "-m", "morph_opt.live", word, *yes, *more]
        words += ["--config", str(self.folder / "live.toml"), "--folder", str(self.folder / name)]
        with (self.folder / f"{name}.err").open("ab") as err:
            return subprocess.Popen(words, env=self.env, stdout=err, stderr=err)

    def alive(self) -> None:
        """Begin the controller again where it has ended: the lease of a killed one runs out."""
        if self.process is None or self.process.poll() is not None:
            self.process = self.control("act", "live")
            self.logged, self.at_work_s = self.audit.stat().st_size, 0.0

    @property
    def audit(self) -> Path:
        """The log of the controller."""
        return self.folder / "live/audit.jsonl"

    def at_work(self) -> float:
        """Seconds since the controller's first turn; a busy machine is slow to begin one."""
        if not self.at_work_s and self.audit.stat().st_size > self.logged:
            self.at_work_s = time.monotonic()
        return time.monotonic() - self.at_work_s if self.at_work_s else 0.0

    def kill(self) -> None:
        """End the controller as nothing else does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def run(self) -> Counted:
        """The whole run."""
        self.watched()
        self.foreigners()
        self.some(16)
        held = self.submit(2, 8, "morph checkpoint seconds=5", "-p", "gpu", "--hold")
        gone = self.submit(8, 60, "morph checkpoint seconds=31", "-p", "gpu")
        began_s = time.monotonic()
        plan = self.plan()
        while time.monotonic() - began_s < LIMIT_S:
            self.alive()
            self.sample()
            now_s = time.monotonic() - began_s
            if self.chaos and self.at_work() > KILL_EVERY_S:
                self.kill()
                self.out.kills += 1
            while plan and plan[0][0] <= now_s:
                at_s, what = plan.pop(0)
                if what == "second" and not 2.0 < self.at_work() < 8.0:
                    # It may take over from one that is gone; it is to meet one that is at work.
                    plan = sorted([*plan, (at_s + 2.0, what)])
                    break
                self.happen(what, gone)
            if not plan and self.over({held}):
                break
            time.sleep(0.5)
        state = self.rows().get(held, {}).get("job_state")
        self.out.not_held += state != "PENDING"
        with suppress(RuntimeError):
            self.slurm.run("scontrol", "release", held)
        with suppress(TimeoutError):
            until("the last job", lambda: self.alive() or self.over(set()), 90.0)
        self.finish()
        self.count()
        return self.out

    def watched(self) -> None:
        """Observe a turn, which acting asks for; the machine may be busy."""
        for _ in range(5):
            self.control("observe", "live", "--turns", "1").wait(120)
            if self.audit.exists():
                return
        raise RuntimeError((self.folder / "live.err").read_text()[-300:])

    def foreigners(self) -> None:
        for where in (("-p", "gpu"), ("-p", "other"), ("-p", "gpu", "--nice=5")):
            comment = "morph" if where[1] == "other" else "ours"
            job = self.submit(self.draw.choice([1, 4]), self.draw.randint(20, 80), comment, *where)
            self.foreign[job] = {}
        time.sleep(1.5)
        rows = self.rows()
        for job in self.foreign:
            self.foreign[job] = self.facts(rows.get(job, {}))

    @staticmethod
    def facts(row: dict[str, object]) -> dict[str, object]:
        # Slurm itself requeues jobs of nodes that it takes to have failed.
        names = ("admin_comment", "required_nodes", "priority", "comment")
        return {name: row.get(name) for name in names}

    def plan(self) -> list[tuple[float, str]]:
        """When what happens, in seconds."""
        kinds = ["more", "cancel", "more"]
        if self.chaos:
            kinds += ["away", "drain", "silent", "second", "more", "resume", "answer"]
        at = sorted(self.draw.uniform(3.0, 45.0) for _ in kinds)
        order = kinds[:]
        self.draw.shuffle(order)
        for early, late in (("drain", "resume"), ("silent", "answer")):
            if early in order and order.index(early) > order.index(late):
                i, k = order.index(early), order.index(late)
                order[i], order[k] = order[k], order[i]
        return list(zip(at, order, strict=True))

    def happen(self, what: str, gone: str) -> None:
        """Do one of the things of the plan."""
        slurm = self.slurm
        with suppress(RuntimeError, subprocess.TimeoutExpired, TimeoutError):
            if what == "more":
                self.some(4)
            elif what == "cancel":
                self.cancelled.add(gone)
                slurm.run("runuser", "-u", "nobody", "--", "scancel", gone)
            elif what == "away":
                slurm.stop_controller(self.draw.choice([signal.SIGKILL, signal.SIGTERM]))
                time.sleep(self.draw.uniform(5.0, 15.0))
                slurm.start_controller()
                until("slurmctld", lambda: "UP" in slurm.run("scontrol", "ping", check=False))
            elif what == "drain":
                slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=disk")
            elif what == "resume":
                slurm.run("scontrol", "update", "NodeName=n3", "State=RESUME")
            elif what == "silent":
                slurm.stop_node(5)
            elif what == "answer":
                slurm.start_node(5)
            elif what == "second":
                (self.folder / "second").mkdir(exist_ok=True)
                shutil.copy(self.folder / "live/jobs.json", self.folder / "second")
                second = self.control("act", "second", "--turns", "1")
                second.wait(60)
                said = (self.folder / "second.err").read_text()
                if second.returncode == 0:
                    self.out.second_joined += 1
                self.out.notes.append(said.strip()[-120:])

    def sample(self) -> None:
        """No GPU is held twice, by the reader that refuses such a picture."""
        with suppress(Exception):
            nodes = json.loads(self.slurm.run("sinfo", "--json", timeout=8.0))
            jobs = json.loads(self.slurm.run("squeue", "--json", timeout=8.0))
            try:
                slurm_round([("squeue", jobs), ("sinfo", nodes)])
            except InputError as error:
                if "another's" in str(error):
                    self.out.held_twice += 1

    def over(self, but: set[str]) -> bool:
        """Whether all jobs but some are over."""
        rows = self.rows()
        if not rows:
            return False
        alive = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        waits = {job for job, row in rows.items() if str(row["job_state"]) in alive}
        return not (waits & self.mine.keys()) - but

    def finish(self) -> None:
        """End the controller, and give back what is marked."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            self.kill()
        self.env = dict(self.slurm.env)
        self.control("release-all", "live").wait(60)

    def count(self) -> None:
        """What became of every job."""
        out, rows = self.out, self.rows()
        out.jobs = len(self.mine)
        for job, tag in self.mine.items():
            row = rows.get(job, {})
            file = self.folder / "jobs" / f"{tag}.log"
            lines = file.read_text().splitlines() if file.exists() else []
            words = [line.split()[0] for line in lines]
            ended = words.index("end") if "end" in words else None
            if ended is not None and "start" in words[ended:]:
                kind = self.blame(job, float(lines[ended].split()[1]))
                setattr(self.out, kind, getattr(self.out, kind) + 1)
                out.notes.append(f"job {job} ran again, {kind}: {lines}")
            if job in self.cancelled:
                continue
            if ended is None or row.get("job_state") != "COMPLETED":
                out.lost += 1
                out.notes.append(
                    f"job {job} {row.get('job_state')} {row.get('state_reason')}: {words}"
                )
            out.restarts += int(str(row.get("restart_cnt") or 0))
            mark = str(row.get("admin_comment") or "")
            out.left_marked += mark.startswith("morph:") and row.get("job_state") == "PENDING"
        for job, before in self.foreign.items():
            if self.facts(rows.get(job, {})) != before:
                out.touched += 1
                out.notes.append(f"foreign {job}: {before} {self.facts(rows.get(job, {}))}")
        self.count_commands(rows)

    def blame(self, job: str, end_s: float) -> str:
        """Why a job ran again that ended at an instant."""
        stops_s = [0.0]
        for line in self.audit.read_text().splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if f"scontrol requeue Incomplete {job}" in entry.get("commands", ()):
                    stops_s.append(entry["clock_s"])
        if len(stops_s) == 1:
            return "by_slurm"
        return "ran_again" if max(stops_s) > end_s else "unreached"

    def count_commands(self, rows: dict[str, dict[str, object]]) -> None:
        """Every job with our mark has its command in the log."""
        logs = (self.folder / name / "audit.jsonl" for name in ("live", "second"))
        lines = [line for log in logs if log.exists() for line in log.read_text().splitlines()]
        done: set[str] = set()
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if "doing" in entry:
                    said = " ".join(entry["commands"])
                    done |= set(re.findall(r"(?:JobId=|Incomplete )([0-9]+)", said))
                else:
                    did = [one["outcome"] == "did" for one in entry.get("commands", ())]
                    self.out.commands += sum(did)
        for job, row in rows.items():
            marked = re.match("morph:", str(row.get("admin_comment") or ""))
            if job in self.mine and marked and job not in done:
                self.out.unlogged += 1
                self.out.notes.append(f"job {job} is marked, the log has no command for it")


def record(path: Path, row: dict[str, object]) -> None:
    """Add a row to a CSV file, with a header where it is new."""
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, and fail where anything but 0 was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="chaos runs, after one without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="CSV", help="add a row for each run to it")
    given = parser.parse_args(arguments)
    lacks = missing()
    if lacks:
        print(f"live-test: {lacks}", file=sys.stderr)
        return 2
    faults = 0
    folder = Path(tempfile.mkdtemp(prefix="live-"))
    folder.chmod(0o755)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        for k in range(given.runs + 1):
            place = folder / f"run{k}"
            place.mkdir()
            with cluster(place / "slurm") as slurm:
                out = Run(slurm, place / "work", given.seed + k, chaos=k > 0).run()
            faults += out.faults
            kind = "chaos" if k else "acceptance"
            figures = {name: value for name, value in asdict(out).items() if name != "notes"}
            if given.record is not None:
                about = {"slurm": slurm.release, "run": kind, "seed": given.seed + k}
                record(given.record, about | figures)
            said = ", ".join(f"{name} {value}" for name, value in figures.items())
            print(f"{kind} seed {given.seed + k}: {said}", flush=True)
            for note in out.notes if out.faults else ():
                print(f"  {note}", flush=True)
    finally:
        if not faults:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
