"""No circles, no climb: the page shows the imports as they are."""

from __future__ import annotations

import itertools

import pytest

from tests.imports import PAGE, WALK, block, circles, drawn, floors, full, imports, room_of, rooms

CALLED_BACK = [
    # `Scenario.run` calls those who take it apart; the zoo's prior is needed by its own file form.
    ("morph_opt.perf.analytic.modelfile", "morph_opt.perf.analytic.zoo"),
    ("morph_opt.replay.running", "morph_opt.replay.scenario", "morph_opt.replay.setup"),
]


def test_circles_are_found() -> None:
    graph = {name: frozenset(to) for name, to in {"a": "b", "b": "ca", "c": "d", "d": ""}.items()}
    assert circles(graph) == [("a", "b")]
    assert floors({name: to - {"a"} for name, to in graph.items()}) == {
        "a": 3,
        "b": 2,
        "c": 1,
        "d": 0,
    }


def test_no_room_is_in_a_circle() -> None:
    assert circles(rooms(imports())) == []


def test_no_module_is_in_a_circle_but_two_that_are_closed_by_calls() -> None:
    assert circles(imports(inside_functions=False)) == []
    assert sorted(circles(imports())) == CALLED_BACK


@pytest.mark.parametrize("leg", WALK, ids=[leg[0] for leg in WALK])
def test_a_job_never_climbs(leg: tuple[str, ...]) -> None:
    graph, height = imports(), floors(rooms(imports()))
    for upper, lower in itertools.pairwise(map(full, leg[1:])):
        assert lower in graph[upper], f"{upper} does not import {lower}"
        assert height[room_of(lower)] <= height[room_of(upper)]


def test_the_page_shows_the_imports_as_they_are() -> None:
    shown = block(PAGE.read_text("utf-8"))
    assert shown == drawn(), "docs/architecture.md is stale: python -m tests.imports"
