"""``python -m benchmarks.comparison``."""

import sys

from benchmarks.comparison.cli import main
from morph_opt.core.commandline.running import as_process

if __name__ == "__main__":
    sys.exit(as_process(main))
