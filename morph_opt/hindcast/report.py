"""Output of a hindcast: text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from morph_opt.core.table import Table
from morph_opt.hindcast.statement import VERDICT, Figure, Statement, finite

SCHEMA = "morph-opt/hindcast/1"
_SHOWN = 8
"""Largest number of classes of one kind that the text shows."""


def as_json(found: Statement, spec: str, policy: str, seed: int) -> str:
    """Return the statement as a document of this schema."""
    from morph_opt.inputs.traces.registry import absolute_spec

    mean = found.figures[0]
    evictions = {one.name: _document(one) for one in found.evictions}
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "log": spec,
        "trace": absolute_spec(spec),
        "line": one_line(found, policy),
        "policy": policy,
        "seed": seed,
        "replays": len(mean.simulated),
        "reproduced": found.reproduced,
        "within": finite(abs(mean.off)),
        "waits_s": {one.name: _document(one) for one in found.figures},
        "classes": {
            kind: {one.name: _document(one) | {"few": one.few} for one in figures}
            for kind, figures in found.classes.items()
        },
        **({"evictions": evictions} if evictions else {}),
        "spreads": {name: list(ends) for name, ends in found.spreads.items()},
        "starts_off_s": dict(zip(("median", "p95"), found.starts_s, strict=True)),
        "phases_s": list(found.phases_s),
        "notes": list(found.notes),
        "not_followed": list(found.not_followed),
        "cannot_claim": list(found.cannot_claim),
    }
    return json.dumps(document, indent=1) + "\n"


def _document(one: Figure) -> dict[str, Any]:
    low, high = one.spread
    return {
        "jobs": one.jobs,
        "recorded": one.recorded,
        "simulated": one.mean,
        "off": finite(one.off),
        "low": low,
        "high": high,
        "inside": one.inside,
        "by_replay": list(one.simulated),
    }


def as_text(found: Statement, spec: str, policy: str, seed: int) -> str:
    """Return the statement as text."""
    mean = found.figures[0]
    low, high = mean.spread
    lines = [
        f"{spec} under {policy}: {mean.jobs} waits, {len(mean.simulated)} shaken replays "
        f"(seed {seed})",
        "",
        _table("wait", found.figures),
        "",
        _verdict(mean),
        "differences between policies smaller than the spread of the mean wait, "
        f"{high - low:,.1f} s ({_spread(mean)}), are noise",
        f"starts job by job, shown and not judged: median difference {found.starts_s[0]:,.1f} s, "
        f"95th percentile {found.starts_s[1]:,.1f} s",
    ]
    for kind, figures in found.classes.items():
        lines += ["", _table(f"mean wait by {kind}", figures[:_SHOWN])]
        if len(figures) > _SHOWN:
            lines.append(f"and {len(figures) - _SHOWN} more with fewer jobs (--json has all)")
    if found.evictions:
        lines += ["", _counts("evictions by reason", found.evictions)]
    lines += ["", *(f"note: {note}" for note in found.notes)]
    if found.not_followed:
        where = "objects of Kueue" if policy.startswith("kueue") else "slurm.conf"
        lines.append(f"set in {where}, not followed: {', '.join(found.not_followed)}")
    lines += ["what this cannot claim:", *(f"  {text}" for text in found.cannot_claim)]
    return "\n".join(lines) + "\n"


def one_line(found: Statement, policy: str) -> str:
    """Return the statement on the mean wait in one line, for answers that rest on replays."""
    mean = found.figures[0]
    low, high = mean.spread
    where = "inside" if mean.inside else "outside"
    verdict = "reproduced" if mean.reproduced else "NOT reproduced, no base for forecasts"
    return (
        f"hindcast: mean wait of {mean.jobs:,} jobs {mean.recorded:,.0f} s as recorded, "
        f"{mean.mean:,.0f} s under {policy} ({len(mean.simulated)} shaken replays, {low:,.0f} to "
        f"{high:,.0f} s); the recorded mean is {where} their spread: {verdict}"
    )


def _verdict(mean: Figure) -> str:
    """Return the statement in one line."""
    where = "inside" if mean.inside else "outside"
    verdict = "reproduced" if mean.reproduced else "NOT reproduced"
    if mean.off != mean.off:
        within = "no recorded job waited"
    else:
        within = f"simulated waits reproduce recorded waits within {abs(mean.off):.1%}"
    end = "" if mean.reproduced else f", and more than {VERDICT.close:.0%} away"
    more = "" if mean.reproduced else ": no base for forecasts"
    return f"{verdict}: {within}; the recorded mean is {where} the spread{end}{more}"


def _spread(mean: Figure) -> str:
    low, high = mean.spread
    if not mean.recorded:
        return f"{low:,.1f} to {high:,.1f} s"
    return f"{mean.relative(low):+.1%} to {mean.relative(high):+.1%}"


def _counts(title: str, figures: Iterable[Figure]) -> str:
    rows = []
    for one in figures:
        low, high = one.spread
        inside = "yes" if one.inside else "no"
        rows.append((one.name, one.recorded, one.mean, low, high, inside))
    header = (title, "recorded", "simulated", "2.5 %", "97.5 %", "inside")
    plain = dict.fromkeys(header[1:5], ",.1f")
    return Table(header, rows, formats=plain).to_text()


def _table(title: str, figures: Iterable[Figure]) -> str:
    rows = []
    for one in figures:
        low, high = one.spread
        inside = "few jobs" if one.few else ("yes" if one.inside else "no")
        off = f"{one.off:+.1%}" if one.recorded else ""
        rows.append((one.name, one.jobs, one.recorded, one.mean, off, low, high, inside))
    header = (title, "jobs", "recorded s", "simulated s", "off", "2.5 % s", "97.5 % s", "inside")
    plain = dict.fromkeys(("recorded s", "simulated s", "2.5 % s", "97.5 % s"), ",.1f")
    text = Table(header, rows, formats=plain).to_text()
    if any(one.few for one in figures):
        text += f"\n(few jobs: fewer than {VERDICT.few_jobs}, not judged)"
    return text
