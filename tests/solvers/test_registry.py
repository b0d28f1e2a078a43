"""Solvers by name, and versions that must not be used."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers import registry, selfcheck
from morph_opt.scheduling.solvers.registry import (
    ENTRIES,
    Entry,
    installed,
    make_solver,
    solver_names,
)
from tests.solvers.faulty import Lying
from tests.waiting import PATIENCE_S


def test_unknown_lists_what_is_installed_and_where_the_rest_is() -> None:
    with pytest.raises(InputError) as caught:
        make_solver("cplex")
    message = str(caught.value)
    assert "unknown solver 'cplex'" in message
    for name in installed():
        assert name in message
    assert "python -m morph_opt.solvers" in message
    assert "\n" not in message
    assert len(message) < 300


def test_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Entry("highs", "HighsSolver", ("no_such_library",), "pip install no-such-library")
    monkeypatch.setitem(registry.ENTRIES, "gone", gone)
    with pytest.raises(InputError, match=r"needs no_such_library: pip install no-such-library"):
        make_solver("gone")
    assert "gone" not in installed()


def test_import_path() -> None:
    assert make_solver("tests.solvers.faulty:Lying").name == Lying.name
    with pytest.raises(InputError, match="cannot import"):
        make_solver("tests.solvers.faulty:Nobody")


def test_an_adapter_that_left_names_what_to_take() -> None:
    with pytest.raises(InputError, match=r"no solver .mathopt-cpsat. any more: cpsat"):
        make_solver("mathopt-cpsat")
    assert set(registry.GONE.values()) & set(solver_names())
    assert not set(registry.GONE) & set(solver_names())


def test_every_entry_says_how_to_install() -> None:
    assert all(entry.install.startswith("pip install") for entry in ENTRIES.values())


def test_highspy_1_14_is_refused_in_one_sentence() -> None:
    versions = {"highspy": "1.14.0"}
    assert "labels wrong MIP answers optimal" in selfcheck.refused(versions)
    assert selfcheck.problem_with(["highspy"], versions) == selfcheck.refused(versions)
    assert selfcheck.problem_with(["ortools"], versions) == ""
    for good in ("1.13.1", "1.12.0", "1.15.1"):
        assert selfcheck.refused({"highspy": good}) == ""


def test_the_clash_is_named_in_one_sentence() -> None:
    versions = {"highspy": "1.15.1", "ortools": "9.15.6755"}
    sentence = selfcheck.clash(versions)
    assert "highspy 1.15.1 and ortools 9.15.6755" in sentence
    assert "\n" not in sentence
    assert selfcheck.clash({"highspy": "1.13.1", "ortools": "9.15.6755"}) == ""
    assert selfcheck.clash({"highspy": "1.15.1"}) == ""


def test_the_clash_counts_only_within_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"highspy": "1.15.1", "ortools": "9.15.6755"}
    monkeypatch.delitem(sys.modules, "ortools", raising=False)
    monkeypatch.delitem(sys.modules, "highspy", raising=False)
    assert selfcheck.problem_with(["highspy"], versions) == ""
    assert selfcheck.problem_with(["ortools"], versions) == ""
    assert selfcheck.problem_with(["ortools", "highspy"], versions) != ""
    monkeypatch.setitem(sys.modules, "ortools", sys)
    assert selfcheck.problem_with(["highspy"], versions) == selfcheck.clash(versions)


def test_make_solver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "problem_with", lambda needs: f"{needs[0]} is no good")
    with pytest.raises(InputError, match="highspy is no good"):
        make_solver("highs")


def test_command_line_lists_all_and_what_workers_say_of_them() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "morph_opt.solvers"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert said.returncode == 0, said.stderr
    for name in solver_names():
        assert f"\n{name} " in said.stdout
    head, *rows = (line.split() for line in said.stdout.splitlines())
    able = {row[0] for row in rows if row[head.index("gap_limit")] == "yes"}
    assert able == set(installed())


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("os:path", "makes no solver adapter"),
        ("os:getcwd", "makes no solver adapter"),
        ("os:fspath", "cannot be made"),
    ],
)
def test_an_import_path_that_makes_no_adapter_is_refused(name: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        make_solver(name)


@pytest.mark.parametrize("name", solver_names())
def test_every_entry_names_a_module_and_a_class_in_it(name: str) -> None:
    """Also of solvers that nobody here can import, whose adapters no other test reaches."""
    spec = importlib.util.find_spec(f"morph_opt.scheduling.solvers.{ENTRIES[name].module}")
    assert spec is not None
    assert spec.origin is not None
    assert f"class {ENTRIES[name].factory}(" in Path(spec.origin).read_text("utf-8")
