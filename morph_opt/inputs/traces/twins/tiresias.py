"""``tiresias-480``: 480 rigid jobs with Tiresias' heavy tail, generated; nothing to download.

GPU-seconds follow the quantiles of the published samples up to the 95th percentile (beyond it a
few jobs would decide every average), gang sizes the mix of the published 60-job trace with some
larger ones, arrivals a Poisson process. Two of the five models have skewed tensors: their gangs
are not spread over more nodes than they need.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from morph_opt.core.domain import Trace
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.format import SECONDS, generated
from morph_opt.inputs.traces.tiresias import TiresiasRow, trace_of
from morph_opt.inputs.traces.twins.sampling import stratified, stream

TIRESIAS_TWIN = "tiresias-480"
"""Name of the twin."""

JOBS = 480

_GPU_S_QUANTILES = (
    (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0),
    (121.0, 357.0, 860.0, 2227.0, 8215.0, 40_000.0, 76_000.0, 100_000.0),
)
_GANGS = ((1, 0.5), (2, 0.15), (4, 0.15), (8, 0.15), (16, 0.05))
_MEAN_GAP_S = 120.0
_MODELS = ("vgg", "resnet", "inception", "alexnet", "googlenet")
_SKEWED = ("vgg", "alexnet")


def twin_samples() -> npt.NDArray[np.float64]:
    """Return GPU-second samples for the Gittins index: middles of 500 strata of the twin."""
    levels, values = _GPU_S_QUANTILES
    middle = (np.arange(500) + 0.5) / 500
    return np.asarray(np.exp(np.interp(middle, levels, np.log(values))), dtype=np.float64)


def tiresias_twin(seed: int = 0) -> tuple[Trace, GangTable]:
    """Return the twin trace of a seed with its speed model.

    Raises
    ------
    InputError
        If the seed is negative.
    """
    rng = stream(480, seed)
    service = rng.permutation(stratified(*_GPU_S_QUANTILES, JOBS, rng))
    counts = [round(part * JOBS) for _, part in _GANGS]
    gangs = rng.permutation(np.repeat([gang for gang, _ in _GANGS], counts))
    arrivals = np.floor(np.cumsum(rng.exponential(_MEAN_GAP_S, JOBS)))
    rows = [
        TiresiasRow(
            f"{number:03d}",
            str(rng.choice(_MODELS)),
            int(gangs[number]),
            int(arrivals[number] - arrivals[0]),
            max(1, round(float(service[number]) / int(gangs[number]))),
        )
        for number in range(JOBS)
    ]
    notice = (
        f"{TIRESIAS_TWIN}: generated statistical twin of Tiresias' workloads (seed {seed}), "
        "not an original"
    )
    return (
        trace_of(rows, name=TIRESIAS_TWIN, description=notice),
        GangTable(Gang(row.gpus, row.model, skewed=row.model in _SKEWED) for row in rows),
    )


FORMAT = generated(TIRESIAS_TWIN, tiresias_twin, SECONDS)
"""Trace format of the twin."""
