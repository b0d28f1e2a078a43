"""Durations unknown or wrong: index and factor by definition, nothing that could not be known."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from formulations.arrays import Bools, Floats
from morph_opt.core.domain import ExecutionPlan, InputError, Job, JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.traces.limits import LimitLaw
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.blind import (
    Bounded,
    Durations,
    EstimatingPolicy,
    Learnt,
    Limits,
    Noise,
)
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy, resolve
from morph_opt.scheduling.policies.sizes import SHAPES, Seen, Shape, SizeModel
from morph_opt.simulation.engine.config import ReplayConfig
from tests.engine import toys
from tests.policies.worlds import LINEAR, cluster, queued, running, speeds, state

NOTHING = Seen(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))


def log_law(shape: Shape, z: float) -> tuple[float, float]:
    """Logarithms of density and survival of the standardised law, by its textbook definition."""
    if shape.name == "lognormal":
        normal = NormalDist()
        return float(np.log(normal.pdf(z))), float(np.log(1.0 - normal.cdf(z)))
    # Smallest extreme value W = ln E of an exponential E: mean -0.5772, variance pi^2 / 6.
    scale = np.pi / np.sqrt(6.0)
    w = scale * z - np.euler_gamma
    return float(np.log(scale) + w - np.exp(w)), float(-np.exp(w))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_laws_are_standardised_and_their_derivatives_right(shape: Shape) -> None:
    z = np.linspace(-4.0, 2.5, 14)
    for law, which in ((shape.density, 0), (shape.survival, 1)):
        log, first, second = law(z)
        assert log == pytest.approx([log_law(shape, float(one))[which] for one in z])
        step = 1e-5
        up, down = law(z + step), law(z - step)
        assert first == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-6)
        assert second == pytest.approx((up[1] - down[1]) / (2 * step), abs=1e-6)
    fine = np.linspace(-30.0, 12.0, 400_001)
    density = np.exp(shape.density(fine)[0])
    moments = [np.trapezoid(density * fine**power, fine) for power in (0, 1, 2)]
    assert moments == pytest.approx([1.0, 0.0, 1.0], abs=1e-4)
    chance = np.asarray([0.001, 0.4, 0.999])
    assert np.exp(shape.survival(shape.above(chance))[0]) == pytest.approx(chance)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("start", [0.0, 3.0])
@pytest.mark.parametrize("attained", [0.0, 0.3, 5.0, 40.0])
def test_work_left_is_the_reciprocal_of_the_best_index(
    attained: float, start: float, shape: Shape
) -> None:
    """Word for word: the largest P(S - a <= x) / (s + E min(S - a, x)), by a fine integral."""
    model = SizeModel(2.0, 0.7, 1.2, 0.5, shape)
    asked = 1.1  # log GPUs: the mean of this job is 2 + 0.7 x 0.6
    x = np.linspace(0.0, 5000.0, 200_001)
    z = (np.log(np.maximum(attained + x, 1e-300)) - 2.42) / 1.2
    left = np.exp(shape.survival(np.maximum(z, -500.0))[0])
    left /= left[0]
    spent = start + np.cumsum(0.5 * (left[1:] + left[:-1]) * np.diff(x))
    (found,) = model.remaining(np.asarray([asked]), np.asarray([attained]), np.asarray([start]))
    index = float(((1.0 - left[1:]) / spent).max())
    assert found == pytest.approx(1.0 / index - start, rel=0.02)


def drawn(count: int, exponential: bool) -> Seen:
    """Sizes of slope 0.8 on log GPUs, cut at random, a third and more of them unfinished."""
    draw = np.random.default_rng(2)
    log_gpus = np.log(draw.choice([1.0, 2.0, 4.0, 8.0], count))
    law = np.log(draw.exponential(size=count)) if exponential else draw.normal(0.0, 1.0, count)
    logs, cut = 8.0 + 0.8 * log_gpus + law, draw.normal(9.0, 1.5, count)
    return Seen(np.exp(np.minimum(logs, cut)), log_gpus, logs <= cut)


def test_unfinished_jobs_are_known_to_be_larger() -> None:
    """Of 4,000 the fit finds mean, slope and spread within 5 standard errors; not from the
    complete ones alone."""
    seen = drawn(4000, exponential=False)
    centre = float(seen.log_gpus.mean())
    found = SizeModel.fitted(seen)
    assert found.shape.name == "lognormal"
    assert abs(found.mean - (8.0 + 0.8 * centre)) < 0.1
    assert abs(found.slope - 0.8) < 0.13
    assert abs(found.spread - 1.0) < 0.1
    naive = SizeModel.fitted(
        Seen(seen.work[seen.complete], seen.log_gpus[seen.complete], seen.complete[seen.complete])
    )
    assert naive.mean < found.mean - 0.2


def test_the_likelier_shape_is_chosen() -> None:
    assert SizeModel.fitted(drawn(2000, exponential=True)).shape.name == "weibull"
    assert SizeModel.fitted(drawn(2000, exponential=False)).shape.name == "lognormal"


@pytest.mark.parametrize("count", [1, 2, 12, 80])
def test_the_fit_is_the_likeliest(count: int) -> None:
    """No neighbour has a larger posterior, by the definition on the page, in either shape."""
    seen = drawn(count, exponential=False)
    found = SizeModel.fitted(seen)

    def posterior(mean: float, slope: float, log_spread: float) -> float:
        value = -0.5 * ((mean - np.log(1e4)) / 3.0) ** 2 - 0.5 * ((slope - 1.0) / 0.5) ** 2
        value -= 0.5 * ((log_spread - np.log(np.pi / np.sqrt(6.0))) / 0.5) ** 2
        for work, log_gpus, complete in zip(*vars_of(seen), strict=True):
            spread = np.exp(log_spread)
            middle = mean + slope * (log_gpus - found.centre)
            density, above = log_law(found.shape, (np.log(work) - middle) / spread)
            value += density - log_spread if complete else above
        return float(value)

    here = (found.mean, found.slope, float(np.log(found.spread)))
    best = posterior(*here)
    for number in range(3):
        for step in (0.003, -0.003):
            there = list(here)
            there[number] += step
            assert posterior(*there) < best, number


def vars_of(seen: Seen) -> tuple[Floats, Floats, Bools]:
    return seen.work, seen.log_gpus, seen.complete


def test_guess_without_history_does_not_depend_on_age() -> None:
    """A constant hazard: as much is left of a job that has run as of a new one; GPUs count."""
    model = SizeModel.fitted(NOTHING)
    asked = np.log([1.0, 1.0, 1.0, 4.0])
    left = model.remaining(asked, np.asarray([0.0, 1e3, 1e5, 0.0]), np.zeros(4))
    assert left[:3] == pytest.approx([left[0]] * 3, rel=1e-6)
    assert left[3] == pytest.approx(4.0 * left[0])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_guess_beyond_all_known_sizes_doubles_the_work_done(shape: Shape) -> None:
    """Sizes all but equal: 38 spreads above them nothing is likely, and nothing is negative."""
    model = SizeModel(2.0, 1.0, 1e-3, 0.0, shape)
    attained = np.asarray([0.0, 7.0, 8.0, 1e6])
    found = model.remaining(np.zeros(4), attained, np.zeros(4))
    assert found[0] == pytest.approx(np.exp(2.0), rel=0.01)
    assert 0.0 < found[1] < 0.5
    assert found[2] == 8.0
    assert found[3] == 1e6


class Recording(Policy):
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
    policy = EstimatingPolicy(inner, Learnt(LINEAR))  # type: ignore[arg-type]
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


def test_completed_job_is_learnt_once() -> None:
    """b vanishes after 1,000 iterations of 8 GPU-seconds."""
    here = cluster(8)
    with_b = state(here, queued("a"), running("b", {0: [1]}, iterations=1000))
    alone = state(here, queued("a"))
    (first, _), (second,), (third,) = shown(with_b, alone, alone)
    # The most GPU-efficient of all configurations has one GPU; a start is 10 s there.
    start = np.asarray([alone.jobs[0].restart_s])
    asked = np.log([float(alone.jobs[0].job.requested_gpus)])
    prior = SizeModel.fitted(NOTHING).remaining(asked, np.zeros(1), start)[0] / 8.0
    assert first == np.ceil(prior)
    b = np.log(float(with_b.jobs[1].job.requested_gpus))
    seen = Seen(np.asarray([8000.0, 0.0]), np.append(b, asked), np.asarray([True, False]))
    learnt = SizeModel.fitted(seen).remaining(asked, np.zeros(1), start)[0] / 8.0
    assert second == third == np.ceil(learnt)
    assert second != first


def test_a_request_for_more_gpus_is_thought_larger() -> None:
    here = cluster(8)
    ((small, large),) = shown(state(here, queued("a", gpus=1), queued("b", gpus=4)))
    assert large > 2.0 * small


def test_workers_that_take_turns_are_guessed_as_gangs_are() -> None:
    """Four workers of 0.1 s a mini-batch on a V100: 0.4 GPU-seconds an iteration, on any number of
    them; the slower P100 never is the most efficient. One completes 1,000 iterations."""
    here = load_cluster("1x4:V100+1x4:P100")
    speeds = ElasticTable({"m": {"V100": "0.1", "P100": "0.3"}})

    def worker(name: str, workers: int, iterations: int, done: float = 0.0) -> JobState:
        plan = ExecutionPlan.ests(workers, "d2", "V100")
        return JobState(Job(name, "m", 0.0, iterations, workers, plan), done, restart_s=0.0)

    inner = Recording()
    policy = EstimatingPolicy(inner, Learnt(speeds))  # type: ignore[arg-type]
    large, small = worker("b", 8, 10**6), worker("a", 4, 1000)
    policy.decide(state(here, small, large))
    policy.decide(state(here, large))
    shown_first, shown_then = (seen.jobs[-1].iterations_left for seen in inner.seen)
    asked, none = np.log([4.0, 8.0]), np.zeros(2)
    prior = SizeModel.fitted(Seen(none, asked, none > 0.0)).remaining(asked, none, none)
    assert shown_first == np.ceil(prior[1] / 0.8)
    seen = Seen(np.asarray([400.0, 0.0]), asked, np.asarray([True, False]))
    learnt = SizeModel.fitted(seen).remaining(asked, none, none)
    assert shown_then == np.ceil(learnt[1] / 0.8) != shown_first


def test_a_job_that_runs_has_no_start_before_it() -> None:
    """Where the chance to complete falls with age, intervals are short and a start before each
    counts; where it is constant, a job is followed to its end and the one start is the rule's."""
    asked, attained, start = np.zeros(2), np.full(2, 50.0), np.asarray([0.0, 30.0])
    runs, waits = SizeModel(3.0, 1.0, 2.0, 0.0, SHAPES[1]).remaining(asked, attained, start)
    assert runs < 0.9 * waits
    runs, waits = SizeModel().remaining(asked, attained, start)
    assert runs == pytest.approx(waits, rel=1e-3)


