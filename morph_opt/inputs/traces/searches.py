"""Columns of searches in a workload's file: groups of trials, and their ranks."""

from __future__ import annotations

from morph_opt.core.documents import Row
from morph_opt.core.domain import InputError, Job
from morph_opt.core.domain.trace import Search

SEARCH_COLUMNS = ("feedback_iterations", "group", "keep", "rank")
"""Columns of searches. ``group``: name of a search, empty for none. ``keep``: trials that continue
once all have done their ``feedback_iterations``, equal in all rows of a group. ``rank``: place
of the trial, lowest best.
"""


def feedback_of(row: Row) -> int | None:
    """Return the cell ``feedback_iterations``; None if it is empty or missing."""
    if not row.cells.get("feedback_iterations"):
        return None
    return row.integer("feedback_iterations", at_least=1)


class Trials:
    """Collector of the trials of a file's searches."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[float, str, Row]]] = {}
        self._keep: dict[str, int] = {}

    def add(self, row: Row, job: Job) -> None:
        """Note a job, if it is a trial.

        Raises
        ------
        InputError
            If it has no rank or no report, one that others have, or keeps another number.
        """
        group = row.cells.get("group")
        if not group:
            for name in ("keep", "rank"):
                if row.cells.get(name):
                    raise row.error(name, "must be left to trials of a group")
            return
        if not row.cells.get("rank"):
            raise row.error("rank", f"must be given for a trial of search {group!r}")
        if job.feedback_iterations is None:
            rule = f"must be given for a trial of search {group!r}"
            raise row.error("feedback_iterations", rule)
        keep = row.integer("keep", at_least=1) if row.cells.get("keep") else 1
        if self._keep.setdefault(group, keep) != keep:
            raise row.error("keep", f"must be {self._keep[group]} as in the search's other rows")
        rank = row.number("rank", at_least=0.0)
        known = self._rows.setdefault(group, [])
        if rank in (other for other, _, _ in known):
            raise row.error("rank", f"two trials of search {group!r} have rank {rank:g}")
        known.append((rank, job.name, row))

    def searches(self) -> list[Search]:
        """Return the searches, in the order of their first rows.

        Raises
        ------
        InputError
            If one has fewer trials than it is to keep.
        """
        found = []
        for group, rows in self._rows.items():
            try:
                ranked = tuple(name for _, name, _ in sorted(rows, key=lambda row: row[:2]))
                found.append(Search(group, ranked, self._keep[group]))
            except InputError as error:
                raise rows[0][2].located(error) from None
        return found
