"""Cell of a sweep: one replay, and the key under which its result is kept.

The key is the SHA-256 of a document in canonical JSON. It has the scenario, with every file
replaced by its name and digest, the kept files, and all that can change the bytes of a result: the
versions of Python, numpy, scipy, networkx and the solver, and a digest of the installed sources. It
has no ``repr`` and no times of files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import formulations
from morph_opt.core.documents import LINES_BYTES, parse_toml, read_bytes
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.core.version import __version__
from morph_opt.inputs.traces.format import STATE_TRACE
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS
from morph_opt.inputs.traces.registry import load_trace, takes_seed, trace_files, with_paths
from morph_opt.inputs.traces.resampled import RESAMPLED, split_resampled
from morph_opt.replay.prepare import state_digest
from morph_opt.replay.scenario import Scenario
from morph_opt.scheduling.policies.registry import policy_files, with_policy_files
from morph_opt.scheduling.solvers.registry import ENTRIES, WORKER_PREFIX
from morph_opt.simulation.runs.slo import Slo
from morph_opt.simulation.runs.write import EVENTS, JOBS, ROUNDS

SCHEMA = "morph-opt/cell/1"
KEPT = (EVENTS, JOBS, ROUNDS)
"""Files of a run folder that may be kept next to its summary."""

_NOT_RUN = ("plan", "sweep")
"""Packages that no replay imports."""
_OWN = re.compile(r"([\w.]+):\w+")


@cache
def sources_digest() -> str:
    """Return the SHA-256 of every installed source and table that a replay may use."""
    digest = hashlib.sha256()
    for package in (Path(inspect.getfile(formulations)), Path(__file__).parent):
        root = package.parent
        for path in sorted(root.rglob("*")):
            part = path.relative_to(root)
            if path.suffix in (".py", ".toml", ".csv", ".json") and part.parts[0] not in _NOT_RUN:
                digest.update(f"{root.name}/{part.as_posix()}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def versions(solver: str) -> Mapping[str, str]:
    """Return the versions that can change the bytes of a result."""
    entry = ENTRIES.get(solver.removeprefix(WORKER_PREFIX))
    names = ["numpy", "scipy", "networkx", *(entry.needs if entry else ())]
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "sources": sources_digest()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found | {"morph-opt": __version__}


@dataclass(frozen=True)
class Cell:
    """One replay of a sweep.

    Parameters
    ----------
    scenario
        Scenario to run; paths of files are relative to this process.
    axes
        Names and values of the sweep's axes, for tables; not part of the key.
    keep
        Files of the run folder that are kept next to ``summary.json``.
    slo
        SLO for which alone the replay is run; None otherwise. The replay ends once it is certain to
        miss the SLO (`morph_opt.simulation.runs.early`) and has no other result. One that comes to
        its end is a result of `whole`.
    """

    scenario: Scenario
    axes: tuple[tuple[str, str | int | float | bool], ...] = ()
    keep: tuple[str, ...] = ()
    slo: Slo | None = None

    def __post_init__(self) -> None:
        require_type("scenario", self.scenario, Scenario)
        require_each("keep", self.keep, str)
        self.scenario.require_named("sweeps and plans run in processes of their own")
        for name in self.keep:
            if name not in KEPT:
                rule = f"{name!r} is no file of a run; known are {', '.join(KEPT)}"
                raise InputError(rule, field="keep.files")

    @property
    def whole(self) -> Cell:
        """Cell of the same replay without an SLO."""
        return self if self.slo is None else replace(self, slo=None)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the replay reads."""
        workload, failures = self.scenario.workload, self.scenario.failures
        named = (
            *trace_files(workload.trace),
            workload.state,
            failures.events,
            self.scenario.scheduler.rules,
            *policy_files(self.scenario.scheduler.policy),
        )
        return tuple(dict.fromkeys(path for path in named if path is not None))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Document from which the key is computed.

        Raises
        ------
        InputError
            If a file is missing.
        """
        scenario, jobs = parse_toml(self.scenario.to_toml(), None), self.scenario.workload
        marks = {
            path: f"{Path(path).name}#{_digest(path, state=path == jobs.state)}"
            for path in self.files
        }
        for part in ("workload", "failures", "scheduler"):
            for name, value in scenario[part].items():
                if isinstance(value, str):
                    scenario[part][name] = marks.get(value, value)
        policy = self.scenario.scheduler.policy
        of_policy = [marks[path] for path in policy_files(policy)]
        scenario["scheduler"]["policy"] = with_policy_files(policy, of_policy)
        read = trace_files(jobs.trace)
        if read:
            mark = "+".join(marks[path] for path in read)
            scenario["workload"]["trace"] = with_paths(jobs.trace, [mark])
        base = split_resampled(jobs.trace)[-1]
        if base != STATE_TRACE and not (_is_drawn(base) or (read and _is_read_by_us(base))):
            options = tuple(jobs.trace_options.items())
            scenario["workload"]["sha256"] = _jobs_digest(base, jobs.seed, options)
        judged = {} if self.slo is None else {"slo": asdict(self.slo)}
        return judged | {
            "schema": SCHEMA,
            "scenario": scenario,
            "keep": sorted(self.keep),
            "versions": dict(versions(self.scenario.scheduler.solver)),
            "own": {name: _own_digest(name) for name in sorted(_own_names(scenario))},
        }

    @cached_property
    def key(self) -> str:
        """Name of the cell in the cache, in hexadecimal."""
        return key_of(self.identity)


def key_of(identity: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document in canonical JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _jobs_digest(base: str, seed: int, options: tuple[tuple[str, float | None], ...]) -> str:
    """Return the digest of the jobs of a trace that comes from a user's own source."""
    return load_trace(base, seed=seed, **dict(options)).trace.sha256


@cache  # the search for entry points takes longer than the rest of a key
def _is_drawn(base: str) -> bool:
    """Return whether name, seed and our sources determine a trace."""
    return takes_seed(base) and _OWN.match(base) is None and base.partition("/")[0] != RESAMPLED


def _is_read_by_us(base: str) -> bool:
    """Return whether files and our sources determine a trace, as its format is built in."""
    head, colon, _ = base.partition(":")
    return not colon or head in LOG_FORMATS


_digests: dict[tuple[str, bool], str] = {}


def _digest(path: str, *, state: bool) -> str:
    """Return the digest of a file, read once per process."""
    if (path, state) not in _digests:
        data = b"" if state else read_bytes(path, LINES_BYTES, unpack=False)
        digest = state_digest(path) if state else hashlib.sha256(data).hexdigest()
        _digests[path, state] = digest
    return _digests[path, state]


def _own_names(value: object) -> Iterator[str]:
    """Yield the modules of import paths among the texts of a scenario."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _own_names(part)
    elif isinstance(value, str):
        found = _OWN.match(split_resampled(value)[-1])
        if found and found[1] not in LOG_FORMATS:
            yield found[1]


@cache
def _own_digest(module: str) -> str:
    """Return the digest of a user's own module, without the modules that it imports."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    origin = None if spec is None else spec.origin
    if origin is None or not Path(origin).is_file():
        return "unknown"
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest()
