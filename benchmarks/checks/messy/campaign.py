"""Decide generated rounds twice: by the ladder and by a plain MIP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import highspy
import numpy as np

from benchmarks.checks.messy.plain import PlainAnswer, faults, limit_cpu_s, solve
from benchmarks.checks.messy.snapshots import Family, snapshot
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.decision.fallback import best_at_hand
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, relative_gap

OBJECTIVES = ("jct", "throughput", "saved-time", "lookahead")
"""Objectives of one goal without memory; a seed takes the next one."""
AHEAD = 1e-3
"""Share of the value by which the plain MIP is ahead."""
SLOW_S, SLOWER = 0.2, 2.0
"""CPU seconds from which on a round may take at most `SLOWER` times those of the plain MIP."""
WALL = 60.0
"""Wall seconds per CPU second after which a solve ends on a machine that does nothing."""


class CpuHighs(HighsSolver):
    """Adapter of HiGHS with times and limits in CPU seconds."""

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """Solve as HiGHS's adapter does, and state all time as CPU seconds of the solve."""
        outcome = super().solve(model, limits, start)
        return replace(outcome, build_s=0.0, solve_s=outcome.cpu_s, check_s=0.0)

    def _ready(self, model: LinearModel, limits: Limits) -> highspy.Highs:
        until_s = time.process_time() + limits.time_s
        highs = super()._ready(model, replace(limits, time_s=WALL * limits.time_s))
        limit_cpu_s(highs, until_s)
        return highs


@dataclass(frozen=True, slots=True)
class Row:
    """One round: answers of the ladder and of the plain MIP."""

    seed: int
    objective: str
    family: Family
    jobs: int
    candidates: int
    value: float
    bound: float
    cpu_s: float
    step: str
    plain: PlainAnswer
    faults: tuple[str, ...]

    @property
    def gap(self) -> float:
        """Proven gap of the ladder."""
        return relative_gap(self.value, self.bound)

    @property
    def behind(self) -> float:
        """Share of the plain MIP's value by which the ladder is behind; negative if ahead."""
        if self.plain.value == self.value:  # neither has a decision
            return 0.0
        return (self.plain.value - self.value) / max(abs(self.plain.value), 1e-12)

    @property
    def lost(self) -> bool:
        """Whether the plain MIP is ahead in no more time."""
        return self.behind > AHEAD and self.plain.cpu_s <= self.cpu_s

    @property
    def slow(self) -> bool:
        """Whether the ladder takes too long, next to the plain MIP."""
        return self.cpu_s > SLOW_S and self.cpu_s > SLOWER * self.plain.cpu_s

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is false in the ladder's answer; empty if nothing is."""
        found = self.faults
        close = 1e-6 * max(abs(self.value), abs(self.plain.value))
        if self.plain.value > self.bound + close:
            found += ("the bound lies below a decision",)
        if self.plain.proved and self.value > self.plain.bound + close:
            found += ("the decision is worth more than is possible",)
        return found


def posed_round(seed: int) -> tuple[Family, str, PosedRound]:
    """Pose the round of a seed."""
    family, document = snapshot(seed)
    found = parse_snapshot(json.dumps(document))
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    pairs = found.speeds if found.speeds.measures_pairs else None
    poser = RoundPoser(found.speeds, make_objective(objective, found.speeds), found.rules, pairs)
    return family, objective, poser.pose(found.state)


def rounds(seeds: Iterable[int], limits: Limits) -> Iterator[Row]:
    """Decide the rounds of some seeds twice; limits are in CPU seconds."""
    ladder = Ladder(CpuHighs(), clock=time.process_time)
    for seed in seeds:
        family, objective, posed = posed_round(seed)
        problem, (level,) = posed.problem, posed.levels
        began_s = time.process_time()
        solved = ladder.solve(posed, limits)
        decided, selection = solved.posed or posed, solved.selection
        if selection is None and solved.outcome.status is not Status.INFEASIBLE:
            # As the policy does.
            selection = best_at_hand(problem, level)
        cpu_s = time.process_time() - began_s
        value, broken = -np.inf, ()
        if selection is not None:
            value = selection.value(decided.levels[0])
            broken = tuple(faults(decided.problem, selection))
        plain = solve(problem, level, limits.gap, limits.time_s)
        yield Row(
            seed,
            objective,
            family,
            problem.jobs.count,
            problem.candidates.count,
            value,
            solved.outcome.bound,
            cpu_s,
            solved.step,
            plain,
            broken,
        )


def text_of(row: Row) -> str:
    """Return a line about a round."""
    marks = " LOST" * row.lost + " SLOW" * row.slow
    marks += "".join(f" WRONG: {what}" for what in row.wrong)
    return (
        f"{row.seed:>4} {row.objective:<11} {row.jobs:>3} {row.candidates:>5} {row.value:>11.6g}"
        f" {row.gap:>8.1e} {row.cpu_s:>6.2f} {row.step:<9} | {row.plain.value:>11.6g}"
        f" {row.plain.columns:>6} {row.plain.cpu_s:>6.2f} | {row.behind:>+8.1e}{marks}"
        f"  {row.family}"
    )


def summary(rows: list[Row], limits: Limits) -> str:
    """Return the sums."""
    ours, theirs = (
        sum(each) for each in zip(*((r.cpu_s, r.plain.cpu_s) for r in rows), strict=True)
    )
    slow = [row.seed for row in rows if row.slow]
    lost = [row.seed for row in rows if row.lost]
    wrong = [row.seed for row in rows if row.wrong]
    open_ = sum(row.gap > limits.gap for row in rows)
    return (
        f"{len(rows)} rounds, CPU s {ours:.1f} by the ladder, {theirs:.1f} by the plain MIP"
        f" ({ours / theirs:.2f} x); not proven {open_} and {sum(not r.plain.proved for r in rows)};"
        f" lost {lost}, slow {slow}, wrong {wrong}"
    )
