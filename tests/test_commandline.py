"""Every command line answers a wrong usage in one line, with exit status 2."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from morph_opt.core.commandline.parser import LineParser


def test_one_line_and_status_2_for_sub_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    parser = LineParser(prog="p")
    parser.add_subparsers(required=True, metavar="command").add_parser("a").add_argument("x")
    for arguments in ([], ["b"], ["a"], ["a", "1", "--no"]):
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args(arguments)
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert error.startswith("error: ")


def test_all_packages_use_the_strict_parser(project_root: Path) -> None:
    """A sub-class of its own must say `error` in its own words; a bare parser prints two lines."""
    bare = [
        str(path.relative_to(project_root))
        for package in ("morph_opt", "benchmarks")
        for path in sorted((project_root / package).rglob("*.py"))
        if path.parent.name != "replays"  # the reader of replays imports nothing of the project
        and re.search(
            r"(?<!class LineParser\()(?<!Parser\()argparse\.ArgumentParser\(", path.read_text()
        )
    ]
    assert bare == []


@pytest.mark.parametrize("package", ["topology", "solvers", "data"])
def test_commands(package: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", f"morph_opt.{package}", "--nope"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
