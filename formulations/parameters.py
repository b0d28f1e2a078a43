"""Parameters of the methods: numbers that steer a search and never what a bound proves.

One frozen class per subject, one instance with the values in use. Functions take an instance, so
that a caller or a test can vary a field with `dataclasses.replace`. A field names the page or the
record that has its measurement; the others were set by profile when the method was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import inf
from typing import Any


def number(default: Any, least: float = 0, most: float = inf) -> Any:
    """Declare a field from ``least`` to ``most``; fields without a declaration are at least 0."""
    return field(default=default, metadata={"least": least, "most": most})


def above(default: Any, limit: float = 0, most: float = inf) -> Any:
    """Declare a field larger than ``limit``, up to ``most``."""
    return field(default=default, metadata={"above": limit, "most": most})


@dataclass(frozen=True, slots=True)
class Params:
    """Base of parameter classes: each field is checked against its declared range when it is set.

    Fields that hold parameters themselves are skipped; of tuples every element is checked.

    Raises
    ------
    ValueError
        With the class, the field and its range.
    """

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            if isinstance(given, Params) or (given is None and "None" in str(one.type)):
                continue
            whole, limit = "int" in str(one.type), one.metadata.get("above")
            least, most = one.metadata.get("least", 0), one.metadata.get("most", inf)
            for value in given if isinstance(given, tuple) else (given,):
                kind = isinstance(value, int if whole else (int, float))
                low = value >= least if limit is None else value > limit
                if not kind or isinstance(value, bool) or not low or not value <= most:
                    rule = "a whole number" if whole else "a number"
                    rule += f" from {least:g}" if limit is None else f" above {limit:g}"
                    rule += "" if most == inf else f" to {most:g}"
                    name = f"{type(self).__name__}.{one.name}"
                    raise ValueError(f"{name} must be {rule}, got {value!r}")


# ------------------------------------------------------------------ columns and patterns


@dataclass(frozen=True, slots=True)
class ColumnParams(Params):
    """Processing of long columns, and caching of small answers."""

    stretch: int = number(2**15, 1)
    """Rows of a long column processed together: their look-ups fit in a processor's cache."""
    fewer: int = number(8, 1)
    """Ratio of columns to distinct columns from which `alike_columns` keeps only distinct ones."""
    most_known: int = number(64, 1)
    """Answers that `by_content` remembers of one function."""
    largest_known: int = 2**17
    """Largest size of remembered arguments, in bytes."""


COLUMNS = ColumnParams()


@dataclass(frozen=True, slots=True)
class PatternParams(Params):
    """Limits of counting how a node can be cut into slots."""

    kinds: int = number(8, 1)
    """Largest number of slot kinds of a class that distinguish side resources (node_pattern.md)."""
    patterns: int = number(20_000, 1)
    """Largest number of patterns of one free state; beyond, nodes are named instead."""


PATTERNS = PatternParams()


@dataclass(frozen=True, slots=True)
class DecodeParams(Params):
    """Limits of finding nodes for a choice by heuristics and by search."""

    slotted: int = 2_000_000
    """Largest product of parts and nodes for which parts take slots one by one."""
    most_parts: int = 200
    """Largest number of parts for which all ways to place them are searched."""
    most_tries: int = 5_000
    """Number of tried placements after which the search gives up."""


DECODE = DecodeParams()


# ------------------------------------------------------------------ prices


