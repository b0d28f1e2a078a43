"""The examples of `docs/traces.md` run and give what the page says."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import pytest

from morph_opt.inputs.traces.registry import load_trace


@pytest.fixture
def page(project_root: Path) -> str:
    """Text of the page."""
    return (project_root / "docs" / "traces.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def test_session(page: str) -> None:
    (session,) = (block for block in blocks(page, "python") if block.startswith(">>>"))
    parsed = doctest.DocTestParser().get_doctest(session, {}, "docs/traces.md", None, 0)
    assert doctest.DocTestRunner().run(parsed) == doctest.TestResults(0, 4)


def test_own_file(page: str, tmp_path: Path) -> None:
    (text,) = blocks(page, "csv")
    path = tmp_path / "jobs.csv"
    path.write_text(text, encoding="utf-8")
    assert [job.name for job in load_trace(str(path)).trace.jobs] == ["finetune-a", "pretrain-b"]


def test_own_source(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = (block for block in blocks(page, "python") if "def source" in block)
    package = tmp_path / "mytraces"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "hourly.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = load_trace("mytraces.hourly:source/12")
    for name in ("mytraces.hourly", "mytraces"):
        sys.modules.pop(name)
    assert len(loaded.trace.jobs) == 12
