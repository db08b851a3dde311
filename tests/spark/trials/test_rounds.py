"""The rounds are what they are said to be: every point, both ways, enough moments, and chains that can be played."""

from __future__ import annotations

from itertools import product

import pytest

from tests.spark.trials.rounds import ANY_MOMENT, CUT, FULL, HOWS, Chain, Round, chains
from tests.spark.under_test.hooks import BATCH, POINTS

SIZES = (1, 12, FULL, 100)


def rounds_of(made: list[Chain]) -> list[Round]:
    return [found for chain in made for found in chain.rounds]


def test_the_full_size_meets_every_point_with_sigkill_and_with_sigstop() -> None:
    met = {(found.point, found.how) for found in rounds_of(chains(FULL))}
    assert met >= set(product(POINTS, ("kill", "freeze")))
    assert FULL >= 40


def test_a_third_are_moments_of_every_kind_for_jobs_with_and_without_state() -> None:
    made = chains(FULL)
    moments = [found for found in rounds_of(made) if found.point == ANY_MOMENT]
    assert len(moments) == FULL // 3
    assert len({found.after for found in moments}) == len(moments)
    for stateless in (True, False):
        chosen = [chain for chain in made if (chain.kind == "stateless") is stateless]
        assert {found.how for found in rounds_of(chosen) if found.point == ANY_MOMENT} == set(HOWS)


@pytest.mark.parametrize("rounds", [0, *SIZES])
def test_the_first_driver_of_a_chain_leaves_something_to_go_on_from(rounds: int) -> None:
    for chain in chains(rounds):
        points = [found.point for found in chain.rounds]
        assert rounds == 0 or points[0] in BATCH, f"{chain} may leave nothing to go on from"


@pytest.mark.parametrize("rounds", SIZES)
def test_the_same_number_gives_the_same_rounds_and_so_many(rounds: int) -> None:
    made = chains(rounds)
    assert len(rounds_of(made)) == rounds
    assert made == chains(rounds)
    assert len({str(chain) for chain in made}) == len(made), "each job has a name of its own"


def test_the_cut_kills_after_publication_and_freezes_before_it() -> None:
    """After publication: the next driver has to evaluate the batch for its state, and must not publish it."""
    met = {(chain.kind == "stateless", found.how, found.point) for chain in CUT for found in chain.rounds}
    assert {(False, "kill", "after publication"), (False, "freeze", "before publication")} <= met
    assert len(rounds_of(list(CUT))) == 3
