"""Jobs from records of ``squeue --json``: what they ask for, may use, and hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.round.live.build import LiveJob
from morph_opt.round.live.slurm_fields import asked, gres, hosts, indices, number, words

Parts = tuple[tuple[str, tuple[int, ...]], ...]
"""GPU indices by node."""

_ROOM = frozenset(("", "None", "Resources", "Priority"))
"""Reasons of jobs that wait for free nodes only; any other reason holds a job back."""

_RUNS = frozenset(
    ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED")
)
_WAITS = frozenset(("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"))
_ENDED = frozenset((
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "TIMEOUT",
))  # fmt: skip
_TOTALS = ("tres_alloc_str", "tres_req_str", "tres_per_job")
_PARTS = ("tres_per_node", "tres_per_task", "tres_per_socket")
"""Fields with the GPUs of a whole job, and of its parts."""

_EXCLUSIVE = frozenset(("NONE", "USER", "MCS", "TOPO"))
"""Values of ``shared`` for jobs that do not share their nodes."""

_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_MOST_TASKS = 10_000
_NODES = re.compile(r"(?:^|,)node=([0-9]{1,9})(?=,|$)", re.ASCII)
_FEATURES = re.compile(r"[\w.:-]+(?:(?:&[\w.:-]+)*|(?:\|[\w.:-]+)*|(?:,[\w.:-]+)*)")


@dataclass(frozen=True, slots=True)
class Site:
    """Facts about the nodes that the records of jobs need.

    Parameters
    ----------
    features
        Features of every node with GPUs.
    busy
        Nodes on which something runs, with GPUs or without.
    time_s
        The clock of the round.
    """

    features: Mapping[str, frozenset[str]]
    busy: frozenset[str]
    time_s: float


def runs(row: Fields) -> bool:
    """Return whether a record is of a job that holds its nodes."""
    states = set(words(row, "job_state"))
    if not states:
        raise row.error("job_state", "is missing")
    return bool(states & _RUNS)


def keeps_away(row: Fields) -> bool:
    """Return whether a job excludes some other jobs from its nodes."""
    return bool(_EXCLUSIVE & set(words(row, "shared")))


class UntoldError(InputError):
    """Error: a record does not state which GPUs its job holds."""


def untold(row: Fields, rule: str) -> UntoldError:
    """Return the error about a record without details, and how to ask for them."""
    error = row.error("gres_detail", rule)
    ask = "ask with details: squeue --json, or slurmrestd with flags=DETAIL"
    return UntoldError(f"{error.rule}; {ask}", file=error.file, line=error.line, field=error.field)


def held_parts(row: Fields, with_gpus: Mapping[str, int]) -> Parts | None:
    """Return the GPUs of a record by node; None if they are not known.

    That is so for jobs that are about to end: some of their nodes are given back already.

    Raises
    ------
    UntoldError
        If the record lacks details that another release, or another question, has.
    InputError
        If a node is not known.
    """
    details = row.value("gres_detail", tuple[str, ...]) if row.has("gres_detail") else ()
    known = runs(row) and asked(row, *_TOTALS, *_PARTS).gpus
    if not details and not known:
        return ()
    ends = "COMPLETING" in words(row, "job_state")
    names = hosts(row, "nodes")
    if len(details) != len(names):
        if ends:
            return None
        raise untold(row, f"must have an entry for each of {len(names)} nodes, got {len(details)}")
    found = []
    for host, detail in zip(names, details, strict=True):
        gpus: list[int] = []
        for _, count, inside in gres(row, "gres_detail", detail):
            named = indices(row, "gres_detail", inside)
            if count and not named:
                raise untold(row, f"does not name the GPUs: {detail[:60]!r}")
            gpus += named if count else ()
        if gpus and host not in with_gpus:
            raise row.error("nodes", f"{host!r} is no node with GPUs")
        if gpus:
            found.append((host, tuple(gpus)))
    held, holds = sum(len(gpus) for _, gpus in found), asked(row, "tres_alloc_str").gpus
    if held < holds and not ends:
        raise untold(row, f"names {held} GPUs, the job holds {holds}")
    return tuple(found)


def jobs_of(row: Fields, parts: Parts, site: Site) -> Iterator[LiveJob]:
    """Yield the jobs of a record: none without GPUs, several of a waiting array."""
    running = runs(row)
    if not running and not _WAITS & set(words(row, "job_state")):
        return
    limit = number(row, "time_limit")
    job = LiveJob(
        "",
        row.word("account") or row.word("user_name") or "default",
        0,
        number(row, "submit_time") or 0.0,
        groups=tuple(name for name in row.word("partition").split(",") if name),
        limit_s=None if limit is None else 60.0 * limit,
        partition=row.word("partition"),
        qos=row.word("qos"),
        user=row.word("user_name"),
        priority=number(row, "priority") or 0.0,
    )
    if running:
        gpus = sum(len(some) for _, some in parts)
        job = replace(job, gpus=gpus, parts=parts, started_s=number(row, "start_time") or 0.0)
    else:
        job = _waiting(row, job, site)
    if job.gpus:
        for name in _names(row):
            yield replace(job, name=name)


def passed_over(row: Fields, parts: Parts | None) -> Iterator[tuple[str, str]]:
    """Yield the jobs of a record with the reason why they would be no part of a round.

    Parameters
    ----------
    row
        The record.
    parts
        GPUs that it holds by node; None if not known.
    """
    states = words(row, "job_state")
    if runs(row):
        reason = "asks for no GPU"
        if parts is None:
            reason = "is about to end"
        elif not parts and asked(row, "tres_alloc_str", "tres_req_str").gpus:
            reason = "runs, and its record does not state its GPUs (gres_detail)"
    elif _WAITS & set(states):
        reason = "asks for no GPU"
    elif _ENDED & set(states):
        reason = f"has ended ({'+'.join(states)})"
    else:
        reason = f"neither runs nor waits ({'+'.join(states)})"
    try:
        names = _names(row)
    except InputError:  # of no consequence for the round, such as an array with too many tasks
        names = [str(row.raw("job_id", ""))]
    for name in names:
        yield name, reason


@dataclass(frozen=True, slots=True)
class _Wants:
    """GPUs that a record asks for.

    Parameters
    ----------
    gpus
        In all.
    on_node, on_task
        On every node, with every task; 0 if it does not state them.
    gpu_type
        "" for any.
    nodes
        Fewest nodes.
    """

    gpus: int
    on_node: int
    on_task: int
    gpu_type: str
    nodes: int


def _wants(row: Fields) -> _Wants:
    """Return the GPUs that a record asks for.

    ``node_count`` of a job that waits is Slurm's guess; ``tres_req_str`` has the nodes that it
    requires.
    """
    found = _NODES.search(row.word("tres_req_str"))
    nodes = max(1, int(found[1]) if found else round(number(row, "node_count") or 1))
    whole = asked(row, *_TOTALS[1:])
    node, task, socket = (asked(row, name) for name in _PARTS)
    sockets = round(number(row, "sockets_per_node") or 0)
    on_node = node.gpus or socket.gpus * sockets
    gpus = whole.gpus
    if not gpus:
        tasks = max(1, round(number(row, "tasks") or 1))
        gpus = on_node * nodes or task.gpus * tasks or socket.gpus * nodes
    if on_node and gpus % on_node:
        gpus = on_node * -(-gpus // on_node)
    kind = next((one.gpu_type for one in (node, whole, task, socket) if one.gpu_type), "")
    return _Wants(gpus, on_node, task.gpus, kind, nodes)


def gpus_once_held(row: Fields) -> int:
    """Return the GPUs of a record whose ``gres_detail`` is empty, such as of an ended job."""
    wants, nodes = _wants(row), len(hosts(row, "nodes"))
    return asked(row, "tres_alloc_str").gpus or max(wants.gpus, wants.on_node * nodes)


def _waiting(row: Fields, job: LiveJob, site: Site) -> LiveJob:
    """Return a waiting job with request, allowed nodes and hold; 0 GPUs if it asks for none."""
    wants = _wants(row)
    gpus = wants.gpus
    names = hosts(row, "required_nodes")
    exclusive = set(words(row, "shared")) & _EXCLUSIVE
    barred = set(hosts(row, "excluded_nodes")) | _unfit(row, site)
    if names:
        barred |= site.features.keys() - set(names)
    if exclusive:
        barred |= site.busy
    grain = 1 if wants.on_node or gpus % max(1, wants.on_task) else max(1, wants.on_task)
    by_socket = asked(row, "tres_per_socket").gpus and not number(row, "sockets_per_node")
    return replace(
        job,
        gpus=gpus,
        gpu_type=wants.gpu_type,
        per_node=min(wants.on_node, gpus),
        grain=grain,
        nodes=min(max(wants.nodes, len(names)), max(1, gpus // grain)),
        barred=frozenset(barred & site.features.keys()),
        whole="NONE" in exclusive,
        held=_held(row, site)
        or _beyond(row, exclusive, len(names) < wants.nodes if names else False)
        or ("asks for GPUs by socket without sockets" if by_socket else ""),
    )


def _held(row: Fields, site: Site) -> str:
    """Return why Slurm holds a job back apart from busy nodes; "" if it does not."""
    reason = row.word("state_reason")
    if reason in _ROOM and number(row, "priority") == 0.0:
        reason = "priority 0"
    elif reason in _ROOM and (number(row, "eligible_time") or 0.0) > site.time_s:
        reason = "begin time"
    return "" if reason in _ROOM else f"kept back by Slurm: {reason}"


def _beyond(row: Fields, exclusive: set[str], more_nodes: bool) -> str:
    """Return the part of a job's request that a round cannot express; "" if there is none."""
    if het := round(number(row, "het_job_id") or 0):
        return f"component of heterogeneous job {het}: all of them start or none, not decided"
    if exclusive - {"NONE"}:
        return f"asks for nodes of its own kind of jobs (--exclusive={min(exclusive).lower()})"
    if more_nodes:
        return f"asks for {row.word('required_nodes')[:60]} and further nodes: not decided"
    if row.word("resv_name"):
        return f"asks for reservation {row.word('resv_name')[:60]}: not decided"
    features = row.word("features")
    if features and not _FEATURES.fullmatch(features):
        return f"asks for features {features[:60]!r}: not decided"
    return ""


