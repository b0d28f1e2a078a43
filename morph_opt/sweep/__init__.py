"""Sweeps of replays: cells with keys, a cache, executors, failures as rows.

>>> from morph_opt.sweep import Cell, run_cells
>>> import morph_opt as mo
>>> cell = Cell(mo.Scenario("naive", policy="fifo"))
>>> len(cell.key)
64
"""

from typing import TYPE_CHECKING

from morph_opt.core.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.sweep.cell import Cell
    from morph_opt.sweep.driver import Progress, run_cells
    from morph_opt.sweep.order import Done, Failure, Limits
    from morph_opt.sweep.spec import Spec, read_spec
    from morph_opt.sweep.store import CellStore
    from morph_opt.sweep.table import SweepTable
else:
    __getattr__ = lazily(
        __name__,
        {
            ".cell": ("Cell",),
            ".driver": ("Progress", "run_cells"),
            ".order": ("Done", "Failure", "Limits"),
            ".spec": ("Spec", "read_spec"),
            ".store": ("CellStore",),
            ".table": ("SweepTable",),
        },
    )

__all__ = [
    "Cell",
    "CellStore",
    "Done",
    "Failure",
    "Limits",
    "Progress",
    "Spec",
    "SweepTable",
    "read_spec",
    "run_cells",
]
