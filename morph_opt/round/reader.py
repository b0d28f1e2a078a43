"""Reader of snapshots; contradictions are refused with file, field and rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, exists, names_of, parse_json
from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    InputError,
    Job,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.core.domain.arguments import require_type
from morph_opt.inputs.clusters.spec import LISTED_FIELDS, cluster_of
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.round.snapshot import SCHEMA, SPEEDS_SCHEMA, Snapshot, read_text
from morph_opt.round.speeds import rows_from_json
from morph_opt.scheduling.decision.rules.known import require_known_nodes
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.spec import RULE_FIELDS, read_rules, rules_of
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts, Violation

STATE = (
    "schema", "round", "time_s", "interval_s", "cluster", "jobs", "speeds", "rules"
)  # fmt: skip
STATUS = ("up", "drained", "failed")
JOB = (*names_of(Job), *names_of(JobState, "job"))
LAST_HELD = ("plan", "nodes")
RUNNING = (*LAST_HELD, "partner")


def read_snapshot(path: str | Path) -> Snapshot:
    """Read the snapshot of a file, of a compressed file (``.gz``), or of stdin (``-``).

    Raises
    ------
    InputError
        If it cannot be read or breaks a rule; names file, field and rule.
    """
    name = str(require_type("path", path, str, Path))
    folder = Path() if name == "-" else Path(path).parent
    return parse_snapshot(read_text(name), file="stdin" if name == "-" else name, folder=folder)


def under_rules(snapshot: Snapshot, file: str, *, live: bool) -> Snapshot:
    """Return a snapshot under the operator's rules of a file.

    Parameters
    ----------
    live
        Whether a scheduler stated the snapshot: its rules hold too. Else the file replaces them.

    Raises
    ------
    InputError
        If the file cannot be read or names an unknown node.
    """
    own = read_rules(file, snapshot.state.cluster)
    if live and snapshot.rules is not None:
        own = replace(own, rules=(*snapshot.rules.rules, *own.rules))
    return replace(snapshot, rules=own)


def parse_snapshot(text: str, *, file: str = "state", folder: Path | None = None) -> Snapshot:
    """Parse the snapshot of a JSON text.

    Parameters
    ----------
    text
        The document.
    file
        Name of the file in error messages.
    folder
        Folder of a file of speeds; None for the working folder.
    """
    value: Any = None
    try:
        value = parse_json(text, file)
        document = Fields(value, "", file, STATE)
        _require_schema(document, SCHEMA)
    except InputError as error:
        if isinstance(value, dict) and value.get("schema") == SCHEMA:
            raise
        rule = f"{error.rule}; a snapshot of a round is JSON of schema {SCHEMA!r}: docs/round.md"
        raise InputError(rule, file=error.file, line=error.line, field=error.field) from None
    cluster, failed, drained = _cluster(document.object("cluster", LISTED_FIELDS))
    interval_s = document.number("interval_s")
    time_s = document.number("time_s", least=0.0)
    speeds = _speeds(document, cluster, folder or Path())
    rows = document.objects("jobs", JOB)
    names: set[str] = set()
    jobs = []
    for row in rows:
        known = _job_state(row, time_s, cluster)
        if known.job.name in names:
            raise row.error("name", f"job {known.job.name!r} is listed twice")
        if known.job.model not in speeds.models():
            listed = ", ".join(speeds.models()) or "none"
            raise row.error("model", f"no speeds for {known.job.model!r}; there are {listed}")
        names.add(known.job.name)
        jobs.append(known)
    state = document.built(
        lambda: RoundState(
            document.whole("round"),
            time_s,
            interval_s,
            cluster,
            tuple(jobs),
            frozenset(drained | failed),
            frozenset(failed),
        ),
        "round",
    )
    _require_possible(state, speeds, rows)
    return Snapshot(state, speeds, _rules(document, cluster))


def _require_schema(document: Fields, schema: str) -> None:
    found = document.text("schema")
    if found != schema:
        raise document.error("schema", f"must be {schema!r}, this version is unknown: {found!r}")


def _rules(document: Fields, cluster: Cluster) -> OperatorRules | None:
    if not document.given("rules"):
        return None
    rules = rules_of(document.object("rules", RULE_FIELDS))
    try:
        require_known_nodes(rules, cluster)
    except InputError as error:
        raise document.error(f"rules.{error.field}", error.rule) from error
    return rules


def _cluster(table: Fields) -> tuple[Cluster, set[int], set[int]]:
    """Read the cluster, and the indices of its failed and drained nodes."""
    words: dict[str, str] = {}
    for row in table.objects("nodes", None):
        name, word = row.text("name"), row.text("status", "up")
        if name in words:
            raise row.error("name", f"node {name!r} is listed twice")
        if word not in STATUS:
            raise row.error("status", f"must be one of {', '.join(STATUS)}, got {word!r}")
        words[name] = word
    status = {one: {i for i, word in enumerate(words.values()) if word == one} for one in STATUS}
    return cluster_of(table, listed=True), status["failed"], status["drained"]


def _job_state(row: Fields, time_s: float, cluster: Cluster) -> JobState:
    job = row.make(Job)
    row.raw("restart_s")  # required: the cost of a start has no default
    held = {
        name: _running(row.object(name, known), job, cluster) if row.has(name) else None
        for name, known in (("running", RUNNING), ("last_held", LAST_HELD))
    }
    found = row.make(JobState, job=job, **held)
    for name in (
        "submission_s",
        "first_start_s",
        "last_start_s",
        "last_stop_s",
        "checkpointed_s",
    ):
        instant_s = row.raw(name, None)
        if instant_s is not None and instant_s > time_s:
            rule = f"must not be later than time_s = {time_s:g}, got {instant_s:g}"
            raise row.error(name, rule)
    if found.iterations_done > job.iterations:
        rule = f"must be at most iterations = {job.iterations}, got {found.iterations_done:g}"
        raise row.error("iterations_done", rule)
    if found.running is None and found.restart_left_s > 0.0:
        raise row.error("restart_left_s", "must be 0 for a job that is queued")
    if found.restart_left_s > found.restart_s:
        rule = f"must be at most restart_s = {found.restart_s:g}, a whole start-up"
        raise row.error("restart_left_s", f"{rule}, got {found.restart_left_s:g}")
    if any(not 0.0 <= instant <= time_s for instant in found.recent_starts_s):
        raise row.error("recent_starts_s", f"must lie between 0 and time_s = {time_s:g}")
    return found


def _running(row: Fields, job: Job, cluster: Cluster) -> Assignment:
    plan = row.value("plan", ExecutionPlan)
    parts: dict[int, tuple[int, ...]] = {}
    partner = row.text("partner") if row.has("partner") else None
    places = row.objects("nodes", ("node", "gpus"))
    for place in places:
        name = place.text("node")
        if name not in cluster.node_index:
            raise place.error("node", f"there is no node {name!r} in the cluster")
        node = cluster.node_index[name]
        if node in parts:
            raise place.error("node", f"node {name!r} is listed twice")
        gpus = place.rows("gpus")
        if not gpus or any(isinstance(g, bool) or not isinstance(g, int) for g in gpus):
            raise place.error("gpus", "must be a list of GPU indices with at least one")
        if min(gpus) < 0 or len(set(gpus)) < len(gpus):
            raise place.error("gpus", f"must list each GPU once, from 0 on, got {gpus}")
        parts[node] = tuple(sorted(gpus))
    return row.built(lambda: Assignment(job.name, plan, Placement.of(parts), partner), "nodes")


def _require_possible(state: RoundState, speeds: SpeedModel, rows: Sequence[Fields]) -> None:
    """Refuse a state whose current or last placements fail the strict check."""
    by_name = dict(zip((known.job.name for known in state.jobs), rows, strict=True))
    checks, now = BeliefChecks(speeds), StateFacts.of(state)
    for broken in checks.on(state.cluster).check(now.held.values(), now):
        raise _complaint(by_name[broken.jobs[-1]], "running", broken)
    for known in state.jobs:
        row, last = by_name[known.job.name], known.last_held
        if last is not None:
            before = replace(now, held={known.job.name: last})
            for broken in checks.on(state.cluster).check([last], before):
                raise _complaint(row, "last_held", broken)
        if known.job.guaranteed and known.running is not None and known.running.partner:
            raise row.error("guaranteed", "a job with a promise has no partner")


def _complaint(row: Fields, field: str, broken: Violation) -> InputError:
    """Return the error of a broken rule, at its place in the file."""
    held = row.object(field, RUNNING)
    places = [p for p in held.objects("nodes", None) if p.text("node") == broken.node]
    name = "node" if broken.rule == "node_available" else "gpus"
    rule = broken.detail if broken.node is None else f"node {broken.node}: {broken.detail}"
    if broken.rule == "partners":
        return held.error("partner", rule)
    return places[0].error(name, rule) if places else held.error("nodes", rule)


def _speeds(document: Fields, cluster: Cluster, folder: Path) -> SpeedModel:
    value = document.raw("speeds")
    if value == "model":
        from morph_opt.inputs.perf.analytic.zoo import builtin_model

        return builtin_model()
    if not isinstance(value, dict):
        rule = 'must be "model", {"file": ...} or {"rows": [...]}'
        raise document.error("speeds", rule)
    table = document.object("speeds", ("file", "rows", "pairs"))
    if table.has("file") == table.has("rows"):
        raise document.error("speeds", 'must have either "file" or "rows"')
    if table.has("file") and table.has("pairs"):
        raise table.error("pairs", "must be in the file that has the rows")
    if table.has("rows"):
        return rows_from_json(table, cluster)
    path = folder / table.text("file")
    if not exists(path):
        raise table.error("file", f"there is no file {path}")
    return read_speeds(path, cluster)


def read_speeds(path: Path, cluster: Cluster) -> SpeedModel:
    """Read the speeds of a separate file (``morph-opt/speeds/1``), for the cluster's node types.

    Raises
    ------
    InputError
        If it cannot be read or breaks a rule.
    """
    known = ("schema", "rows", "pairs")
    other = Fields(parse_json(read_text(str(path)), str(path)), "", str(path), known)
    _require_schema(other, SPEEDS_SCHEMA)
    return rows_from_json(other, cluster)
