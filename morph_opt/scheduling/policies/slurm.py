"""Policy of a Slurm cluster: its main scheduler, backfill, partitions and priorities.

Page: ``docs/batch-schedulers.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from morph_opt.core.domain import Cluster, InputError, Job, JobState, RoundState
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.slurm.conf import SlurmConf, SlurmPartition, read_slurm_conf, time_s
from morph_opt.inputs.slurm.qos import NORMAL, Amounts
from morph_opt.inputs.slurm.shares import ROOT, Association
from morph_opt.inputs.slurm.site import SiteFiles, read_site_files
from morph_opt.scheduling.backfill.controller import Controller, Timing
from morph_opt.scheduling.backfill.multifactor import (
    Account,
    Priority,
    Totals,
    Usage,
    Weights,
    priority,
)
from morph_opt.scheduling.backfill.queue import Cap, Free, Running, Start, Waiting
from morph_opt.scheduling.backfill.reasons import Outlook, duration
from morph_opt.scheduling.backfill.slurm import Cycle, backfill_pass
from morph_opt.scheduling.policies.batch import BatchPolicy

UNLIMITED_S = 365 * 86_400.0
"""Time limit of a job where neither it nor its partition has one: Slurm plans a year."""

_NOTHING_HELD: Amounts = (0.0, 0.0, 0.0, 1.0)
_WHOSE = {"all": "on all of its jobs", "user": "on user ", "account": "on account ", "job": "on "}
"""Words on whose jobs a limit counts."""

DEFAULTS = SlurmConf({}, {}, (SlurmPartition("all", default=True),), (), ())
"""Slurm's own defaults, with one partition of all nodes."""


@dataclass(frozen=True, slots=True)
class Site:
    """Settings of a Slurm site.

    Parameters
    ----------
    conf
        Its slurm.conf.
    files
        Its shares, qualities of service and reservations.
    """

    conf: SlurmConf = DEFAULTS
    files: SiteFiles = field(default_factory=SiteFiles)

    @classmethod
    def read(cls, text: str) -> Site:
        """Read ``slurm.conf`` with further files after commas; "" for Slurm's defaults.

        Raises
        ------
        InputError
            If a file cannot be read.
        """
        if not text:
            return cls()
        conf, *files = text.split(",")
        found = read_slurm_conf(Path(conf))
        if not found.partitions:
            found = replace(found, partitions=DEFAULTS.partitions)
        return cls(found, read_site_files(map(Path, files)))

    @property
    def enforces(self) -> bool:
        """Whether limits of QOS are enforced (``AccountingStorageEnforce``)."""
        words = self.conf.values.get("accountingstorageenforce", "").lower().split(",")
        return bool({"limits", "safe", "all", "1"} & set(words))

    @property
    def names_partitions(self) -> bool:
        """Whether its slurm.conf names partitions; otherwise all jobs are in one of all nodes."""
        return self.conf.partitions != DEFAULTS.partitions

    @property
    def timing(self) -> Timing:
        """Intervals and depths of the passes."""
        conf, usual = self.conf, Timing()
        cycle = Cycle(
            window_s=60.0 * conf.number("bf_window", usual.cycle.window_s / 60.0),
            resolution_s=conf.number("bf_resolution", usual.cycle.resolution_s),
        )
        return Timing(
            backfill=conf.values.get("schedulertype", "sched/backfill") == "sched/backfill",
            interval_s=conf.number("bf_interval", usual.interval_s),
            cycle=cycle,
            tested=int(conf.number("bf_max_job_test", usual.tested)),
            every_s=conf.number("sched_interval", usual.every_s),
            delay_s=conf.number("batch_sched_delay", usual.delay_s),
            depth=int(conf.number("default_queue_depth", usual.depth)),
        )

    @property
    def weights(self) -> Weights | None:
        """Weights of ``priority/multifactor``; None under ``priority/basic``."""
        values = self.conf.values
        if values.get("prioritytype", "priority/basic").lower() != "priority/multifactor":
            return None
        usual, flags = Weights(), values.get("priorityflags", "").lower()

        def seconds(key: str, default: float) -> float:
            text = values.get(key.lower())
            return default if text is None else time_s(text, key) or 0.0

        return Weights(
            age=self.conf.weight("PriorityWeightAge"),
            fair_share=self.conf.weight("PriorityWeightFairshare"),
            job_size=self.conf.weight("PriorityWeightJobSize"),
            qos=self.conf.weight("PriorityWeightQOS"),
            partition=self.conf.weight("PriorityWeightPartition"),
            max_age_s=seconds("PriorityMaxAge", usual.max_age_s),
            half_life_s=seconds("PriorityDecayHalfLife", usual.half_life_s),
            period_s=seconds("PriorityCalcPeriod", usual.period_s),
            fair_tree="no_fair_tree" not in flags,
            favor_small=values.get("priorityfavorsmall", "no").lower() == "yes",
        )

    def unmodelled(self) -> tuple[str, ...]:
        """Return what the site sets and the policy does not follow."""
        weights, files = self.weights, self.files
        extra: list[str] = []
        if weights is not None and weights.qos and not files.qos:
            extra.append("PriorityWeightQOS (no table of QOS is given)")
        if any(one.most for one in files.qos.values()) and not self.enforces:
            extra.append("limits of QOS (AccountingStorageEnforce has no limits)")
        return (*self.conf.unmodelled, *files.unmodelled, *extra)


