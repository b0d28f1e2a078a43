"""The public Morphling measurements: where they lie, what was published about them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.perf.public_runs import Refused, read_public
from morph_opt.core.documents import read_rows
from morph_opt.core.domain import ExecutionPlan, PlanFamily, Shape
from morph_opt.inputs.perf.analytic.architecture import Architecture
from morph_opt.inputs.perf.analytic.layout import rails
from morph_opt.inputs.perf.analytic.phases import Timers, phases_of
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.runs import Run

SAMPLED_PLANS = {"1100": "dp+ga", "1102": "zero-dp", "1111": "zero-offload"}
"""Plans of the artifact's sampled runs (``strategy`` in its ``data.csv``)."""

PUBLISHED: dict[tuple[str, str], float] = {
    ("vit", "DP"): 3.63,
    ("vit", "GC"): 2.59,
    ("vit", "ZeRO-DP+GA"): 4.23,
    ("vit", "ZeRO-Offload"): 3.00,
    ("roberta", "DP"): 2.21,
    ("roberta", "GC"): 3.36,
    ("roberta", "ZeRO-DP+GA"): 3.59,
    ("roberta", "ZeRO-Offload"): 7.42,
    ("bert", "DP"): 5.27,
    ("bert", "GC"): 4.90,
    ("bert", "ZeRO-DP+GA"): 3.70,
    ("bert", "ZeRO-Offload"): 6.37,
    ("t5", "TP+PP"): 3.18,
    ("t5", "DP+TP+PP"): 2.41,
    ("t5", "ZeRO-DP+GA"): 6.71,
    ("t5", "ZeRO-Offload+GC"): 4.37,
    ("gpt2", "TP+PP"): 2.39,
    ("gpt2", "DP+TP+PP"): 2.80,
    ("gpt2", "ZeRO-DP+GA"): 2.52,
    ("gpt2", "ZeRO-Offload+GC"): 5.52,
    ("llama7", "TP+PP"): 1.90,
    ("llama7", "DP+TP+PP"): 4.70,
    ("llama7", "ZeRO-Offload+GC"): 4.09,
    ("llama30", "TP+PP"): 4.29,
    ("llama30", "DP+TP+PP"): 6.15,
}
"""Average error in percent by (model, plan) that the artifact publishes (its validation table).

Each rests on three to five rows with forward times that were chosen by hand.
"""

BORROWED = (("t5", "DP+TP+PP"), ("gpt2", "DP+TP+PP"))
"""Cells whose public rows have no data parallelism: they are judged on the TP+PP rows."""

TIMERS: dict[str, Timers | None] = {
    "bert": Timers.SYNCHRONISED,
    "gpt2": Timers.SYNCHRONISED,
    "llama30": Timers.SYNCHRONISED,
    "llama7": Timers.SYNCHRONISED,
    "roberta": Timers.STREAMED,
    "t5": Timers.SYNCHRONISED,
    "vit": None,
}
"""What the phases of the tables mean, as one sees by comparing rows.

The forward times of RoBERTa and ViT hardly depend on the GPU count, so their timers wait for
launches only. RoBERTa's second phase is both passes to 1 %; ViT's phases hold parts of everything
(its optimizer phase shrinks with the GPUs in plain data parallelism) and are not read.
"""

LARGE = ("t5", "gpt2", "llama7", "llama30")


@dataclass(frozen=True, slots=True)
class Table:
    """The public table of one model.

    Parameters
    ----------
    architecture
        From the zoo.
    runs
        Rows that can have been run as written.
    refused
        Rows that cannot.
    sampled
        The runs that the artifact fits its model on; empty where it gives none that ran.
    timers
        What the phases of its runs mean; None if they have none.
    """

    architecture: Architecture
    runs: tuple[Run, ...]
    refused: tuple[Refused, ...]
    sampled: tuple[Run, ...]
    timers: Timers | None = None


def read_tables(root: Path) -> dict[str, Table]:
    """Public tables of the zoo's models by name.

    Parameters
    ----------
    root
        Folder that holds ``simulator/`` and ``artifact/``.

    Raises
    ------
    InputError
        If a file is missing or malformed.
    """
    zoo = builtin_model()
    found = {}
    for name in zoo.models():
        file = root / "simulator" / "traces" / name / "placements.csv"
        runs, refused = read_public(file, TIMERS[name])
        found[name] = Table(
            zoo.entry(name).architecture,
            tuple(runs),
            tuple(refused),
            _sampled(root, name),
            TIMERS[name],
        )
    return found


_SAMPLED_COLUMNS = ("iter_time", "forward_time", "Tcc", "Topt")


