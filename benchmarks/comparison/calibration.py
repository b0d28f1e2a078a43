"""Whether the guess of sizes says what comes: work left by decile of what was thought of it.

    python -m benchmarks.comparison.calibration [--traces base,gavel-96] [--seed 0]

A twin is replayed on guesses, and each job is looked at when it is first seen and when it has done
100, 1,000 and so on GPU-seconds, which is nothing that the truth decides. At each look the guess is
a distribution of the work left; where the truth lies in it is a number from 0 to 1, and evenly
spread where the guess is right. ``guess.csv`` and ``guess.svg`` of the comparison are made of it,
and a table of ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.comparison.contenders import (
    FIELDS,
    Contender,
    Field,
    ask_traces,
    scenario_of,
)
from benchmarks.comparison.objectives import write_block
from benchmarks.comparison.records import KNOWLEDGE
from formulations.arrays import Floats
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.core.documents.figures import drawing, line
from morph_opt.core.documents.style import INK, looks
from morph_opt.core.domain import InputError, RoundState
from morph_opt.core.table import Table
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.blind import EstimatingPolicy, Learnt
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.sizes import SizeModel

FOLDER = Path("reports/comparison")
PAGE = Path("docs/formulations/unknown-durations.md")
TRACES = ("base", "gavel-96", "acme-bursts", "easyscale-twin")
LOOKS = (0.0, 1e2, 1e3, 1e4, 1e5, 1e6)
"""Work done at which a job is looked at, GPU-seconds."""
DECILES = 10


class Watched(Learnt):
    """Guesses as `Learnt` makes them, and where the truth lies in them.

    It looks at the iterations of jobs that have not completed, as no policy may: what it notes down
    is shown to nobody.
    """

    def __init__(self, belief: SpeedModel) -> None:
        super().__init__(belief)
        self.places: list[float] = []
        self._looks: dict[str, int] = {}

    def masked(self, state: RoundState) -> RoundState:
        """See `Learnt`; the jobs that have passed a look are noted down."""
        if state.jobs:
            self._note(state)
        return super().masked(state)

    def _note(self, state: RoundState) -> None:
        gpu_s = np.asarray([self._efficient(known.job, state)[0] for known in state.jobs])
        done = gpu_s * [known.iterations_done for known in state.jobs]
        due = []
        for index, known in enumerate(state.jobs):
            passed = sum(float(done[index]) >= look for look in LOOKS)
            if passed > self._looks.get(known.job.name, 0):
                self._looks[known.job.name] = passed
                due.append(index)
        if not due:
            return
        total = gpu_s * [known.job.iterations for known in state.jobs]
        asked = np.log([float(known.job.requested_gpus) for known in state.jobs])
        model = SizeModel.fitted(self._seen(done, asked))
        self.places += place_of(model, asked, done, total)[due].tolist()


def place_of(model: SizeModel, log_gpus: Floats, attained: Floats, total: Floats) -> Floats:
    """Chance that the guess gave to no more work than came, for jobs that have done so much.

    Parameters
    ----------
    log_gpus, attained, total
        Logarithm of requested GPUs, work done and whole size, GPU-seconds; each shape (J,).
    """
    mean = model.mean + model.slope * (log_gpus - model.centre)

    def log_above(work: Floats) -> Floats:
        return model.shape.survival((np.log(np.maximum(work, 1e-300)) - mean) / model.spread)[0]

    place: Floats = 1.0 - np.exp(log_above(total) - log_above(attained))
    return place


def field_of(title: str) -> Field:
    """The trace of the comparison of this name.

    Raises
    ------
    InputError
        If there is none.
    """
    by_name = {field.title: field for field in FIELDS}
    if title not in by_name:
        raise InputError(
            f"unknown trace {title!r}; known are {', '.join(by_name)}", field="--traces"
        )
    return by_name[title]


def places(field: Field, seed: int) -> list[float]:
    """Where the truth lay in the guess at every look of a replay."""
    scenario = scenario_of(field, seed, Contender(KNOWLEDGE["no"][0], "milp", durations="blind"))
    loaded = load_trace(field.name, seed=seed, **dict(field.sized))
    watched = Watched(loaded.truth)
    inner = make_policy("milp", loaded.truth, PolicyOptions(objective="lookahead"))
    policy = EstimatingPolicy(inner, watched)
    replay(loaded.trace, scenario.cluster, policy, loaded.truth, scenario.engine)
    return watched.places


def shares(found: Sequence[float]) -> Floats:
    """Part of the looks in each decile, shape (10,)."""
    counts, _ = np.histogram(found, bins=np.linspace(0.0, 1.0, DECILES + 1))
    part: Floats = counts / max(1, len(found))
    return part


def table(found: Mapping[str, Sequence[float]]) -> str:
    """Per cent of the looks by decile, and in the middle 80 %, by trace."""
    rows = [
        (f"`{trace}`", len(each), *(100.0 * shares(each)), 100.0 * shares(each)[1:-1].sum())
        for trace, each in found.items()
    ]
    deciles = [f"{10 * n} to {10 * n + 10}" for n in range(DECILES)]
    header = ("trace", "looks", *deciles, "10 to 90")
    return Table(header, rows, "lr" + "r" * 11, dict.fromkeys(header[2:], ".0f")).to_markdown()


def picture(found: Mapping[str, Sequence[float]]) -> str:
    """Share of looks with less work left than the guess's quantile, over the quantile, as SVG."""
    with drawing((4.6, 4.0)) as (figure, encoded):
        axes = figure.add_subplot()
        axes.plot([0.0, 1.0], [0.0, 1.0], color=INK, lw=0.8, ls="--", label="as it should be")
        drawn = looks([f"trace {name}" for name in found])
        for look, (trace, each) in zip(drawn, found.items(), strict=True):
            upto = np.concatenate([[0.0], np.cumsum(shares(each))])
            axes.plot(
                np.linspace(0.0, 1.0, DECILES + 1),
                upto,
                ms=3.0,
                lw=1.2,
                **line(look, marks=True),
                label=f"{trace}, {len(each)} looks",
            )
        axes.set_xlabel("quantile of the guess of the work left (share)")
        axes.set_ylabel("share of looks with no more work left than that")
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.0)
        axes.legend()
        return encoded().decode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.comparison.calibration", description=__doc__)
    ask_traces(parser, TRACES)
    parser.add_argument("--seed", type=whole(0, 2**31 - 1), default=0, help="of the twins (0)")
    return parser


def _run(options: argparse.Namespace) -> int:
    file = FOLDER / "guess.csv"
    rows = read_rows(file, ("trace", "seed", "place")) if file.is_file() else ()
    known: dict[str, list[float]] = {}
    for row in rows:
        if row.text("seed") == str(options.seed):
            known.setdefault(row.text("trace"), []).append(row.number("place", at_least=0.0))
    known |= {title: places(field_of(title), options.seed) for title in options.traces}
    order = [field.title for field in FIELDS if field.title in known]
    found = {title: known[title] for title in order}
    lines = [f"{_quoted(t)},{options.seed},{p:.4f}" for t, each in found.items() for p in each]
    write_atomically(file, "\n".join(["trace,seed,place", *lines, ""]))
    write_atomically(FOLDER / "guess.svg", picture(found))
    write_block(PAGE, "guess", table(found))
    return 0


def _quoted(cell: str) -> str:
    return f'"{cell}"' if "," in cell else cell


if __name__ == "__main__":
    sys.exit(as_process(main))
