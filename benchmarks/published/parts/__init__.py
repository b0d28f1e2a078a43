"""The parts of files of published cases, a module per publication."""

from typing import Any

from benchmarks.published.cases import Case
from benchmarks.published.parts import easyscale, gandiva
from benchmarks.published.parts.gavel import INSTANCES
from benchmarks.published.parts.morphling import MORPHLING
from benchmarks.published.parts.optimus import OPTIMUS
from benchmarks.published.parts.part import Document, Part, listed
from benchmarks.published.parts.pollux import POLLUX
from benchmarks.published.parts.sia import SIA
from benchmarks.published.parts.tiresias import GITTINS_TABLE, RUNS


def _round(place: str, case: Any, document: Document) -> list[Case]:
    """Two publications have a part of this name: one has pools of GPU types, one has servers."""
    read = easyscale.read_round if "pools" in case else gandiva.read_round
    return read(place, case, document)


ROUNDS = Part(lambda value: listed(value, "rounds"), _round)

PARTS: dict[str, Part] = {
    "instances": INSTANCES,
    "gittins_table_spot": GITTINS_TABLE,
    "cases": RUNS,
    "morphling": MORPHLING,
    "sia": SIA,
    "pollux": POLLUX,
    "optimus": OPTIMUS,
    "simulator": gandiva.SIMULATOR,
    "slices": gandiva.SLICES,
    "packing": gandiva.PACKING,
    "gavel": gandiva.GAVEL_SHARES,
    "search": gandiva.SEARCH,
    "rounds": ROUNDS,
    "maps": easyscale.MAPS,
    "candidates": easyscale.CANDIDATES,
    "published": easyscale.PUBLISHED,
}
"""By the key of the file under which the cases stand."""
