"""Parameters of predicting speeds: how constants are fitted, checked, learned and tried.

One frozen class per subject, one instance with the values in use. Sections are those of
``docs/performance-model.md`` unless a field names another source.
"""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, number


@dataclass(frozen=True, slots=True)
class PriorParams(Params):
    """Prior of the time of a model's passes (section "Fit")."""

    peak_flops: float = 312e12
    """Dense 16-bit peak of an A800 or A100, per second (vendor's data sheet)."""
    utilisation: float = number(0.4, 0.0, 1.0)
    """Median share of the peak that training reaches (Megatron, SC'21, table 1: 0.44 to 0.52)."""
    compute_sd: float = 1.5
    """Standard deviation of the natural logarithm of the time of the passes."""


PRIOR = PriorParams()


@dataclass(frozen=True, slots=True)
class PhaseParams(Params):
    """Plausible times of phases, as parts of their iteration (section "Phases")."""

    negligible: float = 1e-3
    """Part of an iteration below which a phase counts as absent."""
    least: float = 0.2
    """Part of an iteration below which all phases together suggest another unit."""
    most: float = 1.1
    """Largest sum of phases relative to the iteration, as they may be of other iterations."""


PHASES = PhaseParams()


@dataclass(frozen=True, slots=True)
class FitParams(Params):
    """Least squares on logarithms (section "Fit")."""

    bound: float = number(6.0, 0.1)
    """Largest distance of constants from the prior in its standard deviations."""
    inside: float = 1e-6
    """Least distance of the fit's starting point from the limits set by ``bound``."""
    soft: float = number(2.0, 1e-6)
    """Whitened residual above which the loss is linear instead of squared."""
    passes: int = number(2, 1)
    """Number of fits with weights from the fit before, as weights depend on the fit."""
    block: int = number(64, 1)
    """Rows of a covariance computed at once if only its diagonal is needed."""
    correction: float = 0.15
    """Largest correction of a neighbour's prediction by one run (natural logarithm), or two
    standard deviations if these are more."""
    step: float = number(1e-4, 1e-9)
    """Step of numerical derivatives, in logarithms."""


FIT = FitParams()


@dataclass(frozen=True, slots=True)
class DesignParams(Params):
    """Choice of the next runs (section "Fit")."""

    truths: int = number(8, 1)
    """Number of possible truths over which a design is averaged."""
    numbers: int = number(20_000_000, 1)
    """Largest count of numbers in all truths together; fewer are drawn for many candidates."""
    clip: float = 1.5
    """Largest distance of draws from the mean in standard deviations, against freak truths."""
    seed: int = 1
    """Seed of the draws."""


DESIGN = DesignParams()


@dataclass(frozen=True, slots=True)
class CheckParams(Params):
    """Refusal of runs (section "Use it for your own model")."""

    runs: int = number(4, 1)
    """Least number of runs for a fit."""
    slowest: float = 1000.0
    """Largest plausible time relative to training at the GPUs' peak; public runs need 1 to 70."""
    fastest: float = 0.3
    """Smallest plausible time relative to training at the GPUs' peak."""
    apart: float = number(300.0, 1.0)
    """Factor between a run and the median of its file above which its unit is suspect."""


CHECKS = CheckParams()


@dataclass(frozen=True, slots=True)
class LearningParams(Params):
    """Corrections by observed times (section "Learning in the replay")."""

    family: float = 0.35
    """Standard deviation of the error of a plan family for all models alike (natural logarithm):
    a factor of 2 in two standard deviations."""
    news: float = 0.03
    """Distance of logarithms below which an observation changes nothing: believing every percent
    would move jobs, at the cost of a restart, to configurations that were merely never seen."""


LEARNING = LearningParams()


@dataclass(frozen=True, slots=True)
class ElasticParams(Params):
    """Counts of GPUs that are tried for workers in turns (docs/formulations/easyscale.md)."""

    most_vectors: int = number(1 << 17, 1)
    """Largest number of vectors tried; larger pools are thinned, which may miss the best."""
    growth: float = number(0.05, 1e-3)
    """Step by which the factor between neighbouring counts grows until they are few enough."""


ELASTIC = ElasticParams()
