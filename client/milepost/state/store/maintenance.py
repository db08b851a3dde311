"""Maintains the stores of this process at regular intervals, in one thread that ends with the process."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import Protocol

from milepost.state.errors import StateError

log = logging.getLogger(__name__)


class Maintained(Protocol):
    """An object that needs maintenance."""

    def do_maintenance(self) -> None:
        """Make a snapshot if one is due, and clean up."""


class Maintenance:
    """One thread that maintains all added objects that are still in use. It ends when none is left, and with the
    process.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Reset to nothing to maintain, an unlocked lock, and no thread."""
        self._changed = threading.Condition()
        self._due: weakref.WeakKeyDictionary[Maintained, tuple[float, float]] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None

    def add(self, one: Maintained, interval: float) -> None:
        """Maintain this object every ``interval`` seconds until it is removed, or is no longer referenced."""
        with self._changed:
            self._due[one] = (time.monotonic() + interval, interval)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="milepost-state-maintenance", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, one: Maintained) -> None:
        """Stop maintaining this object. A run that has begun continues."""
        with self._changed:
            self._due.pop(one, None)
            self._changed.notify()

    def after_fork(self) -> None:
        """Reset in a forked process, which inherits the providers, but neither the thread nor the holder of the
        lock.
        """
        self._begin()

    def _run(self) -> None:
        while (one := self._next()) is not None:
            try:
                one.do_maintenance()
            except StateError as error:
                log.warning("maintenance of %r failed, and will be tried again: %s", one, error)
            except Exception:  # an error in one object must not end the maintenance of the others
                log.exception("maintenance of %r failed as it never should, and will be tried again", one)
            del one

    def _next(self) -> Maintained | None:
        """Wait until an object is due, and return it; return None, which ends the thread, if none is left."""
        with self._changed:
            while True:
                due = min(((when, id(one), one) for one, (when, _) in self._due.items()), default=None)
                if due is None:
                    self._thread = None
                    return None
                when, _, one = due
                now = time.monotonic()
                if when <= now:
                    self._due[one] = (now + self._due[one][1], self._due[one][1])
                    return one
                del one, due
                self._changed.wait(when - now)


MAINTENANCE = Maintenance()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=MAINTENANCE.after_fork)
