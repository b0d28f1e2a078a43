"""What stops lose: who is stopped, what it costs, and the state that says it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.objectives import with_losses
from morph_opt.core.domain import InputError, JobState, RoundState, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import PriorityClass
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Preempted
from tests.engine.toys import Scripted, Shuffler, ToySpeeds, hold, random_trace
from tests.engine.toys import cluster as toys
from tests.engine.toys import job as toy_job
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import LINEAR, cluster, counts, queued, running, speeds, state

FOUR = speeds({"m": {"4": 1.0}})
CLASSES = OperatorRules((PriorityClass("high", (10, 20)), PriorityClass("low", (0, 9))))


def victims(rules: OperatorRules, *jobs: JobState, objective: str = "jct") -> set[str]:
    policy = MilpPolicy.of(FOUR, make_objective(objective), HighsSolver(), EXACT, rules=rules)
    before = state(cluster(4, 4), *jobs)
    left = counts(policy.decide(before).allocation)
    return {known.job.name for known in jobs if known.running is not None} - set(left)


def low(name: str, node: int, saved_s: float | None, **other: float) -> JobState:
    known = running(name, {node: range(4)}, **other)
    return replace(known, last_start_s=0.0, checkpointed_s=saved_s)


@pytest.mark.parametrize("objective", ["jct", "throughput", "lookahead", "saved-time"])
def test_the_victim_is_the_job_that_loses_least(objective: str) -> None:
    """Both hold what the job of the high class needs; a is worth a little less."""
    high = queued("h", 4, priority=10.0)
    for a, b, expected in ((170.0, 20.0, "a"), (20.0, 170.0, "b")):
        jobs = low("a", 0, a, weight=0.999), low("b", 1, b), high
        assert victims(CLASSES, *jobs, objective=objective) == {expected}


def test_worths_are_as_on_the_page() -> None:
    jobs = low("a", 0, 60.0), low("b", 1, None), queued("c", 4)
    before = state(cluster(8, 8), *jobs)
    problem = CandidateBuilder(LINEAR).view(before).problem
    (level,) = make_objective("throughput").levels(problem)
    lost_s = np.asarray([120.0, np.nan, np.nan])
    (found,) = with_losses(problem, (level,), lost_s)
    members = problem.options.members
    stay = float(level.worth[(members.job == 0) & ~members.starts][0])
    more = np.where(members.job == 0, stay * 30.0 / 60.0, 0.0)
    more += np.where((members.job == 0) & ~members.starts, stay * 120.0 / 60.0, 0.0)
    assert found.worth == pytest.approx(level.worth + more)
    assert found.value[members.option] == pytest.approx(found.worth)
    assert with_losses(problem, (level,), np.full(3, np.nan)) == (level,)


def test_only_running_jobs_have_a_checkpoint() -> None:
    with pytest.raises(InputError, match="must be left to running jobs"):
        replace(queued("a"), checkpointed_s=1.0)
    with pytest.raises(InputError, match="at least 0"):
        low("a", 0, -1.0)


@pytest.mark.parametrize("seed", range(2))
def test_a_replay_states_the_checkpoint_that_a_stop_goes_back_to(seed: int) -> None:
    """A stop loses the iterations since the stated instant, at the job's speed there."""
    seen: dict[float, dict[str, JobState]] = {}

    class Noting(Shuffler):
        def decide(self, state: RoundState) -> Decision:
            seen[state.time_s] = {known.job.name: known for known in state.jobs}
            return super().decide(state)

    drawn = random_trace(seed, 12)
    jobs = [
        replace(job, checkpoint_s=25.0 if at % 2 else None) for at, job in enumerate(drawn.jobs)
    ]
    config = ReplayConfig(restart_s=24.0, checkpoint_s=70.0, at_stop="checkpoint")
    found = replay(Trace("t", tuple(jobs)), toys(2, 4), Noting(seed), ToySpeeds(), config)
    ends = [part for record in found.history.jobs for part in record.segments]
    stops = 0
    for part in ends:
        if part.ended_by in ("policy", "change"):
            known = seen[part.end_s][part.job]
            assert known.checkpointed_s is not None
            lost_s = part.end_s - known.checkpointed_s
            assert lost_s < (known.job.checkpoint_s or 70.0)
            assert part.iterations_lost * part.iteration_s == pytest.approx(lost_s)
            stops += lost_s > 0.0
    assert stops > 5


def test_a_replay_from_a_state_goes_on_from_its_checkpoint() -> None:
    """Saved at 50 s, every 40 s: a stop at 120 s keeps the progress up to 90 s."""
    held = hold("a", {0: (0,)})
    known = JobState(
        toy_job("a", 0.0, 30, checkpoint_s=40.0), 5.0, held, restart_s=20.0, last_start_s=0.0
    )
    known = replace(known, checkpointed_s=50.0)
    before = RoundState(0, 60.0, 60.0, toys(1, 1), (known,))
    trace = Trace("t", (known.job, toy_job("b", 100.0)))
    config = ReplayConfig(restart_s=20.0, at_stop="checkpoint")
    script = Scripted({1: (hold("b", {0: (0,)}),)})
    found = replay(trace, toys(1, 1), script, ToySpeeds(), config, initial=before)
    (stop,) = [event for event in found.events if isinstance(event, Preempted)][:1]
    assert stop.iterations_lost * 8.0 == pytest.approx(30.0)
