"""Baselines by hand: who runs, on how many GPUs, and who is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.arrays import Bools
from formulations.round.decode import Room, place_parts
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from tests.policies.worlds import (
    GC,
    LINEAR,
    cluster,
    counts,
    grants,
    queued,
    random_world,
    running,
    speeds,
    state,
    verify,
)

BASELINES = ("fifo", "fifo:skip", "srtf", "equal_split", "allox")


def decide(name: str, before: RoundState, belief: SpeedModel = LINEAR) -> dict[str, int]:
    """GPUs by job."""
    return counts(make_policy(name, belief, PolicyOptions()).decide(before).allocation)


# ---------------------------------------------------------------- fifo


def queue() -> tuple[JobState, ...]:
    return queued("a", 2), queued("b", 8), queued("c", 4), queued("d", 1)


def test_fifo_stops_at_a_blocked_head() -> None:
    assert decide("fifo", state(cluster(8), *queue())) == {"a": 2}


def test_fifo_skip_lets_others_pass() -> None:
    assert decide("fifo:skip", state(cluster(8), *queue())) == {"a": 2, "c": 4, "d": 1}


def test_nodes_are_searched_only_if_all_free_gpus_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought: list[int] = []

    def counted(
        problem: RoundProblem, candidate: int, room: Room, among: Bools | None
    ) -> tuple[int, ...] | None:
        sought.append(int(problem.candidates.gpus[candidate]))
        return place_parts(problem, candidate, room, among)

    monkeypatch.setattr("morph_opt.scheduling.policies.filling.place_parts", counted)
    decide("fifo:skip", state(cluster(8), *queue()))
    assert set(sought) == {2, 4, 1}  # the 8 of "b" are more than the 6 that "a" leaves


@pytest.mark.parametrize("name", ["fifo", "fifo:skip"])
def test_fifo_never_preempts(name: str) -> None:
    before = state(cluster(8), queued("first", 8), running("later", {0: [7]}, submission_s=9.0))
    assert decide(name, before) == {"later": 1}


def test_fifo_leaves_a_running_job_on_its_gpus_even_on_a_closed_node() -> None:
    before = state(cluster(8, 8), running("a", {0: [3, 5]}), queued("b", 8), closed=[0])
    found = make_policy("fifo", LINEAR, PolicyOptions()).decide(before).allocation
    assert grants(found) == {"a": {0: (3, 5)}, "b": {1: tuple(range(8))}}


def test_fifo_grants_the_requested_gpus_and_no_more() -> None:
    assert decide("fifo", state(cluster(8), queued("a", 2))) == {"a": 2}


def test_the_requested_plan_is_what_runs_even_if_another_is_faster() -> None:
    belief = speeds({"m": {"2": 4.0, "2 dp+gc": 3.0}})
    found = make_policy("fifo", belief, PolicyOptions()).decide(state(cluster(8), queued("a", 2)))
    assert [str(a.plan) for a in found.allocation.assignments] == ["dp"]


def test_unavailable_plan_falls_back_to_same_gpus_then_fastest() -> None:
    belief = speeds({"m": {"2 dp+gc": 4.0, "4 dp+gc": 2.0}})
    policy = make_policy("fifo", belief, PolicyOptions())
    found = policy.decide(state(cluster(8), queued("a", 2), queued("b", 1))).allocation
    assert counts(found) == {"a": 2, "b": 4}
    assert {a.plan for a in found.assignments} == {GC}


def test_the_fastest_shape_of_the_request_that_fits_is_taken() -> None:
    belief = speeds({"m": {"4": 2.0, "2+2": 3.0, "8": 1.0}})
    policy = make_policy("fifo", belief, PolicyOptions())
    tight = policy.decide(state(cluster(4, 4), queued("a", 4))).allocation
    assert [len(a.placement.nodes) for a in tight.assignments] == [1]
    split = state(
        cluster(4, 4), running("x", {0: [0, 1]}), running("y", {1: [0, 1]}), queued("a", 4)
    )
    assert grants(policy.decide(split).allocation)["a"] == {0: (2, 3), 1: (2, 3)}


# ---------------------------------------------------------------- srtf


def test_srtf_takes_the_least_remaining_gpu_time_and_preempts() -> None:
    """Remaining GPU-seconds, start-up included.

    old: 8 GPUs x 100 iterations x 1 s = 800; short: 2 x (30 + 100 x 4) = 860;
    done: the same job as old with 90 of 100 iterations behind it, 8 x 10 = 80.
    """
    old, short = running("old", {0: list(range(8))}), queued("short", 2)
    assert decide("srtf", state(cluster(8), old, short)) == {"old": 8}
    shorter = queued("short", 2, iterations=80)  # 2 x (30 + 320) = 700
    assert decide("srtf", state(cluster(8), old, shorter)) == {"short": 2}
    done = running("old", {0: list(range(8))}, done=90.0)
    assert decide("srtf", state(cluster(8), done, shorter)) == {"old": 8}


def test_srtf_keeps_jobs_on_their_gpus_if_possible() -> None:
    before = state(cluster(8), running("a", {0: [5, 6]}, iterations=10), queued("b", 4))
    found = make_policy("srtf", LINEAR, PolicyOptions()).decide(before).allocation
    assert grants(found) == {"a": {0: (5, 6)}, "b": {0: (0, 1, 2, 3)}}


def test_srtf_skips_a_blocked_job() -> None:
    jobs = [queued("a", 8, iterations=10), queued("b", 4, iterations=30), queued("c", 8)]
    # a: 8 x (30 + 10) = 320; b: 4 x (30 + 60) = 360; c: 8 x (30 + 100) = 1040
    assert decide("srtf", state(cluster(8, 8), *jobs)) == {"a": 8, "b": 4}


def test_srtf_moves_a_job_whose_node_was_given_away() -> None:
    """The short whole-node job takes the fuller node; the long one restarts on the other."""
    before = state(
        cluster(8, 8),
        running("long", {0: [0, 1, 2, 3]}, iterations=10_000),
        queued("short", 8, iterations=1),
        closed=[],
    )
    found = make_policy("srtf", LINEAR, PolicyOptions()).decide(before).allocation
    assert counts(found) == {"short": 8, "long": 4}


# ---------------------------------------------------------------- equal split


def test_equal_split_gives_all_the_same() -> None:
    jobs = [queued("a", 1), queued("b", 8), queued("c", 2), queued("d", 4)]
    assert decide("equal_split", state(cluster(8), *jobs)) == dict.fromkeys("abcd", 2)


def test_equal_split_rounds_down_to_a_configuration() -> None:
    """Share 8 // 3 = 2; nobody gets the rest."""
    jobs = [queued("a"), queued("b"), queued("c")]
    assert decide("equal_split", state(cluster(8), *jobs)) == dict.fromkeys("abc", 2)


