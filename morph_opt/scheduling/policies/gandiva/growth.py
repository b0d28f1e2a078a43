"""Growth of a job into idle GPUs of its servers, by the speeds of its plan."""

from __future__ import annotations

from morph_opt.core.domain import ExecutionPlan, NodeType, Shape, Span
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel


class Growth:
    """Fastest GPU counts of jobs on their servers.

    Parameters
    ----------
    belief
        Speeds that the policy goes by; plans are judged by their memory as candidates are.
    """

    def __init__(self, belief: SpeedModel) -> None:
        self._speeds = MemoryFilter(belief)
        self._paces: dict[tuple[str, ExecutionPlan, NodeType, int], dict[int, float]] = {}

    def best(
        self, model: str, plan: ExecutionPlan, kind: NodeType, servers: int, gang: int, most: int
    ) -> int:
        """Return the fastest number of GPUs from the gang to ``most``, the smallest if equal.

        Parameters
        ----------
        plan
            Execution plan, which growth does not change.
        kind, servers
            Node type and number of the job's servers.
        """
        key = (model, plan, kind, servers)
        if key not in self._paces:
            self._paces[key] = self._ask(*key)
        paces = self._paces[key]
        counts = [gang, *(n for n in sorted(paces) if gang < n <= most)]
        return min(counts, key=lambda n: (paces.get(n, float("inf")), n))

    def _ask(
        self, model: str, plan: ExecutionPlan, kind: NodeType, servers: int
    ) -> dict[int, float]:
        """Return seconds per iteration by GPUs, on whole servers and a part of one more."""
        rows = self._speeds.configurations(model, kind, servers * kind.gpus, Span.LEAF)
        return {
            row.shape.gpus: row.iteration_s
            for row in reversed(rows)
            if row.plan == plan and row.shape == _filling(row.shape.gpus, kind.gpus)
        }


def _filling(gpus: int, each: int) -> Shape:
    full, rest = divmod(gpus, each)
    return Shape.of(*[each] * full, *([rest] if rest else []))
