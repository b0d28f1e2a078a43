"""Candidates: configurations in which jobs may start alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import LEFT_OUT, fill, of_rows, require_shapes
from formulations.resources import SIDES, UPLINK

PER_NODE: Bools = np.asarray([resource.per_node for resource in SIDES], dtype=bool)
"""Whether a part holds a side resource per node instead of per GPU, shape (R - 1,)."""

_FIRST_PER_NODE = [*PER_NODE.tolist(), True].index(True)


class Scope(IntEnum):
    """Region that must contain all parts of a candidate; its speed was predicted for it."""

    NODE = 0
    """Scope of a single part on one node."""
    NVLINK = 1
    """Scope of parts inside one NVLink domain of several nodes."""
    LEAF = 2
    """Scope of parts under one leaf switch."""
    POD = 3
    """Scope of parts anywhere, with network share reserved on every used leaf's uplink."""


def amounts(side: Floats, gpus: Floats) -> Floats:
    """Return the side resources held by parts with ``gpus`` GPUs, in the shape of ``side``.

    Parameters
    ----------
    side
        Amounts per GPU, or per node for `PER_NODE` resources, shape (..., R - 1).
    gpus
        GPUs of each part, shape (...).
    """
    return side * _units(gpus, side.shape[-1])


def per_unit(held: Floats, gpus: Floats) -> Floats:
    """Return the ``side`` of parts with ``gpus`` GPUs that hold these amounts."""
    return held / _units(gpus, held.shape[-1])


def per_gpu(side: Floats, part_gpus: Ints, part_count: Ints) -> Floats:
    """Return the largest hold per GPU of any part of each row, in the shape of ``side``.

    Parameters
    ----------
    side
        Amounts as in `amounts`, shape (K, R - 1).
    part_gpus, part_count
        GPUs of each part, largest first, row by row, and the number of parts per row, shape (K,).
    """
    if side.shape[1] <= _FIRST_PER_NODE:
        return side
    # A row without parts, of an option in place, counts as one with parts of one GPU.
    least, several = np.ones(part_count.size), part_count > 0
    least[several] = part_gpus[np.cumsum(part_count)[several] - 1]
    return np.where(PER_NODE[: side.shape[1]], side / least[:, None], side)


