"""Jobs that wait, what they may hold, and what their waiting costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from formulations.arrays import Floats
from formulations.parameters import Params, above, number


@dataclass(frozen=True, slots=True)
class PlanParams(Params):
    """Numbers of the search for a plan and of its bound (record 0054)."""

    late: float = number(10.0, 1)
    """Cost of a second of waiting after the due instant, in seconds of waiting before it."""

    moves: int = 400
    """Largest number of moves of the local search."""

    placements: int = 12_000
    """Largest number of jobs placed in timelines over all moves."""

    bundles: int = 32
    """Number of jobs from which narrow ones are bundled for a first plan, and of bundles."""

    narrow: float = above(0.0625, 0, 1)
    """Share of the GPUs below which a job is narrow."""

    slots: int = number(48, 1)
    """Largest number of slots of time in which prices are constant."""

    steps: int = 300
    """Largest number of steps of the bound's prices."""

    patience: int = number(15, 1)
    """Steps without a better bound after which steps get shorter."""

    shorter: float = above(0.7, 0, 1)
    """Factor by which they do."""

    inertia: float = 0.9
    """Share of the last direction in the next one."""

    close: float = 0.002
    """Gap at which the search for a bound ends."""


PLAN = PlanParams()
"""Default parameters of plans."""


@dataclass(frozen=True, slots=True)
class Way:
    """Configuration in which a job may start.

    Parameters
    ----------
    need
        Node classes with GPUs, and the number of GPUs on each.
    run_s
        Believed seconds from its start to its end.
    """

    need: tuple[tuple[int, float], ...]
    run_s: float

    @property
    def gpus(self) -> float:
        """GPUs on all classes."""
        return sum(gpus for _, gpus in self.need)


@dataclass(frozen=True, slots=True)
class Task:
    """Job that waits; all instants are seconds from now.

    Parameters
    ----------
    ways
        Configurations; at least one.
    due_s
        Due instant, after which waiting costs more; inf for none.
    latest_s
        Latest start; inf for any.
    after_s
        Earliest start.
    weight
        Cost of a second of waiting.
    """

    ways: tuple[Way, ...]
    due_s: float = inf
    latest_s: float = inf
    after_s: float = 0.0
    weight: float = 1.0
    least_s: float = field(init=False)
    """Shortest run time of any way."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "least_s", min(way.run_s for way in self.ways))

    @property
    def work(self) -> float:
        """Least GPU-seconds of any way."""
        return min(way.gpus * way.run_s for way in self.ways)

    def cost(self, start_s: float, way: Way, late: float) -> float:
        """Return the cost of a start: waiting, a longer run time, and lateness."""
        over_s = max(0.0, start_s - self.due_s)
        return self.weight * (start_s + way.run_s - self.least_s + late * over_s)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Free GPUs from now on, if every running job ends as believed.

    Parameters
    ----------
    begin_s
        Instants at which GPUs become free, ascending; the first is 0, which is now.
    free
        Free GPUs of each class from then on, shape (instants, classes).
    """

    begin_s: Floats
    free: Floats


@dataclass(frozen=True, slots=True)
class Start:
    """Planned start of a task in one of its ways."""

    start_s: float
    way: int


Plan = Sequence[Start]
"""Start of each task."""


def cost_of(tasks: Sequence[Task], plan: Plan, late: float) -> float:
    """Return the cost of a plan."""
    pairs = zip(tasks, plan, strict=True)
    return sum(one.cost(start.start_s, one.ways[start.way], late) for one, start in pairs)
