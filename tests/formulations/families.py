"""Row families: for each a tiny round that it forbids something in, and one that it lets pass.

A pair is a want (columns that must be one) that is possible in one model, impossible in another,
and possible again there as soon as the rows of the family are taken out: so it is this family
that forbids it, and nothing else does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.layout import RoundModel, cut_distinct, forbid
from formulations.parameters import PATTERNS
from formulations.round.tables import NONE, Level, RoundProblem, Scope
from morph_opt.scheduling.decision.ranked import with_guarantees
from tests.formulations.worlds.move_families import MOVE_PAIRS
from tests.formulations.worlds.packed_families import PACKED_PAIRS
from tests.formulations.worlds.pairs import Pair, Wanted, families
from tests.formulations.worlds.rounds import Candidate, Hold, plain_level, tiny
from tests.formulations.worlds.rule_families import RULE_PAIRS
from tests.formulations.worlds.solving import ranked, solve_model

ROOT = Path(__file__).resolve().parents[2]
EMITTERS = (
    # Rows of models of counted jobs are shown in tests/formulations/model/test_alike.py.
    *sorted(p for p in (ROOT / "formulations").glob("*.py") if p.name != "alike.py"),
    *sorted((ROOT / "formulations/node_pattern").glob("*.py")),
    *sorted((ROOT / "formulations/round").glob("*.py")),
    ROOT / "morph_opt/scheduling/decision/ranked.py",
)
"""Where rows of the round's models are written; `linear_model` only passes names on."""

RULE_WRITERS = sorted((ROOT / "morph_opt/scheduling/decision/rules").glob("*.py"))
"""Where the words of operator's rules are; `formulations.round.rules` only passes them on."""


def emitted() -> set[str]:
    """Words that the source can write: the literal first argument of every row call."""
    found: set[str] = set()
    for path in (*RULE_WRITERS, ROOT / "formulations/moves.py"):
        found |= _words(path, ("add",))
    for path in EMITTERS:
        # A fleet is no round; the whole text of its model is held by test_fleet.
        if path.stem not in ("linear_model", "rules", "fleet"):
            found |= _words(path, ("add_rows", "with_row"))
    return found


def word_of(family: str) -> str:
    """The row family's word: keys are ``where.word``, because two models share some words."""
    return family.partition(".")[2]


