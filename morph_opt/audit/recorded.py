"""What a log says that happened: when jobs were submitted, started and ended, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from morph_opt.audit import RUN
from morph_opt.domain import Cluster, InputError
from morph_opt.round.live.hostlist import expand_hosts
from morph_opt.runs.read import read_run
from morph_opt.traces.logs.reading.row import LogRow, Reading
from morph_opt.traces.logs.reading.scan import Scan
from morph_opt.traces.logs.registry import log_format, require_format


@dataclass(frozen=True, slots=True)
class Held:
    """A stretch in which a job held GPUs.

    Parameters
    ----------
    start_s, end_s
        From, until.
    gpus
        GPUs held.
    hosts
        GPUs by name of node; () where the log does not say.
    split
        Whether how many were on which node is not in the log: they are split evenly.
    """

    start_s: float
    end_s: float
    gpus: int
    hosts: tuple[tuple[str, int], ...] = ()
    split: bool = False


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job of a log; of one that was requeued, each attempt is one.

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
    intervals
        When it held GPUs, ascending; components of one job at the same time.
    ready_s
        From when on it waited for room: later than ``submit_s`` where the log has a begin time,
        infinite for one that was held until it was gone.
    first_s
        Its first submission, which its place in the order goes by.
    """

    name: str
    partition: str
    submit_s: float
    end_s: float
    gpus: int
    nodes: int | None = None
    gpu_type: str | None = None
    intervals: tuple[Held, ...] = ()
    ready_s: float = -inf
    first_s: float = inf


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
        known = [bool(interval.hosts) for job in self.jobs for interval in job.intervals]
        return sum(known) / max(1, len(known))


def read_recorded(spec: str, how: Reading) -> Recorded:
    """The log of ``FORMAT:PATH``.

    Raises
    ------
    InputError
        If there is no such format or file, or a row is malformed.
    """
    word, colon, path = spec.partition(":")
    require_format(spec, "FORMAT:PATH")
    if not colon:
        raise InputError(f"must be FORMAT:PATH, like sacct:jobs.txt, got {spec[:80]!r}")
    if word == RUN:
        if how != Reading():
            raise InputError("a run folder is read without options", field="FORMAT:PATH")
        return _of_run(Path(path))
    known = log_format(word)
    if not known.durations:
        raise InputError(f"format {word} tells no starts and ends", field="FORMAT:PATH")
    # What never started waited, and what still ran held GPUs: no jobs for a replay, but here.
    dropped: dict[str, list[LogRow]] = defaultdict(list)
    scan = Scan(Path(path), known, how, also=lambda row, why: dropped[why].append(row))
    kept = [row for row in scan.jobs() if row.start_s is not None]
    without_start = scan.report.jobs - len(kept)
    jobs = [job for row in kept for job in _jobs(row.rows, scan, running=True)]
    also: dict[tuple[str, str], list[LogRow]] = defaultdict(list)
    for reason in ("not-started", "still-running"):
        for row in dropped[reason]:
            if isinstance(row.gpus, int) and row.gpus:
                also[reason, scan.reader.group(row.name)[0]].append(row)
    for (reason, _), rows in also.items():
        jobs += _jobs(rows, scan, running=reason == "still-running")
    if not any(job.intervals for job in jobs):
        raise InputError("no job has a start and an end: nothing can be rebuilt", file=path)
    jobs = _in_order_of_first(jobs)
    count = len(kept) + sum(map(len, also.values()))
    gone = {reason: n for reason, n in scan.report.dropped.items() if n}
    found = {"not-started", "still-running"} if also else set()
    lost = ", ".join(f"{n} {reason}" for reason, n in gone.items() if reason not in found)
    notes = [
        f"{scan.report.rows} rows, {count} jobs" + (f"; left out: {lost}" if lost else ""),
        *scan.report.assumed,
    ]
    if without_start:
        notes.append(f"{without_start} jobs have no start: left out")
    if scan.report.folded:
        notes.append("attempts hold their own GPUs; the order goes by the first submission")
    if late := sum(job.ready_s > job.submit_s for job in jobs):
        notes.append(
            f"{late} times a job was eligible only after its submission (begin times, holds, also "
            "of a controller that releases jobs one by one): it waits from then on"
        )
    return Recorded(_sorted(jobs), tuple(notes))


def _sorted(jobs: Iterable[RecordedJob]) -> tuple[RecordedJob, ...]:
    return tuple(sorted(jobs, key=lambda job: (job.submit_s, job.name)))


