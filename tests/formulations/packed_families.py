"""A round with pairs by hand, and what its row families let pass and forbid."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.layout import RoundModel
from formulations.pair_table import PairTable
from formulations.round_problem import STAY, Level, RoundProblem
from tests.formulations.pairs import Pair, Wanted
from tests.formulations.rounds import Candidate, Hold, plain_level, tiny

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
    table = plain.candidates
    rows = np.asarray([0, 0, 0, 0])
    paired = table.take(np.concatenate([np.arange(2), rows]))
    sides = [(3.0, 0.0, 0.0), (2.0, 0.0, 0.0), (2.0, 0.0, 0.0), (3.0, 0.0, 0.0)]
    candidates = type(table)(
        job=np.asarray([2, 3, 2, 0, 0, 1]),
        node_class=paired.node_class,
        iteration_s=np.asarray([1.0, 1.0, 1.25, 1.5, 1.25, 2.0]),
        gpus=paired.gpus,
        part_start=np.asarray([0, 1, 2, 3, 3, 3, 3]),
        part_gpus=np.asarray([1, 1, 1]),
        side=np.concatenate([table.side, sides]),
    )
    return RoundProblem(
        plain.jobs,
        candidates,
        plain.nodes,
        plain.holds,
        pairs=PairTable(
            partner=np.asarray([3, 1, 2, 3]),
            partner_iteration_s=np.asarray([1.5, 1.25, 2.0, 1.25]),
            first_half=np.asarray([0, STAY, STAY, STAY]),
            second_half=np.asarray([1, STAY, 0, 1]),
            sharing=np.asarray([[0, 1]]),
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


PACKED_PAIRS: dict[str, Pair] = {
    # a pair is a configuration of both of its jobs
    "packed.one_config": Pair(_wanted([FRESH]), _wanted([FRESH, 1])),
    # two jobs that shared GPUs do not both go on there, each in its own way
    "packed.one_gang": Pair(
        _wanted([TOGETHER], build=node_assignment.build),
        _wanted([COMES_TO_OTHER], [0], node_assignment.build),
    ),
}
