"""Files are read and written through `morph_opt.core.documents` only."""

from __future__ import annotations

import ast
from pathlib import Path

WAYS = {"read_text", "read_bytes", "write_text", "write_bytes", "open", "load", "loads", "reader"}
WAYS |= {"DictReader", "decompress", "literal_eval"}
WINGS = ("core", "inputs", "scheduling", "simulation")
KEPT = {
    "commandline/running.py: open",  # /dev/null in place of a closed stream
    "data/archive.py: open",  # digests, and members as they are taken out: bounded there
    "data/archive.py: read_text",  # its own record of what was taken out
    "data/archive.py: write_text",
    "data/datasets.py: read_text",  # part of the package
    "live/record.py: open",  # appends to its own log, a line at once
    "live/turn.py: read_text",  # its own status
    "live/turn.py: write_text",  # of its folder, which writes atomically
    "replay/prepare.py: load",  # a trace by its name
    "round/watch.py: open",  # appends to a log that it wrote
    "runs/rounds.py: reader",  # one line of text
    "runs/write.py: open",  # growing files, without links
    "runs/write.py: write_text",  # in a folder that was just made
    "solvers/fronts/pulp.py: read_text",  # a solver's log in a folder of its own
    "solvers/worker/process.py: read_text",  # /proc
    "traces/easyscale.py: load",  # a reader of ours
    "traces/gavel.py: load",
    "traces/tiresias.py: load",
    "sweep/cell.py: read_bytes",  # a digest only
    "sweep/child.py: loads",  # the parent's order, and the answer, in a folder of its own
    "sweep/child.py: open",
    "sweep/child.py: read_text",
    "live/kube/api.py: read_text",  # the token of a pod, which is renewed in place
    "live/kube/cluster.py: loads",  # a patch of our own, as it was logged
    "sweep/child.py: write_text",
    "sweep/store.py: write_bytes",  # in a folder that is renamed into place
    "sweep/worker.py: open",  # in a folder of its own
    "sweep/worker.py: read_bytes",
    "sweep/worker.py: write_bytes",
    "sweep/worker.py: write_text",
    "traces/logs/reading/records.py: reader",  # one line of text
    "extend.py: load",  # an entry point
    "solvers/worker/isolated.py: loads",  # a pipe to our own process
    "solvers/worker/process.py: loads",
}


def uses(root: Path) -> set[str]:
    found = set()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        name = "/".join(parts[1:] if parts[0] in WINGS else parts)
        if name.startswith("documents/"):
            continue
        imported = set()
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name for alias in node.names}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            call = node.func
            if isinstance(call, ast.Attribute) and call.attr in WAYS:
                found.add(f"{name}: {call.attr}")
            elif isinstance(call, ast.Name) and call.id in WAYS - imported - {"reader"}:
                found.add(f"{name}: {call.id}")
    return found


def test_files_are_read_and_written_in_one_package(project_root: Path) -> None:
    assert uses(project_root / "morph_opt") == KEPT
