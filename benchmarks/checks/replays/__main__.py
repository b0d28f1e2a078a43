"""``python -m benchmarks.checks.replays``: read varied replays, and corrupted copies of some."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.checks.replays.campaign import read_all, verdict_of
from benchmarks.checks.replays.cases import CASES, CORRUPTED
from benchmarks.checks.replays.corruptions import EVENTS, corrupted, every_edit


def main() -> int:
    """Status 1 where a figure is wrong, or an edit was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="cases whose name has this")
    wanted = parser.parse_args().only or ""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        cases = [case for case in CASES if wanted in case.name]
        problems = read_all(cases, root)
        edits, unseen = 0, []
        kinds = set()
        for case in cases:
            if case.name in CORRUPTED:
                run = root / case.name / "run"
                small = case.name in CORRUPTED[:2]
                for name, copy in corrupted(run, root, every_edit(run) if small else EVENTS):
                    edits, kinds = edits + 1, kinds | {name}
                    if not verdict_of(case, root, copy).problems:
                        unseen.append(f"{case.name}: {name}")
        unseen += [f"no case has: {name}" for name in EVENTS if not wanted and name not in kinds]
    print(f"{edits} edits of {len(kinds)} kinds, {len(unseen)} not noticed")
    for line in unseen:
        print(f"    {line}")
    return 1 if problems or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
