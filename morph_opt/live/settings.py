"""Settings of the controller, a TOML file; every power is off until it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from formulations.resources import SIDES
from morph_opt.core.documents import Fields, key_lines, read_toml
from morph_opt.core.documents.fields import read_given
from morph_opt.core.domain import InputError, NodeType, Range
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.domain.options import documented, option, require_all, settings

REPORT, WORD = "report", "word"
POWERS = ("order", "placement", "shape", "stops")
_SLURM, _KUBERNETES = ("slurm",), ("kubernetes",)
NODE_TYPE = ("memory_gib", "nvlink_gb_per_s", *(resource.field for resource in SIDES))
_SECONDS = Range(0.0, 1e7)
_COUNT = Range(0, 10**6, whole=True)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Powers and limits of the controller.

    Parameters
    ----------
    partitions
        Partitions, or namespaces, whose jobs may be touched; () for all, of commands that only
        look.
    powers
        Some of `POWERS`: set priorities of jobs that wait; delay them and choose their nodes;
        change their nodes and GPUs before they start; requeue jobs that run. Kubernetes has neither
        the first nor the third: it does not let them be changed.
    node_types
        Properties of node types by name (``a800-x8``) that schedulers lack, for built-in speeds.
    folder
        Folder to which relative names in the file refer.
    """

    partitions: tuple[str, ...] = ()
    powers: frozenset[str] = frozenset()
    node_types: Mapping[str, Mapping[str, float]] | None = None
    folder: Path = Path()
    scheduler: str = option("slurm", "scheduler of the cluster", choices=("slurm", "kubernetes"))
    mark: str = option("morph", "first word of the comment of jobs that take part", marks=_SLURM)
    interval_s: float = option(60.0, "longest time between turns", range=Range(0.1, 1e5))
    poll_s: float = option(1.0, "time between looks for a change", range=Range(0.05, 1e5))
    timeout_s: float = option(10.0, "time limit of every command", range=Range(0.1, 1e4))
    settle_s: float = option(2.5, "least time from a job's end to its restart", range=_SECONDS)
    park_s: float = option(
        1800.0,
        "time from now to the begin time of parked jobs",
        range=Range(10.0, 1e6),
        marks=_SLURM,
    )
    clock_s: float = option(2.0, "largest difference between the clocks", range=_SECONDS)
    lease_s: float = option(120.0, "time after which another may take over", range=Range(5.0, 1e5))
    restart_s: float = option(60.0, "cost of a restart unless a job states it", range=_SECONDS)
    margin: float = option(1.5, "least worth of a stop, in restart costs", range=Range(1.0, 1e3))
    minimum_run_s: float = option(600.0, "least run time before a job is stopped", range=_SECONDS)
    restarts_per_hour: int = option(2, "most restarts of a job", range=Range(1, 10**6, whole=True))
    starts_per_turn: int = option(200, "largest number of starts of all jobs", range=_COUNT)
    stop_needs: str = option(
        REPORT,
        "evidence that a job's end is far, needed to stop it: the work left that it reports, or "
        "its user's estimate of its run time",
        choices=(REPORT, WORD),
    )
    stops_per_turn: int = option(4, "largest number of stops of all jobs", range=_COUNT)
    stops_per_hour: int = option(20, "largest number of stops of all jobs", range=_COUNT)
    launches: int = option(3, "failed launches after which a job is left alone", range=_COUNT)
    observe_turns: int = option(20, "number of turns observed before acting", range=_COUNT)
    boot_s: float = option(
        600.0,
        "time after slurmctld's start in which older jobs are not stopped",
        range=_SECONDS,
        marks=_SLURM,
    )
    probe: bool = option(
        True, "connect to the slurmd of a job's nodes before it is stopped", marks=_SLURM
    )
    launch_s: float = option(
        120.0,
        "time within which a started pod must get its node, or its job returns to the queue",
        range=_SECONDS,
        marks=_KUBERNETES,
    )
    server: str = option(
        "",
        "URL of the API server or of kubectl proxy; by default that of the surrounding pod",
        marks=_KUBERNETES,
    )
    token: str = option("", "file of the token for the API server", marks=_KUBERNETES)
    ca: str = option("", "file of the API server's certificates", marks=_KUBERNETES)
    lease: str = option(
        "morph-opt/controller", "NAMESPACE/NAME of the acting controller's Lease", marks=_KUBERNETES
    )
    keep_rounds: int = option(1440, "number of rounds whose documents are kept", range=_COUNT)
    speeds: str = option("", "speeds of models that jobs name: a file of speeds, model, or none")
    reports: str = option("", "folder in which jobs report their progress")

    def __post_init__(self) -> None:
        require_all(self)
        for power in self.powers:
            if power not in POWERS:
                raise InputError(unknown("power", power, POWERS), field="powers")
        for name, one in settings(Settings).items():
            of = "".join(one.about.marks)
            if of not in ("", self.scheduler) and getattr(self, name) != one.default:
                raise InputError(f"has an effect with {of} only", field=name)
        if not all(self.lease.partition("/")):
            raise InputError(f"must be NAMESPACE/NAME, got {self.lease!r}", field="lease")
        if self.scheduler == "kubernetes" and (none := self.powers & {"order", "shape"}):
            rule = f"{min(none)!r} is not possible: Kubernetes changes neither priority nor GPUs"
            raise InputError(rule, field="powers")
        if self.powers & {"shape", "stops"} and "placement" not in self.powers:
            rule = "must name placement too: shape and stops need jobs whose start is chosen"
            raise InputError(rule, field="powers")

    def described(self, kind: NodeType) -> NodeType:
        """Return a node type with the properties that the file has for it."""
        more: dict[str, Any] = dict((self.node_types or {}).get(kind.name, {}))
        if not more:
            return kind
        gpu = replace(kind.gpu_type, memory_gib=more.pop("memory_gib", kind.gpu_type.memory_gib))
        cpus = int(more.pop("cpus", kind.cpus))
        return replace(kind, gpu_type=gpu, cpus=cpus, **more)


def read_settings(path: Path) -> Settings:
    """Read the settings of a file.

    Raises
    ------
    InputError
        Naming file, line and field.
    """
    tables, text = read_toml(path)
    known = (*settings(Settings), "partitions", "powers", "node_types")
    read = Fields(tables, "", str(path), known, key_lines(text))
    kinds = {
        name: {key: row.number(key, above=0.0) for key in row}
        for name, row in read.named("node_types", NODE_TYPE).items()
    }
    return read.built(
        lambda: Settings(
            partitions=read.value("partitions", tuple[str, ...], ()),
            powers=frozenset(read.value("powers", tuple[str, ...], ())),
            node_types=kinds,
            folder=path.parent,
            **read_given(read, Settings),
        )
    )
