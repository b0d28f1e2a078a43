"""Every solver in whole rounds and replays of ``base``: the same rounds, and what ties change."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instances.rounds import replayed_states
from morph_opt.core.domain import RoundState, default_cluster
from morph_opt.core.table import Table
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.steps import STEPS, settled_text
from morph_opt.scheduling.solvers.registry import installed

TRACE, OBJECTIVE = "base", "throughput"
"""The objective is the one of which most rounds have several optima."""
DEFAULT, EXACT = "auto", "exact"
LIMIT_S = 120.0
SEEDS = (1, 2)
"""Further seeds of the solver ``highs``: they show what ties alone are worth."""

SAME = 1e-6
"""Relative difference at which two values are the same."""

ROUND_FIELDS = ("solver", "method", "round", "value", "bound", "status", "step", "cpu_s")
REPLAY_FIELDS = (
    "solver", "method", "seed", "rounds", "settled", "fallback_rounds", "rounds_over_capacity",
    "jobs", "completed", "avg_jct_s", "round_cpu_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decider:
    """A solver with the method that decides when it is asked."""

    solver: str
    method: str
    seed: int = 0

    def options(self) -> PolicyOptions:
        """Options of the policy ``milp``."""
        return PolicyOptions(
            objective=OBJECTIVE,
            solver=self.solver,
            method=self.method,
            seed=self.seed,
            time_limit_s=LIMIT_S,
        )

    def __str__(self) -> str:
        return f"{self.solver}, {self.method}, seed {self.seed}"


def deciders(seeds: Sequence[int] = SEEDS) -> Iterator[Decider]:
    """The default method, every installed solver by the exact method, and ``highs`` by seed."""
    yield Decider("highs", DEFAULT)
    for name in installed():
        yield Decider(name, EXACT)
    for seed in seeds:
        yield Decider("highs", EXACT, seed)


def rounds(out: Path, every: int) -> None:
    """Write rounds.csv: every N-th round of a replay by the default method, decided by all."""
    states, speeds = replayed_states(TRACE, 0, "milp", OBJECTIVE)
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(ROUND_FIELDS)
        for one in deciders(()):
            for row in _decided(one, states[::every], speeds):
                writer.writerow(row)
            file.flush()
            print(f"{one}: {len(states[::every])} rounds", file=sys.stderr, flush=True)


def _decided(
    one: Decider, states: Sequence[RoundState], speeds: SpeedModel
) -> Iterator[tuple[object, ...]]:
    policy = make_policy("milp", speeds, one.options())
    policy.decide(states[0])  # the first solve of a library pays for its start
    for state in states:
        began = _cpu_s()
        report = policy.decide(state).report
        spent = round(_cpu_s() - began, 4)
        yield (
            one.solver, one.method, state.index, report.objective, report.bound, report.status,
            report.step, spent,
        )  # fmt: skip


def replays(out: Path) -> None:
    """Write replays.csv: the whole replay under each solver."""
    loaded = load_trace(TRACE)
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(REPLAY_FIELDS)
        for one in deciders():
            policy = make_policy("milp", loaded.truth, one.options())
            began = _cpu_s()
            summary = replay(loaded.trace, default_cluster(), policy, loaded.truth).summary
            spent = _cpu_s() - began
            settled = {step: int(summary.get(f"rounds_{step}") or 0) for step in STEPS}
            writer.writerow(
                (
                    one.solver,
                    one.method,
                    one.seed,
                    summary["rounds"],
                    settled_text(settled, one.solver),
                    summary["fallback_rounds"],
                    summary["rounds_over_capacity"],
                    summary["jobs"],
                    summary["completed"],
                    summary["avg_jct_s"],
                    round(spent, 2),
                )
            )
            file.flush()
            print(f"{one}: {spent:.1f} CPU s", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- the page


def page(out: Path) -> str:
    """The section of the report, from the raw files."""
    parts = [
        f"## Whole rounds and replays of `{TRACE}`",
        f"Objective `{OBJECTIVE}`, 8 nodes of 8 A800, relative gap {PolicyOptions().gap:g}, one "
        "thread; processor time of whole decisions (candidates to check), child processes "
        "included, on a machine that was shared. `auto` is the default method, dynamic programs "
        "and prices first; under `--method exact` the solver named decides every round.",
    ]
    parts += [text for text in (_rounds_text(out), _replays_text(out)) if text]
    return "\n\n".join(parts) if len(parts) > 2 else f"{parts[0]}\n\nNot measured in this run."


def _rounds_text(out: Path) -> str:
    rows = _read(out / "rounds.csv")
    if not rows:
        return ""
    every: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        every.setdefault(row["round"], []).append(row)
    numbers = sorted(map(int, every))
    best = {number: max(float(row["value"]) for row in own) for number, own in every.items()}
    least = {number: min(float(row["bound"]) for row in own) for number, own in every.items()}
    body, worst = [], 0.0
    for name, method in dict.fromkeys((row["solver"], row["method"]) for row in rows):
        own = [row for row in rows if (row["solver"], row["method"]) == (name, method)]
        off = [(best[row["round"]] - float(row["value"])) / abs(best[row["round"]]) for row in own]
        times = sorted(float(row["cpu_s"]) for row in own)
        worst = max(worst, *off)
        body.append(
            (
                name,
                method,
                str(len(own)),
                str(sum(row["status"] == "optimal" for row in own)),
                str(sum(one <= SAME for one in off)),
                f"{max(off):.1e}",
                f"{1e3 * sum(times) / len(times):.0f}",
                f"{1e3 * times[int(0.99 * (len(times) - 1))]:.0f}",
                f"{sum(times):.1f}",
            )
        )
    below = sum(best[number] > least[number] + SAME * abs(best[number]) for number in every)
    head = (
        "solver", "method", "rounds", "optimal", "the best value", "largest loss",
        "mean CPU ms", "p99 CPU ms", "CPU s",
    )  # fmt: skip
    return (
        f"**The same rounds.** {len(numbers)} rounds of a replay by `auto`, from round "
        f"{numbers[0]:,} to {numbers[-1]:,}, each decided by all. *The best value*: within "
        f"{SAME:g} of the best of all deciders; the loss is relative to it. No decision is more "
        f"than {worst:.1e} below the best one, with a gap of {PolicyOptions().gap:g} asked for; "
        f"in {below} rounds a decision is worth more than the bound of another decider.\n\n"
        + Table(head, body, align="llr").to_markdown()
    )


def _replays_text(out: Path) -> str:
    rows = _read(out / "replays.csv")
    if not rows:
        return ""
    body = [
        (
            row["solver"],
            row["method"],
            row["seed"],
            f"{int(row['rounds']):,}",
            row["settled"],
            row["fallback_rounds"],
            row["rounds_over_capacity"],
            f"{row['completed']} of {row['jobs']}",
            f"{float(row['avg_jct_s']):,.1f}",
            row["round_cpu_s"],
        )
        for row in rows
    ]
    head = (
        "solver", "method", "seed", "rounds", "settled by", "fell back", "over capacity",
        "completed", "average JCT (s)", "CPU s",
    )  # fmt: skip
    exact = [row for row in rows if row["method"] == EXACT]
    text = f"**Whole replays.**\n\n{Table(head, body, align='llrrlr').to_markdown()}"
    spread = _spread([float(row["avg_jct_s"]) for row in exact if row["seed"] == "0"])
    seeds = _spread([float(row["avg_jct_s"]) for row in exact if row["solver"] == "highs"])
    missing = sorted(set(installed()) - {row["solver"] for row in exact})
    said = ["The replays do not agree, although the values of their rounds do: a round of this"]
    said += ["objective has several optima within the gap, and which one is taken decides what the"]
    said += ["next rounds see. Average JCT is no part of the objective."]
    if spread:
        said.append(f"Between solvers it differs by {spread}.")
    if seeds:
        said.append(f"Between seeds of `highs` alone it differs by {seeds}.")
    said.append(
        "`auto` takes ties by [a stated rule](../../docs/formulations/knapsack.md#ties), so its "
        "replay depends on no solver; exact MIPs take those of their solver."
    )
    if missing:
        said.append(f"Not replayed whole, for their time: {', '.join(missing)}.")
    return f"{text}\n\n{' '.join(said)}"


def _spread(values: Sequence[float]) -> str:
    """The largest difference of some averages, in per cent of the least; empty for one or none."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    return f"up to {100 * (high / low - 1):.0f} % ({low:,.0f} to {high:,.0f} s)"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _cpu_s() -> float:
    """Seconds of processor time so far, child processes included."""
    return time.process_time() + sum(os.times()[2:4])
