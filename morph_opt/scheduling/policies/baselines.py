"""Catalogue of the policies other than ``milp``."""

from __future__ import annotations

from typing import Any

from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.decision.rules.model import Maintenance
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.catalog import (
    LIMITS,
    SAMPLES,
    Maker,
    PolicySpec,
    default_index,
    pairs_of,
)
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, Throughput
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.published import GAVEL
from morph_opt.scheduling.policies.rigid import EqualSplit, Fifo, Srtf

BaselineSpec = PolicySpec[Policy]

BATCH = "batch-schedulers.md"
HEURISTICS = "published-heuristics.md"
SLICES = "gandiva-easyscale.md"
RESETS = f"shares solved again after {GAVEL.reset_s:,g} s at least"


def _kept(options: PolicyOptions) -> tuple[Reservation, ...]:
    """Return the maintenances among the operator's rules."""
    return tuple(
        Reservation("maintenance", one.start_s - one.lead_s, one.end_s, frozenset(one.nodes))
        for one in options.rules.rules
        if isinstance(one, Maintenance)
    )


def _easy(name: str, rule: str, source: str) -> BaselineSpec:
    """Return EASY backfill in the order that follows the colon in its name."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.batch import Easy

        return Easy(belief, reservations=_kept(options), order=name.partition(":")[2])

    return PolicySpec(
        name,
        make,
        rule,
        source,
        BATCH,
        ("durations",),
        limits="needed",
        reserves=True,
        reasons=True,
    )


def _conservative(belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.batch import Conservative

    return Conservative(belief, _kept(options))


def _slurm(files: str) -> Maker[Policy]:
    """Return the maker of the policy of a Slurm site, from the names of its files."""
    from morph_opt.scheduling.policies.slurm import Site, SlurmPolicy

    site = Site.read(files)
    return lambda belief, options: SlurmPolicy(belief, site, reservations=_kept(options))


def _default_slurm(belief: SpeedModel, options: PolicyOptions) -> Policy:
    """Return the policy of a site with Slurm's defaults."""
    return _slurm("")(belief, options)


def _kueue(files: str) -> Maker[Policy]:
    """Return the maker of the policy of a Kueue site, from the names of its files."""
    from morph_opt.scheduling.kueue.clusters import KueueSite
    from morph_opt.scheduling.policies.kueue import KueuePolicy

    site = KueueSite.read(files)
    return lambda belief, options: KueuePolicy(belief, site, options.rules.rules)


def _default_kueue(belief: SpeedModel, options: PolicyOptions) -> Policy:
    """Return the policy of a site with one queue over all GPUs."""
    return _kueue("")(belief, options)


