"""Model files for solvers, in the format that their suffix names."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

from formulations.linear_model import LinearModel
from formulations.lp import to_lp
from formulations.mps import to_mps
from morph_opt.core.documents.writing import write_atomically
from morph_opt.core.domain.errors import InputError

FORMS: dict[str, Callable[[LinearModel, str], str]] = {".mps": to_mps, ".lp": to_lp}
"""Writers by suffix; free MPS minimises the negated objective."""

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
}
"""Compressors by suffix, which give the same bytes each time."""


def form_of(path: Path, field: str | None = None) -> str:
    """Return the suffix of a model file that names its format, one of `FORMS`.

    Parameters
    ----------
    field
        Option or parameter that gave it.

    Raises
    ------
    InputError
        If the name has none; lists the known ones.
    """
    bare = path.with_suffix("") if path.suffix in PACKERS else path
    if bare.suffix not in FORMS:
        raise InputError(
            f"must end in {' or '.join(FORMS)}, to be compressed with {' or '.join(PACKERS)} "
            f"after it, got {str(path)[-120:]!r}",
            field=field,
        )
    return bare.suffix


def write_model(model: LinearModel, path: Path, note: str = "") -> None:
    """Write a model, compressed if the last suffix names a compressor.

    Parameters
    ----------
    note
        One line of comment to begin with.

    Raises
    ------
    InputError
        If the suffix is unknown or the file cannot be written.
    """
    text, pack = FORMS[form_of(path)](model, note), PACKERS.get(path.suffix)
    write_atomically(path, pack(text.encode()) if pack else text)
