"""A fit over phases with a last word of complete iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from morph_opt.inputs.perf.analytic.architecture import PARTS, Architecture
from morph_opt.inputs.perf.analytic.prior import Prior
from morph_opt.inputs.perf.fitting.discrepancy import Scales
from morph_opt.inputs.perf.fitting.errors import ERRORS, Errors
from morph_opt.inputs.perf.fitting.fit import Fit, fit
from morph_opt.inputs.perf.fitting.runs import Run

INDEPENDENT = Errors(
    kernels=tuple(
        Scales(run=kernel.run, ragged=0.06 if part == "stall" else 0.0)
        for part, kernel in zip(PARTS, ERRORS.kernels, strict=True)
    ),
    floor=tuple(1.5 * floor for floor in ERRORS.floor),
)
"""For fits on complete tables: whatever the formulas can explain, they shall explain."""

LEEWAY = 5.0


LEAST_SD = 0.02
"""How far iteration times may move the constants that phases told, see `fit_complete`."""


def fit_complete(
    architecture: Architecture, runs: Sequence[Run], belief: Prior | None = None
) -> Fit:
    """Constants of a complete table: phases tell them apart, iteration times have the last word.

    The second step starts from the first one, each constant within `LEEWAY` of its standard
    deviations, so that what the formulas miss in a phase does not bias the sum.
    """
    first = fit(architecture, runs, belief, INDEPENDENT)
    if not any(run.phases for run in runs):
        return first
    sd = np.maximum(LEEWAY * np.sqrt(np.diag(first.log_covariance)), LEAST_SD)
    near = Prior(first.log_constants, np.minimum(first.prior.log_sd, sd))
    timed = [replace(run, phases=()) for run in runs]
    second = fit(architecture, timed, near, INDEPENDENT)
    return replace(first, log_constants=second.log_constants)