def test_running_jobs_raise_the_guess() -> None:
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
    [("milp", "jct-blind", "true"), ("milp", "jct", "blind"), ("srtf", "auto", "blind")],
)
def test_durations_change_nothing_before_the_first_completion(
    policy: str, objective: str, durations: str
) -> None:
    """The whole log up to the first completion is the same whatever work the others have."""
    options = PolicyOptions(objective=objective, durations=durations)
    logs = []
    until_s = None
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
        config = ReplayConfig(until_s=until_s)
        done = replay(replace(trace, jobs=tuple(jobs)), toys.cluster(2, 4), decider, speeds, config)
        logs.append(done.history)
        until_s = until_s or min(r.finish_s or 0.0 for r in done.history.jobs) + config.interval_s
    first_s = min(r.finish_s for log in logs for r in log.jobs if r.finish_s is not None)
    assert first_s < until_s
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


def test_noisy_durations_scale_remaining_work_alone() -> None:
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
        decider = make_policy(
            policy, speeds, options if policy == "milp" else replace(options, objective="auto")
        )
        done = replay(toys.random_trace(3, 12), toys.cluster(1, 4), decider, speeds)
        assert done.summary["completed"] == 12
        histories.append([record.finish_s for record in done.history.jobs])
    assert histories[0] == histories[1] != histories[2]


