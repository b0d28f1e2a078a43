"""Question `compare`: differences over the same workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import Ask, require_decides
from morph_opt.plan.evaluate import Evaluator
from morph_opt.plan.parameters import SEARCH
from morph_opt.plan.questions.rule_prices import prices_of_rules
from morph_opt.plan.site import Noise, hindcast_of, knowing
from morph_opt.plan.stats import Paired, holm, paired, require_shares
from morph_opt.plan.workloads import distinct
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.slo import FIGURE, STATISTICS, Slo

HEADER = (
    "of", "mean", "difference", "lower", "upper", "p", "p_holm", "workloads", "variance_gain",
    "decided_by",
)  # fmt: skip


def metric_of(text: str) -> Slo:
    """Parse a statistic such as ``avg jct_s``, without a target.

    Raises
    ------
    InputError
        If it is none.
    """
    if FIGURE.fullmatch(text) is None or text.strip() in STATISTICS:
        rule = f"must look like 'avg jct_s' or 'makespan_s', got {text!r}"
        raise InputError(rule, field="metric")
    try:
        return Slo.parse(f"{text} <= 1e300")
    except InputError as error:
        raise InputError(error.rule, field="metric") from error


def _row(
    name: str, values: Sequence[float], found: Paired, adjusted: float
) -> list[str | int | float | None]:
    differs = found.mean, found.low, found.high, found.p
    return [name, sum(values) / len(values), *differs, adjusted, found.pairs, found.gain, "replay"]


def _versus(
    names: Sequence[str], values: Sequence[Sequence[float]], confidence: float
) -> tuple[list[list[str | int | float | None]], list[Paired]]:
    """Compare every variant with the first; return rows and comparisons."""
    found = [paired(values[0], other, confidence) for other in values[1:]]
    adjusted = holm({name: one.p for name, one in zip(names[1:], found, strict=True)})
    nothing = Paired(len(values[0]), 0.0, 0.0, 0.0, math.nan, math.nan)
    rows = [_row(names[0], values[0], nothing, math.nan)]
    for name, other, one in zip(names[1:], values[1:], found, strict=True):
        rows.append(_row(name, other, one, adjusted[name]))
    return rows, found


def sentence(name: str, than: str, metric: str, found: Paired, noise: Noise | None = None) -> str:
    """Put a paired difference into a sentence; one within the noise of the replay is no gain."""
    if noise is not None and noise.hides(found.mean):
        return (
            f"{name}: {metric} is within the noise of the replay of that with {than}: "
            f"{found.mean:+.6g} ({found.low:.6g} to {found.high:.6g}), and shaken replays of the "
            f"log spread by {noise.width:.6g}"
        )
    if math.isnan(found.low):
        sure = "one pair has no interval"
    elif found.low > 0.0 or found.high < 0.0:
        sure = "the interval leaves out 0"
    else:
        sure = "no difference is shown"
    return (
        f"{name}: {metric} is {abs(found.mean):.6g} {'lower' if found.mean < 0 else 'higher'} than "
        f"with {than} ({found.low:.6g} to {found.high:.6g}; {sure})"
    )


def compare(
    ask: Ask,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    metric: str = "avg jct_s",
    seeds: Sequence[int] = tuple(range(30)),
    confidence: float = 0.95,
    noise: bool = True,
) -> Answer:
    """Compare variants by paired differences over the same workloads.

    Parameters
    ----------
    ask
        Trace, cluster and everything that the variants have in common.
    variants
        Fields of the scenario by name of the variant; the first is the reference.
    metric
        ``avg jct_s``, ``p99 queued_s``, ``makespan_s`` ...
    seeds
        Seeds of the workloads.
    confidence
        Confidence level of the intervals.
    noise
        Whether to run the first variant's first workload with other solver seeds as well.

    Returns
    -------
    Answer
        Where variants differ in their rules, with a row per figure of `prices_of_rules` as well.

    Raises
    ------
    InputError
        If there are fewer than two variants or workloads, or a replay has no result.
    """
    require_type("ask", ask, Ask)
    require_shares(confidence=confidence)
    for name, fields in require_type("variants", variants, Mapping).items():
        require_type(f"variants: {name}", fields, Mapping)
    if len(variants) < 2:
        raise InputError("needs two things to compare", field="compare")
    seeds = distinct(seeds)
    if len(seeds) < 2:
        raise InputError("a comparison needs two workloads at least", field="seeds")
    statistic, source, evaluator = metric_of(metric), ask.source(), ask.evaluator("compare")
    bases, known = {}, []
    for name, fields in variants.items():
        base = ask.scenario.replaced(**fields)
        require_decides(base.scheduler)
        bases[name], line = knowing(base, stated=ask.stated or "durations" in fields)
        known += [] if line is None else [line]
    trust = hindcast_of(ask, ask.folder("compare"), statistic)
    names = list(bases)
    every = [source.put(base, seed) for base in bases.values() for seed in seeds]
    values = evaluator.values(every, statistic)
    per = [values[k * len(seeds) : (k + 1) * len(seeds)] for k in range(len(names))]
    rows, found = _versus(names, per, confidence)
    said = [
        sentence(name, names[0], metric, one, trust.noise)
        for name, one in zip(names[1:], found, strict=True)
    ]
    if len({base.scheduler.rules for base in bases.values()}) > 1:
        more_rows, more_said = prices_of_rules(evaluator.jobs(every), names, len(seeds), confidence)
        rows, said = [*rows, *more_rows], [*said, *more_said]
    notes = list(source.notes)
    figures: dict[str, Any] = {
        name: {"mean": one.mean, "lower": one.low, "upper": one.high, "p": one.p}
        for name, one in zip(names[1:], found, strict=True)
    } | trust.figures
    if len(seeds) < 6:
        notes.append("below 6 pairs the sign-flip test cannot reach p < 0.05")
    if noise:
        spread = noise_floor(evaluator, source.put(bases[names[0]], seeds[0]), statistic)
        if spread is not None:
            figures["noise_floor"] = spread
            notes.append(
                f"other seeds of the solver alone move {metric} of one workload by {spread:.4g}"
            )
    asked = ask.asked(variants=list(names), metric=metric, seeds=list(seeds), confidence=confidence)
    lines = tuple(dict.fromkeys((*trust.lines, *known)))
    return Answer("compare", asked, tuple(said), figures, HEADER, rows, tuple(notes), preface=lines)


def noise_floor(evaluator: Evaluator, scenario: Scenario, metric: Slo) -> float | None:
    """Return the largest difference between solver seeds; None for policies without a solver."""
    if scenario.scheduler.policy != "milp":
        return None
    others = [
        scenario.replaced(scheduler=replace(scenario.scheduler, seed=seed))
        for seed in range(SEARCH.noise_seeds)
    ]
    values = evaluator.values(others, metric)
    return max(values) - min(values)
