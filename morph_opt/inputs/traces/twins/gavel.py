"""``gavel-96``: a statistical twin of Gavel's 96-job trace with a throughput table of its own.

Nothing to download, nothing copied. Step times follow ``1 / throughput = a + b * batch size`` with
constants fitted per model family and GPU type; gangs scale by one factor per family, type and
size; run times and gang sizes follow the published trace's quantiles and counts; arrivals come in
bursts. Two jobs that share GPUs slow each other by a contention factor of their families, so
packing pairs are there as well, for any gang size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morph_opt.core.documents.source import packaged_toml
from morph_opt.core.domain import Job, Trace
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang
from morph_opt.inputs.perf.tables.gavel import GavelTable, GavelThroughputs, Key
from morph_opt.inputs.traces.format import generated
from morph_opt.inputs.traces.gavel import HOME
from morph_opt.inputs.traces.twins.sampling import stratified, stream

GAVEL_TWIN = "gavel-96"
"""Name of the twin."""

JOBS = 96
TYPES = ("k80", "p100", "v100")

_HOUR_QUANTILES = ((0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), (0.09, 1.0, 1.4, 2.4, 3.2, 3.8, 4.9))
"""Hours alone on a V100 gang, by level."""

_GANGS = ((1, 59), (2, 19), (4, 18))
SLO_FACTORS = (1.2, 2.0, 10.0)
"""SLOs as multiples of the duration alone, equally many of each.

The published code draws one of these for a generated job, each with about a third of the chance
(``scheduler/utils.py``, ``generate_job``).
"""

_SPAN_S = 46_300.0
_BURST = 0.12
"""Share of jobs that arrive together with the previous one."""


@dataclass(frozen=True, slots=True)
class _Family:
    """A model family: batch sizes, step-time constants and gang speed-ups by GPU type.

    ``step_s`` holds (a, b) in seconds and seconds per unit of batch size, ``speedup`` the factors
    for gangs of 2, 4 and 8; none where the family only runs on one GPU. ``pressure`` is how much a
    job slows one that shares its GPUs.
    """

    batches: Sequence[int]
    step_s: Sequence[tuple[float, float]]
    speedup: Sequence[tuple[float, float, float]]
    pressure: float
    share: float


def _families() -> dict[str, _Family]:
    tables = packaged_toml(__package__, "gavel.toml")
    return {name: _Family(**table) for name, table in tables.items()}


_FAMILIES = _families()


def twin_throughputs() -> GavelThroughputs:
    """Return the twin's table, the same for every seed."""
    alone: dict[str, dict[Key, float]] = {kind: {} for kind in TYPES}
    family_of: dict[Key, _Family] = {}
    for name, family in _FAMILIES.items():
        for batch in family.batches:
            for size, gang in enumerate((1, 2, 4, 8) if family.speedup else (1,)):
                key = (f"{name} (batch {batch})", gang)
                family_of[key] = family
                for index, kind in enumerate(TYPES):
                    base, slope = family.step_s[index]
                    factor = family.speedup[index][size - 1] if size else 1.0
                    alone[kind][key] = factor / (base + slope * batch)
    spread = {
        kind: {key: 0.8 * speed for key, speed in table.items() if key[1] > 1}
        for kind, table in alone.items()
    }
    paired = {
        kind: {
            (one, two): (
                table[one] / (1.0 + family_of[two].pressure),
                table[two] / (1.0 + family_of[one].pressure),
            )
            for one in table
            for two in table
            if one[1] == two[1]
        }
        for kind, table in alone.items()
    }
    return GavelThroughputs(alone, spread, paired)


def gavel_twin(seed: int = 0, *, slos: bool = False) -> tuple[Trace, GavelTable]:
    """Return the twin trace of a seed with its speed model.

    Parameters
    ----------
    slos
        Whether every job has an SLO: `SLO_FACTORS` of its duration alone on the fastest type.

    Raises
    ------
    InputError
        If the seed is negative.
    """
    rng = stream(96, seed)
    throughputs = twin_throughputs()
    hours = rng.permutation(stratified(*_HOUR_QUANTILES, JOBS, rng))
    gangs = rng.permutation(np.repeat([g for g, _ in _GANGS], [n for _, n in _GANGS]))
    gaps = rng.exponential(1.0, JOBS) * (rng.random(JOBS) >= _BURST)
    gaps[0] = 0.0
    arrivals = np.round(np.cumsum(gaps) / max(gaps.sum(), 1e-9) * _SPAN_S)
    names = list(_FAMILIES)
    factors = _slo_factors(seed) if slos else None
    part = np.asarray([_FAMILIES[name].share for name in names])
    scalable = np.asarray([bool(_FAMILIES[name].speedup) for name in names])
    jobs = []
    for number in range(JOBS):
        gang = int(gangs[number])
        weight = part * scalable if gang > 1 else part
        name = names[int(rng.choice(len(names), p=weight / weight.sum()))]
        batch = int(rng.choice(_FAMILIES[name].batches))
        key = (f"{name} (batch {batch})", gang)
        steps = max(1, round(float(hours[number]) * 3600.0 * throughputs.alone["v100"][key]))
        jobs.append(
            Job(
                f"job-{number:02d}",
                Gang(gang, key[0]).name,
                float(arrivals[number]),
                steps,
                gang,
                RIGID_PLAN,
                tenant=f"tenant-{number % 4}",
                deadline_s=None
                if factors is None
                else float(arrivals[number] + factors[number] * steps / throughputs.fastest(key)),
            )
        )
    name = GAVEL_TWIN if factors is None else f"{GAVEL_TWIN}/slo"
    notice = (
        f"{name}: generated statistical twin of Gavel's 96-job trace (seed {seed}), "
        "not the original"
    )
    return Trace.of(name, jobs, notice), GavelTable(throughputs, GAVEL_TWIN)


def _slo_factors(seed: int) -> npt.NDArray[np.float64]:
    """Draw an SLO factor per job from a separate stream, so that the jobs stay the same."""
    rng = np.random.default_rng([97, seed])
    factors = np.resize(np.asarray(SLO_FACTORS), JOBS)
    return np.asarray(rng.permutation(factors))


def _drawn(argument: str, *, seed: int) -> tuple[Trace, GavelTable]:
    """Return the twin, with SLOs if the argument is ``slo``."""
    return gavel_twin(seed, slos=bool(argument))


_SPEEDS = "a table drawn like Gavel's, by GPU type, pairs included"
FORMAT = generated(GAVEL_TWIN, _drawn, _SPEEDS, HOME, arguments=("", "slo"))
"""Trace format of the twin."""
