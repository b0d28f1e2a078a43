"""Trees of quotas against the arithmetic of Kueue's documentation, on random trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from formulations.round.check import check
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.quota_tree import quota_trees
from morph_opt.scheduling.decision.rules.stranded import stranded_jobs
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.campaigns import blocks
from tests.decision.rules.worlds import random_cohorts
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import cluster, queued, running, speeds, state

BLOCKS, ROUNDS = blocks(2), 60
FIXED = speeds({"m": {"1": 8.0, "2": 4.0, "4": 2.0, "8": 1.0}})
QUEUES = "abc"


def free_of(quotas: Sequence[CohortQuota], usage: Mapping[str, float], name: str) -> float:
    """What a queue may still take, from the definitions, with dictionaries and no classes."""
    of = {one.name: one for one in quotas}
    below = {one.name: [x.name for x in quotas if x.parent == one.name] for one in quotas}

    def subtree(node: str) -> float:
        return of[node].gpus + sum(subtree(x) - kept(x) for x in below[node])

    def kept(node: str) -> float:
        lend = of[node].lend
        return 0.0 if lend is None else max(0.0, subtree(node) - lend)

    def used(node: str) -> float:
        own = usage.get(node, 0.0) + of[node].used
        return own + sum(max(0.0, used(x) - kept(x)) for x in below[node])

    def free(node: str) -> float:
        if not of[node].parent:
            return subtree(node) - used(node)
        borrow = math.inf if of[node].borrow is None else of[node].borrow
        beyond = max(0.0, used(node) - kept(node))
        most = subtree(node) - kept(node) - beyond + borrow
        return max(0.0, kept(node) - used(node)) + min(free(of[node].parent), most)

    return free(name)


def drawn(seed: tuple[int, ...]) -> tuple[RoundState, list[CohortQuota]]:
    """Two nodes of 8: some jobs run, some wait, in three queues of a random tree."""
    draw = np.random.default_rng(seed)
    quotas = list(random_cohorts(draw, QUEUES))
    jobs: list[JobState] = []
    left = {0: list(range(8)), 1: list(range(8))}
    for at in range(int(draw.integers(2, 6))):
        tenant, gpus = str(draw.choice(list(QUEUES))), int(draw.choice([1, 2, 4]))
        node = int(draw.integers(2))
        if draw.random() < 0.4 and len(left[node]) >= gpus:
            held, left[node] = left[node][:gpus], left[node][gpus:]
            jobs.append(running(f"j{at}", {node: held}, tenant=tenant))
        else:
            jobs.append(queued(f"j{at}", gpus, tenant=tenant))
    return state(cluster(8, 8), *jobs), quotas


@pytest.mark.parametrize("block", range(BLOCKS))
def test_quota_rows_and_audit_agree_on_every_start(block: int) -> None:
    """What the solver starts fits one by one, and of each single start rows and audit agree."""
    started = refused = 0
    for i in range(ROUNDS):
        before, quotas = drawn((91, block, i))
        rules = OperatorRules((NonPreemptible(("*",)), *quotas))
        view = apply_rules(CandidateBuilder(FIXED, prune=False).view(before), before, rules)
        problem = view.problem
        level = make_objective("throughput").levels(problem, None)[-1]
        solved = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        assert solved.selection is not None, (block, i, quotas)
        check(problem, solved.selection)
        usage = dict.fromkeys(QUEUES, 0.0)
        for known in before.jobs:
            if known.running is not None:
                usage[known.job.tenant] += known.running.placement.gpus
        trees = {name: node for (_, name), node in quota_trees(quotas).items()}
        for name, amount in usage.items():
            trees[name].add(amount)
        for name in usage:
            assert trees[name].free == pytest.approx(free_of(quotas, usage, name))
        for job, known in enumerate(before.jobs):
            choice, tenant = int(solved.selection.choice[job]), known.job.tenant
            if known.running is not None or choice < 0:
                continue
            gpus = float(problem.candidates.gpus[choice])
            assert gpus <= max(0.0, free_of(quotas, usage, tenant)) + 1e-9, (block, i, quotas)
            usage[tenant] += gpus
            started += 1
        for job, known in enumerate(before.jobs):
            if known.running is not None or int(solved.selection.choice[job]) >= 0:
                continue
            least = min(problem.candidates.gpus[problem.candidates.job == job])
            refused += free_of(quotas, usage, known.job.tenant) < least
    assert started > ROUNDS // 4
    assert refused > ROUNDS // 8


def test_a_tree_that_is_beyond_a_limit_takes_what_is_missing_from_below() -> None:
    """A keeps 3 of 4 and holds nothing; the cohort lends 1 and others use 3: 2 too many.

    So of its 3, 1 is left for a: Kueue adds what is free of its own to what is missing above.
    """
    quotas = [
        CohortQuota("a", 4, parent="top", lend=1, tenants=("a",)),
        CohortQuota("b", 0, parent="top", tenants=("b",), used=3),
        CohortQuota("top", 0),
    ]
    assert free_of(quotas, {}, "a") == 1
    rules = OperatorRules(tuple(quotas))
    for gpus, starts in ((1, True), (2, False)):
        before = state(cluster(8), queued("j", gpus, tenant="a"))
        view = apply_rules(CandidateBuilder(FIXED, prune=False).view(before), before, rules)
        rows = view.problem.rules
        assert rows.name == ("cohort_quota",) * 3
        level = make_objective("throughput").levels(view.problem, None)[-1]
        mine = view.problem.candidates.gpus == gpus
        found = RoundSolver(HighsSolver(), EXACT).ranked(view.problem, (level,))
        assert found.selection is not None
        most = view.problem.candidates.gpus[found.selection.choice[0]]
        assert most == 1
        assert bool(mine[found.selection.choice[0]]) is starts


def test_cohorts_below_themselves_and_names_twice_are_refused() -> None:
    with pytest.raises(InputError, match="'b' is below itself"):
        OperatorRules((CohortQuota("a", 1, parent="b"), CohortQuota("b", 1, parent="b")))
    with pytest.raises(InputError, match="'a' is listed twice for pool 'p'"):
        OperatorRules((CohortQuota("a", 1, "p"), CohortQuota("a", 2, "p")))
    with pytest.raises(InputError, match="one entry for each of the 1 jobs"):
        CohortQuota("a", 1, jobs=("j",), amounts=(1.0, 2.0))


def test_a_job_that_no_quota_could_ever_hold_is_stranded() -> None:
    """It asks for 4: its queue has 2 and the other lends 1."""
    quotas = [
        CohortQuota("a", 2, parent="top", tenants=("a",)),
        CohortQuota("b", 9, parent="top", lend=1, tenants=("b",), used=9),
        CohortQuota("top", 0),
    ]
    rules = OperatorRules(tuple(quotas))
    for gpus, stranded in ((3, False), (4, True)):
        job = queued("j", gpus, tenant="a").job
        table = speeds({"m": {str(gpus): 1.0}})
        assert bool(stranded_jobs(rules, [job], table, cluster(8))) is stranded


def test_the_audit_names_the_job_and_what_is_left() -> None:
    before = state(cluster(8), queued("j", 4, tenant="a"))
    rules = OperatorRules((CohortQuota("a", 3, "h100", tenants=("a",), note="0 in use"),))
    view = CandidateBuilder(FIXED, prune=False).view(before)
    level = make_objective("throughput").levels(view.problem, None)[-1]
    found = RoundSolver(HighsSolver(), EXACT).ranked(view.problem, (level,))
    assert found.selection is not None
    (breach,) = audit(before, to_allocation(before, view, found.selection), rules)
    assert str(breach) == (
        "cohort_quota: job j: asks for 8, 3 is left (quota: queue a has 3 GPUs of h100 (0 in use))"
    )
