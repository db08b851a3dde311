"""Each guard around trees is needed, as those of `test_guards` are."""

from __future__ import annotations

import pytest

from tests.simulation.checks.invariants import Invariant
from tests.simulation.checks.missing import Scene, assert_missed
from tests.simulation.episode import run
from tests.simulation.guards import guards_of_trees as guards
from tests.simulation.guards import scenes_of_trees as scenes
from tests.simulation.guards.guards import TakeOut

STALE, THERE, KEPT = Invariant.STALE_EPOCH, Invariant.BLOB_THERE, Invariant.FILE_KEPT

TAKEN_OUT: list[tuple[TakeOut, Scene, set[Invariant]]] = [
    (guards.epoch_at_publication, scenes.slow_bytes, {STALE}),
    (guards.fence_in_the_grant, scenes.busy, {STALE}),
    (guards.rename_refuses_atomically, scenes.slow, {Invariant.RENAMED_ONCE}),
    (guards.cuts_keep_blobs, scenes.busy, {THERE}),
    (guards.cuts_keep_entries, scenes.busy, {Invariant.CUT_SHOWS}),
    (guards.tombstones_over_manifests, scenes.compacted, {KEPT}),
    (guards.nothing_goes_while_compacting, scenes.compacting, {KEPT, THERE}),
    (guards.only_the_same_is_dropped, scenes.compacting, {KEPT}),
    (guards.newest_put_stands, scenes.impatient, {Invariant.ONCE, Invariant.TRUTHFUL_NO}),
]


@pytest.mark.parametrize(("take_out", "scene", "breaks"), TAKEN_OUT, ids=[entry[0].__name__ for entry in TAKEN_OUT])
def test_without_the_guard_an_invariant_breaks(
    take_out: TakeOut, scene: Scene, breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_missed(take_out, scene, breaks, monkeypatch)


def test_trees_live_through_dying_leaders_and_lost_answers() -> None:
    """And in that what the guards are for happens: renames, cuts, manifests, and answers that are lost."""
    report = run(scenes.under_dying_leaders(1))
    assert report.violation is None, f"{report.trace}\n{report.violation}"
    for much in ("take-overs", "kills", "renames", "files in one request", "cuts of trees", "manifests", "unknown"):
        assert report.tally[much] > 1, f"too little of this was in it: {much}"
