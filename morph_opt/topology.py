"""Entry point of ``python -m morph_opt.topology``; see `morph_opt.inputs.clusters.cli`."""

from __future__ import annotations

import sys

from morph_opt.core.commandline.running import as_process
from morph_opt.inputs.clusters.cli import main, make_parser

__all__ = ["main", "make_parser"]

if __name__ == "__main__":
    sys.exit(as_process(main))
