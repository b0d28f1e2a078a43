"""Durations unknown or wrong: index and factor by definition, nothing that could not be known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from morph_opt.domain import Job, JobState, RoundState
from morph_opt.policies.blind import PRIOR_GPU_S, Learnt, Noise, ToldPolicy, gittins_rest
from morph_opt.policies.registry import PolicyOptions, make_policy
from morph_opt.replay.api import replay
from tests.engine import toys
from tests.policies.worlds import LINEAR, cluster, queued, running, state


def test_work_left_by_hand() -> None:
    """Of 1, 2 and 9, after 0: min(1 x 3 / 1, (1 + 2 x 2) / 2, 12 / 3) = 2.5, after 2 the 7 of the
    9 alone, and after 9 as much as was done.
    """
    found = gittins_rest(np.asarray([1.0, 2.0, 9.0]), np.asarray([0.0, 2.0, 9.0, 12.0]))
    assert found.tolist() == [2.5, 7.0, 9.0, 12.0]


@pytest.mark.parametrize("seed", range(10))
def test_work_left_is_the_reciprocal_of_the_best_index(seed: int) -> None:
    """Word for word: the largest P(S - a <= x) / E min(S - a, x) over a fine grid of x."""
    draw = np.random.default_rng(seed)
    samples = np.sort(draw.integers(1, 40, 7)).astype(float)
    for done in (0.0, 3.5, float(samples[2])):
        rest = samples[samples > done] - done
        if rest.size:
            index = [float((rest <= x).mean() / np.minimum(rest, x).mean()) for x in range(1, 80)]
            index += [float((rest <= x).mean() / np.minimum(rest, x).mean()) for x in rest]
            (found,) = gittins_rest(samples, np.asarray([done]))
            assert found == pytest.approx(1.0 / max(index))


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
    """b vanishes after 1,000 iterations of 8 GPU-seconds: a tenth sample of 8,000 GPU-seconds."""
    here = cluster(8)
    with_b = state(here, queued("a"), running("b", {0: [1]}, iterations=1000))
    alone = state(here, queued("a"))
    first, second, third = shown(with_b, alone, alone)
    prior = gittins_rest(PRIOR_GPU_S, np.zeros(1))[0] / 8.0
    assert first[0] == np.ceil(prior)
    learnt = np.sort(np.append(PRIOR_GPU_S, 8000.0))
    assert second[0] == third[0] == np.ceil(gittins_rest(learnt, np.zeros(1))[0] / 8.0)


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
