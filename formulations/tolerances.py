"""Tolerances within which numbers count as equal and limits as kept.

Each kind has one name here. Numbers that steer a search are in `formulations.parameters`.
"""

FEASIBILITY = 1e-9
"""Amount by which a limit may be exceeded, in the limit's unit, or relative to it if it is above 1.

Far above the rounding of a node's sums (1e-15 relative), far below one GPU, thread or GiB.
"""

DECIMALS = 9
"""Decimals of amounts that serve as keys: equal demands get equal keys, as in `FEASIBILITY`."""

MARGIN = 1e-8
"""Room added on a node when its slots are priced, relative to its capacity, or absolute below 1.

Ten times `FEASIBILITY`, so that whatever a check lets pass fits in the bound as well.
"""

SAME_INSTANT_S = 1e-6
"""Seconds by which instants of a plan may differ from rounding."""

INTEGRALITY = 1e-9
"""Distance at which a number counts as whole when it is rounded up."""

CHOSEN = 0.5
"""Value above which a binary column counts as 1: solvers return 0 and 1 up to 1e-6."""

SAME_SPEED = 1e-9
"""Relative difference at which two speeds are equal: one configuration, computed in two ways."""

SAME_VALUE = 1e-9
"""Difference at which two values are equal, relative to the larger values of a round."""

GAP = 1e-9
"""Amount by which a relative gap may exceed the requested one and still meet it."""

ROUNDING = 1e-12
"""Relative error of a sum: 1,000 additions of doubles err by less (1.1e-16 each)."""

SUMS = 1e-9
"""Relative amount by which a bound on a whole replay is lowered: it adds up many instants."""

PRICE_CLAIM = 1e-10
"""Relative amount by which a bound may lie below what its prices prove.

`formulations.check_bound` adds up in another order than `formulations.prices`.
"""

TABLE_CLAIM = 1e-11
"""`PRICE_CLAIM` for tables, relative to the values in a sum: they need fewer additions."""

SOLVED = 1e-6
"""Relative violation of a row in the answer of an LP or MIP solver: their usual tolerance."""

CLAIM = 1e-6
"""Relative difference between a solver's claim and the value recomputed from its answer."""

SMALLEST = 1e-300
"""Smallest divisor, in place of 0: any quotient stays finite or becomes inf without a warning."""
