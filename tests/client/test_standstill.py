"""Sessions that are lost because nothing of their process could run, over the real service."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import pytest

import milepost
from tests.client.conftest import Service
from tests.client.flavours import Disguised, connected
from tests.client.renewals import wait_for_renewal

TTL = 5
STANDSTILL = 6


@pytest.mark.later
def test_a_call_that_keeps_the_keeper_from_running_is_named_as_the_cause(flavour: str, service: Service) -> None:
    """It begins right after a renewal, while the keeper sleeps: what hits a request is not told from a slow service.

    In the first tier, tests/client/core/test_standstill.py plays this in virtual time.
    """
    reported, reasons = threading.Event(), list[str]()

    def on_lost(_: Any, reason: str) -> None:
        reasons.append(reason)
        reported.set()

    with connected(flavour, service.url) as client, client.session(ttl=TTL, on_lost=on_lost) as session:
        wait_for_renewal(session)
        if isinstance(session, Disguised):
            what = "the event loop"
            session._portal.call(time.sleep, STANDSTILL)
        else:
            what = "this process's Python"
            ctypes.PyDLL(None).sleep(STANDSTILL)  # PyDLL keeps the interpreter's lock during a call
        with pytest.raises(milepost.SessionExpired, match=f"{what}.* stood still .*a ttl of at least"):
            session.raise_if_lost()
        assert session.stood_still > 0
        assert reported.wait(60.0)
        assert "stood still" in reasons[0]
