"""The parts of files of published cases, a module per publication."""

from morph_opt.validation.parts.gavel import INSTANCES
from morph_opt.validation.parts.morphling import MORPHLING
from morph_opt.validation.parts.optimus import OPTIMUS
from morph_opt.validation.parts.part import Part
from morph_opt.validation.parts.pollux import POLLUX
from morph_opt.validation.parts.sia import SIA
from morph_opt.validation.parts.tiresias import GITTINS_TABLE, RUNS

PARTS: dict[str, Part] = {
    "instances": INSTANCES,
    "gittins_table_spot": GITTINS_TABLE,
    "cases": RUNS,
    "morphling": MORPHLING,
    "sia": SIA,
    "pollux": POLLUX,
    "optimus": OPTIMUS,
}
"""By the key of the file under which the cases stand."""
