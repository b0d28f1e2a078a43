"""Circumstances that every question shares: scenario, workloads, executor and folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from morph_opt.core.domain import A800_NODE, InputError, NodeType
from morph_opt.core.domain.arguments import require_type
from morph_opt.inputs.clusters.short import sized_node
from morph_opt.inputs.traces.resampled import BLOCK_S, LOADS
from morph_opt.plan.evaluate import Evaluator
from morph_opt.plan.site import Site, Trust, hindcast_of, knowing
from morph_opt.plan.workloads import Source, source_of
from morph_opt.replay.scenario import Scenario
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.scheduling.policies.scheduler import require_scheduler
from morph_opt.simulation.runs.slo import Slo
from morph_opt.sweep import Limits, Progress
from morph_opt.sweep.executors import require_named


@dataclass(frozen=True)
class Ask:
    """Circumstances of a question.

    Parameters
    ----------
    scenario
        Scenario that the question varies. Its trace is the source of the workloads
        (`morph_opt.plan.workloads.source_of`); seeds of jobs and failures are those of each
        workload, whatever it has itself.
    out
        Folder of the answer, its cells included; None: ``runs/plan-QUESTION``.
    blocks, load
        Blocks and load factor of the workloads.
    on, limits, progress
        See `morph_opt.sweep.run_cells`.
    site
        Site of a log, under whose scheduler it is replayed first; None tries Slurm's defaults.
    stated
        Whether the scenario's ``durations`` are as asked. If not, policies are told time limits
        in place of run times where a log states them.
    """

    scenario: Scenario = field(default_factory=Scenario)
    out: str | Path | None = None
    blocks: str | None = None
    load: float = 1.0
    on: str | None = None
    limits: Limits = field(default_factory=Limits)
    progress: Callable[[Progress], None] | None = None
    site: Site | None = None
    stated: bool = False

    def __post_init__(self) -> None:
        require_type("scenario", self.scenario, Scenario)
        require_type("out", self.out, str, Path, None)
        require_type("site", self.site, Site, None)
        require_type("stated", self.stated, bool)
        LOADS.require("load", self.load)
        if self.blocks not in (None, *BLOCK_S):
            rule = f"must be {' or '.join(BLOCK_S)}, got {self.blocks!r}"
            raise InputError(rule, field="blocks")
        if self.on is not None:
            require_named(self.on)

    def folder(self, question: str) -> Path:
        """Return the folder of the answer."""
        return Path(self.out or f"runs/plan-{question}")

    def knowing(self) -> Ask:
        """Return a copy whose policy knows only what it would know at the site of a log."""
        scenario, _ = knowing(self.scenario, stated=self.stated)
        return replace(self, scenario=scenario)

    def trusted(
        self, question: str, metric: Slo | None = None, *, there: bool = True
    ) -> tuple[Ask, Trust]:
        """Return `knowing`, and what precedes the answer: the hindcast, and what is known.

        Parameters
        ----------
        question
            Name of the question.
        metric
            Figure whose differences are judged; None for none.
        there
            Whether the scenario's cluster is that of the log, unless the site names another.

        Raises
        ------
        InputError
            See `morph_opt.plan.site.hindcast_of`; also for a scheduler that no replay accepts.
        """
        self._require_named()
        require_decides(self.scenario.scheduler)
        scenario, line = knowing(self.scenario, stated=self.stated)
        trust = hindcast_of(self, self.folder(question), metric, there=there)
        lines = (*trust.lines, *filter(None, [line]))
        return replace(self, scenario=scenario), replace(trust, lines=lines)

    def evaluator(self, question: str) -> Evaluator:
        """Make an evaluator that keeps its results in the answer's folder.

        Raises
        ------
        InputError
            If the scheduler's name is unknown or cannot be imported. Bounds may answer a question
            without a replay, and would hide it.
        """
        self._require_named()
        require_decides(self.scenario.scheduler)
        return Evaluator(self.folder(question), self.on, self.limits, self.progress)

    def _require_named(self) -> None:
        self.scenario.require_named("sweeps and plans run in processes of their own")

    def source(self, load: float | None = None) -> Source:
        """Return the source of the workloads, at the given load if any."""
        self._require_named()
        workload = self.scenario.workload
        return source_of(
            workload.trace,
            load=self.load if load is None else load,
            blocks=self.blocks,
            options=workload.trace_options,
        )

    def asked(self, **more: Any) -> dict[str, Any]:
        """Return the question as plain values: fields without their default, and ``more``."""
        plain = {
            "trace": self.scenario.workload.trace,
            "cluster": self.scenario.cluster.name,
            "blocks": self.blocks,
            "load": self.load,
            **_changed(self.scenario),
        }
        return plain | {k: v for k, v in more.items() if v is not None}


def _changed(scenario: Scenario) -> dict[str, Any]:
    """Return the fields of a scenario that differ from their defaults, without the trace."""
    parts = (scenario.workload, scenario.scheduler, scenario.engine, scenario.failures)
    changed = {}
    for part in parts:
        usual = type(part)()
        for one in fields(part):
            value = getattr(part, one.name)
            if value != getattr(usual, one.name) and one.name not in ("trace", "seed"):
                kept = isinstance(value, int | float | Mapping)
                changed[one.name] = value if kept else str(value)
    return changed


def require_decides(scheduler: Scheduler) -> None:
    """Refuse a scheduler that no replay accepts.

    Raises
    ------
    InputError
        As `require_scheduler`, and for what cannot be imported.
    """
    from morph_opt.scheduling.policies.registry import resolve

    require_scheduler(scheduler)
    resolve(scheduler.policy, scheduler.objective)


def node_type_of(name: str | None, gpus: int | None = None, field: str = "--node-type") -> NodeType:
    """Return a node type of the catalog with GPUs of this type.

    Raises
    ------
    InputError
        If the GPU type is unknown.
    """
    if name == "":
        raise InputError("must not be empty", field=field)
    return sized_node(A800_NODE.gpus if gpus is None else gpus, name, field)
