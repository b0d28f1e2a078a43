"""Shares with memory: factors by hand, what is charged, and what rounds carry on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import Queue, QueueTree, Usage
from morph_opt.scheduling.decision.rules.spec import RULE_FIELDS, rules_of, to_dict
from morph_opt.scheduling.decision.usage import UsedShares
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_objective, make_policy
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import cluster, counts, queued, running, speeds, state

FOUR = speeds({"m": {"4": 1.0}})
TREE = (
    Queue("all"),
    Queue("a", "all", weight=3.0),
    Queue("b", "all"),
    Queue("a1", "a"),
    Queue("a2", "a"),
)


def shares(used: dict[str, float], least: float = 1e-9) -> UsedShares:
    usage = Usage(100.0, used, least)
    return UsedShares(make_objective("throughput"), usage, QueueTree(TREE))


def test_factors_are_those_of_the_classic_fair_share() -> None:
    """All of 100 was used by a1. Shares: a 3/4, b 1/4, a1 and a2 3/8.

    Effective usage: a 1 + 0, b 0 + 1/4, a1 1, a2 0 + 1/2.
    """
    found = shares({"all.a.a1": 100.0}).factors(["a1", "a2", "b"])
    assert found["a1"] == pytest.approx(2 ** -(1 / 0.375))
    assert found["a2"] == pytest.approx(2 ** -(0.5 / 0.375))
    assert found["b"] == pytest.approx(2 ** -(0.25 / 0.25))
    assert found["all.a.a1"] == found["a1"]
    assert set(shares({}).factors(["a1", "other"]).values()) == {1.0}
    assert shares({"a1": 1.0}, least=0.9).factors(["a1"])["a1"] == 0.9


def test_what_was_held_is_charged_and_halves() -> None:
    objective, where = shares({"b": 80.0}), cluster(8)
    known = replace(running("j", {0: range(4)}, tenant="a1"), attained_gpu_s=1000.0)
    objective.observe(state(where, known))
    later = replace(known, attained_gpu_s=1400.0)
    objective.observe(replace(state(where, later), time_s=280.0))
    assert objective.used["b"] == pytest.approx(40.0)
    assert objective.used["a1"] == pytest.approx(400.0 * 0.5**0.5)
    ended = replace(state(where, queued("k", tenant="b")), time_s=380.0)
    objective.observe(ended)
    assert objective.used["a1"] == pytest.approx(200.0 * 0.5**0.5 + 400.0 * 0.5**0.5)


def test_who_used_more_waits() -> None:
    jobs = queued("x", 4, tenant="a1"), queued("y", 4, tenant="b", weight=0.9)
    before = state(cluster(4), *jobs)
    for used, first in (({}, "x"), ({"a1": 5.0}, "y"), ({"b": 5.0}, "x")):
        rules = OperatorRules(TREE, usage=Usage(1e6, used))
        policy = MilpPolicy.of(FOUR, make_objective("jct"), HighsSolver(), EXACT, rules=rules)
        assert policy.remembers
        assert set(counts(policy.decide(before).allocation)) == {first}


def test_users_of_a_queue_share_it() -> None:
    """Half of 100 was used by ann in a1, half by bob in b; cid and a user in b used nothing.

    Effective usage: a 1/2 + 3/8, a1 1/2 + 3/16, and of half of its 3/8: ann 1/2 + 3/32, cid 11/32;
    b 1/2 + 1/8, of which dan has half, as of its share of 1/4.
    """
    usage = Usage(100.0, {"a1": 50.0, "b": 50.0}, 1e-9, True, {"ann@a1": 50.0, "bob@b": 50.0})
    found = UsedShares(make_objective("jct"), usage, QueueTree(TREE)).factors_of_users(
        [("all.a.a1", "ann"), ("a1", "cid"), ("b", "dan")]
    )
    assert found["all.a.a1", "ann"] == pytest.approx(2 ** -(0.59375 / 0.1875))
    assert found["a1", "cid"] == pytest.approx(2 ** -(0.34375 / 0.1875))
    assert found["b", "dan"] == pytest.approx(2 ** -(0.3125 / 0.125))


def test_the_user_who_used_more_waits() -> None:
    jobs = (
        queued("x", 4, tenant="b", user="ann"),
        queued("y", 4, tenant="b", user="bob", weight=0.9),
    )
    before = state(cluster(4), *jobs)
    for by, first in (({}, "x"), ({"ann@b": 5.0}, "y"), ({"bob@b": 5.0}, "x")):
        rules = OperatorRules(TREE, usage=Usage(1e6, {"b": 5.0}, users=True, used_by=by))
        policy = MilpPolicy.of(FOUR, make_objective("jct"), HighsSolver(), EXACT, rules=rules)
        assert set(counts(policy.decide(before).allocation)) == {first}


@pytest.mark.parametrize("users", [False, True])
def test_a_posed_round_carries_the_usage_and_goes_on_from_it(users: bool) -> None:
    """Rounds seen one after the other, and the last one seen with the usage of the one before."""
    rules = OperatorRules(TREE, usage=Usage(50.0, {"b": 3.0}, users=users))
    poser, where = RoundPoser(FOUR, make_objective("jct"), rules), cluster(8)
    rounds = []
    for at in range(4):
        known = running("j", {0: range(4)}, tenant="a1", user="ann")
        known = replace(known, attained_gpu_s=60.0 * 4 * at)
        rounds.append(replace(state(where, known), time_s=60.0 * at))
        posed = poser.pose(rounds[-1])
        assert rules_of(Fields(to_dict(posed.rules), "", None, RULE_FIELDS)) == posed.rules
        if at == 2:
            again = RoundPoser(FOUR, make_objective("jct"), posed.rules)
            assert again.pose(rounds[-1]).rules == posed.rules
    assert again.pose(rounds[-1]).rules == posed.rules
    assert posed.rules.usage is not None
    assert posed.rules.usage.used["a1"] > 250.0
    assert (posed.rules.usage.used_by.get("ann@a1", 0.0) > 250.0) is users


@pytest.mark.parametrize("policy", ["fifo", "easy", "gavel:ftf"])
def test_baselines_refuse_what_they_cannot_remember(policy: str) -> None:
    rules = OperatorRules(usage=Usage(100.0))
    with pytest.raises(InputError, match="usage is a rule of policy milp only"):
        make_policy(policy, FOUR, PolicyOptions(rules=rules))


def test_bad_memories_are_refused() -> None:
    for usage, words in (
        ({"half_life_s": 0}, "must be above 0"),
        ({}, "is missing"),
        ({"half_life_s": 1, "used": {"a": -1}}, "at least 0"),
        ({"half_life_s": 1, "least": 2}, "at most 1"),
        ({"half_life_s": 1, "users": True, "used_by": {"a": 1}}, "must be USER@QUEUE, got 'a'"),
        ({"half_life_s": 1, "used_by": {"a@b": 1}}, "needs users = true"),
    ):
        with pytest.raises(InputError, match=words):
            rules_of(Fields({"usage": usage}, "", None, RULE_FIELDS))
