"""Made-up models for tests: a known truth, and runs drawn from it."""

from __future__ import annotations

import numpy as np

from morph_opt.core.domain import A800_NODE
from morph_opt.inputs.perf.analytic.architecture import Features
from morph_opt.inputs.perf.analytic.model import ModelEntry
from morph_opt.inputs.perf.analytic.terms import predict_s
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.runs import COLUMNS, Run


def entry(model: str = "bert") -> ModelEntry:
    return builtin_model().entry(model)


def pairs(model: str = "bert", gpus: int = 8) -> list[Pair]:
    known = entry(model)
    return list(known.support.pairs(known.architecture, A800_NODE.gpus, gpus))


def true_runs(model: str, chosen: list[Pair], noise: float = 0.0, seed: int = 0) -> list[Run]:
    """Runs of the zoo's constants with log-normal noise."""
    known = entry(model)
    times = predict_s(known.architecture, known.constants.vector(), Features.of(chosen))
    draws = np.exp(noise * np.random.default_rng(seed).normal(size=len(chosen)))
    return [
        Run(shape, plan, float(seconds * draw))
        for (shape, plan), seconds, draw in zip(chosen, times, draws, strict=True)
    ]


def runs_to_csv(runs: list[Run]) -> str:
    """Text that `read_runs` reads back; phases are not written."""
    lines = [",".join(COLUMNS)]
    lines += [f"{run.shape},{run.plan},{run.iteration_s!r}" for run in runs]
    return "\n".join(lines) + "\n"
