"""Option ``--audit-rounds``: rounds of a finished run, solved again as exact MIPs.

The rounds are repeated from the run's log and decided again by a fresh policy, which gives their
tables. A round agrees only if that gives the recorded allocation, whose recorded claims are then
compared with the answer of an exact MIP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.replay.prepare import Prepared
from morph_opt.replay.run import repeated
from morph_opt.scheduling.policies.second_solve import (
    Comparison,
    SecondSolve,
    SecondSolveParams,
    Verdict,
)
from morph_opt.scheduling.solvers.base import cpu_s
from morph_opt.scheduling.solvers.registry import make_solver
from morph_opt.simulation.runs.read import Parts, folder_parts
from morph_opt.simulation.runs.rows import columns, line, to_cells
from morph_opt.simulation.runs.summary import Summary, summary_json
from morph_opt.simulation.runs.write import SUMMARY

AUDITED = "audited-rounds.csv"
"""File of a run folder with the audited rounds."""


@dataclass(frozen=True, slots=True)
class AuditedRound:
    """Row of an audited round.

    Parameters
    ----------
    round, time_s
        Number of the round, and instant of its boundary.
    result
        Claims and answer.
    cpu_s
        CPU seconds of the second solve, child processes included.
    """

    round: int
    time_s: float
    result: Comparison
    cpu_s: float

    def text(self) -> str:
        """Return what is wrong or open with the round, with both values."""
        one = self.result
        numbers = f": {one.goal} {one.value:.9g}, bound {one.bound:.9g}" if one.goal else ""
        if one.goal and one.exact_value == one.exact_value:
            numbers += f"; exact MIP {one.exact_value:.9g}, bound {one.exact_bound:.9g}"
        elif one.goal:
            numbers += f"; exact MIP without a decision, bound {one.exact_bound:.9g}"
        return f"round {self.round} at {self.time_s:g} s: {one.reason}{numbers}"


COLUMNS = columns(AuditedRound)
"""Columns in the order of the file."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Audited rounds of a run.

    Parameters
    ----------
    rounds
        In order.
    of
        Number of rounds of the run.
    solver
        Name of the solver.
    time_s
        Seconds that a second solve may take.
    """

    rounds: tuple[AuditedRound, ...]
    of: int
    solver: str
    time_s: float

    @property
    def counts(self) -> Counter[Verdict]:
        """Number of rounds by verdict."""
        return Counter(one.result.verdict for one in self.rounds)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all second solves."""
        return sum(one.cpu_s for one in self.rounds)

    def text(self) -> str:
        """Return the result in one line."""
        counts = self.counts
        return (
            f"audit: {len(self.rounds)} of {self.of:,} rounds solved again as exact MIPs by "
            f"{self.solver}: {counts[Verdict.AGREES]} agree within the stated gap, "
            f"{counts[Verdict.OPEN]} not settled (limit {self.time_s:g} s a round), "
            f"{counts[Verdict.DISAGREES]} disagree; {self.cpu_s:,.1f} CPU s"
        )

    def texts(self, verdict: Verdict) -> list[str]:
        """Return a line for each round with this verdict."""
        return [one.text() for one in self.rounds if one.result.verdict is verdict]


def require_solving(policy: str) -> None:
    """Refuse policies that solve no rounds.

    Raises
    ------
    InputError
        Unless the policy is ``milp``.
    """
    if policy != "milp":
        rule = f"needs a policy that solves rounds (milp), not {policy!r}"
        raise InputError(rule, field="--audit-rounds")


def sample(rounds: Sequence[int], count: int, seed: int) -> set[int]:
    """Return ``count`` of the rounds, one drawn from each of as many equal stretches of the run.

    All rounds if there are no more than ``count``.
    """
    if len(rounds) <= count:
        return set(rounds)
    draw = np.random.default_rng(seed)
    edges = np.linspace(0, len(rounds), count + 1).astype(int)
    return {rounds[int(draw.integers(a, b))] for a, b in pairwise(edges)}


def audit(
    prepared: Prepared, parts: Parts, count: int, params: SecondSolveParams | None = None
) -> Audit:
    """Solve a sample of the rounds of a finished run again and compare.

    Parameters
    ----------
    prepared
        Inputs of the run.
    parts
        Its log and rows.
    count
        Number of rounds, at most.
    params
        Limits of each round.

    Raises
    ------
    InputError
        If the policy solves no rounds, or the log does not follow from the inputs.
    """
    scheduler = prepared.scenario.scheduler
    require_solving(scheduler.policy)
    numbers = [row.round for row in parts.rounds()]
    wanted = sample(numbers, count, prepared.scenario.workload.seed)
    claims = {row.round: row.report for row in parts.rounds() if row.round in wanted}
    again = replace(prepared, policy=prepared.fresh_policy())
    second = SecondSolve(make_solver(scheduler.solver), scheduler.gap, scheduler.seed, params)
    found = []
    for state, recorded in repeated(again, parts.events(), wanted) if wanted else ():
        decision = again.policy.decide(state)
        same = decision.allocation.by_job() == recorded.allocation.by_job()
        began = cpu_s()
        result = second.compared(decision, claims[state.index], same)
        found.append(AuditedRound(state.index, state.time_s, result, cpu_s() - began))
    return Audit(tuple(found), len(numbers), scheduler.solver, second.params.time_s)


def recorded_audit(prepared: Prepared, folder: Path, count: int) -> tuple[Audit, Summary]:
    """Audit the finished run of a folder, and record the audit in it.

    ``audited-rounds.csv`` has the rounds, and ``summary.json`` how many agreed.

    Raises
    ------
    InputError
        See `audit`.
    """
    parts = folder_parts(folder)
    done = audit(prepared, parts, count)
    rows = [line(COLUMNS), *(line(to_cells(one, COLUMNS)) for one in done.rounds)]
    write_atomically(folder / AUDITED, "".join(rows))
    counts = done.counts
    values = dict(parts.summary().values) | {
        "audited_rounds": len(done.rounds),
        "audited_agreeing": counts[Verdict.AGREES],
        "audited_open": counts[Verdict.OPEN],
        "audited_disagreeing": counts[Verdict.DISAGREES],
        "audited_cpu_s": done.cpu_s,
    }
    summary = Summary.of(values)
    write_atomically(folder / SUMMARY, summary_json(summary))
    return done, summary
