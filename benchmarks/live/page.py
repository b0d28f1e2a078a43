"""The page of ``reports/live``, from the files that the parts have written."""

from __future__ import annotations

import csv
import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy.stats import t as student

from benchmarks.checks.live.counted import Counted
from benchmarks.live.workload import ARMS, PACE, REPORTED
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import dots, drawing
from morph_opt.core.documents.style import INK, looks
from morph_opt.core.table import Table

Row = dict[str, str]
Cell = tuple[str, str, str]
"""Load, belief, who decides."""
FEWEST = 3
"""Seeds of a cell of a table."""
ARMS_OF_SLURM = tuple(arm for arm, powers in ARMS.items() if not powers)
NAMES = {
    "exact": "exact",
    "sigma 0.5": "wrong, sigma 0.5",
    REPORTED: "wrong, but reported",
    "unknown": "time limits alone",
}


def write(folder: Path) -> None:
    """Write page and picture of what is there."""
    parts = ["# Beside Slurm, measured", _filled(HEAD)]
    if compared := rows_in(folder / "comparison.csv"):
        write_atomically(folder / "powers.svg", _picture(compared))
        parts += _comparison(compared)
    if beside := _series(folder, "beside*.csv"):
        parts += _beside(beside)
    if turns := rows_in(folder / "turns.csv"):
        parts += _turns(turns)
    if runs := _series(folder, "chaos*.csv"):
        parts += _chaos(runs)
    write_atomically(folder / "README.md", "\n\n".join(parts) + "\n")


