"""Sessions that are lost because nothing of their process could run, over the real service."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import inf
from typing import Any

import pytest

import milepost
from tests.client.conftest import Service, eventually
from tests.client.flavours import Disguised, connected

TTL = 5
STANDSTILL = 6


def wait_for_renewal(session: Any) -> None:
    """Wait until the keeper has run."""
    before = inf

    def renewed() -> bool:
        nonlocal before
        assert not session.lost
        last, before = before, float(session.expires_in)
        return before > last

    eventually(renewed)


@pytest.mark.later
def test_a_call_that_keeps_the_interpreters_lock_is_named_as_the_cause(service: Service) -> None:
    """And one that blocks an event loop: both at once, since each takes longer than a TTL.

    In the first tier, tests/client/core/test_standstill.py plays them in virtual time.
    """
    with ExitStack() as ends:
        flavours = ("blocking", "asynchronous")
        clients = [ends.enter_context(connected(flavour, service.url)) for flavour in flavours]
        reports: list[str] = []
        sessions = [
            ends.enter_context(client.session(ttl=TTL, on_lost=lambda _, reason: reports.append(reason)))
            for client in clients
        ]
        for session in sessions:
            wait_for_renewal(session)
        asynchronous = sessions[1]
        assert isinstance(asynchronous, Disguised)
        blocking = ends.enter_context(ThreadPoolExecutor(1))
        blocked = blocking.submit(asynchronous._portal.call, time.sleep, STANDSTILL)
        ctypes.PyDLL(None).sleep(STANDSTILL)  # PyDLL keeps the lock during a call
        blocked.result()
        for session, what in zip(sessions, ("this process's Python", "the event loop"), strict=True):
            with pytest.raises(milepost.SessionExpired, match=f"{what}.* stood still .*a ttl of at least"):
                session.raise_if_lost()
            assert session.stood_still > 0
        eventually(lambda: len(reports) == len(sessions))
        assert all("stood still" in reason for reason in reports)