def _unfit(row: Fields, site: Site) -> set[str]:
    """Return nodes without the features of a job: ``a&b`` and ``a,b`` need all, ``a|b`` one."""
    features = row.word("features")
    if not features or not _FEATURES.fullmatch(features):
        return set()
    wanted = set(re.split(r"[&|,]", features))
    enough = 1 if "|" in features else len(wanted)
    return {name for name, has in site.features.items() if len(wanted & has) < enough}


def _names(row: Fields) -> list[str]:
    """Return names: ``77``, ``91_3`` for a task, ``90+1`` for a component, one per waiting task."""
    job = row.whole("job_id", least=0)
    array = array_of(row)
    if array and number(row, "array_task_id") is not None:
        return [f"{array}_{round(number(row, 'array_task_id') or 0)}"]
    tasks = row.word("array_task_string").partition("%")[0]
    if array and tasks:
        return [f"{array}_{task}" for task in _tasks(row, tasks)]
    if het := round(number(row, "het_job_id") or 0):
        return [f"{het}+{round(number(row, 'het_job_offset') or 0)}"]
    return [str(job)]


def array_of(row: Fields) -> int:
    """Return the number of a record's array; 0 for none."""
    return round(number(row, "array_job_id") or 0)


def limit_of(row: Fields) -> int:
    """Return how many tasks of an array may run at a time (``0-9%4``); 0 for any number."""
    _, percent, limit = row.word("array_task_string").partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise row.error("array_task_string", f"must end in a number after %, got {limit[:60]!r}")
    return int(limit or 0) or round(number(row, "array_max_tasks") or 0)


