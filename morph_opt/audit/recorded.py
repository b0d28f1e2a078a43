"""Events of a log: when and where jobs were submitted, started and ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from morph_opt.audit import RUN
from morph_opt.core.documents import exists
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.slurm.hostlist import expand_hosts
from morph_opt.inputs.traces.logs.guess import Chosen, chosen
from morph_opt.inputs.traces.logs.reading.clock import window_of
from morph_opt.inputs.traces.logs.reading.fold import lives
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS, format_name, require_format, windowed
from morph_opt.simulation.runs.read import read_run


@dataclass(frozen=True, slots=True)
class Held:
    """Interval in which a job held GPUs.

    Parameters
    ----------
    start_s, end_s
        From, until.
    gpus
        GPUs held.
    hosts
        GPUs by name of node; () if the log does not name them.
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
    """Job of a log; each attempt of a requeued one is a job.

    Parameters
    ----------
    name, partition
        Its id; partition, virtual cluster or tenant.
    submit_s, end_s
        Its submission and end; the end is infinite if it was still there at the end of the log.
    gpus
        GPUs that it asked for.
    nodes
        Nodes that it asked for; None if not known.
    gpu_type
        Type that it held; None if not known.
    intervals
        Intervals in which it held GPUs, ascending; those of components overlap.
    ready_s
        Instant from which it waited for GPUs: later than ``submit_s`` for a begin time,
        infinite for a job that was held until it was gone.
    first_s
        Its first submission, which its place in the order goes by.
    array, at_once
        Array of which it is a task, and how many of its tasks may run at a time; "" and None for
        no array and no limit.
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
    array: str = ""
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Log as input of the audit.

    Parameters
    ----------
    jobs
        In order of submission.
    notes
        Lines on what was left out or assumed.
    cluster
        Cluster of a run folder; None for a log.
    window
        Instants from which and before which it is audited.
    """

    jobs: tuple[RecordedJob, ...]
    notes: tuple[str, ...] = field(default=())
    cluster: Cluster | None = None
    window: tuple[float, float] = (-inf, inf)

    @property
    def placed(self) -> float:
        """Share of the intervals that name their nodes."""
        known = [bool(interval.hosts) for job in self.jobs for interval in job.intervals]
        return sum(known) / max(1, len(known))


def read_recorded(spec: str, how: Reading) -> Recorded:
    """Read the log of ``[FORMAT:]PATH[@from..to]``, or a run folder ``run:PATH[@from..to]``.

    A window limits the instants that are audited: jobs submitted before it still hold GPUs in it.

    Raises
    ------
    InputError
        If there is no such format or file, or a row is malformed.
    """
    word, colon, path = spec.partition(":")
    if colon and word == RUN:
        if how != Reading():
            raise InputError("a run folder is read without options", field="FORMAT:PATH")
        folder, window = (path, None) if Path(path).is_dir() else windowed(path)
        found = _of_run(Path(folder))
        limits = (-inf, inf) if window is None else window_of(window, "UTC", absolute=False)
        return replace(found, window=limits)
    _require_log(spec)
    log = chosen(spec, None, how)
    known = log.reader
    if not known.durations:
        rule = f"format {known.name} has no starts and ends"
        raise InputError(rule, field="FORMAT:PATH")
    # What never started waited, and what still ran held GPUs: no jobs for a replay, but here.
    dropped: dict[str, list[LogRow]] = defaultdict(list)
    without_window = replace(log.how, window=None)
    scan = Scan(log.path, known, without_window, also=lambda row, why: dropped[why].append(row))
    kept = [row for row in scan.jobs() if row.start_s is not None]
    without_start = scan.report.jobs - len(kept)
    waited = [row for row in dropped["not-started"] if _whole(row)]
    running = [row for row in dropped["still-running"] if _whole(row)]
    first = _first_submissions([*kept, *waited, *running], scan)
    jobs = [job for row in kept for job in _jobs(row.rows, scan, first(row), running=True)]
    for rows, still_runs in ((waited, False), (running, True)):
        groups: dict[tuple[str, float], list[LogRow]] = defaultdict(list)
        for row in rows:
            groups[row.key or scan.reader.group(row.name)[0], first(row)].append(row)
        for (_, first_s), group in groups.items():
            jobs += _jobs(group, scan, first_s, running=still_runs)
    if not any(job.intervals for job in jobs):
        rule = "no job has a start and an end: nothing can be rebuilt"
        raise InputError(rule, file=str(log.path))
    unsized = sum(not row.gpus for row in dropped["not-started"])
    count = len(kept) + len(waited) + len(running)
    notes = tuple(_notes(scan, jobs, count, without_start=without_start, unsized=unsized))
    return Recorded(_sorted(jobs), notes, window=_limits(log, scan))


def path_of(spec: str) -> Path:
    """Return the path of a log or run folder, without format and window."""
    word = format_name(spec)
    if word is None and spec.startswith(f"{RUN}:"):
        word = RUN
    path = spec if word is None else spec[len(word) + 1 :]
    return Path(path if exists(Path(path)) else windowed(path)[0])


def _require_log(spec: str) -> None:
    """Refuse a spec that names neither a format nor a file."""
    if format_name(spec) is not None or exists(path_of(spec)):
        return
    require_format(spec, "FORMAT:PATH")
    word, colon, _ = spec.partition(":")
    if colon:
        raise InputError(unknown("format", word, (*LOG_FORMATS, RUN)), field="FORMAT:PATH")
    raise InputError(f"must be FORMAT:PATH, like sacct:jobs.txt, or a file, got {spec[:80]!r}")


def _whole(row: LogRow) -> bool:
    """Return whether a row has whole GPUs, which an audit can place."""
    return isinstance(row.gpus, int) and row.gpus > 0


