"""Due jobs: their rows against enumeration, what ends them, and what is said of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, RoundProblem
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES, Jct
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits
from tests.campaigns import blocks
from tests.decision.rules.organisations import Goals, World
from tests.decision.rules.worlds import placements, ruled_world
from tests.formulations.worlds import oracle
from tests.policies.worlds import EXACT, LINEAR, cluster, counts, queued, running, speeds, state

AN_HOUR = StartBy(3600.0)
LONG, SHORT = {"iterations": 100_000}, {"iterations": 1}
GANGS = speeds({"m": {"1": 8.0, "2": 4.0, "4": 2.0, "4+4": 1.0}})
_highs = HighsSolver()


def waited(name: str, gpus: int, seconds: float, **other: object) -> JobState:
    """A job that has waited since its submission."""
    return replace(queued(name, gpus, **other), queued_s=seconds)


def gang(name: str, gpus: int) -> Rule:
    """A job keeps to its request."""
    return GangLimit((name,), gpus, gpus)


def since(known: JobState, seconds: float, ran_s: float) -> JobState:
    """The running job, which waited that long and then ran."""
    return replace(known, queued_s=seconds, executed_s=ran_s)


def posed(before: RoundState, *rules: Rule, belief: SpeedModel = LINEAR) -> PosedRound:
    """The round with the hour as the only promise."""
    return RoundPoser(belief, Jct(), OperatorRules((AN_HOUR, *rules))).pose(before)


def decided(before: RoundState, *rules: Rule, belief: SpeedModel = LINEAR) -> Decision:
    """Its decision."""
    poser = RoundPoser(belief, Jct(), OperatorRules((AN_HOUR, *rules)))
    return MilpPolicy(poser, Ladder(_highs), Limits(gap=0.0, time_s=600.0)).decide(before)


def rows(round_: PosedRound) -> list[tuple[str, str]]:
    """Names of the rows and of their jobs."""
    jobs = round_.state.jobs
    return [("held" if r.held else "due", jobs[r.job].job.name) for r in round_.due.rows]


def test_a_job_that_has_waited_starts_though_others_are_worth_more() -> None:
    others = [running(f"s{i}", {0: [i]}, **SHORT) for i in range(4)]
    for seconds, starts in ((3599.0, False), (3600.0, True)):
        before = state(cluster(4), waited("w", 4, seconds, **LONG), *others)
        assert ("w" in counts(decided(before).allocation)) is starts


def test_the_believed_run_time_counts_up_to_a_limit() -> None:
    rule = StartBy(100.0, 2.0, longest_run_s=300.0)
    # 100 iterations at 8 s on one GPU, at 4 s on two: 800 s count as 300, 400 s as well.
    found = {}
    for iterations in (10, 100):
        before = state(cluster(4), waited("w", 1, 0.0, iterations=iterations))
        found[iterations] = RoundPoser(LINEAR, Jct(), OperatorRules((rule,))).pose(before).due
    assert found[10].next_s == 180.0 + 100.0 + 2.0 * 80.0
    assert found[100].next_s == 180.0 + 100.0 + 2.0 * 300.0


def test_of_several_rules_the_earliest_instant_counts() -> None:
    before = state(cluster(8), waited("a", 1, 0.0), waited("b", 4, 0.0), waited("c", 4, 0.0))
    rules = StartBy(500.0), StartBy(300.0, least_gpus=4), StartBy(100.0, jobs=("c",))
    assert RoundPoser(LINEAR, Jct(), OperatorRules(rules)).pose(before).due.next_s == 280.0
    assert RoundPoser(LINEAR, Jct(), OperatorRules(rules[:2])).pose(before).due.next_s == 480.0


def test_a_job_that_was_due_when_it_started_is_held() -> None:
    held = since(running("h", {0: [0, 1, 2, 3]}, **LONG), 3600.0, 600.0)
    free = since(running("f", {1: [0, 1, 2, 3]}, **LONG), 3599.0, 600.0)
    fresh = [queued(f"s{i}", 4, **SHORT) for i in range(2)]
    before = state(cluster(4, 4), held, free, *fresh)
    assert rows(posed(before)) == [("held", "h")]
    granted = decided(before).allocation.by_job()
    assert granted["h"] == held.running
    assert "f" not in granted


def test_a_held_job_may_change_to_what_is_as_fast_but_not_to_less() -> None:
    held = since(running("h", {0: [0, 1]}, **LONG), 3600.0, 600.0)
    before = state(cluster(4), held, *(queued(f"s{i}", 1, **SHORT) for i in range(4)))
    assert counts(decided(before).allocation)["h"] >= 2


def test_a_held_job_of_a_higher_class_may_grow_before_lower_classes_start() -> None:
    """Its row leaves it starts elsewhere, so that its class still has a value to maximise."""
    held = since(running("h", {0: [0, 1]}, priority=1.0, **LONG), 3600.0, 600.0)
    before = state(cluster(4), held, *(queued(f"s{i}", 1, **SHORT) for i in range(2)))
    assert counts(decided(before).allocation) == {"h": 2, "s0": 1, "s1": 1}
    assert counts(decided(before, PriorityClass("top", (1, 1))).allocation) == {"h": 4}


def test_nobody_passes_a_due_job_that_does_not_fit() -> None:
    """It is due before the small one and needs what a job holds that was due before it."""
    held = since(running("h", {0: [0, 1, 2, 3]}, **LONG), 9000.0, 600.0)
    before = state(
        cluster(4, 4),
        held,
        waited("gang", 8, 5000.0, **LONG),
        waited("small", 1, 4000.0),
        *(running(f"s{i}", {1: [i]}, **SHORT) for i in range(4)),
    )
    found = posed(before, gang("gang", 8), belief=GANGS)
    assert rows(found) == [("held", "h")]
    assert [late.job for late in found.due.late] == ["gang", "small"]
    assert "fit next to" in found.due.late[0].why
    assert "before it" in found.due.late[1].why


def test_a_job_that_rules_keep_from_running_holds_up_nobody() -> None:
    barred = waited("barred", 2, 9000.0, tenant="poor")
    before = state(
        cluster(4),
        barred,
        waited("next", 1, 4000.0, **LONG),
        *(running(f"s{i}", {0: [i]}, **SHORT) for i in range(4)),
    )
    for rule in (NodeRule(("barred",), not_nodes=("n0",)), TenantQuota("poor", 0)):
        decision = decided(before, rule)
        assert "next" in counts(decision.allocation)
        assert [late.job for late in decision.report.late] == ["barred"]
        assert "rule" in decision.report.late[0].why
        assert decision.report.late[0].since_s == 180.0 - 9000.0 + 3600.0


def test_gpus_are_counted_by_class_and_next_to_what_must_stay() -> None:
    stays = NonPreemptible(("n*",))
    before = state(
        cluster(4, 8),
        running("never", {1: [0]}, **LONG),
        waited("w", 8, 4000.0, **LONG),
        waited("v", 4, 3700.0, **LONG),
    )
    found = posed(before, stays, gang("w", 8))
    assert rows(found) == []
    assert [late.job for late in found.due.late] == ["w", "v"]
    assert rows(posed(before, gang("w", 8))) == [("due", "w"), ("due", "v")]


def test_rows_without_a_decision_are_dropped_last_first_and_said() -> None:
    """GPUs suffice by count, nodes do not: two jobs that must stay hold one GPU on each node."""
    before = state(
        cluster(4, 4),
        running("a", {0: [0]}, **LONG),
        running("b", {1: [0]}, **LONG),
        waited("first", 2, 9000.0, **LONG),
        waited("whole", 4, 4000.0, **LONG),
        queued("other", 1),
    )
    rules = NonPreemptible(("a", "b")), gang("whole", 4), gang("first", 2)
    assert rows(posed(before, *rules)) == [("due", "first"), ("due", "whole")]
    decision = decided(before, *rules)
    assert {"a", "b", "first"} <= set(counts(decision.allocation))
    assert [late.job for late in decision.report.late] == ["whole"]
    assert "together" in decision.report.late[0].why
    assert decision.report.status == "optimal"


def served(round_: PosedRound) -> dict[int, float]:
    """Slowest allowed pace of the jobs that must be served, from the snapshot."""
    pace_s = round_.problem.jobs.stay_iteration_s
    return {r.job: float(pace_s[r.job]) if r.held else np.inf for r in round_.due.rows}


def best_with(world: World, plain: PosedRound, must: dict[int, float]) -> float | None:
    """Optimum by enumeration of a round without rows of due jobs; None if there is none.

    Classes of priority rank above the objective.
    """
    problem = plain.problem
    paces = problem.options.members.iteration_s

    def passes(choice: tuple[int, ...]) -> bool:
        kept = (
            choice[job] != NONE and paces[choice[job]] <= slowest * (1.0 + 2 * SAME_SPEED)
            for job, slowest in must.items()
        )
        return all(kept) and any(fits(problem, choice))

    goals = Goals(world, problem, plain.worth.value)
    best = goals.best_that([tuple(row) for row in oracle.combinations(problem).tolist()], passes)
    return None if best is None else best[-1]


def fits(problem: RoundProblem, choice: tuple[int, ...]) -> Iterator[bool]:
    """Yield whether placements of a choice keep the rules."""
    for selection in placements(problem, list(choice)):
        yield broken_rule(problem, selection) is None


def due_world(draw: np.random.Generator) -> tuple[SpeedModel, RoundState, OperatorRules]:
    """A small round under random rules, whose jobs have waited around an hour.

    None is guaranteed, because enumeration knows no promises.
    """
    table, before, rules = ruled_world(draw)
    jobs = [
        replace(
            known,
            job=replace(known.job, guaranteed=False),
            queued_s=float(draw.choice([0.0, 3000.0, 4000.0, 5000.0, 9000.0])),
            executed_s=float(draw.choice([0.0, 600.0])) if known.running is not None else 0.0,
        )
        for known in before.jobs
    ]
    own = StartBy(float(draw.choice([0.0, 2000.0])), jobs=("j1",)), AN_HOUR
    kept = rules.rules if draw.random() < 0.6 else ()
    return table, replace(before, jobs=tuple(jobs)), OperatorRules((*own, *kept))


@pytest.mark.parametrize("block", range(blocks(2)))
def test_due_rows_equal_enumeration(block: int) -> None:
    seen: Counter[str] = Counter()
    for i in range(40):
        draw = np.random.default_rng((431, block, i))
        table, before, rules = due_world(draw)
        world = World(table, before, rules)
        name = str(draw.choice(["jct", "throughput", "lookahead"]))
        poser = RoundPoser(table, OBJECTIVES[name](), rules)
        plain = RoundPoser(
            table,
            OBJECTIVES[name](),
            rules.only(r for r in rules.rules if not isinstance(r, StartBy)),
        ).pose(before)
        method = Ladder(_highs) if draw.random() < 0.5 else ExactMip(_highs)
        policy = MilpPolicy(poser, method, EXACT)
        try:
            decision = policy.decide(before)
        except InfeasibleRoundError:
            # Only the operator's rules can leave no decision.
            assert best_with(world, plain, {}) is None
            continue
        assert decision.evidence is not None
        round_ = decision.evidence.posed
        expected = best_with(world, plain, served(round_))
        value = decision.evidence.selection.value(round_.worth)
        assert expected is not None
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-9), (block, i, rules)
        assert decision.report.bound >= value - 1e-9 * abs(value)
        if round_.cut is not None:
            # With one row more there is no decision.
            more = poser.pose(before)
            must = dict(list(served(more).items())[: round_.cut.most + 1])
            assert best_with(world, plain, must) is None
            seen["dropped"] += 1
        late = {one.job for one in decision.report.late}
        waits = [k.job.name for k in before.jobs if k.job.name not in counts(decision.allocation)]
        assert late <= set(waits)
        seen["due"] += any(not row.held for row in round_.due.rows)
        seen["held"] += any(row.held for row in round_.due.rows)
        seen["late"] += bool(late)
    assert min(seen["due"], seen["held"], seen["late"]) >= 3, seen


@pytest.mark.parametrize("method", [Ladder(_highs), ExactMip(_highs)], ids=["ladder", "exact"])
def test_due_jobs_come_before_promises(method: Ladder | ExactMip) -> None:
    promised = running("p", {0: [0, 1, 2, 3]}, guaranteed=True, **LONG)
    before = state(cluster(4), promised, waited("w", 4, 4000.0, **LONG))
    rules = OperatorRules((AN_HOUR, gang("w", 4)))
    decision = MilpPolicy(RoundPoser(LINEAR, Jct(), rules), method, EXACT).decide(before)
    assert counts(decision.allocation) == {"w": 4}
    assert decision.report.guarantees_possible is False
    assert decision.report.guarantees_short == 1


def ends_of(plain: PosedRound) -> list[tuple[float, np.ndarray]]:
    """Believed end and GPUs by class of the jobs that run or have to start, from the snapshot."""
    problem, now_s = plain.problem, plain.state.time_s
    kinds = problem.nodes.node_class
    found = []
    for job in np.flatnonzero(problem.jobs.running).tolist():
        mine = (problem.holds.job == job) & problem.nodes.open[problem.holds.node]
        gpus = np.bincount(
            kinds[problem.holds.node[mine]],
            problem.holds.demand[mine, 0],
            minlength=problem.nodes.classes,
        )
        left_s = problem.jobs.restart_left_s[job]
        left_s += problem.jobs.iterations_left[job] * problem.jobs.stay_iteration_s[job]
        found.append((now_s + float(left_s), gpus))
    return found


def test_whole_nodes_are_kept_for_a_gang_from_jobs_that_end_later() -> None:
    before = state(
        cluster(4, 4, 4),
        running("a", {0: [0, 1]}, iterations=25),
        running("b", {1: [0, 1, 2, 3]}, iterations=100),
        running("c", {2: [0, 1, 2]}, iterations=1000),
        waited("gang", 8, 5000.0, **LONG),
        queued("long", 1, **LONG),
        queued("short", 1, **SHORT),
    )
    rules = NonPreemptible(("*",)), gang("gang", 8)
    kept = posed(before, *rules, belief=GANGS).due.reservation
    assert kept is not None
    assert sorted(kept.nodes.tolist()) == [0, 1]
    assert kept.until_s == 200.0
    granted = decided(before, *rules, belief=GANGS).allocation.by_job()
    assert granted["long"].placement.nodes == (2,)
    assert granted["short"].placement.nodes == (0,)


@pytest.mark.parametrize(("ran_s", "until_s"), [(1000.0, 60.0), (1600.0, 400.0), (900.0, 100.0)])
def test_what_started_after_a_job_was_due_does_not_postpone_its_reservation(
    ran_s: float, until_s: float
) -> None:
    """Jobs are expected to take half of 2,000 s; the gang is due for 1,400 s."""
    done = ran_s / 10.0
    before = state(
        cluster(4, 4),
        since(running("s", {0: [0, 1, 2, 3]}, iterations=200, done=done), 0.0, ran_s),
        waited("gang", 8, 5000.0, **LONG),
        queued("long", 1, **LONG),
    )
    rules = OperatorRules((AN_HOUR, NonPreemptible(("*",)), gang("gang", 8)))
    belief = speeds({"m": {"1": 10.0, "4": 10.0, "4+4": 1.0}})
    kept = RoundPoser(belief, Jct(), rules, accuracy=lambda: 0.5).pose(before).due.reservation
    assert kept is not None
    assert kept.until_s == until_s


@pytest.mark.parametrize("block", range(blocks(1)))
def test_a_reservation_equals_enumeration(block: int) -> None:
    """Where nothing is stopped and no due job starts now: by the definition, job by job."""
    stays = NonPreemptible(("*",))
    seen = 0
    for i in range(120):
        draw = np.random.default_rng((432, block, i))
        table, before, _ = due_world(draw)
        poser = RoundPoser(table, Jct(), OperatorRules((stays, AN_HOUR)))
        round_ = poser.pose(before)
        kept = round_.due.reservation
        if kept is None or round_.due.rows:
            continue
        seen += 1
        plain = RoundPoser(table, Jct(), OperatorRules((stays,))).pose(before)
        problem, classes = plain.problem, range(plain.problem.nodes.classes)
        free = np.zeros(len(classes))
        nodes = problem.nodes
        for node in np.flatnonzero(nodes.open).tolist():
            free[nodes.node_class[node]] += nodes.capacity[nodes.node_class[node], 0]
        ends = ends_of(plain)
        free -= sum(gpus for _, gpus in ends)
        gpus_of = np.stack([problem.options.gpus_on(kind) for kind in classes])
        own = np.flatnonzero(problem.candidates.job == kept.job).tolist()
        starts = [
            (end_s, gpus_of[:, k].sum(), k)
            for k in own
            for end_s, _ in ends
            if (free + sum(g for e, g in ends if e <= end_s) >= gpus_of[:, k]).all()
        ]
        from_s, gpus, _ = min(starts)
        assert kept.from_s == from_s
        picked = [k for end_s, many, k in starts if (end_s, many) == (from_s, gpus)]
        left = free + sum(g for end_s, g in ends if end_s <= from_s)
        spares = [
            tuple(
                float(left[c] - gpus_of[c, k]) if gpus_of[c, k] else float("inf") for c in classes
            )
            for k in picked
        ]
        assert kept.spare in spares
        members = problem.options.members
        lasts_s = members.startup_s + (
            problem.jobs.iterations_left[members.job] * members.iteration_s
        )

        lasting = members.starts & (lasts_s > kept.until_s + 1e-9) & (members.job != kept.job)
        level, room = plain.worth, np.asarray(kept.spare) + 1e-9
        best = max(
            oracle.value(choice, level)
            for choice in oracle.combinations(problem).tolist()
            if (gpus_of[:, [k for k in choice if k != NONE and lasting[k]]].sum(1) <= room).all()
            and any(fits(problem, choice))
        )
        decision = MilpPolicy(poser, Ladder(_highs), EXACT).decide(before)
        assert decision.report.objective == pytest.approx(best, rel=1e-6, abs=1e-12), i
    assert seen >= 5, seen
