"""Conversion of ``sacct --json`` to the cells that ``sacct --parsable2`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError


def json_cells(job: Fields) -> dict[str, str]:
    """Return the cells of a job of ``sacct --json``, times as seconds since 1970.

    Raises
    ------
    InputError
        If a field is of another form, or times are missing: then it is a list of `squeue`.
    """
    if not job.given("time") or not job.given("tres"):
        rule = "must be a job of sacct --json, which has time and tres"
        raise InputError(f"{rule}; jobs of squeue are read by: python -m morph_opt.round")
    times, tres = job.object("time", None), job.object("tres", None)
    cells = {
        "JobID": _name(job),
        "Cluster": job.word("cluster"),
        "User": job.word("user"),
        "Account": job.word("account"),
        "Partition": job.word("partition"),
        "QOS": job.word("qos"),
        "State": _state(job),
        "Submit": _number(times, "submission"),
        "Eligible": _number(times, "eligible"),
        "Start": _number(times, "start"),
        "End": _number(times, "end"),
        "ElapsedRaw": _number(times, "elapsed"),
        "TimelimitRaw": _number(times, "limit"),
        "NodeList": job.word("nodes"),
        "AllocTRES": _tres(tres, "allocated"),
        "ReqTRES": _tres(tres, "requested"),
    }
    nodes = _number(job, "allocation_nodes")
    return cells | ({"NNodes": nodes} if nodes not in ("", "0") else {})


def _name(job: Fields) -> str:
    """Return a job's id as the table prints it: ``100_3``, ``100_[4-8]``, ``90+1``."""
    own = _number(job, "job_id")
    array = job.object("array", None) if job.given("array") else None
    if array is not None and _number(array, "job_id") not in ("", "0"):
        task = _number(array, "task_id")
        waiting = array.word("task")
        if task:
            return f"{_number(array, 'job_id')}_{task}"
        if waiting:
            return f"{_number(array, 'job_id')}_[{waiting}{_limit(array, waiting)}]"
    het = job.object("het", None) if job.given("het") else None
    if het is not None and _number(het, "job_id") not in ("", "0"):
        return f"{_number(het, 'job_id')}+{_number(het, 'job_offset') or '0'}"
    return own


def _limit(array: Fields, waiting: str) -> str:
    """Return ``%N`` for an array of which N tasks may run at a time."""
    fields: Fields | None = array
    for name in ("limits", "max", "running"):
        fields = fields.object(name, None) if fields is not None and fields.given(name) else None
    most = "" if fields is None else _number(fields, "tasks")
    return f"%{most}" if most not in ("", "0") and "%" not in waiting else ""


def _number(fields: Fields, name: str) -> str:
    """Return a number, plain or as ``{set, infinite, number}``; "" if missing or unlimited."""
    value: Any = fields.raw(name, None)
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite", False):
            return ""
        value = value.get("number")
    return "" if value is None else str(value)


def _state(job: Fields) -> str:
    """Return the state: a word, or the first of a list, by release."""
    value: Any = job.raw("state", None)
    if isinstance(value, dict):
        value = value.get("current")
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(one, str) for one in words):
        raise job.error("state", "must be a word or a list of words")
    # Of several, the flag that an attempt was requeued decides.
    return next((word for word in words if word.startswith("REQUEUE")), str(words[0]))


def _tres(fields: Fields, name: str) -> str:
    """Return trackable resources as ``cpu=4,gres/gpu:a100=2``."""
    value: Any = fields.raw(name, None)
    if isinstance(value, str):
        return value
    return ",".join(_items(value if isinstance(value, list) else ()))


def _items(listed: Iterable[Any]) -> Iterable[str]:
    """Yield the items of a list of resources."""
    for one in listed:
        if isinstance(one, dict) and one.get("count") is not None:
            kind, name = one.get("type") or "", one.get("name") or ""
            yield f"{kind}/{name}={one['count']}" if name else f"{kind}={one['count']}"
