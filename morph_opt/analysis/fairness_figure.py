"""Figure: distribution of the finish-time ratio per policy, from run folders.

python -m morph_opt.analysis.fairness_figure runs/a runs/b --out fairness.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.documents import exists, read_json, read_rows
from morph_opt.domain import InputError

_STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", "-"),
    ("#56B4E9", "--"),
    ("#000000", "-."),
)
"""Okabe and Ito's colours with line styles that tell them apart in grey."""


def ratios_of(folder: Path) -> tuple[str, npt.NDArray[np.float64]]:
    """Policy (with the objective of a MILP) and ascending finish-time ratios of a run folder.

    Raises
    ------
    InputError
        If the folder holds no finished run, or no job of it completed.
    """
    for needed in ("summary.json", "jobs.csv"):
        if not exists(folder / needed):
            raise InputError(f"is no finished run (it has no {needed})", file=str(folder))
    summary = read_json(folder / "summary.json")
    rows = read_rows(folder / "jobs.csv", ("finish_time_ratio",), None)
    filled = [row for row in rows if row.cells["finish_time_ratio"]]
    numbers = [row.number("finish_time_ratio", at_least=0.0) for row in filled]
    ratios = np.sort(np.asarray(numbers, dtype=np.float64))
    if not ratios.size:
        raise InputError("has no job with a finish_time_ratio", file=str(folder / "jobs.csv"))
    if not isinstance(summary, dict) or not {"policy", "objective"} <= set(summary):
        raise InputError("lacks keys of a summary", file=str(folder / "summary.json"))
    name = str(summary["policy"])
    return (f"milp, {summary['objective']}" if name == "milp" else name), ratios


def draw(folders: Sequence[Path], out: Path) -> None:
    """Write the figure as SVG; equal runs give equal bytes.

    Raises
    ------
    InputError
        If matplotlib is not installed, or a folder is no finished run.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("needs matplotlib: pip install matplotlib") from error
    runs = [ratios_of(folder) for folder in folders]
    with mpl.rc_context({"svg.hashsalt": "morph-opt", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.subplots()
        for number, (name, ratios) in enumerate(runs):
            colour, style = _STYLES[number % len(_STYLES)]
            share = np.arange(1, ratios.size + 1) / ratios.size
            axes.step(ratios, share, style, where="post", color=colour, label=name)
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xlabel("finish-time ratio (1: as on a private 1/n of the cluster)")
        axes.set_ylabel("fraction of jobs")
        axes.set_ylim(0.0, 1.02)
        axes.legend(frameon=False)
        figure.savefig(out, format="svg", metadata={"Date": None})


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m morph_opt.analysis.fairness_figure", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument("--out", type=Path, required=True, help="SVG file to write")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; exit 2 with one line on bad input."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.out.suffix.lower() != ".svg":
        raise InputError(f"must end in .svg, got {str(options.out)!r}", field="--out")
    draw(options.runs, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