def _jobs(rows: Sequence[LogRow], scan: Scan, *, running: bool) -> Iterator[RecordedJob]:
    """Attempts one by one, components of one job together: they start at once or not at all."""
    names = [scan.reader.group(row.name) for row in rows]
    found = [_job(row, name, running=running) for row, (name, _) in zip(rows, names, strict=True)]
    if len({component for _, component in names}) < 2:
        yield from found
        return
    nodes = [job.nodes for job in found if job.nodes is not None]
    yield replace(
        found[0],
        submit_s=min(job.submit_s for job in found),
        end_s=max(job.end_s for job in found),
        gpus=sum(job.gpus for job in found),
        nodes=sum(nodes) if len(nodes) == len(found) else None,
        intervals=tuple(sorted((one for job in found for one in job.intervals), key=_start)),
        ready_s=max(job.ready_s for job in found),
    )


def _start(one: Held) -> float:
    return one.start_s


def _job(row: LogRow, name: str, *, running: bool) -> RecordedJob:
    """The attempt of a row that ran, or was gone while it waited."""
    end_s = inf if row.end_s is None or (running and row.run_s is None) else row.end_s
    intervals: tuple[Held, ...] = ()
    if running and row.start_s is not None:
        hosts = _hosts(row)
        intervals = (Held(row.start_s, end_s, int(row.gpus), hosts, split=len(hosts) > 1),)
    return RecordedJob(
        name,
        row.kind or row.tenant,
        row.submit_s,
        end_s,
        int(row.gpus),
        row.nodes or None,
        row.gpu_type,
        intervals,
        ready_s=-inf if row.eligible_s is None else row.eligible_s,
    )


def _in_order_of_first(jobs: Sequence[RecordedJob]) -> list[RecordedJob]:
    """The attempts with the first submission of their job."""
    first: dict[str, float] = {}
    for job in jobs:
        first[job.name] = min(job.submit_s, first.get(job.name, inf))
    return [replace(job, first_s=first[job.name]) for job in jobs]


def _hosts(row: LogRow) -> tuple[tuple[str, int], ...]:
    """Its GPUs split evenly over its nodes: how many were on which is not in a log."""
    if not row.hosts:
        return ()
    try:
        hosts = expand_hosts(row.hosts)
    except InputError as error:
        raise InputError(error.rule, line=row.line, field="NodeList") from error
    if row.nodes is not None and row.nodes != len(hosts):
        return ()
    each, more = divmod(int(row.gpus), len(hosts))
    shares = [each + (at < more) for at in range(len(hosts))]
    return tuple((host, n) for host, n in zip(hosts, shares, strict=True) if n)


def _of_run(folder: Path) -> Recorded:
    """Our own run, which knows everything."""
    run, cluster = read_run(folder), _cluster_of_run(folder)
    intervals: dict[str, list[Held]] = {}
    for row in run.segments:
        hosts = tuple(_parts(row.allocated_gpus, cluster))
        gpus = sum(n for _, n in hosts)
        intervals.setdefault(row.job, []).append(Held(row.start_s, row.end_s, gpus, hosts))
    jobs = [
        RecordedJob(
            row.job,
            row.tenant,
            row.submission_s,
            row.finish_s if row.finish_s == row.finish_s else inf,
            row.gpus,
            intervals=tuple(intervals.get(row.job, ())),
            first_s=row.submission_s,
        )
        for row in run.jobs
    ]
    return Recorded(_sorted(jobs), (f"{len(jobs)} jobs of our own run",), cluster)


def _cluster_of_run(folder: Path) -> Cluster:
    """Its cluster; a run of what happened beside a real scheduler has no further scenario."""
    from morph_opt.clusters import cluster_of
    from morph_opt.clusters.spec import CLUSTER_FIELDS
    from morph_opt.documents import Fields, read_toml
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.runs.write import CONFIG, LIVE

    config = Fields(read_toml(folder / CONFIG)[0], "", str(folder / CONFIG), None)
    if config.given(LIVE):
        return cluster_of(config.object("cluster", CLUSTER_FIELDS))
    return read_scenario(folder / CONFIG).cluster


def _parts(text: str, cluster: Cluster) -> Iterator[tuple[str, int]]:
    """GPUs by node of ``0:0-3 2:1``."""
    for part in text.split():
        node, _, gpus = part.partition(":")
        count = 0
        for one in gpus.split("+"):
            low, dash, high = one.partition("-")
            count += int(high) - int(low) + 1 if dash else 1
        yield cluster.nodes[int(node)].name, count
