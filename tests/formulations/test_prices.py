"""Prices prove bounds: never below brute force, recomputed alike, refused when claimed too low."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.check_bound import BoundError, check_bound
from formulations.columns import at_choice
from formulations.node_pattern.cells import find_cells, find_kinds
from formulations.parameters import COLUMNS, PLACING, PlacingParams
from formulations.prices import Prices, Relaxation, choose_prices, price_bound, shared_rows
from formulations.prices.bound import rounded_up
from formulations.prices.places import Places
from formulations.prices.placing import Placing
from formulations.prices.relaxation import possible_options
from formulations.prices.rounding import Rounding
from formulations.prices.sizes import Sizes
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.tables import Level, RoundProblem, Scope
from tests.campaigns import blocks
from tests.formulations.worlds import oracle
from tests.formulations.worlds.packed_rounds import (
    CROWDED,
    CROWDED_GPUS,
    PACKED,
    PACKED_GPUS,
    best_value,
    packed_level,
    packed_round,
)
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, Hold, Rule, rule_table, tiny

ROUNDS = blocks(5)
SIZES = {
    "gpus": SMALL,
    "side": RoundSize(side_resources_bind=True),
    "places": replace(EVERYTHING, rules=0, side_resources_bind=False),
    "everything": EVERYTHING,
    "local SSD": replace(LOCAL_SSD, classes=3, mixed=0.3),
    "mixed": RoundSize(nodes=4, classes=3, leaves=2, mixed=0.7),
    "mixed everything": replace(EVERYTHING, classes=3, mixed=0.7),
}
PACKS = {
    "packed": (PACKED, 2),
    "packed gpus": (PACKED_GPUS, 2),
    "packed, local SSD": (replace(PACKED, sides=LOCAL_SSD.sides), 2),
    "three jobs": (CROWDED, 3),
    "three jobs, gpus": (CROWDED_GPUS, 3),
}
"""Rounds with options of several jobs, and how many at most."""
Drawn = tuple[RoundProblem, Level, float]


def drawn(kind: str, seed: int) -> Drawn:
    """A random round, its level, and the optimum by enumeration."""
    draw = np.random.default_rng((seed, 77))
    if kind in PACKS:
        problem = packed_round(draw, *PACKS[kind])
        level = packed_level(draw, problem)
        return problem, level, best_value(problem, level)
    problem = random_round(draw, SIZES[kind])
    level = random_level(draw, problem)
    return problem, level, oracle.best(problem, [level]).value(level)


def random_prices(draw: np.random.Generator, problem: RoundProblem, level: Level) -> Prices:
    """Prices of every sort, of the size of the values per GPU, some 0."""
    table = problem.candidates
    table = problem.options.starts
    unit = float((level.value[: table.count] / table.gpus).max(initial=0.0)) or 1.0
    shared = shared_rows(problem)
    rows = draw.uniform(0.0, unit, shared.count) * (draw.random(shared.count) < 0.7)
    rows = np.where(np.isfinite(shared.upper), rows, -rows)
    prices = Prices.of_rows(problem, shared, rows)
    prices = replace(prices, side=prices.side * 0.1, uplink=prices.uplink * 0.1)
    if draw.random() < 0.5:
        return prices
    shape = (find_cells(problem).count, find_kinds(problem).count)
    return replace(
        prices,
        gpu=prices.gpu * float(draw.random() < 0.5),
        slot=draw.uniform(0.0, 4 * unit, shape) * (draw.random(shape) < 0.8),
        stay=draw.uniform(0.0, 4 * unit, problem.holds.count),
    )


@pytest.mark.parametrize("kind", [*SIZES, *PACKS])
def test_no_prices_prove_less_than_the_optimum(kind: str) -> None:
    for seed in range(ROUNDS):
        problem, level, truth = drawn(kind, seed)
        draw = np.random.default_rng(seed)
        for _ in range(4):
            bound = price_bound(problem, level, random_prices(draw, problem, level))
            assert bound.value >= truth - 1e-9 * abs(truth), (kind, seed)
            check_bound(problem, level, bound.prices, bound.value)
            low = bound.value - 1e-9 * abs(bound.value)
            if np.isfinite(low) and bound.value:
                with pytest.raises(BoundError):
                    check_bound(problem, level, bound.prices, low)


@pytest.mark.parametrize("kind", [*SIZES, *PACKS])
def test_chosen_prices_are_better_than_any_drawn(kind: str) -> None:
    for seed in range(ROUNDS):
        problem, level, truth = drawn(kind, seed)
        relaxation = Relaxation(problem, level)
        chosen = choose_prices(relaxation)
        best = rounded_up(chosen.evaluation)
        assert best >= truth - 1e-9 * abs(truth), (kind, seed)
        prices = Prices.of_rows(problem, relaxation.shared, chosen.prices)
        check_bound(problem, level, prices, best)
        if problem.shared.count:
            continue  # the bound with pairs is no convex function of the prices
        draw = np.random.default_rng(seed)
        for _ in range(6):
            other = replace(random_prices(draw, problem, level), slot=None, stay=None)
            value = price_bound(problem, level, other).value
            assert best <= value + 1e-6 * abs(value), (kind, seed)


def plain(gpu: float, problem: RoundProblem) -> Prices:
    """A price per GPU alone."""
    return Prices(np.full(problem.nodes.classes, gpu), np.zeros((problem.nodes.classes, 3)))


def bounded(problem: RoundProblem, level: Level, prices: Prices) -> float:
    bound = price_bound(problem, level, prices).value
    check_bound(problem, level, prices, bound)
    return bound


# Two nodes of 4 GPUs; job 0 holds two GPUs of node 0, jobs 1 and 2 wait.
ROUND = tiny(
    [4, 4],
    [Candidate(0, (4,)), Candidate(1, (2,)), Candidate(1, (4,)), Candidate(2, (4, 4))],
    holds=[Hold(0, 0, 2)],
)
WORTH = Level("worth", "points", np.asarray([5.0, 3.0, 4.0, 9.0, 4.0]))


def test_gpu_prices_by_hand() -> None:
    # At 1 a GPU: job 0 earns max(5 - 4, 4 - 2) = 2, job 1 max(3 - 2, 4 - 4) = 1, job 2 9 - 8 = 1,
    # and eight GPUs cost 8: 12. At 0 each takes the best: 5 + 4 + 9 = 18. At 5 none pays.
    for price, bound in ((1.0, 12.0), (0.0, 18.0), (5.0, 40.0)):
        assert bounded(ROUND, WORTH, plain(price, ROUND)) == pytest.approx(bound, rel=1e-11)


def test_a_stay_on_a_closed_node_pays_nothing() -> None:
    # Node 0 is closed: four GPUs at 1 are paid for, and job 0 stays for nothing: 4 + 1 + 1 + 4.
    closed = replace(ROUND, nodes=replace(ROUND.nodes, open=np.asarray([False, True])))
    assert bounded(closed, WORTH, plain(1.0, closed)) == pytest.approx(10.0, rel=1e-11)


def test_slot_prices_know_what_a_node_can_hold() -> None:
    # Only slots of 4 are paid, 4 each; going on at node 0 is paid 1. Node 0 collects the slot (4)
    # or the stay (1), node 1 the slot: 8. Job 0 earns max(5 - 4, 4 - 1) = 3, job 1 3 for nothing,
    # job 2 9 - 8 = 1: 15.
    slot = np.asarray([[0.0, 4.0]])
    prices = replace(plain(0.0, ROUND), slot=slot, stay=np.asarray([1.0]))
    assert bounded(ROUND, WORTH, prices) == pytest.approx(15.0, rel=1e-11)
    # 3 GPUs on a node of 4: as slot prices, GPU prices of 1 know that the fourth sells nothing.
    # At 1 a GPU: 4 - 3 = 1 earned and 4 paid. By slots the node collects 3 only: 1 + 3.
    odd = tiny([4], [Candidate(0, (3,)), Candidate(1, (3,))])
    level = Level("worth", "points", np.asarray([4.0, 3.0]))
    assert bounded(odd, level, plain(1.0, odd)) == pytest.approx(4.0 + 1.0, rel=1e-11)
    slots = np.asarray([[3.0]])  # one cell, one kind of slot, which has 3 GPUs
    assert bounded(odd, level, replace(plain(0.0, odd), slot=slots)) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        # Job 0 must stay: 4 - 2 = 2, as it is best anyway.
        (Rule("must", 1.0, np.inf, ((RULE_S, 0, 1.0),)), 12.0),
        # Job 0 must start anew: 5 - 4 = 1 and no stay.
        (Rule("must", 1.0, np.inf, ((RULE_X, 0, 1.0),)), 11.0),
        # Job 2 must not start: it earns 0.
        (Rule("never", -np.inf, 0.0, ((RULE_X, 3, 1.0),)), 11.0),
        # Job 1 must start on 4 GPUs: 4 - 4 = 0.
        (Rule("must", 1.0, np.inf, ((RULE_X, 2, 1.0),)), 11.0),
    ],
)
def test_a_row_about_one_job_is_a_statement_about_its_options(rule: Rule, bound: float) -> None:
    problem = replace(ROUND, rules=rule_table([rule]))
    prices = replace(plain(1.0, problem), rule=np.zeros(1))
    assert bounded(problem, WORTH, prices) == pytest.approx(bound, rel=1e-11)


def test_unkeepable_promise_leaves_no_decision() -> None:
    problem = replace(ROUND, rules=rule_table([Rule("must", 2.0, np.inf, ((RULE_S, 0, 1.0),))]))
    prices = replace(plain(1.0, problem), rule=np.zeros(1))
    assert bounded(problem, WORTH, prices) == -np.inf


def test_price_of_a_rule_is_paid_by_its_jobs() -> None:
    # Jobs 1 and 2 may start once together, at 0.5: 1 - 0.5 and 1 - 0.5 earned, 0.5 for the limit.
    rule = Rule("once", -np.inf, 1.0, ((RULE_X, 1, 1.0), (RULE_X, 2, 1.0), (RULE_X, 3, 1.0)))
    problem = replace(ROUND, rules=rule_table([rule]))
    prices = replace(plain(1.0, problem), rule=np.asarray([0.5]))
    assert bounded(problem, WORTH, prices) == pytest.approx(2 + 0.5 + 0.5 + 0.5 + 8, rel=1e-11)


def test_negative_and_meaningless_prices_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        price_bound(ROUND, WORTH, plain(-1.0, ROUND))
    with pytest.raises(ValueError, match="at least 0"):
        check_bound(ROUND, WORTH, plain(-1.0, ROUND), 100.0)
    with pytest.raises(ValueError, match="cannot run out"):
        price_bound(ROUND, WORTH, replace(plain(1.0, ROUND), uplink=1.0))


def test_the_search_repeats_itself_bit_by_bit() -> None:
    problem = random_round(np.random.default_rng(9), EVERYTHING)
    level = random_level(np.random.default_rng(10), problem)
    one, two = (choose_prices(Relaxation(problem, level)) for _ in range(2))
    assert one.prices.tobytes() == two.prices.tobytes()
    assert one.evaluation.bound == two.evaluation.bound


@pytest.mark.parametrize("scope", [Scope.LEAF, Scope.NVLINK])
def test_a_place_that_is_too_small_does_not_hide_a_larger_one(scope: Scope) -> None:
    # 8 + 4 GPUs: the place of node 0 has 8 in all and is tried first, that of nodes 1 and 2 has 16.
    start = Candidate(0, (8, 4), scope=scope)
    problem = tiny([8, 8, 8], [start], leaf=[0, 1, 1], domain=[0, 1, 1])
    places = Places(problem)
    assert places.starts(0) == (1, 2)
    assert places.free == [8, 0, 4]


def test_gang_over_classes_gives_back_gpus_in_each_class() -> None:
    # It holds all of nodes 0 and 1, and is worth more on the two GPUs of node 1 alone.
    starts = [
        Candidate(0, (2,)),
        Candidate(0, (4, 2), classes=(0, 1)),
        Candidate(0, (2,), node_class=1),
    ]
    problem = tiny([4, 2, 4], starts)
    relaxation = Relaxation(problem, Level("worth", "points", np.asarray([1.0, 2.0, 3.0])))
    rounding = Rounding(relaxation, choose_prices(relaxation))
    assert Placing(problem, rounding).placed(np.asarray([1])).choice.tolist() == [2]


def test_a_row_that_is_to_be_free_has_no_price_whatever_the_search_begins_with() -> None:
    # Two nodes of 4 GB/s, of which each start takes all: its GPUs are not what is short.
    starts = [Candidate(job, (2, 2), side=(0.0, 0.0, 2.0)) for job in range(2)]
    problem = tiny([4, 4], starts, side=(9.0, 9.0, 4.0))
    relaxation = Relaxation(problem, Level("worth", "GPUs", np.full(2, 4.0)))
    free = relaxation.shared.network
    assert free.sum() == 1
    for start in (None, np.ones(free.size)):
        chosen = choose_prices(relaxation, start, free=free)
        assert not any(cut.prices[free].any() for cut in chosen.cuts)
        assert choose_prices(relaxation, start).prices[free] > 0


def filled(problem: RoundProblem, *worth: float, params: PlacingParams = PLACING) -> list[int]:
    """What jobs get of what those that go on leave, when nothing else was given to any."""
    relaxation = Relaxation(problem, Level("worth", "points", np.asarray(worth)))
    placing = Placing(problem, Rounding(relaxation, choose_prices(relaxation)), params)
    choice: list[int] = placing.placed(problem.options.stay).choice.tolist()
    return choice


def test_rounding_uses_every_free_gpu() -> None:
    assert filled(tiny([4], [Candidate(0, (4,))]), 1.0) == [0]


def test_rounding_uses_free_gpus_of_several_classes_for_one_gang() -> None:
    assert filled(tiny([4, 2], [Candidate(0, (4, 2), classes=(0, 1))]), 1.0) == [0]


def test_rounding_uses_free_gpus_if_side_resources_run_out() -> None:
    # Ten threads: either job takes eight.
    starts = [Candidate(job, (2,), side=(4.0, 0.0, 0.0)) for job in range(2)]
    assert filled(tiny([4], starts, side=(10.0, 9.0, 9.0)), 2.0, 1.0) == [0, -1]


def test_moves_without_room_do_not_block_others() -> None:
    # A GPU is free on each of four nodes: jobs 4 and 5, which are worth most, find no room.
    starts = [Candidate(4, (2,)), Candidate(5, (2,)), Candidate(6, (1,))]
    problem = tiny([4] * 4, starts, holds=[Hold(node, node, 3) for node in range(4)])
    for moves in (4_000, 1):
        params = replace(PLACING, moves=moves)
        assert filled(problem, 20.0, 19.0, 1.0, *[30.0] * 4, params=params)[4:] == [-1, -1, 2]


def test_rounding_uses_free_gpus_within_the_rules() -> None:
    once = rule_table([Rule("once", -np.inf, 1.0, ((RULE_X, 0, 1.0), (RULE_X, 1, 1.0)))])
    problem = tiny([4], [Candidate(0, (1,)), Candidate(1, (1,))], rules=once)
    assert filled(problem, 2.0, 1.0) == [0, -1]


def test_running_jobs_within_a_rule_limit_continue() -> None:
    once = rule_table([Rule("once", -np.inf, 1.0, ((RULE_S, 0, 1.0), (RULE_S, 1, 1.0)))])
    problem = tiny([4], [], holds=[Hold(0, 0, 1), Hold(1, 0, 1)], rules=once)
    assert filled(problem, 1.0, 1.0) == [0, -1]


def test_a_job_that_moves_leaves_room_for_the_next_pass() -> None:
    # Job 0 goes on alone on four GPUs, and would rather have two elsewhere; job 2 has its own.
    starts = [Candidate(0, (2,), node_class=2), Candidate(1, (4,), node_class=1)]
    problem = tiny([8, 4, 2], starts, holds=[Hold(0, 1, 4), Hold(2, 0, 8)])
    assert filled(problem, 2.0, 8.0, 1.0, 30.0) == [0, 1, 3]


@pytest.mark.parametrize(("tries", "option"), [(1, -1), (2, 1)])
def test_a_job_without_room_tries_so_many_options(tries: int, option: int) -> None:
    # Of four GPUs two are held: what is worth most has no room, the next best has.
    starts = [Candidate(0, (4,)), Candidate(0, (2,))]
    problem = tiny([4], starts, holds=[Hold(1, 0, 2)])
    relaxation = Relaxation(problem, Level("worth", "points", np.asarray([9.0, 1.0, 1.0])))
    rounding = Rounding(relaxation, choose_prices(relaxation))
    made = Placing(problem, rounding, replace(PLACING, next_best=tries))
    assert made._put(1, 2)
    made._next_best(0, -1)
    assert made.option[0] == option


def test_chosen_start_is_kept_whatever_its_value() -> None:
    problem = tiny([4], [Candidate(0, (1,)), Candidate(1, (1,))])
    relaxation = Relaxation(problem, Level("worth", "points", np.asarray([1.0, 0.0])))
    placing = Placing(problem, Rounding(relaxation, choose_prices(relaxation)))
    assert placing.placed(np.asarray([0, 1])).choice.tolist() == [0, 1]


def test_job_may_move_to_its_own_and_all_free_gpus() -> None:
    problem = tiny([4], [Candidate(0, (2,)), Candidate(0, (4,))])
    relaxation = Relaxation(problem, Level("worth", "points", np.asarray([1.0, 9.0])))
    placing = Placing(problem, Rounding(relaxation, choose_prices(relaxation)))
    assert placing.placed(np.asarray([0])).choice.tolist() == [1]


def test_move_of_higher_value_is_first_among_equal_losses_per_gpu() -> None:
    assert filled(tiny([4], [Candidate(0, (2,)), Candidate(1, (4,))]), 3.0, 6.0) == [-1, 1]


def test_a_job_that_has_moved_does_not_make_room_by_moving_to_less() -> None:
    # Job 0 is first, on the only GPU of the smaller node; on the other node it would be worth 1.
    starts = [
        Candidate(0, (1,), node_class=1),
        Candidate(0, (2,)),
        Candidate(1, (1,), node_class=1),
    ]
    assert filled(tiny([2, 1], starts), 3.0, 1.0, 1.0) == [0, -1]


@pytest.mark.parametrize("kind", SIZES)
def test_starts_sorted_out_beforehand_have_no_nodes(kind: str) -> None:
    """Where more may be tried than are, starts without nodes are sorted out beforehand."""
    refused = 0
    for seed in range(20):
        draw = np.random.default_rng((seed, 61))
        problem = random_round(draw, SIZES[kind])
        relaxation = Relaxation(problem, random_level(draw, problem))
        rounding = Rounding(relaxation, choose_prices(relaxation))
        every = Placing(problem, rounding, replace(PLACING, sifted=3))
        every.placed(rounding.repaired(rounding.rounded()))
        option = np.flatnonzero(possible_options(problem)[0][: problem.candidates.count])
        owner = problem.candidates.job[option]
        fits = every._node_fits(option, owner, every._rooms(every._places.most_free()))
        for job, start in zip(owner[~fits].tolist(), option[~fits].tolist(), strict=True):
            refused += 1
            before, nodes = int(every.option[job]), every._nodes[job]
            every._drop(job)
            assert not every._put(job, start)
            assert before < 0 or every._back(job, before, nodes)
    assert refused


@pytest.mark.parametrize("kind", SIZES)
def test_tried_moves_are_the_first_that_fit_on_nodes(
    kind: str,
) -> None:
    tried = 0
    for seed in range(20):
        draw = np.random.default_rng((seed, 63))
        problem = random_round(draw, SIZES[kind])
        relaxation = Relaxation(problem, random_level(draw, problem))
        rounding = Rounding(relaxation, choose_prices(relaxation))
        made = Placing(problem, rounding, replace(PLACING, moves=2))
        for one in np.unique(problem.candidates.job)[::2].tolist():
            made._next_best(one, -1)
        own = at_choice(made._gpus, made.option)
        value, job = relaxation.value, problem.candidates.job
        least = draw.choice(np.append(value, 0.0), problem.jobs.count)
        found = np.concatenate([np.zeros(0, dtype=np.int64), *made._better(least)])
        fine, more = possible_options(problem)[0][: job.size], value[: job.size] > least[job]
        start = np.flatnonzero(fine & more)
        there = np.asarray(made._places.spare)[made._class[start]]
        start = start[(made._gpus[start] <= there + own[job[start]]) | ~made._pure[start]]
        assert sorted(found.tolist()) == start.tolist()
        most = made._places.most_free()
        loss, less = draw.integers(0, 3, (2, found.size)).astype(np.float64)
        first = made._first_moves(found, job[found], loss, less, most)
        room = made._largest[made._row[found]] <= most[made._class[found]]
        room |= made.option[job[found]] >= 0
        room &= made._side_fits(found, job[found])
        order = np.lexsort([found, less, loss])
        assert first.tolist() == order[room[order]][:2].tolist()
        tried += first.size
    assert tried


@pytest.mark.parametrize("kind", ["gpus", "side", "places", "everything"])
def test_alike_jobs_choose_as_single_ones_do(kind: str) -> None:
    for seed in range(20):
        draw = np.random.default_rng((seed, 65))
        problem = random_round(draw, SIZES[kind])
        level = random_level(draw, problem)
        price = 0.3 * np.abs(level.value).max(initial=0.0) * draw.random()
        found = []
        for fewer in (1, 1_000):
            fine, idle = possible_options(problem)
            gpus, params = Relaxation(problem, level).gpus_open, replace(COLUMNS, fewer=fewer)
            sizes = Sizes(problem, level.value, fine, idle, gpus, params=params)
            assert (sizes._like is not None) == (fewer == 1)
            found.append(sizes.of_starts(price * np.arange(sizes.kind.size)))
        for together, alone in zip(*found, strict=True):
            np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("kind", SIZES)
def test_usage_of_a_choice_is_the_sum_of_its_options(kind: str) -> None:
    draw = np.random.default_rng(64)
    for _ in range(10):
        problem = random_round(draw, SIZES[kind])
        relaxation = Relaxation(problem, random_level(draw, problem))
        choice = draw.integers(-1, problem.options.count, problem.jobs.count)
        picked = np.unique(choice[choice >= 0])
        use = relaxation.shared.use.toarray()[:, picked].sum(axis=1)
        np.testing.assert_allclose(relaxation.usage(picked), use)


@pytest.mark.parametrize("kind", SIZES)
def test_usage_of_options_equals_the_row_coefficients(kind: str) -> None:
    draw = np.random.default_rng(62)
    for _ in range(10):
        problem = random_round(draw, SIZES[kind])
        relaxation = Relaxation(problem, random_level(draw, problem))
        use = relaxation.shared.use.toarray()
        options = draw.integers(-1, max(1, problem.options.count), 30)
        options = np.minimum(options, problem.options.count - 1)
        for row in range(relaxation.shared.count):
            expected = np.append(use[row], 0.0)[options]  # -1: the last
            np.testing.assert_array_equal(relaxation.options_use(row, options), expected)


def test_a_round_without_nodes_has_no_place() -> None:
    problem = tiny([8], [Candidate(0, (4,))])
    none = {name: getattr(problem.nodes, name)[:0] for name in ("node_class", "open", "leaf")}
    nodes = replace(problem.nodes, **none, domain=none["leaf"], sets=problem.nodes.sets[:, :0])
    places = Places(replace(problem, nodes=nodes))
    assert places.starts(0) is None
    assert places.spare == [0]


def test_job_continues_only_if_its_gpus_are_free() -> None:
    # Of 8 GPUs the start takes 4: 6 are not free before it has given them back.
    places = Places(tiny([8], [Candidate(0, (4,))], holds=[Hold(1, 0, 6)]))
    nodes = places.starts(0)
    assert nodes == (0,)
    assert not places.stays(1)
    places.ends(0, nodes)
    assert places.stays(1)
    assert places.free == [2]


def test_a_job_goes_on_only_with_the_threads_that_it_holds() -> None:
    start = Candidate(0, (1,), side=(6.0, 0.0, 0.0))
    places = Places(tiny([4], [start], side=(8.0, 9.0, 9.0), holds=[Hold(1, 0, 1, (4.0, 0, 0))]))
    assert places.starts(0) == (0,)
    assert not places.stays(1)


@pytest.mark.parametrize(("uplink", "room"), [(4.0, True), (3.0, False)])
def test_jobs_continue_together_if_the_uplink_carries_them(uplink: float, room: bool) -> None:
    holds = [Hold(job, job, 1, uplink=2.0) for job in range(2)]
    assert Places(tiny([2, 2], [], holds=holds, uplink=[uplink])).all_stay(np.arange(2)) == room


def test_a_node_is_found_above_one_that_is_not_free_any_more() -> None:
    start = Candidate(0, (4,), node_set=1)
    places = Places(tiny([4, 4], [start], holds=[Hold(1, 1, 2)], sets=[[0, 1]]))
    assert places.stays(1)
    assert places.starts(0) == (0,)


def test_parts_barred_from_one_leaf_are_placed_under_two() -> None:
    problem = tiny([4, 4, 4], [Candidate(0, (4, 4), strict=True)], leaf=[0, 0, 1])
    nodes = Places(problem).starts(0)
    assert nodes is not None
    assert {*problem.nodes.leaf[list(nodes)].tolist()} == {0, 1}


def test_nodes_that_lack_threads_are_passed_over_however_many() -> None:
    # 40 nodes of 4 GPUs, one held, and 8 threads, of which 6 are held on all but the last: 8 are
    # free there only, and once they are taken 3 are free nowhere.
    starts = [Candidate(0, (1,), side=(8.0, 0.0, 0.0)), Candidate(1, (1,), side=(3.0, 0.0, 0.0))]
    holds = [Hold(2 + at, at, 1, (6.0 * (at < 39), 0.0, 0.0)) for at in range(40)]
    problem = tiny([4] * 40, starts, side=(8.0, 1e9, 1e9), holds=holds)
    places = Places(problem)
    assert places.all_stay(np.arange(2, 42))
    assert places.starts(0) == (39,)
    assert places.starts(1) is None


def test_threads_of_a_full_node_are_left_to_moving_jobs() -> None:
    # Node 0 has all GPUs held and 7 of 8 threads left, node 1 a GPU free and 2 threads left.
    start = Candidate(2, (1,), side=(8.0, 0.0, 0.0))
    holds = [Hold(0, 0, 4, (0.25, 0.0, 0.0)), Hold(1, 1, 3, (2.0, 0.0, 0.0))]
    places = Places(tiny([4, 4], [start], side=(8.0, 1e9, 1e9), holds=holds))
    assert places.all_stay(np.arange(2))
    most, ever = places.most_side(full=False), places.most_side(full=True)
    assert most is not None
    assert ever is not None
    assert (most[0, 0], ever[0, 0]) == (2.0, 7.0)
