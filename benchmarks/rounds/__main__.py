"""``python -m benchmarks.rounds``."""

import sys

from benchmarks.rounds.cli import main
from morph_opt.core.commandline.running import as_process

if __name__ == "__main__":
    sys.exit(as_process(main))
