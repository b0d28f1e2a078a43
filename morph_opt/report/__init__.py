"""Write a report on finished runs: one HTML file that opens anywhere.

The package is called like its function, so that ``morph_opt.report(...)`` works whether or not the
package has been imported as a module before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """Package that can be called like its function."""

    def __call__(self, *arguments: Any, **named: Any) -> str:
        """Write a report; see `morph_opt.report.api.report`."""
        from morph_opt.report.api import report

        return report(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
