"""The page of ``reports/planning``, from the files that the parts have written."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from morph_opt.documents import exists, read_json
from morph_opt.table import Table

HEAD = (
    "Written by `python -m benchmarks.planning`; what is not on this page was not run. Questions "
    "and statistics: [docs/planning.md](../../docs/planning.md)."
)


def page(folder: Path) -> str:
    """What is there, part by part."""
    parts = ["# Planning, measured", _filled(HEAD)]
    for name, written in (("statistics", _statistics), ("load", _load), ("eta", _eta)):
        file = folder / f"{name}.json"
        if exists(file):
            parts += written(read_json(file))
    return "\n\n".join(parts) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return Table(header, rows, "l").to_markdown(spaced=True)


def _statistics(found: Any) -> list[str]:
    times = found["repetitions"]
    rows = [
        (one["interval"], one["workloads"], f"{one['says']:.0%}", f"{one['held'] / one['of']:.1%}")
        for one in found["coverage"]
    ]
    return [
        "## Do the statistics hold what they say?",
        _filled(
            "`plan nodes` on M/M/k queues of 2,000 jobs, with the target between the mean waits of "
            "the formula's k and of k - 1 servers, in 90 % of workloads at 95 %: it named the k of "
            f"Erlang's formula in **{found['right']} of {times}** repetitions."
        ),
        _filled(
            f"Intervals over workloads of such a queue, {found['coverage'][0]['of']} repetitions "
            "each (`share at least` is exact for every share, so it may only hold more often):"
        ),
        _table(("interval", "workloads", "says", "held the truth"), rows),
    ]


def _load(found: Any) -> list[str]:
    by_policy: dict[str, list[Any]] = {}
    for name, one in found.items():
        by_policy.setdefault(name.rpartition(" x")[0], []).append(one["figures"]["nodes"])
    rows = [
        (f"`{name}`", *nodes, nodes[1] - nodes[0])
        for name, nodes in by_policy.items()
        if len(nodes) == 2
    ]
    first = next(iter(found.values()))["asked"]
    said = [
        f"- `{name}`: {'; '.join(one['said'])}; {one['figures']['replays']} replays, sizes refused "
        f"by bounds: {', '.join(map(str, one['figures']['refused_by_bounds'])) or 'none'}; "
        f"{one['seconds'][0]:.0f} s, asked again {one['seconds'][1]:.1f} s"
        for name, one in found.items()
    ]
    return [
        "## What does another 1.3 times the load cost?",
        _filled(
            f"Nodes of 8 A800 that keep `{first['slo']}` in {first['of_workloads']:.0%} of "
            f"workloads of `{first['trace']}` with a confidence of {first['confidence']:.0%}, "
            f"{first['exploration']} workloads to explore with:"
        ),
        _table(("policy", "nodes", "nodes at x1.3", "more"), rows),
        "\n".join(said),
        "![Mean of the service with its interval over the price of the fleet](cost.svg)",
        "![Share of workloads that reach the target, by nodes](chance.svg)",
    ]


def _eta(found: Any) -> list[str]:
    losses = ", ".join(f"{found[f'pinball_{q}_s']:.0f}" for q in ("0.1", "0.5", "0.9"))
    return [
        "## Can an ETA be believed?",
        _filled(
            f"`plan.backtest` on {found['workloads']} workloads of `{found['trace']}` under "
            f"`srtf`: the 80 % interval held **{found['coverage']:.0%}** of {found['open']} starts "
            f"and ends that were open (95 % interval over workloads {found['lower']:.2f} to "
            f"{found['upper']:.2f}); {found['closed']} more were closed (nothing that arrives "
            f"could change them), {found['closed_right']} of these as forecast. Mean pinball loss "
            f"at 10, 50 and 90 %, in seconds: {losses}."
        ),
        "![Coverage of the 80 % interval](eta.svg)",
    ]
