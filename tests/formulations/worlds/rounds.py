"""Tiny rounds by hand; random ones are in `tests.formulations.worlds.random_rounds`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.arrays import Ints
from formulations.resources import LEAST
from formulations.resources import SIDES as RESOURCES
from formulations.round.rule_table import RuleTable
from formulations.round.tables import (
    CandidateTable,
    HoldTable,
    JobTable,
    Level,
    NodeTable,
    RoundProblem,
    Scope,
    Selection,
)

SIDES = LEAST - 1
"""Side resources of rounds that do not say otherwise: those that every round has."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration by hand: whose, its parts, and what a test wants to vary."""

    job: int
    parts: tuple[int, ...]
    node_class: int = 0
    iteration_s: float = 1.0
    side: tuple[float, ...] = (0.0,) * SIDES
    scope: Scope | None = None
    node_set: int = 0
    strict: bool = False
    classes: tuple[int, ...] = ()
    loose: bool = False

    @property
    def of_parts(self) -> tuple[int, ...]:
        """Class of each part; all of one unless a test says otherwise."""
        return self.classes or (self.node_class,) * len(self.parts)

    @property
    def within(self) -> Scope:
        """Its scope; anywhere, unless it has one part or a test says otherwise."""
        if self.scope is not None:
            return self.scope
        return Scope.POD if len(self.parts) > 1 else Scope.NODE


@dataclass(frozen=True, slots=True)
class Hold:
    """What a running job holds on one node."""

    job: int
    node: int
    gpus: int
    side: tuple[float, ...] = (0.0,) * SIDES
    uplink: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of an operator's rule; entries are (kind, index, value)."""

    name: str
    lower: float
    upper: float
    entries: tuple[tuple[int, int, float], ...]


def candidate_table(rows: Sequence[Candidate], sides: int = SIDES) -> CandidateTable:
    """Columns of these rows; jobs must be ascending, as the builder of candidates has them."""
    owners = [row.job for row in rows]
    assert owners == sorted(owners), "candidates stand job by job"
    lengths = [len(row.parts) for row in rows]
    return CandidateTable(
        job=np.asarray(owners, dtype=np.int64),
        node_class=np.asarray([row.of_parts[0] for row in rows], dtype=np.int64),
        iteration_s=np.asarray([row.iteration_s for row in rows], dtype=np.float64),
        gpus=np.asarray([sum(row.parts) for row in rows], dtype=np.int64),
        part_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        part_gpus=np.asarray([part for row in rows for part in row.parts], dtype=np.int64),
        side=np.asarray([_wide(row.side, sides) for row in rows]).reshape(-1, sides),
        scope=np.asarray([int(row.within) for row in rows], dtype=np.int64),
        node_set=np.asarray([row.node_set for row in rows], dtype=np.int64),
        strict=np.asarray([row.strict for row in rows], dtype=bool),
        part_class=np.asarray([t for row in rows for t in row.of_parts], dtype=np.int64),
        loose=np.asarray([row.loose for row in rows], dtype=bool),
    )


def _wide(side: Sequence[float], sides: int) -> list[float]:
    """A side demand of so many resources; nothing of those behind."""
    return [float(need) for need in side] + [0.0] * (sides - len(side))


def hold_table(rows: Sequence[Hold], sides: int = SIDES) -> HoldTable:
    """Columns of these rows; ``side`` is per GPU or per node, as for candidates."""
    per_node = [resource.per_node for resource in RESOURCES[:sides]]
    return HoldTable(
        np.asarray([row.job for row in rows], dtype=np.int64),
        np.asarray([row.node for row in rows], dtype=np.int64),
        np.asarray(
            [
                (
                    row.gpus,
                    *(
                        need if once else row.gpus * need
                        for need, once in zip(_wide(row.side, sides), per_node, strict=True)
                    ),
                )
                for row in rows
            ],
            dtype=np.float64,
        ).reshape(-1, 1 + sides),
        np.asarray([row.uplink for row in rows], dtype=np.float64),
    )


def rule_table(rows: Sequence[Rule], aux_upper: Sequence[float] = ()) -> RuleTable:
    """Columns of these rules."""
    entries = [(i, *entry) for i, row in enumerate(rows) for entry in row.entries]
    row, kind, index = (np.asarray([e[i] for e in entries], dtype=np.int64) for i in range(3))
    return RuleTable(
        name=tuple(row.name for row in rows),
        label=tuple((i,) for i in range(len(rows))),
        lower=np.asarray([row.lower for row in rows], dtype=np.float64),
        upper=np.asarray([row.upper for row in rows], dtype=np.float64),
        row=row,
        kind=kind,
        index=index,
        value=np.asarray([e[3] for e in entries], dtype=np.float64),
        aux_upper=np.asarray(aux_upper, dtype=np.float64),
    )


