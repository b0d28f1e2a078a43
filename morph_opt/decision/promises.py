"""What is done in rounds in which not every guaranteed job can have the speed it was promised."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.domain import InputError, Range

FACTOR = 2.0
"""Weight of a promise where none is given; ``docs/decisions`` has the measurements behind it."""

FACTORS = Range(1.0, 1e6)


@dataclass(frozen=True, slots=True)
class Promises:
    """How promises count where they cannot all be kept; where they can, they are hard rows.

    Parameters
    ----------
    factor
        None: the level `formulations.objectives.guarantee` ranks before all others. A number:
        guaranteed jobs are worth so many times as much to the objective, and nothing ranks
        before it.
    """

    factor: float | None = None

    @classmethod
    def parse(cls, text: str) -> Promises:
        """From ``rank``, ``weight`` or ``weight:2.5``.

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
