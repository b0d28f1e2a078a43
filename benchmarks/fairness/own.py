"""The round MILP against Gavel's mechanism, each policy in the measure that it is about.

    python -m benchmarks.fairness own

Gavel's rules: rounds of 360 s, no start-up. Both in the same engine, with placement; the MILP may
run a job on other numbers of GPUs than it asked for where the table has their speeds. Writes
``own_measure.csv`` and ``own_measure.md``. Needs ``MORPH_OPT_DATA`` for the original traces;
without it the twin alone is replayed, and rows of the originals are kept.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from benchmarks.fairness.normalised import least_throughput, life_throughput
from morph_opt.core.table import Table
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig

SMALL = "1x4:V100+1x4:P100+1x4:K80"
LARGE = "2x4:V100+4x4:P100+6x4:K80"
RULES = ReplayConfig(interval_s=360.0, restart_s=0.0)

CASES = (
    ("fairness", "gavel/max_min_fairness", SMALL),
    ("fairness", "gavel/max_min_fairness", LARGE),
    ("fairness", "gavel-96", SMALL),
    ("makespan", "gavel/max_min_fairness", SMALL),
    ("makespan", "gavel/minimize_makespan", SMALL),
    ("makespan", "gavel/minimize_makespan", LARGE),
    ("makespan", "gavel-96", SMALL),
    ("ftf", "gavel/max_min_fairness", SMALL),
    ("ftf", "gavel/max_min_fairness", LARGE),
    ("ftf", "gavel-96", SMALL),
)
"""Policy, trace, cluster."""

FIELDS = (
    "policy",
    "trace",
    "cluster",
    "who",
    "least_life_throughput",
    "least_hourly_throughput",
    "makespan_h",
    "ftf_max",
    "ftf_mean",
    "avg_jct_h",
    "starts_per_job",
)

OWN = {
    "fairness": ("least_life_throughput", 1.0, "smallest normalised throughput over a life"),
    "makespan": ("makespan_h", -1.0, "makespan (h)"),
    "ftf": ("ftf_max", -1.0, "largest finish-time ratio"),
}
"""A policy's own measure: field, sign (1: the more the better), words."""


def run(policy: str, trace: str, cluster: str, decided_by: str) -> dict[str, str]:
    """One replay; ``decided_by`` is ``milp`` or ``mechanism``."""
    loaded, nodes = load_trace(trace), load_cluster(cluster)
    name = "milp" if decided_by == "milp" else f"gavel:{policy}"
    maker = make_policy(name, loaded.truth, PolicyOptions(objective=policy))
    result = replay(loaded.trace, nodes, maker, loaded.truth, RULES)
    summary = {key: float(str(result.summary[key])) for key in _SUMMARY}
    values = (
        min(life_throughput(result.history, nodes, loaded.truth).values()),
        float(np.mean(least_throughput(result.history, nodes, loaded.truth))),
        summary["makespan_s"] / 3600.0,
        summary["ftf_max"],
        summary["ftf_mean"],
        summary["avg_jct_s"] / 3600.0,
        1.0 + summary["restarts_per_job"],
    )
    return dict(
        zip(
            FIELDS, (policy, trace, cluster, decided_by, *(f"{v:.4f}" for v in values)), strict=True
        )
    )


_SUMMARY = ("makespan_s", "ftf_max", "ftf_mean", "avg_jct_s", "restarts_per_job")


def measure(folder: Path) -> None:
    """All cases that have their data, then the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "own_measure.csv"
    old: list[dict[str, str]] = []
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            old = list(csv.DictReader(file))
    rows = []
    for case in CASES:
        if "/" in case[1] and not os.environ.get("MORPH_OPT_DATA"):
            rows += [r for r in old if (r["policy"], r["trace"], r["cluster"]) == case]
            continue
        for decided_by in ("mechanism", "milp"):
            rows.append(run(*case, decided_by))
            print(rows[-1], flush=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "own_measure.md").write_text(page(rows), encoding="utf-8")


def page(rows: list[dict[str, str]]) -> str:
    """The table in Markdown; the better one of each pair in bold."""
    body = []
    for base, ours in zip(rows[::2], rows[1::2], strict=True):
        field, sign, words = OWN[base["policy"]]
        better = sign * float(ours[field]), sign * float(base[field])
        pair = [base[field], ours[field]]
        if better[0] != better[1]:
            winner = int(better[0] > better[1])
            pair[winner] = f"**{pair[winner]}**"
        cells = (
            f"`{base['policy']}`",
            f"`{base['trace']}`",
            f"`{base['cluster']}`",
            words,
            *pair,
            f"{base['least_hourly_throughput']}, {ours['least_hourly_throughput']}",
            f"{float(base['ftf_mean']):.3f}, {float(ours['ftf_mean']):.3f}",
            f"{float(base['avg_jct_h']):.2f}, {float(ours['avg_jct_h']):.2f}",
            f"{float(base['starts_per_job']):.1f}, {float(ours['starts_per_job']):.1f}",
        )
        body.append(cells)
    return "\n".join([_HEAD, "", Table(_HEADER, body, align="llllr").to_markdown(), ""])


_HEAD = """# The round MILP and Gavel's mechanism, in each policy's own measure

Made by `python -m benchmarks.fairness own`: rounds of 360 s, no start-up, both in the same engine.
Normalised throughput is `s_i thr_i / (w_i p_i)` of [max-min
fairness](../../docs/formulations/fairness.md), thr_i over the job's life or over an hour; pairs
of numbers are mechanism, MILP."""

_HEADER = ("policy", "trace", "cluster", "its own measure", "mechanism", "MILP",
           "smallest throughput per hour, mean", "mean ratio", "average JCT (h)",
           "starts per job")  # fmt: skip
