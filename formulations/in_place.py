"""What may go on where it runs: stays and pairs in place, as one table.

Options of a round are numbered through: its candidates from 0 to K - 1, then the stay of job j as
K + j. A stay holds what its job holds; a pair in place holds the GPUs of its first job once, and
the other resources of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.round.options import joint_holds
from formulations.round.tables import STAY, RoundProblem


@dataclass(frozen=True, slots=True)
class InPlace:
    """One row per option that goes on in place and node; stays first.

    Parameters
    ----------
    option
        Number of the option, shape (E,).
    job, choice
        Whose GPUs they are, and what that job chooses in this option; shape (E,).
    node
        Where, shape (E,).
    demand
        Resources held there, shape (E, R).
    uplink_gb_per_s
        Reserved on the uplink of the node's leaf, shape (E,).
    """

    option: Ints
    job: Ints
    choice: Ints
    node: Ints
    demand: Floats
    uplink_gb_per_s: Floats

    def goes_on(self, choice: Ints) -> Bools:
        """Rows of the options that a choice of every job takes, shape (E,)."""
        return np.asarray(choice[self.job] == self.choice)

    def take(self, rows: Ints | Bools) -> InPlace:
        """These rows."""
        return InPlace(
            self.option[rows], self.job[rows], self.choice[rows], self.node[rows],
            self.demand[rows], self.uplink_gb_per_s[rows],
        )  # fmt: skip


def in_place(problem: RoundProblem) -> InPlace:
    """Everything that may go on in place."""
    holds, joint, table = problem.holds, joint_holds(problem), problem.candidates
    return InPlace(
        np.concatenate([table.count + holds.job, joint.candidate]),
        np.concatenate([holds.job, table.job[joint.candidate]]),
        np.concatenate([np.full(holds.count, STAY, dtype=np.int64), joint.candidate]),
        np.concatenate([holds.node, joint.node]),
        np.concatenate([holds.demand, joint.demand]),
        np.concatenate([holds.uplink_gb_per_s, joint.uplink_gb_per_s]),
    )
