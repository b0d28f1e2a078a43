"""The command of reports/planning, on queues that take a second."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.planning import calibration
from benchmarks.planning.cli import main
from benchmarks.planning.queue import drawn, mean_wait_s, waits_s
from morph_opt.core.domain import Cluster
from morph_opt.replay.run import replay
from morph_opt.simulation.engine.config import ReplayConfig
from tests.engine.toys import Fifo, node_type
from tests.plan.queue import mmk
from tests.sweep.inline import ON, run_cells_here


def test_the_recursion_waits_as_the_engine_does() -> None:
    """To the microsecond, over 60 jobs and three sizes; and Erlang's mean wait is near."""
    work = drawn(100.0, 30.0, 60, 5)
    loaded = mmk("100/30/60", seed=5)
    for servers in (3, 4, 6):
        config = ReplayConfig(interval_s=10.0, restart_s=0.0)
        where = Cluster.uniform(servers, node_type(1))
        found = replay(loaded.trace, where, Fifo(), loaded.truth, config)
        told = [row.waiting_s for row in found.jobs]
        assert told == pytest.approx(waits_s(work, servers, 10.0), abs=1e-6)
    means = [sum(waits_s(drawn(100.0, 30.0, 2000, s), 5, 1.0)) / 2000 for s in range(10)]
    assert sum(means) / 10 == pytest.approx(mean_wait_s(5, 100.0, 30.0), rel=0.3)


def test_a_search_names_the_k_of_the_formula() -> None:
    """The campaign of the report has a hundred queues and more."""
    found = [calibration.search(k, calibration.NEAR[0]) for k in range(3)]
    assert [one.found for one in found] == [one.formula for one in found]
    # Nearer to its mean wait some of its runs miss: they are counted, and no server is bought.
    other = calibration.search(0, 0.3)
    assert (other.found, other.formula) == (5, 5)
    assert other.holds is not None
    assert other.holds >= calibration.SHARE


def test_every_part_is_written_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(calibration, "TRUTH", 40)
    monkeypatch.setattr(calibration, "JOBS", 100)

    run_cells_here(monkeypatch, tmp_path)
    out = tmp_path / "out"
    words = [
        "--runs", str(tmp_path / "runs"), "--out", str(out),
        "--trace", "tests.plan.queue:mmk/300/9/16",
        "--policies", "fifo:skip", "--slo", "avg queued_s <= 200", "--exploration", "2",
        "--share", "0.5", "--confidence", "0.6", *ON,
        "--searches", "2", "--repetitions", "2", "--intervals", "2",
        "--eta-trace", "tests.plan.queue:mmk/100/20/8", "--eta-cluster", "3x1",
        "--eta-workloads", "2", "--eta-every", "3",
    ]  # fmt: skip
    assert main(words) == 0
    names = {
        "README.md",
        "known.json",
        "statistics.json",
        "load.json",
        "eta.json",
        "eta-mmk-100-20-8.csv",
    }
    assert {file.name for file in out.iterdir()} == names | {"cost.svg", "chance.svg", "eta.svg"}
    text = (out / "README.md").read_text()
    answers = json.loads((out / "statistics.json").read_text())["answers"]
    assert [one["near"] for one in answers] == [near for near in calibration.NEAR for _ in range(2)]
    assert "was chosen after others had been tried" in text
    found = json.loads((out / "load.json").read_text())
    nodes = [found[f"fifo:skip x{load}"]["figures"]["nodes"] for load in ("1", "1.3")]
    assert nodes[0] <= nodes[1]
    assert f"| `fifo:skip` | {nodes[0]} | {nodes[1]} | {nodes[1] - nodes[0]} |" in text
    assert all((out / name).read_text().startswith("<?xml") for name in ("cost.svg", "eta.svg"))
    assert max(map(len, text.splitlines())) < 700
    # Asked again, a workload's forecasts are read; a folder of another question is made anew.
    figures = json.loads((out / "eta.json").read_text())["mmk-100-20-8"]
    kept = sorted((tmp_path / "runs" / "eta-mmk-100-20-8").iterdir())
    assert [file.name for file in kept] == ["0.json", "1.json"]
    of_first = json.loads(kept[0].read_text())
    kept[0].write_text(json.dumps(of_first | {"rows": of_first["rows"][:-1]}))
    # What another run has written is a page with its pictures; a policy may be asked at one load.
    load = {"fifo:skip x1": found["fifo:skip x1"]}
    (out / "load.json").write_text(json.dumps(load))
    (out / "cost.svg").unlink()
    assert main(["--only", "page", "--out", str(out)]) == 0
    assert f"| `fifo:skip` | {nodes[0]} | not asked |  |" in (out / "README.md").read_text()
    assert (out / "cost.svg").exists()
    assert main([*words, "--only", "eta"]) == 0
    again = json.loads((out / "eta.json").read_text())["mmk-100-20-8"]
    assert again["forecasts"] == figures["forecasts"] - 1
    assert main([*words[:-1], "4", "--only", "eta"]) == 0
    third = json.loads(kept[0].read_text())
    assert (of_first["made"]["every"], third["made"]["every"]) == (3, 4)


def test_the_pictures_of_the_guide_are_those_of_its_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Asked again, they have the same words and, to half a point, the same places."""
    run_cells_here(monkeypatch, tmp_path, whole=True)
    out = tmp_path / "out"
    words = ["--only", "guide", "--runs", str(tmp_path / "runs"), "--out", str(out)]
    assert main([*words, *ON]) == 0
    guide = Path("docs/how-to/planning.md").read_text()
    for drawn_now in sorted(out.iterdir()):
        assert f"](../figures/{drawn_now.name})" in guide
        texts = [drawn_now.read_text(), (Path("docs/figures") / drawn_now.name).read_text()]
        said = [re.findall(r">([^<>]+)</text>", text) for text in texts]
        assert said[0] == said[1]
        assert len(said[0]) > 8
        assert not any("$" in word or "\\" in word for word in said[0])  # no source of formulas
        places = [
            [float(number) for d in re.findall(r' d="([^"]*)"', text)
             for number in re.findall(r"-?[0-9.]+", d)]
            for text in texts
        ]  # fmt: skip
        assert places[0] == pytest.approx(places[1], abs=0.5)
    assert len(list(out.iterdir())) == 3