class TestGuessesWithinLimits:
    """``--durations limits:...:learnt``, on jobs of a second an iteration."""

    SPEEDS = speeds({"m": {"1": 1.0}})

    def round(self, *jobs: JobState) -> RoundState:
        return state(cluster(8), *jobs)

    def left(self, seen: RoundState, name: str) -> float:
        return next(one.iterations_left for one in seen.jobs if one.job.name == name)

    def test_learnt_sizes_are_bounded_by_limits(self) -> None:
        learnt, bounded = Learnt(self.SPEEDS), Bounded(self.SPEEDS)
        done = [
            running(f"d{n}", {0: [n]}, iterations=2000 + n, time_limit_s=9000.0) for n in range(6)
        ]
        now = self.round(
            queued("short", iterations=50, time_limit_s=60.0),
            queued("long", iterations=50, time_limit_s=90_000.0),
        )
        for each in (learnt, bounded):
            each.observe(self.round(*done))
            each.observe(now)
        guessed, seen = learnt.masked(now), bounded.masked(now)
        assert self.left(guessed, "short") > 60.0
        assert self.left(seen, "short") == 60.0
        assert self.left(seen, "long") == self.left(guessed, "long") < 90_000.0

    def test_nothing_that_has_not_completed_is_known(self) -> None:
        """Other true sizes of the jobs that are there give the same state but for them."""

        def seen(iterations: int) -> list[float]:
            one = Bounded(self.SPEEDS)
            one.observe(self.round(running("d", {0: [0]}, iterations=500, time_limit_s=800.0)))
            now = self.round(
                queued("a", iterations=iterations, time_limit_s=7200.0),
                running("b", {0: [1]}, iterations=iterations, done=60.0, time_limit_s=7200.0),
            )
            one.observe(now)
            return [known.iterations_left for known in one.masked(now).jobs]

        assert seen(100) == seen(5000)

    @pytest.mark.parametrize(
        ("text", "law", "learnt"),
        [
            ("limits", None, False),
            ("limits:learnt", None, True),
            ("limits:modal:learnt", LimitLaw("modal"), True),
            ("limits:factor:2", LimitLaw("factor", 2.0), False),
            ("limits:factor:2:learnt", LimitLaw("factor", 2.0), True),
        ],
    )
    def test_forms(self, text: str, law: LimitLaw | None, learnt: bool) -> None:
        assert Durations.parse(text) == Durations(limits=True, law=law, learnt=learnt)

    @pytest.mark.parametrize("text", ["", ":learnt", "learnt:", "learnt:learnt", "factor"])
    def test_other_forms_are_refused(self, text: str) -> None:
        with pytest.raises(InputError, match="modal, exact or factor:F"):
            Durations.parse(f"limits:{text}")

    def test_policies_that_go_by_limits_themselves_refuse_a_guess(self) -> None:
        told = PolicyOptions(durations="limits:learnt")
        jobs = [queued("j", time_limit_s=60.0).job]
        assert dict(resolve("easy").without_effect(told, jobs)) == {
            "durations": "policy 'easy' goes by time limits alone"
        }
        assert not dict(resolve("easy").without_effect(PolicyOptions(durations="limits"), jobs))


