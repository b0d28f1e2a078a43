"""Acceptance and chaos beside a real Slurm: ``make live-test``, not part of the suite.

Every run submits jobs that write down when they start, stop and end, lets ``morph_opt.live act``
work beside Slurm, and does to both what the seed says: the controller is killed every 13 s,
slurmctld or slurmdbd is away, a second controller tries to join, people submit, cancel and hold,
nodes are drained and stop answering, a command in ten is refused, some are late. Then it counts.
"""

from __future__ import annotations

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
from dataclasses import asdict
from pathlib import Path

from benchmarks.checks.live.accounting import SACCT, misread
from benchmarks.checks.live.counted import (
    Counted,
    blame,
    commands_of,
    forgot,
    held_by_slurm,
    record,
    runs_of,
    stops_of,
)
from benchmarks.checks.live.real import RealSlurm, cluster, missing, until
from benchmarks.checks.live.scripts import COMMAND, JOB, SETTINGS, reporting_job
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.domain import Cluster, InputError
from morph_opt.live.scheduler import AwayError
from morph_opt.live.slurm import listed
from morph_opt.round.live.slurm import slurm_round

KILL_EVERY_S = 13.0
LIMIT_S = 240.0
JOBS = ("squeue", "--json", "--states=all")
GONE = (RuntimeError, ValueError, subprocess.TimeoutExpired, TimeoutError, AwayError)
"""What asking a daemon that is away comes to."""


