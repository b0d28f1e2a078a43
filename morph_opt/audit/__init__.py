"""How far a scheduler's rounds were from the proven optimum, by its log alone."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.audit.instants import Audit, audit
    from morph_opt.audit.recorded import Recorded, read_recorded
else:
    __getattr__ = lazily(__name__)

__all__ = ["Audit", "Recorded", "audit", "read_recorded"]
