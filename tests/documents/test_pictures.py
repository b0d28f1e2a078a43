"""Every picture that the product or a benchmark draws, small: what is read on it can be read."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra plot is not installed")
pytest.importorskip("pandas", reason="the extra for logs is not installed")

from benchmarks.acme import plots as acme
from benchmarks.comparison.calibration import picture
from benchmarks.comparison.cli import read_records
from benchmarks.comparison.picture import over_the_default
from benchmarks.live import page as live_page
from benchmarks.perf import figures as perf
from benchmarks.perf.protocol import Judged
from benchmarks.planning import figures as planning
from benchmarks.readme import figure as readme
from benchmarks.readme.results import load
from benchmarks.scale import cli as scale
from benchmarks.scale import page as scale_page
from benchmarks.solvers import figures as solvers
from benchmarks.solvers.protocol import read_rows
from morph_opt.audit import Audit
from morph_opt.audit.instants import Instant
from morph_opt.audit.report import draw as draw_audit
from morph_opt.clusters import load_cluster
from morph_opt.documents.figures import drawing, logarithmic
from morph_opt.perf.analytic.prior import prior
from morph_opt.perf.analytic.zoo import builtin_population
from morph_opt.perf.figures import fit_figure
from morph_opt.perf.fitting.fit import fit
from morph_opt.report.picture import MEASURES, draw_cdf, draw_timeline
from morph_opt.runs.views import open_run, open_runs
from morph_opt.table import Table
from morph_opt.topology.draw import draw_topology
from morph_opt.traces.logs import Reading
from morph_opt.traces.logs.describe import draw as draw_log
from morph_opt.traces.logs.frame import read_frame
from morph_opt.traces.logs.guess import chosen
from tests.documents.drawn import problems, watched
from tests.perf.worlds import entry, pairs, true_runs
from tests.runs.views.worlds import hostile, moved, paired
from tests.traces.logs.test_describe import log

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
Looked = tuple[dict[str, list[str]], set[str]]
DRAW: dict[str, Callable[[Path], object]] = {}


def drawn(draw: Callable[[Path], object]) -> Callable[[Path], object]:
    DRAW[draw.__name__] = draw
    return draw


@drawn
def planning_pages(_: Path) -> None:
    found = json.loads((REPORTS / "planning" / "load.json").read_text("utf-8"))
    evidence = {name: one["evidence"] for name, one in found.items()}
    planning.cost_against_service(evidence, 1200.0, planning.worded("avg", "jct_s"), 16.0)
    planning.chance_by_nodes(evidence, 0.9)
    groups = json.loads((REPORTS / "planning" / "eta.json").read_text("utf-8"))
    planning.coverage([group for one in groups.values() for group in one["groups"]])
    quantiles = {"q10_s": 3000.0, "q50_s": 3300.0, "q90_s": 4000.0}
    row = {"open": True, "job": "bert-17", "what": "start", "at_s": 1e3, "actual_s": 3e3}
    planning.forecasts([row | quantiles] * 7)


@drawn
def readme_pictures(folder: Path) -> None:
    for narrow in (False, True):
        readme.draw(load(REPORTS / "readme"), "base", folder / "a.svg", narrow=narrow)


@drawn
def comparison(_: Path) -> None:
    # As many panels abreast as there may be, of names of every length; bands are alike.
    traces = "naive", "base", "gavel-96", "philly-bursts", "easyscale-twin", "morphling/base"
    records = read_records(REPORTS / "comparison" / "results.csv")
    records = [one for one in records if one.trace in traces]
    over_the_default(records, list(dict.fromkeys(one.policy for one in records)))
    over_the_default([], [])
    picture({"base": [0.1, 0.5, 0.9], "gavel-96": [0.2, 0.3]})


@drawn
def solving(folder: Path) -> None:
    scale_page.draw(scale.read(REPORTS / "scale"), folder / "a.svg")
    scale_page.draw([], folder / "a.svg")
    scale_page.draw_distances(scale.read(REPORTS / "scale"), folder / "a.svg")
    scale_page.draw_distances([], folder / "a.svg")
    rows = read_rows(REPORTS / "solvers" / "raw.csv")
    solvers.draw_profile(rows, folder / "a.svg")
    solvers.draw_sizes(rows, folder / "a.svg")


@drawn
def performance(folder: Path) -> None:
    judged = []
    for place, model in enumerate(("bert", "gpt2", "llama30", "llama7", "roberta", "t5", "vit")):
        runs = tuple(true_runs(model, pairs(model, 64 if model == "llama30" else 8)))
        error = np.linspace(-0.1, 0.1, len(runs))
        listed = np.arange(len(runs)) % 5 == place
        judged.append(Judged(model, runs, error, error, listed, runs[:8], ()))
    perf.protocol_figure(judged, folder / "a.svg")
    limits = ("4 x 8 GPUs", "4 x 4 GPUs", "4 GPUs", "1 GPU", "1 GPU, twice the CPUs")
    series = {
        name: [13.0, 8.0, 3.0, 0.0, 0.1]
        for name in ("round MILP", "TP+DP", "TP+PP", "Megatron 3D", "ZeRO-Offload+GC")
    }
    perf.dot_rows(limits, series, "samples per second (0: cannot run)", folder / "a.svg")
    panels = {"GPUs": [8.0, 4.0, 1.0], "samples per rank and iteration": [2.0, 4.0, 16.0]}
    perf.over_time([4.0, 4.5, 5.75, 6.0], panels, "gpt2-33: starts and changes", folder / "a.svg")
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
def study(folder: Path) -> None:
    series = [
        acme.Series("Seren, all jobs of 2023", (0.5, 60.0, 3e5), (1.0, 50.0, 100.0)),
        acme.Series("Kalos", (1.0, 90.0, 9e5), (2.0, 60.0, 100.0), points=True),
    ]
    names = ("Evaluation", "Pretrain", "Debug", "SFT", "MLLM", "Other types of work")
    for panels in (
        (acme.Curves("All", "run time (s)", "jobs (%)", series, log_x=True, line=(600.0, "ten")),),
        (
            acme.Shares(
                "Of jobs",
                names,
                [(f"cluster {n}", (50.0, 20.0, 10.0, 10.0, 9.0, 1.0)) for n in range(5)],
            ),
        )
        * 2,
        (acme.Bars("Median", "run time (s)", [(name, 100.0) for name in names]),),
        (acme.Boxes("Asked for", "GPUs", [(n, (1.0, 2.0, 8.0, 64.0, 1024.0)) for n in names]),),
    ):
        table = Table(("a",), [(1,)])
        acme.draw(
            acme.Plot("A1", "What is shown", panels, ("A note. " * 20,), table), folder / "a.png"
        )


@drawn
def beside_slurm(folder: Path) -> None:
    shutil.copytree(REPORTS / "live", folder, dirs_exist_ok=True)
    live_page.write(folder)


@drawn
def topologies(folder: Path) -> None:
    for cluster in ("1x1", "2x8", "3x8+2x4:V100"):
        draw_topology(load_cluster(cluster), folder / "a.svg")


@drawn
def reports(folder: Path) -> None:
    views = open_runs([moved(folder / "one"), moved(folder / "two", seed=2), paired(folder / "p")])
    for one in (*views, open_run(hostile(folder / "hostile"))):
        draw_timeline(one)
    for of in MEASURES:
        draw_cdf(views[:2], of)


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Looked]:
    """Problems of a maker by function that drew, and which functions drew."""

    @cache
    def look(name: str) -> Looked:
        found: Looked = ({}, set())
        with watched(*found):
            DRAW[name](tmp_path_factory.mktemp(name))
        return found

    return look


@pytest.mark.parametrize("name", DRAW)
def test_what_is_read_on_a_picture_can_be_read(
    name: str, looked_at: Callable[[str], Looked]
) -> None:
    said, _ = looked_at(name)
    assert said
    assert {by: problems for by, problems in said.items() if problems} == {}


def test_every_function_that_draws_is_looked_at(looked_at: Callable[[str], Looked]) -> None:
    """Whoever opens the frame of figures stands in the table above."""
    drawing_functions = set()
    for folder in ("morph_opt", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            for function in ast.walk(ast.parse(text)) if "drawing(" in text else ():
                if isinstance(function, ast.FunctionDef) and any(
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "drawing"
                    for node in ast.walk(function)
                ):
                    drawing_functions.add(f"{path}:{function.name}")
    assert len(drawing_functions) > 15
    # What only opens the frame for others, a context of its own, has left when they draw.
    seen = set().union(*(looked_at(name)[1] for name in DRAW))
    assert {one for one in drawing_functions - seen if not one.endswith(":_drawn")} == set()


def test_nothing_else_draws(project_root: Path) -> None:
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
def test_other_faults_are_found(what: str) -> None:
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
