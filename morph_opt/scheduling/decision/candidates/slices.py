"""Configurations of a model as arrays, built once; rounds gather rows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_rows
from formulations.resources import SIDES, UPLINK
from formulations.round.candidates import PER_NODE, per_gpu
from formulations.round.tables import CandidateTable, HoldTable, NodeTable
from morph_opt.core.domain import Job, SideDemand
from morph_opt.core.domain.placement import Sides
from morph_opt.scheduling.decision.candidates.dominance import Scoped


@dataclass(frozen=True, slots=True)
class ModelSlice:
    """Undominated configurations of one model with one side demand, over all node classes."""

    model: str
    rows: tuple[Scoped, ...]
    node_class: Ints
    scope: Ints
    strict: Bools
    iteration_s: Floats
    gpus: Ints
    part_count: Ints
    part_gpus: Ints
    side: Floats
    part_class: Ints
    loose: Bools
    first: int
    """First row of the slice in the joint table of all slices of its builder."""

    @classmethod
    def of(
        cls, model: str, rows: Sequence[tuple[int, Scoped]], asked: SideDemand, first: int
    ) -> ModelSlice:
        """Return the slice of a model's configurations, each given with its node class."""
        found = [scoped.row for _, scoped in rows]
        node_class = np.asarray([index for index, _ in rows], dtype=np.int64)
        part_count = np.asarray([row.shape.nodes for row in found], dtype=np.int64)
        return cls(
            model=model,
            rows=tuple(scoped for _, scoped in rows),
            node_class=node_class,
            scope=np.asarray([int(scoped.scope) for _, scoped in rows], dtype=np.int64),
            strict=np.asarray([scoped.strict for _, scoped in rows], dtype=bool),
            iteration_s=np.asarray([row.iteration_s for row in found], dtype=np.float64),
            gpus=np.asarray([row.shape.gpus for row in found], dtype=np.int64),
            part_count=part_count,
            part_gpus=np.asarray(
                [part for row in found for part in row.shape.parts], dtype=np.int64
            ),
            side=side_table([row.side.beside(asked) for row in found]),
            part_class=np.repeat(node_class, part_count),
            loose=np.zeros(part_count.size, dtype=bool),
            first=first,
        )

    def only(self, at: Ints, first: int = 0) -> ModelSlice:
        """Return the slice with only these rows, given in ascending order."""
        part = np.isin(np.repeat(np.arange(self.gpus.size), self.part_count), at)
        return ModelSlice(
            self.model,
            tuple(self.rows[row] for row in at.tolist()),
            self.node_class[at],
            self.scope[at],
            self.strict[at],
            self.iteration_s[at],
            self.gpus[at],
            self.part_count[at],
            self.part_gpus[part],
            self.side[at],
            self.part_class[part],
            self.loose[at],
            first,
        )


def compacted(whole: ModelSlice, matters: Bools, first: int) -> ModelSlice:
    """Return the slice with only the rows that prices may choose, and at least one per scope.

    Of the rows with as many GPUs of a class and the same scope it keeps the fastest, and those that
    hold less of something that matters. Whatever is left out is worth no more than a row
    that stays, and pays no less at any prices of GPUs, of what matters and of rules that count
    GPUs: a bound by such prices holds for all rows. Plans and shapes of parts are what is lost.

    Parameters
    ----------
    whole
        All rows.
    matters
        Whether a side resource of a class may be priced, shape (T, R - 1).
    first
        First row of the new slice in the joint table of all slices.
    """
    order = np.lexsort([whole.part_count, whole.strict, whole.iteration_s])
    held = np.where(PER_NODE, whole.side * whole.part_count[:, None], whole.side)
    kept: dict[tuple[int, int, int], list[Floats]] = {}
    rows: list[int] = []
    for row in order.tolist():
        node_class = int(whole.node_class[row])
        side = held[row, : matters.shape[1]][matters[node_class]]
        same = kept.setdefault((node_class, int(whole.gpus[row]), int(whole.scope[row])), [])
        if not any((other <= side).all() for other in same):
            same.append(side)
            rows.append(row)
    # Gangs over several classes are distinguished by more than one number of GPUs.
    rows = list(range(whole.gpus.size)) if whole.loose.any() else rows
    return whole.only(np.asarray(sorted(rows), dtype=np.int64), first)


def may_be_priced(slices: Iterable[ModelSlice], holds: HoldTable, nodes: NodeTable) -> Bools:
    """Return whether compact rounds may price a side resource of a class, shape (T, R - 1).

    Those that some job's GPUs may use up before the GPUs are. Network shares differ with every
    shape, and what they use up is the adapters of single nodes, which no price of a class knows:
    they count where an uplink is limited, and there alone.
    """
    worst = np.zeros((nodes.classes, nodes.capacity.shape[1] - 1))
    for known in slices:
        side = per_gpu(known.side[:, : worst.shape[1]], known.part_gpus, known.part_count)
        np.maximum.at(worst, known.node_class, side)
    held = holds.demand[:, 1:] / holds.demand[:, :1]
    at_rows(np.maximum, worst, nodes.node_class[holds.node], held)
    short: Bools = worst * nodes.capacity[:, :1] > nodes.capacity[:, 1:] * (1 + 1e-12)
    short[:, UPLINK] = bool(np.isfinite(nodes.uplink_gb_per_s).any())
    return short


def of_request(rows: list[tuple[int, Scoped]], job: Job) -> list[tuple[int, Scoped]]:
    """Return the configurations nearest to a job's request, the fastest first."""
    same_count = [one for one in rows if one[1].row.shape.gpus == job.requested_gpus]
    same_plan = [one for one in same_count if one[1].row.plan == job.requested_plan]
    return sorted(same_plan or same_count or rows, key=lambda one: one[1].row.iteration_s)


def side_table(sides: Sequence[Sides]) -> Floats:
    """Return side demands as rows of a table."""
    return np.asarray(sides, dtype=np.float64).reshape(-1, len(SIDES))


def stacked(slices: tuple[ModelSlice, ...], resources: int) -> CandidateTable:
    """Return the rows of all slices as a table of job 0, with the first ``resources`` resources."""
    if not slices:
        none = np.zeros(0, dtype=np.int64)
        return CandidateTable(
            none,
            none,
            np.zeros(0),
            none,
            np.zeros(1, dtype=np.int64),
            none,
            np.zeros((0, resources - 1)),
        )
    part_count = np.concatenate([s.part_count for s in slices])
    return CandidateTable(
        job=np.zeros(part_count.size, dtype=np.int64),
        node_class=np.concatenate([s.node_class for s in slices]),
        iteration_s=np.concatenate([s.iteration_s for s in slices]),
        gpus=np.concatenate([s.gpus for s in slices]),
        part_start=np.concatenate([[0], np.cumsum(part_count)]).astype(np.int64),
        part_gpus=np.concatenate([s.part_gpus for s in slices]),
        side=np.concatenate([s.side for s in slices])[:, : resources - 1],
        scope=np.concatenate([s.scope for s in slices]),
        strict=np.concatenate([s.strict for s in slices]),
        part_class=np.concatenate([s.part_class for s in slices]),
        loose=np.concatenate([s.loose for s in slices]),
    )
