"""A run as one value, `Scenario`, and its file ``config.toml``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from morph_opt.core.documents import Fields, exists, key_lines, read_toml, toml_text
from morph_opt.core.documents.fields import options_table, read_options
from morph_opt.core.domain import SEEDS, Cluster, InputError, Range, Trace, default_cluster
from morph_opt.core.domain.arguments import require_type, shown
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.options import documented, given, option, require_all, settings
from morph_opt.inputs.clusters import cluster_of, cluster_to_tables, load_cluster, parse_short
from morph_opt.inputs.clusters.spec import CLUSTER_FIELDS
from morph_opt.inputs.traces.format import STATE_TRACE
from morph_opt.inputs.traces.options import TRACE_OPTIONS, TraceOptions
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

if TYPE_CHECKING:
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.scheduling.decision.objective import Objective
    from morph_opt.scheduling.policies.base import Policy
    from morph_opt.simulation.events.log import RoundDecided
    from morph_opt.simulation.runs.read import Run

CONFIG_VERSION = 2


@documented
@dataclass(frozen=True, slots=True)
class Workload(TraceOptions):
    """Workload of a run: its trace, seed and initial state.

    It also records digests of the jobs (``sha256``) and of the state (``state_sha256``), so that a
    resumed run cannot get others; None before they are loaded.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    trace: str = option(
        "base",
        "name, log or file of the jobs (base; with --from-state none)",
        metavar="NAME|DATASET/NAME|FORMAT:PATH|FILE",
        common=True,
    )
    seed: int = option(
        0, "seed of twins, random failures and solver", range=SEEDS, metavar="N", common=True
    )
    skip_impossible: bool = option(False, "drop jobs that can never run, with a note")
    sha256: str | None = None
    state: str | None = option(
        None,
        "state to begin with, a file of the command round: its cluster and jobs, then the later "
        "jobs of --trace",
        flag="--from-state",
        metavar="FILE",
    )
    state_sha256: str | None = None

    @property
    def trace_options(self) -> dict[str, Any]:
        """Options of the trace, as `morph_opt.inputs.traces.registry.load_trace` takes it."""
        return {name: getattr(self, name) for name in TRACE_OPTIONS}


@documented
@dataclass(frozen=True, slots=True)
class Failures:
    """Failures and returns of nodes.

    ``events_sha256`` is the digest of the file of events; None before it is read. ``seed`` draws
    the random failures.

    Raises
    ------
    InputError
        If a value is out of range, or one of mean up and down time is given without the other.
    """

    events: str | None = option(None, "file of node failures, drains and returns", metavar="FILE")
    events_sha256: str | None = None
    mtbf_s: float | None = option(
        None, "mean up time of a node between random failures", metavar="S", range=Range(60.0, 1e12)
    )
    mttr_s: float | None = option(
        None, "mean down time of a node after a random failure", metavar="S", range=Range(1.0, 1e9)
    )
    seed: int = option(
        0,
        "seed of random failures (default: --seed)",
        flag="--failure-seed",
        range=SEEDS,
        metavar="N",
    )

    def __post_init__(self) -> None:
        require_all(self)
        if (self.mtbf_s is None) != (self.mttr_s is None):
            raise InputError("mtbf_s and mttr_s are given together", field="mtbf_s")


