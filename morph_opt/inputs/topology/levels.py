"""Leaves of a network of switches, read only if their uplinks alone limit its traffic.

A cluster knows leaves, their uplinks, and nothing else between machines. A network is read so only
where that is exact: below the leaves nothing limits the cards of the machines, above them a tree or
a fat tree carries whatever the uplinks carry. All else is refused, with the name of a vertex.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from morph_opt.core.domain import InputError
from morph_opt.inputs.topology.attributes import words

if TYPE_CHECKING:
    import networkx as nx

Key = Hashable
_Vertex = int | tuple[Key]
"""Vertex above the machines: the number of a leaf, or a switch above the leaves."""
_ENOUGH = 1.0 - 1e-9
"""Share of a bandwidth that counts as all of it: sums of floats are compared."""
_MOST_PAIRS = 10**8
"""Largest number of leaves times switches above them; their connections are checked in pairs."""


class FoundLeaf(NamedTuple):
    """Leaf of a network.

    Parameters
    ----------
    name, uplink_gb_per_s
        As in a cluster; the uplink is infinite if unbounded.
    switches, machines
        Vertices that are the leaf, and those under it.
    """

    name: str
    uplink_gb_per_s: float
    switches: tuple[Key, ...]
    machines: tuple[Key, ...]


def group_name(names: Sequence[str]) -> str:
    """Return the name of several switches that are one leaf or NVLink domain.

    >>> group_name(["rail-0", "rail-1"]), group_name([f"rail-{i}" for i in range(8)])
    ('rail-0+rail-1', 'rail-0..rail-7')
    """
    return "+".join(names) if len(names) <= 3 else f"{names[0]}..{names[-1]}"


class Network:
    """Machines, switches and the links between them.

    Parameters
    ----------
    graph
        Vertices in order; edges with ``gb_per_s``, infinite if unbounded.
    names
        Names of the vertices.
    cards_gb_per_s
        Bandwidth of the network cards of each machine; its keys are the machines.
    marked
        Switches that are marked as leaves; without any, leaves are the switches next to machines.
    """

    def __init__(
        self,
        graph: nx.Graph,
        names: Mapping[Key, str],
        cards_gb_per_s: Mapping[Key, float],
        marked: Collection[Key],
    ) -> None:
        self._graph = graph
        self._names = names
        self._cards = cards_gb_per_s
        self._marked = marked

    def leaves(self) -> list[FoundLeaf]:
        """Return the leaves, in the order of their switches.

        Raises
        ------
        InputError
            If something other than the uplinks of leaves limits traffic.
        """
        self._require_machines_under_switches()
        if len(self._graph) == 1:
            return [FoundLeaf("leaf-0", math.inf, (), tuple(self._graph))]
        groups = self._groups()
        upper = self._upper([switches for switches, _ in groups])
        found = []
        for number, (switches, machines) in enumerate(groups):
            rates = [rate for _, _, rate in upper.edges(number, data="gb_per_s")]
            name = group_name([self._names[one] for one in switches])
            found.append(FoundLeaf(name, sum(rates) if rates else math.inf, switches, machines))
        if len({leaf.name for leaf in found}) < len(found):
            names = [leaf.name for leaf in found]
            twice = next(leaf for leaf in found if names.count(leaf.name) > 1)
            raise self._error(twice.switches[0], f"{twice.name!r} is the name of two leaves")
        _Above(upper, found, self._names).require_wide()
        return found

    def _error(self, key: Key, rule: str) -> InputError:
        return _error(self._names, key, rule)

    def _listed(self, keys: Iterable[Key]) -> str:
        some = set(keys)
        return words(self._names[one] for one in self._graph if one in some)

    # ------------------------------------------------------------ machines and their leaves

    def _require_machines_under_switches(self) -> None:
        for machine in self._cards:
            if machine in self._marked:
                raise self._error(machine, "must have no GPUs to be a leaf, a switch")
            links = self._graph.adj[machine]
            other = next((one for one in links if one in self._cards), None)
            if other is not None:
                rule = (
                    f"is linked to the machine {self._names[other]} directly (a torus or mesh); a "
                    "cluster has machines under leaf switches"
                )
                raise self._error(machine, rule)
            if not links and len(self._graph) > 1:
                raise self._error(machine, "has no network link; link it to a switch")

    def _groups(self) -> list[tuple[tuple[Key, ...], tuple[Key, ...]]]:
        """Return the switches and the machines of each leaf.

        Machines with links to the same several switches (rails, two homes) are under one leaf.
        """
        import networkx

        graph, cards = self._graph, self._cards
        leaves = self._marked or {switch for one in cards for switch in graph.adj[one]}
        below = graph.copy()
        below.remove_nodes_from(leaves)
        home: dict[Key, frozenset[Key]] = {}
        under: dict[frozenset[Key], list[Key]] = {}
        for part in networkx.connected_components(below):
            machines = [one for one in part if one in cards]
            if not machines:
                continue
            above = frozenset(one for key in part for one in graph.adj[key] if one in leaves)
            if not above:
                raise self._error(machines[0], "is under no leaf, a switch of kind 'leaf'")
            if len(part) > 1:
                self._require_no_limit(below.subgraph(part), above, machines[0])
            elif len({graph.edges[machines[0], one]["gb_per_s"] for one in above}) > 1:
                raise self._error(machines[0], f"has unequal links to {self._listed(above)}")
            for switch in above:
                if (known := home.setdefault(switch, above)) != above:
                    both = {above: machines[0], known: under[known][0]}
                    fewer, more = sorted(both, key=len)
                    rule = (
                        f"is linked to {self._listed(more)}, and {self._names[both[fewer]]} to "
                        f"{self._listed(fewer)}; machines have one leaf switch, or share all of "
                        "several"
                    )
                    raise self._error(both[more], rule)
            under.setdefault(above, []).extend(machines)
        switches: dict[frozenset[Key], list[Key]] = {}
        for switch in graph:
            if switch in leaves and switch not in home:
                raise self._error(switch, "is a leaf without machines")
            if switch in leaves:
                switches.setdefault(home[switch], []).append(switch)
        return [(tuple(of), tuple(under[above])) for above, of in switches.items()]

    def _require_no_limit(self, part: nx.Graph, above: frozenset[Key], machine: Key) -> None:
        """Refuse switches below a leaf that are no tree or slower than the cards below them."""
        import networkx

        leaf = next(iter(above))
        entries = [one for one in part if leaf in self._graph.adj[one]]
        if len(above) > 1 or len(entries) > 1 or not networkx.is_tree(part):
            rule = f"has several paths to {self._listed(above)}; below a leaf there is one"
            raise self._error(machine, rule)
        parent = networkx.dfs_predecessors(part, entries[0])
        carried = {one: self._cards.get(one, 0.0) for one in part}
        for one in reversed(list(networkx.dfs_preorder_nodes(part, entries[0]))):
            over = parent.get(one, leaf)
            rate = self._graph.edges[one, over]["gb_per_s"]
            if one not in self._cards and rate < carried[one] * _ENOUGH:
                rule = (
                    f"has {rate:g} GB/s up for {carried[one]:g} GB/s of machines; a cluster has no "
                    "limit below its leaves: give this level the kind 'leaf'"
                )
                raise self._error(one, rule)
            if over in carried:
                carried[over] += carried[one]

    # ------------------------------------------------------------ above the leaves

    def _upper(self, groups: Sequence[Sequence[Key]]) -> nx.Graph:
        """Return the leaves, by number, and the switches above them.

        A switch above has the key ``(vertex,)``. Links between two of them are added up.
        """
        import networkx

        number = {switch: index for index, of in enumerate(groups) for switch in of}
        below = self._graph.copy()
        below.remove_nodes_from(number)
        upper = networkx.Graph()
        upper.add_nodes_from(range(len(groups)))
        for part in list(networkx.connected_components(below)):
            if any(one in self._cards for one in part):
                below.remove_nodes_from(part)
        upper.add_nodes_from((one,) for one in below)
        up = dict.fromkeys(number, 0.0)
        for left, right, rate in self._graph.edges(data="gb_per_s"):
            ends = number.get(left, (left,)), number.get(right, (right,))
            if not all(end in upper for end in ends):
                continue
            if ends[0] == ends[1]:
                raise self._error(left, f"is linked to {self._names[right]} of the same leaf")
            before = upper.get_edge_data(*ends, {"gb_per_s": 0.0})["gb_per_s"]
            upper.add_edge(*ends, gb_per_s=before + rate)
            for switch in (left, right):
                if switch in up:
                    up[switch] += rate
        for index, of in enumerate(groups):
            bounded = {rate < math.inf for _, _, rate in upper.edges(index, data="gb_per_s")}
            if len({up[switch] for switch in of}) > 1 or len(bounded) > 1:
                raise self._error(of[0], f"has unequal uplinks ({self._listed(of)})")
        return upper


class _Above:
    """Network above the leaves, which has to carry whatever their uplinks carry.

    Parameters
    ----------
    upper
        Leaves, by number, and switches above them, as ``(vertex,)``.
    leaves, names
        The leaves, and the names of the vertices.
    """

    def __init__(
        self, upper: nx.Graph, leaves: Sequence[FoundLeaf], names: Mapping[Key, str]
    ) -> None:
        self._upper = upper
        self._leaves = leaves
        self._names = names
        self._above = [one for one in upper if not isinstance(one, int)]

    def _key(self, vertex: _Vertex) -> Key:
        return self._leaves[vertex].switches[0] if isinstance(vertex, int) else vertex[0]

    def _error(self, vertex: _Vertex, rule: str) -> InputError:
        return _error(self._names, self._key(vertex), rule)

    def _name(self, vertex: _Vertex) -> str:
        return self._names[self._key(vertex)]

    def require_wide(self) -> None:
        """Refuse a network that is not connected, not in levels, or slower than the uplinks."""
        import networkx

        self._require_connected()
        if len(self._leaves) == 1 or (not self._above and len(self._leaves) == 2):
            return
        for left, right in self._upper.edges:
            if isinstance(left, int) and isinstance(right, int):
                rule = (
                    f"is linked to the leaf {self._name(right)} directly (a ring, mesh or torus); "
                    "leaves of a cluster are linked by switches above them"
                )
                raise self._error(left, rule)
        single = all(self._upper.degree(leaf) == 1 for leaf in range(len(self._leaves)))
        if single and networkx.is_tree(self._upper):
            self._require_wide_tree()
        else:
            self._require_wide_levels()

    def _require_connected(self) -> None:
        import networkx

        parts = list(networkx.connected_components(self._upper))
        for part in parts:
            if not any(isinstance(one, int) for one in part):
                first = next(one for one in self._above if one in part)
                rule = (
                    "has neither GPUs nor machines below it: leave it out (GPUs are counted on "
                    "their machine, gpus = 8)"
                )
                raise self._error(first, rule)
        if len(parts) > 1:
            ends = [min(one for one in part if isinstance(one, int)) for part in parts[:2]]
            rule = f"is not connected to {self._name(ends[0])}; these are two clusters"
            raise self._error(ends[1], rule)

    def _levels(self) -> dict[_Vertex, int]:
        """Return the distance of every vertex from the leaves, ascending."""
        level: dict[_Vertex, int] = dict.fromkeys(range(len(self._leaves)), 0)
        order = list(level)
        for one in order:  # grows while it is read, and ends as no vertex is added twice
            for other in self._upper.adj[one]:
                if other not in level:
                    level[other] = level[one] + 1
                    order.append(other)
        return level

    def _require_wide_tree(self) -> None:
        """Check every link between switches: it carries all uplinks of one of its sides."""
        import networkx

        *_, root = self._levels()
        parent = networkx.dfs_predecessors(self._upper, root)
        below = {one: _Sum() for one in self._upper}
        for leaf, known in enumerate(self._leaves):
            below[leaf] = _Sum.of(known.uplink_gb_per_s)
        for one in reversed(list(networkx.dfs_preorder_nodes(self._upper, root))):
            if one != root:
                below[parent[one]] += below[one]
        for one, over in parent.items():
            if isinstance(one, int):
                continue
            rate = self._upper.edges[one, over]["gb_per_s"]
            needed = min(below[one].rate, (below[root] - below[one]).rate)
            self._require_rate(one, rate, needed)

    def _require_rate(self, switch: _Vertex, rate: float, needed: float) -> None:
        if rate < needed * _ENOUGH:
            rule = (
                f"has {rate:g} GB/s up for {needed:g} GB/s of uplinks of leaves; a cluster has no "
                "limit above its leaves: give this level the kind 'leaf', if the switches below "
                "it set none"
            )
            raise self._error(switch, rule)

    def _require_wide_levels(self) -> None:
        """Check a fat tree: equal links up, no less up than down, every top reaches every leaf.

        The level of a switch is its distance from the leaves. Traffic that is spread evenly over
        equal links then fits on all of them, by induction over the levels.
        """
        upper, leaves = self._upper, range(len(self._leaves))
        if len(leaves) * len(self._above) > _MOST_PAIRS:
            rule = f"must have at most {_MOST_PAIRS} pairs of a leaf and a switch above it"
            raise InputError(rule, field="nodes")
        level = self._levels()
        reach: dict[_Vertex, int] = {leaf: 1 << leaf for leaf in leaves}
        everywhere = (1 << len(leaves)) - 1
        for one in level:
            links = upper.adj[one].items()
            ups = [link["gb_per_s"] for other, link in links if level[other] > level[one]]
            same = next((other for other in upper.adj[one] if level[other] == level[one]), None)
            if same is not None:
                rule = (
                    f"is linked to {self._name(same)} of the same level (a ring, mesh or torus); "
                    "switches above the leaves of a cluster are a tree or a fat tree"
                )
                raise self._error(one, rule)
            if len(set(ups)) > 1:
                raise self._error(
                    one, f"has unequal uplinks ({words(f'{rate:g}' for rate in ups)} GB/s)"
                )
            if not isinstance(one, int):
                self._require_wide_switch(one, level, reach, everywhere, sum(ups) if ups else None)

    def _require_wide_switch(
        self,
        switch: _Vertex,
        level: Mapping[_Vertex, int],
        reach: dict[_Vertex, int],
        everywhere: int,
        up: float | None,
    ) -> None:
        """Check one switch of a fat tree, and note which leaves are below it."""
        down, below = 0.0, 0
        for other, link in self._upper.adj[switch].items():
            if level[other] < level[switch]:
                down += link["gb_per_s"]
                below |= reach[other]
        reach[switch] = below
        if up is None:
            if below != everywhere:
                count, leaves = below.bit_count(), len(self._leaves)
                rule = (
                    f"has no links up and reaches {count} of {leaves} leaves; the top of a fat "
                    "tree reaches all"
                )
                raise self._error(switch, rule)
        elif up < down * _ENOUGH:
            rest = (
                known.uplink_gb_per_s for i, known in enumerate(self._leaves) if not below >> i & 1
            )
            self._require_rate(switch, up, min(down, sum(rest)))


@dataclass(frozen=True, slots=True)
class _Sum:
    """Sum of bandwidths, from which one can be taken away even if some are infinite."""

    finite: float = 0.0
    infinite: int = 0

    @classmethod
    def of(cls, rate: float) -> _Sum:
        return cls(0.0, 1) if math.isinf(rate) else cls(rate)

    @property
    def rate(self) -> float:
        return math.inf if self.infinite else self.finite

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(self.finite + other.finite, self.infinite + other.infinite)

    def __sub__(self, other: _Sum) -> _Sum:
        return _Sum(self.finite - other.finite, self.infinite - other.infinite)


def _error(names: Mapping[Key, str], key: Key, rule: str) -> InputError:
    return InputError(rule, field=f"nodes[{names[key]}]")
