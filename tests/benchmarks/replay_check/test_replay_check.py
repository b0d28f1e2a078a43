"""A sample of ``make check-replays``: small replays are right, every edit of them is noticed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from benchmarks.checks.replays import check
from benchmarks.checks.replays.campaign import make, prepare, verdict_of
from benchmarks.checks.replays.cases import CASES, SAMPLE, Case
from benchmarks.checks.replays.corruptions import EVENTS, corrupted, every_edit

HERE = Path(check.__file__).parent
ALLOWED = {"numpy", "pytest"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replays")
    prepare(folder)
    return folder


@pytest.fixture(scope="module", params=SAMPLE, ids=lambda case: case.name)
def made(request: pytest.FixtureRequest, root: Path) -> Case:
    case: Case = request.param
    assert make(case, root) is None
    return case


def test_every_figure_follows_from_the_log(made: Case, root: Path) -> None:
    verdict = verdict_of(made, root)
    assert verdict.problems == []
    assert verdict.compared > 500


def test_every_edit_is_noticed(made: Case, root: Path, tmp_path: Path) -> None:
    """Of every event, and in the first run of every column and key."""
    run = root / made.name / "run"
    whole = made == SAMPLE[0]
    seen = []
    for name, copy in corrupted(run, tmp_path, every_edit(run) if whole else EVENTS):
        assert verdict_of(made, root, copy).problems, name
        seen.append(name)
    assert len(set(seen) & set(EVENTS)) > 20
    assert len(seen) > 120 or not whole


def test_replay_check_imports_nothing_of_the_project() -> None:
    """A figure that was computed twice by one function would be right for ever."""
    paths = sorted(HERE.glob("*.py"))
    assert len(paths) > 10
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                own = f"{name}.".startswith("benchmarks.checks.replays.")
                top = name.partition(".")[0]
                assert own or top in sys.stdlib_module_names | ALLOWED, f"{path.name}: {name}"
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name}: relative"


def test_the_campaign_is_varied() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
