"""Parameters of published systems from their papers or code, one class per system."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from formulations.parameters import Params, above, number


@dataclass(frozen=True, slots=True)
class TiresiasParams(Params):
    """Tiresias (NSDI'19): discretised two-dimensional LAS, and Gittins index.

    The paper leaves thresholds and quantum to the operator; these are the published code's.
    """

    queue_limits_gpu_s: tuple[float, ...] = above((3250.0, 7200.0))
    """Attained service in GPU-seconds at which a job leaves the first and the second queue."""
    quantum_gpu_s: float = above(3250.0)
    """Quantum D of the Gittins index, in GPU-seconds."""


TIRESIAS = TiresiasParams()


@dataclass(frozen=True, slots=True)
class GavelParams(Params):
    """Gavel (OSDI'20, section 5: the round mechanism)."""

    round_s: float = above(360.0)
    """Length of a round in seconds (section 5: six minutes)."""
    reset_s: float = 1920.0
    """Least time between two solves of the shares, in seconds (published code)."""
    unserved: float = above(1e9)
    """Priority of a job that has received nothing, in units of its share (published code)."""


GAVEL = GavelParams()


@dataclass(frozen=True, slots=True)
class GandivaParams(Params):
    """Gandiva (OSDI'18), where our rules need a number (docs/gandiva-easyscale.md)."""

    first_report: int = number(100, 1)
    """Iterations to a job's first report if its trace gives none."""
    light: float = number(0.75, 0, 1)
    """Free share of a server from which on its jobs are moved to fuller servers."""


GANDIVA = GandivaParams()


@dataclass(frozen=True, slots=True)
class SiaParams(Params):
    """Sia (SOSP'23): the integer program over configurations."""

    power: float = number(-0.5, -inf)
    """Power p of the normalised goodput in the cost of a configuration."""
    waiting: float = above(1.1)
    """Cost lambda of a job that gets no configuration."""
    unusable: float = above(1e-4)
    """Goodput of a configuration that a job cannot use (published code)."""
    dearest: float = above(3000.0)
    """Largest cost of a configuration (published code)."""
    gap: float = number(1e-6, 0, 1)
    """Relative gap to which the integer program is solved (ours)."""


SIA = SiaParams()


@dataclass(frozen=True, slots=True)
class PolluxParams(Params):
    """Pollux (OSDI'21): fitness and genetic search, with the values of the published code."""

    least: float = above(1e-3)
    """Value of a job without GPUs, so that each waiting job costs 1000 / J."""
    most_nodes: int = number(16, 1)
    """Largest number of nodes of a job."""
    reset: float = number(0.1, 0, 1)
    """Probability that a mutation resets the row of a job."""
    lossy: float = number(0.1, 0, 1)
    """Probability that a mutation removes GPUs from the row of a job."""
    lost: float = number(0.1, 0, 1)
    """Probability that a row under removal loses its GPUs of one node."""


POLLUX = PolluxParams()


@dataclass(frozen=True, slots=True)
class MorphlingParams(Params):
    """Morphling's heuristic (docs/published-heuristics.md)."""

    gain: float = 0.01
    """Relative gain below which one more GPU is no step of a sensitivity curve."""
    most_restarts: int = 5
    """Largest number of restarts of a job that may still be shrunk for another."""


MORPHLING = MorphlingParams()


@dataclass(frozen=True, slots=True)
class EasyScaleParams(Params):
    """EasyScale's proposals (SC'23; docs/gandiva-easyscale.md)."""

    most_waste: float = number(0.30, 0, 1)
    """Largest share of its GPUs' speed that a proposal may leave unused."""
    most_growth: int = number(2, 1)
    """Largest factor by which a proposal may grow a job."""
    digits: int = number(9, 1)
    """Decimals of scores, so that rounding errors do not break ties."""


EASYSCALE = EasyScaleParams()


@dataclass(frozen=True, slots=True)
class AlloxParams(Params):
    """AlloX (EuroSys'20)."""

    oldest: int = number(500, 1)
    """Largest number of waiting jobs in the matching; the published one is a share of them."""


ALLOX = AlloxParams()