class Places:
    """Partitions of a site on the nodes of a cluster, as bits.

    Parameters
    ----------
    site, cluster
        Site and cluster; nodes of slurm.conf are matched by name, else by position.

    Raises
    ------
    InputError
        If the nodes of the two do not fit.
    """

    def __init__(self, site: Site, cluster: Cluster) -> None:
        self.cluster = cluster
        names = site.conf.nodes
        index = cluster.node_index
        if not set(names) <= set(index):
            if len(names) != len(cluster.nodes):
                rule = (
                    f"slurm.conf has {len(names)} nodes ({names[0]}, ...), the cluster "
                    f"{len(cluster.nodes)} of other names"
                )
                raise InputError(rule, field="--policy slurm")
            index = {name: i for i, name in enumerate(names)}
        self.index = index
        self._every = (1 << len(cluster.nodes)) - 1
        self.partitions = {one.name: one for one in site.conf.partitions}
        self._number = {name: i for i, name in enumerate(self.partitions)}
        self._nodes = {
            one.name: self._every
            if one.nodes is None
            else sum(1 << index[name] for name in one.nodes if name in index)
            for one in site.conf.partitions
        }
        marked = [one.name for one in site.conf.partitions if one.default]
        self._usual = marked[0] if marked else next(iter(self.partitions))
        self._named = site.names_partitions
        self._of: dict[str, list[tuple[int, SlurmPartition, int]]] = {}

    def of(self, job: Job) -> list[tuple[int, SlurmPartition, int]]:
        """Return number, partition and nodes of each queue that a job is in (``a,b``).

        Raises
        ------
        InputError
            If slurm.conf names partitions, but not this one.
        """
        names = (job.partition.rpartition("/")[2] if self._named else "") or self._usual
        found = self._of.get(names)
        if found is None:
            listed = list(dict.fromkeys(names.split(",")))
            for name in listed:
                if name not in self.partitions:
                    known = ", ".join(self.partitions)
                    rule = f"partition {name!r} is not in slurm.conf"
                    rule += f"{did_you_mean(name, self.partitions)}; it has {known}"
                    raise InputError(rule, field=f"job {job.name}")
            found = [(self._number[n], self.partitions[n], self._nodes[n]) for n in listed]
            self._of[names] = found
        return found


def limit_s(job: Job, partition: SlurmPartition) -> float:
    """Return the time limit by which Slurm plans a job."""
    asked = job.time_limit_s or partition.default_time_s or partition.max_time_s or UNLIMITED_S
    return min(asked, partition.max_time_s or UNLIMITED_S)


