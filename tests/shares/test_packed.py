"""Target shares with pairs: what they promise each job, against the polytope they came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.shares.classes import class_model, packed_classes
from formulations.shares.problem import PairTable, ShareProblem, check_shares
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import require_pair_speeds
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.scheduling.policies.objectives.share_book import ShareBook
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.packed import PACKED_POLICIES, PackedTargets, alone_equivalent
from morph_opt.scheduling.shares.request import shares_of

CLUSTER = load_cluster("1x4:V100+1x4:P100+1x4:K80").with_prices(
    {"V100": 3.0, "P100": 1.5, "K80": 0.5}
)


def round_state(jobs: int, seed: int = 0) -> RoundState:
    trace, _ = gavel_twin(seed)
    chosen = tuple(JobState(replace(j, submission_s=0.0)) for j in trace.jobs[:jobs])
    return RoundState(0, 60.0, 60.0, CLUSTER, chosen)


@pytest.mark.parametrize("policy", PACKED_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_pairs_raise_the_targets_and_stay_within_the_polytope(policy: str, seed: int) -> None:
    _, truth = gavel_twin(seed)
    now = round_state(24, seed)
    alone, packed = ShareBook(truth, policy), ShareBook(truth, policy)
    packed.pack(require_pair_speeds(truth))
    for book in (alone, packed):
        book.observe(now)
    assert alone.request is not None
    assert packed.request is not None
    problem = packed.request.problem
    assert problem.pairs.count > 0
    plain = shares_of(policy, packed.request, lp_solver())
    check_shares(problem, plain.x, plain.pair_x)
    assert plain.pair_x.sum() > 0.1
    # the share alone that a job is promised makes the progress of its shares alone and in pairs
    found = alone_equivalent(problem, plain)
    assert problem.rates(found.x) == pytest.approx(problem.rates(plain.x, plain.pair_x))
    assert found.x.max() <= 1.0 + 1e-6
    assert packed.shares is not None
    assert alone.shares is not None
    better = packed.shares.objective - alone.shares.objective
    assert better < 0 if policy == "makespan" else better > 0


@pytest.mark.parametrize(("seconds", "classes"), [((2,), 3), ((2, 2), 2)])
def test_jobs_are_of_one_class_where_all_of_them_may_pair(
    seconds: tuple[int, ...], classes: int
) -> None:
    """Jobs 0 and 1 are alike; job 2 shares with job 0 alone, or with both."""
    rates = np.full((len(seconds), 1, 2), 0.75)
    pairs = PairTable(np.arange(len(seconds)), np.asarray(seconds), rates)
    speed = np.asarray([[1.0], [1.0], [2.0]])
    problem = ShareProblem(speed, np.ones(3, dtype=np.int64), np.asarray([2.0]), pairs=pairs)
    useful = np.ones((len(seconds), 1), dtype=bool)
    found = packed_classes(problem, np.zeros(3), np.ones(3), useful)
    assert sorted(found.count.tolist()) == ([1, 1, 1] if classes == 3 else [1, 2])
    assert found.pair_count.tolist() == [len(seconds)]


def test_columns_of_the_model_over_classes_by_name() -> None:
    pairs = PairTable(np.asarray([0]), np.asarray([1]), np.full((1, 1, 2), 0.75))
    ones = np.ones(2, dtype=np.int64)
    problem = ShareProblem(np.ones((2, 1)), ones, np.asarray([1.0]), pairs=pairs)
    found = packed_classes(problem, np.zeros(2), np.ones(2), np.ones((1, 1), dtype=bool))
    model = class_model(found, np.zeros((1, 2), dtype=np.int64), 1.0)
    assert list(model.column_names()) == ["X[0,0]", "Y[0,0]", "t"]


def test_pairs_of_alike_jobs_are_alike_whichever_is_named_first() -> None:
    rates = np.asarray([[[0.75, 0.75 + 1e-12]], [[0.75 + 1e-12, 0.75]], [[0.75, 0.75 + 1e-12]]])
    pairs = PairTable(np.asarray([0, 0, 1]), np.asarray([1, 2, 2]), rates)
    ones = np.ones(3, dtype=np.int64)
    problem = ShareProblem(np.ones((3, 1)), ones, np.asarray([2.0]), pairs=pairs)
    found = packed_classes(problem, np.zeros(3), np.ones(3), np.ones((3, 1), dtype=bool))
    assert found.count.tolist() == [3]


def test_only_pairs_that_beat_taking_turns_are_columns() -> None:
    _, truth = gavel_twin(0)
    now = round_state(30)
    book = ShareBook(truth, "max_throughput")
    book.pack(require_pair_speeds(truth))
    book.observe(now)
    assert book.request is not None
    problem, pairs = book.request.problem, book.request.problem.pairs
    assert (problem.gang[pairs.first] == problem.gang[pairs.second]).all()
    alone = np.stack([problem.speed[pairs.first], problem.speed[pairs.second]], axis=2)
    kept = np.divide(pairs.throughput, alone, out=np.zeros_like(alone), where=alone > 0).sum(axis=2)
    assert (kept.max(axis=1) > 1.0).all()
    assert ((kept > 1.0) | (kept == 0.0)).all()


def test_policies_that_promise_a_rate_to_all_keep_their_promise_of_turns() -> None:
    _, truth = gavel_twin(0)
    book = ShareBook(truth, "isolated")
    book.pack(require_pair_speeds(truth))
    book.observe(round_state(12))
    assert book.request is not None
    assert book.request.problem.pairs.count == 0


def test_pairs_without_a_gain_leave_the_problem_unchanged() -> None:
    _, truth = gavel_twin(0)
    book = ShareBook(truth, "makespan")
    now = round_state(1)
    book.observe(now)
    assert book.request is not None
    problem = book.request.problem
    assert PackedTargets(require_pair_speeds(truth)).with_pairs(problem, now) is problem
    assert book.shares is not None
    assert alone_equivalent(problem, book.shares) is book.shares
