"""Tables over the core of a knapsack: what they leave out is in no better decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.check_bound import BoundError
from formulations.check_knapsack import Claim, CoreProof, check_knapsack
from formulations.knapsack import Tables, find_items, losing, priced, rounded
from formulations.round import decode
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.params import CoreParams, LadderParams
from morph_opt.scheduling.decision.steps import knapsack
from tests.decision.test_knapsack import LARGER, SIZES, climbed
from tests.decision.worlds import unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import random_level, random_round
from tests.formulations.worlds.rounds import Candidate, level_of, tiny


def drawn(kind: str, *seed: int) -> tuple[RoundProblem, Level]:
    draw = np.random.default_rng(seed)
    problem = unpromised(random_round(draw, SIZES[kind]))
    return problem, random_level(draw, problem)


@pytest.mark.parametrize("kind", SIZES)
def test_cores_against_brute_force(kind: str) -> None:
    always = CoreParams(additions=10**6, additions_whole=0)
    left_out = 0
    for seed in range(15):
        problem, level = drawn(kind, seed, 50)
        truth = oracle.best(problem, [level]).value(level)
        tables = knapsack.tables_of(problem, level, [], params=always)
        if tables is not None and tables.items.core is not None:
            assert tables.bound >= truth - 1e-12 * abs(truth)
            left_out += find_items(problem, level).value.size - tables.items.value.size
        solved = climbed(problem, level, params=LadderParams(core=CoreParams(additions_whole=0)))
        assert solved.selection is not None
        check(problem, solved.selection)
        assert solved.selection.value(level) == pytest.approx(truth, rel=1e-9, abs=1e-12)
        assert solved.outcome.bound >= truth - 1e-12 * abs(truth), (kind, seed)
    assert left_out > 20


@pytest.mark.parametrize("kind", SIZES)
def test_part_of_a_core_states_the_bound_of_prices(kind: str) -> None:
    rationed = 0
    for seed in range(15):
        problem, level = drawn(kind, seed, 51)
        truth = oracle.best(problem, [level]).value(level)
        items = find_items(problem, level)
        at = priced(items)
        if at is None or at.bound <= 0.0:
            continue
        assert at.bound >= truth - 1e-12 * abs(truth)
        part = rounded(items, at, 0.1 * at.bound, 1_000)
        if part is None:
            continue
        tables = Tables(part)
        assert part.core is not None
        proof = CoreProof(part.core.prices, part.core.fewest)
        check_knapsack(problem, [Claim(level, tables.bound, tables.table)], part.job, proof)
        assert tables.best <= tables.bound + tables.rounding
        rationed += tables.best > -np.inf
    assert rationed > 5


def test_check_refuses_cores_that_leave_out_needed_items() -> None:
    noticed = 0
    for seed in range(60):
        problem, level = drawn("mixed", seed, 52)
        items = find_items(problem, level)
        at = priced(items)
        assert at is not None
        core = losing(items, at, 0.2 * at.bound)
        if core is None or core.core is None or Tables(core).best <= core.left_out:
            continue
        if at.bound < Tables(core).bound * (1 + 1e-6):
            continue  # the prices prove it by themselves
        tables, order = Tables(core), core.job
        claim, prices, fewest = tables.bound, core.core.prices, core.core.fewest
        proven = Claim(level, claim, tables.table)
        check_knapsack(problem, [proven], order, CoreProof(prices, fewest))
        with pytest.raises(BoundError):
            check_knapsack(problem, [proven], order, CoreProof(prices, fewest + 99))
        lower = proven._replace(worth=claim * (1 - 1e-9))
        with pytest.raises(BoundError):
            check_knapsack(problem, [lower], order, CoreProof(prices, fewest))
        with pytest.raises(ValueError, match="at least 0"):
            check_knapsack(problem, [proven], order, CoreProof(prices - 9.0, fewest))
        with pytest.raises(ValueError, match="weight"):
            check_knapsack(problem, [proven, proven], order, CoreProof(prices, fewest))
        noticed += 1
    assert noticed > 3


def test_jobs_of_which_even_the_fewest_gpus_are_too_many_have_no_core() -> None:
    problem = tiny([2], [Candidate(0, (2,)), Candidate(1, (2,))])
    items = find_items(problem, level_of(problem, [3.0, 3.0], [0.0, 0.0]))
    at = priced(items)
    assert at is not None
    both = replace(at, loss=np.where(items.option < 0, 9.0, 0.0))
    assert losing(items, both, 1.0) is None


def test_plain_parts_are_packed_where_any_parts_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shelves of nodes are a quicker way to the same nodes."""
    plain = 0
    for seed in range(60):
        draw = np.random.default_rng((seed, 53))
        problem = unpromised(random_round(draw, SIZES["side"] if seed % 2 else LARGER))
        starts, rows = problem.options.starts.count, problem.options.starts.templates[1]
        choice = np.full(problem.jobs.count, -1)
        for job in range(choice.size):
            own = np.flatnonzero(problem.options.job[:starts] == job)
            own = own[~problem.options.shared[own]]
            choice[job] = draw.choice(np.append(own, -1))
        for order in ("size", "parts"):
            quick = decode.pack(problem, choice, order)
            plain += decode._plain(problem, rows[choice[choice >= 0]]) and quick is not None
            with monkeypatch.context() as patch:
                patch.setattr(decode, "_plain", lambda *_: False)
                slow = decode.pack(problem, choice, order)
            assert (slow is None) == (quick is None)
            if quick is not None and slow is not None:
                assert quick.nodes == slow.nodes
    assert plain > 5


@pytest.mark.parametrize("seed", [20, 49, 123])
def test_a_core_between_decides_where_the_proving_one_is_too_large(seed: int) -> None:
    """Two classes of 100 and 60 GPUs, 25 jobs of six sizes: tables of all take 2 million."""
    draw = np.random.default_rng((seed, 54))
    rows, worth = [], []
    for job in range(25):
        grows = draw.uniform(0.3, 1.2)
        for t, speed in enumerate(draw.uniform(0.5, 1.5, 2)):
            for gpus in (1, 2, 4, 8, 12, 16):
                rows.append(Candidate(job, (gpus,), node_class=t))
                worth.append(speed * gpus**grows)
    problem, level = tiny([100, 60], rows), Level("worth", "", np.asarray(worth))
    every = Tables(find_items(problem, level))
    found = knapsack.tables_of(
        problem, level, [], gap=1e-4, params=CoreParams(additions=20_000, additions_whole=0)
    )
    assert found is not None
    assert found.items.core is not None
    assert found.best <= every.best + every.rounding
    assert found.bound >= every.best - every.rounding
    assert found.bound - found.best <= 1e-4 * found.best
