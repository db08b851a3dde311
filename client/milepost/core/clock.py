"""The clock of leases and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def monotonic() -> float:
    """Monotonic seconds. Where the system can, they also pass while the machine is suspended, as a lease does."""
    return _read()


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_read: Clock = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
