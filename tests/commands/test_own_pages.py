"""The how-to pages on what a user writes: their module and their command, as they stand."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from morph_opt.replay import cli

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
OUTLINE = ["The smallest one", "Run it", "What it may use", "What is refused"]


@pytest.mark.parametrize("name", ["policy", "objective", "trace", "log-format", "solver"])
def test_the_smallest_one_runs_as_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (PAGES / f"{name}.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == OUTLINE
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^```sh\npython -m morph_opt\.replay (.*)\n```$", text, re.MULTILINE)
    (tmp_path / "mine.py").write_text("\n".join(blocks), encoding="utf-8")
    for table in re.findall(r"^```csv\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / "jobs.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    others = re.findall(r"^class (\w+)\(mo\.Policy\)", "\n".join(blocks), re.MULTILINE)
    try:
        assert cli.main([*shlex.split(command), "--quiet", "--out", str(tmp_path / "run")]) == 0
        for other in others:
            words = re.sub(r"mine:\w+", f"mine:{other}", command)
            assert cli.main([*shlex.split(words), "--quiet", "--out", str(tmp_path / other)]) == 0
    finally:
        sys.modules.pop("mine", None)
    assert bool(others) == (name == "policy")
    assert '"mine:' in (tmp_path / "run" / "config.toml").read_text("utf-8")
