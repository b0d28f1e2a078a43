"""Cheaper starts: on nodes that a job had before, or in the plan that it had."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import no_floats, no_ints, require_shapes
from formulations.round.base_tables import JobTable, NodeTable
from formulations.round.candidates import CandidateTable


@dataclass(frozen=True, slots=True)
class ReturnTable:
    """Prices of starts that reuse something of the job's; none by default.

    A row without nodes is the price of a candidate wherever it starts. A row with nodes is an
    option of its own: the same candidate on these nodes, one for each of its parts.

    Parameters
    ----------
    candidate
        Candidate in which the job starts, shape (B,).
    startup_s
        Start-up in place of the job's ``restart_s``.
    node_start, node
        Nodes as compressed rows: row b starts on ``node[node_start[b]:node_start[b+1]]``, in the
        order of its parts (shapes (B + 1,) and (Q,)).
    """

    candidate: Ints = field(default_factory=no_ints)
    startup_s: Floats = field(default_factory=no_floats)
    node_start: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    node: Ints = field(default_factory=no_ints)

    def __post_init__(self) -> None:
        rows = int(np.size(self.candidate))
        require_shapes(self, startup_s=(rows,), node_start=(rows + 1,))
        require_shapes(self, node=(int(self.node_start[-1]),))

    @property
    def count(self) -> int:
        """Number of prices B."""
        return int(self.candidate.size)

    @property
    def placed(self) -> Ints:
        """Rows that name nodes, each of which is an option."""
        return np.flatnonzero(np.diff(self.node_start) > 0)

    @property
    def options(self) -> int:
        """Number of options."""
        return int(self.placed.size) if self.count else 0

    @property
    def of_node(self) -> Ints:
        """Option of each named node, shape (Q,)."""
        lengths = np.diff(self.node_start)
        return np.repeat(np.arange(self.options, dtype=np.int64), lengths[lengths > 0])

    def prices(self, restart_s: Floats) -> Floats:
        """Return every candidate's start-up, shape (K,), from its start-up without this table."""
        found = restart_s.copy()
        anywhere = np.diff(self.node_start) == 0
        found[self.candidate[anywhere]] = self.startup_s[anywhere]
        return found


def require_returns(
    returns: ReturnTable, jobs: JobTable, table: CandidateTable, nodes: NodeTable
) -> None:
    """Refuse prices of starts that contradict the other tables.

    Raises
    ------
    ValueError
        If a rule is broken; the message names the column and the rule.
    """
    if not returns.count:
        return
    for name, index, limit in (
        ("candidate", returns.candidate, table.count),
        ("node", returns.node, nodes.count),
    ):
        if index.size and (index.min() < 0 or index.max() >= limit):
            raise ValueError(f"returns.{name} must lie below {limit}")
    if not (np.isfinite(returns.startup_s) & (returns.startup_s >= 0)).all():
        raise ValueError("returns.startup_s must be finite and at least 0")
    lengths, placed = np.diff(returns.node_start), returns.placed
    if (lengths < 0).any():
        raise ValueError("returns.node_start must ascend")
    if (lengths[placed] != np.diff(table.part_start)[returns.candidate[placed]]).any():
        raise ValueError("returns.node must name a node for each part of the candidate")
    pairs = np.column_stack([returns.of_node, returns.node])
    if np.unique(pairs, axis=0).shape[0] != pairs.shape[0]:
        raise ValueError("returns.node must name distinct nodes")
    if table.loose[returns.candidate[placed]].any():
        raise ValueError("returns.node is not allowed for loose candidates")
    if jobs.running[table.job[returns.candidate[placed]]].any():
        raise ValueError("returns.node is only allowed for queued jobs: running jobs stay in place")
