"""Durations unknown or wrong: index and factor by definition, nothing that could not be known."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import ndtr

from morph_opt.domain import Job, JobState, RoundState
from morph_opt.policies.blind import PRIOR_GPU_S, Learnt, Noise, ToldPolicy
from morph_opt.policies.registry import PolicyOptions, make_policy
from morph_opt.policies.sizes import LogNormal
from morph_opt.replay.api import replay
from tests.engine import toys
from tests.policies.worlds import LINEAR, cluster, queued, running, state


@pytest.mark.parametrize("start", [0.0, 3.0])
@pytest.mark.parametrize("attained", [0.0, 0.3, 5.0, 40.0, 400.0])
def test_work_left_is_the_reciprocal_of_the_best_index(attained: float, start: float) -> None:
    """Word for word: the largest P(S - a <= x) / (s + E min(S - a, x)), by a fine integral."""
    mean, spread = 2.0, 1.2
    x = np.linspace(0.0, 5000.0, 200_001)
    left = 1.0 - ndtr((np.log(np.maximum(attained + x, 1e-300)) - mean) / spread)
    left /= left[0]
    spent = start + np.cumsum(0.5 * (left[1:] + left[:-1]) * np.diff(x))
    (found,) = LogNormal(mean, spread).rest(np.asarray([attained]), np.asarray([start]))
    index = float(((1.0 - left[1:]) / spent).max())
    assert found == pytest.approx(1.0 / index - start, rel=0.02)


def test_unfinished_jobs_are_known_to_be_larger() -> None:
    """Drawn lognormal, cut at random: the fit finds mean and spread, complete jobs alone do not.

    Of 4,000 the mean is within 5 standard errors, 5 x 1 / 63, even though a third is unfinished.
    """
    draw = np.random.default_rng(2)
    logs, cut = draw.normal(8.0, 1.0, 4000), draw.normal(8.5, 1.0, 4000)
    seen = logs <= cut
    sizes, attained = np.exp(logs[seen]), np.exp(cut[~seen])
    found = LogNormal.fitted(sizes, np.ones(sizes.size), attained)
    assert abs(found.mean - 8.0) < 0.08
    assert abs(found.spread - 1.0) < 0.08
    naive = LogNormal.fitted(sizes, np.ones(sizes.size), np.zeros(3))
    assert naive.mean == pytest.approx(logs[seen].mean())
    assert naive.mean < 7.8


def test_the_fit_is_the_likeliest() -> None:
    """No neighbour has a larger likelihood, complete and unfinished jobs and weights included."""
    sizes, weight = np.asarray([3.0, 20.0, 70.0, 90.0]), np.asarray([0.5, 1.0, 1.0, 2.0])
    attained = np.asarray([5.0, 60.0, 300.0])
    found = LogNormal.fitted(sizes, weight, attained)

    def likelihood(mean: float, spread: float) -> float:
        complete = -0.5 * ((np.log(sizes) - mean) / spread) ** 2 - np.log(spread)
        larger = NormalDist(mean, spread)
        unfinished = sum(np.log(1.0 - larger.cdf(float(np.log(a)))) for a in attained)
        return float(weight @ complete) + float(unfinished)

    best = likelihood(found.mean, found.spread)
    for step in (0.01, -0.01):
        assert likelihood(found.mean + step, found.spread) < best
        assert likelihood(found.mean, found.spread + step) < best


def test_more_work_than_anybody_had_is_as_much_again() -> None:
    """Sizes all but equal: 38 spreads above them nothing is likely, and nothing is negative."""
    found = LogNormal(2.0, 1e-3).rest(np.asarray([0.0, 7.0, 8.0, 1e6]), np.zeros(4))
    assert found[0] == pytest.approx(np.exp(2.0), rel=0.01)
    assert 0.0 < found[1] < 0.5
    assert found[2] == 8.0
    assert found[3] == 1e6


class Recording:
    """Keeps what it is shown."""

    name = "recording"

    def __init__(self) -> None:
        self.seen: list[RoundState] = []

    def decide(self, before: RoundState) -> object:
        self.seen.append(before)
        return None


def shown(*rounds: RoundState) -> list[list[float]]:
    """Iterations that a blind policy is shown as left, round by round."""
    inner = Recording()
    policy = ToldPolicy(inner, Learnt(LINEAR))  # type: ignore[arg-type]
    for before in rounds:
        policy.decide(before)
    return [[known.iterations_left for known in before.jobs] for before in inner.seen]


def test_iterations_of_a_job_that_has_not_completed_do_not_matter() -> None:
    here = cluster(8)
    many = [
        shown(
            state(here, queued("a", iterations=n), running("b", {0: [1]}, done=4.0, iterations=n)),
            state(here, queued("a", iterations=n)),
        )[0]
        for n in (5, 700, 10**6)
    ]
    assert many[0] == many[1] == many[2]


def test_what_has_completed_is_learnt_once() -> None:
    """b vanishes after 1,000 iterations of 8 GPU-seconds; the prior counts as one job."""
    here = cluster(8)
    with_b = state(here, queued("a"), running("b", {0: [1]}, iterations=1000))
    alone = state(here, queued("a"))
    (first, _), (second,), (third,) = shown(with_b, alone, alone)
    weight, nothing = np.full(9, 1.0 / 9.0), np.zeros(1)
    # The thriftiest of all configurations has one GPU; a start is 10 s there.
    start = np.asarray([alone.jobs[0].restart_s])
    prior = LogNormal.fitted(PRIOR_GPU_S, weight, nothing).rest(nothing, start)[0] / 8.0
    assert first == np.ceil(prior)
    sizes = np.append(PRIOR_GPU_S, 8000.0)
    learnt = LogNormal.fitted(sizes, np.append(weight, 1.0), nothing)
    assert second == third == np.ceil(learnt.rest(nothing, start)[0] / 8.0)
    assert second != first


def test_who_runs_has_no_start_before_it() -> None:
    """Of two alike, the one that waits is thought to have more left: stints cost it a start."""
    (runs, waits), = shown(state(cluster(8), running("a", {0: [1]}), queued("b")))  # fmt: skip
    assert runs < waits


def test_that_a_job_has_not_completed_is_learnt() -> None:
    """Beside one that has done 10,000 iterations, a new one is thought larger than without."""
    here = cluster(8)
    ((alone,),) = shown(state(here, queued("a")))
    ((beside, _),) = shown(
        state(here, queued("a"), running("b", {0: [1]}, done=1e4, iterations=10**6))
    )
    assert beside > alone


def test_a_job_of_which_nothing_is_known_is_shown_some_work() -> None:
    """Speeds may know no configuration that fits; the policy decides what then."""
    nowhere = JobState(Job("x", "m", 0.0, 5, 1, LINEAR_PLAN, cpus_per_gpu=10**6), restart_s=1.0)
    assert shown(state(cluster(8), nowhere))[0][0] >= 1.0


LINEAR_PLAN = queued("a").job.requested_plan


@pytest.mark.parametrize(
    ("policy", "objective", "durations"),
    [("milp", "jct-blind", "true"), ("milp", "jct", "blind"), ("srtf", "throughput", "blind")],
)
def test_durations_change_nothing_before_the_first_completion(
    policy: str, objective: str, durations: str
) -> None:
    """The whole log up to the first completion is the same whatever work the others have."""
    options = PolicyOptions(objective=objective, durations=durations)
    logs = []
    for factor in (1, 50):
        trace = toys.random_trace(3, 8)
        soon = min(trace.jobs, key=lambda job: (job.iterations, job.name))
        jobs = [
            replace(job, iterations=job.iterations * (1 if job is soon else factor), submission_s=0)
            for job in trace.jobs
        ]
        speeds = toys.ToySpeeds()
        decider = make_policy(policy, speeds, options)
        assert decider.name == policy
        done = replay(replace(trace, jobs=tuple(jobs)), toys.cluster(2, 4), decider, speeds)
        assert done.summary["completed"] == 8
        logs.append(done.history)
    first_s = min(min(r.finish_s or 0.0 for r in log.jobs) for log in logs)
    starts = [
        {
            (r.job.name, s.start_s, str(s.placement))
            for r in log.jobs
            for s in r.segments
            if s.start_s < first_s
        }
        for log in logs
    ]
    assert starts[0] == starts[1]
    assert starts[0]


def test_noise_is_lognormal_constant_per_job_and_of_the_seed() -> None:
    """Logarithms over sigma have mean 0 and deviation 1: of 2,000, within 5 standard errors."""
    noise = Noise(0.5, seed=3)
    logs = np.log([noise.factor(f"job-{i}") for i in range(2000)]) / 0.5
    assert abs(logs.mean()) < 5 / np.sqrt(2000)
    assert abs(logs.std() - 1.0) < 5 / np.sqrt(4000)
    assert noise.factor("a") == Noise(0.5, seed=3).factor("a") != Noise(0.5, seed=4).factor("a")


def test_what_is_left_is_told_times_the_factor_and_nothing_else_changes() -> None:
    noise = Noise(1.0)
    before = state(cluster(8), queued("a"), running("b", {0: [1]}, done=400.0, iterations=1000))
    told = noise.masked(before)
    for was, now in zip(before.jobs, told.jobs, strict=True):
        assert now.iterations_left == pytest.approx(
            was.iterations_left * noise.factor(was.job.name), abs=1.0
        )
        same = replace(now, job=replace(now.job, iterations=was.job.iterations))
        assert same == was


@pytest.mark.parametrize("policy", ["milp", "srtf"])
def test_a_replay_on_estimates_that_hardly_err_is_the_one_on_the_truth(policy: str) -> None:
    """And one on estimates far off completes every job, differently."""
    histories = []
    for durations in ("true", "noisy:1e-9", "noisy:3"):
        options = PolicyOptions(objective="jct", durations=durations)
        speeds = toys.ToySpeeds()
        decider = make_policy(policy, speeds, options if policy == "milp" else
                              replace(options, objective="throughput"))  # fmt: skip
        done = replay(toys.random_trace(3, 12), toys.cluster(1, 4), decider, speeds)
        assert done.summary["completed"] == 12
        histories.append([record.finish_s for record in done.history.jobs])
    assert histories[0] == histories[1] != histories[2]
