"""Twins of Acme, Philly and Helios: a week or a month of hundreds to thousands of GPUs, generated.

Run times, sizes and types of jobs have the published margins (`joint_table`), the demand has the
published ratio to the cluster. `docs/traces.md` lists what is matched and what is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain import SEEDS, InputError, Trace
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.cluster_twins.facts import ClusterFacts, joint_table, load_facts
from morph_opt.inputs.traces.format import SECONDS, generated, require_listed
from morph_opt.inputs.traces.options import MOST_JOBS, NODE_GPUS, TWIN_OPTIONS

CLUSTER_TWINS: dict[str, dict[str, str]] = {
    "acme-twin": {"": "seren", "kalos": "kalos"},
    "philly-twin": {"": "philly"},
    "helios-twin": {"": "helios"},
}
"""Cluster in ``facts.toml`` by twin and argument."""

HOME_GPUS = 2048
_HOME_DAYS = 7.0
_DAY_S = 86_400.0

_TENANTS = 20
_DAILY_SWING = 0.4
"""Assumed daily swing of arrivals as a share of their mean; the peak is at 15:00."""
_FAMILY = 4704


def facts_of(name: str, argument: str = "") -> ClusterFacts:
    """Return the published facts about a twin's original.

    Raises
    ------
    InputError
        If there is no such twin.
    """
    return load_facts()[_cluster_name(name, argument)]


def _cluster_name(name: str, argument: str) -> str:
    known = CLUSTER_TWINS[name]
    require_listed(name, argument, known)
    return known[argument]


@dataclass(frozen=True, slots=True)
class _Size:
    """Jobs, span and GPUs of a twin."""

    jobs: int
    days: float
    gpus: int


def twin_home(name: str, argument: str = "", *, gpus: int | None = None, **_: object) -> str:
    """Return the short form of the cluster that a twin is for: nodes of 8 GPUs.

    Raises
    ------
    InputError
        If the GPUs are no multiple of 8, or there is no such twin.
    """
    facts = facts_of(name, argument)
    return f"{_gpus(gpus) // NODE_GPUS}x{NODE_GPUS}:{facts.gpu_type}"


def _gpus(given: int | None) -> int:
    if given is None:
        return HOME_GPUS
    TWIN_OPTIONS["gpus"].require(given)
    if given % NODE_GPUS:
        rule = f"must be a multiple of {NODE_GPUS} (nodes of {NODE_GPUS} GPUs), got {given}"
        raise InputError(rule, field="gpus")
    return given


def cluster_twin(
    name: str,
    argument: str = "",
    *,
    seed: int = 0,
    jobs: int | None = None,
    gpus: int | None = None,
    days: float | None = None,
) -> tuple[Trace, GangTable]:
    """Generate the twin of a cluster.

    Parameters
    ----------
    name, argument
        A key of `CLUSTER_TWINS`, and its argument.
    seed
        Member of the family, at least 0; 0 is the project's fixed twin.
    jobs, gpus, days
        Number of jobs, GPUs of the cluster, days of submissions. What is not given follows
        from the published ratio of demand to capacity; 2,048 GPUs and 7 days where that leaves a
        choice. Jobs larger than the cluster are not drawn.

    Raises
    ------
    InputError
        If there is no such twin, or a number is out of range or asks for too many jobs.
    """
    SEEDS.require("seed", seed)
    cluster = _cluster_name(name, argument)
    facts = load_facts()[cluster]
    share = _restricted(joint_table(cluster), facts, _gpus(gpus))
    size = _sized(facts, cluster, share, jobs, _gpus(gpus), days)
    rng = np.random.default_rng([_FAMILY, sorted(load_facts()).index(cluster), seed])
    kinds, run_s, sizes = _jobs(facts, share, size.jobs, rng)
    submission_s = _arrivals(size, facts.same_second, rng)
    tenants = _tenants(size.jobs, rng)
    types = [one.name for one in facts.types]
    spec = f"{name}/{argument}" if argument else name
    # Every gang counts as skewed: it is offered on the fewest nodes that hold it.
    gangs = [
        Gang(gpus_of, types[kind], skewed=True)
        for kind, gpus_of in zip(kinds.tolist(), sizes.tolist(), strict=True)
    ]
    rows = zip(gangs, submission_s.tolist(), run_s.tolist(), tenants.tolist(), strict=True)
    made = [
        gang.job(f"job-{number}", at_s, seconds, f"tenant-{tenant}")
        for number, (gang, at_s, seconds, tenant) in enumerate(rows)
    ]
    notice = (
        f"{spec}: generated statistical twin of {facts.what}, {size.jobs:,} jobs in "
        f"{size.days:g} days for {size.gpus:,} GPUs (seed {seed}), not the original"
    )
    return Trace.of(spec, made, notice), GangTable(gangs)


def _restricted(share: Floats, facts: ClusterFacts, gpus: int) -> Floats:
    """Return the table without jobs that are larger than the cluster."""
    kept = np.where(facts.sizes <= gpus, share, 0.0)
    return np.asarray(kept / kept.sum(), dtype=np.float64)


def _sized(
    facts: ClusterFacts,
    cluster: str,
    share: Floats,
    jobs: int | None,
    gpus: int,
    days: float | None,
) -> _Size:
    """Return the given sizes, the others from the published ratio of demand to capacity."""
    for option, value in (("jobs", jobs), ("days", days)):
        if value is not None:
            TWIN_OPTIONS[option].require(value)
    gpu_s = facts.bin_mean_s[:, None] * facts.sizes
    demand = facts.jobs * float((joint_table(cluster) * gpu_s).sum())
    per_day = demand / (facts.gpus * facts.days) * gpus / float((share * gpu_s).sum())
    if jobs is None:
        days = _HOME_DAYS if days is None else days
        jobs = max(1, round(per_day * days))
        if jobs > MOST_JOBS:
            rule = f"{gpus:,} GPUs for {days:g} days take {jobs:,} jobs, at most {MOST_JOBS:,}"
            raise InputError(f"{rule}: give fewer, or --jobs", field="days")
    return _Size(jobs, jobs / per_day if days is None else days, gpus)


def _jobs(
    facts: ClusterFacts, share: Floats, jobs: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Draw type, run time in seconds and GPUs of every job, each shape ``(jobs,)``, shuffled."""
    by_size = np.concatenate([[0.0], np.cumsum(share.sum((0, 1)))])
    counts = np.diff(np.floor(by_size / by_size[-1] * jobs + rng.random()).astype(np.int64))
    size = np.repeat(np.arange(facts.sizes.size), counts)
    run_s = np.concatenate(
        [
            _stratum_means(share[:, :, at].sum(0), facts.edges_s, count)
            for at, count in enumerate(counts.tolist())
            if count
        ]
    )
    kind = _types_of(run_s, size, share, facts, rng)
    order = rng.permutation(jobs)
    # Rounded up, a second stays in its bin: bins hold their upper limit.
    return kind[order], np.ceil(run_s[order]).astype(np.int64), facts.sizes[size][order]


