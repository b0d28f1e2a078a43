"""Folder of a controller: audit log, documents of rounds, metrics and status."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
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
