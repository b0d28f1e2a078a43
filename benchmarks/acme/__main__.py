"""``python -m benchmarks.acme``."""

import sys

from benchmarks.acme.command import main
from morph_opt.core.commandline.running import as_process

if __name__ == "__main__":
    sys.exit(as_process(main))