def _stratum_means(weight: Floats, edges_s: Floats, count: int) -> Floats:
    """Return mean run times of ``count`` equally likely strata, ascending.

    A few jobs carry most of the GPU time: random draws would let its sum vary by tens of percent
    from seed to seed; means of strata have exactly the sum of the table.

    Parameters
    ----------
    weight
        Quantity of each bin, shape ``(bins,)``.
    edges_s
        Limits of the bins; inside a bin the logarithm is spread evenly.
    """
    upper = np.cumsum(weight) / weight.sum()
    lower = np.concatenate([[0.0], upper[:-1]])
    part = np.maximum(upper - lower, 1e-300)
    ratio = edges_s[1:] / edges_s[:-1]
    scale = part * edges_s[:-1] / np.log(ratio)
    passed = np.concatenate([[0.0], np.cumsum(scale * (ratio - 1.0))])
    at = np.arange(count + 1) / count
    bin_of = np.minimum(np.searchsorted(upper, at, side="right"), weight.size - 1)
    inside = np.clip((at - lower[bin_of]) / part[bin_of], 0.0, 1.0)
    sums = passed[bin_of] + scale[bin_of] * (ratio[bin_of] ** inside - 1.0)
    return np.asarray(np.diff(sums) * count, dtype=np.float64)


def _types_of(
    run_s: Floats, size: Ints, share: Floats, facts: ClusterFacts, rng: np.random.Generator
) -> Ints:
    """Draw the type of each job; each cell of run time and size has the table's counts."""
    kinds, bins, _ = share.shape
    bin_of = np.clip(np.searchsorted(facts.edges_s, run_s, side="left") - 1, 0, bins - 1)
    cell = size * bins + bin_of
    chance = share.transpose(2, 1, 0).reshape(-1, kinds)
    upper = np.cumsum(chance, axis=1) / np.maximum(chance.sum(1), 1e-300)[:, None]
    count = np.bincount(cell, minlength=len(chance))
    first = np.cumsum(count) - count
    order = np.lexsort((rng.random(cell.size), cell))
    rank = np.empty(cell.size, dtype=np.int64)
    rank[order] = np.arange(cell.size)
    at = (rank - first[cell] + rng.random(len(chance))[cell]) / count[cell]
    return np.asarray((upper[cell][:, :-1] <= at[:, None]).sum(1), dtype=np.int64)


def _arrivals(size: _Size, same_second: float, rng: np.random.Generator) -> Floats:
    """Draw whole seconds of submission, ascending, shape ``(jobs,)``; the first is 0.

    Groups of geometric size share a second; groups come by a daily cycle.
    """
    more = 1.0 - math.sqrt(1.0 - same_second)  # chance that a group continues
    begins = rng.random(size.jobs) >= more
    begins[0] = True
    span_s = size.days * _DAY_S
    grid = np.linspace(0.0, span_s, 1 + max(24, round(24 * size.days)))
    hour = (grid / 3600.0) % 24.0
    rate = 1.0 + _DAILY_SWING * np.cos((hour - 15.0) / 24.0 * 2.0 * math.pi)
    passed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2.0)])
    groups = int(begins.sum())
    at = np.interp(np.sort(rng.random(groups)) * passed[-1], passed, grid)
    times = np.floor(at - at[0])[np.cumsum(begins) - 1]
    return np.asarray(times, dtype=np.float64)


def _tenants(jobs: int, rng: np.random.Generator) -> Ints:
    """Draw the tenant of every job: shares as 1, 1/2, 1/3, ... (assumed; five have 63 %)."""
    weight = 1.0 / np.arange(1, _TENANTS + 1)
    upper = np.cumsum(weight) / weight.sum()
    return np.asarray(np.searchsorted(upper, rng.random(jobs), side="right"), dtype=np.int64)


FORMATS = tuple(
    generated(
        name,
        partial(cluster_twin, name),
        SECONDS,
        partial(twin_home, name),
        arguments=tuple(arguments),
        options=TWIN_OPTIONS,
    )
    for name, arguments in CLUSTER_TWINS.items()
)
"""Trace formats of the twins."""
