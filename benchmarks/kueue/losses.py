"""What victims lose, ours against Kueue's: ``python -m benchmarks.kueue.losses FOLDER``.

The cases are those of ``python -m benchmarks.kueue`` in which a workload is admitted by preemption,
of one resource of one flavor. Each becomes a round on one node: amounts are GPUs, cohorts and
cluster queues a tree of ``[[queue]]``, every priority a ``[[class]]``; Kueue's own rules about
preemption are left out. A stop loses a minute and all since the reservation, times the amount. The
status is 1 if our victims lose more than Kueue's in a case.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.kueue.documents import Case
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.domain import (
    A800_NODE,
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    Node,
    NodeType,
    Placement,
    RoundState,
    Shape,
)
from morph_opt.core.table import Table
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import ANY_TYPE, PriorityClass, Queue
from morph_opt.scheduling.kueue.workloads import exact
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_policy

DP = ExecutionPlan.parse("dp")
NOW_S, RESTART_S = 1e6, 60.0
KINDS = ("preemption", "preemption-hierarchical", "preemption-fair")


@dataclass(frozen=True)
class Compared:
    """Victims of one case and what they lose.

    Parameters
    ----------
    ours, theirs
        Names of the victims.
    lost, theirs_lost
        What they lose, in GPU-seconds.
    starts
        Whether the workload starts by our victims.
    """

    ours: frozenset[str]
    theirs: frozenset[str]
    lost: float
    theirs_lost: float
    starts: bool


def compared(case: Case) -> Compared | None:
    """Return the victims of a case; None if it is about several resources or flavors."""
    slots = {
        (one["flavor"], resource)
        for row in case["assignment"]
        for resource, one in row["flavors"].items()
        if one["mode"] == "Preempt"
    }
    theirs = frozenset(name.rpartition("/")[2] for name in case["expect"]["preempted"])
    if len(slots) != 1 or not theirs:
        return None
    ((flavor, resource),) = slots
    tree = dict(_tree(case, flavor, resource))
    held = [row for row in case["workloads"] if _counts(row, tree, flavor, resource)]
    if not theirs <= {row["name"] for row in held}:
        return None
    asked = {row["name"]: _amount(row, resource) for row in (*held, case["incoming"])}
    stated = [*asked.values(), *(n for _, *some in tree.values() for n in some if n is not None)]
    unit = math.gcd(*stated)
    state = _state(case, held, {name: amount // unit for name, amount in asked.items()}, tree, unit)
    rules = OperatorRules((*_queues(tree, unit), *_classes(state)))
    speeds = MeasuredTable(
        Measurement(
            one.job.model, _kind(state).gpu_type.name, Shape((one.job.requested_gpus,)), DP, 1.0
        )
        for one in state.jobs
    )
    policy = make_policy("milp", speeds, PolicyOptions(objective="jct", rules=rules, gap=0.0))
    after = policy.decide(state).allocation.by_job()
    ours = frozenset(one.job.name for one in state.jobs if one.running) - after.keys()
    loss = {
        one.job.name: one.job.requested_gpus * (RESTART_S + one.lost_s(NOW_S)) for one in state.jobs
    }
    lost, theirs_lost = (sum(loss[name] for name in names) for names in (ours, theirs))
    return Compared(ours, theirs, lost, theirs_lost, case["incoming"]["name"] in after)


Limits = tuple[str, int, int | None, int | None]
"""Parent of a queue or cohort, its nominal amount, its borrowing and its lending limit."""


def _tree(case: Case, flavor: str, resource: str) -> Iterator[tuple[str, Limits]]:
    """Yield the queues and cohorts of the tree of the incoming workload."""
    rows = {row["name"]: (row.get("parent", ""), row["groups"]) for row in case["cohorts"]}
    for row in case["cluster_queues"]:
        rows[row["name"]] = row["cohort"], row["groups"]
        if row["cohort"]:
            rows.setdefault(row["cohort"], ("", []))

    def root(name: str) -> str:
        above = rows[name][0]
        return root(above) if above else name

    mine = root(case["incoming"]["cluster_queue"])
    for name, (parent, groups) in rows.items():
        if root(name) == mine:
            found = [
                one["resources"].get(resource, {})
                for group in groups
                for one in group
                if one["flavor"] == flavor
            ]
            limits = found[0] if found else {}
            borrow, lend = (limits.get(f"{word}_limit") for word in ("borrowing", "lending"))
            yield (
                name,
                (
                    parent,
                    exact(limits.get("nominal", 0)),
                    None if borrow is None or not parent else exact(borrow),
                    None if lend is None or not parent else exact(lend),
                ),
            )


def _queues(tree: Mapping[str, Limits], unit: int) -> Iterator[Queue]:
    for name, (parent, _, borrow, lend) in tree.items():
        limits = [{} if n is None else {ANY_TYPE: n / unit} for n in (borrow, lend)]
        yield Queue(name, parent, {ANY_TYPE: _owned(tree, name) / unit}, *limits)


def _owned(tree: Mapping[str, Limits], name: str) -> int:
    """Return the nominal amount of a queue with those below it."""
    return tree[name][1] + sum(_owned(tree, one) for one, row in tree.items() if row[0] == name)


def _classes(state: RoundState) -> list[PriorityClass]:
    priorities = sorted({one.job.priority for one in state.jobs})
    return [PriorityClass(f"p{at:g}", (at, at)) for at in priorities]


def _counts(row: Case, tree: Mapping[str, Limits], flavor: str, resource: str) -> bool:
    """Return whether a workload holds something of the flavor in the tree."""
    admission = row.get("admission")
    if not admission or admission["cluster_queue"] not in tree:
        return False
    return flavor in (pods["flavors"].get(resource) for pods in admission["pod_sets"])


def _amount(row: Case, resource: str) -> int:
    return sum(pods["count"] * exact(pods["requests"].get(resource, 0)) for pods in row["pod_sets"])


def _kind(state: RoundState) -> NodeType:
    return state.cluster.nodes[0].type


def _state(
    case: Case, held: list[Case], gpus: Mapping[str, int], tree: Mapping[str, Limits], unit: int
) -> RoundState:
    """Return the round: what is admitted runs on one node, and the incoming workload waits."""
    owned = sum(_owned(tree, name) for name, row in tree.items() if not row[0]) // unit
    size = max(owned, sum(gpus[row["name"]] for row in held))
    states, first = [], 0
    for row in held:
        job = _job(row, row["admission"]["cluster_queue"], gpus)
        start_s = NOW_S + float(row["admission"].get("reserved_s") or 0.0)
        placement = Placement.of({0: range(first, first + job.requested_gpus)})
        first += job.requested_gpus
        states.append(
            JobState(
                job,
                running=Assignment(job.name, DP, placement),
                restart_s=RESTART_S,
                first_start_s=start_s,
                last_start_s=start_s,
                checkpointed_s=min(NOW_S, start_s),
            )
        )
    incoming = case["incoming"]
    waits = JobState(_job(incoming, incoming["cluster_queue"], gpus), restart_s=RESTART_S)
    where = Cluster("one node", (Node("n", replace(A800_NODE, name="n", gpus=size)),))
    return RoundState(0, NOW_S, 60.0, where, (*states, waits))


def _job(row: Case, queue: str, gpus: Mapping[str, int]) -> Job:
    name = row["name"]
    priority = float(row.get("priority") or 0)
    return Job(name, name, 0.0, 10**6, gpus[name], DP, tenant=queue, priority=priority)


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.kueue.losses", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    return parser


def main() -> int:
    """Print a row per kind of case, and return 1 if our victims lose more in one."""
    return run_command(make_parser(), _run, None)


HEADER = ("cases", "compared", "workload starts", "the same victims", "we lose less", "more")


def _run(given: argparse.Namespace) -> int:
    rows = []
    for kind in KINDS:
        file = given.folder / f"{kind}.json"
        if not file.exists():
            continue
        cases = json.loads(file.read_text("utf-8"))["cases"]
        found = [one for case in cases if (one := compared(case)) is not None]
        rows.append(
            (
                kind,
                len(found),
                sum(one.starts for one in found),
                sum(one.ours == one.theirs for one in found),
                sum(one.lost < one.theirs_lost for one in found if one.starts),
                sum(one.lost > one.theirs_lost for one in found),
            )
        )
    print(Table(HEADER, rows))
    return int(any(row[-1] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
