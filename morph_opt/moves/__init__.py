"""Find the cheapest moves that let a job start, free places or empty nodes.

The package is called like its function, so that ``morph_opt.moves(...)`` works whether or not the
package has been imported as a module before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from morph_opt.moves.answer import Moves


class _CallableModule(ModuleType):
    """Package that can be called like its function."""

    def __call__(self, *arguments: Any, **named: Any) -> Moves:
        """Return the cheapest moves; see `morph_opt.moves.api.moves`."""
        from morph_opt.moves.api import moves

        return moves(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