def limited(jobs: Sequence[LiveJob], limits: Mapping[int, int]) -> Iterator[LiveJob]:
    """Yield the jobs; tasks beyond the limit of their array are held back."""
    arrays = [int(job.name.partition("_")[0]) if "_" in job.name else 0 for job in jobs]
    both = list(zip(arrays, jobs, strict=True))
    count = Counter(array for array, job in both if job.started_s is not None)
    for array, job in both:
        if job.started_s is None and not job.held and array in limits:
            count[array] += 1
            if count[array] > limits[array]:
                yield replace(job, held="kept back by Slurm: JobArrayTaskLimit")
                continue
        yield job


def _tasks(row: Fields, listed: str) -> list[int]:
    """Return the task numbers of ``0-9:2,12``, which Slurm may cut with ``...``."""
    found: list[int] = []
    for part in listed.split(","):
        if part == "...":
            continue
        ends = _TASKS.fullmatch(part)
        if ends is None:
            rule = f"must be a list of tasks like 0-9:2,12, got {listed[:60]!r}"
            raise row.error("array_task_string", rule)
        listed_here = range(int(ends[1]), int(ends[2] or ends[1]) + 1, max(1, int(ends[3] or 1)))
        found += listed_here[: _MOST_TASKS + 1]
        if len(found) > _MOST_TASKS:
            raise row.error("array_task_string", f"names more than {_MOST_TASKS} tasks")
    return found
