"""Answers of a method that are given again while rounds pose the same problem.

Under objectives whose values change by steps, such as ``las``, hours pass in which nothing that a
decision depends on changes. An answer is given again only for a problem equal in every array, so
decisions are those of the method alone.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.scheduling.decision.method import RoundMethod, Solved, StepTimes
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.solvers.outcome import Limits, Status


class Repeated:
    """Round method that remembers its last proved answer.

    Parameters
    ----------
    method
        Method that solves all rounds but those that repeat the last one.
    """

    def __init__(self, method: RoundMethod) -> None:
        self.method = method
        self._last: tuple[PosedRound, Limits, Solved] | None = None

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """Solve a round; see `morph_opt.scheduling.decision.method.RoundMethod`."""
        if self._last is not None:
            before, asked, solved = self._last
            if asked == limits and _same_round(before, posed):
                return replace(solved, levels=posed.levels, times=StepTimes())
        solved = self.method.solve(posed, limits)
        # Promises may exchange the levels, and a compact round may be posed anew.
        plain = solved.posed is None and not posed.problem.jobs.guaranteed.any()
        proofs = Status.OPTIMAL, Status.INFEASIBLE
        proved = all(one.status in proofs for one in solved.outcomes)
        self._last = (posed, limits, solved) if plain and proved else None
        return solved


def _same_round(one: PosedRound, other: PosedRound) -> bool:
    """Return whether a method must answer two rounds alike.

    The levels have all values, so work left matters no more; GPU-seconds order jobs of equal value.
    """
    mine, theirs = one.problem, other.problem
    if one.view.compact != other.view.compact or not _same(one.levels, other.levels):
        return False
    before, after = mine.jobs, theirs.jobs
    return (
        _same_fields(mine, theirs, ("jobs", "options", "known"))
        and _same_fields(before, after, ("iterations_left", "attained_gpu_s"))
        and _same(_ranks(before.attained_gpu_s), _ranks(after.attained_gpu_s))
    )


def _ranks(values: Floats) -> Ints:
    ranks: Ints = np.unique(values, return_inverse=True)[1].reshape(-1)
    return ranks


def _same_fields(one: Any, other: Any, but: tuple[str, ...] = ()) -> bool:
    names = [field.name for field in fields(one) if field.name not in but]
    return all(_same(getattr(one, name), getattr(other, name)) for name in names)


def _same(one: object, other: object) -> bool:
    """Return whether two values are equal in every array."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one):
        return _same_fields(one, other)
    return bool(one == other)
