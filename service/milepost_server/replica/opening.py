"""Opens the backends of a replica, again and again until all of them answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from milepost_backends.contract import BackendError, Misconfigured, StorageUnavailable

log = logging.getLogger("milepost.replica")

_BACKOFF_SECONDS = 0.5
_SETTLING_SECONDS = 15.0
"""How long a backend that was away may refuse a replica before the replica takes that for final. A Kubernetes API
server that has just started, for example, denies everything until it has read the roles.
"""


class Backend(Protocol):
    """What a replica opens before it takes part in the election: its blobs, its pointers and the election."""

    async def open(self) -> None:
        """Open the backend. Idempotent. Raises `BackendError`."""


async def open_backends(*backends: Backend) -> bool:
    """Open all backends; return whether all of them answer. Raises `BackendError` that waiting cannot resolve."""
    try:
        for backend in backends:
            await backend.open()
    except StorageUnavailable as error:
        log.warning("cannot open the backends yet, trying again every %s s: %s", _BACKOFF_SECONDS, error)
        return False
    return True


async def open_at_last(*backends: Backend, clock: Callable[[], float]) -> None:
    """Open backends that did not answer, repeating that until all of them do. ``clock`` is monotonic, in seconds.

    Raises `Misconfigured` if they still refuse this replica `_SETTLING_SECONDS` after they first did.
    """
    refused_since: float | None = None
    while True:
        await asyncio.sleep(_BACKOFF_SECONDS)
        try:
            if await open_backends(*backends):
                log.info("the backends are open now: this replica takes part in the election")
                return
            refused_since = None
        except Misconfigured as error:
            now = clock()
            refused_since = now if refused_since is None else refused_since
            left = refused_since + _SETTLING_SECONDS - now
            if left <= 0:
                raise
            log.warning(
                "a backend that was away refuses this replica, perhaps because it has just started: trying again for "
                "%.0f s, then this process ends: %s",
                left,
                error,
            )
        except BackendError as error:
            refused_since = None
            log.error("cannot open the backends, trying again in %s s: %s", _BACKOFF_SECONDS, error)
