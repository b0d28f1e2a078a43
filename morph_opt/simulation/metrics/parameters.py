"""Parameters of figures and of searches for bounds, which they make tighter and never wrong."""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, number


@dataclass(frozen=True, slots=True)
class FigureParams(Params):
    """Definitions of figures (docs/metrics.md, docs/formulations/fairness-metrics.md)."""

    window_s: float = number(3600.0, 1.0)
    """Length of the windows in which shares are compared, in seconds."""
    late_rounds: int = 2
    """Number of rounds after which a promised end counts as late."""
    rounding: float = 1e-6
    """Relative margin of an SLO's target, for rounded sums."""


FIGURES = FigureParams()


@dataclass(frozen=True, slots=True)
class CompletionParams(Params):
    """The bound **completion** (docs/metrics.md); the steps are Adam's (Kingma and Ba 2015)."""

    most_jobs: int = number(5_000, 1)
    """Largest number of jobs for which it is computed; more would take longer than a replay."""
    windows: int = number(12_000, 1)
    """Desired number of windows of all jobs together."""
    windows_per_job: int = number(60, 1)
    """Desired number of windows of a job."""
    cells: int = number(4_000, 1)
    """Largest number of cells of time."""
    prices: int = number(20, 2)
    """Number of prices of a whole job that are tried, per job."""
    close: float = number(0.25, 1e-9)
    """Largest relative distance from the best completion at which a price is kept."""
    steps: int = number(60, 1)
    """Number of supergradient steps."""
    regrid: tuple[int, ...] = (6, 15, 30, 45)
    """Steps after which windows are fitted to the completions found so far."""
    mean: float = number(0.9, 1e-9, 0.9999)
    """Decay of the mean of slopes (Adam's beta 1)."""
    square: float = number(0.99, 1e-9, 0.9999)
    """Decay of the mean of squared slopes (Adam's beta 2)."""
    rate: float = number(0.4, 1e-9)
    """Length of the first step relative to the typical price."""
    epsilon: float = number(1e-12, 1e-300)
    """Addend of a step's divisor (Adam's epsilon)."""
    shortest_s: float = number(1e-9, 1e-12)
    """Smallest duration in divisors, in seconds; shorter ones are raised to it."""
    least_cell_s: float = number(1e-6, 1e-9)
    """Least length of a cell of time, in seconds."""
    remembered: int = number(10_000, 1)
    """Largest number of answers remembered in a process."""


COMPLETION = CompletionParams()


@dataclass(frozen=True, slots=True)
class DeadlineParams(Params):
    """The bound **deadline** (docs/metrics.md)."""

    instants: int = number(48, 1)
    """Number of tried instants at which prices begin."""
    halvings: int = number(40, 1)
    """Number of bisections of the latest impossible instant."""
    turns: int = number(3, 1)
    """Rounds over the GPU types in search of prices."""
    trials: int = number(12, 1)
    """Trials per GPU type and round."""


DEADLINE = DeadlineParams()
