"""Cluster specs in TOML.

::

    name = "two leaves"

    [gpu_type."My GPU"]          # only for GPUs that the catalog does not know
    memory_gib = 96
    price_per_hour = 2.5         # dollars; needed by the objective "cost" only

    [node_type.big]
    gpu_type = "A800-80GB"
    gpus = 8
    cpus = 96
    host_memory_gib = 1600
    nvlink_gb_per_s = 400
    rdma_gb_per_s = 100

    [[nodes]]
    type = "big"
    count = 4                    # default 1
    name = "a"                   # a-0 ... a-3; with count = 1 the name itself; default: the type
    leaf = "leaf-0"              # default leaf-0
    nvlink_domain = "rack-0"     # default: NVLink ends at the node

    [leaf.leaf-0]                # only for leaves whose uplinks are to be bounded
    uplink_gb_per_s = 200
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from morph_opt.clusters.locate import key_lines
from morph_opt.domain import GPU_TYPES, Cluster, GpuType, InputError, Leaf, Node, NodeType

_TOP = {"name", "gpu_type", "node_type", "nodes", "leaf"}
_NODE_TYPE = {
    "gpu_type": str,
    "gpus": int,
    "cpus": int,
    "host_memory_gib": float,
    "nvlink_gb_per_s": float,
    "rdma_gb_per_s": float,
}
_NODES = {"type": str, "count": int, "name": str, "leaf": str, "nvlink_domain": str}
_KINDS = {str: "text", int: "a whole number", float: "a number"}
_T = TypeVar("_T")
_ERROR_LINE = re.compile(r"\(at line (\d+), column \d+\)")


def read_cluster(path: Path) -> Cluster:
    """The cluster of a spec file.

    Raises
    ------
    InputError
        If the file is missing or breaks a rule; names file, line, field and rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read ({reason})", file=str(path)) from error
    return cluster_from_toml(text, file=str(path), name=path.stem)


