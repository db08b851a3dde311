"""Each guard around uploads is needed, as those of `test_guards` are."""

from __future__ import annotations

import pytest

from tests.simulation.checks.invariants import Invariant
from tests.simulation.checks.missing import Scene, assert_missed
from tests.simulation.guards import guards_of_uploads as guards
from tests.simulation.guards import scenes_of_uploads as scenes
from tests.simulation.guards.guards import TakeOut

ONCE, KEPT, THERE = Invariant.UPLOAD_ONCE, Invariant.UPLOAD_KEPT, Invariant.BLOB_THERE

TAKEN_OUT: list[tuple[TakeOut, Scene, set[Invariant]]] = [
    (guards.upload_ends_with_the_commit, scenes.busy, {ONCE}),
    (guards.bytes_are_looked_at, scenes.busy, {THERE}),
    (guards.bytes_are_looked_through, scenes.busy, {THERE}),
    (guards.upload_outlives_attempts, scenes.busy, {KEPT}),
    (guards.end_is_committed_first, scenes.slow, {KEPT, THERE}),
    (guards.uploads_name_their_bytes, scenes.under_dying_leaders, {KEPT}),
    (guards.uploads_get_their_full_time_again, scenes.under_dying_leaders, {Invariant.FULL_TTL}),
]


@pytest.mark.parametrize(("take_out", "scene", "breaks"), TAKEN_OUT, ids=[entry[0].__name__ for entry in TAKEN_OUT])
def test_without_the_guard_an_invariant_breaks(
    take_out: TakeOut, scene: Scene, breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_missed(take_out, scene, breaks, monkeypatch)