def _allox(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.allox import AlloX

    return AlloX(belief)


def _optimus(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.malleable.greedy import Optimus

    return Optimus(belief)


def _morphling(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.malleable.morphling import Morphling

    return Morphling(belief)


def _sia(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.malleable.sia import Sia

    return Sia(belief)


def _pollux(belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.malleable.pollux import PolluxSearch
    from morph_opt.scheduling.policies.malleable.pollux_rule import Budget

    return PolluxSearch(belief, Budget(seed=options.seed))


def _pollux_counts(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.malleable.pollux import PolluxCounts

    return PolluxCounts(belief)


def _gavel_pairs(belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.scheduling.policies.gavel.pairs import GavelPairs

    return GavelPairs(belief, pairs_of(belief, options), options.seed)


def _yarn(belief: SpeedModel, _: PolicyOptions) -> Policy:
    first_come = Fifo(belief)
    first_come.name = "easyscale:yarn-cs"
    return first_come


def _gandiva(name: str, rule: str, source: str, *, any_affinity: bool) -> BaselineSpec:
    """Return Gandiva's time slices, of pairs of jobs if these may be packed."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.gandiva.packed import PackedSlices
        from morph_opt.scheduling.policies.gandiva.policy import GandivaSlices

        pairs = pairs_of(belief, options)
        if pairs is None:
            return GandivaSlices(belief, any_affinity=any_affinity)
        return PackedSlices(belief, pairs, any_affinity=any_affinity)

    return PolicySpec(name, make, rule, source, SLICES, ("packing",), memory=True, slices=True)


def _tiresias(name: str, rule: str, page: str, own_times: str, *, gittins: bool) -> BaselineSpec:
    """Return Tiresias' queues for rigid gangs."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.tiresias.policy import RigidQueues

        index = default_index() if gittins else None
        return RigidQueues(belief, starvation_knob=options.starvation_knob, index=index)

    known = ("starvation_knob",)
    return PolicySpec(name, make, rule, "Tiresias", page, known, memory=True, own_times=own_times)


def _gavel(
    policy: str, rule: str, page: str, *known: str, rest: str = "no", prices: bool = False
) -> BaselineSpec:
    """Return Gavel's round mechanism on the shares of one of its policies."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.gavel.policy import GavelRounds

        return GavelRounds(belief, policy, options.entity_weights)

    return PolicySpec(
        f"gavel:{policy}",
        make,
        f"Gavel's round mechanism on {rule}",
        "Gavel",
        f"formulations/{page}.md",
        (*known, *(("durations",) if rest == "yes" else ())),
        rest,
        memory=True,
        prices=prices,
        own_times=RESETS,
    )


def _greedy(objective: Stateless, rest: str = "yes") -> BaselineSpec:
    """Return the greedy policy on the values of an objective."""
    name = f"greedy:{objective.name}"

    def make(belief: SpeedModel, _: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.malleable.greedy import Greedy

        return Greedy(belief, objective, name)

    rule = f"values of `{objective.name}`; each GPU to the largest gain per GPU, without a MILP"
    known = ("durations",) if rest == "yes" else ()
    return PolicySpec(name, make, rule, page=HEURISTICS, options=known, rest=rest)


def _easyscale(rule_name: str, rule: str) -> BaselineSpec:
    """Return EasyScale's greedy under one of its two rules."""

    def make(belief: SpeedModel, _: PolicyOptions) -> Policy:
        from morph_opt.scheduling.policies.easyscale.policy import EasyScale

        return EasyScale(belief, rule_name)

    name = f"easyscale:{rule_name}"
    return PolicySpec(name, make, rule, "EasyScale", SLICES, workers="only")


_TIMED: dict[str, Any] = {"options": ("durations",), "rest": "yes"}
"""Fields of policies whose rule needs the work that jobs have left."""

_BASELINES: list[BaselineSpec] = [
    PolicySpec(
        "fifo",
        lambda belief, _: Fifo(belief),
        "requested gangs in order of arrival",
        "classical rule",
        workers="yes",
    ),
    PolicySpec(
        "fifo:skip",
        lambda belief, _: Fifo(belief, skip_blocked=True),
        "`fifo`, but jobs may pass one that does not fit",
        "classical rule",
        workers="yes",
    ),
    _easy(
        "easy",
        "requested gangs by arrival; later ones pass where they do not delay the first blocked",
        "EASY (Lifka)",
    ),
    _easy("easy:sjbf", "`easy`; later ones by time limit, the shortest first", "Tsafrir et al."),
    _easy(
        "easy:lxf",
        "`easy` by expansion factor, the largest first: wait and limit over limit",
        "Chiang et al.",
    ),
    _easy("easy:wfp", "`easy` by (wait / limit)^3 x GPUs, the largest first", "Tang et al."),
    PolicySpec(
        "conservative",
        _conservative,
        "requested gangs with planned starts, none delayed by a later job",
        "Mu'alem and Feitelson",
        BATCH,
        ("durations",),
        limits="needed",
        reserves=True,
        reasons=True,
        memory=True,
    ),
    PolicySpec(
        "slurm",
        _default_slurm,
        "Slurm's scheduler and backfill, by the defaults or by slurm:slurm.conf[,FILE...]",
        "Slurm",
        BATCH,
        ("durations",),
        memory=True,
        reserves=True,
        own_times="passes, cycles and epilogs as slurm.conf or Slurm's defaults time them",
        limits="planned",
        reasons=True,
        of_files=_slurm,
    ),
    PolicySpec(
        "kueue",
        _default_kueue,
        "Kueue's cycles over quotas: one queue of all GPUs, or kueue:FILE,FILE,... of its objects",
        "Kueue",
        "kueue.md",
        memory=True,
        reasons=True,
        queues=True,
        of_files=_kueue,
    ),
    PolicySpec(
        "srtf",
        lambda belief, _: Srtf(belief),
        "requested gangs, shortest remaining time first, preemptive",
        "classical rule",
        workers="yes",
        **_TIMED,
    ),
    PolicySpec(
        "equal_split",
        lambda belief, _: EqualSplit(belief),
        "the same number of GPUs for every active job",
        "classical rule",
    ),
    PolicySpec(
        "allox",
        _allox,
        "requested gangs, matched to GPU types and positions in a queue for the least total time",
        "AlloX",
        HEURISTICS,
        **_TIMED,
    ),
    _gandiva(
        "gandiva",
        "requested gangs share servers of their size in turns, migrate, grow; pairs with packing",
        "Gandiva",
        any_affinity=False,
    ),
    _gandiva(
        "gandiva:any-affinity",
        "`gandiva`, but a gang may join a full server of another size",
        "this project",
        any_affinity=True,
    ),
    _tiresias(
        "tiresias:2d-las",
        "requested gangs by attained service, assigned anew every round",
        "formulations/las.md",
        LIMITS,
        gittins=False,
    ),
    _tiresias(
        "tiresias:gittins",
        "requested gangs by Gittins index, assigned anew every round",
        "formulations/gittins.md",
        f"{LIMITS}, {SAMPLES}",
        gittins=True,
    ),
    _gavel("fairness", "max-min shares", "fairness"),
    _gavel("fairness-agnostic", "max-min shares that ignore the speed of GPU types", "fairness"),
    _gavel("water-filling", "max-min shares, filled up level by level", "fairness"),
    _gavel("hierarchical", "water-filling shares of tenants", "hierarchical", "entity_weights"),
    _gavel(
        "hierarchical-fifo",
        "shares of tenants, by arrival within a tenant",
        "hierarchical",
        "entity_weights",
    ),
    _gavel("ftf", "shares for the least maximum finish-time ratio", "finish-time", rest="yes"),
    _gavel("makespan", "shares for the earliest end of the last job", "makespan", rest="yes"),
    _gavel("max_throughput", "shares for the most steps per second", "fairness"),
    _gavel(
        "cost", "shares for the most work per dollar, SLOs kept", "cost", rest="yes", prices=True
    ),
    _gavel("fifo", "shares by arrival", "fairness"),
    _gavel("srpt", "shares by remaining time", "fairness", rest="yes"),
    _gavel("isolated", "a private 1/n of the cluster for each job", "fairness"),
    PolicySpec(
        "gavel:gandiva",
        _gavel_pairs,
        "Gavel's round mechanism on equal shares; with packing, random pairs while GPUs are short",
        "Gavel",
        SLICES,
        ("packing",),
        memory=True,
        draws="packing",
        own_times=RESETS,
    ),
    _greedy(Throughput(), rest="no"),
    _greedy(Jct()),
    _greedy(Lookahead()),
    PolicySpec(
        "optimus",
        _optimus,
        "each GPU to the job whose completion time falls most",
        "Optimus",
        HEURISTICS,
        **_TIMED,
    ),
    PolicySpec(
        "morphling",
        _morphling,
        "slopes of sensitivity curves, guarantees, shrinking",
        "Morphling",
        HEURISTICS,
    ),
    PolicySpec(
        "sia", _sia, "Sia's integer program over configurations, then placement", "Sia", HEURISTICS
    ),
    PolicySpec(
        "pollux",
        _pollux,
        "Pollux' genetic search for goodput relative to a fair share",
        "Pollux",
        HEURISTICS,
        draws="yes",
    ),
    PolicySpec(
        "pollux:counts",
        _pollux_counts,
        "Pollux' fitness at its maximum over GPU counts, no search",
        "Pollux",
        HEURISTICS,
    ),
    PolicySpec(
        "easyscale:yarn-cs",
        _yarn,
        "a GPU of its type for each worker, in order of arrival",
        "EasyScale",
        SLICES,
        workers="only",
    ),
    _easyscale(
        "homo", "workers on one GPU type; each GPU to the job that gains most, none taken away"
    ),
    _easyscale(
        "heter", "`easyscale:homo` on any GPU types, for jobs whose kernels are equal on all"
    ),
]

BASELINES: dict[str, BaselineSpec] = {spec.name: spec for spec in _BASELINES}
"""Policies other than ``milp`` by name."""
