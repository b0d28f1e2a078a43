"""docs/how-to/my-log.md as one types it: its log, its commands, and what they print."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from morph_opt.inputs.traces.registry import load_trace
from tests.known import MAIN
from tests.sweep.inline import ON, run_cells_here

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "my-log.md"
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_from_an_own_log_to_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is the subject, not the processes that cells run in: they run here."""
    monkeypatch.chdir(tmp_path)
    run_cells_here(monkeypatch, tmp_path)
    printed: list[str] = []
    shown, answers = 0, dict[str, list[str]]()
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            exec(text, {})
        elif kind == "sh":
            _, _, command, *words = shlex.split(text)
            words += ON if command.endswith(".plan") else []
            asked = re.sub(r"(--trace|--out) \S+", "", text)
            if "sacct:" in text:  # the same question of the same jobs
                table, sacct = (load_trace(log) for log in ("table:jobs.csv", "sacct:jobs.txt"))
                assert table.trace.jobs == sacct.trace.jobs
                printed = answers[asked]
                continue
            assert importlib.import_module(MAIN[command.partition(".")[2]]).main(words) == 0
            printed = answers[asked] = capsys.readouterr().out.splitlines()
        else:
            shown += 1
            assert set(text.splitlines()) <= set(printed)
    assert shown == 4
