"""The frame of every figure: one style, the same bytes for the same figure, nothing on a screen."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""Style of pictures for pages: text as text, axes without a box."""


@contextmanager
def drawing(
    size: tuple[float, float],
    style: Mapping[str, Any] | None = None,
    *,
    layout: str | None = "constrained",
) -> Iterator[tuple[Figure, Callable[..., bytes]]]:
    """A figure in our style, and what makes the bytes of a file of it.

    matplotlib is loaded here and its settings are as before afterwards. The second value takes the
    suffix of a file (``".svg"`` if none is given) and what `Figure.savefig` takes besides; it is
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

    common: dict[Any, Any] = {"svg.hashsalt": "morph-opt", "font.size": 9.0}
    with mpl.rc_context(common | dict(style or {})):
        figure = Figure(figsize=size, layout=layout, facecolor="white")  # type: ignore[arg-type]

        def encoded(suffix: str = ".svg", **settings: Any) -> bytes:
            buffer = io.BytesIO()
            if suffix == ".svg":  # without its date the same figure is the same file
                settings["metadata"] = {"Date": None} | settings.get("metadata", {})
            figure.savefig(buffer, format=suffix[1:], **settings)
            return buffer.getvalue()

        yield figure, encoded
