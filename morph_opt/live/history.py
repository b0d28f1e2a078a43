"""Run folders made from audit logs, with the files of a replay's."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from morph_opt.core.documents import exists, parse_json, read_lines, toml_text
from morph_opt.core.domain import Cluster, InputError, Job, Placement, Shape, Trace
from morph_opt.inputs.clusters import cluster_to_tables
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN
from morph_opt.round.live.build import LiveNode, cluster_of
from morph_opt.round.speeds import SpeedRow, SpeedTable
from morph_opt.scheduling.policies.base import RoundReport
from morph_opt.simulation.events import log
from morph_opt.simulation.events.log import Event, NodeStatus, RoundDecided
from morph_opt.simulation.runs.result import result_of_log
from morph_opt.simulation.runs.rounds import RoundRow, round_row
from morph_opt.simulation.runs.write import CONFIG, LIVE, RunWriter, create_folder, document_of


@dataclass(slots=True)
class RunInterval:
    """Interval in which a job held GPUs.

    Parameters
    ----------
    job, start_s, end_s
        Job, and begin and end in seconds; the end is infinite if the job still runs.
    on, gpus
        Nodes, and GPUs on all of them.
    held
        GPU indices by node; empty for a interval that no look saw.
    end
        The event that ended it; "" for one that runs on.
    """

    job: str
    start_s: float
    on: tuple[str, ...]
    gpus: int
    held: dict[str, tuple[int, ...]]
    end_s: float = inf
    end: str = ""


def settle(intervals: Sequence[RunInterval]) -> None:
    """End intervals when another job takes their GPUs, even if their end was not observed."""
    last: dict[tuple[str, int], RunInterval] = {}
    for interval in sorted(intervals, key=lambda one: one.start_s):
        for place in ((node, gpu) for node, gpus in interval.held.items() for gpu in gpus):
            before = last.get(place)
            if before is not None and before.end_s > interval.start_s:
                before.end_s, before.end = interval.start_s, before.end or "preempt"
            last[place] = interval


def placed(intervals: Sequence[RunInterval], cluster: Cluster) -> Iterator[RunInterval]:
    """Return the intervals; unobserved ones get GPUs of their nodes that no other job held.

    Of a job that is over a scheduler states the nodes, not the GPUs. An interval for which there
    are too few is left out.
    """
    index = cluster.node_index
    known = [interval for interval in intervals if interval.held]
    for interval in intervals:
        if interval.held:
            yield interval
            continue
        free = {node: set(range(cluster.nodes[index[node]].type.gpus)) for node in interval.on}
        for other in known:
            if other.start_s < interval.end_s and interval.start_s < other.end_s:
                for node in free.keys() & other.held.keys():
                    free[node] -= set(other.held[node])
        left, held = interval.gpus, {}
        for k, node in enumerate(interval.on, start=1):
            # One stays for each node behind this one.
            held[node] = tuple(sorted(free[node])[: max(0, left - len(interval.on) + k)])
            left -= len(held[node])
        if not left and all(held.values()):
            known.append(replace(interval, held=held))
            yield known[-1]


_DOCUMENT = re.compile(r"rounds/[0-9]{8,}\.json\.gz")
_END, _SUBMIT, _SHORT, _START, _OVER, _TURN, _DOWN = range(7)
"""Ranks of events of one second: ends of earlier intervals come before new ones.

A node closes after the round that finds it closed: jobs that began there since the last look did so
while it was open.
"""

_Mark = tuple[float, int, Callable[[Any, float], None], Any]
"""Event before sorting: instant, rank, function that takes it, and its value."""


def read_audit(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Read how the last controller of an audit log began, and its turns.

    Raises
    ------
    InputError
        If it is none, or no job happened in it.
    """
    begun: Mapping[str, Any] | None = None
    turns: list[Mapping[str, Any]] = []
    for number, text in read_lines(path):
        entry = parse_json(text, str(path), first_line=number)
        if not isinstance(entry, dict):
            raise InputError("is no line of an audit log", file=str(path), line=number)
        begun = entry if "begin" in entry else begun
        if "turn" in entry:
            turns.append(entry)
    if begun is None or not any(turn["happened"] for turn in turns):
        raise InputError("holds no turns in which anything happened", file=str(path))
    return begun, turns


