"""Command ``topology``: ``show``, ``between``, ``draw`` and ``export`` the network of a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.topology.draw import draw_topology
from morph_opt.inputs.topology.files import write_graph
from morph_opt.inputs.topology.text import between_text, topology_text


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(
        prog="python -m morph_opt.topology",
        description="The network of a cluster: spine, leaf switches, NVLink domains, nodes.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    spec = "TOML spec, graph (.graphml, .json) or short form such as 8x8"
    show = commands.add_parser("show", help="print a topology as a tree")
    show.add_argument("spec", help=spec)
    between = commands.add_parser(
        "between", help="print the path between two nodes, and its bandwidth"
    )
    between.add_argument("spec", help=spec)
    for end in ("one", "other"):
        between.add_argument(end, metavar="NODE", help=f"name of the {end} node")
    draw = commands.add_parser("draw", help="draw a topology as a picture")
    draw.add_argument("spec", help=spec)
    draw.add_argument("--out", required=True, type=Path, help="picture to write, .svg or .png")
    export = commands.add_parser("export", help="write a topology as a graph that networkx reads")
    export.add_argument("spec", help=spec)
    export.add_argument(
        "--out", required=True, type=Path, help="graph to write, .graphml or .json (node-link)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return run_command(make_parser(), _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    cluster = load_cluster(arguments.spec)
    if arguments.command == "show":
        print(topology_text(cluster))
    elif arguments.command == "between":
        print(between_text(cluster, arguments.one, arguments.other))
    else:
        write = draw_topology if arguments.command == "draw" else write_graph
        write(cluster, arguments.out)
        print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
