"""How busy the GPUs of each type were; defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from morph_opt.domain import Cluster
from morph_opt.metrics.history import History, JobRecord
from morph_opt.metrics.schedule import began_s

Gpu = tuple[int, int]
Stretch = tuple[float, float]


def gpu_utilization_by_type(history: History, cluster: Cluster) -> dict[str, float]:
    """Part of each type's GPU-seconds that were held, from its beginning to the end.

    An instant at which several jobs hold a GPU counts once.

    Returns
    -------
    dict
        GPU type to a fraction in [0, 1], types in order of their names; 0 in a replay of no
        length.
    """
    nodes_gpu_type = [node.type.gpu_type.name for node in cluster.nodes]
    counts: defaultdict[str, int] = defaultdict(int)
    for node in cluster.nodes:
        counts[node.type.gpu_type.name] += node.type.gpus
    length_s = history.ended.time_s - began_s(history)
    held_s: defaultdict[str, float] = defaultdict(float)
    for (node_index, _), stretches in stretches_by_gpu(history.jobs).items():
        held_s[nodes_gpu_type[node_index]] += covered_s(stretches)
    return {
        name: held_s[name] / (counts[name] * length_s) if length_s > 0.0 else 0.0
        for name in sorted(counts)
    }


def stretches_by_gpu(records: Iterable[JobRecord]) -> dict[Gpu, list[Stretch]]:
    """From when to when each GPU was held, by (node index, GPU index)."""
    found: defaultdict[Gpu, list[Stretch]] = defaultdict(list)
    for record in records:
        for segment in record.segments:
            for node, gpus in segment.placement.parts:
                for gpu in gpus:
                    found[node, gpu].append((segment.start_s, segment.end_s))
    return found


def covered_s(stretches: list[Stretch]) -> float:
    """Length of the union."""
    total_s, until_s = 0.0, float("-inf")
    for start_s, end_s in sorted(stretches):
        total_s += max(0.0, end_s - max(start_s, until_s))
        until_s = max(until_s, end_s)
    return total_s
