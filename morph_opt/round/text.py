"""A decision as text for a terminal."""

from __future__ import annotations

from morph_opt.explain.text import table
from morph_opt.round.decide import RoundDecision


def decision_text(decided: RoundDecision) -> str:
    """One line of summary and a table of the jobs."""
    document = decided.to_json()
    value, gap = document["value"], document["gap"]
    head = f"round {document['round']} at {document['time_s']:g} s: {document['status']}"
    if value is not None:
        head += f", {document['objective']} {value:.6g}"
    if gap is not None:
        head += f", gap {gap:.3g}"
    rows = [
        (
            job["job"],
            job["action"],
            str(job["gpus"]),
            (job["plan"] or "-") + (f" beside {job['partner']}" if "partner" in job else ""),
            " ".join(
                f"{part['node']}:{','.join(map(str, part['gpus']))}" for part in job["nodes"]
            ) or "-",
            "-" if job["iteration_s"] is None else f"{job['iteration_s']:.4g}",
        )
        for job in document["jobs"]
    ]  # fmt: skip
    lines = table(("job", "action", "GPUs", "plan", "nodes", "s per iteration"), rows)
    return "\n".join([head, "", *(line.rstrip() for line in lines)]) + "\n"
