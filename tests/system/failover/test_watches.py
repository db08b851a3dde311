"""Watches of a store and of a job over a few real fail-overs: nothing is missing, doubled or out of order."""

from __future__ import annotations

import pytest

from testbed.replicas import Replicas
from tests.system.watches.trial import play


@pytest.mark.long
@pytest.mark.timeout(900)
def test_watches_hold_what_they_guarantee(replicas: Replicas) -> None:
    outcome = play(replicas, rounds=3, seed=5)
    assert outcome.complaints == [], outcome
    assert outcome.connections > 3, "no watch was resumed"
