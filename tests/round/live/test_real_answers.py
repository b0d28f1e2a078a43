"""Answers of two releases of Slurm to one scene, made by `benchmarks.checks.live.answers`.

Job 1 has 12 GPUs on n1 and n2, job 2, of another user, six on n3 by task, job 3 has n4 for itself,
job 4, of that other user, all of n6, and job 5, on n5, was requeued. n7 is under maintenance, n8
drained. Of the jobs that wait, 6 names n1, 7 bars n2 to n5, 8 wants the feature of n6, 9 has two
components, 11 wants a node for itself, 12 has a begin time ahead, and 13 is plain. None is
accounted for: no list of resources has GPUs in it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from morph_opt.round.live.build import Live
from morph_opt.round.live.slurm import slurm_round
from morph_opt.scheduling.decision.rules.model import NodeRule

ANSWERS = Path(__file__).resolve().parent / "answers"
RELEASES = {"22.05.8": "sinfo", "24.11.5": "scontrol"}
"""By what the nodes are listed (L1)."""
ALL = tuple(range(8))


def live(release: str, jobs: str) -> Live:
    found = []
    for name in (jobs, RELEASES[release]):
        text = gzip.decompress((ANSWERS / release / f"{name}.json.gz").read_bytes())
        found.append((name, json.loads(text)))
    return slurm_round(found)


def held(found: Live) -> dict[str, dict[str, tuple[int, ...]]]:
    """GPUs by node of what runs."""
    nodes = found.snapshot.state.cluster.nodes
    return {
        known.job.name: {nodes[i].name: gpus for i, gpus in known.running.placement.parts}
        for known in found.snapshot.state.jobs
        if known.running is not None
    }


@pytest.mark.parametrize("release", RELEASES)
def test_running_jobs_hold_the_gpus_in_their_details(release: str) -> None:
    """L3, L7: by job, by task, on uneven nodes; a job with a node for itself."""
    found = live(release, "squeue")
    assert held(found) == {
        "1": {"n1": ALL, "n2": ALL[:4]},
        "2": {"n3": ALL[:6]},
        "3": {"n4": ALL},
        "4": {"n6": ALL},
        "5": {"n5": ALL[:4]},
    }


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("jobs", ["squeue", "squeue_of_a_user"])
def test_closed_nodes_and_node_limits_are_read_from_slurm(release: str, jobs: str) -> None:
    """L2, L5, L6, L7, L8, L12: flags, lists of nodes, features, components, begin times."""
    found = live(release, jobs)
    state, rules = found.snapshot.state, found.snapshot.rules
    closed = {state.cluster.nodes[i].name for i in state.unavailable}
    assert closed == {"n4", "n7", "n8"}
    assert rules is not None
    own = [rule for rule in rules.rules if isinstance(rule, NodeRule)]
    assert {rule.jobs[0]: set(rule.only_nodes) for rule in own} == {
        "6": {"n1"},
        "7": {"n1", "n6", "n7", "n8"},
        "8": {"n6"},
        "11": {"n7", "n8"},
    }
    waits = {known.job.name for known in state.jobs if known.running is None}
    assert waits == {"6", "7", "8", "11", "13"}
    assert set(found.held) == {"9+0", "9+1", "12"}
    assert "heterogeneous job 9" in found.held["9+0"]
    assert "BeginTime" in found.held["12"]
    assert "1 records are of jobs that ran before" in " ".join(found.notes)


@pytest.mark.parametrize("release", RELEASES)
def test_gpus_of_hidden_jobs_are_not_given_away(release: str) -> None:
    """L4: jobs 2 and 4 are of another user, under ``PrivateData=jobs``."""
    found = live(release, "squeue_of_a_user")
    assert held(found).keys() == {"1", "3", "5", "in use on n3", "in use on n6"}

    def taken(one: Live) -> set[tuple[str, tuple[int, ...]]]:
        return {part for parts in held(one).values() for part in parts.items()}

    assert taken(found) == taken(live(release, "squeue"))
    note = "GPUs in use by no job that squeue shows are left alone: 6 on n3, 8 on n6"
    assert note in found.notes
