"""Every reader of a file that the project has, with the format that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.instances.certificates import read_certificate
from benchmarks.instances.fleets import read_fleet_certificate
from benchmarks.instances.library import load_mps, load_round, read_table
from benchmarks.perf.public_runs import read_public
from benchmarks.published.parts import tiresias_samples
from benchmarks.readme.cases import cases
from benchmarks.readme.rerun import read_measured
from benchmarks.readme.results import load
from morph_opt.core.documents import TOML_BYTES, read_text
from morph_opt.core.domain import default_cluster
from morph_opt.inputs.clusters import read_cluster
from morph_opt.inputs.perf.analytic.modelfile import outlines_of, population_of
from morph_opt.inputs.perf.analytic.zoo import builtin_population
from morph_opt.inputs.perf.fitting.runs import read_runs
from morph_opt.inputs.perf.tables.gavel import read_throughputs
from morph_opt.inputs.traces import gavel, tiresias
from morph_opt.inputs.traces.morphling import read_table as read_placements
from morph_opt.inputs.traces.morphling import read_workload
from morph_opt.replay.scenario import read_scenario
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.shares.share_file import read_instances
from morph_opt.simulation.engine.node_events import read_node_events
from morph_opt.simulation.runs.read import Run, folder_parts, read_run
from morph_opt.simulation.runs.rounds import HEADER
from morph_opt.simulation.runs.views.explanations import read_prices, read_waits
from morph_opt.simulation.runs.views.view import RunView
from morph_opt.simulation.runs.write import Recorded

CASE = cases(("base",))[0]


def seen(folder: Path) -> RunView:
    """A run folder, opened for drawing without asking whether it is whole."""
    return RunView(Run(folder_parts(folder), folder), "run")


Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Reader:
    """Where a document has to stand below a folder, its format, and who reads it."""

    name: str
    format: str
    read: Read

    def __str__(self) -> str:
        return self.name


def beside(name: str, text: str, read: Read) -> Read:
    """Another file of the folder has to be right first."""

    def reading(path: Path) -> Any:
        (path.parent / name).write_text(text)
        return read(path)

    return reading


def of_folder(read: Callable[[Path], Any]) -> Read:
    return lambda path: read(path.parent)


def model_file(path: Path) -> Any:
    return outlines_of(read_text(path, TOML_BYTES), str(path), builtin_population())


def population(path: Path) -> Any:
    return population_of(read_text(path, TOML_BYTES), str(path))


def all_readers() -> Iterator[Reader]:
    cluster = default_cluster()
    yield Reader("cluster.toml", "toml", read_cluster)
    yield Reader("rules.toml", "toml", read_rules)
    yield Reader("model.toml", "toml", model_file)
    yield Reader("population.toml", "toml", population)
    yield Reader("config.toml", "toml", read_scenario)
    yield Reader("state.json", "json", read_snapshot)
    yield Reader("shares.json", "json", read_instances)
    yield Reader("bound.json", "json", read_certificate)
    yield Reader("fleet.json", "json", read_fleet_certificate)
    yield Reader("simulation_throughputs.json", "json", read_throughputs)
    yield Reader("summary.json", "json", of_folder(lambda folder: read_run(folder).summary))
    yield Reader("results.json", "json", of_folder(load))
    slug = CASE.slug
    measured = of_folder(lambda folder: read_measured(CASE, folder))
    yield Reader(f"{slug}.measured.json", "json", measured)
    yield Reader("a/summary.json", "json", of_folder(read_run))
    yield Reader("a/jobs.csv", "csv", of_folder(lambda f: Run(folder_parts(f)).jobs))
    yield Reader("a/rounds.csv", "csv", of_folder(lambda f: Run(folder_parts(f)).rounds))
    yield Reader("a/events.jsonl", "log", of_folder(lambda f: list(Run(folder_parts(f)).events)))
    yield Reader(
        "b/explain.jsonl", "jsonl", of_folder(lambda f: (read_waits(seen(f)), read_prices(seen(f))))
    )
    yield Reader("b/versions.json", "json", of_folder(lambda f: seen(f).versions))
    yield Reader("b/config.toml", "toml", of_folder(lambda f: seen(f).cluster))
    yield Reader("events.jsonl", "jsonl", lambda path: read_node_events(path, cluster))
    yield Reader("events.csv", "csv", lambda path: read_node_events(path, cluster))
    yield Reader(
        "events.jsonl.partial", "log", beside("rounds.csv.partial", HEADER, of_folder(Recorded))
    )
    yield Reader("rounds.csv.partial", "rows", of_folder(Recorded))
    workload = "workload.csv"
    yield Reader(workload, "csv", lambda path: read_workload(path, name="x", models=("gpt2",)))
    yield Reader("model/placements.csv", "csv", read_placements)
    yield Reader("public/placements.csv", "csv", read_public)
    yield Reader("runs.csv", "csv", read_runs)
    yield Reader("library.csv", "csv", of_folder(read_table))
    yield Reader("60_job.csv", "csv", tiresias.read_trace_rows)
    yield Reader("samples.csv", "csv", tiresias_samples.read_samples)
    yield Reader("x.trace", "lines", gavel.read_rows)
    yield Reader("m.mps", "lines", load_mps)
    yield Reader("m.mps.xz", "xz", load_mps)
    yield Reader("m.mps.gz", "gz", load_mps)
    yield Reader("state.json.gz", "gz", read_snapshot)
    yield Reader("m.round.json.xz", "xz", of_folder(lambda folder: load_round(folder, "m")))
