"""The command of reports/planning, on queues that take a second."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.planning import calibration
from benchmarks.planning.cli import main
from benchmarks.planning.queue import drawn, mean_wait_s, waits_s
from morph_opt.domain import Cluster
from morph_opt.replay import ReplayConfig, replay
from morph_opt.replay.scenario import read_scenario
from morph_opt.runs.jobs import jobs_csv
from morph_opt.runs.summary import summary_json
from morph_opt.sweep import Done, driver
from morph_opt.sweep.order import Order
from tests.engine.toys import Fifo, node_type
from tests.plan.queue import mmk


def test_the_recursion_waits_as_the_engine_does() -> None:
    """To the microsecond, over 60 jobs and three sizes; and Erlang's mean wait is near."""
    work = drawn(100.0, 30.0, 60, 5)
    loaded = mmk("100/30/60", seed=5)
    for servers in (3, 4, 6):
        config = ReplayConfig(interval_s=10.0, restart_s=0.0)
        where = Cluster.uniform(servers, node_type(1))
        found = replay(loaded.trace, where, Fifo(), loaded.truth, config)
        told = [row.waiting_time for row in found.jobs]
        assert told == pytest.approx(waits_s(work, servers, 10.0), abs=1e-6)
    means = [sum(waits_s(drawn(100.0, 30.0, 2000, s), 5, 1.0)) / 2000 for s in range(10)]
    assert sum(means) / 10 == pytest.approx(mean_wait_s(5, 100.0, 30.0), rel=0.3)


def test_a_search_names_the_k_of_the_formula() -> None:
    """The campaign of the report has a hundred queues and more."""
    found = [calibration.search(k) for k in range(3)]
    assert [one.found for one in found] == [one.formula for one in found]


def test_every_part_is_written_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(calibration, "TRUTH", 40)
    monkeypatch.setattr(calibration, "JOBS", 100)

    def work(order: Order) -> Done:
        (tmp_path / "config.toml").write_text(order.config)
        run = read_scenario(tmp_path / "config.toml").run()
        texts = {"summary.json": summary_json(run.summary.values), "jobs.csv": jobs_csv(run.jobs)}
        return Done({name: text.encode() for name, text in texts.items()}, 0.1, "here")

    monkeypatch.setattr(driver.worker, "work", work)
    out = tmp_path / "out"
    words = [
        "--runs", str(tmp_path / "runs"), "--out", str(out),
        "--trace", "tests.plan.queue:mmk/600/9/20",
        "--policies", "fifo:skip", "--slo", "avg queued_s <= 200", "--exploration", "2",
        "--share", "0.5", "--confidence", "0.6", "--on", "tests.sweep.poison:Inline",
        "--repetitions", "2", "--eta-trace", "tests.plan.queue:mmk/100/20/12",
        "--eta-cluster", "3x1", "--eta-workloads", "2", "--eta-every", "3",
    ]  # fmt: skip
    assert main(words) == 0
    names = {"README.md", "statistics.json", "load.json", "eta.json", "eta.csv"}
    assert {file.name for file in out.iterdir()} == names | {"cost.svg", "chance.svg", "eta.svg"}
    text = (out / "README.md").read_text()
    found = json.loads((out / "load.json").read_text())
    nodes = [found[f"fifo:skip x{load}"]["figures"]["nodes"] for load in ("1", "1.3")]
    assert nodes[0] <= nodes[1]
    assert f"| `fifo:skip` | {nodes[0]} | {nodes[1]} | {nodes[1] - nodes[0]} |" in text
    assert all((out / name).read_text().startswith("<?xml") for name in ("cost.svg", "eta.svg"))
    assert max(map(len, text.splitlines())) < 700
