"""Parameters of the methods: numbers that steer a search and never what a bound proves.

One frozen class per subject, one instance with the values in use. Functions take an instance, so
that a caller or a test can vary a field with `dataclasses.replace`. A field names the page or the
record that has its measurement; the others were set by profile when the method was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


def _require(params: object, low: float, high: float, *names: str, whole: bool = False) -> None:
    """Refuse fields outside ``low`` to ``high`` or, with ``whole``, that are not whole numbers.

    Raises
    ------
    ValueError
        With the class, the field and its range.
    """
    for name in names:
        value = getattr(params, name)
        kind = "a whole number" if whole else "a number"
        if (whole and not isinstance(value, int)) or not low <= value <= high:
            where = f"{type(params).__name__}.{name}"
            raise ValueError(f"{where} must be {kind} from {low:g} to {high:g}, got {value!r}")


# ------------------------------------------------------------------ columns and patterns


@dataclass(frozen=True, slots=True)
class ColumnParams:
    """How long columns are processed and small answers are remembered."""

    stretch: int = 2**15
    """Rows of a long column processed together: their look-ups fit in a processor's cache."""
    fewer: int = 8
    """Columns per distinct column from which `alike_columns` keeps the distinct ones alone."""
    most_known: int = 64
    """Answers that `by_content` remembers of one function."""
    largest_known: int = 2**17
    """Largest size of remembered arguments, in bytes."""

    def __post_init__(self) -> None:
        _require(self, 1, inf, "stretch", "fewer", "most_known", whole=True)
        _require(self, 0, inf, "largest_known", whole=True)


COLUMNS = ColumnParams()


@dataclass(frozen=True, slots=True)
class PatternParams:
    """Limits of counting how a node can be cut into slots."""

    kinds: int = 8
    """Largest number of slot kinds of a class that tell side resources apart (node_pattern.md)."""
    patterns: int = 20_000
    """Largest number of patterns of one free state; beyond, nodes are named instead."""

    def __post_init__(self) -> None:
        _require(self, 1, inf, "kinds", "patterns", whole=True)


PATTERNS = PatternParams()


@dataclass(frozen=True, slots=True)
class DecodeParams:
    """Limits of finding nodes for a choice by heuristics and by search."""

    slotted: int = 2_000_000
    """Largest product of parts and nodes for which parts take slots one by one."""
    most_parts: int = 200
    """Largest number of parts for which all ways to place them are searched."""
    most_tries: int = 5_000
    """Placements of a part after which that search gives up."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "slotted", "most_parts", "most_tries", whole=True)


DECODE = DecodeParams()


# ------------------------------------------------------------------ prices


@dataclass(frozen=True, slots=True)
class PriceSearchParams:
    """Search for prices with the least bound (docs/formulations/prices.md, "Good prices").

    ``top`` of a row below is the largest value per unit that any option has of it.
    """

    evaluations: int = 60
    """Largest number of evaluations of the relaxation."""
    close: float = 1e-9
    """Relative distance to the least bound at which cutting planes end."""
    radius: float | None = None
    """Relative size of the first box; None for ``fresh``, or ``near`` if prices are given."""
    fresh: float = 0.6
    """Relative size of the first box without prices to start from."""
    near: float = 0.05
    """Relative size of the first box around given prices."""
    grows: float = 1.0
    """Factor of the box where the bound falls by more than ``good`` of the predicted fall."""
    good: float = 0.5
    """Part of the predicted fall above which the box grows."""
    poor: float = 0.1
    """Part of the predicted fall below which the box shrinks."""
    shrinks: float = 0.5
    """Factor of the box where the cutting planes predicted badly."""
    widens: float = 4.0
    """Factor of the box where only its sides hold the planes' minimum back."""
    least_radius: float = 1e-10
    """Relative size of the box at which the search ends."""
    least_width: float = 0.05
    """Smallest width of the box at a price near 0, in units of ``top``."""
    first: float = 0.25
    """First price of GPUs and slots, in units of ``top``."""
    highest: float = 1.25
    """Largest price searched, in units of ``top``: above 1 no option pays it."""
    least_price: float = 1e-3
    """First price above 0 when one price is raised until the bound rises, in units of ``top``."""
    doubles: float = 2.0
    """Factor by which one price is raised until the bound rises."""
    halved_every: int = 3
    """Steps after which the bracket of one price is halved instead of intersected."""
    least_bracket: float = 1e-14
    """Width of the bracket of one price at which the search ends, in units of ``top``."""
    tied: float = 1e-6
    """Relative fall of the bound from which a row is priced that only a tie keeps."""

    def __post_init__(self) -> None:
        _require(self, 1, inf, "evaluations", "halved_every", whole=True)
        _require(self, 0, 1, "close", "good", "poor", "shrinks", "first", "least_radius", "tied")
        _require(self, 0, inf, "fresh", "near", "least_width", "least_price", "least_bracket")
        _require(self, 1, inf, "grows", "widens", "highest", "doubles")
        if self.radius is not None:
            _require(self, 0, inf, "radius")


