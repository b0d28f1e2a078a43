"""``python -m morph_opt.compare``."""

import sys

from morph_opt.commandline.running import as_process
from morph_opt.compare.cli import main

if __name__ == "__main__":
    sys.exit(as_process(main))
