"""Tables of the documentation: three objectives on the same twins, for ``saved-time.md``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.comparison.records import REFERENCE, Record
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table

PAGE = Path("docs/formulations/saved-time.md")


def objectives_table(records: Sequence[Record]) -> str:
    """Mean of average JCT of three objectives over the seeds that all of them have, by trace."""
    rows = []
    for trace in dict.fromkeys(record.trace for record in records):
        by_weight = ", weighted promises" if trace in ("mt", "morphling/mt") else ""
        names = (REFERENCE, f"MILP `lookahead`{by_weight}", f"MILP `jct`{by_weight}")
        of = [
            {r.seed: r.avg_jct_s for r in records if (r.trace, r.policy) == (trace, name)}
            for name in names
        ]
        seeds = sorted(set.intersection(*map(set, of)))
        if seeds:
            what = f"`{trace}`{', by weight' if by_weight else ''}"
            which = "the original" if "/" in trace else ", ".join(map(str, seeds))
            means = (float(np.mean([values[seed] for seed in seeds])) for values in of)
            rows.append((what, which, *(f"{mean:,.0f} s" for mean in means)))
    header = ("trace", "seeds", "`saved-time`", "`lookahead`", "`jct`")
    return Table(header, rows, "llrrr").to_markdown()


def write_block(page: Path, name: str, text: str) -> None:
    """Put a text between the marks ``generated:NAME`` of a page.

    Raises
    ------
    InputError
        If the page has no such marks.
    """
    marks = rf"(<!-- generated:{name}[^>]*-->\n).*?(<!-- /generated:{name} -->)"
    before = page.read_text(encoding="utf-8")
    after, count = re.subn(marks, lambda at: f"{at[1]}{text}\n{at[2]}", before, flags=re.DOTALL)
    if count != 1:
        raise InputError(f"has no place for the generated {name}", file=str(page))
    write_atomically(page, after)
