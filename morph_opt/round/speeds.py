"""Speeds as a table in a snapshot; only listed configurations can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, pairwise
from typing import Any

from morph_opt.core.documents import Fields, names_of, plain
from morph_opt.core.domain import (
    Cluster,
    ExecutionPlan,
    InputError,
    NodeType,
    Shape,
    SideDemand,
    Span,
)
from morph_opt.core.domain._validate import require_iteration_s, require_name
from morph_opt.inputs.perf.speed import Configuration, Listed, Plans, SpeedModel, pair_speeds
from morph_opt.inputs.topology.graph import topology_of

ROW_FIELDS = ("model", "node_type", "shape", "plan", "iteration_s", "span", *names_of(SideDemand))
SPANS = {span.name.lower(): span for span in (Span.NVLINK, Span.LEAF, Span.POD)}


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One configuration of a model on a type of nodes.

    Parameters
    ----------
    model, node_type
        Names.
    configuration
        Shape, plan, seconds per iteration, side demand.
    span
        Span of the placements that it is for; None for any.
    """

    model: str
    node_type: str
    configuration: Configuration
    span: Span | None = None

    @property
    def what(self) -> tuple[Shape, ExecutionPlan]:
        """Shape and plan."""
        return self.configuration.shape, self.configuration.plan


PairKey = tuple[tuple[str, str], Plans, str, Shape]


@dataclass(frozen=True, slots=True)
class PairRow:
    """Speeds of two models on the same GPUs.

    Parameters
    ----------
    models, plans
        Models, and plans, of the first and the second job.
    node_type, shape
        Name of the type of nodes; GPUs per node, of both.
    iteration_s
        Seconds per iteration of each while both run.
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


class SpeedTable(Listed):
    """Speed model of listed rows.

    Parameters
    ----------
    rows
        Rows, in the order of `configurations`.
    pairs
        Rows of two jobs on the same GPUs.

    Raises
    ------
    InputError
        If a row is listed twice, or a configuration is faster in a wider span.
    """

    def __init__(self, rows: Iterable[SpeedRow], pairs: Iterable[PairRow] = ()) -> None:
        super().__init__()
        self.rows = tuple(rows)
        self.pairs = tuple(pairs)
        self._paired = {key: pace_s for pair in self.pairs for key, pace_s in pair.keys}
        self._by_kind: dict[tuple[str, str], list[SpeedRow]] = {}
        self._times: dict[tuple[str, str, Shape, ExecutionPlan, Span | None], float] = {}
        for row in self.rows:
            found = row.configuration
            key = (row.model, row.node_type, found.shape, found.plan, row.span)
            if key in self._times:
                what = f"{row.model} on {row.node_type} with {found.plan} on {found.shape}"
                raise InputError(f"{what} is listed twice")
            self._times[key] = found.iteration_s
            self._by_kind.setdefault((row.model, row.node_type), []).append(row)
        self._require_slower_with_distance()
        self._models = tuple(sorted({row.model for row in self.rows}))

    def _require_slower_with_distance(self) -> None:
        """Refuse speeds that increase with distance, because rounds rely on it."""
        for model, kind, shape, plan in dict.fromkeys(key[:4] for key in self._times):
            what = (model, kind, shape, plan)
            of_any = self._times.get((*what, None))
            times = [(span, self._times.get((*what, span), of_any)) for span in SPANS.values()]
            known = [(span, seconds) for span, seconds in times if seconds is not None]
            for (near, slow), (far, fast) in pairwise(known):
                if fast < slow:
                    raise InputError(
                        f"{model} on {kind} with {plan} on {shape} takes {fast:g} s for span "
                        f"{far.name.lower()} and {slow:g} s for {near.name.lower()}; a wider span "
                        "must not be faster"
                    )

    @property
    def name(self) -> str:
        """Name of the model, ``"snapshot"``."""
        return "snapshot"

    def models(self) -> Sequence[str]:
        """Return names of the listed models, sorted."""
        return self._models

    @property
    def measures_pairs(self) -> bool:
        """Whether any pair is listed."""
        return bool(self.pairs)

    def paired_iteration_s(
        self, models: tuple[str, str], plans: Plans, node_type: NodeType, shape: Shape
    ) -> tuple[float, float] | None:
        """Return listed seconds per iteration of two jobs on the same GPUs."""
        return self._paired.get((models, plans, node_type.name, shape))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return listed seconds per iteration; a row for the span precedes one for any."""
        key = (model, node_type.name, shape, plan)
        own = self._times.get((*key, span)) if shape.nodes > 1 else None
        return self._times.get((*key, None)) if own is None else own

    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        """Return the rows of a model; one for the span precedes one for any."""
        mine = self._by_kind.get((model, node_type.name), [])
        special = {row.what for row in mine if row.span is span}
        for row in mine:
            fits = row.span is span or (row.span is None and row.what not in special)
            if fits and row.configuration.shape.gpus <= max_gpus:
                yield row.configuration