HEAD = (
    "Written by `python -m benchmarks.live page` from the tables beside it, which "
    "`python -m benchmarks.live` and `make live-test` write. What the controller does and never "
    "does: [beside a real scheduler](../../docs/live.md)."
)
COMPARISON = ("load", "beliefs", "who decides", "average JCT, s", "vs backfill, %", "vs FIFO, %")
COMPARED = (
    "{jobs} jobs of 1 to 16 GPUs on 64, half a minute to an hour, arriving at 0.8 and 1.6 times "
    "what the cluster can do, half or twice the GPUs allowed (speed-up with exponent 0.8), time "
    "limits 1.2 to 4 times the run time, restarts of 20 s; {seeds} seeds. Beside the pretended "
    "Slurm of the tests, whose clock is not the machine's. Change of the average JCT in per cent, "
    "with a 95 % interval over seeds (Student's t); negative is better. Users say how long a job "
    "runs: exactly, wrong by a lognormal factor, or not at all, so that its time limit stands for "
    "it; that was tried at load 1.6 alone, and of such jobs none is stopped or given fewer GPUs. "
    "Of others their word is enough for a stop (`stop_needs`). **Loses** and **gains** are "
    "intervals that do not reach 0, each for itself: for their number nothing was corrected. Of "
    "all others these seeds show nothing."
)
BESIDE = (
    "`python -m benchmarks.live beside`: Slurm {slurm} with 64 pretended GPUs, {jobs} jobs drawn "
    "like those, {pace:g} times as fast. What Slurm and the controller take is as it is: time "
    "limits are whole minutes, Slurm plans every 2 s, a restart counts as 5 s. So it shows the "
    "powers where what they cost weighs most. A job is stopped by its user's word of how long it "
    "runs (`stop_needs`); where that is wrong, but what is left is reported each second, by the "
    "reports alone; where neither is known, not at all, so that rows of time limits alone differ "
    "by chance. Slurm's own orders know no beliefs, and stand for all of their series; each change "
    "is over the seeds that both have. Rows of fewer than three seeds are in the tables' files "
    "alone."
)
SERIES = (
    "`{file}`: {note}; several at a time on two processors with other work, at a load of {load}. A "
    "turn took a median of {turn} s (of the runs' medians the largest was {slowest}). Of {runs} "
    "runs no job was lost, and {again} jobs of {stops} restarts ran again after their end{whose}."
)
TURNS = (
    "CPU seconds of turns a minute apart, jobs coming as others end, beside the pretended Slurm, "
    "what that takes to answer included; what real commands take comes on top. Beside other work "
    "on the machine they are more. Memory is that of the process with the pretended Slurm in it."
)
RUNS = (
    "`make live-test`: eight slurmd with 64 pretended GPUs on one machine, jobs of seconds; under "
    "chaos the controller is killed every 13 s, slurmctld killed or ended for 5 to 15 s, slurmdbd "
    "killed, a second controller tries to join, jobs of others, a user's cancel and hold, a node "
    "drained, a slurmd killed, a command in ten refused and one in ten late. *Faults* are any of "
    "{faults}. *Commands* are those that were carried out: on a busy machine the controller gets "
    "to few, and such a run shows little."
)
BY_SLURM = (
    "*By Slurm* are jobs that ran again after their end without a stop of the controller since "
    "they began, *forgotten* those that had ended, and that a slurmctld does not know to have "
    "ended which was killed within 15 s of the start or the end of their last run. Neither is "
    "counted as a fault: a slurmctld that is killed has some seconds of what happened not written "
    "down, and takes such jobs for waiting or for lost with their node. It does so without a "
    "controller that acts, too (`--observe`): {observed}. A job "
    "that ran again behind a stop is a fault, whether the stop came after its end (`ran_again`) or "
    "did not reach it (`unreached`)."
)
NOTES = {
    "beside.csv": "all powers by exact beliefs, with the present code",
    "beside-busy.csv": "wrong beliefs and limits alone, too, on a busy machine: Slurm's own orders "
    "and stops by exact beliefs first, all else at the higher loads",
    "chaos-22.05-first.csv": "the first series, all of it. It took a stop that was planned for one "
    "that was carried out and had no *forgotten*; both rules were changed when seed 56 had been "
    "seen. There slurmctld's log has, for jobs 7, 17, 27 and 30 alike, that it was killed within "
    "10 s of a start or an end and came back without it. Seed 60 was not looked into.",
    "chaos-22.05-before-lease.csv": "the second series, stopped after four runs for two findings. "
    "Seed 50: an attempt of less than a second, which sacct has with no length, was asked for; it "
    "is not any more. Seed 52: slurmctld came back with an older owner of the lease, the "
    "controller stood by for good and a second one took over; the lease is taken again since then.",
    "chaos-22.05-busy.csv": "the third series, with the lease mended. The machine was so busy (a "
    "load of 20 on two processors) that the controller began two minutes late and found little to "
    "do: three runs with 7 commands show next to nothing. More were not made.",
    "chaos-22.05-before-park.csv": "the fourth series, stopped after four runs for one finding. "
    "Seed 50: backfill started job 18 half a second before the controller's command to start it on "
    "the node where it ran by then. Slurm took the node for the one that the job was to keep, "
    "accounted a resize, and refused the rest; of a job on two nodes it takes one away like that, "
    "in 22.05 and 24.11 (tried). A job is parked since then before it is given nodes.",
    "chaos-22.05-before-end.csv": "the fifth series, stopped after five runs for one finding. Seed "
    "54: a stop reached Slurm 43 ms behind a job's last line, before slurmctld knew of its end. "
    "Jobs that by their own word end within what a restart costs are not stopped since then. The "
    "five by Slurm: slurmctld was killed before it had written down that they had ended; slurmdbd "
    "was away, and each slurmctld that was begun ended by itself until it was back.",
    "chaos-22.05-before-report.csv": "the sixth series, with both mended; a load of 12 to 20 on "
    "two processors.",
    "chaos-22.05.csv": "with the present code. Three jobs in four run the how-to's script, which "
    "reports what is left each second; the others report nothing, and would be a fault if they "
    "were stopped (`unreported`). Beside 24.11 and other work, at a load of 10 to 20.",
    "chaos-22.05-more.csv": "three more seeds with the code of then, at a load of 12 to 25.",
    "chaos-24.11-more.csv": "the same of 24.11.",
    "chaos-22.05-word.csv": "three with the code since jobs are stopped only where their end is "
    "seen to be far; these say how long they run (`stop_needs`). A load of 7 to 10.",
    "chaos-22.05-observe.csv": "a controller that only observes: nothing is done, so that whatever "
    "ran again or was forgotten is Slurm's own. The seeds of the sixth series, up to 55.",
    "chaos-24.11-before-lease.csv": "begun before the lease was mended. It ended in the ninth run "
    "under chaos (seed 79), which is not counted: release-all took more than the 60 s that the "
    "test gave it then. Why some have few commands was not looked into.",
    "chaos-24.11.csv": "the same of 24.11.",
    "chaos-24.11-before-report.csv": "with the code of the sixth series; a load of 2 to 5. Seed "
    "52: jobs 28 and "
    "30, which slurmctld's log has as complete, are in no row of sacct, so that no reader could "
    "have them: slurmctld was killed before slurmdbd had heard of them. Seed 60: no command "
    "named job 3, a foreign one; a slurmctld that was killed after its end took it for lost with "
    "its node, requeued it, and gave it another priority. Both are left among the faults.",
}
"""What is to be said of the series, by the name of their file."""


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _series(folder: Path, pattern: str) -> dict[str, list[Row]]:
    return {path.name: rows_in(path) for path in sorted(folder.glob(pattern))}


