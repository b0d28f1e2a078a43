"""``python -m morph_opt.explain``: the command is above this room, which knows no run folders."""

import importlib
import sys

from morph_opt.commandline import COMMANDS, as_process

if __name__ == "__main__":
    module = next(known.module for known in COMMANDS if known.name == "explain")
    sys.exit(as_process(importlib.import_module(module).main))
