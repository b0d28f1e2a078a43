"""Fitting, uncertainty, design, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.perf.complete import INDEPENDENT
from benchmarks.perf.population import population
from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, PARTS
from morph_opt.inputs.perf.analytic.phases import Timers, booked
from morph_opt.inputs.perf.analytic.prior import Population, prior, wide_prior
from morph_opt.inputs.perf.analytic.zoo import builtin_population
from morph_opt.inputs.perf.fitting.checks import check_enough, check_units
from morph_opt.inputs.perf.fitting.design import choose_runs
from morph_opt.inputs.perf.fitting.discrepancy import covariance
from morph_opt.inputs.perf.fitting.errors import (
    ERRORS,
    Evaluator,
    Outputs,
    covariance_between,
)
from morph_opt.inputs.perf.fitting.fit import Fit, fit, of_constants
from morph_opt.inputs.perf.fitting.runs import Run
from tests.perf.worlds import entry, pairs, true_runs

BERT = entry("bert").architecture


def error(found: Fit, model: str) -> float:
    rows = pairs(model)
    truth = np.array([run.iteration_s for run in true_runs(model, rows)])
    return float(np.abs(found.predict(rows).iteration_s / truth - 1).mean())


def test_a_complete_noiseless_table_is_reproduced() -> None:
    found = fit(BERT, true_runs("bert", pairs()), errors=INDEPENDENT)
    assert error(found, "bert") < 0.01


def test_fit_without_runs_is_the_prior() -> None:
    belief = prior(BERT, builtin_population())
    found = fit(BERT, (), belief)
    assert (found.log_constants == belief.log_mean).all()
    assert set(found.determined().values()) == {0.0}


@pytest.mark.parametrize("model", ["bert", "gpt2", "t5"])
def test_eight_chosen_runs_predict_the_rest(model: str) -> None:
    architecture = entry(model).architecture
    belief = prior(architecture, builtin_population())
    rows = pairs(model)
    nothing = fit(architecture, (), belief)
    chosen = [rows[i] for i in choose_runs(nothing, rows, 8)]
    found = fit(architecture, true_runs(model, chosen), belief)
    assert error(found, model) < 0.10
    assert error(found, model) < 0.5 * error(nothing, model)


def test_more_runs_leave_less_uncertainty() -> None:
    belief = prior(BERT, builtin_population())
    rows = pairs()
    deviations = []
    for count in (2, 6, 12):
        chosen = [rows[i] for i in choose_runs(fit(BERT, (), belief), rows, count)]
        deviations.append(fit(BERT, true_runs("bert", chosen), belief).predict(rows).log_sd.mean())
    assert deviations == sorted(deviations, reverse=True)


def test_stated_uncertainty_covers_the_truth() -> None:
    belief = prior(BERT, builtin_population())
    rows = pairs()
    chosen = [rows[i] for i in choose_runs(fit(BERT, (), belief), rows, 8)]
    found = fit(BERT, true_runs("bert", chosen, noise=0.02, seed=5), belief).predict(rows)
    truth = np.log([run.iteration_s for run in true_runs("bert", rows)])
    assert np.mean(np.abs(np.log(found.iteration_s) - truth) < 2 * found.log_sd) > 0.85


def test_a_sampled_run_corrects_its_own_prediction() -> None:
    run = Run(Shape.of(8), ExecutionPlan.parse("dp+ga"), 0.9)
    known = of_constants(BERT, entry("bert").constants)
    bare = known.predict([(run.shape, run.plan)]).iteration_s[0]
    taught = Fit(BERT, known.log_constants, known.log_covariance, known.prior, (run,))
    moved = taught.predict([(run.shape, run.plan)]).iteration_s[0]
    assert bare < moved <= bare * np.exp(0.15) * (1 + 1e-9)


def test_fit_is_robust_to_one_outlier() -> None:
    runs = true_runs("bert", pairs())
    wild = Run(runs[40].shape, runs[40].plan, 20 * runs[40].iteration_s)
    found = fit(BERT, [*runs[:40], wild, *runs[41:]], errors=INDEPENDENT)
    truth = [run.iteration_s for run in runs]
    bare = of_constants(BERT, found.constants).predict(pairs()).iteration_s
    assert np.median(np.abs(bare / truth - 1)) < 0.03


def test_fitting_twice_gives_the_same_bits() -> None:
    runs = true_runs("bert", pairs()[::9], noise=0.03)
    assert (fit(BERT, runs).log_constants == fit(BERT, runs).log_constants).all()


def test_errors_are_a_covariance() -> None:
    rows = pairs("t5", 16)
    for scales in ERRORS.kernels:
        matrix = covariance(rows, rows, scales)
        assert np.allclose(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix).min() > -1e-12
        halves = covariance(rows[:20], rows[20:], scales)
        assert np.allclose(halves, matrix[:20, 20:])


def test_errors_of_phases_and_iterations_are_one_covariance() -> None:
    known = entry("bert")
    rows = pairs("bert")[::5]
    timers = Timers.SYNCHRONISED
    determined = [(PARTS, *booked(plan, timers)) for _, plan in rows]
    outputs = Outputs.of(rows, determined)
    share, size = Evaluator(known.architecture, outputs).shares(np.log(known.constants.vector()))
    assert np.allclose(share.sum(axis=1), 1.0)
    assert np.allclose(size[::5], 1.0)
    matrix = covariance_between(outputs, share, outputs, share, ERRORS)
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12


def test_a_design_names_new_runs_each_once_and_spreads_over_plans() -> None:
    belief = prior(BERT, builtin_population())
    rows = pairs()
    known = fit(BERT, true_runs("bert", rows[:3]), belief)
    chosen = choose_runs(known, rows, 8)
    assert len(set(chosen)) == 8
    assert not set(chosen) & {0, 1, 2}
    assert len({rows[i][1] for i in chosen}) >= 3
    assert chosen == choose_runs(known, rows, 8)


def test_a_design_cannot_ask_for_more_than_there_is() -> None:
    known = fit(BERT, (), prior(BERT))
    with pytest.raises(InputError, match="asks for 3 runs, but only 2 are left"):
        choose_runs(known, pairs()[:2], 3)


def test_a_population_learns_what_models_share() -> None:
    models = [
        (entry(name).architecture, true_runs(name, pairs(name)[::5])) for name in ("bert", "vit")
    ]
    found = population(models)
    wide = wide_prior(BERT)
    at = CONSTANT_NAMES.index("rail_gb_per_s")
    assert found.log_sd[at] < wide.log_sd[at]
    assert (found.log_sd <= wide.log_sd).all()
    untold = CONSTANT_NAMES.index("tensor_gb_per_s")
    assert found.log_sd[untold] == pytest.approx(wide.log_sd[untold], rel=0.2)


def test_a_population_never_widens_the_prior() -> None:
    wide = wide_prior(BERT)
    loose = Population(np.zeros(len(CONSTANT_NAMES)), 99 * wide.log_sd)
    assert (prior(BERT, loose).log_sd == wide.log_sd).all()


# --- bad input ------------------------------------------------------------------------------


def rows_of(*texts: str) -> list[Run]:
    known = {(s.label, p.label): i for i, (s, p) in enumerate(pairs())}
    chosen = [pairs()[known[tuple(text.split(" "))]] for text in texts]  # type: ignore[index]
    return true_runs("bert", chosen)


GOOD = ("8 dp+ga", "2 dp+gc", "4 zero-dp", "1 zero-offload", "4+4 dp+ga")


def refusal(*texts: str) -> str:
    with pytest.raises(InputError) as caught:
        check_enough(BERT, pairs(), rows_of(*texts), prior(BERT, builtin_population()), "r.csv")
    return str(caught.value)


def test_a_varied_file_is_enough() -> None:
    check_enough(BERT, pairs(), rows_of(*GOOD), prior(BERT, builtin_population()))


def test_too_few_runs_are_refused_with_what_to_run() -> None:
    message = refusal(*GOOD[:2])
    assert message.startswith("r.csv: 2 runs are too few, at least 4 are needed")
    assert "Runs that would mend it: zero-dp on " in message


def test_runs_on_one_gpu_count_are_refused() -> None:
    message = refusal("8 dp+ga", "8 dp+gc", "8 zero-dp", "8 zero-offload", "4+4 dp+ga")
    assert "compute_s from overhead_s (all runs are on one GPU count)" in message


@pytest.mark.parametrize(
    ("left_out", "constant"),
    [(1, "recompute"), (2, "zero_sync"), (3, "offload_share_s"), (4, "rail_gb_per_s")],
)
def test_a_missing_kind_of_run_names_its_constant_and_what_would_tell_it(
    left_out: int, constant: str
) -> None:
    kept = [text for index, text in enumerate(GOOD) if index != left_out]
    message = refusal(*kept, "2 dp+ga")
    assert f"the runs cannot tell {constant}" in message
    suggested = message.split("Runs that would mend it: ")[1]
    kinds = {1: "dp+gc on", 2: "zero-dp on", 3: "zero-offload on", 4: "+"}
    assert kinds[left_out] in suggested


@pytest.mark.parametrize(
    ("factor", "word"), [(1e3, "milliseconds"), (1e-3, "faster than the GPUs can be")]
)
def test_units_off_by_a_thousand_are_refused(factor: float, word: str) -> None:
    runs = [Run(r.shape, r.plan, factor * r.iteration_s) for r in rows_of(*GOOD)]
    with pytest.raises(InputError, match=word):
        check_units(BERT, runs)


@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_one_line_in_another_unit_is_named(factor: float) -> None:
    runs = rows_of(*GOOD)
    runs[2] = Run(runs[2].shape, runs[2].plan, factor * runs[2].iteration_s)
    with pytest.raises(InputError, match=r"r\.csv, line 4, iteration_s: zero-dp on 4 is"):
        check_units(BERT, runs, "r.csv")


@pytest.mark.parametrize("model", ["bert", "gpt2", "llama30", "llama7", "roberta", "t5", "vit"])
def test_true_times_of_the_zoo_pass_the_unit_check(model: str) -> None:
    check_units(entry(model).architecture, true_runs(model, pairs(model, 64)))
