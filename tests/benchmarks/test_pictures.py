"""Every picture that a benchmark draws, small: what is read on it can be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

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
from morph_opt.core.table import Table
from tests.documents.drawn import Gallery, functions_that_draw
from tests.perf.worlds import pairs, true_runs

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
PACKAGE = ROOT / "benchmarks"
drawn = Gallery()


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


@pytest.mark.parametrize("name", drawn.makers)
def test_text_in_pictures_is_large_enough_to_read(name: str, tmp_path: Path) -> None:
    said, _ = drawn.looked_at(name, tmp_path)
    assert said
    assert {by: problems for by, problems in said.items() if problems} == {}


def test_every_drawing_function_is_tested(tmp_path: Path) -> None:
    assert len(functions_that_draw(PACKAGE)) > 10
    # What only opens the frame for others, a context of its own, has left when they draw.
    assert {one for one in drawn.unseen(PACKAGE, tmp_path) if not one.endswith(":_drawn")} == set()
