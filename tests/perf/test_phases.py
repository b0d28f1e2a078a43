"""Phases of runs: what they hold, how they are read, and what they tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.perf.complete import INDEPENDENT, fit_complete
from benchmarks.perf.public_runs import read_public
from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, PARTS, Features
from morph_opt.inputs.perf.analytic.phases import Phase, Timers, booked, phases_of
from morph_opt.inputs.perf.analytic.prior import prior
from morph_opt.inputs.perf.analytic.terms import parts_s
from morph_opt.inputs.perf.fitting.design import choose_runs
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.errors import observed
from morph_opt.inputs.perf.fitting.fit import fit, of_constants
from morph_opt.inputs.perf.fitting.runs import Run, read_runs
from tests.perf.worlds import entry, pairs, true_runs

BERT = entry("bert").architecture
DP = ExecutionPlan.parse("dp+ga")


def with_phases(model: str, chosen: list[Pair]) -> list[Run]:
    """Noiseless runs that report their phases."""
    known = entry(model)
    parts = parts_s(known.architecture, known.constants.vector(), Features.of(chosen))
    found = []
    for (shape, plan), times in zip(chosen, parts.T, strict=True):
        by_name = dict(zip(PARTS, times, strict=True))
        groups = booked(plan, Timers.SYNCHRONISED)
        seconds = [sum(by_name[part] for part in group) for group in groups]
        total = float(times.sum())
        determined = (float(seconds[0]), float(seconds[1]), float(seconds[2]))
        found.append(Run(shape, plan, total, phases_of(plan, total, determined)))
    return found


@pytest.mark.parametrize("timers", list(Timers))
@pytest.mark.parametrize("plan", ["dp", "dp+gc", "zero-dp", "zero-offload", "pp2-tp2-dp2"])
def test_phases_sum_to_the_iteration_time(plan: str, timers: Timers) -> None:
    held = [part for group in booked(ExecutionPlan.parse(plan), timers) for part in group]
    assert sorted(held) == sorted(PARTS)


def test_phases_and_rest_sum_up_to_the_iteration() -> None:
    found = phases_of(DP, 1.0, (0.2, 0.5, 0.1))
    assert [phase.parts[0] for phase in found] == ["forward", "backward", "optimizer", "rest"]
    assert sum(phase.seconds for phase in found) == pytest.approx(1.0)


def test_a_phase_without_time_is_booked_with_synchronisation() -> None:
    found = phases_of(DP, 1.0, (0.0, 0.9, 0.0))
    assert set(found[0].parts) == {"forward", "stall", "backward", "gradients", "optimizer"}
    assert found[0].seconds == pytest.approx(0.9)


def test_a_rest_below_nothing_is_left_out_and_the_iteration_counts_instead() -> None:
    run = Run(Shape.of(4), DP, 1.0, phases_of(DP, 1.0, (0.2, 0.75, 0.1)))
    outputs, logs = observed([run])
    assert len(run.phases) == 3
    assert outputs.mask[-1].all()
    assert np.exp(logs[-1]) == pytest.approx(1.0)


def test_phases_in_another_unit_than_the_iteration_are_refused() -> None:
    with pytest.raises(InputError, match=r"the phases take 800 s, the iteration 1 s"):
        phases_of(DP, 1.0, (200.0, 500.0, 100.0))
    with pytest.raises(InputError, match=r"take 0\.08 s of an iteration of 1 s; are they in"):
        phases_of(DP, 1.0, (0.02, 0.05, 0.01))
    with pytest.raises(InputError, match="at least 0"):
        phases_of(DP, 1.0, (-0.1, 0.5, 0.1))


@pytest.mark.parametrize("parts", [(), ("wheels",)])
def test_a_phase_holds_known_parts(parts: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"phase\.parts"):
        Phase(parts, 1.0)


def test_csv_with_phases(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    head = "shape,plan,iteration_s,forward_s,sync_s,optimizer_s\n"
    file.write_text(f"{head}8,dp+ga,1,0.2,0.5,0.1\n4+4,dp+ga,2,,,\n")
    first, second = read_runs(file)
    assert first.phases == phases_of(DP, 1.0, (0.2, 0.5, 0.1))
    assert second.phases == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("8,dp,1,0.2,,0.1", "line 2, sync_s: must not be empty"),
        ("8,dp,1,0.2,much,0.1", "line 2, sync_s: must be a finite number, got 'much'"),
        ("8,dp,1,200,500,100", "line 2, .*: the phases take 800 s"),
        ("8,dp,0,0.2,0.5,0.1", "line 2, iteration_s: must be above 0"),
        ("8,dp,1,0.2,0.5", "line 2: must have 6 cells"),
    ],
)
def test_bad_phases_name_line_field_and_rule(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"shape,plan,iteration_s,forward_s,sync_s,optimizer_s\n{row}\n")
    with pytest.raises(InputError, match=message):
        read_runs(file)


def test_public_phases_are_read_in_either_unit(tmp_path: Path) -> None:
    head = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n"
    for number, row in enumerate(("ga,8,0.5,0.1,0.3,0.05", "ga,8,0.5,100,300,50")):
        file = tmp_path / f"{number}.csv"
        file.write_text(f"{head}{row}\n")
        runs, _ = read_public(file, Timers.SYNCHRONISED)
        assert [p.seconds for p in runs[0].phases] == pytest.approx([0.1, 0.3, 0.05, 0.05])
        assert read_public(file)[0][0].phases == ()


def test_phases_tell_constants_apart_that_iteration_times_mix() -> None:
    belief = prior(BERT)
    chosen = [pair for pair in pairs() if pair[1] == DP][:3]
    determined = with_phases("bert", chosen)
    timed = true_runs("bert", chosen)
    truth = np.log(entry("bert").constants.optimizer_s)
    at = CONSTANT_NAMES.index("optimizer_s")
    phased, plain = fit(BERT, determined, belief), fit(BERT, timed, belief)
    assert phased.determined()["optimizer_s"] > plain.determined()["optimizer_s"] + 0.2
    assert abs(phased.log_constants[at] - truth) < abs(plain.log_constants[at] - truth)


def test_a_noiseless_table_with_phases_is_reproduced() -> None:
    rows = pairs()
    runs = with_phases("bert", rows)
    truth = np.array([run.iteration_s for run in runs])
    for found in (fit(BERT, runs, errors=INDEPENDENT), fit_complete(BERT, runs)):
        bare = of_constants(BERT, found.constants).predict(rows).iteration_s
        assert np.abs(bare / truth - 1).mean() < 0.01


def test_a_design_that_knows_phases_is_deterministic() -> None:
    nothing = fit(BERT, (), prior(BERT))
    rows = pairs()[::3]
    determined = choose_runs(nothing, rows, 4, timers=Timers.SYNCHRONISED)
    assert determined == choose_runs(nothing, rows, 4, timers=Timers.SYNCHRONISED)
    assert len(set(determined)) == 4
