"""Objects of a Kueue site on the nodes of a cluster: flavors, pods and topologies as bits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain.errors import some
from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.files import KueueFiles, read_files
from morph_opt.inputs.kueue.kube import HOST, NODE_NAME, Toleration, holds, is_gpu, tolerates
from morph_opt.inputs.kueue.queues import Flavor, Group, Queue, Queues
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.kueue.amounts import of_node
from morph_opt.scheduling.kueue.domains import MANY, PODS, Topology, TopologyNode
from morph_opt.scheduling.kueue.site import GATES, Settings
from morph_opt.scheduling.kueue.workloads import PER_UNIT, PodSet, TopologyRequest, exact

GPU = "nvidia.com/gpu"
ALL = "all"
"""Queue of every job where no files are given."""

PODS_PER_NODE = 110
"""Pods that a node takes, Kubernetes's default; nodes of a cluster state none."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Placement of admitted workloads, which Kueue leaves to the scheduler of Kubernetes.

    Parameters
    ----------
    pods
        Whether pods are placed one by one, so that those placed hold GPUs while others wait, and
        not all of a workload together.
    spread
        Whether the emptiest nodes are taken first, and not the fullest.
    topology
        Place in a topology that jobs without a Workload object ask for; None for none.
    ready_s, backoff_s, most_backoff_s, blocks
        See `morph_opt.inputs.kueue.files.KueueFiles`.
    """

    pods: bool = False
    spread: bool = False
    topology: TopologyRequest | None = None
    ready_s: float | None = None
    backoff_s: float = 60.0
    most_backoff_s: float = 3_600.0
    blocks: bool = False


_WORDS = {"placement": ("gang", "pods"), "nodes": ("packed", "spread")}
_TOPOLOGY = re.compile(r"(required|preferred):(.+)|(unconstrained)")


@dataclass(frozen=True, slots=True)
class KueueSite:
    """Objects of a site with the placement of its pods.

    Parameters
    ----------
    files
        Its objects; None for one queue over all GPUs.
    placing
        See the class.
    """

    files: KueueFiles | None = None
    placing: Placing = Placing()

    @classmethod
    def read(cls, text: str) -> KueueSite:
        """Read ``FILE,FILE,...``, with words like ``placement=pods`` among them.

        Of ``+FILE`` only kinds of objects count that the other files do not have.

        Raises
        ------
        InputError
            If a file cannot be read, or a word is unknown.
        """
        parts = [one for one in text.split(",") if one]
        named = [part for part in parts if "=" not in part]
        rest = [part[1:] for part in named if part.startswith("+")]
        paths = [part for part in named if not part.startswith("+")]
        words = dict(part.split("=", 1) for part in parts if "=" in part)
        asked = _TOPOLOGY.fullmatch(words.get("topology", ""))
        for name, value in words.items():
            if name == "topology" and asked is not None:
                continue
            if value not in _WORDS.get(name, ()):
                known = " or ".join(f"{k}={v}" for k, values in _WORDS.items() for v in values)
                known += " or topology=unconstrained or topology=required:LEVEL"
                known += " or topology=preferred:LEVEL"
                raise InputError(f"knows {known}, got {name}={value}", field="--policy kueue")
        files = read_files(paths, rest) if paths or rest else None
        placing = Placing(words.get("placement") == "pods", words.get("nodes") == "spread")
        if files is not None:
            placing = replace(
                placing,
                topology=None if asked is None else _request(files, asked),
                ready_s=files.ready_s,
                backoff_s=files.backoff_s,
                most_backoff_s=files.most_backoff_s,
                blocks=files.blocks,
            )
        return cls(files, placing)

    def settings(self) -> Settings:
        """Return the settings of Kueue."""
        files, usual = self.files, Settings()
        if files is None:
            return usual
        gates: dict[str, Any] = {
            GATES[name]: on for name, on in files.gates.items() if name in GATES
        }
        return replace(
            usual,
            **gates,
            fair_sharing=files.fair_sharing,
            strategies=files.strategies or usual.strategies,
            by_eviction=files.by_eviction,
            half_life_s=files.half_life_s,
            sampling_s=files.sampling_s,
            resource_weights=files.resource_weights,
        )

    def unmodelled(self) -> Iterator[str]:
        """Yield what the objects state and the policy does not follow."""
        if self.files is None:
            return
        flavors, known = self.files.queues.flavors.values(), self.files.levels
        for one in flavors:
            if one.topology and one.topology not in known:
                yield f"topology {one.topology} of flavor {one.name}, which is in no file"
        for field, names in sorted(self.files.unmodelled.items()):
            named = [name for name in names if name]
            yield f"{field} ({some(named)})" if named else field
        yield from (f"feature gate {name}" for name in self.files.gates if name not in GATES)


def _request(files: KueueFiles, asked: re.Match[str]) -> TopologyRequest:
    """Return the request of a place in a topology that a word states."""
    how, level, anywhere = asked.groups()
    known = dict.fromkeys(one for levels in files.levels.values() for one in levels)
    if level and level not in known:
        rule = f"topology={how}:{level} names no level of a topology"
        rule += f"; the files have {some([*known])}" if known else "; the files have no topology"
        raise InputError(rule, field="--policy kueue")
    if anywhere:
        return TopologyRequest(unconstrained=True)
    return TopologyRequest(level, "") if how == "required" else TopologyRequest("", level)


class Places:
    """Flavors of a site on the nodes of a cluster, as bits.

    Parameters
    ----------
    site, cluster
        The nodes of a flavor are those with its labels if the files have nodes of these names;
        else those whose GPU type a label of the flavor, or its name, names.

    Raises
    ------
    InputError
        If a flavor names no type of the cluster.
    """

    def __init__(self, site: KueueSite, cluster: Cluster) -> None:
        self.cluster = cluster
        self._nodes = site.files.nodes if site.files is not None else {}
        self._levels = site.files.levels if site.files is not None else {}
        self._known = {node.name for node in cluster.nodes} <= set(self._nodes)
        queues = site.files.queues.queues.values() if site.files is not None else ()
        self._covered = {r for one in queues for group in one.groups for r in group.resources}
        self._gpus = {r for r in self._covered if is_gpu(r)} or {GPU}
        self._found: dict[str, int] = {}
        self._open: dict[object, int] = {}

    def of(self, flavor: Flavor) -> int:
        """Return the nodes of a flavor."""
        if flavor.name not in self._found:
            self._found[flavor.name] = self._find(flavor)
        return self._found[flavor.name]

    def open_to(self, pods: PodSet, flavor: Flavor) -> int:
        """Return the nodes of a flavor whose labels and taints suit pods, as far as known."""
        nodes = self.of(flavor)
        if not self._known:
            return nodes
        bears = (*pods.tolerations, *flavor.tolerations)
        key = flavor.name, bears, tuple(sorted(pods.selector.items())), pods.terms
        if key not in self._open:
            suits = (1 << at for at in bits(nodes) if self._suits(at, pods, bears))
            self._open[key] = sum(suits)
        return self._open[key]

    def _suits(self, at: int, pods: PodSet, bears: Iterable[Toleration]) -> bool:
        name = self.cluster.nodes[at].name
        node = self._nodes[name]
        # GPU nodes are often tainted for GPU jobs alone; such a taint names the resource.
        taints = (one for one in node.taints if not one[0].endswith("/gpu"))
        if not all(tolerates(bears, one) for one in taints):
            return False
        if not pods.selector.items() <= node.labels.items():
            return False
        labels = {**node.labels, NODE_NAME: name}
        terms = pods.terms
        return terms is None or any(t and all(holds(e, labels) for e in t) for t in terms)

    def _find(self, flavor: Flavor) -> int:
        nodes = self.cluster.nodes
        if self._known:
            suits = [flavor.labels.items() <= self._nodes[n.name].labels.items() for n in nodes]
        elif not flavor.labels:
            return (1 << len(nodes)) - 1
        else:
            named = [_words(one) for one in (*flavor.labels.values(), flavor.name)]
            kinds = [_words(node.type.gpu_type.name) for node in nodes]
            suits = [any(kind <= words for words in named) for kind in kinds]
            if not any(suits):
                known = ", ".join(dict.fromkeys(node.type.gpu_type.name for node in nodes))
                rule = f"flavor {flavor.name} names no GPU type of the cluster ({known}) by a label"
                raise InputError(f"{rule} or its name; give its nodes", field="--policy kueue")
        return sum(1 << at for at, one in enumerate(suits) if one)

    def topologies(self, flavors: Iterable[Flavor], down: int) -> dict[str, Topology]:
        """Return the topologies of flavors, without the nodes that are down.

        Flavors without a topology, or whose topology is in no file, are left out.

        Raises
        ------
        InputError
            If labels of nodes that the levels of a topology name are in no file.
        """
        known = (one for one in flavors if one.topology in self._levels)
        return {one.name: self._topology(one, down) for one in known}

    def _topology(self, flavor: Flavor, down: int) -> Topology:
        levels = self._levels[flavor.topology]
        if not self._known and levels != (HOST,):
            rule = f"topology {flavor.topology} of flavor {flavor.name} has levels "
            rule += f"{', '.join(levels)}, labels of nodes: give the nodes of the cluster by name"
            raise InputError(f"{rule}, or leave out the topology", field="--policy kueue")
        nodes = []
        for at in bits(self.of(flavor) & ~down):
            name = self.cluster.nodes[at].name
            nodes.append(TopologyNode(name, self.labels_of(at), self._amounts(at)))
        return Topology(levels, nodes, flavor.tolerations)

    def _amounts(self, node: int) -> dict[str, int]:
        """Return thousandths of what pods may have of a node; without limit if it is not known."""
        kind = self.cluster.nodes[node].type
        known = self._nodes.get(self.cluster.nodes[node].name)
        stated = {} if known is None else known.amounts
        found = {r: exact(n) for r, n in {**of_node(kind), PODS: PODS_PER_NODE, **stated}.items()}
        # The cluster counts GPUs that are absent for now, and a job of the round holds these.
        named = {r for r in stated if is_gpu(r)} or self._gpus
        found |= dict.fromkeys(named, kind.gpus * PER_UNIT)
        return {r: found.get(r) or MANY for r in {*found, *self._covered}}

    def within(self, levels: Iterable[str], values: Iterable[str]) -> int:
        """Return the nodes of a domain of a topology."""
        wanted = dict(zip(levels, values, strict=True)).items()
        nodes = range(len(self.cluster.nodes))
        return sum(1 << node for node in nodes if wanted <= self.labels_of(node).items())

    def labels_of(self, node: int) -> dict[str, str]:
        """Return the labels of a node, of which the name of its host is always known."""
        name = self.cluster.nodes[node].name
        known = self._nodes.get(name)
        return {HOST: name} | (dict(known.labels) if known is not None else {})


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower()))


def one_queue(cluster: Cluster) -> Queues:
    """Return one queue over all GPUs of a cluster, with a flavor of each GPU type."""
    gpus: dict[str, int] = {}
    for node in cluster.nodes:
        kind = node.type.gpu_type.name
        gpus[kind] = gpus.get(kind, 0) + node.type.gpus
    quotas = {(kind, GPU): Quota(count) for kind, count in gpus.items()}
    queue = Queue(ALL, groups=(Group((GPU,), tuple(gpus)),), quotas=quotas)
    flavors = {kind: Flavor(kind, {"type": kind}) for kind in gpus}
    return Queues({ALL: queue}, {}, flavors)
