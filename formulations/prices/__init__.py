"""Prices of shared resources, the bound that they prove, and the search for good ones.

See ``docs/formulations/prices.md`` for the theorem and its proof.
"""

from formulations.prices.bound import Bound, Prices, price_bound
from formulations.prices.choose import choose_prices
from formulations.prices.relaxation import Relaxation
from formulations.prices.rows import Shared, shared_rows

__all__ = [
    "Bound",
    "Prices",
    "Relaxation",
    "Shared",
    "choose_prices",
    "price_bound",
    "shared_rows",
]
