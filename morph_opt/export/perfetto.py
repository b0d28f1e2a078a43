"""Chrome's trace event format, which Perfetto opens: a process per node, a thread per GPU.

The format: *Trace Event Format*, Google, 2016. Slices of a thread must nest or not overlap; times
are whole microseconds, so that neighbours meet exactly.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from morph_opt.simulation.metrics.history import Segment
from morph_opt.simulation.runs.views.view import RunView

Record = dict[str, Any]

STARTUP = "start-up"
"""Name of the slice for start-up, inside the slice of a job."""


def trace_records(view: RunView) -> Iterator[Record]:
    """Yield names, slices, failures and counters of a run."""
    yield from _names(view)
    yield from _slices(view)
    nodes = view.nodes
    for outage in view.outages:
        about = {"ph": "i", "s": "p", "pid": outage.node + 1, "tid": 1, "cat": "node"}
        yield about | {"name": outage.status, "ts": _us(outage.start_s)}
        if outage.end_s < view.end_s:
            yield about | {"name": "up", "ts": _us(outage.end_s)}
    cluster = len(nodes.names) + 1
    for row in view.run.rounds:
        about = {"ph": "C", "pid": cluster, "tid": 1, "ts": _us(row.time_s)}
        counts = {"running": row.running, "queued": row.jobs - row.running}
        yield about | {"name": "jobs", "args": counts}
        yield about | {"name": "GPUs held", "args": {"GPUs": row.gpus_used}}


def perfetto_trace(view: RunView) -> bytes:
    """Return the records as compressed JSON; equal runs give equal bytes."""
    about = {"trace": view.run.summary.trace, "policy": view.name}
    document = {
        "displayTimeUnit": "ms",
        "otherData": about,
        "traceEvents": list(trace_records(view)),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _names(view: RunView) -> Iterator[Record]:
    nodes = view.nodes
    packed = any(segment.sharing for _, segment in view.segments)
    for node, (name, gpus) in enumerate(zip(nodes.names, nodes.gpus, strict=True)):
        shown = f"{name} ({nodes.gpu_types[node]})" if nodes.known else name
        yield _meta("process_name", node + 1, 0, {"name": shown})
        yield _meta("process_sort_index", node + 1, 0, {"sort_index": node})
        for thread in range(gpus * (2 if packed else 1)):
            lane, gpu = divmod(thread, gpus)
            title = f"GPU {gpu}" + (", second job" if lane else "")
            yield _meta("thread_name", node + 1, thread + 1, {"name": title})
            order = {"sort_index": 2 * gpu + lane}
            yield _meta("thread_sort_index", node + 1, thread + 1, order)
    yield _meta("process_name", len(nodes.names) + 1, 0, {"name": "cluster"})


def _meta(name: str, pid: int, tid: int, args: Record) -> Record:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _slices(view: RunView) -> Iterator[Record]:
    """Yield a slice per segment and GPU, and one for its start-up."""
    free_at: dict[tuple[int, int], int] = {}
    gpus_of = view.nodes.gpus
    for job, segment in sorted(view.segments, key=lambda row: (row[1].start_s, row[0])):
        start, end = _us(segment.start_s), _us(segment.end_s)
        startup = _us(segment.start_s + segment.startup_s) - start
        args = _details(view, job, segment)
        for node, gpus in segment.placement.parts:
            for gpu in gpus:
                # Two jobs on the same GPU overlap in time: the later one has a thread of its own.
                thread = gpu if free_at.get((node, gpu), 0) <= start else gpu + gpus_of[node]
                free_at[node, thread] = end
                about = {"ph": "X", "pid": node + 1, "tid": thread + 1, "ts": start}
                name = view.jobs[job].job
                yield about | {"name": name, "cat": "job", "dur": end - start, "args": args}
                if startup:
                    yield about | {"name": STARTUP, "cat": STARTUP, "dur": startup}


def _details(view: RunView, job: int, segment: Segment) -> Record:
    row = view.jobs[job]
    return {
        "model": row.model,
        "tenant": row.tenant,
        "plan": segment.plan,
        "GPUs": segment.gpus,
        "began": str(segment.kind),
        "ended by": segment.ended_by,
        "iterations": segment.iterations,
    }
