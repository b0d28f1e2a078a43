"""No module is in a circle of imports, not even by imports inside functions."""

from __future__ import annotations

import grimp
import networkx as nx


def circles(graph: nx.DiGraph) -> list[list[str]]:
    return [sorted(one) for one in nx.strongly_connected_components(graph) if len(one) > 1]


def test_circles_are_found() -> None:
    assert circles(nx.DiGraph(["ab", "bc", "ba", "cd"])) == [["a", "b"]]


def test_no_module_is_in_a_circle() -> None:
    """The import contract has the order of packages; this is about modules of one package."""
    known = grimp.build_graph(
        "formulations", "morph_opt", exclude_type_checking_imports=True, cache_dir=None
    )
    graph = nx.DiGraph()
    for name in known.modules:
        graph.add_edges_from((name, to) for to in known.find_modules_directly_imported_by(name))
    assert graph.number_of_edges() > 2000
    assert circles(graph) == []
