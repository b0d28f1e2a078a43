"""docs/memory.md and docs/topology.md show what their commands print today."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.perf import __main__ as perf
from morph_opt.inputs.clusters import cli as topology
from tests.public_data import skip_without_data

ROOT = Path(__file__).resolve().parents[2]
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "benchmarks.perf": perf.main,
    "morph_opt.topology": topology.main,
}
BLOCKS = [
    (page, match[1], match[2])
    for page in ("memory.md", "topology.md")
    for match in re.finditer(
        r"<!-- begin: python -m (.*?) -->\n\n(.*?)\n\n<!-- end -->",
        (ROOT / "docs" / page).read_text("utf-8"),
        re.DOTALL,
    )
]


def test_the_pages_have_their_blocks() -> None:
    assert [page for page, _, _ in BLOCKS] == ["memory.md"] * 3 + ["topology.md"]


@pytest.mark.parametrize(("page", "command", "shown"), BLOCKS, ids=[row[1] for row in BLOCKS])
def test_a_generated_block_is_what_its_command_prints(
    page: str,
    command: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "$MORPH_OPT_DATA" in command and not os.environ.get("MORPH_OPT_DATA"):
        skip_without_data("the public traces: MORPH_OPT_DATA is not set")
    monkeypatch.chdir(ROOT)
    module, *words = shlex.split(os.path.expandvars(command))
    assert COMMANDS[module](words) == 0
    printed = capsys.readouterr().out.rstrip()
    fence = re.fullmatch(r"```text\n(.*)\n```", shown, re.DOTALL)
    assert printed == (fence[1] if fence else shown), f"docs/{page}: run python -m {command}"
