"""How far a scheduler's rounds were from the proven optimum, by its log alone."""

from morph_opt.audit.instants import Audit, audit
from morph_opt.audit.recorded import Recorded, read_recorded

__all__ = ["Audit", "Recorded", "audit", "read_recorded"]
