"""Golden LP texts, one per row family: ``python -m tests.formulations.golden_lp`` rewrites them.

Read the difference before committing it: it is what changed in the mathematics.
"""

from __future__ import annotations

from pathlib import Path

from formulations.lp import to_lp
from tests.formulations.families import PAIRS

FOLDER = Path(__file__).resolve().parent / "golden"


def text_of(family: str) -> str:
    """LP text of the model in which the family forbids something."""
    return to_lp(PAIRS[family].forbids().built.model)


def main() -> None:
    """Rewrite the folder."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.lp"):
        path.unlink()
    for family in PAIRS:
        (FOLDER / f"{family}.lp").write_text(text_of(family), "utf-8")


if __name__ == "__main__":
    main()
