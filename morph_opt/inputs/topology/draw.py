"""Drawing of a topology: spine, leaves, NVLink domains, nodes and their GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import drawing
from morph_opt.core.documents.style import INK, PALETTE, VIOLET
from morph_opt.core.domain import Cluster, InputError, Node
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.inputs.topology.text import link_text, nodes_under, type_text

# Lengths in units of one GPU's square.
CELL, GAP, LABEL = 1.15, 0.5, 0.95
GPUS_PER_LINE = 8
SPINE_Y, SWITCH_HEIGHT, LINK = 0.0, 1.5, 2.6
INCHES_PER_UNIT = 0.17
POINTS_PER_UNIT = 72 * INCHES_PER_UNIT
WANTED_ASPECT = 1.5
LEAST_WIDTH = 40.0


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes drawn together: of one leaf and one NVLink domain, or of a leaf outside of domains."""

    domain: str | None
    nodes: tuple[Node, ...]
    columns: int

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of a node's box."""
        most = max(node.type.gpus for node in self.nodes)
        lines = math.ceil(most / GPUS_PER_LINE)
        return max(4, min(most, GPUS_PER_LINE)) * CELL + 0.35, LABEL + lines * CELL + 0.2

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, the frame of a domain included."""
        width, height = self.cell
        lines = math.ceil(len(self.nodes) / self.columns)
        frame = 0.0 if self.domain is None else LABEL
        return (
            self.columns * (width + GAP) + GAP,
            lines * (height + GAP) + GAP + frame,
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """Number of a leaf switch, with its blocks, stacked."""

    leaf: int
    blocks: tuple[Block, ...]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        sizes = [block.size for block in self.blocks]
        return max(w for w, _ in sizes) + 2 * GAP, sum(h + GAP for _, h in sizes) + GAP


def panels(cluster: Cluster, columns: int) -> list[Panel]:
    """Return the panels of all leaves, with up to a number of nodes in a row."""
    found = []
    for leaf in range(len(topology_of(cluster).leaf_names)):
        nodes = nodes_under(cluster, leaf)
        blocks = []
        for (domain, _), run in groupby(nodes, key=lambda node: (node.nvlink_domain, node.type)):
            members = tuple(run)
            blocks.append(Block(domain, members, min(columns, len(members))))
        found.append(Panel(leaf, tuple(blocks)))
    return found


def best_panels(cluster: Cluster) -> list[Panel]:
    """Return the panels whose picture is closest to the wanted aspect ratio."""

    def miss(columns: int) -> float:
        width, height = _extent(panels(cluster, columns))
        return abs(math.log(width / height / WANTED_ASPECT))

    most = max(len(p.blocks[0].nodes) for p in panels(cluster, 1))
    return panels(cluster, min(range(1, most + 1), key=miss))


def _extent(shown: Sequence[Panel]) -> tuple[float, float]:
    width = sum(panel.size[0] + 2 * GAP for panel in shown)
    return width, 2 * SWITCH_HEIGHT + 2 * LINK + max(panel.size[1] for panel in shown)


MOST_DRAWN = 1000
"""Largest number of drawn nodes; more take minutes and are illegible."""


def draw_topology(cluster: Cluster, out: Path) -> None:
    """Draw a cluster's topology into a file; the same cluster gives the same bytes.

    Raises
    ------
    InputError
        If the file is neither .svg nor .png, or cannot be written; if there are too many nodes to
        see.
    """
    suffix = out.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise InputError(f"must end in .svg or .png, got {out.name!r}", field="--out")
    if len(cluster.nodes) > MOST_DRAWN:
        rule = f"a drawing shows at most {MOST_DRAWN} nodes, got {len(cluster.nodes)}"
        raise InputError(f"{rule}; show prints them as text", field="nodes")
    shown = best_panels(cluster)
    width, height = _extent(shown)
    legend = (len(cluster.node_types) + 1) * 1.2
    canvas = max(width, LEAST_WIDTH) + 2.0, height + legend + 3.0
    size = canvas[0] * INCHES_PER_UNIT, canvas[1] * INCHES_PER_UNIT
    with drawing(size, {"font.size": 10.0}, layout=None) as (figure, encoded):
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(-1, canvas[0] - 1.0)
        axes.set_ylim(-height - legend, 3)
        axes.axis("off")
        _Painter(axes, cluster).paint(shown, width, height)
        write_atomically(out, encoded(suffix, **({"dpi": 200} if suffix == ".png" else {})))


class _Painter:
    """Painter in units of a GPU, y downwards from the spine at 0."""

    def __init__(self, axes: Any, cluster: Cluster) -> None:
        self._axes = axes
        self._cluster = cluster
        self._topology = topology_of(cluster)
        self._colour = {
            gpu.name: PALETTE[index % len(PALETTE)] for index, gpu in enumerate(cluster.gpu_types)
        }
        uplinks = self._topology.uplink_gb_per_s
        self._widest = max((rate for rate in uplinks if rate < math.inf), default=1.0)

    def paint(self, shown: Sequence[Panel], width: float, height: float) -> None:
        canvas = max(width, LEAST_WIDTH)
        self._text(GAP, 1.6, self._cluster.name, size=1.0, fit=canvas, weight="bold")
        self._box(GAP, SPINE_Y, width - 2 * GAP, SWITCH_HEIGHT)
        self._text(width / 2, SPINE_Y - SWITCH_HEIGHT / 2, "spine", size=0.8, ha="center")
        left = 0.0
        for panel in shown:
            self._panel(panel, left + GAP)
            left += panel.size[0] + 2 * GAP
        for index, kind in enumerate(self._cluster.node_types):
            y = -height - 0.9 - 1.2 * index
            self._box(GAP, y + 0.3, 0.9, 0.9, self._colour[kind.gpu_type.name], INK)
            self._text(GAP + 1.3, y - 0.15, type_text(kind), size=0.62, fit=canvas - 2.5)

    def _panel(self, panel: Panel, left: float) -> None:
        width, height = panel.size
        middle = left + width / 2
        leaf_y = SPINE_Y - SWITCH_HEIGHT - LINK
        uplink = self._topology.uplink_gb_per_s[panel.leaf]
        style = ":" if math.isinf(uplink) else "-"
        thickness = 2.0 if math.isinf(uplink) else 1.0 + 3.0 * uplink / self._widest
        self._line(middle, SPINE_Y - SWITCH_HEIGHT, leaf_y, thickness, style)
        label = link_text(self._topology, panel.leaf)
        self._text(middle + 0.5, leaf_y + LINK / 2, label, size=0.62, fit=max(10.0, width / 2))
        self._box(left, leaf_y, width, SWITCH_HEIGHT)
        self._text(
            middle,
            leaf_y - SWITCH_HEIGHT / 2,
            self._topology.leaf_names[panel.leaf],
            size=0.8,
            ha="center",
        )
        top = leaf_y - SWITCH_HEIGHT - LINK
        self._line(middle, leaf_y - SWITCH_HEIGHT, top, 1.5, "-")
        self._text(
            middle + 0.5, top + LINK / 2, self._down(panel), size=0.62, fit=max(10.0, width / 2)
        )
        self._box(left, top, width, height)
        y = top - GAP
        for block in panel.blocks:
            self._block(block, left + GAP, y)
            y -= block.size[1] + GAP

    def _down(self, panel: Panel) -> str:
        rates = [node.type.rdma_gb_per_s for block in panel.blocks for node in block.nodes]
        runs = [(rate, len(list(run))) for rate, run in groupby(rates)]
        return " + ".join(f"{count} x {rate:g}" for rate, count in runs) + " GB/s"

    def _block(self, block: Block, left: float, top: float) -> None:
        width, height = block.size
        if block.domain is not None:
            self._box(left, top, width, height, edge=VIOLET, line=1.6)
            title = f"NVLink domain {block.domain}"
            self._text(left + GAP, top - 0.75, title, size=0.62, fit=width - GAP, color=VIOLET)
            top -= LABEL
        cell_width, cell_height = block.cell
        for index, node in enumerate(block.nodes):
            line, column = divmod(index, block.columns)
            x = left + GAP + column * (cell_width + GAP)
            self._node(node, x, top - GAP - line * (cell_height + GAP), (cell_width, cell_height))

    def _node(self, node: Node, left: float, top: float, size: tuple[float, float]) -> None:
        self._box(left, top, *size)
        self._text(left + 0.25, top - 0.55, node.name, size=0.55, fit=size[0] - 0.4)
        for index in range(node.type.gpus):
            line, column = divmod(index, GPUS_PER_LINE)
            x, y = left + 0.25 + column * CELL, top - LABEL - line * CELL
            self._box(x, y, 1.0, 1.0, self._colour[node.type.gpu_type.name], "none")

    def _box(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        fill: str = "none",
        edge: str = INK,
        line: float = 0.8,
    ) -> None:
        from matplotlib.patches import Rectangle

        box = Rectangle(
            (left, top - height), width, height, facecolor=fill, edgecolor=edge, linewidth=line
        )
        self._axes.add_patch(box)

    def _line(self, x: float, top: float, bottom: float, width: float, style: str) -> None:
        look = {"color": INK, "linewidth": width, "solid_capstyle": "butt"}
        self._axes.plot([x, x], [top, bottom], style, **look)

    def _text(
        self, x: float, y: float, text: str, *, size: float, fit: float = math.inf, **look: Any
    ) -> None:
        """Draw text of a height in units, or smaller to fit a width."""
        points = POINTS_PER_UNIT * min(size, fit / (0.62 * max(1, len(text))))
        look = {"va": "center", "color": INK} | look
        self._axes.text(x, y, text, fontsize=points, **look)
