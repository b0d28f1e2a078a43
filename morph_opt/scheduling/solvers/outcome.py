"""Outcome of a solve: status, incumbent, bound and times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from formulations.arrays import Floats
from morph_opt.core.domain import InputError


class Status(StrEnum):
    """Status of the model after a solve, derived from checks and not from a library's code."""

    OPTIMAL = "optimal"
    """Rechecked incumbent, proven to be within the requested gap."""
    FEASIBLE = "feasible"
    """Rechecked incumbent; the requested gap is not proven."""
    INFEASIBLE = "infeasible"
    """Proof by the library that there is no solution."""
    UNBOUNDED = "unbounded"
    """Proof by the library that the objective is unbounded."""
    NO_SOLUTION = "no_solution"
    """End by a limit before any incumbent was found."""
    ERROR = "error"
    """Failure of the library, or an answer that violates the model."""


class Stop(StrEnum):
    """Reason why the solve ended."""

    PROVED = "proved"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    WORK_LIMIT = "work_limit"
    """Limit of the library's deterministic measure of work."""
    MEMORY_LIMIT = "memory_limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a solve.

    Parameters
    ----------
    gap
        Relative gap at which the incumbent counts as optimal, at least 0.
    time_s
        Wall-clock safeguard in seconds; answers that it cuts short are not reproducible.
    nodes
        Branch-and-bound nodes, reproducible; None if unlimited.
    threads
        Worker threads.
    seed
        Random seed of the library.
    work
        The library's own deterministic measure of work (CP-SAT's deterministic seconds), not
        comparable between libraries; None if unlimited. Ignored without `Capabilities.work_limit`.

    Raises
    ------
    InputError
        If a value is outside its range.
    """

    gap: float = 1e-4
    time_s: float = 10.0
    nodes: int | None = None
    threads: int = 1
    seed: int = 0
    work: float | None = None

    def __post_init__(self) -> None:
        for field, value, least in (
            ("gap", self.gap, 0.0),
            ("time_s", self.time_s, 0.0),
            ("nodes", self.nodes, 0),
            ("threads", self.threads, 1),
            ("seed", self.seed, 0),
            ("work", self.work, 0.0),
        ):
            if value is not None and not value >= least:
                raise InputError(f"must be at least {least:g}, got {value}", field=field)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a solve.

    Parameters
    ----------
    status, stop
        Status of the model, and why the solve ended.
    x
        Incumbent, shape (columns,), integers rounded; None if there is none.
    objective
        Value of the incumbent, recomputed from the model; NaN if there is none.
    bound
        Proven upper bound on the objective (every model is a maximisation); inf if none.
    gap
        `relative_gap` of objective and bound; inf without incumbent or bound.
    nodes
        Branch-and-bound nodes.
    build_s, solve_s, check_s
        Wall times: handing the model over, the library's solve, rechecking its answer.
    cpu_s
        Processor time of handing over and solving, child processes included; the time to compare
        on a shared machine.
    solver
        Name and version of the library.
    message
        Status text of the library, for the log.
    row_duals
        Shape (rows,): shadow prices of a continuous model where the adapter gives them:
        the change of the objective per unit by which the row's binding side is raised. As every
        model is a maximisation, a binding ``<=`` row has a price of at least 0 and a binding
        ``>=`` row one of at most 0; a row that is slack has 0.
    """

    status: Status
    stop: Stop
    solver: str
    x: Floats | None = None
    objective: float = float("nan")
    bound: float = float("inf")
    gap: float = float("inf")
    nodes: int = 0
    build_s: float = 0.0
    solve_s: float = 0.0
    check_s: float = 0.0
    cpu_s: float = 0.0
    message: str = ""
    row_duals: Floats | None = None

    @property
    def usable(self) -> bool:
        """Whether there is a rechecked incumbent."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)


def relative_gap(objective: float, bound: float, unit: float | None = None) -> float:
    """Return the relative gap of a maximisation.

    It is ``max(0, bound - objective) / max(|objective|, 1e-12 unit)``.

    A difference of at most ``1e-9 unit`` counts as none; without an incumbent or bound it is inf.

    Parameters
    ----------
    unit
        Size of a large value; None for the larger of the two, at most 1.
    """
    if not isfinite(objective) or not isfinite(bound):
        return float("inf")
    if unit is None:
        unit = min(1.0, max(abs(objective), abs(bound)))
    if bound - objective <= 1e-9 * unit:
        return 0.0
    return (bound - objective) / max(abs(objective), 1e-12 * unit)
