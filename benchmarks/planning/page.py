"""The page of ``reports/planning``, from the files that the parts have written."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from benchmarks.planning.calibration import SHARE
from morph_opt.core.documents import exists, read_json
from morph_opt.core.table import Table

HEAD = (
    "Written by `python -m benchmarks.planning`; what is not on this page was not run. Questions "
    "and statistics: [planning](../../docs/planning.md)."
)
LITTLE = (
    "What arrives is of the same law as in the forecasts: days of a cluster differ more than "
    "members of a family do. No MILP was forecast."
)
EARLIER = (
    "Place 0.7 was chosen after others had been tried: loads of any size missed 1 of 6, and 1 to 3 "
    "busy servers with a lower target 2 of 10, each by naming k + 1. There k is easy to name; what "
    "that row shows is queues whose answer is clear."
)


BEFORE = "Asked when a confirmation took a number of workloads that was fixed before."


def page(folder: Path) -> str:
    """What is there, part by part."""
    parts = ["# Planning, measured", _filled(HEAD)]
    written = {"known": _known, "statistics": _statistics, "load": _load, "eta": _eta}
    for name, part in written.items():
        file = folder / f"{name}.json"
        if exists(file):
            parts += part(read_json(file))
    return "\n\n".join(parts) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return Table(header, rows, "l").to_markdown(spaced=True)


def _known(found: Any) -> list[str]:
    times = found[0]["searches"]
    rows = [
        (
            f"{one['wanted']:.0%}",
            one["name"],
            f"{one['share']:.1%}",
            "in common" if one["paired"] else "of their own",
            f"{one['least'] / times:.1%}",
            f"{one['small'] / times:.1%}",
            f"{one['more'] / times:.1%}",
            f"{one['none'] / times:.1%}",
            f"{one['replays']:.0f}",
        )
        for one in found
    ]
    return [
        "## Is the least size named?",
        _filled(
            f"The search of `plan nodes` on Bernoulli workloads whose true shares are known, "
            f"{times:,} searches each, at a confidence of 95 %. *Least*: the smallest size that "
            "has the wanted share was named, which is promised in most searches where its share "
            "is 5 points above; *less*: a size with less than the wanted share, which may be in "
            "5 % at most. Draws are in common to all sizes, as those of workloads are, or each "
            "size's own:"
        ),
        _table(
            (
                "wanted",
                "least size",
                "its share",
                "draws",
                "least",
                "less",
                "more",
                "none",
                "replays",
            ),
            rows,
        ),
    ]


def _statistics(found: Any) -> list[str]:
    by_place: dict[float, list[Any]] = {}
    for one in found["answers"]:
        by_place.setdefault(one["near"], []).append(one)
    times = len(next(iter(by_place.values())))
    intervals = [
        (one["interval"], one["workloads"], f"{one['says']:.0%}", f"{one['held'] / one['of']:.1%}")
        for one in found["coverage"]
    ]
    scatter = 2.0 * (0.95 * 0.05 / found["coverage"][0]["of"]) ** 0.5
    return [
        "## Do the statistics hold what they say?",
        _filled(
            "The search of `plan nodes` on M/M/k queues of 2,000 jobs with between 1.3 and 3.7 "
            "busy servers, in 90 % of workloads at 95 %. The target lies between the mean waits of "
            "the k of Erlang's formula (place 0) and of k - 1 servers (place 1). Means of runs "
            "scatter, so near 0 the k of the formula misses the target in more than a tenth of "
            f"workloads and is not the answer. {times} queues for each place; *kept* are the sizes "
            "that were named and reach the target in 90 % of other workloads:"
        ),
        _table(
            ("place", "named k", "k + 1", "another", "none", "kept", "least share"),
            [_searched(place, mine) for place, mine in by_place.items()],
        ),
        _filled(EARLIER + ("" if "test" in found else f" {BEFORE}")),
        _filled(
            f"Intervals over workloads of a queue, {found['coverage'][0]['of']:,} repetitions "
            f"each, which scatter by {scatter:.1%} (`share at least` is exact for every share, so "
            "it may only hold more often):"
        ),
        _table(("interval", "workloads", "says", "held the truth"), intervals),
        *([_filled(found["note"])] if "note" in found else []),
        _filled(
            "Waits of such a queue are mildly skewed. Means of samples that are more so (one "
            "workload in a hundred decides) are held less often by any of these intervals."
        ),
    ]


def _searched(place: float, answers: list[Any]) -> tuple[Any, ...]:
    """A place of the target: which sizes were named, and whether they keep it."""
    named = [one for one in answers if one["found"] is not None]
    beyond = [one["found"] - one["formula"] for one in named]
    k, more = beyond.count(0), beyond.count(1)
    tried = [one["holds"] for one in named if one["holds"] is not None]
    kept = sum(holds >= SHARE for holds in tried)
    return (
        f"{place:g}",
        k,
        more,
        len(beyond) - k - more,
        len(answers) - len(named),
        f"{kept} of {len(tried)}",
        f"{min(tried):.0%}" if tried else "not tried",
    )


def _load(found: Any) -> list[str]:
    nodes = {name: one["figures"]["nodes"] for name, one in found.items()}
    rows: list[tuple[Any, ...]] = []
    for policy in dict.fromkeys(name.rpartition(" x")[0] for name in nodes):
        once, more = nodes.get(f"{policy} x1"), nodes.get(f"{policy} x1.3")
        known = once is not None and more is not None
        asked = ["not asked" if count is None else count for count in (once, more)]
        rows.append((f"`{policy}`", *asked, more - once if known else ""))
    first = next(iter(found.values()))["asked"]
    said = [
        f"- `{name}`: {'; '.join(one['said'])}; {one['figures']['replays']} replays, sizes refused "
        f"by bounds: {', '.join(map(str, one['figures']['refused_by_bounds'])) or 'none'}; "
        f"{one['spent']['wall_s'] / 60:.1f} minutes ({one['spent']['cpu_s'] / 60:.1f} of CPU), "
        f"asked again {one['spent']['again_s']:.1f} s"
        for name, one in found.items()
    ]
    return [
        "## What does another 1.3 times the load cost?",
        _filled(
            f"Nodes of 8 A800 that keep `{first['slo']}` in {first['of_workloads']:.0%} of "
            f"workloads of `{first['trace']}` with a confidence of {first['confidence']:.0%}, "
            f"{first['exploration']} workloads to explore with."
            f"{'' if 'indifference' in first else f' {BEFORE}'}"
        ),
        _table(("policy", "nodes", "nodes at x1.3", "more"), rows),
        "\n".join(said),
        "![Mean of the service with its interval over the price of the fleet](cost.svg)",
        "![Share of workloads that reach the target, by nodes](chance.svg)",
    ]


def _eta(found: Any) -> list[str]:
    parts = ["## Can an ETA be believed?"]
    for one in found.values():
        losses = ", ".join(f"{one[f'pinball_{q}_s']:.0f}" for q in ("0.1", "0.5", "0.9"))
        before = "" if "given" in one else " Measured when arrivals were drawn by the clock alone."
        text = (
            f"A backtest on {one['workloads']} workloads of `{one['trace']}` on "
            f"`{one['cluster']}` under `srtf`: the 80 % interval held **{one['coverage']:.0%}** of "
            f"{one['open']} starts and ends that were open (95 % interval over workloads "
            f"{one['lower']:.2f} to {one['upper']:.2f}); {one['closed']} more were closed (nothing "
            f"that arrives could change them), {one['closed_right']} of these as forecast. Mean "
            f"pinball loss at 10, 50 and 90 %, in seconds: {losses}.{before}"
        )
        parts.append(_filled(text))
    return [*parts, _filled(LITTLE), "![Coverage of the 80 % interval](eta.svg)"]