@dataclass(frozen=True, slots=True)
class PriceSearchParams(Params):
    """Search for prices with the least bound (docs/formulations/prices.md, "Good prices").

    ``top`` of a row below is the largest value per unit that any option has of it.
    """

    evaluations: int = number(60, 1)
    """Largest number of evaluations of the relaxation."""
    close: float = number(1e-9, 0, 1)
    """Relative distance to the least bound at which cutting planes end."""
    radius: float | None = None
    """Relative size of the first box (trust region); None for ``fresh``, or ``near`` if prices are
    given."""
    fresh: float = 0.6
    """Relative size of the first box without prices to start from."""
    near: float = 0.05
    """Relative size of the first box around given prices."""
    grows: float = number(1.0, 1)
    """Factor by which the box grows after a fall above ``good`` times the predicted fall."""
    good: float = number(0.5, 0, 1)
    """Share of the predicted fall of the bound above which the box grows."""
    poor: float = number(0.1, 0, 1)
    """Share of the predicted fall of the bound below which the box shrinks."""
    shrinks: float = number(0.5, 0, 1)
    """Factor by which the box shrinks after a poor prediction."""
    widens: float = number(4.0, 1)
    """Factor by which the box grows if only its sides stop the planes' minimum."""
    least_radius: float = number(1e-10, 0, 1)
    """Relative size of the box at which the search ends."""
    least_width: float = 0.05
    """Smallest width of the box at a price near 0, in units of ``top``."""
    first: float = number(0.25, 0, 1)
    """First price of GPUs and slots, in units of ``top``."""
    highest: float = number(1.25, 1)
    """Largest price searched, in units of ``top``: above 1 no option pays it."""
    least_price: float = 1e-3
    """First price above 0 when one price is raised until the bound rises, in units of ``top``."""
    doubles: float = number(2.0, 1)
    """Factor by which one price is raised until the bound rises."""
    halved_every: int = number(3, 1)
    """Steps after which the bracket of one price is halved instead of intersected."""
    least_bracket: float = 1e-14
    """Width of the bracket of one price at which the search ends, in units of ``top``."""
    tied: float = number(1e-6, 0, 1)
    """Smallest relative fall of the bound for which a row kept only by a tie is priced."""


PRICE_SEARCH = PriceSearchParams()


@dataclass(frozen=True, slots=True)
class InteriorParams(Params):
    """Interior-point method for prices of many rows (docs/formulations/prices.md)."""

    steps: int = number(80, 1)
    """Largest number of steps."""
    close: float = number(1e-5, 0, 1)
    """Gap, in units of the value, at which the method ends."""
    short: float = number(1e-5, 0, 1)
    """Largest violation of a row, in units of its largest use, at which the method ends."""
    first: float = number(0.1, 0, 1)
    """First price of each row and column, in units of the largest value."""
    reach: float = number(0.995, 0, 1)
    """Share of the way to the nearest limit that a step takes at most."""


INTERIOR = InteriorParams()


@dataclass(frozen=True, slots=True)
class ManyRowsParams(Params):
    """Prices of many rows (docs/formulations/prices.md, "Many rows")."""

    negligible: float = number(1e-7, 0, 1)
    """Share of the largest price below which a price is rounded to 0."""


MANY_ROWS = ManyRowsParams()


@dataclass(frozen=True, slots=True)
class LpRoundingParams(Params):
    """Rounding of prices to a choice within rows (docs/formulations/prices.md, ladder step 1)."""

    short: float = 3.0
    """Cost of a slot that the master problem lacks, in units of its price."""
    least_short: float = 1e-9
    """Smallest cost of a slot that the master problem lacks, in units of the best cut's value."""
    least_share: float = 1e-9
    """Largest share of a cut in the master's answer at which the cut is left out."""
    keys: int = number(6, 1)
    """Number of rows by whose use jobs are sorted before they take their cuts."""
    key_weight: float = 1e3
    """Weight of row d in the jobs' sort key, in units of d + 1: later rows sort first."""
    passes: int = number(20, 1)
    """Largest number of repairs of each row."""


LP_ROUNDING = LpRoundingParams()


