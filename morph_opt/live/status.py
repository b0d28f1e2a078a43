"""Figures of a turn for Prometheus, and lines for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from morph_opt.live.memory import Memory
from morph_opt.live.picture import Picture, Seen
from morph_opt.live.settings import Settings

_SHOWN = 12
"""Largest number of commands, and of jobs left alone, that the status names."""


def opted_in(picture: Picture, settings: Settings) -> list[Seen]:
    """Return the jobs that are not over and take part."""
    alive = (seen for seen in picture.jobs.values() if not seen.over)
    return [seen for seen in alive if not seen.not_ours(settings, picture.time_s)]


def metrics_of(
    entry: Mapping[str, Any],
    counts: Counter[str],
    picture: Picture,
    memory: Memory,
    ours: list[Seen],
) -> dict[str, float]:
    """Return the figures of a turn by name.

    Parameters
    ----------
    entry
        The turn's line in the audit log.
    counts
        Commands of this controller, by outcome and by kind.
    ours
        As `opted_in` has them.
    """
    words = ("did", "would", "refused", "postponed", "limited")
    alive = sum(not seen.over for seen in picture.jobs.values())
    return {
        **{f'turn_seconds{{part="{part}"}}': took_s for part, took_s in entry["seconds"].items()},
        "last_turn_timestamp_seconds": picture.time_s,
        "turns_total": memory.turns,
        **{f'commands_total{{outcome="{word}"}}': counts[word] for word in words},
        "starts_total": counts["starts"],
        "stops_total": counts["stops"],
        "stops_last_hour": len(memory.stops_s),
        "away_total": counts["away"],
        "worth": entry["worth"] or 0.0,
        "free_gpus": entry["free_gpus"],
        "jobs_opted_in": len(ours),
        "jobs_foreign": alive - len(ours),
        "jobs_parked": sum(s.gated or s.parked_until_s is not None for s in ours if s.waits),
        "jobs_ran_again_total": memory.ran_again,
    }


def status_of(
    entry: Mapping[str, Any], word: str, cluster: str, part: int, left_alone: Mapping[str, str]
) -> Iterator[str]:
    """Return lines about a turn for people.

    Parameters
    ----------
    entry
        The turn's line in the audit log.
    word, cluster
        What the controller does, and beside which cluster.
    part
        Jobs that take part.
    left_alone
        Why other jobs do not.
    """
    kinds = Counter(f"{r['kind']} {r['outcome']}" for r in entry["commands"])
    did = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())) or "nothing to do"
    yield (
        f"turn {entry['turn']} of {word} on {cluster}: {part} jobs take part, "
        f"{entry['waits']} wait, {entry['free_gpus']} GPUs free"
    )
    worth = "unknown" if entry["worth"] is None else f"{entry['worth']:.4g}"
    yield f"decision {entry['status']}, worth {worth}; {did}"
    yield ", ".join(f"{part} {took_s:.2f} s" for part, took_s in entry["seconds"].items())
    for record in entry["commands"][:_SHOWN]:
        why = f" ({record['why']})" if "why" in record else ""
        yield f"  {record['kind']} {record['job']}: {record['outcome']}{why}"
    for job, why in list(left_alone.items())[:_SHOWN]:
        yield f"  left alone {job}: {why}"
