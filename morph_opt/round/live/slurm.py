"""Rounds from Slurm: ``squeue --json`` with the nodes of ``scontrol`` or ``sinfo``, any release.

A GPU is free if no answer lists it as in use: neither ``gres_detail`` of any record of ``squeue``
nor ``gres_used`` of the node. ``squeue`` may show less than runs (``PrivateData=jobs``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE
from morph_opt.core.domain.errors import some
from morph_opt.round.live.build import Live, LiveJob, LiveNode, live_round
from morph_opt.round.live.slurm_fields import gres, hosts, indices, number, shared, texts, words
from morph_opt.round.live.slurm_jobs import (
    Parts,
    Site,
    UntoldError,
    array_of,
    gpus_once_held,
    held_parts,
    jobs_of,
    keeps_away,
    limit_of,
    limited,
    passed_over,
    runs,
)
from morph_opt.round.snapshot import read_text

_OPEN = frozenset(("IDLE", "MIXED", "ALLOCATED"))
_FLAGS = frozenset(
    ("COMPLETING", "PLANNED", "CLOUD", "POWERED_DOWN", "POWERING_UP", "DYNAMIC_NORM")
)
"""Flags of a node's state that allow new jobs; all others (drain, ...) forbid them."""

_NODES = "scontrol show nodes --json (22.05: sinfo --json)"
_SHOWN = 8
"""Number of nodes that a note names."""

