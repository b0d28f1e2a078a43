"""Findings of the linter: code, severity and sentence of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from morph_opt.core.documents.packaged import packaged_toml

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Check:
    """Kind of finding.

    Parameters
    ----------
    code
        Key of ``findings`` in the JSON.
    severity
        ``error``: cannot be replayed as it is; ``warning``: kept, and numbers may mislead;
        ``note``.
    sentence
        What, how many, why it matters, what we do; a format string.
    """

    code: str
    severity: Severity
    sentence: str


def _checks() -> dict[str, Check]:
    tables = packaged_toml(__package__, "checks.toml")
    return {code: Check(code, **table) for code, table in tables.items()}


CHECKS = _checks()
"""Findings by code, errors first."""
