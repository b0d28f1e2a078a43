"""Entry point of ``python -m morph_opt.moves``."""

import sys

from morph_opt.core.commandline.running import as_process
from morph_opt.moves.cli import main

if __name__ == "__main__":
    sys.exit(as_process(main))
