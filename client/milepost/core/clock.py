"""The clock by which the SDK measures leases and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def monotonic() -> float:
    """Return monotonic seconds.

    Where the system can, they pass while the machine is suspended, too, as a lease does.
    """
    return _read()


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_read: Clock = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
