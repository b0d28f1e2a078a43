"""Parameters of planning: how much is tried, and from which size on a method applies.

One frozen class per subject and one instance with the values in use. None of them changes what a
confirmed statement means: the errors of its test are computed for the values that it uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, number


@dataclass(frozen=True, slots=True)
class SearchParams(Params):
    """Search over sizes and mixes (docs/planning.md, "How many nodes do I need?")."""

    exploration: int = number(20, 1)
    """Number of workloads to explore with."""
    batch: int = number(5, 1)
    """Number of workloads judged together before the search takes its next step."""
    larger: int = number(2, 1)
    """Number of sizes above the answer that must pass as well."""
    attempts: int = number(5, 1)
    """Number of tests for which the default number of workloads suffices."""
    noise_seeds: int = number(3, 1)
    """Number of solver seeds that show the effect of ties alone."""


@dataclass(frozen=True, slots=True)
class FleetParams(Params):
    """Proposals of mixes by the planning MILP (docs/formulations/fleet.md)."""

    mixes: int = number(16, 1)
    """Number of the MILP's mixes to try."""
    enumerated: int = number(64, 1)
    """Largest number of mixes that are all tried."""
    scenarios: int = number(2, 1)
    """Number of workloads that the MILP serves at once."""
    delay_s: float = number(14_400.0, 1.0, 1e9)
    """Time in seconds within which the MILP completes every job if the SLO names none."""
    bin_s: float = number(1800.0, 1.0, 1e9)
    """Length of the MILP's time bins in seconds."""
    scales: tuple[float, ...] = (0.5, 0.75, 1.25, 1.5, 2.0, 3.0)
    """Factors of the cheapest mixes that are tried as well."""


@dataclass(frozen=True, slots=True)
class SequentialParams(Params):
    """Sequential test of a share (docs/decisions/0033-sequential-confirmation.md)."""

    margin: float = number(0.05, 0.0, 0.5)
    """Default margin above the wanted share that a test must detect."""
    missed: float = number(0.1, 1e-6, 0.5)
    """Probability of rejecting a size whose share exceeds the wanted one by the margin."""
    most: int = number(1_000_000, 1)
    """Largest number of workloads of a design."""
    enumerated: int = number(20_000, 1)
    """Largest design whose boundary is lowered by exact enumeration."""
    halvings: int = number(12, 1)
    """Number of bisections of the boundary's interval."""
    bootstrap: int = number(20, 2)
    """Number of workloads from which the interval of a mean is a bootstrap (BCa)."""


@dataclass(frozen=True, slots=True)
class HistoryParams(Params):
    """Draws of futures and workloads (docs/planning.md, "When will my job start?")."""

    weeks: int = number(6, 2)
    """Least number of weeks of history for which whole weeks are drawn instead of days."""
    few_blocks: int = number(10, 2)
    """Number of blocks below which the answer warns."""
    members: int = number(16, 1)
    """Number of a family's members that are searched for one at the state's position."""
    member_s: float = number(60.0, 1.0, 1e9)
    """Least length in seconds of a family's member that further members follow."""
    horizon_s: float = number(3600.0, 1.0, 1e9)
    """First horizon of a continuation in seconds."""
    horizons: int = number(11, 1, 30)
    """Number of horizons, each twice the one before."""

    @property
    def last_s(self) -> float:
        """Last horizon in seconds; 42 days."""
        return self.horizon_s * 2.0 ** (self.horizons - 1)


@dataclass(frozen=True, slots=True)
class BoundParams(Params):
    """Choice of the bounds that are computed."""

    far: float = number(4.0, 1.0, 1e6)
    """Ratio of target to the cheap bounds above which the expensive one is skipped."""


SEARCH, FLEET, SEQUENTIAL = SearchParams(), FleetParams(), SequentialParams()
HISTORY, BOUND = HistoryParams(), BoundParams()
