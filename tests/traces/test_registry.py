"""`load_trace`: names, files, extensions, and what it says when there is nothing to load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from morph_opt.core import extend
from morph_opt.core.domain import InputError
from morph_opt.inputs.data import DATASETS
from morph_opt.inputs.data.archive import sha256_of
from morph_opt.inputs.traces import registry
from morph_opt.inputs.traces.registry import known_traces, load_trace

SOURCE = """
from dataclasses import replace
from morph_opt.core.domain import Trace
from morph_opt.inputs.traces.registry import load_trace

def half(argument, *, seed):
    loaded = load_trace(argument or "naive", seed=seed)
    jobs = loaded.trace.jobs[::2]
    return replace(loaded, trace=Trace("half", jobs), kind="file", notice="every second job")

number = 3
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of an importable module with a trace source."""
    name = "traces_of_a_user"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["base", "bp", "mt", "naive"])
def test_twin_says_that_it_is_one(name: str) -> None:
    loaded = load_trace(name)
    assert (loaded.kind, loaded.trace.name) == ("twin", name)
    assert "statistical twin" in loaded.notice
    assert "not the original" in loaded.notice
    assert "\n" not in loaded.notice
    assert loaded.trace.description == loaded.notice


@pytest.mark.parametrize("name", ["base", "bp", "mt", "naive"])
@pytest.mark.parametrize("published", [False, True])
def test_a_trace_of_the_data_folder_is_original_by_its_digest_alone(
    name: str, published: bool, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MORPH_OPT_DATA", str(artifact.parent))
    if published:
        sums = {str(at): sha256_of(at) for at in artifact.rglob("*") if at.is_file()}
        monkeypatch.setitem(DATASETS, "morphling", replace(DATASETS["morphling"], sha256=sums))
    loaded = load_trace(f"morphling/{name}", seed=7)
    kind = "original" if published else "file"
    assert (loaded.kind, loaded.trace.name) == (kind, f"morphling/{name}")
    assert ("not the published ones" in loaded.notice) is not published
    assert loaded.trace.description == loaded.notice
    assert list(loaded.truth.models()) == ["gpt2"]
    assert len(loaded.trace.jobs) == 2


def test_original_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)
    monkeypatch.setenv("MORPH_OPT_CACHE", str(tmp_path))
    with pytest.raises(
        InputError, match=r"set MORPH_OPT_DATA .* or run: python -m morph_opt\.data"
    ):
        load_trace("morphling/base")


def test_file_uses_the_built_in_model(tmp_path: Path, workload_text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(workload_text, encoding="utf-8")
    loaded = load_trace(str(path))
    assert (loaded.kind, loaded.trace.name) == ("file", "mine.csv")
    assert set(loaded.truth.models()) >= {"bert", "gpt2", "llama30", "llama7", "t5", "vit"}


@pytest.mark.parametrize("spec", ["nope", ".", "morphling", "morphling/nope", "no/such/file"])
def test_unknown_name_lists_the_known_ones(spec: str) -> None:
    known = "known are morphling/base," if "morphling" in spec else "base, bp, mt, naive, .*60x10"
    with pytest.raises(InputError, match=rf"unknown trace .*{known}"):
        load_trace(spec)


def test_missing_file_and_extra_arguments_of_a_twin_are_refused() -> None:
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read \(No such file"):
        load_trace("absent.csv")
    with pytest.raises(InputError, match="base takes no argument, got"):
        load_trace("base/2")


def test_negative_seed() -> None:
    with pytest.raises(InputError, match="seed: must be at least 0, got -1"):
        load_trace("base", seed=-1)


def test_source_by_import_path(own_module: str) -> None:
    whole = load_trace("naive", seed=3).trace
    assert load_trace(f"{own_module}:half", seed=3).trace.jobs == whole.jobs[::2]
    assert load_trace(f"{own_module}:half/base").trace.jobs == load_trace("base").trace.jobs[::2]


def test_source_by_entry_point(own_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("half", f"{own_module}:half", registry.ENTRY_POINT_GROUP)

    def points(*, group: str) -> list[EntryPoint]:
        return [point] if group == registry.ENTRY_POINT_GROUP else []

    monkeypatch.setattr(extend, "entry_points", points)
    monkeypatch.setattr(registry, "entry_points", points)
    assert load_trace("half/mt").notice == "every second job"
    assert "half" in known_traces()


def test_bad_source(own_module: str) -> None:
    with pytest.raises(InputError, match="is not a trace source"):
        load_trace(f"{own_module}:number")
    with pytest.raises(InputError, match="cannot import"):
        load_trace(f"{own_module}:absent")
    with pytest.raises(InputError, match="cannot import"):
        load_trace("no_such_module_at_all:x")
