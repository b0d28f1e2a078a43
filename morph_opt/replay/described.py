"""The parts of a scenario, what each may be, and their file form: all but running it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from morph_opt.clusters import cluster_of, cluster_to_tables, load_cluster, parse_short
from morph_opt.clusters.spec import CLUSTER_FIELDS
from morph_opt.documents import Fields, exists, key_lines, read_toml, toml_text
from morph_opt.domain import SEEDS, Cluster, InputError, default_cluster
from morph_opt.engine.config import RANGES, ReplayConfig
from morph_opt.policies.spec import OPTIONS
from morph_opt.replay.initial import STATE_TRACE
from morph_opt.replay.workload import Workload
from morph_opt.round.reader import read_snapshot

CONFIG_VERSION = 2


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Who decides, and what it believes.

    Parameters
    ----------
    policy, objective, solver, formulation, method, gap, time_limit_s, node_limit, promises, \
durations, packing, waste_filter, entity_weights, starvation_knob, feedback_share, \
artifact_quirks
        See `morph_opt.policies.spec.PolicyOptions`.
    seed
        Of the solver.
    rules, rules_sha256
        File of operator's rules with its digest; None without one.
    belief
        Speeds that the policy sees: ``truth``, ``model``, ``table``, or ``measured`` (what pairs
        and places were seen to do; ``measured:0.7`` with that prior for pairs).
    online_fit
        Whether the belief learns from the iteration times of running jobs.
    """

    policy: str = "milp"
    objective: str = "throughput"
    solver: str = "highs"
    formulation: str = "node_pattern"
    method: str = "auto"
    gap: float = 1e-4
    time_limit_s: float = 10.0
    node_limit: int | None = None
    seed: int = 0
    promises: str = "rank"
    durations: str = "true"
    packing: bool = False
    waste_filter: float | None = None
    rules: str | None = None
    rules_sha256: str | None = None
    belief: str = "truth"
    online_fit: bool = False
    starvation_knob: float = 0.0
    feedback_share: float = 1.0
    artifact_quirks: bool = False
    entity_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, known in OPTIONS.items():
            value = getattr(self, name)
            if known.range is not None and value is not None:
                values = value.items() if isinstance(value, Mapping) else [(name, value)]
                for key, number in values:
                    known.range.require(key, number)
        SEEDS.require("seed", self.seed)

    @property
    def learns(self) -> str:
        """The option by which the belief changes as jobs run; empty if it does not."""
        if self.online_fit:
            return "--online-fit"
        return "--belief measured" if self.belief.partition(":")[0] == "measured" else ""


@dataclass(frozen=True, slots=True)
class Failures:
    """What happens to nodes.

    Parameters
    ----------
    events, events_sha256
        File of failures, drains and returns with its digest; None without one.
    mtbf_s, mttr_s
        Random failures: mean time between them and to repair, of every node; None without.
    seed
        Of the random failures.
    """

    events: str | None = None
    events_sha256: str | None = None
    mtbf_s: float | None = None
    mttr_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.mtbf_s is None) != (self.mttr_s is None):
            raise InputError("mtbf_s and mttr_s are given together", field="mtbf_s")
        for name in ("mtbf_s", "mttr_s"):
            if getattr(self, name) is not None:
                RANGES[name].require(name, getattr(self, name))
        SEEDS.require("seed", self.seed)


_PARTS: dict[str, type[Any]] = {
    "workload": Workload,
    "scheduler": Scheduler,
    "engine": ReplayConfig,
    "failures": Failures,
}