PARTS: dict[str, type[Any]] = {
    "workload": Workload,
    "scheduler": Scheduler,
    "engine": ReplayConfig,
    "failures": Failures,
}
"""The options of a scenario, by the names of its parts."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Scenario:
    """Definition of a run: workload, cluster, scheduler, engine and failures.

    >>> Scenario("base", "8x8:A800-80GB", objective="jct").scheduler.objective
    'jct'

    Parameters
    ----------
    trace
        Short for the field of ``workload``; or a `Trace` (with the speeds of the built-in model),
        or the result of `load_trace`.
    seed
        Short for the field of ``workload``, of failures and of the solver.
    cluster
        A cluster, its short form (``8x8:A800-80GB``) or a file; None for the trace's.
    policy, objective
        Short for fields of ``scheduler``; or your own object, of which every run gets a copy, or
        the class that makes it from belief and options.
    state
        Short for the field of ``workload``. It sets cluster and interval unless they are given;
        no job arrives later unless a trace is named.
    workload, scheduler, engine, failures
        All other options, by part.

    Raises
    ------
    InputError
        If a value is out of its range or of another type, or the cluster cannot be read.

    Notes
    -----
    An object is known to this process only: a command cannot resume its runs, and sweeps and
    plans, which start other processes, need a name or a file.
    """

    workload: Workload
    cluster: Cluster
    scheduler: Scheduler
    engine: ReplayConfig
    failures: Failures
    own: Mapping[str, Any] = field(init=False)

    def __init__(
        self,
        trace: str | Path | Trace | LoadedTrace | None = None,
        cluster: str | Path | Cluster | None = None,
        *,
        policy: str | Policy | type[Policy] | Callable[..., Policy] | None = None,
        objective: str | Objective[Any] | type[Objective[Any]] | None = None,
        seed: int | None = None,
        state: str | Path | None = None,
        workload: Workload | None = None,
        scheduler: Scheduler | None = None,
        engine: ReplayConfig | None = None,
        failures: Failures | None = None,
    ) -> None:
        from morph_opt.round.reader import read_snapshot

        cluster = require_type("cluster", cluster, str, Path, Cluster, None)
        state = require_type("state", state, str, Path, None)
        for name, part in zip(PARTS, (workload, scheduler, engine, failures), strict=True):
            require_type(name, part, PARTS[name], None)
        if state is not None and trace is None and workload is None:
            trace = STATE_TRACE
        asked = {"trace": trace, "policy": policy, "objective": objective}
        words = {word: _name_of(word, value) for word, value in asked.items()}
        named = {"seed": seed, "trace": words.pop("trace"), "state": state and str(state)}
        jobs = _with(workload or Workload(), named)
        if jobs.state is not None and (cluster is None or engine is None):
            begin = read_snapshot(jobs.state).state
            cluster = begin.cluster if cluster is None else cluster
            engine = engine or ReplayConfig(interval_s=begin.interval_s)
        fields = {
            "workload": jobs,
            "cluster": _resolved(cluster, jobs),
            "scheduler": _with(scheduler or Scheduler(), {"seed": seed} | words),
            "engine": engine or ReplayConfig(),
            "failures": _with(failures or Failures(), {"seed": seed}),
            "own": {w: v for w, v in asked.items() if not isinstance(v, str | Path | None)},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # frozen, with arguments that are no fields

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        shown = {
            name: value
            for part in PARTS
            for name, value in options_table(getattr(self, part)).items()
            if name in given(getattr(self, part)) and name not in ("trace", "policy", "objective")
        }
        words = {"policy": self.scheduler.policy, "objective": self.scheduler.objective}
        if words["policy"] != "milp":
            del words["objective"]
        short = ", ".join(f"{name}={value!r}" for name, value in (words | shown).items())
        return f"Scenario({self.workload.trace!r}, {self.cluster.name!r}, {short})"

    @property
    def trace(self) -> str | Trace | LoadedTrace:
        """Trace: name, file or value."""
        found: str | Trace | LoadedTrace = self.own.get("trace", self.workload.trace)
        return found

    @property
    def policy(self) -> str | Policy | Callable[..., Policy]:
        """Policy: name or value."""
        found: str | Policy | Callable[..., Policy] = self.own.get("policy", self.scheduler.policy)
        return found

    @property
    def objective(self) -> str | Objective[Any]:
        """Objective: name or value."""
        found: str | Objective[Any] = self.own.get("objective", self.scheduler.objective)
        return found

    @property
    def seed(self) -> int:
        """Seed of the jobs."""
        return self.workload.seed

    @property
    def state(self) -> str | None:
        """File of the initial state; None if there is none."""
        return self.workload.state

    def require_named(self, why: str) -> None:
        """Refuse a scenario that holds an object in place of a name.

        Raises
        ------
        InputError
            Naming the part, and why it needs a name.
        """
        for word in self.own:
            rule = "give a name or a file" if word == "trace" else "give package.module:Class"
            raise InputError(f"is an object of this process, and {why}: {rule}", field=word)

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other values, by names of parameters or of any part's fields.

        The cluster stays the same unless it is named, also if trace or size of a twin change.

        >>> Scenario().replaced(objective="las", interval_s=30.0).engine.interval_s
        30.0

        Raises
        ------
        InputError
            If a name is unknown or a value out of range. A ``seed`` is set in all parts.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in PARTS}
        parts |= {name: changes.pop(name) for name in tuple(changes) if name in parts}
        cluster = changes.pop("cluster", self.cluster)
        own = {word: value for word, value in self.own.items() if word not in changes}
        own |= {
            word: changes.pop(word)
            for word in ("trace", "policy", "objective")
            if not isinstance(changes.get(word, ""), str | Path | None)
        }
        known = set()
        for name, part in parts.items():
            if not isinstance(part, PARTS[name]):
                kind = PARTS[name].__name__
                raise InputError(f"must be a mo.{kind}, got {part!r}", field=name)
            mine = {key: changes[key] for key in settings(type(part)) if key in changes}
            known |= set(mine)
            parts[name] = replace(part, **mine) if mine else part
        if unknown := set(changes) - known:
            every = [name for part in PARTS.values() for name in settings(part)]
            near = did_you_mean(min(unknown), ["cluster", *PARTS, *every])
            raise InputError(f"is no field of a scenario{near}", field=min(unknown))
        for word, value in own.items():
            name = "workload" if word == "trace" else "scheduler"
            parts[name] = replace(parts[name], **{word: _name_of(word, value)})
        return type(self)(cluster=cluster, **parts, **own)

    def to_toml(self) -> str:
        """Return the text of ``config.toml``."""
        parts = {name: options_table(getattr(self, name)) for name in PARTS}
        return toml_text(
            {"version": CONFIG_VERSION, **parts, "cluster": cluster_to_tables(self.cluster)}
        )

    @property
    def digest(self) -> str:
        """SHA-256 of everything that differs from its default, in hexadecimal.

        An option that is added later leaves it unchanged.
        """
        parts = {}
        for name in PARTS:
            changed = given(part := getattr(self, name))
            parts[name] = {k: v for k, v in options_table(part).items() if k in changed}
        document = parts | {"cluster": cluster_to_tables(self.cluster)}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def run(
        self,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        progress: Callable[[RoundDecided, int], None] | None = None,
    ) -> Run:
        """Replay the scenario.

        Parameters
        ----------
        out
            Run folder to write; None keeps the run in memory.
        resume
            ``out`` is an interrupted run of the same scenario: continue it.
        progress
            Called after each round with its event and the number of completed jobs.

        Raises
        ------
        InputError
            For everything that a user can cause, found before the run begins.
        morph_opt.scheduling.strict.rules.AllocationError
            If a policy of one's own breaks a rule.
        """
        from morph_opt.replay.prepare import prepare
        from morph_opt.replay.run import reason_at, run_prepared
        from morph_opt.simulation.runs.read import Run

        require_type("out", out, str, Path, None)
        require_type("resume", resume, bool)
        require_type("progress", progress, Callable, None)
        if resume and out is None:
            raise InputError("has an effect together with out only", field="resume")
        folder = None if out is None else Path(out)
        result = run_prepared(prepare(self), folder, resume=resume, progress=progress)
        return Run(replace(result.parts, why=partial(reason_at, self)), folder)


def _name_of(word: str, value: Any) -> str | None:
    """Return the name of a trace, policy or objective, given by name or as an object."""
    if isinstance(value, str) and not value:
        raise InputError("must not be empty", field=word)
    if value is None or isinstance(value, str | Path):
        return None if value is None else str(value)
    if word != "trace":
        from morph_opt.scheduling.policies.registry import name_of_value

        return name_of_value(word, value)
    trace = getattr(value, "trace", value)
    if not isinstance(trace, Trace):
        rule = f"must be a name, a file, a Trace or what load_trace gives, got {shown(value)}"
        raise InputError(rule, field=word)
    return f"given:{re.sub(r'[^0-9A-Za-z]', '_', trace.name)[:100]}_{trace.sha256[:8]}"


Part = TypeVar("Part", bound="Workload | Scheduler | Failures")


def _with(part: Part, asked: Mapping[str, Any]) -> Part:
    """Return the part with the short arguments set; a contradiction is refused.

    Raises
    ------
    InputError
        If it does.
    """
    short = {name: value for name, value in asked.items() if value is not None}
    for name in sorted(given(part) & short.keys()):
        if (own := getattr(part, name)) != short[name]:
            kind = type(part).__name__
            rule = f"is given twice: {shown(short[name])}, and {shown(own)} in mo.{kind}"
            raise InputError(rule, field=name)
    return replace(part, **short)


def _resolved(given: str | Path | Cluster | None, workload: Workload) -> Cluster:
    """Return the given cluster, else the trace's, else the default."""
    from morph_opt.inputs.traces.registry import home_cluster

    if isinstance(given, Cluster):
        return given
    if given is not None:
        return load_cluster(str(given))
    home = home_cluster(workload.trace, **workload.trace_options)
    return parse_short(home) if home else default_cluster()


