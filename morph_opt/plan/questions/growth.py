"""Question `growth`: at which load does a fleet break?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.statement import Target
from morph_opt.plan.stats import needed, share_at_least, share_interval
from morph_opt.plan.workloads import distinct
from morph_opt.simulation.runs.slo import Slo

HEADER = ("load", "workloads", "passed", "lower", "upper", "verdict", "decided_by")


def growth(
    ask: Ask,
    slo: Slo | str,
    loads: Sequence[float],
    *,
    of_workloads: float = 0.9,
    confidence: float = 0.95,
    seeds: Sequence[int] | None = None,
) -> Answer:
    """Find the first load factor at which an SLO no longer holds on a fleet.

    Each load is tested once, on the same seeds, so that a larger load has the jobs of a smaller one
    and more; the loads together err with at most ``1 - confidence`` (Bonferroni).

    Parameters
    ----------
    ask, slo, of_workloads, confidence, seeds
        See `morph_opt.plan.nodes`; ``ask`` has the fleet.
    loads
        Factors on the number of jobs, ascending; 1.0 is the load of ``ask``.

    Raises
    ------
    InputError
        If there are too few workloads for the statement, or the loads do not ascend.
    """
    require_type("ask", ask, Ask)
    target = Target.of(slo, of_workloads, confidence)
    loads = require_each("loads", loads, float)
    if not loads or any(b <= a for a, b in pairwise(loads)):
        raise InputError("must ascend", field="--load")
    sure = 1.0 - (1.0 - confidence) / len(loads)
    count = needed(of_workloads, 1.0 - 2.0 * (1.0 - sure))
    given = distinct(seeds) if seeds is not None else tuple(range(count))
    if len(given) < count:
        rule = f"{len(given)} workloads are fewer than the statement needs: {count} for each load"
        raise InputError(rule, field="workloads")
    ask, trust = ask.trusted("growth")
    evaluator, base = ask.evaluator("growth"), ask.scenario
    rows: list[list[str | int | float | None]] = []
    holding: list[bool] = []
    for load in loads:
        source = ask.source(ask.load * load)
        verdicts = evaluator.verdicts([source.put(base, seed) for seed in given], target.slo)
        passed = sum(verdict.passed for verdict in verdicts)
        low, high = share_interval(passed, len(verdicts), confidence)
        holding.append(share_at_least(passed, len(verdicts), sure) >= of_workloads)
        by = sorted({verdict.decided_by for verdict in verdicts})
        row: list[str | int | float | None] = [load, len(verdicts), passed, low, high]
        rows.append([*row, "holds" if holding[-1] else "not shown", " ".join(by)])
    asked = ask.asked(
        slo=str(target.slo), loads=list(loads), of_workloads=of_workloads, confidence=confidence
    )
    breaks, said, notes = _broken(loads, holding, target, ask.scenario.cluster.name)
    figures = {"breaks_at": breaks, "workloads": len(given)}
    every = (*notes, *ask.source().notes)
    return Answer("growth", asked, (said,), figures, HEADER, rows, every, preface=trust.lines)


def _broken(
    loads: Sequence[float], holding: Sequence[bool], target: Target, fleet: str
) -> tuple[float | None, str, list[str]]:
    """Return the first load that fails, the answer in words, and notes on loads that pass again."""
    if all(holding):
        return None, f"{fleet} keeps {target} at every load up to x{loads[-1]:g}", []
    first = list(holding).index(False)
    notes = [
        f"not monotone: {target.slo} holds again at a load of {load:g}"
        for load, holds in zip(loads[first:], holding[first:], strict=True)
        if holds
    ]
    return loads[first], f"{fleet} keeps {target} below a load of x{loads[first]:g}", notes
