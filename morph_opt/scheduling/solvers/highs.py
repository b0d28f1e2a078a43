"""Adapter of HiGHS through its array interface (highspy), the default solver."""

from __future__ import annotations

import highspy
import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.parameters import HIGHS
from morph_opt.scheduling.solvers.recheck import sound

_STATUS = highspy.HighsModelStatus
CODES: dict[highspy.HighsModelStatus, Meaning] = {
    _STATUS.kNotset: Meaning.FAILED,
    _STATUS.kLoadError: Meaning.FAILED,
    _STATUS.kModelError: Meaning.FAILED,
    _STATUS.kPresolveError: Meaning.FAILED,
    _STATUS.kSolveError: Meaning.FAILED,
    _STATUS.kPostsolveError: Meaning.FAILED,
    _STATUS.kModelEmpty: Meaning.PROVED,
    _STATUS.kOptimal: Meaning.PROVED,
    _STATUS.kInfeasible: Meaning.INFEASIBLE,
    _STATUS.kUnboundedOrInfeasible: Meaning.INFEASIBLE_OR_UNBOUNDED,
    _STATUS.kUnbounded: Meaning.UNBOUNDED,
    _STATUS.kObjectiveBound: Meaning.LIMIT,
    _STATUS.kObjectiveTarget: Meaning.LIMIT,
    _STATUS.kTimeLimit: Meaning.TIME_LIMIT,
    _STATUS.kIterationLimit: Meaning.LIMIT,
    _STATUS.kUnknown: Meaning.FAILED,
    _STATUS.kSolutionLimit: Meaning.NODE_LIMIT,  # HiGHS says so when mip_max_nodes ran out
    _STATUS.kInterrupt: Meaning.TIME_LIMIT,
    _STATUS.kMemoryLimit: Meaning.MEMORY_LIMIT,
    _STATUS.kHighsInterrupt: Meaning.TIME_LIMIT,
}
"""Meaning of every code of `highspy.HighsModelStatus`."""

_pool_threads = 0


def claim_thread_pool(threads: int) -> bool:
    """Prepare HiGHS's one thread pool of this process; return whether it was reset.

    A `Highs` object that runs with another number of threads than the pool fails, so the pool is
    torn down first. Nothing may be running, which one thread of ours guarantees.
    """
    global _pool_threads  # noqa: PLW0603  # the pool is a global of the library
    changed = _pool_threads not in (0, threads)
    if changed:
        highspy.Highs.resetGlobalScheduler(True)
    _pool_threads = threads
    return changed


def pool_threads() -> int:
    """Return the number of threads of the pool of this process; 1 if there is none yet."""
    return _pool_threads or 1


def answer_of(highs: highspy.Highs, model: LinearModel, sense: float = 1.0) -> Answer:
    """Read a `Highs` object after its run; ``sense`` is -1 if a front end minimised -cost."""
    code = highs.getModelStatus()
    info = highs.getInfo()
    mip = bool(model.integer.any())
    solution = highs.getSolution()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    x = np.asarray(solution.col_value, dtype=np.float64) if feasible else None
    bound = float("inf")
    if mip:
        bound = sense * float(info.mip_dual_bound)
    elif code == _STATUS.kOptimal:
        bound = sense * float(info.objective_function_value)
    duals = None
    if not mip and solution.dual_valid:
        duals = sense * np.asarray(solution.row_dual, dtype=np.float64)
    return Answer(
        CODES[code],
        f"HiGHS {highs.version()}",
        x,
        bound,
        nodes=max(0, int(info.mip_node_count)) if mip else 0,
        message=highs.modelStatusToString(code),
        row_duals=duals,
    )