def _words(path: Path, calls: tuple[str, ...]) -> set[str]:
    """Literal first arguments of calls to methods of these names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in calls and len(node.args) > 1:
            named = node.args[0]
            either = [named.body, named.orelse] if isinstance(named, ast.IfExp) else [named]
            for word in either:
                assert isinstance(word, ast.Constant), f"{path.name}: a family is a literal word"
                found.add(str(word.value))
    return found


def _wanted(
    build: Callable[[RoundProblem, Level], RoundModel],
    gpus: Sequence[int],
    rows: Sequence[Candidate],
    want: Sequence[int],
    stays: Sequence[int] = (),
    **more: Any,
) -> Callable[[], Wanted]:
    def make() -> Wanted:
        problem = tiny(gpus, rows, **more)
        return Wanted(build(problem, plain_level(problem)), tuple(want), tuple(stays))

    return make


_pattern = partial(_wanted, node_pattern.build)
_assignment = partial(_wanted, node_assignment.build)


def _spread(
    gpus: Sequence[int],
    rows: Sequence[Candidate],
    want: Sequence[int],
    violator: int,
    **more: Any,
) -> Callable[[], Wanted]:
    """The model with the row that cuts off a point in which this candidate is not spread."""

    def make() -> Wanted:
        problem = tiny(gpus, rows, **more)
        built = node_pattern.build(problem, plain_level(problem))
        point = solve_model(Wanted(built, (violator,)).model()).x
        assert point is not None
        cut = cut_distinct(problem, built, point)
        assert cut is not None
        return Wanted(cut, tuple(want))

    return make


def _half(gpus: int) -> Callable[[], Wanted]:
    """Half a start of so many GPUs on a node of 8 on which one of two jobs keeps its 2."""

    def make() -> Wanted:
        problem = tiny([8], [Candidate(0, (gpus,))], holds=_LEAVING)
        built = node_pattern.build(problem, plain_level(problem), tight=True)
        return Wanted(built, (0,), (1,), share=0.5)

    return make


def _not_again(want: Sequence[int]) -> Callable[[], Wanted]:
    def make() -> Wanted:
        problem = tiny([4, 4], [Candidate(0, (3, 1)), Candidate(1, (4,))])
        built = node_pattern.build(problem, plain_level(problem))
        return Wanted(forbid(built, np.asarray([0, 1]), 0), tuple(want))

    return make


def _rank(want: Sequence[int]) -> Callable[[], Wanted]:
    """Two jobs, room for one: the first level wants job 0, the second would like job 1."""

    def make() -> Wanted:
        problem = tiny([4], [Candidate(0, (4,)), Candidate(1, (4,))])
        first = Level("first", "jobs", np.asarray([1.0, 0.0]))
        second = Level("second", "jobs", np.asarray([0.0, 1.0]))
        return Wanted(ranked(problem, [first, second], "node_pattern").model, tuple(want))

    return make


def _guarantee(want: Sequence[int]) -> Callable[[], Wanted]:
    """Two configurations of a guaranteed job: half its promised speed, and all of it."""

    def make() -> Wanted:
        rows = [Candidate(0, (1,), iteration_s=2.0), Candidate(0, (2,), iteration_s=1.0)]
        problem = tiny([4], rows, guaranteed=[0])
        built = node_pattern.build(problem, plain_level(problem))
        return Wanted(with_guarantees(problem, built), tuple(want))

    return make


_TWO_PLANS = [Candidate(0, (2,)), Candidate(0, (1,))]
_PAIR = [Candidate(0, (2, 2))]
_FOURS = [Candidate(0, (4,)), Candidate(1, (4,))]
_LEAVING = [Hold(1, 0, 2), Hold(2, 0, 4)]
_CPUS = [Candidate(0, (1,), side=(6.0, 0.0, 0.0)), Candidate(1, (1,), side=(6.0, 0.0, 0.0))]
_MANY_KINDS = [
    Candidate(job, (1,), side=(2.0 + job / 10, 0.0, 0.0)) for job in range(PATTERNS.kinds + 1)
]
_IN_A_LEAF = [Candidate(0, (4, 4), scope=Scope.LEAF)]
_ACROSS = [Candidate(0, (2, 2), scope=Scope.POD, strict=True), Candidate(1, (4,))]
_LIGHT = [Candidate(0, (gpus,), side=(2.0, 0.0, 0.0)) for gpus in (1, 2)]
_CROSSING = [Hold(job, node, 1, (0.0, 0.0, 3.0), 3.0) for job in (0, 1) for node in (0, 1)]
_HEAVY = [Hold(1, 0, 1, (8.0, 0.0, 0.0))]
_TWO_CELLS = [*_FOURS, Candidate(2, (4,)), Candidate(3, (4,), node_set=1)]
_MIXED = [
    Candidate(0, (1, 1, 1, 1), classes=(0, 0, 1, 1), loose=True),
    Candidate(1, (2,)),
    Candidate(1, (1,), node_class=1),
]
_LOOSE = [Candidate(0, (1, 1, 1), scope=Scope.LEAF, loose=True)]
_LEAVES: dict[str, Any] = {"leaf": [0, 1], "uplink": [5.0, 5.0]}


def _sharing(gb_per_s: float) -> list[Candidate]:
    """Four GPUs in each of two leaves, with this network share per GPU."""
    return [Candidate(0, (4, 4), side=(0.0, 0.0, gb_per_s))]


PAIRS: dict[str, Pair] = {
    "both.one_config": Pair(_pattern([8], _TWO_PLANS, [0]), _pattern([8], _TWO_PLANS, [0, 1])),
    "solve.distinct": Pair(
        _spread([4, 4], [*_PAIR, Candidate(0, (2,))], [1], 0, closed=[1]),
        _spread([4, 4], [*_PAIR, Candidate(0, (2,))], [0], 0, closed=[1]),
    ),
    "solve.not_again": Pair(_not_again([1]), _not_again([0, 1])),
    "solve.rank": Pair(_rank([0]), _rank([1])),
    "solve.guarantee": Pair(_guarantee([1]), _guarantee([0])),
    "node_pattern.one_free": Pair(  # one node must not count as two, with 6 and with 2 GPUs free
        _pattern([8, 8], _PAIR, [0], holds=_LEAVING),
        _spread([8], _PAIR, [0], 0, holds=_LEAVING),
    ),
    "node_pattern.node_free": Pair(
        _pattern([8], [Candidate(0, (2,))], [0], [1], holds=[Hold(1, 0, 6)]),
        _pattern([8], [Candidate(0, (4,))], [0], [1], holds=[Hold(1, 0, 6)]),
    ),
    "node_pattern.beside": Pair(_half(6), _half(8)),
    "node_pattern.pattern_count": Pair(  # one node is cut once, as a 4 or as 2+2
        _pattern([4, 4], [Candidate(0, (4,)), Candidate(1, (2,))], [0, 1]),
        _pattern([4], [Candidate(0, (4,)), Candidate(1, (2,))], [0, 1]),
    ),
    "node_pattern.gangs": Pair(  # a job that starts is in one of the leaves
        _pattern([4, 4, 4], _IN_A_LEAF, [0], leaf=[0, 0, 1]),
        _pattern([4, 4], _IN_A_LEAF, [0], leaf=[0, 1]),
    ),
    "node_pattern.parts": Pair(  # three whole nodes are not in two cells of one node each
        _pattern([4, 4], _TWO_CELLS, [0, 1], sets=[[0]]),
        _pattern([4, 4], _TWO_CELLS, [0, 1, 2], sets=[[0]]),
    ),
    "node_pattern.slots": Pair(_pattern([4, 4], _FOURS, [0, 1]), _pattern([4], _FOURS, [0, 1])),
    "node_pattern.span": Pair(  # what has no row under one leaf must be under two
        _pattern([4, 4, 4], _ACROSS, [0, 1], leaf=[0, 0, 1]),
        _pattern([4, 4, 4], _ACROSS, [0, 1], leaf=[0, 0, 0]),
    ),
    "held.node_free": Pair(  # only what is held makes CPU threads scarce: 8 + 2 and 8 + 4 of 10
        _pattern([4], _LIGHT, [0], [1], holds=_HEAVY, side=(10.0, 0.0, 0.0)),
        _pattern([4], _LIGHT, [1], [1], holds=_HEAVY, side=(10.0, 0.0, 0.0)),
    ),
    "held.uplink": Pair(  # what runs may hold more of an uplink than it has, and nothing else asks
        _pattern([4, 4], [], [], [0], holds=_CROSSING, **_LEAVES),
        _pattern([4, 4], [], [], [0, 1], holds=_CROSSING, **_LEAVES),
    ),
    "node_pattern.uplink": Pair(
        _pattern([4, 4], _sharing(1.0), [0], **_LEAVES),
        _pattern([4, 4], _sharing(2.0), [0], **_LEAVES),
    ),
    "node_pattern.side": Pair(  # CPU threads of too many kinds to count: 8.6 and 11 of 10
        _pattern([8], _MANY_KINDS, [0, 1, 2, 3], side=(10.0, 0.0, 0.0)),
        _pattern([8], _MANY_KINDS, [0, 1, 2, 3, 4], side=(10.0, 0.0, 0.0)),
    ),
    "mixed.slots": Pair(  # two GPUs of each class, of which a gang of another job takes one
        _pattern([4, 2], _MIXED, [0, 1]),
        _pattern([4, 2], _MIXED, [0, 2]),
    ),
    "named.parts": Pair(  # a gang over two classes wants both; single GPUs may share a node
        _assignment([4, 2], _MIXED, [0, 1]),
        _assignment([4, 2], _MIXED, [0], closed=[1]),
    ),
    "named.distinct_nodes": Pair(  # parts that share nodes are under the leaf of their gang
        _assignment([2, 2], _LOOSE, [0], leaf=[0, 0]),
        _assignment([2, 2], _LOOSE, [0], leaf=[0, 1]),
    ),
    "node_assignment.parts": Pair(
        _assignment([4, 4], _PAIR, [0]), _assignment([4, 4], _PAIR, [0], closed=[1])
    ),
    "node_assignment.one_host": Pair(
        _assignment([4, 4], _IN_A_LEAF, [0], leaf=[0, 0]),
        _assignment([4, 4], _IN_A_LEAF, [0], leaf=[0, 1]),
    ),
    "node_assignment.distinct_nodes": Pair(
        _assignment([4, 4], [Candidate(0, (2, 1))], [0]),
        _assignment([4, 4], [Candidate(0, (2, 1))], [0], closed=[1]),
    ),
    "node_assignment.capacity": Pair(
        _assignment([4], _CPUS, [0, 1], side=(12.0, 0.0, 0.0)),
        _assignment([4], _CPUS, [0, 1], side=(11.0, 0.0, 0.0)),
    ),
    "node_assignment.span": Pair(
        _assignment([4, 4, 4], _ACROSS, [0], leaf=[0, 0, 1], closed=[1]),
        _assignment([4, 4, 4], _ACROSS, [0], leaf=[0, 0, 1], closed=[2]),
    ),
    "node_assignment.uplink": Pair(
        _assignment([4, 4], _sharing(1.0), [0], **_LEAVES),
        _assignment([4, 4], _sharing(2.0), [0], **_LEAVES),
    ),
    **RULE_PAIRS,
    **MOVE_PAIRS,
    **PACKED_PAIRS,
}
"""One pair per row family; a word that the source can write and that is not here fails a test.

Rows under ``solve`` are added between solves, to either model; here to `node_pattern`.
"""


def expected_in(formulation: str) -> set[str]:
    """Words of the families that models of a formulation may have."""
    where = {formulation, "both"} | ({"solve"} if formulation == "node_pattern" else set())
    return {word_of(key) for key in PAIRS if key.partition(".")[0] in where}


def everything_built(problem: RoundProblem, level: Level) -> dict[str, set[str]]:
    """Families of all models that a round leads to, by formulation."""
    pattern = node_pattern.build(problem, level)
    nothing = np.full(problem.jobs.count, NONE)
    models = (
        node_pattern.build(problem, level, tight=True),
        with_guarantees(problem, pattern),
        forbid(pattern, nothing, 0),
        ranked(problem, [level, level], "node_pattern").model,
    )
    return {
        "node_pattern": set().union(*(families(built.model) for built in models)),
        "node_assignment": families(node_assignment.build(problem, level).model),
    }
