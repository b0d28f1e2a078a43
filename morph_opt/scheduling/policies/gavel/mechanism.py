"""Gavel's round mechanism (OSDI'20, section 5): from target shares to running jobs.

Every (job, type) has the priority ``x[j, m] / received[j, m]``, the time received on the type
since the last reset as a part of all time given there. Per type, in a fixed order, gangs are
served by (priority, deficit, share), skipping what does not fit. At a reset the shares are solved
again, and what a job should have received less what it did receive is added to its deficit.

Bookkeeping on plain arrays; inside the round engine it is
`morph_opt.scheduling.policies.gavel.policy`.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.tolerances import SMALLEST
from morph_opt.scheduling.policies.published import GAVEL


class Mechanism:
    """Received time, deficits and priorities of numbered jobs on numbered types.

    Parameters
    ----------
    jobs, types
        Number of jobs that will ever come, and of GPU types.
    round_s
        Length of a round; a job is credited half of it when it comes and at every reset.
    """

    def __init__(self, jobs: int, types: int, round_s: float = GAVEL.round_s) -> None:
        self.received = np.full((jobs, types), round_s / 2.0)
        self.deficit = np.zeros((jobs, types))
        self.total = np.zeros(types)
        self.shares = np.zeros((jobs, types))
        self.known = np.zeros(jobs, dtype=bool)
        self.reset_s = 0.0
        self._credit = round_s / 2.0

    def reset(self, now_s: float, active: Ints, shares: Floats) -> None:
        """Take new shares (rows of ``active``) and add missed time to the deficits."""
        elapsed = now_s - self.reset_s
        got = self.received[active] - self._credit
        self.deficit[active] += self.shares[active] * elapsed - got
        self.received[active] = self._credit
        self.total[:] = self._credit * active.size
        self.reset_s = now_s
        self.shares[:] = 0.0
        self.shares[active] = shares
        self.known[:] = False
        self.known[active] = True

    def credit(self, job: int, kind: int, seconds: float) -> None:
        """Count the seconds for which a job ran on a type."""
        self.received[job, kind] += seconds
        self.total[kind] += seconds

    def priorities(self, active: Ints) -> Floats:
        """Return the priority of the active jobs on each type, shape (active, T)."""
        shares, received = self.shares[active], self.received[active]
        part = np.where(self.total > 0, received / np.maximum(self.total, SMALLEST), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(part > 0, shares / part, shares * GAVEL.unserved)
        return np.asarray(np.where(shares > 0, ratio, 0.0))

    def order(self, active: Ints, kind: int) -> Ints:
        """Return positions in ``active`` by (priority, deficit, share) on a type, highest first."""
        priority = self.priorities(active)[:, kind]
        deficit, share = self.deficit[active, kind], self.shares[active, kind]
        # Stable descending order, as sorting in reverse keeps equal elements in their order.
        keys = np.lexsort((np.arange(active.size), -share, -deficit, -priority))
        return np.asarray(keys)
