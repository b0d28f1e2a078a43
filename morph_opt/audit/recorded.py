"""What a log says that happened: when who was submitted, started and ended, and on which nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from morph_opt.domain import Cluster, InputError
from morph_opt.round.live.hostlist import expand_hosts
from morph_opt.runs.read import read_run
from morph_opt.traces.logs import LogRow, Reading, Scan, log_format

RUN = "run"
"""Word of our own run folders, beside the log formats."""


@dataclass(frozen=True, slots=True)
class Stint:
    """A stretch in which a job held GPUs.

    Parameters
    ----------
    start_s, end_s
        From, until.
    hosts
        GPUs by name of node; () where the log does not say.
    """

    start_s: float
    end_s: float
    hosts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job of a log.

    Parameters
    ----------
    name, partition
        Its id; partition, virtual cluster or tenant.
    submit_s, end_s
        From when on it was there, until when; infinite for one that was there at the end.
    gpus
        GPUs that it asked for.
    nodes
        Nodes that it asked for; None where nobody says.
    gpu_type
        Type that it held; None where nobody says.
    stints
        When it held GPUs, ascending.
    """

    name: str
    partition: str
    submit_s: float
    end_s: float
    gpus: int
    nodes: int | None = None
    gpu_type: str | None = None
    stints: tuple[Stint, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A log as the audit takes it.

    Parameters
    ----------
    jobs
        In order of submission.
    notes
        What was left out or assumed, a line each.
    cluster
        Of a run folder, which knows it.
    """

    jobs: tuple[RecordedJob, ...]
    notes: tuple[str, ...] = field(default=())
    cluster: Cluster | None = None

    @property
    def placed(self) -> float:
        """Share of the stints that say on which nodes they were."""
        known = [bool(stint.hosts) for job in self.jobs for stint in job.stints]
        return sum(known) / max(1, len(known))


def read_recorded(spec: str, how: Reading) -> Recorded:
    """The log of ``FORMAT:PATH``.

    Raises
    ------
    InputError
        If there is no such format or file, or a row is malformed.
    """
    word, colon, path = spec.partition(":")
    if not colon or not path:
        raise InputError(f"must be FORMAT:PATH, like sacct:jobs.txt, got {spec[:80]!r}")
    if word == RUN:
        if how != Reading():
            raise InputError("a run folder is read without options", field="FORMAT:PATH")
        return _of_run(Path(path))
    known = log_format(word)
    if not known.durations:
        raise InputError(f"format {word} tells no starts and ends", field="FORMAT:PATH")
    jobs: list[RecordedJob] = []
    dropped: list[RecordedJob] = []

    def also(row: LogRow, reason: str) -> None:
        # Who never started waited, and who still ran held GPUs: no jobs for a replay, but here.
        if reason in ("not-started", "still-running") and isinstance(row.gpus, int) and row.gpus:
            dropped.append(_job(row, running=reason == "still-running"))

    scan = Scan(Path(path), known, how, also=also)
    without_start = 0
    for row in scan.jobs():
        if row.start_s is None:
            without_start += 1
        else:
            jobs.append(_job(row, running=True))
    jobs += dropped
    if not any(job.stints for job in jobs):
        raise InputError("no job has a start and an end: nothing can be rebuilt", file=path)
    gone = {reason: n for reason, n in scan.report.dropped.items() if n}
    kept = {"not-started", "still-running"} if dropped else set()
    lost = ", ".join(f"{n} {reason}" for reason, n in gone.items() if reason not in kept)
    notes = [
        f"{scan.report.rows} rows, {len(jobs)} jobs" + (f"; left out: {lost}" if lost else ""),
        *scan.report.assumed,
    ]
    if without_start:
        notes.append(f"{without_start} jobs have no start: left out")
    if scan.report.folded:
        notes.append("jobs of several attempts count as running from their first start on")
    return Recorded(_sorted(jobs), tuple(notes))


def _sorted(jobs: Iterable[RecordedJob]) -> tuple[RecordedJob, ...]:
    return tuple(sorted(jobs, key=lambda job: (job.submit_s, job.name)))


def _job(row: LogRow, *, running: bool) -> RecordedJob:
    """The job of a row that ran, or ended while it waited."""
    end_s = inf if row.end_s is None or (running and row.run_s is None) else row.end_s
    stints: tuple[Stint, ...] = ()
    if running and row.start_s is not None:
        stints = (Stint(row.start_s, end_s, _hosts(row)),)
    return RecordedJob(
        row.name, row.kind or row.tenant, row.submit_s, end_s, int(row.gpus), row.nodes or None,
        row.gpu_type, stints,
    )  # fmt: skip


def _hosts(row: LogRow) -> tuple[tuple[str, int], ...]:
    """Its GPUs dealt evenly to its nodes: how many were on which is not in a log."""
    if not row.hosts:
        return ()
    try:
        hosts = expand_hosts(row.hosts)
    except InputError as error:
        raise InputError(error.rule, line=row.line, field="NodeList") from error
    if row.nodes is not None and row.nodes != len(hosts):
        return ()  # components of one job: the list is of one of them
    each, more = divmod(int(row.gpus), len(hosts))
    shares = [each + (at < more) for at in range(len(hosts))]
    return tuple((host, n) for host, n in zip(hosts, shares, strict=True) if n)


def _of_run(folder: Path) -> Recorded:
    """Our own run, which knows everything."""
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.runs.write import CONFIG

    run = read_run(folder)
    cluster = read_scenario(folder / CONFIG).cluster
    stints: dict[str, list[Stint]] = {}
    for row in run.segments:
        hosts = tuple(_parts(row.allocated_gpus, cluster))
        stints.setdefault(row.job, []).append(Stint(row.start_s, row.end_s, hosts))
    jobs = [
        RecordedJob(
            row.job_id, row.tenant, row.submission_time,
            row.finish_time if row.finish_time == row.finish_time else inf,
            row.requested_number_of_resources, stints=tuple(stints.get(row.job_id, ())),
        )
        for row in run.jobs
    ]  # fmt: skip
    return Recorded(_sorted(jobs), (f"{len(jobs)} jobs of our own run",), cluster)


def _parts(text: str, cluster: Cluster) -> Iterator[tuple[str, int]]:
    """GPUs by node of ``0:0-3 2:1``."""
    for part in text.split():
        node, _, gpus = part.partition(":")
        count = 0
        for one in gpus.split("+"):
            low, dash, high = one.partition("-")
            count += int(high) - int(low) + 1 if dash else 1
        yield cluster.nodes[int(node)].name, count
