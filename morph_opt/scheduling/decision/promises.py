"""Rule for rounds in which not every guaranteed job can have its promised speed."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import InputError, Range

FACTOR = 2.0
"""Weight of a promise if none is given; docs/decisions/0021-promises.md has the measurements."""

FACTORS = Range(1.0, 1e6)


@dataclass(frozen=True, slots=True)
class Promises:
    """Rule for promises that cannot all be kept; otherwise they are hard rows.

    Parameters
    ----------
    factor
        Factor of the value of guaranteed jobs, and no level ranks before the objective. None: the
        level `formulations.objectives.guarantee` ranks before all others.
    """

    factor: float | None = None

    @classmethod
    def parse(cls, text: str) -> Promises:
        """Parse ``rank``, ``weight`` or ``weight:2.5``.

        Raises
        ------
        InputError
            If it is none of these, or the number is out of range.
        """
        word, colon, number = text.partition(":")
        if word == "rank" and not colon:
            return cls()
        if word != "weight":
            rule = f"must be rank, weight or weight:NUMBER, got {text!r}"
            raise InputError(rule, field="--promises")
        try:
            return cls(float(FACTORS.parse(number)) if colon else FACTOR)
        except ValueError as error:
            raise InputError(f"the weight {error}", field="--promises") from error
