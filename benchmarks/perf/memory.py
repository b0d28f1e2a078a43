"""Tables of docs/memory.md: facts of the models, common plans, the public measurements."""

from __future__ import annotations

from pathlib import Path

from benchmarks.perf.public_runs import Refused, public_plan, read_public
from morph_opt.core.domain import A800_NODE, ExecutionPlan, InputError, Shape
from morph_opt.core.table import Table
from morph_opt.inputs.perf.memory.facts import ModelFacts, known_facts, published_facts
from morph_opt.inputs.perf.memory.plan import fits, judge, tensor_group

ZOO_PLANS = ("dp", "dp+ga", "dp+gc", "zero-dp", "zero-offload", "pp2-tp4-dp1", "pp1-tp8-dp1")
"""Plans of the page's table; each on the GPUs that it needs, the others on one node."""


def facts_table() -> str:
    """The published numbers of all models."""
    header = (
        "model",
        "parameters",
        "layers",
        "hidden",
        "heads",
        "sequence",
        "vocabulary",
        "embeddings",
        "feed-forward f",
        "global batch",
    )
    rows = []
    for name, facts in sorted(published_facts().items()):
        arch = facts.architecture
        counts = (arch.parameters, arch.layers, arch.hidden, arch.heads, arch.sequence)
        embeddings = ("tied" if facts.tied else "two") if facts.vocabulary else "none"
        rows.append(
            (
                name,
                *(f"{count:,}" for count in counts),
                f"{facts.vocabulary:,}",
                embeddings,
                f"{facts.feed_forward:,.0f}",
                str(arch.global_batch),
            )
        )
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
        facts = known_facts(file.parent.name)
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
