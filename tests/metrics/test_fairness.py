"""Fairness metrics: two jobs by hand, and the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from morph_opt.core.domain import Trace
from morph_opt.core.domain.trace import Search
from morph_opt.replay import cli
from morph_opt.replay.run import replay
from morph_opt.report.picture import main as picture
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.metrics.fairness import jain, mean_active
from tests.policies.worlds import LINEAR, cluster, job, speeds


def run(*jobs, gpus=1, searches=(), **engine):
    config = ReplayConfig(**({"interval_s": 60.0, "restart_s": 0.0} | engine))
    policy = make_policy("fifo", LINEAR, PolicyOptions())
    trace = Trace.of("two", jobs, searches=searches)
    return replay(trace, cluster(gpus), policy, LINEAR, config)


def sized(name, iterations, submission_s=0.0, gpus=1, **other):
    return replace(job(name, gpus), iterations=iterations, submission_s=submission_s, **other)


def test_two_jobs_on_one_gpu_by_hand():
    # Both come at 0; the first runs from 60 to 660 (75 iterations of 8 s), the second from 660
    # to 1260. During the first job's life two are active; during the second's 1 + 660/1260.
    summary = run(sized("a", 75), sized("b", 75, tenant="other")).summary
    first = 660.0 / (600.0 * 2.0)
    second = 1260.0 / (600.0 * (1.0 + 660.0 / 1260.0))
    assert summary["ftf_max"] == pytest.approx(second)
    assert summary["ftf_mean"] == pytest.approx((first + second) / 2)
    assert summary["ftf_above_1"] == 0.5
    a, b = 600.0 / 660.0, 600.0 / 1260.0
    assert summary["jain_service"] == pytest.approx((a + b) ** 2 / (2 * (a * a + b * b)))
    assert summary["entity_shares"] == "default=0.500 other=0.500"
    assert summary["queue_small_s"] == pytest.approx((60.0 + 660.0) / 2)
    assert summary["queue_medium_s"] is None


def test_a_private_share_of_a_wide_job_is_slower_and_pays_one_start():
    # Alone: n = 1, the gang of 2 has all it asked for. JCT 60 + 30 + 300 over 30 + 300.
    alone = run(sized("w", 75, gpus=2), gpus=2, restart_s=30.0).summary
    assert alone["ftf_max"] == pytest.approx(390.0 / 330.0)
    assert alone["queue_medium_s"] == pytest.approx(60.0)


def test_a_private_share_pays_the_first_start_of_its_model():
    """Start-up 30 s, of this model 7 s: JCT 60 + 7 + 300 over 7 + 300 s; first starts free: 0 s."""
    by_model = {"restart_s": 30.0, "restart_s_by_model": {"m": 7.0}}
    alone = run(sized("w", 75, gpus=2), gpus=2, **by_model).summary
    assert alone["ftf_max"] == pytest.approx(367.0 / 307.0)
    free = run(sized("w", 75, gpus=2), gpus=2, **by_model, first_start_s=0.0).summary
    assert free["ftf_max"] == pytest.approx(360.0 / 300.0)


def test_cancelled_jobs_are_active_until_they_are_cancelled():
    """a and b on two GPUs from 60 s; both have reported at 540 s, where the search ends b.

    a is complete at 60 + 600 x 8 = 4860 s. b was there for 540 s and held its GPU for 480 s.
    """
    a, b = (replace(sized(name, 600), feedback_iterations=60) for name in "ab")
    summary = run(a, b, gpus=2, searches=[Search("s", ("a", "b"), keep=1)]).summary
    assert summary["cancelled_jobs"] == 1
    active = 1.0 + 540.0 / 4860.0
    assert summary["ftf_max"] == pytest.approx(4860.0 / (600 * 8.0 / min(1.0, 2.0 / active)))
    service = 4800.0 / 4860.0, 480.0 / 540.0
    assert summary["jain_service"] == pytest.approx(jain(service))


def test_a_gang_that_fits_no_node_is_measured_by_where_it_fits():
    # 8 threads per GPU of 16: 2 GPUs of a node, and the gang of 4 on two nodes at 3 s.
    belief = speeds({"m": {"4": 2.0, "2+2": 3.0}})
    wide = sized("w", 100, gpus=4, guaranteed=True, cpus_per_gpu=8)
    policy = make_policy("milp", belief, PolicyOptions(objective="jct"))
    config = ReplayConfig(interval_s=60.0, restart_s=0.0)
    summary = replay(Trace.of("w", [wide]), cluster(4, 4, cpus=16), policy, belief, config).summary
    assert summary["ftf_max"] == pytest.approx(360.0 / 300.0)
    assert summary["rounds_guarantees_short"] == 0
    assert summary["guaranteed_late_jobs"] == 0


def test_shares_over_time_by_hand():
    # One hour and one minute each: in the only full hour both are there, the second has nothing.
    summary = run(sized("a", 600), sized("b", 600)).summary
    assert summary["min_share_worst"] == 0.0


def test_jain_index():
    assert jain([1.0, 1.0, 1.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([0.0]) is None


def test_the_figure_is_drawn_from_run_folders_and_bytes_are_stable(tmp_path: Path, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "run"
    call = ["--trace", "gavel-96", "--cluster", "1x4:V100", "--policy", "fifo", "--quiet"]
    call += ["--interval", "3600", "--out", str(folder)]
    assert cli.main(call) == 0
    assert "finish_time_ratio" in (folder / "jobs.csv").read_text().splitlines()[0]
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    assert picture(["cdf", str(folder), "--of", "finish-time-ratio", "--out", str(one)]) == 0
    assert picture(["cdf", str(folder), "--of", "finish-time-ratio", "--out", str(two)]) == 0
    assert one.read_bytes() == two.read_bytes()
    assert picture(["cdf", str(tmp_path), "--out", str(two)]) == 2
    assert "summary.json" in capsys.readouterr().err


def test_mean_active_by_hand() -> None:
    """Lives [0, 10], [4, 6], [5, 25]: the first sees 2 s of the second, 5 s of the third."""
    found = mean_active(np.array([0.0, 4.0, 5.0]), np.array([10.0, 6.0, 25.0]))
    assert found.tolist() == [1 + 0.2 + 0.5, 1 + 1 + 0.5, 1 + 0.25 + 0.05]


@pytest.mark.parametrize("seed", range(20))
def test_mean_active_is_the_sum_of_overlaps(seed: int) -> None:
    """By definition, over whole seconds: ties, lives without length, lives inside lives."""
    draw = np.random.default_rng(seed)
    jobs = int(draw.integers(0, 40))
    starts = draw.integers(0, 60, jobs).astype(float)
    ends = starts + draw.integers(0, 30, jobs)
    wanted = [
        max(1.0, np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0.0).sum() / life)
        for start, end in zip(starts, ends, strict=True)
        for life in (max(end - start, 1e-9),)
    ]
    assert mean_active(starts, ends) == pytest.approx(wanted, rel=1e-12)
