"""Figures in one style, drawn without a screen and with the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from morph_opt.core.documents.style import GRID_ALPHA, INK, PALETTE, Look, log_steps, plain_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PICTURES = (".svg", ".pdf", ".png")
"""Suffixes of figure files."""
COMMON: Mapping[Any, Any] = {
    "svg.hashsalt": "morph-opt",
    "svg.fonttype": "none",  # text as text: found, read aloud, and narrower than measured here
    "text.parse_math": False,  # names of jobs are no mathematics
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": INK,
    "grid.alpha": GRID_ALPHA,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.color": INK,
} | dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
)
"""Style of all figures: transparent background, ink that suits light and dark pages, no box."""


@contextmanager
def drawing(
    size: tuple[float, float],
    style: Mapping[str, Any] | None = None,
    *,
    layout: str | None = "constrained",
) -> Iterator[tuple[Figure, Callable[..., bytes]]]:
    """Yield a figure in the common style and a function that encodes it.

    matplotlib is loaded here and its settings are as before afterwards. The second value takes the
    suffix of a file (``".svg"`` if none is given) and further arguments of `Figure.savefig`; it is
    called within the context.

    Parameters
    ----------
    size
        Width and height in inches.
    style
        Settings of matplotlib on top of the common ones.
    layout
        Engine that places the axes; None for none.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    settings: dict[Any, Any] = {**COMMON, "axes.prop_cycle": cycler(color=PALETTE[:-1])}
    with mpl.rc_context(settings | dict(style or {})):
        figure = Figure(figsize=size, layout=layout)  # type: ignore[arg-type]

        def encoded(suffix: str = ".svg", **settings: Any) -> bytes:
            buffer = io.BytesIO()
            if suffix == ".svg":  # without date and version the same figure is the same file
                plain = {"Date": None, "Creator": None}
                settings["metadata"] = plain | settings.get("metadata", {})
            figure.savefig(buffer, format=suffix[1:], **settings)
            return buffer.getvalue()

        yield figure, encoded


def line(look: Look, *, marks: bool = False) -> dict[str, Any]:
    """Return arguments of `Axes.plot` for a line in a look, with marks if the look has any."""
    found: dict[str, Any] = {"color": look.colour, "linestyle": look.dash}
    return found | ({"marker": look.mark, "mfc": look.face} if marks else {})


def dots(look: Look) -> dict[str, Any]:
    """Return arguments of `Axes.plot` and `Axes.errorbar` for points that no line joins."""
    return {"color": look.colour, "ls": "", "marker": look.mark, "mfc": look.face}


def logarithmic(axis: Axis, low: float, high: float) -> None:
    """Scale an axis by logarithms, and label it with plain numbers that fit (`log_steps`).

    Parameters
    ----------
    low, high
        Smallest and largest value drawn, positive.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    axis.set_major_locator(LogLocator(subs=log_steps(low, high), numticks=9))
    axis.set_major_formatter(lambda value, _place: plain_number(value))
    axis.set_minor_formatter(NullFormatter())


def rules(axes: Axes, axis: str = "both") -> None:
    """Draw thin grid lines under the points."""
    axes.grid(visible=True, axis=axis)  # type: ignore[arg-type]
