"""The parser of every command line: a wrong usage is answered in one line, with exit status 2.

Beyond argparse, an option that is given twice is refused, so is a text that is empty, and so is an
option that would have no effect next to the others (`LineParser.only`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from morph_opt.commandline.types import path, text


@dataclass(frozen=True, slots=True)
class Condition:
    """When an option has an effect.

    Parameters
    ----------
    rule
        Said when it has none: ``"is given together with --dump-rounds"``.
    holds
        Whether it has, by the arguments as parsed.
    """

    rule: str
    holds: Callable[[argparse.Namespace], bool]


class LineParser(argparse.ArgumentParser):
    """Says what is wrong in one line; sub-commands' parsers are of the same class.

    Takes what `argparse.ArgumentParser` takes; abbreviations are off, and the type of an argument
    without one is a text that is not empty.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        self.register("type", None, text)
        self.register("type", Path, path)
        self.conditions: dict[str, tuple[Condition, ...]] = {}

    def add_subparsers(self, **settings: Any) -> argparse._SubParsersAction[Any]:
        """As of argparse; what follows the command is left to the command's own parser."""
        action = super().add_subparsers(**settings)
        action.type = str
        return action

    def only(self, option: str, rule: str, holds: Callable[[argparse.Namespace], bool]) -> None:
        """State when an option has an effect; where it has none it is refused by name.

        Parameters
        ----------
        option
            For example ``"--dump-every"``.
        rule, holds
            See `Condition`.
        """
        self.conditions[option] = (*self.conditions.get(option, ()), Condition(rule, holds))

    def only_with(self, option: str, other: str) -> None:
        """State that an option has an effect next to another one only."""
        dest = self._option_string_actions[other].dest
        default = self.get_default(dest)
        self.only(
            option,
            f"has an effect together with {other} only",
            lambda given: getattr(given, dest, default) != default,
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As of argparse, with the stricter rules."""
        words = list(sys.argv[1:] if args is None else args)
        given = self._given(words)
        parsed, rest = super().parse_known_args(words, namespace)
        for option in given:
            for condition in self.conditions.get(option, ()):
                if not condition.holds(parsed):
                    self.error(f"argument {option}: {condition.rule}")
        return parsed, rest

    def _given(self, words: Sequence[str]) -> list[str]:
        """Options among the words, in order; one that is given twice is refused."""
        found: list[str] = []
        for word in words:
            if word == "--":
                break
            option = word.partition("=")[0]
            action = self._option_string_actions.get(option)
            if action is None:
                continue
            if option in found and not isinstance(action, argparse._AppendAction):
                self.error(f"argument {option}: given twice")
            found.append(option)
        return list(dict.fromkeys(found))

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse's own it does not keep silent about a full disk."""
        print(self.format_help(), end="", file=sys.stdout if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Print the line on stderr and leave with status 2."""
        line = " ".join(message.splitlines())
        self.exit(2, f"error: {line} (see {self.prog} --help)\n")
