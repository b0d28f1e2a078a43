"""The commands of docs/how-to/teams.md, typed in a folder of their own."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

from morph_opt.core.documents import read_json

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "teams.md"


def test_every_command_of_the_page_runs_and_the_teams_get_their_own(tmp_path: Path) -> None:
    """With two workloads in place of six: the question is typed, not answered."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = "".join(blocks).replace("--seeds 6", "--seeds 2")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    path = f"{python.parent}:{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["sh", "-e"],
        input=text,
        cwd=tmp_path,
        env=given,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for policy in ("milp", "srtf", "fifo"):
        with (tmp_path / "runs" / policy / "groups.csv").open(encoding="utf-8") as file:
            rows = {(row["kind"], row["group"]): row for row in csv.DictReader(file)}
        # The teams own all 16 GPUs; no urgent job is stopped, and the night queue is.
        entitled = {
            name: float(row["entitled_gpu_hours"] or 0.0) for (_, name), row in rows.items()
        }
        assert entitled["lab.vision"] == entitled["lab.speech"] > entitled["lab.night"] == 0.0
        assert rows["class", "urgent"]["evictions"] == "0"
        assert int(rows["class", "spare"]["evictions"]) > 0
        assert float(rows["queue", "lab.night"]["gpu_hours"]) > 0.0
    answer = read_json(tmp_path / "runs" / "price" / "answer.json")
    assert {row["of"].partition(":")[0] for row in answer["evidence"][2:]} == {
        "all jobs", "queue night", "queue speech", "queue vision"
    }  # fmt: skip