# ---------------------------------------------------------------- file form


_GONE: dict[str, dict[str, object]] = {
    "scheduler": {"artifact_quirks": False},
    "engine": {"first_boundary": 1},
}
"""Removed settings, with the only value that is still accepted."""
_NO_QUIRKS = (
    "is not supported any more: the benchmark that repeats published code compares its defects, "
    "python -m benchmarks.published"
)


def read_scenario(path: str | Path) -> Scenario:
    """Read the scenario of a ``config.toml`` that `Scenario.to_toml` wrote.

    Raises
    ------
    InputError
        If the file is missing or is not one.
    """
    file = Path(require_type("path", path, str, Path))
    if not exists(file):
        raise InputError(f"is no run folder (it has no {file.name})", file=str(file.parent))
    tables, text = read_toml(file)
    document = Fields(tables, "", str(file), ("version", *PARTS, "cluster"), key_lines(text))
    if (version := document.whole("version")) != CONFIG_VERSION:
        raise document.error("version", f"must be {CONFIG_VERSION}, got {version!r}")
    for name, gone in _GONE.items():
        part = tables.get(name)
        if not isinstance(part, dict):
            continue
        for key in gone.keys() & part.keys():
            if part.pop(key) != gone[key]:
                raise InputError(_NO_QUIRKS, file=str(file), field=f"{name}.{key}")
    parts = {
        name: read_options(document.object(name, settings(kind)), kind)
        for name, kind in PARTS.items()
    }
    return Scenario(cluster=cluster_of(document.object("cluster", CLUSTER_FIELDS)), **parts)
