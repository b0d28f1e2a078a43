"""The one error that a user can cause: bad input, said in one line."""

from __future__ import annotations


class InputError(ValueError):
    """Input that the engine refuses, with everything needed to mend it.

    Parameters
    ----------
    rule
        What must hold, as a sentence: ``"must be a positive number, got -3"``.
    file, line, field
        Where the offending value stands. Left out of the message when unknown.

    Notes
    -----
    Command lines print ``str(error)`` and exit with 2; no traceback is shown.
    """

    def __init__(
        self,
        rule: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.rule = rule
        self.file = file
        self.line = line
        self.field = field
        place = [
            part
            for part in (file, None if line is None else f"line {line}", field)
            if part is not None
        ]
        super().__init__(": ".join([", ".join(place), rule]) if place else rule)

    def located(
        self, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> InputError:
        """The same complaint with the place filled in where it was unknown."""
        return InputError(
            self.rule,
            file=self.file if self.file is not None else file,
            line=self.line if self.line is not None else line,
            field=self.field if self.field is not None else field,
        )
