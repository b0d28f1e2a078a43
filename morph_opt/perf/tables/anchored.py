"""Speeds of jobs of which a log knows one pair: so many GPUs, so many seconds.

`AnchoredSeconds` is rigid without a scaling curve: a second is an iteration on exactly the GPUs
that the log has. With one, speed(G) = speed(G0) S(G) / S(G0) for the curve S that the user states,
which is an assumption and no measurement; on G0 it is the same to the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from morph_opt.domain import Cluster, InputError, NodeType, Shape, Span
from morph_opt.domain.plan import ExecutionPlan
from morph_opt.domain.shape import partitions
from morph_opt.perf.analytic.zoo import builtin_model
from morph_opt.perf.speed import Configuration, require_model
from morph_opt.perf.tables.durations import RIGID_PLAN

LEAST_FACTOR = MOST_FACTOR = 4
"""An anchored job may run on a fourth to four times its GPUs."""

_AMDAHL = re.compile(r"amdahl:(0(?:\.[0-9]{1,9})?|1(?:\.0{1,9})?)", re.ASCII)

Curve = Callable[[int, NodeType], float | None]
"""S(G) on nodes of a type, in any unit; None where it does not run."""


@dataclass(frozen=True, slots=True)
class Gang:
    """What a log knows of a job's speed.

    Parameters
    ----------
    gpus
        GPUs that it ran on.
    types
        GPU types that it may run on, as the log calls them; empty for any.
    """

    gpus: int
    types: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its model, as jobs name it."""
        return f"{'|'.join(self.types) or 'gang'} x{self.gpus}"

    def fits(self, node_type: NodeType) -> bool:
        """Whether nodes of a type are of one of its types: ``a100`` is A100 and A100-80GB."""
        name = node_type.gpu_type.name.casefold()
        return not self.types or any(
            name == kind or name.startswith(f"{kind}-") for kind in map(str.casefold, self.types)
        )


def curve_of(text: str) -> Curve:
    """The curve of ``linear``, ``amdahl:P`` (P of the work is parallel) or a built-in model.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if text == "linear":
        return lambda gpus, _: float(gpus)
    amdahl = _AMDAHL.fullmatch(text)
    if amdahl:
        parallel = float(amdahl[1])
        return lambda gpus, _: 1.0 / (1.0 - parallel + parallel / gpus)
    models = builtin_model().models()
    if text in models:
        return _of_model(text)
    rule = f"must be linear, amdahl:P with P from 0 to 1, or one of {', '.join(models)}"
    raise InputError(f"{rule}, got {text!r}", field="scaling")


def _of_model(model: str) -> Curve:
    """The built-in model's best speed on so many GPUs of the fewest nodes."""
    truth = builtin_model()

    @lru_cache(maxsize=256)
    def speed(gpus: int, node_type: NodeType) -> float | None:
        rows = truth.configurations(model, node_type, gpus, Span.LEAF)
        return max((1.0 / row.iteration_s for row in rows if row.shape.gpus == gpus), default=None)

    return speed


class AnchoredSeconds:
    """Speed model of gangs from logs: one second per iteration on the GPUs that they had.

    Parameters
    ----------
    gangs
        All that occur.
    scaling
        See `curve_of`; None for rigid gangs.
    """

    def __init__(self, gangs: Sequence[Gang], scaling: str | None = None) -> None:
        self.name = "rigid" if scaling is None else f"anchored:{scaling}"
        self._gangs: Mapping[str, Gang] = {gang.name: gang for gang in gangs}
        self._curve = None if scaling is None else curve_of(scaling)
        self._cache: dict[tuple[str, NodeType, int], tuple[Configuration, ...]] = {}

    def models(self) -> Sequence[str]:
        """Names, sorted."""
        return sorted(self._gangs)

    def types_not_in(self, cluster: Cluster) -> tuple[str, ...]:
        """GPU types that gangs insist on and no node of the cluster has, sorted."""
        kinds = cluster.node_types
        strange = [one for one in self._gangs.values() if not any(map(one.fits, kinds))]
        return tuple(sorted({kind for gang in strange for kind in gang.types}))

    def iteration_s(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,  # noqa: ARG002 - part of the protocol
    ) -> float | None:
        """1 s on the log's GPUs, by the curve on others; None where it cannot run."""
        gang = self._gang(model)
        if plan != RIGID_PLAN or shape.parts[0] > node_type.gpus or not gang.fits(node_type):
            return None
        if shape.gpus == gang.gpus:
            return 1.0
        fewest = -(-shape.gpus // node_type.gpus)
        if shape.gpus not in self._counts(gang, node_type) or shape.nodes > fewest:
            return None
        return self._scaled(gang, shape.gpus, node_type)

    def configurations(
        self,
        model: str,
        node_type: NodeType,
        max_gpus: int,
        span: Span,  # noqa: ARG002 - part of the protocol
    ) -> Sequence[Configuration]:
        """Every shape of the log's GPUs; of other counts the one on the fewest nodes."""
        gang = self._gang(model)
        key = (model, node_type, max_gpus)
        if key not in self._cache:
            self._cache[key] = tuple(self._rows(gang, node_type, max_gpus))
        return self._cache[key]

    def _rows(self, gang: Gang, node_type: NodeType, max_gpus: int) -> list[Configuration]:
        if not gang.fits(node_type):
            return []
        rows = []
        for gpus in self._counts(gang, node_type):
            if gpus > max_gpus:
                continue
            seconds = 1.0 if gpus == gang.gpus else self._scaled(gang, gpus, node_type)
            shapes = partitions(gpus, node_type.gpus)
            if gpus != gang.gpus:
                shapes = shapes[:1]
            rows += [Configuration(s, RIGID_PLAN, seconds) for s in shapes if seconds is not None]
        return rows

    def _counts(self, gang: Gang, node_type: NodeType) -> list[int]:
        """GPUs that a gang may run on: powers of two below a node, whole nodes above, its own."""
        found = {gang.gpus}
        if self._curve is not None:
            least, most = -(-gang.gpus // LEAST_FACTOR), gang.gpus * MOST_FACTOR
            powers = (1 << i for i in range(node_type.gpus.bit_length()))
            nodes = range(node_type.gpus, most + 1, node_type.gpus)
            found |= {n for n in (*powers, *nodes) if least <= n <= most}
        return sorted(found)

    def _scaled(self, gang: Gang, gpus: int, node_type: NodeType) -> float | None:
        """Seconds per iteration on another number of GPUs; None where the curve has no value."""
        assert self._curve is not None
        own, other = self._curve(gang.gpus, node_type), self._curve(gpus, node_type)
        return None if own is None or other is None else own / other

    def _gang(self, model: str) -> Gang:
        require_model(model, self._gangs, self.name)
        return self._gangs[model]
