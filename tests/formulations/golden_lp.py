"""Golden LP texts, one per row family: ``python -m tests.formulations.golden_lp`` rewrites them.

Read the difference before committing it: it is what changed in the mathematics.
"""

from __future__ import annotations

from pathlib import Path

from formulations.lp import to_lp
from tests.formulations.families import PAIRS

FOLDER = Path(__file__).resolve().parent / "golden"


def texts() -> dict[str, str]:
    """LP text by family: the model in which the family forbids something."""
    return {family: to_lp(pair.forbids().built.model) for family, pair in PAIRS.items()}


def main() -> None:
    """Rewrite the folder."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.lp"):
        path.unlink()
    for family, text in texts().items():
        (FOLDER / f"{family}.lp").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
