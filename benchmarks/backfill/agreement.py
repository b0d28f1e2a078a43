"""Agreement of a replay at recorded instants with a recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.backfill.recorded import Recording
from benchmarks.backfill.replay import Replay
from morph_opt.scheduling.backfill.nodes import bits

CLOSE = 15
"""Difference of two priorities, of those up to 10,000, that still counts as the same."""
APART_S = 2.0
"""Recorded starts that are closer are no pair with an order."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a recording is reproduced.

    Parameters
    ----------
    wait_s, replayed_s
        Mean wait, recorded and replayed.
    median_s, p95_s
        Absolute difference of a start.
    in_order, same_nodes
        Shares of pairs of starts in the recorded order, and of jobs on the recorded nodes.
    same_priority
        Share of jobs whose first priority is close to the recorded one; None without priorities.
    """

    wait_s: float
    replayed_s: float
    median_s: float
    p95_s: float
    in_order: float
    same_nodes: float
    same_priority: float | None

    def __str__(self) -> str:
        return (
            f"mean wait {self.wait_s:,.0f} s, replayed {self.replayed_s / self.wait_s - 1.0:+.1%}; "
            f"a start is off by {self.median_s:.1f} s (median), {self.p95_s:.1f} s (p95); "
            f"{self.in_order:.2%} in order, {self.same_nodes:.0%} on the same nodes"
        )


def agreement(recording: Recording) -> Agreement:
    """Replay a recording at its instants, and compare."""
    found = Replay(recording)
    found.run()
    begun = [
        one for one in recording.jobs if one.start_s is not None and one.number in found.starts_s
    ]
    real = np.array([one.start_s for one in begun], dtype=float)
    mine = np.floor([found.starts_s[one.number] for one in begun])  # as sacct states them
    asked = np.array([one.submit_s for one in begun])
    off = np.abs(real - mine)
    far = np.abs(real[:, None] - real[None]) > APART_S
    same = (real[:, None] - real[None]) * (mine[:, None] - mine[None]) >= 0.0
    names = found.site.conf.nodes
    nodes = [{names[n] for n in bits(found.held[one.number])} == {*one.hosts} for one in begun]
    close = None
    if found.weights is not None:
        first = found.first_priorities
        close = np.mean([abs(first[one.number] - one.priority) <= CLOSE for one in begun])
    return Agreement(
        float((real - asked).mean()),
        float((mine - asked).mean()),
        float(np.median(off)),
        float(np.percentile(off, 95.0)),
        float(same[far].mean()),
        float(np.mean(nodes)),
        None if close is None else float(close),
    )
