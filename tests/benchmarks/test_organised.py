"""Rounds of organisations at scale: a small one, and kinds of rules that do not exist."""

from __future__ import annotations

import pytest

from benchmarks.instances.scaled import first_round, round_after
from benchmarks.scale.organised import main, organised, rules_of
from morph_opt.core.domain import Allocation


def test_jobs_keep_their_queue_and_the_tree_owns_the_cluster() -> None:
    state = organised(first_round(96, 1))
    after = organised(round_after(state, Allocation(())))
    queues = {known.job.name: known.job.tenant for known in state.jobs}
    assert {known.job.name: known.job.tenant for known in after.jobs} == queues
    tree = rules_of("tree+limits+classes", state.cluster).tree
    assert sum(tree.queues[0].nominal.values()) == 96
    assert len(tree.queues) == 221


def test_unknown_kinds_of_rules_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rules", "tree+shrubs"]) == 2
    assert "must join some of none, tree, limits, classes" in capsys.readouterr().err