_NOT_LOOKED_AT = (
    "CPUs and memory are not looked at, nor licenses, other GRES, switches, contiguous nodes and "
    "preferred features; jobs run on exactly the GPUs that they ask for"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """Node with what its record states.

    Parameters
    ----------
    node
        The node; closed where nothing may be started.
    why
        Why nothing may be started; "" for open nodes.
    used
        GPUs that are in use by index, and their number; None if the record does not state them.
    features
        Features of the node.
    busy
        Whether something runs there, with GPUs or without.
    mixed
        Statement about a node with GPUs of several types; "" for one type.
    """

    node: LiveNode
    why: str
    used: tuple[frozenset[int], int] | None
    features: frozenset[str]
    busy: bool
    mixed: str = ""


def read_slurm(files: Sequence[str]) -> Live:
    """Read the round of two files, in any order; see `slurm_round`."""
    return slurm_round([(file, parse_json(read_text(file), file)) for file in files])


def slurm_round(documents: Sequence[tuple[str, Any]]) -> Live:
    """Return the round of two parsed documents with their names, in any order.

    Raises
    ------
    InputError
        With file, field and rule.
    """
    found = _documents(documents)
    known = [one for row in found["nodes"].objects("nodes", None) for one in _nodes(row)]
    rows = found["jobs"].objects("jobs", None)
    sizes = {one.node.name: one.node.gpus for one in known}
    told = {one.node.name: one.used[1] for one in known if one.used is not None}
    without: list[Fields] = []
    parts = [_parts(row, sizes, told, without) for row in rows]
    time_s = _time_s(found["jobs"], rows)
    on = [(row, set(hosts(row, "nodes")) if runs(row) else set()) for row in rows]
    busy = {one.node.name for one in known if one.busy}.union(*(names for _, names in on))
    site = Site({one.node.name: one.features for one in known}, frozenset(busy), time_s)
    each = list(zip(rows, parts, strict=True))
    jobs = [job for row, held in each for job in jobs_of(row, held or (), site)]
    limits = {array_of(row): limit_of(row) for row in rows if limit_of(row)}
    for array in map(array_of, without):  # such a task runs, though it is no job of the round
        limits |= {array: limits[array] - 1} if array in limits else {}
    jobs = list(limited(jobs, limits))
    in_round = {job.name for job in jobs}
    passed = {
        name: reason
        for row, held in each
        for name, reason in passed_over(row, held)
        if name not in in_round
    }
    # What happened while the answers were written counts as before them.
    jobs = [replace(job, submit_s=time_s) if job.submit_s > time_s else job for job in jobs]
    closed = {one.node.name: one.why for one in known if one.why}
    for (row, names), held in zip(on, parts, strict=True):
        if held is None or keeps_away(row):
            why = "a job there has not quite ended" if held is None else "a job has it for itself"
            closed = dict.fromkeys(names & sizes.keys(), why) | closed
    closed = _untold_nodes(without, known, parts, told) | closed
    blocks = list(_blocks(known, jobs, filter(None, parts), time_s))
    nodes = [replace(one.node, open=one.node.name not in closed) for one in known]
    notes = [
        _NOT_LOOKED_AT,
        f"{len(rows)} records, {len(jobs)} jobs with GPUs that run or wait",
        *_notes(rows, known, blocks, closed),
        *_notes_of_untold(without, known),
    ]
    return found["jobs"].built(
        lambda: live_round(nodes, [*jobs, *blocks], time_s, notes, name="slurm", passed_over=passed)
    )


def _parts(
    row: Fields, sizes: Mapping[str, int], told: Mapping[str, int], without: list[Fields]
) -> Parts | None:
    """Return the GPUs of a record; none, with a note, if only its nodes state them."""
    try:
        return held_parts(row, sizes)
    except UntoldError:
        names = set(hosts(row, "nodes")) & sizes.keys() or sizes.keys()
        if not names <= told.keys():
            raise
        without.append(row)
        return ()


def _untold_nodes(
    without: Sequence[Fields],
    known: Sequence[_Known],
    parts: Sequence[Parts | None],
    told: Mapping[str, int],
) -> dict[str, str]:
    """Return nodes to close, because they state fewer used GPUs than their jobs hold."""
    detailed: Counter[str] = Counter()
    for held in filter(None, parts):
        for host, gpus in held:
            detailed[host] += len(gpus)
    names = [set(hosts(row, "nodes")) & told.keys() or told.keys() for row in without]
    on = set().union(*names)
    spare = sum(max(0, told[name] - detailed[name]) for name in on)
    if sum(map(gpus_once_held, without)) <= spare:
        return {}
    return {
        one.node.name: "a job there does not state its GPUs" for one in known if one.node.name in on
    }


def _notes_of_untold(without: Sequence[Fields], known: Sequence[_Known]) -> Iterator[str]:
    """Yield notes on facts known from nodes alone."""
    if without:
        names = some([str(row.whole("job_id", least=0)) for row in without], _SHOWN)
        yield (
            f"no gres_detail of jobs {names}: their GPUs are those in use by gres_used of their "
            "nodes (ask slurmrestd with flags=DETAIL)"
        )
    for one in known:
        if one.mixed:
            yield f"{one.node.name} has GPUs of several types: {one.mixed}"


def _documents(documents: Sequence[tuple[str, Any]]) -> dict[str, Fields]:
    """Return the documents by their content, jobs and nodes."""
    found: dict[str, Fields] = {}
    for file, parsed in documents:
        document = Fields(parsed, "", file, None)
        kinds = [kind for kind in ("jobs", "nodes") if document.given(kind)]
        if len(kinds) != 1:
            raise InputError(f"must be what squeue --json or {_NODES} prints", file=file)
        if document.has("errors") and (failed := document.raw("errors")):
            # What a failed answer lists is a part of the picture, if anything.
            raise document.error("errors", f"must be empty, Slurm reports {str(failed)[:120]}")
        if kinds[0] in found:
            raise InputError(f"is a second document with {kinds[0]}", file=file)
        found[kinds[0]] = document
    for kind, command in (("jobs", "squeue --json"), ("nodes", _NODES)):
        if kind not in found:
            raise InputError(f"lacks the document of {command}", field="--from")
    return found


def _time_s(document: Fields, rows: Sequence[Fields]) -> float:
    """Return the time of the answer, or the last time in it if it states none (22.05)."""
    happened = [0.0]
    for row in rows:
        names = ["submit_time", "last_sched_evaluation", *["start_time"] * runs(row)]
        happened += [number(row, name) or 0.0 for name in names]
    return number(document, "last_update") or max(happened)


def _nodes(row: Fields) -> Iterator[_Known]:
    """Yield the node of a record, if it has GPUs and exists."""
    name = row.text("name")
    gpus = {kind: count for kind, count, _ in gres(row, "gres", row.word("gres")) if count}
    states = [word.rstrip("*~#!%$@^-") for word in words(row, "state", "state_flags")]
    if not gpus or "FUTURE" in states:
        return
    kind, count = "+".join(gpus), sum(gpus.values())
    if count > MOST_GPUS_PER_NODE:
        raise row.error("gres", f"must be at most {MOST_GPUS_PER_NODE} GPUs, got {count}")
    threads = number(row, "effective_cpus") or number(row, "cpus")
    at_work = number(row, "alloc_cpus") or 0.0
    why = ""
    if strange := [word for word in states if word not in _OPEN | _FLAGS]:
        why = "+".join(strange).lower()
    elif not _OPEN & set(states):
        why = "no state"
    elif threads is not None and at_work >= threads > 0.0:
        why = "no free CPU"
    elif shared(row, "gres_used"):
        why = "shares of GPUs in use"
    used = None
    if row.has("gres_used"):
        listed = list(gres(row, "gres_used", row.word("gres_used")))
        named = {at for _, n, inside in listed if n for at in indices(row, "gres_used", inside)}
        used = frozenset(named) & frozenset(range(count)), sum(n for _, n, _ in listed)
    mixed = ""
    one_type = _one_type(row, gpus) if len(gpus) > 1 else None
    if len(gpus) > 1 and one_type is None:
        why = why or "GPUs of several types"
    elif one_type is not None and used is not None:
        kind, others = one_type
        used = used[0] | others, used[1] + len(others)
        mixed = f"{kind} is decided, {len(others)} free GPUs of others are left alone"
    yield _Known(
        LiveNode(name, kind, count, not why, frozenset(texts(row, "partitions"))),
        why,
        used,
        frozenset(texts(row, "active_features") or texts(row, "features")),
        at_work > 0.0 or (used is not None and used[1] > 0),
        mixed,
    )


def _one_type(row: Fields, gpus: Mapping[str, int]) -> tuple[str, frozenset[int]] | None:
    """Return a node's type with the most free GPUs, and the free GPUs of its other types.

    Types have the indices in the order of the node's ``gres``. None if ``gres_used`` does not
    distinguish the types, or contradicts that order.
    """
    if not row.has("gres_used") or "" in gpus:
        return None
    free: dict[str, set[int]] = {}
    begin = 0
    for kind, count in gpus.items():
        free[kind] = set(range(begin, begin + count))
        begin += count
    for kind, count, inside in gres(row, "gres_used", row.word("gres_used")):
        named = set(indices(row, "gres_used", inside)) if count else set()
        if count and (kind not in free or not named <= free[kind] or count > len(free[kind])):
            return None
        free[kind] -= named
        for _ in range(count - len(named)):
            free[kind].discard(max(free[kind]))
    best = max(free, key=lambda kind: len(free[kind]))
    return best, frozenset(at for kind, spare in free.items() if kind != best for at in spare)


def _blocks(
    nodes: Iterable[_Known], jobs: Sequence[LiveJob], parts: Iterable[Parts], time_s: float
) -> Iterator[LiveJob]:
    """Yield a running job per node for GPUs used by no job of the round."""
    held: dict[str, set[int]] = defaultdict(set)
    detailed: dict[str, set[int]] = defaultdict(set)
    for on in (*(job.parts for job in jobs), *parts):
        for host, gpus in on:
            detailed[host].update(gpus)
    for job in jobs:
        for host, gpus in job.parts:
            held[host].update(gpus)
    for one in nodes:
        name, size = one.node.name, one.node.gpus
        named, count = one.used or (frozenset(), 0)
        taken = (detailed[name] | named) & set(range(size))
        # If a record states only a number, the last GPUs represent those that it does not name.
        spare = [at for at in reversed(range(size)) if at not in taken]
        taken.update(spare[: max(0, count - len(taken))])
        if rest := tuple(sorted(taken - held[name])):
            yield LiveJob.block("in use", name, rest, time_s)


def _notes(
    rows: Sequence[Fields],
    known: Sequence[_Known],
    blocks: Sequence[LiveJob],
    closed: Mapping[str, str],
) -> Iterator[str]:
    """Yield what is assumed, left out or left alone."""
    if closed:
        names = some([f"{name} ({why})" for name, why in sorted(closed.items())], _SHOWN)
        yield f"nothing is started on {names}"
    if blocks:
        names = some([f"{job.gpus} on {job.parts[0][0]}" for job in blocks], _SHOWN)
        yield f"GPUs in use by no job that squeue shows are left alone: {names}"
    if silent := [one.node.name for one in known if one.used is None]:
        names = some(silent, _SHOWN)
        yield f"no gres_used of {names}: jobs that squeue does not show (PrivateData) are not seen"
    if again := [row for row in rows if (number(row, "restart_cnt") or 0.0) > 0.0]:
        yield (
            f"{len(again)} records are of jobs that ran before: they wait from their requeue on, "
            "squeue knows no earlier submission"
        )
    for row in rows:
        if "..." in row.word("array_task_string"):
            array = array_of(row)
            yield f"squeue names not all tasks of array {array} (SLURM_BITSTR_LEN): left out"
