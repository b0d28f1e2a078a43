"""slurmdbd and the MariaDB under it, in the scratch folder of a real Slurm, on loopback alone."""

from __future__ import annotations

import csv
import os
import secrets
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.checks.live.releases import plugins, which
from morph_opt.audit.instants import audit
from morph_opt.audit.recorded import RecordedJob, read_recorded
from morph_opt.core.domain import Cluster
from morph_opt.inputs.traces.logs.reading.row import Reading

PACKAGES = "slurmdbd slurm-wlm-mysql-plugin mariadb-server"
COLUMNS = (
    "JobIDRaw,JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,State,NNodes,ReqTRES,AllocTRES,NodeList"
)
SACCT = ("sacct", "-a", "-X", "-D", "--parsable2", "-S", "now-1days", "-E", "now", "-o", COLUMNS)
"""As docs/how-to/slurm.md has it, which the readers of logs are to be given."""
CLOCK_S = 3.0
"""Slurm's instants are whole seconds, and its daemons tell each other a little later."""
NEEDED = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db")


def database(folder: Path, port: int, password: str) -> tuple[str, ...]:
    """Make an empty database; returns what serves it."""
    data = folder / "mariadb"
    data.mkdir()
    install = which("mariadb-install-db") or "mariadb-install-db"
    words = [install, "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    begin = folder / "begin.sql"
    begin.write_text(
        "CREATE DATABASE IF NOT EXISTS slurm;\n"
        f"CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        "GRANT ALL ON slurm.* TO slurm@'127.0.0.1';\n"
    )
    begin.chmod(0o600)
    return (
        which("mariadbd") or "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        f"--socket={data}/socket",
        f"--pid-file={data}/pid",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        f"--init-file={begin}",
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
    )


def configure(folder: Path, port: int, storage_port: int) -> str:
    """Write slurmdbd.conf; returns the password of its database."""
    password = secrets.token_hex(16)
    lines = [
        "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge/socket", "DbdHost=localhost",
        "DbdAddr=127.0.0.1", f"DbdPort={port}", "SlurmUser=root",
        f"LogFile={folder}/slurmdbd.log", f"PidFile={folder}/dbd.pid",
        "StorageType=accounting_storage/mysql", "StorageHost=127.0.0.1",
        f"StoragePort={storage_port}", "StorageUser=slurm", f"StoragePass={password}",
        "StorageLoc=slurm", "CommunicationParameters=NoInAddrAny",
    ]  # fmt: skip
    if (place := plugins()) is not None:
        lines.append(f"PluginDir={place}")
    path = folder / "slurmdbd.conf"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("\n".join(lines) + "\n")
    return password


def settings(folder: Path, port: int) -> tuple[str, ...]:
    """Lines of slurm.conf."""
    return (
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={port}",
        f"AccountingStoragePass={folder}/munge/socket",
        "AccountingStorageTRES=gres/gpu",
    )


def misread(
    log: Path,
    cluster: Cluster,
    submitted_s: Mapping[str, float],
    ran: Mapping[str, Sequence[tuple[float, float]]],
) -> list[str]:
    """What the readers of logs make of sacct that did not happen so, a line each.

    Parameters
    ----------
    log
        What `SACCT` prints.
    cluster
        As ``round --from`` reads it.
    submitted_s
        When each job was submitted first.
    ran
        When jobs ran by their own word; only of runs in which slurmctld was never away, which
        forgets what happened then.
    """
    recorded, found = read_recorded(f"sacct:{log}", Reading()), []
    with log.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="|"))
    # What began and ended within a second held nothing that whole seconds can say.
    ran_on = {row["JobID"] for row in rows if row["ElapsedRaw"] != "0"}
    short = {row["JobID"] for row in rows if row["Start"] == row["End"]} - ran_on
    jobs: dict[str, list[RecordedJob]] = defaultdict(list)
    for job in recorded.jobs:
        jobs[job.name].append(job)
    for name, at_s in submitted_s.items():
        if not jobs[name] and name in short:
            continue
        if not jobs[name]:
            found.append(f"job {name} is not in the log")
        elif not abs(min(job.first_s for job in jobs[name]) - at_s) <= CLOCK_S:
            found.append(f"job {name} was submitted at {at_s:.1f}: {jobs[name]}")
    for name, own in ran.items():
        intervals = [interval for job in jobs[name] for interval in job.intervals]
        for begin_s, end_s in own:
            if end_s - begin_s < 1.0:
                continue  # in whole seconds it may have held nothing
            near = [abs(s.start_s - begin_s) + abs(s.end_s - end_s) for s in intervals]
            if not min(near, default=1e9) <= 2.0 * CLOCK_S:
                found.append(f"job {name} ran from {begin_s:.1f} to {end_s:.1f}: {intervals}")
    for instant in audit(recorded, cluster, 5.0).instants:
        if instant.used + instant.idle != cluster.gpus or instant.idle < 0:
            found.append(f"{instant.used} used and {instant.idle} idle GPUs at {instant.time_s}")
    return found