def test_the_accuracy_of_limits_is_the_mean_share_that_completed_jobs_used() -> None:
    """A job is taken to end in the middle of the round in which it does."""
    limits = Limits(LINEAR, learns=True)
    assert limits.accuracy() == 1.0
    shown = [
        (0.0, (("a", 0.0, 1000.0), ("b", 0.0, 400.0))),
        (60.0, (("a", 60.0, 1000.0), ("b", 60.0, 400.0))),
        (60.0, (("a", 60.0, 1000.0), ("b", 60.0, 400.0))),  # a round that is repeated
        (120.0, (("a", 120.0, 1000.0),)),
    ]
    for time_s, jobs in shown:
        known = (
            replace(running(n, {0: [i]}, time_limit_s=limit), executed_s=ran)
            for i, (n, ran, limit) in enumerate(jobs)
        )
        limits.observe(replace(state(cluster(4), *known), time_s=time_s))
    assert limits.accuracy() == pytest.approx((60.0 + 60.0 - 30.0) / 400.0)
    # One that waits when it goes was cancelled, and says nothing.
    gone = Limits(LINEAR, learns=True)
    gone.observe(state(cluster(4), queued("a", time_limit_s=10.0)))
    gone.observe(state(cluster(4)))
    assert gone.accuracy() == 1.0
    assert Limits(LINEAR).remembers is False
