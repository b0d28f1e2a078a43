"""What the words of cuOpt mean; apart from the adapter, so that they are tested without a GPU."""

from __future__ import annotations

from morph_opt.solvers.meaning import Meaning

MIP_CODES: dict[str, Meaning] = {
    "NoTermination": Meaning.FAILED,
    "Optimal": Meaning.PROVED,
    "FeasibleFound": Meaning.TIME_LIMIT,
    "Infeasible": Meaning.INFEASIBLE,
    "Unbounded": Meaning.UNBOUNDED,
    "TimeLimit": Meaning.TIME_LIMIT,
    "UnboundedOrInfeasible": Meaning.INFEASIBLE_OR_UNBOUNDED,
}
"""Every ``MILPTerminationStatus``."""

LP_CODES: dict[str, Meaning] = {
    "NoTermination": Meaning.FAILED,
    "NumericalError": Meaning.FAILED,
    "Optimal": Meaning.PROVED,
    "PrimalInfeasible": Meaning.INFEASIBLE,
    "DualInfeasible": Meaning.INFEASIBLE_OR_UNBOUNDED,
    "IterationLimit": Meaning.LIMIT,
    "TimeLimit": Meaning.TIME_LIMIT,
    "PrimalFeasible": Meaning.LIMIT,
    "ConcurrentLimit": Meaning.LIMIT,
    "UnboundedOrInfeasible": Meaning.INFEASIBLE_OR_UNBOUNDED,
}
"""Every ``LPTerminationStatus``."""


def meaning_of(reason: str, mip: bool) -> Meaning:
    """Meaning of a termination reason; a word that is newer than this table proves nothing."""
    return (MIP_CODES if mip else LP_CODES).get(reason, Meaning.FAILED)
