"""Files of published cases: which parts they have, and the parts run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.published.cases import Case, Outcome, PartCount, Wrong
from benchmarks.published.parts import PARTS
from morph_opt.core.documents import read_json
from morph_opt.core.domain import InputError

REMARKS = frozenset(
    (
        "about", "compare", "conventions", "exact_solver", "gittins_delta", "gittins_samples",
        "notes", "num_queue", "queue_limit", "semantics", "solver", "source", "sources", "trace",
        "trace_notes", "traces", "types", "units_tau_s",
    )
)  # fmt: skip
"""Keys of a file that hold no cases of their own."""

_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError)


def run_file(path: Path) -> Outcome:
    """Every case of a file, run and compared.

    Parts that are unknown here are counted as one case each that was not run.

    Raises
    ------
    InputError
        If the file cannot be read, holds no part at all, or a case is not of the published form.
    """
    document = read_json(path)
    file = str(path)
    if not isinstance(document, dict):
        raise InputError("must be an object with parts of published cases", file=file)
    outcome = Outcome(file)
    for key in document:
        if key in PARTS:
            for case in read_part(key, document, file):
                outcome.add(case)
        elif key not in REMARKS:
            outcome.parts[key] = PartCount(not_run=1)
            outcome.wrong.append(Wrong(key, key, not_run="no such part is known here"))
    if not outcome.parts:
        known = ", ".join(sorted(PARTS))
        raise InputError(f"holds no part of published cases; known are {known}", file=file)
    return outcome


def read_part(key: str, document: Mapping[str, Any], file: str | None = None) -> list[Case]:
    """The cases of one part; not run yet.

    Raises
    ------
    InputError
        If one is not of the published form; names its place.
    """
    part = PARTS[key]
    place = key
    try:
        found: list[Case] = []
        for place, item in part.items(document[key]):
            found += part.read(place, item, document)
    except InputError as error:
        raise error.located(file=file, field=place) from None
    except _MALFORMED as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        rule = f"is not of the form of this part's cases: {what}"
        raise InputError(rule, file=file, field=place) from None
    if not found:
        raise InputError("holds no case", file=file, field=key)
    return found
