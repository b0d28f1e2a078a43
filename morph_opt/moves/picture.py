"""Picture of moves: the GPUs of each node before and after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import drawing
from morph_opt.core.documents.style import GRID_ALPHA, INK, PALETTE
from morph_opt.core.domain import Assignment, InputError
from morph_opt.moves.answer import Moves

PICTURES = (".svg", ".png")
MOST_NODES = 60
"""Largest number of drawn nodes; more are illegible."""
CELL_IN, NAME_IN, GAP_IN = 0.24, 1.4, 0.6


def require_picture(out: Path) -> None:
    """Refuse a file that is no picture.

    Raises
    ------
    InputError
        If it ends in neither .svg nor .png.
    """
    if out.suffix.lower() not in PICTURES:
        raise InputError(f"must end in .svg or .png, got {out.name!r}", field="--picture")


def draw_moves(answer: Moves, out: Path) -> None:
    """Draw the nodes that a step or a free place concerns, before and after; equal bytes each time.

    Jobs that change have a colour and the number of their step, all others are grey.

    Raises
    ------
    InputError
        If the file is no picture or cannot be written, or the steps concern too many nodes.
    """
    require_picture(out)
    cluster = answer.snapshot.state.cluster
    before = answer.snapshot.state.held.by_job()
    after = {} if answer.after is None else answer.after.by_job()
    held = [one for step in answer.steps for one in (step.before, step.after) if one is not None]
    named = {node for one in held for node in one.placement.nodes}
    nodes = sorted(named.union(*answer.places))
    if len(nodes) > MOST_NODES:
        rule = f"a picture shows at most {MOST_NODES} nodes, the steps concern {len(nodes)}"
        raise InputError(rule, field="--picture")
    jobs = list(dict.fromkeys(step.job for step in answer.steps))
    colour = {job: PALETTE[at % (len(PALETTE) - 1)] for at, job in enumerate(jobs)}
    number = {job: str(at + 1) for at, job in enumerate(jobs)}
    most = max(cluster.nodes[node].type.gpus for node in nodes)
    wide = most * CELL_IN
    size = NAME_IN + 2 * wide + GAP_IN + 0.3, (len(nodes) + len(jobs) * 0.8 + 2.5) * CELL_IN * 1.25
    with drawing(size, layout=None) as (figure, encoded):
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(-NAME_IN / CELL_IN, (2 * wide + GAP_IN + 0.3) / CELL_IN)
        axes.set_ylim(-1.25 * (len(nodes) + len(jobs) * 0.8 + 1.0), 1.25 * 1.5)
        axes.axis("off")
        right = most + GAP_IN / CELL_IN
        for left, title, which in ((0.0, "before", before), (right, "after", after)):
            axes.text(left, 1.3, title, weight="bold", va="center")
            for line, node in enumerate(nodes):
                _node(axes, left, -1.25 * line, node, cluster.nodes[node].type.gpus, which, colour)
        for line, node in enumerate(nodes):
            name = cluster.nodes[node].name
            axes.text(-0.4, -1.25 * line + 0.5, name[-18:], ha="right", va="center")
        for line, job in enumerate(jobs):
            y = -1.25 * (len(nodes) + 0.8 * line + 0.3)
            _box(axes, 0.0, y, colour[job])
            axes.text(1.4, y + 0.45, f"{number[job]}  {job[:40]}", va="center")
        write_atomically(out, encoded(out.suffix.lower()))


def _node(
    axes: Any,
    left: float,
    y: float,
    node: int,
    gpus: int,
    held: Mapping[str, Assignment],
    colour: Mapping[str, str],
) -> None:
    """Draw the GPUs of a node."""
    owner = {
        gpu: job
        for job, one in held.items()
        for at, mine in one.placement.parts
        if at == node
        for gpu in mine
    }
    for gpu in range(gpus):
        fill = "none" if gpu not in owner else colour.get(owner[gpu])
        _box(axes, left + gpu, y, fill)


def _box(axes: Any, x: float, y: float, fill: str | None) -> None:
    """Draw a GPU: in a colour, grey (None) or empty."""
    from matplotlib.patches import Rectangle

    look = {"facecolor": INK, "alpha": GRID_ALPHA} if fill is None else {"facecolor": fill}
    axes.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, edgecolor=INK, linewidth=0.6, **look))
