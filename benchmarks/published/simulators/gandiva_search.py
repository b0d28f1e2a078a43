"""A hyper-parameter search under FIFO and under time slices: equal trials on one GPU each.

When the last trial has reported (done so many seconds of work), all but the winner are cancelled at
the next boundary. FIFO is slices without oversubscription.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.published.simulators.gandiva_slices import (
    SlicedJob,
    SliceJob,
    SliceRules,
    Slices,
)


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Instants in seconds.

    Parameters
    ----------
    all_reported_s, mean_report_s
        Last and mean report.
    winner_end_s, known_best_s
        Completion of the winner; when it is complete and known to be the winner.
    cancelled_s
        Boundary at which the others were cancelled.
    """

    all_reported_s: float
    mean_report_s: float
    winner_end_s: float
    known_best_s: float
    cancelled_s: float


def run_search(
    trials: int, gpus: int, work_s: float, feedback_s: float, winner: int, *, sliced: bool
) -> SearchOutcome:
    """The search on one server; first decision one quantum after the submission of all."""
    rules = SliceRules(1, gpus, height=None if sliced else 1)
    reports: dict[int, float] = {}
    cancelled: list[float] = []

    def cancel(now: float, slots: Sequence[SlicedJob]) -> Sequence[SlicedJob]:
        for slot in slots:
            done_s = work_s - slot.left_s
            if slot.job.name not in reports and done_s >= feedback_s:
                # Nothing is charged: the slice that ended at `last_end_s` or at the completion.
                ended = min(slot.last_end_s, slot.end_s)
                reports[slot.job.name] = ended - (done_s - feedback_s)
        if cancelled or len(reports) < trials:
            return ()
        cancelled.append(now)
        return [slot for slot in slots if slot.job.name != winner and slot.end_s > now]

    jobs = [SliceJob(trial, 1, 0.0, work_s) for trial in range(trials)]
    slots = Slices(jobs, rules, cancel).run()
    end_s, last_s = slots[winner].end_s, max(reports.values())
    mean_s = sum(reports.values()) / trials
    return SearchOutcome(last_s, mean_s, end_s, max(end_s, last_s), cancelled[0])
