"""Hindsight: the best schedule that a search finds under the engine's own rules, knowing all.

    python -m benchmarks.hindsight [--trace base] [--seeds 0] [--replays 40] [--out FOLDER]

Reports can then say bound <= optimum <= hindsight. Every schedule is a strict replay of the MILP
under `lookahead` (rounds to 1 %) in which jobs have weights; the search looks for weights under
which the plain mean completion time is least. It starts where a search before it ended
(``weights.csv``, by number of the job), so it may be stopped and continued; the same replays in
one go or two give the same. It is local: an upper bound on the optimum, no proof.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.commandline.types import whole
from morph_opt.domain import Cluster, Trace, default_cluster
from morph_opt.metrics.bounds.demands import job_demands
from morph_opt.metrics.bounds.lower import avg_jct_lower_bound
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.registry import PolicyOptions, make_policy
from morph_opt.replay import ReplayConfig, replay
from morph_opt.table import Table
from morph_opt.traces.registry import load_trace

Floats = NDArray[np.float64]

FOLDER = Path("reports/hindsight")
GAP = 1e-2
MOVED = 4
"""Jobs whose weight is changed at a time."""
SPREAD = 1.0
"""Standard deviation of a change of a weight's logarithm."""
MOST = 6.0
"""Largest logarithm of a weight."""
FIELDS = ("trace", "seed", "replays", "bound_s", "plain_s", "hindsight_s")


@dataclass(frozen=True, slots=True)
class Search:
    """Where a search stands.

    Parameters
    ----------
    log_weight
        Of the best schedule, shape (J,).
    best_s, plain_s
        Mean completion time of the best schedule, and of the one without weights.
    excess_s
        Of each job in the best schedule, above its floor: who has something to gain.
    replays
        Done so far.
    """

    log_weight: Floats
    best_s: float
    plain_s: float
    excess_s: Floats
    replays: int


Evaluate = Callable[[Floats], Floats]
"""Completion times of the jobs under these logarithms of weights."""


def begin(evaluate: Evaluate, floor_s: Floats) -> Search:
    """The schedule without weights."""
    jct_s = evaluate(np.zeros(floor_s.size))
    mean_s = float(jct_s.mean())
    return Search(np.zeros(floor_s.size), mean_s, mean_s, jct_s - floor_s, 1)


def step(search: Search, evaluate: Evaluate, floor_s: Floats) -> Search:
    """One more replay: some weights changed, taken over if the mean falls.

    Jobs are drawn by their excess, as it is they who wait or who keep others waiting. What is
    drawn depends on the number of the replay alone, so a search can be continued.
    """
    draw = np.random.default_rng(search.replays)
    chance = np.maximum(search.excess_s, 0.0) + 1.0
    count = min(MOVED, chance.size)
    picked = draw.choice(chance.size, count, replace=False, p=chance / chance.sum())
    trial = search.log_weight.copy()
    trial[picked] += draw.normal(0.0, SPREAD, count)
    trial = np.clip(trial, -MOST, MOST)
    jct_s = evaluate(trial)
    mean_s = float(jct_s.mean())
    if mean_s >= search.best_s:
        return replace(search, replays=search.replays + 1)
    return Search(trial, mean_s, search.plain_s, jct_s - floor_s, search.replays + 1)


def replayed(trace: Trace, cluster: Cluster, speeds: SpeedModel, config: ReplayConfig) -> Evaluate:
    """Strict replays of a trace whose jobs have other weights."""
    options = PolicyOptions(objective="lookahead", gap=GAP)

    def evaluate(log_weight: Floats) -> Floats:
        weighted = tuple(
            replace(job, weight=float(np.exp(log)))
            for job, log in zip(trace.jobs, log_weight.tolist(), strict=True)
        )
        policy = make_policy("milp", speeds, options)
        jobs = replace(trace, jobs=weighted)
        history = replay(jobs, cluster, policy, speeds, config).history
        return np.asarray([record.turnaround_s for record in history.jobs], dtype=np.float64)

    return evaluate


