"""Read a snapshot; one that contradicts itself is refused with file, field and rule."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from morph_opt.decision.holding import Holding, Needs
from morph_opt.documents import Fields, exists, parse_json
from morph_opt.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    GpuType,
    InputError,
    Job,
    JobState,
    Leaf,
    Node,
    NodeType,
    Placement,
    RoundState,
)
from morph_opt.perf.speed import SpeedModel
from morph_opt.round.pairs import require_partners
from morph_opt.round.snapshot import SCHEMA, SPEEDS_SCHEMA, Snapshot, read_text
from morph_opt.round.speeds import rows_from_json
from morph_opt.rules import OperatorRules, require_known_nodes
from morph_opt.rules.spec import RULE_FIELDS, rules_of

STATE = (
    "schema", "round", "time_s", "interval_s", "cluster", "jobs", "speeds", "rules"
)  # fmt: skip
CLUSTER = ("name", "gpu_types", "node_types", "nodes", "leaves")
NODE_TYPE = (
    "name", "gpu_type", "gpus", "cpus", "host_memory_gib", "nvlink_gb_per_s", "rdma_gb_per_s"
)  # fmt: skip
NODE = ("name", "type", "leaf", "nvlink_domain", "status")
STATUS = ("up", "drained", "failed")
JOB = (
    "name", "model", "submission_s", "iterations", "requested_gpus", "requested_plan",
    "cpus_per_gpu", "guaranteed", "weight", "tenant", "deadline_s", "iterations_done", "running",
    "restart_left_s", "restart_s", "attained_gpu_s", "executed_s", "queued_s", "starts",
    "first_start_s", "last_start_s", "last_stop_s", "recent_starts_s", "resume_s", "migrate_s",
    "last_held", "feedback_iterations",
)  # fmt: skip
LAST_HELD = ("plan", "nodes")
RUNNING = (*LAST_HELD, "partner")


def read_snapshot(path: str | Path) -> Snapshot:
    """The snapshot of a file, of a compressed file (``.gz``), or of stdin (``-``).

    Raises
    ------
    InputError
        If it cannot be read or breaks a rule; names file, field and rule.
    """
    name = str(path)
    folder = Path() if name == "-" else Path(path).parent
    return parse_snapshot(read_text(name), file="stdin" if name == "-" else name, folder=folder)


def parse_snapshot(text: str, *, file: str = "state", folder: Path | None = None) -> Snapshot:
    """The snapshot of a JSON text.

    Parameters
    ----------
    text
        The document.
    file
        Shown in complaints.
    folder
        Where a file of speeds is looked for; None: the working folder.
    """
    document = Fields(parse_json(text, file), "", file, STATE)
    _require_schema(document, SCHEMA)
    cluster, failed, drained = _cluster(document.object("cluster", CLUSTER))
    interval_s = document.number("interval_s")
    time_s = document.number("time_s", least=0.0)
    speeds = _speeds(document, cluster, folder or Path())
    holding = Holding(cluster, Needs(speeds), failed)
    rows = document.objects("jobs", JOB)
    names: set[str] = set()
    jobs = []
    for row in rows:
        known = _job_state(row, time_s, cluster, holding)
        if known.job.name in names:
            raise row.error("name", f"job {known.job.name!r} is listed twice")
        if known.job.model not in speeds.models():
            listed = ", ".join(speeds.models()) or "none"
            raise row.error("model", f"no speeds for {known.job.model!r}; there are {listed}")
        names.add(known.job.name)
        jobs.append(known)
    require_partners(jobs, rows, speeds, cluster)
    state = document.built(
        lambda: RoundState(
            document.whole("round"), time_s, interval_s, cluster, tuple(jobs),
            frozenset(drained | failed), frozenset(failed),
        ),
        "round",
    )  # fmt: skip
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
    """The cluster, and indices of its failed and of its drained nodes."""
    gpus: dict[str, GpuType] = {}
    for row in table.objects("gpu_types", ("name", "memory_gib", "price_per_hour")):
        price = row.number("price_per_hour") if row.has("price_per_hour") else None
        gpu = row.built(partial(GpuType, row.text("name"), row.number("memory_gib"), price))
        if gpus.setdefault(gpu.name, gpu) is not gpu:
            raise row.error("name", f"GPU type {gpu.name!r} is listed twice")
    kinds: dict[str, NodeType] = {}
    for row in table.objects("node_types", NODE_TYPE):
        kind = _node_type(row, gpus)
        if kinds.setdefault(kind.name, kind) is not kind:
            raise row.error("name", f"node type {kind.name!r} is listed twice")
    nodes: list[Node] = []
    names: set[str] = set()
    status: dict[str, set[int]] = {word: set() for word in STATUS}
    for i, row in enumerate(table.objects("nodes", NODE)):
        node = _node(row, kinds)
        if node.name in names:
            raise row.error("name", f"node {node.name!r} is listed twice")
        word = row.text("status", "up")
        if word not in STATUS:
            raise row.error("status", f"must be one of {', '.join(STATUS)}, got {word!r}")
        nodes.append(node)
        names.add(node.name)
        status[word].add(i)
    if not nodes:
        raise table.error("nodes", "the cluster has no nodes")
    leaves: dict[str, Leaf] = {}
    in_use = {node.leaf for node in nodes}
    for row in table.objects("leaves", ("name", "uplink_gb_per_s"), ()):
        leaf = row.built(partial(Leaf, row.text("name"), row.number("uplink_gb_per_s")))
        if leaf.name not in in_use:
            raise row.error("name", f"no node hangs on it, got {leaf.name!r}")
        if leaves.setdefault(leaf.name, leaf) is not leaf:
            raise row.error("name", f"leaf {leaf.name!r} is listed twice")
    name = table.text("name", "cluster")
    cluster = table.built(partial(Cluster, name, tuple(nodes), tuple(leaves.values())), "nodes")
    return cluster, status["failed"], status["drained"]


def _node_type(row: Fields, gpus: dict[str, GpuType]) -> NodeType:
    gpu = row.text("gpu_type")
    if gpu not in gpus:
        raise row.error("gpu_type", f"{gpu!r} is not in gpu_types")
    return row.built(
        partial(
            NodeType, row.text("name"), gpus[gpu], row.whole("gpus"), row.whole("cpus"),
            *(row.number(name) for name in NODE_TYPE[4:]),
        )
    )  # fmt: skip


def _node(row: Fields, kinds: dict[str, NodeType]) -> Node:
    kind = row.text("type")
    if kind not in kinds:
        raise row.error("type", f"{kind!r} is not in node_types")
    domain = row.text("nvlink_domain") if row.has("nvlink_domain") else None
    return row.built(
        partial(Node, row.text("name"), kinds[kind], row.text("leaf", "leaf-0"), domain)
    )


def _job(row: Fields) -> Job:
    plan = row.built(partial(ExecutionPlan.parse, row.text("requested_plan")), "requested_plan")
    return row.built(
        partial(
            Job,
            name=row.text("name"),
            model=row.text("model"),
            submission_s=row.number("submission_s"),
            iterations=row.whole("iterations"),
            requested_gpus=row.whole("requested_gpus"),
            requested_plan=plan,
            cpus_per_gpu=row.whole("cpus_per_gpu", 0),
            guaranteed=row.flag("guaranteed", False),
            weight=row.number("weight", 1.0),
            tenant=row.text("tenant", "default"),
            deadline_s=row.number("deadline_s") if row.has("deadline_s") else None,
            feedback_iterations=(
                row.whole("feedback_iterations") if row.has("feedback_iterations") else None
            ),
        )
    )


def _job_state(row: Fields, time_s: float, cluster: Cluster, holding: Holding) -> JobState:
    job = _job(row)
    row.instant("submission_s", time_s)
    done = row.number("iterations_done", 0.0, least=0.0)
    if done > job.iterations:
        rule = f"must be at most iterations = {job.iterations}, got {done:g}"
        raise row.error("iterations_done", rule)
    running = None
    if row.has("running"):
        running = _running(row.object("running", RUNNING), job, cluster, holding)
    last_held = None
    if row.has("last_held"):
        if running is not None:
            raise row.error("last_held", "must be left to queued jobs")
        last_held = _running(row.object("last_held", LAST_HELD), job, cluster, holding.alone())
    left_s = row.number("restart_left_s", 0.0)
    if running is None and left_s > 0.0:
        raise row.error("restart_left_s", "must be 0 for a job that is queued")
    restart_s = row.number("restart_s")
    if left_s > restart_s >= 0.0:
        rule = f"must be at most restart_s = {restart_s:g}, a whole start-up, got {left_s:g}"
        raise row.error("restart_left_s", rule)
    recent = row.numbers("recent_starts_s")
    if any(not 0.0 <= instant <= time_s for instant in recent):
        raise row.error("recent_starts_s", f"must lie between 0 and time_s = {time_s:g}")
    return row.built(
        partial(
            JobState,
            job=job,
            iterations_done=done,
            running=running,
            restart_left_s=left_s,
            restart_s=restart_s,
            attained_gpu_s=row.number("attained_gpu_s", 0.0),
            executed_s=row.number("executed_s", 0.0, least=0.0),
            queued_s=row.number("queued_s", 0.0, least=0.0),
            starts=row.whole("starts", 0),
            first_start_s=row.instant("first_start_s", time_s),
            last_start_s=row.instant("last_start_s", time_s),
            last_stop_s=row.instant("last_stop_s", time_s),
            recent_starts_s=recent,
            resume_s=row.number("resume_s") if row.has("resume_s") else None,
            migrate_s=row.number("migrate_s") if row.has("migrate_s") else None,
            last_held=last_held,
        )
    )


def _running(row: Fields, job: Job, cluster: Cluster, holding: Holding) -> Assignment:
    plan = row.built(partial(ExecutionPlan.parse, row.text("plan")), "plan")
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
        rule = holding.take(job.name, node, gpus, partner)
        if rule is not None:
            raise place.error("node" if "has failed" in rule else "gpus", rule)
        parts[node] = tuple(sorted(gpus))
    held = row.built(lambda: Assignment(job.name, plan, Placement.of(parts), partner), "nodes")
    for place in places:
        rule = holding.add_side(job, held, cluster.node_index[place.text("node")])
        if rule is not None:
            raise place.error("gpus", rule)
    return held


def _speeds(document: Fields, cluster: Cluster, folder: Path) -> SpeedModel:
    value = document.raw("speeds")
    if value == "model":
        from morph_opt.perf.analytic.zoo import builtin_model

        return builtin_model()
    if not isinstance(value, dict):
        rule = 'must be "model", {"file": ...} or {"rows": [...]}'
        raise document.error("speeds", rule)
    table = document.object("speeds", ("file", "rows", "pairs"))
    if table.has("file") == table.has("rows"):
        raise document.error("speeds", 'must have either "file" or "rows"')
    if table.has("file") and table.has("pairs"):
        raise table.error("pairs", "stand in the file, where the rows are")
    if table.has("rows"):
        return rows_from_json(table, cluster)
    path = folder / table.text("file")
    if not exists(path):
        raise table.error("file", f"there is no file {path}")
    known = ("schema", "rows", "pairs")
    other = Fields(parse_json(read_text(str(path)), str(path)), "", str(path), known)
    _require_schema(other, SPEEDS_SCHEMA)
    return rows_from_json(other, cluster)
