"""Sentences of a report: the summary, and the caption of every chart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from morph_opt.report.comparison import Comparison, number
from morph_opt.report.drawing.charts import MEASURES, finished, price_unit
from morph_opt.report.paired import SAME_S, Pairing
from morph_opt.simulation.metrics.losses import CAUSES
from morph_opt.simulation.runs.summary import Summary, Values
from morph_opt.simulation.runs.views.explanations import Price
from morph_opt.simulation.runs.views.series import Steps
from morph_opt.simulation.runs.views.view import RunView


def hours(seconds: float) -> str:
    """Format a duration as ``19.5 h``, or in minutes if short."""
    return f"{seconds / 3600.0:,.1f} h" if seconds >= 5400.0 else f"{seconds / 60.0:,.1f} min"


def share(part: float) -> str:
    """Format a share as percent with one digit."""
    return f"{100.0 * part:.1f} %"


def count(number_of: int, what: str) -> str:
    """Format a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number_of:,} {what}{'' if number_of == 1 else 's'}"


def summary_sentences(view: RunView) -> list[str]:
    """Describe a run in sentences."""
    s, values, nodes = view.run.summary, view.values, view.nodes
    kinds = ", ".join(f"{nodes.gpus_of_type(kind)} {kind}" for kind in nodes.types)
    of = f" ({kinds})" if nodes.known else ""
    sentences = [
        f"{view.name} ran {count(s.jobs, 'job')} of trace {s.trace} on "
        f"{count(len(nodes.names), 'node')} with {count(nodes.total, 'GPU')}{of}."
    ]
    if s.completed:
        sentences.append(
            f"{s.completed:,} of them completed, on average {s.avg_jct_s:,.0f} s after they were "
            f"submitted (median {s.median_jct_s:,.0f} s, 99 % within {s.p99_jct_s:,.0f} s); "
            f"{s.avg_queue_s:,.0f} s of that they waited."
        )
    bound = s.avg_jct_lower_bound_s
    if s.completed == s.jobs and bound > 0.0:
        sentences.append(
            f"No schedule has an average below {bound:,.0f} s: this one is "
            f"{s.avg_jct_s / bound:.2f} times that."
        )
    sentences.append(
        f"The run took {hours(view.end_s)} of simulated time; GPUs were held "
        f"{share(s.gpu_utilization)} of it{_productive(view)}."
    )
    sentences.append(
        f"There were {count(s.rounds, 'round')}, {s.restarts_per_job:.2f} restarts per job and "
        f"{count(s.preemptions, 'preemption')}{_lost(s)}."
    )
    if number(values.get("guaranteed_jobs")) > 0:
        sentences.append(
            f"{values['guaranteed_jobs']} jobs are guaranteed; in "
            f"{values['rounds_guarantees_short']} rounds a guarantee was short{_missed(values)}."
        )
    return sentences


def _lost(s: Summary) -> str:
    """Return words on the GPU-hours that stops and moves cost; "" if none."""
    causes = {name: getattr(s, f"gpu_hours_lost_{name}") for name in CAUSES}
    parts = [f"{hours:,.1f} {name}" for name, hours in causes.items() if hours >= 0.05]
    whole = s.gpu_s_held / 3600.0
    if not parts or math.isnan(s.gpu_hours_lost):
        return ""
    return f"; {s.gpu_hours_lost:,.1f} of {whole:,.1f} GPU-hours were lost ({', '.join(parts)})"


def _missed(values: Values) -> str:
    """Return words on the rounds with avoidably broken promises; "" if unknown."""
    missed = values.get("rounds_guarantees_missed")
    return "" if missed is None else f", in {missed} of them although all could be kept"


def _productive(view: RunView) -> str:
    part = number(view.values.get("gpu_productive_share"))
    return "" if math.isnan(part) else f", {share(part)} of which made progress"


def notices(view: RunView) -> list[str]:
    """Return warnings that a reader must know before believing any figure of the run."""
    s, values = view.run.summary, view.values
    found = []
    if values.get("trace_notice"):
        found.append(str(values["trace_notice"]))
    if values.get("ended") != "complete":
        found.append(
            f"The replay ended early ({values.get('ended')}): {s.jobs - s.completed} jobs are "
            "not complete."
        )
    if values.get("skipped_jobs"):
        found.append(
            f"{values['skipped_jobs']} jobs of the trace can never run here and were dropped."
        )
    if s.fallback_rounds:
        found.append(
            f"In {s.fallback_rounds} rounds the solver gave nothing in time and a heuristic "
            "decided."
        )
    if s.rounds_over_capacity:
        found.append(f"{s.rounds_over_capacity} rounds are over capacity: the run is not valid.")
    if not view.nodes.known:
        found.append("The folder has no config.toml: the sizes of nodes are guessed from the log.")
    return found


def verdict(comparison: Comparison, views: tuple[RunView, ...]) -> str:
    """Compare several runs in one sentence."""
    if comparison.obstacles:
        return "These runs are not comparable, so nothing is marked as best."
    averages = [view.run.summary.avg_jct_s for view in views]
    best = int(np.nanargmin(averages))
    return (
        f"The runs are of the same jobs on the same cluster; {views[best].name} has the lowest "
        f"average completion time, {averages[best]:,.0f} s."
    )