PRICE_SEARCH = PriceSearchParams()


@dataclass(frozen=True, slots=True)
class LpRoundingParams:
    """From prices to a choice within the rows (docs/formulations/prices.md, ladder step 1)."""

    short: float = 3.0
    """Cost of a slot that the master problem lacks, in units of its price."""
    least_short: float = 1e-9
    """Smallest such cost, in units of the best cut's value."""
    least_share: float = 1e-9
    """Share of a cut in the master's answer up to which it is left out."""
    keys: int = 6
    """Rows by whose use jobs are sorted before they take their cuts."""
    key_weight: float = 1e3
    """Weight of row d in that sort key, in units of d + 1: later rows sort before earlier ones."""
    passes: int = 20
    """Largest number of repairs of each row."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "short", "least_short", "least_share", "key_weight")
        _require(self, 1, inf, "keys", "passes", whole=True)


LP_ROUNDING = LpRoundingParams()


@dataclass(frozen=True, slots=True)
class PlacingParams:
    """Nodes for a choice, and use of what is left over (docs/formulations/prices.md, step 1)."""

    next_best: int = 12
    """Options that a job without nodes tries, by falling reduced value."""
    passes: int = 6
    """Largest number of passes over the free GPUs: a move may make room for another."""
    moves: int = 4_000
    """Moves tried per pass."""
    widens: int = 4
    """Factor by which more moves are sorted where too few of the first have nodes."""
    sifted: int = 2**15
    """Candidates above which moves without nodes are left out before they are tried."""
    bucket: int = 16
    """Nodes of a bucket from which their side resources are compared all at once."""
    bucket_widens: int = 4
    """Factor by which such comparisons take in more nodes each time."""

    def __post_init__(self) -> None:
        _require(self, 1, inf, "next_best", "passes", "moves", "bucket", whole=True)
        _require(self, 2, inf, "widens", "bucket_widens", whole=True)
        _require(self, 0, inf, "sifted", whole=True)


PLACING = PlacingParams()


@dataclass(frozen=True, slots=True)
class SlotParams:
    """Prices of slots (docs/formulations/prices.md, "Slots")."""

    most_gangs: int = 8
    """Jobs of a node whose subsets are enumerated; further jobs pay nothing to stay."""
    shifts: int = 24
    """Largest number of times that the shares of gangs are moved between their nodes."""
    shift: float = 0.3
    """Relative change of a share at the first of them."""
    fades: float = 0.95
    """Factor of that change from one time to the next."""
    forced: float = 8.0
    """Largest payment of a stay, in units of the largest value: a job without a start must stay."""

    def __post_init__(self) -> None:
        _require(self, 0, 16, "most_gangs", whole=True)
        _require(self, 0, inf, "shifts", whole=True)
        _require(self, 0, 1, "shift", "fades")
        _require(self, 1, inf, "forced")


SLOTS = SlotParams()


# ------------------------------------------------------------------ knapsack


@dataclass(frozen=True, slots=True)
class KnapsackParams:
    """Items, tables and their search (docs/formulations/knapsack.md)."""

    weight: float = 100.0
    """Weight of a goal that ranks higher, in units of the goal itself ("Items")."""
    few_keys: int = 2**14
    """Possible distinct sizes up to which the sizes that occur are found by counting."""
    few_states: int = 2**12
    """States times sizes up to which one step of the tables takes all sizes of a job at once."""
    checked: int = 2**14
    """Entries of tables checked together: they fit in a processor's cache."""
    grain: float = 1e3
    """Width of a tie between bounds, in units of rounding ("Ties")."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "weight")
        _require(self, 1, inf, "grain")
        _require(self, 0, inf, "few_keys", "few_states", whole=True)
        _require(self, 1, inf, "checked", whole=True)


KNAPSACK = KnapsackParams()


@dataclass(frozen=True, slots=True)
class CoreParams:
    """Prices of GPUs by Newton's method on a smoothed bound (docs/formulations/knapsack.md).

    Widths are in units of the range of values.
    """

    widest: float = 0.05
    """Width of the soft maximum at which the search begins."""
    narrower: float = 0.25
    """Factor of the width from one stage to the next."""
    close: float = 0.05
    """Sum of the widths of all jobs at which the search ends."""
    steps: int = 2
    """Newton steps per width: B is then within 0.002 % of the least ("The core")."""
    ridge: float = 1e-6
    """Share of the trace that is added to the diagonal of the second derivative."""
    least_ridge: float = 1e-12
    """Smallest such addition."""
    descent: float = 1e-4
    """Part of the linear prediction by which a step must lower the bound (Armijo's rule)."""
    shorter: float = 0.3
    """Factor by which a step is shortened until it does."""
    shortest: float = 1e-2
    """Length at which a step is taken whatever it lowers."""
    spread: float = 4.0
    """Jobs share their items by a soft maximum this many times narrower than a job's slack."""
    idle: float = 1e-3
    """Price of an idle GPU without a price, in units of the largest price."""

    def __post_init__(self) -> None:
        _require(self, 0, 1, "widest", "close", "ridge", "least_ridge", "descent", "shortest")
        _require(self, 0.01, 0.99, "narrower", "shorter")
        _require(self, 1, inf, "steps", whole=True)
        _require(self, 0, inf, "spread", "idle")


CORE = CoreParams()


# ------------------------------------------------------------------ models


@dataclass(frozen=True, slots=True)
class ScalingParams:
    """Sizes to which models are scaled (`formulations.scaling`); all are powers of two."""

    small: float = 2.0**-10
    """Smallest size that is left as it is."""
    large: float = 2.0**20
    """Largest size that is left as it is."""
    dearest: float = 2.0**10
    """Largest cost of a scaled objective; a largest cost of 1 to ``large`` is left as it is."""
    widest: float = 2.0**30
    """Largest entry of a row, in units of its side."""

    def __post_init__(self) -> None:
        _require(self, 0, 1, "small")
        _require(self, 1, inf, "large", "dearest", "widest")


SCALING = ScalingParams()


@dataclass(frozen=True, slots=True)
class ShareParams:
    """Models of target shares (docs/formulations/fairness.md, "How it is solved")."""

    small_share: float = 2.0**-10
    """Share of the time below which a column is scaled to the job's own need."""
    spare: float = 2.0
    """Upper limit of such a column, in units of that need."""
    clear: float = 0.9
    """Part of the fastest type's speed below which all other types must be to fix a job there."""
    negligible: float = 1e-9
    """Part of a job's top speed that solvers cannot tell from 0."""

    def __post_init__(self) -> None:
        _require(self, 0, 1, "small_share", "clear", "negligible")
        _require(self, 1, inf, "spare")


SHARES = ShareParams()


# ------------------------------------------------------------------ objectives


@dataclass(frozen=True, slots=True)
class RatioParams:
    """Finish-time ratios (measured in docs/decisions/0011-finish-time-ratios.md)."""

    power: float = 5.0
    """Exponent k: how much more a late job counts than one on time."""
    restart_weight: float = 2.0
    """Times that a start-up caused by the round counts."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "power")
        _require(self, 1, inf, "restart_weight")


RATIOS = RatioParams()


@dataclass(frozen=True, slots=True)
class ServiceParams:
    """Service that is owed or ranked (docs/formulations/fairness.md, las.md)."""

    horizon_s: float = 1800.0
    """Seconds in which a lag is made up for."""
    amortise_s: float = 600.0
    """Seconds of service that a start-up is charged to."""

    def __post_init__(self) -> None:
        _require(self, 1e-9, inf, "horizon_s", "amortise_s")


SERVICE = ServiceParams()


@dataclass(frozen=True, slots=True)
class WorkParams:
    """Completion rates weighed by work or money (docs/formulations/makespan.md, cost.md)."""

    power: float = 0.9
    """Exponent of the work that is left, chosen on twins of `base` (makespan.md)."""
    restart_weight: float = 2.0
    """Times that a start-up caused by the round counts (docs/formulations/objectives.md, jct)."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "power")
        _require(self, 1, inf, "restart_weight")


WORK = WorkParams()


@dataclass(frozen=True, slots=True)
class LookaheadParams:
    """Prices of GPU-seconds by the backlog (docs/formulations/lookahead.md)."""

    most_waits: int = 128
    """Largest number of instants at which a wait may end; beyond, evenly many are tried."""
    steps: int = 100
    """Multiplicative steps towards the values of node classes: within 2 % ("The price")."""
    first_step: float = 0.5
    """Length of the first; the i-th one's is divided by the root of i."""
    least_start: float = 1e-3
    """Smallest value of a start, in rounds, times the round over the seconds until completion."""
    least_stay: float = 2e-3
    """Smallest value of a stay, likewise."""

    def __post_init__(self) -> None:
        _require(self, 2, inf, "most_waits", whole=True)
        _require(self, 1, inf, "steps", whole=True)
        _require(self, 0, inf, "first_step", "least_start", "least_stay")


LOOKAHEAD = LookaheadParams()


@dataclass(frozen=True, slots=True)
class SavedTimeParams:
    """Smallest values under `saved-time` (docs/formulations/saved-time.md)."""

    least_start: float = 0.1
    """Smallest value of a start at the job's best speed, in rounds."""
    least_stay: float = 0.2
    """Smallest value of a stay at the job's best speed, in rounds."""

    def __post_init__(self) -> None:
        _require(self, 0, inf, "least_start", "least_stay")


SAVED_TIME = SavedTimeParams()
