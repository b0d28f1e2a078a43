"""Cached answers of a speed model about assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    NodeType,
    PlanFamily,
    Shape,
    SideDemand,
    Span,
)
from morph_opt.inputs.perf.ests import held_step_s
from morph_opt.inputs.perf.speed import Configuration, PairSpeeds, SpeedModel, pair_speeds
from morph_opt.inputs.topology.graph import topology_of


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Speed and side demand of a model on a placement.

    Parameters
    ----------
    iteration_s
        Seconds per iteration; on nodes of several types of the slowest, unless workers take turns
        there.
    sides
        Side demand per GPU by name of the node type.
    """

    iteration_s: float
    sides: Mapping[str, SideDemand]


_Key = tuple[str, ExecutionPlan, Shape, Span, tuple[NodeType, ...]]


class RunLookup:
    """Cache of a speed model's answers for placements on one cluster.

    Parameters
    ----------
    speeds, cluster
        Speed model, and the cluster of the placements.
    pairs
        Speeds of two jobs on the same GPUs; None for the pairs of ``speeds``, if it has any.
    """

    def __init__(
        self, speeds: SpeedModel, cluster: Cluster, pairs: PairSpeeds | None = None
    ) -> None:
        self._speeds = speeds
        self.cluster = cluster
        self._pairs = pairs or pair_speeds(speeds)
        self._facts: dict[_Key, RunFacts | None] = {}
        self._rows: dict[tuple[str, NodeType, int, Span], dict[object, Configuration]] = {}

    def facts(self, model: str, assignment: Assignment) -> RunFacts | None:
        """Return speed and side demand of an assignment, or None if it cannot run."""
        plan, placement = assignment.plan, assignment.placement
        nodes = placement.nodes
        if plan.family is PlanFamily.EST:
            return self._of_workers(model, assignment)
        types = tuple(dict.fromkeys(self.cluster.nodes[node].type for node in nodes))
        key = (model, plan, placement.shape, topology_of(self.cluster).span(nodes), types)
        if key not in self._facts:
            self._facts[key] = self._ask(*key)
        return self._facts[key]

    def _of_workers(self, model: str, assignment: Assignment) -> RunFacts | None:
        """Return the facts of elastic workers by GPUs of each type, wherever these are."""
        seconds = held_step_s(self._speeds, model, assignment, self.cluster)
        if seconds is None:
            return None
        types = {self.cluster.nodes[node].type.name for node in assignment.placement.nodes}
        return RunFacts(seconds, dict.fromkeys(sorted(types), SideDemand()))

    def paired_iteration_s(
        self, models: tuple[str, str], held: Assignment, partner: Assignment
    ) -> float | None:
        """Return seconds per iteration of the first job next to the second, or None."""
        types = {self.cluster.nodes[node].type for node in held.placement.nodes}
        if self._pairs is None or len(types) != 1 or held.placement != partner.placement:
            return None
        found = self._pairs.paired_iteration_s(
            models, (held.plan, partner.plan), types.pop(), held.placement.shape
        )
        return None if found is None else found[0]

    def _ask(
        self,
        model: str,
        plan: ExecutionPlan,
        shape: Shape,
        span: Span,
        types: Iterable[NodeType],
    ) -> RunFacts | None:
        slowest, sides = 0.0, dict[str, SideDemand]()
        for node_type in types:
            row = self._row(model, node_type, shape, plan, span)
            seconds = self._speeds.iteration_s(model, node_type, shape, plan, span)
            if row is None or seconds is None:
                return None
            slowest = max(slowest, seconds)
            sides[node_type.name] = row.side
        return RunFacts(slowest, sides)

    def _row(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> Configuration | None:
        asked = span if shape.nodes > 1 else Span.LEAF
        key = (model, node_type, shape.gpus, asked)
        if key not in self._rows:
            rows = self._speeds.configurations(model, node_type, shape.gpus, asked)
            self._rows[key] = {
                (row.shape, row.plan): row for row in rows if row.shape.gpus == shape.gpus
            }
        return self._rows[key].get((shape, plan))
