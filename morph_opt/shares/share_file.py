"""Share problems as JSON files, in the words of Gavel's published code.

A file is one instance or ``{"instances": [...]}``; the fields are on ``docs/target-shares.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from formulations.shares.problem import PairTable, ShareProblem
from morph_opt.documents import read_json
from morph_opt.domain import InputError
from morph_opt.shares.request import ShareRequest

FIELDS = (
    "id",
    "worker_types",
    "cluster",
    "throughputs",
    "scale_factors",
    "weights",
    "num_steps_remaining",
    "times_since_start",
    "cumulative_isolated_time",
    "entities",
    "entity_weights",
    "SLOs",
    "costs",
    "pairs",
)
"""Fields that are read; others are named to the caller."""

LARGEST = 1e30
"""Largest size of a number; products and quotients of a few of them are still doubles."""

_MOST_GPUS = 10**6
"""Of a gang."""

NEEDS = {
    "makespan": ("num_steps_remaining",),
    "ftf": ("num_steps_remaining",),
    "srpt": ("num_steps_remaining",),
    "hierarchical": ("entities",),
    "hierarchical-fifo": ("entities",),
    "cost": ("num_steps_remaining", "costs"),
}
"""Fields that a policy cannot do without, beyond those of every instance."""


@dataclass(frozen=True, slots=True)
class ShareInstance:
    """One instance as read.

    Parameters
    ----------
    name
        Its ``id``, or its place in the file.
    types
        GPU types, in the order of the columns.
    request
        The problem and all that policies look at.
    given
        Fields that the file has.
    unread
        Fields of the file that are not looked at.
    """

    name: str
    types: tuple[str, ...]
    request: ShareRequest
    given: frozenset[str]
    unread: tuple[str, ...]

    def require(self, policy: str) -> None:
        """Refuse a policy that needs a field which the file does not have.

        Raises
        ------
        InputError
            Naming policy and field.
        """
        for field in NEEDS.get(policy, ()):
            if field not in self.given:
                raise InputError(f"policy {policy} needs it", field=f"{self.name}: {field}")


def read_instances(path: Path, *, oversize: bool = False) -> tuple[ShareInstance, ...]:
    """All instances of a file, in order.

    Parameters
    ----------
    oversize
        Whether a gang larger than a type may have a share there, as in the published code.

    Raises
    ------
    InputError
        Naming file, instance, field and rule.
    """
    data = read_json(path)
    entries = data.get("instances", [data]) if isinstance(data, dict) else data
    if not isinstance(entries, list) or not entries:
        raise InputError("must be an instance or a list of instances", file=str(path))
    try:
        return tuple(_instance(entry, i, oversize) for i, entry in enumerate(entries))
    except InputError as error:
        raise error.located(file=str(path)) from None


def _instance(entry: object, place: int, oversize: bool) -> ShareInstance:
    if not isinstance(entry, dict):
        raise InputError("must be an object", field=f"instance {place}")
    name = str(entry.get("id", place))
    try:
        types = _types(entry)
        return ShareInstance(
            name,
            types,
            _request(entry, types, oversize),
            frozenset(key for key in entry if entry[key] is not None),
            tuple(key for key in entry if key not in FIELDS),
        )
    except InputError as error:
        field = name if error.field is None else f"{name}: {error.field}"
        raise InputError(error.rule, field=field) from None
    except ValueError as error:  # the problem's own rules name job and rule
        raise InputError(str(error), field=name) from None


def _types(entry: Mapping[str, Any]) -> tuple[str, ...]:
    types = entry.get("worker_types", sorted(_mapping(entry, "cluster")))
    if not isinstance(types, list) or not all(isinstance(kind, str) for kind in types):
        raise InputError("must be a list of names", field="worker_types")
    if not types or len(set(types)) != len(types):
        raise InputError("must name at least one type, each once", field="worker_types")
    return tuple(types)


def _request(entry: Mapping[str, Any], types: Sequence[str], oversize: bool) -> ShareRequest:
    speed = _table(entry, "throughputs", len(types))
    jobs = len(speed)
    ones, zeros = np.ones(jobs), np.zeros(jobs)
    gang = _column(entry, "scale_factors", jobs, ones)
    if not ((gang == np.floor(gang)) & (gang <= _MOST_GPUS)).all():
        rule = f"must be whole numbers of at most {_MOST_GPUS}"
        raise InputError(rule, field="scale_factors")
    entity, entity_weight = _entities(entry, jobs)
    slo_s = _column(entry, "SLOs", jobs, np.full(jobs, np.inf))
    return ShareRequest(
        problem=ShareProblem(
            speed,
            gang.astype(np.int64),
            _by_type(entry, "cluster", types, None),
            oversize,
            _pairs(entry, jobs, len(types)),
        ),
        weight=_column(entry, "weights", jobs, ones),
        steps_left=_column(entry, "num_steps_remaining", jobs, ones),
        since_s=_column(entry, "times_since_start", jobs, zeros),
        isolated_s=_column(entry, "cumulative_isolated_time", jobs, zeros),
        arrival=np.arange(jobs, dtype=np.int64),
        entity=entity,
        slo_s=slo_s,
        price=_by_type(entry, "costs", types, 1.0),
        entity_weight=entity_weight,
    )


def _mapping(entry: Mapping[str, Any], field: str) -> dict[str, Any]:
    found = entry.get(field)
    if not isinstance(found, dict) or not found:
        raise InputError("must be an object with a number per type", field=field)
    return found


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"must be a number, got {value!r}", field=field)
    if value != 0 and not 1.0 / LARGEST <= abs(value) <= LARGEST:
        raise InputError(
            f"must be 0 or of a size between {1 / LARGEST:g} and {LARGEST:g}, got {value:g}",
            field=field,
        )
    return float(value)


def _by_type(
    entry: Mapping[str, Any], field: str, types: Sequence[str], default: float | None
) -> Floats:
    if default is not None and entry.get(field) is None:
        return np.full(len(types), default)
    found = _mapping(entry, field)
    for kind in types:
        if kind not in found:
            raise InputError(f"type {kind!r} is missing", field=field)
    stray = sorted(set(found) - set(types))
    if stray:
        raise InputError(f"type {stray[0]!r} is not among the worker_types", field=field)
    return np.asarray([_number(found[kind], f"{field}.{kind}") for kind in types])


def _column(entry: Mapping[str, Any], field: str, jobs: int, default: Floats) -> Floats:
    """One number per job; null takes the default (an SLO that a job does not have)."""
    values = entry.get(field)
    if values is None:
        return default
    if not isinstance(values, list) or len(values) != jobs:
        raise InputError(f"must be a list of {jobs} numbers, one per job", field=field)
    return np.asarray(
        [
            default[i] if value is None else _number(value, f"{field}[{i}]")
            for i, value in enumerate(values)
        ]
    )


def _table(entry: Mapping[str, Any], field: str, types: int) -> Floats:
    rows = entry.get(field)
    if not isinstance(rows, list) or not rows:
        raise InputError("must be a list with a row per job", field=field)
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != types:
            raise InputError(f"must have {types} numbers, one per type", field=f"{field}[{i}]")
    return np.asarray(
        [[_number(v, f"{field}[{i}][{j}]") for j, v in enumerate(r)] for i, r in enumerate(rows)]
    )


def _entities(entry: Mapping[str, Any], jobs: int) -> tuple[npt.NDArray[np.int64], Floats | None]:
    owners = entry.get("entities")
    weights = entry.get("entity_weights")
    if owners is None:
        if weights is not None:
            raise InputError("has no meaning without entities", field="entity_weights")
        return np.zeros(jobs, dtype=np.int64), None
    if not isinstance(owners, list) or len(owners) != jobs:
        raise InputError(f"must be a list of {jobs} names, one per job", field="entities")
    names = sorted({str(owner) for owner in owners})
    place = {name: i for i, name in enumerate(names)}
    index = np.asarray([place[str(owner)] for owner in owners], dtype=np.int64)
    if weights is None:
        return index, np.ones(len(names))
    found = _mapping(entry, "entity_weights")
    for owner in found:
        if owner not in names:
            raise InputError(f"unknown entity {owner!r}", field="entity_weights")
    values = [_number(found.get(name, 1.0), f"entity_weights.{name}") for name in names]
    for name, value in zip(names, values, strict=True):
        if value <= 0.0:
            raise InputError(f"must be above 0, got {value:g}", field=f"entity_weights.{name}")
    return index, np.asarray(values)


def _pairs(entry: Mapping[str, Any], jobs: int, types: int) -> PairTable:
    rows = entry.get("pairs")
    if rows is None:
        return PairTable()
    if not isinstance(rows, list):
        raise InputError("must be a list", field="pairs")
    members: list[tuple[int, int]] = []
    speeds: list[Floats] = []
    for i, row in enumerate(rows):
        field = f"pairs[{i}]"
        both = row.get("jobs") if isinstance(row, dict) else None
        if not isinstance(both, list) or len(both) != 2:
            raise InputError("must have jobs, two indices", field=field)
        a, b = (int(_number(job, f"{field}.jobs")) for job in both)
        if a == b or not (0 <= a < jobs and 0 <= b < jobs):
            raise InputError(f"must name two of the {jobs} jobs, got {(a, b)}", field=field)
        table = _table(row, "throughputs", 2)
        if len(table) != types:
            raise InputError(f"must have {types} rows, one per type", field=f"{field}.throughputs")
        members.append((a, b))
        speeds.append(table)
    if not members:
        return PairTable()
    index = np.asarray(members, dtype=np.int64)
    return PairTable(index[:, 0], index[:, 1], np.stack(speeds))
