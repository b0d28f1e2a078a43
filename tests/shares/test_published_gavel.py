"""Published instances: the objective of every policy within 1e-6."""

import numpy as np
import pytest

from formulations.shares.problem import ShareProblem, check_shares
from morph_opt.shares.max_min import lp_solver
from morph_opt.shares.policies import finish_time, makespan, max_min, total_throughput
from tests.shares.worlds import fixture

SOLVE = lp_solver()


def answer(policy, problem, instance, solution):
    weight = np.array(instance["weights"])
    steps = np.array(instance["num_steps_remaining"])
    match policy:
        case "max_min_fairness_perf":
            return max_min(problem, weight, solve=SOLVE)
        case "max_min_fairness":
            return max_min(problem, weight, aware=False, solve=SOLVE)
        case "finish_time_fairness_perf":
            since = np.array(instance["times_since_start"])
            isolated = np.array(solution["cumulative_isolated_time"])
            return finish_time(problem, steps, since, isolated, solve=SOLVE)
        case "min_total_duration_perf":
            return makespan(problem, steps, solve=SOLVE)
        case "max_sum_throughput_perf":
            return total_throughput(problem, solve=SOLVE)
    raise AssertionError(f"no such policy: {policy}")


def test_every_instance_and_policy():
    instances = fixture("gavel.json")["instances"]
    assert instances
    for instance in instances:
        capacity = [float(instance["cluster"][kind]) for kind in instance["worker_types"]]
        problem = ShareProblem(
            np.array(instance["throughputs"]),
            np.array(instance["scale_factors"]),
            np.array(capacity),
            oversize=True,
        )
        for policy, solution in instance["solutions"].items():
            found = answer(policy, problem, instance, solution)
            place = f"{instance['id']} {policy}"
            assert found.objective == pytest.approx(solution["exact_objective"], rel=1e-6), place
            check_shares(problem.agnostic() if policy == "max_min_fairness" else problem, found.x)