@dataclass(frozen=True, slots=True, init=False)
class Described:
    """The values of a `morph_opt.replay.scenario.Scenario`, whose parameters are these."""

    workload: Workload
    cluster: Cluster
    scheduler: Scheduler
    engine: ReplayConfig
    failures: Failures

    def __init__(
        self,
        trace: str | Path | None = None,
        cluster: str | Path | Cluster | None = None,
        *,
        policy: str | None = None,
        objective: str | None = None,
        seed: int | None = None,
        state: str | Path | None = None,
        workload: Workload | None = None,
        scheduler: Scheduler | None = None,
        engine: ReplayConfig | None = None,
        failures: Failures | None = None,
    ) -> None:
        seeded = {"seed": seed}
        if state is not None and trace is None and workload is None:
            trace = STATE_TRACE
        named = {"trace": trace and str(trace), "state": state and str(state)}
        jobs = _with(workload or Workload(), seeded | named)
        if jobs.state is not None and (cluster is None or engine is None):
            begin = read_snapshot(jobs.state).state
            cluster = begin.cluster if cluster is None else cluster
            engine = engine or ReplayConfig(interval_s=begin.interval_s)
        decider = _with(
            scheduler or Scheduler(), seeded | {"policy": policy, "objective": objective}
        )
        put = object.__setattr__
        put(self, "workload", jobs)
        put(self, "cluster", _cluster(cluster, jobs))
        put(self, "scheduler", decider)
        put(self, "engine", engine or ReplayConfig())
        put(self, "failures", _with(failures or Failures(), seeded))

    def replaced(self, **changes: Any) -> Self:
        """The same with other values, by the names of the parameters or of any part's fields.

        The cluster stays what it is unless it is named, whatever trace or size of a twin is.

        >>> Described().replaced(objective="las", interval_s=30.0).engine.interval_s
        30.0

        Raises
        ------
        InputError
            If a name is unknown or a value out of range. A ``seed`` is that of all parts.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in _PARTS}
        parts |= {name: changes.pop(name) for name in tuple(changes) if name in parts}
        cluster = changes.pop("cluster", self.cluster)
        known = set()
        for name, part in parts.items():
            mine = {key: changes[key] for key in _names(type(part)) if key in changes}
            known |= set(mine)
            parts[name] = replace(part, **mine)
        if unknown := set(changes) - known:
            raise InputError("is no field of a scenario", field=min(unknown))
        return type(self)(cluster=cluster, **parts)

    @property
    def engine_rules(self) -> ReplayConfig:
        """The engine's settings; published simulators act on what is there at 0 at 0."""
        return (
            replace(self.engine, first_boundary=0)
            if self.scheduler.artifact_quirks
            else (self.engine)
        )

    def to_toml(self) -> str:
        """Text of ``config.toml``."""
        parts = {name: _plain(getattr(self, name)) for name in _PARTS}
        return toml_text(
            {"version": CONFIG_VERSION, **parts, "cluster": cluster_to_tables(self.cluster)}
        )

    @property
    def digest(self) -> str:
        """Hash of the whole text, in hexadecimal."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


Part = TypeVar("Part", bound="Workload | Scheduler | Failures")


def _with(part: Part, given: Mapping[str, Any]) -> Part:
    """The part with what was given in short."""
    return replace(part, **{name: value for name, value in given.items() if value is not None})


def _cluster(given: str | Path | Cluster | None, workload: Workload) -> Cluster:
    from morph_opt.traces.registry import home_cluster

    if isinstance(given, Cluster):
        return given
    if given is not None:
        return load_cluster(str(given))
    home = home_cluster(workload.trace, **workload.trace_options)
    return parse_short(home) if home else default_cluster()


# ---------------------------------------------------------------- file form


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


def _plain(part: object) -> dict[str, Any]:
    """Fields as TOML has them: what is None is not there, tables are last and sorted."""
    values = {name: getattr(part, name) for name in _names(type(part))}
    tables = {
        name: {key: float(number) for key, number in sorted(value.items())}
        for name, value in values.items()
        if isinstance(value, Mapping)
    }
    return {n: v for n, v in values.items() if v is not None and n not in tables} | tables


_READ: dict[type, Callable[[Fields, str], Any]] = {
    str: Fields.text,
    int: Fields.whole,
    float: Fields.number,
    bool: Fields.flag,
}


def _value(read: Fields, name: str, kind: Any) -> Any:
    if isinstance(kind, UnionType):
        (kind,) = set(get_args(kind)) - {NoneType}
        if not read.given(name):
            return None
    if get_origin(kind) is not None:  # a table of numbers by name
        table = read.object(name, None)
        return {key: table.number(key) for key in table}
    return _READ[kind](read, name)


def _part(read: Fields, kind: type[Any]) -> Any:
    hints = get_type_hints(kind)
    values = {name: _value(read, name, hints[name]) for name in _names(kind)}
    return read.built(lambda: kind(**values))


def read_described(path: str | Path) -> dict[str, Any]:
    """The parts of a scenario and its cluster by name, as `Described.to_toml` wrote them.

    Raises
    ------
    InputError
        If the file is missing or is not one.
    """
    file = Path(path)
    if not exists(file):
        raise InputError(f"is no run folder (it has no {file.name})", file=str(file.parent))
    tables, text = read_toml(file)
    top = ("version", *_PARTS, "cluster")
    document = Fields(tables, "", str(file), top, key_lines(text))
    version = document.whole("version")
    if version != CONFIG_VERSION:
        raise document.error("version", f"must be {CONFIG_VERSION}, got {version!r}")
    parts = {
        name: _part(document.object(name, _names(kind)), kind) for name, kind in _PARTS.items()
    }
    cluster = cluster_of(document.object("cluster", CLUSTER_FIELDS))
    return {"cluster": cluster, **parts}
