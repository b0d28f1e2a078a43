"""Entry point of ``python -m morph_opt`` and of the console script ``morph-opt``.

``morph-opt COMMAND ...`` does what ``python -m morph_opt.COMMAND ...`` does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.commands import COMMANDS, GROUPS
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.version import __version__


class _Overview(LineParser):
    """Parser whose help is the list of commands, on one screen."""

    def format_help(self) -> str:
        """Return the list of commands."""
        width = max(len(command.name) for command in COMMANDS)
        lines = [
            f"morph-opt {__version__}: training on GPU clusters by proven MILPs (COMMAND --help)"
        ]
        for title, commands in GROUPS.items():
            lines.append(f"{title}:")
            lines += [f"  {one.name:<{width}}  {one.summary}" for one in commands]
        return "\n".join((*lines, ""))


def make_parser() -> LineParser:
    """Return the parser of ``morph-opt`` itself."""
    parser = _Overview(prog="python -m morph_opt")
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or list all commands."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = {command.name: command for command in COMMANDS}
    if words and words[0] in known:
        module = importlib.import_module(known[words[0]].module)
        status: int = module.main(words[1:])
        return status
    parser = make_parser()
    if words and not words[0].startswith("-"):
        rule = unknown("command", words[0][:40], known)
        return run_command(parser, lambda _: parser.error(rule), [])

    def answer(given: object) -> int:
        print(__version__ if getattr(given, "version", False) else parser.format_help().rstrip())
        return 0

    return run_command(parser, answer, words)


def console() -> int:
    """Run the console script, with the same module search path as ``python -m``."""
    sys.path.insert(0, str(Path.cwd()))
    return as_process(main)


if __name__ == "__main__":
    sys.exit(console())
