"""A pair for every row of a question about moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from formulations import node_pattern
from formulations.moves import Demands, with_demands
from tests.formulations.worlds.pairs import Pair, Wanted
from tests.formulations.worlds.rounds import Candidate, Hold, plain_level, tiny

_NOBODY: tuple[int, ...] = ()


def _asked(
    gpus: Sequence[int],
    want: Sequence[int],
    stays: Sequence[int] = (),
    rows: Sequence[Candidate] = (),
    **demands: Any,
) -> Callable[[], Wanted]:
    """Job 0 waits; job 1 holds six GPUs of the first node."""

    def make() -> Wanted:
        problem = tiny(gpus, rows, holds=[Hold(1, 0, 6)], jobs=2)
        jobs = {
            name: np.asarray(demands.get(name, _NOBODY), dtype=np.int64)
            for name in ("wanted", "running", "leaving")
        }
        numbers = {"least": demands.get("least", 0), "most_moves": demands.get("most_moves")}
        problem = with_demands(problem, Demands(**jobs, **numbers))
        return Wanted(node_pattern.build(problem, plain_level(problem)), tuple(want), tuple(stays))

    return make


_STARTS = [Candidate(0, (4,))]
_FILLS = [Candidate(0, (8,))]
_MOVES = [Candidate(1, (6,))]

MOVE_PAIRS: dict[str, Pair] = {
    "moves.wanted": Pair(  # job 0 starts next to job 1 only where there is another node
        _asked([8, 8], [], [1], _STARTS, wanted=[0], least=1),
        _asked([8], [], [1], _STARTS, wanted=[0], least=1),
    ),
    "moves.running": Pair(  # job 1 is not stopped for a job that takes a whole node
        _asked([8, 8], [0], [], _FILLS, running=[1]),
        _asked([8], [0], [], _FILLS, running=[1]),
    ),
    "moves.leaves": Pair(
        _asked([8, 8], [0], [], _MOVES, leaving=[1]),
        _asked([8, 8], [], [1], _MOVES, leaving=[1]),
    ),
    "moves.most_moves": Pair(
        _asked([8, 8], [], [1], _MOVES, most_moves=0),
        _asked([8, 8], [0], [], _MOVES, most_moves=0),
    ),
}
