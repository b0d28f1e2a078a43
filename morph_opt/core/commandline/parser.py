"""Parser of every command line: it refuses wrong usage in one line, with exit status 2.

Beyond argparse, it refuses an option that is given twice, an empty text, and an option that has no
effect next to the others (`LineParser.only`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from morph_opt.core.commandline.types import path, text
from morph_opt.core.domain.errors import InputError, on_command_line
from morph_opt.core.domain.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition under which an option has an effect.

    Parameters
    ----------
    rule
        Message if it has none: ``"is given together with --dump-rounds"``.
    holds
        Function that returns whether it has one, from the parsed arguments.
    """

    rule: str
    holds: Callable[[argparse.Namespace], bool]


class _HelpAll(argparse._HelpAction):
    """Action of ``--help-all``; see `LineParser.abridge`."""

    def __call__(self, parser: Any, *_: Any, **__: Any) -> None:
        """Print the whole help and leave."""
        print(parser.format_help_all(), end="")
        parser.exit()


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Sub-commands, whose help text is also the description in their own help.

    The parser of a sub-command refuses words that it does not know, with its own options as hints.
    """

    renamed: Mapping[str, str] = {}
    """Replacements of former commands, by their names."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        """Add a sub-command as argparse does, with its help text as description."""
        text = str(settings.get("help") or "")
        sentence = text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")
        return super().add_parser(name, **{"description": sentence, **settings})

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Run the sub-command's parser as argparse does; refuse words that it does not know."""
        parser.chosen = self._name_parser_map.get(values[0])
        super().__call__(parser, namespace, values, option)
        rest = getattr(namespace, argparse._UNRECOGNIZED_ARGS_ATTR, [])
        if rest:
            self._name_parser_map[values[0]].refuse(rest)


SUBJECTS = ("--state", "--trace")
"""Options to suggest for a word without an option, in order of preference."""


class LineParser(argparse.ArgumentParser):
    """Parser that refuses wrong usage in one line; sub-commands' parsers are of the same class.

    Takes what `argparse.ArgumentParser` takes; abbreviations are off, and the type of an argument
    without one is a text that is not empty.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        if self.description:  # of a module's docstring
            self.description = self.description.replace("``", "")
        self.register("type", None, text)
        self.register("type", Path, path)
        self.conditions: dict[str, tuple[Condition, ...]] = {}
        self.rare: set[argparse.Action] = set()
        self.chosen: LineParser | None = None
        self.hints: dict[str, str] = {}
        """Advice for options that only other commands have, by option."""

    def add_subparsers(self, **settings: Any) -> argparse._SubParsersAction[Any]:
        """Add sub-commands as argparse does; words after a command are for its own parser."""
        action = super().add_subparsers(**{"action": _Commands, "metavar": "COMMAND", **settings})
        action.type = str
        return action

    def only(self, option: str, rule: str, holds: Callable[[argparse.Namespace], bool]) -> None:
        """Declare when an option has an effect; otherwise it is refused.

        Parameters
        ----------
        option
            For example ``"--dump-every"``.
        rule, holds
            See `Condition`.
        """
        self.conditions[option] = (*self.conditions.get(option, ()), Condition(rule, holds))

    def only_with(self, option: str, other: str) -> None:
        """Declare that an option needs another one to have an effect."""
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
        """Parse as argparse does, with stricter rules."""
        words = list(sys.argv[1:] if args is None else args)
        given = self._given(words)
        parsed, rest = super().parse_known_args(words, namespace)
        for option in given:
            for condition in self.conditions.get(option, ()):
                if not condition.holds(parsed):
                    self.error(f"argument {option}: {condition.rule}")
        return parsed, rest

    def abridge(self, *common: str) -> None:
        """Let ``--help`` show the common options only, and ``--help-all`` every option.

        Parameters
        ----------
        common
            Names of the common options.
        """
        self.add_argument("--help-all", action=_HelpAll, help="show every option, and exit")
        kept = {"--help", "--help-all", *common}
        self.rare = {one for one in self._actions if not kept & {*one.option_strings}}

    def format_help(self) -> str:
        """Return the help, with common options only if `abridge` was called."""
        if not self.rare:
            return super().format_help()
        texts = {action: action.help for action in self.rare}
        usage, epilog = self.usage, self.epilog
        try:
            for action in texts:
                action.help = argparse.SUPPRESS
            self.usage = "%(prog)s [OPTIONS]"
            self.epilog = f"{len(texts)} more options: --help-all. {epilog or ''}"
            return super().format_help()
        finally:
            for action, text in texts.items():
                action.help = text
            self.usage, self.epilog = usage, epilog

    def format_help_all(self) -> str:
        """Return the help with every option."""
        return super().format_help()

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Parse as argparse does; refuse unknown words with a suggestion."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            self.refuse(rest)
        found: argparse.Namespace = parsed
        return found

    def refuse(self, rest: Sequence[str]) -> NoReturn:
        """Refuse unknown words with a suggestion."""
        known = [word for action in self._actions for word in action.option_strings]
        near = "".join(
            did_you_mean(word.partition("=")[0], known) for word in rest if word[:1] == "-"
        )
        hint = self.hints.get(rest[0].partition("=")[0])
        if hint is not None:
            near = f"; {hint}"
        subject = next((option for option in SUBJECTS if option in known), None)
        if subject is not None and all(word[:1] != "-" for word in rest):
            near = f" (did you mean '{subject} {rest[0]}'?)"
        self.error(f"unrecognized arguments: {' '.join(rest)}{near}")

    def as_typed(self, error: InputError) -> InputError:
        """Return an error about a parameter as one about its option, if the parser has one."""
        option = "--" + str(error.field).replace("_", "-")
        if error.file or all(option not in one._option_string_actions for one in self._all()):
            return error
        with on_command_line():
            return InputError(error.rule, field=option)

    def _all(self) -> Iterator[LineParser]:
        """Yield this parser and the parsers of the given sub-commands."""
        yield self
        if self.chosen is not None:
            yield from self.chosen._all()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a choice as argparse does; refuse others with a suggestion."""
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            near = did_you_mean(str(value), names)
            if value in getattr(action, "renamed", {}):
                near = f", which is {action.renamed[value]} now"  # type: ignore[attr-defined]
            rule = f"invalid choice: {str(value)[:120]!r}{near} (choose from {', '.join(names)})"
            raise argparse.ArgumentError(action, rule)

    def _given(self, words: Sequence[str]) -> list[str]:
        """Return the options among the words, in order; refuse unknown and duplicate ones.

        Unknown options are reported before missing ones, which they may have been meant for.
        """
        found: list[str] = []
        for at, word in enumerate(words):
            if word == "--" or (self._subparsers is not None and word[:1] != "-"):
                break
            option = word.partition("=")[0]
            action = self._option_string_actions.get(option)
            if action is None:
                if option.startswith("--") and " " not in word:
                    value = words[at + 1 : at + 2] if "=" not in word else []
                    self.refuse([word, *(one for one in value if one[:1] != "-")])
                continue
            if option in found and not isinstance(action, argparse._AppendAction):
                self.error(f"argument {option}: given twice")
            found.append(option)
        return list(dict.fromkeys(found))

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse, report a full disk."""
        print(self.format_help(), end="", file=sys.stdout if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Print the line on stderr and leave with status 2."""
        line = " ".join(message.splitlines())
        self.exit(2, f"error: {line} (see {self.prog} --help)\n")
