"""Campaigning: asking for the epoch of a store for as long as the caller wants to wait."""

from __future__ import annotations

import math

from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.effects import Operation, Sleep
from milepost.core.store import StoreOperations
from milepost.errors import EpochHeld
from milepost.types import Epoch

POLL_SECONDS = 20.0  # less than the service's limit, so that the client notices sooner that a leader is gone
BETWEEN_SECONDS = 0.2


def campaign(store: StoreOperations, wait: float | None) -> Operation[Epoch]:
    """Wait up to ``wait`` seconds (None: for ever) for the epoch, and let ``store`` act under it.

    The campaign asks the service again and again, each time for at most `POLL_SECONDS`. A repeated request is safe even
    if the outcome of the last one is unknown: a session that already holds the epoch is granted the same epoch again.
    Neither another holder nor an outage ends the wait. After ``wait`` seconds (at least one) the campaign sends no more
    requests; it waits for the last answer as long as one attempt may take. Then it raises `EpochHeld`, or the error of
    the last request. It raises `SessionLost` at once.
    """
    clock = store.caller.clock
    deadline = math.inf if wait is None else clock() + wait
    while True:
        left = max(0.0, deadline - clock())
        try:
            epoch = yield from store.poll_epoch(min(POLL_SECONDS, left), left)
        except (EpochHeld, *OUTAGES_OR_DOUBT):
            if clock() + BETWEEN_SECONDS >= deadline:
                raise
            yield Sleep(BETWEEN_SECONDS)
        else:
            store.epoch = epoch.epoch
            return epoch
