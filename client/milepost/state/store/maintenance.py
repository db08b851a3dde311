"""Maintains the state stores of this process at regular intervals, in one daemon thread."""

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
    """The method of a state store provider that `Maintenance` calls at regular intervals."""

    def do_maintenance(self) -> None:
        """Make a snapshot of the state store if one is due, and remove files that are not needed."""


class Maintenance:
    """A daemon thread that maintains all added objects that the program still references. The thread ends when no such
    object is left.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Reset this object: no objects to maintain, a new lock, and no thread."""
        self._changed = threading.Condition()
        self._due: weakref.WeakKeyDictionary[Maintained, tuple[float, float]] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None

    def add(self, one: Maintained, interval: float) -> None:
        """Call ``do_maintenance`` of this object every ``interval`` seconds until it is removed, or is no longer
        referenced.
        """
        with self._changed:
            self._due[one] = (time.monotonic() + interval, interval)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="milepost-state-maintenance", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, one: Maintained) -> None:
        """Stop maintaining this object. A maintenance run that has begun is completed."""
        with self._changed:
            self._due.pop(one, None)
            self._changed.notify()

    def after_fork(self) -> None:
        """Reset this object in a forked process. That process has no maintenance thread, and a thread of the parent may
        have held the inherited lock at the fork.
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
