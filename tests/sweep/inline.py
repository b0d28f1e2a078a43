"""Cells of a sweep in this process, for tests whose subject is not the child that runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from morph_opt.replay.prepare import prepare
from morph_opt.replay.run import run_prepared
from morph_opt.replay.scenario import read_scenario
from morph_opt.simulation.runs.early import MissedError
from morph_opt.simulation.runs.jobs import jobs_csv
from morph_opt.simulation.runs.summary import summary_json
from morph_opt.simulation.runs.write import CONFIG
from morph_opt.sweep import Done, driver
from morph_opt.sweep.order import MISSED, Order

ON = ["--on", "tests.sweep.poison:Inline"]
"""Options of a command that runs its cells one by one, where they are asked for."""


def run_cells_here(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, whole: bool = False
) -> list[str]:
    """Have cells run at once, in this process.

    Parameters
    ----------
    monkeypatch
        Undoes it.
    folder
        Scratch, for the configuration of the cell that runs.
    whole
        Whether replays go on where they have missed a target for certain.

    Returns
    -------
    list of str
        Keys of the cells that have run, as they run.
    """
    ran: list[str] = []

    def work(order: Order) -> Done:
        ran.append(order.key)
        (folder / CONFIG).write_text(order.config)
        try:
            slo = None if whole else order.slo
            run = run_prepared(prepare(read_scenario(folder / CONFIG)), None, slo=slo)
            texts = {
                "summary.json": summary_json(run.parts.summary()),
                "jobs.csv": jobs_csv(run.jobs),
            }
        except MissedError as missed:
            texts = {MISSED: missed.to_json()}
        return Done({name: text.encode() for name, text in texts.items()}, 0.1, "here")

    monkeypatch.setattr(driver.worker, "work", work)
    # The expensive bound is tested elsewhere; every replay would compute it for its summary.
    monkeypatch.setattr(
        "morph_opt.simulation.metrics.bounds.lower.completion_jct_s", lambda *a: None
    )
    return ran
