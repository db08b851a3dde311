"""Campaigning: asking for the epoch of a store for as long as the caller wants to wait."""

from __future__ import annotations

import math

from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.effects import Operation, Sleep
from milepost.core.store import StoreOperations
from milepost.errors import EpochHeld
from milepost.types import Epoch

POLL_SECONDS = 20.0  # below the service's limit, so that a leader that vanished is noticed sooner
BETWEEN_SECONDS = 0.2


def campaign(store: StoreOperations, wait: float | None) -> Operation[Epoch]:
    """Wait up to ``wait`` seconds (None: for ever) for the epoch, and let ``store`` act under it.

    A poll whose outcome is unknown is repeated, which is safe: the holder is granted the same epoch again. An outage is
    waited out in the same way as another holder. No attempt begins after the wait (or after the first second, if that
    is longer); from then on only an answer that is still due is waited for, at most as long as one attempt may take.
    Raises `EpochHeld`, or the error that the last poll met; `SessionLost` is raised at once.
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
