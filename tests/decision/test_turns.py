"""When residual rounds end: by what they gain, in time that is proportional to the round."""

from __future__ import annotations

from morph_opt.scheduling.decision.params import SubRoundParams
from morph_opt.scheduling.decision.steps.freed import branches_of
from morph_opt.scheduling.decision.steps.turns import Turns
from tests.formulations.worlds.rounds import Candidate, tiny

PARAMS = SubRoundParams()


def in_vain(turns: Turns, freed: tuple[int, ...]) -> int:
    """Residual rounds until there are no more, each with a decision and none with a gain."""
    while not turns.ended:
        turns.after(freed[turns.count % len(freed)], 0.0, 1.0, solved=True)
    return turns.count


def test_a_round_that_frees_no_nodes_gains_little() -> None:
    nodes = 2_000
    alike = in_vain(Turns(nodes, shapes=False, grows=False), (480,))
    assert in_vain(Turns(nodes, shapes=False, grows=False), (480, 0)) == alike


def test_large_rounds_end_after_as_many_in_vain_as_small_ones() -> None:
    counts = [in_vain(Turns(nodes, False, False), (480,)) for nodes in (8_192, 131_072)]
    assert counts == [PARAMS.in_vain + 1] * 2


def test_sub_rounds_grow_to_half_of_all_nodes_with_slot_prices() -> None:
    for nodes, most in ((64, 480), (1_024, 480), (2_048, 960), (8_192, 3_840), (131_072, 3_840)):
        shaped, plain = Turns(nodes, True, True), Turns(nodes, False, True)
        in_vain(shaped, (1,))
        in_vain(plain, (1,))
        assert shaped.most[1] == most
        assert plain.most[1] == 480


def test_sub_rounds_continue_while_gains_are_large() -> None:
    turns = Turns(131_072, shapes=False, grows=False)
    for _ in range(3 * PARAMS.in_vain):
        turns.after(480, 0.1, 1.0, solved=True)
    assert not turns.ended


def test_large_residual_rounds_branch_less() -> None:
    small, large = (tiny([8] * n, [Candidate(0, (1,))] * n) for n in (10, 4_000))
    assert branches_of(small) == PARAMS.branches
    assert branches_of(large) * large.candidates.count <= PARAMS.work
    assert 0 < branches_of(large) < PARAMS.branches
