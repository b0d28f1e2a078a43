"""`RoundProblem`: one scheduling round as columnar tables; jobs and nodes are indices.

Four tables: ``J`` jobs, ``K`` candidates (configurations of jobs), ``N`` nodes, ``H`` holds of
running jobs (one row per job and node). ``R`` node resources, in the order of
`formulations.resources.RESOURCES`: all of them, or all but the last, optional ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import LEFT_OUT, altered, at_rows, fill, require_shapes
from formulations.round.base_tables import HoldTable, JobTable, NodeTable
from formulations.round.candidates import CandidateTable, Scope
from formulations.round.numbering import Tables, options_of, startups
from formulations.round.options import OptionTable
from formulations.round.returns import ReturnTable, require_returns
from formulations.round.rule_table import RuleTable
from formulations.round.shared import SharedTable, require_shared
from formulations.tolerances import FEASIBILITY

__all__ = [
    "NONE", "CandidateTable", "HoldTable", "JobTable", "Level", "NodeTable", "OptionTable",
    "ReturnTable", "RoundProblem", "RuleTable", "Scope", "Selection", "SharedTable",
]  # fmt: skip

NONE = -1
"""Choice of a job that gets nothing."""


@dataclass(frozen=True, slots=True)
class RoundProblem:
    """Tables of a round: jobs, nodes, candidates and rules.

    Values are in `Level`, so one problem serves many goals.

    Parameters
    ----------
    jobs, candidates, nodes, holds
        The tables.
    interval_s
        Length of the round.
    rules
        Operator's rules.
    shared
        Options of several jobs on the same GPUs.
    returns
        Starts that cost less than ``restart_s``.

    Attributes
    ----------
    options
        All options, derived from these tables.
    known
        Cache of `formulations.columns.of_tables`; `later` rounds share it.

    Raises
    ------
    ValueError
        If the tables contradict each other (an index out of range, holds above a node's capacity,
        a part larger than its node); the message names the table and the rule.
    """

    jobs: JobTable
    candidates: CandidateTable
    nodes: NodeTable
    holds: HoldTable
    interval_s: float = 60.0
    rules: RuleTable = field(default_factory=RuleTable)
    shared: SharedTable = field(default_factory=SharedTable)
    returns: ReturnTable = field(default_factory=ReturnTable)
    options: OptionTable = field(init=False, repr=False, compare=False)
    known: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        n, h = self.nodes, self.holds
        c, _ = self.candidates.templates
        require_shapes(c, side=(c.count, n.resources - 1))
        require_shapes(h, demand=(h.count, n.resources))
        for name, index, limit in (
            ("candidates.job", self.candidates.job, self.jobs.count),
            ("candidates.node_class", c.node_class, n.classes),
            ("candidates.part_class", c.part_class, n.classes),
            ("nodes.node_class", n.node_class, n.classes),
            ("holds.job", h.job, self.jobs.count),
            ("holds.node", h.node, n.count),
            ("nodes.leaf", n.leaf, n.uplink_gb_per_s.size),
            ("candidates.node_set", c.node_set, n.sets.shape[0]),
        ):
            if index.size and (index.min() < 0 or index.max() >= limit):
                raise ValueError(f"{name} must lie in 0..{limit - 1}")
        _require_numbers(self)
        _require_candidates(c, n)
        holding = np.zeros(self.jobs.count, dtype=bool)
        holding[h.job] = True
        if (holding != self.jobs.running).any():
            raise ValueError("holds must cover exactly the jobs with a stay_iteration_s")
        require_shared(self.shared, self.jobs, self.candidates)
        require_returns(self.returns, self.jobs, self.candidates, n)
        if (self.held() > self.nodes.capacity[n.node_class] * (1 + FEASIBILITY)).any():
            raise ValueError("holds must not exceed the capacity of a node")
        object.__setattr__(self, "options", options_of(self._tables()))

    def later(self, jobs: JobTable) -> RoundProblem:
        """Return the same round after its jobs made progress and nothing else changed.

        Parameters
        ----------
        jobs
            Jobs with new work left, start-ups and GPU-seconds. Nothing else may differ; it is
            verified that the same jobs run at the same speeds.

        Raises
        ------
        ValueError
            If a job runs at another speed than before, starts or stops.
        """
        if not np.array_equal(jobs.stay_iteration_s, self.jobs.stay_iteration_s, equal_nan=True):
            raise ValueError("jobs.stay_iteration_s must not change")
        found, members = altered(self, jobs=jobs), self.options.members
        startup_s = startups(found._tables(), members.job, members.alone)
        return altered(found, options=self.options.later(startup_s))

    def _tables(self) -> Tables:
        """Return the tables that the options are derived from."""
        return Tables(self.jobs, self.candidates, self.nodes, self.holds, self.shared, self.returns)

    def returning(self, option: int) -> int | None:
        """Return the row of `returns` of an option, or None for all other options."""
        at = option - self.candidates.count - self.shared.count
        return int(self.returns.placed[at]) if 0 <= at < self.returns.options else None

    def named_nodes(self, option: int) -> tuple[int, ...]:
        """Return the nodes of an option on named nodes, empty for all other options."""
        row = self.returning(option)
        if row is None:
            return ()
        first, last = self.returns.node_start[row : row + 2].tolist()
        return tuple(self.returns.node[first:last].tolist())

    def parts_of(self, option: int) -> tuple[int, ...]:
        """Return the GPUs of each part that an option starts, largest first."""
        row = self.returning(option)
        if row is None:
            return self.options.starts.parts(option)
        return self.candidates.parts(int(self.returns.candidate[row]))

    def held(self) -> Floats:
        """Return the resources held on each node at first, shape (N, R); shared GPUs once."""
        total = np.zeros((self.nodes.count, self.nodes.resources))
        at_rows(np.add, total, self.holds.node, self.holds.demand)
        gang = self.shared.gang
        if not gang.size:
            return total
        others = np.delete(np.arange(gang.size), np.unique(gang, return_index=True)[1])
        again = np.isin(self.holds.job, others)
        np.subtract.at(total[:, 0], self.holds.node[again], self.holds.demand[again, 0])
        return total


def _require_numbers(problem: RoundProblem) -> None:
    """Refuse negative, infinite or missing amounts and times.

    NaN is allowed in the stays of queued jobs alone, infinity in uplinks of leaves.
    """
    jobs, n, h = problem.jobs, problem.nodes, problem.holds
    columns = {f"jobs.{name}": getattr(jobs, name) for name in JobTable.__slots__} | {
        "jobs.stay_iteration_s": jobs.stay_iteration_s[jobs.running],
        "candidates.side": problem.candidates.templates[0].side,
        "nodes.capacity": n.capacity,
        "nodes.uplink_gb_per_s": n.uplink_gb_per_s[n.uplink_gb_per_s != np.inf],
        "holds.demand": h.demand,
        "holds.uplink_gb_per_s": h.uplink_gb_per_s,
        "interval_s": np.array([problem.interval_s]),
    }
    # All at once: in small rounds, checking each column is much of the time to make the tables.
    every = np.concatenate([column.reshape(-1) for column in columns.values()])
    if every.min() >= 0 and every.max() < np.inf:
        return
    for name, column in columns.items():
        if not ((column >= 0) & (column < np.inf)).all():
            raise ValueError(f"{name} must be finite and at least 0")


def _require_candidates(c: CandidateTable, n: NodeTable) -> None:
    """Refuse parts larger than their node, and times that are not positive."""
    if c.count and (c.part_gpus < 1).any():
        raise ValueError("candidates.part_gpus must be at least 1")
    if c.count and (c.part_gpus > n.capacity[c.part_class, 0]).any():
        raise ValueError("candidates.part_gpus must not exceed the GPUs of a node of the class")
    has_parts = np.diff(c.part_start) > 0
    if (c.part_class[c.part_start[:-1][has_parts]] != c.node_class[has_parts]).any():
        raise ValueError(
            "candidates.part_class of the first part must be the class of the candidate"
        )
    if c.loose.any() and (c.part_gpus[c.loose[c.part_candidate]] > 1).any():
        raise ValueError("candidates.loose is only allowed for parts of one GPU")
    if c.count and not (np.isfinite(c.iteration_s) & (c.iteration_s > 0)).all():
        raise ValueError("candidates.iteration_s must be positive and finite")
    if ((c.scope == Scope.NODE) & (np.diff(c.part_start) > 1)).any():
        raise ValueError("candidates.scope must not be NODE for several parts")
    if (c.strict & (c.scope < Scope.LEAF)).any():
        raise ValueError("candidates.strict is only allowed for the scopes LEAF and POD")


class LevelError(ValueError):
    """A level whose values or worths do not have the shape of the options or members."""


@dataclass(frozen=True, slots=True)
class Level:
    """One goal of a ranked list: maximise ``sum value x`` over the options.

    Parameters
    ----------
    name
        Name of the goal, for example ``"guarantee"``.
    unit
        Unit of the value, for reports.
    value
        Value of each option, shape (O,).
    worth
        Part of each member in its option's value, shape (M,); by default all of it, for options of
        one job.
    passing
        Whether it binds the next goal alone. Later goals keep the value of that one as it is,
        neither less nor more.

    Raises
    ------
    LevelError
        If value or worth is not an array of one axis.
    """

    name: str
    unit: str
    value: Floats
    worth: Floats = LEFT_OUT
    passing: bool = False

    def __post_init__(self) -> None:
        fill(self, worth=self.value)
        for what, array in (("value", self.value), ("worth", self.worth)):
            if not isinstance(array, np.ndarray) or array.ndim != 1:
                raise LevelError(f"level {self.name!r}: {what} must be an array of one axis")

    @classmethod
    def of(cls, problem: RoundProblem, name: str, unit: str, worth: Floats) -> Level:
        """Return the goal whose value of an option is the sum of its members' worths.

        Parameters
        ----------
        problem
            The round, whose options and members the goal is about.
        name, unit
            Name and unit of the goal, for reports.
        worth
            Worth of each member of each option (``problem.options.members``), shape (M,), in the
            unit.

        Raises
        ------
        LevelError
            If there is not one worth per member.
        """
        members = problem.options.members.option.size
        if np.shape(worth) != (members,):
            raise LevelError(
                f"level {name!r}: worth must have shape ({members},), one entry per row of"
                f" problem.options.members, got {np.shape(worth)}"
            )
        return cls(name, unit, problem.options.total(worth), worth)


@dataclass(frozen=True, slots=True)
class Selection:
    """A decision in the problem's own indices.

    Parameters
    ----------
    choice
        Option of each job or `NONE`, shape (J,). All members of an option choose it.
    nodes
        Nodes of the option's parts of each job, in their order; empty if nothing starts.
    """

    choice: Ints
    nodes: tuple[tuple[int, ...], ...]

    @property
    def named(self) -> Ints:
        """Number of nodes named for each job, shape (J,)."""
        return np.fromiter(map(len, self.nodes), np.int64, len(self.nodes))

    def value(self, level: Level) -> float:
        """Return the level's objective, recomputed from its definition."""
        jobs = (self.choice >= 0).nonzero()[0]
        picked = self.choice[jobs]
        if picked.size and np.bincount(picked).max() > 1:  # shared options count once
            jobs = np.sort(jobs[np.unique(picked, return_index=True)[1]])
            picked = self.choice[jobs]
        worth = level.value[picked]
        starts = (self.named > 0)[jobs]
        # Floating-point sums depend on their order: starts before stays.
        return float(worth[starts].sum() + worth[~starts].sum())
