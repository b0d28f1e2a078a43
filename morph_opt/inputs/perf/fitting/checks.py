"""Checks of profiled runs: wrong units, and constants that they cannot determine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from morph_opt.core.domain import InputError, PlanFamily
from morph_opt.inputs.perf.analytic.architecture import Architecture
from morph_opt.inputs.perf.analytic.layout import layout
from morph_opt.inputs.perf.analytic.prior import Prior, ideal_compute_s
from morph_opt.inputs.perf.fitting.design import choose_runs
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.fit import fit
from morph_opt.inputs.perf.fitting.runs import Run
from morph_opt.inputs.perf.parameters import CHECKS


@dataclass(frozen=True, slots=True)
class _Need:
    """Kind of run that is needed to predict certain configurations."""

    constants: str
    what: str
    matches: Callable[[Pair], bool]


def _family(family: PlanFamily) -> Callable[[Pair], bool]:
    return lambda pair: pair[1].family is family


_NEEDS = (
    _Need("recompute", "a run with gradient checkpointing", lambda p: p[1].gradient_checkpointing),
    _Need("zero_sync and zero_gather", "a run of a zero-dp plan", _family(PlanFamily.ZERO_DP)),
    _Need(
        "offload_share_s and offload_copy_s",
        "a run of a zero-offload plan",
        _family(PlanFamily.ZERO_OFFLOAD),
    ),
    _Need("three_d_compute and tensor_gb_per_s", "a run of a 3D plan", _family(PlanFamily.THREE_D)),
    _Need("rail_gb_per_s", "a run on several nodes", lambda pair: pair[0].nodes > 1),
)


def check_units(architecture: Architecture, runs: Sequence[Run], file: str | None = None) -> None:
    """Refuse times in another unit than seconds, in the whole file or in one line.

    Raises
    ------
    InputError
        If the times are implausible for the model's floating-point operations.
    """
    ideal = ideal_compute_s(architecture)
    ratios = [run.iteration_s / (ideal * layout(run.shape, run.plan).work) for run in runs]
    middle = median(ratios)

    def wrong(rule: str, line: int | None = None) -> InputError:
        return InputError(rule, file=file, line=line, field="iteration_s")

    peak = f"times what {architecture.name} takes at the GPUs' peak"
    if middle > CHECKS.slowest:
        unit = "seconds are expected, these look like milliseconds"
        raise wrong(f"is {middle:.0f} {peak}: {unit}")
    if middle < CHECKS.fastest:
        fast = "faster than the GPUs can be; is the unit seconds, and the global batch right?"
        raise wrong(f"is {middle:.3g} {peak}: {fast}")
    for number, (run, ratio) in enumerate(zip(runs, ratios, strict=True), start=2):
        if not middle / CHECKS.apart < ratio < middle * CHECKS.apart:
            times = f"{ratio / middle:.3g} times as long as the other rows suggest"
            rule = f"{run.plan} on {run.shape} is {times}: does it have the unit of the others?"
            raise wrong(rule, number)


def check_enough(
    architecture: Architecture,
    candidates: Sequence[Pair],
    runs: Sequence[Run],
    belief: Prior,
    file: str | None = None,
) -> None:
    """Refuse runs that leave a constant undetermined on which some candidate depends.

    Parameters
    ----------
    candidates
        Configurations that the fitted model shall predict.
    belief
        Prior, to choose runs that would determine the constants.

    Raises
    ------
    InputError
        Naming the constants that cannot be identified and runs that would identify them.
    """
    known = [(run.shape, run.plan) for run in runs]
    missing: list[str] = []
    wanted: list[Callable[[Pair], bool]] = []
    counts = {shape.gpus for shape, _ in known}
    if len(counts) < 2 and len({shape.gpus for shape, _ in candidates}) > 1:
        missing.append("compute_s from overhead_s (all runs are on one GPU count)")
        wanted.append(lambda pair: pair[0].gpus not in counts)
    for need in _NEEDS:
        if any(map(need.matches, candidates)) and not any(map(need.matches, known)):
            missing.append(f"{need.constants} (no {need.what.removeprefix('a ')})")
            wanted.append(need.matches)
    few = len(runs) < CHECKS.runs
    if not missing and not few:
        return
    suggested = _suggest(architecture, candidates, runs, belief, wanted, CHECKS.runs - len(runs))
    reasons = [f"{len(runs)} runs are too few, at least {CHECKS.runs} are needed"] * few
    reasons += [f"the runs cannot tell {'; '.join(missing)}"] * bool(missing)
    listed = ", ".join(f"{plan} on {shape}" for shape, plan in suggested)
    raise InputError(f"{'; '.join(reasons)}. Runs that would mend it: {listed}", file=file)


def _suggest(
    architecture: Architecture,
    candidates: Sequence[Pair],
    runs: Sequence[Run],
    belief: Prior,
    wanted: Sequence[Callable[[Pair], bool]],
    at_least: int,
) -> list[Pair]:
    """Return the most useful run for each need, and more until there are enough."""
    seen = {(run.shape, run.plan) for run in runs}
    open_pairs = [pair for pair in candidates if pair not in seen]
    known = fit(architecture, runs, belief)
    found: list[Pair] = []
    for matches in wanted:
        fitting = [pair for pair in open_pairs if matches(pair)]
        if fitting and not any(map(matches, found)):
            found.append(fitting[choose_runs(known, fitting, 1)[0]])
    rest = [pair for pair in open_pairs if pair not in found]
    more = min(len(rest), at_least - len(found))
    if more > 0:
        found += [rest[index] for index in choose_runs(known, rest, more)]
    return found
