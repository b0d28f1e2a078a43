"""From a selection to GPUs by number: stays keep theirs, nobody gets one that is taken."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.round.decode import pack
from formulations.round.tables import NONE, Selection
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.placement import to_allocation
from tests.formulations.worlds import oracle
from tests.formulations.worlds.rounds import STAY, decided
from tests.policies.worlds import (
    GC,
    LINEAR,
    cluster,
    grants,
    queued,
    random_world,
    running,
    speeds,
    state,
    verify,
)


def placed(
    before: RoundState, view: RoundView, picks: list[tuple[int | str, tuple[int, ...]]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """Allocation of picks: GPUs of a candidate by count, or ``STAY``/``NONE``."""
    choice = []
    for job, (pick, _) in enumerate(picks):
        if isinstance(pick, int):
            choice.append(pick)
            continue
        span = range(int(view.offset[job]), int(view.offset[job + 1]))
        wanted = [k for k in span if str(view.configuration(job, k).shape) == pick]
        choice.append(wanted[0])
    selection = decided(view.problem, Selection(np.asarray(choice), tuple(n for _, n in picks)))
    return grants(to_allocation(before, view, selection))


def test_new_parts_take_the_lowest_free_gpus_around_a_stay() -> None:
    before = state(cluster(8), running("0", {0: [0, 3]}), queued("a", 2), queued("b", 4))
    view = CandidateBuilder(LINEAR).view(before)
    found = placed(before, view, [(STAY, ()), ("2", (0,)), ("4", (0,))])
    assert found == {"0": {0: (0, 3)}, "a": {0: (1, 2)}, "b": {0: (4, 5, 6, 7)}}


def test_gpus_of_a_job_that_leaves_are_free_at_once() -> None:
    before = state(cluster(8), running("0", {0: [0, 1, 2, 3]}), queued("a", 4))
    view = CandidateBuilder(LINEAR).view(before)
    assert placed(before, view, [(NONE, ()), ("8", (0,))]) == {"a": {0: tuple(range(8))}}


def test_a_start_where_the_job_runs_already_is_a_stay() -> None:
    before = state(cluster(8, 8), queued("a", 4), running("old", {1: [2, 3, 6, 7]}))
    view = CandidateBuilder(LINEAR).view(before)
    found = placed(before, view, [("4", (1,)), ("4", (1,))])
    assert found == {"a": {1: (0, 1, 4, 5)}, "old": {1: (2, 3, 6, 7)}}


@pytest.mark.parametrize("pick", [("4", (0,)), ("2", (1,))])
def test_another_node_or_size_is_a_move(pick: tuple[str, tuple[int, ...]]) -> None:
    before = state(cluster(8, 8), running("old", {1: [2, 3, 6, 7]}))
    view = CandidateBuilder(LINEAR).view(before)
    node = pick[1][0]
    assert placed(before, view, [pick]) == {"old": {node: tuple(range(int(pick[0])))}}


def test_another_plan_on_the_same_gpus_is_a_move() -> None:
    before = state(cluster(8), running("old", {0: [4, 5, 6, 7]}, plan=GC))
    view = CandidateBuilder(LINEAR).view(before)
    assert placed(before, view, [("4", (0,))]) == {"old": {0: (0, 1, 2, 3)}}


def test_parts_go_to_their_own_nodes() -> None:
    belief = speeds({"m": {"4+2": 1.0, "2": 4.0}})
    before = state(cluster(4, 4), queued("a", 6), queued("b", 2))
    view = CandidateBuilder(belief).view(before)
    found = placed(before, view, [("4+2", (1, 0)), ("2", (0,))])
    assert found == {"a": {0: (0, 1), 1: (0, 1, 2, 3)}, "b": {0: (2, 3)}}


@pytest.mark.parametrize("block", range(3))
def test_random_selections_become_sound_allocations(block: int) -> None:
    placed_all, stayed = 0, 0
    for i in range(150):
        draw = np.random.default_rng((3, block, i))
        belief, before = random_world(draw)
        view = CandidateBuilder(belief, prune=False).view(before)
        choice = np.asarray(
            [draw.choice(oracle.options(view.problem, j)) for j in range(len(before.jobs))]
        )
        selection = pack(view.problem, choice)
        if selection is None:
            continue
        allocation = to_allocation(before, view, selection)
        verify(before, allocation)
        by_job = allocation.by_job()
        for index, (job, picked) in enumerate(zip(before.jobs, choice.tolist(), strict=True)):
            held = by_job.get(job.job.name)
            if picked == NONE:
                assert held is None
            elif picked == view.problem.options.stay[index]:
                assert held == job.running
                stayed += 1
            else:
                assert held is not None
                row = view.configuration(index, picked)
                assert (held.plan, held.placement.shape) == (row.plan, row.shape)
                assert sorted(held.placement.nodes) == sorted(selection.nodes[index])
        placed_all += 1
    assert placed_all > 30
    assert stayed > 10
