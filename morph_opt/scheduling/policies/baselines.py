"""Catalogue of the policies other than ``milp``."""

from __future__ import annotations

from collections.abc import Callable

from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.policies.allox import AlloX
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.catalog import (
    LIMITS,
    SAMPLES,
    Needs,
    PolicySpec,
    default_index,
    pairs_of,
)
from morph_opt.scheduling.policies.easyscale.policy import EasyScale
from morph_opt.scheduling.policies.gandiva.packed import PackedSlices
from morph_opt.scheduling.policies.gandiva.policy import GandivaSlices
from morph_opt.scheduling.policies.gavel.pairs import GavelPairs
from morph_opt.scheduling.policies.gavel.policy import GavelRounds
from morph_opt.scheduling.policies.malleable.greedy import Greedy, Optimus
from morph_opt.scheduling.policies.malleable.morphling import Morphling
from morph_opt.scheduling.policies.malleable.pollux import PolluxCounts, PolluxSearch
from morph_opt.scheduling.policies.malleable.pollux_rule import Budget
from morph_opt.scheduling.policies.malleable.sia import Sia
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, Throughput
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.published import GAVEL
from morph_opt.scheduling.policies.rigid import EqualSplit, Fifo, Srtf
from morph_opt.scheduling.policies.tiresias.policy import RigidQueues

BaselineSpec = PolicySpec[Policy]

RESETS = f"shares solved again after {GAVEL.reset_s:,g} s at least"


def _gandiva(name: str, rule: str, source: str, *, any_affinity: bool) -> BaselineSpec:
    """Return Gandiva's time slices, of pairs of jobs if these may be packed."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Policy:
        pairs = pairs_of(belief, options)
        if pairs is None:
            return GandivaSlices(belief, any_affinity=any_affinity)
        return PackedSlices(belief, pairs, any_affinity=any_affinity)

    return PolicySpec(
        name,
        make,
        rule,
        source,
        page="gandiva-easyscale.md",
        options=("packing",),
        needs=Needs(memory=True, slices=True),
    )


def _gavel(
    policy: str, rule: str, page: str, *known: str, rest: str = "no", prices: bool = False
) -> BaselineSpec:
    """Return Gavel's round mechanism on the shares of one of its policies."""
    return PolicySpec(
        f"gavel:{policy}",
        lambda belief, options: GavelRounds(belief, policy, options.entity_weights),
        f"Gavel's round mechanism on {rule}",
        "Gavel",
        page=page,
        options=(*known, *(("durations",) if rest == "yes" else ())),
        needs=Needs(prices=prices, memory=True, rest=rest),
        own_times=RESETS,
    )


def _greedy(name: str, objective: Callable[[], Stateless], rest: str = "no") -> BaselineSpec:
    """Return the greedy policy on the values of an objective."""
    return PolicySpec(
        f"greedy:{name}",
        lambda belief, _: Greedy(belief, objective(), f"greedy:{name}"),
        f"values of `{name}`; each GPU to the largest gain per GPU, without a MILP",
        "this project",
        page="published-heuristics.md",
        options=("durations",) if rest == "yes" else (),
        needs=Needs(rest=rest),
    )