class SlurmPolicy(BatchPolicy):
    """Scheduler of a Slurm site.

    Parameters
    ----------
    belief
        Speeds: which configurations exist.
    site
        Its settings.
    phase_s
        Instant of the first pass and the first computation of priorities, which no log states.
    instant
        Whether epilogs and the loop of slurmctld take no time, so that passes are at the events.
    takes_s
        Seconds that a cycle of backfill takes, which no log states either.
    reservations
        Further reservations, in seconds of the trace.
    """

    name = "slurm"

    def __init__(
        self,
        belief: SpeedModel,
        site: Site,
        phase_s: float = 0.0,
        instant: bool = False,
        takes_s: float = 0.0,
        reservations: Iterable[Reservation] = (),
    ) -> None:
        super().__init__(belief, reservations)
        self.site, self._rules, self._clock_s = site, self._reservations, 0.0
        self._timing, self._weights = replace(site.timing, takes_s=takes_s), site.weights
        self._instant = instant
        if instant:
            self._timing = replace(self._timing, completing_s=0.0, tick_s=0.0)
        self._limited = site.enforces and any(one.most for one in site.files.qos.values())
        self._least_loaded = "cr_lln" in site.conf.values.get("selecttypeparameters", "").lower()
        self._controller = Controller(self._timing, phase_s)
        self._places: Places | None = None
        self._running: dict[str, tuple[Running, float, JobState]] = {}
        self._ending: list[tuple[float, Running]] = []
        self._seen: set[str] = set()
        self._usage: Usage | None = None
        self._users: set[tuple[str, str]] = set()
        self._priority: dict[str, tuple[float, ...]] = {}
        self._parts: dict[str, Priority] = {}
        self._entries: dict[str, tuple[Waiting, tuple[float, ...], tuple[Waiting, ...]]] = {}
        self._computed_s = phase_s
        self._opens_s = math.inf
        self.begins_at(0.0)

    def begins_at(self, clock_s: float) -> None:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        self._clock_s, self._kept = clock_s, None
        mine = (
            replace(one, begin_s=one.begin_s - clock_s, end_s=one.end_s - clock_s)
            for one in self.site.files.reservations
        )
        self._reservations = (*mine, *self._rules)

    def phased(self, phase_s: float, takes_s: float) -> SlurmPolicy:
        """Return a new policy of the site with another phase and length of its cycles."""
        made = SlurmPolicy(self._belief, self.site, phase_s, self._instant, takes_s, self._rules)
        made.begins_at(self._clock_s)
        return made

    def notes(self) -> tuple[str, ...]:
        """Return lines on settings that are not modelled, and on reservations without a clock."""
        left, found = self.site.unmodelled(), []
        if left:
            found.append(f"slurm: not modelled, and left out: {', '.join(left)}")
        if self.site.files.reservations and not self._clock_s:
            found.append(
                "slurm: the trace has no clock, so dates of reservations count in seconds since "
                "1970 from its begin: none of them meets a job"
            )
        return tuple(found)

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds: they do."""
        return True

    def observe(self, state: RoundState) -> None:
        """Decide as in `decide`, for a round that is decided elsewhere."""
        self.decide(state)

    def limit_s(self, job: Job) -> float:
        """Return the time limit by which a job is planned."""
        assert self._places is not None
        return max(limit_s(job, partition) for _, partition, _ in self._places.of(job))

    def begin(self, state: RoundState) -> None:
        """Learn the cluster of the first round."""
        if self._places is None or self._places.cluster is not state.cluster:
            self._places = Places(self.site, state.cluster)
        super().begin(state)

    def node_names(self, cluster: Cluster) -> Mapping[str, int]:
        """Return nodes by their names in slurm.conf, and in the cluster."""
        assert self._places is not None
        return {**cluster.node_index, **self._places.index}

    def starts(
        self,
        state: RoundState,
        jobs: Mapping[int, JobState],
        waiting: Mapping[int, Waiting],
        free: Free,
        running: Sequence[Running],
    ) -> tuple[Iterable[Start], float | None]:
        """See `BatchPolicy`."""
        now_s = state.time_s
        self._end(jobs, running, now_s)
        fresh = [n for n, known in jobs.items() if known.job.name not in self._seen]
        self._seen = {known.job.name for known in state.jobs}
        self._rank(state, jobs, waiting, fresh)
        if self._kept:
            if self._opens_s <= now_s:
                self._controller.changed(self._opens_s)
            self._opens_s = self._kept.next_end_s(now_s)
        held = self._occupy(now_s, jobs, free, running)
        requests = self._queue.of(self._every(jobs, waiting))
        arrived = any(number in waiting for number in fresh)
        started = self._controller.starts(now_s, requests, free, held, arrived=arrived)
        for each in started:  # it may end before the next round
            asked, known = waiting[each.job], jobs[each.job]
            begun = Running(each.job, now_s + asked.limit_s, each.nodes, asked.demand)
            self._running[known.job.name] = begun, now_s, known
        if len(started) == len(waiting):
            return started, None  # whoever comes next brings a round
        next_s = self._controller.next_s(now_s)
        if self._weights is not None:
            next_s = min(next_s, self._computed_s + self._weights.period_s)
        return started, next_s if next_s < math.inf else None

    def _every(
        self, jobs: Mapping[int, JobState], waiting: Mapping[int, Waiting]
    ) -> Iterator[Waiting]:
        """Yield what `queued` yields of all jobs, anew where request or rank has changed."""
        for number, one in waiting.items():
            name = jobs[number].job.name
            ranks, known = self._priority[name], self._entries.get(name)
            if known is None or known[0] is not one or known[1] != ranks:
                found = tuple(self.queued(jobs[number].job, one))
                known = self._entries[name] = one, ranks, found
            yield from known[2]

    def queued(self, job: Job, one: Waiting) -> Iterator[Waiting]:
        """Yield the request of a job in each of its partitions that is up."""
        assert self._places is not None
        caps, holds = self._caps(job, one.nodes)
        found = self._places.of(job)
        for (number, partition, nodes), rank in zip(found, self._priority[job.name], strict=True):
            if partition.up:
                yield replace(
                    one,
                    limit_s=limit_s(job, partition),
                    allowed=one.allowed & nodes,
                    partition=number,
                    tier=partition.tier,
                    priority=rank,
                    least_loaded=self._least_loaded or partition.least_loaded,
                    caps=caps,
                    holds=holds,
                )

    def _caps(self, job: Job, nodes: int) -> tuple[tuple[Cap, ...], Amounts]:
        """Return the limits of a job's QOS, and what it counts for them."""
        if not self._limited:
            return (), _NOTHING_HELD
        found = self.site.files.qos.get(job.qos or NORMAL)
        if found is None or not found.most:
            return (), _NOTHING_HELD
        groups = {"all": "", "user": job.user or job.tenant, "account": job.tenant, "job": job.name}
        caps = tuple(
            Cap(f"limit of QOS {found.name} {_WHOSE[whose]}{groups[whose]}", most)
            for whose, most in found.most
        )
        cpus = float(job.requested_gpus * job.cpus_per_gpu)
        return caps, (float(job.requested_gpus), cpus, float(nodes), 1.0)

    def outlook(
        self, state: RoundState, queue: Sequence[Waiting], free: Free, running: Sequence[Running]
    ) -> Outlook:
        """See `BatchPolicy`: what a cycle of backfill would plan at this instant."""
        timing, now_s = self._timing, state.time_s
        held = self._occupy(now_s, state.jobs, free, running)
        names = {one.job: state.jobs[one.job].job.name for one in queue}
        because = {
            job: str(self._parts[name]) for job, name in names.items() if name in self._parts
        }
        if not timing.backfill:
            first: dict[int, str] = {}
            for one in queue:
                first.setdefault(one.partition, names[one.job])
            rules = {
                one.job: "it is the first of its partition that cannot start"
                if first[one.partition] == names[one.job]
                else f"sched/builtin looks at no job after {first[one.partition]}, the first of "
                "its partition that cannot start"
                for one in queue
            }
            return Outlook({}, because, rules)
        capped = {one.job: cap for one in queue if (cap := free.reached(one))}
        begun, planned = backfill_pass(now_s, queue[: timing.tested], free, held, timing.cycle)
        next_s = self._controller.cycle_s
        when = f"the next in {duration(next_s - now_s)}" if next_s < math.inf else "the next one"
        unplanned = {one.job: f"a cycle of backfill starts it, {when}" for one in begun}
        some = "the first job" if timing.tested == 1 else f"the first {timing.tested} jobs"
        beyond = f"a cycle of backfill looks at {some} only (bf_max_job_test)"
        unplanned |= {one.job: beyond for one in queue[timing.tested :]}
        unplanned |= {job: f"kept back by the {cap}" for job, cap in capped.items()}
        rule = f"no planned start within bf_window ({duration(timing.cycle.window_s)})"
        return Outlook({one.job: one for one in planned}, because, unplanned, rule)

    def _occupy(
        self,
        now_s: float,
        jobs: Mapping[int, JobState] | Sequence[JobState],
        free: Free,
        running: Sequence[Running],
    ) -> list[Running]:
        """Take what ending jobs still hold, and return them with the running ones."""
        for _, one in self._ending:
            free.take(one.nodes, one.demand)
        free.completing = self._controller.completing(now_s)
        if self._limited:
            for one in running:
                nodes = one.nodes.bit_count()
                caps, holds = self._caps(jobs[one.job].job, nodes)
                asked = Waiting(one.job, nodes, one.demand, 0.0, 0, caps=caps, holds=holds)
                free.count(asked)
        return [*running, *(replace(one, end_s=now_s) for _, one in self._ending)]

    def _end(self, jobs: Mapping[int, JobState], running: Sequence[Running], now_s: float) -> None:
        """Note the jobs that have ended since the last round."""
        names = {jobs[one.job].job.name: one for one in running}
        for name, (held, begun_s, known) in self._running.items():
            if name not in names:
                self._controller.ended(now_s, held.nodes)
                self._ending.append((now_s + self._timing.completing_s, held))
                self._charge(known, begun_s, now_s)
        self._ending = [one for one in self._ending if one[0] > now_s]
        self._running = {
            name: (one, jobs[one.job].last_start_s or now_s, jobs[one.job])
            for name, one in names.items()
        }

    # --- priorities ---------------------------------------------------------------------------

    def _rank(
        self,
        state: RoundState,
        jobs: Mapping[int, JobState],
        waiting: Mapping[int, Waiting],
        fresh: Iterable[int],
    ) -> None:
        """Set the priorities of new jobs, and of all jobs once a period is over."""
        assert self._places is not None
        now_s = state.time_s
        if self._weights is None:
            # priority/basic: descending in order of submission.
            for number in waiting:
                job = jobs[number].job
                if job.name not in self._priority:
                    rank = job.priority - 1e-6 * len(self._priority)
                    self._priority[job.name] = (rank,) * len(self._places.of(job))
            return
        usage = self._usage
        new = (jobs[number].job for number in fresh)
        strangers = {(job.tenant, _user(job)) for job in new} - self._users
        if usage is None or (strangers and not self.site.files.shares):
            self._users |= strangers
            tree = share_tree(self.site.files.shares or _equal(self._users))
            usage = self._usage = Usage(tree, self._weights, used=usage.used if usage else {})
        due = now_s >= self._computed_s + self._weights.period_s
        if due:
            used = [
                (_user(known.job), _billing(known.job), now_s - max(self._computed_s, begun_s))
                for _, begun_s, known in self._running.values()
            ]
            usage.recompute(now_s - self._computed_s, used)
            period_s = self._weights.period_s
            # Rounding must not leave a period that is due at this very instant.
            self._computed_s += max(0, int((now_s - self._computed_s) / period_s) - 1) * period_s
            while now_s >= self._computed_s + period_s:
                self._computed_s += period_s
            self._controller.changed(now_s)
        totals = Totals.of(state.cluster)
        for number in waiting:
            job = jobs[number].job
            if job.priority:  # given by hand: no factor changes it
                self._priority[job.name] = (job.priority,) * len(self._places.of(job))
            elif due or job.name not in self._priority:
                parts = priority(
                    self._weights,
                    totals,
                    age_s=now_s - job.submission_s,
                    fair_share=usage.factor.get(_user(job), 0.0),
                    nodes=waiting[number].nodes,
                    cpus=_cpus(job, totals),
                    qos=self._qos_factor(job),
                )
                each = [
                    replace(parts, partition=self._weights.partition * factor)
                    for factor in self._partition_factors(job)
                ]
                self._parts[job.name] = each[0]
                self._priority[job.name] = tuple(float(one.total) for one in each)

    def _partition_factors(self, job: Job) -> list[float]:
        assert self._places is not None
        most = max(one.job_factor for one in self._places.partitions.values())
        of = self._places.of(job)
        return [one.job_factor / most if most else 0.0 for _, one, _ in of]

    def _qos_factor(self, job: Job) -> float:
        known = self.site.files.qos
        most = max((one.priority for one in known.values()), default=0.0)
        found = known.get(job.qos or NORMAL)
        return found.priority / most if found is not None and most else 0.0

    def _charge(self, known: JobState, begun_s: float, now_s: float) -> None:
        if self._usage is not None:
            since_s = max(self._computed_s, begun_s)
            self._usage.add(_user(known.job), _billing(known.job), max(0.0, now_s - since_s))


