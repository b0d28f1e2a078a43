"""`node_pattern` where counting is not enough: exact placement, cut-off, solve again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from formulations import node_pattern
from formulations.arrays import Ints
from formulations.layout import RoundModel, cut_distinct, forbid
from formulations.linear_model import LinearModel
from formulations.round import decode
from formulations.round.check import check
from formulations.round.decode import pack, pack_slots, restricted
from formulations.round.tables import NONE, RoundProblem, Scope
from morph_opt.scheduling.decision.ranked import Solved
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import RoundSize, random_round
from tests.formulations.worlds.rounds import STAY, Candidate, Hold, picks, plain_level, tiny
from tests.formulations.worlds.solving import ranked, solve_model


def cuts(solved: Solved) -> int:
    """How often a choice was cut off on the way to the answer."""
    return sum(block.family == "not_again" for block in solved.model.model.row_blocks)


def packing_fails(problem: RoundProblem, choice: Ints) -> bool:
    return all(pack(problem, choice, order) is None for order in ("size", "parts"))


def choice_of(solved: Solved) -> Ints:
    assert solved.selection is not None
    return solved.selection.choice


def jigsaw() -> RoundProblem:
    """Six jobs that fill two nodes of eight GPUs, but not by best fit: 4+2+2 and 3+3+2."""
    return tiny([8, 8], [Candidate(job, (part,)) for job, part in enumerate((4, 3, 3, 2, 2, 2))])


def one_open_node() -> RoundProblem:
    """A shape of two different parts where one node is open: counting alone lets it start."""
    return tiny([4, 4], [Candidate(0, (2, 1)), Candidate(0, (1,))], closed=[1])


def shared_pattern() -> RoundProblem:
    """A 3+1 and a whole node on two nodes of four GPUs: each fits alone, not both together.

    Counting cuts one node into 3+1 and lets both parts of the first job lie there.
    """
    return tiny([4, 4], [Candidate(0, (3, 1)), Candidate(1, (4,))])


def test_gangs_take_slots_where_packing_leaves_them_too_few_nodes() -> None:
    """Three gangs of three where 3, 2, 2 and 2 GPUs are free: best fit gives the first the twos."""
    gangs = [Candidate(job, (1, 1, 1)) for job in range(3)]
    problem = tiny([3, 3, 3, 3], gangs, holds=[Hold(2 + node, node, 1) for node in (1, 2, 3)])
    choice = np.append(np.arange(3), problem.options.stay[3:])
    assert packing_fails(problem, choice)
    slotted = pack_slots(problem, choice)
    assert slotted is not None
    check(problem, slotted)
    assert [len(set(nodes)) for nodes in slotted.nodes] == [3, 3, 3, 0, 0, 0]


def test_no_slots_are_found_where_gangs_have_too_few_nodes() -> None:
    problem = tiny([4, 4], [Candidate(0, (1, 1, 1)), Candidate(1, (1, 1))])
    assert pack_slots(problem, np.asarray([0, 1])) is None
    assert pack_slots(problem, np.asarray([NONE, 1])) is not None


def test_what_takes_slots_keeps_every_rule() -> None:
    """Random choices with every constraint: what has nodes passes the check."""
    found = 0
    for seed in range(200):
        draw = np.random.default_rng((seed, 71))
        problem = random_round(draw, RoundSize(nodes=4, side_resources_bind=True, leaves=2))
        choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
        for job in range(problem.jobs.count):
            own = np.flatnonzero(problem.candidates.job == job)
            if own.size:
                choice[job] = draw.choice(own)
        slotted = pack_slots(problem, choice)
        if slotted is not None:
            check(problem, slotted)
            found += 1
    assert found > 20


def test_exact_placement_steps_in_where_packing_fails() -> None:
    problem = jigsaw()
    solved = ranked(problem, [plain_level(problem)], "node_pattern")
    assert packing_fails(problem, choice_of(solved))
    assert (choice_of(solved) >= 0).all()
    assert cuts(solved) == 0


@pytest.mark.parametrize("make", [one_open_node, shared_pattern])
def test_choices_that_cannot_be_placed_are_cut_off(make: Callable[[], RoundProblem]) -> None:
    problem = make()
    level = plain_level(problem)
    solved = ranked(problem, [level], "node_pattern")
    assert cuts(solved) > 0
    assert solved.selection is not None
    assert solved.selection.value(level) == oracle.best(problem, [level]).value(level)


def test_random_rounds_are_cut_off_now_and_then() -> None:
    size = RoundSize(parts=4, closed=0.3)
    problems = [random_round(np.random.default_rng((77, i)), size) for i in range(150)]
    solved = [ranked(problem, [plain_level(problem)], "node_pattern") for problem in problems]
    assert sum(cuts(one) > 0 for one in solved) >= 5


def test_forbid_removes_exactly_the_choices_that_contain_it() -> None:
    problem = tiny(
        [8], [Candidate(0, (2,)), Candidate(1, (2,)), Candidate(1, (4,))], holds=[Hold(2, 0, 2)]
    )
    level = plain_level(problem)
    built = node_pattern.build(problem, level)
    target = picks(problem, [0, NONE, STAY])
    cut = forbid(built, target, 0)
    assert cut.model.row_name(cut.model.rows - 1) == "not_again[0]"
    for row in oracle.combinations(problem):
        contains = row[0] == 0 and row[2] == target[2]
        fixed = fixing(built.layout.picked(row), cut)
        possible = oracle.place(problem, row.tolist()) is not None and not contains
        assert possible == solve_model(fixed).usable, row


def fixing(ones: Ints, built: RoundModel) -> LinearModel:
    """The model with exactly these of its choice columns at one."""
    decided = built.layout.x
    fixed = np.zeros(built.model.columns)
    fixed[ones] = 1.0
    lower, upper = built.model.column_lower.copy(), built.model.column_upper.copy()
    lower[decided] = upper[decided] = fixed[decided]
    return replace(built.model, column_lower=lower, column_upper=upper)


def test_a_cut_off_is_finite_because_nothing_at_all_can_always_be_placed() -> None:
    problem = one_open_node()
    nothing = np.full(problem.jobs.count, NONE)
    placed = pack(problem, nothing)
    assert placed is not None
    assert placed.nodes == ((),)


def test_restricted_keeps_the_choice_alone() -> None:
    problem = tiny(
        [6, 6], [Candidate(job, (3, 1)) for job in range(3)], holds=[Hold(3, 0, 2), Hold(4, 1, 4)]
    )
    small = restricted(problem, picks(problem, [0, NONE, 2, NONE, STAY]))
    assert small.candidates.job.tolist() == [0, 2]
    assert [small.candidates.parts(k) for k in range(2)] == [(3, 1), (3, 1)]
    assert small.holds.job.tolist() == [4]
    assert np.flatnonzero(small.jobs.running).tolist() == [4]


def test_packing_counts_what_earlier_jobs_took_of_an_uplink() -> None:
    """Leaf 0 can carry one part of four GPUs, leaf 1 any; there are two nodes under each."""
    rows = [Candidate(job, (4, 4), side=(0.0, 0.0, 1.0)) for job in range(2)]
    problem = tiny([4, 4, 4, 4], rows, leaf=[0, 0, 1, 1], uplink=[6.0, np.inf])
    assert packing_fails(problem, np.asarray([0, 1]))
    assert oracle.place(problem, [0, 1]) is None
    assert not packing_fails(problem, np.asarray([0, NONE]))


@pytest.mark.parametrize(
    ("nodes", "gangs", "order"),
    [
        # By size 2 + 1 leave two and three, the job of two takes the two: 1 + 1 have one node.
        (2, [(2, 1), (1, 1), (2,)], "parts"),
        # By parts 2 + 2 and 1 + 1 leave one, one and four, the job of three takes the four.
        (3, [(2, 2), (1, 1), (3,), (2,)], "size"),
    ],
)
def test_each_order_of_packing_finds_some_that_the_other_misses(
    nodes: int, gangs: list[tuple[int, ...]], order: str
) -> None:
    problem = tiny([4] * nodes, [Candidate(job, parts) for job, parts in enumerate(gangs)])
    choice = np.arange(len(gangs))
    found = {way for way in ("size", "parts") if pack(problem, choice, way) is not None}
    assert found == {order}


def test_a_kind_whose_parts_are_on_enough_nodes_hides_no_other() -> None:
    """Two nodes of 8 have 2 + 2 of job 0; of two nodes of 4 for those of job 1 one is closed."""
    gangs = [Candidate(0, (2, 2)), Candidate(1, (2, 2), node_class=1)]
    problem = tiny([8, 8, 4, 4], gangs, closed=[3])
    built = node_pattern.build(problem, plain_level(problem))
    point = solve_model(built.model).x
    assert point is not None
    cut = cut_distinct(problem, built, point)
    assert cut is not None
    assert [name for name in cut.model.row_names() if "distinct" in name] == ["distinct[1,1]"]


@pytest.mark.parametrize("scope", [Scope.POD, Scope.LEAF])
def test_a_gang_that_any_nodes_do_for_is_placed_without_a_look_at_each(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one leaf, over an uplink without limit, it takes the nodes with the least room."""
    monkeypatch.setattr(decode, "place_parts", None)
    problem = tiny([4] * 4, [Candidate(0, (2, 2), scope=scope)], holds=[Hold(1, 3, 2)])
    found = pack(problem, np.asarray([0, problem.options.stay[1]]))
    assert found is not None
    assert found.nodes[0] == (3, 0)
