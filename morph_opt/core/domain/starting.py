"""Start-up times: shortest on a job's former nodes, shorter in its former plan."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.placement import Assignment, Placement
from morph_opt.core.domain.plan import ExecutionPlan

LONGEST_S = 1e12
"""Largest start-up time in seconds."""


@dataclass(frozen=True, slots=True)
class StartPrices:
    """Seconds of start-up: in general, in the same plan, and on the same nodes.

    Parameters
    ----------
    restart_s
        Start in another plan or with another number of GPUs, or of a job that kept nothing.
    migrate_s
        Start in the former plan with as many GPUs on other nodes; at most ``restart_s``.
    resume_s
        Start in the former plan with as many GPUs on each former node; at most ``migrate_s``.

    Raises
    ------
    InputError
        If the prices do not ascend, or one is no number of seconds.
    """

    restart_s: float
    migrate_s: float
    resume_s: float

    def __post_init__(self) -> None:
        for name, most in (("migrate_s", "restart_s"), ("resume_s", "migrate_s")):
            price, limit = getattr(self, name), getattr(self, most)
            require_finite(name, price, at_least=0.0, at_most=LONGEST_S)
            if price > limit:
                raise InputError(f"must be at most {most} = {limit:g}, got {price:g}", field=name)

    @classmethod
    def of(cls, restart_s: float, migrate_s: float | None, resume_s: float | None) -> StartPrices:
        """Return the prices with the missing ones filled in.

        Parameters
        ----------
        restart_s, migrate_s, resume_s
            Seconds of start-up, see `StartPrices`; None for the next longer one.
        """
        migrate = restart_s if migrate_s is None else migrate_s
        return cls(restart_s, migrate, migrate if resume_s is None else resume_s)

    @property
    def plain(self) -> bool:
        """Whether every start costs the same."""
        return self.resume_s == self.restart_s

    def of_start(self, kept: Assignment | None, plan: ExecutionPlan, where: Placement) -> float:
        """Return the price of a start, in seconds.

        Parameters
        ----------
        kept
            Assignment that the job holds or held last; None if that is lost.
        plan, where
            Plan and GPUs of the start.
        """
        if kept is None or plan != kept.plan or where.gpus != kept.placement.gpus:
            return self.restart_s
        return self.resume_s if same_place(kept.placement, where) else self.migrate_s


def same_place(one: Placement, other: Placement) -> bool:
    """Return whether two placements have equally many GPUs on each node."""
    return one.nodes == other.nodes and [len(gpus) for _, gpus in one.parts] == [
        len(gpus) for _, gpus in other.parts
    ]
