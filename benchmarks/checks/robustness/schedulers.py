"""Good documents of schedulers, invented as those of tests/round/live are."""

from __future__ import annotations

import json

from tests.round.live import test_kueue as kueue
from tests.round.live import test_slurm as slurm


def squeue() -> list[bytes]:
    """What ``squeue --json`` prints."""
    document = {"jobs": slurm.JOBS, "last_update": slurm.number(5000), "meta": {}}
    return [json.dumps(document).encode()]


def slurm_nodes() -> list[bytes]:
    """What ``scontrol show nodes --json``, or ``sinfo --json`` of 22.05, prints."""
    return [json.dumps({"nodes": slurm.NODES, "last_update": 5000}).encode()]


def workloads() -> list[bytes]:
    """What ``kubectl get workloads -A -o json`` prints."""
    items = [
        kueue.admitted(kueue.workload("runs", 1, 4), "a", 4),
        kueue.workload("waits", 2, 2, minute=1),
    ]
    return [json.dumps({"kind": "List", "items": items}).encode()]


def kubernetes() -> list[bytes]:
    """Nodes and queues in one list."""
    items = [kueue.node("n1", 8), kueue.node("n2", 8, unschedulable=True), *kueue.QUEUES]
    return [json.dumps({"kind": "List", "items": items}).encode()]


def kueue_site() -> list[bytes]:
    """What a policy of Kueue is configured by: queues, flavors, and Kueue's own configuration."""
    more = {"kind": "Configuration", "waitForPodsReady": {"timeout": "5m"},
            "admissionFairSharing": {"usageHalfLifeTime": "168h"}}  # fmt: skip
    cohort = {"kind": "Cohort", "metadata": {"name": "lab"}, "spec": {"parentName": "site"}}
    items = [*kueue.QUEUES, kueue.node("n1", 8), cohort, more]
    return [json.dumps({"kind": "List", "items": items}).encode()]


def accounting() -> bytes:
    """What ``sacct`` prints."""
    return b"""JobIDRaw|Partition|Submit|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList
1|gpu|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T02:00:00|COMPLETED|1|gres/gpu=2|gres/gpu=2|a
2|gpu|2026-01-01T00:10:00|2026-01-01T01:30:00|2026-01-01T02:00:00|FAILED|1|gres/gpu=1|gres/gpu=1|b
"""
