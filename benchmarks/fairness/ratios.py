"""Finish-time ratios on Base, every objective and baseline, the original and several twins.

    python -m benchmarks.fairness ratios [--only fairness]

The twins' seeds are not those that the rules were developed on. Writes ``ratios.csv``, one row a
replay, and ``ratios.md`` made of it. Needs ``MORPH_OPT_DATA`` for the original; without it the
rows that the file has are kept.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean

from morph_opt.core.table import Table

ORIGINAL = "morphling/base"
TWIN = "base"
SEEDS = (9, 10, 11, 12, 13)
DEVELOPED_ON = "1 to 8"

OBJECTIVES = (
    "fairness",
    "ftf",
    "hierarchical",
    "jct",
    "srpt",
    "throughput",
    "fairness-agnostic",
    "hierarchical-fifo",
    "fifo",
    "makespan",
    "max_throughput",
    "las",
    "gittins",
)
"""``cost`` is left out: with one GPU type and no deadlines there is nothing to choose."""

POLICIES = ("fifo", "tiresias:2d-las", "tiresias:gittins", "gavel:fairness")

KEYS = ("trace", "seed", "kind", "name")
FIGURES = ("ftf_max", "ftf_p99", "ftf_mean", "ftf_above_1", "avg_jct_s", "restarts_per_job")
Case = tuple[str, str, str, str]


def cases(only: Sequence[str] | None = None) -> list[Case]:
    """Trace, seed, ``objective`` or ``policy``, and its name."""
    entries = _entries()
    worlds = [(TWIN, str(seed)) for seed in SEEDS]
    if os.environ.get("MORPH_OPT_DATA"):
        worlds.insert(0, (ORIGINAL, "0"))
    wanted = [one for one in entries if not only or one[1] in only or ":".join(one) in only]
    return [(*world, *one) for one in wanted for world in worlds]


def _entries() -> list[tuple[str, str]]:
    return [("objective", name) for name in OBJECTIVES] + [("policy", name) for name in POLICIES]


def run(case: Case) -> dict[str, str]:
    """One replay with belief = truth on the default cluster."""
    from morph_opt.core.domain import default_cluster
    from morph_opt.inputs.traces.registry import load_trace
    from morph_opt.replay.run import replay
    from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy

    trace, seed, kind, name = case
    loaded = load_trace(trace, seed=int(seed))
    objective = name if kind == "objective" else "auto"
    policy = make_policy(
        "milp" if kind == "objective" else name, loaded.truth, PolicyOptions(objective=objective)
    )
    summary = replay(loaded.trace, default_cluster(), policy, loaded.truth).summary
    row = dict(zip(KEYS, case, strict=True))
    return row | {key: f"{float(str(summary[key])):.4g}" for key in FIGURES}


def measure(folder: Path, processes: int, anew: bool, only: Sequence[str] | None = None) -> None:
    """Replay what has no row yet, then write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ratios.csv"
    rows = {} if anew and not only else _read(path)
    wanted = [case for case in cases(only) if anew or case not in rows]
    with ProcessPoolExecutor(processes) as pool:
        for case, row in zip(wanted, pool.map(run, wanted), strict=True):
            rows[case] = row
            print(row, flush=True)
            _write(path, rows)
    (folder / "ratios.md").write_text(page(list(rows.values())), encoding="utf-8")


def _read(path: Path) -> dict[Case, dict[str, str]]:
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {(r["trace"], r["seed"], r["kind"], r["name"]): r for r in csv.DictReader(file)}


def _write(path: Path, rows: dict[Case, dict[str, str]]) -> None:
    entries = _entries()
    order = sorted(rows, key=lambda c: (entries.index((c[2], c[3])), c[0] != ORIGINAL, int(c[1])))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*KEYS, *FIGURES), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[case] for case in order)


def page(rows: Sequence[dict[str, str]]) -> str:
    """The table in Markdown, by the mean over the twins."""
    names = list(dict.fromkeys((r["kind"], r["name"]) for r in rows))
    worlds = list(dict.fromkeys((r["trace"], r["seed"]) for r in rows))
    found = {(r["kind"], r["name"], r["trace"], r["seed"]): r for r in rows}
    lines = {}
    for entries in names:
        twins = [found[(*entries, *w)] for w in worlds if w[0] == TWIN and (*entries, *w) in found]
        if not twins:
            continue
        worst = [float(r["ftf_max"]) for r in twins]
        original = found.get((*entries, ORIGINAL, "0"))
        rank = mean(_rank(found, names, entries, w) for w in worlds if (*entries, *w) in found)
        cells = (
            f"`{entries[1]}`" if entries[0] == "objective" else f"policy `{entries[1]}`",
            "" if original is None else f"{float(original['ftf_max']):.2f}",
            f"{mean(worst):.2f}",
            f"{max(worst):.2f}",
            f"{rank:.1f}",
            f"{mean(float(r['ftf_p99']) for r in twins):.2f}",
            f"{mean(float(r['ftf_mean']) for r in twins):.2f}",
            f"{mean(float(r['avg_jct_s']) for r in twins):.0f}",
            f"{mean(float(r['restarts_per_job']) for r in twins):.2f}",
            str(len(twins)),
        )
        lines[entries] = (mean(worst), cells)
    missing = [name for kind, name in _entries() if (kind, name) not in lines]
    note = (
        ["", f"Twins not replayed yet: {', '.join(f'`{name}`' for name in missing)}."]
        if missing
        else []
    )
    table = Table(_HEADER, [cells for _, cells in sorted(lines.values())])
    return "\n".join([_HEAD, "", table.to_markdown(), *note, ""])


def _rank(
    found: dict[Case, dict[str, str]],
    names: Sequence[tuple[str, str]],
    entries: tuple[str, str],
    world: tuple[str, str],
) -> int:
    """1 plus the number of others whose largest ratio in this world is smaller."""
    mine = float(found[(entries[0], entries[1], *world)]["ftf_max"])
    others = [found[(*n, *world)] for n in names if (*n, *world) in found]
    return 1 + sum(float(r["ftf_max"]) < mine for r in others)


_HEAD = f"""# Finish-time ratios on Base

Made by `python -m benchmarks.fairness ratios`: belief = truth, 8x8 A800, 260 s per start, 60 s
rounds. The ratio is that of the
[metrics page](../../docs/formulations/fairness-metrics.md): completion time over the time on a
private 1/n of the cluster. The twins have the seeds {SEEDS[0]} to {SEEDS[-1]}; the rules were
developed on the seeds {DEVELOPED_ON} and on the original. The rank is that of the largest ratio, on
average over all traces of the row. Base has one tenant, so `hierarchical` is `fairness` there."""

_HEADER = (
    "who decides",
    "original: largest",
    "twins: largest, mean",
    "worst",
    "mean rank",
    "p99",
    "mean ratio",
    "average JCT (s)",
    "restarts per job",
    "twins",
)
