"""Parameters of the searches for target shares, which no proof of a bound depends on.

One frozen class per subject, one instance with the values in use. A field without a page was set
by profile when the method was written (docs/decisions/0018-what-stays.md has the times).
"""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite, require_int


@dataclass(frozen=True, slots=True)
class KernelParams:
    """The max-min kernel (docs/formulations/fairness.md)."""

    gap: float = 1e-8
    """Relative gap between bound and shares at which it stops."""
    sample: int = 96
    """Number of jobs in the sample whose prices start the search."""
    free: int = 96
    """Number of jobs left undecided in the first reduced model; doubled in each round."""
    rounds: int = 8
    """Largest number of reduced models."""
    turns: int = 24
    """Largest number of price raises between two reduced models."""
    patience: int = 4
    """Price raises without a lower bound after which the raising ends."""

    def __post_init__(self) -> None:
        require_finite("KernelParams.gap", self.gap, at_least=0.0)
        for name in ("sample", "free", "rounds", "turns", "patience"):
            require_int(f"KernelParams.{name}", getattr(self, name), at_least=1)


KERNEL = KernelParams()


@dataclass(frozen=True, slots=True)
class FinishTimeParams:
    """The search for the smallest largest finish-time ratio (docs/formulations/finish-time.md)."""

    proven: float = 1e-8
    """Relative difference of bound and shares at which it ends."""
    turns: int = 60
    """Largest number of tangents."""
    halvings: int = 120
    """Largest number of bisections."""

    def __post_init__(self) -> None:
        require_finite("FinishTimeParams.proven", self.proven, above=0.0)
        require_int("FinishTimeParams.turns", self.turns, at_least=0)
        require_int("FinishTimeParams.halvings", self.halvings, at_least=1)


FINISH_TIMES = FinishTimeParams()


@dataclass(frozen=True, slots=True)
class FillingParams:
    """Water filling (docs/formulations/hierarchical.md)."""

    fits: float = 1e-9
    """Relative load above 1 that still counts as fitting the cluster."""
    rise: float = 1e-6
    """Part of a job's top speed below which headroom counts as none."""
    some: float = 0.01
    """Part of the way to its top that an undecided job may rise in the model that tests it."""
    passes: int = 4
    """Largest number of models per phase that look for jobs which can no longer rise."""
    slack: float = 1e-7
    """Relative distance below a level already reached, so that rounding keeps it feasible."""

    def __post_init__(self) -> None:
        for name in ("fits", "rise", "some", "slack"):
            require_finite(f"FillingParams.{name}", getattr(self, name), above=0.0, at_most=1.0)
        require_int("FillingParams.passes", self.passes, at_least=1)


FILLING = FillingParams()


@dataclass(frozen=True, slots=True)
class PackingParams:
    """The max-min kernel with pairs (docs/formulations/packing.md)."""

    rounding: float = 1e-9
    """Largest part of a floor that may be missing."""
    reduced_cost: float = 1e-9
    """Reduced cost below which a pair cannot improve the objective, which is of the size of 1."""
    direct: int = 3000
    """Number of pair columns up to which all of them are in the first model."""
    per_job: int = 4
    """Largest number of pair columns that a class gains per turn, so that others gain some."""

    def __post_init__(self) -> None:
        require_finite("PackingParams.rounding", self.rounding, at_least=0.0)
        require_finite("PackingParams.reduced_cost", self.reduced_cost, at_least=0.0)
        require_int("PackingParams.direct", self.direct, at_least=0)
        require_int("PackingParams.per_job", self.per_job, at_least=1)


PACKING = PackingParams()
