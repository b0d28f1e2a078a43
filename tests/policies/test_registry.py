"""Policies, objectives and formulations by name, by import path, and by mistake."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import Allocation, InputError, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.filling import FillingPolicy
from morph_opt.scheduling.policies.registry import (
    OBJECTIVES,
    POLICIES,
    PolicyOptions,
    make_objective,
    make_policy,
)
from tests.policies.worlds import LINEAR, cluster, counts, queued, state

HERE = "tests.policies.test_registry"


@dataclass(frozen=True)
class FewestGpus(Stateless):
    """A user's own objective: as many jobs as possible, each on as few GPUs as possible."""

    belief: SpeedModel
    options: PolicyOptions
    name: str = "fewest"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        starts = np.zeros(problem.options.count)
        starts[: problem.candidates.count] = problem.candidates.gpus
        return (
            Level("jobs", "jobs", np.ones(problem.options.count)),
            Level("gpus", "GPUs", -starts),
        )


class Lazy(Policy):
    """A user's own policy: nobody ever runs."""

    name = "lazy"

    def decide(self, state: RoundState) -> Decision:
        del state
        return Decision(Allocation())


class Misspelt(FillingPolicy):
    """A user's own class without what it has to have."""

    name = "misspelt"

    def fil(self) -> None:
        """Should be ``fill``."""


def make_lazy(belief: SpeedModel, options: PolicyOptions) -> Lazy:
    del belief, options
    return Lazy()


def test_an_objective_of_one_s_own_by_import_path() -> None:
    options = PolicyOptions(objective=f"{HERE}:FewestGpus", gap=0.0)
    decision = make_policy("milp", LINEAR, options).decide(
        state(cluster(8), queued("a", 4), queued("b", 8))
    )
    assert counts(decision.allocation) == {"a": 1, "b": 1}
    assert decision.report.objective == -2.0


def test_a_policy_of_one_s_own_by_import_path() -> None:
    policy = make_policy(f"{HERE}:make_lazy", LINEAR, PolicyOptions())
    assert policy.decide(state(cluster(8), queued("a"))).allocation == Allocation()


def test_a_class_that_is_to_be_completed_says_what_it_lacks() -> None:
    """By import path as by value: Python's own words of abstract classes help nobody."""
    match = "Misspelt is incomplete: a class of your own must define fill"
    with pytest.raises(InputError, match=match):
        make_policy(f"{HERE}:Misspelt", LINEAR, PolicyOptions())
    with pytest.raises(InputError, match=match):
        make_policy(Misspelt, LINEAR, PolicyOptions())


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policies_by_name(name: str) -> None:
    assert make_policy(name, LINEAR, PolicyOptions()).name


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_objectives_by_name(objective: str) -> None:
    assert make_objective(objective, LINEAR).name == objective


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("nope", {}, r"^policy: unknown policy 'nope'; known are .*milp.*package\.module"),
        (
            "milp",
            {"objective": "nope"},
            r"^objective: unknown objective 'nope'; known are .*jct.*",
        ),
        ("milp", {"solver": "nope"}, r"^solver: unknown solver 'nope'"),
        ("milp", {"formulation": "x"}, r"^formulation: unknown formulation 'x'.*node_pattern"),
        ("milp", {"objective": "no.such:Thing"}, r"^objective: cannot import 'no\.such:Thing'"),
        ("milp", {"objective": f"{HERE}:Absent"}, r"cannot import .*Absent"),
        ("milp", {"objective": "math:pi"}, r"^objective: .*math:pi.* must be callable"),
        ("math:pi", {}, r"^policy: .*math:pi.* must be callable"),
        (f"{HERE}:Absent", {}, r"^policy: cannot import .*Absent"),
        (
            "milp",
            {"durations": "x"},
            r"^durations: must be true, blind, limits\[:LAW\]\[:learnt\] or noisy:SIGMA, got 'x'",
        ),
        ("milp", {"durations": "noisy:0"}, r"^durations: the spread must be a number above 0"),
        ("milp", {"promises": "x"}, r"^promises: must be rank, weight or weight:NUMBER, got 'x'"),
        ("milp", {"gap": -1.0}, r"^gap: must be a number from 0 to 1, got -1"),
        ("fifo", {"gap": 0.5}, r"^gap: policy 'fifo' does not know it; known to milp$"),
        ("milp", {"starvation_knob": 2.0}, r"^starvation_knob: objective 'auto' does not"),
    ],
)
def test_mistakes_end_in_one_line(policy: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make_policy(policy, LINEAR, replace(PolicyOptions(), **options))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gavel:nope", "tiresias:nope", "fifo:skp"])
def test_a_slip_in_a_family_is_an_unknown_policy(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown policy .*known are .*gavel:ftf"):
        make_policy(name, LINEAR, PolicyOptions())
