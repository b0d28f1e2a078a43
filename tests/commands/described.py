"""Every option of a command as a value, read off its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.types import NamedNumber, NamedNumbers, Number
from morph_opt.core.domain import Range


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """An option or positional argument.

    Parameters
    ----------
    words
        Sub-commands before it, for example ``("fit",)``.
    name
        ``"--gap"``, or the metavar of a positional argument.
    kind
        ``"flag"``, ``"choice"``, ``"number"``, ``"named number"`` (``2`` or ``a=2``),
        ``"named numbers"`` (``a=2,b=1``), ``"path"``, ``"text"``, or ``"other"`` (a type that
        nobody described: a defect).
    range
        Of numbers; None of the others.
    choices
        Of a choice.
    required, repeatable
        Whether it must, and whether it may be given more than once or with several values.
    only
        Rules that say when it has an effect; empty: always.
    help
        As ``--help`` says it.
    """

    words: tuple[str, ...]
    name: str
    kind: str
    range: Range | None
    choices: tuple[str, ...]
    required: bool
    repeatable: bool
    only: tuple[str, ...]
    help: str

    @property
    def positional(self) -> bool:
        """Whether it is given by its place instead of its name."""
        return not self.name.startswith("-")


_KINDS: dict[Any, str] = {None: "text", str: "text", Path: "path"}
_RANGED = {Number: "number", NamedNumber: "named number", NamedNumbers: "named numbers"}


def described(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[OptionFacts]:
    """The options of a parser and of its sub-commands, in the order of ``--help``; not ``--help``.

    Parameters
    ----------
    parser
        See `morph_opt.commands.parser_of`.
    words
        Sub-commands that led to it.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from described(inner, (*words, name))
        elif not isinstance(action, argparse._HelpAction):
            yield _facts(action, parser, words)


def _facts(
    action: argparse.Action, parser: argparse.ArgumentParser, words: tuple[str, ...]
) -> OptionFacts:
    name = (
        action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    )
    ranged = _RANGED.get(type(action.type))
    conditions = parser.conditions if isinstance(parser, LineParser) else {}
    return OptionFacts(
        words=words,
        name=name,
        kind=_kind(action) if ranged is None else ranged,
        range=None if ranged is None else getattr(action.type, "range", None),
        choices=tuple(str(choice) for choice in action.choices or ()),
        required=bool(action.required),
        repeatable=isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*"),
        only=tuple(condition.rule for condition in conditions.get(name, ())),
        help=action.help or "",
    )


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "flag"
    if action.choices is not None:
        return "choice"
    return _KINDS.get(action.type, "other")
