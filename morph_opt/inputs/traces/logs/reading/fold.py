"""Folding of attempts and components into one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from morph_opt.inputs.traces.logs.reading.row import LogRow

Find = Callable[..., None]
"""Function that notes an oddity of a job: ``find("retried", wasted_gpu_s=3.0)``."""


def folded_attempts(rows: Sequence[LogRow], find: Find) -> LogRow:
    """Fold attempts, which ran one after the other, into one job.

    First submission and start, last end, run times added, the GPUs of the largest attempt;
    GPU-seconds are what the attempts held.
    """
    if len(rows) == 1:
        return rows[0]
    order = sorted(rows, key=lambda row: (row.start_s or row.submit_s, row.line))
    first, last = order[0], order[-1]
    gpus = max(row.gpus for row in order)
    run_s = _sum([row.run_s for row in order])
    gpu_s = _sum([row.gpu_seconds for row in order])
    wasted_s = _sum([row.gpu_seconds for row in order[:-1]]) or 0.0
    find("retried", wasted_gpu_s=wasted_s)
    if any(row.gpus != gpus for row in order) and run_s is not None and gpu_s is not None:
        surplus = float(gpus * run_s) - gpu_s
        find("gpus-differ-between-attempts", surplus_gpu_s=surplus)
    return last._replace(
        line=min(row.line for row in order),
        submit_s=min(row.submit_s for row in order),
        start_s=first.start_s,
        run_s=run_s,
        recorded_s=_sum([row.recorded_s for row in order]),
        gpus=gpus,
        gpu_s=gpu_s,
        attempts=sum(row.attempts for row in order),
        parts=tuple(_in_turn(order)),
    )


def _in_turn(order: Sequence[LogRow]) -> Iterator[LogRow]:
    """Yield the attempts; each waits from the end of the previous one at the earliest."""
    ended_s = -inf
    for row in order:
        since_s = ended_s if row.start_s is None else min(ended_s, row.start_s)
        yield row._replace(submit_s=max(row.submit_s, since_s), parts=())
        ended_s = ended_s if row.end_s is None else max(ended_s, row.end_s)


def folded_components(rows: Sequence[LogRow], name: str, find: Find) -> LogRow:
    """Fold components, which ran at the same time: GPUs added, longest run time."""
    if len(rows) == 1:
        return rows[0]._replace(name=name)
    longest = max(rows, key=lambda row: (row.run_s or 0.0, -row.line))
    find("heterogeneous")
    starts = [row.start_s for row in rows if row.start_s is not None]
    cpus = [row.cpus for row in rows if row.cpus is not None]
    nodes = [row.nodes for row in rows if row.nodes is not None]
    return longest._replace(
        name=name,
        line=min(row.line for row in rows),
        submit_s=min(row.submit_s for row in rows),
        start_s=min(starts) if starts else None,
        gpus=sum(row.gpus for row in rows),
        gpu_s=_sum([row.gpu_seconds for row in rows]),
        cpus=sum(cpus) if len(cpus) == len(rows) else None,
        nodes=sum(nodes) if len(nodes) == len(rows) else None,
        attempts=max(row.attempts for row in rows),
        parts=tuple(one for row in rows for one in row.rows),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def lives(rows: Sequence[LogRow], reused_after_s: Callable[[LogRow], float]) -> list[list[LogRow]]:
    """Split rows of one id into jobs: long after its end, an id may belong to another job.

    Parameters
    ----------
    rows
        Attempts and components, in any order.
    reused_after_s
        Seconds from the end of a row after which a submission is another job's.
    """
    found: list[list[LogRow]] = []
    over_s = inf
    for row in sorted(rows, key=lambda row: (row.submit_s, row.start_s or row.submit_s, row.line)):
        if not found or row.submit_s > over_s:
            found.append([])
            over_s = -inf
        found[-1].append(row)
        end_s = inf if row.end_s is None else row.end_s + reused_after_s(row)
        over_s = max(over_s, end_s)
    return found
