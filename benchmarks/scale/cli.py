"""Rounds of 64 to 65,536 GPUs: the ladder's phases, gap and growth, beside its peers.

    python -m benchmarks.scale [--sizes 64 512 2048] [--types 1 3] [--rounds 4] [--peers-to 512]
                               [--sia-to 8192] [--restated-to 8192] [--leaves 1 4]
                               [--nodes ordinary odd resources busy] [--objectives throughput jct]
                               [--memory-gib 16] [--case-cpu-s 120]
                               [--out reports/scale]

One thread; every case in a process of its own, so that memory is its own. Times are CPU seconds,
medians over the steady rounds, because the machine may be shared. All methods decide the very same
states: the ladder's decision makes the next round. Writes ``rounds.csv`` and, from it alone,
``README.md``, ``seconds.svg`` and ``distance.svg``; cases that are measured again replace theirs. A
case that needs more CPU seconds than ``--case-cpu-s`` is stopped and is a row that says so.
"""

from __future__ import annotations

import argparse
import csv
import math
import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, fields
from multiprocessing import get_context
from pathlib import Path
from typing import get_type_hints

from benchmarks.instances.scaled import NODES, SLOWER
from benchmarks.scale.measure import CLOSER, EXACT, RELAXED, RESTATED, Case, Row, case, stopped
from benchmarks.scale.page import draw, draw_distances, page
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import keep_memory, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.catalog import OBJECTIVES as CATALOGUE

SIZES = (64, 512, 1024, 2048, 8192)
MOST_GPUS = 2**20
SPENT = 0.9
"""Share of a case's CPU seconds that a process has used which was ended for them."""


def write(rows: Sequence[Row], folder: Path) -> None:
    """The raw rows, the page and its picture."""
    with (folder / "rounds.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        out.writeheader()
        out.writerows(asdict(row) for row in rows)
    (folder / "README.md").write_text(page(rows), "utf-8")
    draw(rows, folder / "seconds.svg")
    draw_distances(rows, folder / "distance.svg")


def read(folder: Path) -> list[Row]:
    """Rows that were measured earlier; cases that are measured again replace theirs."""
    path = folder / "rounds.csv"
    if not path.is_file():
        return []
    kinds = get_type_hints(Row)
    with path.open(newline="") as file:
        return [
            Row(**{name: kind(row.get(name, "ordinary")) for name, kind in kinds.items()})
            for row in csv.DictReader(file)
        ]


def _case_of(row: Row) -> Case:
    return Case(row.gpus, row.types, row.leaves, row.nodes, row.objective)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.scale", description=__doc__)
    size, count, most = whole(8, MOST_GPUS), whole(1, 100), whole(0, MOST_GPUS)
    kinds = whole(1, len(SLOWER))
    parser.add_argument("--sizes", type=size, nargs="+", default=list(SIZES), help="GPUs")
    parser.add_argument("--types", type=kinds, nargs="+", default=[1, 3], help="numbers of types")
    parser.add_argument("--rounds", type=count, default=4, help="of each case, the first is cold")
    parser.add_argument("--peers-to", type=most, default=512, help="GPUs of the exact peers")
    parser.add_argument("--sia-to", type=most, default=8192, help="GPUs of Sia's program")
    parser.add_argument("--restated-to", type=most, default=8192, help="GPUs of POP and others")
    parser.add_argument("--nodes", nargs="+", choices=list(NODES), default=["ordinary"])
    parser.add_argument("--leaves", type=whole(1, 64), nargs="+", default=[1, 4], help="switches")
    parser.add_argument("--objectives", nargs="+", choices=list(CATALOGUE), default=list(CLOSER))
    parser.add_argument("--memory-gib", type=whole(1, 4096), default=16, help="of each process")
    parser.add_argument(
        "--case-cpu-s", type=whole(1, 10**6), help="CPU seconds of each process (no limit)"
    )
    parser.add_argument("--out", type=Path, default=Path("reports/scale"))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    # The page states the number of GPUs, so it is that of the cluster.
    for gpus in options.sizes:
        if gpus % 8 or gpus < 8 * max(options.types):
            rule = f"must be nodes of 8 GPUs, one of each type or more, got {gpus} GPUs"
            raise InputError(rule, field="--sizes")
    options.out.mkdir(parents=True, exist_ok=True)
    cases = [
        Case(gpus - gpus % NODES[nodes].gpus, types, leaves, nodes, objective)
        for gpus in options.sizes
        for types in options.types
        for nodes in options.nodes
        for leaves in options.leaves
        for objective in options.objectives
        if (leaves == 1 or gpus // 8 >= 4 * leaves) and (leaves == 1 or objective == "throughput")
    ]
    rows = [row for row in read(options.out) if _case_of(row) not in cases]
    for one in cases:
        peers = [RELAXED, *EXACT] if one.gpus <= options.peers_to else []
        peers += ["sia"] if one.gpus <= options.sia_to and one.nodes == "ordinary" else []
        peers += list(RESTATED) if one.gpus <= options.restated_to else []
        if (one.leaves, one.objective) != (1, "throughput"):
            peers = []
        limits = options.memory_gib, options.case_cpu_s
        own = _alone(one, options.rounds, [], *limits)
        rows += own
        rows += _alone(one, min(2, options.rounds), peers, *limits) if peers else []
        worst = max((row.solve_s for row in own if row.method == "ladder"), default=math.nan)
        print(
            f"{one.gpus} GPUs, {one.types} types, {one.leaves} leaves, {one.nodes} nodes, "
            f"{one.objective}: {worst:.3f} s",
            flush=True,
        )
        write(rows, options.out)
    return 0


def _alone(
    one: Case, rounds: int, peers: list[str], memory_gib: int, cpu_s: int | None
) -> list[Row]:
    """A case in a process of its own, within this memory and these CPU seconds."""
    before_s = _children_s()
    try:
        with ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_limit, initargs=(memory_gib, cpu_s)
        ) as alone:
            return alone.submit(case, one, rounds, peers).result()
    except BrokenProcessPool:
        # A process may end for other reasons, which are no measurement.
        if cpu_s is None or _children_s() - before_s < SPENT * cpu_s:
            raise
        return [] if peers else [stopped(one, cpu_s)]


def _children_s() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limit(memory_gib: int, cpu_s: int | None) -> None:
    most = memory_gib * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if cpu_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    keep_memory()  # as the process of a command does
