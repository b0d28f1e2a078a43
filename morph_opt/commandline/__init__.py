"""What all command lines share: a strict parser, types with ranges, and the options described."""

from morph_opt.commandline.catalog import COMMANDS, GROUPS, Command, parser_of
from morph_opt.commandline.described import OptionFacts, described
from morph_opt.commandline.parser import Condition, LineParser
from morph_opt.commandline.running import as_process, run_command
from morph_opt.commandline.types import NamedNumbers, Number, named_numbers

__all__ = [
    "COMMANDS",
    "GROUPS",
    "Command",
    "Condition",
    "LineParser",
    "NamedNumbers",
    "Number",
    "OptionFacts",
    "as_process",
    "described",
    "named_numbers",
    "parser_of",
    "run_command",
]
