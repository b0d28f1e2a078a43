"""Audit of queues and limits: what each holds, in terms of jobs, nodes and GPUs.

It shares no code with the rows of `decision.rules.quota_rows` and `decision.rules.limits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import Assignment, Job, JobState, RoundState
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches

Held = Mapping[str, Assignment]
"""Assignments by job."""


class Organisation:
    """Queues and limits of a round, as they are written.

    Parameters
    ----------
    state
        The round.
    queues, limits
        Rules of the operator.
    """

    def __init__(
        self, state: RoundState, queues: Sequence[Queue], limits: Sequence[RunningLimit]
    ) -> None:
        self._state = state
        self._limits = limits
        self._queues = {queue.name: queue for queue in queues}
        self._children: dict[str, list[str]] = {}
        for queue in queues:
            self._children.setdefault(queue.parent, []).append(queue.name)
        self._gpu_type = {node.type.name: node.type.gpu_type.name for node in state.cluster.nodes}
        self._path: dict[str, str] = {}
        for root in queues:
            if root.parent not in self._queues:
                self._name_paths(root.name, "")
        self._of_tenant = {path: name for name, path in self._path.items()}
        self._of_tenant |= {name: name for name in self._queues}
        self._named = cache(self._named_by)
        self._could_have = cache(self._most_of_queue)

    @classmethod
    def of(cls, state: RoundState, rules: OperatorRules) -> Organisation:
        """Return the queues and limits of the operator's rules."""
        return cls(
            state,
            [rule for rule in rules.rules if isinstance(rule, Queue)],
            [rule for rule in rules.rules if isinstance(rule, RunningLimit)],
        )

    def _name_paths(self, name: str, above: str) -> None:
        within = not above or name.startswith(f"{above}.")
        self._path[name] = name if within else f"{above}.{name}"
        for child in self._children.get(name, ()):
            self._name_paths(child, self._path[name])

    # ---------------------------------------------------------------- limits

    def _named_by(self, limit: int, tenant: str) -> list[str]:
        """Return the queues above a tenant that a limit names, the lowest first."""
        found: list[str] = []
        at = self._of_tenant.get(tenant, tenant)
        while at:
            if any(matches(word, self._limits[limit].queues) for word in (at, self._path.get(at))
                   if word is not None):  # fmt: skip
                found.append(at)
            at = self._queues[at].parent if at in self._queues else ""
            at = at if at in self._queues else ""
        return found

    def _common(self, position: int, job: Job) -> list[tuple[str, ...]]:
        """Return what a job has in common with those with which a limit counts it."""
        limit = self._limits[position]
        named = self._named(position, job.tenant)
        if not named or not matches(job.user, limit.users) or not matches(job.qos, limit.qos):
            return []
        if limit.per == "queue":
            return [("queue", one) for one in named]
        if limit.per == "user_queue":
            return [("user", job.user, "queue", one) for one in named]
        if limit.per == "job":
            return [("job", job.name)]
        return [("user", job.user)] if limit.per == "user" else [()]

    def over_limit(
        self, limit: RunningLimit, granted: Held, kept: Held
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what jobs have in common that are beyond a limit and beyond what must stay."""
        position = self._limits.index(limit)
        total: dict[tuple[str, ...], list[int]] = {}
        for known in self._state.jobs:
            held, stays = (self._counted(all_.get(known.job.name), limit)
                           for all_ in (granted, kept))  # fmt: skip
            for common in self._common(position, known.job) if held or stays else ():
                four = total.setdefault(common, [0, 0, 0, 0])
                for at, more in enumerate((held, held > 0, stays, stays > 0)):
                    four[at] += more
        for common, (gpus, jobs, stays, staying) in total.items():
            if limit.gpus is not None and gpus > max(limit.gpus, stays):
                yield common, f"holds {gpus} GPUs"
            if limit.jobs is not None and jobs > max(limit.jobs, staying):
                yield common, f"{jobs} jobs run"

    def _counted(self, held: Assignment | None, limit: RunningLimit) -> int:
        nodes = self._state.cluster.nodes
        parts = () if held is None else held.placement.parts
        return sum(len(gpus) for at, gpus in parts if limit.counts_on(nodes[at].type.gpu_type.name))

    def most_alone(self, job: JobState, node_type: str) -> float:
        """Return the most GPUs on nodes of a type within all limits of a job, if no others ran."""
        most = self._could_have(job.job.tenant, self._gpu_type[node_type])
        for position, limit in enumerate(self._limits):
            if limit.counts_on(self._gpu_type[node_type]) and self._common(position, job.job):
                gpus = math.inf if limit.gpus is None else limit.gpus
                most = min(most, 0 if limit.jobs == 0 else gpus)
        return most

    # ---------------------------------------------------------------- queues

    def has_type(self, node_type: str, kind: str) -> bool:
        """Return whether GPUs of a type of nodes count as GPUs of a type."""
        return kind == "*" or self._gpu_type.get(node_type) == kind

    def gpus(self, held: Assignment | None, kind: str) -> float:
        """Return the GPUs of a type of an assignment."""
        nodes = self._state.cluster.nodes
        parts = () if held is None else held.placement.parts
        return sum(len(gpus) for at, gpus in parts if self.has_type(nodes[at].type.name, kind))

    def over_queues(
        self, granted: Held, kept: Held, could_use: Callable[[JobState, str], float]
    ) -> Iterator[tuple[Queue, str]]:
        """Yield queues that use more than they may, and more than jobs that must stay.

        For each GPU type, from the leaves of each tree to its root: a queue reserves, of what it
        owns, what it does not lend and what its jobs could use. What it uses beyond that counts at
        the queue above it.
        """
        jobs: dict[str, list[JobState]] = {}
        for known in self._state.jobs:
            jobs.setdefault(self._of_tenant.get(known.job.tenant, ""), []).append(known)
        found: list[tuple[Queue, str]] = []

        def visit(name: str, kind: str) -> tuple[float, float, float, float]:
            """Return what counts above: use, use that must stay, demand; and what is lent."""
            queue, children = self._queues[name], self._children.get(name, ())
            share = self._owns(name, kind) - sum(self._owns(one, kind) for one in children)
            use = stays = wants = 0.0
            for known in jobs.get(name, ()):
                use += self.gpus(granted.get(known.job.name), kind)
                stays += self.gpus(kept.get(known.job.name), kind)
                wants += could_use(known, kind)
            for one in children:
                more = visit(one, kind)
                use, stays, wants = use + more[0], stays + more[1], wants + more[2]
                share += more[3]
            if not queue.parent:
                if use > max(share, stays) + FEASIBILITY:
                    detail = f"with all below it uses {use:g} GPUs, {share:g} are there for it"
                    found.append((queue, detail))
                return 0.0, 0.0, 0.0, 0.0
            lend, borrow = _limit(queue.lend, kind), _limit(queue.borrow, kind)
            reserved = max(0.0, share - lend, min(share, wants))
            over, staying = max(0.0, use - reserved), max(0.0, stays - reserved)
            most = share - reserved + borrow
            if over > max(most, staying) + FEASIBILITY:
                lent = max(0.0, over - (share - reserved))
                found.append((queue, f"borrows {lent:g} GPUs, at most {borrow:g} are allowed"))
            return over, staying, min(max(0.0, wants - reserved), most), share - reserved

        for name, queue in self._queues.items():
            if queue.parent not in self._queues:
                for kind in self._kinds(name):
                    visit(name, kind)
        yield from found

    def _owns(self, name: str, kind: str) -> float:
        stated = self._queues[name].nominal
        if stated:
            return stated.get(kind, 0.0)
        return sum(self._owns(one, kind) for one in self._children.get(name, ()))

    def _idle(self, name: str, kind: str) -> tuple[float, float]:
        """Return what is there for a queue in which nothing runs or waits, and what it reserves."""
        children = self._children.get(name, ())
        share = self._owns(name, kind) - sum(self._owns(one, kind) for one in children)
        for one in children:
            there, reserved = self._idle(one, kind)
            share += there - reserved
        return share, max(0.0, share - _limit(self._queues[name].lend, kind))

    def _most_of_queue(self, tenant: str, gpu_type: str) -> float:
        """Return the most GPUs of a type that the jobs of a tenant could have if no others ran."""
        path = [self._of_tenant[tenant]] if tenant in self._of_tenant else []
        while path and self._queues[path[-1]].parent in self._queues:
            path.append(self._queues[path[-1]].parent)
        named = self._kinds(path[-1]) if path else ()
        most = math.inf
        for kind in {"*", gpu_type}.intersection(named):
            below = 0.0
            for name in path:
                (share, reserved), queue = self._idle(name, kind), self._queues[name]
                borrow = _limit(queue.borrow, kind) if queue.parent else 0.0
                most = min(most, below + share + borrow)
                below += reserved
        return most

    def _kinds(self, root: str) -> tuple[str, ...]:
        """Return the GPU types that a tree names, in order."""
        line = [root]
        for one in line:
            line += self._children.get(one, ())
        named = [kind for name, queue in self._queues.items() if name in line
                 for kind in queue.nominal]  # fmt: skip
        return tuple(dict.fromkeys(named))


def _limit(limits: Mapping[str, float], kind: str) -> float:
    return limits.get(kind, limits.get("*", math.inf))
