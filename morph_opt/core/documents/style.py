"""Style sheet of figures: colours, dashes and marks for matplotlib and Bokeh.

The palette is stated here and nowhere else. Every colour has a contrast of 3 to a white page and to
a dark one, and any two differ with any colour vision; where there are more series than colours,
dashes and marks distinguish them, as in print. A policy, an objective and a solver look the same in
every picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from morph_opt.core.documents.source import packaged_toml

BLUE, ORANGE, GREEN, RED = "#1A6CD8", "#E87400", "#60A264", "#D4142A"
PLUM, SKY, VIOLET, GREY = "#96509F", "#2E9CE4", "#7A44FF", "#768089"
PALETTE = (BLUE, ORANGE, GREEN, RED, PLUM, SKY, VIOLET, GREY)
"""Colours in the order in which series take them; grey for all further series."""
COLOURS = ("blue", "orange", "green", "red", "plum", "sky", "violet", "grey")
"""Names of the colours."""
OTHER = len(PALETTE) - 1
DASHES = ("solid", "dashed", "dashdot", "dotted")
"""Names of dashes that matplotlib and Bokeh share."""
MARKS = ("o", "s", "^", "D")
INK = "#768089"
"""Colour of text, axes and grid lines, legible on light and dark pages."""
GRID_ALPHA = 0.25
DARK, LIGHT = "#15181C", "#FFFFFF"
"""Background colours of the interactive report."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look of a series: colour, dash and mark.

    Parameters
    ----------
    colour
        One of `PALETTE`.
    dash
        One of `DASHES`.
    mark
        One of `MARKS`.
    hollow
        Whether its marks are rings.
    """

    colour: str
    dash: str = DASHES[0]
    mark: str = MARKS[0]
    hollow: bool = False

    @property
    def face(self) -> str:
        """Colour of the inside of a mark."""
        return "none" if self.hollow else self.colour


def _numbered(colour: str, number: int, first: int = 0) -> Look:
    """Return the n-th look of a colour, of which there are eight."""
    at = (number + first) % len(DASHES)
    return Look(colour, DASHES[at], MARKS[at], number // len(DASHES) % 2 == 1)


def _fixed() -> dict[str, Look]:
    return {
        name: _numbered(PALETTE[COLOURS.index(table["colour"])], number, table["from"])
        for table in packaged_toml(__package__, "looks.toml")["looks"]
        for number, name in enumerate(table["names"])
    }


_FIXED = _fixed()
"""Fixed looks of policies with objectives, and of solvers."""


def key(policy: str, objective: str | None = None) -> str:
    """Return the name that selects the look of a run: a MILP's objective, else the policy."""
    return objective if policy == "milp" and objective else policy


def looks(names: Sequence[str]) -> tuple[Look, ...]:
    """Return a look for each series, all different if there are enough looks.

    A name of the table has its own look. Any other, and one that comes again, takes the first look
    of the palette that no series here has.

    >>> [look.colour for look in looks(("mine", "lookahead"))] == [ORANGE, BLUE]
    True
    """
    taken = {_FIXED[name] for name in names if name in _FIXED}
    free = [
        look
        for number in range(2 * len(DASHES))
        for colour in PALETTE
        if (look := _numbered(colour, number)) not in taken
    ]
    spare = iter(free or [Look(GREY)])
    found, seen = [], set[str]()
    for name in names:
        own = None if name in seen else _FIXED.get(name)
        seen.add(name)
        found.append(own or next(spare, Look(GREY)))
    return tuple(found)


def log_steps(low: float, high: float) -> tuple[float, ...]:
    """Return the leading digits of the labels on a logarithmic axis from ``low`` to ``high``.

    Powers of ten alone leave an axis of one decade without a label; all digits would overlap.

    >>> log_steps(100.0, 250.0), log_steps(20.0, 900.0), log_steps(1.0, 1e6)
    ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
    """
    decades = math.log10(high / low)
    if decades < 0.5:
        return (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    return (1.0, 2.0, 5.0) if decades < 2.0 else (1.0, 3.0) if decades < 4.0 else (1.0,)


def plain_number(value: float) -> str:
    """Return a short label of a number for an axis.

    >>> plain_number(0.05), plain_number(5000.0), plain_number(262144.0), plain_number(2e6)
    ('0.05', '5k', '262k', '2M')
    """
    for unit, word in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{word}"
    return f"{value:.3g}"
