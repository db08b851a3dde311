"""Removes handles that no retained checkpoint names, in the background."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from milepost.errors import MilepostError
from milepost.spark.store import HandleStore

_log = logging.getLogger(__name__)


class Removals:
    """Removes one handle after the other in a thread of its own.

    A handle that cannot be removed now (another session holds it, or the service is unavailable) is left: each driver
    sweeps when it starts.
    """

    def __init__(self, store: HandleStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="milepost-removals")

    def remove(self, names: Iterable[str]) -> None:
        """Remove these handles later."""
        for name in sorted(names):
            self._thread.submit(self._remove, name)

    def sweep(self, prefix: str, keep: set[str]) -> None:
        """Remove every handle whose name begins with ``prefix`` and is not in ``keep``.

        Call this only under the epoch.
        """
        names = [handle.name for handle in self._store.get_all_handles()]
        self.remove(name for name in names if name.startswith(prefix) and name not in keep)

    def close(self) -> None:
        """Begin no further removal, and wait for the one in progress."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _remove(self, name: str) -> None:
        try:
            removal = self._store.release_and_try_remove(name)
        except MilepostError as error:
            _log.info("handle %s could not be removed, leaving it to the next driver: %s", name, error)
            return
        if not removal.removed:
            _log.info(
                "handle %s could not be removed, leaving it to the next driver: held by sessions %s",
                name,
                ", ".join(removal.locks),
            )
