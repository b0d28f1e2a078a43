"""Wall time left of a replay: the fluid schedule by hand, fits of costs, and recorded replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from morph_opt.replay.outlook import Costs, Load, Outlook, OutlookParams, fitted, load_ahead
from morph_opt.replay.run import replay
from morph_opt.simulation.events.log import RoundDecided
from tests.engine.toys import Fifo, ToySpeeds, cluster, random_trace

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
"""Rounds of replays of generated twins: wall time, instant, active and completed jobs."""

WHOLE = OutlookParams(efficiency=1.0)


def outlook(
    active: tuple[int, float, float],
    coming: list[tuple[float, float, float]],
    time_s: float = 0.0,
    gpus: float = 4.0,
    until_s: float = np.inf,
) -> Outlook:
    submitted, work, most_of = np.asarray(coming, dtype=float).reshape(-1, 3).T
    return Outlook(time_s, gpus, *active, submitted, work, most_of, until_s)


def test_the_least_work_goes_first_on_no_more_gpus_than_a_job_can_use() -> None:
    # Two jobs of 40 GPU-s each, on 3 and 1 of 4 GPUs; one is complete at 40/3 s, the other 80/9 s
    # later on 3 GPUs.
    two = load_ahead(outlook((2, 80.0, 80.0 / 3.0), []), WHOLE)
    assert two == pytest.approx(Load(200.0 / 9.0, 2.0 * 40.0 / 3.0 + 80.0 / 9.0, 2.0))
    # A job that comes at 5 s with less work left takes 4 GPUs for 1 s; nothing runs from 16 s on.
    later = outlook((1, 60.0, 15.0), [(5.0, 4.0, 4.0), (30.0, 8.0, 1.0)])
    assert load_ahead(later, WHOLE) == Load(38.0, 16.0 + 1.0 + 8.0, 5.0)
    # The replay stops at 12 s.
    assert load_ahead(outlook((1, 60.0, 15.0), [], until_s=12.0), WHOLE) == Load(12.0, 12.0, 0.0)
    assert load_ahead(outlook((1, 60.0, 15.0), []), OutlookParams(efficiency=0.5)).seconds == 30.0
    assert load_ahead(outlook((0, 0.0, 0.0), []), WHOLE) == Load(0.0, 0.0, 0.0)


def test_prices_explain_costs_and_are_never_negative() -> None:
    draw = np.random.default_rng(0)
    load = draw.uniform(0.0, [1e5, 1e6, 30.0], (20, 3))
    assert fitted(load, load @ [1e-5, 0.0, 0.2]) == pytest.approx([1e-5, 0.0, 0.2], abs=1e-12)
    assert (fitted(load, load @ [2e-4, -1e-6, 0.3] + 20.0) >= 0.0).all()
    assert fitted(np.zeros((3, 3)), np.ones(3)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_estimates_of_recorded_replays_are_within_a_factor_of_two(path: Path) -> None:
    """At 10, 20, .., 90 % of the time; by completed jobs alone, fewer than half of them are."""
    log = json.loads(path.read_text())
    rounds, jobs = log["rounds"], log["jobs"]
    costs, at, within = Costs(), 0, []
    for row, *active in log["left"]:
        for one in rounds[at : row + 1]:
            costs.add(*one)
        at, time_s = row + 1, rounds[row][1]
        coming = [job for job in jobs if job[0] > time_s]
        found = costs.left_s(outlook(tuple(active), coming, time_s, log["gpus"]))
        assert found is not None
        true = rounds[-1][0] - rounds[row][0]
        within.append(0.5 <= found / true <= 2.0)
    assert len(within) == 9
    assert sum(within) >= 8, within


def test_many_rounds_are_thinned_without_a_change_of_their_sum() -> None:
    few, all_ = Costs(OutlookParams(rounds=8)), Costs()
    for index in range(200):
        for costs in (few, all_):
            costs.add(0.5 * index, 60.0 * index, 4, 0)
    # 60 GPU-s on 0.8 GPUs each take 75 s. A second took 1/120 s.
    ahead = outlook((4, 240.0, 300.0), [], time_s=60.0 * 199)
    assert few.left_s(ahead) == pytest.approx(75.0 / 120.0)
    assert all_.left_s(ahead) == pytest.approx(75.0 / 120.0)


def test_a_replay_states_its_work_left_after_every_round() -> None:
    """Least work by the true speeds: what is done at each round and the jobs to come."""
    jobs = random_trace(3, 8)
    asked: list[Callable[[], Outlook]] = []
    seen: list[tuple[RoundDecided, int, Outlook]] = []
    replay(
        jobs,
        cluster(2, 8),
        Fifo(),
        ToySpeeds(),
        progress=lambda decided, done: seen.append((decided, done, asked[0]())),
        foresee=asked.append,
    )
    assert len(asked) == 1
    for decided, completed, now in seen:
        assert now.active == decided.active
        assert now.active + now.coming_s.size + completed <= len(jobs.jobs)
        assert (now.coming_s > decided.time_s).all()
    whole = [now.left_gpu_s + now.coming_gpu_s.sum() for _, _, now in seen]
    assert whole == sorted(whole, reverse=True)
    assert whole[-1] < whole[0]
