"""Parameters that steer how a round is solved, a dataclass per subject.

Counts end every step, not the clock, so a decision depends on the state and not on the machine.
Numbers such as 0020 name the page of ``docs/decisions`` that has the measurement. `LadderParams`
holds the parameters of all steps; its defaults are `DEFAULTS`. Only the parameters of
`ToleranceParams` can make a stated bound false: they change which decisions are found, and how
soon.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from formulations.parameters import Params, above, number


@dataclass(frozen=True, slots=True)
class ToleranceParams(Params):
    """Tolerances of answers with values too far apart for a solver's precision (0020)."""

    wide: float = 16.0
    """Ratio of the largest value to the answer's from which on the answer is checked again."""

    sure: float = 1e-6
    """Assumed error of a solver's answer, as a share of the largest cost."""

    dual: float = 1e-7
    """Reduced cost that solvers take for 0, per job and node, in units of the largest cost."""

    floor: float = 1e-7
    """Loss of a goal that lower goals may cause, in units of its largest value in reach."""

    cap: float = 1e-5
    """Gain of a goal that must stay as it is, in the same units; wide enough for solvers."""

    rounding: float = 1e-12
    """Rounding error of a sum, as a share of the absolute values in it."""


@dataclass(frozen=True, slots=True)
class DominanceParams(Params):
    """Configurations that are left out as dominated (`decision.candidates.dominance`)."""

    compared: int = 1_024
    """Number of fastest configurations on fewer GPUs with which one is compared; it affects
    time only, never an optimum."""


@dataclass(frozen=True, slots=True)
class PairParams(Params):
    """Pairs of jobs on the same GPUs (`morph_opt.scheduling.decision.candidates.pairs`; 0008)."""

    least_gain: float = 1.0
    """Sum of the kept fractions of speed above which two jobs may share; taking turns gives 1."""

    partners: int = 16
    """Number of partners offered to a job, the best of each training model first."""

    fresh: int = 32_000
    """Largest number of pairs of queued jobs per round and node class; with more, each job
    is offered fewer partners."""


@dataclass(frozen=True, slots=True)
class PricingParams(Params):
    """Exact models of many candidates (`morph_opt.scheduling.decision.pricing`; 0006, 0020)."""

    priced_from: int = 4_000
    """Least number of candidates with a relaxation solved first (``benchmarks/rounds/cli.py``)."""

    counted_from: int = 2_000
    """Least number of candidates for which identical jobs are counted (0020)."""

    kept_per_job: int = 6
    """Average number of candidates per job in the restricted MILP."""

    kept_least: int = 2_000
    """Least number of candidates of the restricted MILP."""


@dataclass(frozen=True, slots=True)
class CutParams(Params):
    """Choices without nodes (`morph_opt.scheduling.decision.ranked`; 0006, 0020)."""

    cuts: int = 40
    """Largest number of choices cut off before the round is solved with named nodes."""

    cut_columns: int = number(30_000, 0)
    """Largest total of columns over all models solved to cut off choices (0020)."""

    few_cuts: int = 3
    """Number of choices that may be cut off in a model of any size and in parts of rounds."""

    proofs: int = 30
    """Largest number of placement models that strengthen one cut; each takes up to 0.25 s."""

    proof_columns: int = 10_000
    """Largest total of columns of the placement models that strengthen one cut (0020)."""

    placed_columns: int = 30_000
    """Largest number of columns of a placement model: larger ones do not finish (0020)."""

    named_parts: int = 200_000
    """Largest product of parts and nodes for which a round is solved with named nodes."""


@dataclass(frozen=True, slots=True)
class NamedParams(Params):
    """Exact models with a column per start and node (`morph_opt.scheduling.decision.ranked`; 0051).

    Nodes that are alike are counted, which makes few columns and strong rows. Where few are alike,
    columns by node are as few, and no choice has to be cut off for lack of nodes.
    """

    share: float = 1.2
    """Largest ratio of columns with named nodes to columns with counted nodes for which nodes are
    named at once."""

    cut_share: float = 3.0
    """The same ratio once a choice has no nodes, after which counted nodes need cuts."""

    cut_columns: int = 10_000
    """Number of columns with named nodes up to which nodes are named once a choice has no nodes,
    whatever the ratio, if threads or memory may run out on a node before its GPUs."""

    counted: int = 20_000
    """Largest number of options of a round for which columns with named nodes are counted."""


@dataclass(frozen=True, slots=True)
class TinyParams(Params):
    """Rounds whose exact model costs less than prices (`decision.climb`; 0051)."""

    columns: int = 1_500
    """Largest number of columns with named nodes of a tiny round."""

    distinct_columns: int = 30_000
    """The same for a round of nodes that are hardly alike."""

    distinct: float = 2.0
    """Largest ratio of these columns to options for which nodes are hardly alike."""

    whole_choices: int = 10
    """Number of whole choices without nodes after which the search by tables ends."""

    placements: int = 2
    """Largest number of whole choices for which that search asks a solver for nodes."""

    nodes: int = 64
    """Largest number of nodes of a round in which that search ends so early, and which is not
    divided into residual rounds."""

    candidates: int = 6_000
    """Largest number of candidates of such a round."""


