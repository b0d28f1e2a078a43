"""A level in a wrong shape is refused in the user's words, whatever was imported before."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import morph_opt as mo
from formulations.round.tables import Level, LevelError
from morph_opt.scheduling.decision.objective import goals_of
from tests.formulations.worlds.random_rounds import random_round


class TwoAxes(mo.Stateless):
    """An objective whose value has an axis too many."""

    name = "two-axes"

    def goals(self, problem):  # type: ignore[no-untyped-def]
        """Build a level that cannot be."""
        return (mo.Level("bad", "s", np.ones((problem.options.count, 2))),)


class TooFew(mo.Stateless):
    """An objective with a worth too few."""

    name = "too-few"

    def goals(self, problem):  # type: ignore[no-untyped-def]
        """Build a level without the last member."""
        return (mo.Level.of(problem, "few", "s", np.ones(problem.options.members.job.size - 1)),)


@pytest.mark.parametrize(
    ("objective", "rule"),
    [
        (TwoAxes(), "level 'bad': value must be an array of one axis"),
        (TooFew(), "level 'few': worth must have shape"),
    ],
)
def test_refused_level_names_the_objective(objective: mo.Stateless, rule: str) -> None:
    problem = random_round(np.random.default_rng(0))
    with pytest.raises(mo.InputError, match=re.escape(rule)) as refused:
        goals_of(objective, problem, None)
    assert type(objective).__name__ in str(refused.value)


@pytest.mark.parametrize(
    "first", ["formulations.round.tables", "morph_opt.scheduling.decision.objective"]
)
def test_a_level_raises_the_same_whatever_was_imported_before(first: str) -> None:
    code = f"""
import {first}, numpy
from formulations.round.tables import Level
try:
    Level("a", "s", numpy.ones((2, 2)))
except ValueError as error:
    print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == LevelError.__name__
    with pytest.raises(LevelError):
        Level("a", "s", np.ones((2, 2)))
