"""``easyscale-twin``: elastic jobs like those of EasyScale's trace, generated; nothing to download.

Jobs, workers, arrivals and lengths are drawn like those of the published trace of 62 jobs; models
and their times are made up: a mini-batch on a V100 takes some tenths of a second, and on other
types longer in proportion to their lower peak rate, within a fifth. Convolutional models stay on
one type, as kernels that are equal on all types cost them a factor of two; the others do not.
"""

from __future__ import annotations

import numpy as np

from morph_opt.core.domain import ExecutionPlan, Job, Trace
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.traces.easyscale import HOME
from morph_opt.inputs.traces.format import WORKERS, generated
from morph_opt.inputs.traces.twins.sampling import stratified, stream

EASYSCALE_TWIN = "easyscale-twin"
"""Name of the twin."""

JOBS = 62

_TFLOPS = {"V100": 15.7, "P100": 10.6, "T4": 8.1}
"""Peak FP32 rates of the vendor's data sheets."""

_MODELS = {
    "conv-small": "d1",
    "conv-large": "d1",
    "detect": "d1",
    "encoder": "d2",
    "generator": "d2",
    "window": "d2",
}
_WORKERS = ((4, 0.05), (8, 0.15), (16, 0.25), (32, 0.55))
_PREFERRED = ((0.8, "V100"), (0.95, "P100"), (1.0, "T4"))
_SPAN_S = 4800.0
_REQUEST_S = ((0.0, 0.25, 0.5, 0.75, 0.9, 1.0), (3.0, 25.0, 90.0, 250.0, 700.0, 1500.0))
"""Seconds on one GPU of the preferred type for each worker, by quantile."""


def easyscale_twin(seed: int = 0) -> tuple[Trace, ElasticTable]:
    """Return the twin trace of a seed with its speed model.

    Raises
    ------
    InputError
        If the seed is negative.
    """
    rng = stream(62, seed)
    seconds = {model: _times(rng) for model in _MODELS}
    lengths = rng.permutation(stratified(*_REQUEST_S, JOBS, rng))
    counts = [round(part * JOBS) for _, part in _WORKERS]
    counts[-1] += JOBS - sum(counts)
    workers = rng.permutation(np.repeat([count for count, _ in _WORKERS], counts))
    arrivals = np.floor(np.sort(rng.uniform(0.0, _SPAN_S, JOBS)))
    jobs = []
    for number in range(JOBS):
        model = str(rng.choice(list(_MODELS)))
        draw = float(rng.random())
        kind = next(name for upto, name in _PREFERRED if draw <= upto)
        # A gang is no larger than its type's part of the cluster.
        kind = kind if workers[number] <= 16 else "V100"
        step_s = float(seconds[model][kind])
        jobs.append(
            Job(
                f"job-{number:02d}",
                model,
                float(arrivals[number]),
                max(1, round(float(lengths[number]) / step_s)),
                int(workers[number]),
                ExecutionPlan.ests(int(workers[number]), _MODELS[model], kind),
            )
        )
    notice = (
        f"{EASYSCALE_TWIN}: generated statistical twin of EasyScale's trace (seed {seed}), "
        "not an original"
    )
    return Trace.of(EASYSCALE_TWIN, jobs, notice), ElasticTable(seconds)


def _times(rng: np.random.Generator) -> dict[str, str]:
    """Draw seconds of a mini-batch by type, to a tenth of a millisecond."""
    fast_s = float(np.exp(rng.uniform(np.log(0.15), np.log(0.6))))
    return {
        kind: f"{fast_s * _TFLOPS['V100'] / peak * float(rng.uniform(0.8, 1.2)):.4f}"
        for kind, peak in _TFLOPS.items()
    }


FORMAT = generated(EASYSCALE_TWIN, easyscale_twin, WORKERS, HOME)
"""Trace format of the twin."""
