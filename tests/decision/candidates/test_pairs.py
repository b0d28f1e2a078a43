"""Which pairs a round offers, and what becomes of them in an allocation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.round.tables import NONE, Selection
from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    Placement,
    RoundState,
    Shape,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.speed import pair_speeds, require_pair_speeds
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN
from morph_opt.inputs.perf.tables.gavel import GavelTable, GavelThroughputs
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.scheduling.decision.candidates.pairs import PairBuilder
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.params import PairParams
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.model import (
    MinimumRun,
    NodeRule,
    OperatorRules,
    TenantQuota,
)
from morph_opt.scheduling.policies.registry import OBJECTIVES, PolicyOptions, make_policy
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.scheduling.strict.rules import StateFacts

KEYS = {"A": ("A", 1), "B": ("B", 1), "C": ("C", 1), "W": ("W", 2), "V": ("V", 2)}
TABLE = GavelThroughputs(
    alone={"v100": {KEYS[k]: 10.0 for k in "ABCWV"}, "k80": {KEYS[k]: 2.0 for k in "ABCWV"}},
    spread={},
    paired={
        "v100": {
            (KEYS["A"], KEYS["B"]): (8.0, 6.0),  # 1.4
            (KEYS["A"], KEYS["A"]): (5.0, 5.0),  # as good as taking turns
            (KEYS["B"], KEYS["B"]): (5.5, 5.5),  # 1.1
            (KEYS["A"], KEYS["C"]): (9.0, 0.0),  # does not fit in memory
            (KEYS["W"], KEYS["V"]): (7.0, 7.0),
            (KEYS["A"], KEYS["W"]): (9.0, 9.0),  # gangs of different size
        },
        "k80": {(KEYS["B"], KEYS["A"]): (1.5, 1.5)},  # 1.5, listed the other way round
    },
)
SPEEDS = GavelTable(TABLE)
CLUSTER = load_cluster("1x2:V100+1x2:K80")


def job(name: str, **other: object) -> Job:
    kind = name[0]
    return Job(name, f"{kind} x{KEYS[kind][1]}", 0.0, 1000, KEYS[kind][1], RIGID_PLAN, **other)  # type: ignore[arg-type]


def queued(name: str, **other: object) -> JobState:
    return JobState(job(name, **other), restart_s=30.0)


def running(name: str, node: int, gpu: int, partner: str | None = None) -> JobState:
    held = Assignment(name, RIGID_PLAN, Placement.of({node: [gpu]}), partner)
    return replace(queued(name), running=held, starts=1)


def state(*jobs: JobState, cluster: Cluster = CLUSTER, **other: object) -> RoundState:
    return RoundState(3, 180.0, 60.0, cluster, jobs, **other)  # type: ignore[arg-type]


def offered(now: RoundState, rules: OperatorRules | None = None, **limits: int) -> RoundView:
    view = CandidateBuilder(SPEEDS).view(now)
    view = apply_rules(view, now, rules or OperatorRules())
    return PairBuilder(SPEEDS, params=PairParams(**limits)).extended(view, now)


Pair = tuple[str, str, str, bool, bool]


def pairs(view: RoundView) -> set[Pair]:
    """(first, second, GPU type, first stays, second stays), names sorted unless in place."""
    found: set[Pair] = set()
    kinds = [kind.gpu_type.name for kind in CLUSTER.node_types]
    for k, jobs, starts, _ in shared(view):
        names = [view.states[job].job.name for job in jobs]
        stays = [start < 0 for start in starts]
        first, second = names if stays[0] else sorted(names)
        kind = kinds[int(view.problem.options.node_class[k])]
        found.add((first, second, kind, stays[0], stays[1]))
    return found


def shared(view: RoundView) -> list[tuple[int, list[int], list[int], list[float]]]:
    """Options of several jobs: which, the jobs, where each starts (-1: it stays), paces."""
    problem = view.problem
    rows = [np.flatnonzero(problem.shared.option == p) for p in range(problem.shared.count)]
    table = problem.shared
    return [
        (
            problem.candidates.count + p,
            table.job[row].tolist(),
            table.candidate[row].tolist(),
            table.iteration_s[row].tolist(),
        )
        for p, row in enumerate(rows)
    ]


def test_pairs_are_offered_where_they_were_measured_fit_and_gain() -> None:
    view = offered(state(*(queued(name) for name in ("A1", "A2", "B1", "B2", "C1", "W1", "V1"))))
    assert {(a[0], b[0], kind) for a, b, kind, _, _ in pairs(view)} == {
        ("A", "B", "V100"),
        ("A", "B", "K80"),
        ("B", "B", "V100"),
        ("V", "W", "V100"),
    }
    assert all(not first and not second for *_, first, second in pairs(view))


def test_a_pair_has_its_measured_speeds_and_the_gpus_of_one() -> None:
    view = offered(state(queued("A1", cpus_per_gpu=3), queued("B1", cpus_per_gpu=2)))
    problem = view.problem
    kinds = CLUSTER.node_types
    table = problem.options.starts
    ((k, jobs, _, paces),) = [
        row for row in shared(view) if kinds[int(table.node_class[row[0]])].gpu_type.name == "V100"
    ]
    assert paces == ([1 / 8, 1 / 6] if jobs[0] == 0 else [1 / 6, 1 / 8])
    assert table.gpus[k] == 1
    assert table.parts(k) == (1,)
    assert table.side[k].tolist() == [5.0, 0.0, 0.0]
    assert view.configuration(0, k).shape == Shape.of(1)


def test_pairs_that_exceed_a_node_are_not_offered() -> None:
    most = CLUSTER.node_types[0].cpus
    view = offered(state(queued("A1", cpus_per_gpu=most - 1), queued("B1", cpus_per_gpu=2)))
    assert pairs(view) == set()
    view = offered(state(queued("A1", cpus_per_gpu=most - 2), queued("B1", cpus_per_gpu=2)))
    assert len(pairs(view)) >= 1


def test_a_guarantee_keeps_a_job_out_of_pairs() -> None:
    assert pairs(offered(state(queued("A1", guaranteed=True), queued("B1")))) == set()
    host = replace(running("A1", 0, 0), job=job("A1", guaranteed=True))
    assert pairs(offered(state(host, queued("B1")))) == set()


def test_a_queued_job_may_come_to_a_running_one() -> None:
    found = pairs(offered(state(running("A1", 0, 0), queued("B1"), queued("A2"))))
    assert ("A1", "B1", "V100", True, False) in found
    assert ("A2", "B1", "V100", False, False) in found
    assert not any(a == "A1" and b == "A2" for a, b, *_ in found)  # no gain
    assert not any(a == "A1" and not stays for a, _, _, stays, _ in found)


def test_running_partners_may_stay_and_either_may_take_another() -> None:
    now = state(running("A1", 0, 0, "B1"), running("B1", 0, 0, "A1"), queued("B2"), queued("A2"))
    view = offered(now)
    found = pairs(view)
    assert ("A1", "B1", "V100", True, True) in found
    assert ("A1", "B2", "V100", True, False) in found
    assert ("B1", "A2", "V100", True, False) in found
    names = [known.job.name for known in view.states]
    gang = dict(zip(names, view.problem.shared.gang.tolist(), strict=True))
    assert gang["A1"] == gang["B1"]
    assert view.problem.held()[0, 0] == 1.0


def test_partners_that_gain_no_longer_may_still_stay() -> None:
    found = pairs(offered(state(running("A1", 0, 0, "A2"), running("A2", 0, 0, "A1"))))
    assert found == {("A1", "A2", "V100", True, True)}


def test_pairs_do_not_start_on_a_drained_node() -> None:
    now = state(running("A1", 0, 0), queued("B1"), unavailable=frozenset({0}))
    assert not any(stays for *_, stays, _ in pairs(offered(now)))


def test_every_job_is_offered_partners_of_every_model_and_not_all_of_one() -> None:
    names = [f"A{i}" for i in range(9)] + [f"B{i}" for i in range(9)]
    found = pairs(offered(state(*map(queued, names))))
    v100 = [(a, b) for a, b, kind, *_ in found if kind == "V100"]
    per_job = {name: sum(name in pair for pair in v100) for name in names}
    assert min(per_job.values()) >= 1
    assert max(per_job.values()) <= 6
    fewer = pairs(offered(state(*map(queued, names)), partners=1))
    assert len(fewer) < len(found)


def test_pairs_without_a_gain_are_not_offered() -> None:
    view = CandidateBuilder(SPEEDS).view(state(queued("A1"), queued("B1")))
    strict = PairBuilder(SPEEDS, params=PairParams(least_gain=1.5)).extended(
        view, state(queued("A1"), queued("B1"))
    )
    assert strict is view


# --- rules --------------------------------------------------------------------------------------


def test_node_rules_hold_for_both_jobs_of_a_pair() -> None:
    nodes = [node.name for node in CLUSTER.nodes]
    rules = OperatorRules((NodeRule(("A*",), not_nodes=(nodes[0],)),))
    now = state(queued("A1"), queued("B1"))
    view = offered(now, rules)
    table = view.problem.options.starts
    for k in range(view.problem.candidates.count, table.count):
        assert not view.problem.nodes.sets[table.node_set[k], 0]
    policy = make_policy(
        "milp", SPEEDS, PolicyOptions(packing=True, rules=rules, objective="throughput")
    )
    for held in policy.decide(now).allocation.assignments:
        assert held.job != "A1" or held.placement.nodes == (1,)


def test_a_quota_counts_the_gpus_of_a_pair_for_either_tenant() -> None:
    one_gpu = load_cluster("1x1:V100")
    jobs = queued("A1", tenant="x"), queued("B1", tenant="y")
    rules = (TenantQuota("x", 1), TenantQuota("y", 1))
    for quotas, expected in ((rules, 2), ((TenantQuota("x", 0), rules[1]), 1)):
        options = PolicyOptions(objective="throughput", packing=True, rules=OperatorRules(quotas))
        decision = make_policy("milp", SPEEDS, options).decide(state(*jobs, cluster=one_gpu))
        assert len(decision.allocation.assignments) == expected


def test_a_minimum_run_is_kept_next_to_a_partner() -> None:
    one_gpu = load_cluster("1x1:V100")
    host = replace(running("A1", 0, 0), last_start_s=170.0, first_start_s=170.0)
    options = PolicyOptions(
        objective="throughput", packing=True, rules=OperatorRules((MinimumRun(100.0),))
    )
    now = state(host, queued("B1"), cluster=one_gpu)
    decision = make_policy("milp", SPEEDS, options).decide(now)
    held = decision.allocation.by_job()
    assert held["A1"] == host.running
    assert held["A1"].partner == "B1"


# --- from a choice to GPUs ----------------------------------------------------------------------


def _chosen(view: RoundView, **names: int) -> Selection:
    choice = [names.get(s.job.name, NONE) for s in view.states]
    held = set(view.problem.options.held.option.tolist())
    nodes = tuple((0,) if k >= 0 and k not in held else () for k in choice)
    return Selection(np.asarray(choice), nodes)


def _pair(view: RoundView, first: str, second: str) -> int:
    problem = view.problem
    classes = problem.options.node_class
    for k, jobs, _, _ in shared(view):
        on_v100 = classes[k] == problem.nodes.node_class[0]
        if {view.states[job].job.name for job in jobs} == {first, second} and on_v100:
            return k
    raise AssertionError("not offered")


def test_both_jobs_of_a_pair_get_the_same_gpus_and_name_each_other() -> None:
    now = state(running("A1", 0, 1), queued("B1"), queued("A2"), queued("B2"))
    view = offered(now)
    come, fresh = _pair(view, "A1", "B1"), _pair(view, "A2", "B2")
    held = to_allocation(now, view, _chosen(view, A1=come, B1=come, A2=fresh, B2=fresh)).by_job()
    assert held["A1"] == now.jobs[0].running
    for one, two, gpu in (("A1", "B1", 1), ("A2", "B2", 0)):
        assert (held[one].partner, held[two].partner) == (two, one)
        assert held[one].placement == held[two].placement == Placement.of({0: [gpu]})


def test_job_that_leaves_a_pair_on_its_node_gets_another_gpu() -> None:
    now = state(running("A1", 0, 0, "B1"), running("B1", 0, 0, "A1"))
    view = offered(now)
    start = int(view.offset[1])  # B1 alone in its first configuration, placed on node 0
    held = to_allocation(
        now, view, _chosen(view, A1=int(view.problem.options.stay[0]), B1=start)
    ).by_job()
    assert held["A1"].partner is None
    assert held["A1"].placement == Placement.of({0: [0]})
    assert held["B1"].placement == Placement.of({0: [1]})


def test_a_pair_in_which_both_stay_changes_nothing() -> None:
    now = state(running("A1", 0, 0, "B1"), running("B1", 0, 0, "A1"))
    view = offered(now)
    together = _pair(view, "A1", "B1")
    found = to_allocation(now, view, _chosen(view, A1=together, B1=together))
    assert found == now.held
    assert [a.partner for a in found.assignments] == ["B1", "A1"]
    assert found.gpus == 1


# --- objectives ---------------------------------------------------------------------------------


STRICT_ORDER = ("fifo", "srpt", "hierarchical-fifo", "fairness-agnostic", "jct-blind")
"""Objectives to which whole gangs of those in front may be worth more than any pair; to a guess
that goes by requests, before anything has completed, those that asked for least are in front."""


@pytest.mark.parametrize("objective", [*OBJECTIVES])
@pytest.mark.parametrize("formulation", ["node_pattern", "node_assignment"])
def test_every_objective_packs_and_passes_the_strict_check(
    objective: str, formulation: str
) -> None:
    cluster = load_cluster("1x4:V100+1x4:P100+1x4:K80").with_prices(
        {"V100": 3.0, "P100": 1.5, "K80": 0.5}
    )
    trace, truth = gavel_twin(1)
    options = PolicyOptions(objective=objective, formulation=formulation, packing=True)
    policy = make_policy("milp", truth, options)
    lookup = RunLookup(truth, cluster)
    jobs = tuple(JobState(replace(j, submission_s=0.0), restart_s=60.0) for j in trace.jobs[:24])
    names = frozenset(j.job.name for j in jobs)
    packed = 0
    held: dict[str, Assignment] = {}
    for index in range(4):
        now_s = 600.0 * (index + 1)
        now = RoundState(index, now_s, 600.0, cluster, jobs)
        decision = policy.decide(now)
        assert decision.report.status == "optimal"
        standing = StateFacts({s.job.name: s.job for s in jobs}, names, held)
        assert PlacementCheck(lookup).check(decision.allocation.assignments, standing) == ()
        held = decision.allocation.by_job()
        packed += sum(a.partner is not None for a in held.values())
        # All have reported by the second round, so that `feedback` takes turns.
        done = 100.0 * (index + 1)
        jobs = tuple(replace(s, running=held.get(s.job.name), iterations_done=done) for s in jobs)
    assert packed >= 2 or objective in STRICT_ORDER


@pytest.mark.parametrize("objective", ["auto", "lookahead", "saved-time"])
@pytest.mark.parametrize(("kept", "packs"), [(0.9, True), (0.75, True), (0.6, False)])
def test_two_jobs_share_a_gpu_where_both_end_sooner_by_it(
    objective: str, kept: float, packs: bool
) -> None:
    """One after the other they end after 600 and 1,200 s; together, after 600 s / ``kept``."""
    speeds = {"v100": {KEYS["A"]: 1.0, KEYS["B"]: 1.0}}
    pair = {"v100": {(KEYS["A"], KEYS["B"]): (kept, kept)}}
    table = GavelTable(GavelThroughputs(alone=speeds, spread={}, paired=pair))
    jobs = tuple(
        JobState(Job(name, f"{name} x1", 0.0, 600, 1, RIGID_PLAN), restart_s=0.0)
        for name in ("A", "B")
    )
    state = RoundState(0, 0.0, 60.0, load_cluster("1x1:V100"), jobs)
    policy = make_policy("milp", table, PolicyOptions(objective=objective, packing=True))
    held = policy.decide(state).allocation.assignments
    assert [one.partner is not None for one in held] == [True, True] if packs else [False]


# --- the table ----------------------------------------------------------------------------------


def test_the_table_tells_pairs_in_either_order_and_only_on_one_node() -> None:
    kinds = {kind.gpu_type.name: kind for kind in CLUSTER.node_types}
    plans = RIGID_PLAN, RIGID_PLAN
    one = Shape.of(1)
    ask = SPEEDS.paired_iteration_s
    assert ask(("A x1", "B x1"), plans, kinds["K80"], one) == (1 / 1.5, 1 / 1.5)
    assert ask(("B x1", "A x1"), plans, kinds["V100"], one) == (1 / 6, 1 / 8)
    assert ask(("A x1", "C x1"), plans, kinds["V100"], one) is None
    assert ask(("A x1", "W x2"), plans, kinds["V100"], one) is None
    assert ask(("W x2", "V x2"), plans, kinds["V100"], Shape.of(2)) == (1 / 7, 1 / 7)
    assert ask(("W x2", "V x2"), plans, kinds["V100"], Shape.of(1, 1)) is None
    with pytest.raises(InputError, match="unknown model 'Z x1'"):
        ask(("Z x1", "A x1"), plans, kinds["V100"], one)


def test_a_table_without_pairs_is_said_in_one_line() -> None:
    assert pair_speeds(SPEEDS) is SPEEDS
    bare = GavelTable(replace(TABLE, paired={"v100": {}}), name="bare")
    assert pair_speeds(bare) is None
    for speeds in (bare, builtin_model()):
        with pytest.raises(InputError, match=r"^packing.*measures no pairs of jobs"):
            require_pair_speeds(speeds)


def test_gpus_of_an_allocation_count_a_pair_once() -> None:
    one, two = (running("A1", 0, 0, "B1").running, running("B1", 0, 0, "A1").running)
    assert one is not None
    assert two is not None
    assert Allocation((one, two)).gpus == 1
    assert one == replace(one, partner=None)  # a stay remains a stay
