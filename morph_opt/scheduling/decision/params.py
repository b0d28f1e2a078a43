"""Parameters that steer how a round is solved, a dataclass per subject.

Counts end every step, not the clock, so a decision depends on the state and not on the machine.
Numbers such as 0020 name the page of ``docs/decisions`` that has the measurement. `LadderParams`
holds the parameters of all steps; its defaults are `DEFAULTS`. No parameter but those of
`ToleranceParams` makes a stated bound false: they change which decisions are found, and how soon.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from morph_opt.core.domain.params import Params, limited


@dataclass(frozen=True, slots=True)
class ToleranceParams(Params):
    """Tolerances of answers whose values differ by more than a solver can tell (0020)."""

    wide: float = 16.0
    """Ratio of the largest value to the answer's from which on the answer is checked again."""

    sure: float = 1e-6
    """Share of the largest cost to which a solver's answer holds at least."""

    dual: float = 1e-7
    """Reduced cost that solvers take for 0, per job and node, in units of the largest cost."""

    floor: float = 1e-7
    """Loss that a goal allows to goals ranked below it, in units of its largest value in reach."""

    rounding: float = 1e-12
    """Rounding error of a sum, as a share of the absolute values in it."""


@dataclass(frozen=True, slots=True)
class DominanceParams(Params):
    """Configurations that are left out as dominated (`decision.candidates.dominance`)."""

    compared: int = 1_024
    """Configurations on fewer GPUs, the fastest, that one is compared with; more would only save
    time, never change an optimum."""


@dataclass(frozen=True, slots=True)
class PairParams(Params):
    """Pairs of jobs on the same GPUs (`morph_opt.scheduling.decision.candidates.pairs`; 0008)."""

    least_gain: float = 1.0
    """Sum of the kept fractions of speed above which two jobs may share; taking turns gives 1."""

    partners: int = 16
    """Partners that a job is offered with, the best of each training model first."""

    fresh: int = 32_000
    """Pairs of queued jobs per round, once per node class, at most; beyond, each job is offered
    fewer partners."""


@dataclass(frozen=True, slots=True)
class PricingParams(Params):
    """Exact models of many candidates (`morph_opt.scheduling.decision.pricing`; 0006, 0020)."""

    priced_from: int = 4_000
    """Candidates from which on a relaxation is solved first (``benchmarks/rounds/cli.py``)."""

    counted_from: int = 2_000
    """Candidates from which on jobs that are alike are counted (0020)."""

    kept_per_job: int = 6
    """Candidates of the restricted MILP per job, on average."""

    kept_least: int = 2_000
    """Candidates of the restricted MILP at least."""


@dataclass(frozen=True, slots=True)
class CutParams(Params):
    """Choices without nodes (`morph_opt.scheduling.decision.ranked`; 0006, 0020)."""

    cuts: int = 40
    """Choices that are cut off, at most, before the round is solved with its nodes named."""

    cut_columns: int = limited(30_000, 0)
    """Columns of all models that are solved to cut off choices, at most (0020)."""

    few_cuts: int = 3
    """Choices that are cut off in models however large, and in parts of rounds, at most."""

    proofs: int = 30
    """Placement questions that strengthen one cut, at most: one takes up to 0.25 s."""

    proof_columns: int = 10_000
    """Columns of the placement questions that strengthen one cut, at most (0020)."""

    placed_columns: int = 30_000
    """Columns of a placement question, at most: larger ones do not finish (0020)."""

    named_parts: int = 200_000
    """Parts of candidates times nodes up to which a round is solved with its nodes named."""


@dataclass(frozen=True, slots=True)
class CoreParams(Params):
    """Knapsack tables and their core (`morph_opt.scheduling.decision.steps.knapsack`; 0020)."""

    additions: int = 8_000_000
    """Additions of a round's tables, at most: some ten milliseconds."""

    additions_whole: int = 400_000
    """Additions of the tables of all items, at most; beyond, their core is looked for first."""

    additions_part: int = 300_000
    """Additions of the tables of a part of the core, used where the core is too large."""

    estimated_from: int = 20_000
    """Candidates from which on additions are estimated before items are made."""

    cores: int = limited(5, 1)
    """Cores of one round that are tried, at most."""

    first_items: float = 0.4
    """Items of the first core beyond one per job, per job."""

    wider: float = limited(3.0, 1)
    """Factor of the loss that items of the next core may have."""

    proving: float = limited(8.0, 1)
    """Factor of that loss up to which the next core is the one that proves its own choice."""

    between: float = limited(1.3, 1)
    """Ratio of the losses of a core that is too large and of the largest fitting one, down to
    which one between them is tried."""

    partial_choices: int = 2_000
    """Partial choices that the search over tables looks at, at most."""

    placements: int = 8
    """Whole choices for whose nodes a solver is asked, at most."""


