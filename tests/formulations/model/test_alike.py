"""Jobs that are alike are counted: the same optimum, a relaxation, and a decision of the round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations import node_pattern
from formulations.alike import alike_candidates, counted
from formulations.layout import RoundModel, cut_distinct
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision import pricing
from morph_opt.scheduling.decision.params import LadderParams, PricingParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.recheck import violated
from tests.campaigns import blocks
from tests.formulations.worlds.packed_rounds import PACKED, packed_level, packed_round
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round
from tests.formulations.worlds.rounds import Candidate, plain_level, tiny

EXACT = Limits(gap=0.0, time_s=600.0)


def doubled(problem: RoundProblem, level: Level, times: int) -> tuple[RoundProblem, Level]:
    """The round with every job's candidates offered to so many more jobs, which wait."""
    table, jobs, count = problem.candidates, problem.jobs, problem.jobs.count

    def column(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values] * (times + 1))

    stay = np.concatenate([jobs.stay_iteration_s, np.full(times * count, np.nan)])
    columns = {name: column(getattr(jobs, name)) for name in jobs.__slots__}
    columns["stay_iteration_s"] = stay
    columns["restart_left_s"] = np.where(np.isnan(stay), 0.0, columns["restart_left_s"])
    rows = np.tile(np.arange(table.count), times + 1)
    owner = column(table.job) + np.repeat(np.arange(times + 1) * count, table.count)
    larger = replace(problem, jobs=replace(jobs, **columns), candidates=table.take(rows, owner))
    value = np.concatenate([column(level.value[: table.count]), level.value[table.count :]])
    return larger, replace(level, value=value)


def case(seed: int, times: int = 2) -> tuple[RoundProblem, Level]:
    """A random round without rules, each job three times, the first of them as it was."""
    draw = np.random.default_rng((seed, 61))
    problem = random_round(draw, replace(EVERYTHING, rules=0))
    problem = replace(
        problem, jobs=replace(problem.jobs, guaranteed=np.zeros(problem.jobs.count, dtype=bool))
    )
    return doubled(problem, random_level(draw, problem), times)


@pytest.mark.parametrize("block", range(blocks(1)))
def test_the_same_optimum_and_relaxation(block: int) -> None:
    solver, running = HighsSolver(), 0
    for seed in range(30 * block, 30 * block + 30):
        problem, level = case(seed)
        running += int(problem.jobs.running.sum())
        built = node_pattern.build(problem, level)
        fewer = counted(built)
        if not problem.candidates.count:
            assert fewer is None
            continue
        assert fewer is not None
        assert fewer.starts.size * 3 <= built.layout.starts.size
        first = solver.solve(built.model.relaxed(), EXACT)
        second = solver.solve(fewer.model.relaxed(), EXACT)
        assert first.status is second.status is Status.OPTIMAL
        # Only rows `distinct` and `spread` are not in the model of all jobs.
        assert second.objective <= first.objective * (1 + 1e-7) + 1e-9
        bare = counted(replace(built, distinct=None))
        assert bare is not None
        third = solver.solve(bare.model.relaxed(), EXACT)
        assert third.objective == pytest.approx(first.objective, rel=1e-7, abs=1e-9)
        second = solver.solve(fewer.model, EXACT)
        assert second.x is not None
        point = fewer.expanded(second.x)
        # Neither the model nor a row `distinct` of any job is violated.
        assert not violated(built.model, point)
        assert cut_distinct(problem, built, point) is None
        assert built.model.objective(point) == pytest.approx(second.objective, rel=1e-9, abs=1e-12)
        first = solver.solve(built.model, EXACT)
        assert second.objective == pytest.approx(first.objective, rel=1e-7, abs=1e-9)
    assert running


def test_a_start_of_two_parts_needs_two_nodes_with_a_slot() -> None:
    """Of two nodes of 4 GPUs one is closed: 2 + 2 of jobs 1 and 3 would both be on the other."""
    gangs = [Candidate(job, (2, 2), node_class=job % 2) for job in range(4)]
    problem = tiny([8, 8, 4, 4], gangs, closed=[3])
    level = plain_level(problem)
    built = node_pattern.build(problem, level)
    solver, values = HighsSolver(), []
    for model in (replace(built, distinct=None), built):
        fewer = counted(model)
        assert fewer is not None
        found = solver.solve(fewer.model, EXACT)
        assert found.x is not None
        values.append(found.objective)
        violated_rows = cut_distinct(problem, built, fewer.expanded(found.x))
        assert (violated_rows is None) == (model is built)
    assert values == pytest.approx([12.0, 8.0])


def test_every_row_and_column_has_a_name() -> None:
    built = node_pattern.build(*case(1))
    fewer = counted(built)
    assert fewer is not None
    names = [*fewer.model.row_names()]
    assert len(names) == fewer.model.rows
    assert len([*fewer.model.column_names()]) == fewer.model.columns
    assert any(name.startswith("alike[") for name in names)


def test_nothing_is_counted_where_no_jobs_are_alike() -> None:
    draw = np.random.default_rng(7)
    problem = random_round(draw, EVERYTHING)
    assert counted(node_pattern.build(problem, random_level(draw, problem))) is None


def test_rounds_with_pairs_are_left_alone() -> None:
    draw = np.random.default_rng(8)
    problem = packed_round(draw, PACKED)
    assert counted(node_pattern.build(problem, packed_level(draw, problem))) is None


def test_a_row_of_one_job_tells_it_from_the_others() -> None:
    problem, level = case(3)
    built = node_pattern.build(problem, level)
    both = counted(built)
    assert both is not None
    waits = np.flatnonzero(~problem.jobs.running)
    last = built.layout.starts[problem.candidates.job == waits[-1]]
    model = built.model.with_row("must_run", [0], last, np.ones(last.size), 1.0, np.inf)
    one = counted(replace(built, model=model))
    assert one is not None
    assert one.starts.size == both.starts.size + last.size


def test_candidates_that_are_alike_share_a_number() -> None:
    problem, level = case(5)
    third = problem.candidates.count // 3
    alike = alike_candidates(problem, level).reshape(3, third)
    assert (alike == alike[0]).all()
    assert np.unique(alike).size == np.unique(alike[0]).size


COUNTED = LadderParams(pricing=PricingParams(counted_from=0))
"""Jobs that are alike are counted in rounds of any size."""


def test_large_rounds_are_solved_with_jobs_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And decide what the round as posed decides: the same value, placed."""
    solved: list[int] = []

    def noted(built: RoundModel) -> object:
        found = counted(built)
        solved.append(built.model.columns - (found.model.columns if found else 0))
        return found

    for seed in range(6):
        problem, level = case(seed, times=1)
        best = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        monkeypatch.setattr(pricing, "counted", noted)
        found = RoundSolver(HighsSolver(), EXACT, params=COUNTED).ranked(problem, (level,))
        monkeypatch.undo()
        assert best.selection is not None
        assert found.selection is not None
        value = best.selection.value(level)
        assert found.selection.value(level) == pytest.approx(value, rel=1e-7, abs=1e-9)
        assert found.outcome.bound >= value * (1 - 1e-9)
    assert any(solved)
