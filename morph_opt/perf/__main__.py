"""Command ``python -m morph_opt.perf``."""

import sys

from morph_opt.commandline.running import as_process
from morph_opt.perf.cli import main

if __name__ == "__main__":
    sys.exit(as_process(main))