def job_table(count: int, running: Iterable[int] = (), guaranteed: Iterable[int] = ()) -> JobTable:
    """Jobs that ask for one second per iteration and run at that speed if they run."""
    stay = np.full(count, np.nan)
    stay[list(running)] = 1.0
    promised = np.zeros(count, dtype=bool)
    promised[list(guaranteed)] = True
    return JobTable(
        iterations_left=np.full(count, 100.0),
        request_iteration_s=np.ones(count),
        guaranteed=promised,
        restart_s=np.full(count, 30.0),
        restart_left_s=np.zeros(count),
        stay_iteration_s=stay,
        attained_gpu_s=np.zeros(count),
        submission_s=np.arange(count, dtype=np.float64),
        weight=np.ones(count),
    )


def tiny(
    gpus: Sequence[int],
    candidates: Sequence[Candidate],
    *,
    holds: Sequence[Hold] = (),
    guaranteed: Iterable[int] = (),
    closed: Iterable[int] = (),
    side: Sequence[float] = (1000.0,) * SIDES,
    jobs: int | None = None,
    leaf: Sequence[int] = (),
    domain: Sequence[int] = (),
    uplink: Sequence[float] = (),
    sets: Sequence[Sequence[int]] = (),
    rules: RuleTable | None = None,
) -> RoundProblem:
    """A round by hand: one node per entry of ``gpus``, nodes of equal size are of one class.

    ``leaf``, ``domain`` and ``uplink`` default to one leaf without limit and a domain per node;
    ``sets`` lists the nodes of each node set after the first, which is all nodes.
    """
    kinds = sorted(set(gpus), reverse=True)
    is_open = np.ones(len(gpus), dtype=bool)
    is_open[list(closed)] = False
    owners = [row.job for row in candidates] + [row.job for row in holds]
    return RoundProblem(
        jobs=job_table(
            max(owners, default=-1) + 1 if jobs is None else jobs,
            sorted({row.job for row in holds}),
            guaranteed,
        ),
        candidates=candidate_table(candidates, len(side)),
        nodes=NodeTable(
            np.asarray([kinds.index(size) for size in gpus], dtype=np.int64),
            np.asarray([[float(size), *side] for size in kinds]),
            is_open,
            _given(leaf, np.int64),
            _given(domain, np.int64),
            _given(uplink, np.float64),
            set_table(len(gpus), sets),
        ),
        holds=hold_table(holds, len(side)),
        rules=RuleTable() if rules is None else rules,
    )


def _given(column: Sequence[float], dtype: type) -> Any:
    """A column, or None for one that is left out."""
    return np.asarray(column, dtype=dtype) if len(column) else None


def set_table(nodes: int, members: Sequence[Sequence[int]]) -> np.ndarray:
    """Node sets as rows of membership; the first is all nodes."""
    table = np.zeros((len(members) + 1, nodes), dtype=bool)
    table[0] = True
    for row, chosen in enumerate(members, start=1):
        table[row, list(chosen)] = True
    return table


STAY = -2
"""In choices by hand: the job goes on as it is."""


def picks(problem: RoundProblem, choice: Sequence[int]) -> Ints:
    """The options of a choice by hand, shape (J,)."""
    by_hand = np.asarray(choice, dtype=np.int64)
    assert (problem.options.stay[by_hand == STAY] >= 0).all(), "only running jobs can stay"
    return np.where(by_hand == STAY, problem.options.stay, by_hand)


def decided(problem: RoundProblem, selection: Selection) -> Selection:
    """A decision with its choice by hand, right or wrong."""
    choice = selection.choice.copy()
    for at in np.flatnonzero(choice == STAY).tolist():
        choice.flat[at] = problem.options.stay[at]
    return Selection(choice, selection.nodes)


def by_hand(problem: RoundProblem, choice: Ints) -> list[int]:
    """A choice as it would be written by hand."""
    stays = (choice >= 0) & (choice == problem.options.stay)
    found: list[int] = np.where(stays, STAY, choice).tolist()
    return found


def level_of(
    problem: RoundProblem, starts: Sequence[float], stays: Sequence[float], name: str = "by hand"
) -> Level:
    """A level from values of the candidates (K,) and of the jobs' stays (J,)."""
    running = problem.jobs.running
    values = np.concatenate([np.asarray(starts, dtype=float), np.asarray(stays, float)[running]])
    return Level(name, "points", values)


def starts_and_stays(problem: RoundProblem, level: Level) -> tuple[list[float], list[float]]:
    """Values of the candidates (K,) and of the jobs' stays (J,), 0 for queued ones."""
    stays = np.zeros(problem.jobs.count)
    stays[problem.jobs.running] = level.value[problem.options.stays]
    return level.value[: problem.options.starts.count].tolist(), stays.tolist()


def plain_level(problem: RoundProblem, name: str = "plain") -> Level:
    """Every GPU in use is worth one, a stay a tenth more than its GPUs."""
    held = np.zeros(problem.jobs.count)
    np.add.at(held, problem.holds.job, problem.holds.demand[:, 0])
    return level_of(problem, problem.options.starts.gpus.tolist(), (1.1 * held).tolist(), name)
