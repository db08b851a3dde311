"""Moments at which the keeper of a session sleeps."""

from __future__ import annotations

from math import inf
from typing import Any

from tests.client.conftest import eventually


def wait_for_renewal(session: Any) -> None:
    """Wait until the session was renewed; the keeper sleeps for a third of its TTL then."""
    before = inf

    def renewed() -> bool:
        nonlocal before
        assert not session.lost
        last, before = before, float(session.expires_in)
        return before > last

    eventually(renewed)
