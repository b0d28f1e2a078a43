"""Share problems as JSON files, with the field names of Gavel's published code.

A file is one instance or ``{"instances": [...]}``; the fields are on ``docs/target-shares.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from formulations.shares.problem import PairTable, ShareProblem
from morph_opt.core.documents import Fields, names_of, read_json
from morph_opt.core.domain import InputError
from morph_opt.scheduling.shares.request import ShareRequest

_Column = tuple[float | None, ...]
"""Column with a number per job; null means the default, such as no SLO."""
_Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Pair of jobs on one GPU: the speeds of both while they share it, a row per type."""

    jobs: tuple[int, int]
    throughputs: _Table


@dataclass(frozen=True, slots=True)
class _Written:
    """Instance as written; null is the same as left out."""

    cluster: dict[str, float]
    throughputs: _Table
    id: Any = None
    worker_types: tuple[str, ...] | None = None
    scale_factors: _Column | None = None
    weights: _Column | None = None
    num_steps_remaining: _Column | None = None
    times_since_start: _Column | None = None
    cumulative_isolated_time: _Column | None = None
    entities: tuple[Any, ...] | None = None
    entity_weights: dict[str, float] | None = None
    SLOs: _Column | None = None
    costs: dict[str, float] | None = None
    pairs: tuple[_Pair, ...] | None = None


FIELDS = names_of(_Written)
"""Fields that are read; others are reported to the caller."""

LARGEST = 1e30
"""Largest magnitude of a number; products and quotients of a few stay finite."""

_MOST_GPUS = 10**6
"""Largest number of GPUs of a gang."""

NEEDS = {
    "makespan": ("num_steps_remaining",),
    "ftf": ("num_steps_remaining",),
    "srpt": ("num_steps_remaining",),
    "hierarchical": ("entities",),
    "hierarchical-fifo": ("entities",),
    "cost": ("num_steps_remaining", "costs"),
}
"""Fields that a policy needs in addition to the fields of every instance."""


@dataclass(frozen=True, slots=True)
class ShareInstance:
    """Instance as read.

    Parameters
    ----------
    name
        Value of ``id``, or position in the file.
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
        """Refuse a policy that needs a field missing in the file.

        Raises
        ------
        InputError
            Naming policy and field.
        """
        for field in NEEDS.get(policy, ()):
            if field not in self.given:
                raise InputError(f"policy {policy} needs it", field=f"{self.name}: {field}")


def read_instances(path: Path, *, oversize: bool = False) -> tuple[ShareInstance, ...]:
    """Read all instances of a file, in order.

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
        written = Fields(entry, "", None, None).make(_Written)
        types = _types(written)
        return ShareInstance(
            name,
            types,
            _request(written, types, oversize),
            frozenset(key for key in entry if entry[key] is not None),
            tuple(key for key in entry if key not in FIELDS),
        )
    except InputError as error:
        raise InputError(error.rule, field=f"{name}: {error.field}") from None
    except ValueError as error:  # the problem's own rules name job and rule
        raise InputError(str(error), field=name) from None


def _types(written: _Written) -> tuple[str, ...]:
    types = written.worker_types
    if types is None:
        types = tuple(sorted(written.cluster))
    if not types or len(set(types)) != len(types):
        raise InputError("must name at least one type, each once", field="worker_types")
    return types