def _units(gpus: Floats, sides: int) -> Floats:
    """Return the units of each side resource that a part holds: its GPUs, or one node."""
    each = gpus[..., None]
    return each if sides <= _FIRST_PER_NODE else np.where(PER_NODE[:sides], 1.0, each)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateTable:
    """Configurations in which jobs may (re)start; columns of shape (K,) unless stated.

    Parameters
    ----------
    job, node_class
        Job, and class of nodes.
    iteration_s
        Seconds per iteration.
    gpus
        Total GPUs.
    part_start, part_gpus
        Shape as compressed rows: candidate k has parts ``part_gpus[part_start[k]:part_start[k+1]]``
        (shapes (K + 1,) and (P,)), largest first, each on a node of its own.
    side
        Other resources held per GPU, or per node if `Resource.per_node`, shape (K, R - 1).
    scope
        `Scope` of each candidate; by default `Scope.POD` for several parts.
    node_set
        Row of ``NodeTable.sets`` with the nodes it may use; by default row 0, all nodes.
    strict
        Whether the parts must not all lie within a tighter scope: under one leaf for `Scope.POD`,
        in one NVLink domain for `Scope.LEAF`, where speed and demand would differ. By default no.
    part_class
        Class of the nodes of each part, shape (P,); by default the candidate's. The class of a
        candidate over several classes is its first part's.
    loose
        Whether parts, of one GPU each, may share nodes. By default no.

    Attributes
    ----------
    part_candidate
        Candidate of each part, shape (P,).
    mixed
        Whether the parts are of several classes, shape (K,).
    templates
        Table of configurations and the row of each candidate in it, shape (K,). A table that was
        built from its columns is its own template; one that was taken from another has fewer, some
        of which may be equal, and builds a column from them on first access: a large round has a
        million candidates and a few hundred configurations.
    """

    job: Ints
    node_class: Ints
    iteration_s: Floats
    gpus: Ints
    part_start: Ints
    part_gpus: Ints
    side: Floats
    scope: Ints = LEFT_OUT
    node_set: Ints = LEFT_OUT
    strict: Bools = LEFT_OUT
    part_class: Ints = LEFT_OUT
    loose: Bools = LEFT_OUT
    part_candidate: Ints = field(init=False, repr=False)
    mixed: Bools = field(init=False, repr=False)
    _templates: tuple[CandidateTable, Ints] | None = field(init=False, repr=False, default=None)
    _taken: tuple[Ints, CandidateTable] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        rows = (self.count,)
        require_shapes(self, part_start=(self.count + 1,), node_class=rows)
        require_shapes(self, side=(self.count, self.side.shape[-1]))
        lengths = np.diff(self.part_start)
        same = np.repeat(self.node_class, lengths)
        fill(
            self,
            scope=np.where(lengths > 1, int(Scope.POD), int(Scope.NODE)).astype(np.int64),
            node_set=np.zeros(rows, dtype=np.int64),
            strict=np.zeros(rows, dtype=bool),
            part_class=same,
            loose=np.zeros(rows, dtype=bool),
        )
        one = ("job", "node_class", "iteration_s", "gpus", "scope", "node_set", "strict", "loose")
        parts = (int(self.part_start[-1]),)
        require_shapes(self, **dict.fromkeys(one, rows), part_gpus=parts, part_class=parts)
        # Computed once: rounds have a million parts.
        owner = np.repeat(np.arange(self.count, dtype=np.int64), lengths)
        mixed = np.zeros(rows, dtype=bool)
        if self.part_class is not same:
            mixed[owner[self.part_class != same]] = True
        object.__setattr__(self, "part_candidate", owner)
        object.__setattr__(self, "mixed", mixed)

    @property
    def count(self) -> int:
        """Number of candidates K."""
        return int(self.job.size)

    @property
    def templates(self) -> tuple[CandidateTable, Ints]:
        """Distinct rows, ignoring the job, and the row of each candidate."""
        return self._templates or (self, np.arange(self.count, dtype=np.int64))

    def __getattr__(self, name: str) -> Any:
        """Build a missing column of a table that was taken from another one."""
        if name in _OF_ROW and self._templates is not None:
            rows, which = self._templates
            columns = {name: getattr(rows, name)[which]}
        elif name in _OF_PARTS and self._templates is not None:
            rows, which = self._templates
            part, start = rows.parts_of(which)
            columns = {
                "part_start": start,
                "part_gpus": rows.part_gpus[part],
                "part_class": rows.part_class[part],
                "part_candidate": np.repeat(np.arange(which.size), np.diff(start)),
            }
        else:
            raise AttributeError(f"{type(self).__name__} has no column {name!r}")
        for column, values in columns.items():
            object.__setattr__(self, column, values)
        return columns[name]

    def parts_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the part indices of these rows, row by row, and each row's start."""
        return of_rows(self.part_start, rows)

    def _row(self, candidate: int) -> tuple[CandidateTable, int]:
        """Return a candidate as a row of the templates."""
        if self._templates is None:
            return self, candidate
        return self._templates[0], int(self._templates[1][candidate])

    def _span(self, candidate: int) -> tuple[CandidateTable, slice]:
        rows, at = self._row(candidate)
        return rows, slice(int(rows.part_start[at]), int(rows.part_start[at + 1]))

    def parts(self, candidate: int) -> tuple[int, ...]:
        """Return the GPUs of each part, largest first."""
        rows, span = self._span(candidate)
        return tuple(rows.part_gpus[span].tolist())

    def gpus_on(self, node_class: int) -> Ints:
        """Return the GPUs of each candidate on nodes of a class, shape (K,)."""
        return self._on(node_class, self.gpus, self.part_gpus)

    def side_on(self, node_class: int, resource: int) -> Floats:
        """Return each candidate's hold of a side resource on nodes of a class, shape (K,)."""
        if PER_NODE[resource]:
            one = np.ones(self.part_gpus.size, dtype=np.int64)
            held = self._on(node_class, np.diff(self.part_start), one)
        else:
            held = self.gpus_on(node_class)
        return held * self.side[:, resource]

    def _on(self, node_class: int, whole: Ints, each: Ints) -> Ints:
        """Return each candidate's sum of an amount over its parts on a class.

        ``whole`` is the amount of a candidate, ``each`` the amount of every part.
        """
        found = np.where(self.node_class == node_class, whole, 0)
        mixed = self.mixed
        if mixed.any():
            owner = self.part_candidate
            there = mixed[owner] & (self.part_class == node_class)
            found[mixed] = 0
            np.add.at(found, owner[there], each[there])
        return found

    def classes_of(self, candidate: int) -> Ints:
        """Return the class of each part."""
        rows, span = self._span(candidate)
        return rows.part_class[span]

    def demand(self, candidate: int, gpus: int) -> Floats:
        """Return the resources of a part with that many GPUs, shape (R,)."""
        held, (rows, at) = np.asarray(float(gpus)), self._row(candidate)
        return np.concatenate([[held], amounts(rows.side[at], held)])

    def part_side(self, resource: int) -> Floats:
        """Return each part's hold of one side resource, shape (P,)."""
        each = self.side[self.part_candidate, resource]
        held: Floats = each if PER_NODE[resource] else each * self.part_gpus
        return held

    def demands(self, parts: Ints | slice) -> Floats:
        """Return the resources of each of some parts, shape (parts, R)."""
        gpus = self.part_gpus[parts].astype(np.float64)
        side = self.side[self.part_candidate[parts]]
        return np.column_stack([gpus, amounts(side, gpus)])

    def sends(self, candidate: int, gpus: int) -> float:
        """Return the traffic of a part with that many GPUs on the uplink of its leaf."""
        rows, at = self._row(candidate)
        crosses = rows.scope[at] == Scope.POD
        return gpus * float(rows.side[at, UPLINK]) if crosses else 0.0

    @property
    def sent_per_gpu(self) -> Floats:
        """Traffic of each GPU on the uplink of its leaf, shape (K,)."""
        return np.where(self.scope == Scope.POD, self.side[:, UPLINK], 0.0)

    @property
    def side_per_gpu(self) -> Floats:
        """Largest hold of side resources per GPU of a part, shape (K, R - 1)."""
        return per_gpu(self.side, self.part_gpus, np.diff(self.part_start))

    def take(self, keep: Ints, job: Ints | None = None) -> CandidateTable:
        """Return the rows with these indices, in this order, reindexed to ``job`` if given."""
        source, which = self, keep
        if self._templates is not None:
            source, which = self._templates[0], self._templates[1][keep]
        used = np.flatnonzero(np.bincount(which, minlength=1)) if which.size else which
        place = np.zeros(source.count, dtype=np.int64)
        place[used] = np.arange(used.size)
        # From round to round jobs mostly have the same configurations.
        if source._taken is None or not np.array_equal(used, source._taken[0]):
            object.__setattr__(source, "_taken", (used, source._rows(used)))
        assert source._taken is not None
        rows = source._taken[1]
        found: CandidateTable = object.__new__(CandidateTable)
        object.__setattr__(found, "job", self.job[keep] if job is None else job)
        object.__setattr__(found, "_templates", (rows, place[which]))
        object.__setattr__(found, "_taken", None)
        return found

    def _rows(self, used: Ints) -> CandidateTable:
        """Return some of the rows as a table of their own."""
        part, start = self.parts_of(used)
        return CandidateTable(
            self.job[used],
            self.node_class[used],
            self.iteration_s[used],
            self.gpus[used],
            start,
            self.part_gpus[part],
            self.side[used],
            self.scope[used],
            self.node_set[used],
            self.strict[used],
            self.part_class[part],
            self.loose[used],
        )


_OF_PARTS = ("part_start", "part_gpus", "part_class", "part_candidate")
_OF_ROW = (
    "node_class", "iteration_s", "gpus", "side", "scope", "node_set", "strict", "loose", "mixed",
)  # fmt: skip
