"""Speeds of two jobs on the same GPUs in a snapshot, and partners that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

from morph_opt.documents import Fields
from morph_opt.domain import Cluster, ExecutionPlan, JobState, NodeType, Shape
from morph_opt.domain._validate import require_iteration_s
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import pair_speeds

PAIR_FIELDS = ("models", "plans", "node_type", "shape", "iteration_s")

PairKey = tuple[tuple[str, str], tuple[ExecutionPlan, ExecutionPlan], str, Shape]


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two models on the same GPUs.

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
        """The row as it reads in either order."""
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
    """Every pair that a speed model measures among these configurations.

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
    """The rows as JSON."""
    return [
        {
            "models": list(row.models),
            "plans": [plan.label for plan in row.plans],
            "node_type": row.node_type,
            "shape": row.shape.label,
            "iteration_s": list(row.iteration_s),
        }
        for row in rows
    ]


def pairs_from_json(document: Fields, kinds: dict[str, NodeType]) -> tuple[PairRow, ...]:
    """The rows of a document's field ``pairs``; none if it has no such field."""
    if not document.has("pairs"):
        return ()
    return tuple(_row(row, kinds) for row in document.objects("pairs", PAIR_FIELDS))


def _row(row: Fields, kinds: dict[str, NodeType]) -> PairRow:
    name = row.text("node_type")
    if name not in kinds:
        raise row.error("node_type", f"the cluster has no node of type {name!r}")
    shape = row.built(lambda: Shape.parse(row.text("shape")), "shape")
    models, plans = _two_texts(row, "models"), _two_texts(row, "plans")
    first, second = (row.built(partial(ExecutionPlan.parse, text), "plans") for text in plans)
    seconds = row.numbers("iteration_s", row.raw("iteration_s"), count=2)
    for value in seconds:
        row.built(partial(require_iteration_s, value))
    return PairRow(models, (first, second), name, shape, (seconds[0], seconds[1]))


def _two_texts(row: Fields, name: str) -> tuple[str, str]:
    found = row.rows(name)
    if len(found) != 2 or not all(isinstance(text, str) and text for text in found):
        raise row.error(name, "must be a list of two texts")
    return str(found[0]), str(found[1])


def require_partners(
    jobs: Sequence[JobState], rows: Sequence[Fields], speeds: SpeedModel, cluster: Cluster
) -> None:
    """Refuse a partner that does not name the job in turn, hold its GPUs and go with it.

    Parameters
    ----------
    jobs, rows
        Jobs and the objects that they were read from, in the same order.

    Raises
    ------
    InputError
        Naming the field and the rule.
    """
    by_name = {known.job.name: known for known in jobs}
    measured = pair_speeds(speeds)
    for known, row in zip(jobs, rows, strict=True):
        held = known.running
        if held is None or held.partner is None:
            continue
        other = by_name.get(held.partner)
        beside = None if other is None else other.running
        if other is None or beside is None or beside.partner != known.job.name or other is known:
            raise row.error("running.partner", f"{held.partner!r} does not name it in turn")
        if beside.placement != held.placement:
            raise row.error("running.nodes", f"must be those of its partner {held.partner!r}")
        if known.job.guaranteed:
            raise row.error("guaranteed", "a job with a promise has no partner")
        kind = cluster.nodes[held.placement.nodes[0]].type
        models, plans = (known.job.model, other.job.model), (held.plan, beside.plan)
        shape = held.placement.shape
        if measured is None or not measured.paired_iteration_s(models, plans, kind, shape):
            raise row.error(
                "running.partner", f"the speeds have no pair of it and {held.partner!r}"
            )
