"""What was done to the watched store, and what of it was acknowledged: only that may be counted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from milepost.errors import MilepostError

T = TypeVar("T")
Act = tuple[str, str]
"""What was done, in the word of its event, and which: the version of a handle, an epoch, a batch, a savepoint."""


@dataclass
class Account:
    """The acts of all writers. An act that ended with an error may have been applied or not, so it is counted in
    ``unknown`` by its kind alone: its version, for one, is not known.
    """

    acknowledged: list[Act] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    errors: list[MilepostError] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def did(self, kind: str, call: Callable[[], T], which: Callable[[T], object]) -> T:
        """Make a call that does one act, and enter it. Raises what the call raises."""
        try:
            result = call()
        except MilepostError as error:
            with self._lock:
                self.unknown.append(kind)
                self.errors.append(error)
            raise
        with self._lock:
            self.acknowledged.append((kind, str(which(result))))
        return result
