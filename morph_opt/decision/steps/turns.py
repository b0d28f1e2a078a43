"""How large residual rounds are, and when they end: by counts, never by the clock."""

from __future__ import annotations

FREE_JOBS, FREE_NODES = 100, 60
"""Jobs and nodes of a residual round at most."""

MUCH, PARTS = 0.1, 4.0
"""A residual round gains little that gains less than this share of what is missing, of as many
times its nodes' share of it."""

GROWN, LARGEST, HALF = 3, 6, 2
"""How often they double in size, after two that gained little, until there are no more: so often
the first, or where slots are priced up to this part of all nodes, but no more often than the
second. What shapes cost lies on many nodes."""

TURNS = 8
"""How often a node is decided anew in residual rounds at most, on average: what bounds their work
in rounds of all sizes."""

IN_VAIN = 16
"""The largest go on until all nodes have had their turn, or so many in a row gained little: each
takes time in proportion to the round, and a large round has many."""

SHAPED, DROP = 2, 8
"""How often they have doubled from the first one on where slots are priced, and once for all nodes
that are so many times theirs: small ones are a drop in large rounds."""


class Turns:
    """The next residual round of a climb.

    Parameters
    ----------
    nodes
        Of the round.
    shapes
        Whether shapes make the gap, and slots are priced.
    grows
        Whether residual rounds become larger where they gain little.

    Attributes
    ----------
    count
        Residual rounds so far.
    ended
        Whether there is no further one.
    """

    def __init__(self, nodes: int, shapes: bool, grows: bool) -> None:
        self._nodes = nodes
        largest = GROWN
        if shapes:
            half = nodes // (HALF * FREE_NODES)
            largest = min(LARGEST, max(GROWN, half.bit_length() - 1))
        self._size = min(largest, (nodes // (DROP * FREE_NODES)).bit_length())
        if shapes:
            self._size = max(self._size, SHAPED)
        self._grown = largest if grows else 0
        self._little = self._unsolved = self._freed = 0
        self.count = 0
        self.ended = False

    @property
    def most(self) -> tuple[int, int]:
        """Jobs and nodes of the next one at most."""
        return FREE_JOBS << self._size, FREE_NODES << self._size

    @property
    def fresh(self) -> bool:
        """Whether the last one gained much, or had another size."""
        return self._little == 0

    def after(self, nodes: int, gain: float, missing: float, solved: bool) -> bool:
        """Note what one gained on so many nodes; whether the next ones are larger.

        Parameters
        ----------
        missing
            Distance from value to bound before it.
        solved
            Whether it had a decision.
        """
        self.count += 1
        self._freed += nodes
        self._unsolved += not solved
        share = min(1.0, PARTS * float(nodes) / self._nodes)
        # One that frees no nodes gains nothing, of which 0 is the share.
        much = gain > 0.0 and gain >= MUCH * share * missing
        self._little = 0 if much else self._little + 1
        largest = self._size >= self._grown
        patience = min(IN_VAIN, max(1, self._nodes // self.most[1])) if largest else 1
        larger = self._little > patience and not largest
        # Two without a decision: side resources of nodes, which none will get right.
        self.ended = (
            self._unsolved > 1
            or self._freed > TURNS * self._nodes
            or (self._little > patience and largest)
        )
        if larger:
            self._little, self._size = 0, self._size + 1
        return larger
