"""What was tried is believed as it is, what was not as the prior says; trials in the engine.

By hand: model m needs 2 s per iteration, n 1 s, one GPU, rounds of 60 s, start-up 20 s, and either
of a pair is believed to keep 0.8 of its speed, a gain of 1.6.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    InputError,
    NodeType,
    RoundState,
    Shape,
    Span,
    Trace,
)
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.tried import TriedModel
from morph_opt.replay import cli
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.online import OnlinePolicy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Preempted, Shared, Started
from morph_opt.simulation.runs.result import ReplayResult
from tests.engine.packing_toys import PairedToys
from tests.engine.toys import DP, GC, ToySpeeds, cluster, hold, job, node_type
from tests.replay.test_run_folder import assert_same, interrupted

SPEEDS = {"m": 2.0, "n": 1.0}
CONFIG = ReplayConfig(interval_s=60.0, restart_s=20.0)
TRACE = Trace.of("two", [job("a", 0.0, 300), job("b", 0.0, 300, model="n")])


def paired(slower: float) -> PairedToys:
    """Either of m and n needs this many times its time alone next to the other."""
    return PairedToys(SPEEDS, counts=(1,), slower={("m", "n"): slower, ("n", "m"): slower})


def make(belief: SpeedModel) -> Policy:
    pairs = getattr(belief, "measures_pairs", False)
    return make_policy("milp", belief, PolicyOptions(objective="throughput", packing=pairs))


class Watched(OnlinePolicy):
    """Keeps what was decided from what."""

    def __init__(
        self, belief: TriedModel, truth: SpeedModel, first: Sequence[Assignment] = ()
    ) -> None:
        super().__init__(belief, truth, make, "--belief")
        self.seen: list[tuple[RoundState, Decision]] = []
        self._first = tuple(first)

    def decide(self, state: RoundState) -> Decision:
        decision = super().decide(state)
        if self._first and not self.seen:
            decision = Decision(Allocation(self._first))
        self.seen.append((state, decision))
        return decision


def tried(
    truth: SpeedModel, where: Cluster, trace: Trace = TRACE
) -> tuple[ReplayResult, Watched, TriedModel]:
    belief = TriedModel(truth, 0.8)
    policy = Watched(belief, truth)
    return replay(trace, where, policy, truth, CONFIG), policy, belief


def partners(decision: Decision) -> list[str | None]:
    return [held.partner for held in decision.allocation.assignments]


# --- by hand ------------------------------------------------------------------------------------


def test_a_bad_pair_is_tried_once_paid_for_and_undone_at_the_next_boundary() -> None:
    """Both 2.5 times as slow: they keep 0.4 each, 0.8 together, less than one alone.

    Start-up from 60 to 80, the pair until 120: 40 s make 40 / 5 = 8 iterations of a, 40 / 2.5 = 16
    of b. At 120 the pair is known, and one of them goes on alone; they never meet again.
    """
    found, policy, belief = tried(paired(2.5), cluster(1, 1))
    together = [e for e in found.events if isinstance(e, Shared) and e.partner is not None]
    assert [(e.time_s, e.job, e.iteration_s) for e in together] == [
        (60.0, "a", 5.0),
        (60.0, "b", 2.5),
    ]
    (parted,) = [e for e in found.events if isinstance(e, Shared) and e.partner is None]
    stop = next(e for e in found.events if isinstance(e, Preempted))
    assert (parted.time_s, stop.time_s) == (120.0, 120.0)
    assert {(parted.job, parted.iterations_done), (stop.job, stop.iterations_done)} == {
        ("a", 8.0),
        ("b", 16.0),
    }
    assert partners(policy.seen[0][1]) == ["b", "a"]
    assert all(partners(d) == [None] for _, d in policy.seen[1:] if d.allocation.assignments)
    assert belief.version == 1
    assert found.summary["rounds_over_capacity"] == 0


def test_a_good_pair_is_kept_at_what_it_was_measured_to_do() -> None:
    """Both a quarter slower, as believed: nothing is news, and they share until b is complete.

    b: start-up until 80, then 300 iterations of 1.25 s: 455.
    """
    found, _, belief = tried(paired(1.25), cluster(1, 1))
    alone = [e for e in found.events if isinstance(e, Shared) and e.partner is None]
    assert [(e.time_s, e.job) for e in alone] == [(455.0, "a")]
    assert not [e for e in found.events if isinstance(e, Preempted)]
    assert belief.version == 0
    # A pair that keeps less than hoped, and still gains, stays as well: 1 / 1.6 + 1 / 1.6 = 1.25.
    found, policy, belief = tried(paired(1.6), cluster(1, 1))
    assert not [e for e in found.events if isinstance(e, Preempted)]
    assert belief.version == 1
    assert partners(policy.seen[3][1]) == ["b", "a"]


def test_a_pair_in_its_start_up_shows_nothing() -> None:
    """Start-ups of 100 s: until 160, so the boundary at 120 knows nothing, and that at 180 does."""
    truth = paired(2.5)
    policy = Watched(TriedModel(truth, 0.8), truth)
    found = replay(TRACE, cluster(1, 1), policy, truth, replace(CONFIG, restart_s=100.0))
    stop = next(e for e in found.events if isinstance(e, Preempted))
    assert stop.time_s == 180.0


def test_a_place_is_as_good_as_the_most_compact_one_until_a_job_ran_there() -> None:
    """Two GPUs on two nodes are ten times as slow: 10 s instead of 1 s per iteration of m."""
    belief = TriedModel(ToySpeeds({"m": 2.0}, counts=(1, 2), across=10.0))
    kind = node_type(2)
    spread, compact = Shape.parse("1+1"), Shape.parse("2")
    ask = belief.iteration_s
    assert ask("m", kind, compact, DP, Span.NODE) == 1.0
    assert [ask("m", kind, spread, DP, span) for span in (Span.LEAF, Span.POD)] == [1.0, 1.0]
    assert belief.observe("m", kind, spread, DP, Span.LEAF, 10.0)
    # A wider span is no faster than what a tighter one was measured to be.
    assert [ask("m", kind, spread, DP, span) for span in (Span.LEAF, Span.POD)] == [10.0, 10.0]
    assert ask("m", kind, spread, GC, Span.LEAF) == 1.25  # the other plan was not tried
    assert ask("m", kind, compact, DP, Span.NODE) == 1.0
    assert not belief.observe("m", kind, spread, DP, Span.LEAF, 7.0)  # the first one counts
    # Nor is a tighter one slower than what a wider one was measured to be.
    belief = TriedModel(ToySpeeds({"m": 2.0}, counts=(1, 2), across=10.0))
    assert belief.observe("m", kind, spread, DP, Span.POD, 0.5)
    assert belief.iteration_s("m", kind, spread, DP, Span.LEAF) == 0.5


def test_a_bad_place_is_left_as_soon_as_it_is_known() -> None:
    """a is put on both nodes at 60, its start-up of 100 s is over at 160.

    At 120 nothing is known, so it stays; at 180 it has shown 10 s per iteration, and goes to the
    node that is otherwise free, where 1 s is known.
    """
    truth = ToySpeeds({"m": 2.0}, counts=(1, 2), across=10.0)
    trace = Trace.of("one", [job("a", 0.0, 3000, gpus=2)])
    policy = Watched(TriedModel(truth), truth, first=[hold("a", {0: [0], 1: [0]})])
    found = replay(trace, cluster(2, 2), policy, truth, replace(CONFIG, restart_s=100.0))
    started = [(e.time_s, e.iteration_s) for e in found.events if isinstance(e, Started)]
    assert started == [(60.0, 10.0), (180.0, 1.0)]


# --- properties ---------------------------------------------------------------------------------


def drawn(seed: int) -> Callable[[object], float]:
    return lambda key: random.Random(f"{seed}/{key}").uniform(1.0, 3.0)


@dataclass(frozen=True)
class Elsewhere(PairedToys):
    """Pairs and spread places are slower by a factor of their own each."""

    factor: Callable[[object], float] = field(default_factory=lambda: drawn(0))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        seconds = super().iteration_s(model, node_type, shape, plan, span)
        if seconds is None or shape.nodes == 1:
            return seconds
        return seconds * self.factor((model, shape, plan))

    def paired_iteration_s(
        self,
        models: tuple[str, str],
        plans: tuple[ExecutionPlan, ExecutionPlan],
        node_type: NodeType,
        shape: Shape,
    ) -> tuple[float, float] | None:
        pace_s = super().paired_iteration_s(models, plans, node_type, shape)
        if pace_s is None:
            return None
        factor = self.factor((tuple(sorted(zip(models, map(str, plans), strict=True))), shape))
        return pace_s[0] * factor, pace_s[1] * factor


def elsewhere(factor: Callable[[object], float]) -> Elsewhere:
    return Elsewhere({"m": 40.0, "n": 20.0}, counts=(1, 2), factor=factor)


def ways(found: ReplayResult, trace: Trace) -> frozenset[object]:
    """What was run, from the log: spread configurations, and pairs on their GPUs."""
    model = {j.name: j.model for j in trace.jobs}
    last: dict[str, Started] = {}
    keys: set[object] = set()
    for event in found.events:
        if isinstance(event, Started):
            last[event.job] = event
            keys.add((model[event.job], event.placement.shape, event.plan))
        elif isinstance(event, Shared) and event.partner is not None:
            one, two = last[event.job], last[event.partner]
            both = sorted([(model[one.job], str(one.plan)), (model[two.job], str(two.plan))])
            keys.add((tuple(both), one.placement.shape))
    return frozenset(keys)


@pytest.mark.parametrize("seed", range(3))
def test_a_truth_that_differs_only_where_nothing_ran_gives_the_same_log(seed: int) -> None:
    """So no decision went by what had not been measured."""
    draw = random.Random(seed)
    trace = Trace.of(
        "random",
        [
            job(
                f"j{i}",
                20.0 * draw.randint(0, 20),
                draw.randint(5, 60),
                draw.choice((1, 2)),
                model=draw.choice("mn"),
            )
            for i in range(10)
        ],
    )
    first = drawn(seed)
    found, _, belief = tried(elsewhere(first), cluster(2, 2), trace)
    run = ways(found, trace)
    assert belief.version > 0
    for other in (drawn(100 + seed), drawn(200 + seed)):
        mixed = elsewhere(lambda key, other=other: first(key) if key in run else other(key))  # type: ignore[misc]
        again, _, _ = tried(mixed, cluster(2, 2), trace)
        assert again.events == found.events


@pytest.mark.parametrize("seed", range(4))
def test_the_belief_is_the_truth_for_all_that_was_measured_in_any_order(seed: int) -> None:
    truth = elsewhere(drawn(seed))
    kind = node_type(2)
    alone = [
        (model, kind, Shape.parse(shape), plan, span)
        for model in "mn"
        for shape in ("1", "2", "1+1")
        for plan in (DP, GC)
        for span in ((Span.LEAF, Span.POD) if "+" in shape else (Span.NODE,))
    ]
    pairs = [
        (models, plans, kind, Shape.parse(shape))
        for models in (("m", "m"), ("m", "n"), ("n", "m"))
        for plans in ((DP, DP), (DP, GC), (GC, GC))
        for shape in ("1", "2")
    ]
    alone, pairs = alone[: len(alone) - seed], pairs[seed:]
    answers = []
    for turn in range(2):
        belief = TriedModel(truth)
        before = belief.configurations("m", kind, 2, Span.LEAF)
        draw = random.Random(f"{seed}/{turn}")
        draw.shuffle(alone)
        draw.shuffle(pairs)
        for one in alone:
            seconds = truth.iteration_s(*one)
            assert seconds is not None
            belief.observe(*one, seconds)
        for two in pairs:
            pace_s = truth.paired_iteration_s(*two)
            assert pace_s is not None
            belief.observe_pair(*two, pace_s)
        for one in alone:
            assert belief.iteration_s(*one) == truth.iteration_s(*one)
        for models, plans, _, shape in pairs:
            for a, b in ((models, plans), (models[::-1], plans[::-1])):
                known = belief.paired_iteration_s(a, b, kind, shape)
                assert known == truth.paired_iteration_s(a, b, kind, shape)
        answers.append([belief.iteration_s(*one) for one in sorted(alone, key=str)])
        assert belief.fresh().configurations("m", kind, 2, Span.LEAF) == before
    assert answers[0] == answers[1]


# --- in a replay --------------------------------------------------------------------------------

GAVEL = [
    "--trace", "gavel-96", "--packing", "--objective", "jct", "--interval", "360", "--until-s",
    "9000", "--belief", "measured:0.7",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tried") / "run"
    assert cli.main([*GAVEL, "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("share", [0.6])
def test_a_resumed_run_knows_what_was_tried(whole: Path, tmp_path: Path, share: float) -> None:
    folder = tmp_path / "run"
    size = (whole / "events.jsonl").stat().st_size
    interrupted(
        whole, folder, int(size * share), len((whole / "rounds.csv").read_text().splitlines()) - 1
    )
    assert cli.main(["--resume", str(folder), "--quiet"]) == 0
    assert_same(folder, whole)
    assert 'belief = "measured:0.7"' in (whole / "config.toml").read_text()


def test_a_fraction_that_never_gains_is_refused() -> None:
    for kept in (0.5, 1.5):
        with pytest.raises(InputError, match="belief: must be"):
            TriedModel(paired(1.25), kept)
