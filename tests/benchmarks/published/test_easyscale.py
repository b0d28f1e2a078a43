"""EasyScale's steps, vectors, rounds, proposals and simulator by hand and by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.published.parts.elastic_ask import ElasticAsk, whole
from benchmarks.published.simulators.easyscale import ElasticJob, Rules, simulate
from benchmarks.published.simulators.easyscale_pools import gangs, optimum, options_of
from benchmarks.published.simulators.easyscale_proposals import maps_of, proposals_of
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.ests import ElasticModel
from morph_opt.inputs.traces.easyscale import read_elastic_rows

MODEL = ElasticModel(4, whole(["0.1", "0.3"]))


def test_steps_by_hand():
    # One fast GPU: four turns. With a slow one: three turns of 0.1 beside one of 0.3.
    assert MODEL.step_s([1, 0]) == pytest.approx(0.4)
    assert MODEL.step_s([1, 1]) == pytest.approx(0.3)
    assert MODEL.step_s([0, 4]) == pytest.approx(0.3)
    assert MODEL.step_s([4, 0]) == pytest.approx(0.1)
    assert MODEL.step_s([0, 1]) == pytest.approx(1.2)
    assert MODEL.step_s([0, 0]) == 0.0


def test_a_multiple_is_a_whole_number_of_turns():
    # 3 x 0.1 is 0.30000000000000004 in floating point: it must still be one turn of 0.3.
    assert ElasticModel(4, whole([0.1, 0.3])).step_s([1, 1]) == pytest.approx(0.3)


def test_easyscale_waste_matches_hand_computation():
    vectors = np.asarray([[1, 1]])
    # 4 workers in 0.3 s; the GPUs could do 10 + 3.33 a second.
    waste = MODEL.waste(vectors, MODEL.steps(vectors))[0]
    assert waste == pytest.approx(1 - (4 / 0.3) / (10 + 1 / 0.3))


@pytest.mark.parametrize("seed", range(5))
def test_vectors_are_the_undominated_ones(seed):
    draw = np.random.default_rng(seed)
    model = ElasticModel(int(draw.integers(1, 7)), draw.integers(1, 9, 3))
    pools = draw.integers(0, 4, 3).tolist()
    every = [v for v in product(*(range(n + 1) for n in pools)) if any(v)]
    steps = {v: model.step_s(v) for v in every}
    wanted = [
        v
        for v in every
        if not any(
            w != v and all(a <= b for a, b in zip(w, v, strict=True)) and steps[w] <= steps[v]
            for w in every
        )
    ]
    found, _ = model.vectors(pools)
    assert sorted(map(tuple, found.tolist())) == sorted(wanted)


@pytest.mark.parametrize("seed", range(5))
def test_rounds_agree_with_enumeration(seed):
    draw = np.random.default_rng(seed)
    asks = [
        ElasticAsk(
            ElasticModel(int(draw.integers(1, 5)), draw.integers(1, 9, 2)),
            int(draw.integers(2)),
            bool(draw.random() < 0.6),
        )
        for _ in range(3)
    ]
    pools = [3, 3]
    for heter in (True, False):
        options = options_of(asks, pools, heter=heter)
        best, least = 0.0, (0.0, 0.0)
        ways = [[None, *range(len(speed))] for _, speed in options]
        for chosen in product(*ways):
            used = sum(
                (options[j][0][k] for j, k in enumerate(chosen) if k is not None), np.zeros(2)
            )
            if (used <= pools).all():
                speeds = [0.0 if k is None else options[j][1][k] for j, k in enumerate(chosen)]
                best = max(best, sum(speeds))
                least = max(least, (round(min(speeds), 9), sum(speeds)))
        found = optimum(options, pools)
        assert found.sum == pytest.approx(best)
        assert (found.least, found.sum_with_least) == pytest.approx(least)


def test_gangs_are_whole_or_nothing():
    ask = ElasticAsk(ElasticModel(2, whole([1, 2])), 0, True)
    assert gangs([ask, ask], [3, 9]) == 1
    assert gangs([ask, ask], [4, 0]) == 2
    assert gangs([ask], [1, 9]) == 0


def test_maps_are_floors_and_ceilings():
    found = maps_of(2, (1.5, 1.0))
    assert set(found) == {
        ((1, 1), 1),
        ((2, 1), 1),
        ((3, 2), 2),
        ((1, 0), 1),
        ((2, 0), 2),
        ((0, 1), 1),
        ((0, 2), 2),
    }
    assert [one[0][0] for one in found] == sorted(one[0][0] for one in found)


def test_the_slowest_map_is_kept():
    published = {p.gpus: p for p in proposals_of(4, (1.5, 1.0), (2, 2))}
    best = {p.gpus: p for p in proposals_of(4, (1.5, 1.0), (2, 2), slowest=False)}
    assert published.keys() == best.keys()
    assert all(published[key].speed <= best[key].speed for key in best)
    assert published[2, 0].workers == (2, 0)
    assert published[2, 0].waste == 0.0


FAST = {"submit_s": 0.0, "workers": 4, "batch": 1, "samples": 400.0, "step_s": (1.0, 2.0)}
POOLS = (4, 4)


def job(name, **other):
    return ElasticJob(**{"name": name, "preferred": 0, "mixed": False, **FAST, **other})


def test_fifo_runs_one_job_at_a_time():
    # Four workers on four GPUs of the first type: 100 steps of 1 s, after 20 s of start-up. Given
    # at 60; the next job gets its GPUs at the step in which the first has ended, 180 -> 180.
    run = simulate([job("a"), job("b")], POOLS, Rules("fifo"))
    assert run.end_s == {"a": 180.0, "b": 300.0}
    assert run.avg_jct_s == 240.0


def test_homo_starts_with_one_gpu_and_doubles():
    # From 60 on one GPU (4 s a step, 20 s of start-up): 10 steps by 120; two GPUs: 30 more by 180;
    # four: the 60 left take 60 s.
    run = simulate([job("a")], POOLS, Rules("homo"))
    assert run.end_s == {"a": 240.0}


def test_a_mixed_job_takes_its_last_proposal():
    # The last proposal is the slowest: one GPU of the second type.
    run = simulate([job("a", mixed=True, samples=4.0)], POOLS, Rules("heter"))
    assert run.end_s == {"a": 60 + 20 + 8}


def test_bad_rules_and_rows_are_refused(tmp_path):
    with pytest.raises(InputError, match="known are fifo, homo, heter"):
        Rules("best")
    head = (
        "name,time,application,max_parallelism,batch_size,epochs,"
        "enable_heterogeneous_deterministic,preferred_gpu,\n"
    )
    path = tmp_path / "trace.csv"
    row = "a,1,bert,4,8,2,1,v100,0.5\n"
    path.write_text(head + row + "b,2,vgg19,8,32,1,0,p100\n" + "a,3,bert,2,8,1,40,v100,\n")
    rows = read_elastic_rows(path)
    assert [(r.name, r.workers, r.mixed) for r in rows] == [("a", 2, True), ("b", 8, False)]
    for text, words in (
        (head, "has no jobs"),
        ("x\n", "must begin with the columns"),
        (head + "a,1,nope,4,8,2,1,v100\n", "line 2, application: unknown model 'nope'"),
        (head + row + "a,1,bert\n", "line 3: must have at least 8 cells"),
        (head + "a,x,bert,4,8,2,1,v100\n", "line 2, time: must be a finite number"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_elastic_rows(path)