def gantt_caption(view: RunView) -> str:
    """Describe which jobs held the GPUs."""
    nodes, r = view.nodes, view.rectangles
    moved = sum(len(numbers) > 1 for numbers in view.segments_by_job.values())
    sentences = (
        f"{count(len(view.segments_by_job), 'job')} held GPUs in "
        f"{count(len(view.segments), 'segment')}, {r.gpu_s / 3600.0:,.1f} GPU-hours in all; "
        f"{count(moved, 'job')} held more than one set of GPUs."
    )
    if view.outages:
        sentences += f" Nodes were away {count(len(view.outages), 'time')} (hatched)."
    if (r.partner >= 0).any():
        sentences += " Two jobs on the same GPUs have half of the height each."
    return sentences + f" Nodes, from the top: {_some(nodes.names)}."


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{names[0]}, {names[1]}, ..., {names[-1]}"


def jobs_caption(view: RunView) -> str:
    """Describe the number of jobs over time."""
    rounds = view.run.rounds
    active = np.asarray(rounds.column("jobs"))
    queued = active - np.asarray(rounds.column("running"))
    if not active.size:
        return "No round was decided."
    return (
        f"Up to {count(int(active.max()), 'job')} were active at once, up to "
        f"{int(queued.max()):,} of them queued; after their decisions "
        f"{share(float((queued > 0).mean()))} of the rounds left jobs queued. "
        "The average queueing above also counts the wait for a round to come."
    )


def gpus_caption(view: RunView, held: Steps, productive: Steps) -> str:
    """Describe the number of GPUs over time."""
    edges = np.asarray([0.0, max(view.end_s, 1e-9)])
    mean, work = float(held.mean(edges)[0]), float(productive.mean(edges)[0])
    return (
        f"Of {count(view.nodes.total, 'GPU')} {mean:,.1f} were held on average and {work:,.1f} "
        f"made progress; at most {held.value.max():,.0f} were held at once."
    )


def rounds_caption(view: RunView) -> str:
    """Describe gaps and times of rounds."""
    s = view.run.summary
    sentences = (
        f"Half of the rounds took at most {s.round_ms_p50:,.1f} ms, "
        f"99 % at most {s.round_ms_p99:,.0f} ms"
    )
    if math.isnan(s.gap_max):
        return f"{sentences}; this policy proves no gap."
    return f"{sentences}; the largest gap left is {100.0 * s.gap_max:.2g} %."


def absent(view: RunView, prices: Sequence[Price]) -> list[str]:
    """Return sentences on the missing parts of the page, and how to get them."""
    if prices:
        return []
    if view.run.summary.objective is None:
        return ["Prices of GPUs are of MILP policies."]
    return ["Prices of GPUs and why jobs waited: run the replay with --explain."]


def short_caption(view: RunView) -> str:
    """Describe the guarantees that were missed."""
    values = view.values
    return (
        f"In {values.get('rounds_guarantees_short')} of {values.get('rounds')} rounds a "
        f"guaranteed job was below the speed that it was promised{_missed(values)}."
    )


def prices_caption(prices: Sequence[Price]) -> str:
    """Describe the prices of GPUs."""
    unit, factor = price_unit(prices)
    worth = np.asarray([price.per_gpu * factor for price in prices])
    return (
        f"What one more GPU is worth to the round, in {unit}: {worth.mean():.4g} on average, at "
        f"most {worth.max():.4g}; nothing in {share(float((worth <= 1e-12).mean()))} of the rounds."
    )


SHOWN_DISTRIBUTIONS = {column: name for column, (name, _) in MEASURES.items()}
"""Names of the drawn distributions, by column of jobs."""


def distribution_caption(views: Sequence[RunView], column: str, name: str) -> str:
    """Describe medians by run."""
    form = "{:,.2f}" if column == "stretch" else "{:,.0f} s"
    sentences = []
    for view in views[:8]:
        values = finished(view, column)
        if values.size:
            middle, high = np.quantile(values, (0.5, 0.9))
            sentences.append(f"{view.name} median {form.format(middle)}, 90 % {form.format(high)}")
    text = f"{name.capitalize()}: {'; '.join(sentences) or 'no job completed'}."
    whole = all(view.run.summary.completed == view.run.summary.jobs for view in views)
    if column == "jct_s" and whole:
        text += " The dotted line is what no schedule's average is below."
    return text


def pairs_caption(pairing: Pairing, first: str, second: str) -> str:
    """Describe which jobs gain."""
    changes = pairing.difference_s
    if not changes.size:
        return "No job completed in both runs."
    earlier, later = int((changes < -SAME_S).sum()), int((changes > SAME_S).sum())
    return (
        f"Of {changes.size:,} jobs that completed in both, {earlier:,} are complete earlier in "
        f"{second} than in {first} and {later:,} later; the mean difference is "
        f"{changes.mean():+,.0f} s, the median {np.median(changes):+,.0f} s. Jobs of one run are "
        "not independent of each other, so these are descriptions and no test."
    )


READING = (
    "JCT (job completion time) is the time from submission to completion, queueing the part of it "
    "without GPUs, stretch the JCT over the time with GPUs. Averages and quantiles are over jobs "
    "that completed.",
    "GPUs held include start-up; productive ones are past it. A job that completes inside a round "
    "leaves its GPUs idle until the next.",
    "The gap of a round is what its decision may be below the best possible one, proven; no "
    "schedule under these rules, whoever computes it, is below the bounds in the last row of the "
    "table of runs.",
    "Definitions of every figure: docs/metrics.md of morph-opt; of this page: docs/reports.md.",
)
NOT_MODELLED = (
    "Jobs on different GPUs do not slow each other down: what they reserve on network cards and "
    "uplinks fits, and then each runs as fast as it would alone.",
    "A restart takes the same time whatever the model's size, unless it is set per model.",
    "Nobody knows the future: rounds are optimised one at a time, and their proofs are about the "
    "round.",
    "Times of rounds are wall times of the machine that ran the replay; everything else is "
    "simulated time.",
)
