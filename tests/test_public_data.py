"""Skips for want of public data are counted, and failures under ``--require-data``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

ONE = "tests/traces/test_morphling_reader.py"


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests of one file that need the data, in a process that does not have it."""
    lacking = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("MORPH_OPT_", "PYTEST_"))
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ONE, *arguments]
    return subprocess.run(
        command,
        cwd=root,
        env=lacking,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("strict", [False, True])
def test_a_run_without_data_says_so(project_root: Path, strict: bool) -> None:
    done = run(project_root, *(["--require-data"] if strict else []))
    if strict:
        assert done.returncode == 1, done.stdout
        assert "needs public data: the public traces: MORPH_OPT_DATA is not set" in done.stdout
        assert "skipped" not in done.stdout.splitlines()[-1]
    else:
        assert done.returncode == 0, done.stdout
        assert "tests were skipped because public data is not there" in done.stdout
