"""A round with pairs by hand, and what its row families let pass and forbid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.layout import RoundModel
from formulations.parameters import PATTERNS
from formulations.round.rules import with_shared
from formulations.round.shared import SharedTable
from formulations.round.tables import Level, RoundProblem
from tests.formulations.worlds.pairs import Pair, Wanted
from tests.formulations.worlds.rounds import Candidate, Hold, plain_level, tiny

FRESH, TOGETHER, COMES, COMES_TO_OTHER = 2, 3, 4, 5
"""Candidates of `packed` that are pairs."""


def packed(closed: Sequence[int] = ()) -> RoundProblem:
    """Jobs 0 and 1 share a GPU of node 0 and its CPU threads; jobs 2 and 3 are queued.

    Pairs: 2 with 3 on a free GPU; 0 with 1 as they are; 2 comes to 0; 3 comes to 1. Two nodes of
    two GPUs and four CPU threads; a job takes one thread, 3 takes two.
    """
    thread = (1.0, 0.0, 0.0)
    plain = tiny(
        [2, 2],
        [Candidate(2, (1,), side=thread), Candidate(3, (1,), side=(2.0, 0.0, 0.0))],
        holds=[Hold(0, 0, 1, thread), Hold(1, 0, 1, thread)],
        closed=closed,
        side=(4.0, 0.0, 0.0),
    )
    return with_shared(
        plain,
        SharedTable(
            option=np.repeat(np.arange(4), 2),
            job=np.asarray([2, 3, 0, 1, 0, 2, 1, 3]),
            candidate=np.asarray([0, 1, -1, -1, -1, 0, -1, 1]),
            iteration_s=np.asarray([1.25, 1.5, 1.5, 1.25, 1.25, 2.0, 2.0, 1.25]),
            gang=np.asarray([0, 0, 2, 3]),
        ),
    )


def _wanted(
    want: Sequence[int],
    stays: Sequence[int] = (),
    build: Callable[[RoundProblem, Level], RoundModel] = node_pattern.build,
) -> Callable[[], Wanted]:
    def make() -> Wanted:
        problem = packed()
        built = build(problem, plain_level(problem))
        return Wanted(built, tuple(want), tuple(stays))

    return make


def joined(plain: RoundProblem, partner: int) -> RoundProblem:
    """A round of which job 0 runs; its last row is the pair that a candidate's job comes to it."""
    jobs = np.asarray([0, int(plain.candidates.job[partner])])
    shared = SharedTable(np.zeros(2, np.int64), jobs, np.asarray([-1, partner]), np.full(2, 1.5))
    return with_shared(plain, shared)


def _joined(
    gpus: Sequence[int],
    rows: Sequence[Candidate],
    want: Sequence[int],
    build: Callable[[RoundProblem, Level], RoundModel] = node_pattern.build,
    **more: Any,
) -> Callable[[], Wanted]:
    """Job 0 runs, the first candidate's job comes to it; both together, and what is wanted."""

    def make() -> Wanted:
        problem = joined(tiny(gpus, rows, **more), 0)
        return Wanted(build(problem, plain_level(problem)), (len(rows), *want))

    return make


_PARTNER = [Candidate(1, (1,)), Candidate(2, (1,)), Candidate(2, (2,))]
_HOST = [Hold(0, 0, 1)]
_ACROSS = [Candidate(job, (1, 1), side=(0.0, 0.0, 2.0)) for job in (1, 2)]
_LEAVES: dict[str, Any] = {
    "leaf": [0, 1],
    "holds": [Hold(0, node, 1, (0.0, 0.0, 1.0), 1.0) for node in (0, 1)],
}
_WIDE, _NARROW = {**_LEAVES, "uplink": [5.0, 5.0]}, {**_LEAVES, "uplink": [4.0, 4.0]}
_THREADS = [
    Candidate(job, (1,), side=(2.0 + job / 10, 0.0, 0.0)) for job in range(1, PATTERNS.kinds + 2)
]
_FULL: dict[str, Any] = {"holds": [Hold(0, 0, 1, (4.0, 0.0, 0.0))], "side": (10.0, 0.0, 0.0)}

PACKED_PAIRS: dict[str, Pair] = {
    # a pair in place holds its GPU: one of two is left
    "packed.node_free": Pair(
        _joined([2], _PARTNER, [1], holds=_HOST), _joined([2], _PARTNER, [2], holds=_HOST)
    ),
    "packed.capacity": Pair(
        _joined([2], _PARTNER, [1], node_assignment.build, holds=_HOST),
        _joined([2], _PARTNER, [2], node_assignment.build, holds=_HOST),
    ),
    # the two reserve 1 + 2 GB/s in each leaf, the third job 2
    "packed.uplink": Pair(
        _joined([2, 2], _ACROSS, [1], **_WIDE), _joined([2, 2], _ACROSS, [1], **_NARROW)
    ),
    "named.uplink": Pair(
        _joined([2, 2], _ACROSS, [1], node_assignment.build, **_WIDE),
        _joined([2, 2], _ACROSS, [1], node_assignment.build, **_NARROW),
    ),
    # CPU threads of too many kinds to count: 4 + 2.1 and 2.2, or 2.2 and 2.3, of 10
    "packed.side": Pair(
        _joined([8], _THREADS, [1], **_FULL), _joined([8], _THREADS, [1, 2], **_FULL)
    ),
    # a pair is a configuration of both of its jobs
    "packed.one_config": Pair(_wanted([FRESH]), _wanted([FRESH, 1])),
    # two jobs that shared GPUs do not both go on there, each in its own way
    "packed.one_gang": Pair(
        _wanted([TOGETHER], build=node_assignment.build),
        _wanted([COMES_TO_OTHER], [0], node_assignment.build),
    ),
}
