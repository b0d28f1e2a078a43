"""Hold Slurm's passes against recordings: ``python -m benchmarks.backfill FOLDER...``.

With ``--phases N`` the model makes its own cycles of backfill, in N replays with shaken instants;
without, it goes by the recorded ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.backfill.agreement import agreement
from benchmarks.backfill.recorded import Recording
from benchmarks.backfill.replay import Replay
from morph_opt.core.commandline.parser import LineParser


def main(argv: Sequence[str] | None = None) -> int:
    """Print how well each recording is reproduced."""
    parser = LineParser(prog="python -m benchmarks.backfill", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--phases", type=int, default=0, metavar="N")
    asked = parser.parse_args(argv)
    heads = (
        "recording",
        "mean wait s",
        "replayed",
        "median off s",
        "p95 off s",
        "in order",
        "nodes",
        "priorities",
    )
    own = ("recording", "mean wait s", "replays", "mean", "lowest", "highest", "inside")
    print("| " + " | ".join(own if asked.phases else heads) + " |")
    print("| --- |" + " ---: |" * (len(own if asked.phases else heads) - 1))
    for folder in asked.folders:
        recording = Recording.read(folder)
        print(
            "| "
            + " | ".join((_phases if asked.phases else _instants)(recording, asked.phases))
            + " |"
        )
    return 0


def _instants(recording: Recording, _: int) -> tuple[str, ...]:
    found = agreement(recording)
    return (
        recording.folder.name,
        f"{found.wait_s:,.0f}",
        f"{found.replayed_s:,.0f} ({found.replayed_s / found.wait_s - 1.0:+.1%})",
        f"{found.median_s:.1f}",
        f"{found.p95_s:.1f}",
        f"{found.in_order:.2%}",
        f"{found.same_nodes:.0%}",
        "-" if found.same_priority is None else f"{found.same_priority:.0%}",
    )


def _phases(recording: Recording, phases: int) -> tuple[str, ...]:
    begun = [one for one in recording.jobs if one.start_s is not None]
    wait = np.mean([one.start_s - one.submit_s for one in begun if one.start_s is not None])
    means = []
    for seed in range(phases):
        found = Replay(recording, seed)
        found.run()
        means.append(
            np.mean(
                [  # in whole seconds, as sacct states starts
                    math.floor(found.starts_s[one.number]) - found.jobs[one.number].submit_s
                    for one in begun
                ]
            )
        )
    off = [mean / wait - 1.0 for mean in means]
    low, high = np.percentile(off, [2.5, 97.5])
    return (
        recording.folder.name,
        f"{wait:,.0f}",
        str(phases),
        f"{np.mean(off):+.1%}",
        f"{low:+.1%}",
        f"{high:+.1%}",
        "yes" if min(off) <= 0.0 <= max(off) else "no",
    )


if __name__ == "__main__":
    raise SystemExit(main())
