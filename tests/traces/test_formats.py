"""Every built-in format keeps what a trace has to keep; a new one is tested by being listed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError, default_cluster
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.format import LoadedTrace, TraceFormat
from morph_opt.inputs.traces.registry import (
    FORMATS,
    home_cluster,
    known_traces,
    load_trace,
    takes_seed,
)
from morph_opt.simulation.metrics.bounds.demands import why_impossible

LOG_SETS = {"acme", "helios", "philly"}
SPECS = [(known, spec) for known in FORMATS.values() for spec in known.specs]


@lru_cache(maxsize=32)
def loaded(spec: str, seed: int = 0) -> LoadedTrace:
    return load_trace(spec, seed=seed)


def require_data(known: TraceFormat, spec: str | None = None) -> None:
    if known.data_set is not None:
        try:
            loaded(spec or known.specs[0])
        except InputError as error:
            if "is not on this machine" not in str(error):
                raise
            # Logs of clusters are gigabytes that nobody has at hand; no run can require them.
            needs = "needs a log" if known.data_set in LOG_SETS else "needs public data"
            pytest.skip(f"{needs}: {error}")


@pytest.mark.parametrize(("known", "spec"), SPECS, ids=[spec for _, spec in SPECS])
def test_a_format_keeps_the_contract(known: TraceFormat, spec: str) -> None:
    require_data(known, spec)
    found = loaded(spec)
    trace, truth = found.trace, found.truth
    assert spec in known_traces()
    assert found.kind == ("twin" if known.data_set is None else "original")
    assert found.notice
    assert found.notice.isprintable()
    assert "\n" not in found.notice
    assert trace.jobs
    assert [job.submission_s for job in trace.jobs] == sorted(j.submission_s for j in trace.jobs)
    assert {job.model for job in trace.jobs} <= set(truth.models())
    assert load_trace(spec).trace.sha256 == trace.sha256


@pytest.mark.parametrize(("known", "spec"), SPECS, ids=[spec for _, spec in SPECS])
def test_home_cluster_of_a_format_runs_its_jobs(known: TraceFormat, spec: str) -> None:
    """A format whose speeds do not attach, or whose home is another, runs next to nothing."""
    require_data(known, spec)
    home = home_cluster(spec)
    assert home == known.home or callable(known.home)
    cluster = load_cluster(home) if home else default_cluster()
    found = loaded(spec)
    reasons: dict[tuple[object, ...], str | None] = {}
    for job in found.trace.jobs:
        key = (job.model, job.requested_gpus, job.requested_plan, job.cpus_per_gpu)
        if key not in reasons:
            reasons[key] = why_impossible(job, found.truth, cluster)
    impossible = [reason for reason in reasons.values() if reason is not None]
    assert len(impossible) <= 0.05 * len(reasons), impossible[:3]


NAMED = {name: known for name, known in FORMATS.items() if known.specs}
"""Formats that have traces by name; the other ones are logs alone."""


@pytest.mark.parametrize("known", NAMED.values(), ids=NAMED)
def test_a_seed_draws_another_member_or_nothing(known: TraceFormat) -> None:
    require_data(known)
    spec = known.specs[0]
    assert takes_seed(spec) == known.seeded
    assert (loaded(spec, 1).trace.sha256 != loaded(spec).trace.sha256) == known.seeded


@pytest.mark.parametrize("known", FORMATS.values(), ids=FORMATS)
def test_an_unknown_argument_is_refused_in_one_line(known: TraceFormat) -> None:
    with pytest.raises(InputError) as caught:
        load_trace(f"{known.name}/no-such")
    assert "\n" not in str(caught.value)
    assert "no-such" in str(caught.value)


ORIGINALS = {name: known for name, known in FORMATS.items() if known.data_set is not None}


@pytest.mark.parametrize("known", ORIGINALS.values(), ids=ORIGINALS)
def test_a_known_argument_without_its_data_set_says_how_to_get_it(
    known: TraceFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is listed is never called unknown, and what is not listed never asks for data."""
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path))
    for spec in known.specs:
        with pytest.raises(InputError, match="the data set is not on this machine"):
            load_trace(spec)
    test_an_unknown_argument_is_refused_in_one_line(known)


def test_every_format_is_on_the_page_with_its_speeds(project_root: Path) -> None:
    page = " ".join((project_root / "docs" / "traces.md").read_text("utf-8").split())
    for known in FORMATS.values():
        assert known.speeds in page, known.name
        for spec in known.specs:
            assert f"`{spec}`" in page, spec


def test_specs_of_a_format() -> None:
    one = replace(FORMATS["gavel-96"], name="x", arguments=("", "a"))
    assert one.specs == ("x", "x/a")
