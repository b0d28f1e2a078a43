"""Question `remove`: which nodes can go?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from morph_opt.core.domain import Cluster, InputError, Node
from morph_opt.core.domain.arguments import require_type
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.evaluate import Evaluator, Verdict
from morph_opt.plan.statement import Confirmations, Target
from morph_opt.plan.workloads import Source
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.slo import Slo


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of one type, leaf and NVLink domain, which differ by name alone."""

    name: str
    like: Node
    members: tuple[int, ...]


def classes_of(cluster: Cluster) -> tuple[NodeClass, ...]:
    """Return the classes of a cluster's nodes, in the order of their first nodes."""
    found: dict[tuple[str, str, str | None], list[int]] = {}
    for index, node in enumerate(cluster.nodes):
        key = node.type.name, node.leaf, node.nvlink_domain
        found.setdefault(key, []).append(index)
    flat = len({key[1:] for key in found}) == 1
    return tuple(
        NodeClass(
            key[0] if flat else "/".join(filter(None, key)), cluster.nodes[rows[0]], tuple(rows)
        )
        for key, rows in found.items()
    )


def with_one_more(cluster: Cluster, like: Node) -> Cluster:
    """Return the cluster with a further node like this one."""
    names = {node.name for node in cluster.nodes}
    name = next(f"{like.name}+{k}" for k in range(1, 10**6) if f"{like.name}+{k}" not in names)
    return replace(cluster, nodes=(*cluster.nodes, replace(like, name=name)))


def without(cluster: Cluster, members: Sequence[int]) -> Cluster:
    """Return the cluster without these nodes, and without leaves that become empty."""
    gone = set(members)
    nodes = tuple(node for k, node in enumerate(cluster.nodes) if k not in gone)
    left = {node.leaf for node in nodes}
    return replace(
        cluster, nodes=nodes, leaves=tuple(leaf for leaf in cluster.leaves if leaf.name in left)
    )


HEADER = ("removed", "workloads", "passed", "verdict", "metric", "decided_by")


@dataclass
class _Removal:
    """Removal of nodes one at a time; a step is a cluster and the class of the removed node."""

    evaluator: Evaluator
    source: Source
    base: Scenario
    target: Target
    first: Sequence[int]
    fresh: Sequence[int]
    whole: Cluster
    rows: list[list[str | int | float | None]] = field(default_factory=list)

    def test(self, cluster: Cluster, name: str) -> tuple[bool, float]:
        """Return whether the SLO holds on the exploration workloads, and the mean of its metric."""
        base = self.base.replaced(cluster=cluster)
        scenarios = [self.source.put(base, seed) for seed in self.first]
        verdicts = self.evaluator.verdicts(scenarios, self.target.slo, whole=True)
        passed, mean, by = _summed(verdicts)
        good = len(self.first) - passed <= self.target.may_fail(len(self.first))
        shown = mean if math.isfinite(mean) else None
        self.rows.append([name, len(self.first), passed, "pass" if good else "fail", shown, by])
        return good, mean

    def steps(self) -> list[tuple[Cluster, str]]:
        """Take steps while the SLO holds, each the one that costs the metric least."""
        gone: list[int] = []
        found: list[tuple[Cluster, str]] = []
        lower_is_better = self.target.slo.at_most is not None
        while len(gone) < len(self.whole.nodes) - 1:
            trials = []
            for one in classes_of(self.whole):
                left = [k for k in one.members if k not in gone]
                if left:
                    label = " + ".join([*(name for _, name in found), one.name])
                    good, mean = self.test(without(self.whole, [*gone, left[-1]]), label)
                    trials.append(
                        (not good, mean if lower_is_better else -mean, one.name, left[-1])
                    )
            worse, _, name, node = min(trials)
            if worse:
                break
            gone.append(node)
            found.append((without(self.whole, gone), name))
        return found

    def confirmed(self, steps: list[tuple[Cluster, str]]) -> list[tuple[Cluster, str]]:
        """Return the longest prefix of these steps that is confirmed on fresh workloads."""
        confirmations = Confirmations(self.evaluator, self.target, self.fresh)
        while steps:
            names = " + ".join(name for _, name in steps)
            base = self.base.replaced(cluster=steps[-1][0])
            found = confirmations.test(partial(self.source.put, base), f"{names} removed")
            passed, _, by = _summed(found.verdicts)
            word = "pass" if found.holds else "fail"
            asked = len(found.verdicts)
            self.rows.append([f"{found.stage}: {names}", asked, passed, word, None, by])
            if found.holds:
                break
            steps = steps[:-1]
        return steps


def _summed(verdicts: Sequence[Verdict]) -> tuple[int, float, str]:
    """Return the passes, the metric's mean (inf if some were not replayed), and the causes."""
    known = [v.value for v in verdicts if v.decided_by == "replay"]
    mean = sum(known) / len(known) if len(known) == len(verdicts) else math.inf
    by = " ".join(sorted({v.decided_by for v in verdicts}))
    return sum(v.passed for v in verdicts), mean, by


def remove(
    ask: Ask,
    slo: Slo | str,
    *,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    indifference: float | None = None,
    exploration: int = 10,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """Find nodes that can be removed, first those whose loss costs the service least.

    Nodes go one at a time as long as the SLO holds on the exploration workloads; what is left is
    confirmed on fresh ones, and a step is taken back where it is not.

    Parameters
    ----------
    ask, slo, of_workloads, confidence, indifference, exploration, seeds
        See `morph_opt.plan.nodes`; ``ask`` has the fleet.

    Raises
    ------
    InputError
        If the fleet as it is does not keep the SLO, or there are too few workloads.
    """
    require_type("ask", ask, Ask)
    target = Target.of(slo, of_workloads, confidence, indifference)
    first, fresh = target.workloads(seeds, exploration)
    ask, trust = ask.trusted("remove")
    source, whole = ask.source(), ask.scenario.cluster
    removal = _Removal(ask.evaluator("remove"), source, ask.scenario, target, first, fresh, whole)
    holds, _ = removal.test(whole, "nothing")
    if not holds:
        raise InputError(f"the fleet as it is does not keep {target.slo}", field="slo")
    steps = removal.confirmed(removal.steps())
    names = [name for _, name in steps]
    removed = {name: names.count(name) for name in dict.fromkeys(names)}
    text = ", ".join(f"{count} x {name}" for name, count in removed.items())
    said = f"{text} can go and {target} holds" if removed else "no node is shown to be able to go"
    left = len(steps[-1][0].nodes) if steps else len(whole.nodes)
    asked = ask.asked(
        slo=str(target.slo),
        of_workloads=of_workloads,
        confidence=confidence,
        indifference=target.margin,
    )
    figures = {"removed": removed, "nodes": left}
    return Answer(
        "remove",
        asked,
        (said,),
        figures,
        HEADER,
        removal.rows,
        source.notes,
        preface=trust.lines,
    )
