"""Sizes and number of residual rounds, decided by counts and never by the clock.

Record 0020 of ``docs/decisions`` has the measurements; `SubRoundParams` has the numbers.
"""

from __future__ import annotations

from morph_opt.scheduling.decision.params import DEFAULTS, SubRoundParams


class Turns:
    """Size of the next residual round of a climb, and whether there is one.

    A residual round of size s frees up to ``jobs * 2**s`` jobs on ``nodes * 2**s`` nodes. The size
    starts at `_first` and doubles after two small gains in a row, up to `_largest`. At the largest
    size the climb ends after ``in_vain`` small gains in a row, or after as many as it takes to free
    every node once, if that is less.

    Termination: the freed nodes add up to ``turns`` times all nodes at most, and a residual round
    that frees no node has a small gain, of which there are finitely many in a row.

    Parameters
    ----------
    nodes
        Number of nodes of the round.
    shapes
        Whether shapes make the gap, so that slots are priced.
    grows
        Whether residual rounds double after small gains.
    params
        Sizes and counts.

    Attributes
    ----------
    count
        Number of residual rounds so far.
    ended
        Whether there is no further one.
    """

    def __init__(
        self, nodes: int, shapes: bool, grows: bool, params: SubRoundParams = DEFAULTS.sub
    ) -> None:
        self._nodes, self._params = nodes, params
        largest = params.doublings
        if shapes:
            share = nodes // (params.share_shaped * params.nodes)
            largest = min(params.doublings_shaped, max(largest, share.bit_length() - 1))
        self._size = min(largest, (nodes // (params.first_nodes * params.nodes)).bit_length())
        if shapes:
            self._size = max(self._size, params.first_shaped)
        self._largest = largest if grows else 0
        self._little = self._unsolved = self._freed = 0
        self.count = 0
        self.ended = False

    @property
    def most(self) -> tuple[int, int]:
        """Jobs and nodes of the next residual round, at most."""
        return self._params.jobs << self._size, self._params.nodes << self._size

    @property
    def fresh(self) -> bool:
        """Whether the last residual round gained much or had another size."""
        return self._little == 0

    def after(self, nodes: int, gain: float, missing: float, solved: bool) -> bool:
        """Note the gain of a residual round; return whether the next ones are larger.

        A gain is small below ``much * missing * min(1, parts * nodes / all nodes)``: a residual
        round that frees a share of the nodes should close about that share of the gap. For example,
        with 60 of 600 nodes freed and 10 missing, a gain is small below 0.1 * 10 * 0.4 = 0.4.

        Parameters
        ----------
        nodes
            Number of nodes that it freed.
        gain
            Increase of the value.
        missing
            Distance from value to bound before it.
        solved
            Whether it had a decision.
        """
        params = self._params
        self.count += 1
        self._freed += nodes
        self._unsolved += not solved
        share = min(1.0, params.parts * float(nodes) / self._nodes)
        # Without a freed node the share is 0, and no gain at all would not be below it.
        much = gain > 0.0 and gain >= params.much * share * missing
        self._little = 0 if much else self._little + 1
        largest = self._size >= self._largest
        patience = min(params.in_vain, max(1, self._nodes // self.most[1])) if largest else 1
        larger = self._little > patience and not largest
        # The climb ends if (1) two residual rounds had no decision, as side resources of nodes make
        # all of them fail, (2) nodes had their turns on average, or (3) the largest gained little.
        self.ended = (
            self._unsolved > 1
            or self._freed > params.turns * self._nodes
            or (self._little > patience and largest)
        )
        if larger:
            self._little, self._size = 0, self._size + 1
        return larger
