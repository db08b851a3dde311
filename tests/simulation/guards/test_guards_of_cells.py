"""Each guard around jobs that are moved among cells is needed, as those of `test_guards` are."""

from __future__ import annotations

import pytest

from tests.simulation.checks.invariants import Invariant
from tests.simulation.checks.missing import Scene, assert_missed
from tests.simulation.guards import guards_of_cells as guards
from tests.simulation.guards import scenes_of_cells as scenes
from tests.simulation.guards.guards import TakeOut

WHOLE, IN_ONE = Invariant.MOVED_WHOLE, Invariant.IN_ONE_CELL

TAKEN_OUT: list[tuple[TakeOut, Scene, set[Invariant]]] = [
    (guards.frozen_while_it_is_copied, scenes.busy, {WHOLE}),
    (guards.arrival_above_each_epoch, scenes.contested, {WHOLE, IN_ONE}),
    (guards.finish_needs_the_seal, scenes.delayed, {WHOLE, IN_ONE}),
    (guards.silent_cells_are_waited_for, scenes.growing, {Invariant.BEGUN_ONCE}),
    (guards.revision_is_raised, scenes.busy, {Invariant.VERSION_REUSED}),
]


@pytest.mark.parametrize(("take_out", "scene", "breaks"), TAKEN_OUT, ids=[entry[0].__name__ for entry in TAKEN_OUT])
def test_without_the_guard_an_invariant_breaks(
    take_out: TakeOut, scene: Scene, breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_missed(take_out, scene, breaks, monkeypatch)
