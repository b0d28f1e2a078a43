"""Rounds without the configurations that no prices choose: bounds hold for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.instances.scaled import cold_round, round_after, speeds_of
from formulations.check_bound import check_bound
from formulations.mps import to_mps
from formulations.prices import Prices, Relaxation, choose_prices
from formulations.prices.bound import rounded_up
from formulations.round.check import check
from morph_opt.core.domain import JobState, RoundState
from morph_opt.scheduling.decision.candidates.slices import compacted
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import CoreParams, LadderParams
from morph_opt.scheduling.decision.placement import place
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, whole_model
from morph_opt.scheduling.decision.rules.model import GangLimit, OperatorRules, TenantQuota
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status
from tests.policies import worlds
from tests.policies.worlds import cluster, queued, speeds

LIMITS = Limits(gap=0.5, time_s=600.0)
EXACT = Limits(gap=0.0, time_s=600.0)


def posers(state: RoundState, objective: str, rules: OperatorRules) -> tuple[RoundPoser, ...]:
    """The compact poser, and the one that leaves nothing out."""
    speeds = speeds_of(state.cluster)
    return tuple(
        RoundPoser(speeds, OBJECTIVES[objective](), rules, compact_from=least)
        for least in (0, None)
    )


def promised(known: JobState, at: int) -> JobState:
    """Every fifth job has a promise, every other one is of a tenant."""
    tenant = "a" if at % 2 else "b"
    return replace(known, job=replace(known.job, guaranteed=at % 5 == 0, tenant=tenant))


def bound_of(posed: PosedRound) -> tuple[Prices, float]:
    """A bound of the compact round by prices that it may have."""
    relaxation = Relaxation(posed.problem, posed.worth)
    chosen = choose_prices(relaxation, free=relaxation.shared.network)
    prices = Prices.of_rows(posed.problem, relaxation.shared, chosen.prices)
    return prices, rounded_up(chosen.evaluation)


@pytest.mark.parametrize(("objective", "leaves"), [("jct", 1), ("throughput", 4)])
def test_bounds_of_compact_rounds_hold_for_all_configurations(objective: str, leaves: int) -> None:
    """`check_bound` proves the compact bound anew from tables in which nothing is left out."""
    quota = (TenantQuota("a", 20, borrow_gpus=4), TenantQuota("b", 30))
    for seed, rules in enumerate(
        (OperatorRules(), OperatorRules((*quota, GangLimit(("*",), 1, 8))))
    ):
        state = cold_round(32, 2, leaves, seed)
        state = replace(state, jobs=tuple(promised(s, at) for at, s in enumerate(state.jobs)))
        small, whole = posers(state, objective, rules)
        for _ in range(2):
            compact, every = small.pose(state), whole.pose(state)
            assert compact.view.compact
            assert not every.view.compact
            assert compact.problem.candidates.count < 0.6 * every.problem.candidates.count
            prices, bound = bound_of(compact)
            check_bound(every.problem, every.worth, prices, bound)
            solved = Ladder(HighsSolver()).solve(compact, LIMITS)
            assert solved.selection is not None
            decided = solved.posed or compact
            check(decided.problem, solved.selection)
            if solved.outcome.status is Status.OPTIMAL and not solved.promised:
                assert solved.outcome.bound >= solved.selection.value(decided.worth)
            state = round_after(state, place(decided, solved.selection), seed)


def test_wide_compact_rounds_are_posed_whole_unless_they_are_too_large() -> None:
    """Shapes make the gap on odd nodes; the largest rounds go on with what they have."""
    state = cold_round(30, 3, kind="odd")
    compact = posers(state, "throughput", OperatorRules())[0].pose(state)
    limits = replace(LIMITS, gap=1e-4)
    # Tables would prove so small a round, and any gap counts as wide.
    params = LadderParams(shaped_gap=0.0, core=CoreParams(additions=0))
    again = Ladder(HighsSolver(), params).solve(compact, limits)
    assert again.posed is not None
    check(again.posed.problem, again.selection)
    params = replace(params, whole_shaped=compact.problem.candidates.count - 1)
    once = Ladder(HighsSolver(), params).solve(compact, limits)
    assert once.posed is None
    check(compact.problem, once.selection)
    assert once.outcome.bound >= again.selection.value(again.posed.worth) * (1 - 1e-9)


def test_the_model_that_is_written_of_a_compact_round_leaves_nothing_out() -> None:
    small, whole = posers(cold_round(8, 2), "jct", OperatorRules())
    method = ExactMip(HighsSolver())
    texts = {
        to_mps(whole_model(poser.pose(cold_round(8, 2)), method, EXACT)[0])
        for poser in (small, whole)
    }
    assert len(texts) == 1


def test_larger_rounds_are_posed_whole_only_where_shapes_make_the_gap() -> None:
    state = cold_round(30, 3, kind="odd")
    compact = posers(state, "throughput", OperatorRules())[0].pose(state)
    small = compact.problem.candidates.count - 1
    for gap, whole in ((0.0, True), (np.inf, False)):
        params = LadderParams(whole=small, shaped_gap=gap, core=CoreParams(additions=0))
        solved = Ladder(HighsSolver(), params).solve(compact, replace(LIMITS, gap=1e-6))
        assert (solved.posed is not None) == whole


def test_options_left_out_are_dominated_by_kept_ones() -> None:
    """Every row has a row that stays, of its class, GPUs and scope, as fast, on no more."""
    state = cold_round(32, 2)
    _, whole = posers(state, "jct", OperatorRules())
    for matters in (False, True):
        for one in {known.first: known for known in whole.pose(state).view.slices}.values():
            small = compacted(one, np.full((2, 3), matters), 0)
            assert small.gpus.size == len(small.rows) == small.part_count.size
            assert small.part_gpus.size == small.part_count.sum()
            left = small.iteration_s[None, :] <= one.iteration_s[:, None]
            for column in ("node_class", "gpus", "scope"):
                left &= getattr(small, column)[None, :] == getattr(one, column)[:, None]
            if matters:
                left &= (small.side[None, :, :] <= one.side[:, None, :]).all(axis=2)
            assert left.any(axis=1).all()
            if not matters:
                kinds = zip(small.node_class, small.gpus, small.scope, strict=True)
                assert len(set(kinds)) == small.gpus.size


def test_optimum_of_a_compact_round_does_not_bound_the_whole_round() -> None:
    """Two nodes of 8: 5 + 3 GPUs beside jobs of 3 and 5 fill both, and 4 + 4 is what was kept.

    The best of what was kept runs two of the three, and a bound that says so is false. Posed whole,
    which such a gap asks for, the round has all three.
    """
    belief = speeds({"m": {"4+4": 1.0, "5+3": 1.0}, "a": {"3": 1.0}, "b": {"5": 1.0}})
    jobs = queued("wide", 8), queued("a", 3, model="a"), queued("b", 5, model="b")
    posed = [
        RoundPoser(belief, OBJECTIVES["throughput"](), compact_from=least).pose(
            worlds.state(cluster(8, 8), *jobs)
        )
        for least in (0, None)
    ]
    exact = [ExactMip(HighsSolver()).solve(each, EXACT).selection for each in posed]
    best = [found.value(each.worth) for found, each in zip(exact, posed, strict=True) if found]
    assert best[0] < 0.9 * best[1]
    solved = Ladder(HighsSolver()).solve(posed[0], EXACT)
    assert solved.posed is not None
    assert solved.selection is not None
    check(solved.posed.problem, solved.selection)
    assert solved.selection.value(solved.posed.worth) == pytest.approx(best[1])
    solved = Ladder(HighsSolver(), LadderParams(whole=0, whole_shaped=0)).solve(posed[0], EXACT)
    assert solved.posed is None
    assert solved.outcome.bound >= best[1] * (1.0 - 1e-9)
    assert solved.outcome.status is Status.FEASIBLE


def test_rounds_that_need_every_shape_are_never_compact() -> None:
    state = cold_round(64, 1)
    rules = OperatorRules(tighter_packing=True)
    poser = RoundPoser(speeds_of(state.cluster), OBJECTIVES["jct"](), rules, compact_from=0)
    assert not poser.pose(state).view.compact
