"""Entry point of ``python -m morph_opt.compare``."""

import sys

from morph_opt.compare.cli import main
from morph_opt.core.commandline.running import as_process

if __name__ == "__main__":
    sys.exit(as_process(main))
