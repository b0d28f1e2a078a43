"""The page says what the run says, is the same twice, and escapes what a trace may name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the extra report is not installed")

import morph_opt
from morph_opt.core.domain import InputError
from morph_opt.report.api import report
from morph_opt.report.cli import main
from morph_opt.report.comparison import compare
from morph_opt.report.drawing.charts import MOST_STEPS
from morph_opt.report.drawing.gantt import Detail, node_shares
from morph_opt.report.paired import differences, pair_jobs
from morph_opt.report.pairs import Pairs
from morph_opt.simulation.runs.views.series import Steps, gpus_held, gpus_there
from morph_opt.simulation.runs.views.view import open_run, open_runs
from tests.report.pages import models, source, tables_of, unpacked
from tests.runs.views.worlds import HOSTILE, hostile, moved, paired


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("report")
    return {
        "moved": moved(parent / "moved"),
        "other": moved(parent / "other", seed=2),
        "third": moved(parent / "third", seed=3),
        "calm": moved(parent / "calm", failures=False),
        "paired": paired(parent / "paired"),
        "hostile": hostile(parent / "hostile"),
    }


@pytest.fixture(scope="module")
def page(folders: dict[str, Path]) -> str:
    """Of one run."""
    return report(folders["moved"])


@pytest.fixture(scope="module")
def both(page: str, folders: dict[str, Path]) -> str:
    """Of two runs that may be compared, made after another page."""
    assert page
    return report([folders["moved"], folders["other"]])


FOUR = ("paired", "moved", "other", "calm")
"""One of another trace, one without failures."""


@pytest.fixture(scope="module")
def four(folders: dict[str, Path]) -> str:
    """Of `FOUR`, of which two may be compared."""
    return report([folders[name] for name in FOUR])


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", ["moved", "paired"])
def test_rectangles_on_the_page_are_the_gpu_seconds_held(
    name: str, four: str, folders: dict[str, Path]
) -> None:
    r = source(unpacked(four, f"run-{FOUR.index(name)}"), "rectangles")
    minutes = (r["right"] - r["left"]) * (r["top"] - r["bottom"])
    unit_s = 60.0  # these runs are shorter than two hours
    held = open_run(folders[name]).values["gpu_s_held"]
    assert float(minutes.sum()) * unit_s == pytest.approx(held, rel=1e-6)


def test_the_table_of_runs_has_the_figures_of_the_summary(
    both: str, folders: dict[str, Path]
) -> None:
    header, first, second, bound = tables_of(both)[0]
    for row, name in ((first, "moved"), (second, "other")):
        s = open_run(folders[name]).run.summary
        cells = dict(zip(header, (cell.split(" (")[0] for cell in row), strict=True))
        assert cells["average JCT (s)"] == f"{s.avg_jct_s:,.0f}"
        assert cells["p99 JCT (s)"] == f"{s.p99_jct_s:,.0f}"
        assert cells["makespan (h)"] == f"{s.makespan_s / 3600:.2f}"
        assert cells["GPUs in use"] == f"{100 * s.gpu_utilization:.1f} %"
        assert cells["restarts per job"] == f"{s.restarts_per_job:.2f}"
    assert bound[0] == "no schedule is below"
    assert "(" not in "".join(first[1:])  # the first run differs from itself by nothing
    ratio = (
        open_run(folders["other"]).run.summary.avg_jct_s
        / open_run(folders["moved"]).run.summary.avg_jct_s
    )
    assert f"({100 * (ratio - 1):+.1f} %)" in second[1]


def test_jobs_on_the_page_are_those_of_the_folder(page: str, folders: dict[str, Path]) -> None:
    view = open_run(folders["moved"])
    document = unpacked(page, "run-0")
    jobs, segments = source(document, "jobs"), source(document, "segments")
    assert jobs["name"] == [row.job for row in view.jobs]
    assert jobs["jct_s"].tolist() == pytest.approx([row.jct_s for row in view.jobs])
    names = [jobs["model_names"][code] for code in jobs["model"]]
    assert names == [row.model for row in view.jobs]
    assert segments["end_s"].tolist() == [segment.end_s for _, segment in view.segments]
    stopped = [segment for _, segment in view.segments if segment.iterations_lost]
    assert stopped
    lost = [value for value in segments["lost_s"].tolist() if value]
    # toy jobs lose what they did in the 5 s before a stop by the policy
    assert len(lost) == len(stopped)


# ---------------------------------------------------------------- comparison


def test_incomparable_figures_are_marked_and_not_bold(four: str, folders: dict[str, Path]) -> None:
    views = open_runs([folders["moved"], folders["calm"], folders["paired"]])
    found = compare(views)
    described = " ".join(found.obstacles)
    assert "another set of node failures" in described
    assert "another trace: two and toy-5" in described
    assert "another cluster" in described
    assert not any(cell.best or cell.difference for row in found.rows for cell in row)
    assert not any(found.bounds)
    assert "<strong>" not in four
    assert "Not comparable: " in four


def test_the_best_of_comparable_runs_is_bold(folders: dict[str, Path]) -> None:
    views = open_runs([folders["moved"], folders["other"]])
    found = compare(views)
    assert found.obstacles == ()
    averages = [view.run.summary.avg_jct_s for view in views]
    best = [row[0].best for row in found.rows]
    assert best == [average == min(averages) for average in averages]
    assert found.to_table().to_text().count("*") == sum(c.best for r in found.rows for c in r)


def test_differences_by_hand(folders: dict[str, Path]) -> None:
    views = open_runs([folders["moved"], folders["other"]])
    pairing = pair_jobs(*views)
    first, second = ({row.job: row.jct_s for row in view.jobs} for view in views)
    changes = [second[name] - first[name] for name in first]
    row = dict(zip(*(differences(pairing).header, differences(pairing).rows[0]), strict=True))
    assert row["number"] == 12
    assert row["mean"] == pytest.approx(sum(changes) / 12)
    assert row["earlier"] == sum(change < -0.5 for change in changes)
    assert row["later"] == sum(change > 0.5 for change in changes)
    assert row["earlier"] + row["same"] + row["later"] == 12
    with pytest.raises(InputError, match="not a run of the same trace"):
        pair_jobs(open_run(folders["moved"]), open_run(folders["paired"]))


def test_any_two_of_several_runs_are_paired(four: str, folders: dict[str, Path]) -> None:
    views = open_runs([folders[name] for name in FOUR])
    found = Pairs.of(views)
    assert set(found.found) == {(1, 2), (2, 1)}
    assert found.shown == (1, 2)
    assert "another set of node failures" in " ".join(found.reasons[1, 3])
    assert set(found.found) | set(found.reasons) == set(permutations(range(4), 2))
    there, back = found.found[1, 2], found.found[2, 1]
    assert there.difference_s.tolist() == [-change for change in back.difference_s.tolist()]
    described = unpacked(four, "pairs")["choices"]
    assert described["1-2"]["tables"][0]["rows"][0][1] == "12"
    assert described["0-1"]["why"][0] == found.reasons[0, 1][0]
    completions = source(unpacked(four, "overview"), "completions")
    assert set(completions) == {"run1", "run2", "name"}
    jcts = {row.job: row.jct_s for row in views[2].jobs}
    assert completions["run2"] == pytest.approx([jcts[name] for name in completions["name"]])


def test_runs_of_one_trace_have_one_time_axis_and_others_their_own(four: str) -> None:
    ends = {
        name: {
            m["attributes"]["end"]
            for m in models(unpacked(four, f"run-{place}"))
            if m["attributes"].get("name") == "time"
        }
        for place, name in enumerate(FOUR)
    }
    assert ends["moved"] == ends["other"] != ends["paired"]
    assert all(len(one) == 1 for one in ends.values())


def test_two_runs_need_no_choice_and_many_large_ones_are_paired_with_the_first(
    both: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'id="pairs-data"' not in both
    assert 'id="choose-pair"' not in both
    monkeypatch.setattr("morph_opt.report.pairs.MOST_PAIRED", 10)
    found = Pairs.of(open_runs([folders[name] for name in ("moved", "other", "third")]))
    assert set(found.found) == {(0, 1), (0, 2)}
    assert "with" in found.reasons[1, 2][0]


def test_bounds_are_of_runs_that_left_no_job(folders: dict[str, Path]) -> None:
    (view,) = open_runs([folders["moved"]])
    assert any(compare([view]).bounds)
    view.run.summary = replace(view.run.summary, completed=11)  # type: ignore[misc]
    assert not any(compare([view]).bounds)


# ---------------------------------------------------------------- series


def test_steps_by_hand() -> None:
    """4 GPUs from 10 to 30, 2 from 20 to 40: 4, 6, 2."""
    import numpy as np

    of = [np.asarray(values, dtype=float) for values in ([10, 20], [30, 40], [4, 2])]
    steps = Steps.of_intervals(*of, 50.0)
    assert steps.time_s.tolist() == [0, 10, 20, 30, 40, 50]
    assert steps.value.tolist() == [0, 4, 6, 2, 0, 0]
    # 0-25: 10 x 4 + 5 x 6 = 70; 25-50: 5 x 6 + 10 x 2 = 50
    assert steps.mean(np.asarray([0.0, 25.0, 50.0])).tolist() == [70 / 25, 50 / 25]
    thin = steps.thinned(2)
    assert thin.value.tolist() == [2.8, 2.0, 2.0]
    assert steps.thinned(MOST_STEPS) is steps


def test_gpus_over_time_add_up(folders: dict[str, Path]) -> None:
    import numpy as np

    view = open_run(folders["moved"])
    edges = np.asarray([0.0, view.end_s])
    held = float(gpus_held(view).mean(edges)[0]) * view.end_s
    assert held == pytest.approx(view.values["gpu_s_held"], rel=1e-9)
    productive = float(gpus_held(view, productive=True).mean(edges)[0]) * view.end_s
    share = view.values["gpu_productive_share"]
    assert productive / held == pytest.approx(share, rel=1e-9)
    there = gpus_there(view)
    assert there.value[np.searchsorted(there.time_s, 800.0, "right") - 1] == 4.0
    node, start_s, end_s, part = node_shares(view)
    whole = float((part * (end_s - start_s) * 4).sum()) if node.size else 0.0
    assert whole == pytest.approx(held, rel=2e-3)  # shares below 0.0005 are left out


# ---------------------------------------------------------------- the file


def test_the_same_folders_give_the_same_bytes(
    both: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    runs = [folders["moved"], folders["other"]]
    out = tmp_path / "a.html"
    call = [sys.executable, "-m", "morph_opt.report", *map(str, runs), "--out", str(out)]
    environment = os.environ | {"PYTHONHASHSEED": "1"}  # this process has another one
    subprocess.run(call, check=True, capture_output=True, env=environment)
    assert out.read_text("utf-8") == both


def test_report_loads_nothing_and_is_small(page: str) -> None:
    assert "default-src 'none'" in page
    assert "unsafe-eval" not in page
    without = page.replace("http://www.w3.org/2000/svg", "")  # a name, never loaded
    assert "http:" not in without
    assert "https:" not in without
    assert len(page) < 1.0e6


def test_names_of_a_trace_are_text(folders: dict[str, Path]) -> None:
    page = report([folders["hostile"], folders["moved"]])
    for text in ("<b>0</b>", "<u>trace</u>", "<i>0", "<script>alert", "<img"):
        assert text not in page
    assert source(unpacked(page, "run-0"), "jobs")["name"] == list(HOSTILE)
    assert page.count("<script") == page.count("</script>")


def test_report_module_is_callable(folders: dict[str, Path], tmp_path: Path) -> None:
    import morph_opt.report as package

    out = tmp_path / "a.html"
    run = morph_opt.read_run(folders["paired"])
    assert morph_opt.report(run, out) == package(run) == out.read_text("utf-8")  # type: ignore[operator]


def test_a_large_cluster_is_drawn_by_node(folders: dict[str, Path]) -> None:
    view = open_run(folders["moved"])
    assert Detail.of(view) == Detail(by_node=False, by_gpu=True)
    view.nodes = type(view.nodes)(  # type: ignore[misc]
        tuple(f"n{k}" for k in range(65)), (4,) * 65, ("A",) * 65
    )
    assert Detail.of(view) == Detail(by_node=True, by_gpu=True)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda run: (run / "summary.json").unlink(), "summary.json"),
        (lambda run: (run / "events.jsonl").rename(run / "events.jsonl.partial"), "--resume"),
        (lambda run: (run / "events.jsonl").write_text("{}\n"), "events.jsonl, line 1"),
        (lambda run: (run / "rounds.csv").write_text("a,b\n1,2\n"), "rounds.csv"),
        (lambda run: (run / "jobs.csv").write_text("job\n"), "jobs.csv"),
        (lambda run: (run / "versions.json").write_text("[1]"), "versions.json"),
        (lambda run: (run / "config.toml").write_text("a = 1\nx = = 1\n"), "config.toml, line 2"),
        (lambda run: (run / "explain.jsonl").write_text("[]\n"), "explain.jsonl"),
    ],
    ids=["summary", "partial", "events", "rounds", "jobs", "versions", "config", "explain"],
)
def test_a_damaged_folder_is_named_and_nothing_is_written(
    damage: object,
    complaint: str,
    folders: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, out = tmp_path / "run", tmp_path / "out.html"
    shutil.copytree(folders["moved"], run)
    damage(run)  # type: ignore[operator]
    assert main([str(run), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_folders_of_plan_and_sweep_are_passed_over_beside_runs(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of ``runs/*`` is what one types; a folder alone, or nothing else, stays an error."""
    for name in ("answer.json", "sweep.json", "cells/key/cell.json"):
        (tmp_path / name[:5] / name).parent.mkdir(parents=True)
        (tmp_path / name[:5] / name).write_text("{}")
    others = [str(tmp_path / name) for name in ("answe", "sweep", "cells")]
    out = tmp_path / "out.html"
    assert main([others[0], str(folders["moved"]), *others[1:], "--out", str(out)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in said[:-1]] == others
    assert out.read_text("utf-8") == report(folders["moved"])
    out.unlink()
    for words, complaint in ((others, "an answer of plan"), (others[1:2], "sweep table reads it")):
        assert main([*words, "--out", str(out)]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert complaint in said[0]
    assert not out.exists()


def test_a_file_that_is_no_page_is_refused(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folders["moved"]), "--out", "x.txt"]) == 2
    assert "must end in .html" in capsys.readouterr().err