def _yarn(belief: SpeedModel) -> Policy:
    first_come = Fifo(belief)
    first_come.name = "easyscale:yarn-cs"
    return first_come


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
    PolicySpec(
        "srtf",
        lambda belief, _: Srtf(belief),
        "requested gangs, shortest remaining time first, preemptive",
        "classical rule",
        options=("durations",),
        needs=Needs(rest="yes"),
        workers="yes",
    ),
    PolicySpec(
        "equal_split",
        lambda belief, _: EqualSplit(belief),
        "the same number of GPUs for every active job",
        "classical rule",
    ),
    PolicySpec(
        "allox",
        lambda belief, _: AlloX(belief),
        "requested gangs, matched to GPU types and positions in a queue for the least total time",
        "AlloX",
        page="published-heuristics.md",
        options=("durations",),
        needs=Needs(rest="yes"),
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
    PolicySpec(
        "tiresias:2d-las",
        lambda belief, options: RigidQueues(belief, starvation_knob=options.starvation_knob),
        "requested gangs by attained service, assigned anew every round",
        "Tiresias",
        page="formulations/las.md",
        options=("starvation_knob",),
        needs=Needs(memory=True),
        own_times=LIMITS,
    ),
    PolicySpec(
        "tiresias:gittins",
        lambda belief, options: RigidQueues(
            belief, starvation_knob=options.starvation_knob, index=default_index()
        ),
        "requested gangs by Gittins index, assigned anew every round",
        "Tiresias",
        page="formulations/gittins.md",
        options=("starvation_knob",),
        needs=Needs(memory=True),
        own_times=f"{LIMITS}, {SAMPLES}",
    ),
    _gavel("fairness", "max-min shares", "formulations/fairness.md"),
    _gavel(
        "fairness-agnostic",
        "max-min shares that ignore the speed of GPU types",
        "formulations/fairness.md",
    ),
    _gavel("water-filling", "max-min shares, filled up level by level", "formulations/fairness.md"),
    _gavel(
        "hierarchical",
        "water-filling shares of tenants",
        "formulations/hierarchical.md",
        "entity_weights",
    ),
    _gavel(
        "hierarchical-fifo",
        "shares of tenants, by arrival within a tenant",
        "formulations/hierarchical.md",
        "entity_weights",
    ),
    _gavel(
        "ftf",
        "shares for the least maximum finish-time ratio",
        "formulations/finish-time.md",
        rest="yes",
    ),
    _gavel(
        "makespan",
        "shares for the earliest end of the last job",
        "formulations/makespan.md",
        rest="yes",
    ),
    _gavel("max_throughput", "shares for the most steps per second", "formulations/fairness.md"),
    _gavel(
        "cost",
        "shares for the most work per dollar, SLOs kept",
        "formulations/cost.md",
        rest="yes",
        prices=True,
    ),
    _gavel("fifo", "shares by arrival", "formulations/fairness.md"),
    _gavel("srpt", "shares by remaining time", "formulations/fairness.md", rest="yes"),
    _gavel("isolated", "a private 1/n of the cluster for each job", "formulations/fairness.md"),
    PolicySpec(
        "gavel:gandiva",
        lambda belief, options: GavelPairs(belief, pairs_of(belief, options), options.seed),
        "Gavel's round mechanism on equal shares; with packing, random pairs while GPUs are short",
        "Gavel",
        page="gandiva-easyscale.md",
        options=("packing",),
        needs=Needs(memory=True),
        draws="packing",
        own_times=RESETS,
    ),
    _greedy("throughput", Throughput),
    _greedy("jct", Jct, rest="yes"),
    _greedy("lookahead", Lookahead, rest="yes"),
    PolicySpec(
        "optimus",
        lambda belief, _: Optimus(belief),
        "each GPU to the job whose completion time falls most",
        "Optimus",
        page="published-heuristics.md",
        options=("durations",),
        needs=Needs(rest="yes"),
    ),
    PolicySpec(
        "morphling",
        lambda belief, _: Morphling(belief),
        "slopes of sensitivity curves, guarantees, shrinking",
        "Morphling",
        page="published-heuristics.md",
    ),
    PolicySpec(
        "sia",
        lambda belief, _: Sia(belief),
        "Sia's integer program over configurations, then placement",
        "Sia",
        page="published-heuristics.md",
    ),
    PolicySpec(
        "pollux",
        lambda belief, options: PolluxSearch(belief, Budget(seed=options.seed)),
        "Pollux' genetic search for goodput relative to a fair share",
        "Pollux",
        page="published-heuristics.md",
        draws="yes",
    ),
    PolicySpec(
        "pollux:counts",
        lambda belief, _: PolluxCounts(belief),
        "Pollux' fitness at its maximum over GPU counts, no search",
        "Pollux",
        page="published-heuristics.md",
    ),
    PolicySpec(
        "easyscale:yarn-cs",
        lambda belief, _: _yarn(belief),
        "a GPU of its type for each worker, in order of arrival",
        "EasyScale",
        page="gandiva-easyscale.md",
        workers="only",
    ),
    PolicySpec(
        "easyscale:homo",
        lambda belief, _: EasyScale(belief, "homo"),
        "workers on one GPU type; each GPU to the job that gains most, none taken away",
        "EasyScale",
        page="gandiva-easyscale.md",
        workers="only",
    ),
    PolicySpec(
        "easyscale:heter",
        lambda belief, _: EasyScale(belief, "heter"),
        "`easyscale:homo` on any GPU types, for jobs whose kernels are equal on all",
        "EasyScale",
        page="gandiva-easyscale.md",
        workers="only",
    ),
]

BASELINES: dict[str, BaselineSpec] = {spec.name: spec for spec in _BASELINES}
"""Policies other than ``milp`` by name."""
