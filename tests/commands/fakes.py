"""A solver that writes down how it was asked, for command lines by import path."""

from __future__ import annotations

from pathlib import Path

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Capabilities
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome


class Recorder:
    """HiGHS that appends its limits, and the kind of the model, to ``asked.txt``."""

    name = "recorder"
    capabilities = Capabilities(mip_start=True, node_limit=True, lp_duals=True)

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        with Path("asked.txt").open("a") as file:
            file.write(f"{model.name.split()[0]} {limits} {start is not None}\n")
        return HighsSolver().solve(model, limits, start)
