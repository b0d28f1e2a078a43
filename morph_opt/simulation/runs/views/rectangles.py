"""GPUs held over time as rectangles: columns of numbers, ready to draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain.placement import runs_of
from morph_opt.simulation.metrics.history import Segment
from morph_opt.simulation.runs.views.nodes import NodeMap


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Columns of rectangles: one per job, block of neighbouring GPUs, and time with one partner.

    Areas are the GPU-seconds held: each job of a pair has half of the block.

    Parameters
    ----------
    job, segment
        Indices of the job and of its segment in the run.
    node, first_gpu, last_gpu
        Node, and GPUs within the node, both included.
    bottom, top
        The same in GPUs numbered through all nodes; half of the block for each of two partners.
    start_s, end_s
        Begin and end.
    startup_until_s
        Instant at which progress begins; before ``start_s`` if it has begun.
    partner
        Index of the job on the same GPUs; -1 without one.
    """

    job: Ints
    segment: Ints
    node: Ints
    first_gpu: Ints
    last_gpu: Ints
    bottom: Floats
    top: Floats
    start_s: Floats
    end_s: Floats
    startup_until_s: Floats
    partner: Ints

    def __len__(self) -> int:
        return len(self.job)

    @property
    def gpu_s(self) -> float:
        """GPU-seconds of all rectangles."""
        return float(np.sum((self.top - self.bottom) * (self.end_s - self.start_s)))


def rectangles_of(
    segments: Sequence[tuple[int, Segment]], nodes: NodeMap, index_of: Mapping[str, int]
) -> Rectangles:
    """Return the rectangles of these segments, in their order.

    Parameters
    ----------
    segments
        Index of the job, and the segment.
    nodes
        Nodes with the numbers of their GPUs.
    index_of
        Index of each job by name, for partners.
    """
    first = nodes.first_gpu.tolist()
    rows: list[tuple[float, ...]] = []
    for number, (job, segment) in enumerate(segments):
        until_s = segment.start_s + segment.startup_s
        for begin_s, end_s, partner, _ in segment.stretches():
            if end_s <= begin_s:
                continue
            other = -1 if partner is None else index_of.get(partner, -1)
            for node, low, high in blocks(segment):
                bottom, top = float(first[node] + low), float(first[node] + high + 1)
                if other >= 0:
                    middle = 0.5 * (bottom + top)
                    bottom, top = (bottom, middle) if job < other else (middle, top)
                rows.append(
                    (job, number, node, low, high, bottom, top, begin_s, end_s, until_s, other)
                )
    table = np.asarray(rows, dtype=np.float64).reshape(len(rows), len(fields(Rectangles)))
    whole = table.astype(np.int64).T
    job, segment_index, node, low, high = whole[:5]
    bottom, top, begin_s, end_s, until_s = table.T[5:10]
    return Rectangles(
        job, segment_index, node, low, high, bottom, top, begin_s, end_s, until_s, whole[10]
    )


def blocks(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """Yield node, first and last GPU of each block of neighbours that a segment holds."""
    for node, gpus in segment.placement.parts:
        yield from ((node, low, high) for low, high in runs_of(gpus))