def table_of(
    speeds: SpeedModel, cluster: Cluster, models: Iterable[str], *, pairs: bool = False
) -> SpeedTable:
    """Return the table of a speed model for these models on a cluster.

    Parameters
    ----------
    pairs
        Whether pairs of jobs on the same GPUs are included.
    """
    spans = topology_of(cluster).spans(range(len(cluster.nodes)))
    rows: list[SpeedRow] = []
    for model in models:
        for node_type in cluster.node_types:
            rows += _rows_of(speeds, model, node_type, cluster.gpus, spans)
    if not pairs:
        return SpeedTable(rows)
    alone = ((row.model, row.node_type, *row.what) for row in rows)
    return SpeedTable(rows, pairs_of(speeds, cluster, alone))


def _rows_of(
    speeds: SpeedModel, model: str, node_type: NodeType, gpus: int, spans: Sequence[Span]
) -> list[SpeedRow]:
    by_span = {
        span: {
            (row.shape, row.plan): row
            for row in speeds.configurations(model, node_type, gpus, span)
        }
        for span in spans
    }
    found: list[SpeedRow] = []
    for what in dict.fromkeys(key for rows in by_span.values() for key in rows):
        own = [(span, by_span[span][what]) for span in spans if what in by_span[span]]
        same = len(own) == len(spans) and all(row == own[0][1] for _, row in own)
        if what[0].nodes == 1 or same:
            found.append(SpeedRow(model, node_type.name, own[0][1]))
        else:
            found += [SpeedRow(model, node_type.name, row, span) for span, row in own]
    return found


def pairs_of(
    speeds: SpeedModel, cluster: Cluster, alone: Iterable[tuple[str, str, Shape, ExecutionPlan]]
) -> Iterator[PairRow]:
    """Return every pair that a speed model measures among these configurations.

    Parameters
    ----------
    alone
        Model, name of the node type, shape and plan of each configuration of a single job.
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


def table_to_json(table: SpeedTable) -> dict[str, Any]:
    """Return the table as the fields ``rows`` and, if it has any, ``pairs``."""
    pairs = {"pairs": [plain(row) for row in table.pairs]} if table.pairs else {}
    return {"rows": rows_to_json(table)} | pairs


def rows_to_json(table: SpeedTable) -> list[dict[str, Any]]:
    """Return the rows as JSON, without zeros and without a span that means any."""
    found = []
    for row in table.rows:
        what = row.configuration
        value = {"model": row.model, "node_type": row.node_type, **plain(what, "side")}
        if row.span is not None:
            value["span"] = row.span.name.lower()
        value |= {name: amount for name, amount in plain(what.side).items() if amount}
        found.append(value)
    return found


def rows_from_json(document: Fields, cluster: Cluster) -> SpeedTable:
    """Read the table of the fields ``rows`` and ``pairs``, for the cluster's node types."""
    kinds = {kind.name: kind for kind in cluster.node_types}
    rows = [_row(row, kinds) for row in document.objects("rows", ROW_FIELDS)]
    pairs = pairs_from_json(document, kinds)
    return document.built(lambda: SpeedTable(rows, pairs), "rows")


def _row(row: Fields, kinds: dict[str, NodeType]) -> SpeedRow:
    name = row.text("node_type")
    if name not in kinds:
        raise row.error("node_type", f"the cluster has no node of type {name!r}")
    found = row.make(Configuration, side=row.make(SideDemand))
    row.built(lambda: require_iteration_s(found.iteration_s))
    shape, plan = found.shape, found.plan
    if shape.parts[0] > kinds[name].gpus:
        raise row.error("shape", f"a node of type {name} has {kinds[name].gpus} GPUs, got {shape}")
    if plan.gpus not in (None, shape.gpus):
        raise row.error("shape", f"plan {plan} needs {plan.gpus} GPUs, the shape has {shape.gpus}")
    span = None
    if row.has("span"):
        word = row.text("span")
        if word not in SPANS or shape.nodes == 1:
            rule = f"must be one of {', '.join(SPANS)}, for shapes on several nodes; got {word!r}"
            raise row.error("span", rule)
        span = SPANS[word]
    return SpeedRow(row.text("model"), name, found, span)


def pairs_from_json(document: Fields, kinds: dict[str, NodeType]) -> tuple[PairRow, ...]:
    """Read the rows of a document's field ``pairs``; none without the field."""
    if not document.has("pairs"):
        return ()
    rows = document.objects("pairs", names_of(PairRow))
    return tuple(_pair_from_json(row, kinds) for row in rows)


def _pair_from_json(row: Fields, kinds: dict[str, NodeType]) -> PairRow:
    found = row.make(PairRow)
    if found.node_type not in kinds:
        raise row.error("node_type", f"the cluster has no node of type {found.node_type!r}")
    for name in found.models:
        row.built(partial(require_name, "models", name))
    for value in found.iteration_s:
        row.built(partial(require_iteration_s, value))
    return found