def rows_in(path: Path) -> list[Row]:
    """Rows of a table; none where there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _beside(series: Mapping[str, Sequence[Row]]) -> list[str]:
    """The comparison beside a real Slurm, a table for each series."""
    every = [row for rows in series.values() for row in rows]
    slurm = " and ".join(sorted({row["slurm"] for row in every}))
    sentence = BESIDE.format(slurm=slurm, jobs=every[0]["jobs"], pace=PACE)
    parts = ["## The same beside a real Slurm", _filled(sentence)]
    for file, rows in series.items():
        turns = [float(row["turn_s"]) for row in rows if row["turn_s"]]
        loads = [float(row["machine_load"]) for row in rows]
        sentence = SERIES.format(
            file=file,
            note=NOTES[file],
            turn=f"{statistics.median(turns):.1f}",
            slowest=f"{max(turns):.1f}",
            load=f"{min(loads):.0f} to {max(loads):.0f}",
            runs=len(rows),
            again=sum(int(row["ran_again"]) for row in rows),
            whose=_of(sorted({NAMES[row["belief"]] for row in rows if int(row["ran_again"])})),
            stops=sum(int(row["restarts"]) for row in rows),
        )
        parts += [_filled(sentence), _compared(rows, restarts=True)]
    return parts


def _of(beliefs: Sequence[str]) -> str:
    return f" (beliefs: {', '.join(beliefs)})" if beliefs else ""


def _cells(rows: Sequence[Row]) -> dict[Cell, dict[str, float]]:
    """Average JCT by cell and seed; a cell of too few seeds is none."""
    found: dict[Cell, dict[str, float]] = {}
    for row in rows:
        cell = row["load"], row["belief"], row["who"]
        found.setdefault(cell, {})[row["seed"]] = float(row["avg_jct_s"])
    return {cell: by_seed for cell, by_seed in found.items() if len(by_seed) >= FEWEST}


def against(values: Sequence[float], base: Sequence[float]) -> tuple[float, float]:
    """Mean change in per cent, and half its 95 % interval over seeds."""
    changes = [100.0 * (value / other - 1.0) for value, other in zip(values, base, strict=True)]
    if len(changes) < 2:
        return statistics.mean(changes), math.inf
    quantile = float(student.ppf(0.975, len(changes) - 1))
    return statistics.mean(changes), quantile * statistics.stdev(changes) / len(changes) ** 0.5


def _paired(own: Mapping[str, float], base: Mapping[str, float]) -> tuple[float, float]:
    """`against` of the seeds that both have."""
    seeds = [seed for seed in own if seed in base]
    return against([own[seed] for seed in seeds], [base[seed] for seed in seeds])


def _shown(own: Mapping[str, float], base: Mapping[str, float]) -> str:
    if len(own.keys() & base.keys()) < FEWEST:
        return ""
    mean, half = _paired(own, base)
    word = " **gains**" if mean + half < 0.0 else " **loses**" if mean - half > 0.0 else ""
    return f"{mean:+.1f} ± {half:.1f}{word}"


def _comparison(rows: Sequence[Row]) -> list[str]:
    sentence = COMPARED.format(jobs=rows[0]["jobs"], seeds=len(next(iter(_cells(rows).values()))))
    return [
        "## What each power is worth",
        _filled(sentence),
        "![Change of the average JCT by power](powers.svg)",
        _compared(rows),
    ]


def _compared(rows: Sequence[Row], *, restarts: bool = False) -> str:
    """Every cell against both of Slurm's own orders, which stand for every belief."""
    cells = _cells(rows)
    table: list[list[object]] = []
    for load, belief, arm in sorted(cells, key=lambda cell: (*cell[:2], list(ARMS).index(cell[2]))):
        values = cells[load, belief, arm]
        fifo, backfill = (
            cells.get((load, belief, own)) or cells.get((load, "exact", own), {})
            for own in ARMS_OF_SLURM
        )
        row: list[object] = [
            load,
            NAMES[belief],
            arm,
            f"{statistics.mean(values.values()):.{int(restarts)}f}",
            "" if arm in ARMS_OF_SLURM else _shown(values, backfill),
            "" if arm == "FIFO" else _shown(values, fifo),
        ]
        if restarts:
            cell = load, belief, arm
            own = [one for one in rows if (one["load"], one["belief"], one["who"]) == cell]
            mean = statistics.mean(int(one["restarts"]) for one in own)
            row += [f"{mean:.0f}" if ARMS[arm] else "", len(values)]
        table.append(row)
    header = (*COMPARISON, "restarts a run", "seeds") if restarts else COMPARISON
    return Table(header, table, align="lllr").to_markdown(spaced=True)


