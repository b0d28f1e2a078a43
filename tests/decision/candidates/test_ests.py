"""Candidates of workers that take turns, by hand and against all vectors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.published.parts.elastic_ask import whole
from formulations.round.tables import Scope
from morph_opt.core.domain import ExecutionPlan, InputError, Job
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.ests import ElasticModel
from morph_opt.inputs.perf.parameters import ElasticParams
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.scheduling.decision.candidates.ests import elastic_slice
from morph_opt.scheduling.decision.candidates.slices import ModelSlice

SPEEDS = ElasticTable({"m": {"V100": "0.1", "P100": "0.3"}, "n": {"V100": "0.1"}})
TWO = load_cluster("1x2:V100+1x3:P100")


def job(level: str, workers: int = 4, model: str = "m", gpus: int | None = None) -> Job:
    plan = ExecutionPlan.ests(workers, level, "V100")
    return Job("j", model, 0.0, 10, gpus or workers, plan)


def vectors(known: ModelSlice) -> dict[tuple[int, int], float]:
    """Seconds per step by GPUs of each class."""
    first = np.concatenate([[0], np.cumsum(known.part_count)])
    found = {}
    for k, seconds in enumerate(known.iteration_s.tolist()):
        classes = known.part_class[first[k] : first[k + 1]].tolist()
        found[classes.count(0), classes.count(1)] = seconds
    return found


def test_workers_that_may_mix_types() -> None:
    # Four turns on one V100 take 0.4 s, two on each of two 0.2; beside one P100 the V100 has
    # three turns in 0.3 s; three P100 alone take two turns, 0.6 s, as two do; one takes four.
    known = elastic_slice(job("d2"), TWO, SPEEDS, 0)
    assert vectors(known) == pytest.approx(
        {(0, 1): 1.2, (0, 2): 0.6, (1, 0): 0.4, (1, 1): 0.3, (2, 0): 0.2}
    )
    assert known.loose.all()
    assert known.scope.tolist() == [
        int(Scope.POD if n > 1 else Scope.NODE) for n in known.gpus.tolist()
    ]


def test_workers_of_one_type_and_of_one_number() -> None:
    assert vectors(elastic_slice(job("d1"), TWO, SPEEDS, 0)) == pytest.approx(
        {(1, 0): 0.4, (2, 0): 0.2}
    )
    # Two GPUs for three workers take two turns, and no other number will do.
    fixed = job("d0", workers=3, gpus=2)
    assert vectors(elastic_slice(fixed, TWO, SPEEDS, 0)) == pytest.approx({(2, 0): 0.2})


def test_the_request_alone_is_the_whole_gang_of_its_type() -> None:
    asked = elastic_slice(job("d2", workers=2), TWO, SPEEDS, 0, request_only=True)
    assert vectors(asked) == pytest.approx({(2, 0): 0.1})
    # Four do not fit the type: as it can, the fastest first; a fixed number is impossible.
    fewer = elastic_slice(job("d2"), TWO, SPEEDS, 0, request_only=True)
    assert vectors(fewer) == pytest.approx({(2, 0): 0.2, (1, 0): 0.4})
    assert fewer.iteration_s.tolist() == sorted(fewer.iteration_s.tolist())
    with pytest.raises(InputError, match=r"^job j: its 4 workers .* need at least 3"):
        elastic_slice(job("d0", gpus=3), TWO, SPEEDS, 0, request_only=True)


def test_types_without_times_are_left_out() -> None:
    only = vectors(elastic_slice(job("d2", model="n"), TWO, SPEEDS, 0))
    assert set(only) == {(1, 0), (2, 0)}


def test_the_filter_leaves_out_what_wastes_and_keeps_single_types() -> None:
    # Three turns of 0.1 s on a V100 beside one of 0.3 s on a P100: nothing is wasted.
    kept = elastic_slice(job("d2"), TWO, SPEEDS, 0, waste_filter=0.0)
    assert set(vectors(kept)) == {(0, 1), (0, 2), (1, 0), (1, 1), (2, 0)}
    wide = load_cluster("1x4:V100+1x4:P100")
    every = vectors(elastic_slice(job("d2", workers=6), wide, SPEEDS, 0))
    tight = vectors(elastic_slice(job("d2", workers=6), wide, SPEEDS, 0, waste_filter=0.1))
    assert set(tight) < set(every)
    for n in set(every) - set(tight):
        assert min(n) > 0
        speed = n[0] / 0.1 + n[1] / 0.3
        assert 1 - 6 / every[n] / speed > 0.1


def test_threads_bound_the_gpus_of_a_node() -> None:
    kind = TWO.node_types[0]
    greedy = Job("j", "m", 0.0, 10, 4, ExecutionPlan.ests(4, "d1", "V100"), kind.cpus)
    assert vectors(elastic_slice(greedy, TWO, SPEEDS, 0)) == pytest.approx({(1, 0): 0.4})


@pytest.mark.parametrize("seed", range(6))
def test_large_pools_are_thinned_to_vectors_that_need_all_their_gpus(seed: int) -> None:
    draw = np.random.default_rng(seed)
    model = ElasticModel(12, whole(draw.uniform(0.1, 0.9, 3).round(3).tolist()))
    pools = (9, 7, 8)
    every, steps = model.vectors(pools)
    best = {tuple(v): int(s) for v, s in zip(every.tolist(), steps.tolist(), strict=True)}
    fewer, thinned = model.vectors(pools, ElasticParams(most_vectors=200))
    assert 20 < len(fewer) < len(every)
    for vector, step in zip(map(tuple, fewer.tolist()), thinned.tolist(), strict=True):
        assert best[vector] == step
    assert {(1, 0, 0), (0, 1, 0), (0, 0, 1)} <= set(map(tuple, fewer.tolist()))


def test_vectors_are_those_that_no_enumeration_beats() -> None:
    model = ElasticModel(5, whole([0.2, 0.3]))
    every = {n: model.step_s(n) for n in product(range(6), range(6)) if any(n)}
    kept = {
        n
        for n, s in every.items()
        if not any(
            m != n and all(a <= b for a, b in zip(m, n, strict=True)) and every[m] <= s
            for m in every
        )
    }
    assert set(map(tuple, model.vectors((5, 5))[0].tolist())) == kept
