"""The simulator's cut: what `make simulate` does at twenty times the size."""

from __future__ import annotations

import pytest

from tests.simulation.episode import run
from tests.simulation.plan import draw
from tests.simulation.runner import simulate

REQUESTS = 50_000


@pytest.mark.timeout(900)
def test_no_invariant_is_broken_in_fifty_thousand_requests() -> None:
    summary = simulate(REQUESTS, seed=0, jobs=2)
    assert not summary.broken, "\n".join(
        f"{report.trace}\nseed {report.seed}: {report.violation}" for report in summary.broken
    )
    assert summary.tally["requests"] >= REQUESTS
    for trouble in ("take-overs", "terms burnt", "pauses", "kills", "unknown"):
        assert summary.tally[trouble] > 0, f"nothing of this was in it: {trouble}"


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_replays_exactly(seed: int) -> None:
    first, second = (run(draw(seed, 600)) for _ in range(2))
    assert first.digest == second.digest
    assert first.tally == second.tally
    assert first.seconds == second.seconds


def test_another_seed_is_another_story() -> None:
    assert run(draw(3, 300)).digest != run(draw(4, 300)).digest
