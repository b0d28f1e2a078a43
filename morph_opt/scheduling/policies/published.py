"""Parameters of published systems, as their papers or their code have them, one class a system."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite, require_int


@dataclass(frozen=True, slots=True)
class TiresiasParams:
    """Tiresias (NSDI'19, section 3: discretised two-dimensional LAS and Gittins index).

    The paper leaves thresholds and quantum to the operator; these are those of the published code.
    """

    queue_limits_gpu_s: tuple[float, ...] = (3250.0, 7200.0)
    """Attained service in GPU-seconds at which a job leaves the first and the second queue."""
    quantum_gpu_s: float = 3250.0
    """Quantum D of the Gittins index, in GPU-seconds."""

    def __post_init__(self) -> None:
        for limit in self.queue_limits_gpu_s:
            require_finite("TiresiasParams.queue_limits_gpu_s", limit, above=0.0)
        require_finite("TiresiasParams.quantum_gpu_s", self.quantum_gpu_s, above=0.0)


TIRESIAS = TiresiasParams()


@dataclass(frozen=True, slots=True)
class GavelParams:
    """Gavel (OSDI'20, section 5: the round mechanism)."""

    round_s: float = 360.0
    """Length of a round in seconds (section 5: six minutes)."""
    reset_s: float = 1920.0
    """Least time between two solves of the shares, in seconds (published code)."""

    def __post_init__(self) -> None:
        require_finite("GavelParams.round_s", self.round_s, above=0.0)
        require_finite("GavelParams.reset_s", self.reset_s, at_least=0.0)


GAVEL = GavelParams()


@dataclass(frozen=True, slots=True)
class SiaParams:
    """Sia (SOSP'23, section 3: the integer program over configurations)."""

    power: float = -0.5
    """Power p of the normalised goodput in the cost of a configuration."""
    waiting: float = 1.1
    """Cost lambda of a job that gets no configuration."""
    unusable: float = 1e-4
    """Goodput of a configuration that a job cannot use (published code)."""
    dearest: float = 3000.0
    """Largest cost of a configuration (published code)."""

    def __post_init__(self) -> None:
        require_finite("SiaParams.power", self.power)
        for name in ("waiting", "unusable", "dearest"):
            require_finite(f"SiaParams.{name}", getattr(self, name), above=0.0)


SIA = SiaParams()


@dataclass(frozen=True, slots=True)
class PolluxParams:
    """Pollux (OSDI'21, section 4.2: fitness and genetic search; values of the published code)."""

    least: float = 1e-3
    """Value of a job without GPUs, so that each waiting job costs 1000 / J."""
    most_nodes: int = 16
    """Largest number of nodes of a job."""

    def __post_init__(self) -> None:
        require_finite("PolluxParams.least", self.least, above=0.0)
        require_int("PolluxParams.most_nodes", self.most_nodes, at_least=1)


POLLUX = PolluxParams()


@dataclass(frozen=True, slots=True)
class MorphlingParams:
    """Morphling's heuristic (docs/published-heuristics.md)."""

    gain: float = 0.01
    """Relative gain below which one more GPU is no step of a sensitivity curve."""
    most_restarts: int = 5
    """Largest number of restarts of a job that may still be shrunk for another."""

    def __post_init__(self) -> None:
        require_finite("MorphlingParams.gain", self.gain, at_least=0.0)
        require_int("MorphlingParams.most_restarts", self.most_restarts, at_least=0)


MORPHLING = MorphlingParams()


@dataclass(frozen=True, slots=True)
class EasyScaleParams:
    """EasyScale's proposals (SC'23; docs/gandiva-easyscale.md)."""

    most_waste: float = 0.30
    """Largest share of its GPUs' speed that a proposal may leave unused."""
    most_growth: int = 2
    """Largest factor by which a proposal may grow a job."""
    digits: int = 9
    """Decimals of scores, so that rounding errors do not break ties."""

    def __post_init__(self) -> None:
        require_finite("EasyScaleParams.most_waste", self.most_waste, at_least=0.0, at_most=1.0)
        require_int("EasyScaleParams.most_growth", self.most_growth, at_least=1)
        require_int("EasyScaleParams.digits", self.digits, at_least=1)


EASYSCALE = EasyScaleParams()


@dataclass(frozen=True, slots=True)
class AlloxParams:
    """AlloX (EuroSys'20)."""

    oldest: int = 500
    """Largest number of waiting jobs in the matching; the published one is a share of them."""

    def __post_init__(self) -> None:
        require_int("AlloxParams.oldest", self.oldest, at_least=1)


ALLOX = AlloxParams()
