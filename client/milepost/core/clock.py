"""The clock by which the SDK measures leases and deadlines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

Clock = Callable[[], float]


def monotonic() -> float:
    """Return monotonic seconds.

    Where the system can, they pass while the machine is suspended, too, as a lease does.
    """
    return _read()


_read: Clock = time.monotonic
if sys.platform == "linux":
    _read = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
