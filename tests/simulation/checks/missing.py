"""What shows that a guard is needed: without it an invariant breaks, and with it, in the same episode, none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.checks.invariants import Invariant
from tests.simulation.episode import run
from tests.simulation.guards.guards import TakeOut
from tests.simulation.plan import Plan

EPISODES = 40
"""At most; the rarest breach shows in about one episode out of five."""

Scene = Callable[[int], Plan]


def assert_missed(take_out: TakeOut, scene: Scene, breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guard one of ``breaks`` shows in the scene; with it, in the very same episode, nothing does."""
    with monkeypatch.context() as patch:
        take_out(patch)
        reports = (run(scene(seed)) for seed in range(EPISODES))
        broken = next((report for report in reports if report.violation is not None), None)
    assert broken is not None, "the guard is not missed: either it guards nothing, or the scene does not need it"
    assert broken.violation is not None
    assert broken.violation.invariant in breaks, f"{broken.trace}\nseed {broken.seed}: {broken.violation}"
    whole = run(scene(broken.seed))
    assert whole.violation is None, f"{whole.trace}\nseed {whole.seed}: {whole.violation}"
