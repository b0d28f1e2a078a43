"""Parameters of planning: how much is tried, and from which size on a method applies.

One frozen class per subject and one instance with the values in use. None of them changes what a
confirmed statement means: the errors of its test are computed for the values that it uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import Range
from morph_opt.core.domain.options import documented, option, require_all


def _count(default: int, help: str) -> int:
    found: int = option(default, help, range=Range(1, 1_000_000, whole=True))
    return found


def _seconds(default: float, help: str) -> float:
    found: float = option(default, f"{help}, in seconds", range=Range(1.0, 1e9))
    return found


class _Params:
    """Parameters that are checked when they are made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        require_all(self)


@documented
@dataclass(frozen=True, slots=True)
class SearchParams(_Params):
    """Search over sizes and mixes (docs/planning.md, "How many nodes do I need?")."""

    exploration: int = _count(20, "workloads to explore with")
    batch: int = _count(5, "workloads judged together before the search looks at them")
    larger: int = _count(2, "sizes above the answer that must pass as well")
    attempts: int = _count(5, "levels of error that the default number of workloads covers")
    noise_seeds: int = _count(3, "solver seeds that show what ties alone change")


@documented
@dataclass(frozen=True, slots=True)
class FleetParams(_Params):
    """Proposals of mixes by the planning MILP (docs/formulations/fleet.md)."""

    mixes: int = _count(16, "mixes of the MILP to try")
    enumerated: int = _count(64, "largest number of mixes that are all tried")
    scenarios: int = _count(2, "workloads that the MILP serves at once")
    delay_s: float = _seconds(
        14_400.0, "time within which the MILP completes every job if the SLO names none"
    )
    bin_s: float = _seconds(1800.0, "length of the MILP's time bins")
    scales: tuple[float, ...] = (0.5, 0.75, 1.25, 1.5, 2.0, 3.0)
    """Factors of the cheapest mixes that are tried as well."""


@documented
@dataclass(frozen=True, slots=True)
class SequentialParams(_Params):
    """Sequential test of a share (docs/decisions/0033-sequential-confirmation.md)."""

    margin: float = option(
        0.05,
        "usual margin above the wanted share that a test must detect",
        range=Range(0.0, 0.5),
    )
    missed: float = option(
        0.1, "probability of missing a size that lies that far above", range=Range(1e-6, 0.5)
    )
    most: int = _count(1_000_000, "largest number of workloads of a design")
    enumerated: int = _count(
        20_000, "largest design whose boundary is lowered by exact enumeration"
    )
    halvings: int = _count(12, "halvings of the boundary's interval")
    bootstrap: int = _count(20, "workloads from which the interval of a mean is a bootstrap (BCa)")


@documented
@dataclass(frozen=True, slots=True)
class HistoryParams(_Params):
    """Draws of futures and workloads (docs/planning.md, "When will my job start?")."""

    weeks: int = _count(6, "weeks of history from which whole weeks are drawn, not days")
    few_blocks: int = _count(10, "number of blocks below which the answer warns")
    members: int = _count(16, "members of a family looked at for one as far along")
    member_s: float = _seconds(60.0, "length of the shortest member that others follow")
    horizon_s: float = _seconds(3600.0, "first horizon of a continuation")
    horizons: int = option(
        11, "number of horizons, each twice the one before", range=Range(1, 30, whole=True)
    )

    @property
    def last_s(self) -> float:
        """Last horizon in seconds; 42 days."""
        return self.horizon_s * 2.0 ** (self.horizons - 1)


@documented
@dataclass(frozen=True, slots=True)
class BoundParams(_Params):
    """Choice of the bounds that are computed."""

    far: float = option(
        4.0,
        "ratio of target to the cheap bounds above which the expensive one is skipped",
        range=Range(1.0, 1e6),
    )


SEARCH, FLEET, SEQUENTIAL, HISTORY, BOUND = (
    SearchParams(), FleetParams(), SequentialParams(), HistoryParams(), BoundParams(),
)  # fmt: skip
"""Values in use."""
