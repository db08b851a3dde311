"""The clock by which the SDK measures leases and deadlines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

Clock = Callable[[], float]


def monotonic() -> float:
    """Return monotonic seconds.

    Where the system allows it, this clock also runs while the machine is suspended, as the service's leases do.
    """
    return _read()


_read: Clock = time.monotonic
if sys.platform == "linux":
    _read = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
