"""Gap between a scheduler's rounds and the proven optimum, from its log alone."""

from typing import TYPE_CHECKING, Final

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.audit.instants import Audit, audit
    from morph_opt.audit.recorded import Recorded, read_recorded
else:
    __getattr__ = lazily(__name__)

RUN: Final = "run"
"""Word before the path of a run folder, in the place of a log's format."""

__all__ = ["RUN", "Audit", "Recorded", "audit", "read_recorded"]
