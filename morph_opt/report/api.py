"""Public function `report`: a page on finished runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.simulation.runs.read import Run
from morph_opt.simulation.runs.views.view import open_runs


def report(
    runs: Run | str | Path | Iterable[Run | str | Path], out: str | Path | None = None
) -> str:
    """Write a report on finished runs: one HTML file that opens anywhere.

    Parameters
    ----------
    runs
        A run or the folder of one, or several; the others are compared with the first.
    out
        File to write, ``.html``; None writes none.

    Returns
    -------
    str
        The page. The same runs give the same text.

    Raises
    ------
    InputError
        If a folder holds no finished run, a file of it is damaged, or the extra ``report`` is not
        installed.
    """
    from morph_opt.report.page import build_page

    require_type("runs", runs, Run, str, Path, Iterable)
    several = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    require_each("runs", several, Run, str, Path)
    require_type("out", out, str, Path, None)
    if out is not None and Path(out).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"must end in .html, got {str(out)!r}", field="--out")
    page = build_page(open_runs(several))
    if out is not None:
        write_atomically(Path(out), page)
    return page
