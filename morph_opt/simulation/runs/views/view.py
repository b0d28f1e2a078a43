"""Finished run with the values that reports and pictures need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from morph_opt.core.documents import (
    TOML_BYTES,
    Fields,
    exists,
    key_lines,
    parse_toml,
    read_json,
    read_text,
)
from morph_opt.core.domain import Cluster, InputError
from morph_opt.inputs.clusters import cluster_of
from morph_opt.inputs.clusters.spec import CLUSTER_FIELDS
from morph_opt.simulation.events.log import Ended
from morph_opt.simulation.metrics.history import Segment, segments_of
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.read import Run, read_run
from morph_opt.simulation.runs.summary import Summary, Values
from morph_opt.simulation.runs.views.nodes import NodeMap, Outage, outages
from morph_opt.simulation.runs.views.rectangles import Rectangles, rectangles_of
from morph_opt.simulation.runs.write import CONFIG, EVENTS, VERSIONS

_T = TypeVar("_T")

RunLike: TypeAlias = Run | str | Path
"""Run or path of a run folder."""


class RunView:
    """Finished run with derived values, each read at first use.

    Parameters
    ----------
    run
        The run.
    name
        Name in tables and pictures.

    Raises
    ------
    InputError
        If a file of the folder is damaged; names file and line.
    """

    def __init__(self, run: Run, name: str | None = None) -> None:
        self.run = run
        self.name = name or default_name(run.summary)

    @property
    def values(self) -> Values:
        """Content of ``summary.json``."""
        return self.run.summary.values

    @cached_property
    def config(self) -> str:
        """Text of ``config.toml``; empty if the run was not made from a scenario."""
        folder = self.run.folder
        if folder is None or not exists(folder / CONFIG):
            return ""
        return read_text(folder / CONFIG, TOML_BYTES)

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Tables of ``config.toml``; empty without that file."""
        return parse_toml(self.config, self.file(CONFIG))

    @cached_property
    def cluster(self) -> Cluster | None:
        """Cluster of ``config.toml``; None without that file.

        Other tables are not read, so that runs of versions with other options can be shown.
        """
        if not self.config:
            return None
        lines = key_lines(self.config)
        document = Fields(self.settings, "", self.file(CONFIG), None, lines)
        return cluster_of(document.object("cluster", CLUSTER_FIELDS))

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Versions of the packages that made the run; empty if unknown."""
        folder = self.run.folder
        if folder is None or not exists(folder / VERSIONS):
            return {}
        found = read_json(folder / VERSIONS)
        file = str(folder / VERSIONS)
        if not isinstance(found, dict) or "python" not in found:
            raise InputError("is no table of versions", file=file)
        for name, version in found.items():
            if isinstance(version, dict | list) or not f"{name}{version}".isprintable():
                raise InputError("must be one line of text", file=file, field=name)
        return {name: str(version) for name, version in found.items()}

    @cached_property
    def nodes(self) -> NodeMap:
        """Nodes of the cluster."""
        if self.cluster is not None:
            return NodeMap.of_cluster(self.cluster)
        return self._placed(lambda: NodeMap.of_log(self.run.events))

    @cached_property
    def jobs(self) -> Sequence[JobRow]:
        """Rows of ``jobs.csv``."""
        return self.run.jobs

    @cached_property
    def job_index(self) -> Mapping[str, int]:
        """Index of each job by name."""
        return {row.job: index for index, row in enumerate(self.jobs)}

    @cached_property
    def segments(self) -> tuple[tuple[int, Segment], ...]:
        """Segments with the index of their job, by job and time."""
        index = self.job_index

        def found() -> list[tuple[int, Segment]]:
            rows = []
            for segment in segments_of(self.run.events):
                job = segment.job
                if job not in index:
                    raise InputError(f"names job {job!r}, which is not in jobs.csv")
                if any(
                    node >= len(self.nodes.gpus) or gpus[-1] >= self.nodes.gpus[node]
                    for node, gpus in segment.placement.parts
                ):
                    raise InputError(f"gives job {job!r} GPUs that the cluster does not have")
                rows.append((index[job], segment))
            return rows

        return tuple(sorted(self._placed(found), key=lambda row: (row[0], row[1].start_s)))

    @cached_property
    def segments_by_job(self) -> Mapping[int, tuple[int, ...]]:
        """Numbers of each job's segments in `segments`."""
        found: dict[int, list[int]] = {}
        for number, (job, _) in enumerate(self.segments):
            found.setdefault(job, []).append(number)
        return {job: tuple(numbers) for job, numbers in found.items()}

    @cached_property
    def rectangles(self) -> Rectangles:
        """Segments as rectangles."""
        return rectangles_of(self.segments, self.nodes, self.job_index)

    @cached_property
    def outages(self) -> tuple[Outage, ...]:
        """Outages of nodes."""
        return self._placed(lambda: outages(self.run.events, self.nodes))

    @cached_property
    def end_s(self) -> float:
        """Last instant of the run."""
        last = self.run.events[-1] if len(self.run.events) else None
        if not isinstance(last, Ended):
            raise InputError("has no end", file=self.file(EVENTS))
        return last.time_s

    def read(self) -> None:
        """Read every file, to find damaged ones early."""
        _ = self.versions, self.segments, self.outages, self.end_s, len(self.run.rounds)

    def file(self, name: str) -> str | None:
        """Return the path of a file of the folder, for error messages."""
        return None if self.run.folder is None else str(self.run.folder / name)

    def _placed(self, make: Callable[[], _T]) -> _T:
        """Return the result of a function of the log, adding the file to its errors."""
        try:
            return make()
        except InputError as error:
            raise error.located(file=self.file(EVENTS)) from error


def default_name(summary: Summary) -> str:
    """Return the objective of a MILP, else the policy."""
    return summary.policy if summary.objective is None else f"MILP {summary.objective}"


def open_run(run: RunLike, name: str | None = None) -> RunView:
    """Open a run for drawing.

    Raises
    ------
    InputError
        If the folder holds no finished run.
    """
    return RunView(run if isinstance(run, Run) else read_run(run), name)


def open_runs(runs: Iterable[RunLike]) -> tuple[RunView, ...]:
    """Open runs for drawing, with distinct names.

    Raises
    ------
    InputError
        If a folder holds no finished run, is given twice, or there is none.
    """
    views = [open_run(run) for run in runs]
    if not views:
        raise InputError("at least one run is needed", field="RUN")
    folders = Counter(v.run.folder.resolve() for v in views if v.run.folder is not None)
    for folder, times in folders.items():
        if times > 1:
            raise InputError("is given twice", file=str(folder), field="RUN")
    for view, name in zip(views, distinct_names(views), strict=True):
        view.name = name
    return tuple(views)


def distinct_names(views: Sequence[RunView]) -> list[str]:
    """Return distinct names: by policy, else with trace and folder, else with a number."""
    names = [view.name for view in views]
    traces = [view.run.summary.trace for view in views]
    folders = ["" if view.run.folder is None else view.run.folder.name for view in views]
    for more in (traces, folders):
        labels = {
            name: {m for m, n in zip(more, names, strict=True) if n == name} for name in names
        }
        names = [
            f"{name}, {one}" if len(labels[name]) > 1 and one else name
            for name, one in zip(names, more, strict=True)
        ]
    times, seen = Counter(names), Counter[str]()
    for position, name in enumerate(names):
        seen[name] += 1
        if times[name] > 1:
            names[position] = f"{name} ({seen[name]})"
    return names
