"""Output of an audit: text, JSON and a picture."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.audit.instants import Audit, Instant, time_text
from morph_opt.core.documents import plain, write_atomically
from morph_opt.core.documents.figures import drawing, rules
from morph_opt.core.documents.style import BLUE, GREY, ORANGE, RED
from morph_opt.core.domain.units import HOUR_S
from morph_opt.core.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = "morph-opt/audit/1"
_WORST = 5

CANNOT_TELL = (
    "holds, dependencies and begin times, but for those that Slurm's Eligible has (such jobs wait "
    "for another reason than GPUs)",
    "reservations and the promises of backfilling (idle GPUs may be kept for a larger job)",
    "limits of users and accounts, priorities, CPUs and memory",
    "what the scheduler knew: run times that it could not foresee are known here",
)
"""Causes of waiting that no log states; because of them a gap is an upper bound."""


def _hours(audit: Audit, name: str) -> float:
    return float(sum(getattr(one, name) for one in audit.instants)) * audit.every_s / HOUR_S


def as_json(audit: Audit, spec: str) -> str:
    """Return the audit as a document of this schema."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "log": spec,
        "every_s": audit.every_s,
        "gpus": audit.gpus,
        "gpu_hours": {
            name: _hours(audit, name) for name in ("used", "idle", "fillable", "bound", "by_count")
        }
        | {"nobody_waits": _none_waiting(audit)},
        "by_partition": _by_partition(audit),
        "notes": list(audit.notes),
        "cannot_tell": list(CANNOT_TELL),
        "instants": [plain(one, "by_partition") for one in audit.instants],
    }
    return json.dumps(document, indent=1) + "\n"


def _none_waiting(audit: Audit) -> float:
    idle = sum(one.idle for one in audit.instants if not one.waiting)
    return float(idle) * audit.every_s / HOUR_S


def _by_partition(audit: Audit) -> dict[str, float]:
    """Return fillable GPU-hours by partition of the jobs that would have filled them."""
    found: dict[str, float] = defaultdict(float)
    for one in audit.instants:
        for name, gpus in (one.by_partition or {}).items():
            found[name] += gpus * audit.every_s / HOUR_S
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def as_text(audit: Audit, spec: str) -> str:
    """Return the audit as text."""
    count = len(audit.instants)
    capacity = audit.gpus * count * audit.every_s / HOUR_S
    used, idle = _hours(audit, "used"), _hours(audit, "idle")
    fill, bound, by_count = (_hours(audit, n) for n in ("fillable", "bound", "by_count"))
    idle_alone = _none_waiting(audit)
    rows = [
        ("capacity", capacity),
        ("used", used),
        ("idle", idle),
        ("  a job that waits would have fitted", fill),
        ("  they are scattered, or out of a partition's reach", by_count - fill),
        ("  every waiting job is larger than what is idle", max(0.0, idle - by_count - idle_alone)),
        ("  no job waits", idle_alone),
    ]
    table = Table(
        ("GPU-hours", "", "% of capacity"),
        [(name, value, 100.0 * value / capacity) for name, value in rows],
        formats={"": ",.1f", "% of capacity": ".2f"},
    )
    gaps = [one for one in audit.instants if one.fillable]
    lines = [
        f"{spec}: {count} instants, every {audit.every_s:g} s, "
        f"{time_text(audit.instants[0].time_s)} to {time_text(audit.instants[-1].time_s)}, "
        f"{audit.gpus} GPUs",
        "",
        table.to_text().rstrip("\n"),
        "",
        f"in {len(gaps)} of {count} instants an idle GPU and a job that it would have fitted met"
        + ("" if bound - fill < 1e-6 else f"; not proven: up to {bound:,.1f} GPU-hours"),
    ]
    lines += [_instant_text(one) for one in sorted(gaps, key=lambda o: -o.fillable)[:_WORST]]
    parts = _by_partition(audit)
    if len(parts) > 1:
        shares = ", ".join(f"{name or '-'} {hours:,.1f}" for name, hours in parts.items())
        lines.append(f"GPU-hours that would have fitted, by partition: {shares}")
    passed = [one for one in audit.instants if one.passed]
    lines.append(
        f"order: in {len(passed)} instants a waiting job was passed by a later one of at "
        f"least its size (at most {max((one.passed for one in passed), default=0)} at once)"
    )
    over = max(one.missing for one in audit.instants)
    if over:
        lines.append(
            f"jobs hold up to {over} GPUs more than the nodes that they name have, which are not "
            "counted: does the log contradict itself, or is it another cluster?"
        )
    lines += ["", *(f"note: {note}" for note in audit.notes)]
    lines += ["what a log cannot tell:", *(f"  {text}" for text in CANNOT_TELL)]
    return "\n".join(lines) + "\n"


def _instant_text(one: Instant) -> str:
    names = ", ".join(one.started[:3]) + (", ..." if len(one.started) > 3 else "")
    return (
        f"  {time_text(one.time_s)}: {one.idle} idle, {one.waiting} jobs wait for "
        f"{one.waiting_gpus} GPUs, {one.fillable} would have been filled by {names}"
    )


def draw(audit: Audit, spec: str, path: Path) -> None:
    """Draw GPUs over time by use, and the GPUs that were waited for."""
    with drawing((10.0, 5.2)) as (figure, encoded):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1.0))
        _bands(above, audit)
        _queue(below, audit)
        above.set_title(
            f"{spec}: idle GPUs that a job that waits would have filled "
            f"({_hours(audit, 'fillable'):,.1f} of {_hours(audit, 'idle'):,.1f} idle GPU-hours)",
            loc="left",
        )
        write_atomically(path, encoded(path.suffix, dpi=130))


def _bands(axes: Axes, audit: Audit) -> None:
    hours = [(one.time_s - audit.instants[0].time_s) / HOUR_S for one in audit.instants]
    fill = [one.fillable for one in audit.instants]
    lost = [one.by_count - one.fillable for one in audit.instants]
    used = [one.used for one in audit.instants]
    rest = [one.idle - one.by_count for one in audit.instants]
    names = ("used", "idle, a job that waits fits", "idle, scattered", "idle, nobody fits")
    colours = (BLUE, RED, ORANGE, GREY)
    axes.stackplot(hours, used, fill, lost, rest, labels=names, colors=colours, step="post")
    axes.set(ylabel="GPUs", xlim=(hours[0], max(hours[-1], hours[0] + 1e-3)), ylim=(0, audit.gpus))
    axes.figure.legend(loc="outside lower center", ncols=4)


def _queue(axes: Axes, audit: Audit) -> None:
    hours = [(one.time_s - audit.instants[0].time_s) / HOUR_S for one in audit.instants]
    axes.step(hours, [one.waiting_gpus for one in audit.instants], where="post", color=BLUE)
    axes.set(xlabel="time from the first instant (h)", ylabel="GPUs waited for", ylim=(0, None))
    rules(axes)