def write_run(path: Path, out: Path) -> None:
    """Write the run folder of an audit log.

    The iterations of a job are the seconds that it ran, as its scheduler states them. Jobs that ran
    before the log begins start with it.

    Raises
    ------
    InputError
        If the log is none, or the folder is in use.
    """
    try:
        live, turns = read_audit(path)
        nodes = [LiveNode(name, kind, gpus, open=True) for name, kind, gpus in live["nodes"]]
        cluster = cluster_of(nodes, str(live["cluster"]) or "live")
        found = _History(turns, cluster)
        trace, truth = found.trace()
        begun = log.Begun(
            0.0,
            trace.name,
            trace.sha256,
            f"live {live['begin']}",
            len(trace.jobs),
            len(cluster.nodes),
            cluster.gpus,
            float(live["interval_s"]),
            "",
        )
    except InputError as error:
        raise InputError(error.rule, file=str(path), line=error.line, field=error.field) from error
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(f"is no audit log of this version ({error!r})", file=str(path)) from error
    events: list[Event] = [begun, *found.events]
    labels = {
        "objective": None,
        "solver": None,
        "cluster": cluster.name,
        "trace_kind": "live",
        "trace_notice": "what happened beside a scheduler, by its audit log",
        "wall_s": 0.0,
        "peak_rss_mib": 0.0,
    }
    result = result_of_log(trace, cluster, truth, events, found.rows, labels)
    about = {key: value for key, value in live.items() if key not in ("nodes", "cluster")}
    tables = {LIVE: about, "cluster": cluster_to_tables(cluster)}
    create_folder(out, {CONFIG: toml_text(tables)})
    _keep_documents(path.parent, out, found.documents)
    writer = RunWriter(out)
    chunk: list[Event] = []
    left = iter(found.rows)
    for event in events:
        chunk.append(event)
        if isinstance(event, log.Begun | RoundDecided):
            writer.commit(chunk, next(left) if isinstance(event, RoundDecided) else None)
            chunk = []
    writer.commit(chunk, None)
    writer.finish(result.last_files())


def _keep_documents(folder: Path, out: Path, documents: Mapping[int, str]) -> None:
    """Copy the documents of rounds that still exist, for `morph_opt.explain.why`."""
    for index, name in documents.items():
        if exists(folder / name):
            place = out / document_of(index)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, place)