def searched(name: str, seed: int, replays: int, folder: Path) -> dict[str, str]:
    """Continue the search of a trace up to so many replays; the row of ``search.csv``."""
    loaded, cluster, config = load_trace(name, seed=seed), default_cluster(), ReplayConfig()
    demands = job_demands(loaded.trace, cluster, loaded.truth, config)
    floor_s = np.asarray([d.release_s + d.floor_s - d.submission_s for d in demands.jobs])
    evaluate = replayed(loaded.trace, cluster, loaded.truth, config)
    file = folder / f"{name.replace('/', '-')}-{seed}.csv"
    search = _read(file, floor_s.size) or begin(evaluate, floor_s)
    while search.replays < replays:
        search = step(search, evaluate, floor_s)
        _write(file, search)
        print(f"{name} {seed}: {search.replays} replays, {search.best_s:.1f} s", flush=True)
    bound_s = avg_jct_lower_bound(demands).value_s
    figures = (bound_s, search.plain_s, search.best_s)
    cells = (name, str(seed), str(search.replays), *(f"{x:.1f}" for x in figures))
    return dict(zip(FIELDS, cells, strict=True))


def _write(file: Path, search: Search) -> None:
    """The whole state, by number of the job; written anew after every replay."""
    file.parent.mkdir(parents=True, exist_ok=True)
    head = f"{search.replays},{search.best_s!r},{search.plain_s!r}\n"
    rows = zip(search.log_weight.tolist(), search.excess_s.tolist(), strict=True)
    part = file.with_suffix(".part")
    part.write_text(head + "".join(f"{a!r},{b!r}\n" for a, b in rows), encoding="utf-8")
    part.replace(file)


def _read(file: Path, jobs: int) -> Search | None:
    """Where a search ended; None where there is none of as many jobs."""
    if not file.is_file():
        return None
    head, *rows = csv.reader(file.read_text(encoding="utf-8").splitlines())
    if len(rows) != jobs:
        return None
    columns = np.asarray(rows, dtype=np.float64)
    return Search(columns[:, 0], float(head[1]), float(head[2]), columns[:, 1], int(head[0]))


def page(rows: Sequence[dict[str, str]]) -> str:
    """The report in Markdown."""
    body = [
        (f"`{r['trace']}`", r["seed"], r["replays"], r["bound_s"], r["plain_s"], r["hindsight_s"],
         f"{float(r['hindsight_s']) / float(r['bound_s']) - 1.0:.1%}",
         f"{float(r['plain_s']) / float(r['hindsight_s']) - 1.0:.1%}")
        for r in rows
    ]  # fmt: skip
    header = (
        "trace", "seed", "replays", "certified bound (s)", "`lookahead` (s)", "hindsight (s)",
        "hindsight above bound", "`lookahead` above hindsight",
    )  # fmt: skip
    return "\n".join([_HEAD, "", Table(header, body, align="lrrrrrrr").to_markdown(), ""])


_HEAD = """# Best schedules found with hindsight

Made by `python -m benchmarks.hindsight`: strict replays of the MILP under `lookahead`, rounds to a
gap of 1 %, in which a local search gives jobs weights; mean completion times without weights. The
optimum lies between the certified [bound](../../docs/metrics.md#certified-lower-bounds) and
hindsight; the more replays, the closer hindsight comes to it."""


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.hindsight", description=__doc__)
    parser.add_argument("--trace", action="append", help="repeat for several (base)")
    parser.add_argument(
        "--seeds", type=whole(0, 10**6), nargs="+", default=[0], help="of twins (0)"
    )
    parser.add_argument(
        "--replays", type=whole(1, 10**6), default=40, help="in all, per trace (40)"
    )
    parser.add_argument("--out", type=Path, default=FOLDER)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    file = options.out / "search.csv"
    rows: dict[tuple[str, str], dict[str, str]] = {}
    if file.is_file():
        with file.open(encoding="utf-8", newline="") as stream:
            rows = {(row["trace"], row["seed"]): row for row in csv.DictReader(stream)}
    for name in options.trace or ["base"]:
        for seed in options.seeds:
            row = searched(name, seed, options.replays, options.out / "weights")
            rows[row["trace"], row["seed"]] = row
            with file.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows.values())
            (options.out / "README.md").write_text(page(list(rows.values())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