def _sampled(root: Path, name: str) -> tuple[Run, ...]:
    """The artifact's sampled runs (times in ms there)."""
    folder = {"llama7": "llama7b", "llama30": "llama30b"}.get(name, name)
    place = root / "artifact/71_performance_model/model/profile" / folder
    found = []
    rows = []
    for file in (place / "config.csv", place / "data.csv"):
        rows.append([row.cells for row in read_rows(file, (), None)])
    for config, data in zip(*rows, strict=True):
        plan = ExecutionPlan.parse(SAMPLED_PLANS[data["strategy"]])
        seconds, *phases_s = (float(data[column]) / 1e3 for column in _SAMPLED_COLUMNS)
        timers = TIMERS[name]
        phases = (
            phases_of(plan, seconds, (phases_s[0], phases_s[1], phases_s[2]), timers)
            if timers
            else ()
        )
        found.append(Run(Shape.of(int(config["gpus"])), plan, seconds, phases))
    # the folder of LLaMA-30B repeats the runs of LLaMA-7B, under plans that 30B cannot run
    return () if name == "llama30" else tuple(found)


def cell(model: str, plan: ExecutionPlan) -> str:
    """Name of the plan in the published error table, or that of the plan family if it has none."""
    large = model in LARGE
    if plan.family is PlanFamily.THREE_D:
        return "TP+PP" if plan.dp == 1 else "DP+TP+PP"
    if plan.family is PlanFamily.ZERO_DP:
        return "ZeRO-DP+GA"
    if plan.family is PlanFamily.ZERO_OFFLOAD:
        return "ZeRO-Offload+GC" if large else "ZeRO-Offload"
    return "GC" if plan.gradient_checkpointing else "DP"


SCALING_SLACK = 0.85
PEER_GAP = 0.20
PEERS = 5
ODD_FACTOR = 1.5


def inconsistent(runs: tuple[Run, ...]) -> dict[int, str]:
    """Rows that contradict their neighbours in the table, with the reason; no model is used.

    Three rules, for the plans without degrees:

    * *scaling*: inside a node, doubling the GPUs speeds the same global batch up by no more than
      the doubling before (less 15 %); otherwise the smaller of the first two runs is listed;
    * *peers*: more than 20 % away from the median of at least five rows with the same plan, GPU
      count and network cards at the narrowest node;
    * *odd parts*: a row on several nodes with an odd part is more than 1.5 times as slow as the
      slowest even shape with as many GPUs and the same plan.
    """
    places = {
        (run.shape, run.plan): index for index, run in enumerate(runs) if run.plan.gpus is None
    }
    found = _scaling(runs, places)
    found.update(_odd_parts(runs, places, found))
    found.update(_peers(runs, places, found))
    return dict(sorted(found.items()))


def _scaling(
    runs: tuple[Run, ...], places: dict[tuple[Shape, ExecutionPlan], int]
) -> dict[int, str]:
    found = {}
    for plan in sorted({plan for _, plan in places}):
        ladder = [places.get((Shape.of(gpus), plan)) for gpus in (1, 2, 4, 8)]
        steps = [None if a is None or b is None else (a, b) for a, b in pairwise(ladder)]
        for first, second in pairwise(steps):
            if first is None or second is None:
                continue
            gains = [runs[a].iteration_s / runs[b].iteration_s for a, b in (first, second)]
            if gains[0] < SCALING_SLACK * gains[1]:
                found[first[0]] = (
                    f"scaling: doubling its GPUs gains {gains[0]:.2f} x, the next doubling "
                    f"{gains[1]:.2f} x"
                )
    return found


def _odd_parts(
    runs: tuple[Run, ...],
    places: dict[tuple[Shape, ExecutionPlan], int],
    known: dict[int, str],
) -> dict[int, str]:
    found = {}
    for (shape, plan), index in places.items():
        odd = shape.nodes > 1 and any(part % 2 for part in shape.parts)
        even = [
            runs[other].iteration_s
            for (peer, same), other in places.items()
            if same == plan and peer.gpus == shape.gpus and not any(p % 2 for p in peer.parts)
        ]
        if odd and even and index not in known and runs[index].iteration_s > ODD_FACTOR * max(even):
            ratio = runs[index].iteration_s / max(even)
            found[index] = f"odd parts: {ratio:.1f} x the slowest even shape"
    return found


def _peers(
    runs: tuple[Run, ...],
    places: dict[tuple[Shape, ExecutionPlan], int],
    known: dict[int, str],
) -> dict[int, str]:
    classes: dict[tuple[ExecutionPlan, int, int], list[int]] = {}
    for (shape, plan), index in places.items():
        if shape.nodes > 1 and index not in known:
            classes.setdefault((plan, shape.gpus, rails(shape.parts[-1])), []).append(index)
    found = {}
    for members in classes.values():
        middle = median(runs[index].iteration_s for index in members)
        for index in members if len(members) >= PEERS else ():
            off = runs[index].iteration_s / middle - 1
            if abs(off) > PEER_GAP:
                found[index] = f"peers: {100 * off:+.0f} % against rows of its plan and cards"
    return found
