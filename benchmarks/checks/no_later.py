"""Check the rule ``no_later_than``: ``python -m benchmarks.checks.no_later [CASE...]``.

Rigid gangs on equal GPUs are replayed under the rule, with 0, 2 and 8 hours. No job may end later
than its start in a virtual EASY schedule, plus that time, its run time, a restart and a round
(``docs/formulations/due.md``). The virtual schedule is made here anew, from the counts of GPUs
alone. A line per replay has the jobs that are late, which must be 0, the least time to spare and
the average JCT over that without the rule; the status is 1 if a job is late. ``--seeds 0,1,2``
draws other streams, and twins of other seeds.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.streams import Row, stream, text_of
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain.units import HOUR_S
from morph_opt.replay.prepare import prepare
from morph_opt.replay.scenario import Scenario, Workload
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.simulation.runs.read import read_run

ROUND_S, RESTART_S, GPUS = 60.0, 260.0, 64
AFTER_H = (0, 2, 8)
STREAMS = ("one95", "st80-1", "st80-5", "st95-1", "st95-5", "st105-1", "st105-5")
TWINS = {
    "tiresias-480": Workload("tiresias-480"),
    "base": Workload("base"),
    "philly-bursts": Workload("resampled/x3/as-is/philly-twin", gpus=64, days=3),
    "acme-bursts": Workload("resampled/x2/as-is/acme-twin", gpus=64, days=1),
}
"""Twins whose jobs are taken as gangs of the GPUs that they ask for."""


def rows_of(case: str, seed: int) -> list[Row]:
    """Return the gangs of a case in the order of their submission.

    Raises
    ------
    InputError
        If there is no such case.
    """
    if case not in TWINS:
        return stream(case, seed)
    ready = prepare(Scenario(TWINS[case], "8x8:A800-80GB", seed=seed))
    tables = CandidateBuilder(ready.truth)
    return [
        (
            job.name,
            math.ceil(job.submission_s),
            job.requested_gpus,
            math.ceil(job.iterations * tables.request_iteration_s(job, ready.scenario.cluster)),
        )
        for job in ready.trace.jobs
    ]


def easy_starts(rows: Sequence[Row], gpus: int) -> dict[str, float]:
    """Return the virtual starts of gangs, which run a restart and a round longer, by name."""
    arrive_s = [max(1, math.ceil(row[1] / ROUND_S)) * ROUND_S for row in rows]
    run_s = [row[3] + RESTART_S + ROUND_S for row in rows]
    order = sorted(range(len(rows)), key=lambda at: arrive_s[at])
    starts: dict[str, float] = {}
    queue: list[int] = []
    ends: list[tuple[float, int]] = []
    now_s = 0.0
    while order or queue:
        coming = [arrive_s[order[0]]] if order else []
        now_s = min([*coming, *(end_s for end_s, _ in ends)])
        while order and arrive_s[order[0]] <= now_s:
            queue.append(order.pop(0))
        ends = [end for end in ends if end[0] > now_s]
        free = gpus - sum(held for _, held in ends)
        head: int | None = None
        spare, from_s = 0, math.inf
        for at in list(queue):
            asks = rows[at][2]
            if head is None and asks > free:
                head, from_s, total = at, math.inf, free
                for end_s, held in sorted(ends):
                    total += held
                    if total >= asks:
                        from_s = end_s
                        break
                # What else ends at that instant is free as well.
                spare = free + sum(held for end_s, held in ends if end_s <= from_s) - asks
                continue
            short = now_s + run_s[at] <= from_s
            if asks > free or not (head is None or short or asks <= spare):
                continue
            spare -= 0 if head is None or short else asks
            free -= asks
            queue.remove(at)
            ends.append((now_s + run_s[at], asks))
            starts[rows[at][0]] = now_s
    return starts


@dataclass(frozen=True, slots=True)
class Found:
    """Result of one replay: late jobs, least seconds to spare of any job, average JCT."""

    late: tuple[str, ...]
    spare_s: float
    jct_s: float


def found(rows: Sequence[Row], after_h: float | None, folder: Path, gpus: int = GPUS) -> Found:
    """Replay gangs under the rule, or without it, and compare the ends with the bound."""
    trace, rules, out = folder / "rows.csv", folder / "rules.toml", folder / f"run-{after_h}"
    trace.write_text(text_of(rows), encoding="utf-8")
    scenario = Scenario(f"table:{trace}", f"{max(1, gpus // 8)}x{min(8, gpus)}:A800-80GB")
    scenario = scenario.replaced(interval_s=ROUND_S, restart_s=RESTART_S)
    if after_h is not None:
        rule = f'no_later_than = "easy + {after_h:g}h"\nrestart_s = {RESTART_S:g}\n'
        rules.write_text(f"[[start_by]]\n{rule}", encoding="utf-8")
        scenario = scenario.replaced(rules=str(rules))
    scenario.run(out=out)
    run = read_run(out)
    # A replay's clock starts with the first job, and rounds are on that clock.
    submitted_s = {job.job: job.submission_s for job in run.jobs}
    starts = easy_starts([(row[0], submitted_s[row[0]], *row[2:]) for row in rows], gpus)
    longest_s = {row[0]: row[3] + RESTART_S + ROUND_S for row in rows}
    spare_s = {
        job.job: starts[job.job] + (after_h or 0.0) * HOUR_S + longest_s[job.job] - job.finish_s
        for job in run.jobs
        if job.finish_s is not None
    }
    late = tuple(job for job, left_s in spare_s.items() if left_s < -1e-3)
    unfinished = tuple(job.job for job in run.jobs if job.finish_s is None)
    return Found((*late, *unfinished), min(spare_s.values()), run.summary.avg_jct_s)


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(prog="python -m benchmarks.checks.no_later", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=[*STREAMS, *TWINS])
    parser.add_argument(
        "--seeds", type=lambda text: [int(n) for n in text.split(",")], default=[0, 1, 2]
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    wrong, count = 0, 0
    for case in options.cases:
        for seed in options.seeds:
            rows = rows_of(case, seed)
            with TemporaryDirectory() as folder:
                plain = found(rows, None, Path(folder))
                for after_h in AFTER_H:
                    one = found(rows, after_h, Path(folder))
                    wrong, count = wrong + bool(one.late), count + 1
                    print(
                        f"{case} {seed} easy + {after_h} h: {len(one.late)} late, "
                        f"{one.spare_s:,.0f} s to spare, JCT {one.jct_s:,.0f} s, "
                        f"{one.jct_s / plain.jct_s:.3f} of {plain.jct_s:,.0f} s",
                        flush=True,
                    )
    print(f"{count} replays, {wrong} with late jobs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(as_process(main))
