"""Parameters of the searches for lower bounds: they make a bound tighter and never wrong."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite, require_int


@dataclass(frozen=True, slots=True)
class CompletionParams:
    """The bound **completion**; the steps are Adam's (Kingma and Ba 2015)."""

    most_jobs: int = 5_000
    """Largest number of jobs for which it is computed: beyond, it would outlast a replay."""
    windows: int = 12_000
    """Number of windows of all jobs together that is aimed at."""
    windows_per_job: int = 60
    """Number of windows of a job that is aimed at."""
    cells: int = 4_000
    """Largest number of cells of time."""
    prices: int = 20
    """Number of prices of a whole job that are tried, per job."""
    close: float = 0.25
    """Part of a completion time within which completions keep their prices among those tried."""
    steps: int = 60
    """Number of supergradient steps."""
    regrid: tuple[int, ...] = (6, 15, 30, 45)
    """Steps after which windows are fitted to the completions found so far."""
    mean: float = 0.9
    """Decay of the mean of slopes (Adam's beta 1)."""
    square: float = 0.99
    """Decay of the mean of squared slopes (Adam's beta 2)."""
    rate: float = 0.4
    """Length of the first step relative to the typical price."""
    remembered: int = 10_000
    """Largest number of answers remembered in a process."""

    def __post_init__(self) -> None:
        for name in ("most_jobs", "windows", "windows_per_job", "cells", "steps", "remembered"):
            require_int(f"CompletionParams.{name}", getattr(self, name), at_least=1)
        require_int("CompletionParams.prices", self.prices, at_least=2)
        for name in ("close", "rate"):
            require_finite(f"CompletionParams.{name}", getattr(self, name), above=0.0)
        require_finite("CompletionParams.mean", self.mean, above=0.0, at_most=0.9999)
        require_finite("CompletionParams.square", self.square, above=0.0, at_most=0.9999)


COMPLETION = CompletionParams()


@dataclass(frozen=True, slots=True)
class DeadlineParams:
    """The bound **deadline**."""

    instants: int = 48
    """Number of instants tried from which on GPUs have a price."""
    halvings: int = 40
    """Number of bisections of the latest impossible instant."""
    turns: int = 3
    """Rounds over the GPU types in search of prices."""
    trials: int = 12
    """Trials per GPU type and round."""

    def __post_init__(self) -> None:
        for name in ("instants", "halvings", "turns", "trials"):
            require_int(f"DeadlineParams.{name}", getattr(self, name), at_least=1)


DEADLINE = DeadlineParams()
