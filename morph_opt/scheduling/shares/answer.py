"""Answer for one instance of a file: shares, value and proof, ready for JSON."""

from __future__ import annotations

from typing import Any

from formulations.shares.problem import check_shares
from morph_opt.core.domain import InputError
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.request import shares_of
from morph_opt.scheduling.shares.share_file import ShareInstance


def solve_instance(instance: ShareInstance, policy: str) -> dict[str, Any]:
    """Return the answer for one instance, ready for JSON.

    Raises
    ------
    InputError
        If the instance lacks what the policy needs, or breaks one of its rules.
    """
    instance.require(policy)
    request = instance.request
    problem = request.problem.agnostic() if policy == "fairness-agnostic" else request.problem
    try:
        found = shares_of(policy, request, lp_solver())
        check_shares(problem, found.x, found.pair_x if problem.pairs.count else None)
    except ValueError as error:
        raise InputError(str(error), field=instance.name) from None
    return {
        "id": instance.name,
        "policy": policy,
        "objective": found.objective,
        "bound": found.bound,
        "worker_types": list(instance.types),
        "shares": found.x.tolist(),
        "pair_shares": found.pair_x.tolist() if problem.pairs.count else [],
        "dropped_slos": list(found.dropped),
    }
