"""Parameters are checked where they are set, and every number that steers is one."""

from __future__ import annotations

import ast
import inspect
import itertools
from dataclasses import fields, replace
from pathlib import Path

import pytest

import morph_opt
from formulations.parameters import Params
from morph_opt.inputs.perf import parameters as of_speeds
from morph_opt.scheduling.decision.params import (
    DEFAULTS,
    CoreParams,
    LadderParams,
    SubRoundParams,
)
from morph_opt.simulation.metrics import parameters as of_figures


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda: CoreParams(cores=0), "CoreParams.cores must be a whole number from 1, got 0"),
        (lambda: CoreParams(additions=1.5), "additions must be a whole number from 0"),
        (lambda: LadderParams(shaped_gap=float("nan")), "shaped_gap must be a number from 0"),
        (lambda: SubRoundParams(jobs=True), "SubRoundParams.jobs must be a whole number from 0"),
        (lambda: replace(DEFAULTS, exact_shrinks=0), "exact_shrinks must be a whole number from 1"),
        (
            lambda: of_figures.CompletionParams(mean=1.0),
            "mean must be a number from 1e-09 to 0.9999",
        ),
        (lambda: of_figures.CompletionParams(regrid=(6, -1)), "regrid must be a whole number"),
        (lambda: of_speeds.PriorParams(utilisation=2), "utilisation must be a number from 0 to 1"),
    ],
)
def test_a_number_that_cannot_be_is_refused(wrong, rule: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=rule):
        wrong()


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        # The default of an option of users, and the length of a message.
        ("scheduling/decision", {"FACTOR = 2.0", "_SHOWN = 4"}),
        ("inputs/perf/fitting", set()),
        ("simulation/metrics", set()),
        # The length of a message, and how far ahead reservations are listed; the size of a file;
        # the default of an option.
        ("scheduling/backfill", {"SHOWN = 3", "AHEAD_S = 30 * 86400.0"}),
        ("inputs/slurm", {"MOST_BYTES = 16 * 2 ** 20"}),
        ("hindcast", {"REPLAYS = 20", "_SHOWN = 8"}),
    ],
)
def test_no_steering_number_is_a_constant_of_a_module(folder: str, allowed: set[str]) -> None:
    """A module constant that is a number, or several, is a parameter without a name and a range."""
    found = set()
    for path in sorted((Path(morph_opt.__file__).parent / folder).rglob("*.py")):
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
    assert found == allowed


@pytest.mark.parametrize("kind", Params.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_parameter_has_a_sentence(kind: type[Params]) -> None:
    """The documentation of a field is the string below it."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    told = {
        one.target.id
        for one, after in itertools.pairwise(node.body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(after, ast.Expr)
    }
    assert told == {one.name for one in fields(kind)}