def cluster_from_toml(text: str, *, file: str | None = None, name: str = "cluster") -> Cluster:
    """The cluster of a spec.

    Parameters
    ----------
    text
        The spec.
    file
        Shown in errors.
    name
        Name of a cluster whose spec has none.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _ERROR_LINE.search(str(error))
        line = int(found.group(1)) if found else None
        raise InputError(f"is not TOML: {error}", file=file, line=line) from error
    spec = _Spec(tables, key_lines(text), file)
    return spec.cluster(name)


def cluster_from_tables(tables: Mapping[str, Any], *, file: str | None = None) -> Cluster:
    """The cluster of a spec that is a table of a larger file (errors name no line)."""
    return _Spec(tables, {}, file).cluster("cluster")


class _Spec:
    """The tables of a spec with the lines that they stand in."""

    def __init__(self, tables: Mapping[str, Any], lines: Mapping[str, int], file: str | None):
        self._tables = tables
        self._lines = lines
        self._file = file

    def cluster(self, name: str) -> Cluster:
        """Build and validate."""
        self._known_keys("", self._tables, _TOP)
        gpu_types = dict(GPU_TYPES)
        for key, table in self._section("gpu_type").items():
            at = f"gpu_type.{key}"
            gpu_types[key] = self._gpu_type(at, key, table)
        types = {
            key: self._node_type(key, table, gpu_types)
            for key, table in self._section("node_type").items()
        }
        rows = self._tables.get("nodes", [])
        if not isinstance(rows, list) or not rows:
            raise self._error("nodes", "the cluster has no nodes ([[nodes]] is missing)")
        nodes: list[Node] = []
        for index, row in enumerate(rows):
            nodes += self._nodes(f"nodes[{index}]", row, types)
        leaves = tuple(
            self._leaf(key, table, {node.leaf for node in nodes})
            for key, table in self._section("leaf").items()
        )
        title = self._tables.get("name", name)
        return self._built("name", partial(Cluster, title, tuple(nodes), leaves))

    def _gpu_type(self, at: str, key: str, table: Mapping[str, Any]) -> GpuType:
        """A type; of one that the catalog knows the price alone may be given."""
        self._known_keys(at, table, {"memory_gib", "price_per_hour"})
        known = GPU_TYPES.get(key)
        price = known.price_per_hour if known else None
        if "price_per_hour" in table:
            price = self._value(at, table, "price_per_hour", float)
        if known and "memory_gib" not in table:
            return self._built(at, partial(GpuType, key, known.memory_gib, price))
        memory_gib = self._value(at, table, "memory_gib", float)
        return self._built(at, partial(GpuType, key, memory_gib, price))

    def _leaf(self, key: str, table: Mapping[str, Any], in_use: set[str]) -> Leaf:
        at = f"leaf.{key}"
        self._known_keys(at, table, {"uplink_gb_per_s"})
        uplink_gb_per_s = self._value(at, table, "uplink_gb_per_s", float)
        if key not in in_use:
            raise self._error(at, f"no node hangs on it; leaves are {', '.join(sorted(in_use))}")
        return self._built(at, partial(Leaf, key, uplink_gb_per_s))

    def _node_type(
        self, key: str, table: Mapping[str, Any], gpu_types: Mapping[str, GpuType]
    ) -> NodeType:
        at = f"node_type.{key}"
        self._known_keys(at, table, set(_NODE_TYPE))
        values = {name: self._value(at, table, name, kind) for name, kind in _NODE_TYPE.items()}
        gpu_type = gpu_types.get(values["gpu_type"])
        if gpu_type is None:
            known = ", ".join(gpu_types)
            rule = f"unknown GPU type {values['gpu_type']!r}; known are {known}"
            raise self._error(f"{at}.gpu_type", rule)
        return self._built(at, partial(NodeType, key, **(values | {"gpu_type": gpu_type})))

    def _nodes(self, at: str, row: Any, types: Mapping[str, NodeType]) -> list[Node]:
        if not isinstance(row, dict):
            raise self._error(at, "must be a table")
        self._known_keys(at, row, set(_NODES))
        values = {
            name: self._value(at, row, name, kind)
            for name, kind in _NODES.items()
            if name in row or name == "type"
        }
        node_type = types.get(values["type"])
        if node_type is None:
            rule = f"unknown node type {values['type']!r}; known are {', '.join(types) or 'none'}"
            raise self._error(f"{at}.type", rule)
        count = values.get("count", 1)
        if count < 1:
            raise self._error(f"{at}.count", f"must be at least 1, got {count}")
        base = values.get("name", values["type"])
        width = len(str(count - 1))
        names = [base] if count == 1 else [f"{base}-{i:0{width}d}" for i in range(count)]
        leaf, domain = values.get("leaf", "leaf-0"), values.get("nvlink_domain")
        return [self._built(at, partial(Node, n, node_type, leaf, domain)) for n in names]

    def _section(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        section = self._tables.get(name, {})
        if not isinstance(section, dict) or not all(isinstance(t, dict) for t in section.values()):
            raise self._error(name, f"must hold tables [{name}.NAME]")
        return section

    def _value(self, at: str, table: Mapping[str, Any], name: str, kind: type) -> Any:
        if name not in table:
            raise self._error(at, f"{name} is missing", line_of=at)
        value = table[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._error(f"{at}.{name}", f"must be {_KINDS[kind]}, got {value!r}")
        return value

    def _known_keys(self, at: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                path = f"{at}.{key}" if at else key
                raise self._error(path, f"unknown key; known are {', '.join(sorted(known))}")

    def _built(self, at: str, build: Callable[[], _T]) -> _T:
        """Call a constructor; its complaint gets file and line."""
        try:
            return build()
        except InputError as error:
            field = (error.field or at).rsplit(".", 1)[-1]
            line = self._lines.get(f"{at}.{field}", self._lines.get(at))
            raise error.located(file=self._file, line=line, field=at) from error

    def _error(self, field: str, rule: str, line_of: str | None = None) -> InputError:
        line = self._lines.get(line_of or field)
        return InputError(rule, file=self._file, line=line, field=field)
