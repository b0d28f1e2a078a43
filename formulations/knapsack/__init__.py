"""A round as a multiple-choice knapsack over GPUs: tables, their bound, and a search.

docs/formulations/knapsack.md has the mathematics.
"""

from formulations.knapsack.core import losing, priced, rounded
from formulations.knapsack.items import Items, find_items, least_additions
from formulations.knapsack.placing import placed_by_places
from formulations.knapsack.search import Found, best_decision
from formulations.knapsack.tables import Tables

__all__ = [
    "Found",
    "Items",
    "Tables",
    "best_decision",
    "find_items",
    "least_additions",
    "losing",
    "placed_by_places",
    "priced",
    "rounded",
]