def test_equal_split_shrinks_who_has_more_than_a_share_and_leaves_the_others() -> None:
    """Three jobs on eight GPUs: share 2. Holding 2 or 1 is within [1, 2], holding 4 is not."""
    before = state(
        cluster(8),
        running("two", {0: [6, 7]}),
        running("four", {0: [0, 1, 2, 3]}),
        running("one", {0: [4]}),
    )
    found = make_policy("equal_split", LINEAR, PolicyOptions()).decide(before).allocation
    assert grants(found)["two"] == {0: (6, 7)}
    assert grants(found)["one"] == {0: (4,)}
    assert counts(found) == {"two": 2, "four": 2, "one": 1}


def test_equal_split_counts_open_nodes_only() -> None:
    jobs = [queued("a"), queued("b")]
    assert decide("equal_split", state(cluster(8, 8), *jobs, closed=[1])) == {"a": 4, "b": 4}


def test_equal_split_gives_a_job_its_least_where_that_is_more_than_the_share() -> None:
    """Share 2; ``big`` cannot run on fewer than four, so whoever comes last has to wait."""
    belief = speeds({"m": {"1": 8.0, "2": 4.0}, "w": {"4": 1.0}})
    jobs = [queued("a"), queued("b"), queued("big", model="w"), queued("c")]
    assert decide("equal_split", state(cluster(8), *jobs), belief) == {"a": 2, "b": 2, "big": 4}


def test_equal_split_keeps_a_job_that_runs_on_its_least() -> None:
    belief = speeds({"m": {"1": 8.0, "2": 4.0}, "w": {"4": 1.0}})
    jobs = [queued("a"), queued("b"), running("big", {0: [1, 3, 5, 7]}, model="w")]
    found = make_policy("equal_split", belief, PolicyOptions()).decide(state(cluster(8), *jobs))
    assert grants(found.allocation)["big"] == {0: (1, 3, 5, 7)}


def test_equal_split_has_a_share_of_at_least_one() -> None:
    jobs = [queued(f"j{i}") for i in range(6)]
    assert decide("equal_split", state(cluster(4), *jobs)) == {f"j{i}": 1 for i in range(4)}


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_are_sound_on_random_states(name: str) -> None:
    for i in range(80):
        belief, before = random_world(np.random.default_rng((4, i)))
        policy = make_policy(name, belief, PolicyOptions())
        assert policy.name == name
        decision = policy.decide(before)
        verify(before, decision.allocation)
        assert decision.report.status == "heuristic"
        again = make_policy(name, belief, PolicyOptions()).decide(before)
        assert again.allocation == decision.allocation


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_idle_without_jobs(name: str) -> None:
    report = make_policy(name, LINEAR, PolicyOptions()).decide(state(cluster(8))).report
    assert report.status == "idle"
