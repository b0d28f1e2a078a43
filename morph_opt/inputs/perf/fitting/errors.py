"""Model error by parts of an iteration.

A run reports the times of its phases, or of the whole iteration only. Both are *outputs*:
logarithms of sums of parts. The error of an output is the mean of its parts' errors, weighted by
their share of it. Errors of one part are correlated as in
`morph_opt.inputs.perf.fitting.discrepancy`, with sizes estimated from residuals of complete fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import Floats
from morph_opt.core.domain import PlanFamily
from morph_opt.inputs.perf.analytic.architecture import PARTS, Architecture, Features
from morph_opt.inputs.perf.analytic.terms import parts_s
from morph_opt.inputs.perf.fitting.discrepancy import Pair, Scales, Shared
from morph_opt.inputs.perf.fitting.runs import Run
from morph_opt.inputs.perf.parameters import FIT

_PASSES = [PARTS.index("forward"), PARTS.index("backward")]


@dataclass(frozen=True, slots=True)
class Errors:
    """Standard deviations of the logarithms of parts.

    Parameters
    ----------
    kernels
        Shared errors by part, in the order of `PARTS` (``run`` is not shared).
    floor
        Error by part that is not shared, relative to the whole iteration.
    alone
        Error shared by passes without checkpointing on one GPU: the whole batch may not fit there,
        and public runs silently did half of it.
    """

    kernels: tuple[Scales, ...]
    floor: tuple[float, ...]
    alone: float = 0.0


ERRORS = Errors(
    kernels=(
        Scales(run=0.010, shape=0.008, plan=0.008, reach=0.008, size=0.02, degree=0.012),
        Scales(run=0.120, ragged=0.15, plan=0.08),
        Scales(run=0.006, shape=0.008, plan=0.008, reach=0.008, size=0.02, degree=0.012),
        Scales(run=0.012, shape=0.02, plan=0.03, reach=0.04, size=0.06, degree=0.05),
        Scales(run=0.010, shape=0.02, plan=0.03, reach=0.04, size=0.06, degree=0.05),
        Scales(run=0.100, shape=0.10, plan=0.10, reach=0.20),
    ),
    floor=(0.003, 0.0, 0.003, 0.003, 0.003, 0.012),
    alone=0.35,
)
"""Standard deviations for fits on a few runs."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Observable times: iterations or phases.

    Parameters
    ----------
    pairs
        Configurations.
    at
        Index of the configuration of each output, shape (outputs,).
    mask
        1.0 for the parts of each output, shape (outputs, parts).
    """

    pairs: tuple[Pair, ...]
    at: NDArray[np.int64]
    mask: Floats

    @classmethod
    def of(cls, pairs: Sequence[Pair], parts: Sequence[Sequence[Sequence[str]]]) -> Outputs:
        """Return outputs, given the parts of each output of every configuration."""
        rows = [(index, held) for index, group in enumerate(parts) for held in group]
        return cls(
            tuple(pairs),
            np.array([index for index, _ in rows], dtype=np.int64),
            np.array([[float(part in held) for part in PARTS] for _, held in rows]),
        )

    @classmethod
    def totals(cls, pairs: Sequence[Pair]) -> Outputs:
        """Return one output per configuration: its iteration time."""
        return cls.of(pairs, [[PARTS]] * len(pairs))


def observed(runs: Sequence[Run]) -> tuple[Outputs, Floats]:
    """Return the outputs of runs: phases if these cover every part, else also the iteration.

    Returns
    -------
    tuple
        Outputs and the logarithms of their times, shape (outputs,).
    """
    groups = []
    for run in runs:
        determined = [(phase.parts, phase.seconds) for phase in run.phases]
        complete = sum(len(parts) for parts, _ in determined) == len(PARTS)
        groups.append(determined if complete else [*determined, (PARTS, run.iteration_s)])
    outputs = Outputs.of(
        [(run.shape, run.plan) for run in runs], [[parts for parts, _ in group] for group in groups]
    )
    return outputs, np.log([seconds for group in groups for _, seconds in group])


class Evaluator:
    """Logarithms of outputs as functions of the logarithms of the constants.

    Parameters
    ----------
    architecture
        The model.
    outputs
        Outputs to evaluate.
    """

    def __init__(self, architecture: Architecture, outputs: Outputs) -> None:
        self._architecture = architecture
        self._features = Features.of(outputs.pairs)
        self.outputs = outputs

    def logs(self, log_constants: Floats) -> Floats:
        """Return logarithms of the predicted times, shape (outputs,)."""
        result: Floats = np.log((self._parts(log_constants) * self.outputs.mask).sum(axis=1))
        return result

    def shares(self, log_constants: Floats) -> tuple[Floats, Floats]:
        """Return shares of the parts in each output, and of each output in its iteration.

        Returns
        -------
        tuple
            Shapes (outputs, parts) and (outputs,).
        """
        parts = self._parts(log_constants)
        held = parts * self.outputs.mask
        size = held.sum(axis=1)
        return held / size[:, None], size / parts.sum(axis=1)

    def jacobian(self, log_constants: Floats) -> tuple[Floats, Floats]:
        """Return logarithms and derivatives, shapes (outputs,) and (outputs, constants)."""
        base = self.logs(log_constants)
        slope = np.empty((len(base), len(log_constants)))
        for index in range(len(log_constants)):
            moved = log_constants.copy()
            moved[index] += FIT.step
            slope[:, index] = (self.logs(moved) - base) / FIT.step
        return base, slope

    def _parts(self, log_constants: Floats) -> Floats:
        parts = parts_s(self._architecture, np.exp(log_constants), self._features)
        result: Floats = parts.T[self.outputs.at]
        return result


def covariance_between(
    left: Outputs, left_share: Floats, right: Outputs, right_share: Floats, errors: Errors
) -> Floats:
    """Return the covariance of outputs' errors, without `own_variance`.

    Parameters
    ----------
    left_share, right_share
        Results of `Evaluator.shares`.

    Returns
    -------
    Floats
        Shape (left, right), squared natural logarithms.
    """
    shared = Shared.of(left.pairs, right.pairs)
    grid = np.ix_(left.at, right.at)
    total = np.zeros((len(left.at), len(right.at)))
    for index, kernel in enumerate(errors.kernels):
        weight = np.outer(left_share[:, index], right_share[:, index])
        total += weight * shared.covariance(kernel)[grid]
    if errors.alone > 0.0:
        a, b = (
            share[:, _PASSES].sum(axis=1) * _alone(outputs)
            for outputs, share in ((left, left_share), (right, right_share))
        )
        total += errors.alone**2 * np.outer(a, b)
    return total


def own_variance(outputs: Outputs, share: Floats, size: Floats, errors: Errors) -> Floats:
    """Return the variance that an output shares with no other, shape (outputs,)."""
    run = np.array([kernel.run for kernel in errors.kernels])
    floor = outputs.mask @ np.square(errors.floor)
    total: Floats = np.square(share) @ np.square(run) + floor / size**2
    return total


def _alone(outputs: Outputs) -> Floats:
    """Return 1.0 for configurations of one GPU without checkpointing, shape (outputs,)."""
    found = [
        shape.gpus == 1
        and not plan.gradient_checkpointing
        and plan.family is not PlanFamily.THREE_D
        for shape, plan in outputs.pairs
    ]
    return np.array(found, dtype=np.float64)[outputs.at]
