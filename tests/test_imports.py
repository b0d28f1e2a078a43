"""No circles, no climb: the page shows the imports as they are."""

from __future__ import annotations

import itertools

import pytest

from tests.imports import (
    PAGE,
    WALK,
    WHERE,
    answers,
    block,
    circles,
    drawn,
    full,
    heights,
    imports,
    package_of,
    packages,
)


def test_circles_are_found() -> None:
    graph = {name: frozenset(to) for name, to in {"a": "b", "b": "ca", "c": "d", "d": ""}.items()}
    assert circles(graph) == [("a", "b")]
    assert heights({name: to - {"a"} for name, to in graph.items()}) == {
        "a": 3,
        "b": 2,
        "c": 1,
        "d": 0,
    }


def test_no_package_is_in_a_circle() -> None:
    assert circles(packages(imports())) == []


def test_no_module_is_in_a_circle_not_even_by_imports_inside_functions() -> None:
    assert circles(imports()) == []


@pytest.mark.parametrize("leg", WALK, ids=[leg[0] for leg in WALK])
def test_a_job_never_climbs(leg: tuple[str, ...]) -> None:
    graph, height = imports(), heights(packages(imports()))
    for upper, lower in itertools.pairwise(map(full, leg[1:])):
        assert lower in graph[upper], f"{upper} does not import {lower}"
        assert height[package_of(lower)] <= height[package_of(upper)]


def test_the_page_shows_the_imports_as_they_are() -> None:
    shown = block(PAGE.read_text("utf-8"))
    assert shown == drawn(), "docs/architecture.md is stale: python -m tests.imports"


def test_the_page_answers_where_things_are() -> None:
    shown = block(PAGE.read_text("utf-8"), WHERE)
    assert shown == answers(), "docs/architecture.md is stale: python -m tests.imports"
