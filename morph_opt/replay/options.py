"""Everything that decides a run of the command line; written to and read from ``config.toml``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from morph_opt.clusters import cluster_of, cluster_to_tables
from morph_opt.clusters.spec import CLUSTER_FIELDS
from morph_opt.commandline import named_numbers
from morph_opt.documents import Fields, exists, key_lines, read_toml, toml_text
from morph_opt.domain import Cluster, InputError, default_cluster
from morph_opt.engine.config import RANGES, ReplayConfig
from morph_opt.policies.spec import OPTIONS

CONFIG_VERSION = 1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A run, resolved: no default is left open and relative paths are made absolute.

    Parameters
    ----------
    trace, seed
        See `morph_opt.traces.registry.load_trace`; the seed also feeds failures and solver.
    trace_sha256
        Digest of the jobs, so that a resumed run cannot get another trace; "" before loading.
    policy, objective, solver, formulation, method, gap, time_limit_s, node_limit
        See `morph_opt.policies.spec.PolicyOptions`; a ``node_limit`` of 0 means none.
    belief
        ``truth``, ``model`` or ``table``.
    online_fit
        Whether the belief learns from the iteration times of running jobs.
    skip_impossible
        Whether jobs that can never run are dropped.
    events, events_sha256
        File of node events with its digest; "" without one.
    rules, rules_sha256
        File of operator's rules with its digest; "" without one.
    entity_weights
        Weights of tenants, ``a=2,b=1``; "" for 1 each.
    starvation_knob, artifact_quirks
        See `morph_opt.policies.spec.PolicyOptions`.
    packing
        Whether the MILP policy may put two jobs on the same GPUs.
    mtbf_s, mttr_s
        Random node failures; 0 without.
    until_s
        Horizon; 0 without.
    """

    trace: str
    cluster: Cluster = field(default_factory=default_cluster)
    seed: int = 0
    trace_sha256: str = ""
    policy: str = "milp"
    objective: str = "throughput"
    solver: str = "highs"
    formulation: str = "node_pattern"
    method: str = "auto"
    gap: float = 1e-4
    time_limit_s: float = 10.0
    node_limit: int = 0
    belief: str = "truth"
    online_fit: bool = False
    interval_s: float = 60.0
    restart_s: float = 260.0
    restart_s_by_model: Mapping[str, float] = field(default_factory=dict)
    lost_work_s: float = 0.0
    checkpoint_s: float = 1800.0
    until_s: float = 0.0
    events: str = ""
    events_sha256: str = ""
    rules: str = ""
    rules_sha256: str = ""
    mtbf_s: float = 0.0
    mttr_s: float = 0.0
    skip_impossible: bool = False
    entity_weights: str = ""
    starvation_knob: float = 0.0
    artifact_quirks: bool = False
    packing: bool = False

    def __post_init__(self) -> None:
        for name in ("gap", "time_limit_s", "starvation_knob"):
            known = OPTIONS[name].range
            assert known is not None  # a number has one
            known.require(name, getattr(self, name))
        if self.node_limit < 0:
            raise InputError(f"must be at least 0, got {self.node_limit}", field="node_limit")
        if self.mtbf_s or self.mttr_s:
            for name in ("mtbf_s", "mttr_s"):
                RANGES[name].require(name, getattr(self, name))
        if self.entity_weights:
            named_numbers(self.entity_weights, "--entity-weights")
        self.replay_config()

    def replay_config(self) -> ReplayConfig:
        """The engine's settings; raises `InputError` on a bad value."""
        return ReplayConfig(
            interval_s=self.interval_s,
            restart_s=self.restart_s,
            restart_s_by_model=dict(self.restart_s_by_model),
            lost_work_s=self.lost_work_s,
            checkpoint_s=self.checkpoint_s,
            until_s=self.until_s or None,
            seed=self.seed,
            # The published simulators act on what is there at 0 at 0.
            first_boundary=0 if self.artifact_quirks else 1,
        )

    def to_toml(self) -> str:
        """Text of ``config.toml``."""
        restarts = {model: float(s) for model, s in sorted(self.restart_s_by_model.items())}
        return toml_text(
            {
                "version": CONFIG_VERSION,
                "run": {name: getattr(self, name) for name in _PLAIN},
                "restart_s_by_model": restarts,
                "cluster": cluster_to_tables(self.cluster),
            }
        )

    @property
    def digest(self) -> str:
        """Hash of the whole text, in hexadecimal."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


_PLAIN = tuple(
    f.name for f in fields(RunOptions) if f.name not in ("cluster", "restart_s_by_model")
)
_HINTS = get_type_hints(RunOptions)


_READ: dict[type, Callable[[Fields, str], Any]] = {
    str: Fields.text,
    int: Fields.whole,
    float: Fields.number,
    bool: Fields.flag,
}
_TOP = ("version", "run", "restart_s_by_model", "cluster")


def read_options(path: Path) -> RunOptions:
    """The options of a ``config.toml`` that `RunOptions.to_toml` wrote.

    Raises
    ------
    InputError
        If the file is missing or is not one.
    """
    if not exists(path):
        raise InputError(f"is no run folder (it has no {path.name})", file=str(path.parent))
    tables, text = read_toml(path)
    document = Fields(tables, "", str(path), _TOP, key_lines(text))
    version = document.whole("version")
    if version != CONFIG_VERSION:
        raise document.error("version", f"must be {CONFIG_VERSION}, got {version!r}")
    run = document.object("run", _PLAIN)
    values: dict[str, Any] = {name: _READ[_HINTS[name]](run, name) for name in _PLAIN}
    restarts = document.object("restart_s_by_model", None)
    values["restart_s_by_model"] = {model: restarts.number(model) for model in restarts}
    values["cluster"] = cluster_of(document.object("cluster", CLUSTER_FIELDS))
    return run.built(lambda: RunOptions(**values))
