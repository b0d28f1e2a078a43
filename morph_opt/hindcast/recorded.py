"""Waits that a log records, and the jobs that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.core.domain.options import asked
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.logs.guess import chosen
from morph_opt.inputs.traces.logs.jobs import load_log, unique_names
from morph_opt.inputs.traces.logs.options import require_mode
from morph_opt.inputs.traces.logs.reading.clock import window_of
from morph_opt.inputs.traces.logs.reading.reader import Reader
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.options import LogOptions, ReadingOptions

_OPEN = ("still-running", "not-started")
"""Reasons for which a row is no job of a replay although it held GPUs or waited for them."""


@dataclass(frozen=True, slots=True)
class RecordedWaits:
    """Waits of a log.

    Parameters
    ----------
    loaded
        Jobs to replay: those that have ended, that still ran, and that still waited.
    waits_s
        Seconds from eligible to start, by job that started; of one that ran more than once, all
        seconds without GPUs, if the log states them.
    evictions
        Number of evictions by reason; empty if the log states none.
    notes
        Lines on what was read, left out and assumed.
    """

    loaded: LoadedTrace
    waits_s: Mapping[str, float]
    notes: tuple[str, ...]
    evictions: Mapping[str, int] = field(default_factory=dict)


def read_waits(spec: str, options: Mapping[str, Any]) -> RecordedWaits:
    """Read the log of ``[FORMAT:]PATH[@from..to]``.

    Parameters
    ----------
    spec
        The log.
    options
        Values by name, as in `morph_opt.inputs.traces.options.LogOptions`.

    Raises
    ------
    InputError
        If there is no such format or file, a row is malformed, the log has no starts, or no job
        of it started.
    """
    require_mode(options)
    read = {name: value for name, value in options.items() if name in asked(ReadingOptions)}
    log = chosen(spec, None, Reading(**read))
    rows: list[LogRow] = []
    notes: list[str] = []

    def read_rows(path: Path, known: type[Reader], how: Reading) -> tuple[list[LogRow], Scan]:
        unfinished: list[LogRow] = []

        def also(row: LogRow, reason: str) -> None:
            if reason in _OPEN and isinstance(row.gpus, int) and row.gpus:
                # What such a row says of its run time is what had passed when it was written.
                unfinished.append(row._replace(run_s=None) if row.end_s is None else row)

        scan = Scan(path, known, how, also=also)
        ended = list(scan.jobs())
        if how.window is not None:  # a row that is no job is dropped for that, wherever it lies
            absolute = None if known.dates_or_seconds else bool(known.zone)
            begin_s, end_s = window_of(how.window, scan.clock.zone, absolute=absolute)
            unfinished = [row for row in unfinished if begin_s <= row.submit_s < end_s]
        rows.extend(sorted(_eligible(ended, unfinished, notes), key=lambda row: row.submit_s))
        return list(rows), scan

    loaded = load_log(
        log.path,
        log.reader,
        log.how,
        LogOptions(**options),
        name=log.path.name,
        read_rows=read_rows,
    )
    there = {job.name for job in loaded.trace.jobs}
    waits_s = {
        name: max(0.0, row.start_s - row.submit_s if row.waited_s is None else row.waited_s)
        for row, name in zip(rows, unique_names(rows), strict=True)
        if row.start_s is not None and name in there
    }
    if not waits_s:
        raise InputError("has no job with a start: no wait is recorded", file=str(log.path))
    account = loaded.account
    evictions: Counter[str] = Counter()
    for row in rows:
        evictions.update(dict(row.evictions))
    texts = () if account is None else account.texts()
    return RecordedWaits(loaded, waits_s, (*texts, *notes), dict(evictions.most_common()))


def _eligible(
    ended: Sequence[LogRow], unfinished: Sequence[LogRow], notes: list[str]
) -> Iterator[LogRow]:
    """Yield the rows to replay, submitted when they were eligible; add to the notes."""
    every = [*ended, *unfinished]
    instants = (at_s for row in every for at_s in (row.submit_s, row.start_s, row.end_s))
    last_s = max((at_s for at_s in instants if at_s is not None), default=0.0)
    count: Counter[str] = Counter()
    for at, row in enumerate(every):
        ready_s = row.ready_s
        run_s = row.run_s
        if row.waited_s is not None:
            count["evicted workloads, replayed as one run with the sum of their waits"] += 1
        elif row.attempts > 1:
            count["requeued jobs, replayed as one run with the wait of the first"] += 1
        is_open = at >= len(ended)
        if ready_s == inf or (is_open and row.start_s is None and row.end_s is not None):
            count["jobs held, or cancelled while they waited, left out"] += 1
            continue
        if is_open and run_s is None:
            done_s = 0.0 if row.start_s is None else last_s - row.start_s
            if row.start_s is None and not row.limit_s:
                count["jobs that still waited at the end and have no limit, left out"] += 1
                continue
            run_s = max(1.0, done_s, row.limit_s or 0.0)
            still = "waited" if row.start_s is None else "ran"
            judged = "not judged" if row.start_s is None else "judged"
            count[f"jobs that still {still} at the end, replayed to their limits, {judged}"] += 1
        if ready_s > row.submit_s:
            count["jobs eligible after their submission, which wait from then on"] += 1
        yield row._replace(submit_s=ready_s, run_s=run_s)
    notes += (f"{what}: {n}" for what, n in count.items())
