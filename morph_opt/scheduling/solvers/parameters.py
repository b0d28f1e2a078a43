"""Parameters of adapters: sizes at which options change, and limits of units and scaling.

One frozen class per subject and one instance with the values in use. None of them changes what an
outcome proves: points and claims are rechecked whatever the library was given.
"""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, number


@dataclass(frozen=True, slots=True)
class HighsParams(Params):
    """Options of HiGHS for integer models by size (reports/rounds/options.md)."""

    presolve_columns: int = number(150, 0)
    """Columns from which a model is presolved; smaller ones solve faster without."""
    neighbour_columns: int = number(1_000, 0)
    """Columns from which RENS searches near the root's relaxation."""
    named_columns: int = number(400, 0)
    """The same for models with named nodes, whose relaxations are further from decisions (0051)."""
    fine: float = number(1e-9, 1e-10, 1e-6)
    """Feasibility tolerance of a second run, if rounding integers breaks the first's point."""


@dataclass(frozen=True, slots=True)
class UnitParams(Params):
    """Limits of the units in which models are handed over (docs/solvers.md)."""

    cost: float = number(0.5, 1e-30, 1e30)
    """Largest cost of a model below which its costs are scaled up."""
    least_entry: float = number(2.0**-10, 1e-30, 1e30)
    """Largest entry of a row below which the row is scaled up."""
    most_entry: float = number(2.0**40, 1e-30, 1e30)
    """Largest entry of a row above which the row is scaled down."""
    wide: float = number(1e6, 1.0, 1e30)
    """Ratio of entries, or of a side to them, from which infeasibility is confirmed."""
    passes: int = number(4, 1)
    """Passes over all rows in which bounds of columns are implied."""
    slack: float = number(1e-9, 1e-12, 1e-6)
    """Share by which implied bounds are wider."""
    far: float = number(1e9, 1.0, 1e30)
    """Ratio of entries, or of a side to them, from which an optimum is confirmed."""
    stepped: int = number(1_000_000, 0)
    """Largest product of columns and entries of a model whose optimum is tried by steps."""
    widest: float = number(2.0**20, 1.0, 1e30)
    """Range of a continuous column above which the column is scaled down in integer models."""
    hidden: float = number(1e-4, 1e-30, 1.0)
    """Value of a point, relative to the largest cost, below which tolerances hide other costs."""
    farthest: float = number(2.0**30, 1.0, 1e30)
    """Largest ratio of the largest cost to a unit of hidden costs."""


@dataclass(frozen=True, slots=True)
class IntegerParams(Params):
    """Limits of the integer form for CP-SAT (docs/solvers.md, "Integers for CP-SAT")."""

    largest_sum: float = number(2.0**50, 1.0, 2.0**60)
    """Largest activity of a row, far from overflow in CP-SAT's sums."""
    objective_sum: float = number(2.0**42, 1.0, 2.0**60)
    """Largest scaled objective; its resolution is 1e-12 of it."""
    widest_column: float = number(2.0**31, 1.0, 2.0**60)
    """Largest bound of a column."""
    exact_factors: tuple[float, ...] = (1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    """Factors that are tried first, to make a row exact."""


HIGHS, UNITS, INTEGERS = HighsParams(), UnitParams(), IntegerParams()
