"""Every picture that the product draws, small: what is read on it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra plot is not installed")
pytest.importorskip("pandas", reason="the extra for logs is not installed")

from morph_opt.audit.instants import Audit, Instant
from morph_opt.audit.report import draw as draw_audit
from morph_opt.core.documents.figures import drawing, logarithmic
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.analytic.prior import prior
from morph_opt.inputs.perf.analytic.zoo import builtin_population
from morph_opt.inputs.perf.figures import fit_figure
from morph_opt.inputs.perf.fitting.fit import fit
from morph_opt.inputs.topology.draw import draw_topology
from morph_opt.inputs.traces.logs.describe import draw as draw_log
from morph_opt.inputs.traces.logs.frame import read_frame
from morph_opt.inputs.traces.logs.guess import chosen
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.moves.api import moves
from morph_opt.moves.picture import draw_moves
from morph_opt.report.picture import MEASURES, draw_cdf, draw_timeline
from morph_opt.simulation.runs.views.view import open_run, open_runs
from tests.documents.drawn import Gallery, functions_that_draw, problems
from tests.moves.states import HELD, snapshot
from tests.perf.worlds import entry, pairs, true_runs
from tests.runs.views.worlds import hostile, moved, paired
from tests.traces.logs.test_describe import log

PACKAGE = Path(__file__).resolve().parents[2] / "morph_opt"
drawn = Gallery()


@drawn
def fits(folder: Path) -> None:
    known = entry()
    runs = true_runs("bert", [pair for pair in pairs() if pair[0].label in {"8", "2", "4+4", "1"}])
    found = fit(known.architecture, runs, prior(known.architecture, builtin_population()))
    fit_figure(found, pairs("bert", 64), folder / "a.svg")


@drawn
def logs(folder: Path) -> None:
    draw_log(read_frame(chosen(log(folder), "acme", Reading())), folder / "a.svg")
    instants = tuple(
        Instant(
            1.7e9 + 300.0 * n,
            used=64 - n,
            idle=n,
            waiting=n,
            waiting_gpus=8 * n,
            fillable=n // 2,
            bound=n // 2,
            by_count=n // 2,
            started=(),
        )
        for n in range(20)
    )
    draw_audit(
        Audit(300.0, 64, instants, ()), "table:jobs-of-the-last-quarter.csv", folder / "b.svg"
    )


@drawn
def topologies(folder: Path) -> None:
    for cluster in ("1x1", "2x8", "3x8+2x4:V100"):
        draw_topology(load_cluster(cluster), folder / "a.svg")


@drawn
def moved_jobs(folder: Path) -> None:
    answer = moves(snapshot(HELD, {"new": 4}), start="new")
    draw_moves(answer, folder / "a.svg")


@drawn
def reports(folder: Path) -> None:
    views = open_runs([moved(folder / "one"), moved(folder / "two", seed=2), paired(folder / "p")])
    for one in (*views, open_run(hostile(folder / "hostile"))):
        draw_timeline(one)
    for of in MEASURES:
        draw_cdf(views[:2], of)


@pytest.mark.parametrize("name", drawn.makers)
def test_text_in_pictures_is_large_enough_to_read(name: str, tmp_path: Path) -> None:
    said, _ = drawn.looked_at(name, tmp_path)
    assert said
    assert {by: problems for by, problems in said.items() if problems} == {}


def test_every_drawing_function_is_tested(tmp_path: Path) -> None:
    """Whoever opens the frame of figures stands in the table above."""
    assert len(functions_that_draw(PACKAGE)) > 4
    assert drawn.unseen(PACKAGE, tmp_path) == set()


def test_pyplot_and_colours_are_used_in_the_drawing_modules_alone(project_root: Path) -> None:
    """No picture without the style sheet: pyplot has its own frame, and colours are stated once."""
    for folder in ("morph_opt", "benchmarks"):
        for path in (project_root / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            assert "pyplot" not in text, path
            if path.name != "style.py":
                assert not any(f'"#{digit}' in text for digit in "0123456789abcdefABCDEF"), path


# ---------------------------------------------------------------- worlds that must fail


def test_labels_that_collide_are_found() -> None:
    """What ``micro-batch.svg`` was: a plan at every change, side by side."""
    with drawing((6.0, 3.0)) as (figure, _):
        axes = figure.subplots()
        axes.stairs([8.0, 4.0] * 7, range(15), baseline=None)
        axes.set_xticks([n + 0.5 for n in range(14)], ["zero-dp", "dp+ga"] * 7)
        axes.set(ylabel="GPUs")
        said = problems(figure)
    assert "'zero-dp' and 'dp+ga' stand on each other" in said
    assert not [one for one in said if "stand on each other" not in one]


@pytest.mark.parametrize("what", ["beyond", "tilted", "quantity", "ground", "palette"])
def test_each_kind_of_fault_in_pictures_is_found(what: str) -> None:
    with drawing((4.0, 3.0)) as (figure, _):
        axes = figure.subplots()
        axes.plot([1.0, 2.0], [1.0, 2.0], color="#123456" if what == "palette" else None)
        axes.set(xlabel="time (s)", ylabel="" if what == "quantity" else "GPUs")
        if what == "beyond":
            figure.text(0.9, 0.01, "a text that is longer than what is left")
        if what == "tilted":
            axes.tick_params(axis="x", rotation=30)
        if what == "ground":
            axes.set_facecolor("white")
        said = problems(figure)
    assert said
    assert all(what in one for one in said)


@pytest.mark.parametrize("high", [1.5, 3.0, 20.0, 500.0, 1e4, 1e9, 1e12])
def test_logarithmic_axes_have_numbers_that_do_not_collide(high: float) -> None:
    with drawing((3.2, 2.4)) as (figure, _):
        axes = figure.subplots()
        axes.plot([1.0, high], [1.0, high])
        logarithmic(axes.xaxis, 1.0, high)
        logarithmic(axes.yaxis, 1.0, high)
        axes.set(xlabel="s", ylabel="s")
        assert problems(figure) == []
        shown = [one for one in axes.get_xticks() if 1.0 <= one <= high]
    assert len(shown) >= 2
