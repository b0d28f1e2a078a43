"""``python -m benchmarks.planning``."""

import sys

from benchmarks.planning.cli import main
from morph_opt.core.commandline.running import as_process

if __name__ == "__main__":
    sys.exit(as_process(main))
