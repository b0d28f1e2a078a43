"""``python -m morph_opt.perf.study.memory_report``: tables of docs/memory.md, a plan explained."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.domain import A800_NODE, GPU_TYPES, ExecutionPlan, InputError, Shape
from morph_opt.perf.fitting.runs import Refused, public_plan, read_public
from morph_opt.perf.memory.facts import ModelFacts, facts_of, published_facts
from morph_opt.perf.memory.plan import fits, judge, tensor_group
from morph_opt.table import Table

ZOO_PLANS = ("dp", "dp+ga", "dp+gc", "zero-dp", "zero-offload", "pp2-tp4-dp1", "pp1-tp8-dp1")
"""Plans of the page's table; each on the GPUs that it needs, the others on one node."""


def facts_table() -> str:
    """The published numbers of all models."""
    header = ("model", "parameters", "layers", "hidden", "heads", "sequence", "vocabulary",
              "embeddings", "feed-forward f", "global batch")  # fmt: skip
    rows = []
    for name, facts in sorted(published_facts().items()):
        arch = facts.architecture
        counts = (arch.parameters, arch.layers, arch.hidden, arch.heads, arch.sequence)
        embeddings = ("tied" if facts.tied else "two") if facts.vocabulary else "none"
        rows.append(
            (name, *(f"{count:,}" for count in counts), f"{facts.vocabulary:,}", embeddings,
             f"{facts.feed_forward:,.0f}", str(arch.global_batch))
        )  # fmt: skip
    return Table(header, rows).to_markdown(spaced=True)


def zoo_table() -> str:
    """GiB per GPU of common plans on one A800 node; what does not fit is struck out."""
    rows = []
    for name, facts in sorted(published_facts().items()):
        rows.append((name, *(_cell(facts, ExecutionPlan.parse(label)) for label in ZOO_PLANS)))
    return Table(("model", *ZOO_PLANS), rows).to_markdown(spaced=True)


def _cell(facts: ModelFacts, plan: ExecutionPlan) -> str:
    gpus = plan.gpus or min(A800_NODE.gpus, facts.architecture.global_batch)
    verdict = judge(facts, plan, Shape((gpus,)), A800_NODE)
    if verdict.memory is None:
        return "-"
    gib = f"{verdict.memory.gpu_gib:.1f}"
    return gib if verdict.reason is None else f"~~{gib}~~"


def measured_tables(folder: Path) -> str:
    """The public measurements held against the formulas, in aggregate.

    Parameters
    ----------
    folder
        Root of the public Morphling artifact.

    Raises
    ------
    InputError
        If there is no table, or one cannot be read or is of an unknown model.
    """
    files = sorted(folder.glob("simulator/traces/*/placements.csv"))
    if not files:
        raise InputError("has no simulator/traces/<model>/placements.csv", file=str(folder))
    rows, zeros = [], []
    for file in files:
        facts = _known(file.parent.name)
        runs, refused = read_public(file)
        verdicts = [(judge(facts, run.plan, run.shape, A800_NODE), run) for run in runs]
        fitting = sum(verdict.reason is None for verdict, _ in verdicts)
        outside = sum(tensor_group(run.plan, run.shape) is not None for run in runs)
        full = [(v.memory.gpu_gib, f"{r.plan} on {r.shape}") for v, r in verdicts if v.memory]
        most_gib, where = max(full)
        rows.append(
            (file.parent.name, str(len(runs)), str(fitting), f"{most_gib:.1f}", where, str(outside))
        )
        zeros += [_zero_row(file.parent.name, facts, row) for row in refused]
    header = ("model", "measured", "fit", "fullest GPU (GiB)", "with", "groups outside a node")
    refusals = ("model", "listed with time 0", "what the formulas say")
    parts = Table(header, rows), Table(refusals, list(dict.fromkeys(zeros)), align="l")
    return "\n\n".join(part.to_markdown(spaced=True) for part in parts)


def _zero_row(model: str, facts: ModelFacts, row: Refused) -> tuple[str, str, str]:
    shape = Shape.of(*(int(digit) for digit in row.placement))
    plan = public_plan(row.plan, shape.gpus)
    reasons = (fits(facts, plan, shape, A800_NODE), tensor_group(plan, shape))
    return model, f"{plan} on {shape}", "; ".join(why for why in reasons if why) or "**fits**"


def _known(model: str) -> ModelFacts:
    facts = facts_of(model)
    if facts is None:
        known = ", ".join(sorted(published_facts()))
        raise InputError(f"unknown model {model!r}; known are {known}", field="model")
    return facts


def explain(model: str, plan: ExecutionPlan, shape: Shape, gpu: str) -> str:
    """What a plan needs part by part, and whether it fits a node like the A800 one.

    Raises
    ------
    InputError
        If the model or the GPU type is unknown.
    """
    facts = _known(model)
    if plan.gpus is not None and plan.gpus != shape.gpus:
        rule = f"plan {plan} is for {plan.gpus} GPUs, shape {shape} has {shape.gpus}"
        raise InputError(rule, field="shape")
    if gpu not in GPU_TYPES:
        known = ", ".join(GPU_TYPES)
        raise InputError(f"unknown GPU type {gpu!r}; known are {known}", field="gpu")
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


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.perf.study.memory_report",
        description="Memory that plans need, from the formulas of docs/memory.md.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("facts", help="published numbers of the models, as Markdown")
    commands.add_parser("zoo", help="GiB per GPU of common plans of all models, as Markdown")
    measured = commands.add_parser("measured", help="the public measurements, in aggregate")
    measured.add_argument("folder", type=Path, help="root of the public Morphling artifact")
    why = commands.add_parser("why", help="one plan, part by part, and whether it fits")
    why.add_argument("model", choices=sorted(published_facts()), metavar="MODEL")
    why.add_argument("plan", help="such as zero-offload+gc or pp2-tp4-dp1")
    why.add_argument("shape", help="GPUs per node, such as 8 or 4+4")
    why.add_argument("--gpu", choices=list(GPU_TYPES), default=A800_NODE.gpu_type.name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (2 for bad input, with one line on stderr)."""
    return run_command(make_parser(), _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "why":
        plan, shape = ExecutionPlan.parse(arguments.plan), Shape.parse(arguments.shape)
        print(explain(arguments.model, plan, shape, arguments.gpu))
    elif arguments.command == "measured":
        print(measured_tables(arguments.folder))
    else:
        print(facts_table() if arguments.command == "facts" else zoo_table())
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