@dataclass(frozen=True, slots=True)
class PlacingParams(Params):
    """Nodes for a choice, and use of what is left over (docs/formulations/prices.md, step 1)."""

    next_best: int = number(12, 1)
    """Number of options that a job without nodes tries, by falling reduced value."""
    passes: int = number(6, 1)
    """Largest number of passes over the free GPUs: a move may make room for another."""
    moves: int = number(4_000, 1)
    """Number of moves tried per pass."""
    widens: int = number(4, 2)
    """Factor by which the number of sorted moves grows if too few of them have nodes."""
    sifted: int = 2**15
    """Number of candidates above which moves without nodes are dropped before they are tried."""
    bucket: int = number(16, 1)
    """Smallest number of nodes of a bucket whose side resources are compared all at once."""
    bucket_widens: int = number(4, 2)
    """Growth factor of a bucket's compared nodes from one comparison to the next."""


PLACING = PlacingParams()


@dataclass(frozen=True, slots=True)
class SlotParams(Params):
    """Prices of slots (docs/formulations/prices.md, "Slots")."""

    most_gangs: int = number(8, 0, 16)
    """Largest number of a node's jobs whose subsets are enumerated; further jobs stay for free."""
    shifts: int = 24
    """Largest number of times that the shares of gangs are moved between their nodes."""
    shift: float = number(0.3, 0, 1)
    """Relative change of a share at the first move."""
    fades: float = number(0.95, 0, 1)
    """Factor of the relative change from one move to the next."""
    forced: float = number(8.0, 1)
    """Largest payment of a stay, in units of the largest value: a job without a start must stay."""


SLOTS = SlotParams()


# ------------------------------------------------------------------ knapsack


@dataclass(frozen=True, slots=True)
class KnapsackParams(Params):
    """Items, tables and their search (docs/formulations/knapsack.md)."""

    weight: float = 100.0
    """Weight of a higher goal in the items' value, in units of that goal ("Items")."""
    few_keys: int = 2**14
    """Largest number of possible sizes for which the occurring ones are found by counting."""
    few_states: int = 2**12
    """States times sizes up to which one step of the tables takes all sizes of a job at once."""
    checked: int = number(2**14, 1)
    """Number of table entries checked together: they fit in a processor's cache."""
    grain: float = number(1e3, 1)
    """Width of a tie between bounds, in units of rounding ("Ties")."""


KNAPSACK = KnapsackParams()


@dataclass(frozen=True, slots=True)
class CoreParams(Params):
    """Prices of GPUs by Newton's method on a smoothed bound (docs/formulations/knapsack.md).

    Widths are in units of the range of values.
    """

    widest: float = number(0.05, 0, 1)
    """Width of the soft maximum at which the search begins."""
    narrower: float = number(0.25, 0.01, 0.99)
    """Factor of the width from one stage to the next."""
    close: float = number(0.05, 0, 1)
    """Sum of the widths of all jobs at which the search ends."""
    steps: int = number(2, 1)
    """Newton steps per width: B is then within 0.002 % of the least ("The core")."""
    ridge: float = number(1e-6, 0, 1)
    """Share of the trace that is added to the diagonal of the second derivative."""
    least_ridge: float = number(1e-12, 0, 1)
    """Smallest value added to the diagonal."""
    descent: float = number(1e-4, 0, 1)
    """Part of the linear prediction by which a step must lower the bound (Armijo's rule)."""
    shorter: float = number(0.3, 0.01, 0.99)
    """Factor by which a step that fails Armijo's rule is shortened."""
    shortest: float = number(1e-2, 0, 1)
    """Length of a step that is taken without a test."""
    spread: float = 4.0
    """Ratio of a job's slack to the width of the soft maximum by which jobs share their items."""
    idle: float = 1e-3
    """Price of an idle GPU without a price, in units of the largest price."""


CORE = CoreParams()


# ------------------------------------------------------------------ models


