"""What a replay of a log may be told: how it is read, and how its rows become jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from morph_opt.domain import InputError
from morph_opt.traces.format import LoadedTrace
from morph_opt.traces.logs.jobs import MODES, Mapped, load_log
from morph_opt.traces.logs.reading.row import Reading
from morph_opt.traces.logs.registry import LOG_FORMATS, log_format


@dataclass(frozen=True, slots=True)
class OneOf:
    """An option that is one of some words; without words, any text or table of numbers."""

    words: tuple[str, ...] = ()

    def require(self, field: str, value: Any, /) -> None:
        """Refuse another word."""
        if self.words and value not in self.words:
            raise InputError(f"must be {' or '.join(self.words)}, got {value!r}", field=field)


LOG_OPTIONS: dict[str, OneOf] = {
    "jobs_as": OneOf(MODES),
    "scaling": OneOf(),
    "mix": OneOf(),
    "gpu_types": OneOf(("keep", "ignore")),
    "guarantee": OneOf(),
    "run_s": OneOf(),
    "timezone": OneOf(),
    "procs_per_gpu": OneOf(),
    "columns": OneOf(("xdmod",)),
    "gpu_resource": OneOf(),
    "gpu_shares": OneOf(("drop", "round-up")),
    "only": OneOf(("completed",)),
}
"""Options of ``--trace FORMAT:PATH`` by name, as fields of `Reading` and `Mapped`."""

_MODE_OF = {"scaling": "anchored", "mix": "sampled"}


@dataclass(frozen=True, slots=True)
class LogSpec:
    """``FORMAT:PATH``, with a window ``@from..to`` behind it or not.

    Parameters
    ----------
    format, path, window
        The parts; no window is None.
    """

    format: str
    path: str
    window: str | None = None

    @classmethod
    def of(cls, spec: str) -> LogSpec | None:
        """The parts of a spec; None if it does not begin with a format."""
        head, colon, rest = spec.partition(":")
        if not colon or head not in LOG_FORMATS:
            return None
        return cls(head, *windowed(rest))

    def absolute(self) -> str:
        """The spec with a path that holds in every folder."""
        window = "" if self.window is None else f"@{self.window}"
        return f"{self.format}:{Path(self.path).resolve()}{window}"


def windowed(text: str) -> tuple[str, str | None]:
    """What stands in front of a window ``@from..to``, and the window."""
    before, at, window = text.rpartition("@")
    return (before, window) if at and ".." in window and "/" not in window else (text, None)


def load_spec(
    spec: LogSpec,
    name: str,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    terms: Mapping[str, str] | None = None,
) -> LoadedTrace:
    """The jobs of a log.

    Parameters
    ----------
    spec
        Which log.
    name
        What the user calls it.
    seed
        Of sampled jobs.
    options
        Of `LOG_OPTIONS`, by name.
    terms
        Licence and citation of a published log.

    Raises
    ------
    InputError
        See `morph_opt.traces.logs.jobs.load_log`; also if an option has no effect.
    """
    given = dict(options or {})
    for option, mode in _MODE_OF.items():
        if option in given and given.get("jobs_as", "rigid") != mode:
            raise InputError(f"has an effect together with --jobs-as {mode} only", field=option)
    how = Reading(**_of(Reading, given), window=spec.window)
    mapped = Mapped(**_of(Mapped, given))
    known = log_format(spec.format)
    return load_log(Path(spec.path), known, how, mapped, name=name, seed=seed, terms=terms)


def _of(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in given.items() if name in names}
