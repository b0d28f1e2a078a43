"""Nodes that can go: `remove`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from morph_opt.domain import Cluster, InputError
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask, split
from morph_opt.plan.comparing import classes_of, without
from morph_opt.plan.evaluate import Evaluator
from morph_opt.plan.search import Target
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import needed, share_at_least
from morph_opt.plan.workloads import Source
from morph_opt.replay.scenario import Scenario

HEADER = ("removed", "workloads", "passed", "verdict", "metric", "decided_by")


@dataclass
class _Removal:
    """Nodes going one at a time; each step is a cluster and the class that the node was of."""

    evaluator: Evaluator
    source: Source
    base: Scenario
    target: Target
    first: Sequence[int]
    fresh: Sequence[int]
    whole: Cluster
    rows: list[list[str | int | float | None]] = field(default_factory=list)

    def _verdicts(self, cluster: Cluster, seeds: Sequence[int]) -> tuple[int, float, str]:
        """Workloads that pass, mean of the metric where all were replayed, what decided."""
        base = self.base.replaced(cluster=cluster)
        verdicts = self.evaluator.verdicts(
            [self.source.put(base, seed) for seed in seeds], self.target.slo
        )  # fmt: skip
        known = [v.value for v in verdicts if v.decided_by == "replay"]
        mean = sum(known) / len(known) if len(known) == len(verdicts) else math.inf
        by = " ".join(sorted({v.decided_by for v in verdicts}))
        return sum(v.passed for v in verdicts), mean, by

    def test(self, cluster: Cluster, name: str) -> tuple[bool, float]:
        """Whether the SLO holds on the exploration workloads, and the mean of its metric."""
        passed, mean, by = self._verdicts(cluster, self.first)
        good = passed >= self.target.share * len(self.first) - 1e-9
        shown = mean if math.isfinite(mean) else None
        self.rows.append([name, len(self.first), passed, "pass" if good else "fail", shown, by])
        return good, mean

    def steps(self) -> list[tuple[Cluster, str]]:
        """As many steps as the SLO allows, each the one that costs the metric least."""
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
        """The most of these steps that are confirmed on fresh workloads."""
        begin, attempt = 0, 1
        while steps:
            share, confidence = self.target.share, self.target.confidence
            count = needed(share, confidence, attempt)
            seeds = self.fresh[begin : begin + count]
            if len(seeds) < count:
                raise InputError("no fresh workloads are left to confirm with", field="workloads")
            passed, _, by = self._verdicts(steps[-1][0], seeds)
            sure = 1.0 - (1.0 - confidence) / 2.0**attempt
            good = share_at_least(passed, count, sure) >= share
            label = f"confirm {attempt}: " + " + ".join(name for _, name in steps)
            self.rows.append([label, count, passed, "pass" if good else "fail", None, by])
            if good:
                break
            begin, attempt, steps = begin + count, attempt + 1, steps[:-1]
        return steps


def remove(
    ask: Ask,
    slo: Slo | str,
    *,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    exploration: int = 10,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """Nodes that can go, from the class whose loss costs the service least first.

    Nodes go one at a time as long as the SLO holds on the exploration workloads; what is left is
    confirmed on fresh ones, and a step is taken back where it is not.

    Raises
    ------
    InputError
        If the fleet as it is does not keep the SLO, or there are too few workloads.
    """
    target = Target(slo if isinstance(slo, Slo) else Slo.parse(slo), of_workloads, confidence)
    least = needed(of_workloads, confidence)
    every = tuple(seeds) if seeds is not None else tuple(range(exploration + 5 * least))
    first, fresh = split(every, exploration)
    if len(fresh) < least:
        raise InputError(
            f"{len(every)} workloads are fewer than the statement needs: {exploration} to explore "
            f"and {least} fresh ones to confirm",
            field="workloads",
        )
    source, whole = ask.source(), ask.whole_cluster
    removal = _Removal(
        ask.evaluator("remove"), source, ask.base, target, first, fresh, whole
    )  # fmt: skip
    holds, _ = removal.test(whole, "nothing")
    if not holds:
        raise InputError(f"the fleet as it is does not keep {target.slo}", field="slo")
    steps = removal.confirmed(removal.steps())
    names = [name for _, name in steps]
    removed = {name: names.count(name) for name in dict.fromkeys(names)}
    text = ", ".join(f"{count} x {name}" for name, count in removed.items())
    said = f"{text} can go and {target} holds" if removed else "no node is shown to be able to go"
    left = len(steps[-1][0].nodes) if steps else len(whole.nodes)
    asked = ask.asked(slo=str(target.slo), of_workloads=of_workloads, confidence=confidence)
    notes = (source.note,) if source.note else ()
    figures = {"removed": removed, "nodes": left}
    return Answer("remove", asked, (said,), figures, HEADER, removal.rows, notes)
