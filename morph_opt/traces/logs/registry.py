"""Every log format by name."""

from __future__ import annotations

from morph_opt.domain import InputError
from morph_opt.traces.logs.format import LogFormat
from morph_opt.traces.logs.formats.acme import AcmeReader, HeliosReader
from morph_opt.traces.logs.formats.sacct import SacctReader

LOG_FORMATS: dict[str, LogFormat] = {
    one.name: one
    for one in (
        LogFormat(
            "acme", "Acme study, Seren and Kalos (CSV)", AcmeReader, "UTC",
            published=(818_327, 62_413),
        ),
        LogFormat("helios", "Helios, four clusters (CSV)", HeliosReader, "Asia/Shanghai"),
        LogFormat(
            "sacct", "Slurm accounting, sacct --parsable2", SacctReader, "UTC", ("columns",),
            folds=True,
        ),
    )
}  # fmt: skip
"""Formats of `python -m morph_opt.traces lint` and of ``--trace FORMAT:PATH``."""


def log_format(name: str) -> LogFormat:
    """The format of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in LOG_FORMATS:
        rule = f"unknown format {name!r}; known are {', '.join(LOG_FORMATS)}"
        raise InputError(rule, field="format")
    return LOG_FORMATS[name]
