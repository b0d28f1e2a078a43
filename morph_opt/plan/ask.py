"""What every question shares: a base scenario, workloads, where it runs, where it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from morph_opt.clusters import load_cluster
from morph_opt.clusters.short import sized_node
from morph_opt.domain import A800_NODE, Cluster, InputError, NodeType
from morph_opt.plan.evaluate import Evaluator
from morph_opt.plan.workloads import Source, source_of
from morph_opt.replay.scenario import Scenario
from morph_opt.sweep import Limits, Progress
from morph_opt.traces.registry import home_cluster

EXPLORATION = 20
"""Workloads that a search looks at before it names a fleet."""


@dataclass(frozen=True)
class Ask:
    """A question's circumstances.

    Parameters
    ----------
    trace
        Where workloads come from; see `morph_opt.plan.workloads.source_of`.
    out
        Folder of the answer, its cells included; None: ``runs/plan-QUESTION``.
    cluster
        Cluster, short form or file; None: that of the trace.
    options
        Fields of the scenario by name: ``policy``, ``objective``, ``interval_s`` ...
    blocks, load
        Of the workloads.
    on, limits, progress
        See `morph_opt.sweep.run_cells`.
    """

    trace: str = "base"
    out: Path | None = None
    cluster: str | Cluster | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    blocks: str | None = None
    load: float = 1.0
    on: str | None = None
    limits: Limits = field(default_factory=Limits)
    progress: Callable[[Progress], None] | None = None

    def folder(self, question: str) -> Path:
        """Where the answer is kept."""
        return self.out or Path("runs") / f"plan-{question}"

    def evaluator(self, question: str) -> Evaluator:
        """The evaluator of its folder."""
        return Evaluator(self.folder(question), self.on, self.limits, self.progress)

    def source(self, load: float | None = None) -> Source:
        """Its workloads, at another load if one is given."""
        return source_of(
            self.trace, load=self.load if load is None else load, blocks=self.blocks
        )  # fmt: skip

    @property
    def base(self) -> Scenario:
        """The scenario that the question varies."""
        return Scenario("naive", self.whole_cluster).replaced(**self.options)

    @property
    def whole_cluster(self) -> Cluster:
        """The cluster that it starts from."""
        if isinstance(self.cluster, Cluster):
            return self.cluster
        given = self.cluster or home_cluster(self.trace) or "8x8"
        return load_cluster(given)

    def asked(self, **more: Any) -> dict[str, Any]:
        """The question in plain values."""
        options = {k: v if isinstance(v, int | float) else str(v) for k, v in self.options.items()}
        plain = {
            "trace": self.trace, "cluster": self.whole_cluster.name, "blocks": self.blocks,
            "load": self.load, **options,
        }  # fmt: skip
        return plain | {k: v for k, v in more.items() if v is not None}


def node_type_of(name: str | None, gpus: int | None = None) -> NodeType:
    """A node of the catalog with GPUs of this type.

    Raises
    ------
    InputError
        If the GPU type is unknown.
    """
    try:
        return sized_node(gpus or A800_NODE.gpus, name)
    except InputError as error:
        raise InputError(error.rule, field="--node-type") from error
