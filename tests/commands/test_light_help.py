"""Help loads no library that computes: parsers are made from what options say of themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from morph_opt.commands import COMMANDS

HEAVY = {
    "bokeh", "highspy", "matplotlib", "networkx", "numpy", "ortools", "pandas", "pooch",
    "scipy", "tqdm",
}  # fmt: skip
DRAWN = {
    "perf": {"numpy"},
    "report.picture": {"numpy"},
    "shares": {"numpy"},
}
"""Commands whose choices stand where they are drawn or computed."""


def test_no_parser_needs_a_library() -> None:
    """All in one process: what one of them loads would show."""
    code = f"""
import json, sys
from morph_opt.commands import COMMANDS, parser_of
found, before = {{}}, set()
for command in COMMANDS:
    parser_of(command.name).format_help()
    now = set(sys.modules) & {HEAVY!r}
    found[command.name] = sorted(now - before)
    before |= now
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name: set(new) for name, new in json.loads(done.stdout).items()}
    assert set(found) == {command.name for command in COMMANDS}
    assert {name for name, new in found.items() if new - DRAWN.get(name, set())} == set()


def test_a_replay_without_a_solver_loads_none(tmp_path: Path) -> None:
    """Nor what only guesses of sizes and prices of slots compute with."""
    code = """
import json, sys
from morph_opt.__main__ import main
assert main(sys.argv[1:]) == 0
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""
    line = f"replay --trace naive --policy fifo --until-s 600 --quiet --out {tmp_path}/run"
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(json.loads(done.stdout.splitlines()[-1]))
    assert "numpy" in found
    assert not found & (HEAVY - {"numpy", "networkx", "tqdm"})