def plain(value: object) -> object:
    """A value of squeue as 22.05 prints it: later releases list states and say what is set."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set", True) else None
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else value


class Run:
    """One run beside a cluster that is up."""

    def __init__(
        self, slurm: RealSlurm, folder: Path, seed: int, *, chaos: bool, word: str = "act"
    ) -> None:
        self.slurm, self.folder, self.chaos, self.word = slurm, folder, chaos, word
        self.killed_s: list[float] = []
        self.draw = random.Random(seed)
        self.out = Counted()
        for name in ("jobs", "bin"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "jobs").chmod(0o777)
        (folder / "job.sh").write_text(JOB.format(folder=folder / "jobs"))
        (folder / "reporting.sh").write_text(reporting_job(folder / "jobs"))
        (folder / "live.toml").write_text(SETTINGS)
        real = shutil.which("scontrol", path=slurm.env["PATH"])
        self.changes = folder / "changes.log"
        self.changes.touch()
        (folder / "bin/scontrol").write_text(
            COMMAND.format(scontrol=real, chaos=int(chaos), log=self.changes)
        )
        (folder / "bin/scontrol").chmod(0o755)
        self.env = {**slurm.env, "PATH": f"{folder / 'bin'}:{slurm.env['PATH']}"}
        self.process: subprocess.Popen[bytes] | None = None
        self.logged, self.at_work_s = 0, 0.0
        self.mine: dict[str, str] = {}
        self.submitted_s: dict[str, float] = {}
        self.reporting: set[str] = set()
        self.foreign: dict[str, dict[str, object]] = {}
        self.cancelled: set[str] = set()

    def submit(
        self, gpus: int, halves: int, comment: str, *more: str, nodes: int = 1, reports: bool = True
    ) -> str:
        """A job of the user nobody, of so many half seconds; returns its number."""
        tag = f"j{self.draw.randrange(10**9)}"
        shape = (
            [f"--gpus-per-node={gpus // nodes}", f"-N{nodes}"] if nodes > 1 else [f"--gpus={gpus}"]
        )
        conf = f"SLURM_CONF={self.slurm.env['SLURM_CONF']}"
        words = ["sbatch", "--parsable", "--requeue", f"--comment={comment}", "--output=/dev/null"]
        job = ("reporting.sh", tag, str(halves // 2)) if reports else ("job.sh", tag, str(halves))
        words += ["--chdir=/", *shape, *more, str(self.folder / job[0]), *job[1:]]
        name = self.slurm.run("runuser", "-u", "nobody", "--", "env", conf, *words).strip()
        self.mine[name], self.submitted_s[name] = tag, time.time()
        self.reporting |= {name} if reports else set()
        return name

    def some(self, count: int) -> None:
        """Jobs of 2 to 16 GPUs and 2 to 30 seconds; some end between a look and an act.

        One in four reports nothing, and is not to be stopped.
        """
        for _ in range(count):
            gpus = self.draw.choice([2, 4, 8, 8, 16, 16])
            halves = self.draw.randint(4, 60)
            words = f"morph checkpoint seconds={halves / 2 + 1:.0f}"
            nodes, reports = 2 if gpus == 16 else 1, self.draw.random() < 0.75
            self.submit(gpus, halves, words, "-p", "gpu", nodes=nodes, reports=reports)

    def rows(self) -> dict[str, dict[str, object]]:
        """Records of squeue by job; none while slurmctld is away."""
        try:
            text = self.slurm.run(*JOBS, timeout=8.0, check=False)
            rows = [{key: plain(row[key]) for key in row} for row in json.loads(text)["jobs"]]
            return {str(row["job_id"]): row for row in rows}
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
            self.process = self.control(self.word, "live")
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
            self.slurm.controller_up()
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
            until("the last job", self.ended, 90.0)
        self.finish()
        self.count()
        if self.slurm.slurmdbd:
            self.read_accounts()
        return self.out

    def ended(self) -> bool:
        """Whether all jobs are over, while who should run does."""
        self.alive()
        return self.slurm.controller_up() and self.over(set())

    def watched(self) -> None:
        """Observe a turn, which acting asks for; the machine may be busy."""
        for _ in range(5):
            self.control("observe", "live", "--turns", "1").wait(120)
            if self.audit.exists():
                return
        raise RuntimeError((self.folder / "live.err").read_text()[-300:])

    def foreigners(self) -> None:
        """Submit jobs that morph-opt must not touch."""
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
        """Return the fields of a job that nobody but its user may change."""
        # Slurm itself requeues jobs of nodes that it takes to have failed.
        names = ("admin_comment", "required_nodes", "priority", "comment")
        return {name: row.get(name) for name in names}

    def plan(self) -> list[tuple[float, str]]:
        """When what happens, in seconds."""
        kinds = ["more", "cancel", "more"]
        if self.chaos:
            kinds += ["away", "drain", "silent", "more", "resume", "answer"]
            kinds += ["second"] if self.word == "act" else []
            kinds += ["unaccounted", "accounted"] if self.slurm.slurmdbd else []
        at = sorted(self.draw.uniform(3.0, 45.0) for _ in kinds)
        order = kinds[:]
        self.draw.shuffle(order)
        for early, late in (
            ("drain", "resume"),
            ("silent", "answer"),
            ("unaccounted", "accounted"),
        ):
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
                how = self.draw.choice([signal.SIGKILL, signal.SIGTERM])
                slurm.stop_controller(how)
                self.killed_s += [time.time()] * (how is signal.SIGKILL)
                time.sleep(self.draw.uniform(5.0, 15.0))
                slurm.start_controller()
                until("slurmctld", slurm.controller_up)
            elif what == "drain":
                slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=disk")
            elif what == "resume":
                slurm.run("scontrol", "update", "NodeName=n3", "State=RESUME")
            elif what == "silent":
                slurm.stop_node(5)
            elif what == "answer":
                slurm.start_node(5)
            elif what == "unaccounted":
                slurm.stop_accounting()
            elif what == "accounted":
                slurm.start_accounting()
            elif what == "second":
                (self.folder / "second").mkdir(exist_ok=True)
                shutil.copy(self.folder / "live/jobs.json", self.folder / "second")
                second = self.control("act", "second", "--turns", "1")
                second.wait(60)
                said = (self.folder / "second.err").read_text()
                if second.returncode == 0:
                    self.out.second_joined += 1
                self.out.notes.append(said.strip()[-120:])

    def cluster(self) -> Cluster:
        """What Slurm answers as ``round --from`` reads it, which refuses what is held twice."""
        jobs = self.slurm.run(*JOBS, timeout=8.0)
        try:
            nodes = self.slurm.run("scontrol", "show", "nodes", "--json", timeout=8.0)
        except RuntimeError:  # 22.05
            nodes = self.slurm.run("sinfo", "--json", timeout=8.0)
        answers = [("squeue", listed(jobs, "squeue")), ("nodes", listed(nodes, "nodes"))]
        return slurm_round(answers).snapshot.state.cluster

    def sample(self) -> None:
        """No GPU is held twice, by the reader that refuses such a picture."""
        try:
            self.cluster()
        except InputError as error:
            self.out.held_twice += "another's" in str(error)
            self.out.unread += "another's" not in str(error)
            self.out.notes.append(str(error))
        except GONE:
            pass  # slurmctld is away

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
        self.control("release-all", "live").wait(300)

    def count(self) -> None:
        """What became of every job."""
        out, rows = self.out, self.rows()
        out.jobs = len(self.mine)
        for job, tag in self.mine.items():
            row, lines = rows.get(job, {}), self.told(tag)
            words = [line.split()[0] for line in lines]
            ended = words.index("end") if "end" in words else None
            if ended is not None and "start" in words[ended:]:
                kind = blame(job, lines, self.changes.read_text().splitlines())
                setattr(self.out, kind, getattr(self.out, kind) + 1)
                out.notes.append(f"job {job} ran again, {kind}: {lines}")
            if job in self.cancelled:
                continue
            if ended is None or row.get("job_state") != "COMPLETED":
                state = row.get("job_state"), row.get("state_reason")
                if ended is not None:
                    known = not forgot(lines, self.killed_s)
                else:
                    # No command of the controller holds a job.
                    log = (self.slurm.folder / "slurmctld.log").read_text(errors="replace")
                    held = state == ("PENDING", "JobHeldUser")
                    known = not (held and held_by_slurm(job, log.splitlines()))
                out.forgotten += not known
                out.lost += known
                out.notes.append(f"job {job} {state} {'lost' if known else 'forgotten'}: {lines}")
            out.restarts += int(str(row.get("restart_cnt") or 0))
            mark = str(row.get("admin_comment") or "")
            out.left_marked += mark.startswith("morph:") and row.get("job_state") == "PENDING"
        for job, before in self.foreign.items():
            if self.facts(rows.get(job, {})) != before:
                out.touched += 1
                out.notes.append(f"foreign {job}: {before} {self.facts(rows.get(job, {}))}")
        self.count_commands(rows)

    def told(self, tag: str) -> list[str]:
        """What a job wrote down."""
        file = self.folder / "jobs" / f"{tag}.log"
        return file.read_text().splitlines() if file.exists() else []

    def read_accounts(self) -> None:
        """What slurmdbd knows, through the readers of logs."""
        log = self.folder / "sacct.txt"
        time.sleep(6.0)  # slurmctld sends what it has to say in batches
        ran = {} if self.chaos else {job: runs_of(self.told(tag)) for job, tag in self.mine.items()}
        try:
            until("slurmctld", self.slurm.controller_up)
            log.write_text(self.slurm.run(*SACCT))
            found = misread(log, self.cluster(), self.submitted_s, ran)
        except GONE as error:
            self.out.unread += 1
            found = [f"no accounts: {error}"]
        else:
            self.out.misread = len(found)
        self.out.notes += found

    def count_commands(self, rows: dict[str, dict[str, object]]) -> None:
        """Every job with our mark has its command in the log."""
        logs = [self.folder / name / "audit.jsonl" for name in ("live", "second")]
        texts = [log.read_text() for log in logs if log.exists()]
        done, self.out.commands = commands_of([line for t in texts for line in t.splitlines()])
        stopped = stops_of(self.changes.read_text().splitlines())
        self.out.stops = sum(map(len, stopped.values()))
        for job in stopped.keys() - self.reporting:
            self.out.unreported += 1
            self.out.notes.append(f"job {job} was stopped and reports nothing")
        for job, row in rows.items():
            marked = re.match("morph:", str(row.get("admin_comment") or ""))
            if job in self.mine and marked and job not in done:
                self.out.unlogged += 1
                self.out.notes.append(f"job {job} is marked, the log has no command for it")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, and fail where anything but 0 was counted."""
    parser = LineParser(prog="python -m benchmarks.checks.live.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="chaos runs, after one without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--slurmdbd",
        choices=("with", "without", "both"),
        default="both",
        help="accounting; both: without it in every other run (default both)",
    )
    parser.add_argument(
        "--observe", action="store_true", help="the same without acting: what Slurm does by itself"
    )
    parser.add_argument("--record", type=Path, metavar="CSV", help="add a row for each run to it")
    given = parser.parse_args(arguments)
    if lacks := missing(slurmdbd=given.slurmdbd != "without"):
        more = "; or --slurmdbd without" if given.slurmdbd == "both" and not missing() else ""
        print(f"live-test: {lacks}{more}", file=sys.stderr)
        return 2
    faults, word = 0, "observe" if given.observe else "act"
    folder = Path(tempfile.mkdtemp(prefix="live-"))
    folder.chmod(0o755)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        for k in range(given.runs + 1):
            place = folder / f"run{k}"
            place.mkdir()
            slurmdbd = given.slurmdbd == "with" or (given.slurmdbd == "both" and k % 2 == 0)
            with cluster(place / "slurm", slurmdbd=slurmdbd) as slurm:
                out = Run(slurm, place / "work", given.seed + k, chaos=k > 0, word=word).run()
            faults += out.faults
            figures = {name: value for name, value in asdict(out).items() if name != "notes"}
            about = {"slurm": slurm.release, "slurmdbd": slurmdbd, "word": word, "chaos": k > 0}
            row = about | {"seed": given.seed + k} | figures
            if given.record is not None:
                record(given.record, row)
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            for note in out.notes:
                print(f"  {note}", flush=True)
    finally:
        if not faults:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
