"""Planning, measured: the figures and pictures of ``reports/planning``.

    python -m benchmarks.planning [--only known statistics load eta] [--runs runs/planning]

``known``: the search on Bernoulli workloads of known shares, both of its errors and how often it
names the least size. ``statistics``: on M/M/k queues, how often the search names the k of Erlang's
formula and a size that keeps the SLO, and how often each interval holds the truth. ``load``: how
many nodes keep an SLO under three policies, at the load of a twin and at another 1.3 times that.
``eta``: how much of what came lies in the 80 % intervals, of a queue, or of a twin (``--eta-trace
base --eta-cluster 8x8 --eta-every 300``). Replays are cached in ``--runs``: what is interrupted
goes on, and asking again is answered from there. Each part writes its files when it is done; the
page shows those that are, and ``--only page`` writes it again. ``--only guide --out docs/figures``
draws for ``docs/how-to/planning.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.planning.asking import Meter
from benchmarks.planning.backtest import coverage_of
from benchmarks.planning.calibration import NEAR, coverages, searches
from benchmarks.planning.eta import Case, forecasts, groups
from benchmarks.planning.figures import chance_by_nodes, cost_against_service, coverage, worded
from benchmarks.planning.guide import pictures
from benchmarks.planning.known import TRUTHS, known
from benchmarks.planning.page import page
from morph_opt import plan
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.core.domain import Range
from morph_opt.core.table import Table
from morph_opt.replay.scenario import Scenario
from morph_opt.sweep.driver import shown_progress

PARTS = ("known", "statistics", "load", "eta")
POLICIES = {
    "fifo:skip": {"policy": "fifo:skip"}, "srtf": {"policy": "srtf"}, "jct": {"objective": "jct"},
}  # fmt: skip
GUIDE = "guide"
"""Part that only draws, for docs/how-to: ``--only guide --out docs/figures``."""
PAGE = "page"
"""Part that measures nothing: the page and its pictures from what other runs have written."""
MORE_LOAD = 1.3
SHARE, CONFIDENCE = 0.9, 0.95


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=(*PARTS, GUIDE, PAGE), default=list(PARTS))
    parser.add_argument("--runs", type=Path, default=Path("runs/planning"), metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("reports/planning"), metavar="DIR")
    parser.add_argument("--trace", default="base", metavar="TWIN", help="a family with seeds")
    parser.add_argument("--slo", default="avg jct_s <= 1200", help="of part load")
    parser.add_argument("--policies", nargs="+", choices=tuple(POLICIES), default=list(POLICIES))
    parser.add_argument("--exploration", type=whole(1, 1000), default=20, metavar="N")
    parser.add_argument("--share", type=Number(Range(0.1, 0.99)), default=SHARE)
    parser.add_argument("--confidence", type=Number(Range(0.5, 0.99)), default=CONFIDENCE)
    parser.add_argument(
        "--searches", type=whole(2, 10**6), default=2000, metavar="N", help="on each known truth"
    )
    parser.add_argument(
        "--repetitions",
        type=whole(2, 10**6),
        default=200,
        metavar="N",
        help="searches per place of the target",
    )
    parser.add_argument(
        "--intervals",
        type=whole(0, 10**6),
        default=1000,
        metavar="N",
        help="repetitions of each interval; 0: keep those there",
    )
    parser.add_argument("--eta-trace", default="benchmarks.planning.queue:mmk/600/150/40")
    parser.add_argument("--eta-cluster", default="5x1", metavar="SPEC")
    parser.add_argument("--eta-workloads", type=whole(2, 1000), default=30, metavar="N")
    parser.add_argument("--eta-every", type=whole(1, 10**6), default=30, metavar="ROUNDS")
    parser.add_argument(
        "--gpu-price",
        type=Number(Range(0.0, 1e4, above=True)),
        default=2.0,
        metavar="USD",
        help="per hour, of pictures",
    )
    parser.add_argument("--on", metavar="local:N", help="where replays run")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw, write."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        parts = {
            "known": _known,
            "statistics": _statistics,
            "load": _load,
            "eta": _eta,
            GUIDE: _guide,
        }
        if name != PAGE:
            parts[name](given)
    if given.only != [GUIDE]:
        _drawn(given.out, given.gpu_price)
        write_atomically(given.out / "README.md", page(given.out))
    return 0


def _keep(file: Path, value: Any) -> None:
    write_atomically(file, json.dumps(value, indent=1) + "\n")


def _guide(given: argparse.Namespace) -> None:
    for name, picture in pictures(given.runs, given.on):
        write_atomically(given.out / name, picture)


def _known(given: argparse.Namespace) -> None:
    found = []
    for truth in TRUTHS:
        for paired in (True, False):
            found.append(asdict(known(truth, given.searches, paired=paired)))
            print(f"known {len(found)} of {2 * len(TRUTHS)}", file=sys.stderr, flush=True)
    _keep(given.out / "known.json", found)


def _statistics(given: argparse.Namespace) -> None:
    def tell(done: int) -> None:
        if done % 20 == 0:
            of = given.repetitions * len(NEAR)
            print(f"search {done} of {of}", file=sys.stderr, flush=True)

    file = given.out / "statistics.json"
    if given.intervals:
        coverage = [asdict(one) for one in coverages(given.intervals)]
    else:
        coverage = read_json(file)["coverage"]
    found = {
        "answers": [asdict(one) for one in searches(given.repetitions, tell)],
        "coverage": coverage,
        "test": "sequential",
    }
    _keep(file, found)


def _load(given: argparse.Namespace) -> None:
    """Nodes by policy and load; each is asked twice, the second time from the cells."""
    file = given.out / "load.json"
    known = read_json(file) if exists(file) else {}
    for name in given.policies:
        for load in (1.0, MORE_LOAD):
            asked = _nodes(given, name, load)
            same = ("trace", "slo", "of_workloads", "confidence", "exploration")
            known = {
                old: one
                for old, one in known.items()
                if all(one["asked"][key] == asked["asked"][key] for key in same)
            } | {f"{name} x{load:g}": asked}
            _keep(file, known)


def _drawn(out: Path, gpu_price: float) -> None:
    """Pictures of the answers of parts eta and load that are there."""
    eta = read_json(out / "eta.json") if exists(out / "eta.json") else {}
    if eta:
        every = [group for one in eta.values() for group in one["groups"]]
        write_atomically(out / "eta.svg", coverage(every))
    known = read_json(out / "load.json") if exists(out / "load.json") else {}
    if not known:
        return
    asked = next(iter(known.values()))["asked"]
    slo = plan.Slo.parse(asked["slo"])
    evidence = {name: one["evidence"] for name, one in known.items()}
    once = {name: rows for name, rows in evidence.items() if name.endswith(" x1")}
    unit = worded(slo.statistic, slo.metric)
    picture = cost_against_service(once, slo.target, unit, 8 * gpu_price)
    write_atomically(out / "cost.svg", picture)
    write_atomically(out / "chance.svg", chance_by_nodes(evidence, asked["of_workloads"]))


def _nodes(given: argparse.Namespace, name: str, load: float) -> dict[str, Any]:
    """One question, with what it took."""
    folder = given.runs / f"nodes-{name.replace(':', '-')}-{load:g}"
    with shown_progress(quiet=False) as shown:
        meter = Meter(folder, shown)
        ask = plan.Ask(
            Scenario(given.trace, **POLICIES[name]),
            folder,
            load=load,
            on=given.on,
            progress=meter.progress,
        )
        answer, spent = meter.measured(
            lambda: plan.nodes(
                ask,
                given.slo,
                of_workloads=given.share,
                confidence=given.confidence,
                exploration=given.exploration,
            )
        )
    answer.write(folder)
    print(f"{name} x{load:g}: {answer.said[0]}", file=sys.stderr, flush=True)
    return answer.to_json() | {"spent": spent}


def _eta(given: argparse.Namespace) -> None:
    """Forecasts of a queue or a twin; those of others that are there stay."""
    case = Case(given.eta_trace, given.eta_cluster, given.eta_every)
    rows = forecasts(case, range(given.eta_workloads), given.runs, given.on)
    header = list(rows[0])
    table = Table(header, [[row[name] for name in header] for row in rows])
    write_atomically(given.out / f"eta-{case.name}.csv", table.to_csv())
    file = given.out / "eta.json"
    known = read_json(file) if exists(file) else {}
    about = {
        "trace": case.trace,
        "cluster": case.cluster,
        "given": "arrived",
        "groups": groups(case.name, rows),
    }
    known[case.name] = coverage_of(rows) | about
    _keep(file, known)
