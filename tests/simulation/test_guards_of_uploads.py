"""Each guard around uploads is needed, as those of `test_guards` are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import guards_of_uploads as guards
from tests.simulation import scenes_of_uploads as scenes
from tests.simulation.episode import run
from tests.simulation.guards import TakeOut
from tests.simulation.invariants import Invariant
from tests.simulation.plan import Plan

EPISODES = 25
ONCE, KEPT, THERE = Invariant.UPLOAD_ONCE, Invariant.UPLOAD_KEPT, Invariant.BLOB_THERE

TAKEN_OUT: list[tuple[TakeOut, Callable[[int], Plan], set[Invariant]]] = [
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
    take_out: TakeOut, scene: Callable[[int], Plan], breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        take_out(patch)
        reports = (run(scene(seed)) for seed in range(EPISODES))
        broken = next((report for report in reports if report.violation is not None), None)
    assert broken is not None, "the guard is not missed: either it guards nothing, or the scene does not need it"
    assert broken.violation is not None
    assert broken.violation.invariant in breaks, f"{broken.trace}\nseed {broken.seed}: {broken.violation}"
    whole = run(scene(broken.seed))
    assert whole.violation is None, f"{whole.trace}\nseed {whole.seed}: {whole.violation}"
