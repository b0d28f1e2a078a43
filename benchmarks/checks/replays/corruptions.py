"""Small edits of run folders, each of which a reader must notice."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.checks.replays.check import BY_RELATION
from benchmarks.checks.replays.documents import Event

Edit = Callable[[Path], bool]
"""Changes a folder; False where it has nothing to change."""

Change = Callable[[list[Event], int], None]


def _of_log(kind: str, change: Change, where: Callable[[Event], bool] = lambda _: True) -> Edit:
    """An edit of the middle one of the log's events of a kind."""

    def edit(folder: Path) -> bool:
        path = folder / "events.jsonl"
        events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        those = [i for i, e in enumerate(events) if e["event"] == kind and where(e)]
        if not those:
            return False
        change(events, those[len(those) // 2])
        path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        return True

    return edit


def _set(name: str, value: Callable[[Any], Any]) -> Change:
    def change(events: list[Event], place: int) -> None:
        events[place][name] = value(events[place][name])

    return change


def _drop(events: list[Event], place: int) -> None:
    del events[place]


def _onto_another(events: list[Event], place: int) -> None:
    """Put a start onto the GPUs of the job that started before it and still runs."""
    gone = {e["job"] for e in events[:place] if e["event"] in ("preempt", "complete", "cancel")}
    for other in reversed(events[:place]):
        if other["event"] == "start" and other["job"] not in {*gone, events[place]["job"]}:
            events[place]["placement"] = other["placement"]
            return
    events[place]["placement"] = [[0, [99]]]


def _later(events: list[Event], place: int) -> None:
    events[place]["time_s"] += 0.5


EVENTS: dict[str, Edit] = {
    "completion half a second later": _of_log("complete", _later),
    "completion left out": _of_log("complete", _drop),
    "submission half a second later": _of_log("submit", _later),
    "submission left out": _of_log("submit", _drop),
    "dearer start": _of_log("start", _set("restart_s", lambda s: s + 3.0)),
    "slower job": _of_log("start", _set("iteration_s", lambda s: s * 1.001)),
    "more iterations at a start": _of_log("start", _set("iterations_done", lambda n: n + 1.0)),
    "start on held GPUs": _of_log("start", _onto_another),
    "start on a GPU that is not there": _of_log("start", _set("placement", lambda _: [[0, [77]]])),
    "start between boundaries": _of_log("start", _later),
    "start of another kind": _of_log(
        "start", _set("kind", lambda kind: "resume" if kind == "first" else "first")
    ),
    "start left out": _of_log("start", _drop),
    "stop left out": _of_log("preempt", _drop),
    "stop keeps more": _of_log("preempt", _set("iterations_done", lambda n: n + 1.0)),
    "stop loses more": _of_log("preempt", _set("iterations_lost", lambda n: n + 1.0)),
    "stop for another cause": _of_log(
        "preempt",
        _set("cause", lambda cause: "policy" if cause == "node-failure" else "node-failure"),
    ),
    "failure left out": _of_log("node", _drop, lambda e: e["status"] == "failed"),
    "failure of another node": _of_log(
        "node", _set("node", lambda _: "node-7"), lambda e: e["status"] == "failed"
    ),
    "partner left out": _of_log("share", _drop, lambda e: e["partner"] is not None),
    "slower pair": _of_log("share", _set("iteration_s", lambda s: s * 1.01)),
    "cancelled with more": _of_log("cancel", _set("iterations_done", lambda n: n + 1.0)),
    "cancellation left out": _of_log("cancel", _drop),
    "round left out": _of_log("round", _drop),
    "round with more GPUs": _of_log("round", _set("gpus", lambda n: n + 1)),
    "round with fewer jobs": _of_log("round", _set("active", lambda n: n - 1)),
    "round with more running": _of_log("round", _set("running", lambda n: n + 1)),
    "round of another status": _of_log("round", _set("status", lambda _: "fallback")),
    "round with another gap": _of_log("round", _set("gap", lambda _: 0.25)),
    "round of another number": _of_log("round", _set("index", lambda n: n + 1)),
    "another number of GPUs": _of_log("begin", _set("gpus", lambda n: n + 1)),
    "another interval": _of_log("begin", _set("interval_s", lambda s: s + 1)),
    "later end": _of_log("end", _set("time_s", lambda s: s + 60.0)),
    "end for another reason": _of_log("end", _set("reason", lambda _: "stalled")),
}
"""Of events.jsonl."""


def _changed(value: Any) -> Any:
    """Another value of the kind, as near as a slip would be."""
    if value is None:
        return 1.0
    if isinstance(value, str):
        return value + "x"
    return value * 1.0001 if isinstance(value, float) and value else value + 1


def of_table(folder: Path) -> Iterator[tuple[str, Edit]]:
    """An edit per column of jobs.csv, of the first row that has something there."""
    with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for column in rows[0]:
        yield f"jobs.csv: {column}", _of_column(column)


def _of_column(column: str) -> Edit:
    def edit(folder: Path) -> bool:
        path = folder / "jobs.csv"
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))
        row = next((row for row in rows if row[column]), rows[0])
        try:
            whole = not any(mark in row[column] for mark in ".en")
            row[column] = str(_changed(int(row[column]) if whole else float(row[column])))
        except ValueError:
            row[column] += "x"
        text = io.StringIO()
        writer = csv.DictWriter(text, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue(), encoding="utf-8")
        return True

    return edit


_TELLING = {
    "wall_s": 0.0, "peak_rss_mib": 0.0, "skipped_jobs": -1, "trace_kind": "", "trace_notice": 5,
}  # fmt: skip
"""Values of keys that are checked by relation that cannot be; bounds above what was reached."""


def of_summary(folder: Path) -> Iterator[tuple[str, Edit]]:
    """An edit per key of summary.json."""
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    for key, value in summary.items():
        if key.endswith("_ms") or "_ms_" in key:  # known to four digits
            yield f"summary.json: {key}", _of_key(key, (value or 0.0) + 0.001)
        elif key not in BY_RELATION:
            yield f"summary.json: {key}", _of_key(key, _changed(value))
        elif key in _TELLING:
            yield f"summary.json: {key}", _of_key(key, _TELLING[key])
        elif key.endswith("_bound_by"):
            yield f"summary.json: {key}", _of_key(key, "hope")
        else:
            yield f"summary.json: {key}", _of_key(key, -1.0)
    yield "summary.json: key left out", _of_key("avg_jct_s", None, drop=True)


def _of_key(key: str, value: Any, *, drop: bool = False) -> Edit:
    def edit(folder: Path) -> bool:
        path = folder / "summary.json"
        summary = json.loads(path.read_text("utf-8"))
        summary[key] = value
        if drop:
            del summary[key]
        path.write_text(json.dumps(summary), encoding="utf-8")
        return True

    return edit


def every_edit(folder: Path) -> dict[str, Edit]:
    """Edits of all three files."""
    return {**EVENTS, **dict(of_table(folder)), **dict(of_summary(folder))}


def corrupted(folder: Path, into: Path, edits: Mapping[str, Edit]) -> Iterator[tuple[str, Path]]:
    """Copies of a run folder, each with one edit, less those with nothing to change."""
    for number, (name, edit) in enumerate(edits.items()):
        copy = into / f"edit-{number}"
        shutil.copytree(folder, copy)
        if edit(copy):
            yield name, copy
        shutil.rmtree(copy)
