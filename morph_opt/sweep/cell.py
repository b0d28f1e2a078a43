"""A cell: one replay, and the key under which its result is kept.

The key is the SHA-256 of a document in canonical JSON: the scenario with every file replaced by its
name and digest, what is kept, and what can change the bytes of a result: the versions of Python,
numpy, scipy, networkx and the solver, and a digest of the installed sources. No ``repr``, no times
of files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import formulations
import morph_opt
from morph_opt.documents import LINES_BYTES, is_file, parse_toml, read_bytes
from morph_opt.domain import InputError
from morph_opt.replay.initial import STATE_TRACE, state_digest
from morph_opt.replay.scenario import Scenario
from morph_opt.runs.write import EVENTS, JOBS, ROUNDS
from morph_opt.traces.registry import load_trace, takes_seed
from morph_opt.traces.resampled import RESAMPLED, split_resampled

SCHEMA = "morph-opt/cell/1"
KEPT = (EVENTS, JOBS, ROUNDS)
"""Files of a run folder that may be kept next to its summary."""

_NOT_RUN = ("plan", "sweep")
"""Rooms that no replay imports."""
_OWN = re.compile(r"([\w.]+):\w+")
_SOLVERS = {"highs": "highspy", "scip": "pyscipopt"}


@cache
def sources_digest() -> str:
    """SHA-256 over every installed source and table that a replay may use."""
    digest = hashlib.sha256()
    for package in (formulations, morph_opt):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*")):
            part = path.relative_to(root)
            if path.suffix in (".py", ".toml", ".csv", ".json") and part.parts[0] not in _NOT_RUN:
                digest.update(f"{root.name}/{part.as_posix()}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def versions(solver: str) -> Mapping[str, str]:
    """What else can change the bytes of a result."""
    names = ["numpy", "scipy", "networkx", _SOLVERS.get(solver, "ortools")]
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "sources": sources_digest()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found | {"morph-opt": morph_opt.__version__}


@dataclass(frozen=True)
class Cell:
    """One replay of a sweep.

    Parameters
    ----------
    scenario
        What is run; files by paths as this process finds them.
    axes
        Names and values that tell it apart from its neighbours, for tables; not part of the key.
    keep
        Files of the run folder that are kept next to ``summary.json``.
    """

    scenario: Scenario
    axes: tuple[tuple[str, str | int | float | bool], ...] = ()
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.keep:
            if name not in KEPT:
                rule = f"{name!r} is no file of a run; known are {', '.join(KEPT)}"
                raise InputError(rule, field="keep.files")

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the replay reads."""
        workload, failures = self.scenario.workload, self.scenario.failures
        named = (
            trace_file(workload.trace), workload.state, failures.events,
            self.scenario.scheduler.rules,
        )  # fmt: skip
        return tuple(dict.fromkeys(path for path in named if path is not None))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The document of the key.

        Raises
        ------
        InputError
            If a file is missing.
        """
        scenario = parse_toml(self.scenario.to_toml(), None)
        workload = scenario["workload"]
        for path in self.files:
            mark = f"{Path(path).name}#{_digest(path, state=path == workload.get('state'))}"
            for part in ("workload", "failures", "scheduler"):
                for name, value in scenario[part].items():
                    if value == path or (name == "trace" and trace_file(str(value)) == path):
                        scenario[part][name] = value[: len(value) - len(path)] + mark
        base = split_resampled(self.scenario.workload.trace)[-1]
        if trace_file(base) is None and base != STATE_TRACE and not _is_drawn(base):
            options = tuple(self.scenario.workload.trace_options.items())
            workload["sha256"] = _jobs_digest(base, self.scenario.workload.seed, options)
        return {
            "schema": SCHEMA,
            "scenario": scenario,
            "keep": sorted(self.keep),
            "versions": dict(versions(self.scenario.scheduler.solver)),
            "own": {name: _own_digest(name) for name in sorted(_own_names(scenario))},
        }

    @cached_property
    def key(self) -> str:
        """Its name in the cache, in hexadecimal."""
        return key_of(self.identity)


def key_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of a document in canonical JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def trace_file(spec: str) -> str | None:
    """The file that a trace is read from, or None for a name."""
    base = split_resampled(spec)[-1]
    return base if base.endswith(".csv") or (base != STATE_TRACE and is_file(Path(base))) else None


@lru_cache(maxsize=4096)
def _jobs_digest(base: str, seed: int, options: tuple[tuple[str, float | None], ...]) -> str:
    """Digest of the jobs of a trace that is no file and not drawn by our sources alone."""
    return load_trace(base, seed=seed, **dict(options)).trace.sha256


@cache  # looking for entry points takes longer than everything else in a key
def _is_drawn(base: str) -> bool:
    """Whether name, seed and sources tell everything about a trace."""
    return takes_seed(base) and _OWN.match(base) is None and base.partition("/")[0] != RESAMPLED


_digests: dict[tuple[str, bool], str] = {}


def _digest(path: str, *, state: bool) -> str:
    """Digest of a file, read once per process."""
    if (path, state) not in _digests:
        data = b"" if state else read_bytes(path, LINES_BYTES, unpack=False)
        digest = state_digest(path) if state else hashlib.sha256(data).hexdigest()
        _digests[path, state] = digest
    return _digests[path, state]


def _own_names(value: object) -> Iterator[str]:
    """Import paths among the texts of a scenario."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _own_names(part)
    elif isinstance(value, str):
        found = _OWN.match(split_resampled(value)[-1])
        if found:
            yield found[1]


@cache
def _own_digest(module: str) -> str:
    """Digest of the source of a user's own module; what it imports itself is not seen."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    origin = None if spec is None else spec.origin
    if origin is None or not Path(origin).is_file():
        return "unknown"
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest()
