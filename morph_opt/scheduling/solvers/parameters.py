"""Parameters of adapters: sizes at which options change, and limits of units and scaling.

One frozen class per subject and one instance with the values in use. None of them changes what an
outcome proves: points and claims are rechecked whatever the library was given.
"""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import Range
from morph_opt.core.domain.options import documented, option, require_all

_COLUMNS = Range(0, 10**9, whole=True)
_SIZE = Range(1e-30, 1e30)


@documented
@dataclass(frozen=True, slots=True)
class HighsParams:
    """Options of HiGHS for integer models by size (reports/rounds/options.md)."""

    presolve_columns: int = option(
        150,
        "columns from which a model is presolved; smaller ones solve faster without",
        range=_COLUMNS,
    )
    neighbour_columns: int = option(
        1_000, "columns from which RENS searches near the root's relaxation", range=_COLUMNS
    )
    fine: float = option(
        1e-9,
        "feasibility tolerance of a second run, if rounding integers breaks the first one's point",
        range=Range(1e-10, 1e-6),
    )

    def __post_init__(self) -> None:
        require_all(self)


@documented
@dataclass(frozen=True, slots=True)
class UnitParams:
    """Limits of the units in which models are handed over (docs/solvers.md)."""

    cost: float = option(
        0.5, "largest cost of a model below which its costs are scaled up", range=_SIZE
    )
    least_entry: float = option(
        2.0**-10, "largest entry of a row below which the row is scaled up", range=_SIZE
    )
    most_entry: float = option(
        2.0**40, "largest entry of a row above which the row is scaled down", range=_SIZE
    )
    wide: float = option(
        1e6,
        "ratio of entries in a row, or of a side to them, from which infeasibility is confirmed",
        range=_SIZE,
    )
    hidden: float = option(
        1e-4,
        "value of a point, relative to the largest cost, below which that cost hides others",
        range=_SIZE,
    )
    farthest: float = option(
        2.0**30, "largest ratio of the largest cost to a unit of hidden costs", range=_SIZE
    )

    def __post_init__(self) -> None:
        require_all(self)


@documented
@dataclass(frozen=True, slots=True)
class IntegerParams:
    """Limits of the integer form for CP-SAT (docs/solvers.md, "Integers for CP-SAT")."""

    largest_sum: float = option(
        2.0**50, "largest activity of a row, far from overflow in CP-SAT's sums", range=_SIZE
    )
    objective_sum: float = option(
        2.0**42, "largest scaled objective; its resolution is 1e-12 of it", range=_SIZE
    )
    widest_column: float = option(2.0**31, "largest bound of a column", range=_SIZE)
    exact_factors: tuple[float, ...] = (1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    """Factors that are tried first, to make a row exact."""

    def __post_init__(self) -> None:
        require_all(self)


HIGHS, UNITS, INTEGERS = HighsParams(), UnitParams(), IntegerParams()
"""Values in use."""
