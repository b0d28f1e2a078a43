"""Slurm's answers: ``squeue --json`` and ``scontrol show nodes --json``, of any release with them.

A number is an integer or an object ``{set, infinite, number}``, a state a text or a list, by
release; what is not needed is not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.documents import Fields, parse_json
from morph_opt.domain import InputError
from morph_opt.domain.cluster import MOST_GPUS_PER_NODE
from morph_opt.domain.job import MOST_GPUS
from morph_opt.round.live.build import Live, LiveJob, LiveNode, live_round
from morph_opt.round.live.hostlist import expand_hosts, numbers_in
from morph_opt.round.snapshot import read_text

_ROOM = frozenset(("", "None", "Resources", "Priority"))
"""Reasons of waiting that are about room; every other one keeps a job back however much is free."""

_RUNS = frozenset(
    ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED")
)
_WAITS = frozenset(("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"))
_OPEN = frozenset(("IDLE", "MIXED", "ALLOCATED"))
_FLAGS = frozenset(
    ("COMPLETING", "PLANNED", "CLOUD", "POWERED_DOWN", "POWERING_UP", "DYNAMIC_NORM")
)
"""Flags beside a state that keep nothing away; every other one does (drain, maintenance, ...)."""

_GRES = re.compile(r"gpu(?::([^:(,=]+))??(?::([0-9]{1,9}))?(?:\(([^()]*)\))?", re.ASCII)
_TRES = re.compile(r"gres[/:]gpu(?::([^=:,]+))?[=:]([0-9]{1,9})", re.ASCII)
_SLICE = re.compile(r"[0-9][gc]\.[0-9]+gb", re.ASCII)
"""Slices of GPUs (MIG) are no GPUs."""

_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """GPUs in a list of trackable resources: number and type, "" for any."""

    gpus: int = 0
    gpu_type: str = ""


def read_slurm(files: Sequence[str]) -> Live:
    """The round of two documents, in any order.

    Raises
    ------
    InputError
        With file, field and rule.
    """
    found: dict[str, Fields] = {}
    for file in files:
        document = Fields(parse_json(read_text(file), file), "", file, None)
        kinds = [kind for kind in ("jobs", "nodes") if document.given(kind)]
        if len(kinds) != 1:
            rule = "must be what squeue --json or scontrol show nodes --json prints"
            raise InputError(rule, file=file)
        if kinds[0] in found:
            raise InputError(f"is a second document with {kinds[0]}", file=file)
        found[kinds[0]] = document
    for kind, command in (("jobs", "squeue --json"), ("nodes", "scontrol show nodes --json")):
        if kind not in found:
            raise InputError(f"lacks the document of {command}", field="--from")
    nodes = [node for row in found["nodes"].objects("nodes", None) for node in _nodes(row)]
    rows = found["jobs"].objects("jobs", None)
    with_gpus = {node.name for node in nodes}
    jobs = [job for row in rows for job in _jobs(row, with_gpus)]
    jobs = list(_limited(jobs, {_array(row): _limit(row) for row in rows if _limit(row)}))
    cut = [f"{_array(row)}" for row in rows if "..." in _text(row, "array_task_string")]
    notes = [
        "CPUs and memory are not looked at; jobs run on exactly the GPUs that they ask for",
        f"{len(rows)} records, {len(jobs)} jobs with GPUs that run or wait",
        *(f"squeue names not all tasks of array {one} (SLURM_BITSTR_LEN): left out" for one in cut),
    ]
    time_s = _number(found["jobs"], "last_update") or max(
        [0.0, *(at for job in jobs for at in (job.submit_s, job.started_s) if at is not None)]
    )
    # What happened while the answers were written counts as before them.
    jobs = [replace(job, submit_s=min(job.submit_s, time_s)) for job in jobs]
    return found["jobs"].built(lambda: live_round(nodes, jobs, time_s, notes, name="slurm"))


def _number(row: Fields, name: str) -> float | None:
    """A number, alone or in an object; None for none and for no limit."""
    if not row.has(name):
        return None
    value = row.raw(name)
    if isinstance(value, dict):
        inner = row.object(name, None)
        if not inner.flag("set", True) or inner.flag("infinite", False):
            return None
        return inner.number("number", least=0.0)
    return row.number(name, least=0.0)


def _text(row: Fields, name: str) -> str:
    """A text; "" for none."""
    return row.text(name) if row.has(name) else ""


def _words(row: Fields, name: str) -> tuple[str, ...]:
    """A text or a list of texts, as upper-case words."""
    if not row.has(name):
        return ()
    value: Any = row.raw(name)
    texts = (row.text(name),) if isinstance(value, str) else row.texts(name)
    return tuple(word.upper() for text in texts for word in re.split(r"[+ ]", text) if word)


def _nodes(row: Fields) -> Iterator[LiveNode]:
    """The node of a record, if it has GPUs and is there."""
    name = row.text("name")
    gpus = {kind: count for kind, count, _ in _gres(row, "gres", _text(row, "gres")) if count}
    words = _words(row, "state")
    if not gpus or "FUTURE" in words:
        return
    # Nothing is started on a node whose GPUs are of several types: which are free is not told.
    kind, count = "+".join(gpus), sum(gpus.values())
    if count > MOST_GPUS_PER_NODE:
        raise row.error("gres", f"must be at most {MOST_GPUS_PER_NODE} GPUs, got {count}")
    words = tuple(word.rstrip("*~#!%$@^-") for word in words)
    usable = (
        len(gpus) == 1 and any(word in _OPEN for word in words) and set(words) <= _OPEN | _FLAGS
    )
    threads = _number(row, "effective_cpus") or _number(row, "cpus")
    busy = threads is not None and (_number(row, "alloc_cpus") or 0.0) >= threads > 0.0
    groups = row.raw("partitions", [])
    names = groups.split(",") if isinstance(groups, str) else row.texts("partitions", [])
    yield LiveNode(name, kind, count, usable and not busy, frozenset(names))


def _gres(row: Fields, field: str, text: str) -> Iterator[tuple[str, int, str]]:
    """Type, number and text in parentheses of every kind of GPU in ``gpu:a100:4(IDX:0-3)``."""
    for item in re.findall(r"[^,(]+(?:\([^()]*\))?", text):
        if not item.startswith("gpu") or _SLICE.search(item):
            continue
        found = _GRES.fullmatch(item.strip())
        if found is None:
            raise row.error(field, f"must look like gpu:a100:4(IDX:0-3), got {item[:60]!r}")
        yield found[1] or "", int(found[2] or 1), found[3] or ""


def _asked(row: Fields, *names: str) -> _Asked:
    """GPUs in the first of these lists that names some: the total; the type if it is one."""
    for name in names:
        if not row.has(name):
            continue
        found = [pair for pair in _TRES.findall(row.text(name)) if not _SLICE.search(pair[0])]
        kinds = {kind for kind, _ in found if kind}
        counts = [int(count) for kind, count in found if not kind]
        total = counts[0] if counts else sum(int(count) for _, count in found)
        if total:
            if total > MOST_GPUS:
                raise row.error(name, f"must be at most {MOST_GPUS} GPUs, got {total}")
            return _Asked(total, kinds.pop() if len(kinds) == 1 else "")
    return _Asked()


def _jobs(row: Fields, with_gpus: set[str]) -> Iterator[LiveJob]:
    """Jobs of a record: none without GPUs or at its end, several of an array that waits."""
    states = set(_words(row, "job_state"))
    if not states:
        raise row.error("job_state", "is missing")
    runs, waits = bool(states & _RUNS), bool(states & _WAITS)
    if not runs and not waits:
        return
    asked = _asked(row, "tres_alloc_str" if runs else "tres_req_str", "tres_req_str")
    per_node = _asked(row, "tres_per_node")
    count = asked.gpus or per_node.gpus * max(1, round(_number(row, "node_count") or 1))
    if not count:
        return
    if per_node.gpus and count % per_node.gpus:
        count = per_node.gpus * -(-count // per_node.gpus)
    limit = _number(row, "time_limit")
    started_s: float | None = None
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    if runs:
        started_s = _number(row, "start_time") or 0.0
        parts = tuple(_parts(row, count, with_gpus))
        count = sum(len(gpus) for _, gpus in parts)
    job = LiveJob(
        "", _owner(row), count,
        _number(row, "submit_time") or 0.0,
        gpu_type=per_node.gpu_type or asked.gpu_type,
        per_node=min(per_node.gpus, count),
        groups=tuple(name for name in _text(row, "partition").split(",") if name),
        limit_s=None if limit is None else 60.0 * limit,
        started_s=started_s,
        parts=parts,
        held="" if runs else _held(row),
    )  # fmt: skip
    for name in _names(row):
        yield replace(job, name=name)


def _owner(row: Fields) -> str:
    """Account, else user."""
    return _text(row, "account") or _text(row, "user_name") or "default"


def _held(row: Fields) -> str:
    """Why Slurm keeps a job back for another reason than room."""
    reason = _text(row, "state_reason")
    if reason in _ROOM and _number(row, "priority") == 0.0:
        reason = "priority 0"
    return "" if reason in _ROOM else f"kept back by Slurm: {reason}"


def _names(row: Fields) -> list[str]:
    """``77``, ``91_3`` for a task, ``90+1`` for a component; every task of an array that waits."""
    number = row.whole("job_id", least=0)
    array = _array(row)
    if array and _number(row, "array_task_id") is not None:
        return [f"{array}_{round(_number(row, 'array_task_id') or 0)}"]
    tasks = _text(row, "array_task_string").partition("%")[0]
    if array and tasks:
        return [f"{array}_{task}" for task in _tasks(row, tasks)]
    if het := round(_number(row, "het_job_id") or 0):
        return [f"{het}+{round(_number(row, 'het_job_offset') or 0)}"]
    return [str(number)]


def _array(row: Fields) -> int:
    """Number of the array that a record is of; 0 for none."""
    return round(_number(row, "array_job_id") or 0)


def _limit(row: Fields) -> int:
    """How many tasks of an array may run at once (``0-9%4``); 0 for any number."""
    _, percent, limit = _text(row, "array_task_string").partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise row.error("array_task_string", f"must end in a number behind %, got {limit[:60]!r}")
    return int(limit or 0) or round(_number(row, "array_max_tasks") or 0)


def _limited(jobs: Sequence[LiveJob], limits: Mapping[int, int]) -> Iterator[LiveJob]:
    """The jobs, with tasks kept back that would be too many of their array at once."""
    arrays = [int(job.name.partition("_")[0]) if "_" in job.name else 0 for job in jobs]
    count = Counter(
        array for array, job in zip(arrays, jobs, strict=True) if job.started_s is not None
    )
    for array, job in zip(arrays, jobs, strict=True):
        if job.started_s is None and not job.held and array in limits:
            count[array] += 1
            if count[array] > limits[array]:
                yield replace(job, held="kept back by Slurm: JobArrayTaskLimit")
                continue
        yield job


def _tasks(row: Fields, text: str) -> list[int]:
    """Tasks of ``0-9:2,12``; Slurm writes ``...`` where it names no more of them."""
    found: list[int] = []
    for part in text.split(","):
        if part == "...":
            continue
        ends = _TASKS.fullmatch(part)
        if ends is None:
            rule = f"must be a list of tasks like 0-9:2,12, got {text[:60]!r}"
            raise row.error("array_task_string", rule)
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1, max(1, int(ends[3] or 1)))[
            : _MOST_TASKS + 1
        ]
        if len(found) > _MOST_TASKS:
            raise row.error("array_task_string", f"names more than {_MOST_TASKS} tasks")
    return found


def _parts(row: Fields, count: int, with_gpus: set[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """GPU indices by node of a running job: one entry of ``gres_detail`` per node."""
    hosts = row.built(lambda: expand_hosts(_text(row, "nodes")), "nodes")
    details = row.texts("gres_detail") if row.has("gres_detail") else ()
    if len(details) != len(hosts):
        rule = f"must have an entry for each of {len(hosts)} nodes, got {len(details)}"
        raise row.error("gres_detail", rule)
    held = 0
    for host, text in zip(hosts, details, strict=True):
        gpus: list[int] = []
        for _, number, inside in _gres(row, "gres_detail", text):
            ranges = inside.removeprefix("IDX:")
            if number and ranges in ("", "N/A"):
                raise row.error("gres_detail", f"does not tell which GPUs: {text[:60]!r}")
            if number:
                gpus += map(int, row.built(lambda r=ranges: numbers_in(r, r), "gres_detail"))  # type: ignore[misc]
        if gpus and host not in with_gpus:
            raise row.error("nodes", f"{host!r} is no node with GPUs")
        held += len(gpus)
        if gpus:
            yield host, tuple(gpus)
    if held != count:
        raise row.error("gres_detail", f"names {held} GPUs, the job holds {count}")