@dataclass(frozen=True, slots=True)
class ScalingParams(Params):
    """Sizes to which models are scaled (`formulations.scaling`); all are powers of two."""

    small: float = number(2.0**-10, 0, 1)
    """Smallest size that is left as it is."""
    large: float = number(2.0**20, 1)
    """Largest size that is left as it is."""
    dearest: float = number(2.0**10, 1)
    """Largest cost of a scaled objective; largest costs from 1 to ``large`` are kept."""
    widest: float = number(2.0**30, 1)
    """Largest entry of a row, in units of its side."""


SCALING = ScalingParams()


@dataclass(frozen=True, slots=True)
class ShareParams(Params):
    """Models of target shares (docs/formulations/fairness.md, "How it is solved")."""

    small_share: float = number(2.0**-10, 0, 1)
    """Share of the time below which a column is scaled to the job's own need."""
    spare: float = number(2.0, 1)
    """Upper limit of a scaled column, in units of the job's own need."""
    clear: float = number(0.9, 0, 1)
    """Share of the fastest type's speed; if all other types are slower, a job is fixed to it."""
    negligible: float = number(1e-9, 0, 1)
    """Part of a job's top speed that is too small for solvers' precision."""


SHARES = ShareParams()


# ------------------------------------------------------------------ objectives


@dataclass(frozen=True, slots=True)
class RatioParams(Params):
    """Values of finish-time ratios (measured in docs/decisions/0011-finish-time-ratios.md)."""

    power: float = 5.0
    """Exponent k: how much more a late job counts than one on time."""
    restart_weight: float = number(2.0, 1)
    """Weight of a start-up that the round causes."""
    least_rate: float = above(1e-3)
    """Least fair rate of a job, in units of its rate on an equal part of the cluster."""


RATIOS = RatioParams()


@dataclass(frozen=True, slots=True)
class ServiceParams(Params):
    """Values of owed or ranked service (docs/formulations/fairness.md, las.md)."""

    horizon_s: float = number(1800.0, 1e-9)
    """Seconds in which a lag is made up for."""
    amortise_s: float = number(600.0, 1e-9)
    """Seconds of service that a start-up is charged to."""


SERVICE = ServiceParams()


@dataclass(frozen=True, slots=True)
class WorkParams(Params):
    """Weights of completion rates by work or money (docs/formulations/makespan.md, cost.md)."""

    power: float = 0.9
    """Exponent of the work that is left, chosen on twins of `base` (makespan.md)."""
    restart_weight: float = number(2.0, 1)
    """Weight of a start-up that the round causes (docs/formulations/objectives.md, jct)."""


WORK = WorkParams()


@dataclass(frozen=True, slots=True)
class LookaheadParams(Params):
    """Prices of GPU-seconds by the backlog (docs/formulations/lookahead.md)."""

    most_waits: int = number(128, 2)
    """Largest number of instants at which a wait may end; beyond, evenly many are tried."""
    steps: int = number(100, 1)
    """Multiplicative steps towards the values of node classes: within 2 % ("The price")."""
    first_step: float = 0.5
    """Length of the first step; step i has this length divided by the root of i."""
    least_start: float = 1e-3
    """Smallest value of a start, in rounds, times the round over the seconds until completion."""
    least_stay: float = 2e-3
    """Smallest value of a stay, in the unit of ``least_start``."""
    tie: float = 1e-6
    """Additional value of jobs that take all of a node class, in the unit of ``least_start``."""


LOOKAHEAD = LookaheadParams()


@dataclass(frozen=True, slots=True)
class SavedTimeParams(Params):
    """Smallest values under `saved-time` (docs/formulations/saved-time.md)."""

    least_start: float = 0.1
    """Smallest value of a start at the job's best speed, in rounds."""
    least_stay: float = 0.2
    """Smallest value of a stay at the job's best speed, in rounds."""
    wide_start_s: float = number(600.0, 0)
    """Seconds that are added to the least of a start of a rigid job that needs all GPUs (0055)."""
    wide_stay_s: float = number(900.0, 0)
    """Seconds that are added to the least of its stay."""


SAVED_TIME = SavedTimeParams()
