"""A decision as text for a terminal."""

from __future__ import annotations

from morph_opt.round.decide import RoundDecision


def decision_text(decided: RoundDecision) -> str:
    """One line of summary and a table of the jobs."""
    document = decided.to_json()
    value, gap = document["value"], document["gap"]
    head = f"round {document['round']} at {document['time_s']:g} s: {document['status']}"
    if value is not None:
        head += f", {document['objective'] or 'value'} {value:.6g}"
    if gap is not None:
        head += f", gap {gap:.3g}"
    lines = [*(f"beyond its request: {line}" for line in decided.beyond)]
    lines += [f"note: {note}" for note in decided.notes]
    notes = ["", *lines] if lines else []
    taken = [] if decided.chosen is None else [decided.chosen]
    return "\n".join([head, *taken, "", decided.to_table().to_text(), *notes]) + "\n"
