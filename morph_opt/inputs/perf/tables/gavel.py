"""Gavel's measured throughputs: steps per second by GPU type, alone and in pairs.

Layout of ``simulation_throughputs.json`` (Gavel, OSDI'20): GPU type -> job key, the text of a
Python tuple ``('ResNet-18 (batch size 16)', 2)`` -> ``"null"``: steps/s of the whole gang alone, or
another job key -> [its own, the other's] steps/s while both share the same GPUs. A type
``<name>_unconsolidated`` holds the speeds of gangs that are spread over several nodes.

A step of a gang of 4 covers four times the samples of a step of one GPU, so step counts of
different gang sizes do not compare. Therefore every (job type, gang) is a model of its own, such as
``"ResNet-18 (batch size 16) x2"``, which runs on exactly this number of GPUs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.core.documents import read_json
from morph_opt.core.domain import Cluster, InputError, NodeType, Shape
from morph_opt.inputs.perf.speed import Plans
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang, GangTable

_SPREAD = "_unconsolidated"
_KEY = re.compile(r"""\((['"])([^'"\\]+)\1, ([0-9]{1,9})\)""")
FASTEST, SLOWEST = 1e9, 1e-9
"""Limits of steps per second; values outside are typing errors and durations would overflow."""

Key = tuple[str, int]
"""Job type and gang size."""


@dataclass(frozen=True, slots=True)
class GavelThroughputs:
    """Throughput table as arrays.

    Parameters
    ----------
    alone
        Steps per second by GPU type (lower case) and key; 0 where it cannot run.
    spread
        The same for gangs on several nodes.
    paired
        [own, other's] steps per second by GPU type and the two keys.
    """

    alone: Mapping[str, Mapping[Key, float]]
    spread: Mapping[str, Mapping[Key, float]]
    paired: Mapping[str, Mapping[tuple[Key, Key], tuple[float, float]]]

    @property
    def types(self) -> tuple[str, ...]:
        """GPU types, sorted."""
        return tuple(sorted(self.alone))

    def job_keys(self) -> tuple[Key, ...]:
        """Return every (job type, gang) of the table, sorted."""
        return tuple(sorted({key for table in self.alone.values() for key in table}))

    def fastest(self, key: Key) -> float:
        """Return steps per second alone on the fastest type; 0 if it runs nowhere."""
        return max((table.get(key, 0.0) for table in self.alone.values()), default=0.0)

    def require_types(self, names: Sequence[str]) -> None:
        """Refuse a cluster with a GPU type that the table does not have.

        Raises
        ------
        InputError
            Naming the type.
        """
        for name in names:
            if name.lower() not in self.alone:
                rule = f"the throughput table has no type {name!r}; it has {', '.join(self.types)}"
                raise InputError(rule, field="gpu type")

    def require_job_type(self, job_type: str) -> None:
        """Refuse a job type that the table lacks for every gang size.

        Raises
        ------
        InputError
            Naming the job type.
        """
        if all(job_type != known for known, _ in self.job_keys()):
            raise InputError(f"unknown job type {job_type!r}", field="job_type")

    def require_key(self, key: Key) -> None:
        """Refuse a job type that the table does not have, or that runs nowhere.

        Raises
        ------
        InputError
            Naming job type and gang.
        """
        speeds = [table[key] for table in self.alone.values() if key in table]
        if not speeds:
            raise InputError(f"unknown job type {key[0]!r} with {key[1]} GPUs", field="job_type")
        if not any(speed > 0 for speed in speeds):
            rule = f"job type {key[0]!r} with {key[1]} GPUs has throughput 0 on every type"
            raise InputError(rule, field="job_type")


def read_throughputs(path: Path) -> GavelThroughputs:
    """Return the throughputs of ``simulation_throughputs.json``.

    Raises
    ------
    InputError
        If the file is missing, is not JSON, or a key or number is malformed (type, job and rule
        are named).
    """
    raw = read_json(path)
    if not isinstance(raw, dict) or not raw:
        raise InputError("must map GPU types to job keys", file=str(path))
    try:
        return _tables(raw)
    except InputError as error:
        raise error.located(file=str(path)) from None


def _tables(raw: dict[str, Any]) -> GavelThroughputs:
    alone: dict[str, dict[Key, float]] = {}
    spread: dict[str, dict[Key, float]] = {}
    paired: dict[str, dict[tuple[Key, Key], tuple[float, float]]] = {}
    for kind, jobs in raw.items():
        if not isinstance(jobs, dict):
            raise InputError("must map job keys to speeds", field=kind)
        base = kind.removesuffix(_SPREAD)
        singles, pairs = _rows(kind, jobs)
        if kind != base:
            spread[base] = singles
        else:
            alone[base], paired[base] = singles, pairs
    if not alone:
        raise InputError("has no consolidated GPU type", field="types")
    return GavelThroughputs(alone, spread, paired)


def _rows(
    kind: str, jobs: dict[str, Any]
) -> tuple[dict[Key, float], dict[tuple[Key, Key], tuple[float, float]]]:
    singles: dict[Key, float] = {}
    pairs: dict[tuple[Key, Key], tuple[float, float]] = {}
    for text, row in jobs.items():
        key = _key(text, kind)
        if not isinstance(row, dict) or "null" not in row:
            raise InputError('needs the speed without a partner, "null"', field=f"{kind}: {text}")
        for other, speed in row.items():
            if other == "null":
                singles[key] = _speed(speed, f"{kind}: {text}")
                continue
            place = f"{kind}: {text} with {other}"
            if not isinstance(speed, list) or len(speed) != 2:
                raise InputError("must be two speeds, its own and the other's", field=place)
            pairs[key, _key(other, kind)] = (_speed(speed[0], place), _speed(speed[1], place))
    return singles, pairs


def _key(text: str, kind: str) -> Key:
    found = _KEY.fullmatch(text)
    if found is None:
        raise InputError(f"must look like ('job type', gang), got {text!r}", field=kind)
    if int(found[3]) < 1:
        raise InputError(f"must have a gang of at least 1, got {text!r}", field=kind)
    return found[2], int(found[3])


def _speed(value: Any, place: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise InputError(f"must be a speed of at least 0, got {value!r}", field=place)
    if value and not SLOWEST <= value <= FASTEST:
        rule = f"must be 0 or from {SLOWEST:g} to {FASTEST:g} steps per second, got {value:g}"
        raise InputError(rule, field=place)
    return float(value)


class GavelTable(GangTable):
    """Gavel's throughputs as a speed model; a job type is the kind of its gangs.

    A shape on one node runs at the consolidated speed; on several nodes at the unconsolidated
    one, where the table has it.

    Parameters
    ----------
    throughputs
        The table.
    name
        Shown in run folders.
    also
        Further keys to know: gangs that were not measured and hence run nowhere.
    """

    def __init__(
        self, throughputs: GavelThroughputs, name: str = "gavel", also: Iterable[Key] = ()
    ) -> None:
        super().__init__(Gang(gpus, kind) for kind, gpus in (*throughputs.job_keys(), *also))
        self.throughputs = throughputs
        self.name = name

    def require_cluster(self, cluster: Cluster) -> None:
        """Refuse a cluster with a GPU type that the table does not have.

        Raises
        ------
        InputError
            Naming the type.
        """
        self.throughputs.require_types([kind.name for kind in cluster.gpu_types])

    @property
    def measures_pairs(self) -> bool:
        """Whether the table has measured pairs."""
        return any(self.throughputs.paired.values())

    def paired_iteration_s(
        self, models: tuple[str, str], plans: Plans, node_type: NodeType, shape: Shape
    ) -> tuple[float, float] | None:
        """Return seconds per step of two gangs of one size on the same GPUs of one node.

        None where the pair was not measured, or does not fit in memory (a throughput of 0).

        Raises
        ------
        InputError
            If a model is unknown.
        """
        one, two = (_key_of(self._gang(model)) for model in models)
        fits = shape.nodes == 1 and shape.gpus <= node_type.gpus
        if not fits or one[1] != shape.gpus or two[1] != shape.gpus or set(plans) != {RIGID_PLAN}:
            return None
        table = self.throughputs.paired.get(node_type.gpu_type.name.lower(), {})
        own, other = table.get((one, two)) or table.get((two, one), (0.0, 0.0))[::-1]
        return (1.0 / own, 1.0 / other) if own > 0 and other > 0 else None

    def _seconds(self, gang: Gang, node_type: NodeType, shape: Shape) -> float | None:
        """Return seconds per step of the gang."""
        kind = node_type.gpu_type.name.lower()
        tables = self.throughputs.alone if shape.nodes == 1 else self.throughputs.spread
        speed = tables.get(kind, {}).get(_key_of(gang), 0.0)
        return 1.0 / speed if speed > 0 else None


def _key_of(gang: Gang) -> Key:
    return gang.kind, gang.gpus