@dataclass(frozen=True, slots=True)
class SlotParams(Params):
    """Prices of slots (`morph_opt.scheduling.decision.steps.slots`; 0020)."""

    kinds: int = 60
    """Kinds of slots up to which they are priced."""

    evaluations: int = 100
    """Evaluations of the relaxation with slots, at most."""

    close: float = 0.05
    """Distance to the least bound at which the search for prices ends, in gaps asked for."""

    radius: float = 0.3
    """Trust region of the first search for prices, as a share of the prices."""

    radius_shared: float = 0.05
    """Trust region of the second one, after slots were shared out."""

    grows: float = limited(2.0, 1)
    """Factor of the trust region after a step that lowers the bound."""


@dataclass(frozen=True, slots=True)
class SubRoundParams(Params):
    """Residual rounds: some jobs on some nodes, decided anew (0020)."""

    jobs: int = 100
    """Jobs of the smallest residual round, at most."""

    nodes: int = limited(60, 1)
    """Nodes of the smallest residual round, at most."""

    much: float = 0.1
    """Share of (missing value x share of nodes) below which a residual round gains little."""

    parts: float = 4.0
    """Factor of the share of nodes in that product, which is at most 1."""

    doublings: int = 3
    """Doublings of residual rounds, after two small gains each, at most."""

    doublings_shaped: int = 6
    """Doublings, at most, where slots are priced: losses by shape lie on many nodes (0020)."""

    share_shaped: int = limited(2, 1)
    """Divisor of the round's nodes that doublings do not exceed where slots are priced."""

    first_shaped: int = 2
    """Doublings before the first residual round where slots are priced."""

    first_nodes: int = limited(8, 1)
    """Multiple of ``nodes`` per initial doubling, so that large rounds do not start tiny."""

    turns: int = 8
    """Average number of times that a node is decided anew, at most (0020)."""

    in_vain: int = limited(16, 1)
    """Small gains in a row after which residual rounds of the largest size end (0020)."""

    offered_loss: float = 0.3
    """Loss of an offered candidate at prices, as a share of the missing value, at most."""

    offered: int = 2_500
    """Candidates that a residual round offers, those that lose least, at most."""

    offered_per_job: int = 8
    """Candidates that it offers per job, if that is more."""

    branches: int = limited(300, 1)
    """Branch-and-bound nodes of a residual round, at most."""

    work: int = 400_000
    """Branch-and-bound nodes times columns of a residual round, at most (0020)."""

    gap_share: float = 0.1
    """Gap of a residual round as a share of what is missing of the whole round."""

    gap_most: float = 0.05
    """Gap of a residual round, at most."""


@dataclass(frozen=True, slots=True)
class LadderParams(Params):
    """The ladder's choice of steps (`morph_opt.scheduling.decision.ladder`; 0020)."""

    compact_from: int = 100_000
    """Candidates from which on rounds leave out what no prices choose (0020)."""

    whole: int = 200_000
    """Candidates of a compact round up to which it is posed whole, with about five times as many
    candidates, where it misses its gap (0020)."""

    whole_shaped: int = 1_000_000
    """The same where shapes make the gap, which the whole round alone can close (0020)."""

    shaped_gap: float = 0.01
    """Gap above which slots are priced: below, single jobs make it and not shapes (0020)."""

    small: int = 2_000
    """Candidates below which the exact round costs less than slots and residual rounds."""

    exact_columns: int = 8_000
    """Columns of the last exact round, at most."""

    exact_branches: int = 1_000
    """Branch-and-bound nodes of the last exact round, at most."""

    exact_shrinks: int = limited(2, 1)
    """Divisor of its columns that have to be left for it to be solved again."""

    columns_per_hold: int = 4
    """Columns of the exact round per job and node that it holds: whether it stays or starts, and
    free states and patterns of the node."""

    rank_gap: float = 1e-6
    """Gap asked of goals before the last one."""

    late_s: float = 0.1
    """Seconds, at most, of a solve that starts when the time is over: it may find a decision."""

    promised_share: float = 0.8
    """Share of the time after which promises are no longer rows if no decision keeps them yet."""

    core: CoreParams = field(default_factory=CoreParams)
    """Knapsack tables."""

    slots: SlotParams = field(default_factory=SlotParams)
    """Prices of slots."""

    sub: SubRoundParams = field(default_factory=SubRoundParams)
    """Residual rounds."""

    cuts: CutParams = field(default_factory=CutParams)
    """Choices without nodes."""

    pricing: PricingParams = field(default_factory=PricingParams)
    """Exact models of many candidates."""

    tolerances: ToleranceParams = field(default_factory=ToleranceParams)
    """Tolerances of solvers' answers."""

    def may_be_whole(self, candidates: int, shaped: bool) -> bool:
        """Return whether a compact round may be posed whole: the largest lack time and memory.

        Parameters
        ----------
        candidates
            Candidates of the compact round.
        shaped
            Whether shapes make its gap.
        """
        return candidates <= (self.whole_shaped if shaped else self.whole)


DEFAULTS = LadderParams()
"""The parameters of every round unless others are given."""
PAIRS = PairParams()
"""The parameters of pairs unless others are given."""
DOMINANCE = DominanceParams()
"""The parameters of dominance."""
