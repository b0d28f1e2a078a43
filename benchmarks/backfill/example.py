"""Make the example log of a Slurm site: ``python -m benchmarks.backfill.example [FOLDER]``.

Nobody's cluster: jobs, users and limits are drawn from a seed, and started by the policy ``slurm``
under the folder's own ``slurm.conf`` and ``shares.txt``, at instants that the log does not state.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.hindcast.recorded import read_waits
from morph_opt.hindcast.shaken import Shaking, prepared_site, shaken_replays
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.limits import MINUTE_S, LimitLaw
from morph_opt.scheduling.policies.options import Scheduler

FOLDER = Path("docs/example-slurm")
CLUSTER = "4x8:A800-80GB"
SEED = 20_240_501
BEGIN = datetime(2024, 5, 1, 8, tzinfo=UTC)
JOBS = 100
USERS = {"ada": "vision", "bob": "vision", "cyd": "speech", "dan": "speech", "eve": "speech"}
GPUS = {1: 34, 2: 20, 4: 18, 8: 20, 16: 8}
"""GPUs of a job, with weights."""
GAP_S = 480.0
"""Mean seconds from a submission to the next."""
HEADER = (
    "JobIDRaw|JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
    "State|NNodes|ReqTRES|AllocTRES|NodeList"
)


class Drawn(NamedTuple):
    """Job as it is drawn; times in seconds."""

    submit_s: int
    run_s: int
    limit_s: float
    gpus: int
    user: str


def draw() -> Iterator[Drawn]:
    """Draw the jobs."""
    random, law, at_s = Random(SEED), LimitLaw(), 0.0
    for number in range(JOBS):
        at_s += random.expovariate(1.0 / GAP_S)
        run_s = max(120, int(random.lognormvariate(math.log(2_400.0), 1.0)))
        limit_s = law.limit_s(run_s, str(number), SEED)
        (gpus,) = random.choices(list(GPUS), list(GPUS.values()))
        user = random.choice(list(USERS))
        # Slurm looks at limits every half a minute.
        ended_s = int(limit_s + 30.0 * random.random()) if limit_s < run_s else run_s
        yield Drawn(int(at_s), ended_s, limit_s, gpus, user)


def text_of(jobs: Sequence[Drawn], waits_s: Mapping[str, float]) -> str:
    """Return the log as ``sacct --parsable2`` prints it."""
    lines = [HEADER]
    for number, job in enumerate(jobs, 1):
        start_s = job.submit_s + round(waits_s.get(str(number), 0.0))
        submit, start, end = (
            (BEGIN + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%S")
            for at_s in (job.submit_s, start_s, start_s + job.run_s)
        )
        nodes = max(1, job.gpus // 8)
        state = "TIMEOUT" if job.run_s > job.limit_s else "COMPLETED"
        tres = f"cpu={8 * job.gpus},gres/gpu={job.gpus},node={nodes}"
        lines.append(
            f"{number}|{number}|{job.user}|{USERS[job.user]}|gpu|normal|{submit}|{submit}|{start}|"
            f"{end}|{job.run_s}|{job.limit_s / MINUTE_S:.0f}|{state}|{nodes}|{tres}|{tres}|"
        )
    return "\n".join(lines) + "\n"


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.backfill.example", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help=f"({FOLDER})")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    jobs, path = list(draw()), options.folder / "jobs.txt"
    write_atomically(path, text_of(jobs, {}))
    site = f"slurm:{options.folder / 'slurm.conf'},{options.folder / 'shares.txt'}"
    recorded = read_waits(f"sacct:{path}", {})
    prepared = prepared_site(recorded.loaded, load_cluster(CLUSTER), Scheduler(policy=site))
    still = Shaking(submission_s=0.0, run_s=0.0)
    (waits_s,) = shaken_replays(prepared, 1, SEED, shaking=still).waits_s
    write_atomically(path, text_of(jobs, waits_s))
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
