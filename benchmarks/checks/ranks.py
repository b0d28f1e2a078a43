"""Check ranked goals by an exact MIP: ``python -m benchmarks.checks.ranks [ROUNDS [GOAL ..]]``.

The twin of `base` is replayed under each objective (`las` and `gittins`, or those named). As many
of its rounds as asked for, evenly spread, are decided twice: by the ladder and, level after level,
by the exact MIP. The values of both decisions are compared level by level, up to the first one that
differs, as later ones then answer another question. The status is 1 if a level of the ladder is
worth less, if its bound is below what the MIP found, or if its gap is not closed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.rounds.replays import rounds_of
from benchmarks.rounds.report import Setup
from formulations.round.tables import Level
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.outcome import Limits, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver

SAME = 2e-6
"""Difference of two values that is none, as a share of the level's largest value or of its sum.

A MIP solver keeps the rows of earlier levels to 1e-6 of their largest value, so that later levels
may be worth a little more by it.
"""
LIMITS = Limits(gap=1e-6, time_s=60.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One level of one round: values of both decisions, bound and gap of the ladder."""

    objective: str
    round: int
    level: str
    ladder: float
    exact: float
    bound: float
    gap: float
    unit: float

    @property
    def difference(self) -> float:
        """Value of the MIP's decision less that of the ladder's, as a share."""
        return (self.exact - self.ladder) / max(self.unit, abs(self.exact))

    @property
    def fault(self) -> str:
        """What is wrong with the ladder's answer; empty if nothing is."""
        if self.difference > SAME:
            return "the exact MIP found more"
        if self.exact - self.bound > SAME * max(self.unit, abs(self.bound)):
            return "the bound lies below a decision"
        if self.gap > LIMITS.gap and self.bound - self.ladder > SAME * self.unit:
            return "not proven"
        return ""


def compared(
    objective: str, at: int, levels: Sequence[Level], ladder: Solved, exact: Solved
) -> Iterator[Row]:
    """Compare two answers level by level, up to the first level that differs."""
    if ladder.selection is None or exact.selection is None:
        raise AssertionError(f"round {at} of {objective}: no decision within {LIMITS.time_s:g} s")
    for level, outcome in zip(levels, ladder.outcomes, strict=True):
        mine, other = (one.selection.value(level) for one in (ladder, exact) if one.selection)
        unit = float(abs(level.value).max(initial=0.0)) or 1.0
        reached = relative_gap(outcome.objective, outcome.bound)
        row = Row(objective, at, level.name, mine, other, outcome.bound, reached, unit)
        yield row
        if abs(row.difference) > SAME:
            return


def rounds(objective: str, count: int, until_s: float | None = None) -> Iterator[Row]:
    """Decide rounds of a replay twice.

    Parameters
    ----------
    until_s
        End of the replay in seconds; None for all of it.
    """
    speeds, states = rounds_of(Setup(until_s=until_s, every=1), objective)
    states = [state for state in states if state.jobs]
    exact, ladder = ExactMip(make_solver("highs")), Ladder(make_solver("highs"))
    seconds: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    chosen = sorted({at * len(states) // count for at in range(count)})
    for at in chosen:
        poser = RoundPoser(speeds, make_objective(objective, speeds))
        posed = poser.pose(states[at])
        answers = []
        for name, method in (("ladder", ladder), ("exact", exact)):
            began_s = time.process_time()
            answers.append(method.solve(posed, LIMITS))
            seconds[name] += time.process_time() - began_s  # type: ignore[assignment]
        steps[answers[0].step] += 1
        yield from compared(objective, states[at].index, posed.levels, *answers)
    print(
        f"{objective}: {len(chosen)} rounds, CPU s {seconds['ladder']:.1f} by the ladder,"
        f" {seconds['exact']:.1f} by the exact MIP; last steps {dict(steps)}",
        flush=True,
    )


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.checks.ranks", description=__doc__)
    parser.add_argument("rounds", type=whole(1, 10**6), nargs="?", default=500, help="of each")
    parser.add_argument("objectives", nargs="*", default=["las", "gittins"], help="with levels")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs; return 1 if the ladder is at fault."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    found = [row for name in options.objectives for row in rounds(name, options.rounds)]
    faults = [row for row in found if row.fault]
    for row in faults:
        print(f"{row.fault}: {row}")
    better = sum(row.difference < -SAME for row in found)
    worst = max(abs(row.difference) for row in found)
    print(
        f"{len(found)} levels, {len(faults)} at fault, {better} worth more by the ladder,"
        f" largest difference {worst:.1e}"
    )
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
