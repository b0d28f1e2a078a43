"""Rounds of elastic jobs on pools of GPUs by type: best vectors for all, by integer programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.published.parts.elastic_ask import ElasticAsk
from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

EXACT = Limits(gap=0.0, time_s=60.0)
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class PoolOptimum:
    """Largest sum of relative speeds; largest least one; largest sum given that."""

    sum: float
    least: float
    sum_with_least: float


def options_of(
    asks: Sequence[ElasticAsk], pools: Sequence[int], *, heter: bool
) -> list[tuple[Ints, Floats]]:
    """What each job may have."""
    return [ask.options(pools, heter=heter) for ask in asks]


def optimum(options: Sequence[tuple[Ints, Floats]], pools: Sequence[int]) -> PoolOptimum:
    """All three figures; 0 for the least speed where somebody must wait."""
    total = _largest_sum(options, pools, 0.0)
    assert total is not None
    speeds = np.unique(np.concatenate([speed for _, speed in options] or [np.zeros(0)]))
    least, low, high = 0.0, 0, speeds.size - 1
    while low <= high:
        middle = (low + high) // 2
        if _largest_sum(options, pools, float(speeds[middle])) is None:
            high = middle - 1
        else:
            least, low = float(speeds[middle]), middle + 1
    given = total if least == 0.0 else _largest_sum(options, pools, least)
    assert given is not None
    return PoolOptimum(total, least, given)


def gangs(asks: Sequence[ElasticAsk], pools: Sequence[int]) -> float:
    """Most jobs that can have one GPU of the preferred type for each worker."""
    whole = []
    for ask in asks:
        vector = np.zeros((1, len(pools)), dtype=np.int64)
        vector[0, ask.preferred] = ask.model.workers
        fits = ask.model.workers <= pools[ask.preferred]
        whole.append((vector[: int(fits)], np.ones(int(fits))))
    found = _largest_sum(whole, pools, 0.0)
    assert found is not None
    return found


def _largest_sum(
    options: Sequence[tuple[Ints, Floats]], pools: Sequence[int], least: float
) -> float | None:
    """Largest sum of speeds with at most one option each; with a least speed, exactly one."""
    kept = [(v[s >= least - SLACK], s[s >= least - SLACK]) for v, s in options]
    if least > 0 and any(not speed.size for _, speed in kept):
        return None
    if not any(speed.size for _, speed in kept):
        return 0.0
    outcome = make_solver("highs").solve(_model(kept, pools, least), EXACT)
    return None if outcome.x is None else outcome.objective


def _model(
    options: Sequence[tuple[Ints, Floats]], pools: Sequence[int], least: float
) -> LinearModel:
    job = np.repeat(np.arange(len(options)), [speed.size for _, speed in options])
    vectors = np.concatenate([v.reshape(-1, len(pools)) for v, _ in options])
    model = ModelBuilder("pools")
    x = model.add_columns("x", np.column_stack([job, vectors]), 1.0)
    lower = 1.0 if least > 0 else -np.inf
    jobs = np.arange(len(options))[:, None]
    model.add_rows("one_vector", jobs, lower, 1.0, [(job, x, 1.0)])
    kinds = np.arange(len(pools))
    room = np.asarray(pools, dtype=np.float64)
    entries = [
        (np.full(x.size, kind), x, vectors[:, kind].astype(np.float64)) for kind in kinds.tolist()
    ]
    model.add_rows("pool", kinds[:, None], -np.inf, room, entries)
    return model.build(np.concatenate([speed for _, speed in options]))
