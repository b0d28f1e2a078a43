"""A round of Pollux as its published code repairs it, and what it calls feasible."""

from __future__ import annotations

from formulations.arrays import Bools, Ints
from morph_opt.scheduling.policies.malleable.pollux_rule import PolluxRound


class PublishedRound(PolluxRound):
    """On a node with two jobs spread over nodes, all behind the second lose it, spread or not."""

    @staticmethod
    def clashing(wide: Bools) -> Bools:
        """What loses a node."""
        return wide.cumsum(axis=1) > 1

    def feasible(self, states: Ints) -> Bools:
        """Node capacity, most GPUs, and one job over several nodes at most per node, shape (P,)."""
        inside = (states.sum(axis=1) <= self.capacity).all(axis=1)
        few = (states.sum(axis=2) <= self.most).all(axis=1)
        wide = ((states > 0).sum(axis=2) > 1)[:, :, None] & (states > 0)
        found: Bools = inside & few & (wide.sum(axis=1) <= 1).all(axis=1)
        return found
