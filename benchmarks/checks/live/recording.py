"""Record a real Slurm under 30 times the clock, and hold the policy ``slurm`` against it.

Limits of Slurm are whole minutes and its intervals tens of seconds, so a recording in real time
takes hours. All its processes run with libfaketime instead; the jobs sleep a thirtieth of their
time. The folder of a recording is what ``python -m benchmarks.backfill`` reads.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.backfill.agreement import agreement
from benchmarks.backfill.recorded import Recording
from benchmarks.checks.live.real import FakeClock, RealSlurm, cluster, missing
from morph_opt.core.commandline.parser import LineParser
from morph_opt.inputs.slurm.hostlist import expand_hosts

SETTINGS = (
    "MessageTimeout=600", "SlurmdTimeout=0", "SlurmctldTimeout=60000", "BatchStartTimeout=6000",
    "TCPTimeout=600", "KillWait=30", "UnkillableStepTimeout=6000", "MinJobAge=720000",
    "SlurmctldDebug=debug2", "DebugFlags=Backfill",
    "SchedulerParameters=max_sched_time=60,bf_yield_interval=10000000,bf_max_time=300",
)  # fmt: skip
"""Slurm's defaults, but for what would bite 30 times as soon, and a log with every instant."""
COLUMNS = (
    "JobID,JobName,User,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,"
    "State,ExitCode,NNodes,NodeList,ReqTRES,AllocTRES,Priority"
)
ORDER, LATE_S = 0.999, 30.0
"""Least share of pairs of starts in order, and largest 95th percentile of a start's difference."""
_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] (.*)")
_SUBMITTED = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) InitPrio")
_ENDED = re.compile(r"_job_complete: JobId=(\d+) (?:WEXITSTATUS|WTERMSIG|OOM|done)")
_GIVEN = re.compile(r"(?:Allocate|Started) JobId=(\d+) .*?(?:NodeList=|on )(\S+)")
_ANSWERED = re.compile(r"node_did_resp (\S+)")
_CYCLE, _PASS = "_attempt_backfill: beginning", "sched: Running job scheduler for"


@dataclass(frozen=True, slots=True)
class Asked:
    """Job to submit: its name, and all times in seconds of Slurm's clock."""

    name: str
    submit: float
    run: float
    limit_min: int
    nodes: int
    gpus_per_node: int
    partition: str


