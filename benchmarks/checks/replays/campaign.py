"""Make replays with the command line, and read each as a stranger would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.checks.replays.cases import FILES, Case
from benchmarks.checks.replays.check import Verdict, check

ROOT = Path(__file__).resolve().parents[3]


def prepare(root: Path) -> None:
    """Write the inputs of the cases."""
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")


def make(case: Case, root: Path) -> str | None:
    """Run a replay into ``root``; what went wrong, or None."""
    folder = root / case.name
    options = [word.format(root=root) for word in case.options.split()]
    if case.states:
        options += ["--dump-rounds", str(folder / "states")]
    command = [sys.executable, "-m", "morph_opt.replay", *options, "--quiet"]
    done = subprocess.run(
        [*command, "--out", str(folder / "run")],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Status 1: a round fell back, as may be on a busy machine; figures must be right all the same.
    whole = done.returncode in (0, 1) and (folder / "run" / "summary.json").exists()
    return None if whole else f"status {done.returncode}: {done.stderr.strip()}"


def verdict_of(case: Case, root: Path, run: Path | None = None) -> Verdict:
    """Read the run of a case, or a changed copy of it."""
    folder = root / case.name
    states = folder / "states" if case.states else None
    speeds = states if case.speeds_of is None else root / case.speeds_of / "states"
    return check(run or folder / "run", states, speeds)


def read_all(cases: Iterable[Case], root: Path) -> int:
    """Make and read every case, a line each; the number of problems."""
    prepare(root)
    problems = compared = count = 0
    for case in cases:
        failed = make(case, root)
        verdict = Verdict(0, [failed]) if failed else verdict_of(case, root)
        count, compared = count + 1, compared + verdict.compared
        problems += len(verdict.problems)
        print(f"{case.name:<18} {verdict.compared:>8,} compared, {len(verdict.problems)} problems")
        for line in verdict.problems[:10]:
            print(f"    {line}")
        sys.stdout.flush()
    print(f"{count} replays, {compared:,} comparisons, {problems} problems")
    return problems