def _request(written: _Written, types: Sequence[str], oversize: bool) -> ShareRequest:
    speed = _table("throughputs", written.throughputs, len(types), "one per type")
    jobs = len(speed)
    if not jobs:
        raise InputError("must be a list with a row per job", field="throughputs")

    def column(field: str, default: float) -> Floats:
        values = getattr(written, field)
        if values is None:
            return np.full(jobs, default)
        if len(values) != jobs:
            raise InputError(f"must be a list of {jobs} numbers, one per job", field=field)
        found = _sized(field, values)
        return np.where(np.isnan(found), default, found)

    gang = column("scale_factors", 1.0)
    if not ((gang == np.floor(gang)) & (gang <= _MOST_GPUS)).all():
        rule = f"must be whole numbers of at most {_MOST_GPUS}"
        raise InputError(rule, field="scale_factors")
    entity, entity_weight = _entities(written, jobs)
    no_price = np.ones(len(types))
    return ShareRequest(
        problem=ShareProblem(
            speed,
            gang.astype(np.int64),
            _by_type("cluster", written.cluster, types),
            oversize,
            _pairs(written.pairs or (), jobs, len(types)),
        ),
        weight=column("weights", 1.0),
        steps_left=column("num_steps_remaining", 1.0),
        since_s=column("times_since_start", 0.0),
        isolated_s=column("cumulative_isolated_time", 0.0),
        arrival=np.arange(jobs, dtype=np.int64),
        entity=entity,
        slo_s=column("SLOs", np.inf),
        price=no_price if written.costs is None else _by_type("costs", written.costs, types),
        entity_weight=entity_weight,
    )


def _sized(field: str, values: Sequence[Any], names: Sequence[str] = ()) -> Floats:
    """Return numbers as an array, null as NaN; of a table, in the order of its names."""
    found = np.asarray(values, dtype=float)
    size = np.abs(found)
    for place in np.argwhere((size > LARGEST) | ((size > 0.0) & (size < 1.0 / LARGEST))).tolist():
        below = f".{names[place[0]]}" if names else "".join(f"[{i}]" for i in place)
        raise InputError(
            f"must be 0 or of a size between {1 / LARGEST:g} and {LARGEST:g}, "
            f"got {found[tuple(place)]:g}",
            field=field + below,
        )
    return found


def _by_type(field: str, given: Mapping[str, float], types: Sequence[str]) -> Floats:
    for kind in types:
        if kind not in given:
            raise InputError(f"type {kind!r} is missing", field=field)
    stray = sorted(set(given) - set(types))
    if stray:
        raise InputError(f"type {stray[0]!r} is not among the worker_types", field=field)
    return _sized(field, [given[kind] for kind in types], types)


def _table(field: str, rows: _Table, width: int, columns: str) -> Floats:
    for i, row in enumerate(rows):
        if len(row) != width:
            raise InputError(f"must have {width} numbers, {columns}", field=f"{field}[{i}]")
    return _sized(field, rows)


def _entities(written: _Written, jobs: int) -> tuple[npt.NDArray[np.int64], Floats | None]:
    owners, weights = written.entities, written.entity_weights
    if owners is None:
        if weights is not None:
            raise InputError("has no meaning without entities", field="entity_weights")
        return np.zeros(jobs, dtype=np.int64), None
    if len(owners) != jobs:
        raise InputError(f"must be a list of {jobs} names, one per job", field="entities")
    owner_names, index = np.unique([str(owner) for owner in owners], return_inverse=True)
    names = owner_names.tolist()
    given = weights or {}
    for owner in given:
        if owner not in names:
            raise InputError(f"unknown entity {owner!r}", field="entity_weights")
    for owner, weight in given.items():
        if weight <= 0.0:
            raise InputError(f"must be above 0, got {weight:g}", field=f"entity_weights.{owner}")
    values = _sized("entity_weights", [given.get(name, 1.0) for name in names], names)
    return index.astype(np.int64), values


def _pairs(pairs: Sequence[_Pair], jobs: int, types: int) -> PairTable:
    if not pairs:
        return PairTable()
    speeds: list[Floats] = []
    for i, pair in enumerate(pairs):
        field, (a, b) = f"pairs[{i}]", pair.jobs
        if a == b or not (0 <= a < jobs and 0 <= b < jobs):
            raise InputError(f"must name two of the {jobs} jobs, got {(a, b)}", field=field)
        field += ".throughputs"
        if len(pair.throughputs) != types:
            raise InputError(f"must have {types} rows, one per type", field=field)
        speeds.append(_table(field, pair.throughputs, 2, "one per job"))
    index = np.asarray([pair.jobs for pair in pairs], dtype=np.int64)
    return PairTable(index[:, 0], index[:, 1], np.stack(speeds))
