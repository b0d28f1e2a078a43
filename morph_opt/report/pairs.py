"""Job-by-job comparisons of any two runs of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from formulations.arrays import Floats
from morph_opt.report import words
from morph_opt.report.comparison import unlike
from morph_opt.report.paired import Pairing, differences, largest, pair_jobs
from morph_opt.simulation.runs.views.view import RunView

MOST_PAIRED = 1_000_000
"""Largest number of jobs times pairs; above it all pairs include the first run."""

Choice = tuple[int, int]
"""Indices of two runs; differences are the second's minus the first's."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of runs of a page that can be compared job by job.

    Parameters
    ----------
    names
        Names of all runs.
    found
        Jobs of the two runs, by choice; a page shows the first entry first.
    reasons
        Reasons why a choice is missing, in sentences.
    """

    names: tuple[str, ...]
    found: Mapping[Choice, Pairing]
    reasons: Mapping[Choice, tuple[str, ...]]

    @staticmethod
    def of(views: Sequence[RunView]) -> Pairs:
        """Pair all runs that can be compared, in their order."""
        found: dict[Choice, Pairing] = {}
        reasons: dict[Choice, tuple[str, ...]] = {}
        pairs = list(permutations(range(len(views)), 2))
        too_many = len(pairs) * max(len(view.jobs) for view in views) > MOST_PAIRED
        for first, second in pairs:
            why = unlike(views[first], views[second])
            if too_many and first and len(pairs) > 2:
                why = [f"Of so many jobs, runs are paired with {views[0].name} only."]
            if not why:
                pairing = pair_jobs(views[first], views[second])
                if pairing.rows:
                    found[first, second] = pairing
                    continue
                why = ["No job completed in both runs."]
            reasons[first, second] = tuple(why)
        return Pairs(tuple(view.name for view in views), found, reasons)

    @property
    def shown(self) -> Choice:
        """Pair that the page shows first."""
        return next(iter(self.found))

    def described(self, choice: Choice) -> dict[str, Any]:
        """Return sentences and tables on two runs."""
        pairing, (first, second) = self.found[choice], (self.names[place] for place in choice)
        tables = {
            f"Completion in {second} less that in {first} (s)": differences(pairing),
            "Largest differences": largest(pairing, first, second),
        }
        return {
            "caption": words.pairs_caption(pairing, first, second),
            "legend": f"Each point is a job: its completion time in {first} to the right, in "
            f"{second} upwards; below the dashed line it is complete earlier in {second}.",
            "tables": [
                {"title": title, "header": list(table.header), "rows": list(table.texts())}
                for title, table in tables.items()
            ],
        }

    def choices(self) -> dict[str, Any]:
        """Return the script's data of every pair, by indices such as ``0-1``."""
        described = {f"{a}-{b}": self.described((a, b)) for a, b in self.found}
        return described | {f"{a}-{b}": {"why": list(why)} for (a, b), why in self.reasons.items()}

    def completions(self) -> tuple[list[str], dict[int, Floats]]:
        """Return the jobs of all pairings, and their completion times by run (NaN if unpaired)."""
        known: dict[str, int] = {}
        for pairing in self.found.values():
            for row in pairing.rows:
                known.setdefault(row.job, len(known))
        columns: dict[int, Floats] = {}
        for (first, _), pairing in self.found.items():
            column = columns.setdefault(first, np.full(len(known), np.nan))
            column[[known[row.job] for row in pairing.rows]] = pairing.first_s
        for (_, second), pairing in self.found.items():
            column = columns.setdefault(second, np.full(len(known), np.nan))
            column[[known[row.job] for row in pairing.rows]] = pairing.second_s
        return list(known), columns
