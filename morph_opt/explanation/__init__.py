"""Explanations: why each job of a round got what it got, and which rules contradict each other."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.explanation.conflict import Conflict, RuleConflictError, smallest_conflict
    from morph_opt.explanation.explainer import Explainer
    from morph_opt.explanation.report import Effort, RoundExplanation, UnexplainedError
    from morph_opt.explanation.text import explanation_text
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
