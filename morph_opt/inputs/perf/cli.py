"""Command line of the performance model: ``python -m morph_opt.perf``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import TOML_BYTES, read_text, write_atomically
from morph_opt.core.domain import A800_NODE, GPU_TYPES, ExecutionPlan, InputError, Shape
from morph_opt.core.domain.nearest import unknown

if TYPE_CHECKING:
    from morph_opt.inputs.perf.analytic.model import ModelEntry
    from morph_opt.inputs.perf.analytic.prior import Prior
    from morph_opt.inputs.perf.fitting.discrepancy import Pair
    from morph_opt.inputs.perf.fitting.fit import Fit
    from morph_opt.inputs.perf.fitting.runs import Run


def make_parser() -> LineParser:
    """Return the parser of all sub-commands."""
    parser = LineParser(
        prog="python -m morph_opt.perf",
        description="Predict the iteration time of execution plans from a few profiled runs.",
        epilog="Exit status: 0 done; 2 bad usage or bad input.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], text: str) -> LineParser:
        command: LineParser = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    plan = add("plan-profiling", _plan, "choose the runs to profile next")
    _model_arguments(plan, runs_required=False)
    plan.add_argument(
        "--count", type=whole(1, 1000), default=4, metavar="N", help="number of runs (default 4)"
    )
    _max_gpus(plan, 64, "largest number of GPUs of a candidate")
    plan.add_argument(
        "--without-phases",
        action="store_true",
        help="plan runs that report iteration times without forward_s, sync_s and optimizer_s",
    )

    fitting = add("fit", _fit, "fit a model file to profiled runs")
    _model_arguments(fitting, runs_required=True)
    fitting.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.toml", help="model file to write"
    )

    predict = add("predict", _predict, "predict seconds per iteration, with uncertainty")
    _model_arguments(predict, runs_required=False)
    predict.add_argument("--shape", help="GPUs per node, such as 8 or 4+4 (default: all)")
    predict.add_argument("--plan", help="plan, such as dp+ga or pp2-tp4-dp4 (default: all)")
    _max_gpus(predict, 8, "largest number of GPUs of a shape")
    predict.only(
        "--max-gpus",
        "has no effect next to --shape, --plan and no --runs: one configuration is asked for",
        lambda given: not (given.shape and given.plan) or given.runs is not None,
    )

    plot = add("plot", _plot, "draw measured against predicted times, and speed over GPUs per plan")
    _model_arguments(plot, runs_required=True)
    plot.add_argument(
        "--out", type=Path, required=True, metavar="FIGURE.svg", help="picture to write"
    )

    _memory_arguments(
        add("memory", _memory, "show the memory of one plan, part by part, and whether it fits")
    )
    return parser


def _memory_arguments(memory: LineParser) -> None:
    from morph_opt.inputs.perf.memory.facts import published_facts

    memory.add_argument(
        "model",
        choices=sorted(published_facts()),
        metavar="MODEL",
        help="model with a published size",
    )
    memory.add_argument("plan", help="plan, such as zero-offload+gc or pp2-tp4-dp1")
    memory.add_argument("shape", help="GPUs per node, such as 8 or 4+4")
    memory.add_argument(
        "--gpu",
        choices=list(GPU_TYPES),
        default=A800_NODE.gpu_type.name,
        help="GPU type (%(default)s)",
    )


def _max_gpus(command: LineParser, default: int, text: str) -> None:
    command.add_argument(
        "--max-gpus",
        type=whole(1, 4096),
        default=default,
        metavar="N",
        help=f"{text} (default {default})",
    )


def _model_arguments(command: argparse.ArgumentParser, *, runs_required: bool) -> None:
    command.add_argument("--model", required=True, help="name in the zoo or in --architecture")
    command.add_argument(
        "--architecture",
        type=Path,
        metavar="FILE.toml",
        help="file with [models.NAME.architecture] and [models.NAME.support]; default: the zoo",
    )
    command.add_argument(
        "--runs",
        type=Path,
        required=runs_required,
        metavar="RUNS.csv",
        help="profiled runs: shape,plan,iteration_s[,forward_s,sync_s,optimizer_s]",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    options.run(options)
    return 0


def _outline(options: argparse.Namespace) -> ModelEntry:
    """Return the named model, with constants if its file has them."""
    from morph_opt.inputs.perf.analytic.modelfile import outlines_of
    from morph_opt.inputs.perf.analytic.zoo import ZOO_FILE, builtin_population, zoo_text

    if options.architecture is None:
        text, file = zoo_text(), ZOO_FILE
    else:
        text, file = read_text(options.architecture, TOML_BYTES), str(options.architecture)
    entries = outlines_of(text, file, builtin_population())
    found = {entry.architecture.name: entry for entry in entries}
    if options.model not in found:
        rule = unknown("model", options.model, sorted(found))
        raise InputError(rule, file=file, field="--model")
    return found[options.model]


def _candidates(entry: ModelEntry, max_gpus: int) -> list[Pair]:
    pairs = list(entry.support.pairs(entry.architecture, A800_NODE.gpus, max_gpus))
    if not pairs:
        raise InputError(f"no configuration fits {max_gpus} GPUs", field="--max-gpus")
    return pairs


def _checked_runs(options: argparse.Namespace, entry: ModelEntry) -> list[Run]:
    from morph_opt.inputs.perf.fitting.checks import check_units
    from morph_opt.inputs.perf.fitting.runs import read_runs

    if options.runs is None:
        return []
    runs = read_runs(options.runs)
    for run in runs:
        if not entry.support.allows(entry.architecture, run.shape, run.plan):
            rule = f"{entry.architecture.name} cannot run {run.plan} on {run.shape} (its support)"
            raise InputError(rule, file=str(options.runs))
    check_units(entry.architecture, runs, str(options.runs))
    return runs


def _belief(entry: ModelEntry) -> Prior:
    from morph_opt.inputs.perf.analytic.prior import prior
    from morph_opt.inputs.perf.analytic.zoo import builtin_population

    return prior(entry.architecture, builtin_population())


def _fitted(options: argparse.Namespace, entry: ModelEntry, max_gpus: int) -> Fit:
    from morph_opt.inputs.perf.fitting.checks import check_enough
    from morph_opt.inputs.perf.fitting.fit import fit

    runs, belief = _checked_runs(options, entry), _belief(entry)
    check_enough(entry.architecture, _candidates(entry, max_gpus), runs, belief, str(options.runs))
    return fit(entry.architecture, runs, belief)


def _plan(options: argparse.Namespace) -> None:
    from morph_opt.inputs.perf.analytic.phases import Timers
    from morph_opt.inputs.perf.fitting.design import choose_runs
    from morph_opt.inputs.perf.fitting.fit import fit

    entry = _outline(options)
    runs = _checked_runs(options, entry)
    belief = fit(entry.architecture, runs, _belief(entry))
    candidates = _candidates(entry, options.max_gpus)
    timers = None if options.without_phases else Timers.SYNCHRONISED
    found = choose_runs(belief, candidates, options.count, timers=timers)
    chosen = [candidates[index] for index in found]
    before = belief.predict(candidates).log_sd
    print(f"{entry.architecture.name}: {len(runs)} runs known, {len(candidates)} configurations")
    print(f"mean uncertainty now: {100 * before.mean():.1f} %")
    print("shape,plan,expected_s,uncertainty_percent")
    guess = belief.predict(chosen)
    for (shape, plan), seconds, sd in zip(chosen, guess.iteration_s, guess.log_sd, strict=True):
        print(f"{shape},{plan},{seconds:.4g},{100 * sd:.0f}")


def _fit(options: argparse.Namespace) -> None:
    from morph_opt.inputs.perf.analytic.model import ModelEntry
    from morph_opt.inputs.perf.analytic.modelfile import dump

    entry = _outline(options)
    found = _fitted(options, entry, 64)
    fitted = ModelEntry(entry.architecture, found.constants, entry.support)
    header = f"Fitted to {len(found.runs)} runs by `python -m morph_opt.perf fit`."
    write_atomically(options.out, dump([fitted], None, header))
    print("constant,value,uncertainty_percent,told_by_runs_percent")
    determined = found.determined()
    for index, (name, share) in enumerate(determined.items()):
        sd = found.log_covariance[index, index] ** 0.5
        value = getattr(found.constants, name)
        print(f"{name},{value:.4g},{100 * sd:.0f},{100 * share:.0f}")


def _predict(options: argparse.Namespace) -> None:
    entry = _outline(options)
    pairs = _asked(options, entry)
    given = options.runs is not None
    known = _fitted(options, entry, options.max_gpus) if given else _without_runs(entry)
    predicted = known.predict(pairs)
    print("shape,plan,iteration_s,uncertainty_percent")
    times = zip(pairs, predicted.iteration_s, predicted.log_sd, strict=True)
    for (shape, plan), seconds, sd in times:
        print(f"{shape},{plan},{seconds:.6g},{100 * sd:.0f}")


def _without_runs(entry: ModelEntry) -> Fit:
    """Return the fit of a model without runs; note on stderr what its uncertainty leaves out."""
    import numpy as np

    from morph_opt.inputs.perf.fitting.fit import fit, of_constants

    belief = _belief(entry)
    if np.allclose(np.log(entry.constants.vector()), belief.log_mean):  # no constants of its own
        return fit(entry.architecture, (), belief)
    sys.stderr.write(
        "note: the uncertainty is that of the formulas; how well the constants are known is in "
        "their runs (--runs)\n"
    )
    return of_constants(entry.architecture, entry.constants)


def _asked(options: argparse.Namespace, entry: ModelEntry) -> list[Pair]:
    if options.shape and options.plan:
        pair = (Shape.parse(options.shape), ExecutionPlan.parse(options.plan))
        if not entry.support.allows(entry.architecture, *pair):
            raise InputError(f"{entry.architecture.name} cannot run {pair[1]} on {pair[0]}")
        return [pair]
    pairs = _candidates(entry, options.max_gpus)
    if options.shape:
        pairs = [pair for pair in pairs if pair[0] == Shape.parse(options.shape)]
    if options.plan:
        pairs = [pair for pair in pairs if pair[1] == ExecutionPlan.parse(options.plan)]
    if not pairs:
        raise InputError("no configuration of the model is like that", field="--shape, --plan")
    return pairs


def _plot(options: argparse.Namespace) -> None:
    from morph_opt.core.documents.figures import PICTURES
    from morph_opt.inputs.perf.figures import fit_figure

    entry = _outline(options)
    if options.out.suffix.lower() not in PICTURES:
        rule = f"must end in {', '.join(PICTURES)}, got {str(options.out)!r}"
        raise InputError(rule, field="--out")
    found = _fitted(options, entry, 64)
    fit_figure(found, _candidates(entry, 64), options.out)
    print(options.out)


def _memory(options: argparse.Namespace) -> None:
    plan, shape = ExecutionPlan.parse(options.plan), Shape.parse(options.shape)
    print(explain(options.model, plan, shape, options.gpu))


def explain(model: str, plan: ExecutionPlan, shape: Shape, gpu: str) -> str:
    """Return the memory of a plan part by part, and whether it fits a node like the A800 one.

    Raises
    ------
    InputError
        If the model or the GPU type is unknown.
    """
    from morph_opt.inputs.perf.memory.facts import known_facts
    from morph_opt.inputs.perf.memory.plan import judge, tensor_group

    facts = known_facts(model)
    plan.require_gpus(shape.gpus, f"the shape {shape} has", "shape")
    if gpu not in GPU_TYPES:
        raise InputError(unknown("GPU type", gpu, GPU_TYPES), field="gpu")
    node_type = A800_NODE
    if gpu != A800_NODE.gpu_type.name:
        node_type = replace(A800_NODE, name=f"node with {gpu}", gpu_type=GPU_TYPES[gpu])
    verdict = judge(facts, plan, shape, node_type)
    lines = [f"{model}, {plan} on {shape}, {gpu}"]
    if verdict.memory is not None:
        memory = verdict.memory
        rows = memory.parts() | {"per GPU": memory.gpu_gib}
        rows["on the host, per GPU"] = memory.host_gib_per_gpu
        lines += [f"  {words:<22}{gib:8.1f} GiB" for words, gib in rows.items()]
    reasons = [why for why in (verdict.reason, tensor_group(plan, shape)) if why is not None]
    lines += [f"cannot run: {why}" for why in reasons] or ["fits"]
    return "\n".join(lines)
