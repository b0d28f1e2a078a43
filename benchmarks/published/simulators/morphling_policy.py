"""Morphling's published round as a policy of the replay, by import path.

On our speeds: a model is *large* if it runs on one GPU only by offloading; sizes of the two
published large models are tried in the published order, of others largest first. Jobs that exceed a
node are cut in list order, where the published simulator oversubscribes it.
"""

from __future__ import annotations

from benchmarks.published.simulators.morphling import (
    PUBLISHED_SIZES,
    Curve,
    Entry,
    LargeSizes,
    SmallCurve,
    decide,
)
from morph_opt.core.domain import PlanFamily
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.policies.filling import Filling
from morph_opt.scheduling.policies.malleable.frame import JobWays
from morph_opt.scheduling.policies.malleable.morphling import (
    Morphling,
    gpus_held,
    gpus_of_nodes,
    stairs,
)
from morph_opt.scheduling.policies.registry import PolicyOptions


def policy(belief: SpeedModel, options: PolicyOptions) -> Morphling:
    """What ``--policy benchmarks.published.simulators.morphling_policy:policy`` makes."""
    del options  # it knows none
    return PublishedMorphling(belief)


class PublishedMorphling(Morphling):
    """Rounds of the published code; frame, placement and prices as in `Morphling`."""

    name = "morphling, published"

    def shapes(self, filling: Filling, ways: list[JobWays]) -> list[tuple[int, ...]]:
        """See `Morphling`."""
        held, capacity = gpus_held(filling), gpus_of_nodes(filling)
        size = max(capacity, default=0)
        asked = filling.problem.jobs.request_iteration_s
        entries = [
            Entry(
                state.job.name,
                _curve(filling.view, j, ways[j], size),
                state.job.guaranteed,
                1.0 / float(asked[j]),
                max(0, state.starts - 1),
                max(0.0, self.now_s - state.job.submission_s),
                state.job.submission_s <= self.now_s - filling.problem.interval_s,
                held[j],
            )
            for j, state in enumerate(filling.view.states)
        ]
        left = list(capacity)
        found = []
        for job in decide(entries, capacity):
            parts = []
            for node, gpus in job.gpus.items():
                # The published code may give out more than a node has: later jobs are cut.
                cut = min(gpus, left[node])
                left[node] -= cut
                parts += [cut] if cut else []
            found.append(tuple(sorted(parts, reverse=True)))
        return found


def _curve(view: RoundView, job: int, ways: JobWays, size: int) -> Curve:
    """A curve on one node, or sizes for a model that needs offloading to run on one GPU."""
    alone = any(
        scoped.row.shape.gpus == 1 and scoped.row.plan.family is not PlanFamily.ZERO_OFFLOAD
        for scoped in view.slices[job].rows
    )
    steps = stairs(ways, size)
    if alone and steps:
        used = [max((s for s in steps if s <= g), default=min(steps)) for g in range(1, size + 1)]
        speed = tuple(1.0 / steps[g] for g in used)
        return SmallCurve(max(speed), speed, tuple(used), ((),) * size)
    shapes: dict[int, list[tuple[int, ...]]] = {}
    for way in ways.ways:
        if way.parts not in shapes.setdefault(way.gpus, []):
            shapes[way.gpus].append(way.parts)
    published = PUBLISHED_SIZES.get(view.states[job].job.model, ())
    order = [gpus for gpus in published if gpus in shapes] or sorted(shapes, reverse=True)
    sizes = tuple((gpus, tuple(shapes[gpus])) for gpus in order)
    return LargeSizes(1.0, sizes, {parts: () for gpus in order for parts in shapes[gpus]})
