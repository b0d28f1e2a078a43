"""`fleet` against enumeration by a program written anew, by hand, by rule, as a golden text."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from formulations.fleet import (
    FleetAnswer,
    FleetError,
    FleetProblem,
    build,
    check,
    decode,
    flows_of,
    pairs_of,
)
from formulations.lp import to_lp
from formulations.tolerances import SOLVED
from tests.formulations.worlds.solving import solve_model

GOLDEN = Path(__file__).parent / "golden_fleet.lp"


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def floats(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)


def small(**changes: object) -> FleetProblem:
    """Two types of one family, two classes, two scenarios; see `test_by_hand`."""
    plain = FleetProblem(
        price=floats(3.0, 2.0),
        size=ints(4, 2),
        most=ints(5, 5),
        family=ints(-1, -1),
        scenario=ints(0, 0, 1),
        group=ints(0, 1, 0),
        bin=ints(0, 1, 0),
        work=floats(100.0, 50.0, 300.0),
        jobs=ints(2, 1, 3),
        config_group=ints(0, 0, 1),
        config_type=ints(0, 1, 0),
        gpus=floats(2.0, 1.0, 4.0),
        pace_s=floats(10.0, 30.0, 10.0),
        bin_s=1000.0,
        delay_s=1000.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def optimum(problem: FleetProblem) -> float | None:
    outcome = solve_model(build(problem))
    if outcome.x is None:
        return None
    answer = decode(problem, outcome.x)
    check(problem, answer)
    assert problem.cost(answer.nodes) == pytest.approx(-outcome.objective)
    return problem.cost(answer.nodes)


def test_by_hand() -> None:
    """Scenario 1: 300 units in bins 0 and 1, 3 jobs with 1,000 s each.

    Type 0 takes 2 x 10 = 20 GPU-s a unit: 6,000 GPU-s on 4 x 1,000 a bin and node: 0.75 nodes.
    Class 1 of scenario 0 runs on type 0 only: 50 x 40 = 2,000 GPU-s, and class 0 there
    100 x 20 = 2,000: half a node. One node of type 0 serves either scenario: cost 3. Type 1 alone
    cannot, and a node of it in place of that of type 0 is not allowed: class 1 needs type 0.
    """
    assert optimum(small()) == 3.0
    # With half the delay, 3 jobs have 1,500 s in all and 300 units take 3,000 s: impossible.
    assert optimum(small(delay_s=500.0)) is None
    # Just enough: 3,000 s of 3 x 1,000 s, none of which may be lost.
    assert optimum(small(lost_s=1.0)) is None
    assert optimum(small(budget=2.9)) is None
    assert optimum(small(budget=3.0)) == 3.0


def served(problem: FleetProblem, nodes: tuple[int, ...]) -> bool:
    """Whether a fleet serves what arrives: work y[a, s, late] in a program of its own."""
    for family in set(problem.family.tolist()) - {-1}:
        if sum(n > 0 for n, f in zip(nodes, problem.family, strict=True) if f == family) > 1:
            return False
    if float(problem.price @ np.asarray(nodes)) > problem.budget:
        return False
    late = range(int(-(-problem.delay_s // problem.bin_s)) + 1)
    columns = [
        (a, s, d)
        for a in range(problem.work.size)
        for s in range(problem.gpus.size)
        if problem.group[a] == problem.config_group[s]
        for d in late
    ]
    equal = [[float(c[0] == a) for c in columns] for a in range(problem.work.size)]
    upper, limit = [], []
    for a in range(problem.work.size):
        upper.append([problem.pace_s[s] * (b == a) for b, s, _ in columns])
        limit.append(float(problem.jobs[a]) * (problem.delay_s - problem.lost_s))
    places = {
        (int(problem.scenario[a]), int(problem.config_type[s]), int(problem.bin[a]) + d)
        for a, s, d in columns
    }
    for w, k, b in sorted(places):
        upper.append(
            [
                problem.gpus[s]
                * problem.pace_s[s]
                * (
                    problem.scenario[a] == w
                    and problem.config_type[s] == k
                    and problem.bin[a] + d == b
                )
                for a, s, d in columns
            ]
        )
        limit.append(float(problem.size[k]) * problem.bin_s * nodes[k])
    found = linprog(np.zeros(len(columns)), upper, limit, equal, problem.work)
    return bool(found.status == 0)


def random_problem(seed: int) -> FleetProblem:
    draw = np.random.default_rng(seed)
    types, classes, scenarios = int(draw.integers(1, 4)), 2, int(draw.integers(1, 3))
    arrivals = {
        (int(draw.integers(scenarios)), int(draw.integers(classes)), int(draw.integers(3)))
        for _ in range(4)
    }
    keys = np.asarray(sorted(arrivals), dtype=np.int64)
    configs = [(c, k) for c in range(classes) for k in range(types) if draw.random() < 0.8]
    configs += [(c, 0) for c in range(classes)]
    count = len(configs)
    bin_s = 1000.0
    return FleetProblem(
        price=draw.integers(1, 6, types).astype(float),
        size=draw.integers(1, 9, types),
        most=draw.integers(1, 4, types),
        family=draw.integers(-1, 2, types),
        scenario=keys[:, 0],
        group=keys[:, 1],
        bin=keys[:, 2],
        work=draw.integers(20, 200, len(keys)).astype(float),
        jobs=draw.integers(1, 5, len(keys)),
        config_group=np.asarray([c for c, _ in configs]),
        config_type=np.asarray([k for _, k in configs]),
        gpus=draw.integers(1, 9, count).astype(float),
        pace_s=draw.integers(4, 30, count).astype(float),
        bin_s=bin_s,
        delay_s=float(draw.choice([500.0, 1000.0, 2500.0])),
        lost_s=100.0,
        budget=float(draw.choice([8.0, np.inf])),
    )


@pytest.mark.parametrize("seed", range(40))
def test_against_enumeration(seed: int) -> None:
    problem = random_problem(seed)
    fleets = itertools.product(*(range(int(most) + 1) for most in problem.most))
    costs = [problem.cost(np.asarray(nodes)) for nodes in fleets if served(problem, nodes)]
    found = optimum(problem)
    assert found == (None if not costs else pytest.approx(min(costs)))


def test_each_rule_is_named() -> None:
    problem = small()
    x = solve_model(build(problem)).x
    assert x is not None
    good = decode(problem, x)
    check(problem, good)
    later = flows_of(problem)
    arrival, _ = pairs_of(problem)

    def broken(rule: str, of: FleetProblem = problem, **changes: object) -> None:
        with pytest.raises(FleetError) as caught:
            check(of, replace(good, **changes))  # type: ignore[arg-type]
        assert caught.value.rule == rule

    broken("used", nodes=ints(6, 0))
    broken("budget", of=small(budget=1.0))
    broken("one_of_family", of=small(family=ints(0, 0)), nodes=ints(1, 1))
    broken("served", done=np.where(arrival == 0, 0.5 * good.done, good.done))
    broken("served", done=-good.done)
    broken("in_time", of=small(lost_s=900.0))
    broken("spread", flow=2.0 * good.flow)
    broken("capacity", nodes=ints(0, 0))
    assert later.shape[0] == good.flow.size
    assert isinstance(good, FleetAnswer)


def test_a_solver_s_last_digits_break_no_rule() -> None:
    problem = small()
    x = solve_model(build(problem)).x
    assert x is not None
    good = decode(problem, x)
    for sign in (-1.0, 1.0):
        near = 1.0 + 0.3 * sign * SOLVED
        check(problem, replace(good, done=near * good.done))
        check(problem, replace(good, flow=near * good.flow))
        check(small(budget=near * problem.cost(good.nodes)), good)
        far = 1.0 + 3.0 * sign * SOLVED
        with pytest.raises(FleetError, match="served"):
            check(problem, replace(good, done=far * good.done))
        with pytest.raises(FleetError, match="spread"):
            check(problem, replace(good, flow=far * good.flow))
    with pytest.raises(FleetError, match="budget"):
        check(small(budget=(1.0 - 3.0 * SOLVED) * problem.cost(good.nodes)), good)


def test_a_bin_holds_what_its_gpus_have_and_no_second_more() -> None:
    """200 units of 20 GPU-s each are all of four GPUs for 1000 s."""
    own = {"scenario": ints(0), "group": ints(0), "bin": ints(0), "jobs": ints(4)}
    for more, fits in ((1.0 + 0.3 * SOLVED, True), (1.0 + 3.0 * SOLVED, False)):
        problem = small(**own, work=floats(200.0 * more))
        at_once = flows_of(problem)[:, 3] == 0
        on_first = problem.config_type[pairs_of(problem)[1]] == 0
        flow = np.where(at_once & (flows_of(problem)[:, 1] == 0), 4000.0 * more, 0.0)
        answer = FleetAnswer(ints(1, 0), np.where(on_first, 200.0 * more, 0.0), flow)
        if fits:
            check(problem, answer)
        else:
            with pytest.raises(FleetError, match="capacity"):
                check(problem, answer)


@pytest.mark.parametrize(
    "changes",
    [
        {"price": floats(0.0, 1.0)},
        {"most": ints(1)},
        {"work": floats(0.0, 1.0, 1.0)},
        {"config_type": ints(0, 1, 2)},
        {"config_type": ints(0, 1, -1)},
        {"lost_s": 2000.0},
        {"group": ints(0, 2, 0)},
        {"bin": ints(0, 0, 0), "scenario": ints(0, 0, 0), "group": ints(0, 0, 0)},
    ],
)
def test_a_wrong_problem_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|need|unknown|class|duplicated"):
        small(**changes)


def test_golden_text() -> None:
    """Every row family once; read the difference before it is committed."""
    text = to_lp(build(small(family=ints(0, 0), budget=9.0)))
    families = ("served", "in_time", "spread", "capacity", "used", "one_of_family", "budget")
    assert all(f" {family}" in text for family in families)
    assert text == GOLDEN.read_text("utf-8"), "rewrite it: python -m tests.formulations.test_fleet"


if __name__ == "__main__":
    GOLDEN.write_text(to_lp(build(small(family=ints(0, 0), budget=9.0))), "utf-8")
