"""Generated messy rounds, the plain MIP, and the check of decisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.checks.messy.campaign import posed_round, rounds, summary, text_of
from benchmarks.checks.messy.plain import faults, solve
from benchmarks.checks.messy.snapshots import snapshot
from formulations.round.check import RuleError, check
from formulations.round.tables import NONE, Selection
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

SMALL = (4, 10, 12, 14, 18, 24)
"""Seeds of rounds that take no time."""
LIMITS = Limits(gap=0.0, time_s=60.0)


def test_a_seed_gives_one_round_and_seeds_cover_the_families() -> None:
    families = [snapshot(seed)[0] for seed in range(40)]
    assert snapshot(7) == snapshot(7)
    for flag in ("uplinks", "domains", "spans", "pairs", "prices", "rules"):
        assert {getattr(family, flag) for family in families} == {True, False}
    assert {family.distinct for family in families} == {0.0, 0.15, 0.5, 1.0}
    assert {side for family in families for side in family.scarce} >= {"cpus", "local_ssd_gib"}


def test_the_plain_mip_finds_the_optimum_of_the_reference_formulation() -> None:
    named = ExactMip(make_solver("highs"), "node_assignment")
    for seed in SMALL:
        _, _, posed = posed_round(seed)
        exact, (level,) = named.solve(posed, LIMITS), posed.levels
        plain = solve(posed.problem, level, 0.0, 60.0)
        assert plain.proved
        assert plain.value == pytest.approx(exact.outcome.objective, rel=1e-6)


def test_the_check_refuses_what_the_check_of_every_round_refuses() -> None:
    refused = 0
    for seed in SMALL:
        _, _, posed = posed_round(seed)
        problem = posed.problem
        draw = np.random.default_rng(seed)
        members, starts = problem.options.members, problem.options.starts
        for _ in range(60):
            choice = np.full(problem.jobs.count, NONE)
            nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
            for job in range(problem.jobs.count):
                mine = members.option[members.job == job]
                mine = mine[~problem.options.shared[mine]]
                if not mine.size or draw.random() < 0.4:
                    continue
                choice[job] = draw.choice(mine)
                if not problem.options.in_place[choice[job]]:
                    parts = len(starts.parts(int(choice[job])))
                    nodes[job] = tuple(draw.integers(problem.nodes.count, size=parts).tolist())
            selection = Selection(choice, tuple(nodes))
            try:
                check(problem, selection)
                fine = True
            except RuleError:
                fine = False
            assert fine == (not list(faults(problem, selection)))
            refused += not fine
    assert refused > 100


def test_a_row_states_what_is_false_and_who_is_ahead() -> None:
    limits = Limits(time_s=60.0)
    found = list(rounds(SMALL, limits))
    assert [row.wrong for row in found] == [()] * len(SMALL)
    assert not any(row.behind > 1e-6 for row in found)
    row = found[0]
    assert replace(row, bound=0.9 * row.value).wrong == ("the bound lies below a decision",)
    assert replace(row, value=1.1 * row.value, bound=2 * row.value).wrong
    behind = replace(row, value=0.99 * row.value, cpu_s=row.plain.cpu_s + 1.0)
    assert behind.lost
    assert behind.slow
    assert " LOST SLOW" in text_of(behind)
    assert not replace(behind, cpu_s=0.0).lost
    assert f"lost [{row.seed}]" in summary([*found[1:], behind], limits)
