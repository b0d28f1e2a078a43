"""Hold Kueue's scheduler against cases of its own tests: ``python -m benchmarks.kueue FOLDER``.

The folder has a file for each kind of case: JSON with ``kind`` and ``cases``. A case that names
something in ``unread`` is undecidable: it does not say all that its test goes by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kueue.documents import Case, Undecidable
from benchmarks.kueue.kinds import KINDS, differences
from morph_opt.core.commandline.parser import LineParser

_STATED = re.compile(r"Node\.StatusConditions|count \d+ != \d+ named")
"""Entries of ``unread`` whose content the document states in another field."""


def verdict(kind: str, case: Case) -> tuple[str, list[str]]:
    """Return "agrees", "differs" or "undecidable", with the differences or the reason."""
    unread = [one for one in case["unread"] if not _STATED.fullmatch(one)]
    if unread:
        return "undecidable", [", ".join(unread)]
    if kind not in KINDS:
        return "undecidable", [f"cases of kind {kind} are not known"]
    try:
        mine, expect = KINDS[kind](case)
    except Undecidable as error:
        return "undecidable", [str(error)]
    found = list(differences(mine, expect))
    return ("differs" if found else "agrees"), found


def main(argv: Sequence[str] | None = None) -> int:
    """Print how many cases agree, and every difference; return 1 if there is one."""
    parser = LineParser(prog="python -m benchmarks.kueue", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    asked = parser.parse_args(argv)
    words = ("agrees", "differs", "undecidable")
    total = dict.fromkeys(words, 0)
    lines: list[str] = []
    print("| cases | agree | differ | undecidable |")
    print("| --- | ---: | ---: | ---: |")
    for file in sorted(asked.folder.glob("*.json")):
        document = json.loads(file.read_text("utf-8"))
        counts = dict.fromkeys(words, 0)
        for case in document["cases"]:
            word, found = verdict(document["kind"], case)
            counts[word] += 1
            lines += [f"{case['id']} {word}: {line}" for line in found]
        print(f"| {file.stem} | " + " | ".join(str(counts[word]) for word in words) + " |")
        for word in words:
            total[word] += counts[word]
    print("| all | " + " | ".join(str(total[word]) for word in words) + " |")
    print(*lines, sep="\n")
    return 1 if total["differs"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
