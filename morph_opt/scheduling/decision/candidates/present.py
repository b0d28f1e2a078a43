"""Round in which running jobs may only be moved, in the configuration that they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import Assignment, Job
from morph_opt.scheduling.decision.candidates.slices import ModelSlice, of_request
from morph_opt.scheduling.decision.candidates.table import RoundView


def with_moves_only(view: RoundView, starting: str | None = None) -> RoundView:
    """Return the round with only these candidates, numbered anew.

    A running job may start in its present plan and shape where it is predicted to be no slower; a
    waiting job starts not at all, except ``starting``, which starts as it requests.

    Parameters
    ----------
    view
        Round without rules, pairs and prices of starts, in which no candidate is left out.
    starting
        Name of a waiting job; None for none.
    """
    problem, kept = view.problem, np.zeros(view.problem.candidates.count, dtype=bool)
    # Jobs with equal configurations share a slice, and mostly a plan, a shape and a speed.
    known: dict[tuple[object, ...], tuple[Bools, ModelSlice]] = {}
    slices, counts = [], np.zeros(problem.jobs.count, dtype=np.int64)
    kinds = problem.nodes.node_class
    for job, state in enumerate(view.states):
        own, running, first = view.slices[job], state.running, int(view.offset[job])
        now_s = float(problem.jobs.stay_iteration_s[job])
        key: tuple[object, ...] = (id(own), None)
        if running is not None:
            kind = int(kinds[running.placement.nodes[0]])
            key = (id(own), running.plan, running.placement.shape, kind, now_s)
        elif state.job.name == starting:
            key = (id(own), state.job)
        if key not in known:
            rows = np.zeros(own.gpus.size, dtype=bool)
            if running is not None:
                rows = _moves(own, running, kind, now_s)
            elif state.job.name == starting:
                rows = _request(own, state.job)
            known[key] = rows, own.only(np.flatnonzero(rows))
        rows, less = known[key]
        kept[first : first + rows.size] = rows
        counts[job] = less.gpus.size
        slices.append(less)
    candidates = problem.candidates.take(np.flatnonzero(kept))
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    problem = replace(problem, candidates=candidates)
    return replace(view, problem=problem, slices=tuple(slices), offset=offset)


def _moves(own: ModelSlice, running: Assignment, kind: int, now_s: float) -> Bools:
    """Return the rows in which a job does what it does now, no slower, on nodes of its class."""
    shape = running.placement.shape
    same = [
        row.row.plan == running.plan and (row.row.shape == shape or (loose and own_gpus))
        for row, loose, own_gpus in zip(
            own.rows, own.loose.tolist(), (own.gpus == shape.gpus).tolist(), strict=True
        )
    ]
    first = np.cumsum(own.part_count) - own.part_count
    here = own.part_class[first] == kind
    found: Bools = here & (own.iteration_s <= now_s * (1.0 + SAME_SPEED)) & np.asarray(same)
    return found


def _request(own: ModelSlice, job: Job) -> Bools:
    """Return the rows of a job's request, or those in its place (`slices.of_request`)."""
    wanted = {id(scoped) for _, scoped in of_request([(0, one) for one in own.rows], job)}
    return np.asarray([id(one) in wanted for one in own.rows], dtype=bool)
