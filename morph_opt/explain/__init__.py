"""Explanations: why each job of a round got what it got, and which rules contradict each other."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.explain.conflict import Conflict, RuleConflictError, smallest_conflict
    from morph_opt.explain.effort import Effort
    from morph_opt.explain.explainer import Explainer
    from morph_opt.explain.report import RoundExplanation, UnexplainedError
    from morph_opt.explain.text import explanation_text
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "Conflict",
    "Effort",
    "Explainer",
    "RoundExplanation",
    "RuleConflictError",
    "UnexplainedError",
    "explanation_text",
    "smallest_conflict",
]
