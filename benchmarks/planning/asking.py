"""What an answer costs: asked once from nothing, however often it was interrupted, and again."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.plan import Answer
from morph_opt.sweep import Progress

SPENT = "spent.json"


@dataclass
class Meter:
    """Seconds of an answer in a folder, added up over the processes that worked on it.

    Replays are cached, so a question that is interrupted goes on; its seconds are kept beside
    them, after every replay. Once there is an answer, what is asked again is not added.

    Parameters
    ----------
    folder
        Of the answer.
    shown
        Told of every replay as well.
    """

    folder: Path
    shown: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        file = self.folder / SPENT
        known = read_json(file) if exists(file) else {}
        self._before = (float(known.get("wall_s", 0.0)), float(known.get("cpu_s", 0.0)))
        self.closed = bool(known.get("answered", False))
        self._began = _now()

    def spent(self) -> tuple[float, float]:
        """Seconds of wall and of CPU until now, children included."""
        if self.closed:
            return self._before
        since = (now - began for now, began in zip(_now(), self._began, strict=True))
        wall_s, cpu_s = (a + b for a, b in zip(self._before, since, strict=True))
        return wall_s, cpu_s

    def progress(self, now: Progress) -> None:
        """Keep the seconds; called after every replay."""
        self._keep(answered=False)
        if self.shown is not None:
            self.shown(now)

    def _keep(self, *, answered: bool) -> None:
        if not self.closed:
            wall_s, cpu_s = self.spent()
            text = json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "answered": answered}) + "\n"
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / SPENT, text, durable=False)

    def measured(self, question: Callable[[], Answer]) -> tuple[Answer, dict[str, float]]:
        """An answer, and its seconds: the first time, of CPU of it, and asked again."""
        question()
        wall_s, cpu_s = self.spent()
        self._keep(answered=True)
        self._before, self.closed = (wall_s, cpu_s), True
        began = time.perf_counter()
        answer = question()
        again_s = time.perf_counter() - began
        return answer, {"wall_s": wall_s, "cpu_s": cpu_s, "again_s": again_s}


def _now() -> tuple[float, float]:
    uses = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(use.ru_utime + use.ru_stime for use in uses)
