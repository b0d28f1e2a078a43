"""docs/how-to/my-slurm.md and the README's second example, as one types them on the example log."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.backfill.example import draw, main
from tests.known import MAIN

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the blocks; of commands one a line."""
    for kind, text in BLOCK.findall((ROOT / page).read_text("utf-8")):
        if kind == "text":
            yield kind, text
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("python -m morph_opt."):
                yield kind, line


def printed(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    _, _, command, *words = shlex.split(line)
    assert importlib.import_module(MAIN[command.partition(".")[2]]).main([*words, "--quiet"]) == 0
    return capsys.readouterr().out


def test_the_page_and_the_readme_print_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The replays of one command are shown in both; of the others two are made in place of more."""
    shutil.copytree(ROOT / "docs" / "example-slurm", tmp_path / "docs" / "example-slurm")
    for file in (tmp_path / "docs" / "example-slurm").iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = [text for kind, text in blocks("docs/how-to/my-slurm.md") if kind == "sh"]
    shown = [text for kind, text in blocks("docs/how-to/my-slurm.md") if kind == "text"]
    own = next(line for line in commands if "hindcast" in line)
    said = printed(own, capsys)
    assert shown == [said]
    in_readme = [
        (kind, text) for kind, text in blocks("README.md") if "hindcast" in text or kind == "text"
    ]
    (_, first), (_, second), (kind, lines) = in_readme
    assert kind == "text"
    assert set(lines.splitlines()) <= set(said.splitlines())
    assert first.replace("docs/example-slurm/", "").split() == own.split()
    milp = printed(second.replace("--replays 5", "--replays 2"), capsys)
    assert re.search(r"^mean +100 +2,288\.4 +36[0-9]\.", milp, re.MULTILINE)
    assert "a mean wait of 363 s" in (ROOT / "README.md").read_text("utf-8")
    lint = next(line for line in commands if "lint" in line)
    _, _, command, *words = shlex.split(lint)
    assert importlib.import_module(MAIN[command.partition(".")[2]]).main(words) == 0


def test_the_example_is_what_its_command_makes(tmp_path: Path) -> None:
    example = ROOT / "docs" / "example-slurm"
    for name in ("slurm.conf", "shares.txt"):
        shutil.copy(example / name, tmp_path)
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "jobs.txt").read_text() == (example / "jobs.txt").read_text()
    assert any(job.run_s > job.limit_s for job in draw())