class _History:
    """Events of a replay, made of the entries of an audit log in order of time.

    Parameters
    ----------
    turns
        Lines of turns.
    cluster
        Its nodes by name.

    Attributes
    ----------
    zero_s
        Instant of the first event on slurmctld's clock; instants of events count from it.
    asked, ran_s, shapes
        Requested GPUs, seconds of running, and shapes, by job.
    documents
        By round, where the controller kept what it decided by.
    """

    def __init__(self, turns: Sequence[Mapping[str, Any]], cluster: Cluster) -> None:
        self._cluster = cluster
        found = [one for turn in turns for one in turn["happened"]]
        self.zero_s = min(float(one["time_s"]) for one in found)
        self.asked: dict[str, int] = {}
        self.submitted_s: dict[str, float] = {}
        self.ran_s: dict[str, float] = {}
        self.shapes: dict[str, set[tuple[Shape, str]]] = {}
        self.documents: dict[int, str] = {}
        self.events: list[Event] = []
        self.rows: list[RoundRow] = []
        self._since = 0
        self._running: dict[str, RunInterval] = {}
        self._over: set[str] = set()
        self._down: dict[str, NodeStatus] = {}
        intervals, marks = self._read(found)
        settle(intervals)
        for interval in placed(intervals, cluster):
            short = interval.start_s == interval.end_s
            marks.append((interval.start_s, _SHORT if short else _START, self._start, interval))
            if interval.end:
                marks.append((interval.end_s, _SHORT if short else _END, self._stop, interval))
        marks += [(float(one["time_s"]), _TURN, self._decided, one) for one in turns]
        for at_s, _, take, one in sorted(marks, key=lambda mark: mark[:2]):
            take(one, at_s - self.zero_s)
        complete = set(self.asked) == self._over
        last_s = self.events[-1].time_s
        reason = log.EndReason.COMPLETE if complete else log.EndReason.HORIZON
        for name, interval in self._running.items():
            self.ran_s[name] = self.ran_s.get(name, 0.0) + last_s - (interval.start_s - self.zero_s)
        self.events.append(log.Ended(last_s, reason))

    def _read(self, found: Sequence[Mapping[str, Any]]) -> tuple[list[RunInterval], list[_Mark]]:
        """Read the intervals of all jobs and the other entries."""
        intervals: list[RunInterval] = []
        marks: list[_Mark] = []
        runs: dict[str, RunInterval] = {}
        over: set[str] = set()
        for one in found:
            name, kind, at_s = str(one.get("job", "")), one["event"], float(one["time_s"])
            if kind == "node":
                rank = _END if one["status"] == "up" else _DOWN
                marks.append((at_s, rank, self._node, one))
            elif kind == "submit":
                self.asked[name] = int(one["gpus"])
                marks.append((at_s, _SUBMIT, self._submit, one))
            elif name in over or name not in self.asked:
                continue  # it ran again after its end, which no replay knows
            elif kind == "start":
                held = {part["node"]: tuple(part["gpus"]) for part in one.get("nodes", ())}
                gpus = one.get("gpus") or sum(map(len, held.values()))
                runs[name] = RunInterval(name, at_s, tuple(held or one["on"]), gpus, held)
                intervals.append(runs[name])
            elif kind in ("preempt", "complete", "cancel"):
                if name in runs:
                    runs[name].end_s, runs[name].end = max(at_s, runs[name].start_s), kind
                    del runs[name]
                if kind != "preempt":
                    over.add(name)
                    marks.append((at_s, _OVER, self._gone, one))
        return intervals, marks

    def _node(self, one: Mapping[str, Any], at_s: float) -> None:
        node, status = str(one["node"]), NodeStatus(one["status"])
        if self._down.get(node, NodeStatus.UP) is status:
            return
        self._down[node] = status
        self.events.append(log.NodeChanged(at_s, node, status))

    def _submit(self, one: Mapping[str, Any], at_s: float) -> None:
        name = str(one["job"])
        self.submitted_s[name] = at_s
        self.events.append(log.Submitted(at_s, name))

    def _gone(self, one: Mapping[str, Any], at_s: float) -> None:
        """Take in a job that ended without running to completion, as far as is known."""
        name = str(one["job"])
        if name not in self._over:
            self._over.add(name)
            self.events.append(log.Cancelled(at_s, name, self.ran_s.get(name, 0.0)))

    def _start(self, interval: RunInterval, at_s: float) -> None:
        name, index = interval.job, self._cluster.node_index
        for node in interval.held:  # it was back before a look found it so
            self._node({"node": node, "status": "up"}, at_s)
        placement = Placement.of({index[node]: gpus for node, gpus in interval.held.items()})
        kind = self._cluster.nodes[placement.nodes[0]].type.name
        self.shapes.setdefault(name, set()).add((placement.shape, kind))
        done = self.ran_s.get(name, 0.0)
        word = log.StartKind.FIRST if name not in self.ran_s else log.StartKind.RESUME
        self.ran_s.setdefault(name, 0.0)
        self._running[name] = interval
        self.events.append(log.Started(at_s, name, word, RIGID_PLAN, placement, 1.0, 0.0, done))

    def _stop(self, interval: RunInterval, at_s: float) -> None:
        name = interval.job
        del self._running[name]
        self.ran_s[name] += interval.end_s - interval.start_s
        done = self.ran_s[name]
        if interval.end == "preempt":
            self.events.append(log.Preempted(at_s, name, log.StopCause.POLICY, done, 0.0))
            return
        self._over.add(name)
        whole = interval.end == "complete"
        self.events.append(log.Completed(at_s, name) if whole else log.Cancelled(at_s, name, done))

    def _decided(self, turn: Mapping[str, Any], at_s: float) -> None:
        gpus = sum(interval.gpus for interval in self._running.values())
        active = len(self.asked.keys() & self.submitted_s.keys() - self._over)
        status, seconds = str(turn["status"]), turn["seconds"]
        if _DOCUMENT.fullmatch(str(turn.get("round"))):
            self.documents[len(self.rows)] = turn["round"]
        counts = len(self.rows), active, len(self._running), gpus
        self.events.append(RoundDecided(at_s, *counts, status, None, 0, 0.0, None))
        value = turn["value"]
        report = RoundReport(status, objective=float("nan") if value is None else float(value))
        times_ms = 1e3 * float(seconds["decide"]), 1e3 * float(seconds["read"])
        self.rows.append(round_row(self.events[self._since :], report, (0, 0.0), *times_ms))
        self._since = len(self.events)

    def trace(self) -> tuple[Trace, SpeedTable]:
        """Return the jobs as a trace, and speeds of one second per iteration."""
        jobs, rows = [], []
        size = self._cluster.node_types[0]
        for name in sorted(self.asked, key=lambda one: self.submitted_s[one]):
            nodes = -(-self.asked[name] // size.gpus)
            each, more = divmod(self.asked[name], nodes)
            even = Shape.of(*(each + 1,) * more, *(each,) * (nodes - more)), size.name
            model = f"job {name}"
            ran_s = max(1, round(self.ran_s.get(name, 1.0)))
            asked, submitted_s = self.asked[name], self.submitted_s[name]
            jobs.append(Job(name, model, submitted_s, ran_s, asked, RIGID_PLAN))
            for shape, kind in sorted(self.shapes.get(name, {even}), key=str):
                rows.append(SpeedRow(model, kind, Configuration(shape, RIGID_PLAN, 1.0)))
        return Trace("live", tuple(jobs), "what ran beside a scheduler"), SpeedTable(rows)