def round_options(model: LinearModel) -> tuple[tuple[str, object], ...]:
    """Return options for a round's model where HiGHS's defaults are not the best.

    A round's relaxation is tight, so the end of the root should come quickly: without heuristics
    before and at the root (large models keep one of them), and without a restart after presolving
    again at the root. ``reports/rounds/options.md`` has the measurements.
    """
    if not model.integer.any():
        # Entries below it are dropped without a message; by default those below 1e-9.
        return (("small_matrix_value", 1e-12),)
    named = any(block.family == "y" for block in model.column_blocks)
    usual = HIGHS.neighbour_columns
    return (
        ("presolve", "off" if model.columns < HIGHS.presolve_columns else "choose"),
        ("mip_heuristic_run_feasibility_jump", False),
        ("mip_heuristic_run_rens", model.columns >= (HIGHS.named_columns if named else usual)),
        ("mip_heuristic_run_rins", False),
        ("mip_heuristic_run_root_reduced_cost", False),
        ("mip_allow_restart", False),
    )


class HighsSolver(Adapter):
    """Adapter of HiGHS with options for rounds; one `Highs` object is reused."""

    name = "highs"
    capabilities = Capabilities(mip_start=True, node_limit=True, lp_duals=True)

    def __init__(self) -> None:
        self._highs: highspy.Highs | None = None

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, _state: dict[str, object]) -> None:
        self._highs = None

    def _options(self, model: LinearModel) -> tuple[tuple[str, object], ...]:
        return round_options(model)

    def _ready(self, model: LinearModel, limits: Limits) -> highspy.Highs:
        if claim_thread_pool(limits.threads) or self._highs is None:
            self._highs = highspy.Highs()
        # Model, options and the state of the last solve go: equal input, equal answer.
        self._highs.clear()
        for option, setting in (
            ("output_flag", False),
            ("threads", limits.threads),
            ("random_seed", limits.seed),
            ("mip_rel_gap", limits.gap),
            ("mip_abs_gap", 1e-9),
            ("time_limit", limits.time_s),
            ("mip_max_nodes", 2**31 - 1 if limits.nodes is None else limits.nodes),
            *self._options(model),
        ):
            self._highs.setOptionValue(option, setting)
        return self._highs

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        highs = self._loaded(model, limits, start)
        if highs is None:
            return Answer(Meaning.FAILED, "HiGHS", message="the model was refused")
        clock.hand_over_done()
        if highs.run() == highspy.HighsStatus.kError and _never_began(highs):
            # Other code of this process made the pool for another number of threads.
            highspy.Highs.resetGlobalScheduler(True)
            self._highs = None
            highs = self._loaded(model, limits, start)
            assert highs is not None
            highs.run()
        answer = answer_of(highs, model)
        if answer.x is None or not model.integer.any() or sound(model, answer.x):
            return answer
        # An integer column of 1e-7 counts as 0, and opens a row with an entry of 1e7.
        for option in ("mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            highs.setOptionValue(option, HIGHS.fine)
        highs.clearSolver()
        highs.run()
        return answer_of(highs, model)

    def _loaded(
        self, model: LinearModel, limits: Limits, start: Floats | None
    ) -> highspy.Highs | None:
        highs = self._ready(model, limits)
        if hand_over(highs, model) == highspy.HighsStatus.kError:
            return None
        if start is not None and model.integer.any():
            highs.setSolution(model.columns, np.arange(model.columns, dtype=np.int32), start)
        return highs


class HighsDefaultSolver(HighsSolver):
    """Adapter of HiGHS with its default options, for comparison."""

    name = "highs-default"

    def _options(self, _model: LinearModel) -> tuple[tuple[str, object], ...]:
        return ()


def _never_began(highs: highspy.Highs) -> bool:
    return bool(highs.getModelStatus() == _STATUS.kNotset)


def hand_over(highs: highspy.Highs, model: LinearModel) -> highspy.HighsStatus:
    """Pass the model's arrays, about eight times faster than filling a `HighsLp`."""
    return highs.passModel(
        model.columns,
        model.rows,
        model.nonzeros,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize),
        model.offset,
        model.cost,
        model.column_lower,
        model.column_upper,
        model.row_lower,
        model.row_upper,
        model.start[: model.rows].astype(np.int32),
        model.index.astype(np.int32),
        model.value,
        model.integer.astype(np.int32),
    )
