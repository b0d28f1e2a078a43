"""The search with hindsight: it falls, can be continued, and is no less than bounds."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import hindsight
from morph_opt.engine.config import ReplayConfig
from morph_opt.metrics.bounds.demands import job_demands
from morph_opt.metrics.bounds.lower import avg_jct_lower_bound
from tests.engine.toys import ToySpeeds, cluster, random_trace


def smith(log_weight: np.ndarray) -> np.ndarray:
    """Jobs of 1, 2 ... seconds on one machine, the heaviest first; ties by number from the last."""
    size = np.arange(1.0, log_weight.size + 1)
    order = np.lexsort((-size, -log_weight))
    ends = np.empty(size.size)
    ends[order] = np.cumsum(size[order])
    return ends


def test_a_search_comes_near_the_order_that_is_best() -> None:
    """Longest first without weights: mean 15 + 14 ... of 5 jobs; shortest first has 35 / 5 = 7."""
    floor = np.arange(1.0, 6.0)
    search = hindsight.begin(smith, floor)
    assert search.best_s == search.plain_s == pytest.approx((5 + 9 + 12 + 14 + 15) / 5)
    seen = [search.best_s]
    for _ in range(300):
        search = hindsight.step(search, smith, floor)
        seen.append(search.best_s)
        assert search.best_s == pytest.approx(smith(search.log_weight).mean())
    assert seen == sorted(seen, reverse=True)
    assert search.best_s == pytest.approx(7.0)
    assert search.replays == 301


def test_a_search_goes_on_where_it_ended(tmp_path, monkeypatch, capsys) -> None:
    """Two replays and two more are the four in one go, to the byte; the report has the bound."""
    loaded = hindsight.load_trace("naive", seed=0)
    trace, speeds, nodes = random_trace(1, 6, span_s=600), ToySpeeds(), cluster(1, 4)
    monkeypatch.setattr(
        hindsight, "load_trace", lambda *_, **__: replace(loaded, trace=trace, truth=speeds)
    )
    monkeypatch.setattr(hindsight, "default_cluster", lambda: nodes)
    for folder, goes in (("two", ("2", "4")), ("one", ("4",))):
        for replays in goes:
            call = ["--trace", "toy", "--replays", replays, "--out", str(tmp_path / folder)]
            assert hindsight.main(call) == 0
    names = ("search.csv", "README.md", "weights/toy-0.csv")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with (tmp_path / "one" / "search.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    bound_s = avg_jct_lower_bound(job_demands(trace, nodes, speeds, ReplayConfig())).value_s
    assert row["bound_s"] == f"{bound_s:.1f}"
    assert bound_s <= float(row["hindsight_s"]) + 0.05 <= float(row["plain_s"]) + 0.1
    assert row["replays"] == "4"
