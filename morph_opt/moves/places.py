"""Places of a cluster that a question asks to be free, by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from formulations.moves import Place, Way
from formulations.round.candidates import Scope
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import Cluster, InputError, NodeType
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.moves.question import DOMAINS, LEAVES, NODES, Freed

_SCOPES = {None: Scope.POD, LEAVES: Scope.LEAF, DOMAINS: Scope.NVLINK}


def places_of(
    freed: Freed, cluster: Cluster, problem: RoundProblem, count: int | None = None
) -> list[Place]:
    """Return the candidate places, of which a requested number must become free.

    Parameters
    ----------
    freed
        Places that are asked for.
    cluster, problem
        Nodes, and the tables of a round on them.
    count
        Number of nodes or slots, in place of that asked for.

    Raises
    ------
    InputError
        If no node is of the type, or the cluster has no such domain or leaf.
    """
    types = types_of(freed, cluster)
    if freed.what in (DOMAINS, LEAVES):
        return list(_wholes(freed, cluster, problem, types))
    ways = tuple(_ways(freed, cluster, types))
    return [Place(ways)] * (freed.count if count is None else count)


def types_of(freed: Freed, cluster: Cluster) -> list[NodeType]:
    """Return the node types that a question is about."""
    if freed.gpu_type is None:
        return list(cluster.node_types)
    asked = freed.gpu_type.lower()
    for same in (str.__eq__, str.startswith):
        found = [
            kind
            for kind in cluster.node_types
            if same(kind.gpu_type.name.lower(), asked) or same(kind.name.lower(), asked)
        ]
        if found:
            return found
    known = list(dict.fromkeys(kind.gpu_type.name for kind in cluster.node_types))
    rule = f"there is no node of {freed.gpu_type!r}{did_you_mean(asked, known)}"
    raise InputError(f"{rule}; there are {', '.join(known)}", field="free")


def _ways(freed: Freed, cluster: Cluster, types: list[NodeType]) -> Iterator[Way]:
    """Yield the shapes of a node or a slot on each node class: as few nodes as possible."""
    for index, kind in enumerate(cluster.node_types):
        gpus = kind.gpus if freed.what == NODES else freed.gpus
        whole, rest = divmod(gpus, kind.gpus)
        parts = (kind.gpus,) * whole + ((rest,) if rest else ())
        many = len(parts) > 1
        if kind not in types or len(parts) > len(cluster.nodes_of(kind)):
            continue
        if not many or freed.inside != NODES:
            yield Way(index, parts, int(_SCOPES[freed.inside] if many else Scope.NODE))


def _wholes(
    freed: Freed, cluster: Cluster, problem: RoundProblem, types: list[NodeType]
) -> Iterator[Place]:
    """Yield NVLink domains or leaves of nodes of one type that are up, each to become empty."""
    topology = topology_of(cluster)
    domains = freed.what == DOMAINS
    groups: dict[int, list[int]] = {}
    for node, group in enumerate(topology.domain if domains else topology.leaf):
        if not domains or cluster.nodes[node].nvlink_domain is not None:
            groups.setdefault(group, []).append(node)
    if not groups:
        raise InputError("the cluster has no NVLink domain of several nodes", field="free")
    classes, is_open = problem.nodes.node_class, problem.nodes.open
    for nodes in groups.values():
        kind = cluster.nodes[nodes[0]].type
        alike = len(set(classes[nodes].tolist())) == 1 and bool(is_open[nodes].all())
        if alike and kind in types:
            among = np.zeros(problem.nodes.count, dtype=bool)
            among[nodes] = True
            scope = Scope.NODE if len(nodes) == 1 else _SCOPES[freed.what]
            yield Place(
                (Way(int(classes[nodes[0]]), (kind.gpus,) * len(nodes), int(scope)),), among
            )


def place_name(freed: Freed, cluster: Cluster, nodes: tuple[int, ...]) -> str:
    """Return the name of a free place: its domain or leaf, or its nodes."""
    first = cluster.nodes[nodes[0]]
    if freed.what == DOMAINS:
        return str(first.nvlink_domain)
    if freed.what == LEAVES:
        return first.leaf
    return "+".join(cluster.nodes[node].name for node in nodes)
