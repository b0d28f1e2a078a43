"""Parameters are checked where they are set, and every number that steers is one."""

from __future__ import annotations

import ast
import itertools
from dataclasses import fields, replace
from pathlib import Path

import pytest

import morph_opt.scheduling.decision
from morph_opt.scheduling.decision.params import (
    DEFAULTS,
    CoreParams,
    LadderParams,
    Params,
    SubRoundParams,
)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda: CoreParams(cores=0), "CoreParams.cores must be a whole number from 1, got 0"),
        (lambda: CoreParams(additions=1.5), "additions must be a whole number from 0"),
        (lambda: LadderParams(shaped_gap=float("nan")), "shaped_gap must be a number from 0"),
        (lambda: SubRoundParams(jobs=True), "SubRoundParams.jobs must be a whole number from 0"),
        (lambda: replace(DEFAULTS, exact_shrinks=0), "exact_shrinks must be a whole number from 1"),
    ],
)
def test_a_number_that_cannot_be_is_refused(wrong, rule: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=rule):
        wrong()


def test_no_steering_number_is_a_constant_of_a_module() -> None:
    """A module constant that is a number, or several, is a parameter without a name and a range."""
    found = set()
    for path in sorted(Path(morph_opt.scheduling.decision.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            value = getattr(node, "value", None)
            if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None:
                continue
            numbers = [
                one
                for part in (value.elts if isinstance(value, ast.Tuple) else [value])
                for one in ast.walk(part)
                if isinstance(part, ast.Constant | ast.UnaryOp | ast.BinOp)
                and isinstance(one, ast.Constant)
                and isinstance(one.value, int | float)
            ]
            if numbers:
                found.add(ast.unparse(node))
    # A unit, and the default of an option of users.
    allowed = {"HOUR_S = 3600.0", "FACTOR = 2.0"}
    assert found <= allowed


def test_every_parameter_has_a_sentence() -> None:
    """The documentation of a field is the string below it."""
    source = Path(morph_opt.scheduling.decision.params.__file__).read_text("utf-8")
    kinds = {kind.__name__: kind for kind in Params.__subclasses__()}
    seen = 0
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in kinds:
            body = node.body
            told = {
                one.target.id
                for one, after in itertools.pairwise(body)
                if isinstance(one, ast.AnnAssign)
                and isinstance(one.target, ast.Name)
                and isinstance(after, ast.Expr)
            }
            assert told == {one.name for one in fields(kinds[node.name])}, node.name
            seen += 1
    assert seen == len(kinds)
