"""Each twin against its original, statistic by statistic, with a stated tolerance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.twins import calibrate
from morph_opt.core.domain import Job, Trace
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.inputs.traces.requested import RequestedSpeeds
from morph_opt.inputs.traces.twins.morphling import TWINS

SEEDS = (0, 1, 2)
LARGE = ("base", "bp", "mt")


@dataclass(frozen=True)
class Sample:
    """A trace with the work of its jobs as requested, GPU-hours."""

    trace: Trace
    hours: npt.NDArray[np.float64]

    @property
    def times_s(self) -> npt.NDArray[np.float64]:
        """Submissions."""
        return np.array([job.submission_s for job in self.trace.jobs])

    def mix(self, key: Callable[[Job], Hashable]) -> Counter[Hashable]:
        """Jobs by a key."""
        return Counter(key(job) for job in self.trace.jobs)


@cache
def sample(spec: str, seed: int = 0) -> Sample:
    """The trace, loaded once."""
    loaded = load_trace(spec, seed=seed)
    steps = RequestedSpeeds(loaded.truth)
    return Sample(loaded.trace, np.array([steps.gpu_hours(job) for job in loaded.trace.jobs]))


@pytest.fixture(params=[(name, seed) for name in TWINS for seed in SEEDS], ids=str)
def pair(request: pytest.FixtureRequest, public_data: Path) -> tuple[Sample, Sample]:
    """A twin and its original."""
    assert public_data.is_dir()
    name, seed = request.param
    return sample(name, seed), sample(f"morphling/{name}")


@pytest.fixture(params=[(name, seed) for name in LARGE for seed in SEEDS], ids=str)
def large_pair(request: pytest.FixtureRequest, public_data: Path) -> tuple[Sample, Sample]:
    """A twin with enough jobs to speak of shares and gaps, and its original."""
    assert public_data.is_dir()
    name, seed = request.param
    return sample(name, seed), sample(f"morphling/{name}")


def differing_share(a: Counter[Hashable], b: Counter[Hashable]) -> float:
    """Total variation distance of two mixes of the same size."""
    return float(sum((a - b).values()) / a.total())


def test_job_count_and_span_are_equal(pair: tuple[Sample, Sample]) -> None:
    own, original = pair
    assert len(own.trace.jobs) == len(original.trace.jobs)
    assert own.times_s[[0, -1]].tolist() == original.times_s[[0, -1]].tolist()


def test_mix_of_models_and_gpu_counts_is_equal(pair: tuple[Sample, Sample]) -> None:
    own, original = pair
    assert own.mix(lambda job: (job.model, job.requested_gpus)) == original.mix(
        lambda job: (job.model, job.requested_gpus)
    )


def test_mix_of_plans_within_a_tenth(pair: tuple[Sample, Sample]) -> None:
    own, original = pair

    def family(job: Job) -> Hashable:
        plan = job.requested_plan
        return job.model, plan.family, plan.gradient_accumulation, plan.gradient_checkpointing

    assert differing_share(own.mix(family), original.mix(family)) <= 0.10


def test_total_work_within_10_percent(pair: tuple[Sample, Sample]) -> None:
    own, original = pair
    assert own.hours.sum() == pytest.approx(original.hours.sum(), rel=0.10)


def test_quantiles_of_work_within_a_factor_of_three_halves(pair: tuple[Sample, Sample]) -> None:
    own, original = pair
    many = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
    levels = many if len(own.hours) >= 100 else [1.0]  # ten jobs: no quantiles worth the name
    ratio = np.quantile(own.hours, levels) / np.quantile(original.hours, levels)
    assert (np.abs(np.log(ratio)) <= np.log(1.5)).all(), ratio


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("public_data")
def test_work_by_gpu_count_within_a_quarter(seed: int) -> None:
    """Of ``base`` and hence ``mt``; in ``bp`` it follows from the plans that are drawn."""
    pair = (sample("base", seed), sample("morphling/base"))
    for gpus in sorted({job.requested_gpus for job in pair[0].trace.jobs}):
        held = [np.array([job.requested_gpus == gpus for job in s.trace.jobs]) for s in pair]
        mine, theirs = (float(s.hours[own].sum()) for s, own in zip(pair, held, strict=True))
        assert mine == pytest.approx(theirs, rel=0.25), gpus


def test_arrivals_and_work_over_time(large_pair: tuple[Sample, Sample]) -> None:
    """Cumulative jobs within 5 % of all jobs, cumulative work within 15 % of all work."""
    grid = np.arange(1800.0, large_pair[0].times_s[-1] + 1.0, 1800.0)
    jobs = [np.array([(s.times_s <= t).mean() for t in grid]) for s in large_pair]
    work = [np.array([s.hours[s.times_s <= t].sum() for t in grid]) for s in large_pair]
    assert np.abs(jobs[0] - jobs[1]).max() <= 0.05
    assert np.abs(work[0] - work[1]).max() <= 0.15 * large_pair[1].hours.sum()


def test_burstiness(large_pair: tuple[Sample, Sample]) -> None:
    """Gaps: median and upper quantiles, variation; arrivals per minute: dispersion."""
    gaps = [np.diff(s.times_s) for s in large_pair]
    for level in (0.25, 0.5, 0.75, 0.9):
        mine, theirs = (float(np.quantile(g, level)) for g in gaps)
        assert mine == pytest.approx(theirs, rel=0.35, abs=2.0), level
    mine, theirs = (float(g.std() / g.mean()) for g in gaps)
    assert mine == pytest.approx(theirs, rel=0.25)
    minutes = [np.bincount((s.times_s // 60).astype(int)) for s in large_pair]
    mine, theirs = (float(m.var() / m.mean()) for m in minutes)
    assert mine == pytest.approx(theirs, rel=0.35)


def test_guaranteed_share(pair: tuple[Sample, Sample]) -> None:
    own, original = pair
    flags = [np.array([job.guaranteed for job in s.trace.jobs]) for s in pair]
    assert flags[0].sum() == flags[1].sum()
    mine, theirs = (float(s.hours[f].sum()) for s, f in zip((own, original), flags, strict=True))
    assert mine == pytest.approx(theirs, rel=0.10)


def test_no_row_is_copied(pair: tuple[Sample, Sample]) -> None:
    """Jobs of a few iterations may coincide by chance: they are many and alike."""
    rows = [
        {
            (j.submission_s, j.model, j.requested_gpus, j.iterations)
            for j in s.trace.jobs
            if j.iterations > 5
        }
        for s in pair
    ]
    assert not rows[0] & rows[1]


def test_parameter_file_is_what_calibrate_writes(public_data: Path, project_root: Path) -> None:
    committed = project_root / "morph_opt" / "inputs" / "traces" / "twins" / "twins.toml"
    assert calibrate(public_data / "morphling") == committed.read_text(encoding="utf-8")
