"""A round by enumeration: from a snapshot's document and the docs alone.

It knows no table, no model, no belief and no rule row of the engine: it reads the document as any
program would, lists for every job every placement that the docs allow, and tries all of them
together. ``python -m tests.round.enumeration --rounds 5000 --seed 1`` compares random snapshots
with both formulations.

A decision is one option per job: nothing, a stay, or a start on named nodes. A start where the job
runs already, in the same plan and counts, is left out: it is a stay, and worth no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import permutations
from typing import Any

UNKNOWN_S = 1e9
"""Seconds per iteration of a stay of which the speeds say nothing: the job is to be moved."""

SPANS = ("node", "nvlink", "leaf", "pod")
SIDES = ("cpus", "host_memory_gib", "rdma_gb_per_s", "local_ssd_gib")
SLACK = 1e-9

Document = dict[str, Any]


@dataclass(frozen=True)
class Option:
    """What one job may do: its row (None: unknown), and how many GPUs where."""

    kind: str
    job: int
    row: Document | None = None
    parts: tuple[tuple[str, int], ...] = ()

    @property
    def gpus(self) -> int:
        return sum(count for _, count in self.parts)


@dataclass(frozen=True)
class Best:
    """What enumeration says of a round.

    ``promised``: whether all promises can be kept at once; ``settled``: the best guarantee level
    where they cannot; ``value``: the least and the most that the objective may come to.
    """

    promised: bool | None
    settled: float
    value: tuple[float, float]


@dataclass
class World:
    """A snapshot as the docs read it."""

    document: Document
    _found: dict[Any, Any] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Document]:
        return list(self.document["jobs"])

    @property
    def rules(self) -> Document:
        return self.document.get("rules") or {}

    @cached_property
    def nodes(self) -> dict[str, Document]:
        return {node["name"]: node for node in self.document["cluster"]["nodes"]}

    @cached_property
    def kinds(self) -> dict[str, Document]:
        return {kind["name"]: kind for kind in self.document["cluster"]["node_types"]}

    @cached_property
    def uplinks(self) -> dict[str, float]:
        found = {str(node.get("leaf", "leaf-0")): math.inf for node in self.nodes.values()}
        if len(found) > 1:
            for leaf in self.document["cluster"].get("leaves", []):
                found[leaf["name"]] = leaf["uplink_gb_per_s"]
        return found

    # --- placements and their rows ------------------------------------------------------------

    def leaf(self, node: str) -> str:
        return str(self.nodes[node].get("leaf", "leaf-0"))

    def span(self, nodes: Sequence[str]) -> str:
        """The tightest of node, NVLink domain, leaf and pod that contains these nodes."""
        if len(nodes) == 1:
            return "node"
        domains = {self.nodes[node].get("nvlink_domain") for node in nodes}
        if len(domains) == 1 and None not in domains:
            return "nvlink"
        return "leaf" if len({self.leaf(node) for node in nodes}) == 1 else "pod"

    def row(self, model: str, kind: str, shape: str, plan: str, span: str) -> Document | None:
        """The row of a configuration in a span: one for that span goes before one for any."""
        rows = [
            row for row in self.document["speeds"]["rows"]
            if (row["model"], row["node_type"], row["shape"], row["plan"])
            == (model, kind, shape, plan)
        ]  # fmt: skip
        own = [row for row in rows if row.get("span") == span]
        return next(iter(own + [row for row in rows if "span" not in row]), None)

    def configurations(self, job: int) -> list[tuple[str, str, str]]:
        """Node type, shape and plan of everything listed for the job's model."""
        model = self.jobs[job]["model"]
        found = [
            (row["node_type"], row["shape"], row["plan"])
            for row in self.document["speeds"]["rows"]
            if row["model"] == model
        ]
        return list(dict.fromkeys(found))

    def placements(self, kind: str, shape: str, among: Sequence[str]) -> Iterator[Any]:
        """Every way to give the parts of a shape distinct nodes of a type."""
        parts = [int(part) for part in shape.split("+")]
        usable = [node for node in among if self.nodes[node]["type"] == kind]
        seen = set()
        for where in permutations(usable, len(parts)):
            placed = tuple(sorted(zip(where, parts, strict=True)))
            if placed not in seen:
                seen.add(placed)
                yield placed

    def stay(self, job: int) -> Option:
        """The stay of a job, or nothing if it does not run."""
        held = self.jobs[job].get("running")
        if held is None:
            return Option("nothing", job)
        parts = tuple(sorted((part["node"], len(part["gpus"])) for part in held["nodes"]))
        shape = "+".join(str(n) for n in sorted((n for _, n in parts), reverse=True))
        names = [node for node, _ in parts]
        kind = self.nodes[held["nodes"][0]["node"]]["type"]
        row = self.row(self.jobs[job]["model"], kind, shape, held["plan"], self.span(names))
        return Option("stay", job, row, parts)

    def starts(self, job: int, among: Sequence[str]) -> Iterator[Option]:
        """Every start on these nodes, each with the row of its own span."""
        stay, held = self.stay(job), self.jobs[job].get("running") or {}
        for kind, shape, plan in self.configurations(job):
            for parts in self.placements(kind, shape, among):
                names = [node for node, _ in parts]
                row = self.row(self.jobs[job]["model"], kind, shape, plan, self.span(names))
                same = stay.kind == "stay" and (parts, plan) == (stay.parts, held.get("plan"))
                if row is not None and not same:
                    yield Option("start", job, row, parts)

    # --- capacity -----------------------------------------------------------------------------

    def needs(self, option: Option, gpus: int) -> tuple[float, ...]:
        """GPUs, threads, memory, network share, local SSD of a part: the last whatever its GPUs."""
        row, job = option.row or {}, self.jobs[option.job]
        cpus, memory, rdma, ssd = (float(row.get(side, 0)) for side in SIDES)
        cpus = max(float(job.get("cpus_per_gpu", 0)), cpus)
        ssd = max(float(job.get("local_ssd_gib", 0)), ssd)
        return gpus, gpus * cpus, gpus * memory, gpus * rdma, ssd

    def fits(self, decision: Sequence[Option]) -> bool:
        """Whether no node and no uplink carries more than it has."""
        used = {node: [0.0] * 5 for node in self.nodes}
        links = dict.fromkeys(self.uplinks, 0.0)
        for option in decision:
            if not option.parts:
                continue
            crosses = self.span([node for node, _ in option.parts]) == "pod"
            for node, gpus in option.parts:
                needs = self.needs(option, gpus)
                used[node] = [a + b for a, b in zip(used[node], needs, strict=True)]
                links[self.leaf(node)] += needs[3] if crosses else 0.0
        for node, amounts in used.items():
            kind = self.kinds[self.nodes[node]["type"]]
            limits = [kind["gpus"], *(kind.get(side, 0.0) for side in SIDES)]
            if any(a > b + SLACK for a, b in zip(amounts, limits, strict=True)):
                return False
        return all(links[leaf] <= limit + SLACK for leaf, limit in self.uplinks.items())

    # --- rules --------------------------------------------------------------------------------

    def named(self, word: str, job: int) -> list[Document]:
        """Rules of a kind whose patterns match a job."""
        name = self.jobs[job]["name"]
        return [
            rule for rule in self.rules.get(word, [])
            if any(fnmatchcase(name, pattern) for pattern in rule.get("jobs", ["*"]))
        ]  # fmt: skip

    def allowed_nodes(self, job: int) -> set[str]:
        """Nodes that every node rule of a job lets it use."""
        found = set(self.nodes)
        for rule in self.named("node_rule", job):
            for node in list(found):
                kind = self.kinds[self.nodes[node]["type"]]["gpu_type"]
                only = [(node, "only_nodes"), (kind, "only_gpu_types")]
                never = [(node, "not_nodes"), (kind, "not_gpu_types")]
                if any(
                    rule.get(key) and not any(fnmatchcase(name, p) for p in rule[key])
                    for name, key in only
                ) or any(
                    any(fnmatchcase(name, p) for p in rule.get(key, [])) for name, key in never
                ):
                    found.discard(node)
        return found

    def windows(self, lead: bool) -> set[str]:
        """Nodes in maintenance in this round, or also those in the lead to one."""
        now_s, end_s = self.document["time_s"], self.document["time_s"]
        end_s += self.document["interval_s"]
        found: set[str] = set()
        for rule in self.rules.get("maintenance", []):
            begins_s = rule["start_s"] - (rule.get("lead_s", 0.0) if lead else 0.0)
            if now_s < rule["end_s"] and end_s > begins_s:
                found |= {n for n in self.nodes if any(fnmatchcase(n, p) for p in rule["nodes"])}
        return found

    def in_limits(self, job: int, gpus: int) -> bool:
        """Whether all gang limits of a job allow a number of GPUs."""
        limits = self.named("gang_limit", job)
        return all(r.get("least", 1) <= gpus <= r.get("most", math.inf) for r in limits)

    def kept_in_place(self, job: int) -> bool:
        """Whether a rule forbids to move a running job."""
        known = self.jobs[job]
        if not known.get("running"):
            return False
        last_s = known.get("last_start_s")
        young = last_s is not None and any(
            self.document["time_s"] - last_s < rule["seconds"]
            for rule in self.named("minimum_run", job)
        )
        return young or bool(self.named("non_preemptible", job))

    def at_its_limit(self, job: int) -> bool:
        """Whether another start would be one restart too many within the hour."""
        known, now_s = self.jobs[job], self.document["time_s"]
        if known.get("first_start_s") is None:
            return False
        restarts = [
            t for t in known.get("recent_starts_s", [])
            if now_s - t < 3600.0 and t != known["first_start_s"]
        ]  # fmt: skip
        return any(len(restarts) >= rule["per_hour"] for rule in self.named("restart_limit", job))

    def open_nodes(self, job: int) -> list[str]:
        """Nodes on which something new of a job may be placed."""
        closed = {n for n, node in self.nodes.items() if node.get("status", "up") != "up"}
        return sorted(self.allowed_nodes(job) - closed - self.windows(lead=True))

    def options(self, job: int) -> list[Option]:
        """Everything that a job may do as far as only its own rules go."""
        stay = self.stay(job)
        found: list[Option] = []
        if stay.kind == "stay":
            here = {node for node, _ in stay.parts}
            evicted = here & self.windows(lead=False) or not here <= self.allowed_nodes(job)
            if not evicted and self.in_limits(job, stay.gpus):
                found.append(stay)
        if self.kept_in_place(job):
            return found
        found.append(Option("nothing", job))
        if not self.at_its_limit(job):
            found += [
                option for option in self.starts(job, self.open_nodes(job))
                if self.in_limits(job, option.gpus) and self.fits([option])
            ]  # fmt: skip
        return found

    def could_use(self, job: int) -> int:
        """GPUs that a job holds or that its largest useful configuration has."""
        held = self.stay(job).gpus
        if self.at_its_limit(job):
            return held
        useful = [
            option for option in self.starts_anew(job)
            if self.in_limits(job, option.gpus) and self.fits([option])
        ]  # fmt: skip
        configurations = {self.scoped(option): option for option in useful}
        largest = held
        for scoped, option in configurations.items():
            if not any(self.dominates(other, scoped) for other in configurations):
                largest = max(largest, option.gpus)
        return largest

    def starts_anew(self, job: int) -> Iterator[Option]:
        """Starts on empty nodes, where it runs as well."""
        for kind, shape, plan in self.configurations(job):
            for parts in self.placements(kind, shape, self.open_nodes(job)):
                names = [node for node, _ in parts]
                row = self.row(self.jobs[job]["model"], kind, shape, plan, self.span(names))
                if row is not None:
                    yield Option("start", job, row, parts)

    def scoped(self, option: Option) -> Scoped:
        """What dominance looks at."""
        assert option.row is not None
        span = self.span([node for node, _ in option.parts])
        shape = tuple(int(part) for part in option.row["shape"].split("+"))
        kind, plan = option.row["node_type"], option.row["plan"]
        strict = not all(
            self._covers(
                self.row(option.row["model"], kind, option.row["shape"], plan, tight), option
            )
            for tight in self.spans_of(kind)
            if span != "node" and SPANS.index(tight) < SPANS.index(span)
        )
        return Scoped(
            kind, shape, span, strict, option.row["iteration_s"], self.needs(option, 1), plan
        )

    def _covers(self, tight: Document | None, wide: Option) -> bool:
        if tight is None or wide.row is None:
            return False
        mine = self.needs(Option("start", wide.job, tight), 1)
        as_fast = tight["iteration_s"] <= wide.row["iteration_s"]
        return bool(as_fast and all(a <= b for a, b in zip(mine, self.needs(wide, 1), strict=True)))

    def spans_of(self, kind: str) -> list[str]:
        """Spans that placements on several nodes of a type may have."""
        nodes = [node for node in self.nodes.values() if node["type"] == kind]
        domains = [n["nvlink_domain"] for n in nodes if n.get("nvlink_domain")]
        found = ["nvlink"] if len(set(domains)) < len(domains) else []
        found.append("leaf")
        return [*found, "pod"] if len({self.leaf(n["name"]) for n in nodes}) > 1 else found

    @staticmethod
    def dominates(a: Scoped, b: Scoped) -> bool:
        """From the page of the round; of two equal ones the one that sorts first."""
        if a == b or a.kind != b.kind or a.iteration_s > b.iteration_s:
            return False
        if len(a.shape) > len(b.shape) or not all(
            x <= y and all(x * p <= y * q for p, q in zip(a.needs[:-1], b.needs[:-1], strict=True))
            for x, y in zip(a.shape, b.shape, strict=False)
        ):
            return False
        if a.needs[-1] > b.needs[-1]:
            return False
        if a.strict:
            reaches = b.strict and (a.span, len(a.shape)) == (b.span, len(b.shape))
        else:
            reaches = a.span in ("node", b.span) or (a.span, b.span) == ("leaf", "nvlink")
        if not reaches:
            return False
        return not World.dominates(b, a) if repr(a) > repr(b) else True

    def quotas_hold(self, decision: Sequence[Option]) -> bool:
        """Quotas with borrowing, from what tenants hold after the decision."""
        quotas = self.rules.get("quota", [])
        borrowed = 0.0
        for quota in quotas:
            used = sum(o.gpus for o in decision if self._tenant(o.job) == quota["tenant"])
            more = quota.get("borrow_gpus", 0)
            more = math.inf if more == "unlimited" else more
            if used > quota["gpus"] + more:
                return False
            borrowed += max(0, used - quota["gpus"])
        return borrowed <= self.pool if borrowed else True

    def _tenant(self, job: int) -> str:
        return str(self.jobs[job].get("tenant", "default"))

    @cached_property
    def pool(self) -> float:
        """What owners leave to borrowers, and not less than what is kept in place beyond quotas."""
        idle = kept = 0
        for quota in self.rules.get("quota", []):
            mine = [j for j in range(len(self.jobs)) if self._tenant(j) == quota["tenant"]]
            idle += max(0, quota["gpus"] - sum(self.could_use(j) for j in mine))
            held = sum(self.stay(j).gpus for j in mine if self.kept_in_place(j))
            kept += max(0, held - quota["gpus"])
        return max(idle, kept)

    # --- worth --------------------------------------------------------------------------------

    def asked_s(self, job: int) -> float:
        """Seconds per iteration of the request: of its fastest placement on the empty cluster.

        Of all that the cluster has, out of service or not; the slowest placement of anything where
        the request has none.
        """
        if ("asked", job) in self._found:
            return float(self._found["asked", job])
        mine, slowest = [], 0.0
        for kind, shape, plan in self.configurations(job):
            for parts in self.placements(kind, shape, sorted(self.nodes)):
                span = self.span([node for node, _ in parts])
                row = self.row(self.jobs[job]["model"], kind, shape, plan, span)
                if row is not None and self.fits([Option("start", job, row, parts)]):
                    mine += [row["iteration_s"]] if self.asks(job, row) else []
                    slowest = max(slowest, row["iteration_s"])
        self._found["asked", job] = min(mine) if mine else slowest or 1.0
        return float(self._found["asked", job])

    def asks(self, job: int, row: Document) -> bool:
        """Whether a row is of the GPUs and the plan that a job asks for."""
        gpus = sum(int(part) for part in row["shape"].split("+"))
        known = self.jobs[job]
        same = (row["plan"], gpus) == (known["requested_plan"], known["requested_gpus"])
        return bool(same and row["model"] == known["model"])

    def seconds(self, option: Option) -> float:
        return float(option.row["iteration_s"]) if option.row else UNKNOWN_S

    def left(self, job: int) -> float:
        known = self.jobs[job]
        return float(max(0.0, known["iterations"] - known.get("iterations_done", 0.0)))

    def ahead_s(self, option: Option) -> float:
        """Start-up that is ahead: what is left of a stay, or the price of a start."""
        known = self.jobs[option.job]
        if option.kind != "start":
            return float(known.get("restart_left_s", 0.0))
        kept = known.get("running") or known.get("last_held")
        # A start-up that is cut short leaves nothing.
        if (
            kept is None
            or known.get("restart_left_s", 0.0) > 0.0
            or option.row is None
            or kept["plan"] != option.row["plan"]
        ):
            return float(known["restart_s"])
        had = tuple(sorted((part["node"], len(part["gpus"])) for part in kept["nodes"]))
        if sum(count for _, count in had) != option.gpus:
            return float(known["restart_s"])
        migrate_s = known.get("migrate_s", known["restart_s"])
        return float(known.get("resume_s", migrate_s) if had == option.parts else migrate_s)

    def promise_kept(self, option: Option) -> bool:
        if option.kind == "nothing":
            return False
        return self.asked_s(option.job) / self.seconds(option) >= 1 - 1e-9

    def settled(self, option: Option) -> float:
        """Worth of an option to the level of guarantees."""
        known = self.jobs[option.job]
        if not known.get("guaranteed") or not self.promise_kept(option):
            return 0.0
        ahead_s = self.ahead_s(option)
        work_s = self.left(option.job) * self.asked_s(option.job)
        return 1.0 / max(self.document["interval_s"], ahead_s + work_s)

    def worth(self, option: Option, objective: str) -> float:
        """Worth of an option to the objective."""
        if option.kind == "nothing":
            return 0.0
        known, horizon_s = self.jobs[option.job], self.document["interval_s"]
        start, ahead_s = option.kind == "start", self.ahead_s(option)
        weight = known.get("weight", 1.0)
        if objective == "throughput":
            speed = self.asked_s(option.job) / self.seconds(option)
            return float(weight * speed * horizon_s / (horizon_s + ahead_s))
        ahead_s *= 2.0 if start else 1.0
        return float(
            weight / max(horizon_s, ahead_s + self.left(option.job) * self.seconds(option))
        )

    # --- the round ----------------------------------------------------------------------------

    def decisions(self) -> Iterator[tuple[Option, ...]]:
        """Every decision that the docs allow."""
        options = [self.options(job) for job in range(len(self.jobs))]

        def descend(chosen: tuple[Option, ...]) -> Iterator[tuple[Option, ...]]:
            if len(chosen) == len(options):
                if self.quotas_hold(chosen):
                    yield chosen
                return
            for option in options[len(chosen)]:
                more = (*chosen, option)
                if option.kind == "nothing" or self.fits(more):
                    yield from descend(more)

        yield from descend(())

    def best(self, objective: str) -> Best | None:
        """The optimum under ranked goals; None if the rules allow nothing."""
        promised_jobs = [j for j, job in enumerate(self.jobs) if job.get("guaranteed")]
        found: list[tuple[bool, float, float]] = []
        for decision in self.decisions():
            whole = all(self.promise_kept(decision[j]) for j in promised_jobs)
            settled = sum(self.settled(option) for option in decision)
            found.append((whole, settled, sum(self.worth(o, objective) for o in decision)))
        if not found:
            return None
        if not promised_jobs:
            value = max(worth for _, _, worth in found)
            return Best(None, 0.0, (value, value))
        if any(whole for whole, _, _ in found):
            value = max(worth for whole, _, worth in found if whole)
            return Best(True, 0.0, (value, value))
        most = max(settled for _, settled, _ in found)
        # Ranks hold up to a slack, so of near ties either may be taken.
        near = max(worth for _, settled, worth in found if settled >= most * (1 - 3e-6))
        strict = max(worth for _, settled, worth in found if settled >= most * (1 - 1e-12))
        return Best(False, most, (strict, near))

    def read(self, decided: Document) -> tuple[Option, ...]:
        """A decision's document as options; one that is none is refused by `allows`."""
        found = []
        for job, entry in enumerate(decided["jobs"]):
            parts = tuple(sorted((part["node"], len(part["gpus"])) for part in entry["nodes"]))
            names = [node for node, _ in parts]
            if entry["action"] == "queue":
                found.append(Option("nothing", job))
            elif entry["action"] == "stay":
                found.append(self.stay(job))
            else:
                shape = "+".join(str(n) for n in sorted((n for _, n in parts), reverse=True))
                kind = self.nodes[names[0]]["type"]
                row = self.row(
                    self.jobs[job]["model"], kind, shape, entry["plan"], self.span(names)
                )
                found.append(Option("start", job, row, parts))
        return tuple(found)

    def allows(self, decision: Sequence[Option]) -> bool:
        """Whether a decision is one that enumeration comes across."""
        mine = all(option in self.options(option.job) for option in decision)
        return mine and self.fits(decision) and self.quotas_hold(decision)


@dataclass(frozen=True)
class Scoped:
    """A configuration with where it may lie, for dominance."""

    kind: str
    shape: tuple[int, ...]
    span: str
    strict: bool
    iteration_s: float
    needs: tuple[float, ...]
    plan: str