def _user(job: Job) -> str:
    return f"{job.tenant}/{job.user or job.tenant}"


def _billing(job: Job) -> float:
    """Return what a second of a job is charged: its CPUs, or its GPUs where no CPUs are known."""
    return float(job.requested_gpus * (job.cpus_per_gpu or 1))


def _cpus(job: Job, totals: Totals) -> float:
    """Return the CPUs of a job; if unknown, its share of all GPUs times all CPUs."""
    if job.cpus_per_gpu:
        return float(job.requested_gpus * job.cpus_per_gpu)
    return totals.cpus * job.requested_gpus / totals.gpus


def _equal(users: Iterable[tuple[str, str]]) -> Iterator[Association]:
    """Yield associations by which accounts, and the users of an account, have equal shares."""
    for account in sorted({account for account, _ in users}):
        yield Association(account, "", 1.0, ROOT)
    for account, user in sorted(users):
        yield Association(account, user.removeprefix(f"{account}/"), 1.0)


def share_tree(shares: Iterable[Association]) -> Account:
    """Return the tree of shares."""
    rows = tuple(shares)

    def below(account: str) -> tuple[Account, ...]:
        accounts = [row for row in rows if not row.user and row.parent == account]
        users = [row for row in rows if row.user and row.account == account]
        return (
            *(Account(f"{account}/{row.user}", row.shares) for row in users),
            *(Account(row.account, row.shares, below(row.account)) for row in accounts),
        )

    return Account("", 1.0, below(ROOT))