def workload(seed: int, count: int, span_s: float) -> list[Asked]:
    """Draw jobs of 1 to 32 GPUs whose limits are one to six times their run times."""
    draw = random.Random(seed)
    found = []
    for number, at_s in enumerate(sorted(draw.uniform(0.0, span_s) for _ in range(count))):
        gpus = draw.choice([1, 1, 2, 2, 4, 4, 8, 8, 16, 32])
        run_s = min(2_400.0, max(120.0, 600.0 * draw.lognormvariate(0.0, 0.7)))
        limit = max(3, -(-round(run_s * draw.choice([1.1, 1.5, 3.0, 6.0])) // 60))
        partition = draw.choice(["gpu", "gpu", "gpu", "other"])
        nodes, each = max(1, gpus // 8), min(8, gpus)
        found.append(Asked(f"w{number:03}", at_s, run_s, limit, nodes, each, partition))
    return found


def record(slurm: RealSlurm, clock: FakeClock, jobs: Sequence[Asked], out: Path) -> None:
    """Submit the jobs, wait for their ends, and write the folder of a recording."""
    began_s = clock.now_s() + 60.0
    for job in jobs:
        time.sleep(max(0.0, began_s + job.submit - clock.now_s()) / clock.speed)
        script = slurm.folder / "jobs" / f"{job.name}.sh"
        # The clock of the machine, as the job's own would begin anew in each process.
        sleep = f"exec sleep {job.run / clock.speed:.3f}"
        script.write_text(f"#!/bin/sh\nunset LD_PRELOAD FAKETIME\n{sleep}\n")
        slurm.run(
            "sbatch", "-p", job.partition, "-J", job.name, f"-t{job.limit_min}", f"-N{job.nodes}",
            f"--gpus-per-node={job.gpus_per_node}", "-o", "/dev/null", str(script),
        )  # fmt: skip
    while slurm.run("squeue", "-h", "-o", "%i").strip():
        time.sleep(1.0)
    time.sleep(2.0)
    out.mkdir(parents=True)
    since = datetime.fromtimestamp(clock.began_s - 60.0, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    sacct = slurm.run("sacct", "-a", "-X", "-P", "-S", since, "-E", "now", "-o", COLUMNS)
    (out / "sacct.txt").write_text(sacct)
    columns = "format=Account,ParentName,User,Share"
    (out / "assoc.txt").write_text(slurm.run("sacctmgr", "-P", "show", "assoc", columns))
    shutil.copy(slurm.folder / "slurm.conf", out / "slurm.conf")
    log = (slurm.folder / "slurmctld.log").read_text(errors="replace").splitlines()
    write_instants(log, out)
    asked = [asdict(job) for job in jobs]
    (out / "workload.json").write_text(json.dumps({"jobs": asked}, indent=1) + "\n")


def write_instants(log: Iterable[str], out: Path) -> None:
    """Write the instants that a slurmctld.log has: submissions, ends, epilogs, cycles and passes.

    The epilog of a job is over once each of its nodes has answered after its end.
    """
    cycles: list[float] = []
    passes: list[float] = []
    submitted: dict[int, float] = {}
    ended: dict[int, float] = {}
    freed: dict[int, float] = {}
    nodes: dict[int, set[str]] = {}
    for at_s, text in _lines(log):
        if text.endswith(_CYCLE):
            cycles.append(at_s)
        elif _PASS in text:
            passes.append(at_s)
        elif match := _SUBMITTED.search(text):
            submitted[int(match[1])] = at_s
        elif match := _GIVEN.search(text):
            nodes[int(match[1])] = set(expand_hosts(match[2]))
        elif match := _ENDED.search(text):
            ended.setdefault(int(match[1]), at_s)
        elif match := _ANSWERED.search(text):
            for job in ended:
                if match[1] in nodes[job]:
                    nodes[job].remove(match[1])
                    freed[job] = at_s
    rows = [f"{job}|{at_s:.3f}|{ended.get(job, 0.0):.3f}|{freed.get(job, 0.0):.3f}\n"
            for job, at_s in submitted.items()]  # fmt: skip
    (out / "instants.txt").write_text("job|submit|end|free\n" + "".join(rows))
    for name, found in (("bf_cycles.txt", cycles), ("passes.txt", passes)):
        (out / name).write_text("".join(f"{at_s:.3f}\n" for at_s in found))


def _lines(log: Iterable[str]) -> Iterator[tuple[float, str]]:
    for line in log:
        if (match := _LINE.match(line)) is not None:
            yield datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp(), match[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record a run, print how well it is reproduced, and fail where that is not well enough."""
    parser = LineParser(prog="python -m benchmarks.checks.live.recording", description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--span-s", type=float, default=3_000.0, help="arrivals, on Slurm's clock")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=int, default=30)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the recording there")
    given = parser.parse_args(arguments)
    if lacks := missing(slurmdbd=True):
        print(f"live-test: {lacks}", file=sys.stderr)
        return 2
    library = FakeClock.library()
    if library is None:
        print(f"live-test: nothing is recorded: {FakeClock.WANTED}", file=sys.stderr)
        return 0
    place = Path(tempfile.mkdtemp(prefix="recording-"))
    place.chmod(0o755)
    clock = FakeClock(library, given.speed, time.time())
    jobs = workload(given.seed, given.jobs, given.span_s)
    out = place / "recording" if given.out is None else given.out.resolve()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with cluster(place / "slurm", slurmdbd=True, settings=SETTINGS, clock=clock) as slurm:
        record(slurm, clock, jobs, out)
    found = agreement(Recording.read(out))
    print(f"slurm {slurm.release}, {len(jobs)} jobs: {found}")
    well = found.in_order >= ORDER and found.p95_s <= LATE_S
    if well:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(f"kept: {out}", file=sys.stderr)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
