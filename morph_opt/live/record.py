"""Folder of a controller: audit log, documents of rounds, metrics and status."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.live.memory import Memory
from morph_opt.live.picture import Picture, Seen
from morph_opt.live.settings import Settings
from morph_opt.round.snapshot import to_text

AUDIT, ROUND, ROUNDS = "audit.jsonl", "round.json", "rounds"
METRICS, COMMANDS, STATUS, LOCK = "metrics.prom", "commands.txt", "status.txt", "lock"


class Folder:
    """Folder of a controller, locked while it works.

    Parameters
    ----------
    path
        Made where it is missing.
    keep_rounds
        Documents of rounds that stay.

    Raises
    ------
    InputError
        If another controller works in it, or it cannot be written.
    """

    def __init__(self, path: Path, keep_rounds: int) -> None:
        self.path = path
        self._keep = keep_rounds
        self.counts: Counter[str] = Counter()
        try:
            (path / ROUNDS).mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = (path / LOCK).open("w", encoding="utf-8")
        except OSError as error:
            rule = f"cannot be written ({error.strerror})"
            raise InputError(rule, file=str(path)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError("another controller works in this folder", file=str(path)) from None

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.close()

    def write_round(self, turn: int, text: str) -> str:
        """Write the document of a round and return its name in the folder."""
        write_atomically(self.path / ROUND, text, durable=False)
        name = f"{ROUNDS}/{turn:08d}.json.gz"
        # Level 9 would take four times as long and save a fiftieth.
        packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
        write_atomically(self.path / name, packed, durable=False)
        old = self.path / ROUNDS / f"{turn - self._keep:08d}.json.gz"
        old.unlink(missing_ok=True)
        return name

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append a line to the audit log and flush it."""
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        descriptor = os.open(self.path / AUDIT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def write_metrics(self, values: Mapping[str, float]) -> None:
        """Write figures as a text file for the node exporter of Prometheus."""
        lines = []
        for name, value in values.items():
            full = f"morph_opt_live_{name}"
            bare = full.partition("{")[0]
            kind = "counter" if bare.endswith("_total") else "gauge"
            if (head := f"# TYPE {bare} {kind}") not in lines:
                lines.append(head)
            lines.append(f"{full} {value:.10g}")
        write_atomically(self.path / METRICS, "\n".join(lines) + "\n", durable=False)

    def write_text(self, name: str, text: str) -> None:
        """Write a small text file for people."""
        write_atomically(self.path / name, text, durable=False)


def digest(document: dict[str, Any]) -> str:
    """Return the SHA-256 of the text of a document, to compare decisions."""
    return hashlib.sha256(to_text(document).encode()).hexdigest()


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
        Mode of the controller, and the name of the cluster.
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
    for job, why in list(entry.get("late", {}).items())[:_SHOWN]:
        yield f"  late {job}: it is due, and {why}"
    for job, why in list(left_alone.items())[:_SHOWN]:
        yield f"  left alone {job}: {why}"
