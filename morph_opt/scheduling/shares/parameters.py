"""Parameters of the searches for target shares, which no proof of a bound depends on.

One frozen class per subject, one instance with the values in use. A field without a page was set
by profile when the method was written (docs/decisions/0018-what-stays.md has the times).
"""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, above, number


@dataclass(frozen=True, slots=True)
class KernelParams(Params):
    """Parameters of the max-min kernel (docs/formulations/fairness.md)."""

    gap: float = 1e-8
    """Relative gap between bound and shares at which it stops."""
    sample: int = number(96, 1)
    """Number of jobs in the sample whose prices start the search."""
    free: int = number(96, 1)
    """Number of jobs left undecided in the first reduced model; doubled in each round."""
    rounds: int = number(8, 1)
    """Largest number of reduced models."""
    turns: int = number(24, 1)
    """Largest number of price raises between two reduced models."""
    patience: int = number(4, 1)
    """Price raises without a lower bound after which the raising ends."""
    least_price: float = number(1e-3, 0, 1)
    """Smallest first price when prices are raised, in units of the largest."""
    progress: float = number(1e-3, 0, 1)
    """Relative fall of the bound from which a price raise counts as progress."""
    slowest: float = above(0.05, 0, 1)
    """Smallest factor of the price of a type with little load, before ``first_power``."""
    first_power: float = above(0.7)
    """Exponent of the load in the first price raise."""
    fades: float = above(0.85, 0, 1)
    """Factor of the exponent from one raise to the next."""
    kept: float = number(0.7, 0, 1)
    """Weight of the best prices in a step towards new ones that have no lower bound."""
    taken: float = number(0.3, 0, 1)
    """Weight of the new prices in a step towards them."""
    changes: tuple[float, ...] = above((0.97, 1.03))
    """Factors of the level at which patterns are compared to find jobs to leave free."""
    near: float = number(0.03, 0, 1)
    """Cap on the relative lead of a job's best pattern if the patterns at ``changes`` differ."""


KERNEL = KernelParams()


@dataclass(frozen=True, slots=True)
class FinishTimeParams(Params):
    """Search for the smallest largest finish-time ratio (docs/formulations/finish-time.md)."""

    proven: float = above(1e-8)
    """Relative difference of bound and shares at which it ends."""
    turns: int = 60
    """Largest number of tangents."""
    halvings: int = number(120, 1)
    """Largest number of bisections."""


FINISH_TIMES = FinishTimeParams()


@dataclass(frozen=True, slots=True)
class FillingParams(Params):
    """Parameters of water filling (docs/formulations/hierarchical.md)."""

    fits: float = above(1e-9, 0, 1)
    """Relative load above 1 that still counts as fitting the cluster."""
    rise: float = above(1e-6, 0, 1)
    """Part of a job's top speed below which headroom counts as none."""
    some: float = above(0.01, 0, 1)
    """Part of the way to its top that an undecided job may rise in the model that tests it."""
    passes: int = number(4, 1)
    """Largest number of models per phase that look for jobs which can no longer rise."""
    slack: float = above(1e-7, 0, 1)
    """Relative distance below a level already reached, so that rounding keeps it feasible."""


FILLING = FillingParams()


@dataclass(frozen=True, slots=True)
class PackingParams(Params):
    """Parameters of the max-min kernel with pairs (docs/formulations/packing.md)."""

    rounding: float = 1e-9
    """Largest share of a job's minimum speed that may be missing."""
    reduced_cost: float = 1e-9
    """Reduced cost below which a pair cannot improve the objective, which is of the size of 1."""
    direct: int = 3000
    """Number of pair columns up to which all of them are in the first model."""
    per_job: int = number(4, 1)
    """Largest number of pair columns that a class gains per turn, so that others gain some."""


PACKING = PackingParams()
