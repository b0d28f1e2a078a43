"""Speeds of two jobs on the same GPUs in a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

from morph_opt.core.documents import Fields, names_of, plain
from morph_opt.core.domain import Cluster, ExecutionPlan, NodeType, Shape
from morph_opt.core.domain._validate import require_iteration_s, require_name
from morph_opt.inputs.perf.speed import SpeedModel, pair_speeds

PairKey = tuple[tuple[str, str], tuple[ExecutionPlan, ExecutionPlan], str, Shape]


@dataclass(frozen=True, slots=True)
class PairRow:
    """Speeds of two models on the same GPUs.

    Parameters
    ----------
    models, plans
        Of the first and of the second.
    node_type, shape
        Name of the type of nodes; GPUs per node, of both.
    iteration_s
        Seconds per iteration of either while both run.
    """

    models: tuple[str, str]
    plans: tuple[ExecutionPlan, ExecutionPlan]
    node_type: str
    shape: Shape
    iteration_s: tuple[float, float]

    @property
    def keys(self) -> tuple[tuple[PairKey, tuple[float, float]], ...]:
        """Keys of the row, in both orders of its models."""
        (one, two), (left, right), (first, second) = self.models, self.plans, self.iteration_s
        return (
            (((one, two), (left, right), self.node_type, self.shape), (first, second)),
            (((two, one), (right, left), self.node_type, self.shape), (second, first)),
        )


def pairs_of(
    speeds: SpeedModel,
    cluster: Cluster,
    alone: Iterable[tuple[str, str, Shape, ExecutionPlan]],
) -> Iterator[PairRow]:
    """Return every pair that a speed model measures among these configurations.

    Parameters
    ----------
    alone
        Model, name of the node type, shape and plan of what can run alone.
    """
    measured = pair_speeds(speeds)
    if measured is None:
        return
    kinds = {kind.name: kind for kind in cluster.node_types}
    where: dict[tuple[str, Shape], list[tuple[str, ExecutionPlan]]] = {}
    for model, kind, shape, plan in dict.fromkeys(alone):
        where.setdefault((kind, shape), []).append((model, plan))
    for (kind, shape), ways in where.items():
        for (one, left), (two, right) in combinations_with_replacement(ways, 2):
            pace_s = measured.paired_iteration_s((one, two), (left, right), kinds[kind], shape)
            if pace_s is not None:
                yield PairRow((one, two), (left, right), kind, shape, pace_s)


def pairs_to_json(rows: Iterable[PairRow]) -> list[dict[str, Any]]:
    """Return the rows as JSON."""
    return [plain(row) for row in rows]


def pairs_from_json(document: Fields, kinds: dict[str, NodeType]) -> tuple[PairRow, ...]:
    """Read the rows of a document's field ``pairs``; none without the field."""
    if not document.has("pairs"):
        return ()
    rows = document.objects("pairs", names_of(PairRow))
    return tuple(_row(row, kinds) for row in rows)


def _row(row: Fields, kinds: dict[str, NodeType]) -> PairRow:
    found = row.make(PairRow)
    if found.node_type not in kinds:
        raise row.error("node_type", f"the cluster has no node of type {found.node_type!r}")
    for name in found.models:
        row.built(partial(require_name, "models", name))
    for value in found.iteration_s:
        row.built(partial(require_iteration_s, value))
    return found
