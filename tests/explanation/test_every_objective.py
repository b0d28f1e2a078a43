"""For every objective with every option: what is explained is what was decided."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.gavel import GavelTable
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.round.decide import make_explainer
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    NonPreemptible,
    OperatorRules,
    TenantQuota,
)
from morph_opt.scheduling.explanation.case import Case
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.policies.options import MILP_OPTIONS
from morph_opt.scheduling.policies.registry import OBJECTIVES, PolicyOptions, make_policy
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

CLUSTER = load_cluster("2x1:V100+2x1:P100+2x1:K80").with_prices(
    {"V100": 2.48, "P100": 1.46, "K80": 0.45}
)
RULES = OperatorRules(
    (TenantQuota("one", 5, 2), GangLimit(("0-*",), most=2)), fewer_moves=True, tighter_packing=True
)
LIMITS = Limits(gap=0.0, time_s=600.0)
VARIANTS: dict[str, Any] = {
    "solver": "highs",
    "formulation": "node_assignment",
    "method": "ladder",
    "rules": RULES,
    "gap": 0.05,
    "time_limit_s": 60.0,
    "node_limit": 100,
    "promises": "weight:3",
    "plan_ahead": "soft",
    "durations": "blind",
    "packing": True,
    "waste_filter": 0.5,
    "entity_weights": {"one": 50.0, "two": 1.0},
    "starvation_knob": 2.0,
    "feedback_share": 0.3,
}
"""A value of each option that is not the one by default."""


@cache
def world() -> tuple[GavelTable, tuple[JobState, ...]]:
    """Nine jobs of two tenants, some with a promise or an SLO, in a queue for six GPUs."""
    trace, speeds = gavel_twin(0)
    jobs = []
    small = [job for job in trace.jobs if job.requested_gpus <= 2]
    for i, job in enumerate(small[4:13]):
        submission_s = 40.0 * i
        named = replace(
            job,
            name=f"{i % 3}-{i}",
            submission_s=submission_s,
            tenant=("one", "two")[i % 2],
            guaranteed=i in (2, 5),
            weight=1.0 + i % 4,
            deadline_s=submission_s + 40_000.0 * (1 + i) if i % 3 == 0 else None,
        )
        jobs.append(JobState(named, restart_s=60.0))
    return speeds, tuple(jobs)


SOLVING = {"solver", "formulation", "gap", "time_limit_s", "node_limit"}
"""Options that say how a round is solved; they are tried together."""


def cases() -> list[tuple[str, tuple[str, ...]]]:
    """Every objective as by default, and with each option that it knows, four at a time.

    What one objective is given together is not what the next is: the options turn by one place.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    for turn, (name, spec) in enumerate(OBJECTIVES.items()):
        options = [o for o in (*MILP_OPTIONS, *spec.options) if o not in SOLVING | {"objective"}]
        at = turn % len(options)
        options = options[at:] + options[:at]
        together = [tuple(options[i : i + 4]) for i in range(0, len(options), 4)]
        found += [(name, given) for given in ((), tuple(sorted(SOLVING)), *together)]
    return found


@pytest.mark.parametrize(("objective", "given"), cases(), ids=str)
def test_the_explained_value_is_the_decided_one(objective: str, given: tuple[str, ...]) -> None:
    values = {name: VARIANTS[name] for name in given}
    if "plan_ahead" in given:
        values |= {"rules": OperatorRules((NonPreemptible(("*",)),)), "durations": "true"}
    options = PolicyOptions(objective=objective, **values)
    explainer = make_explainer(options, Effort(jobs=1, rules=0))
    speeds, jobs = world()
    policy = make_policy("milp", speeds, options)
    running: dict[str, Any] = {}
    for index in range(2):
        present = jobs[: len(jobs) - 1 + index]
        state = RoundState(
            index,
            600.0 * (1 + index),
            60.0,
            CLUSTER,
            tuple(replace(known, **running.get(known.job.name, {})) for known in present),
        )
        decision = policy.decide(state)
        evidence, report = decision.evidence, decision.report
        assert evidence is not None
        assert bool(evidence.posed.problem.shared.count) == options.packing
        found = explainer.explain(evidence, decision.allocation)
        # Decided, explained, and added up job by job: the same number.
        assert found.value == report.objective
        granted = [job.granted.value for job in found.jobs if job.granted is not None]
        assert sum(granted) == pytest.approx(found.value, rel=1e-9)
        # What-ifs go by the same goals: solved anew, the round is worth what was decided.
        again = Case(make_solver("highs"), LIMITS).solve(evidence.posed)
        assert again.selection is not None
        slack = (options.gap + 1e-6) * abs(report.objective) + 1e-12
        if len(evidence.posed.goals) == 1:
            optimum = again.selection.value(evidence.posed.worth_of(again.levels))
            assert report.objective <= optimum + slack
            assert report.objective >= optimum - slack
            assert report.bound >= optimum - 1e-6 * abs(optimum)
        for held in decision.allocation.assignments:
            running[held.job] = {
                "running": held, "first_start_s": state.time_s, "last_start_s": state.time_s,
                "starts": 1,
            }  # fmt: skip
    if options.packing and objective == "throughput":
        assert any(job.granted is not None and job.granted.partner for job in found.jobs)


def test_every_option_has_a_variant() -> None:
    known = {option for spec in OBJECTIVES.values() for option in spec.options}
    assert set(VARIANTS) == (known | set(MILP_OPTIONS)) - {"objective"}
