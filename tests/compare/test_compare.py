"""The comparison marks a best run among runs that may be compared, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.compare.cli import _upright, main
from morph_opt.core.table import Table
from morph_opt.hindcast.__main__ import main as hindcast
from tests.hindcast.test_hindcast import Row, line, write
from tests.runs.views.worlds import moved, paired


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("compare")
    return {
        "moved": moved(parent / "moved"),
        "other": moved(parent / "other", seed=2),
        "calm": moved(parent / "calm", failures=False),
        "paired": paired(parent / "paired"),
    }


def printed(words: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_figures_differences_and_jobs(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    said = printed([folders["moved"], folders["other"]], capsys)
    lines = said.splitlines()
    averages = [
        json.loads((folders[name] / "summary.json").read_text())["avg_jct_s"]
        for name in ("moved", "other")
    ]
    change = 100.0 * (averages[1] / averages[0] - 1.0)
    assert lines[0].split("  ")[0] == "run"
    assert lines[0].endswith("no schedule is below")
    assert lines[1].startswith("average JCT (s)")
    assert f"({change:+.1f} %)" in lines[1]
    assert f"*{min(averages):,.0f}" in lines[1]
    assert max(map(len, lines)) <= 120
    assert "completion in shuffler, other less that in shuffler, moved" in said
    row = next(line for line in lines if line.startswith("all "))
    assert row.split()[1] == "12"


def test_many_runs_stand_in_several_tables() -> None:
    plain = Table(
        ("run", "average JCT (s)"), [(f"run {n:02d}", f"1,{n:03d} (+1.0 %)") for n in range(10)]
    )
    tables = [block.to_text() for block in _upright(plain)]
    assert len(tables) == 2
    assert max(map(len, "\n".join(tables).splitlines())) <= 120
    assert [f"run {n:02d}" in "".join(tables) for n in range(10)] == 10 * [True]
    long = Table(("run", "figure"), [(n * 130, "1") for n in "ab"])
    assert len(list(_upright(long))) == 2


def test_runs_that_differ_in_failures_or_trace_are_not_ranked(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for other, why in (("calm", "set of node failures"), ("paired", "another trace")):
        said = printed([folders["moved"], folders[other]], capsys)
        assert "not comparable: " in said
        assert why in said
        assert "*" not in said
        assert "less that" not in said
        assert "no schedule is below" not in said


def test_markdown_and_a_page(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bokeh", reason="the extra report is not installed")
    out = tmp_path / "both.html"
    said = printed([folders["moved"], folders["other"], "--markdown", "--out", out], capsys)
    assert said.startswith("| run | average JCT (s) |")
    assert "| **" in said
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_bad_input_is_one_line(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for words, complaint in (
        ([folders["moved"]], "two run folders or more"),
        ([folders["moved"], folders["moved"]], "given twice"),
        ([folders["moved"], "nothing"], "nothing: is no run folder (it has no summary.json)"),
    ):
        assert main([str(word) for word in words]) == 2
        captured = capsys.readouterr()
        assert complaint in captured.err
        assert captured.err.count("\n") == 1
        assert captured.out == ""


def test_runs_of_a_log_say_its_hindcast_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows: list[Row] = [(0, 0, 600, 4, 20), (60, 600, 600, 4, 20), (61, 1200, 600, 4, 20)]
    spec = write(tmp_path, [line(n, row) for n, row in enumerate(rows)])
    site = ["--cluster", "1x4:A100-80GB"]
    assert hindcast([spec, *site, "--policy", "fifo", "--replays", "4", "--json", "--quiet"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "h.json").write_text(text)
    for name, policy, interval_s in (
        ("a", "fifo", 10.0),
        ("b", "easy", 10.0),
        ("far", "fifo", 1800.0),
    ):
        mo.Scenario(spec, site[1], policy=policy).replaced(interval_s=interval_s).run(name)
    said = printed(["a", "b"], capsys)
    assert said.startswith("hindcast: none given, so nothing states which differences are noise")
    said = printed(["a", "b", "far", "--hindcast", "h.json"], capsys)
    assert said.startswith("hindcast: mean wait of 3 jobs 560 s as recorded")
    noise = [one for one in said.splitlines() if one.startswith("within the noise of the replay")]
    assert any("average queueing of easy, +0 s to fifo, a" in one for one in noise), noise
    assert not any("fifo, far" in one for one in noise)
    twin = mo.Scenario("tests.engine.toys:trace/6", "2x4", policy="fifo")
    for name in ("c", "d"):
        twin.run(name)
    assert "hindcast" not in printed(["c", "d"], capsys)
    for change, words, complaint in (
        ({}, ["c", "d"], "its trace is no log"),
        ({"schema": "x"}, ["a", "b"], "schema: is no morph-opt/hindcast/1"),
        ({"spreads": {"avg_jct_s": [1.0]}}, ["a", "b"], "avg_jct_s: must be the two ends"),
    ):
        (tmp_path / "bad.json").write_text(json.dumps(json.loads(text) | change))
        assert main([*words, "--hindcast", "bad.json"]) == 2
        assert complaint in capsys.readouterr().err
    assert main(["a", "b", "--hindcast", "none.json"]) == 2
