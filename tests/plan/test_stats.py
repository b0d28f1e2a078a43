"""The statistics of planning, by hand and by calibration on drawn samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks.planning.calibration import mean_at_most
from morph_opt.core.domain import InputError
from morph_opt.plan.sequential import Design, design, error_of
from morph_opt.plan.stats import holm, mean_interval, needed, paired, share_at_least, share_interval
from morph_opt.simulation.runs.slo import Slo


def test_workloads_needed_by_hand() -> None:
    """ln(0.025) / ln(0.9) = 35.01; the second test may err with a quarter as much: 48.2."""
    assert [needed(g, 0.95) for g in (0.9, 0.95, 0.99)] == [36, 72, 368]
    assert needed(0.9, 0.95, 2) == 49
    assert sum(error_of(0.95, k) for k in range(1, 40)) == pytest.approx(0.05)


def by_paths(made: Design, share: float) -> float:
    """Probability of being confirmed, path by path: no array, and no early sum."""
    open_, confirmed = {0: 1.0}, 0.0
    for n in range(1, made.most + 1):
        after: dict[int, float] = {}
        for failed, chance in open_.items():
            for more, one in ((0, share), (1, 1.0 - share)):
                after[failed + more] = after.get(failed + more, 0.0) + chance * one
        confirmed += sum(c for f, c in after.items() if f <= made.confirms[n])
        open_ = {f: c for f, c in after.items() if made.confirms[n] < f < made.refuses[n]}
    assert not open_
    return confirmed


@pytest.mark.parametrize(("share", "margin"), [(0.9, 0.05), (0.8, 0.05), (0.5, 0.3), (0.95, 0.025)])
def test_a_sequential_test_keeps_both_errors(share: float, margin: float) -> None:
    for level in (1, 2):
        error = error_of(0.95, level)
        made = design(share, margin, error)
        assert made.clean == needed(share, 0.95, level)
        assert made.error <= error
        assert by_paths(made, share) == pytest.approx(made.error)
        assert by_paths(made, share + margin) == pytest.approx(1.0 - made.missed)
        assert made.missed <= 0.1
        # Worst at the share itself: below, less is confirmed; and above d, less is missed.
        assert by_paths(made, share - 0.03) < made.error
        assert by_paths(made, share + margin + 0.01) > 1.0 - made.missed
        assert by_paths(made, 1.0) == pytest.approx(1.0)


def test_a_sequential_test_is_decided_in_order() -> None:
    """What a batch had beyond the decision does not count, and none is bought for nothing."""
    made = design(0.9, 0.05, 0.0375)
    assert made.decided([True] * 35) is None
    assert made.decided([True] * 36 + [False] * 9) == (36, True)
    assert made.decided([False] * 9) == (5, False)
    draw = np.random.default_rng(5)
    for share in (0.85, 0.95):
        passed = (draw.random(made.most) < share).tolist()
        found = made.decided(passed)
        assert found is not None
        seen = 0
        while made.decided(passed[:seen]) is None:
            seen += made.before_next(seen, passed[:seen].count(False))
        assert seen == found[0]


@pytest.mark.parametrize(
    ("margin", "complaint"),
    [
        (0.1, "must be above 0 and below 0.1"),
        (0.0, "must be above 0"),
        (1e-5, "give more"),
    ],
)
def test_impossible_indifference_is_refused(margin: float, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        design(0.9, margin, 0.0375)


def test_exact_bounds_are_those_of_the_binomial() -> None:
    """At the lower bound p, seeing so many or more has exactly the probability left to error."""
    low = share_at_least(17, 20, 0.95)
    assert scipy_stats.binom.sf(16, 20, low) == pytest.approx(0.05)
    low, high = share_interval(3, 20, 0.9)
    assert scipy_stats.binom.sf(2, 20, low) == pytest.approx(0.05)
    assert scipy_stats.binom.cdf(3, 20, high) == pytest.approx(0.05)


@pytest.mark.parametrize(("count", "times"), [(8, 600), (30, 60)])
def test_intervals_of_means_hold_as_often_as_they_say(count: int, times: int) -> None:
    """Normal samples of mean 5; four standard deviations of the count are allowed."""
    draw = np.random.default_rng(1)
    hits = 0
    for _ in range(times):
        low, high = mean_interval(draw.normal(5.0, 2.0, count).tolist(), 0.9)
        hits += low <= 5.0 <= high
    assert abs(hits - 0.9 * times) <= 4.0 * math.sqrt(times * 0.09) + 0.03 * times
    assert mean_interval([3.0, 3.0], 0.9) == (3.0, 3.0)
    assert math.isnan(mean_interval([3.0], 0.9)[0])
    # One-sided t by hand: mean 2, standard error 1/sqrt(3), t(0.95, 2) = 2.92.
    assert mean_at_most([1.0, 2.0, 3.0], 0.95) == pytest.approx(2.0 + 2.91998558 / math.sqrt(3.0))


def test_a_bootstrap_of_few_is_as_wide_as_they_need() -> None:
    """Exponential samples of 20 at 95 %: 93.6 % of 2,000 hold the mean, of plain BCa 91.6 %.

    The sample itself is asked: the interval is wider than BCa's at z, and reaches further up.
    """
    draw = np.random.default_rng(3)
    for count in (20, 40):
        sample = draw.exponential(1.0, count)
        low, high = mean_interval(sample.tolist(), 0.95)
        plain = scipy_stats.bootstrap(
            (sample,), np.mean, method="BCa", rng=np.random.default_rng(0)
        ).confidence_interval
        # t(0.975, 19) sqrt(20 / 19) = 2.147 for 1.960, t(0.975, 39) sqrt(40 / 39) = 2.048.
        ratio = {20: 2.147, 40: 2.048}[count] / 1.960
        assert (high - low) / (plain.high - plain.low) == pytest.approx(ratio, abs=0.06)
        assert high - sample.mean() > sample.mean() - low


def test_the_sign_flip_test_is_exact() -> None:
    """Six differences of one sign: 2 of 2^6 arrangements are as far out. Below 6: none."""
    before = [float(k) for k in range(6)]
    found = paired(before, [b + 1.0 + 0.1 * b for b in before], 0.95)
    assert found.p == pytest.approx(2.0 / 64.0)
    assert found.mean == pytest.approx(1.25)
    assert found.low > 0.0
    assert math.isnan(paired(before[:5], before[1:], 0.95).p)
    # Common workloads: what they have in common cancels.
    draw = np.random.default_rng(0)
    common, own = draw.normal(0.0, 10.0, 40), draw.normal(0.0, 1.0, 40)
    assert paired(common.tolist(), (common + own).tolist(), 0.95).gain > 50.0


def test_holm_by_hand() -> None:
    """0.01 x 3, 0.02 x 2, 0.03 x 1 and not below the one before; NaN does not count."""
    found = holm({"c": 0.03, "a": 0.01, "b": 0.02, "n": math.nan})
    assert (found["a"], found["b"], found["c"]) == pytest.approx((0.03, 0.04, 0.04))
    assert math.isnan(found["n"])


def test_slos() -> None:
    assert str(Slo.parse("p99.5 queued_s<=900")) == "p99.5 queued_s <= 900"
    assert Slo.parse("mean jct_s <= 5").statistic == "avg"
    assert Slo.parse("makespan_s <= 5").bounded_by == "makespan"
    assert Slo.parse("avg jct_s <= 5").bounded_by == "jct"
    assert Slo.parse("p90 jct_s <= 5").bounded_by == "floors"
    assert Slo.parse("max queued_s <= 5").bounded_by == "floors"
    assert Slo.parse("avg stretch <= 5").bounded_by is None
    assert Slo.parse("avg jct_s >= 5").bounded_by is None
    assert not Slo.parse("gpu_utilization >= 0.5").met_by(math.nan)
    assert Slo.parse("gpu_utilization >= 0.5").met_by(0.5)
    for text, complaint in (
        ("p90 nope <= 5", "unknown metric 'nope'; known are jct_s"),
        ("jct_s <= 5", "needs avg, median, max or p1"),
        ("p0 jct_s <= 5", "needs avg, median"),
        ("avg makespan_s <= 5", "is one figure of a run"),
        ("avg jct_s <= x", "must end in a number"),
        ("avg jct_s <= inf", "finite"),
        ("avg jct_s <= 1_0", "must end in a number"),
        ("avg jct_s < 5", "must look like"),
        ("", "must look like"),
        ("p90 queued_s <= -3", "nothing reaches it: queued_s is never below 0"),
        ("avg stretch <= 0.9", "stretch is never below 1"),
        ("gpu_utilization >= 1.01", "gpu_utilization is never above 1"),
        ("cost_usd <= -1", "cost_usd is never below 0"),
    ):
        with pytest.raises(InputError, match=complaint):
            Slo.parse(text)
    with pytest.raises(InputError, match="1 of 2 jobs are unfinished"):
        Slo.parse("avg jct_s <= 5").value({"jobs": 2, "completed": 1}, tuple)