@dataclass(frozen=True, slots=True)
class CoreParams(Params):
    """Knapsack tables and their core (`morph_opt.scheduling.decision.steps.knapsack`; 0020)."""

    additions: int = 8_000_000
    """Largest number of additions of a round's tables: some ten milliseconds."""

    additions_whole: int = 400_000
    """Largest number of additions for tables of all items; above it, of their core."""

    additions_part: int = 300_000
    """Number of additions for tables of a part of a core that is too large."""

    estimated_from: int = 20_000
    """Least number of candidates for which additions are estimated before items are made."""

    cores: int = number(5, 1)
    """Largest number of cores tried in one round."""

    first_items: float = 0.4
    """Additional items per job in the first core."""

    wider: float = number(3.0, 1)
    """Factor of the largest allowed loss from one core to the next."""

    proving: float = number(8.0, 1)
    """Largest factor of the allowed loss for a core that proves its own choice."""

    between: float = number(1.3, 1)
    """Smallest ratio of losses between a too large and a fitting core to try one in between."""

    partial_choices: int = 2_000
    """Largest number of partial choices in the search over tables."""

    partial_choices_ranked: int = 8_000
    """The same for several ranked goals, which prune more and make exact rounds dearer (0020)."""

    few_in_reach: int = 250
    """Number of options of better decisions up to which ranked goals have no such longer search."""

    placements: int = 8
    """Largest number of whole choices for which a solver searches nodes."""


@dataclass(frozen=True, slots=True)
class SlotParams(Params):
    """Prices of slots (`morph_opt.scheduling.decision.steps.slots`; 0020)."""

    kinds: int = 60
    """Largest number of kinds of slots that are priced."""

    evaluations: int = 100
    """Largest number of evaluations of the relaxation with slots."""

    close: float = 0.05
    """Distance to the least bound at which the search for prices ends, in requested gaps."""

    radius: float = 0.3
    """Trust region of the first search for prices, as a share of the prices."""

    radius_shared: float = 0.05
    """Trust region of the second search, after slots were shared out."""

    grows: float = number(2.0, 1)
    """Factor of the trust region after a step that lowers the bound."""


@dataclass(frozen=True, slots=True)
class SubRoundParams(Params):
    """Residual rounds: some jobs on some nodes, decided anew (0020)."""

    jobs: int = 100
    """Largest number of jobs of the smallest residual round."""

    nodes: int = number(60, 1)
    """Largest number of nodes of the smallest residual round."""

    much: float = 0.1
    """Share of (missing value x share of nodes) below which a residual round gains little."""

    parts: float = 4.0
    """Factor of the share of nodes in ``much``; their product is at most 1."""

    doublings: int = 3
    """Largest number of doublings of residual rounds, each after two small gains."""

    doublings_shaped: int = 6
    """Largest number of doublings if slots are priced: losses by shape are on many nodes (0020)."""

    share_shaped: int = number(2, 1)
    """Divisor of the round's nodes that limits doublings if slots are priced."""

    first_shaped: int = 2
    """Number of doublings before the first residual round if slots are priced."""

    first_nodes: int = number(8, 1)
    """Multiple of ``nodes`` per initial doubling, so that large rounds do not start tiny."""

    turns: int = 8
    """Largest average number of times that a node is decided anew (0020)."""

    in_vain: int = number(16, 1)
    """Small gains in a row after which residual rounds of the largest size end (0020)."""

    offered_loss: float = 0.3
    """Largest loss of an offered candidate at prices, as a share of the missing value."""

    offered: int = 2_500
    """Largest number of candidates of least loss that a residual round offers."""

    offered_per_job: int = 8
    """Number of candidates per job that a residual round may offer, if that is more."""

    branches: int = number(300, 1)
    """Largest number of branch-and-bound nodes of a residual round."""

    work: int = 400_000
    """Largest product of branch-and-bound nodes and columns of a residual round (0020)."""

    gap_share: float = 0.1
    """Gap of a residual round, as a share of the value missing in the whole round."""

    gap_most: float = 0.05
    """Largest gap of a residual round."""


@dataclass(frozen=True, slots=True)
class TieParams(Params):
    """Ties between equal jobs (`morph_opt.scheduling.decision.ties`; 0020)."""

    exchanges: int = 200
    """Largest number of exchanges between two jobs that are tried per group of equal jobs if a
    rule forbids the whole group its order."""


