"""Steps carried out while jobs take time to stop and start: nothing is taken twice, all is done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.checks.moves import random_questions, random_snapshot
from morph_opt.core.domain import Assignment, Placement, RoundState
from morph_opt.moves.answer import Moves
from morph_opt.moves.api import answer_to
from morph_opt.moves.following import DONE, DROPPED, WAITS, follow, steps_of
from morph_opt.moves.question import Question
from morph_opt.round.decide import snapshot_of
from morph_opt.scheduling.solvers.outcome import Limits
from tests.campaigns import blocks
from tests.moves.states import HELD, document


def _later(state: RoundState, held: dict[str, Assignment], away: dict[str, int]) -> RoundState:
    """Return the state in which these jobs hold GPUs and these are on their way."""
    jobs = tuple(
        replace(
            known,
            running=held.get(known.job.name),
            checkpointed_s=None,
            **({} if known.job.name in held else {"restart_left_s": 0.0}),
        )
        for known in state.jobs
        if known.job.name not in away
    )
    return replace(state, jobs=jobs)


def carried_out(answer: Moves, draw: np.random.Generator) -> int:
    """Carry out an answer with jobs that are slow to stop and to start; return the rounds."""
    steps, state = steps_of(answer), answer.snapshot.state
    held, away, rounds = state.held.by_job(), dict[str, int](), 0
    while True:
        now = _later(state, held, away)
        found = follow(steps, now, away=away, most=int(draw.integers(1, 5)))
        if found.over:
            assert [one.word for one in found.standings] == [DONE] * len(steps)
            return rounds
        granted = found.allocation.by_job()
        for job, one in list(held.items()):
            if granted.get(job) != one:
                del held[job]
                away[job] = int(draw.integers(1, 4))
        for job, one in granted.items():
            if job in held or job in away or draw.random() < 0.3:
                continue
            taken = {(n, g) for other in held.values() for n, o in other.placement.parts for g in o}
            assert not taken & {(n, g) for n, own in one.placement.parts for g in own}
            held[job] = one
        away = {job: left - 1 for job, left in away.items() if left > 1}
        rounds += 1
        assert rounds < 200


def test_steps_are_done_however_long_jobs_take() -> None:
    rounds = 0
    for seed in range(8000, 8000 + blocks(12)):
        draw = np.random.default_rng(seed)
        snapshot = random_snapshot(draw)
        for question in random_questions(draw, snapshot.state):
            if not question.slots:
                answer = answer_to(snapshot, question, Limits(0.0, 60.0))
                rounds += carried_out(answer, draw) if answer.steps else 0
    assert rounds


def test_no_job_is_stopped_once_one_runs_elsewhere() -> None:
    snapshot = snapshot_of(document(HELD, {"new": 4}))
    answer = answer_to(snapshot, Question(start="new"), Limits(0.0, 60.0))
    assert [step.kind for step in answer.steps] == ["move", "move", "start"]
    held = snapshot.state.held.by_job()
    first, second, _ = (step.job for step in answer.steps)
    held[first] = replace(held[first], placement=Placement.of({1: [7] * 1}))
    assert held[first] != answer.steps[0].after
    found = follow(steps_of(answer), _later(snapshot.state, held, {}))
    words = [one.word for one in found.standings]
    assert words == [DROPPED, DROPPED, WAITS]
    assert found.allocation.by_job()[second] == held[second]