def _picture(rows: Sequence[Row]) -> str:
    """Change by power against both orders, a panel for each load and belief."""
    cells = _cells(rows)
    cases = list(dict.fromkeys((load, belief) for load, belief, _ in cells))
    arms = [arm for arm, powers in ARMS.items() if powers]
    with drawing((8.4, 2.8)) as (figure, encoded):
        panels = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
        for panel, (load, belief) in zip(panels, cases, strict=True):
            bases = (-0.12, "backfill"), (0.12, "FIFO")
            for (shift, base), look in zip(bases, looks(("backfill", "FIFO")), strict=True):
                found = [
                    _paired(cells[load, belief, arm], cells[load, belief, base]) for arm in arms
                ]
                panel.errorbar(
                    [mean for mean, _ in found],
                    [k + shift for k in range(len(arms))],
                    xerr=[half for _, half in found],
                    ms=3.5,
                    lw=1.0,
                    capsize=2.5,
                    label=f"vs {base}",
                    **dots(look),
                )
            panel.axvline(0.0, color=INK, lw=0.8)
            panel.set_yticks(range(len(arms)), arms)
            panel.set_title(f"load {load},\n{NAMES[belief]}", fontsize=8.5)
        panels[0].invert_yaxis()
        figure.supxlabel("change of average JCT, %", fontsize=9.0)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return encoded().decode()


def _turns(rows: Sequence[Row]) -> list[str]:
    header = (
        "GPUs",
        "jobs",
        "first, s",
        "median, s",
        "largest, s",
        "memory, MiB",
        "log a turn, KiB",
        "log a day, MiB",
    )
    table = [tuple(row.values()) for row in rows]
    return [
        "## What a turn costs",
        _filled(TURNS),
        Table(header, table, align="r").to_markdown(spaced=True),
    ]


def _observed(rows: Sequence[Row]) -> str:
    """What Slurm did by itself in runs that only observed, beside those that acted."""
    parts = []
    for word, name in (("observe", "only observed"), ("act", "acted")):
        own = [row for row in rows if row["word"] == word and row["chaos"] == "True"]
        by_slurm, forgotten = (
            sum(int(row[k] or 0) for row in own) for k in ("by_slurm", "forgotten")
        )
        jobs = sum(int(row["jobs"]) for row in own)
        parts.append(
            f"in {len(own)} runs under chaos that {name} {by_slurm} of {jobs} jobs ran again by "
            f"Slurm and {forgotten} were forgotten"
        )
    return ", ".join(parts)


def _sums(rows: Sequence[Row]) -> str:
    jobs, restarts = (sum(int(row[name]) for row in rows) for name in ("jobs", "restarts"))
    faults = sum(int(row.get(name) or 0) for row in rows for name in Counted.fault_names())
    return f"In all: jobs {jobs}, restarts {restarts}, faults {faults}."


def _chaos(runs: Mapping[str, Sequence[Row]]) -> list[str]:
    names = Counted.fault_names()
    header = (
        "Slurm",
        "slurmdbd",
        "controller",
        "",
        "seed",
        "jobs",
        "restarts",
        "commands",
        "stops",
        "kills",
        "by Slurm",
        "forgotten",
        "faults",
    )
    parts = [
        "## Acceptance and chaos on a real Slurm",
        _filled(RUNS.format(faults=", ".join(f"`{name}`" for name in names))),
        _filled(
            BY_SLURM.format(observed=_observed([row for rows in runs.values() for row in rows]))
        ),
    ]
    for file, rows in runs.items():
        table = []
        for row in rows:
            reasons = [f"{row[name]} {name}" for name in names if int(row.get(name) or 0)]
            table.append(
                (
                    row["slurm"],
                    "yes" if row["slurmdbd"] == "True" else "no",
                    row["word"],
                    "chaos" if row["chaos"] == "True" else "",
                    row["seed"],
                    row["jobs"],
                    row["restarts"],
                    row["commands"],
                    row.get("stops", ""),
                    row["kills"],
                    row["by_slurm"],
                    row["forgotten"],
                    ", ".join(reasons) or "0",
                )
            )
        parts += [_filled(f"`{file}`: {NOTES.get(file, '')} {_sums(rows)}")]
        parts += [Table(header, table, align="llllrrrrrrrrl").to_markdown(spaced=True)]
    return parts