def _limits(log: Chosen, scan: Scan) -> tuple[float, float]:
    """Return the instants from which and before which a log is audited."""
    if log.how.window is None:
        return -inf, inf
    absolute = None if scan.known.dates_or_seconds else bool(scan.known.zone)
    return window_of(log.how.window, scan.clock.zone, absolute=absolute)


def _first_submissions(rows: Sequence[LogRow], scan: Scan) -> Callable[[LogRow], float]:
    """Return the function from a row to the first submission of its job."""
    by_key: dict[str, list[LogRow]] = defaultdict(list)
    for row in rows:
        by_key[row.key or scan.reader.group(row.name)[0]].append(row)
    found: dict[int, float] = {}
    for same in by_key.values():
        for life in lives(same, scan.reader.reused_after_s):
            first_s = min(row.submit_s for row in life)
            found |= {row.line: first_s for row in life}
    return lambda row: found[row.line]


def _notes(
    scan: Scan, jobs: Sequence[RecordedJob], count: int, *, without_start: int, unsized: int
) -> Iterator[str]:
    """Yield what was read, left out and assumed."""
    report = scan.report
    waits_or_runs = {"not-started", "still-running"}
    gone = {reason: n for reason, n in report.dropped.items() if n and reason not in waits_or_runs}
    lost = ", ".join(f"{n} {reason}" for reason, n in gone.items())
    yield f"{report.rows} rows, {count} jobs" + (f"; left out: {lost}" if lost else "")
    if parts := sum(gone.get(reason, 0) for reason in ("mig-slice", "fractional-gpu")):
        yield f"{parts} rows hold parts of GPUs: those GPUs count as idle here"
    yield from report.assumed
    for severity, _, sentence in report.sentences():
        if severity == "warning":
            yield f"warning: {sentence}"
    if without_start:
        yield f"{without_start} jobs have no start: left out"
    if unsized:
        yield f"{unsized} rows that never started do not state their GPUs: left out"
    if report.folded:
        yield "attempts hold their own GPUs; the order goes by the first submission"
    if late := sum(job.ready_s > job.submit_s for job in jobs):
        yield (
            f"{late} times a job was eligible only after its submission (begin times, holds, also "
            "of a controller that releases jobs one by one): it waits from then on"
        )


def _sorted(jobs: Iterable[RecordedJob]) -> tuple[RecordedJob, ...]:
    return tuple(sorted(jobs, key=lambda job: (job.submit_s, job.name)))


def _jobs(
    rows: Sequence[LogRow], scan: Scan, first_s: float, *, running: bool
) -> Iterator[RecordedJob]:
    """Yield attempts and tasks as single jobs, and components together as one job."""
    names = [scan.reader.group(row.name) for row in rows]
    found = [
        _job(row, name, first_s, running=running)
        for row, (name, _) in zip(rows, names, strict=True)
    ]
    if len({component for _, component in names}) < 2:
        for row, job in zip(rows, found, strict=True):
            yield from [job] * row.tasks
        return
    nodes = [job.nodes for job in found if job.nodes is not None]
    held = [one for job in found for one in job.intervals]
    yield replace(
        found[0],
        submit_s=min(job.submit_s for job in found),
        end_s=max(job.end_s for job in found),
        gpus=sum(job.gpus for job in found),
        nodes=sum(nodes) if len(nodes) == len(found) else None,
        intervals=tuple(sorted(held, key=lambda one: one.start_s)),
        ready_s=max(job.ready_s for job in found),
    )


def _job(row: LogRow, name: str, first_s: float, *, running: bool) -> RecordedJob:
    """Return the attempt of a row that ran, or ended while it waited."""
    end_s = inf if row.end_s is None or (running and row.run_s is None) else row.end_s
    intervals: tuple[Held, ...] = ()
    if running and row.start_s is not None:
        hosts = _hosts(row)
        intervals = (Held(row.start_s, end_s, int(row.gpus), hosts, split=len(hosts) > 1),)
    return RecordedJob(
        name,
        row.pool or row.tenant,
        row.submit_s,
        end_s,
        int(row.gpus),
        row.nodes or None,
        row.gpu_type,
        intervals,
        ready_s=-inf if row.eligible_s is None else row.eligible_s,
        first_s=first_s,
        array=row.array,
        at_once=row.at_once,
    )


def _hosts(row: LogRow) -> tuple[tuple[str, int], ...]:
    """Split a job's GPUs evenly over its nodes: the log does not state them by node."""
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
    held: dict[str, int] = defaultdict(int)  # a list may name a node twice
    for host, n in zip(hosts, shares, strict=True):
        held[host] += n
    return tuple((host, n) for host, n in held.items() if n)


def _of_run(folder: Path) -> Recorded:
    """Read a run folder, which states all facts about its jobs."""
    run, cluster = read_run(folder), _cluster_of_run(folder)
    intervals: dict[str, list[Held]] = {}
    for row in run.segments:
        hosts = tuple((cluster.nodes[node].name, len(gpus)) for node, gpus in row.placement.parts)
        intervals.setdefault(row.job, []).append(Held(row.start_s, row.end_s, row.gpus, hosts))
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
    """Return the cluster of a run, from the configuration if the run is live."""
    from morph_opt.core.documents import Fields, read_toml
    from morph_opt.inputs.clusters import cluster_of
    from morph_opt.inputs.clusters.spec import CLUSTER_FIELDS
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.simulation.runs.write import CONFIG, LIVE

    config = Fields(read_toml(folder / CONFIG)[0], "", str(folder / CONFIG), None)
    if config.given(LIVE):
        return cluster_of(config.object("cluster", CLUSTER_FIELDS))
    return read_scenario(folder / CONFIG).cluster
