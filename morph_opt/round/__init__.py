"""One round from a file: snapshots of a cluster in, decisions out.

>>> from morph_opt.round import decide_round, parse_snapshot      # doctest: +SKIP
>>> decide_round(parse_snapshot(text)).to_json()                  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.round.decide import RoundDecision, decide_round, make_explainer
    from morph_opt.round.reader import parse_snapshot, read_snapshot
    from morph_opt.round.snapshot import Snapshot, state_to_json, to_text, write_document
    from morph_opt.round.speeds import SpeedTable, rows_to_json, table_of
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "RoundDecision",
    "Snapshot",
    "SpeedTable",
    "decide_round",
    "make_explainer",
    "parse_snapshot",
    "read_snapshot",
    "rows_to_json",
    "state_to_json",
    "table_of",
    "to_text",
    "write_document",
]
