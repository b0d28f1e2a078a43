"""docs/policies.md names every policy and objective, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from formulations.objectives import OBJECTIVES
from morph_opt.policies.fairness_registry import FAIR_OBJECTIVES, FAIR_POLICIES
from morph_opt.policies.registry import POLICIES

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def names(heading: str) -> set[str]:
    """Names in the first column of the table under a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_objective_is_on_the_page():
    assert names("Objectives of the MILP") == {*OBJECTIVES, *FAIR_OBJECTIVES}


def test_every_baseline_is_on_the_page():
    assert names("Baselines") == {*POLICIES, *FAIR_POLICIES} - {"milp"}
