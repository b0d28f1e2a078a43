"""``--artifact-quirks`` in the round engine: the published simulator's instants, to the second."""

from __future__ import annotations

import numpy as np
import pytest

from morph_opt.domain import Cluster, RoundState
from morph_opt.engine.config import ReplayConfig
from morph_opt.perf.tables.durations import RigidSeconds
from morph_opt.policies.base import Decision
from morph_opt.policies.tiresias.artifact import ArtifactQueues
from morph_opt.policies.tiresias.artifact_events import (
    Discipline,
    Quirks,
    RigidJob,
    RigidRule,
    simulate,
)
from morph_opt.policies.tiresias.queues import GittinsIndex
from morph_opt.replay.api import ReplayResult, replay
from morph_opt.traces.tiresias import TiresiasRow, rigid_node, trace_of

LIMITS = (60.0, 200.0)
GPUS = 4
INDEX = GittinsIndex.of([30.0, 80.0, 81.0, 150.0, 400.0, 900.0], 100.0)


def jobs(seed: int) -> list[TiresiasRow]:
    """Twelve gangs of 1, 2 or 4 that come within a minute or two."""
    rng = np.random.default_rng(seed)
    arrivals = 1 + np.cumsum(rng.integers(0, 15, 12))
    return [
        TiresiasRow(f"{n:02d}", "m", int(rng.choice([1, 2, 4])), int(at), int(rng.integers(5, 160)))
        for n, at in enumerate(arrivals)
    ]


def run(rows: list[TiresiasRow], policy: object) -> ReplayResult:
    speeds = RigidSeconds([(row.model, row.gpus) for row in rows])
    config = ReplayConfig(interval_s=1.0, restart_s=0.0)
    where = Cluster.uniform(1, rigid_node(GPUS))
    return replay(trace_of(rows, name="t"), where, policy, speeds, config)  # type: ignore[arg-type]


def make(
    rows: list[TiresiasRow], gittins: bool, starvation_knob: float, quirks: Quirks
) -> ArtifactQueues:
    return ArtifactQueues(
        RigidSeconds([(row.model, row.gpus) for row in rows]),
        limits_gpu_s=LIMITS,
        starvation_knob=starvation_knob,
        index=INDEX if gittins else None,
        quirks=quirks,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gittins", [False, True])
@pytest.mark.parametrize("starvation_knob", [0.0, 1.5])
@pytest.mark.parametrize("quirky", [False, True])
def test_rounds_of_one_second_give_the_simulators_instants(
    seed: int, gittins: bool, starvation_knob: float, quirky: bool
) -> None:
    rows, quirks = jobs(seed), Quirks(quirky, quirky)
    discipline = Discipline.GITTINS if gittins else Discipline.LAS_GPU
    rule = RigidRule(discipline, LIMITS, starvation_knob, INDEX if gittins else None, quirks)
    wanted = simulate(
        [RigidJob(r.name, r.gpus, r.submit_s, r.duration_s) for r in rows], GPUS, rule
    )
    found = run(rows, make(rows, gittins, starvation_knob, quirks)).history.jobs
    assert [(r.starting_s, r.finish_s, r.preemptions) for r in found] == [
        (w.start_s, w.end_s, w.preemptions) for w in wanted
    ]


def test_the_quirks_matter_and_so_does_the_starvation_knob() -> None:
    def ends(starvation_knob: float, quirks: Quirks) -> list[object]:
        return [
            [
                r.finish_s
                for r in run(jobs(s), make(jobs(s), False, starvation_knob, quirks)).history.jobs
            ]
            for s in range(4)
        ]

    plain = ends(0.0, Quirks())
    assert ends(0.0, Quirks(late_demotion=True)) != plain
    assert ends(1.5, Quirks()) != plain


class _Resumed:
    """Shows every round to a second policy, which decides only from a later round on."""

    name = "resumed"

    def __init__(self, first: ArtifactQueues, second: ArtifactQueues, from_s: float) -> None:
        self._first, self._second, self._from_s = first, second, from_s
        self.compared = 0

    def decide(self, state: RoundState) -> Decision:
        decision = self._first.decide(state)
        if state.time_s < self._from_s:
            self._second.observe(state)
        else:
            self.compared += 1
            assert self._second.decide(state).allocation == decision.allocation
        return decision


def test_a_resumed_replay_decides_as_the_uninterrupted_one() -> None:
    for seed in range(4):
        rows, quirks = jobs(seed), Quirks(True, True)
        both = [make(rows, False, 1.5, quirks) for _ in range(2)]
        watcher = _Resumed(both[0], both[1], 150.0)
        run(rows, watcher)
        assert watcher.compared > 100
