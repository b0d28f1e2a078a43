"""The parser of every command line: a wrong usage is answered in one line, with exit status 2."""

from __future__ import annotations

import argparse
from typing import NoReturn


class LineParser(argparse.ArgumentParser):
    """Says what is wrong in one line; sub-commands' parsers are of the same class."""

    def error(self, message: str) -> NoReturn:
        """Print the line on stderr and leave with status 2."""
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")
