"""From prices to a choice within the shared rows, by hand."""

from __future__ import annotations

import numpy as np

from formulations.prices import Relaxation, choose_prices
from formulations.prices.rounding import Rounding
from tests.formulations.worlds.rounds import Candidate, level_of, tiny


def test_repair_of_one_row_overloads_no_other() -> None:
    """Ten GPUs chosen where eight are, ten threads there.

    Job 0 on two GPUs instead of four loses least, but needs twelve threads; so job 1 goes.
    """
    small = Candidate(0, (2,), side=(6.0, 0.0, 0.0))
    problem = tiny(
        [8], [Candidate(0, (4,)), small, Candidate(1, (6,))], side=(10.0, 1000.0, 1000.0)
    )
    relaxation = Relaxation(problem, level_of(problem, [4.0, 3.9, 1.0], [0.0, 0.0]))
    rounding = Rounding(relaxation, choose_prices(relaxation))
    choice = rounding.repaired(np.asarray([0, 2]))
    assert choice.tolist() == [0, -1]
    assert (relaxation.usage(choice) <= rounding.limit).all()


def test_job_with_the_smallest_loss_shrinks_on_overload() -> None:
    """Ten GPUs chosen where eight are: job 0 takes two instead of four, for 0.1 less."""
    problem = tiny([8], [Candidate(0, (4,)), Candidate(0, (2,)), Candidate(1, (6,))])
    relaxation = Relaxation(problem, level_of(problem, [4.0, 3.9, 6.0], [0.0, 0.0]))
    rounding = Rounding(relaxation, choose_prices(relaxation))
    assert rounding.repaired(np.asarray([0, 2])).tolist() == [1, 2]
