"""Page of a report: sentences, tables and charts of runs in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from morph_opt.core.documents.source import packaged_text
from morph_opt.core.documents.style import PALETTE
from morph_opt.core.table import Table
from morph_opt.report import documents, tabular, words
from morph_opt.report.comparison import Comparison, compare
from morph_opt.report.drawing.gantt import MOST_RECTANGLES, Detail
from morph_opt.report.groups import groupings
from morph_opt.report.pairs import Pairs
from morph_opt.simulation.runs.views.explanations import (
    Price,
    is_explained,
    read_prices,
    read_waits,
)
from morph_opt.simulation.runs.views.series import gpus_held
from morph_opt.simulation.runs.views.view import RunView


def build_page(views: Sequence[RunView]) -> str:
    """Build the HTML of a report on these runs, at least one.

    Raises
    ------
    InputError
        If Bokeh is not installed, or a file of a run folder is damaged.
    """
    for view in views:
        view.read()
    prices = [read_prices(view) for view in views]
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    comparison = compare(views)
    pairs = Pairs.of(views)
    packed: list[tuple[str, documents.Packed]] = []
    for place, view in enumerate(views):
        drawn = documents.run_document(view, _end_s(view, views), prices[place])
        packed.append((f"run-{place}", drawn))
        if is_explained(view):
            packed.append((f"waits-{place}", documents.waits_data(view, read_waits(view))))
    packed.append(("overview", documents.overview_document(views, pairs)))
    if pairs.found and len(views) > 2:
        packed.append(("pairs", documents.pairs_data(pairs)))
    bokeh_version, script = documents.bokeh_script()
    organisation = tabular.organisation(views)
    summary = _summary(views, comparison)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string(_asset("page.html"))
    rows = list(zip(comparison.names, comparison.rows, strict=True))
    return template.render(
        title=_title(views),
        description=" ".join(summary)[:600],
        summary=summary,
        obstacles=comparison.obstacles,
        comparison=comparison,
        rows=rows,
        bounds=any(comparison.bounds),
        pairs=pairs.described(pairs.shown) if pairs.found else None,
        chosen=pairs.shown if pairs.found else None,
        runs=[
            _run(place, view, prices[place], dict(packed)[f"run-{place}"].roots, len(views) > 1)
            for place, view in enumerate(views)
        ],
        palette=PALETTE,
        distributions=_distributions(views),
        quantiles=_html(tabular.quantiles(views)),
        by_group=_html(tabular.by_group(views)),
        organisation=None if organisation is None else _html(organisation),
        reading=words.READING,
        not_modelled=words.NOT_MODELLED,
        version=version("morph-opt"),
        bokeh_version=bokeh_version,
        bokeh=script,
        documents=packed,
        css=Markup(_asset("page.css")),
        script=Markup(_asset("page.js")),
    )


def _end_s(view: RunView, views: Sequence[RunView]) -> float:
    """Return the end of the time axis, the same for runs of one trace."""
    digest = view.run.summary.trace_sha256
    return max(other.end_s for other in views if other.run.summary.trace_sha256 == digest)


def _asset(name: str) -> str:
    return packaged_text(__package__, "assets", name)


def _html(table: Table) -> Any:
    """Return a table as markup with escaped cells."""
    from markupsafe import Markup

    return Markup(table.to_html())


def _title(views: Sequence[RunView]) -> str:
    traces = dict.fromkeys(view.run.summary.trace for view in views)
    if len(views) == 1:
        return f"{views[0].name} on {views[0].run.summary.trace}"
    return f"{len(views)} runs of {', '.join(list(traces)[:3])}" + (", ..." * (len(traces) > 3))


def _summary(views: Sequence[RunView], comparison: Comparison) -> list[str]:
    if len(views) == 1:
        return words.summary_sentences(views[0])
    first = words.summary_sentences(views[0])[:1] if not comparison.obstacles else []
    return [words.verdict(comparison, tuple(views)), *first]


def _run(
    place: int, view: RunView, prices: Sequence[Price], roots: Sequence[str], of_several: bool
) -> Mapping[str, Any]:
    return {
        "index": place,
        "name": view.name,
        "notices": words.notices(view),
        "sentences": words.summary_sentences(view) if of_several else (),
        "groups": groupings(view),
        "gantt_hint": _hint(view),
        "charts": _charts(view, prices, roots),
        "absent": words.absent(view, prices),
        "origin": _html(tabular.origin(view)),
        "config": view.config,
        "nodes": json.dumps(view.nodes.names),
        "end_s": view.end_s,
    }


def _hint(view: RunView) -> str:
    detail = Detail.of(view)
    if not detail.by_gpu:
        return (
            f"More than {MOST_RECTANGLES:,} rectangles: the share of each node in use is drawn, "
            "the darker the more."
        )
    if detail.by_node:
        return (
            "The share of each node in use, the darker the more; single GPUs and jobs appear "
            "where you zoom in on few nodes."
        )
    return (
        "The light part of a bar is start-up. Press a group to see it alone, tap a bar to "
        "follow its job; the toolbar zooms, and all charts below zoom along."
    )


def _charts(
    view: RunView, prices: Sequence[Price], roots: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the names of the charts, in the order of the page."""
    held, productive = gpus_held(view), gpus_held(view, productive=True)
    bins = tabular.bins(view, held, productive)
    rounds = tabular.rounds(view)
    known: dict[str, tuple[str, str, Table]] = {
        "gantt": ("GPUs by node", words.gantt_caption(view), tabular.nodes(view)),
        "jobs-chart": ("Jobs", words.jobs_caption(view), bins),
        "gpus-chart": ("GPUs", words.gpus_caption(view, held, productive), bins),
        "gaps-chart": ("Gap left by each round", words.rounds_caption(view), rounds),
        "times-chart": ("Wall time of each round", words.rounds_caption(view), rounds),
        "short-chart": ("Guarantees short", words.short_caption(view), tabular.shortfalls(view)),
    }
    if prices:
        caption = words.prices_caption(prices)
        known["prices-chart"] = ("Price of a GPU", caption, tabular.prices(prices))
    shown = ((root, *known[root]) for root in roots if root in known)
    return [
        {"root": root, "title": title, "caption": caption, "table": _html(table)}
        for root, title, caption, table in shown
    ]


def _distributions(views: Sequence[RunView]) -> list[Mapping[str, str]]:
    return [
        {"root": f"cdf-{name}", "caption": words.distribution_caption(views, column, name)}
        for column, name in words.SHOWN_DISTRIBUTIONS.items()
    ]
