"""The aged cluster is possible, and no heuristic loses less than the moves that are proven."""

from __future__ import annotations

from benchmarks.consolidation import SERVERS, Greedy, aged, rows
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts


def test_servers_are_those_of_the_published_list() -> None:
    assert sum(count for _, _, count in SERVERS) == 4278
    assert sum(gpus * count for _, gpus, count in SERVERS) == 10412


def test_moves_lose_no_more_than_the_heuristics() -> None:
    snapshot = aged(load=0.3, days=0.5)
    state = snapshot.state
    check = BeliefChecks(snapshot.speeds).on(state.cluster)
    assert check.check(state.held.assignments, StateFacts.of(state)) == ()
    assert Greedy(snapshot)._empty() > 0
    found = list(rows(snapshot, [2], Limits(0.0, 60.0)))
    assert found
    for _, _, loss, gap, _, _, by_workloads, _, workloads, by_servers, _, servers in found:
        assert gap == 0.0
        assert by_workloads < 2 or loss <= workloads * (1 + 1e-6)
        assert by_servers < 2 or loss <= servers * (1 + 1e-6)
