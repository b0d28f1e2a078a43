"""Small linear programs against scipy's."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.prices.choose import scipy_lp
from morph_opt.scheduling.solvers.small_lp import SmallLp


def test_the_optimum_and_its_multipliers_are_scipys() -> None:
    mine, draw = SmallLp(), np.random.default_rng(3)
    for _ in range(50):
        rows, columns = int(draw.integers(1, 12)), int(draw.integers(1, 6))
        cost, matrix = draw.normal(size=columns), draw.normal(size=(rows, columns))
        limit, lower = draw.normal(size=rows), np.zeros(columns)
        upper = np.where(draw.random(columns) < 0.5, np.inf, draw.uniform(0.1, 3.0, columns))
        one, two = (lp(cost, matrix, limit, lower, upper) for lp in (mine, scipy_lp))
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            assert cost @ one[0] == pytest.approx(cost @ two[0], abs=1e-7)
            assert (matrix @ one[0] <= limit + 1e-6).all()
            assert (one[1] >= -1e-9).all()
            assert one[1] @ limit == pytest.approx(two[1] @ limit, abs=1e-6)


def test_an_answer_does_not_depend_on_those_before_it() -> None:
    used, draw = SmallLp(), np.random.default_rng(4)
    for _ in range(20):
        program = (
            draw.normal(size=3),
            draw.normal(size=(5, 3)),
            np.abs(draw.normal(size=5)),
            np.zeros(3),
            np.ones(3),
        )
        one, two = used(*program), SmallLp()(*program)
        assert one is not None
        assert two is not None
        assert one[0].tobytes() == two[0].tobytes()