@dataclass(frozen=True, slots=True)
class DueParams(Params):
    """Rows of due jobs (`morph_opt.scheduling.decision.due`)."""

    same_s: float = 1e-3
    """Seconds by which instants may differ from rounding."""

    divisions: int = number(64, 1)
    """Largest number of divisions of GPUs over node classes that are kept in mind."""


@dataclass(frozen=True, slots=True)
class TurnParams(Params):
    """Limits of due jobs in favour of others (`morph_opt.scheduling.decision.turns`; 0056)."""

    every_s: float = above(21_600.0)
    """Seconds from the start of a turn to that of the next; turns start at multiples of it."""

    turn_s: float = above(7200.0)
    """Length of a turn, and seconds for which a job that starts in it is held."""

    share: float = 0.25
    """Share of all GPUs above which a job is wide."""

    rest_s: float = 3600.0
    """Seconds of run time left up to which a held job keeps its GPUs until it ends."""

    at_once: float = 0.5
    """Share of all GPUs that due jobs hold together at most, unless the first one needs more."""


@dataclass(frozen=True, slots=True)
class BlockParams(Params):
    """Blocks of rounds with many rows over several jobs (docs/formulations/prices.md, "Blocks")."""

    many: int = number(32, 1)
    """Number of such rows from which their prices are found all at once, and blocks solved."""
    columns: int = number(60_000, 1)
    """Largest number of options of a block."""
    mends: int = number(10, 0)
    """Largest number of blocks that are solved again within what the others leave."""
    factors: tuple[float, ...] = (64.0, 1024.0)
    """Factors of the prices of floors, tried in turn until a choice attains the floors."""
    gap_share: float = number(0.3, 0, 1)
    """Gap of a block, in units of the requested one."""
    gap_least: float = number(1e-4, 0, 1)
    """Smallest gap of a block."""


@dataclass(frozen=True, slots=True)
class LadderParams(Params):
    """The ladder's choice of steps (`morph_opt.scheduling.decision.ladder`; 0020)."""

    compact_from: int = 100_000
    """Least number of candidates for which rounds leave out those that no prices choose (0020)."""

    whole: int = 200_000
    """Largest number of candidates of a compact round that is posed whole if it misses its
    gap (0020); the whole round has about five times as many."""

    whole_shaped: int = 1_000_000
    """Largest such number if shapes cause the gap, which only the whole round closes (0020)."""

    shaped_gap: float = 0.01
    """Gap above which slots are priced: smaller ones come from single jobs (0020)."""

    exact_gap: float = 0.005
    """Gap above which an exact round of at most ``exact_columns`` precedes residual rounds, which
    gain little of it and each cost a third of the exact round (0020)."""

    first_columns: int = 5_000
    """Largest number of columns of an exact round that precedes slots: one of twice as many
    takes three times as long as they do (0020)."""

    small: int = 2_000
    """Number of candidates below which the exact round costs less than residual rounds."""

    reach: float = 0.04
    """Loss against the bound, as a share of it, of decisions whose options are tried first."""

    reach_from: int = 500
    """Least number of options of better decisions for which fewer are tried first (0020)."""

    exact_columns: int = 8_000
    """Largest number of columns of the last exact round."""

    exact_branches: int = 1_000
    """Largest number of branch-and-bound nodes of the last exact round."""

    exact_shrinks: int = number(2, 1)
    """Factor by which its columns must have shrunk for the exact round to be solved again."""

    columns_per_hold: int = 4
    """Columns of the exact round per job and node that it holds: whether it stays or starts, and
    free states and patterns of the node."""

    rank_gap: float = 1e-6
    """Gap requested of goals before the last one."""

    late_s: float = 0.1
    """Longest time in seconds of a solve that starts after the round's time is over."""

    rescue_s: float = above(1.0)
    """Seconds for a decision by the rules alone, if neither method nor fallback found one."""

    promised_share: float = 0.8
    """Share of the time after which promises stop being rows if no decision keeps them yet."""

    rows: BlockParams = field(default_factory=BlockParams)
    """Blocks of rounds with many rows over several jobs."""
    core: CoreParams = field(default_factory=CoreParams)
    """Knapsack tables."""

    slots: SlotParams = field(default_factory=SlotParams)
    """Prices of slots."""

    sub: SubRoundParams = field(default_factory=SubRoundParams)
    """Residual rounds."""

    cuts: CutParams = field(default_factory=CutParams)
    """Choices without nodes."""

    named: NamedParams = field(default_factory=NamedParams)
    """Exact models with named nodes."""

    tiny: TinyParams = field(default_factory=TinyParams)
    """Rounds that are solved exactly at once."""

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
"""Default parameters of rounds."""
PAIRS = PairParams()
"""Default parameters of pairs."""
TIES = TieParams()
"""Default parameters of ties."""
DOMINANCE = DominanceParams()
"""Default parameters of dominance."""
DUE = DueParams()
"""Default parameters of rows of due jobs."""
TURNS = TurnParams()
"""Default parameters of what due jobs leave to all others."""
