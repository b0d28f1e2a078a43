"""Pairs in the round: both formulations against brute force, the check, and the levels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.instances.checking import choice_of, placed
from benchmarks.instances.round_json import from_json, to_json
from formulations import node_pattern
from formulations.round.check import RuleError, check
from formulations.round.decode import in_place_fits, without_jobs
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.rules import with_shared
from formulations.round.shared import SharedTable
from formulations.round.tables import NONE, RoundProblem, Selection
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from tests.campaigns import blocks
from tests.formulations.worlds import packed_rounds as brute
from tests.formulations.worlds.packed_families import (
    COMES,
    COMES_TO_OTHER,
    FRESH,
    TOGETHER,
    joined,
    packed,
)
from tests.formulations.worlds.rounds import (
    STAY,
    Candidate,
    Hold,
    Rule,
    by_hand,
    decided,
    plain_level,
    rule_table,
    tiny,
)
from tests.formulations.worlds.solving import FORMULATIONS, ranked, solve_model

BLOCKS, PER_BLOCK = blocks(2), 30


def _sized(block: int) -> brute.RoundSize:
    return brute.PACKED if block % 2 else brute.PACKED_GPUS


@pytest.mark.parametrize("block", range(BLOCKS))
def test_both_formulations_and_brute_force_agree_on_rounds_with_pairs(block: int) -> None:
    for i in range(PER_BLOCK):
        draw = np.random.default_rng((block, i, 8))
        problem = brute.packed_round(draw, _sized(block))
        level = brute.packed_level(draw, problem)
        truth = brute.best_value(problem, level)
        for formulation in FORMULATIONS:
            found = ranked(problem, [level], formulation).selection
            assert found is not None
            assert found.value(level) == pytest.approx(truth, rel=1e-6), (block, i, formulation)


def test_random_rounds_use_pairs_of_every_sort() -> None:
    seen = dict.fromkeys(("fresh", "comes", "together", "parted", "rule", "closed", "pairs"), 0)
    for i in range(300):
        draw = np.random.default_rng((3, i))
        problem = brute.packed_round(draw, _sized(i))
        if not problem.shared.count:
            continue
        base = problem.candidates.count
        starts = problem.rules.kind == RULE_X
        seen["pairs"] += 1
        seen["rule"] += bool((problem.rules.index[starts] >= base).any())
        level = brute.packed_level(draw, problem)
        found = ranked(problem, [level], "node_pattern").selection
        assert found is not None
        chosen = np.intersect1d(found.choice, np.flatnonzero(problem.options.shared)).tolist()
        ways = {tuple(k >= 0 for k in brute.starts_of(problem, option)) for option in chosen}
        seen["fresh"] += (True, True) in ways
        seen["together"] += (False, False) in ways
        seen["comes"] += (False, True) in ways
        sharing = [job for gang in brute.gangs_of(problem) for job in gang]
        seen["parted"] += STAY in np.asarray(by_hand(problem, found.choice))[sharing]
        seen["closed"] += not problem.nodes.open.all()
        if min(seen.values()) >= 5:
            return
    pytest.fail(str(seen))


@pytest.mark.parametrize("block", range(4))
def test_the_fallback_is_feasible_and_keeps_pairs_that_run(block: int) -> None:
    kept = 0
    for i in range(60):
        draw = np.random.default_rng((block, i, 9))
        problem = brute.packed_round(draw, _sized(block))
        found = keep_and_fill(problem, brute.packed_level(draw, problem))
        check(problem, found)
        kept += bool(np.isin(found.choice, np.flatnonzero(problem.options.shared)).any())
    assert kept >= 3


def test_the_row_of_a_job_in_an_option_is_its_own() -> None:
    members = packed().options.members
    rows = zip(members.option.tolist(), members.job.tolist(), strict=True)
    assert [members.of(*row) for row in rows] == list(range(members.job.size))


# --- the check ---------------------------------------------------------------------------------


def _chosen(*choice: int, nodes: dict[int, tuple[int, ...]] | None = None) -> Selection:
    where = nodes or {}
    return Selection(np.asarray(choice), tuple(where.get(job, ()) for job in range(len(choice))))


_FREE = {2: (1,), 3: (1,)}
GOOD = {
    "together and fresh": _chosen(TOGETHER, TOGETHER, FRESH, FRESH, nodes=_FREE),
    "another comes": _chosen(COMES, NONE, COMES, NONE),
    "parted": _chosen(NONE, STAY, 0, NONE, nodes={2: (0,)}),
    "comes to the other": _chosen(NONE, COMES_TO_OTHER, NONE, COMES_TO_OTHER),
}
BAD = {
    "partners": [
        _chosen(TOGETHER, NONE, NONE, NONE),
        _chosen(TOGETHER, STAY, NONE, NONE),
        _chosen(NONE, NONE, FRESH, 1, nodes=_FREE),
        _chosen(COMES, NONE, NONE, NONE),
        _chosen(NONE, NONE, COMES, NONE),
    ],
    "own_candidate": [
        _chosen(NONE, NONE, TOGETHER, NONE),
        _chosen(FRESH, NONE, NONE, NONE),
        _chosen(NONE, COMES, NONE, NONE),
    ],
    "same_nodes": [
        _chosen(NONE, NONE, FRESH, FRESH, nodes={2: (1,), 3: (0,)}),
        _chosen(NONE, NONE, FRESH, FRESH, nodes={2: (1,)}),
        _chosen(COMES, NONE, COMES, NONE, nodes={2: (0,)}),
    ],
    "parts": [
        _chosen(TOGETHER, TOGETHER, NONE, NONE, nodes={0: (0,)}),
        _chosen(NONE, NONE, FRESH, FRESH),
        _chosen(COMES, NONE, COMES, NONE, nodes={0: (0,), 2: (0,)}),
    ],
    "one_gang": [
        _chosen(STAY, STAY, NONE, NONE),
        _chosen(COMES, STAY, COMES, NONE),
        _chosen(STAY, COMES_TO_OTHER, NONE, COMES_TO_OTHER),
        _chosen(COMES, COMES_TO_OTHER, COMES, COMES_TO_OTHER),
    ],
}


def test_a_job_comes_only_to_a_node_with_what_it_asks_for_beside_the_other() -> None:
    # Three of four threads are held; job 1 asks for two.
    start = Candidate(1, (1,), side=(2.0, 0.0, 0.0))
    plain = tiny([1], [start], holds=[Hold(0, 0, 1, (3.0, 0.0, 0.0))], side=(4.0, 0.0, 0.0))
    problem = joined(plain, 0)
    (together,) = np.flatnonzero(problem.options.shared).tolist()
    assert not in_place_fits(problem, np.full(2, together))
    assert in_place_fits(problem, problem.options.stay)


def test_first_gpus_are_named_if_a_pair_may_continue_in_two_ways() -> None:
    plain = tiny([2, 2], [], holds=[Hold(job, job // 2, 1) for job in range(4)])
    twos = np.asarray([0, 0, 2, 2])
    shared = SharedTable(twos // 2, np.arange(4), np.full(4, -1), np.ones(4), twos)
    problem = with_shared(plain, shared)
    with pytest.raises(RuleError, match="one_gang: job 0"):
        check(problem, decided(problem, _chosen(STAY, STAY, STAY, STAY)))


@pytest.mark.parametrize("name", GOOD)
def test_the_check_passes_pairs_that_are_possible(name: str) -> None:
    check(packed(), decided(packed(), GOOD[name]))


@pytest.mark.parametrize(
    ("rule", "number"), [(rule, i) for rule in BAD for i in range(len(BAD[rule]))]
)
def test_the_check_names_what_is_wrong_with_a_pair(rule: str, number: int) -> None:
    with pytest.raises(RuleError, match=rf"^{rule}: "):
        check(packed(), decided(packed(), BAD[rule][number]))


def test_the_check_counts_gpus_once_and_everything_else_for_both() -> None:
    one_node = replace(packed(), nodes=replace(packed().nodes, open=np.asarray([True, False])))
    # node 0 has two GPUs: one is shared by 0 and 1, the other by 2 and 3; threads: 2 + 3 of four
    decision = _chosen(TOGETHER, TOGETHER, FRESH, FRESH, nodes={2: (0,), 3: (0,)})
    with pytest.raises(RuleError, match=r"^capacity: node 0 would hold 5 of 4 cpu$"):
        check(one_node, decision)
    nodes = replace(one_node.nodes, capacity=np.asarray([[2.0, 5.0, 0.0, 0.0]]))
    check(replace(one_node, nodes=nodes), decision)
    side = one_node.candidates.side.copy()
    side[0] = (5.0, 0.0, 0.0)  # next to the thread of job 0
    greedy = replace(one_node, candidates=replace(one_node.candidates, side=side))
    with pytest.raises(RuleError, match=r"^capacity: node 0 would hold 6 of 4 cpu$"):
        check(greedy, _chosen(COMES, NONE, COMES, NONE))


def test_closed_node_takes_no_start_and_keeps_its_jobs() -> None:
    problem = packed(closed=[0])
    check(problem, _chosen(TOGETHER, TOGETHER, NONE, NONE))
    with pytest.raises(RuleError, match=r"^node_open: job 2: "):
        check(problem, _chosen(COMES, NONE, COMES, NONE))
    level = plain_level(problem)
    model = node_pattern.build(problem, level).model
    upper = {model.column_name(c): model.column_upper[c] for c in range(model.columns)}
    assert upper["pair[0,2,4]"] == 0.0
    assert upper["pair[0,1,3]"] == 1.0


@pytest.mark.parametrize("block", range(3))
def test_the_check_accepts_what_brute_force_accepts_and_nothing_else(block: int) -> None:
    verdicts = {True: 0, False: 0}
    for i in range(80):
        draw = np.random.default_rng((block, i, 10))
        problem = brute.packed_round(draw, _sized(block))
        level = brute.packed_level(draw, problem)
        found = ranked(problem, [level], "node_pattern").selection
        assert found is not None
        mutant = found.choice.copy()
        job = int(draw.integers(mutant.size))
        mutant[job] = int(draw.choice(brute.options(problem, job)))
        if any(
            brute.oracle.starts(problem, k) and brute.starts_of(problem, k)[0] >= 0
            for k in mutant.tolist()
        ):
            continue  # what starts needs nodes, which the mutation does not give
        possible = brute.place(problem, mutant.tolist())
        verdicts[possible] += 1
        selection = Selection(mutant, ((),) * mutant.size)
        if possible:
            check(problem, selection)
        else:
            with pytest.raises(RuleError):
                check(problem, selection)
    assert min(verdicts.values()) >= 5, verdicts


# --- levels and rules ---------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [Throughput(), Jct()], ids=["throughput", "jct"])
def test_a_pair_is_worth_its_halves_at_their_speeds_in_it(objective: Throughput | Jct) -> None:
    problem = packed()
    level = objective.levels(problem)[0]
    jobs, shared = problem.jobs, problem.shared
    alone = replace(problem, shared=SharedTable(gang=shared.gang))
    plain = objective.levels(alone)[0].value
    assert level.value[[0, 1, *problem.options.stays]].tolist() == plain.tolist()

    def worth(job: int, start: int, pace_s: float) -> float:
        if start < 0:
            pace = jobs.stay_iteration_s.copy()
            pace[job] = pace_s
            moved = replace(alone, jobs=replace(jobs, stay_iteration_s=pace))
            return float(objective.levels(moved)[0].value[alone.options.stay[job]])
        seconds = alone.candidates.iteration_s.copy()
        seconds[start] = pace_s
        moved = replace(alone, candidates=replace(alone.candidates, iteration_s=seconds))
        return float(objective.levels(moved)[0].value[start])

    rows = zip(
        shared.job.tolist(), shared.candidate.tolist(), shared.iteration_s.tolist(), strict=True
    )
    expected = np.bincount(shared.option, [worth(*row) for row in rows])
    np.testing.assert_allclose(level.value[2:6], expected, rtol=1e-12)
    of_members = level.worth[np.isin(problem.options.members.option, [2, 3, 4, 5])]
    np.testing.assert_allclose(np.bincount(shared.option, of_members), expected, rtol=1e-12)


def test_a_rule_counts_in_a_pair_what_it_counts_in_its_halves() -> None:
    problem = packed()
    rules = rule_table(
        [
            Rule("quota", -np.inf, 9.0, ((RULE_X, 0, 1.0), (RULE_X, 1, 4.0), (RULE_S, 0, 7.0))),
            Rule("must_run", 1.0, np.inf, ((RULE_S, 1, 1.0),)),
        ]
    )
    plain = replace(problem, shared=SharedTable(gang=problem.shared.gang))
    found = with_shared(replace(plain, rules=rules), problem.shared).rules
    starts = found.kind == RULE_X
    value = np.zeros((2, problem.options.starts.count))
    np.add.at(value, (found.row[starts], found.index[starts]), found.value[starts])
    assert value[0].tolist() == [1.0, 4.0, 5.0, 7.0, 8.0, 4.0]
    assert value[1].tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    assert with_shared(plain, problem.shared).rules.count == 0


# --- the tables ---------------------------------------------------------------------------------


def test_rounds_with_pairs_are_read_back_and_others_are_written_as_ever() -> None:
    problem = packed()
    text = to_json(problem)
    again = from_json(text)
    assert to_json(again) == text
    assert again.shared.gang.tolist() == [0, 0, 2, 3]
    plain = replace(problem, shared=SharedTable(gang=problem.shared.gang))
    assert '"shared"' in to_json(plain)
    alone = tiny_without_pairs()
    assert '"shared"' not in to_json(alone)


def tiny_without_pairs() -> RoundProblem:
    """A round as it was before there were pairs."""
    problem = brute.random_round(np.random.default_rng(1))
    assert not problem.shared.count
    return problem


def _with(problem: RoundProblem, **columns: object) -> RoundProblem:
    return replace(problem, shared=replace(problem.shared, **columns))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"job": np.asarray([2, 3, 0, 1])}, r"job must have shape \(8,\)"),
        ({"job": np.asarray([2, 9, 0, 1, 0, 2, 1, 3])}, "job must lie below 4"),
        ({"job": np.asarray([2, 2, 0, 1, 0, 2, 1, 3])}, "not repeat a job"),
        ({"candidate": np.asarray([0, 1, -1, -1, -1, 2, -1, 1])}, "candidate must lie below 3"),
        ({"candidate": np.asarray([0, 1, -1, -1, -2, 0, -1, 1])}, "candidate must lie below 3"),
        ({"candidate": np.asarray([0, 0, -1, -1, -1, 0, -1, 1])}, "belong to its job"),
        ({"candidate": np.asarray([-1, 1, -1, -1, -1, 0, -1, 1])}, "a stay of a queued job"),
        ({"iteration_s": np.asarray([0.0, *[1.0] * 7])}, "positive"),
        ({"option": np.asarray([0, 0, 0, 1, 1, 2, 3, 3])}, "at least two jobs each"),
        ({"option": np.asarray([1, 1, 0, 0, 2, 2, 3, 3])}, "count up"),
        ({"gang": np.asarray([0, 0, 2])}, r"gang must have shape \(4,\)"),
        ({"gang": np.asarray([0, 1, 0, 3])}, "running jobs"),
        ({"gang": np.zeros(0, dtype=np.int64)}, "on the same GPUs"),
    ],
)
def test_tables_that_contradict_each_other_are_refused(
    columns: dict[str, object], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        _with(packed(), **columns)


def test_running_job_does_not_share_with_a_starting_one() -> None:
    problem = packed()
    start = replace(problem.candidates, job=np.asarray([0, 3]))
    shared = replace(
        problem.shared,
        option=np.zeros(2, np.int64),
        job=np.asarray([0, 1]),
        candidate=np.asarray([0, -1]),
        iteration_s=np.ones(2),
    )
    with pytest.raises(ValueError, match="must be a stay if that of another job is"):
        replace(problem, candidates=start, shared=shared)


def test_a_point_is_read_from_the_names_of_its_columns() -> None:
    problem = packed()
    level = plain_level(problem)
    value = level.value.copy()
    value[[FRESH, COMES_TO_OTHER]] = 5.0, 4.0
    built = node_pattern.build(problem, replace(level, value=value))
    point = solve_model(built.model).x
    assert point is not None
    choice = choice_of(problem, built.model, point)
    assert choice.tolist() == built.layout.choice(problem, point).tolist()
    assert choice[2] == choice[3] == FRESH
    found = placed(problem, choice)
    assert found is not None
    check(problem, found)


def test_the_jobs_of_an_option_are_those_that_count_it() -> None:
    for seed in range(20):
        problem = brute.packed_round(np.random.default_rng(seed))
        options = problem.options
        for option in range(problem.options.starts.count):
            assert tuple(options.jobs_of(option)) == brute.jobs_of(problem, option)
        for job in np.flatnonzero(problem.jobs.running).tolist():
            assert options.jobs_of(int(options.stay[job])) == [job]


def test_pair_is_taken_as_a_whole_or_not_at_all() -> None:
    choice = np.asarray([TOGETHER, TOGETHER, 0, 1])
    assert without_jobs(choice, np.asarray([0])).tolist() == [NONE, NONE, 0, 1]
    assert without_jobs(choice, np.asarray([3])).tolist() == [TOGETHER, TOGETHER, 0, NONE]
