"""Answers of a real Slurm for tests of its readers: ``python -m benchmarks.checks.live.answers``.

A scene of what the readers once got wrong, on 64 pretended GPUs: what is running and what waits as
root and as a user sees it (``PrivateData=jobs``), without accounting; and a log of accounting.
``--out DIR`` gets a folder by the release.
"""

from __future__ import annotations

import gzip
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.checks.live.accounting import SACCT
from benchmarks.checks.live.real import RealSlurm, cluster, missing, until
from morph_opt.core.commandline.parser import LineParser

FOLDER = Path(__file__).resolve().parents[3] / "tests/round/live/answers"
SQUEUE, SINFO = ("squeue", "--json"), ("sinfo", "--json")
SCONTROL = ("scontrol", "show", "nodes", "--json")
"""Of the nodes; 22.05 has `SINFO` alone."""


def submit(slurm: RealSlurm, user: str, *words: str, seconds: int = 900) -> str:
    """A job, or with ``:`` a heterogeneous one; returns its number."""
    command = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *words]
    command += [f"--wrap=sleep {seconds}"]
    conf = f"SLURM_CONF={slurm.env['SLURM_CONF']}"
    return slurm.run("runuser", "-u", user, "--", "env", conf, *command).strip()


def in_state(slurm: RealSlurm, state: str, *jobs: str) -> None:
    """Wait until jobs are in a state."""
    wanted = [state] * len(jobs)
    ask = ("squeue", "-h", "-t", "all", "-o", "%T", "-j", ",".join(jobs))
    until(f"{state} of {jobs}", lambda: slurm.run(*ask, check=False).split() == wanted)


def requeued(slurm: RealSlurm, *where: str, seconds: int = 900) -> str:
    """A job that ran on a GPU and was requeued for more of them."""
    job = submit(slurm, "nobody", "--requeue", "-N1", "--gpus=1", *where, seconds=seconds)
    in_state(slurm, "RUNNING", job)
    slurm.run("sleep", "3")
    slurm.run("scontrol", "requeuehold", job)
    in_state(slurm, "PENDING", job)
    slurm.run("scontrol", "update", f"JobId={job}", "TresPerJob=gres:gpu:4", "StartTime=now")
    slurm.run("sleep", "3")
    slurm.run("scontrol", "release", job)
    return job


def queue(slurm: RealSlurm) -> dict[str, str]:
    """What is read, by the name of its file; no job that waits fits anywhere."""
    slurm.run("scontrol", "update", "NodeName=n6", "AvailableFeatures=fast", "ActiveFeatures=fast")
    slurm.run("scontrol", "update", "NodeName=n8", "State=DRAIN", "Reason=disk")
    maintained = ["StartTime=now", "Duration=60", "Nodes=n7", "Users=root", "Flags=MAINT"]
    slurm.run("scontrol", "create", "reservation", "ReservationName=night", *maintained)
    runs = [
        submit(slurm, "nobody", "-N2", "--gpus=12", "-w", "n[1-2]"),
        submit(slurm, "games", "-N1", "-n3", "--gpus-per-task=2", "-w", "n3"),
        submit(slurm, "nobody", "-N1", "--exclusive", "--gpus=1", "-w", "n4"),
        submit(slurm, "games", "-N1", "--gpus=8", "-w", "n6"),
    ]
    in_state(slurm, "RUNNING", *runs)
    in_state(slurm, "RUNNING", requeued(slurm, "-w", "n5"))
    for words in (
        "-N1 --gpus=8 -w n1",
        "-N1 --gpus=4 -x n[2-5]",
        "-N1 --gpus=2 -C fast",
        "-N1 --gpus=2 : -N1 --gpus=8",
        "-N1 --gpus=1 --exclusive",
        "-N1 --gpus=1 --begin=now+1hour",
        "-N1 --gpus=5",
    ):
        submit(slurm, "nobody", *words.split())
    slurm.run("sleep", "5")
    user = ("runuser", "-u", "nobody", "--", "env", f"SLURM_CONF={slurm.env['SLURM_CONF']}")
    found = {"squeue": slurm.run(*SQUEUE), "squeue_of_a_user": slurm.run(*user, *SQUEUE)}
    by_scontrol = slurm.run(*SCONTROL, check=False)
    found["scontrol" if by_scontrol else "sinfo"] = by_scontrol or slurm.run(*SINFO)
    return found


def log(slurm: RealSlurm) -> str:
    """A log of accounting; its jobs are over."""
    jobs = [
        submit(slurm, "nobody", "-N2", "--gpus=12", "-w", "n[2-3]", seconds=12),
        submit(slurm, "nobody", "-N1", "--gpus=4", "-x", "n[1,4-8]", seconds=12),
        submit(slurm, "nobody", "-N1", "--gpus=1", "--begin=now+10", seconds=4),
    ]
    het = submit(slurm, "nobody", *["-N1", "--gpus=2", ":", "-N1", "--gpus=4"], seconds=6)
    jobs.append(requeued(slurm, "-w", "n1", seconds=8))
    in_state(slurm, "COMPLETED", *jobs)
    in_state(slurm, "COMPLETED", het, f"{het}+1")
    slurm.run("sleep", "6")  # slurmctld sends what it has to say in batches
    return slurm.run(*SACCT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files of the Slurm that is there."""
    parser = LineParser(prog="python -m benchmarks.checks.live.answers", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    if lacks := missing(slurmdbd=True):
        print(f"answers: {lacks}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="live-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        private = ["PrivateData=jobs"]
        with cluster(folder / "queue", settings=private) as slurm:
            found, place = queue(slurm), given.out / slurm.release
        with cluster(folder / "log", slurmdbd=True) as slurm:
            sacct = log(slurm)
    place.mkdir(parents=True, exist_ok=True)
    for kind, text in found.items():
        public = text.replace(str(folder), "").replace(f"{platform.release()} ", "")
        packed = json.dumps(json.loads(public), separators=(",", ":")).encode()
        (place / f"{kind}.json.gz").write_bytes(gzip.compress(packed, mtime=0))
    (place / "sacct.txt").write_text(sacct)
    return 0


if __name__ == "__main__":
    sys.exit(main())
