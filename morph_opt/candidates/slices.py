"""Configurations of a model as arrays, made once per builder; rounds gather rows of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.round.tables import CandidateTable
from morph_opt.candidates.dominance import Scoped
from morph_opt.domain import Job


@dataclass(frozen=True, slots=True)
class ModelSlice:
    """All undominated configurations of one model with one CPU demand, over all node classes."""

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
    first: int
    """Its first row among those of all slices of its builder."""


def of_request(rows: list[tuple[int, Scoped]], job: Job) -> list[tuple[int, Scoped]]:
    """Configurations that are a job's request, or stand in for it, the fastest first."""
    same_count = [one for one in rows if one[1].row.shape.gpus == job.requested_gpus]
    same_plan = [one for one in same_count if one[1].row.plan == job.requested_plan]
    return sorted(same_plan or same_count or rows, key=lambda one: one[1].row.iteration_s)


def stacked(slices: tuple[ModelSlice, ...]) -> CandidateTable:
    """All rows of all slices; the job of each is left at 0."""
    if not slices:
        none = np.zeros(0, dtype=np.int64)
        return CandidateTable(
            none, none, np.zeros(0), none, np.zeros(1, dtype=np.int64), none, np.zeros((0, 3))
        )
    part_count = np.concatenate([s.part_count for s in slices])
    return CandidateTable(
        job=np.zeros(part_count.size, dtype=np.int64),
        node_class=np.concatenate([s.node_class for s in slices]),
        iteration_s=np.concatenate([s.iteration_s for s in slices]),
        gpus=np.concatenate([s.gpus for s in slices]),
        part_start=np.concatenate([[0], np.cumsum(part_count)]).astype(np.int64),
        part_gpus=np.concatenate([s.part_gpus for s in slices]),
        side=np.concatenate([s.side for s in slices]),
        scope=np.concatenate([s.scope for s in slices]),
        strict=np.concatenate([s.strict for s in slices]),
    )
